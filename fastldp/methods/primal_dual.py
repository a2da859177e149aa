"""The paper's method, Algorithm 1."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError, StepWarning
from fastldp.lanes import fma, load, mean_over_workers, prox, store
from fastldp.methods.base import Found, Method, View
from fastldp.methods.clipping import AdaptiveClip
from fastldp.methods.planned import (
    EXACT,
    PLANNED,
    Outlook,
    check_prior,
    factor_of,
    grounds_of,
    read_by_plan,
    refuse_without_budget,
)
from fastldp.methods.sampling import Sampling
from fastldp.methods.schedule import (
    Calibration,
    Outline,
    Program,
    Schedule,
    Terms,
    adapting_of,
    calibrated,
    check_clip,
    check_sampling,
    counts_of,
    drawn_of,
    ledger_of,
    noiseless,
    with_noise,
)
from fastldp.planning.plan import Plan, Way, planned, way_of
from fastldp.privacy.allocation import LARGEST_VARIANCES, dynamic_variances, static_variances
from fastldp.privacy.ledger import ADAPTIVE
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.prior import Prior
from fastldp.regularizers import Regularizer
from fastldp.validation import known_name, vector

Array = NDArray[np.float64]

ALLOCATIONS = ("dynamic", "static", "planned")


@dataclass(frozen=True, eq=False, repr=False)
class PrimalDual(Method):
    """The paper's Algorithm 1.

    Parameters
    ----------
    step : float or str, optional
        γ; min{1/4, 1/L_f}, the theorem's limit, where it is not given; ``"planned"`` is the step with the least error
        to expect, up to min{1, 1/L_f}, see `fastldp.plan`.
    allocation : str, array of shape (T,) or Plan
        ``"dynamic"`` (Theorem 1), ``"static"``, ``"planned"``, the best for the step and the prior, or an array of T
        variances of the caller's own (in units of C² where clipping adapts); or a `Plan`, whose step and variances are
        then taken. All are raised by the little that the sampler takes of the budget, where they would spend the whole.
    prior : Prior or str, optional
        What the planner assumes, `Prior()` where it is not given; ``"exact"`` reads it off the data, for studies.
    clip : float, str or AdaptiveClip, optional
        C, the norm each sample's gradient is clipped to; or how it adapts, ``"adaptive"`` for `AdaptiveClip()`; the
        problem's bound where it is not given.
    sampling : Sampling or float, optional
        Which samples and workers a round is of; all of them where it is not given.
    topology : str, Graph, networkx graph or sparse matrix, optional
        Whose messages workers mix, where there is no server: ``"ring"``, ``"grid"``, ``"star"``,
        ``"random:DEGREE:SEED"`` or what `Graph` has; ``"complete"`` is what a server does.
    failures : float, optional
        The share of links of a graph that are missing in a round, each by a coin of its own.

    Examples
    --------
    >>> PrimalDual(step=0.1, allocation="static")
    PrimalDual(step=0.1, allocation='static', prior=None, clip=None)
    """

    version: ClassVar[int] = 3
    plans: ClassVar[bool] = True
    workers: ClassVar[tuple[str, ...]] = "X", "dual"  # X has, in a round, the messages too, without their dual part
    server: ClassVar[tuple[str, ...]] = ("mean",)
    begin: ClassVar[tuple[str, ...]] = ("X",)
    checkpoint: ClassVar[tuple[str, ...]] = "X", "dual"
    numbers: ClassVar[tuple[str, ...]] = "step", "scale"
    of_workers: ClassVar[tuple[str, ...]] = ("shrink",)
    point: ClassVar[str] = "X"
    answer: ClassVar[str] = "X"
    sends: ClassVar[str] = "mean"

    step: float | str | None = None
    allocation: str | ArrayLike | Plan = "dynamic"
    prior: Prior | str | None = None
    clip: float | str | AdaptiveClip | None = None
    sampling: Sampling | float | None = None
    topology: Any = None
    failures: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.allocation, str):
            known_name("allocation", self.allocation, ALLOCATIONS)
        elif isinstance(self.allocation, Plan):
            if self.step is not None:
                raise ArgumentError("step", self.step, "a plan has a step; leave it out, or give its variances alone")
            if isinstance(self.clip, AdaptiveClip):
                raise ArgumentError("clip", self.clip, 'a plan is made for one threshold; give step="planned" instead')
        elif self.step == PLANNED:
            raise ArgumentError("allocation", self.allocation, "variances of your own need a step= of your own")
        check_prior(self.prior, planned=self._planned)

    @property
    def _planned(self) -> bool:
        return self.step == PLANNED or (isinstance(self.allocation, str) and self.allocation == PLANNED)

    def divisors(self, problem: Composite) -> Array:
        return problem.divisors

    def regularizer(self, program: Program) -> Regularizer:
        return program.problem.regularizer.scaled(program.step, program.problem.n)[0]

    def values(self, program: Program) -> dict[str, Any]:
        """γ/n of the prox, and wᵢ l2."""
        problem = program.problem
        scale = problem.regularizer.scaled(program.step, problem.n)[1]
        return {"scale": scale, "shrink": problem.l2 * problem.shares / problem.n}

    def take(self, run: Any, i: Any, k: Any) -> None:
        """x − γ(wᵢ∇fᵢ(x) + ζ): the message up to its dual part, in place of x, which nothing needs any more."""
        step, shrink = self.step * run.pace, load(run.shrink, i)
        for j in range(run.d):
            x = load(run.X, i, j)
            store(x - step * fma(shrink, x, load(run.noisy, j)), run.X, i, j)

    def message(self, run: Any, i: Any, j: Any) -> Any:
        return load(run.X, i, j) - self.step * run.pace * load(run.dual, i, j)

    def serve(self, run: Any) -> None:
        """The mean of the messages.

        The duals sum to zero, so their part is left out of the mean: the rounding errors of that sum then decay with
        the contraction instead of staying for ever.
        """
        for j in range(run.d):
            store(mean_over_workers(run.X, j), run.mean, 0, j)

    def receive(self, run: Any, i: Any) -> None:
        """Dual, z and prox."""
        step = self.step * run.pace
        for j in range(run.d):
            dual = load(run.dual, i, j)
            message = load(run.X, i, j) - step * dual
            apart = message - load(run.mean, 0, j)
            store(dual + apart, run.dual, i, j)
            store(message - step * apart, run.X, i, j)
        prox(run, run.X, i, self.scale * run.pace)  # type: ignore[attr-defined]

    def read_back(self, program: Program, worker: int, start: Array, view: View) -> Iterator[Found]:
        """Each message is x − γ(h + wᵢ l2 x + Λ), with x and Λ that follow from earlier ones."""
        problem, g = program.problem, program.problem.regularizer
        n, shrink = problem.n, problem.l2 * problem.shares[worker] / problem.n
        x = np.tile(start, (view.messages.shape[0], 1))
        dual = np.zeros_like(x)
        for t in range(view.messages.shape[1]):
            message, mean, step = view.messages[:, t], view.broadcasts[:, t], program.step * view.paces[:, t, None]
            size = (np.abs(x).max() + np.abs(message).max()) / step.min() + np.abs(dual).max()
            yield x, (x - message) / step - dual - shrink * x, float(size)
            dual = dual + message - mean
            z = message - step * (message - mean)
            scale = step / n
            of_rows = zip(z, scale[:, 0].tolist(), strict=True)
            x = g.prox(z, scale) if g.of_coordinates else np.stack([g.prox(row, by) for row, by in of_rows])

    def outline(self, terms: Terms, rounds: int) -> Outline:
        problem = terms.problem
        terms.refuse_beyond_memory(rounds)
        kernels = self.in_kernels
        if not terms.private:
            if not isinstance(self.allocation, str):
                raise ArgumentError("allocation", self.allocation, "variances need a budget= to be held against")
            refuse_without_budget(self.step)
            program = Program(kernels, problem, rounds, self._step(problem))
            check_clip(program)
            check_sampling(program, planned=False)
            return noiseless(program)
        program = Program(kernels, problem, rounds, 1.0)
        check_clip(program)
        check_sampling(program, planned=self._planned or isinstance(self.allocation, Plan), accounting=terms.accounting)
        clip, (bound, source), divisors = program.adaptive, program.bounding(problem), program.divisors(problem)
        calibration = terms.calibration(bound, divisors, rounds, clip)
        unit, way, left = calibration.sensitivities.total, self.way(problem), terms.left(clip)
        table, line = None, ""
        factor = 1.0 if clip is None else factor_of(clip, unit, left, problem.d, way)
        if isinstance(self.allocation, Plan):
            plan: Plan | None = self._given_plan(self.allocation, problem, rounds)
        elif self._planned and clip is not None:
            own, largest = None if self.step == PLANNED else self._step(problem), LARGEST_VARIANCES[problem.dtype]
            rest = {"allocation": self.allocation, "convexity": problem.safe_strong_convexity}
            outlook = Outlook(program, self.prior, left, unit, way, **rest)
            plan, table = outlook.plan(rounds, own, largest), outlook.table(rounds) if own is None else None
            line = outlook.line(plan)
        else:
            plan = self._plan(terms, program, calibration) if self._planned else None
        step = self._step(problem) if plan is None else plan.step
        if clip is None and (self.step is None or self.step == PLANNED):
            _warn_of_long_rows(problem, step)
        if plan is None:
            variances = self._variances(problem, rounds, step, calibration)
        program.step = step
        adapting = adapting_of(program, factor, table)

        def complete() -> Schedule:
            shape, factors = variances() if plan is None else (plan.shape, plan.factors)
            if plan is not None and adapting is not None:
                shape = shape / adapting.limits.start**2
            ledger = ledger_of(
                terms,
                calibration,
                bound=bound,
                bound_source=source,
                divisors=divisors,
                read_off_data=self._read_off_data(problem, source),
                allocation=self._allocation_name(),
                shape=shape,
                factors=factors,
                plan=line or ("" if plan is None else plan.line()),
                **counts_of(terms, adapting),
                **drawn_of(program),
                adjacency=program.adjacency,
            )
            ledger = calibrated(ledger, self.allocation)
            deviations, of_workers = np.sqrt(ledger.shape), np.sqrt(ledger.factors)
            return Schedule(step, deviations, of_workers, ledger, program, with_noise(adapting, ledger))

        if not isinstance(self.allocation, str):
            complete()  # a caller's own variances may overspend
        # A caller's own are the same for all workers.
        given = not isinstance(self.allocation, str | Plan)
        factors = np.ones(problem.n) if given else calibration.factors if plan is None else plan.factors
        return Outline(program, terms.sampler_spoils(rounds), factors, complete)

    @property
    def in_kernels(self) -> PrimalDual:
        """On a graph, and where workers are absent, it is something else."""
        if self.topology is not None:
            from fastldp.methods.gossip import PrimalDualOnGraph  # a class of this one

            return PrimalDualOnGraph.of(self)
        if self.meets_in_part:
            from fastldp.methods.in_part import PrimalDualInPart  # likewise

            return PrimalDualInPart.of(self)
        return self

    def _allocation_name(self) -> str:
        if isinstance(self.allocation, Plan):
            return self.allocation.allocation
        return self.allocation if isinstance(self.allocation, str) else "given"

    @staticmethod
    def _given_plan(plan: Plan, problem: Composite, rounds: int) -> Plan:
        if (plan.rounds, plan.factors.size) != (rounds, problem.n):
            made = f"{plan.rounds:,} rounds of {plan.factors.size} workers"
            raise ArgumentError("allocation", plan, f"it was made for {made}, and this is {rounds:,} of {problem.n}")
        return plan

    def _plan(self, terms: Terms, program: Program, calibration: Calibration) -> Plan:
        """Of the step, or of what to expect of a step of the caller's."""
        problem = terms.problem
        facts, prior = grounds_of(program, self.prior)
        assert isinstance(self.allocation, str)  # planned steps and variances of the caller's exclude each other
        return planned(
            facts,
            prior,
            terms.rho,
            calibration.sensitivities.total,
            self.way(problem),
            rounds=program.rounds,
            allocation=self.allocation,
            convexity=problem.safe_strong_convexity,
            step=None if self.step == PLANNED else self._step(problem),
            largest=LARGEST_VARIANCES[problem.dtype],
        )

    def way(self, problem: Composite) -> Way:
        return way_of(problem, self.topology, self.failures)

    def _step(self, problem: Composite) -> float:
        if self.step is None:
            return problem.safe_step
        assert not isinstance(self.step, str)  # a planned step is the plan's
        if self.step > problem.step_limit:
            warnings.warn(
                f"step = {self.step:g} is above min{{1/4, 1/L_f}} = {problem.step_limit:.6g}: the run is as private as "
                "any, but the theorem's error bound no longer holds",
                StepWarning,
                stacklevel=5,
            )
        return self.step

    def _read_off_data(self, problem: Composite, source: str) -> str:
        """What the messages depend on that was read off the data without noise; empty for a run to deploy."""
        public = source in ("public", ADAPTIVE)
        read = [] if public else ["the gradient bound"]
        if self.step is None and not problem.public_constants and not isinstance(self.allocation, Plan):
            read.append("the step")
        dynamic = isinstance(self.allocation, str) and self.allocation == "dynamic"
        if dynamic and problem.least_curvature > 0 and problem.bound_source != "public":
            read.append("the strong convexity")
        if isinstance(self.allocation, Plan):
            return ", ".join(dict.fromkeys([*read, *filter(None, self.allocation.read_off_data.split(", "))]))
        if self._planned:
            # Where clipping adapts, thresholds stand for the length of the rows.
            adaptive = ["the prior"] if self.prior == EXACT else []
            read += adaptive if source == ADAPTIVE else read_by_plan(problem, self.prior, bounded=public)
        return ", ".join(read)

    def _variances(
        self, problem: Composite, rounds: int, step: float, calibration: Calibration
    ) -> Callable[[], tuple[Array, Array]]:
        """What computes the shape over the rounds, and each worker's factor."""
        if not isinstance(self.allocation, str):
            shape = vector("allocation", self.allocation, rounds, "give one variance > 0 a round")
            if (shape <= 0).any():
                raise ArgumentError("allocation", self.allocation, "variances must be > 0 in every round")
            return lambda: (shape, np.ones(problem.n))
        # One shape for all, for the worker that needs least noise; the others scale it up.
        least, factors = calibration.least, calibration.factors
        if self.allocation == "static":
            return lambda: (static_variances(rounds, **least), factors)
        contraction = step * min(problem.safe_strong_convexity, 1.0)
        if contraction >= 1:
            raise ArgumentError(
                "step", step, f"times min{{μ_f, 1}} it must stay below 1; give less than {step / contraction:g}"
            )
        largest = LARGEST_VARIANCES[problem.dtype]
        return lambda: (dynamic_variances(rounds, contraction=contraction, largest=largest, **least), factors)


def _warn_of_long_rows(problem: Composite, step: float) -> None:
    """Say where a step from public numbers is too long for rows that are longer than these say: to who has the data."""
    # The default and planned steps are below 1/L_f wherever rows are as they say.
    if isinstance(problem, Problem) and problem.rows_exceed_bounds and step * problem.smoothness > 1:
        warnings.warn(
            f"step = {step:g} takes rows to be within gradient_bound=, but they are longer, and it is above "
            f"1/L_f = {1 / problem.smoothness:.6g}: the run is as private as any, but may diverge; give a "
            "public row_bound= that rows are scaled to, or a smaller step=",
            StepWarning,
            stacklevel=4,
        )
