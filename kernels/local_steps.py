"""DP-FedAvg, DP-SCAFFOLD and LDP-FedEXP: each round a worker starts at the server's model and takes K noisy steps.

DP-FedAvg is DP-SCAFFOLD whose control variates stay zero, and LDP-FedEXP is DP-FedAvg whose server's step is of the
updates themselves. Of a round's releases the k-th has the purpose k.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.formulas import Objective
from fastldp.kernels.gradient import Samples
from fastldp.kernels.jit import formula, piece, serial
from fastldp.kernels.release import TAKERS, Transcript, keep_release, note_failures, release_gradient, weighted_mean
from fastldp.kernels.rounds import STEPS, Steps
from fastldp.kernels.simd import broadcast, fma, keep_apart, load, maximum, select, store

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: the model and the control variates. The rest is room to work in."""

    Y: Floats  # (n, d, lanes): the workers' own models y
    control: Floats  # (n, d, lanes): cᵢ
    half: Floats  # (n, d, lanes): what is released of the gradients
    squares: Floats  # (n, 1, lanes): ‖yᵢ − x‖² after the last local step, where the server extrapolates
    gradient: Floats  # of each share of the workers (see `gradient.Rooms`)
    scaled: Floats
    model: Floats  # (1, d, lanes): the server's x
    server_control: Floats  # (1, d, lanes): c
    failed: NDArray[np.int64]  # (lanes,): the first round whose model is not finite, or 0


class Method(NamedTuple):
    """The numbers of the method."""

    local_steps: int  # K
    variates: bool  # whether control variates are kept
    extrapolates: bool  # whether the server's step is of the updates
    step: Floats  # (1, lanes): η
    server_step: Floats  # (1, lanes): η_g, where it is not
    noise: Floats  # (1, lanes): what noise adds to the mean of ‖yᵢ − x‖²
    shrink: Floats  # (1, lanes): l2
    shares: Floats  # (n, lanes): n wᵢ


class WarmStart(NamedTuple):
    """The same numbers, for the releases before the first round."""

    local_steps: int
    variates: bool
    extrapolates: bool
    step: Floats
    server_step: Floats
    noise: Floats
    shrink: Floats
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
    t: int,
    first: int,
    workers: tuple[int, int, int],
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> None:
    """One round of a share of the workers."""
    keep_apart()  # a function of its own, for its registers
    rate = load(method.step, 0) * float(method.local_steps)
    for i in range(workers[0], workers[1]):
        for j in range(state.Y.shape[1]):
            store(load(state.model, 0, j), state.Y, i, j)
        for k in range(method.local_steps):
            release_gradient(t - first, t, k, i, state.Y, i, workers[2], state, samples, objective, method, release)
            if i == seen.worker:
                keep_release((t - first) * method.local_steps + k, i, state, seen)
        if method.variates:
            for j in range(state.Y.shape[1]):
                moved = load(state.model, 0, j) - load(state.Y, i, j)
                kept = load(state.control, i, j) - load(state.server_control, 0, j)
                store(kept + moved / rate, state.control, i, j)
        if method.extrapolates:
            _store_square(i, state)


@formula
def _store_square(i: int, state: Any) -> None:
    """‖yᵢ − x‖² of worker i."""
    square = broadcast(0.0, load(state.model, 0, 0))
    for j in range(state.Y.shape[1]):
        moved = load(state.Y, i, j) - load(state.model, 0, j)
        square = fma(moved, moved, square)
    store(square, state.squares, i, 0)


@formula
def _server_step(state: Any, method: Any) -> Any:
    """η_g: given, or max{1, (mean ‖Δᵢ‖² − noise)/(2‖Δ̄‖²)} of the updates Δᵢ = yᵢ − x."""
    given = load(method.server_step, 0)
    if not method.extrapolates:
        return given
    square = broadcast(0.0, given)
    for j in range(state.Y.shape[1]):
        moved = weighted_mean(state.Y, j, method.shares) - load(state.model, 0, j)
        square = fma(moved, moved, square)
    spread = weighted_mean(state.squares, 0, method.shares) - load(method.noise, 0)
    # Where nobody moves any step will do.
    return select(square > 0.0, maximum(1.0, spread / (2.0 * square)), broadcast(1.0, given))


@formula
def _average(now: int, t: int, state: Any, method: Any, seen: Any) -> None:
    """The server: x moves by η_g times Σ wᵢ(yᵢ − x); c becomes Σ wᵢcᵢ, as it was before."""
    rate = load(method.step, 0) * float(method.local_steps)
    server_step = _server_step(state, method)
    for j in range(state.Y.shape[1]):
        x = load(state.model, 0, j)
        moved = weighted_mean(state.Y, j, method.shares) - x
        store(x + server_step * moved, state.model, 0, j)
        if method.variates:
            store(-moved / rate, state.server_control, 0, j)
        if seen.worker >= 0:
            store(load(state.model, 0, j), seen.broadcasts, now, j)
    note_failures(t, state.model, 0, state.failed)


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
    _visit_workers(t, first, workers, state, samples, objective, method, release, seen)


def _serve(t: Any, first: Any, end: Any, state: Any, objective: Any, method: Any, seen: Any) -> Any:
    _average(t - first, t, state, method, seen)


STEPS[Method] = Steps(_visit, _serve)


@serial
def warm_start(
    state: State, samples: Samples, objective: Objective, method: WarmStart, release: Any, seen: Transcript
) -> None:
    """The control variates as means of K noisy gradients at the start: the releases of a round 0."""
    n, d = state.Y.shape[0], state.Y.shape[1]
    zero = broadcast(0.0, load(method.step, 0))
    for i in range(n):
        for j in range(d):
            store(zero, state.control, i, j)
        for k in range(method.local_steps):
            release_gradient(0, 0, k, i, state.model, 0, 0, state, samples, objective, method, release)
            if i == seen.worker:
                keep_release(k, i, state, seen)
    for j in range(d):
        c = weighted_mean(state.control, j, method.shares)
        store(c, state.server_control, 0, j)
        if seen.worker >= 0:
            store(c, seen.broadcasts, 0, j)
