"""The threshold that gradients are clipped to, where runs adapt it: released counts, and what is made of them.

A worker counts its gradients that are shorter than the threshold C, and releases the count over all samples of all
workers: in some rounds beside its gradient, and some times before the first round, when nothing has moved yet, alone.
The server adds these up to a noisy share p, and moves the threshold by ln C ← ln C − η(p − q), towards the quantile q;
before the first round it takes a multiple of what it has found. C is made of releases, so it is public, and so is the
pace, what the steps of the next rounds are multiplied by.

Counts before the first round have the rounds 0, −1, −2, ...
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.calling import call, found
from fastldp.kernels.chacha import COUNT, EARLY_COUNT
from fastldp.kernels.formulas import AS_FORMULAS_TAKE
from fastldp.kernels.gaussian import ENDS, WORDS, normals_of, store_words
from fastldp.kernels.jit import piece
from fastldp.kernels.privatize import EXACT, on_grid, privatize
from fastldp.kernels.release import Release
from fastldp.kernels.simd import (
    broadcast,
    fma,
    keep_apart,
    lane,
    load,
    maximum,
    minimum,
    scratch,
    select,
    store,
    words_like,
)
from fastldp.kernels.vmath import exp, log

Floats = NDArray[np.floating[Any]]


class Clipping(NamedTuple):
    """How the runs of a block adapt their thresholds."""

    counted: NDArray[np.int64]  # (rounds of the call,): whether some run counts in it
    gains: Floats  # (rounds of the call, lanes): η, 0 where a run does not count
    deviations: Floats  # (rounds of the call, lanes): of the noise in a count
    factors: Floats  # (n, lanes): what worker i multiplies it by
    part: float  # 1/M, what a sample is of all
    quantile: Floats  # (1, lanes): q
    factor: Floats  # (1, lanes): what C is multiplied by before the first round
    least: Floats  # (1, lanes): of C
    most: Floats  # (1, lanes)
    released: Floats  # (n, lanes): the counts of the round
    knots: Floats  # (knots, lanes): ln C where the steps bend
    bends: Floats  # (knots + 1, lanes): ln of the pace before them, and by how much its slope in ln C changes there


def _one_normal(address: Any, release: Any, like: Any) -> Any:
    """The normal and the dither of a count."""
    raise NotImplementedError("only compiled code calls this")


@overload(_one_normal, inline="always")
def _by_lanes_of_release(address: Any, release: Any, like: Any) -> Any:
    return _normal_of_runs if release.instance_class is Release else _normal_of_run


def _normal_of_runs(address: Any, release: Any, like: Any) -> Any:
    rows, ends = scratch(words_like(like), WORDS), scratch(like, ENDS)
    begin = store_words(rows, ends, release.keys, 0, True, address, like)
    found = normals_of(like, rows, ends, begin, 0)
    return found[0], found[2]


def _normal_of_run(address: Any, release: Any, like: Any) -> Any:
    lanes = load(release.normals, 0, 0)  # for its type: the key is the same in all
    rows, ends = scratch(words_like(lanes), WORDS), scratch(lanes, ENDS)
    begin = store_words(rows, ends, release.keys, 0, True, address, lanes)
    found = normals_of(lanes, rows, ends, begin, 0)
    return lane(found[0], 0), lane(found[2], 0)


def release_count(placed: Any, place: int, now: int, t: int, i: int, share: int) -> None:
    """Worker i's count of round t, which is round `now` of the call, released; nothing of runs that do not count."""
    _, state, _, _, release, seen, _, _, clipping = found(placed, place)[:9]
    deviation = load(clipping.deviations, now) * load(clipping.factors, i)
    query = load(state.inside, share) * clipping.part
    if release.mode != EXACT:
        address = abs(t), release.first + i, COUNT if t > 0 else EARLY_COUNT
        normal, dither = _one_normal(address, release, deviation)
        query = privatize(release.mode, query, on_grid(deviation), normal, dither)
    counts = load(clipping.gains, now) > 0.0
    store(select(counts, query, broadcast(0.0, query)), clipping.released, i)
    if seen.worker >= 0:
        store(select(counts, query, broadcast(np.nan, query)), seen.counts, now, i)


def count_early(placed: Any, place: int, t: int, begin: int, first: int, worker: int, end: int, share: int) -> None:
    """What a share of the workers does in a round before the first: a count each, at the start."""
    state, calls = found(placed, place)[1], found(placed, place)[7]
    for i in range(worker, end):
        call(calls.gradient, (place, i, min(i, state.points.shape[0] - 1), share, 1, t, 0))
        call(calls.tally, (place, t - first, t, i, share))


def adapt_early(placed: Any, place: int, t: int, first: int, end: int) -> None:
    """And the server."""
    call(found(placed, place)[7].adapt, (place, t - first, t))


def adapt(placed: Any, place: int, now: int, t: int) -> None:
    """The threshold and the pace of the next round, of the counts of round t, which is round `now` of the call."""
    method, _, objective, _, release, _, _, _, clipping = found(placed, place)[:9]
    if clipping.counted[now] != 0:
        _move(now, t, method, objective, release, clipping)
    else:
        store(load(method.paces, now), method.paces, now + 1)


@piece
def _move(now: int, t: int, method: Any, objective: Any, release: Any, clipping: Any) -> None:
    keep_apart()  # rare
    share = load(clipping.released, 0)
    for i in range(1, clipping.released.shape[0]):
        share = share + load(clipping.released, i)
    gain, before = load(clipping.gains, now), load(objective.clip, 0)
    moved = before * exp((load(clipping.quantile, 0) - share) * gain * AS_FORMULAS_TAKE)
    least, most, factor = load(clipping.least, 0), load(clipping.most, 0), load(clipping.factor, 0)
    if t < 0:
        # What is multiplied afterwards may be beyond the limit until then: no gradient is released yet.
        most = most / minimum(1.0, factor)
    elif t == 0:
        moved = moved * factor
    # In this order of arguments a NaN becomes the least.
    moved = minimum(most, maximum(moved, least))
    counts = gain > 0.0
    store(select(counts, moved, before), objective.clip, 0)
    store(select(counts, moved, load(release.unit, 0)), release.unit, 0)
    at, pace = log(moved * AS_FORMULAS_TAKE), load(clipping.bends, 0)
    for k in range(clipping.knots.shape[0]):
        pace = fma(load(clipping.bends, k + 1), maximum(at - load(clipping.knots, k), 0.0), pace)
    store(select(counts, exp(pace * AS_FORMULAS_TAKE), load(method.paces, now)), method.paces, now + 1)
