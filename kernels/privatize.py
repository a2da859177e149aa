"""The one place where data leaves a worker: a query with Gaussian noise, released on a public grid."""

from typing import Any

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import fma, rint

# How a block of runs releases its queries.
EXACT = 0  # no noise: not private
GAUSSIAN = 1  # noise, but no grid: for exploration in float32
GRIDDED = 2  # noise on the public grid: private


@formula
def privatize(mode: int, query: Any, deviation: Any, normal: Any, grid: Any, inverse_grid: Any) -> Any:
    """h = s·(round(q/s) + round(σN/s)) for a power of two s.

    round(q/s) is an integer, so this is the ideal Gaussian mechanism on the rounded query, rounded again:
    post-processing. The outputs lie on a grid that does not depend on the data, down to the last bit.
    """
    if mode == GRIDDED:
        return grid * (rint(query * inverse_grid) + rint(deviation * normal * inverse_grid))
    if mode == GAUSSIAN:
        return fma(deviation, normal, query)
    return query
