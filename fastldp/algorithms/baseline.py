"""What the baselines share: equal noise in every release, and a clipping threshold of their own."""

from __future__ import annotations

import numpy as np

from fastldp import memory
from fastldp.algorithms.program import Program
from fastldp.algorithms.schedule import Schedule, factors_of, ledger_of, released
from fastldp.composite import Composite
from fastldp.privacy.allocation import static_variances
from fastldp.privacy.budget import Budget
from fastldp.validation import real

# What is computed for every release before the first: variances, and room to compute them and the ledger in.
ARRAYS_OF_RELEASES = 6


def positive(argument: str, value: float) -> float:
    """A step or a threshold."""
    return real(argument, value, "give a finite number > 0", above=0)


def schedule_of(program: Program, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
    """σ² = 2C² releases/(ρ mᵢ²) in each release: sensitivity 2C/mᵢ."""
    step, releases = program.step, program.releases(rounds)
    memory.refuse_beyond("rounds", 8 * ARRAYS_OF_RELEASES * releases, "ask for fewer rounds or local steps")
    if budget is None:
        return Schedule(step, np.zeros(rounds), np.ones(problem.n), None, program)
    clipped = program.threshold(problem) < np.inf
    bound = program.threshold(problem) if clipped else problem.gradient_bound
    sensitivities = released(problem, bound, program.parts(problem))
    rho = budget.rho_of_workers(problem.n)
    least, factors = factors_of(sensitivities.total, rho)
    of_least = {"rho": float(rho[least]), "sensitivity": float(sensitivities.total[least])}
    shape = static_variances(releases, **of_least)
    ledger = ledger_of(
        problem,
        budget,
        sensitivities,
        bound=bound,
        bound_source="public" if clipped else problem.bound_source,
        parts=program.parts(problem),
        read_off_data="" if clipped else "the gradient bound",
        allocation="static",
        shape=shape,
        factors=factors,
    )
    return Schedule(step, np.full(rounds, np.sqrt(shape[0])), np.sqrt(factors), ledger, program)
