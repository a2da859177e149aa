"""The paper's Algorithm 1: rounds of a block of runs, one loop over workers a round.

A call runs the rounds [first, last) on the state it is given and leaves it ready for the next call, so a run can be
cut into calls anywhere without changing a bit.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from fastldp.kernels.gradient import Samples
from fastldp.kernels.jit import formula, parallel, serial
from fastldp.kernels.prox import BOX_L1, box_l1, project_row
from fastldp.kernels.release import TAKERS, Transcript, draw_ahead, mean_over_workers, note_failures, release_gradient
from fastldp.kernels.simd import fma, keep_apart, load, store

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: X and the dual. The rest is room to work in."""

    X: Floats  # (n, d, lanes): the workers' models xᵢ
    dual: Floats  # (n, d, lanes): Λᵢ
    half: Floats  # (n, d, lanes): gradients first, then the messages without their dual part
    mean: Floats  # (1, d, lanes): the server's average
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


def _half_step(i: Any, j: Any, h: Any, state: Any, method: Any) -> None:
    """Coordinate j of worker i's message, up to its dual part: x − γ(∇fᵢ(x)/n + ζ)."""
    x = load(state.X, i, j)
    step = load(method.step, 0)
    half = x - step * fma(load(method.shrink, 0), x, h)
    store(half, state.half, i, j)


@formula
def _receive(i: int, state: Any, method: Any) -> None:
    """Worker i's half of the round after the broadcast: dual, z and prox."""
    step = load(method.step, 0)
    size = load(method.size, 0)
    for j in range(state.X.shape[1]):
        dual = load(state.dual, i, j)
        message = load(state.half, i, j) - step * dual
        apart = message - load(state.mean, 0, j)
        store(dual + apart, state.dual, i, j)
        z = message - step * apart
        if method.prox == BOX_L1:
            z = box_l1(z, load(method.threshold, j), size)
        store(z, state.X, i, j)
    if method.prox != BOX_L1:
        project_row(method.prox, state.X, i, size)


@formula
def _average(now: int, t: int, state: Any, seen: Any) -> None:
    """The server: the mean of the messages.

    The duals sum to zero, so their part is left out of the mean: the rounding errors of that sum then decay
    with the contraction instead of staying for ever.
    """
    for j in range(state.X.shape[1]):
        store(mean_over_workers(state.half, j), state.mean, 0, j)
    note_failures(t, state.mean, 0, state.failed)
    if seen.worker >= 0:
        for j in range(state.X.shape[1]):
            store(load(state.mean, 0, j), seen.broadcasts, now, j)


TAKERS[Method] = _half_step


@serial
def _visit(
    t: int, first: int, workers: tuple[int, int], state: Any, samples: Any, method: Any, release: Any, seen: Any
) -> None:
    """The broadcast of the round before and this round's message, in one visit to each of a range of workers."""
    keep_apart()  # a function of its own, which both kernels below share
    for i in range(workers[0], workers[1]):
        if t > first:
            _receive(i, state, method)
        release_gradient(t - first, t, 0, i, state.X, i, state, samples, method, release)
        if i == seen.worker:
            step = load(method.step, 0)
            for j in range(state.X.shape[1]):
                store(load(state.half, i, j) - step * load(state.dual, i, j), seen.messages, t - first, j)


@serial
def run_serial(
    first: int, last: int, state: State, samples: Samples, method: Method, release: Any, seen: Transcript
) -> None:
    """Rounds [first, last), in the calling thread."""
    n = state.X.shape[0]
    for t in range(first, last):
        draw_ahead(t, (0, n), release)
        _visit(t, first, (0, n), state, samples, method, release, seen)
        _average(t - first, t, state, seen)
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
            draw_ahead(t, workers, release)
            _visit(t, first, workers, state, samples, method, release, seen)
        _average(t - first, t, state, seen)
    for k in prange(cuts.size - 1):
        for i in range(cuts[k], cuts[k + 1]):
            _receive(i, state, method)
