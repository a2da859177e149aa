"""The paper's method on a graph: workers mix their neighbours' messages, where the server took the mean of all.

With W symmetric, doubly stochastic and connected, Algorithm 1 has Σⱼ Wᵢⱼ x̃ⱼ in the place of x̄, in the dual and in z:

    x̃ᵢ = xᵢ − γ(wᵢ∇fᵢ(xᵢ) + ζ + Λᵢ)
    apartᵢ = Σⱼ Wᵢⱼ (x̃ᵢ − x̃ⱼ),   Λᵢ ← Λᵢ + apartᵢ,   xᵢ ← prox_{(γ/n)g}(x̃ᵢ − γ apartᵢ)

and W = 11ᵀ/n is the paper's. The duals must sum to zero, and nobody could tell: what is missing moves the optimum for
ever. Both ends of a link add the same number to theirs, but for the sign, and what rounding takes of the dual is kept
beside it, to another double's precision: so after T rounds of degree k the sum is off by T k 2⁻¹⁰⁴ of the duals at
most, which is less than they are rounded by in any run there is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from fastldp.lanes import apart, fma, load, prox, store, two_sum
from fastldp.methods.primal_dual import PrimalDual


@dataclass(frozen=True, eq=False, repr=False)
class PrimalDualOnGraph(PrimalDual):
    """What kernels do for `PrimalDual(topology=...)`."""

    workers: ClassVar[tuple[str, ...]] = "X", "message", "dual", "rest"
    mixed: ClassVar[tuple[str, ...]] = ("message",)
    server: ClassVar[tuple[str, ...]] = ("heard",)
    sends: ClassVar[str] = "heard"
    checked: ClassVar[str] = "dual"
    checkpoint: ClassVar[tuple[str, ...]] = "X", "dual", "rest"

    @classmethod
    def of(cls, method: PrimalDual) -> PrimalDualOnGraph:
        """The same method for kernels."""
        return cls(**{field.name: getattr(method, field.name) for field in fields(method)})

    def take(self, run: Any, i: Any, k: Any) -> None:
        """The message."""
        step, shrink = self.step * run.pace, load(run.shrink, i)
        for j in range(run.d):
            x = load(run.X, i, j)
            direction = fma(shrink, x, load(run.noisy, j)) + load(run.dual, i, j)
            store(x - step * direction, run.message, i, j)

    def message(self, run: Any, i: Any, j: Any) -> Any:
        return load(run.message, i, j)

    def serve(self, run: Any) -> None:
        """Nothing: there is no server."""

    def tell(self, run: Any, i: Any) -> None:
        """What worker i makes of its neighbours' messages: Σⱼ Wᵢⱼ x̃ⱼ."""
        for j in range(run.d):
            store(load(run.message, i, j) - apart(run, run.message, i, j)[0], run.heard, 0, j)

    def receive(self, run: Any, i: Any) -> None:
        """Dual, z and prox."""
        step = self.step * run.pace
        for j in range(run.d):
            difference, lost = apart(run, run.message, i, j)
            dual, taken = two_sum(load(run.dual, i, j), difference)
            dual, rest = two_sum(dual, load(run.rest, i, j) + (taken + lost))
            store(dual, run.dual, i, j)
            store(rest, run.rest, i, j)
            store(load(run.message, i, j) - step * difference, run.X, i, j)
        prox(run, run.X, i, self.scale * run.pace)  # type: ignore[attr-defined]
