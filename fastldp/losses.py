"""The losses φ(z, b): each a class whose formulas are written once, for kernels and for people.

A loss of labels ±1 is of z = −b·aᵀx, how wrong a model is about a sample; the labels are then folded into the rows. Any
other is of the margin z = aᵀx and the label b.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError, DataError, ExtensionError
from fastldp.extending import Extensible, said_of
from fastldp.kernels.formulas import is_ours
from fastldp.kernels.vmath import LOG2_E, sigmoid2, sigmoid2_within
from fastldp.lanes import fabs, maximum, minimum, select, sigmoid
from fastldp.validation import known_name, real

Vector = NDArray[np.float64]

# What labels can be.
SIGNS, NUMBERS = "signs", "numbers"
# Margins at which a loss is tried before it is used, and how far its slope may be off the differences of its value.
TRIED = np.array([-30.0, -3.0, -1.1, -0.4, 0.0, 0.3, 0.9, 2.2, 30.0])
APART = 1e-4


class Loss(Extensible):
    """A convex φ(z, b) of a margin z and a label b; `value` and `slope` are written with `fastldp.lanes`.

    A class of your own has `value(self, z, b)`, `slope(self, z, b)`, its derivative in z, and `curvature`; its
    parameters are the fields of a frozen dataclass.

    Examples
    --------
    >>> import numpy as np
    >>> Huber(delta=1.0).slope(np.array([-3.0, 0.5]), 0.0)
    array([-1. ,  0.5])
    """

    needed: ClassVar[dict[str, str]] = {
        "value": "value(self, z, b), the loss",
        "slope": "slope(self, z, b), its derivative in z",
        "curvature": "curvature, a bound on its second derivative in z",
    }
    labels: ClassVar[str] = NUMBERS
    """``"signs"`` for −1 and +1, where z is −b·aᵀx and b goes unused, or ``"numbers"``."""
    least_curvature: ClassVar[float] = 0.0
    """What the second derivative never falls below."""

    @property
    def slope_bound(self) -> float | None:
        """A bound on |slope|; where there is none, gradients must be bounded in another way."""
        return None

    # What kernels may do faster: with margins times `unit`, `slope_in_unit` is the slope; up to `reach`, by precision,
    # `short_slope` is, from 0 to 1. Such a slope keeps to its bound by itself, whatever the point.
    unit: ClassVar[float] = 1.0
    reach: ClassVar[dict[str, float]] = {"float64": 0.0, "float32": 0.0}
    keeps_to_bound: ClassVar[bool] = False

    if TYPE_CHECKING:  # what a class must have

        @property
        def curvature(self) -> float: ...

        def value(self, z: Any, b: Any) -> Any: ...

        def slope(self, z: Any, b: Any) -> Any: ...

    def bend(self, z: Vector, b: Vector) -> Vector:
        """The second derivative in z; from differences of slopes where a class has no formula."""
        width = 1e-6 * np.maximum(1.0, np.abs(z))
        return np.asarray((self.slope(z + width, b) - self.slope(z - width, b)) / (2 * width))

    @property
    def name(self) -> str:
        """What it is called."""
        return repr(self) if is_dataclass(self) else f"{type(self).__name__}()"

    def in_kernels(self) -> Vector:
        """The numbers that its formulas find in `self`."""
        numbers = [real(name, getattr(self, name), "give a finite number") for name in self.fields().numbers]
        return np.array(numbers, dtype=np.float64)

    def check_labels(self, labels: Vector) -> None:
        """Refuse labels that it does not take, or at which it is no loss."""
        known_name("labels", self.labels, (SIGNS, NUMBERS))
        if self.labels == SIGNS and not (np.abs(labels) == 1).all():
            found = np.unique(labels)
            hint = ""
            if set(found.tolist()) <= {0.0, 1.0}:
                hint = "; give 2 * b - 1"
            elif found.size == 2:
                hint = f"; give np.where(b == {found[1]:g}, 1.0, -1.0)"
            raise DataError("b", found[:5], f"the {self.name} loss needs labels −1 and +1{hint}")

    def check(self, targets: Vector) -> None:
        """Refuse formulas from outside that contradict each other at these labels, or what the class says of them."""
        if is_ours(type(self)):
            return
        with said_of(type(self)):
            self._check(np.unique(targets)[[0, -1]])

    def _check(self, some: Vector) -> None:
        z, b = (part.ravel() for part in np.meshgrid(TRIED, some))
        width = 1e-5 * np.maximum(1.0, np.abs(z - b))
        with np.errstate(all="ignore"):
            slopes = self._tried("slope", z, b)
            apart = (self._tried("value", z + width, b) - self._tried("value", z - width, b)) / (2 * width)
            off = np.abs(slopes - apart) > APART * (1 + np.abs(slopes))
        if off.any():
            at = f"z = {z[off][0]:g}, b = {b[off][0]:g}"
            remedy = f"slope is {slopes[off][0]:g} and value's differences are {apart[off][0]:g} at {at}"
            raise ExtensionError(type(self), remedy)
        if self.slope_bound is not None and np.abs(slopes).max() > self.slope_bound * (1 + APART):
            raise ExtensionError(
                type(self), f"slope_bound = {self.slope_bound:g}, but slope has {np.abs(slopes).max():g}"
            )
        bends = np.diff(slopes.reshape(some.size, -1)) / np.diff(TRIED)
        if bends.min() < -APART:
            raise ExtensionError(type(self), f"it is not convex: slope falls by {-bends.min():g} a unit of z")
        if bends.max() > self.curvature * (1 + APART) or bends.min() < self.least_curvature - APART:
            raise ExtensionError(
                type(self),
                f"slope rises by {bends.min():g} to {bends.max():g} a unit of z, and the class says by "
                f"least_curvature = {self.least_curvature:g} to curvature = {self.curvature:g}",
            )

    def _tried(self, formula: str, z: Vector, b: Vector) -> Vector:
        found = np.asarray(getattr(self, formula)(z, b), dtype=np.float64)
        if found.shape != z.shape or not np.isfinite(found).all():
            where = "" if found.shape != z.shape else f" at b = {b[~np.isfinite(found)][0]:g}"
            raise ExtensionError(type(self), f"{formula} gives {'another shape' if not where else 'no number'}{where}")
        return found


@dataclass(frozen=True)
class Logistic(Loss):
    """φ = ln(1 + exp(−b·aᵀx)), for labels ±1."""

    labels = SIGNS
    name = "logistic"
    curvature = 0.25
    slope_bound = 1.0
    # Margins in base two save a product for every sample.
    unit = LOG2_E
    reach: ClassVar[dict[str, float]] = {"float64": 700.0, "float32": 85.0}
    keeps_to_bound = True

    def value(self, z: Any, b: Any) -> Any:
        return np.logaddexp(0.0, z)

    def slope(self, z: Any, b: Any) -> Any:
        return sigmoid(z)

    def bend(self, z: Vector, b: Vector) -> Vector:
        p = sigmoid(z)
        return np.asarray(p * (1 - p))

    def slope_in_unit(self, z: Any, b: Any) -> Any:
        """The slope of a margin in base two."""
        return sigmoid2(z)

    def short_slope(self, z: Any, b: Any) -> Any:
        """The same within reach."""
        return sigmoid2_within(z)


@dataclass(frozen=True)
class Squared(Loss):
    """φ = ½(aᵀx − b)²."""

    name = "squared"
    curvature = least_curvature = 1.0

    def value(self, z: Any, b: Any) -> Any:
        return 0.5 * (z - b) ** 2

    def slope(self, z: Any, b: Any) -> Any:
        return z - b

    def bend(self, z: Vector, b: Vector) -> Vector:
        return np.ones(np.shape(z))


@dataclass(frozen=True)
class Huber(Loss):
    """φ = ½r² where |r| ≤ δ and δ(|r| − δ/2) beyond, r = aᵀx − b: squared, but no sample weighs more than δ.

    Parameters
    ----------
    delta : float
        δ, from which on the loss grows linearly, and the bound on its slope.
    """

    delta: float = 1.0
    curvature = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", real("delta", self.delta, "give a finite number > 0", above=0))

    @property
    def slope_bound(self) -> float:
        return self.delta

    def value(self, z: Any, b: Any) -> Any:
        r = fabs(z - b)
        return select(r <= self.delta, 0.5 * r * r, self.delta * (r - 0.5 * self.delta))

    def slope(self, z: Any, b: Any) -> Any:
        return minimum(self.delta, maximum(-self.delta, z - b))

    def bend(self, z: Vector, b: Vector) -> Vector:
        return np.asarray(np.abs(z - b) <= self.delta, dtype=np.float64)


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge max(0, 1 − b·aᵀx), its corner rounded over a `width`; for labels ±1.

    Parameters
    ----------
    width : float
        How much of the margin the corner is rounded over.
    """

    width: float = 1.0
    labels = SIGNS
    slope_bound = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", real("width", self.width, "give a finite number > 0", above=0))

    @property
    def curvature(self) -> float:
        """What the second derivative never exceeds."""
        return 1 / self.width

    def value(self, z: Any, b: Any) -> Any:
        short = maximum(0.0, 1.0 + z)
        return select(short <= self.width, 0.5 * short * short / self.width, short - 0.5 * self.width)

    def slope(self, z: Any, b: Any) -> Any:
        return minimum(1.0, maximum(0.0, (1.0 + z) / self.width))

    def bend(self, z: Vector, b: Vector) -> Vector:
        return np.asarray((z >= -1) & (1 + z <= self.width)) / self.width


NAMES: dict[str, type[Loss]] = {"logistic": Logistic, "squared": Squared}


def as_loss(loss: Loss | str) -> Loss:
    """A loss, or the one that a word stands for."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise ArgumentError("loss", loss, f"give an instance, as {loss.__name__}()")
    others = "; other losses are given as instances, as Huber(0.5)"
    made: Loss = NAMES[known_name("loss", loss, tuple(NAMES), others)]()
    return made
