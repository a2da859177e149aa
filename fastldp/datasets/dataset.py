"""What a data set is: rows with labels, or images with classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.errors import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, in CSR but for files that are dense, labels −1 and +1 (of files read as they are, their own), a name."""

    A: Any
    b: NDArray[np.float64]
    name: str

    def __repr__(self) -> str:
        # Of files it is whatever these have.
        shape = " × ".join(f"{size:,}" for size in np.shape(self.A))
        return f"Dataset({self.name}, {shape} {'sparse' if sparse.issparse(self.A) else 'dense'})"


@dataclass(frozen=True, eq=False)
class Images:
    """Images of bytes, a row each, their classes, and a name that says where they are from."""

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    name: str

    def __repr__(self) -> str:
        return f"Images({self.name}, {' × '.join(f'{size:,}' for size in np.shape(self.images))})"


def two_classes(labels: NDArray[np.float64], *, others: bool = False) -> NDArray[np.float64]:
    """Labels of two kinds as −1 and +1: the larger is +1. With `others` those of more kinds stay as they are.

    >>> two_classes(np.array([1.0, 2.0, 1.0])).tolist()
    [-1.0, 1.0, -1.0]
    """
    kinds = np.unique(labels)
    if set(kinds.tolist()) <= {-1.0, 1.0} or (others and kinds.size != 2):
        return labels
    if kinds.size != 2:
        remedy = "give data with two kinds of labels (a .csv file has them in its last column, or in label=)"
        raise DataError("labels", kinds[:6], f"there are {kinds.size} kinds of labels; {remedy}")
    return np.where(labels == kinds[1], 1.0, -1.0)
