"""Kernels are compiled once, by helpers too, whatever becomes of these; nobody's cache is spoilt, and one is told."""

import errno
import fcntl
import io
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.core.caching import FunctionCache

import fastldp as fl
from fastldp import bars
from fastldp.cli import compile as command
from fastldp.cli import main
from fastldp.engine import compiling
from fastldp.kernels import ahead, calling, jit, rounds

SOLVE = """
import os, sys, numpy as np, fastldp as fl
from fastldp.engine import compiling
from fastldp.kernels import ahead, calling
compiling.available_cores = lambda: 3
sys.executable = os.environ.get("INTERPRETER", sys.executable)
problem = fl.Problem(np.eye(4), [1, -1, 1, 1], workers=2, l2=0.1)
run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=5, repetitions=8, seed=0, n_jobs=1)
for helper in ahead._AT_WORK:
    helper.wait()
print(len(ahead._AT_WORK), *calling.counts(), run.x.tobytes().hex())
"""


def solved(cache: Path, **environment: str) -> list[str]:
    """By a process of its own: how many helpers it had, what it found and compiled, and its result."""
    about = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | environment
    done = subprocess.run([sys.executable, "-c", SOLVE], env=about, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.thorough
def test_helpers_compile_for_who_needs_it_and_one_that_fails_costs_nothing(tmp_path: Path) -> None:
    helpers, found, compiled, result = solved(tmp_path / "first")
    assert (helpers, found) == ("2", "0")
    assert int(compiled) > 4
    # They left all of it in the cache.
    assert solved(tmp_path / "first") == ["0", compiled, "0", result]
    broken = tmp_path / "python-broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert solved(tmp_path / "second", INTERPRETER=str(broken)) == ["2", "0", compiled, result]


def test_a_program_that_embeds_python_is_never_started_as_a_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = calling.Piece(lambda: None)
    monkeypatch.setattr(ahead, "_started", lambda: pytest.fail("started"))
    for program in ("/opt/reader/reader", "", None):
        monkeypatch.setattr(sys, "executable", program)
        assert ahead.begin([piece], 4) == []
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert ahead.begin([piece], 4) == []


def test_a_helper_compiles_its_share_in_order_and_goes_when_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(calling.Piece, "compile", lambda piece: compiled.append(piece.text))
    pieces = [("fastldp.kernels.rounds", name, ()) for name in ("_visit", "_serve")]
    ahead.help_with(os.getppid() + 1, pieces)
    assert compiled == []
    ahead.help_with(os.getppid(), pieces)
    assert compiled == [rounds._visit, rounds._serve]


def test_pieces_are_dealt_to_helpers_and_who_needs_one_waits_for_that_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Helper:
        def __init__(self) -> None:
            self.stdin, self.ended = io.BytesIO(), False

        def poll(self) -> int | None:
            return 0 if self.ended else None

    helpers: list[Any] = [Helper(), Helper()]
    left: list[Any] = [helpers[0], None, helpers[1]]
    monkeypatch.setattr(ahead, "_started", lambda: left.pop(0))  # the second cannot be started
    pieces = [calling.Piece(rounds._visit, kind) for kind in (types.int8, types.int16, types.int32, types.int64)]
    assert ahead.begin(pieces, 3) == helpers
    begun = [piece.is_begun for piece in pieces]
    assert [one and one() for one in begun] == [True, True, False, False]
    pieces[0]._compiled = True
    assert [one and one() for one in begun] == [False, True, True, False]
    helpers[0].ended = True
    assert [one and one() for one in begun] == [False, True, False, False]
    monkeypatch.setattr(ahead, "_can_help", lambda: False)
    ahead.begin([], 1)
    assert helpers[1:] == ahead._AT_WORK
    ahead._AT_WORK.clear()


def test_no_program_that_cannot_be_started_stops_a_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert ahead.begin([calling.Piece(rounds._visit, types.int8)], 2) == []


# The cache


def is_free(what: str) -> bool:
    """Whether nobody has a lock of the cache, of any kind."""
    folder = jit.cache_folder()
    assert folder is not None
    with (folder / f"{what}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@jit.serial
def _doubled(x):  # type: ignore[no-untyped-def]
    return 2 * x


def test_one_process_at_a_time_saves_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache gives two functions one file where two processes save at once, and then calls the wrong one."""
    free = []
    monkeypatch.setattr(FunctionCache, "save_overload", lambda *_: free.append(is_free("saving")))
    monkeypatch.setattr(FunctionCache, "load_overload", lambda *_: None)
    assert _doubled(21) == 42
    assert free == [False]
    assert is_free("saving")


def test_others_wait_while_one_process_compiles_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compiling.Code({}, {}, {}, calling.Piece(lambda: None))
    monkeypatch.setattr(ahead, "begin", lambda *_: [])
    with compiling.compiling(code):
        assert compiling.is_compiling()
        assert not is_free("compiling")
        assert rounds.loops()[0].is_compiled
        # One that was stopped is not waited for.
        with jit.one_process("compiling", patience=0.0):
            pass
    assert not compiling.is_compiling()
    assert is_free("compiling")


def test_a_child_forked_meanwhile_does_not_keep_a_lock() -> None:
    reading, writing = os.pipe()
    with jit.one_process("saving"):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until the test has seen enough
            os._exit(0)
    try:
        assert is_free("saving")
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


@pytest.mark.parametrize("name", ["open", "flock"])
def test_a_folder_without_locks_is_used_all_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(os if name == "open" else fcntl, name, refuse)
    with jit.one_process("saving"):
        pass


SPOILT = """
import sys
from pathlib import Path
from fastldp.kernels import jit

@jit.serial
def doubled(x):
    return 2 * x

folder = Path(doubled._cache.cache_path)
assert doubled(21) == 42
for path in folder.glob("*.doubled*" + sys.argv[1]):
    path.write_bytes(path.read_bytes()[:40] if sys.argv[2] == "cut" else sys.argv[2].encode())
again = jit.serial(doubled.py_func)
assert again(21) == 42 and not again.stats.cache_hits
last = jit.serial(doubled.py_func)
assert last(21) == 42 and last.stats.cache_hits
import shutil
shutil.rmtree(jit.cache_folder())
assert jit.serial(doubled.py_func)(2.5) == 5.0
"""


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", ["cut", "cgone.module\nThing\n."])
def test_a_spoilt_cache_costs_time_alone(ending: str, content: str, tmp_path: Path) -> None:
    """Damaged files, those that name classes which are gone, and a folder that somebody has removed."""
    script = tmp_path / "spoilt.py"
    script.write_text(SPOILT)
    about = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, script, ending, content], env=about, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    monkeypatch.setattr(FunctionCache, "load_overload", full)
    assert _doubled(2.5) == 5.0


def test_formulas_of_ours_may_be_called_from_python() -> None:
    """Code without a way in from Python would end the process."""
    calls = """
import numpy as np, fastldp as fl
for g in (fl.L2Ball(1.0), fl.L1Ball(1.0), fl.Simplex(1.0), fl.GroupL2(np.array([0, 0, 1]), 0.1, 1.0)):
    X = np.ones((1, 3))
    g.prox_row(X, 0, 1.0)
    np.testing.assert_allclose(X[0], g.prox(np.ones(3), 1.0))
for loss in (fl.Logistic(), fl.Squared(), fl.Huber(1.0), fl.SmoothedHinge(1.0)):
    for name in ("value", "slope", "slope_in_unit", "short_slope"):
        getattr(loss, name, loss.slope)(0.3, 1.0)
for g in (fl.BoxL1(0.1, 1.0), fl.L1(0.1), fl.Box(-1.0, 1.0), fl.Zero()):
    g.shrink(0.3, 0.1)
"""
    done = subprocess.run([sys.executable, "-c", calls], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# The command


def test_the_command_knows_the_kernels_of_every_combination() -> None:
    """It compiles each thing beside the first of the others only: what these share is the same for all."""
    known = {id(piece) for piece in command.all_pieces(["float64"])}
    A, b = np.random.default_rng(0).standard_normal((64, 4)), np.resize([1.0, -1.0], 64)
    of_all = itertools.product(command.LOSSES, command.REGULARIZERS, command.METHODS, (1, 8))
    for loss, regularizer, method, repetitions in of_all:
        problem = fl.Problem(A, b, workers=2, loss=loss, l2=0.1, regularizer=regularizer, gradient_bound=1.0)
        assert known.issuperset(map(id, command._pieces_of_runs(problem, method, repetitions)))


def test_the_command_has_every_class_of_ours() -> None:
    of_package = {kind for kind in map(vars(fl).get, fl.__all__) if isinstance(kind, type)}
    for base, listed in (
        (fl.Loss, command.LOSSES),
        (fl.Regularizer, command.REGULARIZERS),
        (fl.Method, command.METHODS),
    ):
        assert {type(one) for one in listed} == {kind for kind in of_package if issubclass(kind, base)} - {base}


def test_the_command_compiles_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(command, "LOSSES", command.LOSSES[:1])
    monkeypatch.setattr(command, "REGULARIZERS", command.REGULARIZERS[:1])
    monkeypatch.setattr(command, "METHODS", command.METHODS[:1])
    monkeypatch.setattr(command, "REPETITIONS", {"float64": (8,)})
    assert main(["compile", "--dtype", "float64"]) == 0
    assert not compiling.missing_of(command.all_pieces(["float64"]))
    capsys.readouterr()
    assert main(["compile", "--dtype", "float64"]) == 0
    assert capsys.readouterr().out.startswith("0 kernels compiled in ")


# What one sees


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def shown_bar(monkeypatch: pytest.MonkeyPatch, screen: io.StringIO) -> Iterator[tuple[Any, io.StringIO]]:
    monkeypatch.setattr(sys, "stderr", screen)
    with bars.bar(show=True, total=100, unit="round") as bar:
        yield bar, screen


def test_a_bar_says_that_kernels_are_compiled_and_starts_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with shown_bar(monkeypatch, Screen()) as (bar, screen):
        created = bar.start_t
        with bars.compiling(), bars.compiling():  # the second is not heard: one bar, one speaker
            pass
        assert "compiling kernels for this machine, which are kept: 0 s" in screen.getvalue()
        assert bar.start_t > created
        bar.update(50)
        bar.refresh()
        assert " 50%" in screen.getvalue().rpartition("compiling")[2]
        started = bar.start_t
        with bars.compiling():
            pass
        assert bar.start_t == started  # what was done before counts
        assert screen.getvalue().count("compiling") > 1  # who has spoken may speak again


def test_a_pipe_gets_lines_and_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with shown_bar(monkeypatch, io.StringIO()) as (bar, pipe):
        with bars.compiling():
            pass
        for _ in range(100):
            bar.update(1)
            bar.refresh()
        assert pipe.getvalue() == f"{bars.COMPILING}\n"
    last = pipe.getvalue().splitlines()[1:]
    assert len(last) == 1
    assert last[0].startswith("100 of 100 rounds in 00:00, ")
    assert set("\r\x1b").isdisjoint(pipe.getvalue())


def test_nothing_is_said_where_no_bar_is_shown(capsys: Any) -> None:
    with bars.bar(show=False, total=100), bars.compiling():
        pass
    assert capsys.readouterr().err == ""
