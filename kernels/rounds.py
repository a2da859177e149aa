"""The loop over rounds and workers that all methods share.

A call runs rounds from `first` on, in stretches, on the state it is given. After a stretch the state is ready to be
measured, and for the next: a run can be cut into stretches and calls anywhere without changing a bit. The workers are
cut into shares, one a thread: (first worker, the one after the last, number of the share). A share has scratch of its
own to work in. A worker is visited once a round: what it does with the last broadcast, and its next releases.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import prange

from fastldp.kernels.barrier import await_end, claim, end_round, finish
from fastldp.kernels.formulas import Objective
from fastldp.kernels.gradient import Samples
from fastldp.kernels.jit import formula, parallel, piece, serial
from fastldp.kernels.methods import AIM, MESSAGE, RECEIVE, SERVE, START, TAKE, Method, State, act, put
from fastldp.kernels.metrics import measure
from fastldp.kernels.release import Transcript, flip, note_failures, release_gradient
from fastldp.kernels.simd import keep_apart, load, store


class Records(NamedTuple):
    """What is measured at the end of every stretch of a call, and by what."""

    optimum: Any  # (d, lanes)
    means: Any  # (stretches, d, lanes)
    consensus: Any  # (stretches, lanes)
    distance: Any  # (stretches, lanes)


@piece
def _visit(
    t: int,
    begin: int,
    first: int,
    workers: tuple[int, int, int],
    place: int,
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> None:
    """Round t of a share of the workers."""
    keep_apart()  # a function of its own, for its registers
    now, share = t - first, workers[2]
    for i in range(workers[0], workers[1]):
        if t > begin:
            act(method, RECEIVE, place, i, 0, now, t, share)
        act(method, START, place, i, 0, now, t, share)
        for k in range(method.local_steps):
            row, steps = min(i, state.points.shape[0] - 1), method.local_steps
            release_gradient(now, (t, i, k), steps, state.points, row, share, state, samples, objective, release)
            act(method, TAKE, place, i, k, now, t, share)
            if i == seen.worker:
                act(method, MESSAGE, place, i, k, now, t, share)
                for j in range(state.points.shape[1]):
                    store(load(state.gradient, share, j), seen.messages, now * method.local_steps + k, j)


@piece
def _serve(t: int, first: int, end: int, place: int, state: Any, method: Any, release: Any, seen: Any) -> None:
    """The server's part of round t, after those of all workers."""
    keep_apart()
    if method.coins:
        flip(t, state, release)
    act(method, SERVE, place, 0, 0, t - first, t, 0)
    note_failures(t, state.checked, 0, state.failed)
    if seen.worker >= 0:
        for j in range(state.sent.shape[1]):
            store(load(state.sent, 0, j), seen.broadcasts, t - first, j)
    if t + 1 < end:
        act(method, AIM, place, 0, 0, t + 1 - first, t + 1, 0)


@piece
def _take_part(
    k: int,
    begin: int,
    end: int,
    first: int,
    cuts: Any,
    barrier: Any,
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> None:
    """What thread k does of the rounds [begin, end), of a call from round `first` on."""
    keep_apart()  # a function of its own, which both kernels below share
    place = put((method, state, objective))
    shares = cuts.size - 1
    for t in range(begin, end):
        for beside in range(shares):
            share = (k + beside) % shares
            if claim(barrier, share, t - first):
                workers = (cuts[share], cuts[share + 1], share)
                _visit(t, begin, first, workers, place, state, samples, objective, method, release, seen)
                if finish(barrier, t - first):
                    _serve(t, first, end, place, state, method, release, seen)
                    end_round(barrier, t - first)
        await_end(barrier, t - first)
    for i in range(cuts[k], cuts[k + 1]):
        act(method, RECEIVE, place, i, 0, end - 1 - first, end - 1, k)


@formula
def _enter(now: int, t: int, state: Any, objective: Any, method: Any) -> None:
    """The server's part before a stretch, whose first round is t, number `now` of the call's."""
    act(method, AIM, put((method, state, objective)), 0, 0, now, t, 0)


@serial
def run_serial(
    ends: Any,
    cuts: Any,
    barrier: Any,
    state: State,
    samples: Samples,
    objective: Objective,
    method: Method,
    release: Any,
    seen: Transcript,
    records: Records,
) -> None:
    """Stretches after round ends[0] to round ends[1] and so on, measured, in the calling thread: there is one share."""
    first = ends[0] + 1
    for k in range(ends.size - 1):
        begin, end = ends[k] + 1, ends[k + 1] + 1
        _enter(begin - first, begin, state, objective, method)
        _take_part(np.int64(0), begin, end, first, cuts, barrier, state, samples, objective, method, release, seen)
        measure(k, state.models, records.optimum, records.means, records.consensus, records.distance)


@parallel
def run_parallel(
    first: int,
    last: int,
    cuts: Any,
    barrier: Any,
    state: State,
    samples: Samples,
    objective: Objective,
    method: Method,
    release: Any,
    seen: Transcript,
) -> None:
    """One stretch [first, last) on Numba's threads, with the same bits: share k has the workers from cuts[k] on."""
    _enter(np.int64(0), first, state, objective, method)
    for k in prange(cuts.size - 1):
        _take_part(np.int64(k), first, last, first, cuts, barrier, state, samples, objective, method, release, seen)
