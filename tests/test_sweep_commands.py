"""The commands sweep, plot and info: exit codes, JSON, Ctrl-C and kills of a real process, and going on after them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

import fastldp as fl
from fastldp.cli import main

SPEC = """\
rounds = [{rounds}, {more}]
repetitions = 4
[data]
synthetic = "ijcnn1"
rows = 200
[problem]
workers = 4
l2 = 0.1
[budget]
epsilon = 1.0
delta = 1e-4
[[method]]
name = "ISRLDP"
step = [0.5, 1.0]
[record]
every = {rounds}
"""
DIVERGING = """\
rounds = 40
[data]
synthetic = "ijcnn1"
rows = 200
[problem]
workers = 4
loss = "squared"
[[method]]
name = "ISRLDP"
step = [0.1, 1e30]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(SPEC.format(rounds=10, more=20))
    return tmp_path


def test_a_sweep_again_finds_all_it_has_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "s.toml"]) == 0
    assert "s.h5: 16 runs wanted, 0 found; 16 completed" in capsys.readouterr().out
    assert main(["sweep", "s.toml", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["found"], report["completed"], report["missing"]) == (16, 0, 0)


def test_a_dry_run_plans_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "s.toml", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for words in ("16, of which 0 are in the file", "16 runs in 2 blocks, 240 rounds", "time", "file"):
        assert words in out
    assert main(["sweep", "s.toml", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 16
    assert [entry.name for entry in folder.iterdir()] == ["s.toml"]


def test_the_example_is_a_specification(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--example"]) == 0
    (folder / "e.toml").write_text(capsys.readouterr().out)
    assert main(["sweep", "e.toml", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 8 * 2 * 20


def test_runs_that_diverge_have_an_exit_code_of_their_own_now_and_later(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "d.toml").write_text(DIVERGING)
    assert main(["sweep", "d.toml"]) == 3
    assert "1 completed, 1 diverged" in capsys.readouterr().out
    assert main(["sweep", "d.toml"]) == 3
    assert "1 of those found had diverged or failed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["sweep"], 2, "name a TOML file"),
        (["sweep", "nowhere.toml"], 2, "there is no such file"),
        (["sweep", "bad.toml"], 2, "bad.toml, line 1, runds: not a known key; did you mean 'rounds'?"),
        (["sweep", "s.toml", "--jobs", "0"], 2, "--jobs = 0: give a number of cores ≥ 1"),
        (["sweep", "s.toml", "--jobs", "0", "--dry-run"], 2, "--jobs = 0: give a number of cores ≥ 1"),
        (["sweep", "s.toml", "--address", "x"], 2, "only the backends dask and ray"),
        (["sweep", "s.toml", "--out", "foreign.h5"], 1, "not one of fastldp sweep"),
        (["plot", "nowhere.h5"], 1, "no such file"),
        (["info", "nowhere.h5"], 1, "no such file"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    arguments: list[str], code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.toml").write_text("runds = 1\n")
    h5py.File(folder / "foreign.h5", "w").close()
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert message in err.splitlines()[-1]
    assert out == ""


@pytest.mark.parametrize("command", ["sweep", "plot", "info"])
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"fastldp {command}" in capsys.readouterr().out.partition("examples:")[2]


def test_info_says_what_a_file_holds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "d.toml").write_text(DIVERGING)
    main(["sweep", "d.toml"])
    capsys.readouterr()
    assert main(["info", "d.h5"]) == 0
    assert "2 runs of 2 settings: 1 completed, 1 diverged" in capsys.readouterr().out
    assert main(["info", "d.h5", "--json"]) == 0
    held = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert [mean["runs"] for mean in held["means"]] == [1, 0]


def test_plot_draws_what_was_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    main(["sweep", "s.toml"])
    capsys.readouterr()
    assert main(["plot", "s.h5", "--table"]) == 0
    assert "optimality" in capsys.readouterr().out
    assert (folder / "s.png").read_bytes().startswith(b"\x89PNG")
    assert main(["plot", "s.h5", "--x", "round", "--where", "rounds=20", "--by", "step", "--out", "new/e.png"]) == 0
    assert (folder / "new" / "e.png").exists()
    assert main(["plot", "s.h5", "--where", "rounds=7"]) == 2
    assert main(["plot", "s.h5", "--where", "rounds"]) == 2


# Real processes. The runs have several segments; the trials share one undisturbed sweep.

LONG = SPEC.format(rounds=60_000, more=72_000)
# A command whose legs are a segment long, and that waits after each part it has written until it is told to go on.
WAITING = """
import sys
import fastldp as fl
from fastldp.cli import main
from fastldp.sweeping.store import Store

commit = Store.commit

def wait(self, *given):
    commit(self, *given)
    print("written", flush=True)
    sys.stdin.readline()

Store.commit = wait
fl.sweep.__kwdefaults__["leg_seconds"] = 1e-9
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("undisturbed") / "r.h5"
    fl.sweep(LONG, path)
    return fl.results(path).digest()


def start(folder: Path, *options: str, script: str = "") -> "subprocess.Popen[str]":
    (folder / "s.toml").write_text(LONG)
    program = ["-c", script] if script else ["-m", "fastldp"]
    arguments = [sys.executable, *program, "sweep", "s.toml", *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a thing of POSIX")
@pytest.mark.parametrize("backend", ["threads", pytest.param("loky", marks=pytest.mark.thorough)])
def test_ctrl_c_writes_what_there_is_and_says_how_to_go_on(backend: str, undisturbed: str, tmp_path: Path) -> None:
    process = start(tmp_path, "--backend", backend, script=WAITING)
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: all processes hear it
    out, err = process.communicate("\n" * 1000)
    assert process.returncode == 130, err
    assert ", then interrupted\n" in out
    assert "are still missing; the same command goes on from here" in out
    if backend == "threads":  # a process that hears it while it starts says so, and its blocks are run again
        assert "Traceback" not in err
    process = start(tmp_path, "--json")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["missing"] == 0
    assert fl.results(tmp_path / "s.h5").digest() == undisturbed


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="signals are a thing of POSIX")
def test_kills_lose_nothing(undisturbed: str, tmp_path: Path) -> None:
    """The short version of scripts/kills.py, after parts that it says it has written."""
    for written in (1, 3, 2):
        process = start(tmp_path, script=WAITING)
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(written):
            assert process.stdout.readline() == "written\n"
            process.stdin.write("\n")
            process.stdin.flush()
        process.kill()
        process.communicate()
        process.wait()
    last = start(tmp_path)
    _, err = last.communicate()
    assert last.returncode == 0, err
    assert fl.results(tmp_path / "s.h5").digest() == undisturbed
