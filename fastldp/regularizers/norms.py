"""Regularizers that are norms, some over a bounded set; and none at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fastldp.errors import ArgumentError
from fastldp.lanes import broadcast, copysign, fabs, fma, load, maximum, minimum, select, sqrt, store
from fastldp.regularizers.base import FEASIBLE, Active, Regularizer, Vector, everywhere, finite, row_sums
from fastldp.validation import real, whole_numbers


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
        return everywhere(x)


@dataclass(frozen=True, eq=False)
class L1(Regularizer):
    """The weighted ℓ1 norm alone: Σ weight_j |x_j|.

    Parameters
    ----------
    weight : float or array of shape (d,)
        Of the norm, one for all or one a coordinate.
    """

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
    """The paper's weighted ℓ1 norm over a box: Σ weight_j |x_j| where |x_j| ≤ bound, infinite elsewhere.

    Parameters
    ----------
    weight : float or array of shape (d,)
        Of the norm, one for all or one a coordinate.
    bound : float
        α, the half-width of the box.
    """

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
        reach = self.bound * row_sums(abs(A))
        return -reach, reach


@dataclass(frozen=True, eq=False)
class GroupL2(Regularizer):
    """The group lasso: Σ weight_k ‖x_k‖₂ over groups of coordinates, each within the ball ‖x_k‖₂ ≤ bound.

    Parameters
    ----------
    groups : array of int of shape (d,)
        The number of the group of each coordinate, from 0.
    weight : float or array of shape (groups,)
        A number, or one for each group.
    bound : float
        Of the norm of every group; infinite where it is not given.
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
        reach = self.bound * row_sums(norms)
        return -reach, reach


def _weight(weight: float | Vector) -> float | Vector:
    remedy = "give a number, or one a coordinate, finite and ≥ 0"
    checked = finite("weight", weight, remedy)
    if (checked < 0).any():
        raise ArgumentError("weight", weight, remedy)
    return float(checked) if checked.ndim == 0 else checked
