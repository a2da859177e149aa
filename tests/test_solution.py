"""The result: summary, picture, and a file that is whole or not there."""

from pathlib import Path

import numpy as np
import pytest

import cases
import fastldp as fl
from fastldp import figures
from fastldp.errors import FileFormatError


@pytest.fixture(scope="module")
def run() -> fl.Solution:
    problem = cases.make("box_l1", sizes=(5, 12, 30)).problem
    return fl.solve(
        problem,
        fl.Budget(1.0, 1e-4),
        rounds=300,
        repetitions=3,
        seed=1,
        record=[fl.Messages(0), fl.Every(10)],
    )


def test_shapes(run: fl.Solution) -> None:
    assert run.x.shape == (3, 9)
    assert run.workers.shape == (3, 3, 9)
    for values in (run.optimality, run.consensus, run.distance, run.objective):
        assert values.shape == (3, 30)
    assert run.messages is not None
    assert run.messages.shape == (3, 300, 9)
    assert run.seconds > 0
    np.testing.assert_array_equal(run.optimality, run.consensus + run.distance)


def test_summary_is_aligned_and_says_what_matters(run: fl.Solution) -> None:
    lines = run.summary().splitlines()
    table = [line for line in lines if line.startswith("  ") and line.split()[0].replace(",", "").isdigit()]
    assert len(table) == 8
    assert {len(line) for line in table} == {len(lines[3])}
    text = run.summary()
    for words in (
        "(1, 0.0001)-LDP",
        "replace one sample",
        "zcdp",
        "read off data",
        "completed 300 rounds",
    ):
        assert words in text
    unprotected = fl.solve(cases.make("box").problem, rounds=3)
    assert "not private" in unprotected.summary()


def test_picture(run: fl.Solution, tmp_path: Path) -> None:
    axes = run.plot()
    figures.save(axes, tmp_path / "error.png")
    assert (tmp_path / "error.png").read_bytes().startswith(b"\x89PNG")
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata(), dtype=float), run.optimality.mean(axis=0))
    assert run.plot(axes) is axes


def test_a_missing_matplotlib_names_the_extra(run: fl.Solution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(fl.errors.MissingExtraError, match=r"pip install 'fastldp\[plot\]'"):
        figures.plot_solution(run)


@pytest.mark.parametrize("private", [True, False])
def test_save_and_load(run: fl.Solution, private: bool, tmp_path: Path) -> None:
    saved = run if private else fl.solve(cases.make("box").problem, rounds=3)
    saved.save(tmp_path / "run.npz")
    loaded = fl.load(tmp_path / "run.npz")
    for name in ("x", "workers", "rounds", "optimality", "consensus", "distance", "objective", "means"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
    assert loaded.summary() == saved.summary()
    assert loaded.seed == saved.seed
    assert loaded.status == saved.status
    if private:
        assert loaded.messages is not None
        assert saved.messages is not None
        assert loaded.ledger is not None
        assert saved.ledger is not None
        np.testing.assert_array_equal(loaded.messages, saved.messages)
        np.testing.assert_array_equal(loaded.ledger.variances, saved.ledger.variances)
        assert loaded.ledger.spent_epsilon == pytest.approx(saved.ledger.spent_epsilon)
    else:
        assert loaded.ledger is None
        assert loaded.messages is None
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_failed_save_leaves_the_old_file_alone(
    run: fl.Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.npz"
    run.save(path)
    before = path.read_bytes()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="No space"):
        run.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_files_that_are_not_ours(run: fl.Solution, tmp_path: Path) -> None:
    run.save(tmp_path / "run.npz")
    whole = (tmp_path / "run.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.npz").write_text("not an archive")
    np.savez(tmp_path / "other.npz", values=np.ones(3))
    for name in ("cut.npz", "text.npz", "other.npz"):
        with pytest.raises(FileFormatError, match=name):
            fl.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        fl.load(tmp_path / "missing.npz")
