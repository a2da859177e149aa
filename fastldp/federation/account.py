"""What was spent of a budget, over rounds and over trainings: ρ adds up, as all releases are Gaussian.

Two trainings with μ₁ and μ₂ of Gaussian differential privacy are one of √(μ₁² + μ₂²), exactly, and μ² = 2ρ; so ρ adds
up under every accounting here. What the sampler costs beside true normals grows with the pairs of normals that were
drawn, of all trainings together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fastldp.federation.terms import Terms
from fastldp.privacy import sampler
from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import epsilon_of, rho_of


@dataclass(frozen=True)
class Spent:
    """What releases have spent; `rest` is what the sum of ρ was rounded by."""

    rho: float = 0.0
    rest: float = 0.0
    pairs: int = 0
    """Of normals that were drawn."""
    shift: float = 0.0
    """How far one sample moved a release at most, in σ."""

    def plus(self, other: Spent) -> Spent:
        """Both together; of however many the error is that of one addition."""
        parts = (self.rho, self.rest, other.rho, other.rest)
        rho = math.fsum(parts)
        return Spent(rho, math.fsum((*parts, -rho)), self.pairs + other.pairs, max(self.shift, other.shift))


def together(parts: Iterable[Spent]) -> Spent:
    """All of them."""
    found = Spent()
    for part in parts:
        found = found.plus(part)
    return found


class Prices:
    """What a worker's answers spend, under some terms."""

    def __init__(self, terms: Terms, worker: int) -> None:
        self._terms, self._worker = terms, worker
        ledger = self._ledger = terms.ledger
        self._release = float(ledger.sensitivities.total[worker]) ** 2 / (2 * float(ledger.factors[worker]))
        self._count = 0.0
        if ledger.counts:
            self._count = ledger.count_sensitivity**2 / (2 * float(ledger.count_factors[worker]))
        squares = [2 * self._release / float(ledger.shape.min())]
        if ledger.counts:
            squares.append(2 * self._count / float(ledger.count_variances.min()))
        self._shift = math.sqrt(max(squares))

    def of(self, round_: int) -> Spent:
        """What the answer of a round spends."""
        terms, ledger = self._terms, self._ledger
        rho, pairs = 0.0, 0
        releases = terms.releases(round_)
        if releases:
            program = terms.schedule.program
            first = 0 if round_ == 0 else program.releases(round_ - 1)
            rho += self._release * float(np.sum(1 / ledger.shape[first : first + releases]))
            pairs += releases * ((terms.dimension + 1) // 2)
        if terms.counts(round_):
            rho += self._count / float(ledger.count_variances[self._place(round_)])
            pairs += 1
        return Spent(rho, 0.0, pairs, self._shift)

    def _place(self, round_: int) -> int:
        """Of a round's count among all."""
        adapting = self._terms.schedule.adapting
        assert adapting is not None  # it counts
        early = adapting.early_gains.size
        return round_ + early if round_ < 0 else early + int(np.count_nonzero(adapting.gains[: round_ - 1] > 0))

    @cached_property
    def whole(self) -> Spent:
        """Of all rounds."""
        ledger = self._ledger
        pairs = ledger.releases * ((self._terms.dimension + 1) // 2) + ledger.counts
        return Spent(float(np.broadcast_to(ledger.spent_rho, self._terms.n)[self._worker]), 0.0, pairs, self._shift)


def affordable(budget: Budget, spent: Spent) -> float:
    """The ρ that so many releases may spend of a worker's budget, the sampler's cost taken off; 0 if that is too much.

    Where nothing was drawn it is the whole.
    """
    epsilon = float(np.max(budget.epsilon))
    if not spent.pairs:
        return rho_of(epsilon, budget.delta, budget.accounting)
    rest = sampler.left(epsilon, budget.delta, sampler.cost(spent.pairs, epsilon, budget.delta, spent.shift))
    return 0.0 if rest is None else rho_of(*rest, budget.accounting)


def epsilon_left(budget: Budget, spent: Spent) -> float:
    """The ε, at the δ of the budget, of one more training that it has room for; but for that one's sampler."""
    left = affordable(budget, spent) - spent.rho
    return epsilon_of(left, budget.delta, budget.accounting) if left > 0 else 0.0


def epsilon_spent(budget: Budget, spent: Spent) -> float:
    """ε at the budget's δ of what was spent, the sampler's cost included."""
    if not spent.pairs:
        return 0.0
    taken = sampler.cost(spent.pairs, float(np.max(budget.epsilon)), budget.delta, spent.shift)
    rest = (budget.delta - taken.remainder) * math.exp(-taken.log_ratio)
    return epsilon_of(spent.rho, rest, budget.accounting) + 2 * taken.log_ratio if rest > 0 else math.inf
