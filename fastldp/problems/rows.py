"""Rows of samples and their labels: checked, spread over workers, measured, scaled, and known by a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fastldp import memory
from fastldp.errors import ArgumentError, DataError
from fastldp.losses import Loss
from fastldp.problems.composite import LARGEST_ENTRY, Vector, shards
from fastldp.validation import reals


def checked_matrix(A: Any, dtype: str) -> Any:
    """A as a C-contiguous float64 array or canonical CSR, finite."""
    remedy = "give a matrix of real numbers, shape (rows, features)"
    if sparse.issparse(A):
        if A.ndim != 2 or A.dtype.kind not in "biuf":
            raise DataError("A", A, remedy)
        memory.refuse_beyond("A", 2 * 12 * A.nnz, "give fewer rows")
        rows = sparse.csr_array(A, dtype=np.float64)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        values = rows.data
    else:
        if isinstance(A, np.ndarray):
            # A copy is made of it, with the labels folded in.
            memory.refuse_beyond("A", 8 * A.size, "give a scipy sparse matrix, or fewer rows")
        kept = isinstance(A, np.ndarray) and A.dtype == np.float64
        rows = values = np.ascontiguousarray(A if kept else reals("A", A, remedy, DataError))
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError("A", np.shape(A), "give a matrix of shape (rows, features) with at least one feature")
    if rows.shape[0] == 0:
        raise DataError("A", rows.shape, "it has no rows; give at least one sample a worker")
    if not np.isfinite(values).all():
        where = np.argwhere(~np.isfinite(values))[0].tolist()
        if sparse.issparse(rows):
            where = [int(np.searchsorted(rows.indptr, where[0], side="right")) - 1, int(rows.indices[where[0]])]
        raise DataError("A", A, f"NaN or infinite entries, the first at {where}; drop or impute them")
    if np.abs(values).max(initial=0.0) > LARGEST_ENTRY[dtype]:
        raise DataError("A", A, f"entries so large that their squares overflow in {dtype}; scale the features")
    return rows


@contextmanager
def called(argument: str) -> Iterator[None]:
    """What is wrong with data is said of the argument they came by."""
    try:
        yield
    except ArgumentError as error:
        raise error.said_of(argument) from None


def times(rows: Any, factors: Vector) -> Any:
    """Each row times its factor; a copy."""
    return rows.multiply(factors[:, None]).tocsr() if sparse.issparse(rows) else rows * factors[:, None]


def digest_of(text: str, rows: Any, *others: NDArray[Any]) -> str:
    """Of a text, of rows and of arrays; the same on every machine."""
    digest = hashlib.sha256(text.encode())
    parts = (rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,)
    for part in (*parts, *others):
        wide = part.astype(np.int64, copy=False) if part.dtype.kind in "iu" else part
        digest.update(wide.tobytes())
    return digest.hexdigest()


def norms_above(rows: Any) -> Vector:
    """The norm of every row, rounded up."""
    norms = _norms(rows)
    # Squares of numbers so small lose digits or vanish, and a row whose norm is not known is not clipped.
    small = np.flatnonzero(norms < 2.0**-450)
    norms[small] = _norms(rows[small] * 2.0**600) * 2.0**-600
    return np.asarray(norms * (1 + (rows.shape[1] + 2) * np.finfo(np.float64).eps))


def _norms(rows: Any) -> Vector:
    squares = rows.multiply(rows) if sparse.issparse(rows) else rows * rows
    return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64).ravel())


def _named(b: ArrayLike) -> str:
    """How names of two classes become numbers."""
    names = np.unique(np.asarray(b)) if np.asarray(b).dtype.kind == "U" else np.zeros(0)
    return f", as np.where(b == {str(names[1])!r}, 1.0, -1.0)" if names.size == 2 else ""


def checked_labels(b: ArrayLike, loss: Loss) -> Vector:
    labels = reals("b", b, f"give one real number a row{_named(b)}", DataError)
    if labels.ndim != 1:
        raise DataError("b", b, f"give one number a row; its shape is {labels.shape}")
    if not np.isfinite(labels).all():
        raise DataError("b", b, "NaN or infinite labels; drop those rows")
    loss.check_labels(labels)
    return labels


def sharded(A: Any, b: Vector, workers: int | ArrayLike) -> tuple[Any, Vector, NDArray[np.int64]]:
    """Rows and labels sorted by worker, and where each worker's begin."""
    if b.size != A.shape[0]:
        raise DataError("b", f"{b.size} labels", f"A has {A.shape[0]} rows; give one label a row")
    order, starts = shards(b.size, workers)
    return (A, b, starts) if order is None else (A[order], b[order], starts)


def within(rows: Any, bound: float) -> Any:
    """The rows, those longer than the bound scaled down to it: each by itself, so that neighbours stay neighbours."""
    # A hair below, so that a norm that is computed and rounded up is within it too.
    hair = 4 * (rows.shape[1] + 4) * float(np.finfo(np.float64).eps)
    with np.errstate(divide="ignore", over="ignore"):  # by norms of rows that stay as they are
        scales = np.minimum(1.0, bound * (1 - hair) / norms_above(rows))
    if (scales == 1).all():
        return rows
    return times(rows, scales)
