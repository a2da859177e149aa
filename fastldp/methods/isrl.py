"""ISRL-DP (Lowy, Razaviyayn 2023): one noisy gradient a worker and round, at a point all share.

Plain, tail-averaged or accelerated: with coefficients of every round, all three are one recursion. w is the iterate, a
the answer,

    p = w + mix (a − w)                       where the gradients are taken
    w ← prox(w + pull (p − w) − length h)     of length·g; h the mean of the noisy n wᵢ∇fᵢ at p
    a ← a + weight (w − a)

Plain has mix = pull = 0 and weight = 1; a tail average the weights 1, 1/2, 1/3, ... in the tail; AC-SA all four.
The prox is that of the composite AC-SA (Ghadimi and Lan 2012), whose length of round r is α_r/(μ + η_r).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.lanes import fma, load, prox, store, weighted_mean
from fastldp.methods.base import Method
from fastldp.methods.clipping import AdaptiveClip
from fastldp.methods.planned import PLANNED, check_prior
from fastldp.methods.sampling import Sampling
from fastldp.methods.schedule import Outline, Program, Terms
from fastldp.problems.prior import Prior
from fastldp.validation import integer

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class ISRLDP(Method):
    """One noisy gradient a worker and round, at a model that all share: noisy proximal gradient descent.

    The server takes the prox of g, which knows no data, after Lowy, Ghafelebashi and Razaviyayn (2022).

    Parameters
    ----------
    step : float or str
        η. Accelerated, υ = 1/(2η) of AC-SA: the first step is of length η where μ = 0, and without noise η ≤ 1/(2L)
        converges, where plain steps may be as long as 1/L. With l2 > 0 it is forgotten after √(2/(η l2)) rounds.
        ``"planned"`` is the plain step with the least error to expect of the last iterate, see `fastldp.plan`.
    clip : float or AdaptiveClip, optional
        C, the norm each sample's gradient is clipped to, or how it adapts; the problem's bound where it is not given.
    accelerated : bool
        Whether to run AC-SA (Ghadimi and Lan 2012), composite as theirs is, with the strong convexity of l2.
    tail_average : int
        The answer is the mean of the iterates of so many last rounds; 0 takes the last.
    prior : Prior or str, optional
        What the planner assumes, as of `PrimalDual`.
    sampling : Sampling or float, optional
        Which samples and workers a round is of; all of them where it is not given.

    Examples
    --------
    >>> ISRLDP(step=0.5, tail_average=100)
    ISRLDP(step=0.5, clip=None, accelerated=False, tail_average=100, prior=None)
    """

    version: ClassVar[int] = 3
    plans: ClassVar[bool] = True
    in_part: ClassVar[bool] = True
    server: ClassVar[tuple[str, ...]] = "iterate", "answered", "model"
    begin: ClassVar[tuple[str, ...]] = "iterate", "answered"
    checkpoint: ClassVar[tuple[str, ...]] = "iterate", "answered"
    numbers: ClassVar[tuple[str, ...]] = ()
    of_rounds: ClassVar[tuple[str, ...]] = "mix", "pull", "length", "weight"
    answer: ClassVar[str] = "answered"
    checked: ClassVar[str] = "iterate"

    step: float | str
    clip: float | str | AdaptiveClip | None = None
    accelerated: bool = False
    tail_average: int = 0
    prior: Prior | str | None = None
    sampling: Sampling | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self.prior, planned=self.step == PLANNED)
        if not isinstance(self.accelerated, bool):
            raise ArgumentError("accelerated", self.accelerated, "give True or False")
        if self.accelerated and self.step == PLANNED:
            raise ArgumentError("step", self.step, "the planner knows plain descent only; give accelerated a number")
        tail = integer("tail_average", self.tail_average, "give a number of rounds ≥ 0", at_least=0)
        object.__setattr__(self, "tail_average", tail)
        if self.accelerated and tail:
            raise ArgumentError("tail_average", tail, "the accelerated method averages by itself; give 0")

    def outline(self, terms: Terms, rounds: int) -> Outline:
        if self.tail_average > rounds:
            raise ArgumentError("tail_average", self.tail_average, f"there are only {rounds} rounds")
        return super().outline(terms, rounds)

    def coefficients(self, program: Program, begin: int, end: int) -> Array:
        r = np.arange(begin + 1, end + 1, dtype=np.float64)
        if not self.accelerated:
            zero, step = np.zeros_like(r), np.full_like(r, program.step)
            tail_begins = program.rounds - max(self.tail_average, 1)
            return np.stack([zero, zero, step, 1 / np.maximum(r - tail_begins, 1)], axis=1)
        # α_r = 2/(r + 1), η_r = 4υ/(r(r + 1)): Ghadimi and Lan's, for the strong convexity μ. Where η_r < μ, from round
        # √(2/(ημ)) on, steps are α_r/μ whatever η is: long runs of many η end alike.
        mu, alpha = program.problem.l2, 2 / (r + 1)
        eta = 4 * (0.5 / program.step) / (r * (r + 1))
        mix = (1 - alpha) * (mu + eta) / (eta + (1 - alpha**2) * mu)
        return np.stack([mix, alpha * mu / (mu + eta), alpha / (mu + eta), alpha], axis=1)

    def aim(self: Any, run: Any) -> None:
        """p, of the round to come."""
        for j in range(run.d):
            w = load(run.iterate, 0, j)
            store(fma(self.mix, load(run.answered, 0, j) - w, w), run.model, 0, j)

    def serve(self: Any, run: Any) -> None:
        """w and a, of the mean of the releases at p."""
        length = self.length * run.pace
        for j in range(run.d):
            w, p = load(run.iterate, 0, j), load(run.model, 0, j)
            h = fma(run.l2, p, weighted_mean(run.release, j, run.parts))
            store(fma(self.pull, p - w, w) - length * h, run.iterate, 0, j)
        prox(run, run.iterate, 0, length)
        for j in range(run.d):
            a = load(run.answered, 0, j)
            store(fma(self.weight, load(run.iterate, 0, j) - a, a), run.answered, 0, j)
