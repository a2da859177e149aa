"""What all methods share: a worker's gradient at a point, with the noise of its address, released.

In run lanes all arrays end in the lane axis, X[n, d, lanes] and so on, and whatever may differ between the runs of a
block is a vector of lanes. In sample lanes there is one run, the arrays lack that axis, and the lanes hold samples
(in the gradient) and releases (in the noise). `load` tells the two apart by shape, so the text is the same. Parallel
loops turn arrays without axes into scalars, so a single number of a run is kept as an array of one.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.calling import found
from fastldp.kernels.chacha import PUBLIC, chacha20, load_key
from fastldp.kernels.gaussian import ENDS, WORDS, normals_of, store_draw, store_group, store_words
from fastldp.kernels.gradient import store_gradient
from fastldp.kernels.jit import formula, piece
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
    load_as,
    scratch,
    store,
    words_like,
)

Floats = NDArray[np.floating[Any]]


class Release(NamedTuple):
    """How the queries of a block of runs are released."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the noise key of each run
    deviations: Floats  # (rounds of the call, lanes): ξ_t
    first: int  # the number of the block's first worker, by which noise is addressed
    factors: Floats  # (n, lanes): what worker i multiplies it by
    weight: Floats  # (n,): what a query is of the sum of a worker's gradients
    unit: Floats  # (1, lanes): what releases are in units of: 1, or the threshold of a run that adapts it


class SingleRelease(NamedTuple):
    """How the queries of one run are released: its noise is made for as many releases at once as there are lanes."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the key of the run, in every lane
    deviations: Floats  # (rounds of the call,)
    first: int
    factors: Floats  # (n,)
    weight: Floats  # (n,)
    unit: Floats  # (1,)
    normals: Floats  # (n, lanes, d or d + 1, whichever is even): those of as many releases as there are lanes
    dithers: Floats  # the same
    drawn: NDArray[np.int64]  # (n,): the first of the releases that each worker's noise is for


class LongRelease(NamedTuple):
    """How the queries of one run of many coordinates are released: the lanes of its noise hold coordinates."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the key of the run, in every lane
    deviations: Floats  # (rounds of the call,)
    first: int
    factors: Floats  # (n,)
    weight: Floats  # (n,)
    unit: Floats  # (1,)
    normals: Floats  # (n, lanes, 16): those of as many groups of coordinates as there are lanes
    dithers: Floats  # the same


class Transcript(NamedTuple):
    """The messages of one worker and what the server answered; nothing is kept where the worker is −1."""

    worker: int
    messages: Floats  # (releases of the call, d, lanes)
    counts: Floats  # (rounds of the call, n, lanes): of all workers, where they are counted, and NaN elsewhere
    broadcasts: Floats  # (rounds of the call, d, lanes)


def sum_gradients(placed: Any, place: int, i: int, row: int, share: int, counting: int, t: int, k: int) -> None:
    """Worker i's sum of gradients at the point of this row, to `state.gradient[share]`, and to `inside` their count.

    Of the samples that are drawn for release k of round t; where runs draw them, those that count do so before all
    rounds, and of all samples.
    """
    _, state, objective, samples = found(placed, place)[:4]
    drawing = found(placed, place)[9]
    store_gradient(objective, samples, i, state.points, row, state, share, counting != 0, (drawing, t, k))


def release(placed: Any, place: int, now: int, t: int, i: int, k: int, share: int) -> None:
    """What worker i releases of the sum in `state.gradient[share]`, in its place.

    The noise has the address (t, i, k): round t, which is round `now` of the call, worker i, counted from the block's
    first, release k of the round.
    """
    method, state, _, _, release = found(placed, place)[:5]
    d = state.points.shape[1]
    if release.mode == EXACT:
        weight = load(release.weight, i)
        for j in range(d):
            store(load(state.gradient, share, j) * weight, state.gradient, share, j)
    else:
        _add_noise(now, t, i, k, method.local_steps, d, share, state.gradient, release)


def _add_noise(
    now: Any, t: Any, i: Any, k: Any, local_steps: Any, d: Any, share: Any, gradient: Any, release: Any
) -> Any:
    """The release of the d numbers in gradient[share], in their place, by the type of the release."""
    raise NotImplementedError("only compiled code calls this")


@overload(_add_noise, inline="always")
def _by_type_of_release(
    now: Any, t: Any, i: Any, k: Any, local_steps: Any, d: Any, share: Any, gradient: Any, release: Any
) -> Any:
    kinds = {Release: _noise_of_runs, SingleRelease: _noise_of_releases, LongRelease: _noise_of_coordinates}
    return kinds[release.instance_class]


def _noise_of_runs(
    now: Any, t: Any, i: Any, k: Any, local_steps: Any, d: Any, share: Any, gradient: Any, release: Any
) -> Any:
    deviation = load(release.deviations, now) * load(release.factors, i)
    unit = load(release.unit, 0)
    weight = load(release.weight, i) / unit
    common = on_grid(deviation)
    rows, ends = scratch(words_like(deviation), WORDS), scratch(deviation, ENDS)
    for group in range((d + 15) // 16):
        j = 16 * group
        begin = store_words(rows, ends, release.keys, group, d - j <= 8, (t, release.first + i, k), deviation)
        for c in range(0, min(16, d - j), 2):
            n0, n1, u0, u1 = normals_of(deviation, rows, ends, begin, c)
            h0 = privatize(release.mode, load(gradient, share, j + c) * weight, common, n0, u0)
            store(h0 * unit, gradient, share, j + c)
            if j + c + 1 < d:
                h1 = privatize(release.mode, load(gradient, share, j + c + 1) * weight, common, n1, u1)
                store(h1 * unit, gradient, share, j + c + 1)


def _noise_of_releases(
    now: Any, t: Any, i: Any, k: Any, local_steps: Any, d: Any, share: Any, gradient: Any, release: Any
) -> Any:
    number = t * local_steps + k
    place = number & (release.normals.shape[1] - 1)  # there are 8 lanes or 16, and a division would take long
    if load(release.drawn, i) != number - place:
        store(number - place, release.drawn, i)
        _draw_ahead(number - place, local_steps, i, release)
    unit = load(release.unit, 0)
    weight = load(release.weight, i) / unit
    common = on_grid(load(release.deviations, now) * load(release.factors, i))
    for j in range(d):
        normal, dither = load(release.normals, i, place, j), load(release.dithers, i, place, j)
        h = privatize(release.mode, load(gradient, share, j) * weight, common, normal, dither)
        store(h * unit, gradient, share, j)


def _noise_of_coordinates(
    now: Any, t: Any, i: Any, k: Any, local_steps: Any, d: Any, share: Any, gradient: Any, release: Any
) -> Any:
    several = 16 * release.normals.shape[1]
    unit = load(release.unit, 0)
    weight = load(release.weight, i) / unit
    common = on_grid(load(release.deviations, now) * load(release.factors, i))
    # A last group of eight or fewer is made in another way, and so alone.
    full = d - d % 16 if d % 16 <= 8 else d
    batches = (full + several - 1) // several
    for batch in range(batches + 1 if full < d else batches):
        first, end = min(batch * several, full), min(batch * several + several, full) if batch < batches else d
        _draw_groups(first // 16, end - first, t, i, k, release)
        _release_drawn(first, end, common, weight, unit, i, share, gradient, release)


@piece
def _draw_groups(group: int, count: int, t: int, i: int, k: int, release: Any) -> None:
    """The noise of so many coordinates, a group of sixteen in each lane; of eight or fewer, in the first."""
    keep_apart()  # a function of its own, for the cipher's registers
    groups = lane_numbers(words_like(load(release.normals, 0, 0))) + np.uint32(group)
    store_group(release.normals, release.dithers, i, 0, count, release.keys, groups, (t, release.first + i, k), True)


@piece
def _release_drawn(
    first: int, end: int, common: Any, weight: float, unit: float, i: int, share: int, gradient: Any, release: Any
) -> None:
    """Release the coordinates from first to end with the noise drawn for them."""
    keep_apart()
    for group in range((end - first + 15) // 16):
        begin = first + 16 * group
        for j in range(begin, min(begin + 16, end)):
            normal, dither = load(release.normals, i, group, j - begin), load(release.dithers, i, group, j - begin)
            h = privatize(release.mode, load(gradient, share, j) * weight, common, normal, dither)
            store(h * unit, gradient, share, j)


@piece
def _draw_ahead(first: int, local_steps: int, i: int, release: Any) -> None:
    """Worker i's noise of as many releases as there are lanes, from this number on."""
    keep_apart()  # the cipher among the gradients makes LLVM spoil these
    words = words_like(load(release.normals, 0, 0))
    rounds, steps = scratch(words, 1), scratch(words, 1)
    for place in range(release.normals.shape[1]):
        store(np.uint32((first + place) // local_steps), rounds, 0, place)
        store(np.uint32((first + place) % local_steps), steps, 0, place)
    at, step = load_as(words, rounds, 0), load_as(words, steps, 0)
    store_draw(release.normals, release.dithers, i, release.keys, at, release.first + i, step, True)


# How many bits of a word are taken for what is public: as many as single precision holds.
PUBLIC_BITS = 24


def _public_bits(t: Any, release: Any, like: Any) -> Any:
    """A whole number below 2²⁴ of every run, each as likely, in the type of `like`: that of round t."""
    raise NotImplementedError("only compiled code calls this")


@overload(_public_bits, inline="always")
def _by_lanes_of_release(t: Any, release: Any, like: Any) -> Any:
    return _bits_of_runs if release.instance_class is Release else _bits_of_run


def _bits_of_runs(t: Any, release: Any, like: Any) -> Any:
    key = load_key(words_like(like), release.keys)
    return convert(chacha20(key, 0, t, 0, PUBLIC)[0] >> (32 - PUBLIC_BITS), like)


def _bits_of_run(t: Any, release: Any, like: Any) -> Any:
    lanes = load(release.normals, 0, 0)  # for its type: the key is the same in all
    key = load_key(words_like(lanes), release.keys)
    return lane(convert(chacha20(key, 0, t, 0, PUBLIC)[0] >> (32 - PUBLIC_BITS), lanes), 0)


def flip(placed: Any, place: int, t: int) -> None:
    """What is public of round t, to `state.public`."""
    state, release = found(placed, place)[1], found(placed, place)[4]
    store(_public_bits(t, release, load(state.public, 0)), state.public, 0)


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
