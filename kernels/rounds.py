# mypy: allow-untyped-calls
"""The loop over rounds and workers that all methods share.

A call runs rounds from `first` on, in stretches, on the block of runs that it is given. After a stretch the state is
ready to be measured, and for the next: a run can be cut into stretches and calls anywhere without changing a bit. The
workers are cut into shares, one a thread: (first worker, the one after the last, number of the share). A share has
scratch of its own to work in. A worker is visited once a round: what it does with the last broadcast, and its next
releases.

The loop itself knows nothing but addresses, so it is compiled once; what it calls is compiled for each kind of block.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import prange, typeof, types

from fastldp.kernels.attendance import anybody, attend, bring_back, everybody, keep, serve_nobody, unsay, weigh
from fastldp.kernels.barrier import await_end, claim, end_round, finish
from fastldp.kernels.calling import Piece, Placed, call, found, likeness, once
from fastldp.kernels.clipping import Clipping, adapt, adapt_early, count_early, release_count
from fastldp.kernels.formulas import Objective, row_of
from fastldp.kernels.jit import formula, parallel, piece, serial
from fastldp.kernels.methods import AIM, MESSAGE, RECEIVE, SERVE, START, TAKE, TELL, Method, State, act
from fastldp.kernels.metrics import measure
from fastldp.kernels.mixing import toss
from fastldp.kernels.release import Transcript, flip, note_failures, release, sum_gradients
from fastldp.kernels.replay import no_gradient, take_count, take_release
from fastldp.kernels.sampling import Drawing
from fastldp.kernels.simd import keep_apart, load, store

# What each worker keeps is looked at once in so many rounds: what is not finite stays so, and spreads.
LOOKED_AT = 8


class Records(NamedTuple):
    """What is measured at the end of every stretch of a call, and by what."""

    optimum: Any  # (d, lanes)
    means: Any  # (stretches, d, lanes)
    consensus: Any  # (stretches, lanes)
    distance: Any  # (stretches, lanes)
    threshold: Any  # (stretches, lanes): what gradients are clipped to in the round that follows


class Calls(NamedTuple):
    """What the loop and the parts of a round call: where it is compiled."""

    visit: int = 0
    gradient: int = 0
    release: int = 0
    serve: int = 0
    measure: int = 0
    coins: int = 0  # 0 where the server has no public number
    toss: int = 0  # 0 where no link between workers is ever missing
    attend: int = 0  # 0 where all workers take part, as is the one that follows
    hear: int = 0
    tally: int = 0  # 0 where no run adapts its threshold, as are those that follow
    adapt: int = 0
    count_early: int = 0
    adapt_early: int = 0
    acts: int = 0
    does: int = 0


class Laid(NamedTuple):
    """Everything that a call is about; the acts of methods know the first three."""

    method: Method
    state: State
    objective: Objective
    samples: Any
    release: Any
    seen: Transcript
    records: Records
    calls: Calls
    clipping: Clipping
    drawing: Drawing


def replaying(laid: tuple[Any, ...]) -> dict[str, Piece]:
    """What stands for gradients, releases and counts where others have made these."""

    def made() -> dict[str, Piece]:
        placed, number = Placed(typeof(laid)), types.intp
        texts = {"gradient": (no_gradient, 7), "release": (take_release, 6), "tally": (take_count, 5)}
        return {name: Piece(text, placed, *[number] * count) for name, (text, count) in texts.items()}

    return once((replaying, likeness(laid)), made)


def pieces_of(laid: tuple[Any, ...], *, coins: bool, tosses: bool, attending: bool, adaptive: bool) -> dict[str, Piece]:
    """What is compiled for blocks like this, whatever the method, and what flips coins or counts if there is any."""

    def made() -> dict[str, Piece]:
        placed, number = Placed(typeof(laid)), types.intp
        # Those that take longest come first; each takes the place of a block, and some numbers.
        texts = {"gradient": (sum_gradients, 7), "release": (release, 6), "visit": (_visit, 7), "serve": (_serve, 4)}
        texts |= {"measure": (_measure, 3)} | ({"coins": (flip, 2)} if coins else {})
        texts |= {"toss": (toss, 2)} if tosses else {}
        texts |= {"attend": (attend, 2), "hear": (_hear, 5)} if attending else {}
        if adaptive:
            texts |= {"tally": (release_count, 5), "adapt": (adapt, 3)}
            texts |= {"count_early": (count_early, 7), "adapt_early": (adapt_early, 4)}
        return {name: Piece(text, placed, *[number] * count) for name, (text, count) in texts.items()}

    return once((_visit, likeness(laid), coins, tosses, attending, adaptive), made)


def _visit(placed: Any, place: int, t: int, begin: int, first: int, worker: int, end: int, share: int) -> None:
    """Round t of a share of the workers."""
    method, state, _, _, _, seen, _, calls, clipping = found(placed, place)[:9]
    now, steps = t - first, method.local_steps
    counting = calls.tally != 0 and clipping.counted[now] != 0
    who = method.attendance
    choosing = calls.attend != 0 and not who.secret
    for i in range(worker, end):
        if t > begin:
            _receive(calls, place, i, now - 1, t - 1, share)
        if state.checked.shape[0] > 1 and (t + i) % LOOKED_AT == 0:
            note_failures(t - 1, state.checked, i, state.failed)
        if choosing and not anybody(who, t, i):
            if i == seen.worker:
                unsay(who, seen.messages, t, i, now * steps, steps)
            continue
        if choosing and not everybody(who, t, i):
            keep(who, state.workers, i, share)
        act(method, START, place, i, 0, now, t, share)
        for k in range(steps):
            row = min(i, state.points.shape[0] - 1)
            if state.points.shape[0] == 2 * state.workers.shape[1]:  # there are two, in turns
                row = i + (t & 1) * state.workers.shape[1]
            counts = counting and k == 0  # at the first point of a round
            call(calls.gradient, (place, i, row, share, int(counts), t, k))
            call(calls.release, (place, now, t, i, k, share))
            if counts:
                call(calls.tally, (place, now, t, i, share))
            act(method, TAKE, place, i, k, now, t, share)
            if i == seen.worker:
                # Where the gradient was made there is room for it.
                act(method, MESSAGE, place, i, k, now, t, share)
                sent = state.scaled if method.does & MESSAGE else state.gradient
                for j in range(state.points.shape[1]):
                    store(load(sent, share, j), seen.messages, now * steps + k, j)
        if choosing and not everybody(who, t, i):
            bring_back(who, state.workers, t, i, share)
            if i == seen.worker:
                unsay(who, seen.messages, t, i, now * steps, steps)


def _hear(placed: Any, place: int, i: int, now: int, t: int, share: int) -> None:
    """What worker i does after the server's step of round t, if it has taken part."""
    method, state = found(placed, place)[:2]
    who = method.attendance
    if who.secret or everybody(who, t, i):
        act(method, RECEIVE, place, i, 0, now, t, share)
    elif anybody(who, t, i):
        keep(who, state.workers, i, share)
        act(method, RECEIVE, place, i, 0, now, t, share)
        bring_back(who, state.workers, t, i, share)


@formula
def _receive(calls: Any, place: int, i: int, now: int, t: int, share: int) -> None:
    if calls.attend != 0:
        call(calls.hear, (place, i, now, t, share))
    else:
        act(calls, RECEIVE, place, i, 0, now, t, share)


def _serve(placed: Any, place: int, t: int, first: int, end: int) -> None:
    """The server's part of round t, after those of all workers."""
    method, state, _, _, _, seen, _, calls = found(placed, place)[:8]
    if calls.coins != 0:
        call(calls.coins, (place, t))
    if calls.toss != 0:
        call(calls.toss, (place, t))
    who = method.attendance
    if calls.attend != 0 and not who.secret:
        some = weigh(who, method.shares, state.server, t)
        act(method, SERVE, place, 0, 0, t - first, t, 0)
        serve_nobody(who, state.server, some)
    else:
        act(method, SERVE, place, 0, 0, t - first, t, 0)
    if state.checked.shape[0] == 1:
        note_failures(t, state.checked, 0, state.failed)
    if calls.adapt != 0:
        call(calls.adapt, (place, t - first, t))
    if seen.worker >= 0:
        act(method, TELL, place, seen.worker, 0, t - first, t, 0)
        for j in range(state.sent.shape[1]):
            store(load(state.sent, 0, j), seen.broadcasts, t - first, j)
    if t + 1 < end:
        if calls.attend != 0:
            call(calls.attend, (place, t + 1))
        act(method, AIM, place, 0, 0, t + 1 - first, t + 1, 0)


def _measure(placed: Any, place: int, k: int, t: int) -> None:
    """What is recorded after stretch k, which ends after round t."""
    _, state, objective, _, _, _, records = found(placed, place)[:7]
    turn = (t + 1) & (state.models.shape[0] - 1)
    measure(k, row_of(state.models, turn), records.optimum, records.means, records.consensus, records.distance)
    store(load(objective.clip, 0), records.threshold, k)


@piece
def _take_part(k: int, begin: int, end: int, first: int, cuts: Any, barrier: Any, place: int, calls: Any) -> None:
    """What thread k does of the rounds [begin, end), of a call from round `first` on."""
    keep_apart()  # a function of its own, which both kernels below share
    shares = cuts.size - 1
    for t in range(begin, end):
        for beside in range(shares):
            share = (k + beside) % shares
            if claim(barrier, share, t - first):
                call(calls.visit, (place, t, begin, first, cuts[share], cuts[share + 1], share))
                if finish(barrier, t - first):
                    call(calls.serve, (place, t, first, end))
                    end_round(barrier, t - first)
        await_end(barrier, t - first)
    for i in range(cuts[k], cuts[k + 1]):
        _receive(calls, place, i, end - 1 - first, end - 1, k)


@serial
def run_serial(ends: Any, cuts: Any, barrier: Any, place: int, calls: Calls) -> None:
    """Stretches after round ends[0] to round ends[1] and so on, measured, in the calling thread: there is one share."""
    first = ends[0] + 1
    for k in range(ends.size - 1):
        begin, end = ends[k] + 1, ends[k + 1] + 1
        if calls.attend != 0:
            call(calls.attend, (place, begin))
        act(calls, AIM, place, 0, 0, begin - first, begin, 0)
        _take_part(np.int64(0), begin, end, first, cuts, barrier, place, calls)
        call(calls.measure, (place, k, end - 1))


@parallel
def run_parallel(ends: Any, cuts: Any, barrier: Any, place: int, calls: Calls) -> None:
    """One stretch on Numba's threads, with the same bits: share k has the workers from cuts[k] on."""
    first, last = ends[0] + 1, ends[1] + 1
    if calls.attend != 0:
        call(calls.attend, (place, first))
    act(calls, AIM, place, 0, 0, 0, first, 0)
    for k in prange(cuts.size - 1):
        _take_part(np.int64(k), first, last, first, cuts, barrier, place, calls)
    call(calls.measure, (place, 0, last - 1))


@serial
def prepare(t: int, workers: int, place: int, calls: Calls) -> None:
    """What happens in round t before its releases, by itself."""
    act(calls, AIM, place, 0, 0, 0, t, 0)
    for i in range(workers):
        act(calls, START, place, i, 0, 0, t, 0)


def loops() -> tuple[Piece, Piece]:
    """Both kernels, which are compiled once: the serial one and the parallel one."""
    numbers = types.int64[::1]
    kinds = numbers, numbers, types.int64[:, ::1], types.int64, typeof(Calls())
    return once((run_serial, run_parallel), lambda: (Piece(run_serial, *kinds), Piece(run_parallel, *kinds)))
