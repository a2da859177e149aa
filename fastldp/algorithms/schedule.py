"""What every method makes of a problem and a budget: the noise of every round, and the ledger of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp.composite import Composite
from fastldp.errors import BudgetError, DataError
from fastldp.privacy import sampler
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


def released(problem: Composite, bound: float, parts: int) -> Sensitivity:
    """How far one sample moves a release of ∇fᵢ/parts; in float32 without the rounding of the gradient."""
    if bound == 0:
        raise DataError("A", "zeros", "every row is zero: there is nothing to learn from or to hide")
    found = Sensitivity.of_means(bound, parts, problem.sizes, problem.rounding)
    if float(found.query.min()) ** 2 < np.finfo(np.float64).tiny:
        raise DataError(
            "A", f"gradients of at most {bound:g}", "so small that their squares vanish; scale the features"
        )
    return found


def ledger_of(
    problem: Composite, budget: Budget, sensitivities: Sensitivity, *, bound: float, parts: int, **rest: Any
) -> Ledger:
    """The ledger of a run whose queries are ∇fᵢ/parts."""
    return Ledger(
        accounting=budget.accounting,
        delta=budget.delta,
        promised_epsilon=np.broadcast_to(np.asarray(budget.epsilon, dtype=np.float64), (problem.n,)).copy(),
        promised_rho=budget.rho_of_workers(problem.n),
        sensitivities=sensitivities,
        bound=bound,
        dimension=problem.d,
        largest_query=bound / parts,
        precision=problem.dtype,
        sampler_version=sampler.VERSION,
        **rest,
    )


def calibrated(ledger: Ledger, allocation: Any) -> Ledger:
    """The ledger with room for the sampler; only a caller's own variances can overspend, and they are refused."""
    over = float(np.max(np.atleast_1d(ledger.spent_rho) / ledger.promised_rho))
    if not over <= 1:
        spends = np.max(np.atleast_1d(ledger.spent_epsilon))
        raise BudgetError(
            "allocation",
            allocation,
            f"these variances spend ε = {spends:.6g} at δ = {ledger.delta:g}, more than the budget; "
            f"multiply them by {over * (1 + 1e-9):.9g} or more",
        )
    return ledger.calibrated()
