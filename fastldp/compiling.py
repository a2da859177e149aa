"""Before the first run of a kind its kernels are compiled: said to whoever watches, by one process and its helpers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from fastldp import bars
from fastldp.forking import available_cores
from fastldp.kernels import ahead, rounds
from fastldp.kernels.calling import Piece
from fastldp.kernels.jit import one_process


@contextmanager
def compiling(common: Collection[Piece], formulas: Collection[Piece]) -> Iterator[None]:
    """Inside, what is not compiled yet will be: what all methods share by helpers, on other cores."""
    if all(piece.is_compiled for piece in (*common, *formulas)):
        yield
        return
    serial, parallel = rounds.loops()
    # Other processes that need the same wait for it, instead of taking the cores from this one.
    with bars.compiling(), one_process("compiling"):
        ahead.begin([*common, parallel], available_cores() - 1)
        serial.compile()
        yield
