"""The paper's Algorithm 1: rounds of a block of runs, one loop over workers a round.

All arrays end in the lane axis: X[n, d, lanes] and so on. Whatever may differ between the runs of a block
is a vector of lanes. A call runs the rounds [first, last) on the state it is given and leaves it ready for
the next call, so a run can be cut into calls anywhere without changing a bit.
"""

from typing import Any, NamedTuple

import numpy as np
from fastldp.kernels.gaussian import normals
from fastldp.kernels.gradient import Samples, add_gradient
from fastldp.kernels.jit import formula, parallel, serial
from fastldp.kernels.privatize import EXACT, privatize
from fastldp.kernels.prox import BOX_L1, box_l1, project_row
from fastldp.kernels.simd import all_lanes, broadcast, fma, lane, load, store
from numba import prange
from numpy.typing import NDArray

Lanes = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: X and the dual. The rest is room to work in."""

    X: Lanes  # (n, d, lanes): the workers' models xᵢ
    dual: Lanes  # (n, d, lanes): Λᵢ
    half: Lanes  # (n, d, lanes): gradients first, then the messages without their dual part
    mean: Lanes  # (d, lanes): the server's average
    failed: NDArray[np.int64]  # (lanes,): the first round whose average is not finite, or 0


class Method(NamedTuple):
    """The numbers of Algorithm 1."""

    loss: int
    prox: int
    step: Lanes  # (lanes,): γ
    shrink: Lanes  # (lanes,): l2/n
    threshold: Lanes  # (d, lanes): γω/n
    size: Lanes  # (lanes,): the bound α of the box, or the radius of the set
    weight: Lanes  # (n,): 1/(n mᵢ)


class Release(NamedTuple):
    """How queries are released."""

    mode: int
    keys: NDArray[np.uint32]  # (8, lanes): the noise key of each run
    deviations: Lanes  # (rounds of the call, lanes): ξ_t
    factors: Lanes  # (n, lanes): what worker i multiplies it by
    grid: Lanes  # (lanes,): s
    inverse_grid: Lanes  # (lanes,): 1/s


class Transcript(NamedTuple):
    """The messages of one worker; none are kept where the worker is −1."""

    worker: int
    messages: Lanes  # (rounds of the call, d, lanes)


@formula
def _send(
    t: int,
    first: int,
    i: int,
    state: State,
    samples: Samples,
    method: Method,
    release: Release,
    seen: Transcript,
) -> None:
    """Worker i's message of round t, up to its dual part: x − γ(∇fᵢ(x)/n + ζ)."""
    d = state.X.shape[1]
    step = load(method.step)
    shrink = load(method.shrink)
    grid = load(release.grid)
    inverse_grid = load(release.inverse_grid)
    for j in range(d):
        store(broadcast(0.0, step), state.half, i, j)
    add_gradient(method.loss, samples, state.X, i, state.half)
    deviation = broadcast(0.0, step)
    if release.mode != EXACT:
        deviation = load(release.deviations, t - first) * load(release.factors, i)
    for block in range((d + 7) // 8):
        noise = normals(release.keys, block, t, i, 0)
        for k in range(min(8, d - 8 * block)):
            j = 8 * block + k
            x = load(state.X, i, j)
            query = load(state.half, i, j) * method.weight[i]
            h = privatize(release.mode, query, deviation, noise[k], grid, inverse_grid)
            half = x - step * fma(shrink, x, h)
            store(half, state.half, i, j)
            if i == seen.worker:
                store(half - step * load(state.dual, i, j), seen.messages, t - first, j)


@formula
def _receive(i: int, state: State, method: Method) -> None:
    """Worker i's half of the round after the broadcast: dual, z and prox."""
    step = load(method.step)
    size = load(method.size)
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
def _average(t: int, state: State) -> None:
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
    if not all_lanes(finite == 0.0):
        for k in range(state.failed.size):
            if lane(finite, k) != 0.0 and state.failed[k] == 0:
                state.failed[k] = t


@serial
def run_serial(
    first: int, last: int, state: State, samples: Samples, method: Method, release: Release, seen: Transcript
) -> None:
    """Rounds [first, last), in the calling thread."""
    n = state.X.shape[0]
    for t in range(first, last):
        for i in range(n):
            # The broadcast of the round before and this round's message, in one visit to the worker.
            if t > first:
                _receive(i, state, method)
            _send(t, first, i, state, samples, method, release, seen)
        _average(t, state)
    for i in range(n):
        _receive(i, state, method)


@parallel
def run_parallel(
    first: int, last: int, state: State, samples: Samples, method: Method, release: Release, seen: Transcript
) -> None:
    """Rounds [first, last), the workers spread over Numba's threads: the same bits as `run_serial`."""
    n = state.X.shape[0]
    for t in range(first, last):
        for i in prange(n):
            if t > first:
                _receive(i, state, method)
            _send(t, first, i, state, samples, method, release, seen)
        _average(t, state)
    for i in prange(n):
        _receive(i, state, method)
