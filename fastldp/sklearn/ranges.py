"""Public ranges of features and targets: values are clipped to them and mapped to [−1, 1]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.errors import ArgumentError, DataError
from fastldp.validation import reals

Array = NDArray[np.float64]


class Ranges(NamedTuple):
    """From `low` to `high`, in each column."""

    low: Array
    high: Array

    @classmethod
    def of(cls, argument: str, bounds: Any, columns: int) -> Ranges | None:
        """(low, high), each a number or one for each column; None where nothing is known."""
        if bounds is None:
            return None
        remedy = f"give public (low, high): numbers, or {columns} each, low below high"
        if not isinstance(bounds, tuple | list) or len(bounds) != 2:
            raise ArgumentError(argument, bounds, remedy)
        low, high = (reals(argument, bound, remedy) for bound in bounds)
        if any(bound.shape not in ((), (columns,)) for bound in (low, high)):
            raise ArgumentError(argument, bounds, remedy)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
            raise ArgumentError(argument, bounds, remedy)
        ranges = cls(np.broadcast_to(low, (columns,)), np.broadcast_to(high, (columns,)))
        with np.errstate(over="ignore", under="ignore"):
            half = ranges.half
        if not (np.isfinite(half).all() and (half >= np.finfo(np.float64).tiny).all()):
            raise ArgumentError(
                argument, bounds, "a width overflows or vanishes; give ranges that floats can divide by"
            )
        return ranges

    @property
    def middle(self) -> Array:
        return self.low + (self.high - self.low) / 2

    @property
    def half(self) -> Array:
        """Half of the width."""
        return (self.high - self.low) / 2

    def mapped(self, X: Any) -> Any:
        """Clipped to the ranges and mapped to [−1, 1]."""
        if not sparse.issparse(X):
            return (np.clip(X, self.low, self.high) - self.middle) / self.half
        if self.middle.any():
            raise DataError(
                "feature_bounds",
                (self.low, self.high),
                "zeros of sparse data stay zeros only in ranges symmetric about 0, as (-1.0, 1.0); give such, or "
                "X.toarray()",
            )
        rows = sparse.csr_array(X, copy=True)
        high = self.high[rows.indices]
        rows.data = np.clip(rows.data, -high, high) / high
        return rows
