"""What workers and server do where some workers do not take part in a round, where that is something else.

An absent worker keeps what it kept, and the server's step is about the others.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from fastldp.lanes import load, store, weighted_mean
from fastldp.methods.local_steps import DPScaffold
from fastldp.methods.primal_dual import PrimalDual


@dataclass(frozen=True, eq=False, repr=False)
class PrimalDualInPart(PrimalDual):
    """Algorithm 1 among the participants S, as if they were all.

        x̄ = mean over S of x̃ᵢ,   and of i in S   Λᵢ ← Λᵢ + x̃ᵢ − x̄,   xᵢ ← prox(x̃ᵢ − γ(x̃ᵢ − x̄))

    What they add to their duals sums to zero, so all duals still do; but those of S alone need not, and are part of x̄.
    Where x* and its duals are, all x̃ᵢ are the same, so that no S leaves it. A worker by itself would go on to its own
    optimum, and pull the harder at the next meeting: duals were seen to diverge so. So there are two at least.
    """

    in_part: ClassVar[bool] = True
    least_workers: ClassVar[int] = 2

    @classmethod
    def of(cls, method: PrimalDual) -> PrimalDualInPart:
        """The same method for kernels."""
        return cls(**{field.name: getattr(method, field.name) for field in fields(method)})

    def serve(self, run: Any) -> None:
        """The mean of the participants' messages."""
        step = self.step * run.pace
        for j in range(run.d):
            mean = weighted_mean(run.X, j, run.parts) - step * weighted_mean(run.dual, j, run.parts)
            store(mean, run.mean, 0, j)


@dataclass(frozen=True, eq=False, repr=False)
class DPScaffoldInPart(DPScaffold):
    """SCAFFOLD with some of the workers (Karimireddy et al. 2020): cᵢ of the others stay, and c is Σ wᵢcᵢ of all."""

    in_part: ClassVar[bool] = True

    @classmethod
    def of(cls, method: DPScaffold) -> DPScaffoldInPart:
        """The same method for kernels."""
        return cls(**{field.name: getattr(method, field.name) for field in fields(method)})

    def serve(self: Any, run: Any) -> None:
        """x moves by the mean of the participants; in round 0 it stays."""
        for j in range(run.d):
            c, x = weighted_mean(run.control, j, run.all_shares), load(run.model, 0, j)
            store(c, run.server_control, 0, j)
            if run.round == 0:
                store(c, run.sent, 0, j)
            else:
                moved = weighted_mean(run.Y, j, run.shares) - x
                store(x + self.server_step * moved, run.model, 0, j)
                store(load(run.model, 0, j), run.sent, 0, j)
