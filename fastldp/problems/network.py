"""A network's data for its kernels: rows filled up to whole lanes, cut into chunks, and scratch for each thread."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.network import Network
from fastldp.kernels.simd import aligned_zeros

if TYPE_CHECKING:
    from fastldp.problems.mlp import MLP

Integers = NDArray[np.int64]

LANES = {"float64": 8, "float32": 16}


def filled(starts: Integers, lanes: int) -> Integers:
    """Where each worker's rows begin once every worker's are filled up to whole lanes.

    >>> filled(np.array([0, 3, 20]), 16).tolist()
    [0, 16, 48]
    """
    return np.concatenate([[0], np.cumsum(-(-np.diff(starts) // lanes) * lanes)])


def chunks_of(begin: int, end: int, lanes: int, most: int) -> Integers:
    """Where the chunks of some rows begin: about equally large, whole lanes each, at most so many rows.

    >>> chunks_of(0, 48, 16, 32).tolist()
    [0, 16]
    """
    groups = (end - begin) // lanes
    count = -(-groups * lanes // most)
    return begin + lanes * (np.arange(count) * groups // count)


def samples_of(problem: MLP) -> Network:
    """The problem's own arrays, without scratch."""
    lanes = LANES[problem.products]
    firsts = filled(problem.starts, lanes)
    cut = [chunks_of(a, b, lanes, problem.chunk) for a, b in pairwise(firsts.tolist())]
    dtype = np.dtype(problem.products)
    none = aligned_zeros((0, 0), dtype)
    return Network(
        values=problem.values,
        classes=_in_lanes(problem.classes_of_rows, lanes, dtype),
        counted=_in_lanes(problem.counted, lanes, dtype),
        reach=_in_lanes(problem.reach, lanes, dtype),
        chunks=np.concatenate([[0], np.cumsum([part.size for part in cut])]).astype(np.int64),
        starts=np.concatenate([*cut, firsts[-1:]]).astype(np.int64),
        widths=np.array(problem.layers.widths, dtype=np.int64),
        offsets=np.array(problem.layers.offsets[:-1], dtype=np.int64),
        caution=problem.caution,
        model=none,
        sums=none,
        units=none,
        slopes=none,
        reaches=aligned_zeros((0, 0, 0, lanes), dtype),
        norms=aligned_zeros((0, 0, lanes), dtype),
        drawn_values=none,
        drawn_classes=aligned_zeros((0, lanes), dtype),
        drawn_counted=aligned_zeros((0, lanes), dtype),
        drawn_reach=aligned_zeros((0, lanes), dtype),
    )


def with_scratch(samples: Network, shares: int, *, drawn: bool = False) -> Network:
    """The same with scratch for so many shares of the workers, and for the samples that they draw."""
    lanes, dtype = samples.classes.shape[1], samples.values.dtype
    d = int(samples.offsets[-1] + samples.widths[-1] * (samples.widths[-2] + 1))
    longest = int(np.diff(samples.starts).max())
    units = int(samples.widths[1:].sum()) * longest
    gathered = shares * longest if drawn else 0
    return samples._replace(
        model=aligned_zeros((shares, d), dtype),
        sums=aligned_zeros((shares, d), dtype),
        units=aligned_zeros((shares, units), dtype),
        slopes=aligned_zeros((shares, units), dtype),
        reaches=aligned_zeros((shares, samples.offsets.size, longest // lanes, lanes), dtype),
        norms=aligned_zeros((shares, longest // lanes, lanes), dtype),
        drawn_values=aligned_zeros((gathered, samples.values.shape[1]), dtype),
        drawn_classes=aligned_zeros((gathered // lanes, lanes), dtype),
        drawn_counted=aligned_zeros((gathered // lanes, lanes), dtype),
        drawn_reach=aligned_zeros((gathered // lanes, lanes), dtype),
    )


def _in_lanes(values: NDArray[Any], lanes: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    laid = aligned_zeros((values.size // lanes, lanes), dtype)
    laid[...] = values.reshape(-1, lanes)
    return laid
