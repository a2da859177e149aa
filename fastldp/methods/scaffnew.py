"""DP-ScaffNew (Hou, Khirirat, Yaqub, Horváth 2023; arXiv 2304.05127): a coin says when the server answers.

Every round is a noisy gradient step of each worker on its own:

    x̂ᵢ = xᵢ − γ(n wᵢ∇fᵢ(xᵢ) + noise − hᵢ)
    x  = prox_{(γ/p)g}(meanᵢ(x̂ᵢ − (γ/p) hᵢ)), xᵢ ← x     where the coin of the round says so; xᵢ ← x̂ᵢ where it does not
    hᵢ ← hᵢ + (p/γ)(xᵢ − x̂ᵢ)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.release import PUBLIC_BITS
from fastldp.lanes import any_lane, broadcast, fma, load, mean_over_workers, prox, select, store
from fastldp.methods.base import Found, Method, View
from fastldp.methods.clipping import AdaptiveClip
from fastldp.methods.sampling import Sampling
from fastldp.methods.schedule import Program
from fastldp.validation import real

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class DPScaffNew(Method):
    """Local steps with control variates, and rare, random communication: ProxSkip (Mishchenko et al. 2022) with noise.

    A round is one noisy gradient step of every worker. After it, with probability p, the server averages and takes the
    prox of g; all workers go on from its model, and correct their drift by what it differs from theirs. So g may be
    any, and a run communicates some p·T times. The answer is what the server sent last, or the start.

    It is after arXiv 2304.05127, whose workers noise the updates that they share. Here each gradient is noised, as in
    all other methods: T releases are accounted for, whatever the coins say, and everything else follows from them. The
    coins are public: all workers have the same, of the key of the run. The prox is ProxSkip's own, of a ψ that is n·g
    where all models agree and infinite elsewhere.

    Parameters
    ----------
    step : float
        γ. Without noise γ ≤ 1/maxᵢ Lᵢ converges.
    probability : float
        p of communication in a round, rounded up to a multiple of 2⁻²⁴. Without noise √(γμ) takes fewest
        communications. With 1 it is `ISRLDP`.
    clip : float or AdaptiveClip, optional
        C, the norm each sample's gradient is clipped to, or how it adapts; the problem's bound where it is not given.
    sampling : Sampling or float, optional
        Which samples and workers a round is of; all of them where it is not given.

    Examples
    --------
    >>> DPScaffNew(step=0.5, probability=0.2)
    DPScaffNew(step=0.5, probability=0.2, clip=None)
    """

    coins: ClassVar[bool] = True
    feasible: ClassVar[bool] = False  # where nobody answers a step may leave it
    workers: ClassVar[tuple[str, ...]] = "X", "control"  # X has, in a round, x̂ᵢ
    server: ClassVar[tuple[str, ...]] = "model", "proposed", "sent"
    begin: ClassVar[tuple[str, ...]] = "X", "model"
    checkpoint: ClassVar[tuple[str, ...]] = "X", "control", "model"
    numbers: ClassVar[tuple[str, ...]] = "step", "chance", "stretch", "rate"
    of_workers: ClassVar[tuple[str, ...]] = ("shrink",)
    point: ClassVar[str] = "X"
    sends: ClassVar[str] = "sent"
    checked: ClassVar[str] = "model"

    step: float
    probability: float
    clip: float | str | AdaptiveClip | None = None
    sampling: Sampling | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "give a number above 0, of at most 1"
        object.__setattr__(self, "probability", real("probability", self.probability, remedy, above=0, at_most=1))

    @property
    def chance(self) -> float:
        """p·2²⁴, a whole number, which both precisions hold."""
        return float(math.ceil(self.probability * 2**PUBLIC_BITS))

    def values(self, program: Program) -> dict[str, Any]:
        """γ/p and its inverse, and n wᵢ l2."""
        stretch = program.step / (self.chance / 2**PUBLIC_BITS)
        return {"stretch": stretch, "rate": 1 / stretch, "shrink": program.problem.l2 * program.problem.shares}

    def take(self: Any, run: Any, i: Any, k: Any) -> None:
        """x̂ᵢ."""
        step, shrink = self.step, load(run.shrink, i)
        for j in range(run.d):
            x = load(run.X, i, j)
            direction = fma(shrink, x, load(run.noisy, j)) - load(run.control, i, j)
            store(x - step * direction, run.X, i, j)

    def serve(self: Any, run: Any) -> None:
        """The answer, where there is one."""
        answers = run.public < self.chance
        if any_lane(answers):
            for j in range(run.d):
                # The hᵢ sum to zero where g = 0, up to rounding, which this takes off again.
                pull = self.stretch * mean_over_workers(run.control, j)
                store(mean_over_workers(run.X, j) - pull, run.proposed, 0, j)
            prox(run, run.proposed, 0, self.stretch)
        for j in range(run.d):
            x = select(answers, load(run.proposed, 0, j), load(run.model, 0, j))
            store(x, run.model, 0, j)
            store(select(answers, x, broadcast(np.nan, x)), run.sent, 0, j)

    def receive(self: Any, run: Any, i: Any) -> None:
        """What worker i does with it: nothing changes where there was none."""
        answered = run.public < self.chance
        if any_lane(answered):
            for j in range(run.d):
                moved = load(run.X, i, j)
                x = select(answered, load(run.model, 0, j), moved)
                store(fma(self.rate, x - moved, load(run.control, i, j)), run.control, i, j)
                store(x, run.X, i, j)

    def read_back(self, program: Program, worker: int, start: Array, view: View) -> Iterator[Found]:
        x = np.tile(start, (view.messages.shape[0], 1))
        control, shrink = np.zeros_like(x), program.problem.l2 * program.problem.shares[worker]
        for t in range(view.messages.shape[1]):
            yield x, view.messages[:, t], 0.0
            moved = x - program.step * (view.messages[:, t] + shrink * x - control)
            # Coins are public: where nothing was sent, they said so.
            answer = view.broadcasts[:, t]
            x = np.where(np.isnan(answer), moved, answer)
            control = control + self.chance / 2**PUBLIC_BITS / program.step * (x - moved)
