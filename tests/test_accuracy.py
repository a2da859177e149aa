"""Accuracy on test data: what it is, where it is written, that no run depends on it, and bad input."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy import sparse

import fastldp as fl
import sweeps
from fastldp.cli import main
from fastldp.datasets.testing import read_test_file
from fastldp.errors import ArgumentError, SpecError
from fastldp.measures import Measures
from fastldp.sweeping import layout, spec

BUDGET = fl.Budget(epsilon=4.0, delta=1e-3)
A, B = sweeps.matrix()
OTHERS = A[::-1][:17] + 0.25
LABELS = np.where(np.arange(17) % 3 > 0, 1.0, -1.0)
HALF = {"tiny": sweeps.matrix(), "tested": (*sweeps.matrix(), OTHERS, LABELS)}


def make(**options: Any) -> fl.Problem:
    return fl.Problem(A, B, workers=4, l2=0.1, **options)


def naive_accuracy(rows: Any, labels: Any, x: Any) -> float:
    """Row by row; what is on the boundary is wrong."""
    dense = rows.toarray() if sparse.issparse(rows) else rows
    right = [b * sum(a * c for a, c in zip(row, x, strict=True)) > 0 for row, b in zip(dense, labels, strict=True)]
    return float(sum(right) / len(right))


@pytest.mark.parametrize("loss", ["logistic", fl.SmoothedHinge(0.5)])
@pytest.mark.parametrize("layout_", [np.asarray, sparse.csr_array, sparse.coo_array])
def test_accuracy_is_the_share_of_right_signs(loss: Any, layout_: Any) -> None:
    problem = make(loss=loss, test=(layout_(OTHERS), LABELS), row_bound=0.5)
    for x in (np.linspace(-1, 1, 5), np.zeros(5), -np.ones(5)):
        expected = naive_accuracy(OTHERS, LABELS, x)
        assert problem.accuracy(x) == expected == make().accuracy(x, layout_(OTHERS), LABELS)
        # Its direction counts, its length does not.
        assert problem.accuracy(2.0**-30 * x) == problem.measure(x)["accuracy"] == expected
    assert problem.accuracy(np.zeros(5)) == 0.0
    assert problem.majority == (LABELS > 0).mean()


def test_the_callers_arrays_may_change_afterwards() -> None:
    rows, labels = OTHERS.copy(), LABELS.copy()
    problem = make(test=(rows, labels))
    x = np.linspace(-1, 1, 5)
    before = problem.accuracy(x)
    rows *= -1
    labels *= 0
    assert problem.accuracy(x) == before == problem.replace(l2=0.3).accuracy(x)


@pytest.mark.parametrize(
    ("test", "options", "message"),
    [
        (OTHERS, {}, r"^test = .*give \(A, b\)"),
        ((OTHERS[:, :3], LABELS), {}, r"^test = \(17, 3\): A has 5 columns"),
        ((OTHERS, LABELS[1:]), {}, "^test = '16 labels': its A has 17 rows"),
        ((OTHERS, (LABELS + 1) / 2), {}, r"^test = array\(\[0., 1.\]\): .* labels −1 and \+1; give 2 \* b - 1"),
        ((OTHERS, 3 * LABELS), {}, "^test = .*needs labels −1 and"),
        ((np.where(OTHERS > 0.8, np.nan, OTHERS), LABELS), {}, "^test = .*NaN or infinite entries, the first at"),
        ((OTHERS, np.where(LABELS > 0, np.nan, 1.0)), {}, "^test = .*NaN or infinite labels"),
        ((OTHERS[:0], LABELS[:0]), {}, r"^test = \(0, 5\): it has no rows"),
        ((sparse.csr_array(OTHERS[:0]), LABELS[:0]), {}, r"^test = \(0, 5\): it has no rows"),
        ((OTHERS, LABELS), {"loss": "squared"}, "^test = .*squared loss fits numbers, which have no accuracy; leave"),
        ((OTHERS, LABELS), {"loss": fl.Huber(1.0)}, "^test = .*no accuracy"),
    ],
)
def test_bad_test_data_are_refused(test: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        make(test=test, **options)
    assert caught.value.argument == "test"


def test_without_test_data_nothing_is_measured() -> None:
    assert make().measures == ("objective",)
    run = fl.solve(make(), BUDGET, rounds=3, seed=1)
    for ask in (lambda: run.accuracy, lambda: make().accuracy(np.zeros(5)), lambda: make().majority):
        with pytest.raises(ArgumentError, match=r"^test = None: .*test=\(A, b\)"):
            ask()
    assert "accuracy" not in run.summary()


@pytest.mark.parametrize("repetitions", [1, 3])
def test_no_run_depends_on_test_data(repetitions: int) -> None:
    with_test, without = (
        fl.solve(make(**options), BUDGET, rounds=9, repetitions=repetitions, seed=2)
        for options in ({"test": (OTHERS, LABELS)}, {})
    )
    for name in ("workers", "means", "consensus", "distance", "objective"):
        np.testing.assert_array_equal(getattr(with_test, name), getattr(without, name))
    tested = make(test=(OTHERS, LABELS))
    assert tested.fingerprint == make().fingerprint
    assert tested.definition == make().definition
    others = make(test=(OTHERS, -LABELS))
    assert len({one.tested_fingerprint for one in (tested, others, make())}) == 3


def test_no_run_of_a_network_depends_on_test_images_but_for_its_key() -> None:
    images, labels = np.random.default_rng(0).random((24, 4)), np.arange(24) % 2
    runs = [
        fl.solve(
            fl.MLP(images, labels, hidden=2, workers=2, clip=1.0, test=test),
            BUDGET,
            rounds=4,
            algorithm=fl.PrimalDual(step=0.1),
            seed=1,
            common_noise=True,
        )
        for test in (None, (images[:5], labels[:5]))
    ]
    np.testing.assert_array_equal(runs[0].workers, runs[1].workers)


def test_accuracy_is_in_a_solution_its_file_and_its_picture(tmp_path: Path) -> None:
    problem = make(test=(OTHERS, LABELS))
    run = fl.solve(problem, BUDGET, rounds=9, repetitions=3, seed=2, record=[2, 9])
    assert run.accuracy[1, 0] == naive_accuracy(OTHERS, LABELS, run.means[1, 0])
    assert {"optimality", "objective", "accuracy"} <= {*run.summary().split()}
    run.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(fl.load(tmp_path / "run.npz").accuracy, run.accuracy)
    ax = run.plot(measure="accuracy")
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), run.accuracy.mean(axis=0))
    assert (ax.get_ylabel(), ax.get_yscale(), run.plot().get_yscale()) == ("accuracy", "linear", "log")
    with pytest.raises(ArgumentError, match="^measure = 'precision'"):
        run.plot(measure="precision")


def test_what_was_called_test_accuracy_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files that were written then, and by who still asks for it by that name."""
    text = sweeps.spec(data='given = "tested"', problem="test = true", rounds="8")
    put = layout._put_rows

    def put_then(root: Any, *about: Any) -> Any:
        last = put(root, *about)
        if about[-1] == "accuracy" and "runs/accuracy" in root:
            root.move("runs/accuracy", "runs/test_accuracy")
        return last

    with monkeypatch.context() as then:
        then.setattr(layout, "_put_rows", put_then)
        sweeps.run(text, tmp_path / "old.h5", given=HALF)
    with h5py.File(tmp_path / "old.h5") as file:
        assert "test_accuracy" in file["runs"]
    sweeps.run(text, tmp_path / "new.h5", given=HALF)
    found = fl.results(tmp_path / "old.h5")
    assert found.digest() == fl.results(tmp_path / "new.h5").digest()
    measures = Measures.known({"accuracy": np.ones((1, 1))})
    with pytest.warns(DeprecationWarning, match="test_accuracy is now called accuracy"):
        assert measures["test_accuracy"] == 1
    with pytest.warns(DeprecationWarning, match="now called accuracy"):
        np.testing.assert_array_equal(found[0].test_accuracy, found[0].accuracy)
    with pytest.warns(DeprecationWarning, match="now called accuracy"):
        assert found.means(measure="test_accuracy")[0].mean == found.means(measure="accuracy")[0].mean


# Sweeps.


def sweep(path: Path, problem: str = "", **options: Any) -> fl.sweeping.Results:
    sweeps.run(sweeps.spec(data='given = "tested"', problem=problem, rounds="[8, 15]"), path, given=HALF, **options)
    return fl.results(path)


def test_a_sweep_records_the_accuracy_of_the_same_runs(tmp_path: Path) -> None:
    plain, tested = sweep(tmp_path / "a.h5"), sweep(tmp_path / "b.h5", "test = true")
    assert "accuracy" not in plain.measures
    for one, other in zip(plain, tested, strict=True):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.optimality, other.optimality)
        assert other.accuracy[-1] == naive_accuracy(OTHERS, LABELS, other.x)
        assert np.isnan(one.accuracy).all()
        assert np.isnan(other.objective).all()
    ends = tested.table()["accuracy"]
    assert tested.means("rounds", "step", measure="accuracy")[0].mean == ends[:3].mean()
    assert tested.plot(measure="accuracy").get_yscale() == "linear"
    assert "accuracy" in tested.summary().split()
    with pytest.raises(ArgumentError, match=r"not recorded by these runs.*test = 0.2 in the table \[problem\]"):
        plain.means(measure="accuracy")


def test_accuracy_is_the_same_where_a_sweep_is_cut_in_pieces(tmp_path: Path) -> None:
    whole = sweep(tmp_path / "a.h5", "test = 0.2")
    assert whole.digest() == sweep(tmp_path / "b.h5", "test = 0.2", leg_seconds=1e-9).digest()
    assert not np.isnan(whole.table()["accuracy"]).any()


def keys_of(problem: str, given: dict[str, Any] = HALF) -> list[str]:
    return [one.key for one in spec.read(sweeps.spec(data='given = "tested"', problem=problem), given).settings]


def test_test_data_are_part_of_a_settings_key() -> None:
    others = HALF | {"tested": (*sweeps.matrix(), OTHERS, -LABELS)}
    kinds = [
        keys_of(""),
        *(keys_of(f"test = {test}") for test in ("true", "0.2", "0.3")),
        keys_of("test = true", others),
    ]
    kinds.append(keys_of("test = 0.2\ntest_seed = 1"))
    assert len({key for keys in kinds for key in keys}) == sum(map(len, kinds))
    assert keys_of("") == keys_of("", {"tested": sweeps.matrix()})


def test_a_share_is_held_out_before_rows_are_spread_over_workers() -> None:
    text = sweeps.spec(problem='test = 0.25\ntest_seed = 5\npartition = "label"')
    found = spec.read(text, sweeps.DATA).grounds[0].subjects[0].problem
    train, test = fl.datasets.hold_out(60, 0.25, seed=5)
    owners = fl.datasets.partition(B[train], 4, "label")
    directly = fl.Problem(A[train], B[train], workers=owners, l2=0.1, test=(A[test], B[test]))
    assert found.tested_fingerprint == directly.tested_fingerprint
    assert (train.size, test.size) == (45, 15)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(60))


@pytest.mark.parametrize(
    ("data", "problem", "message"),
    [
        ('given = "tiny"', "test = 1.0", r"problem\.test: test = 1.0: give a part of the rows"),
        ('given = "tiny"', "test = true", r"problem\.test: test = True: .*hold out a share"),
        ('given = "tested"', "test = false", r"problem\.test: test = False: "),
        ('given = "tiny"', 'test = "nowhere.t"', r"problem\.test: .*there is no such file"),
        ('given = "tiny"', "test_seed = 1", r"problem.*: test = None: give a part"),
        ('given = "tested"', "test = true\ntest_seed = 1", r"problem\.test_seed: "),
        ('given = "tiny"', "test = 0.2\ntest_seed = -1", r"problem\.test_seed: "),
        ('given = "tiny"', 'test = 0.2\nloss = "squared"', r"problem\.test: .*no accuracy"),
        ('synthetic = "ijcnn1"', "test = true", r"problem\.test: .*'a6a', 'a9a' have test data"),
        ('given = "tiny"\nheld_out = 3', "", r"data\.held_out: .*test = 0.2 in the table \[problem\]"),
    ],
)
def test_specifications_of_test_data_that_cannot_be(data: str, problem: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec.read(sweeps.spec(data=data, problem=problem), HALF)


def test_a_network_can_hold_out_a_share() -> None:
    images, labels = np.random.default_rng(0).random((40, 6)), np.arange(40) % 3
    text = 'rounds = 2\n[data]\ngiven = "x"\n{}[network]\nworkers = 2\nhidden = 2\ntest = 0.2\n[[method]]\nstep = 0.1\n'
    found = spec.read(text.format(""), {"x": (images, labels)}).grounds[0].subjects[0].problem
    train, test = fl.datasets.hold_out(40, 0.2)
    x = found.start()
    assert isinstance(found, fl.MLP)
    assert found.accuracy(x) == found.accuracy(x, images[test], labels[test])
    assert found.sizes.sum() == train.size
    with pytest.raises(SpecError, match=r"network\.test: .*leave one of them out"):
        spec.read(text.format("held_out = 3\n"), {"x": (images, labels)})


# Files.


def test_a_test_file_is_read_as_the_training_file_was(tmp_path: Path) -> None:
    """Its width and the names of its classes are those of the training data."""
    (tmp_path / "train").write_text("1 1:1 3:2\n2 2:1\n")
    for text, expected, labels in (
        ("2 1:5\n", [[5, 0, 0]], [1]),  # narrower, and of one class alone
        ("1 2:1 5:9\n2 3:4\n", [[0, 1, 0], [0, 0, 4]], [-1, 1]),  # with a feature that no model has a weight for
    ):
        (tmp_path / "test").write_text(text)
        rows, found = read_test_file(tmp_path / "test", 3, like=tmp_path / "train")
        assert (rows.toarray().tolist(), found.tolist()) == (expected, labels)
    (tmp_path / "from_zero").write_text("1 0:1 2:2\n2 1:1\n")
    (tmp_path / "test").write_text("2 1:5\n")
    assert read_test_file(tmp_path / "test", 3, like=tmp_path / "from_zero")[0].toarray().tolist() == [[0, 5, 0]]
    (tmp_path / "test").write_text("3 1:1\n")
    with pytest.raises(ArgumentError, match=r"^test = array\(\[3.\]\): labels that the training data do not have"):
        read_test_file(tmp_path / "test", 3, like=tmp_path / "train")


def test_a_sweep_reads_test_files_beside_its_specification(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", A=A, b=B)
    np.savez(tmp_path / "t.npz", A=OTHERS, b=LABELS)
    (tmp_path / "s.toml").write_text(sweeps.spec(data='file = "a.npz"', problem='test = "t.npz"'))
    found = spec.read(tmp_path / "s.toml").grounds[0].subjects[0].problem
    assert found.tested_fingerprint == make(test=(OTHERS, LABELS)).tested_fingerprint


@pytest.mark.parametrize("test", ["0.25", "t.csv"])
def test_the_command_line_measures_accuracy(
    test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rows, labels in (("a.csv", A, B), ("t.csv", OTHERS, LABELS)):
        np.savetxt(name, np.column_stack([rows, labels]), delimiter=",")
    command = ["solve", "--data", "a.csv", "--test", test, "--workers", "3", "--rounds", "20", "--step", "0.2"]
    assert main([*command, "--json", "--save", "run.npz", "--plot", "run.png"]) == 0
    run, told = fl.load("run.npz"), json.loads(capsys.readouterr().out)
    assert told["accuracy_mean"] == run.accuracy.mean(axis=0).tolist()
    train, held = fl.datasets.hold_out(60, 0.25)
    rows, labels = (OTHERS, LABELS) if test == "t.csv" else (A[held], B[held])
    assert run.accuracy[0, -1] == naive_accuracy(rows, labels, run.means[0, -1])
    assert f"{60 if test == 't.csv' else train.size} rows" in run.description
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "accuracy: the share of the test data" in out
    assert f"{run.accuracy[:, -1].mean():.4g}" in out
    assert main(["info", "run.npz"]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_a_command_with_test_data_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["1.5"], ["nowhere.csv"], ["0.2", "--loss", "squared"]):
        assert main(["solve", "--test", *words]) == 2
        assert "error: test = " in capsys.readouterr().err


@pytest.mark.parametrize(("rows", "share"), [(1, 0.5), (10, 0.0), (10, 1.0), (10, True), (10, np.nan)])
def test_shares_that_cannot_be_held_out(rows: int, share: Any) -> None:
    with pytest.raises(ArgumentError, match="^(rows|test) = "):
        fl.datasets.hold_out(rows, share)


@pytest.mark.parametrize(("rows", "share", "held"), [(10, 1e-9, 1), (10, 0.999, 9), (2, 0.5, 1), (11, 0.2, 2)])
def test_one_row_at_least_is_on_either_side(rows: int, share: float, held: int) -> None:
    assert fl.datasets.hold_out(rows, share).test.size == held
