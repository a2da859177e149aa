"""How data are laid out for kernels: rows, dense or sparse, by columns too, panels of samples, or for a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.engine import hardware
from fastldp.engine.narrow import narrowest, signs_of
from fastldp.kernels import gradient
from fastldp.kernels.network import Network
from fastldp.kernels.simd import LINE, aligned_zeros
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP
from fastldp.problems.network import samples_of

# How many numbers of each precision a line of lanes has.
LANES = {"float64": 8, "float32": 16}
# A tile of rows may take so large a part, one of so many, of a core's own cache.
PART_OF_CACHE = 16
# With fewer nonzeros of a column in a tile, sums by columns are no faster; nor are they in a single line of lanes.
LEAST_IN_COLUMN = 10
# Rows are not taken for shorter: thresholds, points and margins over a norm then stay finite, and so do their squares.
SHORTEST_ROW = {"float64": 1e-150, "float32": 1e-17}

Samples = gradient.Samples | Network


def lanes_of(problem: Composite) -> int:
    """How many runs fill a line of lanes."""
    return LANES[problem.dtype] if problem.lanes_of_runs else 1


def samples_in_lanes(problem: Composite, runs: int) -> Samples:
    """The data for blocks of so many runs that share lanes at most, or of a network."""
    if isinstance(problem, MLP):
        return samples_of(problem)
    assert isinstance(problem, Problem)
    samples = samples_in_rows(problem)
    if isinstance(samples, gradient.SparseSamples) and runs > lanes_of(problem):
        return _by_columns_too(samples, problem.d)
    return samples


def samples_in_rows(problem: Problem) -> gradient.DenseSamples | gradient.SparseSamples:
    """The data for runs in lanes: the problem's own arrays in double precision, a copy in single.

    Of sparse data a copy of what can be narrower.
    """
    dtype = np.dtype(problem.dtype)
    inverse_norms = _inverse_norms(problem)
    least = np.minimum.reduceat(inverse_norms, problem.starts[:-1])
    common = problem.targets.astype(dtype, copy=False), inverse_norms, least, problem.starts
    if sparse.issparse(problem.rows):
        values, signs, columns = _nonzeros(problem.rows, dtype)
        starts = problem.rows.indptr.astype(np.int64)
        places, rows, tiles = np.zeros((1, 0), np.uint16), np.zeros(0, np.uint8), np.zeros(0, np.int64)
        return gradient.SparseSamples(values, *common, signs, columns, starts, 0, places[0], rows, places, tiles)
    values = problem.rows.astype(dtype, copy=False)
    return gradient.DenseSamples(values, *common, *_tiling(values))


def _nonzeros(rows: Any, dtype: np.dtype[Any]) -> tuple[NDArray[Any], bool, NDArray[Any]]:
    """What rows have in the columns they have something in, or whether that is 1 in each, and these columns."""
    indices = rows.indices
    if rows.shape[1] <= 2**16:
        columns = indices.astype(np.uint16)
    else:
        # Column numbers are not negative, so those of 32 bits can be read as unsigned where they lie.
        columns = indices.view(np.uint32) if indices.itemsize == 4 else indices.astype(np.uint32)
    values = rows.data.astype(dtype, copy=False)
    signs = signs_of(values, rows.indptr)
    if signs is not None:
        return signs, True, columns
    if far(values.nbytes + columns.nbytes):
        values = values.astype(narrowest(values, dtype), copy=False)
    return values, False, columns


def _by_columns_too(samples: gradient.SparseSamples, d: int) -> gradient.SparseSamples:
    """The same with its nonzeros in both orders, where columns have enough of them."""
    # A tile's nonzeros are counted in the numbers that `ends` and `places` are of.
    longest = max(1, int(np.diff(samples.starts).max()))
    tile = min(gradient.TILE, int(np.iinfo(samples.ends.dtype).max) // longest)
    counts = -(-np.diff(samples.firsts) // max(1, tile))
    nonzeros, tiles = samples.columns.size, int(counts.sum())
    if tile == 0 or nonzeros < LEAST_IN_COLUMN * tiles * d:
        return samples
    both = samples._replace(
        tile=tile,
        places=np.empty(0 if samples.signs else nonzeros, np.uint16),
        rows=np.empty(nonzeros, np.uint8),
        ends=np.zeros((tiles, d), np.uint16),
        tiles=np.cumsum(counts) - counts,
    )
    gradient.order_by_columns(both)
    return both


def samples_to_draw(problem: Problem, shares: int = 1) -> gradient.DenseDraws | gradient.SparseDraws:
    """The data for a run alone that draws its samples, with scratch for so many shares of the workers."""
    dtype, inverse_norms = np.dtype(problem.dtype), _inverse_norms(problem)
    scratch = [aligned_zeros((shares * gradient.CHOSEN, LANES[problem.dtype]), dtype) for _ in range(2)]
    least = np.minimum.reduceat(inverse_norms, problem.starts[:-1])
    targets = problem.targets.astype(dtype, copy=False)
    rest = scratch[0], scratch[1], least, problem.starts, targets, inverse_norms
    if sparse.issparse(problem.rows):
        columns, starts = problem.rows.indices.astype(np.uint32), problem.rows.indptr.astype(np.int64)
        return gradient.SparseDraws(problem.rows.data.astype(dtype, copy=False), *rest, columns, starts)
    values = problem.rows.astype(dtype, copy=False)
    return gradient.DenseDraws(values, *rest, far(values.nbytes))


def padding(problem: Problem) -> float:
    """How much larger panels are than the rows they hold."""
    lanes = LANES[problem.dtype]
    return float(np.sum(-(-problem.sizes // lanes)) * lanes / problem.sizes.sum())


def samples_in_panels(problem: Problem, shares: int = 1) -> gradient.Panels:
    """Dense data with the samples in the lanes, for one run: a copy, filled up to whole panels with zeros.

    One run computes faster than it reads: where its data outgrow a core's own cache they are kept as narrow as can be.

    With scratch for the sums of so many shares of the workers.
    """
    dtype, lanes = np.dtype(problem.dtype), LANES[problem.dtype]
    counts = -(-problem.sizes // lanes)
    firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    panels = int(firsts[-1])
    kept = _type_of_panels(problem.rows, panels * lanes, dtype)
    values = aligned_zeros((panels, problem.d, lanes), kept)
    targets, norms = np.zeros((panels, lanes), dtype), np.zeros((panels, lanes), dtype)
    inverse_norms = _inverse_norms(problem)
    least = np.minimum.reduceat(inverse_norms, problem.starts[:-1])
    for i in range(problem.n):
        mine, size = slice(problem.starts[i], problem.starts[i + 1]), int(problem.sizes[i])
        here = slice(firsts[i], firsts[i + 1])
        padded = np.zeros((counts[i] * lanes, problem.d), kept)
        padded[:size] = problem.rows[mine].astype(dtype, copy=False)
        values[here] = padded.reshape(counts[i], lanes, problem.d).transpose(0, 2, 1)
        targets[here].reshape(-1)[:size] = problem.targets[mine]
        norms[here].reshape(-1)[:size] = inverse_norms[mine]
    partial = aligned_zeros((shares, problem.d, lanes), dtype)
    return gradient.Panels(values, targets, norms, least, firsts, *_tiling(values), partial)


def _type_of_panels(rows: NDArray[Any], count: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In what a run alone, of this precision, keeps rows that are so many with those that fill panels up."""
    return narrowest(rows, dtype) if far(count * rows.shape[1] * dtype.itemsize) else dtype


def as_kept(rows: Any, dtype: str = "float64") -> str:
    """In what types, and how many bytes, kernels have such rows before them."""
    wide = np.dtype(dtype)
    if sparse.issparse(rows):
        values, signs, columns = _nonzeros(rows.tocsr(), wide)
        entries = "a sign of each row" if signs else f"values in {values.dtype}"
        return f"{entries}, columns in {columns.dtype}: {_shown(values.nbytes + columns.nbytes)}"
    alone = _type_of_panels(rows, len(rows), wide)
    kept = f"{wide}: {_shown(rows.size * wide.itemsize)}"
    return kept if alone == wide else f"{kept}; for one run alone {alone}: {_shown(rows.size * alone.itemsize)}"


def bytes_beside(problem: Problem, *, alone: bool) -> int:
    """What laying out takes beside the problem's own arrays, at most: whether data are narrow is then looked at."""
    item = np.dtype(problem.dtype).itemsize
    if sparse.issparse(problem.rows):
        columns = 2 if problem.d <= 2**16 else 4
        # A copy of the values is of four bytes each, and the order by columns of three.
        return problem.work * (4 + columns + 3)
    if alone:
        return int(problem.work * padding(problem) * item)
    return problem.work * item if problem.dtype != "float64" else 0


def _shown(size: int) -> str:
    return f"{size / 1e6:#.3g} MB"


def _tiling(values: NDArray[Any]) -> tuple[int, bool]:
    """How many rows make a tile, and whether a core has to fetch them from beyond its own caches."""
    # A tile is read twice, and lies beside the next one, points and sums.
    near = hardware.second_level_bytes() // PART_OF_CACHE // values[:1].nbytes
    return max(gradient.AT_ONCE, min(gradient.ROWS, near - near % gradient.AT_ONCE)), far(values.nbytes)


def far(size: int) -> bool:
    """Whether so many bytes are more than a core's own caches hold."""
    return size > hardware.second_level_bytes()


def sums_fit(lines: int) -> bool:
    """Whether registers hold so many lines of sums of the rows that are worked on at once, and of a point."""
    count, size = hardware.vector_registers()
    return (gradient.AT_ONCE + 1) * lines * (LINE // 8 // size) + 1 <= count


def _inverse_norms(problem: Problem) -> NDArray[Any]:
    """1/‖a‖ of every row, or less where its products with thresholds and its square would overflow."""
    return np.asarray(1 / np.maximum(problem.row_norms, SHORTEST_ROW[problem.dtype])).astype(problem.dtype)
