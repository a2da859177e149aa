"""Kernels are compiled before the first run of their kind, by a process and its helpers; whoever watches is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastldp import bars
from fastldp.engine.objective import Formulas
from fastldp.forking import available_cores
from fastldp.kernels import ahead, rounds
from fastldp.kernels.calling import Piece
from fastldp.kernels.jit import one_process

# So many seconds pass before what helpers have compiled is counted again.
LOOK_AGAIN = 0.2
# And so many before a process that may have been stopped is no longer waited for.
PATIENCE = 120.0


class Code(NamedTuple):
    """What is compiled for a kind of block: the formulas of its classes, what all methods share, what lays it out."""

    formulas: Formulas
    acts: Formulas
    pieces: dict[str, Piece]
    laying: Piece

    def all(self) -> list[Piece]:
        """What takes longest first."""
        of_classes = [piece for _, piece in (self.acts | self.formulas).values()]
        return [*self.pieces.values(), *of_classes, self.laying]


@contextmanager
def compiling(code: Code) -> Iterator[None]:
    """Inside, what is not compiled yet will be: what all methods share by helpers, on other cores."""
    if all(piece.is_compiled for piece in code.all()):
        yield
        return
    serial, parallel = rounds.loops()
    global _at_work
    _at_work += 1
    try:
        # Other processes that need the same wait for it, instead of taking the cores from this one.
        with bars.compiling(), one_process("compiling", PATIENCE):
            ahead.begin([*code.pieces.values(), parallel], available_cores() - 1)
            serial.compile()
            yield
    finally:
        _at_work -= 1


def is_compiling() -> bool:
    """Whether this process compiles now, so that there is nothing yet that a stop could keep."""
    return _at_work > 0


_at_work = 0


def missing_of(pieces: Iterable[Piece]) -> list[Piece]:
    """Those that are not compiled, each once."""
    return [piece for piece in {id(piece): piece for piece in pieces}.values() if not piece.is_compiled]


def compile_all(missing: Sequence[Piece], processes: int, *, done: Callable[[int], Any]) -> None:
    """Compile pieces into the cache, in several processes; `done` hears how many more are there."""
    with one_process("compiling", PATIENCE):
        helpers = ahead.begin(missing, processes)
        try:
            while missing and any(helper.poll() is None for helper in helpers):
                time.sleep(LOOK_AGAIN)
                before, missing = len(missing), missing_of(missing)
                done(before - len(missing))
        finally:
            for helper in helpers:
                helper.terminate()
        for piece in missing:
            piece.compile()
            done(1)
