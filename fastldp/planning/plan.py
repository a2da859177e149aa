"""A plan: the step and the noise of every round that suit a budget, and the error to expect of them."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import memory
from fastldp.errors import ArgumentError, HorizonWarning
from fastldp.planning.consensus import consensus_weights
from fastldp.planning.mixing import extremes, gaps_of
from fastldp.planning.prediction import Curve, curve, expected, log_weights
from fastldp.privacy.allocation import (
    LARGEST_VARIANCE,
    dynamic_variances,
    factors_of,
    planned_variances,
    static_variances,
)
from fastldp.privacy.budget import Budget
from fastldp.problems.facts import Facts
from fastldp.problems.prior import Modes, Prior
from fastldp.topology import Graph
from fastldp.topology import failures as checked_failures
from fastldp.validation import integer, known_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

ALLOCATIONS = ("planned", "dynamic", "static")
MOST_ROUNDS = 2**32 - 1
# Algorithm 1 contracts with every step below 1 that is no more than 1/L_f (docs/planning.md).
LARGEST_PLANNED_STEP = 1.0
# What is computed for every release: weights, variances, and room to compute them in.
ARRAYS_OF_RELEASES = 7


@dataclass(frozen=True, eq=False)
class Plan:
    """What `plan` chose, and what it expects of it."""

    step: float
    """γ."""
    rounds: int
    """T."""
    tau: float
    """γT/n, the one number that was chosen."""
    smallest_rounds: int
    """The fewest rounds with the least error, γ at its limit: more of them cost time and gain next to nothing."""
    start_error: float
    """What is left of ‖x¹ − x*‖² after the last round."""
    noise_error: float
    """What the noise adds to E‖x̄ − x*‖²."""
    consensus_error: float
    """What the noise makes the workers' models differ by, (1/n) Σ E‖x̄ − xᵢ‖²; 0 where they hold one model."""
    allocation: str
    shape: Array = field(repr=False)
    """(T,): the variances of the rounds, up to each worker's factor."""
    factors: Array = field(repr=False)
    """(n,): a worker's variances are its factor times the shape."""
    prior: Prior = field(repr=False)
    read_off_data: str
    """What of the facts was not public but read off the data."""
    curve: Curve = field(repr=False)
    """What was made least, against τ: the error, on a graph with what models differ by."""
    topology: Graph | None = None
    """Of the workers; None where a server is between them."""
    failures: float | None = None
    """The share of its links that are missing in a round."""

    @property
    def error(self) -> float:
        """E‖x̄ − x*‖² to expect after the last round."""
        return self.start_error + self.noise_error

    @property
    def relative_error(self) -> float:
        """The same over ‖x¹ − x*‖², as `optimality` has it for a start at zero."""
        return self.error / self.prior.norm**2

    @property
    def optimality(self) -> float:
        """`optimality` to expect after the last round, for a start at zero: relative error and consensus error."""
        return self.relative_error + self.consensus_error

    @property
    def halving(self) -> float:
        """Rounds in which what workers' models differ by without noise, at most, becomes half of it."""
        gap = self.step * extremes(self.topology, self.factors.size).least * (1 - (self.failures or 0.0))
        return math.log(0.25) / math.log1p(-gap) if gap < 1 else 1.0

    @property
    def minimized(self) -> float:
        """What the plan makes least: the error of the average, and on a graph, where nobody has it, `optimality`."""
        return self.error if self.topology is None else self.optimality * self.prior.norm**2

    @property
    def variances(self) -> Array:
        """ξ² of every round: (T,), or (n, T) where workers differ."""
        if (self.factors == self.factors[0]).all():
            return np.asarray(self.factors[0] * self.shape)
        return np.outer(self.factors, self.shape)

    def summary(self) -> str:
        """As an aligned table."""
        parts = f"{self.start_error:.4g} left of the start, {self.noise_error:.4g} by the noise"
        rows = [
            ("time", f"τ = γT/n = {self.tau:.4g}"),
            ("step", f"γ = {self.step:.6g} for T = {self.rounds:,}; T ≥ {self.smallest_rounds:,} suffices"),
            ("variances", f"{self.allocation}, {self.variances.min():.4g} to {self.variances.max():.4g}"),
            ("error expected", f"E‖x̄ − x*‖² = {self.error:.4g}: {parts}"),
            ("consensus", f"(1/n) Σ E‖x̄ − xᵢ‖² = {self.consensus_error:.4g}"),
            ("optimality", f"{self.optimality:.4g} to expect, for a start at zero"),
            ("prior", self.prior.summary()),
            ("read off data", self.read_off_data or "nothing"),
        ]
        if self.topology is not None:
            missing = f", {self.failures:.3g} of its links missing" if self.failures else ""
            rows.insert(0, ("topology", f"{self.topology}{missing}: differences halve in {self.halving:,.0f} rounds"))
        return "\n".join(f"  {name:<15} {text}" for name, text in rows)

    def line(self) -> str:
        """In one line, for a ledger."""
        differing = f", and models to differ by {self.consensus_error:.4g}" if self.consensus_error else ""
        return (
            f"τ = {self.tau:.4g}, step {self.step:.6g}; to be left of the error at the start "
            f"{self.relative_error:.4g}, {self.noise_error / self.prior.norm**2:.4g} of it by the noise{differing}, "
            f"where {self.prior.summary()}"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """The error expected against τ, and the choice.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes where it is not given.

        Returns
        -------
        matplotlib axes
            With the curves.
        """
        from fastldp.figures import plot_plan

        return plot_plan(self, ax)


def plan(
    facts: Facts,
    budget: Budget,
    *,
    rounds: int | None = None,
    prior: Prior | None = None,
    allocation: str = "planned",
    topology: Any = None,
    failures: float | None = None,
) -> Plan:
    """The step and the variances of Algorithm 1 with the least error to expect, from public numbers alone.

    With a server they are the best for the average model near the optimum, and what the workers' models differ by is
    predicted beside; on a graph nobody has the average, and they are the best for the sum, `optimality`. It is left out
    that the Hessian changes on the way, clipping, and a nonsmooth g or a set. A wrong prior costs accuracy, never
    privacy.

    Parameters
    ----------
    facts : Facts
        `problem.facts`, or `Facts(...)`.
    budget : Budget
        What each worker is promised.
    rounds : int, optional
        T; the fewest that reach the least error where it is not given. With fewer than these the step is at its limit,
        and a `HorizonWarning` says what that costs.
    prior : Prior, optional
        `Prior(norm=1.0)` where it is not given.
    allocation : str
        ``"planned"``, the best for the prior, or ``"dynamic"`` (the paper's) or ``"static"``.
    topology, failures : optional
        As of `PrimalDual`: a graph of workers in place of a server, and the share of its links that are missing in a
        round.

    Returns
    -------
    Plan
        The step, the variances, and the error to expect of them.

    Examples
    --------
    >>> import fastldp as fl
    >>> facts = fl.Facts(sizes=[100] * 20, dimension=22, bound=1.3, l2=0.1)
    >>> made = fl.plan(facts, fl.Budget(1.0, 1e-4), rounds=2000)
    >>> print(f"γ = {made.step:.3f}, τ = {made.tau:.2f}, error {made.error:.3f}, T ≥ {made.smallest_rounds}")
    γ = 0.057, τ = 5.74, error 0.504, T ≥ 115
    """
    if not isinstance(facts, Facts):
        raise ArgumentError("facts", facts, "a plan depends on public numbers only; give problem.facts, or Facts(...)")
    if not isinstance(budget, Budget):
        raise ArgumentError("budget", budget, "a plan weighs the noise of a budget; give a Budget(epsilon, delta)")
    prior = checked_prior(prior)
    known_name("allocation", allocation, ALLOCATIONS)
    if rounds is not None:
        remedy = f"give a whole number from 1 to {MOST_ROUNDS:,}"
        rounds = integer("rounds", rounds, remedy, at_least=1, at_most=MOST_ROUNDS)
    rho = budget.rho_of_workers(facts.n)
    failures = checked_failures(failures)
    if failures is not None and topology is None:
        raise ArgumentError("failures", failures, 'links are those of a graph; give topology="ring"')
    way = way_of(facts, None if topology is None else Graph.of(topology), failures)
    return planned(facts, prior, rho, facts.sensitivity, way, rounds=rounds, allocation=allocation)


def checked_prior(prior: Any) -> Prior:
    if prior is not None and not isinstance(prior, Prior):
        raise ArgumentError("prior", prior, "give a Prior(norm=1.0, spectrum=None)")
    return prior or Prior()


class Way(NamedTuple):
    """How a method descends: the average moves by step · server_step against the mean of the releases."""

    parts: int
    """The mean of what the workers release is ∇f over so many parts."""
    largest_step: float = math.inf
    """Whatever the curvature."""
    heaviest: float = 1.0
    """The largest n wᵢ, where workers move by their own releases and not by the mean alone."""
    shares: Array | float = 1.0
    """(n,): what the server multiplies releases by before it takes their mean."""
    local_steps: int = 1
    server_step: float = 1.0
    early_releases: int = 0
    """Those before the first round."""
    differing: bool = False
    """Whether each worker has a model of its own at the end."""
    topology: Graph | None = None
    failures: float | None = None

    def price(self, sensitivity: Array, rho: Array) -> float:
        """The variance that all releases together leave in a coordinate of ∇f, were they but averaged."""
        return self.parts**2 * float(np.mean(self.shares**2 * sensitivity**2 / rho)) / (2 * rho.size)

    def limit(self, curvature: float) -> float:
        """The largest step that does not overshoot: no round takes more than all of an error away."""
        # A round leaves 1 − η_g(1 − (1 − ηλ)^K) of it.
        share = 1.0 if self.server_step <= 1 else 1 - (1 - 1 / self.server_step) ** (1 / self.local_steps)
        return min(self.largest_step, share * self.parts / self.heaviest / curvature)


def way_of(about: Any, topology: Graph | None = None, failures: float | None = None) -> Way:
    """How Algorithm 1 descends on a problem, or by the facts of one."""
    if topology == Graph.complete() and failures is None:
        topology = None  # this is what a server does
    largest = min(LARGEST_PLANNED_STEP, 1 / extremes(topology, about.n).greatest)
    heaviest = float(about.shares.max())
    return Way(about.n, largest, heaviest, differing=True, topology=topology, failures=failures)


class Choice(NamedTuple):
    """What a step is chosen by, and the step."""

    modes: Modes
    decay: float
    """The paper's μ."""
    curve: Curve
    limit: float
    """Of the step."""
    fewest: int
    """Rounds with the least error, the step at its limit."""
    step: float
    pace: float
    """How far a round with a step of one goes in the time τ."""

    def expected(self, rounds: int) -> float:
        """What is left of ‖x¹ − x*‖² after so many."""
        tau = self.step * rounds * self.pace
        left = np.interp(math.log(tau), np.log(self.curve.taus), np.log(self.curve.error))
        return float(np.exp(left) / self.modes.squares.sum())


def chosen(
    facts: Facts,
    prior: Prior,
    rho: Array,
    sensitivity: Array,
    way: Way,
    *,
    rounds: int | None,
    allocation: str,
    convexity: float | None = None,
) -> Choice:
    """The step with the least error to expect, for these budgets and sensitivities of the workers."""
    modes, n = prior.modes(facts), facts.n
    price = way.price(sensitivity, rho)
    if rounds is not None:
        price *= 1 + way.early_releases / (way.local_steps * rounds)
    lightest = float(facts.shares.min())
    decay = n * min(facts.l2 * lightest / n if convexity is None else convexity, 1.0)
    beside = None
    if way.topology is not None:
        gaps = gaps_of(way.topology, factors_of(sensitivity, rho)[1], way.failures)

        def beside(taus: Array) -> Array:
            return prior.norm**2 * gaps.shares(modes, way.parts, taus)

    found = curve(modes, price, allocation, decay, beside)
    pace = way.local_steps * way.server_step / way.parts
    # A prior may bend more than the facts allow.
    limit = way.limit(max(facts.smoothness, float(modes.rates.max())))
    fewest = math.ceil(found.best() / (limit * pace))
    step = min(found.best() / ((rounds or fewest) * pace), limit)
    return Choice(modes, decay, found, limit, fewest, step, pace)


def planned(
    facts: Facts,
    prior: Prior,
    rho: Array,
    sensitivity: Array,
    way: Way,
    *,
    rounds: int | None,
    allocation: str,
    convexity: float | None = None,
    step: float | None = None,
    largest: float = LARGEST_VARIANCE,
) -> Plan:
    """The plan for these budgets and sensitivities of the workers; with a step, what to expect of that one.

    `convexity` is the μ_f of the paper's allocation; that of l2 where it is not given.
    """
    n, (least, factors) = facts.n, factors_of(sensitivity, rho)
    choice = chosen(facts, prior, rho, sensitivity, way, rounds=rounds, allocation=allocation, convexity=convexity)
    modes, decay, found, limit, fewest, best, _ = choice
    rounds = fewest if rounds is None else rounds
    short = step is None and rounds < fewest
    step = best if step is None else step
    releases, rate = way.local_steps * rounds, step * way.server_step / way.parts
    if rate * float(modes.rates.max()) >= 2:
        raise ArgumentError("step", step, f"errors would grow along the prior's spectrum; give {limit:.4g} or less")
    memory.refuse_beyond("rounds", 8 * ARRAYS_OF_RELEASES * releases, "ask for fewer rounds")
    of_least = {"rho": float(rho[least]), "sensitivity": float(sensitivity[least])}
    of_differing: Array | float = 0.0
    if way.differing:
        of_differing = consensus_weights(modes, gaps_of(way.topology, factors, way.failures), step, way.parts, releases)
    if allocation == "planned":
        weights = log_weights(modes, rate, releases)
        if way.topology is not None:
            with np.errstate(divide="ignore"):  # noise that is forgotten counts nothing
                weights = np.logaddexp(weights, np.log(prior.norm**2 * of_differing))
        shape = planned_variances(weights, **of_least, largest=largest)
    elif allocation == "dynamic":
        shape = dynamic_variances(releases, contraction=rate * decay, **of_least, largest=largest)
    else:
        shape = static_variances(releases + way.early_releases, **of_least)[:releases]
    of_all = float(np.mean(way.shares**2 * factors))
    moves = (step * way.server_step) ** 2 * of_all / n * shape
    start, noise = expected(modes, rate, moves)
    made = Plan(
        step=step,
        rounds=rounds,
        tau=rate * releases,
        smallest_rounds=fewest,
        start_error=start,
        noise_error=noise,
        consensus_error=float(np.sum(moves * of_differing)),
        allocation=allocation,
        shape=shape,
        factors=factors,
        prior=prior,
        read_off_data=facts.read_off_data,
        curve=found,
        topology=way.topology,
        failures=way.failures,
    )
    if short:
        left, reached = made.minimized / prior.norm**2, float(found.error.min()) / prior.norm**2
        are = "round is" if rounds == 1 else "rounds are"
        warnings.warn(
            f"{rounds:,} {are} few for the plan, whose step is held at its limit of {limit:.4g}: it expects to "
            f"leave {left:.3g} of the error at the start, where {fewest:,} rounds or more would leave {reached:.3g}",
            HorizonWarning,
            stacklevel=3,
        )
    return made
