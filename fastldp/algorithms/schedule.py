"""What every method makes of a problem and a budget: the noise of every round, and the ledger of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp import memory
from fastldp.composite import LARGEST_THRESHOLD, Composite
from fastldp.errors import BudgetError, DataError
from fastldp.planning.plan import ARRAYS_OF_RELEASES
from fastldp.privacy import sampler
from fastldp.privacy.allocation import LARGEST_VARIANCE, factors_of
from fastldp.privacy.budget import Budget
from fastldp.privacy.ledger import Ledger, Sensitivity

if TYPE_CHECKING:
    from fastldp.algorithms.program import Program

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Schedule:
    """A method on a problem under a budget, ready to run."""

    step: float
    deviations: Array
    """(T,): ξ_t up to each worker's factor; zeros without a budget."""
    factors: Array
    """(n,): what worker i multiplies ξ_t by."""
    ledger: Ledger | None
    program: Program

    def noised(self, origin: str) -> Schedule:
        """The same, with a ledger that says where the noise comes from."""
        return self if self.ledger is None else replace(self, ledger=replace(self.ledger, noise=origin))


@dataclass(frozen=True, eq=False, slots=True)
class Outline:
    """A schedule that can be made: all that there is to refuse was refused, and the noise is not computed yet."""

    program: Program
    sampler_spoils: bool
    """Whether the sampler may take so much of the promise that there is no calibrating to what it leaves."""
    factors: Array
    """(n,): a worker's variances beside those of the one that needs least."""
    complete: Callable[[], Schedule]


@dataclass(frozen=True, eq=False)
class Calibration:
    """How far one sample moves a release, and how much noise that takes."""

    sensitivities: Sensitivity
    least: dict[str, float]
    """ρ and the sensitivity of the worker that needs least noise."""
    factors: Array
    """(n,): how much more variance each worker needs than that one."""
    most: float
    """The largest Δ²/ρ of a worker."""


class Terms:
    """A problem and the budget of its runs, with what their schedules have in common, computed once."""

    def __init__(self, problem: Composite, budget: Budget | None) -> None:
        self.problem = problem
        self._budget = budget
        self._calibrations: dict[tuple[float, bytes], Calibration] = {}
        self._fitting = 0
        self._spoiled: dict[int, bool] = {}

    def refuse_beyond_memory(self, releases: int) -> None:
        """Raise where the noise of so many releases is more than the machine can hold."""
        if releases > self._fitting:  # looking takes longer than all the rest of a short run's outline
            memory.refuse_beyond("rounds", 8 * ARRAYS_OF_RELEASES * releases, "ask for fewer rounds or local steps")
            self._fitting = releases

    @property
    def private(self) -> bool:
        return self._budget is not None

    @property
    def budget(self) -> Budget:
        assert self._budget is not None  # a run without one has nothing to calibrate
        return self._budget

    @property
    def delta(self) -> float:
        """δ as promised; 1, which nothing spoils, without a budget."""
        return 1.0 if self._budget is None else self._budget.delta

    @cached_property
    def rho(self) -> Array:
        """(n,): what each worker may spend."""
        return self.budget.rho_of_workers(self.problem.n)

    @cached_property
    def epsilon(self) -> Array:
        """(n,): what each worker is promised."""
        return np.broadcast_to(np.asarray(self.budget.epsilon, dtype=np.float64), (self.problem.n,)).copy()

    def calibration(self, bound: float, divisors: Array, releases: int) -> Calibration:
        """Of releases of a worker's gradients, added up and divided, where no sample's exceeds the bound."""
        about = bound, divisors.tobytes()
        found = self._calibrations.get(about)
        if found is None:
            found = self._calibrations[about] = self._calibrated(released(self.problem, bound, divisors))
        if not found.most * releases / 2 <= LARGEST_VARIANCE:
            remedy = (
                f"the noise would have a variance above {LARGEST_VARIANCE:g}; promise a larger ε, or scale the data"
            )
            raise BudgetError("epsilon", self.budget.epsilon, remedy)
        return found

    def _calibrated(self, sensitivities: Sensitivity) -> Calibration:
        total = sensitivities.total
        with np.errstate(over="ignore", under="ignore"):
            needs = total**2 / self.rho
        if not needs.min() >= np.finfo(np.float64).tiny:
            raise BudgetError("epsilon", self.budget.epsilon, "so large that the noise vanishes; promise a smaller ε")
        least, factors = factors_of(total, self.rho)
        of_least = {"rho": float(self.rho[least]), "sensitivity": float(total[least])}
        return Calibration(sensitivities, of_least, factors, float(needs.max()))

    def sampler_spoils(self, releases: int) -> bool:
        """Whether the sampler may take so much of what so many releases promise that there is no calibrating to it."""
        if self.problem.dtype != "float64":
            return False
        if releases not in self._spoiled:
            pairs = releases * ((self.problem.d + 1) // 2)
            # No release that is within the budget moves by more than √(2ρ) of its deviation.
            given = {*zip(self.epsilon.tolist(), np.sqrt(2 * self.rho).tolist(), strict=True)}
            taken = [(epsilon, sampler.cost(pairs, epsilon, self.delta, shift)) for epsilon, shift in given]
            self._spoiled[releases] = any(sampler.left(epsilon, self.delta, cost) is None for epsilon, cost in taken)
        return self._spoiled[releases]


def noiseless(program: Program, problem: Composite, rounds: int) -> Outline:
    """The outline of a run without a budget."""
    program.private = False
    ones = np.ones(problem.n)
    return Outline(program, False, ones, lambda: Schedule(program.step, np.zeros(rounds), ones, None, program))


def released(problem: Composite, bound: float, divisors: Array) -> Sensitivity:
    """How far one sample moves a release of gradients so divided; in float32 without the rounding of the gradient."""
    if bound == 0:
        raise DataError("A", "zeros", "every row is zero: there is nothing to learn from or to hide")
    if not bound <= LARGEST_THRESHOLD[problem.precision]:
        remedy = "so large that their squares overflow; scale the features, keep x in a smaller set, or clip"
        raise DataError("A", f"gradients of up to {bound:g}", remedy)
    found = Sensitivity.of_means(bound, divisors, problem.sizes, problem.rounding)
    if float(found.query.min()) ** 2 < np.finfo(np.float64).tiny:
        raise DataError(
            "A", f"gradients of at most {bound:g}", "so small that their squares vanish; scale the features"
        )
    return found


def ledger_of(terms: Terms, calibration: Calibration, *, bound: float, divisors: Array, **rest: Any) -> Ledger:
    """The ledger of a run whose queries are sums of gradients so divided."""
    return Ledger(
        accounting=terms.budget.accounting,
        delta=terms.budget.delta,
        promised_epsilon=terms.epsilon,
        promised_rho=terms.rho,
        sensitivities=calibration.sensitivities,
        bound=bound,
        dimension=terms.problem.d,
        largest_query=float((bound / (divisors / terms.problem.sizes)).max()),
        precision=terms.problem.dtype,
        sampler_version=sampler.VERSION,
        **rest,
    )


def calibrated(ledger: Ledger, allocation: Any) -> Ledger:
    """The ledger with room for the sampler; only a caller's own variances can overspend, and they are refused."""
    over = ledger.spent_share
    if not over <= 1:
        spends = np.max(np.atleast_1d(ledger.spent_epsilon))
        raise BudgetError(
            "allocation",
            allocation,
            f"these variances spend ε = {spends:.6g} at δ = {ledger.delta:g}, more than the budget; "
            f"multiply them by {over * (1 + 1e-9):.9g} or more",
        )
    return ledger.calibrated()
