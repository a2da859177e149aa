"""DP-ScaffNew (Hou, Khirirat, Yaqub, Horváth 2023; arXiv 2304.05127): parameters, and what its kernels need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.algorithms.baseline import outline_of
from fastldp.algorithms.program import Layout, Program
from fastldp.algorithms.schedule import Outline, Schedule, Terms
from fastldp.composite import Composite, threshold
from fastldp.kernels import scaffnew as kernels
from fastldp.kernels.release import PUBLIC_BITS
from fastldp.privacy.budget import Budget
from fastldp.validation import real

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DPScaffNew:
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
    step : γ. Without noise γ ≤ 1/maxᵢ Lᵢ converges.
    probability : p of communication in a round, rounded up to a multiple of 2⁻²⁴. Without noise √(γμ) takes fewest
        communications. With 1 it is `ISRLDP`.
    clip : C, the norm each sample's gradient is clipped to; the problem's bound where it is not given.

    >>> DPScaffNew(step=0.5, probability=0.2)
    DPScaffNew(step=0.5, probability=0.2, clip=None)
    """

    version: ClassVar[int] = 1
    """Raised whenever the numbers of a run change, so that sweeps never mix old ones and new ones."""
    prior: ClassVar[None] = None

    step: float
    probability: float
    clip: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", real("step", self.step, "give a finite number > 0", above=0))
        remedy = "give a number above 0, of at most 1"
        object.__setattr__(self, "probability", real("probability", self.probability, remedy, above=0, at_most=1))
        if self.clip is not None:
            object.__setattr__(self, "clip", threshold("clip", self.clip))

    def schedule(self, problem: Composite, budget: Budget | None, rounds: int) -> Schedule:
        """The noise of every round."""
        return self.outline(Terms(problem, budget), rounds).complete()

    def outline(self, terms: Terms, rounds: int) -> Outline:
        """All that can be refused before the noise of the rounds is computed, and how to compute it."""
        return outline_of(partial(Skipping, self), self, terms, rounds)


class Skipping(Program):
    """The kernels of DP-ScaffNew."""

    memory: ClassVar[tuple[str, ...]] = ("X", "control", "model")

    def __init__(self, method: DPScaffNew, step: float) -> None:
        super().__init__(step)
        self.clip = method.clip
        # As a multiple of 2⁻²⁴, which both precisions hold.
        self.chance = float(math.ceil(method.probability * 2**PUBLIC_BITS))

    @property
    def probability(self) -> float:
        """p, as the coins have it."""
        return float(self.chance / 2**PUBLIC_BITS)

    def divisors(self, problem: Composite) -> Array:
        return np.asarray(problem.divisors / problem.n)

    def state(self, layout: Layout, problem: Composite) -> kernels.State:
        n, d = problem.n, problem.d
        of_workers = layout.zeros(n, d), layout.zeros(n, d), layout.zeros(n, d)
        of_server = layout.zeros(1, d), layout.zeros(1, d), layout.zeros(1), layout.zeros(1)
        return kernels.State(*of_workers, *layout.rooms(d), *of_server, layout.no_failures())

    def method(self, layout: Layout, problems: Sequence[Composite], programs: Sequence[Any]) -> kernels.Method:
        stretches = [program.step / program.probability for program in programs]
        return kernels.Method(
            step=layout.stack(program.step for program in programs),
            chance=layout.stack(program.chance for program in programs),
            stretch=layout.stack(stretches),
            rate=layout.stack(1 / stretch for stretch in stretches),
            shrink=layout.stack(problem.l2 * problem.shares for problem in problems),
        )

    def begin(self, state: kernels.State, start: Array) -> None:
        state.X[...] = start
        state.model[...] = start
        state.control.fill(0.0)

    def models(self, state: kernels.State) -> NDArray[Any]:
        return state.model
