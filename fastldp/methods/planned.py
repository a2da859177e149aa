"""What the methods share where their step is planned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.methods.clipping import KNOT, AdaptiveClip, Limits
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
# Raised whenever planned steps, variances or thresholds change, as the version of a method is.
PLANS = 1
# Of what is found before the first round, gradients are clipped to such multiples.
LEAST_FACTOR, LARGEST_FACTOR = 0.1, 2.0
# They are (Γ/CLEAR)^GROWTH: the best thresholds of generated problems grow about so.
CLEAR, GROWTH = 800.0, 0.25
# Rounds are planned for thresholds as small as this, of the start.
SMALLER = 0.5
# And so many times as many are run: a step that is at its limit cannot make up for what was not foreseen.
SPARE = 2
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


def grounds_of(program: Program, prior: Prior | str | None) -> tuple[Facts, Prior]:
    """What a run is planned by; the ledger says what of it was read off the data."""
    problem = program.problem
    bound, source = program.bounding(problem)
    facts = problem.facts_of_data(bound if source == "public" else None)
    return facts, problem.exact_prior() if prior == EXACT else checked_prior(prior)


def read_by_plan(problem: Composite, prior: Prior | str | None, *, bounded: bool) -> list[str]:
    """What a plan reads off the data beside the gradient bound, which is public where gradients are bounded so."""
    read = []
    if problem.row_bound is None and not (problem.public_radius and (not bounded or problem.bound_source == "public")):
        read.append("the length of the rows")
    return [*read, "the prior"] if prior == EXACT else read


def planned_descent(
    program: Program,
    prior: Prior | str | None,
    rho: Array,
    sensitivity: Array,
    way: Way,
) -> Plan:
    """The step of a baseline: equal noise in every release."""
    facts, assumed = grounds_of(program, prior)
    return planned(facts, assumed, rho, sensitivity, way, rounds=program.rounds, allocation="static")


class Table(NamedTuple):
    """Steps that were planned for thresholds, and what is expected to be left of the error at the start."""

    knots: Array
    steps: Array
    errors: Array


class Outlook:
    """What a plan is made by where clipping adapts: at any threshold, from public numbers alone."""

    def __init__(
        self, program: Program, prior: Prior | str | None, rho: Array, unit: Array, way: Way, **rest: Any
    ) -> None:
        """`unit` has the sensitivities at a threshold of one, `rho` what gradients may spend."""
        assert program.adaptive is not None
        self.problem, self.rho, self.unit, self.way = program.problem, rho, unit, way
        # What is known, or assumed by the caller, does not depend on the threshold.
        self.prior = self.problem.exact_prior() if prior == EXACT else None if prior is None else checked_prior(prior)
        self.rest: dict[str, Any] = rest
        self.limits = Limits.of(program.adaptive, self.problem.clip, self.problem.precision)
        self.factor = factor_of(program.adaptive, unit, rho, self.problem.d, way)

    def at(self, threshold: float) -> tuple[Facts, Prior, Array, Array, Way]:
        """What `planned` and `chosen` take."""
        # Gradients at the start are as long as the threshold was before it was multiplied.
        facts = self.problem.facts_at(threshold, threshold / self.factor)
        return facts, self.prior or Prior.of_facts(facts), self.rho, threshold * self.unit, self.way

    def plan(self, rounds: int, step: float | None, largest: float = LARGEST_VARIANCE) -> Plan:
        """The plan at the threshold that clipping starts with."""
        return planned(*self.at(self.limits.start), rounds=rounds, step=step, largest=largest, **self.rest)

    def table(self, rounds: int) -> Table:
        """The step for every threshold that clipping may come to."""
        count = max(2, 1 + math.ceil(math.log(self.limits.most / self.limits.least, KNOT)))
        knots = np.geomspace(self.limits.least, self.limits.most, count)
        choices = [chosen(*self.at(one), rounds=rounds, **self.rest) for one in knots.tolist()]
        steps, errors = zip(*((choice.step, choice.expected(rounds)) for choice in choices), strict=True)
        return Table(knots, np.array(steps), np.array(errors))

    def line(self, plan: Plan) -> str:
        """For a ledger: all that is known before the counts."""
        return f"before the counts, were C = {self.limits.start:g}: {plan.line()}"

    def fewest(self) -> int:
        """Twice what suffices for thresholds down to a part of the start: more cost time, and fewer accuracy."""
        return SPARE * chosen(*self.at(self.limits.start * SMALLER), rounds=None, **self.rest).fewest


def factor_of(clip: AdaptiveClip, unit: Array, rho: Array, dimension: int, way: Way) -> float:
    """What the threshold is multiplied by before the first round, from public numbers.

    Of what is found the less is clipped the larger Γ is, the signal over the noise of all releases together, were the
    mean gradient as long as the threshold: little of it is left in much noise, and much bias where there is little.
    """
    if not clip.early:
        return 1.0
    if clip.factor is not None:
        return clip.factor
    clarity = 1 / (dimension * way.price(unit, rho))
    return float(np.clip((clarity / CLEAR) ** GROWTH, LEAST_FACTOR, LARGEST_FACTOR))
