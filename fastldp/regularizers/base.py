"""What a regularizer is: value and prox, the prox written once for kernels and people, and the set it keeps x in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError, ExtensionError
from fastldp.extending import Extensible, said_of
from fastldp.kernels.formulas import Objective, apply_to_rows, is_ours, prox_of
from fastldp.validation import real, reals, whole_numbers

Vector = NDArray[np.float64]

# Rounding leaves a projected point this far outside its set at most; value() still calls it inside.
FEASIBLE = 1e-9
# The prox of a class from outside is tried on so many coordinates at most.
MOST_TRIED = 10_000
SCALES = (0.1, 0.5, 2.0)


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
    """A closed convex g with an easy prox, written with `fastldp.lanes`.

    A class of your own has `value(self, x)`, and the prox: of one coordinate, `shrink(self, z, scale)`, where g is a
    sum over the coordinates, or of a whole row in place, `prox_row(self, X, i, scale)`. Its parameters are the
    fields of a frozen dataclass. To take a prox in Python call `prox`; the formulas are what kernels call.

    Examples
    --------
    >>> import numpy as np, fastldp as fl
    >>> fl.BoxL1(weight=1.0, bound=2.0).prox(np.array([-5.0, 0.5, 2.0]), scale=1.0)
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

    def prox(self, z: ArrayLike, scale: Any) -> Vector:
        """argmin over u of scale·g(u) + ½‖z − u‖²."""
        z = np.array(z, dtype=np.float64)
        if self.of_coordinates:
            return np.asarray(self.shrink(z, scale) + 0.0)  # + 0.0 turns −0 into 0
        X = np.ascontiguousarray(z[None] if z.ndim == 1 else z)
        numbers, vectors, structure = self.in_kernels(X.shape[1])
        objective = Objective(0, 1.0, 0.0, numbers[:0], numbers[:0], 0, numbers, vectors, structure)
        apply_to_rows(objective._replace(prox=prox_of(type(self), objective, X).address), X, float(scale))
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
        if isinstance(getattr(self, name), list | tuple):
            raise ArgumentError(name, getattr(self, name), "give a number or a NumPy array")
        if value.shape not in ((), (d,)):
            remedy = f"give a number, or one for each of the {d} coordinates"
            raise ArgumentError(name, getattr(self, name), remedy)
        return np.broadcast_to(value, (d,))

    def check(self, d: int) -> None:
        """Refuse parameters that do not fit d coordinates, and from outside a prox that is not that of the value."""
        self.in_kernels(d)
        if is_ours(type(self)) or d > MOST_TRIED:
            return
        with said_of(type(self)):
            self._try(d)

    def _try(self, d: int) -> None:
        """Refuse a prox that leaves the set, or that some other point is better than, or whose g is not convex."""
        rng = np.random.default_rng(0)
        points = rng.standard_normal((4, d)) * np.array([[0.1], [1.0], [10.0], [1e3]])
        for scale in SCALES:
            # By the formula that kernels have, which a class may have inherited another prox beside.
            made = np.array([Regularizer.prox(self, z, scale) for z in points])
            if not np.allclose([self.prox(z, scale) for z in points], made, rtol=1e-9, atol=1e-9, equal_nan=True):
                raise ExtensionError(type(self), "its prox is not that of its formula, shrink or prox_row: write both")
            if made.shape != points.shape or not np.isfinite([self.value(p) for p in made]).all():
                raise ExtensionError(
                    type(self), f"its prox leaves its set: value(prox(z, {scale})) is not finite somewhere"
                )
            for z, p in zip(points, made, strict=True):
                sides = p + 1e-3 * (1 + np.abs(p)) * rng.choice([-1.0, 0.0, 1.0], (16, d))
                between = [p + t * (q - p) for q in (*made, z, np.zeros(d)) for t in (1e-3, 0.1, 1.0)]
                for u in (*sides, *between):
                    mine, other = (scale * self.value(v) + 0.5 * float((z - v) @ (z - v)) for v in (p, u))
                    if other < mine - 1e-7 * (1 + abs(mine)):
                        remedy = f"its prox is not that of its value: at scale {scale} {u} is better than {p} for {z}"
                        raise ExtensionError(type(self), remedy)
            # The prox of a convex g never takes two points farther apart.
            for k in range(1, len(points)):
                if np.linalg.norm(made[k] - made[0]) > (1 + 1e-9) * np.linalg.norm(points[k] - points[0]):
                    raise ExtensionError(type(self), f"its prox takes points apart at scale {scale}: g is not convex")
            middles = [self.value((p + q) / 2) - (self.value(p) + self.value(q)) / 2 for p in made for q in made]
            if max(middles) > 1e-9 * (1 + max(abs(self.value(p)) for p in made)):
                raise ExtensionError(type(self), "value is larger between two points than at these: g is not convex")

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


def everywhere(x: Vector) -> Active:
    """No surface: all coordinates move."""
    return Active(np.ones(x.size, dtype=bool), np.zeros(x.size))


def finite(argument: str, value: Any, remedy: str) -> Vector:
    checked = reals(argument, value, remedy)
    if checked.ndim > 1 or not np.isfinite(checked).all():
        raise ArgumentError(argument, value, remedy)
    return checked


def row_sums(A: Any) -> Vector:
    return np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
