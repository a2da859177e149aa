"""The paper's method on a graph: workers mix their neighbours' messages, where the server took the mean of all.

With W symmetric, doubly stochastic and connected, Algorithm 1 has Σⱼ Wᵢⱼ x̃ⱼ in the place of x̄, in the dual and in z:

    x̃ᵢ = xᵢ − γ(wᵢ∇fᵢ(xᵢ) + ζ + Λᵢ)
    apartᵢ = Σⱼ Wᵢⱼ (x̃ᵢ − x̃ⱼ),   Λᵢ ← Λᵢ + apartᵢ,   xᵢ ← prox_{(γ/n)g}(x̃ᵢ − γ apartᵢ)

and W = 11ᵀ/n is the paper's. The duals must sum to zero, and no worker could tell: what is missing moves the optimum
for ever, and a sum of rounding errors grows with the rounds. So what goes over a link is rounded to a multiple of a
quantum, a power of two that follows from what the ledger says of releases. Both ends round the same number, but for its
sign; duals are sums of such multiples, which double precision adds without rounding. Then they sum to zero after any
number of rounds, bit by bit, as long as none is larger than 2⁵³ quanta, 16 times the size of a release.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from fastldp.lanes import apart, fma, load, mix, prox, store
from fastldp.methods.primal_dual import PrimalDual


@dataclass(frozen=True, eq=False, repr=False)
class PrimalDualOnGraph(PrimalDual):
    """What kernels do for `PrimalDual(topology=...)`."""

    mixed: ClassVar[tuple[str, ...]] = ("X",)  # which has, in a round, the messages
    server: ClassVar[tuple[str, ...]] = ("heard",)
    sends: ClassVar[str] = "heard"
    checked: ClassVar[str] = "dual"

    @classmethod
    def of(cls, method: PrimalDual) -> PrimalDualOnGraph:
        """The same method for kernels."""
        return cls(**{field.name: getattr(method, field.name) for field in fields(method)})

    def take(self, run: Any, i: Any, k: Any) -> None:
        """The message, in place of x."""
        step, shrink = self.step * run.pace, load(run.shrink, i)
        for j in range(run.d):
            x = load(run.X, i, j)
            direction = fma(shrink, x, load(run.noisy, j)) + load(run.dual, i, j)
            store(x - step * direction, run.X, i, j)

    def message(self, run: Any, i: Any, j: Any) -> Any:
        return load(run.X, i, j)

    def serve(self, run: Any) -> None:
        """Nothing: there is no server."""

    def tell(self, run: Any, i: Any) -> None:
        """What worker i makes of its neighbours' messages: Σⱼ Wᵢⱼ x̃ⱼ."""
        apart(run, run.X, i, run.heard, 0)
        for j in range(run.d):
            store(load(run.X, i, j) - load(run.heard, 0, j), run.heard, 0, j)

    def receive(self, run: Any, i: Any) -> None:
        """Dual, z and prox."""
        mix(run, run.X, i, self.step * run.pace, run.dual, run.next_X)
        prox(run, run.next_X, i, self.scale * run.pace)  # type: ignore[attr-defined]
