"""What the methods share where their step is planned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.methods.clipping import KNOT, Limits
from fastldp.planning.plan import Plan, Way, checked_prior, chosen, planned
from fastldp.privacy.allocation import LARGEST_VARIANCE
from fastldp.problems.composite import Composite
from fastldp.problems.facts import Facts
from fastldp.problems.prior import Prior
from fastldp.validation import real

if TYPE_CHECKING:
    from fastldp.methods.schedule import Program

Array = NDArray[np.float64]

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


def read_by_plan(problem: Composite, prior: Prior | str | None, *, bounded: bool, adaptive: bool = False) -> list[str]:
    """What a plan reads off the data beside the gradient bound, which is public where gradients are bounded so."""
    read = []
    # Where clipping adapts, thresholds stand for the length of the rows.
    if adaptive:
        return ["the prior"] if prior == EXACT else []
    if problem.row_bound is None and not (problem.public_radius and (not bounded or problem.bound_source == "public")):
        read.append("the length of the rows")
    return [*read, "the prior"] if prior == EXACT else read


def planned_descent(
    problem: Composite,
    prior: Prior | str | None,
    rho: Array,
    sensitivity: Array,
    way: Way,
    rounds: int,
) -> Plan:
    """The step of a baseline: equal noise in every release."""
    facts, assumed = grounds_of(problem, prior)
    return planned(facts, assumed, rho, sensitivity, way, rounds=rounds, allocation="static")


class Table(NamedTuple):
    """Steps that were planned for thresholds; none where the step does not follow the threshold."""

    knots: Array | None = None
    steps: Array | None = None


def planned_adaptive(
    program: Program,
    prior: Prior | str | None,
    rho: Array,
    unit: Array,
    way: Way,
    *,
    allocation: str,
    convexity: float | None = None,
    step: float | None = None,
    largest: float = LARGEST_VARIANCE,
) -> tuple[Plan, Table]:
    """The plan at the threshold that clipping starts with, and the step for every other that it may come to.

    `unit` has the sensitivities at a threshold of one.
    """
    problem, clip, rounds = program.problem, program.adaptive, program.rounds
    assert clip is not None
    limits, left = Limits.of(clip, problem.clip, problem.precision), (1 - clip.share) * rho
    common: dict[str, Any] = {"rounds": rounds, "allocation": allocation, "convexity": convexity}

    def grounds(threshold: float) -> tuple[Facts, Prior]:
        facts = problem.facts_at(threshold)
        if prior == EXACT:
            return facts, problem.exact_prior()
        return facts, Prior.of_facts(facts) if prior is None else checked_prior(prior)

    plan = planned(*grounds(limits.start), left, limits.start * unit, way, **common, step=step, largest=largest)
    count = max(2, 1 + math.ceil(math.log(limits.most / limits.least, KNOT)))
    knots = np.geomspace(limits.least, limits.most, count)
    steps = np.array([chosen(*grounds(at), left, at * unit, way, **common).step for at in knots.tolist()])
    return plan, Table(knots, steps)
