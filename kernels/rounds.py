"""The paper's Algorithm 1: rounds of a block of runs, one loop over workers a round.

In run lanes all arrays end in the lane axis, X[n, d, lanes] and so on, and whatever may differ between the runs of a
block is a vector of lanes. In sample lanes there is one run, the arrays lack that axis, and the lanes hold samples
(in the gradient) and rounds (in the noise). `load` tells the two apart by shape, so the text is the same. Parallel
loops turn arrays without axes into scalars, so a single number of a run is kept as an array of one.

A call runs the rounds [first, last) on the state it is given and leaves it ready for the next call, so a run can be
cut into calls anywhere without changing a bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.gaussian import box_muller, dither, store_draw, words
from fastldp.kernels.gradient import Samples, add_gradient
from fastldp.kernels.jit import formula, parallel, serial
from fastldp.kernels.privatize import EXACT, on_grid, privatize
from fastldp.kernels.prox import BOX_L1, box_l1, project_row
from fastldp.kernels.simd import (
    all_lanes,
    broadcast,
    fma,
    keep_apart,
    lane,
    lane_numbers,
    load,
    store,
    words_like,
)

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: X and the dual. The rest is room to work in."""

    X: Floats  # (n, d, lanes): the workers' models xᵢ
    dual: Floats  # (n, d, lanes): Λᵢ
    half: Floats  # (n, d, lanes): gradients first, then the messages without their dual part
    mean: Floats  # (d, lanes): the server's average
    failed: NDArray[np.int64]  # (lanes,): the first round whose average is not finite, or 0


class Method(NamedTuple):
    """The numbers of Algorithm 1."""

    loss: int
    prox: int
    step: Floats  # (1, lanes): γ
    shrink: Floats  # (1, lanes): l2/n
    threshold: Floats  # (d, lanes): γω/n
    clip: Floats  # (1, lanes): the largest norm a sample's gradient may have, or the largest number
    size: Floats  # (1, lanes): the bound α of the box, or the radius of the set
    weight: Floats  # (n,): 1/(n mᵢ)


class Release(NamedTuple):
    """How the queries of a block of runs are released."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the noise key of each run
    deviations: Floats  # (rounds of the call, lanes): ξ_t
    factors: Floats  # (n, lanes): what worker i multiplies it by


class SingleRelease(NamedTuple):
    """How the queries of one run are released: its noise is made for as many rounds at once as there are lanes."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the key of the run, in every lane
    deviations: Floats  # (rounds of the call,)
    factors: Floats  # (n,)
    normals: Floats  # (n, d or d + 1, whichever is even, lanes): those of as many rounds as there are lanes
    dithers: Floats  # the same
    drawn: NDArray[np.int64]  # (n,): which of the groups of so many rounds each worker's noise is for


class Transcript(NamedTuple):
    """The messages of one worker and what the server answered; nothing is kept where the worker is −1."""

    worker: int
    messages: Floats  # (rounds of the call, d, lanes)
    broadcasts: Floats  # the same


@formula
def _half_step(
    t: int, i: int, j: int, normal: Any, dither: Any, common: Any, state: Any, method: Any, release: Any, seen: Any
) -> None:
    """Coordinate j of worker i's message, up to its dual part: x − γ(∇fᵢ(x)/n + ζ)."""
    x = load(state.X, i, j)
    step = load(method.step, 0)
    query = load(state.half, i, j) * load(method.weight, i)
    h = privatize(release.mode, query, common, normal, dither)
    half = x - step * fma(load(method.shrink, 0), x, h)
    store(half, state.half, i, j)
    if i == seen.worker:
        store(half - step * load(state.dual, i, j), seen.messages, t, j)


@formula
def _send(t: int, first: int, i: int, state: Any, samples: Any, method: Any, release: Any, seen: Any) -> None:
    """Worker i's half of round t before the server: gradient, noise and message."""
    for j in range(state.X.shape[1]):
        store(broadcast(0.0, load(method.step, 0)), state.half, i, j)
    add_gradient(method.loss, load(method.clip, 0), samples, state.X, i, state.half)
    if release.mode == EXACT:
        zero = broadcast(0.0, load(method.step, 0))
        for j in range(state.X.shape[1]):
            _half_step(t - first, i, j, zero, zero, (zero, zero, zero), state, method, release, seen)
    else:
        _add_noise(t, first, i, state, method, release, seen)


def _add_noise(t: Any, first: Any, i: Any, state: Any, method: Any, release: Any, seen: Any) -> Any:
    """The half-steps of worker i, with the noise of round t, by the type of the release."""
    raise NotImplementedError("only compiled code calls this")


@overload(_add_noise, inline="always")
def _by_type_of_release(t: Any, first: Any, i: Any, state: Any, method: Any, release: Any, seen: Any) -> Any:
    return {Release: _noise_of_runs, SingleRelease: _noise_of_rounds}[release.instance_class]


def _noise_of_runs(t: Any, first: Any, i: Any, state: Any, method: Any, release: Any, seen: Any) -> Any:
    d = state.X.shape[1]
    deviation = load(release.deviations, t - first) * load(release.factors, i)
    common = on_grid(deviation)
    for group in range((d + 15) // 16):
        j = 16 * group
        a, b = words(release.keys, group, d - j <= 8, t, i, 0, deviation)
        for k in range(0, min(16, d - j), 2):
            n0, n1 = box_muller(deviation, a[k], b[k], a[k + 1], b[k + 1])
            u0, u1 = dither(deviation, b[k]), dither(deviation, b[k + 1])
            _half_step(t - first, i, j + k, n0, u0, common, state, method, release, seen)
            if j + k + 1 < d:
                _half_step(t - first, i, j + k + 1, n1, u1, common, state, method, release, seen)


def _noise_of_rounds(t: Any, first: Any, i: Any, state: Any, method: Any, release: Any, seen: Any) -> Any:
    now = t % release.normals.shape[2]
    common = on_grid(load(release.deviations, t - first) * load(release.factors, i))
    for j in range(state.X.shape[1]):
        normal, dither = load(release.normals, i, j, now), load(release.dithers, i, j, now)
        _half_step(t - first, i, j, normal, dither, common, state, method, release, seen)


def _draw_ahead(t: Any, i: Any, release: Any) -> Any:
    """Make worker i's noise of as many rounds as there are lanes, where it is kept and used up."""
    raise NotImplementedError("only compiled code calls this")


@overload(_draw_ahead, inline="always")
def _where_it_is_kept(t: Any, i: Any, release: Any) -> Any:
    return {Release: _nothing_ahead, SingleRelease: _rounds_ahead}[release.instance_class]


def _nothing_ahead(t: Any, i: Any, release: Any) -> Any:
    pass


def _rounds_ahead(t: Any, i: Any, release: Any) -> Any:
    lanes = release.normals.shape[2]
    group = t // lanes
    if release.mode != EXACT and load(release.drawn, i) != group:
        store(group, release.drawn, i)
        rounds = lane_numbers(words_like(load(release.normals, i, 0))) + np.uint32(group * lanes)
        store_draw(release.normals, release.dithers, i, release.keys, rounds, i, 0)


@formula
def _receive(i: int, state: Any, method: Any) -> None:
    """Worker i's half of the round after the broadcast: dual, z and prox."""
    step = load(method.step, 0)
    size = load(method.size, 0)
    for j in range(state.X.shape[1]):
        dual = load(state.dual, i, j)
        message = load(state.half, i, j) - step * dual
        apart = message - load(state.mean, j)
        store(dual + apart, state.dual, i, j)
        z = message - step * apart
        if method.prox == BOX_L1:
            z = box_l1(z, load(method.threshold, j), size)
        store(z, state.X, i, j)
    if method.prox != BOX_L1:
        project_row(method.prox, state.X, i, size)


@formula
def _average(t: int, first: int, state: Any, seen: Any) -> None:
    """The server: the mean of the messages, always summed in the order of the workers.

    The duals sum to zero, so their part is left out of the mean: the rounding errors of that sum then decay
    with the contraction instead of staying for ever.
    """
    n, d = state.X.shape[0], state.X.shape[1]
    finite = broadcast(0.0, load(state.mean, 0))
    for j in range(d):
        total = load(state.half, 0, j)
        for i in range(1, n):
            total = total + load(state.half, i, j)
        mean = total / float(n)
        store(mean, state.mean, j)
        finite = fma(mean, 0.0, finite)  # 0 for finite means, NaN for others
    if seen.worker >= 0:
        for j in range(d):
            store(load(state.mean, j), seen.broadcasts, t - first, j)
    if not all_lanes(finite == 0.0):
        for k in range(state.failed.size):
            if lane(finite, k) != 0.0 and state.failed[k] == 0:
                state.failed[k] = t


@serial
def _prepare(t: int, workers: tuple[int, int], release: Any) -> None:
    """What a range of workers needs before round t, and not in every round."""
    keep_apart()  # the cipher among the gradients makes LLVM spoil these
    for i in range(workers[0], workers[1]):
        _draw_ahead(t, i, release)


@serial
def _visit(
    t: int, first: int, workers: tuple[int, int], state: Any, samples: Any, method: Any, release: Any, seen: Any
) -> None:
    """The broadcast of the round before and this round's message, in one visit to each of a range of workers."""
    keep_apart()  # a function of its own, which both kernels below share
    for i in range(workers[0], workers[1]):
        if t > first:
            _receive(i, state, method)
        _send(t, first, i, state, samples, method, release, seen)


@serial
def run_serial(
    first: int, last: int, state: State, samples: Samples, method: Method, release: Any, seen: Transcript
) -> None:
    """Rounds [first, last), in the calling thread."""
    n = state.X.shape[0]
    for t in range(first, last):
        _prepare(t, (0, n), release)
        _visit(t, first, (0, n), state, samples, method, release, seen)
        _average(t, first, state, seen)
    for i in range(n):
        _receive(i, state, method)


@parallel
def run_parallel(
    first: int, last: int, cuts: Any, state: State, samples: Samples, method: Method, release: Any, seen: Transcript
) -> None:
    """Rounds [first, last), the workers spread over Numba's threads: the same bits as `run_serial`.

    A thread takes the workers from one of the `cuts` to the next: calling costs more than a small worker's round.
    """
    for t in range(first, last):
        for k in prange(cuts.size - 1):
            workers = cuts[k], cuts[k + 1]
            _prepare(t, workers, release)
            _visit(t, first, workers, state, samples, method, release, seen)
        _average(t, first, state, seen)
    for i in range(state.X.shape[0]):
        _receive(i, state, method)
