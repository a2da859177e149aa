"""What a worker's clipped gradients amount to at the adversary's points, in plain NumPy; nothing of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from fastldp.problems.composite import Composite
from fastldp.problems.layers import Layers
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP

Array = NDArray[np.float64]

# The numbers of a layer's units, at so many points together, that are worked on at a time.
AT_ONCE = 2**21


@singledispatch
def query(problem: Composite, worker: int, x: Array, clip: Array) -> tuple[Array, Array]:
    """(points, d): the mean of the worker's gradients at every row of x, each sample's clipped to that row's norm.

    And (points,): how many of them are shorter than it.
    """
    raise NotImplementedError(f"the adversary does not know {type(problem).__name__}")


@query.register
def _of_linear(problem: Problem, worker: int, x: Array, clip: Array) -> tuple[Array, Array]:
    mine = slice(problem.starts[worker], problem.starts[worker + 1])
    rows = problem.rows[mine].toarray() if sparse.issparse(problem.rows) else problem.rows[mine]
    norms = np.sqrt(np.einsum("md,md->m", rows, rows))
    limits = np.divide(clip[:, None], norms, out=np.full((clip.size, norms.size), np.inf), where=norms > 0)
    slopes = problem.loss.slope(x @ rows.T, problem.targets[mine])
    means = np.clip(slopes, -limits, limits) @ rows / rows.shape[0]
    return means, (np.abs(slopes) < limits).sum(axis=1)


@query.register
def _of_network(problem: MLP, worker: int, x: Array, clip: Array) -> tuple[Array, Array]:
    images, classes = problem.shard(worker)
    images, means, inside = images.astype(np.float64), np.empty(x.shape), np.empty(len(x))
    several = max(1, AT_ONCE // (len(images) * max(problem.layers.widths)))
    for first in range(0, len(x), several):
        part = slice(first, first + several)
        sums, inside[part] = _clipped_sums(problem.layers, x[part], images, classes, clip[part])
        means[part] = sums / len(images)
    return means, inside


def _clipped_sums(
    layers: Layers, x: Array, images: Array, classes: NDArray[np.int64], clip: Array
) -> tuple[Array, Array]:
    """(points, d): the sum of the samples' clipped gradients; units and slopes are (points, samples, units)."""
    model, below = list(_split(layers, x)), [images[None]]
    for weights, biases in model:
        above = below[-1] @ weights.transpose(0, 2, 1) + biases[:, None]
        below.append(expit(above))
    shares = np.exp(above - above.max(axis=2, keepdims=True))
    shares /= shares.sum(axis=2, keepdims=True)
    shares[:, np.arange(classes.size), classes] -= 1
    slopes, squares = [shares], np.zeros(shares.shape[:2])
    for layer in reversed(range(len(model))):
        # A sample's gradient is, for each layer, its slopes times (inputs, 1).
        squares += np.square(slopes[0]).sum(axis=2) * (np.square(below[layer]).sum(axis=2) + 1)
        if layer:
            slopes.insert(0, slopes[0] @ model[layer][0] * below[layer] * (1 - below[layer]))
    scales = np.minimum(1.0, clip[:, None] / np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny)))
    sums = []
    for slope, inputs in zip(slopes, below, strict=False):
        clipped = slope * scales[:, :, None]
        sums += [(clipped.transpose(0, 2, 1) @ inputs).reshape(len(x), -1), clipped.sum(axis=1)]
    return np.concatenate(sums, axis=1), (scales == 1).sum(axis=1)


def _split(layers: Layers, x: Array) -> Iterator[tuple[Array, Array]]:
    """The weights (points, units, inputs) and biases (points, units) of each layer."""
    for (inputs, units), begin in zip(pairwise(layers.widths), layers.offsets, strict=False):
        middle, end = begin + units * inputs, begin + units * (inputs + 1)
        yield x[:, begin:middle].reshape(len(x), units, inputs), x[:, middle:end]
