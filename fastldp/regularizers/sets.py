"""Regularizers that are indicators of bounded sets: a box, balls, the simplex."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fastldp.errors import ArgumentError
from fastldp.kernels.jit import own_function
from fastldp.lanes import any_lane, broadcast, copysign, fabs, fma, load, maximum, minimum, select, sqrt, store
from fastldp.regularizers.base import FEASIBLE, Active, Regularizer, Vector, everywhere, finite, row_sums
from fastldp.validation import real


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Box(Regularizer):
    """The indicator of a box: lower ≤ x_j ≤ upper, numbers or one of each coordinate; `Box(b)` is |x_j| ≤ b.

    Parameters
    ----------
    lower : float or array of shape (d,), optional
        The lower sides; alone, the half-width b.
    upper : float or array of shape (d,), optional
        The upper sides.
    bound : float, optional
        The half-width, in place of both.
    """

    numbers = ()
    vectors = ("low", "high")
    indicator = True
    bound: float | None = None
    lower: float | Vector | None = None
    upper: float | Vector | None = None

    def __init__(
        self, lower: float | Vector | None = None, upper: float | Vector | None = None, *, bound: float | None = None
    ) -> None:
        if upper is None and bound is None:
            lower, bound = None, lower
        if bound is not None:
            if lower is not None or upper is not None:
                raise ArgumentError("bound", bound, "it is for both sides; leave it out, or lower and upper")
            bound = real("bound", bound, "give a finite number > 0", above=0)
        else:
            remedy = "give a finite number, or one a coordinate"
            low, high = (finite(name, side, remedy) for name, side in (("lower", lower), ("upper", upper)))
            if low.ndim and high.ndim and low.shape != high.shape:
                raise ArgumentError("upper", upper, f"lower has {low.size} numbers; give as many")
            if not np.all(low <= high):
                raise ArgumentError("lower", lower, f"it is above upper = {upper} somewhere: the box is empty")
            lower, upper = (float(side) if side.ndim == 0 else side for side in (low, high))
        for name, value in (("bound", bound), ("lower", lower), ("upper", upper)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Box(bound={self.bound})" if self.bound is not None else f"Box(lower={self.lower}, upper={self.upper})"

    @property
    def low(self) -> Any:
        """The lower sides."""
        return -self.bound if self.bound is not None else self.lower

    @property
    def high(self) -> Any:
        """The upper sides."""
        return self.bound if self.bound is not None else self.upper

    def value(self, x: ArrayLike) -> float:
        x = np.asarray(x, dtype=np.float64)
        slack = FEASIBLE * np.maximum(np.abs(self.low), np.abs(self.high))
        return 0.0 if np.all((x >= self.low - slack) & (x <= self.high + slack)) else np.inf

    def shrink(self, z: Any, scale: Any) -> Any:
        return minimum(self.high, maximum(self.low, z))

    def active(self, x: Vector, gradient: Vector) -> Active:
        return Active((x > self.low) & (x < self.high), np.zeros(x.size))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        if self.bound is not None:
            reach = self.bound * row_sums(abs(A))
            return -reach, reach
        low, high = (np.broadcast_to(side, (A.shape[1],)) for side in (self.low, self.high))
        up, down = (abs(A) + A) / 2, (abs(A) - A) / 2
        return np.ravel(up @ low - down @ high), np.ravel(up @ high - down @ low)


@dataclass(frozen=True)
class _Set(Regularizer):
    """The indicator of a bounded set whose size is its radius; a subclass says which."""

    indicator = True
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", real("radius", self.radius, "give a finite number > 0", above=0))

    @abstractmethod
    def _excess(self, x: Vector) -> float:
        """How far x is outside, relative to the radius."""

    def value(self, x: ArrayLike) -> float:
        return 0.0 if self._excess(np.asarray(x, dtype=np.float64)) <= FEASIBLE else np.inf


@dataclass(frozen=True)
class L2Ball(_Set):
    """The indicator of the ball ‖x‖₂ ≤ radius.

    Parameters
    ----------
    radius : float
        Of the ball.
    """

    def _excess(self, x: Vector) -> float:
        return float(np.linalg.norm(x)) / self.radius - 1

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        z = np.array(z, dtype=np.float64)
        largest = np.abs(z).max(initial=0.0)
        # The norm is taken of z over its largest entry, so that huge entries do not overflow.
        norm = largest * np.linalg.norm(z / largest) if largest > 0 else 0.0
        return z if norm <= self.radius else z / largest * (self.radius / np.linalg.norm(z / largest))

    def prox_row(self, X: Any, i: Any, scale: Any) -> None:
        # Of entries over the largest one, so that no square overflows; over the radius where all are smaller.
        divisor = maximum(self.radius, _largest_magnitude(X, i))
        squares = broadcast(0.0, divisor)
        for j in range(X.shape[1]):
            part = load(X, i, j) / divisor
            squares = fma(part, part, squares)
        norm = divisor * sqrt(squares)
        shrink = select(norm <= self.radius, 1.0, self.radius / norm)
        for j in range(X.shape[1]):
            store(load(X, i, j) * shrink, X, i, j)

    def active(self, x: Vector, gradient: Vector) -> Active:
        if self._excess(x) < -FEASIBLE:
            return everywhere(x)
        return everywhere(x)._replace(normal=x, bend=max(0.0, -float(x @ gradient) / self.radius**2))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        reach = self.radius * np.sqrt(row_sums(A.multiply(A) if sparse.issparse(A) else A * A))
        return -reach, reach


@dataclass(frozen=True)
class Simplex(_Set):
    """The indicator of the simplex x ≥ 0, Σ x_j = radius.

    Parameters
    ----------
    radius : float
        What the coordinates add up to.
    """

    def _excess(self, x: Vector) -> float:
        return max(-float(x.min(initial=np.inf)), abs(float(x.sum()) - self.radius)) / self.radius

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        return _onto_simplex(np.asarray(z, dtype=np.float64), self.radius)

    def prox_row(self, X: Any, i: Any, scale: Any) -> None:
        top = _largest(X, i)
        threshold = _simplex_threshold(X, i, top, self.radius, False)
        for j in range(X.shape[1]):
            store(maximum(0.0, load(X, i, j) - top - threshold), X, i, j)

    def active(self, x: Vector, gradient: Vector) -> Active:
        return Active(x > 0, np.zeros(x.size), normal=np.ones(x.size))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        # A linear function is extreme at a vertex: radius times a coordinate vector.
        low, high = A.min(axis=1), A.max(axis=1)
        if sparse.issparse(A):
            low, high = low.toarray(), high.toarray()
        return self.radius * np.ravel(low), self.radius * np.ravel(high)


@dataclass(frozen=True)
class L1Ball(_Set):
    """The indicator of the ball ‖x‖₁ ≤ radius.

    Parameters
    ----------
    radius : float
        Of the ball.
    """

    def _excess(self, x: Vector) -> float:
        return float(np.abs(x).sum()) / self.radius - 1

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        z = np.array(z, dtype=np.float64)
        magnitude = np.abs(z)
        if magnitude.sum() <= self.radius:
            return z
        return np.asarray(np.copysign(_onto_simplex(magnitude, self.radius), z) + 0.0)

    def prox_row(self, X: Any, i: Any, scale: Any) -> None:
        top = _largest_magnitude(X, i)
        norm = broadcast(0.0, top)
        for j in range(X.shape[1]):
            norm = norm + fabs(load(X, i, j))
        threshold = _simplex_threshold(X, i, top, self.radius, True)
        for j in range(X.shape[1]):
            z = load(X, i, j)
            projected = copysign(maximum(0.0, fabs(z) - top - threshold), z)
            store(select(norm <= self.radius, z, projected), X, i, j)

    def active(self, x: Vector, gradient: Vector) -> Active:
        if self._excess(x) < -FEASIBLE:
            return everywhere(x)
        return Active(x != 0, np.zeros(x.size), normal=np.sign(x))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        _, reach = Simplex(self.radius).margins(abs(A))
        return -reach, reach


@own_function
def _largest(X: Any, i: Any) -> Any:
    largest = load(X, i, 0)
    for j in range(1, X.shape[1]):
        largest = maximum(largest, load(X, i, j))
    return largest


@own_function
def _largest_magnitude(X: Any, i: Any) -> Any:
    largest = fabs(load(X, i, 0))
    for j in range(1, X.shape[1]):
        largest = maximum(largest, fabs(load(X, i, j)))
    return largest


@own_function
def _simplex_threshold(X: Any, i: Any, top: Any, radius: Any, magnitudes: Any) -> Any:
    """The τ for which Σ max(v − top − τ, 0) = radius, v the entries or their magnitudes (Michelot 1986)."""
    zero = broadcast(0.0, top)
    # Entries more than radius below the largest are zero: the threshold starts there and only rises.
    threshold = zero - radius
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


def _onto_simplex(z: Vector, radius: float) -> Vector:
    """The projection: max(z − τ, 0) with the τ that makes it sum to radius, found by sorting."""
    # Entries more than radius below the largest are zero; shifting first keeps huge inputs exact.
    shifted = z - z.max()
    descending = np.sort(shifted)[::-1]
    thresholds = (np.cumsum(descending) - radius) / np.arange(1, z.size + 1)
    tau = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    return np.asarray(np.maximum(shifted - tau, 0.0))
