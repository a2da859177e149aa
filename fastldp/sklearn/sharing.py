"""Who holds which rows: the worker of every row, as groups say or as shards that are simulated."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from fastldp.errors import ArgumentError, DataError, WorkersWarning
from fastldp.problems.composite import shards

# How many are simulated where neither groups nor workers say.
SIMULATED = 10
ROWS = "rows"


def worker_of_row(rows: int, groups: Any, workers: int | str | None) -> NDArray[np.int64]:
    """(rows,): 0 to n − 1."""
    if groups is not None:
        if workers is not None:
            raise ArgumentError("workers", workers, "groups already say who holds which row; give one of the two")
        labels = column_or_1d(groups)
        check_consistent_length(np.empty(rows), labels)
        return _numbered(labels)
    if isinstance(workers, str):
        if workers != ROWS:
            raise ArgumentError("workers", workers, f'give a number of shards, or "{ROWS}": each row a worker\'s own')
        return np.arange(rows, dtype=np.int64)
    if workers is None:
        workers = min(SIMULATED, rows)
        warnings.warn(
            f"no groups say who holds which row, so {workers} workers with contiguous shards are simulated: each row "
            "is protected from the server and the other workers, and not from the worker that holds it. Give "
            f'fit(X, y, groups=worker_of_row), or workers=: a number of shards, or "{ROWS}", where each row is a '
            "worker's own, protected from everyone else, and needs far more noise",
            WorkersWarning,
            stacklevel=4,
        )
    starts = shards(rows, workers)[1]
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))


def _numbered(groups: NDArray[Any]) -> NDArray[np.int64]:
    """Workers by number, in the order of their names."""
    try:
        # What is missing is not itself, or, as None and pandas' NA are, in no order with names.
        if bool((groups != groups).any()):
            raise TypeError
        found = np.unique(groups, return_inverse=True)[1]
    except TypeError:
        raise DataError(
            "groups", groups, "every row needs its worker: names alone or numbers alone, and none missing"
        ) from None
    return np.asarray(found, dtype=np.int64).reshape(groups.shape[0])
