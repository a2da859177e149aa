"""DP-FedAvg and DP-SCAFFOLD: each round a worker starts at the server's model and takes K noisy steps of its own.

DP-FedAvg is DP-SCAFFOLD whose control variates stay zero. Of a round's releases the k-th has the purpose k.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.gradient import Samples
from fastldp.kernels.jit import formula, piece, serial
from fastldp.kernels.release import TAKERS, Transcript, keep_release, note_failures, release_gradient, weighted_mean
from fastldp.kernels.rounds import STEPS, Steps
from fastldp.kernels.simd import broadcast, fma, keep_apart, load, store

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: the model and the control variates. The rest is room to work in."""

    Y: Floats  # (n, d, lanes): the workers' own models y
    control: Floats  # (n, d, lanes): cᵢ
    half: Floats  # (n, d, lanes): what is released of the gradients
    gradient: Floats  # of each share of the workers (see `gradient.Rooms`)
    scaled: Floats
    model: Floats  # (1, d, lanes): the server's x
    server_control: Floats  # (1, d, lanes): c
    failed: NDArray[np.int64]  # (lanes,): the first round whose model is not finite, or 0


class Method(NamedTuple):
    """The numbers of the method."""

    loss: int
    local_steps: int  # K
    variates: bool  # whether control variates are kept
    step: Floats  # (1, lanes): η
    server_step: Floats  # (1, lanes): η_g
    shrink: Floats  # (1, lanes): l2
    clip: Floats  # (1, lanes): C
    shares: Floats  # (n, lanes): n wᵢ


class WarmStart(NamedTuple):
    """The same numbers, for the releases before the first round."""

    loss: int
    local_steps: int
    variates: bool
    step: Floats
    server_step: Floats
    shrink: Floats
    clip: Floats
    shares: Floats


def _local_step(i: Any, j: Any, h: Any, state: Any, method: Any) -> None:
    """y ← y − η(∇fᵢ(y) + noise − cᵢ + c), coordinate j."""
    y = load(state.Y, i, j)
    correction = load(state.server_control, 0, j) - load(state.control, i, j)
    direction = fma(load(method.shrink, 0), y, h) + correction
    store(y - load(method.step, 0) * direction, state.Y, i, j)
    store(h, state.half, i, j)


def _first_variate(i: Any, j: Any, h: Any, state: Any, method: Any) -> None:
    """cᵢ as the mean of K noisy gradients at x: one of them."""
    share = fma(load(method.shrink, 0), load(state.model, 0, j), h) / float(method.local_steps)
    store(load(state.control, i, j) + share, state.control, i, j)
    store(h, state.half, i, j)


TAKERS[Method] = _local_step
TAKERS[WarmStart] = _first_variate


@piece
def _visit_workers(
    t: int, first: int, workers: tuple[int, int, int], state: Any, samples: Any, method: Any, release: Any, seen: Any
) -> None:
    """One round of a share of the workers."""
    keep_apart()  # a function of its own, for its registers
    rate = load(method.step, 0) * float(method.local_steps)
    for i in range(workers[0], workers[1]):
        for j in range(state.Y.shape[1]):
            store(load(state.model, 0, j), state.Y, i, j)
        for k in range(method.local_steps):
            release_gradient(t - first, t, k, i, state.Y, i, workers[2], state, samples, method, release)
            if i == seen.worker:
                keep_release((t - first) * method.local_steps + k, i, state, seen)
        if method.variates:
            for j in range(state.Y.shape[1]):
                moved = load(state.model, 0, j) - load(state.Y, i, j)
                kept = load(state.control, i, j) - load(state.server_control, 0, j)
                store(kept + moved / rate, state.control, i, j)


@formula
def _average(now: int, t: int, state: Any, method: Any, seen: Any) -> None:
    """The server: x moves by η_g times Σ wᵢ(yᵢ − x); c becomes Σ wᵢcᵢ, as it was before."""
    rate = load(method.step, 0) * float(method.local_steps)
    for j in range(state.Y.shape[1]):
        x = load(state.model, 0, j)
        moved = weighted_mean(state.Y, j, method.shares) - x
        store(x + load(method.server_step, 0) * moved, state.model, 0, j)
        if method.variates:
            store(-moved / rate, state.server_control, 0, j)
        if seen.worker >= 0:
            store(load(state.model, 0, j), seen.broadcasts, now, j)
    note_failures(t, state.model, 0, state.failed)


def _visit(
    t: Any, begin: Any, first: Any, workers: Any, state: Any, samples: Any, method: Any, release: Any, seen: Any
) -> Any:
    _visit_workers(t, first, workers, state, samples, method, release, seen)


def _serve(t: Any, first: Any, end: Any, state: Any, method: Any, seen: Any) -> Any:
    _average(t - first, t, state, method, seen)


STEPS[Method] = Steps(_visit, _serve)


@serial
def warm_start(state: State, samples: Samples, method: WarmStart, release: Any, seen: Transcript) -> None:
    """The control variates as means of K noisy gradients at the start: the releases of a round 0."""
    n, d = state.Y.shape[0], state.Y.shape[1]
    zero = broadcast(0.0, load(method.step, 0))
    for i in range(n):
        for j in range(d):
            store(zero, state.control, i, j)
        for k in range(method.local_steps):
            release_gradient(0, 0, k, i, state.model, 0, 0, state, samples, method, release)
            if i == seen.worker:
                keep_release(k, i, state, seen)
    for j in range(d):
        c = weighted_mean(state.control, j, method.shares)
        store(c, state.server_control, 0, j)
        if seen.worker >= 0:
            store(c, seen.broadcasts, 0, j)
