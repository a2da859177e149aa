"""Two problems that differ in one sample of one worker."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from fastldp.errors import ArgumentError, OptimumError
from fastldp.problem import Problem

# A replaced sample is so many times longer than B: its clipped gradient has length B while |margin| < ln(5 − 1).
OVERSIZE = 5.0
# A target of the squared loss is farther away than B by this: its gradient is clipped while |x| stays below it.
FAR_TARGET = 1000.0


class Pair(NamedTuple):
    """Neighbours: the `worker` holds other samples in them, in one row."""

    problem: Problem
    neighbour: Problem
    worker: int


def given(problem: Problem, neighbour: Problem) -> Pair:
    """The caller's own pair, refused where it is not one."""
    if not isinstance(neighbour, Problem):
        raise ArgumentError("neighbour", neighbour, "give a fastldp.Problem that differs in one sample, or None")
    for name in ("loss", "dtype", "l2", "d", "weighting"):
        mine, other = getattr(problem, name), getattr(neighbour, name)
        if mine != other:
            raise ArgumentError("neighbour", other, f"its {name} differs from the problem's {mine}: not adjacent")
    if repr(problem.regularizer) != repr(neighbour.regularizer):
        raise ArgumentError("neighbour", neighbour.regularizer, "its regularizer differs: not adjacent")
    if not np.array_equal(problem.starts, neighbour.starts):
        raise ArgumentError("neighbour", neighbour.sizes, f"its shards have other sizes than {problem.sizes.tolist()}")
    differing = _differing_rows(problem, neighbour)
    if differing.size != 1:
        raise ArgumentError(
            "neighbour", neighbour, f"it differs in {differing.size} samples; adjacent problems differ in exactly one"
        )
    worker = int(np.searchsorted(problem.starts, differing[0], side="right")) - 1
    return Pair(problem, neighbour, worker)


def worst(problem: Problem, worker: int, bound: float) -> Pair:
    """Neighbours of a problem that are as easy to tell apart as its bound allows: one sample of the worker, replaced.

    The sample's gradient has the length of the bound in both and opposite directions, as long as x does not grow too
    large, so each release differs by the whole sensitivity. The bound is public in both, and enforced by clipping.
    """
    row, coordinate = int(problem.starts[worker]), _quiet_coordinate(problem)
    pair = []
    for sign in (1.0, -1.0):
        rows = problem.rows.tolil(copy=True) if sparse.issparse(problem.rows) else problem.rows.copy()
        rows[row] = 0.0
        targets = problem.targets.copy()
        if problem.loss == "logistic":
            rows[row, coordinate] = sign * OVERSIZE * bound
        else:
            rows[row, coordinate], targets[row] = 1.0, -sign * (bound + FAR_TARGET)
        pair.append(_with_data(problem, rows, targets, bound))
    return Pair(pair[0], pair[1], worker)


def _quiet_coordinate(problem: Problem) -> int:
    """Where x is least likely to leave the range in which both gradients are clipped."""
    try:
        return int(np.argmin(np.abs(problem.optimum())))
    except OptimumError:
        return 0


def _with_data(problem: Problem, rows: Any, targets: Any, bound: float) -> Problem:
    # The rows of a logistic problem carry −b, so that with b = −1 they are what they were.
    labels = -np.ones(targets.size) if problem.loss == "logistic" else targets
    return Problem(
        sparse.csr_array(rows) if sparse.issparse(rows) else rows,
        labels,
        workers=np.repeat(np.arange(problem.n), problem.sizes),
        loss=problem.loss,
        l2=problem.l2,
        regularizer=problem.regularizer,
        gradient_bound=bound,
        dtype=problem.dtype,
        weighting=problem.weighting,
    )


def _differing_rows(problem: Problem, neighbour: Problem) -> Any:
    apart = problem.targets != neighbour.targets
    if sparse.issparse(problem.rows) or sparse.issparse(neighbour.rows):
        difference = (sparse.csr_array(problem.rows) != sparse.csr_array(neighbour.rows)).tocsr()
        return np.flatnonzero(apart | (np.diff(difference.indptr) > 0))
    return np.flatnonzero(apart | (problem.rows != neighbour.rows).any(axis=1))
