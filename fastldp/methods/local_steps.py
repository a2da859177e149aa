"""DP-FedAvg and DP-SCAFFOLD (Noble, Bellet, Dieuleveut 2022), LDP-FedEXP: K noisy steps from the server's model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.lanes import broadcast, fma, load, maximum, select, store, weighted_mean
from fastldp.methods.base import Found, Method, View
from fastldp.methods.clipping import AdaptiveClip
from fastldp.methods.planned import PLANNED, check_prior
from fastldp.methods.sampling import Sampling
from fastldp.methods.schedule import Program
from fastldp.problems.composite import Composite
from fastldp.problems.prior import Prior

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class LocalSteps(Method):
    """What they share: workers start at the server's model x, and step by releases of their own ∇fᵢ."""

    proximal: ClassVar[bool] = False
    in_part: ClassVar[bool] = True
    workers: ClassVar[tuple[str, ...]] = "Y", "control"
    server: ClassVar[tuple[str, ...]] = "model", "server_control", "sent"
    # DP-FedAvg is DP-SCAFFOLD whose control variates stay zero.
    checkpoint: ClassVar[tuple[str, ...]] = "control", "model", "server_control"
    point: ClassVar[str] = "Y"

    def divisors(self, problem: Composite) -> Array:
        return problem.sizes.astype(np.float64)

    def server_shares(self, problem: Composite) -> Array:
        return problem.shares

    def start(self: Any, run: Any, i: Any) -> None:
        for j in range(run.d):
            store(load(run.model, 0, j), run.Y, i, j)

    def take(self: Any, run: Any, i: Any, k: Any) -> None:
        """y ← y − η(∇fᵢ(y) + noise)."""
        step = self.step * run.pace
        for j in range(run.d):
            y = load(run.Y, i, j)
            store(y - step * fma(run.l2, y, load(run.noisy, j)), run.Y, i, j)

    def serve(self: Any, run: Any) -> None:
        """x moves by η_g times Σ wᵢ(yᵢ − x)."""
        for j in range(run.d):
            x = load(run.model, 0, j)
            store(x + self.server_step * (weighted_mean(run.Y, j, run.shares) - x), run.model, 0, j)


@dataclass(frozen=True, repr=False)
class DPFedAvg(LocalSteps):
    """Each round every worker takes K noisy gradient steps from the server's model, which moves to their mean.

    Parameters
    ----------
    step : float or str
        η, of a local step; ``"planned"`` is the one with the least error to expect, see `fastldp.plan`.
    local_steps : int
        K, a worker's steps in a round.
    clip : float or AdaptiveClip, optional
        C, the norm each sample's gradient is clipped to, or how it adapts; the problem's bound where it is not given.
    server_step : float
        η_g; with 1 the server takes the mean.
    prior : Prior or str, optional
        What the planner assumes, as of `PrimalDual`.
    sampling : Sampling or float, optional
        Which samples and workers a round is of; all of them where it is not given.

    Examples
    --------
    >>> DPFedAvg(step=0.1, local_steps=5)
    DPFedAvg(step=0.1, local_steps=5, clip=None, server_step=1.0, prior=None)
    """

    version: ClassVar[int] = 3
    plans: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = "step", "server_step"

    step: float | str
    local_steps: int
    clip: float | str | AdaptiveClip | None = None
    server_step: float = 1.0
    prior: Prior | str | None = None
    sampling: Sampling | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self.prior, planned=self.step == PLANNED)


@dataclass(frozen=True, repr=False)
class DPScaffold(LocalSteps):
    """DP-FedAvg with control variates, which take off the drift of workers whose data differ.

    Parameters
    ----------
    step : float or str
        As of `DPFedAvg`.
    local_steps : int
        K, likewise.
    clip : float or AdaptiveClip, optional
        C, likewise.
    server_step : float
        η_g, likewise.
    warm_start : bool
        Whether the variates begin as means of K noisy gradients at the start; that costs a round's releases.
    prior : Prior or str, optional
        What the planner assumes, as of `PrimalDual`.
    sampling : Sampling or float, optional
        Which samples and workers a round is of; all of them where it is not given.

    Examples
    --------
    >>> DPScaffold(step=0.1, local_steps=5, warm_start=True).warm_start
    True
    """

    version: ClassVar[int] = 3
    plans: ClassVar[bool] = True
    numbers: ClassVar[tuple[str, ...]] = "step", "server_step"
    sends: ClassVar[str] = "sent"

    step: float | str
    local_steps: int
    clip: float | str | AdaptiveClip | None = None
    server_step: float = 1.0
    warm_start: bool = False
    prior: Prior | str | None = None
    sampling: Sampling | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self.prior, planned=self.step == PLANNED)
        if not isinstance(self.warm_start, bool):
            raise ArgumentError("warm_start", self.warm_start, "give True or False")

    @property
    def in_kernels(self) -> Method:
        if not self.meets_in_part:
            return self
        from fastldp.methods.in_part import DPScaffoldInPart  # a class of this one

        return DPScaffoldInPart.of(self)

    def take(self: Any, run: Any, i: Any, k: Any) -> None:
        """y ← y − η(∇fᵢ(y) + noise − cᵢ + c); in round 0, cᵢ as the mean of K noisy gradients at x: one of them."""
        if run.round == 0:
            for j in range(run.d):
                part = fma(run.l2, load(run.Y, i, j), load(run.noisy, j)) / float(run.local_steps)
                store(load(run.control, i, j) + part, run.control, i, j)
            return
        step = self.step * run.pace
        for j in range(run.d):
            y = load(run.Y, i, j)
            correction = load(run.server_control, 0, j) - load(run.control, i, j)
            direction = fma(run.l2, y, load(run.noisy, j)) + correction
            store(y - step * direction, run.Y, i, j)
        if k + 1 == run.local_steps:
            rate = step * float(run.local_steps)
            for j in range(run.d):
                moved = load(run.model, 0, j) - load(run.Y, i, j)
                kept = load(run.control, i, j) - load(run.server_control, 0, j)
                store(kept + moved / rate, run.control, i, j)

    def serve(self: Any, run: Any) -> None:
        """x moves as in DP-FedAvg, and c becomes Σ wᵢcᵢ, as it was before; in round 0 that is all."""
        if run.round == 0:
            for j in range(run.d):
                c = weighted_mean(run.control, j, run.shares)
                store(c, run.server_control, 0, j)
                store(c, run.sent, 0, j)
            return
        rate = self.step * run.pace * float(run.local_steps)
        for j in range(run.d):
            x = load(run.model, 0, j)
            moved = weighted_mean(run.Y, j, run.shares) - x
            store(x + self.server_step * moved, run.model, 0, j)
            store(-moved / rate, run.server_control, 0, j)
            store(load(run.model, 0, j), run.sent, 0, j)

    def read_back(self, program: Program, worker: int, start: Array, view: View) -> Iterator[Found]:
        """The accounting counts every local release, so the adversary is given every one."""
        early, count, l2 = program.early_releases, program.local_steps, program.problem.l2
        x = np.tile(start, (view.messages.shape[0], 1))
        mine, server = np.zeros_like(x), np.zeros_like(x)
        for k in range(early):
            yield x, view.messages[:, k], 0.0
            mine = mine + (view.messages[:, k] + l2 * x) / count
        if early:
            server = view.broadcasts[:, 0]
        for t in range((view.messages.shape[1] - early) // count):
            y, new, step = x, view.broadcasts[:, program.broadcasts(t)], program.step * view.paces[:, t, None]
            for k in range(early + t * count, early + (t + 1) * count):
                yield y, view.messages[:, k], 0.0
                y = y - step * (view.messages[:, k] + l2 * y - mine + server)
            mine = mine - server + (x - y) / (count * step)
            server = (x - new) / program.server_step / (count * step)
            x = new


@dataclass(frozen=True, repr=False)
class LDPFedEXP(LocalSteps):
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
    step : float
        η, of a local step.
    local_steps : int
        K, as of `DPFedAvg`.
    clip : float or AdaptiveClip, optional
        C, likewise.
    sampling : Sampling or float, optional
        Which samples and workers a round is of; all of them where it is not given.

    Examples
    --------
    >>> LDPFedEXP(step=0.1, local_steps=5)
    LDPFedEXP(step=0.1, local_steps=5, clip=None)
    """

    numbers: ClassVar[tuple[str, ...]] = "step", "noise"
    of_workers: ClassVar[tuple[str, ...]] = ("squares",)  # ‖yᵢ − x‖² after the last local step

    step: float
    local_steps: int
    clip: float | str | AdaptiveClip | None = None
    sampling: Sampling | float | None = None

    def values(self, program: Program) -> dict[str, Any]:
        """What the noise of a round adds to ‖Δᵢ‖², the mean over the workers."""
        noise = program.local_steps * program.step**2 * program.problem.d * program.variance
        return {"noise": noise, "squares": np.zeros(program.problem.n)}

    def take(self: Any, run: Any, i: Any, k: Any) -> None:
        for j in range(run.d):
            y = load(run.Y, i, j)
            store(y - self.step * fma(run.l2, y, load(run.noisy, j)), run.Y, i, j)
        if k + 1 == run.local_steps:
            square = broadcast(0.0, self.step)
            for j in range(run.d):
                moved = load(run.Y, i, j) - load(run.model, 0, j)
                square = fma(moved, moved, square)
            store(square, run.squares, i)

    def serve(self: Any, run: Any) -> None:
        """x moves by η_g = max{1, (mean ‖Δᵢ‖² − noise)/(2‖Δ̄‖²)} times the mean of the updates Δᵢ = yᵢ − x."""
        square = broadcast(0.0, self.step)
        for j in range(run.d):
            moved = weighted_mean(run.Y, j, run.shares) - load(run.model, 0, j)
            square = fma(moved, moved, square)
        total = load(run.shares, 0) * load(run.squares, 0)
        for i in range(1, run.n):
            total = fma(load(run.shares, i), load(run.squares, i), total)
        # The variance is in units of the threshold, where that adapts.
        spread = total / float(run.n) - self.noise * run.unit * run.unit
        # Where nobody moves any step will do.
        server_step = select(square > 0.0, maximum(1.0, spread / (2.0 * square)), broadcast(1.0, square))
        for j in range(run.d):
            x = load(run.model, 0, j)
            store(x + server_step * (weighted_mean(run.Y, j, run.shares) - x), run.model, 0, j)
