# mypy: allow-untyped-calls, allow-untyped-decorators
"""Threads that go through many rounds together, inside one parallel loop.

To begin and end a parallel loop in every round takes a fifth of a small run's time. So one loop spans all rounds of a
call, and its threads meet in memory. Each round is cut into shares. A thread claims its own share, then whatever share
nobody has claimed yet; who finishes the last one ends the round for all. A thread waits only for shares that another
one is at work on: where the threads of the loop take turns instead of running side by side, the first does everything.

A barrier is an array of `shares + 2` cache lines: how many rounds of each share are claimed, how many shares are
finished, how many rounds have ended.
"""

import os
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import Signature, signature
from numpy.typing import NDArray

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import Typed, aligned_zeros, intrinsic

LINE = 8  # numbers in a cache line
# A thread that has looked so often lets others run, if any wait for its core.
PATIENCE = 10_000


def barrier(shares: int) -> NDArray[np.int64]:
    """Of threads that have not begun."""
    return aligned_zeros((shares + 2, LINE), np.int64)


@formula
def claim(barrier: Any, share: int, done: int) -> Any:
    """Whether the caller gets this share of the round after `done` others."""
    # Looking takes no cache line from whoever claimed it; of many threads each looks at all shares in every round.
    return _read(barrier, share) == done and _swap(barrier, share, done)


@formula
def finish(barrier: Any, done: int) -> Any:
    """A share of the round after `done` others is finished; whether it was the last one."""
    shares = barrier.shape[0] - 2
    return _add_one(barrier, shares) == (done + 1) * shares


@formula
def end_round(barrier: Any, done: int) -> None:
    """All may go on to the next round."""
    _write(barrier, barrier.shape[0] - 1, done + 1)


@formula
def await_end(barrier: Any, done: int) -> None:
    """Until the round after `done` others has ended."""
    looks = 0
    while _read(barrier, barrier.shape[0] - 1) <= done:
        looks += 1
        if looks % PATIENCE == 0:
            _let_others_run()
        else:
            _pause()


# Atomic operations on the first number of a line.
def _of_line(emit: Any, returned: Any, *values: Any) -> Typed:
    array = types.Array(types.int64, 2, "C")

    def lower(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        return emit(builder, builder.gep(view.data, [builder.mul(args[1], ir.IntType(64)(LINE))]), *args[2:])

    return signature(returned, array, types.intp, *values), lower


@intrinsic
def _swap(context: Any, barrier: Any, line: Any, old: Any) -> Typed:
    """Whether the number was `old`, and is one more now."""

    def emit(builder: Any, place: Any, old: Any) -> Any:
        new = builder.add(old, old.type(1))
        return builder.extract_value(builder.cmpxchg(place, old, new, "acq_rel", "acquire"), 1)

    return _of_line(emit, types.boolean, types.int64)


@intrinsic
def _add_one(context: Any, barrier: Any, line: Any) -> Typed:
    """The number, with one added to it."""

    def emit(builder: Any, place: Any) -> Any:
        one = ir.IntType(64)(1)
        return builder.add(builder.atomic_rmw("add", place, one, "acq_rel"), one)

    return _of_line(emit, types.int64)


@intrinsic
def _read(context: Any, barrier: Any, line: Any) -> Typed:
    """The number, and with it all that was written before it."""
    return _of_line(lambda builder, place: builder.load_atomic(place, "acquire", 8), types.int64)


@intrinsic
def _write(context: Any, barrier: Any, line: Any, value: Any) -> Typed:
    """The number, after all that was written before."""

    def emit(builder: Any, place: Any, value: Any) -> Any:
        builder.store_atomic(value, place, "release", 8)
        return ir.Constant(ir.IntType(8).as_pointer(), None)

    return _of_line(emit, types.none, types.int64)


def _call_if(possible: bool, name: str, returned: Any) -> Typed:
    """A call of a function without arguments, on machines that have it."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        if possible:
            function = ir.FunctionType(returned, [])
            builder.call(cgutils.get_or_insert_function(builder.module, function, name), [])
        return context.get_dummy_value()

    return signature(types.none), emit


@intrinsic
def _pause(context: Any) -> Typed:
    """Tell the core that it is waiting."""
    return _call_if("x86" in binding.get_default_triple(), "llvm.x86.sse2.pause", ir.VoidType())


@intrinsic
def _let_others_run(context: Any) -> Typed:
    return _call_if(hasattr(os, "sched_yield"), "sched_yield", ir.IntType(32))
