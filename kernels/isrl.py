"""ISRL-DP: one noisy gradient a worker and round, at a point all share; plain, tail-averaged or accelerated.

With coefficients of every round, all three are one recursion: w is the iterate, a the answer,

    p = w + mix (a − w)                       where the gradients are taken
    w ← prox(w + pull (p − w) − step h)       of step·g; h the mean of the noisy n wᵢ∇fᵢ at p
    a ← a + share (w − a)

Plain has mix = pull = 0 and share = 1; a tail average the shares 1, 1/2, 1/3, ... in the tail; AC-SA all four.
The prox is that of the composite AC-SA (Ghadimi and Lan 2012), whose step of round r is α_r/(μ + η_r).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.formulas import apply_prox
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.release import TAKERS, keep_release, mean_over_workers, note_failures, release_gradient
from fastldp.kernels.rounds import STEPS, Steps
from fastldp.kernels.simd import fma, keep_apart, load, store

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: iterate and answer. The rest is room to work in."""

    iterate: Floats  # (1, d, lanes): w
    answer: Floats  # (1, d, lanes): a
    point: Floats  # (1, d, lanes): p
    half: Floats  # (n, d, lanes): what is released of the gradients
    gradient: Floats  # of each share of the workers (see `gradient.Rooms`)
    scaled: Floats
    failed: NDArray[np.int64]  # (lanes,): the first round whose iterate is not finite, or 0


class Method(NamedTuple):
    """The numbers of the method; the coefficients are those of the rounds of the call."""

    step: Floats  # (1, lanes): not used, but for its type
    shrink: Floats  # (1, lanes): l2
    coefficients: Floats  # (rounds of the call, 4, lanes): mix, pull, step, share


def _keep(i: Any, j: Any, h: Any, state: Any, method: Any) -> None:
    store(h, state.half, i, j)


TAKERS[Method] = _keep


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
    """The releases of a share of the workers."""
    keep_apart()  # a function of its own, for its registers
    for i in range(workers[0], workers[1]):
        release_gradient(t - first, t, 0, i, state.point, 0, workers[2], state, samples, objective, method, release)
        if i == seen.worker:
            keep_release(t - first, i, state, seen)


@formula
def _aim(now: int, state: Any, method: Any) -> None:
    """The point of a round."""
    mix = load(method.coefficients, now, 0)
    for j in range(state.point.shape[1]):
        w = load(state.iterate, 0, j)
        store(fma(mix, load(state.answer, 0, j) - w, w), state.point, 0, j)


@formula
def _average(now: int, t: int, state: Any, objective: Any, method: Any, seen: Any) -> None:
    """The server's step."""
    pull, step = load(method.coefficients, now, 1), load(method.coefficients, now, 2)
    share = load(method.coefficients, now, 3)
    for j in range(state.point.shape[1]):
        w, p = load(state.iterate, 0, j), load(state.point, 0, j)
        h = fma(load(method.shrink, 0), p, mean_over_workers(state.half, j))
        store(fma(pull, p - w, w) - step * h, state.iterate, 0, j)
        if seen.worker >= 0:
            store(p, seen.broadcasts, now, j)
    apply_prox(objective, state.iterate, 0, step)
    for j in range(state.point.shape[1]):
        a = load(state.answer, 0, j)
        store(fma(share, load(state.iterate, 0, j) - a, a), state.answer, 0, j)
    note_failures(t, state.iterate, 0, state.failed)


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
    _average(t - first, t, state, objective, method, seen)
    if t + 1 < end:
        _aim(t + 1 - first, state, method)


def _enter(now: Any, state: Any, method: Any) -> Any:
    _aim(now, state, method)


STEPS[Method] = Steps(_visit, _serve, enter=_enter)
