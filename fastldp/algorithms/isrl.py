"""ISRL-DP (Lowy, Razaviyayn 2023): parameters, and what its kernels need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.algorithms.baseline import outline_of
from fastldp.algorithms.planned import PLANNED, check_prior, checked_step
from fastldp.algorithms.program import Layout, Program
from fastldp.algorithms.schedule import Outline, Schedule, Terms
from fastldp.composite import Composite, threshold
from fastldp.errors import ArgumentError
from fastldp.kernels import isrl as kernels
from fastldp.planning.prior import Prior
from fastldp.privacy.budget import Budget
from fastldp.validation import integer

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ISRLDP:
    """One noisy gradient a worker and round, at a model that all share: noisy proximal gradient descent.

    The server takes the prox of g, which knows no data, after Lowy, Ghafelebashi and Razaviyayn (2022).

    Parameters
    ----------
    step : η. Accelerated, υ = 1/(2η) of AC-SA: the first step is of length η where μ = 0, and without noise η ≤ 1/(2L)
        converges, where plain steps may be as long as 1/L. With l2 > 0 it is forgotten after √(2/(η l2)) rounds.
        ``"planned"`` is the plain step with the least error to expect of the last iterate, see `fastldp.plan`.
    clip : C, the norm each sample's gradient is clipped to; the problem's bound where it is not given.
    accelerated : whether to run AC-SA (Ghadimi and Lan 2012), composite as theirs is, with the strong convexity of l2.
    tail_average : the answer is the mean of the iterates of so many last rounds; 0 takes the last.
    prior : what the planner assumes, as of `PrimalDual`.

    >>> ISRLDP(step=0.5, tail_average=100)
    ISRLDP(step=0.5, clip=None, accelerated=False, tail_average=100, prior=None)
    """

    version: ClassVar[int] = 3
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""

    step: float | str
    clip: float | None = None
    accelerated: bool = False
    tail_average: int = 0
    prior: Prior | str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", checked_step(self.step))
        check_prior(self.prior, planned=self.step == PLANNED)
        if self.clip is not None:
            object.__setattr__(self, "clip", threshold("clip", self.clip))
        if not isinstance(self.accelerated, bool):
            raise ArgumentError("accelerated", self.accelerated, "give True or False")
        if self.accelerated and self.step == PLANNED:
            raise ArgumentError("step", self.step, "the planner knows plain descent only; give accelerated a number")
        tail = integer("tail_average", self.tail_average, "give a number of rounds ≥ 0", at_least=0)
        object.__setattr__(self, "tail_average", tail)
        if self.accelerated and tail:
            raise ArgumentError("tail_average", tail, "the accelerated method averages by itself; give 0")

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The noise of every round."""
        return self.outline(Terms(problem, budget), rounds).complete()

    def outline(self, terms: Terms, rounds: int) -> Outline:
        """All that can be refused before the noise of the rounds is computed, and how to compute it."""
        if self.tail_average > rounds:
            raise ArgumentError("tail_average", self.tail_average, f"there are only {rounds} rounds")
        return outline_of(partial(NoisyDescent, self, terms.problem, rounds), self, terms, rounds)


class NoisyDescent(Program):
    """The kernels of ISRL-DP."""

    memory: ClassVar[tuple[str, ...]] = ("iterate", "answer")

    def __init__(self, method: ISRLDP, problem: Composite, rounds: int, step: float) -> None:
        super().__init__(step)
        self.clip, self.accelerated = method.clip, method.accelerated
        self.tail_begins = rounds - max(method.tail_average, 1)
        self.strong_convexity = problem.l2

    def divisors(self, problem: Composite) -> Array:
        return np.asarray(problem.divisors / problem.n)

    def state(self, layout: Layout, problem: Composite) -> kernels.State:
        d = problem.d
        shared = layout.zeros(1, d), layout.zeros(1, d), layout.zeros(1, d)
        return kernels.State(*shared, layout.zeros(problem.n, d), *layout.rooms(d), layout.no_failures())

    def method(self, layout: Layout, problems: Sequence[Composite], programs: Sequence[Any]) -> kernels.Method:
        return kernels.Method(
            step=layout.stack(program.step for program in programs),
            shrink=layout.stack(problem.l2 for problem in problems),
            coefficients=layout.zeros(0, 4),
        )

    def ahead(self, layout: Layout, method: Any, programs: Sequence[Any], begin: int, end: int) -> Any:
        coefficients = layout.stack(program.coefficients(begin, end) for program in programs)
        return method._replace(coefficients=coefficients)

    def during(self, method: Any, part: slice) -> Any:
        return method._replace(coefficients=method.coefficients[part])

    def coefficients(self, begin: int, end: int) -> Array:
        """(rounds, 4): mix, pull, step and share of the rounds begin + 1 to end."""
        r = np.arange(begin + 1, end + 1, dtype=np.float64)
        if not self.accelerated:
            zero, step = np.zeros_like(r), np.full_like(r, self.step)
            return np.stack([zero, zero, step, 1 / np.maximum(r - self.tail_begins, 1)], axis=1)
        # α_r = 2/(r + 1), η_r = 4υ/(r(r + 1)): Ghadimi and Lan's, for the strong convexity μ. Where η_r < μ, from round
        # √(2/(ημ)) on, steps are α_r/μ whatever η is: long runs of many η end alike.
        mu, alpha = self.strong_convexity, 2 / (r + 1)
        eta = 4 * (0.5 / self.step) / (r * (r + 1))
        mix = (1 - alpha) * (mu + eta) / (eta + (1 - alpha**2) * mu)
        return np.stack([mix, alpha * mu / (mu + eta), alpha / (mu + eta), alpha], axis=1)

    def begin(self, state: kernels.State, start: Array) -> None:
        state.iterate[...] = start
        state.answer[...] = start

    def models(self, state: kernels.State) -> NDArray[Any]:
        return state.answer
