"""The paper's method: its parameters, and what its kernels need."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.algorithms.program import Layout, Program
from fastldp.algorithms.schedule import Schedule, factors_of, ledger_of, refuse_overspending, released
from fastldp.composite import Composite
from fastldp.errors import ArgumentError, StepWarning
from fastldp.kernels import primal_dual as kernels
from fastldp.privacy.allocation import LARGEST_VARIANCE, dynamic_variances, static_variances
from fastldp.privacy.budget import Budget
from fastldp.validation import known_name, real, vector

Array = NDArray[np.float64]

ALLOCATIONS = ("dynamic", "static")
# Beyond these the squares of a run's numbers would overflow; such noise spends nothing that counts.
LARGEST_VARIANCES = {"float64": LARGEST_VARIANCE, "float32": 1e30}


@dataclass(frozen=True, eq=False)
class PrimalDual:
    """The paper's Algorithm 1.

    Parameters
    ----------
    step : γ; min{1/4, 1/L_f}, the theorem's limit, where it is not given.
    allocation : ``"dynamic"`` (Theorem 1), ``"static"``, or an array of T variances of the caller's own.

    >>> PrimalDual(step=0.1, allocation="static")
    PrimalDual(step=0.1, allocation='static')
    """

    version: ClassVar[int] = 1
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""

    step: float | None = None
    allocation: str | ArrayLike = "dynamic"

    def __post_init__(self) -> None:
        if self.step is not None:
            object.__setattr__(self, "step", real("step", self.step, "give a finite number > 0", above=0))
        if isinstance(self.allocation, str):
            known_name("allocation", self.allocation, ALLOCATIONS)

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The step and the noise of every round."""
        step = self._step(problem)
        if budget is None:
            if not isinstance(self.allocation, str):
                raise ArgumentError("allocation", self.allocation, "variances need a budget= to be held against")
            return Schedule(step, np.zeros(rounds), np.ones(problem.n), None, Algorithm1(step))
        rho = budget.rho_of_workers(problem.n)
        sensitivities = released(problem, problem.gradient_bound, problem.n)
        shape, factors = self._variances(problem, rounds, step, rho, sensitivities.total)
        ledger = ledger_of(
            problem,
            budget,
            sensitivities,
            bound=problem.gradient_bound,
            bound_source=problem.bound_source,
            parts=problem.n,
            read_off_data=self._read_off_data(problem),
            allocation=self.allocation if isinstance(self.allocation, str) else "given",
            shape=shape,
            factors=factors,
        )
        refuse_overspending(ledger, self.allocation)
        return Schedule(step, np.sqrt(shape), np.sqrt(factors), ledger, Algorithm1(step))

    def _step(self, problem: Composite) -> float:
        if self.step is None:
            return problem.safe_step
        if self.step > problem.step_limit:
            warnings.warn(
                f"step = {self.step:g} is above min{{1/4, 1/L_f}} = {problem.step_limit:.6g}: the run is as private as "
                "any, but the theorem's error bound no longer holds",
                StepWarning,
                stacklevel=4,
            )
        return self.step

    def _read_off_data(self, problem: Composite) -> str:
        """What the messages depend on that was read off the data without noise; empty for a run to deploy."""
        read = [] if problem.bound_source == "public" else ["the gradient bound"]
        if self.step is None and not problem.public_constants:
            read.append("the step")
        dynamic = isinstance(self.allocation, str) and self.allocation == "dynamic"
        if dynamic and problem.loss == "squared" and problem.bound_source != "public":
            read.append("the strong convexity")
        return ", ".join(read)

    def _variances(
        self, problem: Composite, rounds: int, step: float, rho: Array, sensitivity: Array
    ) -> tuple[Array, Array]:
        """The shape over the rounds and each worker's factor."""
        if not isinstance(self.allocation, str):
            shape = vector("allocation", self.allocation, rounds, "give one variance > 0 a round")
            if (shape <= 0).any():
                raise ArgumentError("allocation", self.allocation, "variances must be > 0 in every round")
            return shape, np.ones(problem.n)
        # One shape for all, for the worker that needs least noise; the others scale it up.
        least, factors = factors_of(sensitivity, rho)
        of_least = {"rho": float(rho[least]), "sensitivity": float(sensitivity[least])}
        if self.allocation == "static":
            return static_variances(rounds, **of_least), factors
        contraction = step * min(problem.safe_strong_convexity, 1.0)
        if contraction >= 1:
            raise ArgumentError(
                "step", step, f"times min{{μ_f, 1}} it must stay below 1; give less than {step / contraction:g}"
            )
        largest = LARGEST_VARIANCES[problem.dtype]
        return dynamic_variances(rounds, contraction=contraction, largest=largest, **of_least), factors


class Algorithm1(Program):
    """The kernels of Algorithm 1."""

    loops: ClassVar[ModuleType] = kernels
    memory: ClassVar[tuple[str, ...]] = ("X", "dual")
    lanes_of_samples: ClassVar[bool] = True

    def parts(self, problem: Composite) -> int:
        return problem.n

    def state(self, layout: Layout, problem: Composite) -> kernels.State:
        n, d = problem.n, problem.d
        arrays = layout.zeros(n, d), layout.zeros(n, d), layout.zeros(n, d), layout.zeros(1, d)
        return kernels.State(*arrays, failed=layout.no_failures())

    def method(self, layout: Layout, problems: Sequence[Composite], programs: Sequence[Any]) -> kernels.Method:
        n, d = problems[0].n, problems[0].d
        forms = [problem.regularizer.kernel_form(d) for problem in problems]
        steps = [program.step for program in programs]
        return kernels.Method(
            loss=layout.loss,
            prox=forms[0].code,
            step=layout.stack(steps),
            shrink=layout.stack(problem.l2 / n for problem in problems),
            threshold=layout.stack(step * form.weight / n for step, form in zip(steps, forms, strict=True)),
            clip=layout.stack(min(problem.clip, layout.largest) for problem in problems),
            size=layout.stack(form.size for form in forms),
        )

    def begin(self, state: kernels.State, start: Array) -> None:
        state.X[...] = start
        state.dual.fill(0.0)

    def models(self, state: kernels.State) -> NDArray[Any]:
        return state.X
