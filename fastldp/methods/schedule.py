"""What every method makes of a problem and a budget: the noise of every round, and the ledger of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp import memory
from fastldp.errors import ArgumentError, BudgetError, DataError
from fastldp.kernels.formulas import is_ours
from fastldp.methods.clipping import ROUNDING, Adapting, AdaptiveClip, Limits
from fastldp.methods.planned import (
    EXACT,
    LARGEST_FACTOR,
    PLANNED,
    Outlook,
    Table,
    factor_of,
    grounds_of,
    planned_descent,
    read_by_plan,
    refuse_without_budget,
)
from fastldp.methods.sampling import Sampling
from fastldp.planning.plan import ARRAYS_OF_RELEASES, Plan, chosen
from fastldp.privacy import sampler
from fastldp.privacy.allocation import LARGEST_VARIANCE, LARGEST_VARIANCES, factors_of, static_variances
from fastldp.privacy.budget import Budget
from fastldp.privacy.ledger import ADAPTIVE, ADJACENCY, Ledger, Sensitivity
from fastldp.privacy.statement import AMONG_NEIGHBOURS
from fastldp.problems.composite import LARGEST_THRESHOLD, Composite, threshold
from fastldp.topology import Mixing

if TYPE_CHECKING:
    from fastldp.methods.base import Method

Array = NDArray[np.float64]

# Where rounds are planned.
LEAST_ROUNDS, MOST_PLANNED_ROUNDS = 100, 20_000


@dataclass(eq=False)
class Program:
    """A method in a run: on a problem, for so many rounds, with the step and the noise that these give it."""

    method: Method
    problem: Composite
    rounds: int
    step: float
    private: bool = True
    """Whether a budget is to be kept, at whatever points."""
    variance: float = 0.0
    """That of the noise in a release, the mean over the workers."""

    @property
    def local_steps(self) -> int:
        """The releases of a round."""
        return int(getattr(self.method, "local_steps", 1))

    @property
    def server_step(self) -> float:
        """What the server multiplies the mean of the workers' moves by."""
        return float(getattr(self.method, "server_step", 1.0))

    @property
    def warm_start(self) -> bool:
        """Whether there is a round 0, of as many releases as any other."""
        return bool(getattr(self.method, "warm_start", False))

    @property
    def early_releases(self) -> int:
        return self.local_steps if self.warm_start else 0

    @property
    def clip(self) -> float | AdaptiveClip | None:
        """The method's own clipping threshold."""
        found: float | AdaptiveClip | None = getattr(self.method, "clip", None)
        return found

    @property
    def sampling(self) -> Sampling | None:
        """Which samples and workers a round is of; None where all are."""
        found: Sampling | None = getattr(self.method, "sampling", None)
        return found

    @property
    def adaptive(self) -> AdaptiveClip | None:
        """The method's own, where it adapts."""
        return self.clip if isinstance(self.clip, AdaptiveClip) else None

    @property
    def kind(self) -> tuple[Any, ...]:
        """What programs must have in common to share a block."""
        # Ours divide releases by nothing that is a parameter.
        own = b"" if is_ours(type(self.method)) else self.method.divisors(self.problem).tobytes()
        # Workers of a block have the same neighbours.
        graph = self.method.graph, self.failures > 0
        return (
            type(self.method),
            self.local_steps,
            self.warm_start,
            self.adaptive is not None,
            self.sampling,
            own,
            graph,
        )

    @cached_property
    def mixing(self) -> Mixing | None:
        """Who mixes whose messages, and how; None where a server is between all."""
        return None if self.method.graph is None else self.method.graph.mixing(self.problem.n)

    @property
    def adjacency(self) -> str:
        """The ledger's word for what is protected, and from whom."""
        return ADJACENCY if self.mixing is None else AMONG_NEIGHBOURS

    @property
    def failures(self) -> float:
        """The share of links that are missing in a round."""
        return float(getattr(self.method, "failures", None) or 0)

    def releases(self, rounds: int) -> int:
        """How many noisy gradients a worker releases in so many rounds."""
        return self.early_releases + self.local_steps * rounds

    def broadcasts(self, rounds: int) -> int:
        """How often the server answers in so many rounds."""
        return rounds + self.warm_start

    def divisors(self, problem: Composite) -> Array:
        """(n,): what a release divides the sum of a worker's gradients by: fewer are in it where they are drawn."""
        of_all = self.method.divisors(problem)
        return of_all if self.sampling is None else of_all * self.sampling.part

    def threshold(self, problem: Composite) -> float:
        """The norm each sample's gradient is clipped to, at first: the method's or the problem's; infinite if none."""
        own = self.clip.start if isinstance(self.clip, AdaptiveClip) else self.clip
        return problem.clip if own is None else min(own, problem.clip)

    def enforced(self, problem: Composite) -> float:
        """The norm kernels hold each sample's gradient to at every point; infinite where the loss does so itself."""
        clip = self.threshold(problem)
        # What adapts needs no bound of the problem's, which may have been read off the data.
        return min(clip, problem.enforced_bound) if self.private and self.adaptive is None else clip

    @property
    def gradient_size(self) -> float:
        """About how long a sample's gradient is, as little as is known of it."""
        return min(self.threshold(self.problem), self.problem.gradient_size)

    def bounding(self, problem: Composite) -> tuple[float, str]:
        """What no sample's gradient exceeds, and where that comes from; where it adapts, in units of the threshold."""
        if self.adaptive is not None:
            return 1.0, ADAPTIVE
        clip = self.threshold(problem)
        return (clip, "public") if clip < np.inf else (problem.gradient_bound, problem.bound_source)


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
    adapting: Adapting | None = None

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
        self._calibrations: dict[tuple[float, bytes, float], Calibration] = {}
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
    def accounting(self) -> str:
        """The budget's; empty without one."""
        return "" if self._budget is None else self._budget.accounting

    @property
    def delta(self) -> float:
        """δ as promised; 1, which nothing spoils, without a budget."""
        return 1.0 if self._budget is None else self._budget.delta

    @cached_property
    def rho(self) -> Array:
        """(n,): what each worker may spend."""
        return self.budget.rho_of_workers(self.problem.n)

    def left(self, clip: AdaptiveClip | None) -> Array:
        """(n,): what counts leave of it."""
        return self.rho if clip is None else (1 - clip.share) * self.rho

    @cached_property
    def epsilon(self) -> Array:
        """(n,): what each worker is promised."""
        return np.broadcast_to(np.asarray(self.budget.epsilon, dtype=np.float64), (self.problem.n,)).copy()

    def calibration(
        self, bound: float, divisors: Array, releases: int, clip: AdaptiveClip | None = None
    ) -> Calibration:
        """Of releases of a worker's gradients, added up and divided, where no sample's exceeds the bound.

        Where clipping adapts they have what the counts leave them of ρ, and divide by the threshold too.
        """
        about = bound, divisors.tobytes(), 0.0 if clip is None else clip.share
        found = self._calibrations.get(about)
        if found is None:
            more = 0.0 if clip is None else ROUNDING
            found = self._calibrated(released(self.problem, bound, divisors, more), self.left(clip))
            self._calibrations[about] = found
        if not found.most * releases / 2 <= LARGEST_VARIANCE:
            remedy = (
                f"the noise would have a variance above {LARGEST_VARIANCE:g}; promise a larger ε, or scale the data"
            )
            raise BudgetError("epsilon", self.budget.epsilon, remedy)
        return found

    def _calibrated(self, sensitivities: Sensitivity, rho: Array) -> Calibration:
        total = sensitivities.total
        with np.errstate(over="ignore", under="ignore"):
            needs = total**2 / rho
        if not needs.min() >= np.finfo(np.float64).tiny:
            raise BudgetError("epsilon", self.budget.epsilon, "so large that the noise vanishes; promise a smaller ε")
        least, factors = factors_of(total, rho)
        of_least = {"rho": float(rho[least]), "sensitivity": float(total[least])}
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


def noiseless(program: Program) -> Outline:
    """The outline of a run without a budget."""
    program.private = False
    # Without noise nothing would have to be clipped; it is as little as with little noise.
    own = None if program.adaptive is None else program.adaptive.factor
    factor = 1.0 if program.adaptive is None or not program.adaptive.early else own or LARGEST_FACTOR
    ones, adapting = np.ones(program.problem.n), adapting_of(program, factor)

    def complete() -> Schedule:
        return Schedule(program.step, np.zeros(program.rounds), ones, None, program, adapting)

    return Outline(program, False, ones, complete)


def adapting_of(program: Program, factor: float = 1.0, table: Table | None = None) -> Adapting | None:
    """How a run adapts its threshold, if it does, before its counts have noise; and its step, if that is a table."""
    clip, problem = program.adaptive, program.problem
    if clip is None:
        return None
    limits = Limits.of(clip, problem.clip, problem.precision)
    knots, paces = (np.array(limits[1:]), np.ones(2)) if table is None else (table.knots, table.steps / program.step)
    errors = np.full(knots.size, np.nan) if table is None else table.errors
    return Adapting(
        clip=clip,
        limits=limits,
        rounds=program.rounds,
        part=1 / float(problem.sizes.sum()),
        knots=knots,
        paces=paces,
        errors=errors,
        factor=factor,
        variances=np.zeros(clip.early + clip.counted(program.rounds).size),
        factors=np.ones(problem.n),
    )


def static_outline(method: Method, terms: Terms, rounds: int) -> Outline:
    """The outline of a run with the same noise in all releases, and its step planned where it is to be."""
    step, prior = getattr(method, "step", np.nan), getattr(method, "prior", None)
    problem = terms.problem
    # A planned step is not known before the bound is.
    program = Program(method.in_kernels, problem, rounds, 1.0 if step == PLANNED else step)
    divisors, releases = program.divisors(problem), program.releases(rounds)
    terms.refuse_beyond_memory(releases)
    check_clip(program)
    check_sampling(program, planned=step == PLANNED, accounting=terms.accounting)
    if not terms.private:
        refuse_without_budget(step)
        return noiseless(program)
    clip, (bound, source) = program.adaptive, program.bounding(problem)
    clipped = source in ("public", ADAPTIVE)
    calibration = terms.calibration(bound, divisors, releases, clip)
    read, line, adapting = [] if clipped else ["the gradient bound"], "", None
    unit, way, left = calibration.sensitivities.total, method.way(problem), terms.left(clip)
    if step == PLANNED and clip is None:
        plan = planned_descent(program, prior, terms.rho, unit, way)
        program.step, line = plan.step, plan.line()
        read += read_by_plan(problem, prior, bounded=clipped)
    elif step == PLANNED:
        outlook = Outlook(program, prior, left, unit, way, allocation="static")
        plan = outlook.plan(rounds, None)
        program.step, line = plan.step, outlook.line(plan)
        adapting = adapting_of(program, outlook.factor, outlook.table(rounds))
        read += ["the prior"] if prior == EXACT else []
    elif clip is not None:
        adapting = adapting_of(program, factor_of(clip, unit, left, problem.d, way))

    def complete() -> Schedule:
        ledger = ledger_of(
            terms,
            calibration,
            bound=bound,
            bound_source=source,
            divisors=divisors,
            read_off_data=", ".join(read),
            allocation="static",
            shape=static_variances(releases, **calibration.least),
            factors=calibration.factors,
            plan=line,
            **counts_of(terms, adapting),
            **drawn_of(program),
            adjacency=program.adjacency,
        ).calibrated()
        deviations = np.full(rounds, np.sqrt(ledger.shape[0]))
        program.variance = float(np.mean(method.server_shares(problem) * ledger.shape[0] * ledger.factors))
        return Schedule(
            program.step, deviations, np.sqrt(ledger.factors), ledger, program, with_noise(adapting, ledger)
        )

    return Outline(program, terms.sampler_spoils(releases), calibration.factors, complete)


def check_clip(program: Program) -> None:
    """Refuse a threshold that this precision does not hold, or rounds that are fewer than one count."""
    _ = program.mixing  # and a graph of other workers
    if isinstance(program.clip, AdaptiveClip):
        program.clip.counted(program.rounds)
    elif program.clip is not None:
        threshold("clip", program.clip, program.problem.precision)


def check_sampling(program: Program, *, planned: bool, accounting: str = "") -> None:
    """Refuse a plan, which knows full gradients only, and counts in rounds, which would need those not drawn."""
    if program.sampling is None:
        return
    method = program.method
    if program.sampling.workers < 1 and method.graph is not None:
        remedy = "on a graph all workers take part; leave it out, or let links fail: failures="
        raise ArgumentError("workers", program.sampling.workers, remedy)
    if method.meets_in_part and not method.in_part:
        remedy = f"the server of {type(method).__name__} needs all workers in every round"
        raise ArgumentError("workers", program.sampling.workers, f'{remedy}; choice="secret" has all of them send')
    if planned:
        remedy = "a plan is made for full gradients; give a step= and an allocation= that are not planned"
        raise ArgumentError("sampling", program.sampling, remedy)
    if program.adaptive is not None and accounting == "pld":
        remedy = 'counts are of all samples and not amplified; give a number, or a budget with accounting="gdp"'
        raise ArgumentError("clip", program.adaptive, remedy)
    if program.adaptive is not None and program.adaptive.every is not None:
        remedy = "counts in rounds need the gradients of all samples; AdaptiveClip(every=None) counts before the first"
        raise ArgumentError("clip", program.adaptive, remedy)


def drawn_of(program: Program) -> dict[str, Any]:
    """What a ledger has of samples and workers that are drawn."""
    drawn = program.sampling
    if drawn is None:
        return {}
    return {
        "sample_rate": drawn.sample_rate,
        "worker_rate": drawn.worker_rate,
        "choice": drawn.choice,
        "local_releases": program.local_steps,
        "early_releases": program.early_releases,
    }


def counts_of(terms: Terms, adapting: Adapting | None) -> dict[str, Any]:
    """What a ledger has of the counts: how far a sample moves one, and the variances that their share of ρ buys."""
    if adapting is None:
        return {}
    # One sample is 1/M of the share, and rounding may move the shares of both worlds.
    sensitivity, rho = adapting.part + 2 * ROUNDING, adapting.clip.share * terms.rho
    least, factors = factors_of(np.full(rho.size, sensitivity), rho)
    variances = static_variances(adapting.counts, float(rho[least]), sensitivity=sensitivity)
    if not float(variances.max() * factors.max()) <= LARGEST_VARIANCES[terms.problem.dtype]:
        remedy = f"counts would have noise of a variance above {LARGEST_VARIANCES[terms.problem.dtype]:g}; give more"
        raise BudgetError("share", adapting.clip.share, remedy)
    return {
        "count_sensitivity": sensitivity,
        "count_variances": variances,
        "count_factors": factors,
        "clipping": adapting.line(),
    }


def with_noise(adapting: Adapting | None, ledger: Ledger) -> Adapting | None:
    """The same with the noise that the ledger says its counts have."""
    if adapting is None:
        return None
    return replace(adapting, variances=ledger.count_variances, factors=np.sqrt(ledger.count_factors))


def released(problem: Composite, bound: float, divisors: Array, more: float = 0.0) -> Sensitivity:
    """How far one sample moves a release of gradients so divided; in float32 without the rounding of the gradient.

    `more` is what a further division adds to the rounding.
    """
    if bound == 0:
        raise DataError("A", "zeros", "every row is zero: there is nothing to learn from or to hide")
    if not bound <= LARGEST_THRESHOLD[problem.precision]:
        remedy = "so large that their squares overflow; scale the features, keep x in a smaller set, or clip"
        raise DataError("A", f"gradients of up to {bound:g}", remedy)
    found = Sensitivity.of_means(bound, divisors, problem.sizes, problem.rounding + more)
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
    own = not isinstance(allocation, str | Plan)
    if (own or not ledger.amplified) and not ledger.spent_share <= 1:
        spends = np.max(np.atleast_1d(ledger.spent_epsilon))
        raise BudgetError(
            "allocation",
            allocation,
            f"these variances spend ε = {spends:.6g} at δ = {ledger.delta:g}, more than the budget; "
            f"multiply them by {ledger.overspent * (1 + 1e-8):.9g} or more",
        )
    return ledger.calibrated(lower=not own)


def fewest_rounds(method: Method, terms: Terms) -> int:
    """Those with the least error to expect of a planned step, at most so many as anyone waits for."""
    problem, prior = terms.problem, getattr(method, "prior", None)
    program = Program(method, problem, 1, 1.0)
    clip, (bound, _) = program.adaptive, program.bounding(problem)
    check_sampling(program, planned=True)
    unit, way = terms.calibration(bound, program.divisors(problem), 1, clip).sensitivities.total, method.way(problem)
    allocation = getattr(method, "allocation", "static")
    if clip is not None:
        found = Outlook(program, prior, terms.left(clip), unit, way, allocation=allocation).fewest()
    else:
        facts, assumed = grounds_of(program, prior)
        found = chosen(facts, assumed, terms.rho, unit, way, rounds=None, allocation=allocation).fewest
    least = LEAST_ROUNDS if clip is None or clip.every is None else max(LEAST_ROUNDS, clip.every + 1)
    return min(max(found, least), MOST_PLANNED_ROUNDS)
