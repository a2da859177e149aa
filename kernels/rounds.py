"""The loop over rounds and workers that all methods share: what a method does in it is chosen by its type of numbers.

A call runs the rounds [first, last) on the state it is given and leaves it ready for the next call, so a run can be
cut into calls anywhere without changing a bit. The workers are cut into shares, one a thread: (first worker, the one
after the last, number of the share). A share has rooms of its own to work in.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numba.extending import overload

from fastldp.kernels.gradient import Samples
from fastldp.kernels.jit import parallel, piece, serial
from fastldp.kernels.meeting import await_end, claim, end_round, finish
from fastldp.kernels.release import Transcript
from fastldp.kernels.simd import keep_apart


def nothing(state: Any, method: Any) -> Any:
    """For methods that have nothing to do before the first round."""


def nothing_of(workers: Any, state: Any, method: Any) -> Any:
    """For methods whose workers have nothing to do after the last round."""


class Steps(NamedTuple):
    """What a method does in a call."""

    visit: Callable[..., Any]
    """(t, first, workers, state, samples, method, release, seen): round t of a share of the workers."""
    serve: Callable[..., Any]
    """(t, first, last, state, method, seen): the server's part of round t, once all workers have had theirs."""
    enter: Callable[..., Any] = nothing
    """(state, method): the server's part before the first round of the call."""
    leave: Callable[..., Any] = nothing_of
    """(workers, state, method): the part of a share of the workers after the last round of the call."""


# By the type of the method's numbers.
STEPS: dict[type, Steps] = {}


def _visit(t: Any, first: Any, workers: Any, state: Any, samples: Any, method: Any, release: Any, seen: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


def _serve(t: Any, first: Any, last: Any, state: Any, method: Any, seen: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


def _enter(state: Any, method: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


def _leave(workers: Any, state: Any, method: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


@overload(_visit, inline="always")
def _visit_of(t: Any, first: Any, workers: Any, state: Any, samples: Any, method: Any, release: Any, seen: Any) -> Any:
    return STEPS[method.instance_class].visit


@overload(_serve, inline="always")
def _serve_of(t: Any, first: Any, last: Any, state: Any, method: Any, seen: Any) -> Any:
    return STEPS[method.instance_class].serve


@overload(_enter, inline="always")
def _enter_of(state: Any, method: Any) -> Any:
    return STEPS[method.instance_class].enter


@overload(_leave, inline="always")
def _leave_of(workers: Any, state: Any, method: Any) -> Any:
    return STEPS[method.instance_class].leave


@piece
def _take_part(
    k: int, first: int, last: int, cuts: Any, met: Any, state: Any, samples: Any, method: Any, release: Any, seen: Any
) -> None:
    """What thread k does of the rounds [first, last)."""
    keep_apart()  # a function of its own, which both kernels below share
    shares = cuts.size - 1
    for t in range(first, last):
        for beside in range(shares):
            share = (k + beside) % shares
            if claim(met, share, t - first):
                _visit(t, first, (cuts[share], cuts[share + 1], share), state, samples, method, release, seen)
                if finish(met, t - first):
                    _serve(t, first, last, state, method, seen)
                    end_round(met, t - first)
        await_end(met, t - first)
    _leave((cuts[k], cuts[k + 1], k), state, method)


@serial
def run_serial(
    first: int,
    last: int,
    cuts: Any,
    met: Any,
    state: Any,
    samples: Samples,
    method: Any,
    release: Any,
    seen: Transcript,
) -> None:
    """Rounds [first, last), in the calling thread: there is one share."""
    _enter(state, method)
    _take_part(np.int64(0), first, last, cuts, met, state, samples, method, release, seen)


@parallel
def run_parallel(
    first: int,
    last: int,
    cuts: Any,
    met: Any,
    state: Any,
    samples: Samples,
    method: Any,
    release: Any,
    seen: Transcript,
) -> None:
    """The same on Numba's threads, with the same bits: worker i is in share k where cuts[k] <= i < cuts[k + 1]."""
    _enter(state, method)
    for k in prange(cuts.size - 1):
        _take_part(np.int64(k), first, last, cuts, met, state, samples, method, release, seen)
