"""The paper's Algorithm 1: what its workers and its server do in a round.

A worker is visited once a round: what it does with the last broadcast, and its next message.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.formulas import apply_prox
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.release import TAKERS, draw_ahead, mean_over_workers, note_failures, release_gradient
from fastldp.kernels.rounds import STEPS, Steps
from fastldp.kernels.simd import fma, keep_apart, load, store

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: X and the dual. The rest is room to work in."""

    X: Floats  # (n, d, lanes): the workers' models xᵢ; in a round their messages too, without the dual part
    dual: Floats  # (n, d, lanes): Λᵢ
    gradient: Floats  # of each share of the workers (see `gradient.Rooms`)
    scaled: Floats
    mean: Floats  # (1, d, lanes): the server's average
    failed: NDArray[np.int64]  # (lanes,): the first round whose average is not finite, or 0


class Method(NamedTuple):
    """The numbers of Algorithm 1."""

    step: Floats  # (1, lanes): γ
    shrink: Floats  # (n, lanes): wᵢ l2
    scale: Floats  # (1, lanes): γ/n, of the prox


def _half_step(i: Any, j: Any, h: Any, state: Any, method: Any) -> None:
    """Coordinate j of worker i's message, up to its dual part: x − γ(wᵢ∇fᵢ(x) + ζ)."""
    x = load(state.X, i, j)
    step = load(method.step, 0)
    # In place: what follows needs the message alone.
    store(x - step * fma(load(method.shrink, i), x, h), state.X, i, j)


@formula
def _receive(i: int, state: Any, objective: Any, method: Any) -> None:
    """Worker i's half of the round after the broadcast: dual, z and prox."""
    step = load(method.step, 0)
    for j in range(state.X.shape[1]):
        dual = load(state.dual, i, j)
        message = load(state.X, i, j) - step * dual
        apart = message - load(state.mean, 0, j)
        store(dual + apart, state.dual, i, j)
        store(message - step * apart, state.X, i, j)
    apply_prox(objective, state.X, i, load(method.scale, 0))


@formula
def _average(now: int, t: int, state: Any, seen: Any) -> None:
    """The server: the mean of the messages.

    The duals sum to zero, so their part is left out of the mean: the rounding errors of that sum then decay
    with the contraction instead of staying for ever.
    """
    for j in range(state.X.shape[1]):
        store(mean_over_workers(state.X, j), state.mean, 0, j)
    note_failures(t, state.mean, 0, state.failed)
    if seen.worker >= 0:
        for j in range(state.X.shape[1]):
            store(load(state.mean, 0, j), seen.broadcasts, now, j)


TAKERS[Method] = _half_step


def _serve(t: Any, first: Any, end: Any, state: Any, objective: Any, method: Any, seen: Any) -> Any:
    _average(t - first, t, state, seen)


def _leave(workers: Any, state: Any, objective: Any, method: Any) -> Any:
    for i in range(workers[0], workers[1]):
        _receive(i, state, objective, method)


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
    draw_ahead(t, workers, release)
    _visit_workers(t, begin, first, workers, state, samples, objective, method, release, seen)


@piece
def _visit_workers(
    t: int,
    begin: int,
    first: int,
    workers: tuple[int, int, int],
    state: Any,
    samples: Any,
    objective: Any,
    method: Any,
    release: Any,
    seen: Any,
) -> None:
    """The broadcast of the round before and this round's message, in one visit to each worker of a share."""
    keep_apart()  # a function of its own, for its registers
    for i in range(workers[0], workers[1]):
        if t > begin:
            _receive(i, state, objective, method)
        release_gradient(t - first, t, 0, i, state.X, i, workers[2], state, samples, objective, method, release)
        if i == seen.worker:
            step = load(method.step, 0)
            for j in range(state.X.shape[1]):
                store(load(state.X, i, j) - step * load(state.dual, i, j), seen.messages, t - first, j)


STEPS[Method] = Steps(_visit, _serve, leave=_leave)
