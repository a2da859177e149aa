"""DP-ScaffNew: every round is a noisy gradient step of each worker on its own; a coin says when the server answers.

    x̂ᵢ = xᵢ − γ(n wᵢ∇fᵢ(xᵢ) + noise − hᵢ)
    x  = prox_{(γ/p)g}(meanᵢ(x̂ᵢ − (γ/p) hᵢ)), xᵢ ← x     where the coin of the round says so; xᵢ ← x̂ᵢ where it does not
    hᵢ ← hᵢ + (p/γ)(xᵢ − x̂ᵢ)

A worker is visited once a round: what it does with the last answer, if there was one, and its next step.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.formulas import apply_prox
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.release import (
    TAKERS,
    keep_release,
    mean_over_workers,
    note_failures,
    public_bits,
    release_gradient,
)
from fastldp.kernels.rounds import STEPS, Steps
from fastldp.kernels.simd import any_lane, broadcast, fma, keep_apart, load, select, store

Floats = NDArray[np.floating[Any]]


class State(NamedTuple):
    """Everything a run is, between calls: the workers' models and control variates, and the server's model."""

    X: Floats  # (n, d, lanes): xᵢ; in a round x̂ᵢ
    control: Floats  # (n, d, lanes): hᵢ
    half: Floats  # (n, d, lanes): what is released of the gradients
    gradient: Floats  # of each share of the workers (see `gradient.Rooms`)
    scaled: Floats
    model: Floats  # (1, d, lanes): x, of the last answer
    point: Floats  # (1, d, lanes): what it would be now
    coin: Floats  # (1, lanes): 1 where the server answers in this round, else 0
    answered: Floats  # (1, lanes): the same of the last round that is over
    failed: NDArray[np.int64]  # (lanes,): the first round whose answer is not finite, or 0


class Method(NamedTuple):
    """The numbers of the method."""

    step: Floats  # (1, lanes): γ
    chance: Floats  # (1, lanes): p·2²⁴, a whole number
    stretch: Floats  # (1, lanes): γ/p
    rate: Floats  # (1, lanes): p/γ
    shrink: Floats  # (n, lanes): n wᵢ l2


def _local_step(i: Any, j: Any, h: Any, state: Any, method: Any) -> None:
    """x̂ = x − γ(∇fᵢ(x) + noise − hᵢ), coordinate j."""
    x = load(state.X, i, j)
    direction = fma(load(method.shrink, i), x, h) - load(state.control, i, j)
    store(x - load(method.step, 0) * direction, state.X, i, j)
    store(h, state.half, i, j)


TAKERS[Method] = _local_step


@piece
def _flip(t: int, state: Any, method: Any, release: Any) -> None:
    """The coins of round t."""
    keep_apart()  # the cipher among the gradients makes LLVM spoil these
    chance = load(method.chance, 0)
    store(select(public_bits(t, release, chance) < chance, 1.0, broadcast(0.0, chance)), state.coin, 0)


@formula
def _receive(i: int, state: Any, method: Any) -> None:
    """What worker i does with the server's answer: nothing changes where there was none."""
    answered = load(state.answered, 0) > 0.0
    if any_lane(answered):
        for j in range(state.X.shape[1]):
            moved = load(state.X, i, j)
            x = select(answered, load(state.model, 0, j), moved)
            store(fma(load(method.rate, 0), x - moved, load(state.control, i, j)), state.control, i, j)
            store(x, state.X, i, j)


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
    """The answer of the round before and this round's step, in one visit to each worker of a share."""
    keep_apart()  # a function of its own, for its registers
    for i in range(workers[0], workers[1]):
        if t > begin:
            _receive(i, state, method)
        release_gradient(t - first, t, 0, i, state.X, i, workers[2], state, samples, objective, method, release)
        if i == seen.worker:
            keep_release(t - first, i, state, seen)


@formula
def _average(now: int, t: int, state: Any, objective: Any, method: Any, seen: Any) -> None:
    """The server's answer, where there is one."""
    coin = load(state.coin, 0)
    store(coin, state.answered, 0)
    answers = coin > 0.0
    if any_lane(answers):
        for j in range(state.X.shape[1]):
            # The hᵢ sum to zero where g = 0, up to rounding, which this takes off again.
            pull = load(method.stretch, 0) * mean_over_workers(state.control, j)
            store(mean_over_workers(state.X, j) - pull, state.point, 0, j)
        apply_prox(objective, state.point, 0, load(method.stretch, 0))
        for j in range(state.X.shape[1]):
            store(select(answers, load(state.point, 0, j), load(state.model, 0, j)), state.model, 0, j)
        note_failures(t, state.model, 0, state.failed)
    if seen.worker >= 0:
        for j in range(state.X.shape[1]):
            store(select(answers, load(state.model, 0, j), broadcast(np.nan, coin)), seen.broadcasts, now, j)


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
    if workers[2] == 0:  # one share for all
        _flip(t, state, method, release)
    _visit_workers(t, begin, first, workers, state, samples, objective, method, release, seen)


def _serve(t: Any, first: Any, end: Any, state: Any, objective: Any, method: Any, seen: Any) -> Any:
    _average(t - first, t, state, objective, method, seen)


def _leave(workers: Any, state: Any, objective: Any, method: Any) -> Any:
    for i in range(workers[0], workers[1]):
        _receive(i, state, method)


STEPS[Method] = Steps(_visit, _serve, leave=_leave)
