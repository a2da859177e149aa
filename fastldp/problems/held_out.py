"""Samples held out of a linear problem, to measure accuracy on: no run depends on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fastldp.errors import ArgumentError, DataError
from fastldp.losses import SIGNS, Loss
from fastldp.problems.composite import Vector
from fastldp.problems.rows import called, checked_labels, checked_matrix, times


class HeldOut(NamedTuple):
    """Test data as they are kept: each row times −b, as those of the problem, and the share of the larger class."""

    rows: Any
    majority: float

    def accuracy(self, x: Vector) -> float:
        """The share of samples whose label is the sign of aᵀx; where that is exactly zero, it is wrong."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a model that diverged
            return int(np.count_nonzero(self.rows @ x < 0)) / int(self.rows.shape[0])


def held_out(test: Any, loss: Loss, d: int, dtype: str) -> HeldOut:
    """(A, b), checked against the problem they are to test."""
    if loss.labels != SIGNS:
        remedy = f"the {loss.name} loss fits numbers, which have no accuracy; leave it out"
        raise ArgumentError("test", "(A, b)", f"{remedy}, or take a loss of labels ±1, as the logistic")
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise ArgumentError("test", test, "give (A, b): other samples and their labels")
    if getattr(test[0], "shape", None) == (0, d):
        raise DataError("test", test[0].shape, "it has no rows to be right about; leave it out, or give some")
    with called("test"):
        rows, labels = checked_matrix(test[0], dtype), checked_labels(test[1], loss)
    if labels.size != rows.shape[0]:
        raise DataError("test", f"{labels.size} labels", f"its A has {rows.shape[0]} rows; give one label a row")
    if rows.shape[1] != d:
        raise DataError("test", rows.shape, f"A has {d} columns; give test data of the same features")
    positive = np.count_nonzero(labels > 0) / labels.size
    return HeldOut(times(rows, -labels), max(positive, 1 - positive))
