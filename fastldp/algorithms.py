"""The methods: their parameters, and what a run needs of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError, BudgetError, DataError, StepWarning
from fastldp.privacy.allocation import LARGEST_VARIANCE, dynamic_variances, static_variances
from fastldp.privacy.budget import Budget
from fastldp.privacy.ledger import Ledger, Sensitivity
from fastldp.problem import Problem
from fastldp.validation import known_name, real, vector

Array = NDArray[np.float64]

ALLOCATIONS = ("dynamic", "static")

UNIT_ROUNDOFF = 2.0**-53
# Beyond these the squares of a run's numbers would overflow; such noise spends nothing that counts.
LARGEST_VARIANCES = {"float64": LARGEST_VARIANCE, "float32": 1e30}


@dataclass(frozen=True, eq=False)
class Schedule:
    """A method on a problem under a budget, ready to run."""

    step: float
    deviations: Array
    """(T,): ξ_t up to each worker's factor; zeros without a budget."""
    factors: Array
    """(n,): what worker i multiplies ξ_t by."""
    ledger: Ledger | None


@dataclass(frozen=True, eq=False)
class PrimalDual:
    """The paper's Algorithm 1.

    Parameters
    ----------
    step : γ; min{1/4, 1/L_f}, the theorem's limit, where it is not given.
    allocation : ``"dynamic"`` (Theorem 1), ``"static"``, or an array of T variances of the caller's own.

    >>> PrimalDual(step=0.1, allocation="static")
    PrimalDual(step=0.1, allocation='static')
    """

    step: float | None = None
    allocation: str | ArrayLike = "dynamic"

    def __post_init__(self) -> None:
        if self.step is not None:
            object.__setattr__(self, "step", real("step", self.step, "give a finite number > 0", above=0))
        if isinstance(self.allocation, str):
            known_name("allocation", self.allocation, ALLOCATIONS)

    def schedule(self, problem: Problem, budget: Budget | None, rounds: int) -> Schedule:
        """The step and the noise of every round."""
        step = self._step(problem)
        if budget is None:
            if not isinstance(self.allocation, str):
                raise ArgumentError("allocation", self.allocation, "variances need a budget= to be held against")
            return Schedule(step, np.zeros(rounds), np.ones(problem.n), None)
        rho = budget.rho_of_workers(problem.n)
        sensitivities = _sensitivities(problem)
        shape, factors = self._variances(problem, rounds, step, rho, sensitivities.total)
        ledger = Ledger(
            accounting=budget.accounting,
            delta=budget.delta,
            promised_epsilon=np.broadcast_to(np.asarray(budget.epsilon, dtype=np.float64), (problem.n,)).copy(),
            promised_rho=rho,
            bound=problem.gradient_bound,
            bound_source=problem.bound_source,
            read_off_data=self._read_off_data(problem),
            allocation=self.allocation if isinstance(self.allocation, str) else "given",
            sensitivities=sensitivities,
            shape=shape,
            factors=factors,
            dimension=problem.d,
            largest_query=problem.gradient_bound / problem.n,
            precision=problem.dtype,
        )
        _refuse_overspending(ledger, self.allocation)
        return Schedule(step, np.sqrt(shape), np.sqrt(factors), ledger)

    def _step(self, problem: Problem) -> float:
        if self.step is None:
            return problem.safe_step
        if self.step > problem.step_limit:
            warnings.warn(
                f"step = {self.step:g} is above min{{1/4, 1/L_f}} = {problem.step_limit:.6g}: the run is as private as "
                "any, but the theorem's error bound no longer holds",
                StepWarning,
                stacklevel=4,
            )
        return self.step

    def _read_off_data(self, problem: Problem) -> str:
        """What the messages depend on that was read off the data without noise; empty for a run to deploy."""
        read = [] if problem.bound_source == "public" else ["the gradient bound"]
        if self.step is None and not problem.public_constants:
            read.append("the step")
        dynamic = isinstance(self.allocation, str) and self.allocation == "dynamic"
        if dynamic and problem.loss == "squared" and problem.bound_source != "public":
            read.append("the strong convexity")
        return ", ".join(read)

    def _variances(
        self, problem: Problem, rounds: int, step: float, rho: Array, sensitivity: Array
    ) -> tuple[Array, Array]:
        """The shape over the rounds and each worker's factor."""
        if not isinstance(self.allocation, str):
            shape = vector("allocation", self.allocation, rounds, "give one variance > 0 a round")
            if (shape <= 0).any():
                raise ArgumentError("allocation", self.allocation, "variances must be > 0 in every round")
            return shape, np.ones(problem.n)
        # One shape for all, for the worker that needs least noise; the others scale it up.
        needs = sensitivity**2 / rho
        least = int(np.argmin(needs))
        of_least = {"rho": float(rho[least]), "sensitivity": float(sensitivity[least])}
        if self.allocation == "static":
            shape = static_variances(rounds, **of_least)
        else:
            contraction = step * min(problem.safe_strong_convexity, 1.0)
            if contraction >= 1:
                raise ArgumentError(
                    "step", step, f"times min{{μ_f, 1}} it must stay below 1; give less than {step / contraction:g}"
                )
            largest = LARGEST_VARIANCES[problem.dtype]
            shape = dynamic_variances(rounds, contraction=contraction, largest=largest, **of_least)
        factors = needs / needs[least]
        # Rounded up, so that no worker overspends by a rounding error.
        return shape, np.where(factors > 1, factors * (1 + 8 * UNIT_ROUNDOFF), 1.0)


def _sensitivities(problem: Problem) -> Sensitivity:
    """How far one sample moves a release; in float32 without the rounding of the gradient."""
    bound = problem.gradient_bound
    if bound == 0:
        raise DataError("A", "zeros", "every row is zero: there is nothing to learn from or to hide")
    query = 2 * bound / (problem.n * problem.sizes)
    if problem.dtype == "float32":
        return Sensitivity(query, np.zeros(problem.n))
    # A sum of m terms of norm B/(nm) is rounded by m units of B/n at most, in each of the two worlds.
    return Sensitivity(query, 2 * (problem.sizes + 4) * UNIT_ROUNDOFF * bound / problem.n)


def _refuse_overspending(ledger: Ledger, allocation: Any) -> None:
    """Only a caller's own variances can overspend; the calibrated ones are checked all the same."""
    over = float(np.max(np.atleast_1d(ledger.spent_rho) / ledger.promised_rho))
    if over > 1:
        spends = np.max(np.atleast_1d(ledger.spent_epsilon))
        raise BudgetError(
            "allocation",
            allocation,
            f"these variances spend ε = {spends:.6g} at δ = {ledger.delta:g}, more than the budget; "
            f"multiply them by {over * (1 + 1e-9):.9g} or more",
        )
