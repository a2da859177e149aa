"""What is recorded of a block of runs: the average model, the spread around it, its distance to the optimum."""

from typing import Any

from fastldp.kernels.jit import serial
from fastldp.kernels.simd import broadcast, fma, load, store


@serial
def measure(k: int, X: Any, optimum: Any, means: Any, consensus: Any, distance: Any) -> None:
    """x̄, (1/n) Σᵢ ‖x̄ − xᵢ‖² and ‖x̄ − x*‖² of each lane, as record k."""
    n, d = X.shape[0], X.shape[1]
    zero = broadcast(0.0, load(X, 0, 0))
    spread = zero
    far = zero
    for j in range(d):
        total = zero
        for i in range(n):
            total = total + load(X, i, j)
        centre = total / float(n)
        store(centre, means, k, j)
        for i in range(n):
            apart = centre - load(X, i, j)
            spread = fma(apart, apart, spread)
        error = centre - load(optimum, j)
        far = fma(error, error, far)
    store(spread / float(n), consensus, k)
    store(far, distance, k)
