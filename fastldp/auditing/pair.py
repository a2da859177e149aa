"""Two problems that differ in one sample of one worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.errors import ArgumentError, OptimumError
from fastldp.losses import SIGNS
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP

# A replaced sample is so many times longer than B: its clipped gradient has length B while |margin| < ln(5 − 1).
OVERSIZE = 5.0
# A target of the squared loss is farther away than B by this: its gradient is clipped while |x| stays below it.
FAR_TARGET = 1000.0
# Lengths of replaced images, in the clipping threshold: long ones are clipped at once, and soon saturate the units.
BRIGHTNESS = (0.0, 1.0, 4.0, 16.0, 64.0, 256.0)
# Where clipping adapts, the gradient of a sample that is not clipped, over the threshold at the start.
INSIDE = 0.7
# What problems must have in common to be adjacent.
SHARED = {Problem: ("loss", "dtype", "l2", "d", "weighting"), MLP: ("products", "l2", "d", "start_seed", "weighting")}


class Pair(NamedTuple):
    """Neighbours: the `worker` holds other samples in them, in one row."""

    problem: Composite
    neighbour: Composite
    worker: int


def given(problem: Composite, neighbour: Composite) -> Pair:
    """The caller's own pair, refused where it is not one."""
    kind = type(problem)
    if not isinstance(neighbour, kind):
        remedy = f"give a fastldp.{kind.__name__} that differs in one sample, or None"
        raise ArgumentError("neighbour", neighbour, remedy)
    for name in SHARED[kind]:
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


def candidates(problem: Composite, worker: int, bound: float, *, adaptive: bool = False) -> Iterator[Pair]:
    """Neighbours of a problem that may be the easiest to tell apart, where gradients are bounded so, or at first so."""
    if isinstance(problem, MLP):
        yield from _candidates(problem, worker, bound)
        return
    assert isinstance(problem, Problem)
    yield worst(problem, worker, bound, enforced=not adaptive)
    if adaptive:  # a sample that is counted, and one that is not
        yield worst(problem, worker, bound, enforced=False, inside=INSIDE)


def _candidates(problem: MLP, worker: int, bound: float) -> Iterator[Pair]:
    """An image and its opposite with one label, or one image with two labels, of several lengths.

    Where an image's units do not saturate, opposite images have opposite gradients of the first layer, which is the
    longer the image is; of two classes, opposite labels have opposite gradients. Which of these is more depends on the
    weights along the run.
    """
    row, image = int(problem.starts[worker]), _quiet_image(problem)
    scores = problem.layers.scores(problem.start(), np.zeros((1, image.size)))[0]
    # Unlikely classes, whose slopes are long.
    label, other = np.argsort(scores, kind="stable")[:2].tolist()
    for brightness in BRIGHTNESS:
        bright = brightness * bound * image
        one = _with_sample(problem, row, bright, label, bound)
        yield Pair(one, _with_sample(problem, row, bright, other, bound), worker)
        if brightness:
            yield Pair(one, _with_sample(problem, row, -bright, label, bound), worker)


def _quiet_image(problem: MLP) -> NDArray[np.float64]:
    """The image of length one that excites the first layer least at the start."""
    weights = next(problem.layers.split(problem.start()))[0]
    return np.asarray(np.linalg.svd(weights, full_matrices=True)[2][-1])


def with_other_data(problem: Composite) -> Composite:
    """The same problem, as far as it is public, over data that have nothing in common with its own but their sizes."""
    if isinstance(problem, MLP):
        images, labels = _samples(problem)
        return _with_images(problem, -0.5 * images[::-1], labels[::-1], problem.gradient_bound)
    assert isinstance(problem, Problem)
    return _with_data(problem, -0.5 * problem.rows[::-1], -0.5 * problem.targets[::-1], problem.public_bound)


def _samples(problem: MLP) -> tuple[Any, Any]:
    shards = [problem.shard(i) for i in range(problem.n)]
    return np.concatenate([one[0] for one in shards]), np.concatenate([one[1] for one in shards])


def _with_sample(problem: MLP, row: int, image: Any, label: int, bound: float) -> MLP:
    images, labels = _samples(problem)
    images[row], labels[row] = image, label
    return _with_images(problem, images, labels, bound)


def _with_images(problem: MLP, images: Any, labels: Any, bound: float) -> MLP:
    return MLP(
        images,
        labels,
        hidden=problem.layers.widths[1:-1],
        workers=np.repeat(np.arange(problem.n), problem.sizes),
        regularizer=problem.regularizer,
        clip=bound,
        l2=problem.l2,
        strong_convexity=problem.parameters["strong_convexity"],
        classes=problem.layers.widths[-1],
        start_seed=problem.start_seed,
        weighting=problem.weighting,
        products=problem.products,
    )


def worst(problem: Problem, worker: int, bound: float, *, enforced: bool = True, inside: float | None = None) -> Pair:
    """Neighbours of a problem that are as easy to tell apart as its bound allows: one sample of the worker, replaced.

    The sample's gradient has the length of the bound in both and opposite directions, as long as x does not grow too
    large, so each release differs by the whole sensitivity. The bound is public in both, and enforced by clipping,
    unless the method does that. In the second the gradient is so much of the bound, where it is to stay inside.
    """
    row, coordinate = int(problem.starts[worker]), _quiet_coordinate(problem)
    pair = []
    for sign in (1.0, -1.0):
        rows = problem.rows.tolil(copy=True) if sparse.issparse(problem.rows) else problem.rows.copy()
        rows[row] = 0.0
        targets = problem.targets.copy()
        shorter = inside if sign < 0 else None
        if problem.loss.labels == SIGNS:
            slope = abs(float(problem.loss.slope(np.zeros(1), np.ones(1))[0])) or 1.0
            rows[row, coordinate] = sign * bound * (OVERSIZE if shorter is None else shorter / slope)
        else:
            rows[row, coordinate] = 1.0
            targets[row] = -sign * (bound + FAR_TARGET if shorter is None else shorter * bound)
        pair.append(_with_data(problem, rows, targets, bound if enforced else problem.public_bound))
    return Pair(pair[0], pair[1], worker)


def _quiet_coordinate(problem: Problem) -> int:
    """Where x is least likely to leave the range in which both gradients are clipped."""
    try:
        return int(np.argmin(np.abs(problem.optimum())))
    except OptimumError:
        return 0


def _with_data(problem: Problem, rows: Any, targets: Any, bound: float | None) -> Problem:
    # Rows carry −b where labels are ±1, so that with b = −1 they are what they were.
    labels = -np.ones(targets.size) if problem.loss.labels == SIGNS else targets
    return Problem(
        sparse.csr_array(rows) if sparse.issparse(rows) else rows,
        labels,
        workers=np.repeat(np.arange(problem.n), problem.sizes),
        loss=problem.loss,
        l2=problem.l2,
        regularizer=problem.regularizer,
        row_bound=problem.row_bound,
        gradient_bound=bound,
        dtype=problem.dtype,
        weighting=problem.weighting,
    )


def _differing_rows(problem: Any, neighbour: Any) -> Any:
    if isinstance(problem, MLP):
        apart = problem.classes_of_rows != neighbour.classes_of_rows
        counted = problem.counted > 0
        return np.flatnonzero((apart | (problem.values != neighbour.values).any(axis=1))[counted])
    apart = problem.targets != neighbour.targets
    if sparse.issparse(problem.rows) or sparse.issparse(neighbour.rows):
        difference = (sparse.csr_array(problem.rows) != sparse.csr_array(neighbour.rows)).tocsr()
        return np.flatnonzero(apart | (np.diff(difference.indptr) > 0))
    return np.flatnonzero(apart | (problem.rows != neighbour.rows).any(axis=1))
