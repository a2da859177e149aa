"""What `fastldp solve` and the first command print: one screen, with all parts."""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import environment
import fastldp as fl
import quickstart
from fastldp import cli, figures
from fastldp.cli import choosing, main, reporting, terminal
from fastldp.datasets.dataset import Dataset
from fastldp.engine import driving
from fastldp.engine.block import Block

PARTS_OF_ERRORS = ["distance to the optimum", "consensus error"]
PARTS = ["solved", "error", "promise", "picture", "results", "next"]


def _parts(lines: list[str]) -> list[str]:
    """The words in the margin, in order."""
    return [line.split()[0] for line in lines if line[:1].strip()]


def _fits(lines: list[str]) -> bool:
    return len(lines) <= 24 and max(map(len, lines)) <= 100


def _parsed(command: list[str]) -> tuple[argparse.Namespace, Dataset]:
    arguments = cli._parser().parse_args(command)
    return arguments, choosing.data_of(arguments)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)


def test_the_first_command_prints_one_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(program: Path, *words: str | Path, cwd: Path) -> None:
        monkeypatch.setattr(sys, "argv", [str(program)])
        assert main([*map(str, words)]) == 0

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(environment, "prepare", lambda extra: tmp_path / ".venv" / "bin")
    monkeypatch.setattr(environment, "workplace", lambda: tmp_path)
    monkeypatch.setattr(environment, "run", run)
    quickstart.main()
    out, err = capsys.readouterr()
    # A terminal shows the bar too, in a line.
    lines = [*err.splitlines()[-1:], *out.splitlines()]
    assert _fits(lines)
    assert _parts(lines)[-len(PARTS) :] == PARTS
    assert (tmp_path / "out" / "quickstart.png").read_bytes().startswith(b"\x89PNG")
    assert fl.load("out/quickstart.npz").status.ok
    first, _, third = lines[-3:]
    assert first.startswith("next     .venv/bin/fastldp solve --data ijcnn1 --repetitions 16 --details  ")
    assert third.strip().startswith(".venv/bin/fastldp reproduce fig1 --quick  ")


@pytest.mark.parametrize(
    "options",
    [
        ["--row-bound", "3.75", "--gradient-bound", "half", "--seed", "os", "--step", "theorem"],
        ["--step", "0.1", "--l2", "0.01", "--weight", "0.5", "--epsilon", "10", "--delta", "1e-5"],
        ["--method", "ISRLDP", "--step", "0.123456789", "--set", "tail_average=10", "--set", "clip=0.123456789"],
        ["--loss", "squared", "--regularizer", "L2Ball", "--radius", "2", "--step", "theorem", "--rows", "1000"],
    ],
)
def test_every_report_fits(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--plot", "error.png", "--save", "run.npz"]
    assert main(["solve", "--data", "ijcnn1", "--rounds", "60", "--repetitions", "2", *files, *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert _fits(lines)
    assert _parts(lines) == PARTS


def test_the_report_has_the_numbers_of_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["solve", "--data", "ijcnn1", "--step", "theorem", "--rounds", "40", "--repetitions", "3"]
    assert main([*command, "--save", "run.npz"]) == 0
    run, out = fl.load("run.npz"), capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if len(line.split()) == 3 and line.strip()[0].isdecimal()]
    assert [int(row[0]) for row in rows] == [1, 11, 21, 30, 40]
    for round_, mean, std in rows:
        errors = run.optimality[:, run.rounds.tolist().index(int(round_))]
        assert float(mean) == pytest.approx(errors.mean(), rel=1e-3)
        assert float(std) == pytest.approx(errors.std(), rel=0.1)
    assert "over e^ε = 2.72 times" in out
    assert "while the seed is secret" in out
    assert run.ledger is not None
    assert f"not covered: {run.ledger.read_off_data}." in out
    assert "1 at the start" in out
    axes = reporting.picture(run, choosing.problem_of(*_parsed(command)), "mine")
    assert figures.names_on(axes) == ["error: mean ± std of 3", *PARTS_OF_ERRORS, "start, x = 0"]
    assert axes.get_title() == "mine, 20 workers, (1, 0.0001)-LDP"


def test_the_report_of_what_has_no_optimum_or_one_at_zero(capsys: pytest.CaptureFixture[str]) -> None:
    A, b = np.array([[1.0, 0.5], [-1.0, 0.5]] * 4), np.array([1.0, -1.0] * 4)
    np.savez("apart.npz", A=A, b=b)
    command = ["solve", "--data", "apart.npz", "--workers", "2", "--step", "0.1", "--rounds", "20", "--plot", "e.png"]
    with pytest.warns(fl.errors.OptimumWarning):
        assert main([*command, "--l2", "0", "--regularizer", "Zero"]) == 0
    out = capsys.readouterr().out
    assert "the objective, for no optimum was found" in out
    assert "nan" not in out
    assert main([*command, "--weight", "10"]) == 0
    assert "1 at the start" not in capsys.readouterr().out


def test_the_next_command_is_the_same_in_detail() -> None:
    same = "solve --rounds 20"
    for words in (same, f"{same} --plot e.png", f"solve --save r.npz {same[6:]} --plot=e.png"):
        assert f"{same} --details  " in reporting.following(words.split())
    # A shorter command would be of other data.
    long = reporting.following(["solve", "--data", "a" * 60])
    assert "the same with --details  " in long
    assert "solve --details" not in long


def test_programs_are_called_as_they_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for given, called in (
        (tmp_path / "bin" / "fastldp", str(Path("bin", "fastldp"))),
        (Path("/elsewhere/fastldp"), str(Path("/elsewhere/fastldp"))),
        (tmp_path / "fastldp" / "__main__.py", "python -m fastldp"),
        (tmp_path / "pytest", "fastldp"),
    ):
        monkeypatch.setattr(sys, "argv", [str(given)])
        assert terminal.program() == called


@pytest.mark.parametrize("module", ["fastldp", "fastldp.cli"])
def test_the_command_line_is_a_module(module: str) -> None:
    made = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert made.stdout == f"fastldp {fl.__version__}\n"


@pytest.mark.parametrize("at", [0, 2])
def test_the_report_of_a_run_that_was_stopped(
    at: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, calls = Block.advance, []

    def stopped(self: Block, end: int, *, threads: int) -> None:
        calls.append(end)
        if len(calls) > at:
            signal.raise_signal(signal.SIGINT)
            return
        advance(self, end, threads=threads)

    monkeypatch.setattr(Block, "advance", stopped)
    monkeypatch.setattr(driving, "segment_length", lambda *_: 20)
    command = ["solve", "--data", "ijcnn1", "--step", "theorem", "--rounds", "100", "--repetitions", "8"]
    assert main(command) == 130
    told = capsys.readouterr()
    assert told.out.startswith("stopped  ")
    assert f"{20 * at} of 100 rounds" in told.out
    assert ("nothing was recorded yet" in told.out) == (at == 0)
    assert "interrupted" in told.err


def test_who_has_brought_data_is_not_told_how() -> None:
    assert "your own data" in reporting.following(["solve", "--data", "ijcnn1", "--save", "run.npz"])
    assert "your own data" not in reporting.following(["solve", "--data=their.csv"])
    assert "your own data" not in reporting.following(["solve", "--data", "their.csv", "--label", "sick"])
    # A command that can be pasted, however long the one that was given.
    assert "..." not in reporting.following(["solve", "--data", "their.csv", "--label", "sick" * 20])
