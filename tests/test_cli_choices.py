"""What commands can be told to solve or to attack: parameters, classes of one's own, data; and what files are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp import cli
from fastldp.cli import choosing, main
from fastldp.privacy.statement import SECRET

FEW = ["--transcripts", "2000", "--epsilon", "6", "--delta", "1e-3", "--rounds", "3"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same rows in three formats."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 3)).round(3)
    b = np.where(A[:, 0] > 0, 1.0, 0.0)
    np.savez("mine.npz", A=A, b=b)
    np.savetxt("mine.csv", np.column_stack([A, b]), delimiter=",", header="x,y,z,sick", comments="")
    lines = [f"{b[i]:g} " + " ".join(f"{k + 1}:{A[i, k]!s}" for k in range(3)) for i in range(40)]
    Path("mine.svm").write_text("\n".join(lines) + "\n")
    return tmp_path


def _problem(*options: str) -> fl.Problem:
    arguments = cli._parser().parse_args(["solve", "--data", "ijcnn1", "--rows", "60", *options])
    return choosing.problem_of(arguments, choosing.data_of(arguments))


def test_losses_have_parameters(outside: Path) -> None:
    assert _problem("--loss", "Huber", "--loss-set", "delta=0.5").loss == fl.Huber(0.5)
    assert _problem("--loss", "SmoothedHinge", "--loss-set", "width=2").loss == fl.SmoothedHinge(2.0)
    assert repr(_problem("--loss", "mylosses:LogCosh", "--loss-set", "scale=0.5").loss) == "LogCosh(scale=0.5)"
    with pytest.raises(fl.errors.ArgumentError, match="width = 2: Huber has no such parameter; it has delta"):
        _problem("--loss", "Huber", "--loss-set", "width=2")


def test_regularizers_from_outside_have_what_was_given_alone(outside: Path) -> None:
    mine = ("--regularizer", "mypenalties:ElasticNet", "--regularizer-set", "ridge=0.5")
    with pytest.raises(fl.errors.ArgumentError, match="weight = None: not given; ElasticNet needs weight"):
        _problem(*mine)
    for weight in (("--weight", "0.3"), ("--regularizer-set", "weight=0.3")):
        assert repr(_problem(*mine, *weight).regularizer) == "ElasticNet(weight=0.3, ridge=0.5)"
    with pytest.raises(fl.errors.ArgumentError, match="--weight says so already"):
        _problem(*mine, "--weight", "0.3", "--regularizer-set", "weight=0.3")
    # Ours have the paper's.
    assert repr(_problem().regularizer) == "BoxL1(weight=0.01, bound=10.0)"
    assert repr(_problem("--regularizer", "L1").regularizer) == "L1(weight=0.01)"


def _audited(options: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["audit", *FEW, *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "attacked"),
    [
        (["--method", "ISRLDP", "--step", "0.5"], "g=Box(bound=0.25)), worker 0, ISRLDP, step 0.5, 3 rounds"),
        (["--method", "DPFedAvg", "--set", "local_steps=2", "--set", "step=0.2"], "g=Zero()), worker 0, DPFedAvg"),
        (["--method", "mymethods:HeavyBall", "--set", "step=0.2"], "worker 0, HeavyBall, step 0.2"),
        (["--data", "mine.csv", "--label", "sick", "--rows", "12", "--step", "0.1"], "12 rows × 3 dense, 2 workers"),
        (["--data", "ijcnn1", "--rows", "40", "--step", "0.1", "--l2", "0.5"], "PrimalDual, step 0.1"),
        (["--loss", "Huber", "--loss-set", "delta=0.5", "--step", "0.1"], "Problem(Huber(delta=0.5), 8 rows × 2"),
        (["--hidden", "2", "--transcripts", "400", "--set", "step=0.3"], "PrimalDual, step 0.3"),
    ],
)
def test_audits_take_what_solves_take(
    options: list[str], attacked: str, files: Path, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _audited(options, capsys)
    assert found["passed"], found["findings"]
    assert attacked in found["description"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "mine.csv", "--samples", "3"], "samples = 3: of random data"),
        (["--data", "mine.csv", "--hidden", "3"], "hidden = 3: of random data"),
        (["--data", "none.csv"], "there is no such file"),
        (["--rows", "3"], "rows = 3: random data have none"),
        (["--hidden", "3", "--regularizer", "L1"], "regularizer = 'L1': of linear models"),
        (["--method", "ISRLDP"], "step = None: not given; ISRLDP needs step"),
    ],
)
def test_wrong_audits_are_named(
    options: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *FEW, *options]) == 2
    assert message in capsys.readouterr().err


def test_audits_are_short_unless_details_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *FEW]) == 0
    short = capsys.readouterr().out.strip().splitlines()
    assert short[0] == "nothing contradicts the ledger"
    assert len(short) <= 6
    assert main(["audit", *FEW, "--details"]) == 0
    assert "loss, variance" in capsys.readouterr().out


def _told(file: str, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["info", file]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 8
    assert main(["info", file, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["mine.npz", "mine.csv", "mine.svm"])
def test_info_says_what_data_are(name: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _told(name, capsys)
    b = np.load("mine.npz")["b"]
    assert (found["rows"], found["features"]) == (40, 3)
    assert found["labels"] == {"0": int((b == 0).sum()), "1": int((b == 1).sum())}
    assert found["longest row"] == pytest.approx(np.linalg.norm(np.load("mine.npz")["A"], axis=1).max())
    of_text = name == "mine.svm"
    assert found["in kernels"].startswith("values in float64, columns in uint16: " if of_text else "float64: ")


@pytest.mark.parametrize("keep", [True, False])
def test_info_says_what_a_solution_is(keep: bool, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fl.solve(_problem("--workers", "4"), fl.Budget(1.0, 1e-4), rounds=5, repetitions=2, seed=1)
    run.save("run.npz", keep_seed=keep)
    found = _told("run.npz", capsys)
    assert found["solved"] == run.description
    assert found["error"].startswith(f"{run.optimality[:, -1].mean():.4g} ± ")
    assert "(1, 0.0001)-LDP" in found["promise"]
    assert found.get("secret") == (SECRET if keep else None)


def test_info_of_a_solution_that_is_not_private_or_ended_early(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fl.solve(_problem("--workers", "4"), rounds=5)
    run.consensus[:, -1] = np.nan
    run.save("run.npz")
    found = _told("run.npz", capsys)
    assert (found["promise"], found["error"]) == ("none", "not known at the end")


def test_info_of_a_network(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    network = fl.MLP(rng.standard_normal((12, 4)), np.arange(12) % 2, hidden=2, workers=2, clip=1.0)
    fl.solve(network, rounds=2, algorithm=fl.PrimalDual(step=0.5)).save("run.npz")
    assert "(std) at the end" in _told("run.npz", capsys)["train loss"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones(3)}, "it has no array 'A'"),
        ({"A": np.ones(3), "b": np.ones(3)}, "A of shape (3,) and b of shape (3,), float64, are no data"),
        ({"A": np.ones((2, 1)), "b": np.array(["no", "yes"])}, "<U3, are no data"),
        (None, "damaged, or not the right file"),
    ],
)
def test_info_of_other_files(
    arrays: dict[str, Any] | None, message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if arrays is None:
        Path("some.npz").write_text("no archive")
    else:
        np.savez("some.npz", **arrays)
    assert main(["info", "some.npz"]) == 1
    assert message in capsys.readouterr().err


def test_info_tells_many_labels_by_their_range(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("many.npz", A=np.ones((20, 2)), b=np.linspace(0, 1, 20))
    assert _told("many.npz", capsys)["labels"] == "from 0 to 1"
