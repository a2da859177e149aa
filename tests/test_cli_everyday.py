"""The command line in everyday use: data of one's own, any terminal, pipes, and places that cannot be written."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp import figures
from fastldp.cli import main, writing

SHORT = ["--rounds", "20", "--repetitions", "2", "--workers", "4", "--step", "0.1"]
SPEC = """\
rounds = 3
[data]
synthetic = "ijcnn1"
rows = 40
[problem]
workers = 2
l2 = 0.1
[[method]]
name = "ISRLDP"
step = {from = 0.01, to = 0.5, count = 50}
"""


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 3)).round(3)
    return A, np.where(A[:, 0] > 0, 1.0, 0.0)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same rows in three formats."""
    monkeypatch.chdir(tmp_path)
    A, b = _data()
    np.savez("mine.npz", A=A, b=b)
    np.savetxt("mine.csv", np.column_stack([b, A]), delimiter=",", header="sick,x,y,z", comments="")
    lines = [f"{b[i]:g} " + " ".join(f"{k + 1}:{A[i, k]!s}" for k in range(3)) for i in range(40)]
    Path("mine.svm").write_text("\n".join(lines) + "\n")
    Path("s.toml").write_text(SPEC)
    return tmp_path


def _solved(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main(["solve", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("data", [["mine.npz"], ["mine.csv", "--label", "sick"], ["mine.svm"]])
def test_solve_takes_data_of_ones_own(data: list[str], files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _solved(["--data", *data, *SHORT, "--gradient-bound", "1.5"], capsys)
    A, b = _data()
    regularizer = fl.BoxL1(0.01, 10.0)
    problem = fl.Problem(A, 2 * b - 1, workers=4, l2=0.1, regularizer=regularizer, gradient_bound=1.5)
    method = fl.PrimalDual(0.1, "dynamic")
    run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=20, repetitions=2, seed=0, algorithm=method)
    assert found["optimality_mean"] == run.optimality.mean(axis=0).tolist()
    assert found["ledger"]["bound_source"] == "public"


def test_solve_takes_any_method_loss_and_regularizer(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--method", "ISRLDP", "--set", "tail_average=10", "--set", "clip=0.5", "--loss", "squared"]
    found = _solved(
        ["--data", "mine.npz", *SHORT, *options, "--regularizer", "Box", "--bound", "2", "--rows", "30"], capsys
    )
    A, b = _data()
    problem = fl.Problem(A[:30], b[:30], workers=4, l2=0.1, loss="squared", regularizer=fl.Box(2.0))
    method = fl.ISRLDP(0.1, clip=0.5, tail_average=10)
    run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=20, repetitions=2, seed=0, algorithm=method)
    assert found["optimality_mean"] == run.optimality.mean(axis=0).tolist()
    assert found["theory"] == {"none": "the paper's bounds are of PrimalDual"}
    assert main(["solve", "--data", "mine.npz", *SHORT, "--method", "DPFedAvg", "--set", "local_steps=2"]) == 0
    assert "DPFedAvg(step=0.1, local_steps=2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "none.csv"], "data = 'none.csv': there is no such file; give one, or the name of generated data"),
        (["--data", "."], "data = '.': it is a folder, not a file; give one, or the name of generated data"),
        (["--data", "mine.npz", "--test", "."], "test = '.': it is a folder, not a file; give one, or a share"),
        (["--data", "mine.npz", "--jobs", "0"], "--jobs = 0: give a number of cores"),
        (["--data", "mine.csv", "--label", "sik"], "did you mean 'sick'"),
        (["--data", "mine.npz", "--rows", "99"], "rows = 99: give a whole number from 1 to 40"),
        (["--method", "DPFedAvg"], "local_steps = None: not given; DPFedAvg needs local_steps"),
        (["--method", "ISRLDP", "--set", "tail=3"], "tail = 3: ISRLDP has no such parameter; it has step, clip"),
        (["--method", "ISRLDP", "--allocation", "static"], "ISRLDP has no such parameter"),
        (["--set", "step=0.2"], "set = 'step=0.2': --step says so already"),
        (["--regularizer", "L2Ball", "--weight", "2"], "weight = 2.0: L2Ball has no such parameter; it has radius"),
    ],
)
def test_wrong_choices_are_named(
    options: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", *SHORT, *options]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["info", "none.h5"], "none.h5: no such file"),
        (["info", "none.csv"], "none.csv: no such file"),
        (["info", "."], "a folder; name the file of results in it"),
        (["plot", "none.h5"], "none.h5: no such file"),
        (["sweep", "none.toml"], "spec = 'none.toml': there is no such file"),
        (["sweep", "."], "spec = '.': it is a folder, not a file"),
        (["sweep", "wrong.toml"], "wrong.toml"),
    ],
)
def test_files_that_are_missing_are_said_to_be_and_no_more(
    command: list[str], message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.toml").write_text("rounds = 1\nround = 2\n")
    assert main(command) in (1, 2)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert message in said[0]


@pytest.mark.parametrize(("encoding", "spelt"), [("latin-1", "epsilon = "), ("ascii", "16 x float32")])
def test_terminals_without_our_letters_get_others(encoding: str, spelt: str, files: Path) -> None:
    command = ["info"] if encoding == "ascii" else ["solve", "--data", "mine.npz", *SHORT]
    made = subprocess.run(
        [sys.executable, "-m", "fastldp", *command],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert spelt in made.stdout.decode(encoding)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are a thing of POSIX")
@pytest.mark.parametrize(("command", "code"), [(["info", "s.h5", "--all"], 141), (["solve", "--help"], 0)])
def test_a_closed_pipe_ends_a_command_quietly(command: list[str], code: int, files: Path) -> None:
    fl.sweep("s.toml", "s.h5", progress=False)
    read, write = os.pipe()
    os.close(read)
    made = subprocess.run(
        [sys.executable, "-m", "fastldp", *command], stdout=write, stderr=subprocess.PIPE, check=False, text=True
    )
    os.close(write)
    assert made.returncode == code
    assert made.stderr == ""


def test_info_shows_the_ends_of_a_long_table_or_all(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fl.sweep("s.toml", "s.h5", progress=False)
    assert main(["info", "s.h5"]) == 0
    assert "... 30 more ..." in capsys.readouterr().out
    assert main(["info", "s.h5", "--all"]) == 0
    assert len([line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]) == 51


@pytest.mark.parametrize("option", ["--save", "--plot"])
@pytest.mark.parametrize("place", ["/proc/none/run", "mine.npz/run", "folder"])
def test_places_are_tried_before_the_work(
    option: str, place: str, files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = ".png" if option == "--plot" else ".npz"
    (files / f"folder{ending}").mkdir()
    monkeypatch.setattr(fl, "solve", lambda *_, **__: pytest.fail("the work was begun"))
    assert main(["solve", *SHORT, option, place + ending]) == 1
    assert f"{option[2:]} = '{place}{ending}': " in capsys.readouterr().err


def test_what_cannot_be_written_after_the_work_is_written_elsewhere(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = fl.solve

    def losing(*arguments: Any, **named: Any) -> fl.Solution:
        run = solve(*arguments, **named)
        for name in ("there/run.npz", "there/error.png"):
            Path(name).mkdir()  # in the place of the file
        return run

    monkeypatch.setattr(fl, "solve", losing)
    options = ["--save", "there/run.npz", "--plot", "there/error.png"]
    assert main(["solve", "--data", "mine.npz", *SHORT, *options]) == 1
    out, err = capsys.readouterr()
    assert "promise" in out
    (saved,), (drawn,) = files.glob("run-*.npz"), files.glob("error-*.png")
    assert f"{saved}, for it could not be written to there/run.npz" in out
    assert str(drawn) in out
    assert err.count("fastldp: error: there/") == 2
    assert fl.load(saved).rounds[-1] == 20


def test_a_result_that_can_be_written_nowhere_is_printed_all_the_same(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figures, "save", full)
    assert main(["solve", "--data", "mine.npz", *SHORT, "--plot", "e.png"]) == 1
    out, err = capsys.readouterr()
    assert "promise" in out
    assert "picture of e.png could be written nowhere" in err
    assert not writing.written("picture", Path("e.png"), full, quiet=True)


def test_results_lie_beside_their_specification(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "caller").mkdir()
    monkeypatch.chdir(files / "caller")
    assert main(["sweep", "../s.toml"]) == 0
    assert "fastldp: results go to ../s.h5" in capsys.readouterr().err
    assert (files / "s.h5").exists()
    assert main(["sweep", "../s.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"] == 50
    assert list((files / "caller").iterdir()) == []
    # As it was once.
    (files / "s.h5").rename("s.h5")
    assert main(["sweep", "../s.toml", "--dry-run"]) == 0
    assert "../s.h5 is written anew, though there is s.h5 in this folder; --out s.h5 goes on" in capsys.readouterr().err


def test_pictures_lie_beside_the_results(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    fl.sweep("s.toml", "s.h5", progress=False)
    (files / "caller").mkdir()
    monkeypatch.chdir(files / "caller")
    assert main(["plot", "../s.h5", "--x", "step"]) == 0
    assert "picture  ../s.png" in capsys.readouterr().out
    assert (files / "s.png").exists()
    assert list((files / "caller").iterdir()) == []


def test_plot_averages_over_what_it_is_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    fl.sweep("s.toml", "s.h5", progress=False)
    assert main(["plot", "s.h5", "--by", "rounds"]) == 2
    assert "these runs differ in step too" in capsys.readouterr().err
    assert main(["plot", "s.h5", "--by", "rounds", "--over", "step"]) == 0
    assert main(["plot", "s.h5", "--measure", "accuracy"]) == 2
    assert "not recorded by these runs, use optimality, consensus, distance" in capsys.readouterr().err


def test_warnings_are_one_line(files: Path) -> None:
    command = [sys.executable, "-m", "fastldp", "solve", "--data", "mine.npz", *SHORT, "--delta", "0.01", "--json"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = made.stderr.splitlines()
    assert line.startswith("fastldp: warning: delta = 0.01 is above 0.001")
