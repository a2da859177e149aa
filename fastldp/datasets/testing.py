"""Data to test a model on: a share of the rows held out, or another file that is read as the first was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.datasets.dataset import two_classes
from fastldp.datasets.files import MISSING, read_file
from fastldp.datasets.libsvm import read_libsvm
from fastldp.errors import ArgumentError
from fastldp.validation import integer, real

Integers = NDArray[np.int64]

# Files that say how many columns they have.
TABLES = (".csv", ".npz")


class HeldOut(NamedTuple):
    """Rows to learn from and rows to test on, each in ascending order; `hold_out` makes it."""

    train: Integers
    test: Integers


def hold_out(rows: int, share: float, *, seed: int = 0) -> HeldOut:
    """Some of the rows at random, to test on, and the others, in their order.

    Hold rows out before they are spread over workers: `Problem(A[train], b[train], ..., test=(A[test], b[test]))`.

    Parameters
    ----------
    rows : int
        How many there are, 2 or more.
    share : float
        The part of them to test on, above 0 and below 1; one row at least, and not all.
    seed : int
        Of the choice.

    Returns
    -------
    HeldOut
        The numbers of the rows, `train` and `test`.

    Examples
    --------
    >>> train, test = hold_out(10, 0.2)
    >>> train.size, test.size, np.intersect1d(train, test).size
    (8, 2, 0)
    """
    count = integer("rows", rows, "give a whole number ≥ 2: one row to learn from, and one to test on", at_least=2)
    remedy = "give a part of the rows to test on, above 0 and below 1, as 0.2"
    part = real("test", share, remedy, above=0, below=1)
    held = min(max(1, round(part * count)), count - 1)
    chosen = np.zeros(count, dtype=bool)
    rng = np.random.default_rng(integer("test_seed", seed, "give a whole number ≥ 0", at_least=0))
    chosen[rng.permutation(count)[:held]] = True
    return HeldOut(np.flatnonzero(~chosen), np.flatnonzero(chosen))


def read_test_file(
    path: str | os.PathLike[str],
    features: int,
    *,
    label: str | int | None = None,
    like: str | os.PathLike[str] | None = None,
) -> tuple[Any, NDArray[np.float64]]:
    """Rows and labels of a file to test on, as wide as the training data; `like` is the file those came from."""
    if not Path(path).is_file():
        remedy = f"{MISSING[Path(path).is_dir()]}; give one, or a share of the rows, as 0.2"
        raise ArgumentError("test", os.fspath(path), remedy)
    kind, of_like = Path(path).suffix, None if like is None else Path(like).suffix
    if kind == ".npz":
        data = read_file(path)
        return data.A, data.b
    # Which of two labels is +1, and whether columns count from 0, the training data say: some may be missing here.
    from_zero: bool | Literal["auto"] = "auto"
    kinds = None
    if like is not None and of_like not in TABLES:
        train = read_libsvm(like, zero_based=True)
        kinds, from_zero = train.b, train.A.shape[1] == features
    elif like is not None and of_like == ".csv":
        kinds = read_file(like, label=label).b
    data = read_file(path, label=label) if kind == ".csv" else read_libsvm(path, zero_based=from_zero)
    labels = two_classes(data.b, others=True) if kinds is None else _named(data.b, np.unique(kinds))
    return as_wide(data.A, features), labels


def _named(labels: NDArray[np.float64], kinds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Labels as −1 and +1, by the kinds that the training data have."""
    if set(kinds.tolist()) <= {-1.0, 1.0}:
        return labels
    others = np.setdiff1d(labels, kinds)
    if others.size:
        known = ", ".join(f"{kind:g}" for kind in kinds[:6])
        raise ArgumentError("test", others[:6], f"labels that the training data do not have, which have {known}")
    return np.where(labels == kinds[1], 1.0, -1.0) if kinds.size == 2 else labels


def as_wide(A: Any, features: int) -> Any:
    """Sparse rows with so many columns: files of them do not say how many, and no model has weights for others."""
    if not sparse.issparse(A) or A.shape[1] == features:
        return A
    if A.shape[1] > features:
        return A[:, :features]
    return sparse.csr_array((A.data, A.indices, A.indptr), shape=(A.shape[0], features))
