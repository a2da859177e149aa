"""The regularizers g: value and prox of each, the prox written once for kernels and people, and the set of each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fastldp.errors import ArgumentError, ExtensionError
from fastldp.extending import Extensible, is_ours
from fastldp.kernels.formulas import Objective, apply_to_rows, prox_of
from fastldp.kernels.jit import own_formula
from fastldp.lanes import any_lane, broadcast, copysign, fabs, fma, load, maximum, minimum, select, sqrt, store
from fastldp.validation import real, reals, whole_numbers

Vector = NDArray[np.float64]

# Rounding leaves a projected point this far outside its set at most; value() still calls it inside.
FEASIBLE = 1e-9
# The prox of a class from outside is tried on so many coordinates at most.
MOST_TRIED = 10_000


class Active(NamedTuple):
    """Near a point g is smooth along a surface: which coordinates move, and the surface's normal and bend."""

    free: NDArray[np.bool_]
    tilt: Vector
    """The gradient of g along the surface."""
    normal: Vector | None = None
    """What a step along the surface is orthogonal to."""
    bend: float | Vector = 0.0
    """The curvature of g along the surface and of the surface times the force that holds x on it: a number, one of each
    free coordinate, or a matrix of these."""


class Regularizer(Extensible):
    """A closed convex g with an easy prox: of one coordinate, `shrink`, where g is a sum over the coordinates, or of a
    whole row in place, `prox_row`; written with `fastldp.lanes`.

    >>> import numpy as np
    >>> BoxL1(weight=1.0, bound=2.0).prox(np.array([-5.0, 0.5, 2.0]), scale=1.0)
    array([-2.,  0.,  1.])
    """

    needed: ClassVar[dict[str, str]] = {"value": "value(self, x), which is g(x), infinite outside of its set"}
    smooth: ClassVar[bool] = False
    """Whether g is zero everywhere, so that methods for smooth problems may be used."""
    of_coordinates: ClassVar[bool] = False
    """Whether g is a sum over the coordinates, so that it has `shrink`, and `prox` takes many points at once."""

    if TYPE_CHECKING:  # what a class must have

        def value(self, x: ArrayLike) -> float: ...

        # One of these two.
        def shrink(self, z: Any, scale: Any) -> Any: ...

        def prox_row(self, X: Any, i: Any, scale: Any) -> None: ...

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.of_coordinates = hasattr(cls, "shrink")

    def __new__(cls, *args: Any, **given: Any) -> Any:
        if not (hasattr(cls, "shrink") or hasattr(cls, "prox_row")):
            raise ExtensionError(
                cls,
                "it lacks shrink(self, z, scale), the prox of a coordinate, or prox_row(self, X, i, scale), of a row",
            )
        return super().__new__(cls, *args, **given)

    @property
    def indicator(self) -> bool:
        """Whether g is zero on its set, so that its prox is a projection whatever the scale."""
        return False

    @property
    def kind(self) -> tuple[Any, ...]:
        """What regularizers must have in common for their runs to share a block."""
        return type(self), *(np.asarray(getattr(self, name)).tobytes() for name in self.structure)

    def scaled(self, step: float, parts: int) -> tuple[Regularizer, float]:
        """A regularizer and a scale whose prox is that of g with the scale step/parts."""
        return self, step / parts

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        """argmin over u of scale·g(u) + ½‖z − u‖²."""
        z = np.array(z, dtype=np.float64)
        if self.of_coordinates:
            return np.asarray(self.shrink(z, scale) + 0.0)  # + 0.0 turns −0 into 0
        X = np.ascontiguousarray(z[None] if z.ndim == 1 else z)
        numbers, vectors, structure = self.in_kernels(X.shape[1])
        objective = Objective(0, 1.0, 0.0, numbers[:0], numbers[:0], 0, numbers, vectors, structure)
        apply_to_rows(objective._replace(prox=prox_of(type(self), objective, X)), X, float(scale))
        return X[0] if z.ndim == 1 else X

    def in_kernels(self, d: int) -> tuple[Vector, Vector, NDArray[np.int64]]:
        """What its formula finds in `self` on d coordinates: numbers, vectors (fields, d) and structure (fields, d)."""
        names = self.fields()
        numbers = [real(name, getattr(self, name), "give a number") for name in names.numbers]
        vectors = [self._of_coordinates(name, d) for name in names.vectors]
        remedy = f"give a whole number for each of the {d} coordinates"
        structure = [whole_numbers(name, getattr(self, name), d, remedy) for name in names.structure]
        return (
            np.array(numbers, dtype=np.float64),
            np.array(vectors, dtype=np.float64).reshape(len(vectors), d),
            np.array(structure, dtype=np.int64).reshape(len(structure), d),
        )

    def _of_coordinates(self, name: str, d: int) -> Vector:
        value = np.asarray(getattr(self, name), dtype=np.float64)
        if value.shape not in ((), (d,)):
            remedy = f"give a number, or one for each of the {d} coordinates"
            raise ArgumentError(name, getattr(self, name), remedy)
        return np.broadcast_to(value, (d,))

    def check(self, d: int) -> None:
        """Refuse parameters that do not fit d coordinates, and from outside a prox that is not that of the value."""
        self.in_kernels(d)
        if is_ours(type(self)) or d > MOST_TRIED:
            return
        points = np.random.default_rng(0).standard_normal((4, d)) * np.array([[0.1], [1.0], [10.0], [1e3]])
        made = [self.prox(z, 0.5) for z in points]
        for z, p in zip(points, made, strict=True):
            if np.shape(p) != (d,) or not np.isfinite(p).all() or not np.isfinite(self.value(p)):
                raise ExtensionError(
                    type(self), f"its prox leaves its set: value(prox(z, 0.5)) is not finite at z = {z}"
                )
            # No other point may do better in scale·g(u) + ½‖z − u‖², by more than rounding.
            for u in (*made, *(p + t * (q - p) for q in made for t in (1e-3, 0.1))):
                mine, other = (0.5 * self.value(v) + 0.5 * float((z - v) @ (z - v)) for v in (p, u))
                if other < mine - 1e-7 * (1 + abs(mine)):
                    raise ExtensionError(
                        type(self), f"its prox is not that of its value: another point does better, z = {z}"
                    )

    def active(self, x: Vector, gradient: Vector) -> Active:
        """The surface that x, an image of the prox, lies on, where the smooth part has this gradient."""
        if not self.of_coordinates:
            return Active(np.zeros(x.size, dtype=bool), np.zeros(x.size))  # no surface is known
        # What the prox does around the point that it makes x of: where it does not move, x is held, and elsewhere its
        # slope is 1/(1 + scale·g'').
        scale = 1.0
        z, width = x - scale * gradient, 1e-6 * np.maximum(1.0, np.abs(x))
        slope = (self.prox(z + width, scale) - self.prox(z - width, scale)) / (2 * width)
        free = slope > 1e-6
        return Active(free, (z - self.prox(z, scale)) / scale, bend=(1 / np.minimum(slope[free], 1.0) - 1) / scale)

    def margins(self, A: Any) -> tuple[Vector, Vector] | None:
        """The least and greatest aᵀx over the set, for each row a; None where the set is unbounded."""
        return None


@dataclass(frozen=True)
class Zero(Regularizer):
    """g = 0: the smooth problem."""

    smooth = True
    indicator = True

    def value(self, x: ArrayLike) -> float:
        return 0.0

    def shrink(self, z: Any, scale: Any) -> Any:
        return z

    def prox(self, z: ArrayLike, scale: float) -> Vector:
        return np.array(z, dtype=np.float64)

    def active(self, x: Vector, gradient: Vector) -> Active:
        return _everywhere(x)


@dataclass(frozen=True, eq=False)
class L1(Regularizer):
    """The weighted ℓ1 norm alone: Σ weight_j |x_j|."""

    vectors = ("weight",)
    weight: float | Vector

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _weight(self.weight))

    def value(self, x: ArrayLike) -> float:
        return float(np.sum(self.weight * np.abs(np.asarray(x, dtype=np.float64))))

    def shrink(self, z: Any, scale: Any) -> Any:
        # In this order of arguments a NaN comes through, so that a diverged run is seen.
        return copysign(maximum(0.0, fabs(z) - scale * self.weight), z)

    def active(self, x: Vector, gradient: Vector) -> Active:
        weight = np.broadcast_to(np.asarray(self.weight), x.shape)
        return Active((x != 0) | (weight == 0), np.asarray(weight * np.sign(x)))


@dataclass(frozen=True, eq=False)
class BoxL1(Regularizer):
    """The paper's weighted ℓ1 norm over a box: Σ weight_j |x_j| where |x_j| ≤ bound, infinite elsewhere."""

    vectors = ("weight",)
    weight: float | Vector
    bound: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", _weight(self.weight))
        object.__setattr__(self, "bound", real("bound", self.bound, "give a finite number > 0", above=0))

    def value(self, x: ArrayLike) -> float:
        magnitude = np.abs(np.asarray(x, dtype=np.float64))
        if magnitude.max(initial=0.0) > self.bound * (1 + FEASIBLE):
            return np.inf
        return float(np.sum(self.weight * magnitude))

    def shrink(self, z: Any, scale: Any) -> Any:
        """The paper's prox: min{max{|z| − γω/n, 0}, α} sign(z)."""
        # In this order of arguments a NaN comes through both, so that a diverged run is seen.
        return copysign(minimum(self.bound, maximum(0.0, fabs(z) - scale * self.weight)), z)

    @property
    def indicator(self) -> bool:
        return not np.any(self.weight)

    def scaled(self, step: float, parts: int) -> tuple[Regularizer, float]:
        return replace(self, weight=step * np.asarray(self.weight) / parts), 1.0  # rounded in this order ever since

    def active(self, x: Vector, gradient: Vector) -> Active:
        weight = np.broadcast_to(np.asarray(self.weight), x.shape)
        free = (np.abs(x) < self.bound) & ((x != 0) | (weight == 0))
        return Active(free, np.asarray(weight * np.sign(x)))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        reach = self.bound * _row_sums(abs(A))
        return -reach, reach


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Box(Regularizer):
    """The indicator of a box: lower ≤ x_j ≤ upper, numbers or one of each coordinate; `Box(b)` is |x_j| ≤ b."""

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
            low, high = (_finite(name, side, remedy) for name, side in (("lower", lower), ("upper", upper)))
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
        return -self.bound if self.bound is not None else self.lower

    @property
    def high(self) -> Any:
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
            reach = self.bound * _row_sums(abs(A))
            return -reach, reach
        low, high = (np.broadcast_to(side, (A.shape[1],)) for side in (self.low, self.high))
        up, down = (abs(A) + A) / 2, (abs(A) - A) / 2
        return np.ravel(up @ low - down @ high), np.ravel(up @ high - down @ low)


@dataclass(frozen=True, eq=False)
class GroupL2(Regularizer):
    """The group lasso: Σ weight_k ‖x_k‖₂ over groups of coordinates, each within the ball ‖x_k‖₂ ≤ bound.

    Parameters
    ----------
    groups : the number of the group of each coordinate, from 0.
    weight : a number, or one for each group.
    bound : of the norm of every group; infinite where it is not given.
    """

    numbers = ("radius",)
    vectors = ("weights",)
    structure = ("order", "ends")
    groups: NDArray[np.int64]
    weight: float | Vector
    bound: float = np.inf

    def __post_init__(self) -> None:
        remedy = "give the number of the group of each coordinate, from 0"
        groups = whole_numbers("groups", self.groups, np.size(self.groups), remedy)
        if groups.size == 0 or groups.min() < 0:
            raise ArgumentError("groups", self.groups, remedy)
        weight = _weight(self.weight)
        if np.ndim(weight) and np.size(weight) <= groups.max():
            raise ArgumentError("weight", self.weight, f"give a number, or one for each of {groups.max() + 1} groups")
        if self.bound != np.inf:
            object.__setattr__(self, "bound", real("bound", self.bound, "give a number > 0", above=0))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "weight", weight)

    @property
    def radius(self) -> float:
        """The bound, or a number that none is beyond."""
        return min(self.bound, float(np.finfo(np.float32).max))

    @cached_property
    def weights(self) -> Vector:
        """Of each coordinate's group."""
        return np.asarray(np.broadcast_to(self.weight, (self.groups.max() + 1,))[self.groups])

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The coordinates, group by group."""
        return np.argsort(self.groups, kind="stable")

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """Where in that order the group of each place ends."""
        return np.searchsorted(self.groups[self.order], self.groups[self.order], side="right")

    @property
    def _norms(self) -> Any:
        return lambda x: np.sqrt(np.bincount(self.groups, np.asarray(x) ** 2))

    def value(self, x: ArrayLike) -> float:
        norms = self._norms(x)
        if norms.max() > self.bound * (1 + FEASIBLE):
            return np.inf
        return float(np.sum(np.broadcast_to(self.weight, (self.groups.max() + 1,))[: norms.size] * norms))

    def prox_row(self, X: Any, i: Any, scale: Any) -> None:
        k = 0
        while k < X.shape[1]:
            end = self.ends[k]
            # Of entries over the largest one, so that no square overflows.
            largest = fabs(load(X, i, self.order[k]))
            for e in range(k + 1, end):
                largest = maximum(largest, fabs(load(X, i, self.order[e])))
            divisor = select(largest == 0.0, 1.0, largest)
            squares = broadcast(0.0, largest)
            for e in range(k, end):
                part = load(X, i, self.order[e]) / divisor
                squares = fma(part, part, squares)
            norm = divisor * sqrt(squares)
            kept = minimum(self.radius, maximum(0.0, norm - scale * load(self.weights, self.order[k])))
            factor = select(norm == 0.0, 0.0, kept / norm)
            for e in range(k, end):
                j = self.order[e]
                store(load(X, i, j) * factor, X, i, j)
            k = end

    def active(self, x: Vector, gradient: Vector) -> Active:
        norms = self._norms(x)[self.groups]
        free = norms > 0
        if (norms >= self.bound * (1 - FEASIBLE)).any():
            return Active(np.zeros(x.size, dtype=bool), np.zeros(x.size))  # the surface of a ball: no Newton steps
        unit = np.divide(x, norms, out=np.zeros(x.size), where=free)
        # Of weight·‖x‖: (weight/‖x‖)(I − uuᵀ) in each group, u = x/‖x‖.
        same = self.groups[free][:, None] == self.groups[free]
        pull = (self.weights[free] / norms[free])[:, None]
        bend = pull * (np.eye(int(free.sum())) - same * np.outer(unit[free], unit[free]))
        return Active(free, self.weights * unit, bend=bend)

    def margins(self, A: Any) -> tuple[Vector, Vector] | None:
        if self.bound == np.inf:
            return None
        squares = A.multiply(A) if sparse.issparse(A) else A * A
        members = sparse.csr_array((np.ones(self.groups.size), (np.arange(self.groups.size), self.groups)))
        norms = np.sqrt(squares @ members.toarray())
        reach = self.bound * _row_sums(norms)
        return -reach, reach


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
    """The indicator of the ball ‖x‖₂ ≤ radius."""

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

    def prox_row(self, X: Any, i: Any, scale: Any) -> None:
        top = load(X, i, 0)
        for j in range(1, X.shape[1]):
            top = maximum(top, load(X, i, j))
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
    """The indicator of the ball ‖x‖₁ ≤ radius."""

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
            return _everywhere(x)
        return Active(x != 0, np.zeros(x.size), normal=np.sign(x))

    def margins(self, A: Any) -> tuple[Vector, Vector]:
        _, reach = Simplex(self.radius).margins(abs(A))
        return -reach, reach


@own_formula
def _largest_magnitude(X: Any, i: Any) -> Any:
    largest = fabs(load(X, i, 0))
    for j in range(1, X.shape[1]):
        largest = maximum(largest, fabs(load(X, i, j)))
    return largest


@own_formula
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


def _weight(weight: float | Vector) -> float | Vector:
    remedy = "give a number, or one a coordinate, finite and ≥ 0"
    checked = _finite("weight", weight, remedy)
    if (checked < 0).any():
        raise ArgumentError("weight", weight, remedy)
    return float(checked) if checked.ndim == 0 else checked


def _finite(argument: str, value: Any, remedy: str) -> Vector:
    checked = reals(argument, value, remedy)
    if checked.ndim > 1 or not np.isfinite(checked).all():
        raise ArgumentError(argument, value, remedy)
    return checked


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
