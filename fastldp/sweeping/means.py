"""Means over groups of runs: at the end, and along the rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a group of runs."""

    label: dict[str, Any]
    runs: int
    mean: float
    std: float

    @classmethod
    def of(cls, label: dict[str, Any], values: Array) -> Mean:
        there = values[~np.isnan(values)]
        if there.size == 0:
            return cls(label, 0, math.nan, math.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(label, there.size, float(there.mean()), float(there.std()))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.std / math.sqrt(self.runs - 1) if self.runs > 1 else math.nan

    def cells(self) -> list[str]:
        return [f"{self.runs:,}", f"{self.mean:.4g}", f"{self.std:.3g}", f"{self.error:.2g}"]


@dataclass(frozen=True, eq=False)
class Curve:
    """An error along the rounds, of a group of runs."""

    label: dict[str, Any]
    rounds: NDArray[np.int64] = field(repr=False)
    values: Array = field(repr=False)
    """(runs, records)."""

    @property
    def mean(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # of runs that diverged
            return np.asarray(self.values.mean(axis=0))

    @property
    def std(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.values.std(axis=0))


def filled(values: NDArray[Any], length: int) -> Array:
    """The values, and NaN up to a length."""
    return np.concatenate([values, np.full(length - values.size, np.nan)])
