"""Which worker holds which row: in order, shuffled, by class, or by Dirichlet-distributed shares of the classes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError, DataError
from fastldp.validation import integer, is_scalar, known_name, real, whole_numbers

Integers = NDArray[np.int64]

WAYS = ("contiguous", "shuffled", "label", "dirichlet")
# The paper's MNIST split has 1,000 of 3,850.
DEFAULT_SHARE = 0.25
DEFAULT_ALPHA = 0.5
REDRAWS = 100


class Sample(NamedTuple):
    """Some rows, in ascending order, and the worker of each."""

    rows: Integers
    workers: Integers


def partition(
    labels: ArrayLike,
    workers: int,
    how: str = "contiguous",
    *,
    sizes: int | Sequence[int] | Integers | None = None,
    share: float | None = None,
    alpha: float | None = None,
    least: int | None = None,
    seed: int = 0,
) -> Integers:
    """The worker of every row, as `Problem(workers=...)` takes it. Every worker has at least one row.

    Parameters
    ----------
    labels : array of shape (rows,)
        One for each row; ±1, classes, or any others.
    workers : int
        How many.
    how : str
        ``"contiguous"``, rows in order; ``"shuffled"``, rows at random; ``"label"``, a share of each worker's rows at
        random and the others sorted by label, so that they are of one class, or of few; ``"dirichlet"``, each class
        spread over the workers by shares drawn from Dirichlet(alpha, ..., alpha).
    sizes : int or array of int of shape (workers,), optional
        How many rows each worker has; as equal as possible where it is not given. The Dirichlet shares decide for
        themselves.
    share : float, optional
        For ``"label"``, the part of a worker's rows that is drawn uniformly from all; 0.25 where it is not given.
    alpha : float, optional
        For ``"dirichlet"``; 0.5 where it is not given. The smaller, the fewer classes a worker has.
    least : int, optional
        How many rows every worker has at least. Where the Dirichlet shares leave one with fewer, rows drawn from the
        largest shards are moved to it.
    seed : int
        Of whatever is drawn.

    Returns
    -------
    array of int of shape (rows,)
        Numbers of workers, from 0.

    Examples
    --------
    >>> partition([-1, 1, -1, 1, 1], 2).tolist()
    [0, 0, 0, 1, 1]
    >>> partition([-1, 1, -1, 1, 1], 2, "label", sizes=[2, 3], share=0.0).tolist()
    [0, 1, 0, 1, 1]
    >>> [np.bincount(partition(np.arange(60) % 2, 4, "dirichlet", least=k)).tolist() for k in (0, 10)]
    [[35, 6, 14, 5], [26, 10, 14, 10]]
    """
    classes, chosen = _classes(labels), known_name("how", how, WAYS)
    n = _workers(workers, classes.size)
    least = _least(least, n, classes.size)
    share, alpha = _only_where_used(chosen, share, alpha)
    rng = np.random.default_rng(_seed(seed))
    if chosen == "dirichlet":
        if sizes is not None:
            raise ArgumentError("sizes", sizes, "the Dirichlet shares decide the sizes; leave it out, or change how")
        return _with_least(_dirichlet(classes, n, alpha, rng, must_have=least == 0), n, least, rng)
    held = _equal_sizes(classes.size, n) if sizes is None else _sizes(sizes, n, classes.size)
    if held.min() < least:
        worker = int(held.argmin())
        raise DataError("sizes", sizes, f"worker {worker} has {held[worker]:,} rows, fewer than least = {least:,}")
    if held.sum() != classes.size:
        remedy = f"they add up to {held.sum():,}, and there are {classes.size:,} rows; to leave rows out, use sample()"
        raise DataError("sizes", sizes, remedy)
    rows, owners = _dealt(classes, held, chosen, share, rng)
    return owners[np.argsort(rows)]


def sample(
    labels: ArrayLike,
    workers: int,
    how: str = "shuffled",
    *,
    sizes: int | Sequence[int] | Integers,
    share: float | None = None,
    seed: int = 0,
) -> Sample:
    """Some of the rows, and the worker of each: as `partition`, with sizes that need not add up to all rows.

    Where `how` is ``"label"``, each class gives as many of the rows that are not drawn uniformly. With as many workers
    as classes each worker has one class, as in the paper's split of MNIST: 1,000 of 3,850 images at random, the others
    of one digit.

    Parameters
    ----------
    labels : array of shape (rows,)
        One for each row.
    workers : int
        How many.
    how : str
        ``"contiguous"``, ``"shuffled"`` or ``"label"``, as of `partition`.
    sizes : int or array of int of shape (workers,)
        How many rows each worker has.
    share : float, optional
        For ``"label"``, the part of a worker's rows that is drawn uniformly from all; 0.25 where it is not given.
    seed : int
        Of whatever is drawn.

    Returns
    -------
    Sample
        `rows` and `workers`, for ``Problem(A[rows], b[rows], workers=workers, ...)``.

    Examples
    --------
    >>> digits = np.arange(60000) % 10
    >>> rows, owners = sample(digits, 10, "label", sizes=3850, share=1000 / 3850)
    >>> rows.size, int(((owners == 3) & (digits[rows] == 3)).sum()) >= 2850
    (38500, True)
    """
    classes, chosen = _classes(labels), known_name("how", how, WAYS[:-1])
    n = _workers(workers, classes.size)
    share, _ = _only_where_used(chosen, share, None)
    held = _sizes(sizes, n, classes.size)
    if held.sum() > classes.size:
        raise DataError("sizes", sizes, f"they add up to {held.sum():,}, and there are only {classes.size:,} rows")
    rows, owners = _dealt(classes, held, chosen, share, np.random.default_rng(_seed(seed)))
    order = np.argsort(rows)
    return Sample(rows[order], owners[order])


def _classes(labels: ArrayLike) -> Integers:
    """Labels as numbers from 0 on, in their order."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biufU":
        raise DataError("labels", labels, "give one label a row")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise DataError("labels", labels, "NaN labels; drop those rows")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _workers(workers: int, rows: int) -> int:
    remedy = f"give a whole number from 1 to {rows:,}, the rows: every worker needs one"
    return integer("workers", workers, remedy, at_least=1, at_most=rows)


def _least(least: int | None, n: int, rows: int) -> int:
    remedy = f"give a whole number ≥ 0, at most {rows // n:,}: {rows:,} rows are that many for each of {n:,} workers"
    return 0 if least is None else integer("least", least, remedy, at_least=0, at_most=rows // n)


def _seed(seed: int) -> int:
    return integer("seed", seed, "give a whole number ≥ 0", at_least=0)


def _only_where_used(how: str, share: float | None, alpha: float | None) -> tuple[float, float]:
    """Both with their defaults; neither where it would do nothing."""
    for argument, value, way in (("share", share, "label"), ("alpha", alpha, "dirichlet")):
        if value is not None and how != way:
            raise ArgumentError(argument, value, f'only how="{way}" has one; leave it out, or change how')
    remedy = "give a number from 0 (one class a worker) to 1 (shuffled)"
    share = real("share", DEFAULT_SHARE if share is None else share, remedy, at_least=0)
    if share > 1:
        raise ArgumentError("share", share, remedy)
    return share, real("alpha", DEFAULT_ALPHA if alpha is None else alpha, "give a finite number > 0", above=0)


def _equal_sizes(rows: int, n: int) -> Integers:
    return rows // n + (np.arange(n) < rows % n)


def _sizes(sizes: int | Sequence[int] | Integers, n: int, rows: int) -> Integers:
    """One size a worker; one for all where only one is given. None exceeds the rows, so that they can be added up."""
    remedy = f"give a whole number ≥ 1, or {n} of them: one a worker"
    if is_scalar(sizes):
        held = np.full(n, min(integer("sizes", sizes, remedy, at_least=1), rows + 1), dtype=np.int64)
    else:
        held = whole_numbers("sizes", sizes, n, remedy, DataError)
    if held.min() < 1:
        raise DataError("sizes", sizes, f"worker {int(held.argmin())} has no rows; {remedy}")
    if held.max() > rows:
        raise DataError("sizes", sizes, f"there are only {rows:,} rows; {remedy}")
    return held


def _dealt(
    classes: Integers, sizes: Integers, how: str, share: float, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Rows, and the worker of each, in no particular order."""
    owners = np.repeat(np.arange(sizes.size), sizes)
    if how == "contiguous":
        return np.arange(owners.size), owners
    shuffled = rng.permutation(classes.size)
    if how == "shuffled":
        return shuffled[: owners.size], owners
    uniform = np.rint(share * sizes).astype(np.int64)
    first, rest = np.split(shuffled, [uniform.sum()])
    kept = _as_many_of_each(classes[rest], owners.size - first.size)
    by_label = rest[kept]
    rows = np.concatenate([first, by_label[np.argsort(classes[by_label], kind="stable")]])
    parts = [np.repeat(np.arange(sizes.size), size) for size in (uniform, sizes - uniform)]
    return rows, np.concatenate(parts)


def _as_many_of_each(classes: Integers, total: int) -> Integers:
    """So many positions, as many of each class as of any other; all positions where that is what is asked for."""
    if total == classes.size:
        return np.arange(total)
    counts = np.bincount(classes)
    wanted = _equal_sizes(total, counts.size)
    if (wanted > counts).any():
        poor = int(np.argmax(wanted > counts))
        short = (
            f"class {poor}, in the order of the labels, has {counts[poor]:,} rows left and {wanted[poor]:,} are needed"
        )
        raise DataError("sizes", total, f"{short}; ask for fewer rows")
    return np.concatenate([np.flatnonzero(classes == kind)[:want] for kind, want in enumerate(wanted)])


def _dirichlet(classes: Integers, n: int, alpha: float, rng: np.random.Generator, *, must_have: bool) -> Integers:
    """Each class, shuffled, cut where the cumulative shares say; drawn again while a worker has nothing.

    After so many draws that is refused where all must have something, and else the last is taken.
    """
    for _ in range(REDRAWS):
        owners = np.empty(classes.size, dtype=np.int64)
        for kind in range(int(classes.max()) + 1):
            rows = rng.permutation(np.flatnonzero(classes == kind))
            shares = rng.dirichlet(np.full(n, alpha))
            cuts = np.rint(np.cumsum(shares)[:-1] * rows.size).astype(np.int64)
            owners[rows] = np.repeat(np.arange(n), np.diff(cuts, prepend=0, append=rows.size))
        if np.bincount(owners, minlength=n).min() > 0:
            return owners
    if must_have:
        remedy = f"some worker had no rows in each of {REDRAWS} draws; give a larger alpha or fewer workers, or least=1"
        raise DataError("alpha", alpha, remedy)
    return owners


def _with_least(owners: Integers, n: int, least: int, rng: np.random.Generator) -> Integers:
    """The same with rows, drawn from those of whoever has most at the time, moved to those who have too few."""
    sizes = np.bincount(owners, minlength=n)
    if sizes.min() >= least:
        return owners
    given = np.repeat(np.arange(n), np.maximum(least - sizes, 0))
    # The largest shards come down to one level, and the first of them by one more where that is not enough.
    levels = range(int(sizes.max()) + 1)
    level = levels[bisect_left(levels, -given.size, key=lambda level: -np.maximum(sizes - level, 0).sum())]
    moved = np.maximum(sizes - level, 0)
    moved[np.flatnonzero(sizes >= level)[: given.size - moved.sum()]] += 1
    taken = [rng.permutation(np.flatnonzero(owners == worker))[: moved[worker]] for worker in np.flatnonzero(moved)]
    made = owners.copy()
    made[np.concatenate(taken)] = rng.permutation(given)
    return made
