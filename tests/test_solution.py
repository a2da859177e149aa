"""The result: summary, picture, and a file that is whole or not there."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import cases
import fastldp as fl
import fuzzed_files
from fastldp import figures
from fastldp.errors import ArgumentError, FileFormatError


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
    run.plot(axes, label="again")
    named = ["optimality (mean ± std)", "distance to the optimum", "consensus error"]
    names = [*named, *(f"run 2: {name}" for name in named), *(f"again: {name}" for name in named)]
    assert figures.names_on(axes) == names
    assert [line.get_color() for line in axes.lines] == [f"C{k}" for k in range(9)]
    run.plot(axes)
    assert figures.names_on(axes)[-1] == "run 3: consensus error"


def test_a_missing_matplotlib_names_the_extra(run: fl.Solution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(fl.errors.MissingExtraError, match=r"pip install 'fastldp\[plot\]'"):
        figures.plot_solution(run)


@pytest.mark.parametrize("private", [True, False])
def test_save_and_load(run: fl.Solution, private: bool, tmp_path: Path) -> None:
    saved = run if private else fl.solve(cases.make("box").problem, rounds=3)
    saved.save(tmp_path / "run.npz", keep_seed=True)
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


def test_a_saved_solution_is_on_the_disk(run: fl.Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content before it gets its name, the name before the call returns."""
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def replaced(*paths: str) -> None:
        calls.append("rename")
        replace(*paths)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    run.save(tmp_path / "run.npz")
    assert calls == ["file", "rename", "folder"]


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX modes")
@pytest.mark.parametrize(("umask", "shared"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_with_a_seed_is_its_owners_alone(run: fl.Solution, umask: int, shared: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        for keep, mode in ((True, 0o600), (False, shared), (True, 0o600)):
            run.save(tmp_path / "run.npz", keep_seed=keep)
            assert stat.S_IMODE((tmp_path / "run.npz").stat().st_mode) == mode
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name != "posix", reason="needs symbolic links")
@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed(run: fl.Solution, there: bool, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    target, link = tmp_path / "results" / "run.npz", tmp_path / "latest"
    if there:
        target.write_text("an older file")
    link.symlink_to(Path("results") / "run.npz")
    run.save(link, keep_seed=True)
    assert link.is_symlink()
    assert not target.is_symlink()
    assert fl.load(target).seed == fl.load(link).seed == run.seed
    assert [path.name for path in target.parent.iterdir()] == ["run.npz"]
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(ArgumentError, match="circle.*leads to itself"):
        run.save(tmp_path / "circle")


def test_places_that_cannot_be_written_to(run: fl.Solution, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"there is no folder .*new; make it"):
        run.save(tmp_path / "new" / "run.npz")
    with pytest.raises(ArgumentError, match="a folder; give the name of a file in it"):
        run.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_of_the_former_format(run: fl.Solution, tmp_path: Path) -> None:
    """They have no digest, and are read; a new one that lost its digest is not taken for an old one."""
    path = tmp_path / "run.npz"
    run.save(path, keep_seed=True)
    members = fuzzed_files.members_of(path.read_bytes())
    del members["digest.npy"]
    path.write_bytes(fuzzed_files.archive(members))
    with pytest.raises(FileFormatError, match="'fastldp solution 2', without a digest"):
        fl.load(path)
    arrays = dict(np.load(path))
    arrays["header"] = np.array(str(arrays["header"]).replace("solution 2", "solution 1"))
    np.savez_compressed(path, **arrays)
    assert fuzzed_files.everything(fl.load(path)) == fuzzed_files.everything(run)
    np.savez_compressed(path, **arrays | {"means": arrays["means"][:, :-1]})
    with pytest.raises(FileFormatError, match="'means' is float64 of shape"):
        fl.load(path)
    np.savez_compressed(path, **arrays, digest=np.array("0" * 64))
    with pytest.raises(FileFormatError, match="'fastldp solution 1', with a digest"):
        fl.load(path)


def test_another_number_with_right_checksums_of_zip(run: fl.Solution, tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    run.save(path)
    arrays = dict(np.load(path))
    arrays["consensus"][0, 0] *= 2
    np.savez_compressed(path, **arrays)
    with pytest.raises(FileFormatError, match=r"run\.npz: .*another digest.*; restore it from a copy, or solve again"):
        fl.load(path)


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


def test_a_summary_computes_only_the_objectives_that_it_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """And lets BLAS have one thread: waiting for others takes longer than products of this size."""
    problem = cases.make("box_l1").problem
    points: list[np.ndarray] = []
    threads: list[int] = []

    def counted(self: fl.Problem, x: np.ndarray) -> float:
        points.append(x)
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return 1.0

    monkeypatch.setattr(fl.Problem, "objective", counted)
    run = fl.solve(problem, rounds=100, repetitions=3)
    assert run.rounds.size == 100
    rows = [line for line in run.summary().splitlines() if line.endswith("  1")]
    assert len(rows) == 8
    assert len(points) == 3 * 8
    assert set(threads) == {1}
    assert run.objective.shape == (3, 100)
    assert len(points) == 3 * (8 + 100)
    run.summary()
    assert len(points) == 3 * (8 + 100)


def test_what_a_prompt_shows_is_short(run: fl.Solution) -> None:
    assert repr(run) == (
        "Solution(completed at round 300, 3 × 3 workers × 9 numbers, Ledger((1, 0.0001)-LDP by zcdp, 300 releases a "
        "worker; summary() says all); summary() says more)"
    )
    assert "not private" in repr(fl.solve(cases.make("box").problem, rounds=3))


def test_what_a_notebook_shows_has_the_numbers_of_the_summary(run: fl.Solution) -> None:
    """Escaped, and without what takes long to compute."""
    shown = run._repr_html_()
    table = [line.split() for line in run.summary().splitlines() if line.startswith("        ")]
    for cell in table[-1]:
        assert f"<td>{cell}</td>" in shown
    assert run.ledger is not None
    assert run.ledger._repr_html_() in shown
    assert "(1, 0.0001)-LDP" in shown
    assert shown.count("<table>") == shown.count("</table>") == 2
    run_of_text = fl.solve(cases.make("box").problem, rounds=3)
    run_of_text.description = "<script>"
    assert "<script>" not in run_of_text._repr_html_()
    assert "not private" in run_of_text._repr_html_()


def test_a_notebook_does_not_wait_for_the_measures_of_a_network() -> None:
    images = np.random.default_rng(0).random((20, 4))
    network = fl.MLP(images, np.arange(20) % 2, hidden=2, workers=2, clip=1.0)
    run = fl.solve(network, rounds=3, algorithm=fl.PrimalDual(step=0.1))
    assert "train_loss</th>" not in run._repr_html_()
    assert "summary() computes objective, train_loss" in run._repr_html_()
    run.summary()
    _ = run.measures["train_loss"]
    assert "train_loss</th>" in run._repr_html_()
