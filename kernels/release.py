"""What all methods share: a worker's gradient at a point, with the noise of its address, released.

In run lanes all arrays end in the lane axis, X[n, d, lanes] and so on, and whatever may differ between the runs of a
block is a vector of lanes. In sample lanes there is one run, the arrays lack that axis, and the lanes hold samples
(in the gradient) and rounds (in the noise). `load` tells the two apart by shape, so the text is the same. Parallel
loops turn arrays without axes into scalars, so a single number of a run is kept as an array of one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.gaussian import ENDS, WORDS, normals_of, store_draw, store_group, store_words
from fastldp.kernels.gradient import store_gradient
from fastldp.kernels.jit import formula, piece, serial
from fastldp.kernels.privatize import EXACT, on_grid, privatize
from fastldp.kernels.simd import (
    all_lanes,
    broadcast,
    convert,
    fma,
    keep_apart,
    lane,
    lane_numbers,
    load,
    room,
    store,
    words_like,
)

Floats = NDArray[np.floating[Any]]


class Release(NamedTuple):
    """How the queries of a block of runs are released."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the noise key of each run
    deviations: Floats  # (rounds of the call, lanes): ξ_t
    factors: Floats  # (n, lanes): what worker i multiplies it by
    weight: Floats  # (n,): what a query is of the sum of a worker's gradients


class SingleRelease(NamedTuple):
    """How the queries of one run are released: its noise is made for as many rounds at once as there are lanes."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the key of the run, in every lane
    deviations: Floats  # (rounds of the call,)
    factors: Floats  # (n,)
    weight: Floats  # (n,)
    normals: Floats  # (n, lanes, d or d + 1, whichever is even): those of as many rounds as there are lanes
    dithers: Floats  # the same
    drawn: NDArray[np.int64]  # (n,): which of the groups of so many rounds each worker's noise is for


class LongRelease(NamedTuple):
    """How the queries of one run of many coordinates are released: the lanes of its noise hold coordinates."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the key of the run, in every lane
    deviations: Floats  # (rounds of the call,)
    factors: Floats  # (n,)
    weight: Floats  # (n,)
    normals: Floats  # (n, lanes, 16): those of as many groups of coordinates as there are lanes
    dithers: Floats  # the same


class Transcript(NamedTuple):
    """The messages of one worker and what the server answered; nothing is kept where the worker is −1."""

    worker: int
    messages: Floats  # (releases of the call, d, lanes)
    broadcasts: Floats  # (rounds of the call, d, lanes)


# What each method does with a coordinate of a release, by the type of its numbers.
TAKERS: dict[type, Callable[..., None]] = {}


def take(i: Any, j: Any, h: Any, state: Any, method: Any) -> Any:
    """Coordinate j of what worker i releases, for the method to use."""
    raise NotImplementedError("only compiled code calls this")


@overload(take, inline="always")
def _by_type_of_method(i: Any, j: Any, h: Any, state: Any, method: Any) -> Any:
    return TAKERS[method.instance_class]


@formula
def release_gradient(
    now: int,
    t: int,
    purpose: int,
    i: int,
    points: Any,
    row: int,
    share: int,
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
) -> None:
    """Release worker i's gradient at points[row]; the method takes it coordinate by coordinate.

    The noise is that of round t, which is round `now` of the call, and of a purpose. The rooms are those of a share.
    """
    d = points.shape[1]
    store_gradient(objective, samples, i, points, row, state, share)
    if release.mode == EXACT:
        for j in range(d):
            h = load(state.gradient, share, j) * load(release.weight, i)
            take(i, j, h, state, method)
    else:
        _add_noise(now, t, purpose, i, d, share, state, method, release)


def _add_noise(
    now: Any, t: Any, purpose: Any, i: Any, d: Any, share: Any, state: Any, method: Any, release: Any
) -> Any:
    """Worker i's releases of the d numbers in `state.gradient[share]`, by the type of the release."""
    raise NotImplementedError("only compiled code calls this")


@overload(_add_noise, inline="always")
def _by_type_of_release(
    now: Any, t: Any, purpose: Any, i: Any, d: Any, share: Any, state: Any, method: Any, release: Any
) -> Any:
    kinds = {Release: _noise_of_runs, SingleRelease: _noise_of_rounds, LongRelease: _noise_of_coordinates}
    return kinds[release.instance_class]


def _noise_of_runs(
    now: Any, t: Any, purpose: Any, i: Any, d: Any, share: Any, state: Any, method: Any, release: Any
) -> Any:
    deviation = load(release.deviations, now) * load(release.factors, i)
    weight = load(release.weight, i)
    common = on_grid(deviation)
    rows, ends = room(words_like(deviation), WORDS), room(deviation, ENDS)
    for group in range((d + 15) // 16):
        j = 16 * group
        begin = store_words(rows, ends, release.keys, group, d - j <= 8, (t, i, purpose), deviation)
        for k in range(0, min(16, d - j), 2):
            n0, n1, u0, u1 = normals_of(deviation, rows, ends, begin, k)
            h0 = privatize(release.mode, load(state.gradient, share, j + k) * weight, common, n0, u0)
            take(i, j + k, h0, state, method)
            if j + k + 1 < d:
                h1 = privatize(release.mode, load(state.gradient, share, j + k + 1) * weight, common, n1, u1)
                take(i, j + k + 1, h1, state, method)


def _noise_of_rounds(
    now: Any, t: Any, purpose: Any, i: Any, d: Any, share: Any, state: Any, method: Any, release: Any
) -> Any:
    lane_of_t = t % release.normals.shape[1]
    weight = load(release.weight, i)
    common = on_grid(load(release.deviations, now) * load(release.factors, i))
    for j in range(d):
        normal, dither = load(release.normals, i, lane_of_t, j), load(release.dithers, i, lane_of_t, j)
        h = privatize(release.mode, load(state.gradient, share, j) * weight, common, normal, dither)
        take(i, j, h, state, method)


def _noise_of_coordinates(
    now: Any, t: Any, purpose: Any, i: Any, d: Any, share: Any, state: Any, method: Any, release: Any
) -> Any:
    several = 16 * release.normals.shape[1]
    weight = load(release.weight, i)
    common = on_grid(load(release.deviations, now) * load(release.factors, i))
    # A last group of eight or fewer is made in another way, and so alone.
    full = d - d % 16 if d % 16 <= 8 else d
    batches = (full + several - 1) // several
    for batch in range(batches + 1 if full < d else batches):
        first, end = min(batch * several, full), min(batch * several + several, full) if batch < batches else d
        _draw_groups(first // 16, end - first, t, i, purpose, release)
        _release_drawn(first, end, common, weight, i, share, state, method, release)


@piece
def _draw_groups(group: int, count: int, t: int, i: int, purpose: int, release: Any) -> None:
    """The noise of so many coordinates, a group of sixteen in each lane; of eight or fewer, in the first."""
    keep_apart()  # a function of its own, for the cipher's registers
    groups = lane_numbers(words_like(load(release.normals, 0, 0))) + np.uint32(group)
    store_group(release.normals, release.dithers, i, 0, count, release.keys, groups, (t, i, purpose), True)


@piece
def _release_drawn(
    first: int, end: int, common: Any, weight: float, i: int, share: int, state: Any, method: Any, release: Any
) -> None:
    """Release the coordinates from first to end with the noise drawn for them."""
    keep_apart()
    for group in range((end - first + 15) // 16):
        begin = first + 16 * group
        for j in range(begin, min(begin + 16, end)):
            normal, dither = load(release.normals, i, group, j - begin), load(release.dithers, i, group, j - begin)
            h = privatize(release.mode, load(state.gradient, share, j) * weight, common, normal, dither)
            take(i, j, h, state, method)


def _draw_ahead(t: Any, i: Any, release: Any) -> Any:
    """Make worker i's noise of as many rounds as there are lanes, where it is kept and used up."""
    raise NotImplementedError("only compiled code calls this")


@overload(_draw_ahead, inline="always")
def _where_it_is_kept(t: Any, i: Any, release: Any) -> Any:
    return _rounds_ahead if release.instance_class is SingleRelease else _nothing_ahead


def _nothing_ahead(t: Any, i: Any, release: Any) -> Any:
    pass


def _rounds_ahead(t: Any, i: Any, release: Any) -> Any:
    lanes = release.normals.shape[1]
    group = t // lanes
    if release.mode != EXACT and load(release.drawn, i) != group:
        store(group, release.drawn, i)
        rounds = lane_numbers(words_like(load(release.normals, 0, 0))) + np.uint32(group * lanes)
        store_draw(release.normals, release.dithers, i, release.keys, rounds, i, 0, True)


# What all may know of a run's randomness has a purpose that no noise has: local steps count up to it.
PUBLIC = 2**32 - 1
# How many bits of a word are taken for it: as many as single precision holds.
PUBLIC_BITS = 24


def public_bits(t: Any, release: Any, like: Any) -> Any:
    """A whole number below 2²⁴ of every run, each as likely, in the type of `like`: that of round t."""
    raise NotImplementedError("only compiled code calls this")


@overload(public_bits, inline="always")
def _by_lanes_of_release(t: Any, release: Any, like: Any) -> Any:
    return _bits_of_runs if release.instance_class is Release else _bits_of_run


def _bits_of_runs(t: Any, release: Any, like: Any) -> Any:
    key = load_key(words_like(like), release.keys)
    return convert(chacha20(key, 0, t, 0, PUBLIC)[0] >> (32 - PUBLIC_BITS), like)


def _bits_of_run(t: Any, release: Any, like: Any) -> Any:
    lanes = load(release.normals, 0, 0)  # for its type: the key is the same in all
    key = load_key(words_like(lanes), release.keys)
    return lane(convert(chacha20(key, 0, t, 0, PUBLIC)[0] >> (32 - PUBLIC_BITS), lanes), 0)


@serial
def draw_ahead(t: int, workers: tuple[int, int, int], release: Any) -> None:
    """What a share of the workers needs before round t, and not in every round."""
    keep_apart()  # the cipher among the gradients makes LLVM spoil these
    for i in range(workers[0], workers[1]):
        _draw_ahead(t, i, release)


@formula
def keep_release(number: int, i: int, state: Any, seen: Any) -> None:
    """What worker i has just released, which the method left in `state.half`, to the transcript."""
    for j in range(state.half.shape[1]):
        store(load(state.half, i, j), seen.messages, number, j)


@formula
def mean_over_workers(values: Any, j: int) -> Any:
    """The mean of values[:, j], always summed in the order of the workers."""
    total = load(values, 0, j)
    for i in range(1, values.shape[0]):
        total = total + load(values, i, j)
    return total / float(values.shape[0])


@formula
def weighted_mean(values: Any, j: int, shares: Any) -> Any:
    """Σ wᵢ values[i, j] with shares n wᵢ, in the same order; shares of 1 give the plain mean, bit by bit."""
    total = load(shares, 0) * load(values, 0, j)
    for i in range(1, values.shape[0]):
        total = fma(load(shares, i), load(values, i, j), total)
    return total / float(values.shape[0])


@formula
def note_failures(t: int, values: Any, row: int, failed: Any) -> None:
    """Of the runs whose values[row] is not finite, note round t as the first."""
    finite = broadcast(0.0, load(values, row, 0))
    for j in range(values.shape[1]):
        finite = fma(load(values, row, j), 0.0, finite)  # 0 for finite values, NaN for others
    if not all_lanes(finite == 0.0):
        for k in range(failed.size):
            if lane(finite, k) != 0.0 and failed[k] == 0:
                failed[k] = t
