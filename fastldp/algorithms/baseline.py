"""What the baselines share: equal noise in every release, and a clipping threshold of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fastldp import memory
from fastldp.algorithms.planned import PLANNED, planned_descent, read_by_plan, refuse_without_budget
from fastldp.algorithms.program import Program
from fastldp.algorithms.schedule import Schedule, ledger_of, released
from fastldp.composite import Composite
from fastldp.planning.plan import Way
from fastldp.planning.prior import Prior
from fastldp.privacy.allocation import factors_of, static_variances
from fastldp.privacy.budget import Budget
from fastldp.validation import real

# What is computed for every release before the first: variances, and room to compute them and the ledger in.
ARRAYS_OF_RELEASES = 6


class Baseline(Protocol):
    """What they all have."""

    @property
    def step(self) -> float | str: ...

    @property
    def prior(self) -> Prior | str | None: ...


def positive(argument: str, value: float) -> float:
    """A step or a threshold."""
    return real(argument, value, "give a finite number > 0", above=0)


def schedule_of(
    make: Callable[[float], Program], method: Baseline, problem: Composite, budget: Budget | None, rounds: int
) -> Schedule:
    """σ² = 2C² releases/(ρ mᵢ²) in each release: sensitivity 2C/mᵢ. `make` gives the program for a step."""
    # A planned step is not known before the bound is.
    program = make(1.0 if isinstance(method.step, str) else method.step)
    releases = program.releases(rounds)
    memory.refuse_beyond("rounds", 8 * ARRAYS_OF_RELEASES * releases, "ask for fewer rounds or local steps")
    if budget is None:
        refuse_without_budget(method.step)
        return Schedule(program.step, np.zeros(rounds), np.ones(problem.n), None, program)
    clipped = program.threshold(problem) < np.inf
    bound = program.threshold(problem) if clipped else problem.gradient_bound
    sensitivities = released(problem, bound, program.parts(problem))
    rho = budget.rho_of_workers(problem.n)
    read, line = [] if clipped else ["the gradient bound"], ""
    if method.step == PLANNED:
        way = Way(
            parts=program.parts(problem),
            local_steps=program.local_steps,
            server_step=program.server_step,
            early_releases=program.early_releases,
        )
        plan = planned_descent(problem, method.prior, rho, sensitivities.total, way, rounds)
        program, line = make(plan.step), plan.line()
        read += read_by_plan(problem, method.prior, bounded=clipped)
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
        read_off_data=", ".join(read),
        allocation="static",
        shape=shape,
        factors=factors,
        plan=line,
    ).calibrated()
    deviations = np.full(rounds, np.sqrt(ledger.shape[0]))
    return Schedule(program.step, deviations, np.sqrt(ledger.factors), ledger, program)
