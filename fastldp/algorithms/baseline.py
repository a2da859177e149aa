"""What the baselines share: equal noise in every release, and a clipping threshold of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from fastldp.algorithms.planned import PLANNED, planned_descent, read_by_plan, refuse_without_budget
from fastldp.algorithms.program import Program
from fastldp.algorithms.schedule import Outline, Schedule, Terms, ledger_of, noiseless
from fastldp.composite import threshold
from fastldp.planning.plan import Way
from fastldp.planning.prior import Prior
from fastldp.privacy.allocation import static_variances


class Baseline(Protocol):
    """What they all have."""

    @property
    def step(self) -> float | str: ...

    @property
    def prior(self) -> Prior | str | None: ...


def outline_of(make: Callable[[float], Program], method: Baseline, terms: Terms, rounds: int) -> Outline:
    """σ² = 2C² releases/(ρ mᵢ²) in each release: sensitivity 2C/mᵢ, times n wᵢ where the release is.

    `make` gives the program for a step.
    """
    # A planned step is not known before the bound is.
    program = make(1.0 if isinstance(method.step, str) else method.step)
    problem, releases, divisors = terms.problem, program.releases(rounds), program.divisors(terms.problem)
    terms.refuse_beyond_memory(releases)
    if program.clip is not None:
        threshold("clip", program.clip, problem.precision)
    if not terms.private:
        refuse_without_budget(method.step)
        return noiseless(program, problem, rounds)
    clipped = program.threshold(problem) < np.inf
    bound = program.threshold(problem) if clipped else problem.gradient_bound
    calibration = terms.calibration(bound, divisors, releases)
    read, line = [] if clipped else ["the gradient bound"], ""
    if method.step == PLANNED:
        way = Way(
            parts=1,
            shares=program.server_shares(problem),
            local_steps=program.local_steps,
            server_step=program.server_step,
            early_releases=program.early_releases,
        )
        plan = planned_descent(problem, method.prior, terms.rho, calibration.sensitivities.total, way, rounds)
        program, line = make(plan.step), plan.line()
        read += read_by_plan(problem, method.prior, bounded=clipped)

    def complete() -> Schedule:
        ledger = ledger_of(
            terms,
            calibration,
            bound=bound,
            bound_source="public" if clipped else problem.bound_source,
            divisors=divisors,
            read_off_data=", ".join(read),
            allocation="static",
            shape=static_variances(releases, **calibration.least),
            factors=calibration.factors,
            plan=line,
        ).calibrated()
        deviations = np.full(rounds, np.sqrt(ledger.shape[0]))
        program.variance = float(np.mean(program.server_shares(problem) * ledger.shape[0] * ledger.factors))
        return Schedule(program.step, deviations, np.sqrt(ledger.factors), ledger, program)

    return Outline(program, terms.sampler_spoils(releases), calibration.factors, complete)
