"""Data sets: generated stand-ins for the paper's, seeded, so that everything runs without a download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.validation import integer, known_name

# The sizes of the census set's 14 categorical features, each one-hot: 122 columns, 14 ones a row.
CENSUS_GROUPS = (5, 8, 5, 16, 5, 7, 14, 6, 5, 2, 2, 2, 5, 40)
# The rows the paper uses: 20 workers of 100, and of 561.
PAPER_ROWS = {"ijcnn1": 2000, "a6a": 11220}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows in CSR, labels −1 and +1, and a name that says where they are from."""

    A: sparse.csr_array[Any]
    b: NDArray[np.float64]
    name: str


def synthetic(name: str, *, rows: int | None = None, seed: int = 0) -> Dataset:
    """A generated stand-in of the named set: its columns, sparsity, row norms and label balance.

    >>> synthetic("a6a").A.shape
    (11220, 122)
    """
    known_name("name", name, tuple(PAPER_ROWS))
    rows = PAPER_ROWS[name] if rows is None else integer("rows", rows, "give a whole number ≥ 1", at_least=1)
    rng = np.random.default_rng(seed)
    A = _engine_signal(rows, rng) if name == "ijcnn1" else _census(rows, rng)
    positives = 0.097 if name == "ijcnn1" else 0.24
    return Dataset(A, _labels(A, positives, rng), f"synthetic {name}")


def _engine_signal(rows: int, rng: np.random.Generator) -> sparse.csr_array[Any]:
    """22 columns: the position in a cycle of ten, a load, a speed, and ten delays of a small signal."""
    position = np.zeros((rows, 10))
    position[np.arange(rows), np.arange(rows) % 10] = 1.0
    load = rng.normal(-0.48, 0.17, (rows, 1))
    speed = rng.normal(0.158, 0.018, (rows, 1))
    signal = rng.normal(0.0, 0.037, rows + 9)
    delays = np.lib.stride_tricks.sliding_window_view(signal, 10)
    return sparse.csr_array(np.hstack([position, load, speed, delays]))


def _census(rows: int, rng: np.random.Generator) -> sparse.csr_array[Any]:
    """Fourteen categorical features, one-hot, each category about half as frequent as the one before."""
    columns = []
    first = 0
    for size in CENSUS_GROUPS:
        shares = 1.0 / np.arange(1, size + 1) ** 1.5
        columns.append(first + rng.choice(size, rows, p=shares / shares.sum()))
        first += size
    indices = np.stack(columns, axis=1).ravel()
    starts = np.arange(rows + 1) * len(CENSUS_GROUPS)
    return sparse.csr_array((np.ones(indices.size), indices, starts), shape=(rows, first))


def _labels(A: sparse.csr_array[Any], positives: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Labels of a noisy linear rule, with the given share of +1."""
    # A logistic rule with logistic noise, cut at the quantile that gives the share.
    scores = A @ rng.normal(0.0, 2.0, A.shape[1]) + rng.logistic(size=A.shape[0])
    return np.where(scores > np.quantile(scores, 1 - positives), 1.0, -1.0)
