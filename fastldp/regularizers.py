"""The regularizers g: value and prox of each, what a kernel needs of them, and the set they keep x in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fastldp.errors import ArgumentError
from fastldp.kernels import prox as kernel
from fastldp.validation import real, reals

Vector = NDArray[np.float64]

# Rounding leaves a projected point this far outside its set at most; value() still calls it inside.
FEASIBLE = 1e-9


class KernelForm(NamedTuple):
    """A regularizer as kernels know it: a code, d weights, and the size of its set."""

    code: int
    weight: Vector
    size: float


class Active(NamedTuple):
    """Near a point g is smooth along a surface: which coordinates move, and the surface's normal and bend."""

    free: NDArray[np.bool_]
    tilt: Vector
    """The gradient of g along the surface."""
    normal: Vector | None = None
    """What a step along the surface is orthogonal to."""
    bend: float = 0.0
    """The curvature the surface adds, times the force that holds x on it."""


class Regularizer(ABC):
    """A closed convex g with an easy prox.

    >>> import numpy as np
    >>> BoxL1(weight=1.0, bound=2.0).prox(np.array([-5.0, 0.5, 2.0]), scale=1.0)
    array([-2.,  0.,  1.])
    """

    smooth = False
    """Whether g is zero everywhere, so that methods for smooth problems may be used."""
    separable = False
    """Whether g is a sum over the coordinates, so that `prox` takes many points at once, one a row."""

    @abstractmethod
    def value(self, x: ArrayLike) -> float:
        """g(x); infinite outside the set."""

    @abstractmethod
    def prox(self, z: ArrayLike, scale: float) -> Vector:
        """argmin over u of scale·g(u) + ½‖z − u‖²."""

    @abstractmethod
    def kernel_form(self, d: int) -> KernelForm:
        """The same g for the kernels, on d coordinates."""

    @abstractmethod
    def active(self, x: Vector, gradient: Vector) -> Active:
        """The surface that x, an image of the prox, lies on, where the smooth part has this gradient."""

    def margins(self, A: Any) -> tuple[Vector, Vector] | None:
        """The least and greatest aᵀx over the set, for each row a; None where the set is unbounded."""
        return None


@dataclass(frozen=True)
class Zero(Regularizer):
    """g = 0: the smooth problem."""

    smooth = True
    separable = True

    def value(self, x: ArrayLike) -> float:
        return 0.0

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        return np.array(z, dtype=np.float64)

    def kernel_form(self, d: int) -> KernelForm:
        return KernelForm(kernel.BOX_L1, np.zeros(d), np.inf)

    def active(self, x: Vector, gradient: Vector) -> Active:
        return _everywhere(x)


@dataclass(frozen=True, eq=False)
class BoxL1(Regularizer):
    """The paper's weighted ℓ1 norm over a box: Σ weight_j |x_j| where |x_j| ≤ bound, infinite elsewhere."""

    separable = True
    weight: float | Vector
    bound: float

    def __post_init__(self) -> None:
        remedy = "give a number, or one a coordinate, finite and ≥ 0"
        weight = reals("weight", self.weight, remedy)
        if weight.ndim > 1 or not np.isfinite(weight).all() or (weight < 0).any():
            raise ArgumentError("weight", self.weight, remedy)
        object.__setattr__(self, "weight", float(weight) if weight.ndim == 0 else weight)
        object.__setattr__(self, "bound", real("bound", self.bound, "give a finite number > 0", above=0))

    def value(self, x: ArrayLike) -> float:
        magnitude = np.abs(np.asarray(x, dtype=np.float64))
        if magnitude.max(initial=0.0) > self.bound * (1 + FEASIBLE):
            return np.inf
        return float(np.sum(self.weight * magnitude))

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        z = np.asarray(z, dtype=np.float64)
        shrunk = np.clip(np.abs(z) - scale * np.asarray(self.weight), 0.0, self.bound)
        return np.asarray(np.copysign(shrunk, z) + 0.0)  # + 0.0 turns −0 into 0

    def kernel_form(self, d: int) -> KernelForm:
        weight = np.broadcast_to(np.asarray(self.weight), (d,)) if np.ndim(self.weight) == 0 else self.weight
        if np.shape(weight) != (d,):
            raise ArgumentError("weight", self.weight, f"give a number, or one for each of the {d} coordinates")
        return KernelForm(kernel.BOX_L1, np.array(weight, dtype=np.float64), self.bound)

    def active(self, x: Vector, gradient: Vector) -> Active:
        weight = np.broadcast_to(np.asarray(self.weight), x.shape)
        free = (np.abs(x) < self.bound) & ((x != 0) | (weight == 0))
        return Active(free, np.asarray(weight * np.sign(x)))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        reach = self.bound * _row_sums(abs(A))
        return -reach, reach


@dataclass(frozen=True)
class Box(Regularizer):
    """The indicator of the box |x_j| ≤ bound."""

    separable = True
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", real("bound", self.bound, "give a finite number > 0", above=0))

    @property
    def _as_box_l1(self) -> BoxL1:
        return BoxL1(0.0, self.bound)

    def value(self, x: ArrayLike) -> float:
        return self._as_box_l1.value(x)

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        return self._as_box_l1.prox(z, scale)

    def kernel_form(self, d: int) -> KernelForm:
        return self._as_box_l1.kernel_form(d)

    def active(self, x: Vector, gradient: Vector) -> Active:
        return self._as_box_l1.active(x, gradient)

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        return self._as_box_l1.margins(A)


@dataclass(frozen=True)
class _Set(Regularizer):
    """The indicator of a bounded set whose size is its radius; a subclass says which."""

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
    """The indicator of the ball ‖x‖₂ ≤ radius."""

    def _excess(self, x: Vector) -> float:
        return float(np.linalg.norm(x)) / self.radius - 1

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        z = np.array(z, dtype=np.float64)
        largest = np.abs(z).max(initial=0.0)
        # The norm is taken of z over its largest entry, so that huge entries do not overflow.
        norm = largest * np.linalg.norm(z / largest) if largest > 0 else 0.0
        return z if norm <= self.radius else z / largest * (self.radius / np.linalg.norm(z / largest))

    def kernel_form(self, d: int) -> KernelForm:
        return KernelForm(kernel.L2_BALL, np.zeros(d), self.radius)

    def active(self, x: Vector, gradient: Vector) -> Active:
        if self._excess(x) < -FEASIBLE:
            return _everywhere(x)
        return _everywhere(x)._replace(normal=x, bend=max(0.0, -float(x @ gradient) / self.radius**2))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        reach = self.radius * np.sqrt(_row_sums(A.multiply(A) if sparse.issparse(A) else A * A))
        return -reach, reach


@dataclass(frozen=True)
class Simplex(_Set):
    """The indicator of the simplex x ≥ 0, Σ x_j = radius."""

    def _excess(self, x: Vector) -> float:
        return max(-float(x.min(initial=np.inf)), abs(float(x.sum()) - self.radius)) / self.radius

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        return _onto_simplex(np.asarray(z, dtype=np.float64), self.radius)

    def kernel_form(self, d: int) -> KernelForm:
        return KernelForm(kernel.SIMPLEX, np.zeros(d), self.radius)

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
    """The indicator of the ball ‖x‖₁ ≤ radius."""

    def _excess(self, x: Vector) -> float:
        return float(np.abs(x).sum()) / self.radius - 1

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        z = np.array(z, dtype=np.float64)
        magnitude = np.abs(z)
        if magnitude.sum() <= self.radius:
            return z
        return np.asarray(np.copysign(_onto_simplex(magnitude, self.radius), z) + 0.0)

    def kernel_form(self, d: int) -> KernelForm:
        return KernelForm(kernel.L1_BALL, np.zeros(d), self.radius)

    def active(self, x: Vector, gradient: Vector) -> Active:
        if self._excess(x) < -FEASIBLE:
            return _everywhere(x)
        return Active(x != 0, np.zeros(x.size), normal=np.sign(x))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        _, reach = Simplex(self.radius).margins(abs(A))
        return -reach, reach


def _everywhere(x: Vector) -> Active:
    """No surface: all coordinates move."""
    return Active(np.ones(x.size, dtype=bool), np.zeros(x.size))


def _onto_simplex(z: Vector, radius: float) -> Vector:
    """The projection: max(z − τ, 0) with the τ that makes it sum to radius, found by sorting."""
    # Entries more than radius below the largest are zero; shifting first keeps huge inputs exact.
    shifted = z - z.max()
    descending = np.sort(shifted)[::-1]
    thresholds = (np.cumsum(descending) - radius) / np.arange(1, z.size + 1)
    tau = thresholds[np.flatnonzero(descending > thresholds)[-1]]
    return np.asarray(np.maximum(shifted - tau, 0.0))


def _row_sums(A: Any) -> Vector:
    return np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
