"""Kernels are compiled once, by helpers too, whatever becomes of these; nobody's cache is spoilt, and one is told."""

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
from numba.core.caching import FunctionCache

import fastldp as fl
from fastldp import bars
from fastldp.cli import compile as command
from fastldp.cli import main
from fastldp.engine import compiling
from fastldp.kernels import ahead, calling, jit

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


@jit.serial
def _doubled(x):  # type: ignore[no-untyped-def]
    return 2 * x


def test_one_process_at_a_time_saves_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache gives two functions one file where two processes save at once, and then calls the wrong one."""
    saved = []

    def save(cache: Any, sig: Any, data: Any) -> None:
        folder = jit.cache_folder()
        assert folder is not None
        with (folder / "saving.lock").open("w") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        saved.append(sig)

    monkeypatch.setattr(FunctionCache, "save_overload", save)
    monkeypatch.setattr(FunctionCache, "load_overload", lambda *_: None)
    assert _doubled(21) == 42
    assert len(saved) == 1


def test_a_folder_without_locks_is_used_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with jit.one_process("saving"):
        pass


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


@contextmanager
def shown_bar(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, io.StringIO]]:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with bars.bar(show=True, total=100, unit="round") as bar:
        yield bar, screen


def test_a_bar_says_that_kernels_are_compiled_and_starts_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with shown_bar(monkeypatch) as (bar, screen):
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


def test_nothing_is_said_where_no_bar_is_shown(capsys: Any) -> None:
    with bars.bar(show=False, total=100), bars.compiling():
        pass
    assert capsys.readouterr().err == ""
