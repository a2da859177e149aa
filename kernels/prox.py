"""The prox of each regularizer, in lanes: on one coordinate where g separates, on a whole row where it does not."""

from typing import Any

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import (
    any_lane,
    broadcast,
    copysign,
    fabs,
    fma,
    load,
    maximum,
    minimum,
    select,
    sqrt,
    store,
)

# The codes kernels know regularizers by.
BOX_L1 = 0
L2_BALL = 1
SIMPLEX = 2
L1_BALL = 3


@formula
def box_l1(z: Any, threshold: Any, bound: Any) -> Any:
    """The paper's prox: min{max{|z| − γω/n, 0}, α} sign(z)."""
    # In this order of arguments a NaN comes through both, so that a diverged run is seen.
    return copysign(minimum(bound, maximum(0.0, fabs(z) - threshold)), z)


@formula
def project_row(code: int, X: Any, i: int, radius: Any) -> None:
    """Project X[i, :, lane] of every lane onto its set, in place."""
    if code == L2_BALL:
        _onto_l2_ball(X, i, radius)
    elif code == SIMPLEX:
        _onto_simplex(X, i, radius)
    elif code == L1_BALL:
        _onto_l1_ball(X, i, radius)


@formula
def _onto_l2_ball(X: Any, i: int, radius: Any) -> None:
    # Of entries over the largest one, so that no square overflows; over the radius where all are smaller.
    scale = maximum(radius, _largest_magnitude(X, i))
    squares = broadcast(0.0, radius)
    for j in range(X.shape[1]):
        scaled = load(X, i, j) / scale
        squares = fma(scaled, scaled, squares)
    norm = scale * sqrt(squares)
    shrink = select(norm <= radius, 1.0, radius / norm)
    for j in range(X.shape[1]):
        store(load(X, i, j) * shrink, X, i, j)


@formula
def _onto_simplex(X: Any, i: int, radius: Any) -> None:
    top = load(X, i, 0)
    for j in range(1, X.shape[1]):
        top = maximum(top, load(X, i, j))
    threshold = _simplex_threshold(X, i, top, radius, False)
    for j in range(X.shape[1]):
        store(maximum(0.0, load(X, i, j) - top - threshold), X, i, j)


@formula
def _onto_l1_ball(X: Any, i: int, radius: Any) -> None:
    top = _largest_magnitude(X, i)
    norm = broadcast(0.0, radius)
    for j in range(X.shape[1]):
        norm = norm + fabs(load(X, i, j))
    threshold = _simplex_threshold(X, i, top, radius, True)
    for j in range(X.shape[1]):
        z = load(X, i, j)
        projected = copysign(maximum(0.0, fabs(z) - top - threshold), z)
        store(select(norm <= radius, z, projected), X, i, j)


@formula
def _simplex_threshold(X: Any, i: int, top: Any, radius: Any, magnitudes: bool) -> Any:
    """The τ for which Σ max(v − top − τ, 0) = radius, v the entries or their magnitudes (Michelot 1986)."""
    zero = broadcast(0.0, radius)
    # Entries more than radius below the largest are zero: the threshold starts there and only rises.
    threshold = -radius
    rising = True
    while rising:
        total = zero
        count = zero
        for j in range(X.shape[1]):
            z = load(X, i, j)
            below_top = (fabs(z) if magnitudes else z) - top
            kept = below_top > threshold
            total = total + select(kept, below_top, zero)
            count = count + select(kept, 1.0, zero)
        higher = (total - radius) / count
        rising = any_lane(higher > threshold)
        threshold = maximum(higher, threshold)
    return threshold


@formula
def _largest_magnitude(X: Any, i: int) -> Any:
    largest = fabs(load(X, i, 0))
    for j in range(1, X.shape[1]):
        largest = maximum(largest, fabs(load(X, i, j)))
    return largest
