"""DP-FedAvg and DP-SCAFFOLD (Noble, Bellet, Dieuleveut 2022), LDP-FedEXP: parameters, and what their kernels need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.algorithms.baseline import outline_of
from fastldp.algorithms.planned import PLANNED, check_prior, checked_step
from fastldp.algorithms.program import Layout, Program
from fastldp.algorithms.schedule import Outline, Schedule, Terms
from fastldp.composite import Composite, threshold
from fastldp.errors import ArgumentError
from fastldp.kernels import local_steps as kernels
from fastldp.planning.prior import Prior
from fastldp.privacy.budget import Budget
from fastldp.validation import integer, real

Array = NDArray[np.float64]

# The noise is addressed by the local step in 32 bits.
MOST_LOCAL_STEPS = 2**32 - 1


@dataclass(frozen=True)
class DPFedAvg:
    """Each round every worker takes K noisy gradient steps from the server's model, which moves to their mean.

    Parameters
    ----------
    step : η, of a local step; ``"planned"`` is the one with the least error to expect, see `fastldp.plan`.
    local_steps : K.
    clip : C, the norm each sample's gradient is clipped to; the problem's bound where it is not given.
    server_step : η_g; with 1 the server takes the mean.
    prior : what the planner assumes, as of `PrimalDual`.

    >>> DPFedAvg(step=0.1, local_steps=5)
    DPFedAvg(step=0.1, local_steps=5, clip=None, server_step=1.0, prior=None)
    """

    version: ClassVar[int] = 3
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""

    step: float | str
    local_steps: int
    clip: float | None = None
    server_step: float = 1.0
    prior: Prior | str | None = None

    def __post_init__(self) -> None:
        _check(self)

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The noise of every round."""
        return self.outline(Terms(problem, budget), rounds).complete()

    def outline(self, terms: Terms, rounds: int) -> Outline:
        """All that can be refused before the noise of the rounds is computed, and how to compute it."""
        _refuse_nonsmooth(terms.problem, "DPFedAvg")
        return outline_of(partial(LocalSteps, self, variates=False, warm=False), self, terms, rounds)


@dataclass(frozen=True)
class DPScaffold:
    """DP-FedAvg with control variates, which take off the drift of workers whose data differ.

    Parameters
    ----------
    step, local_steps, clip, server_step, prior : as of `DPFedAvg`.
    warm_start : whether the variates begin as means of K noisy gradients at the start; that costs a round's releases.

    >>> DPScaffold(step=0.1, local_steps=5, warm_start=True).warm_start
    True
    """

    version: ClassVar[int] = 3
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""

    step: float | str
    local_steps: int
    clip: float | None = None
    server_step: float = 1.0
    warm_start: bool = False
    prior: Prior | str | None = None

    def __post_init__(self) -> None:
        _check(self)
        if not isinstance(self.warm_start, bool):
            raise ArgumentError("warm_start", self.warm_start, "give True or False")

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The noise of every round."""
        return self.outline(Terms(problem, budget), rounds).complete()

    def outline(self, terms: Terms, rounds: int) -> Outline:
        """All that can be refused before the noise of the rounds is computed, and how to compute it."""
        _refuse_nonsmooth(terms.problem, "DPScaffold")
        make = partial(LocalSteps, self, variates=True, warm=self.warm_start)
        return outline_of(make, self, terms, rounds)


@dataclass(frozen=True)
class LDPFedEXP:
    """DP-FedAvg with a server's step that follows from the noisy updates: there is none to tune.

    FedExP (Jhunjhunwala, Wang, Joshi 2023) moves the server by η_g = max{1, mean ‖Δᵢ‖²/(2‖Δ̄‖²)} times the mean Δ̄ of the
    workers' updates Δᵢ: the more they differ, the further. Noise makes all updates differ, so LDP-FedEXP (Takakura,
    Liew, Hasegawa 2025; arXiv 2504.09850) needs another rule. This one is after it, not a copy: what noise is known to
    add to the mean of ‖Δᵢ‖² is taken off. There each update is randomized; here every gradient of a local step is,
    as in `DPFedAvg`, and the update follows from these. K releases of variance σᵢ² add K η² d σᵢ² to ‖Δᵢ‖², or a little
    less where K > 1, for later steps contract earlier noise: η_g then errs towards 1. FedExP's constant beside ‖Δ̄‖² is
    left out: noise keeps that from zero. Without noise η_g grows without bound where workers pull against each other at
    the optimum, and only where all could be content at once do the models settle.

    Parameters
    ----------
    step, local_steps, clip : as of `DPFedAvg`.

    >>> LDPFedEXP(step=0.1, local_steps=5)
    LDPFedEXP(step=0.1, local_steps=5, clip=None)
    """

    version: ClassVar[int] = 1
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""
    prior: ClassVar[None] = None
    server_step: ClassVar[float] = 1.0

    step: float
    local_steps: int
    clip: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", real("step", self.step, "give a finite number > 0", above=0))
        _check_local(self)

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The noise of every round."""
        return self.outline(Terms(problem, budget), rounds).complete()

    def outline(self, terms: Terms, rounds: int) -> Outline:
        """All that can be refused before the noise of the rounds is computed, and how to compute it."""
        _refuse_nonsmooth(terms.problem, "LDPFedEXP")
        make = partial(LocalSteps, self, variates=False, warm=False, extrapolates=True)
        return outline_of(make, self, terms, rounds)


def _check(method: DPFedAvg | DPScaffold) -> None:
    object.__setattr__(method, "step", checked_step(method.step))
    check_prior(method.prior, planned=method.step == PLANNED)
    server_step = real("server_step", method.server_step, "give a finite number > 0", above=0)
    object.__setattr__(method, "server_step", server_step)
    _check_local(method)


def _check_local(method: DPFedAvg | DPScaffold | LDPFedEXP) -> None:
    if method.clip is not None:
        object.__setattr__(method, "clip", threshold("clip", method.clip))
    remedy = "give a whole number ≥ 1"
    steps = integer("local_steps", method.local_steps, remedy, at_least=1, at_most=MOST_LOCAL_STEPS)
    object.__setattr__(method, "local_steps", steps)


def _refuse_nonsmooth(problem: Composite, name: str) -> None:
    if not problem.regularizer.smooth:
        raise ArgumentError(
            "algorithm",
            name,
            f"it averages models and has no proximal step, so it cannot handle g = {problem.regularizer}; "
            "use PrimalDual(), ISRLDP or DPScaffNew, or a problem with regularizer=Zero()",
        )


class LocalSteps(Program):
    """The kernels of DP-FedAvg, DP-SCAFFOLD and LDP-FedEXP."""

    memory: ClassVar[tuple[str, ...]] = ("control", "model", "server_control")

    def __init__(
        self,
        method: DPFedAvg | DPScaffold | LDPFedEXP,
        step: float,
        *,
        variates: bool,
        warm: bool,
        extrapolates: bool = False,
    ) -> None:
        super().__init__(step)
        self.server_step, self.clip, self.local_steps = method.server_step, method.clip, method.local_steps
        self.variates, self.extrapolates = variates, extrapolates
        self.early_releases = self.local_steps if warm else 0

    @property
    def kind(self) -> tuple[Any, ...]:
        return *super().kind, self.variates, self.extrapolates

    def divisors(self, problem: Composite) -> Array:
        return problem.sizes.astype(np.float64)

    def server_shares(self, problem: Composite) -> Array:
        return problem.shares

    def state(self, layout: Layout, problem: Composite) -> kernels.State:
        n, d = problem.n, problem.d
        of_workers = layout.zeros(n, d), layout.zeros(n, d), layout.zeros(n, d), layout.zeros(n, 1)
        of_server = layout.zeros(1, d), layout.zeros(1, d)
        return kernels.State(*of_workers, *layout.rooms(d), *of_server, layout.no_failures())

    def method(self, layout: Layout, problems: Sequence[Composite], programs: Sequence[Any]) -> kernels.Method:
        return kernels.Method(
            local_steps=self.local_steps,
            variates=self.variates,
            extrapolates=self.extrapolates,
            step=layout.stack(program.step for program in programs),
            server_step=layout.stack(program.server_step for program in programs),
            noise=layout.stack(program.noise(problems[0].d) for program in programs),
            shrink=layout.stack(problem.l2 for problem in problems),
            shares=layout.stack(self.server_shares(problem) for problem in problems),
        )

    def noise(self, d: int) -> float:
        """What the noise of a round adds to ‖Δᵢ‖², the mean over the workers."""
        return self.local_steps * self.step**2 * d * self.variance

    def begin(self, state: kernels.State, start: Array) -> None:
        state.model[...] = start
        state.control.fill(0.0)
        state.server_control.fill(0.0)

    def warm_up(self, state: kernels.State, samples: Any, objective: Any, method: Any, release: Any, seen: Any) -> None:
        kernels.warm_start(state, samples, objective, kernels.WarmStart(*method), release, seen)

    def models(self, state: kernels.State) -> NDArray[Any]:
        return state.model
