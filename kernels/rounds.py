"""The loop over rounds and workers that all methods share: what a method does in it is chosen by its type of numbers.

A call runs rounds from `first` on, in stretches, on the state it is given. After a stretch the state is ready to be
measured, and for the next: a run can be cut into stretches and calls anywhere without changing a bit. The workers are
cut into shares, one a thread: (first worker, the one after the last, number of the share). A share has rooms of its own
to work in.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numba.extending import overload

from fastldp.kernels.formulas import Objective
from fastldp.kernels.gradient import Samples
from fastldp.kernels.jit import parallel, piece, serial
from fastldp.kernels.meeting import await_end, claim, end_round, finish
from fastldp.kernels.metrics import measure
from fastldp.kernels.release import Transcript
from fastldp.kernels.simd import keep_apart


def nothing(now: Any, state: Any, method: Any) -> Any:
    """For methods that have nothing to do before the first round."""


def nothing_of(workers: Any, state: Any, objective: Any, method: Any) -> Any:
    """For methods whose workers have nothing to do after the last round."""


class Steps(NamedTuple):
    """What a method does in a call from round `first` on, in a stretch of the rounds [begin, end)."""

    visit: Callable[..., Any]
    """(t, begin, first, workers, state, samples, objective, method, release, seen): round t of some of the workers."""
    serve: Callable[..., Any]
    """(t, first, end, state, objective, method, seen): the server's part of round t, after those of all workers."""
    enter: Callable[..., Any] = nothing
    """(now, state, method): the server's part before a stretch, whose first round is number `now` of the call's."""
    leave: Callable[..., Any] = nothing_of
    """(workers, state, objective, method): the part of a share of the workers after the last round of a stretch."""


# By the type of the method's numbers.
STEPS: dict[type, Steps] = {}


def _visit(
    t: Any,
    begin: Any,
    first: Any,
    workers: Any,
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> Any:
    raise NotImplementedError("only compiled code calls this")


def _serve(t: Any, first: Any, end: Any, state: Any, objective: Any, method: Any, seen: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


def _enter(now: Any, state: Any, method: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


def _leave(workers: Any, state: Any, objective: Any, method: Any) -> Any:
    raise NotImplementedError("only compiled code calls this")


@overload(_visit, inline="always")
def _visit_of(
    t: Any,
    begin: Any,
    first: Any,
    workers: Any,
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> Any:
    return STEPS[method.instance_class].visit


@overload(_serve, inline="always")
def _serve_of(t: Any, first: Any, end: Any, state: Any, objective: Any, method: Any, seen: Any) -> Any:
    return STEPS[method.instance_class].serve


@overload(_enter, inline="always")
def _enter_of(now: Any, state: Any, method: Any) -> Any:
    return STEPS[method.instance_class].enter


@overload(_leave, inline="always")
def _leave_of(workers: Any, state: Any, objective: Any, method: Any) -> Any:
    return STEPS[method.instance_class].leave


class Records(NamedTuple):
    """What is measured at the end of every stretch of a call, and by what."""

    models: Any  # (n, d, lanes) or (1, d, lanes): of the state
    optimum: Any  # (d, lanes)
    means: Any  # (stretches, d, lanes)
    consensus: Any  # (stretches, lanes)
    distance: Any  # (stretches, lanes)


@piece
def _take_part(
    k: int,
    begin: int,
    end: int,
    first: int,
    cuts: Any,
    met: Any,
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> None:
    """What thread k does of the rounds [begin, end), of a call from round `first` on."""
    keep_apart()  # a function of its own, which both kernels below share
    shares = cuts.size - 1
    for t in range(begin, end):
        for beside in range(shares):
            share = (k + beside) % shares
            if claim(met, share, t - first):
                _visit(
                    t,
                    begin,
                    first,
                    (cuts[share], cuts[share + 1], share),
                    state,
                    samples,
                    objective,
                    method,
                    release,
                    seen,
                )
                if finish(met, t - first):
                    _serve(t, first, end, state, objective, method, seen)
                    end_round(met, t - first)
        await_end(met, t - first)
    _leave((cuts[k], cuts[k + 1], k), state, objective, method)


@serial
def run_serial(
    ends: Any,
    cuts: Any,
    met: Any,
    state: Any,
    samples: Samples,
    objective: Objective,
    method: Any,
    release: Any,
    seen: Transcript,
    records: Records,
) -> None:
    """Stretches after round ends[0] to round ends[1] and so on, measured, in the calling thread: there is one share."""
    first = ends[0] + 1
    for k in range(ends.size - 1):
        begin, end = ends[k] + 1, ends[k + 1] + 1
        _enter(begin - first, state, method)
        _take_part(np.int64(0), begin, end, first, cuts, met, state, samples, objective, method, release, seen)
        measure(k, records.models, records.optimum, records.means, records.consensus, records.distance)


@parallel
def run_parallel(
    first: int,
    last: int,
    cuts: Any,
    met: Any,
    state: Any,
    samples: Samples,
    objective: Objective,
    method: Any,
    release: Any,
    seen: Transcript,
) -> None:
    """One stretch [first, last) on Numba's threads, with the same bits: share k has the workers from cuts[k] on."""
    _enter(np.int64(0), state, method)
    for k in prange(cuts.size - 1):
        _take_part(np.int64(k), first, last, first, cuts, met, state, samples, objective, method, release, seen)
