"""What the methods share where their step is planned."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.planning.plan import Plan, Way, checked_prior, planned
from fastldp.problems.composite import Composite
from fastldp.problems.facts import Facts
from fastldp.problems.prior import Prior
from fastldp.validation import real

PLANNED = "planned"
EXACT = "exact"


def checked_step(step: Any) -> float | str:
    """A number, or the word."""
    if isinstance(step, str) and step == PLANNED:
        return PLANNED
    return real("step", step, 'give a finite number > 0, or "planned"', above=0)


def check_prior(prior: Any, *, planned: bool) -> None:
    """Refuse a prior that is none, or that nothing is planned by."""
    if isinstance(prior, str) and prior != EXACT:
        raise ArgumentError("prior", prior, 'give a Prior(norm=1.0, spectrum=None), or "exact"')
    if prior is not None and not isinstance(prior, str):
        checked_prior(prior)
    if prior is not None and not planned:
        raise ArgumentError("prior", prior, 'only a plan has a prior; give "planned" for what it is to plan')


def refuse_without_budget(step: Any) -> None:
    if step == PLANNED:
        raise ArgumentError("step", step, "a plan weighs the noise of a budget=; without noise give a number")


def grounds_of(problem: Composite, prior: Prior | str | None) -> tuple[Facts, Prior]:
    """What a run is planned by; the ledger says what of it was read off the data."""
    return problem.facts_of_data(), problem.exact_prior() if prior == EXACT else checked_prior(prior)


def read_by_plan(problem: Composite, prior: Prior | str | None, *, bounded: bool) -> list[str]:
    """What a plan reads off the data beside the gradient bound, which is public where gradients are bounded so."""
    read = []
    if problem.row_bound is None and not (problem.public_radius and (not bounded or problem.bound_source == "public")):
        read.append("the length of the rows")
    return [*read, "the prior"] if prior == EXACT else read


def planned_descent(
    problem: Composite,
    prior: Prior | str | None,
    rho: NDArray[np.float64],
    sensitivity: NDArray[np.float64],
    way: Way,
    rounds: int,
) -> Plan:
    """The step of a baseline: equal noise in every release."""
    facts, assumed = grounds_of(problem, prior)
    return planned(facts, assumed, rho, sensitivity, way, rounds=rounds, allocation="static")
