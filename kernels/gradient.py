"""The gradient of one worker's loss, in lanes.

The same text serves both kinds of lanes, since `load` gives a vector or a scalar by the shape of the array. In
run lanes X[n, d, lanes] holds many runs and a sample is a row of scalars; in sample lanes X[n, d] is one run and
a row is a panel of samples, P[panels, d, lanes]. Either way a product is a scalar times a vector.

Rows have labels of ±1 folded in: with −b·a for a, the logistic loss is ln(1 + eᶻ) of the margin z and its slope σ(z).

Values may lie in memory in a narrower type that has all of them: they are widened in registers, to the same numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.formulas import to_slopes
from fastldp.kernels.jit import formula, serial
from fastldp.kernels.sampling import COINS, count_drawn, keep_drawn, number_drawn
from fastldp.kernels.simd import (
    all_lanes,
    broadcast,
    fabs,
    fma,
    lane_sum,
    load,
    load_wide,
    prefetch,
    scratch,
    select,
    store,
    words_like,
)

# How many rows, at most, have their margins and slopes on the stack at once: in general, and of a tile of sparse ones.
ROWS, TILE = 40, 200
# So many dense rows are worked on at once: their sums hide the latency of fma, and a point is read once for all.
AT_ONCE = 5
# So many lines of slopes of drawn rows are on the stack at once, so many rows at most; and so many of their margins are
# made at once, which do not wait for each other then.
# The numbers of the rows whose margins come next are known too.
CHOSEN, MOST_ROWS, MARGINS = 5, 88, 8

Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.number[Any]]  # floats, or narrower types that have all of the values


class DenseSamples(NamedTuple):
    """What the workers hold, as one matrix: worker i has the rows firsts[i] to firsts[i + 1]."""

    values: Floats  # (rows, d)
    targets: Floats  # (rows,): b, where it is not folded in
    inverse_norms: Floats  # (rows,): 1/‖a‖
    least_inverse_norms: Floats  # (n,): of each worker's rows
    firsts: NDArray[np.int64]  # (n + 1,)
    tile: int  # so many rows at a time, ROWS at most, are read twice
    far: bool  # whether they come from beyond a core's own caches


class SparseSamples(NamedTuple):
    """The same in compressed rows, and by columns too where that pays: sums over rows then stay in registers.

    A tile is a number of rows of a worker, or as many as are left. Its nonzeros by columns are those by rows in another
    order, and all are counted from the tile's first.
    """

    values: Numbers  # (nonzeros,), or (rows,) where there are signs
    targets: Floats
    inverse_norms: Floats
    least_inverse_norms: Floats
    firsts: NDArray[np.int64]
    signs: bool  # whether all nonzeros of each row are 1, or all −1: only which of these is then kept
    columns: NDArray[np.unsignedinteger[Any]]  # (nonzeros,)
    starts: NDArray[np.int64]  # (rows + 1,)
    tile: int  # so many rows, TILE at most; 0 where there are rows alone, and nothing follows
    places: NDArray[np.uint16]  # (nonzeros,): in the order by rows; none where there are signs
    rows: NDArray[np.uint8]  # (nonzeros,)
    ends: NDArray[np.uint16]  # (tiles, d): of each column's nonzeros
    tiles: NDArray[np.int64]  # (n,): the first of each worker


class Panels(NamedTuple):
    """The same with samples in the lanes; a worker's last panel is filled up with rows of zeros."""

    values: Numbers  # (panels, d, lanes)
    targets: Floats  # (panels, lanes)
    inverse_norms: Floats  # (panels, lanes)
    least_inverse_norms: Floats  # (n,)
    firsts: NDArray[np.int64]  # (n + 1,): worker i has the panels firsts[i] to firsts[i + 1]
    tile: int  # so many panels at a time
    far: bool
    partial: Floats  # (shares, d, lanes): scratch for the sums of each lane, a row for each share of the workers


class DenseDraws(NamedTuple):
    """Rows of which a run alone takes those that it draws, eight or sixteen in the lanes of their slopes."""

    values: Floats  # (rows, d)
    targets: Floats  # (shares · CHOSEN, lanes): of the rows at work, as are the inverse norms
    inverse_norms: Floats
    least_inverse_norms: Floats  # (n,)
    firsts: NDArray[np.int64]  # (n + 1,)
    all_targets: Floats  # (rows,)
    all_inverse_norms: Floats  # (rows,)
    far: bool  # whether a core has to fetch rows from beyond its own caches


class SparseDraws(NamedTuple):
    """The same in compressed rows."""

    values: Floats  # (nonzeros,)
    targets: Floats
    inverse_norms: Floats
    least_inverse_norms: Floats
    firsts: NDArray[np.int64]
    all_targets: Floats
    all_inverse_norms: Floats
    columns: NDArray[np.uint32]  # (nonzeros,)
    starts: NDArray[np.int64]  # (rows + 1,)


Samples = DenseSamples | SparseSamples | Panels | DenseDraws | SparseDraws


class Scratch(NamedTuple):
    """Where gradients are made: rows of at least d numbers, one for each share of the workers."""

    gradient: Floats  # (shares, d or more, lanes)
    scaled: Floats  # the same, for the point in the units that margins are wanted in
    inside: Floats  # (shares, lanes): how many gradients were not clipped, where they are counted


# So many more numbers that no two rows of one run have a cache line in common.
APART = 16

# How the gradient is made, by the type of the samples.
GRADIENTS: dict[type, Callable[..., Any]] = {}


def store_gradient(
    objective: Any, samples: Any, i: Any, X: Any, row: Any, scratch: Any, share: Any, counting: Any, draw: Any
) -> Any:
    """gradient[share] = Σ_l φ'(aₗᵀx) aₗ over worker i's samples at x = X[row], each clipped to the norm `clip`.

    Over those of a draw, (how, round, release), or where they are to be counted over all: inside[share] is then how
    many of these gradients are shorter than that.
    """
    raise NotImplementedError("only compiled code calls this")


@overload(store_gradient, inline="always")
def _by_type_of_samples(
    objective: Any, samples: Any, i: Any, X: Any, row: Any, scratch: Any, share: Any, counting: Any, draw: Any
) -> Any:
    return GRADIENTS[samples.instance_class]


def _over_rows(
    objective: Any, samples: Any, i: Any, X: Any, row: Any, scratch: Any, share: Any, counting: Any, draw: Any
) -> Any:
    inside = _sum_all(objective, samples, i, X, row, scratch.scaled, scratch.gradient, share, counting, draw)
    if counting:
        store(inside, scratch.inside, share)


def _over_panels(
    objective: Any, samples: Any, i: Any, X: Any, row: Any, scratch: Any, share: Any, counting: Any, draw: Any
) -> Any:
    inside = _sum_all(objective, samples, i, X, row, scratch.scaled, samples.partial, share, counting, draw)
    if counting:  # the shares of a run alone have a cache line in common here
        store(lane_sum(inside), scratch.inside, share)
    for j in range(X.shape[1]):
        store(lane_sum(load(samples.partial, share, j)), scratch.gradient, share, j)


def _over_draws(
    objective: Any, samples: Any, i: Any, X: Any, row: Any, scratch: Any, share: Any, counting: Any, draw: Any
) -> Any:
    _sum_drawn(objective, samples, i, X, row, scratch, share, counting, draw)


GRADIENTS |= {DenseSamples: _over_rows, SparseSamples: _over_rows, Panels: _over_panels}
GRADIENTS |= {DenseDraws: _over_draws, SparseDraws: _over_draws}


@formula
def _sum_drawn(
    objective: Any, samples: Any, i: int, X: Any, at: int, made: Any, share: int, counting: Any, draw: Any
) -> None:
    """The same sum over the drawn rows alone, of each coordinate in the same order: so it has the same bits.

    The slopes are those of lanes of rows; margins and sums are made row by row.
    """
    first, d, lanes = samples.firsts[i], X.shape[1], samples.targets.shape[1]
    size = samples.firsts[i + 1] - first
    drawn = count_drawn(draw, i, size, share, counting)
    count = size if drawn < 0 else drawn
    squares = broadcast(0.0, load(X, at, 0))
    for j in range(d):
        x = load(X, at, j)
        squares = fma(x, x, squares)
        store(x * objective.unit, made.scaled, share, j)
        store(broadcast(0.0, x), made.gradient, share, j)
    within = objective.reach > 0 and _within(objective, samples, i, squares)
    inside, begin = broadcast(0.0, squares), share * CHOSEN
    slopes, rows = scratch(load(samples.targets, 0), CHOSEN), scratch(first, MOST_ROWS)
    for done in range(0, count, CHOSEN * lanes):
        several = min(count - done, CHOSEN * lanes)
        lines = (several + lanes - 1) // lanes
        for k in range(lines * lanes + MARGINS):
            place = min(done + k, count - 1)
            store(first + (place if drawn < 0 else number_drawn(draw, share, place)), rows, k)
        for k in range(lines * lanes):
            row = load(rows, k)
            # What fills up has the limit zero.
            inverse = load(samples.all_inverse_norms, row)
            store(inverse if k < several else inverse * 0.0, samples.inverse_norms, begin + k // lanes, k % lanes)
            store(load(samples.all_targets, row), samples.targets, begin + k // lanes, k % lanes)
        _drawn_margins(samples, rows, lines * lanes, d, made.scaled, share, slopes)
        to_slopes(objective, within, samples, begin, lines, slopes)
        if counting:
            inside = inside + lane_sum(_unclipped(objective, samples, begin, lines, slopes))
        _add_drawn(samples, rows, several, d, slopes, share, made.gradient)
    if counting:
        store(inside, made.inside, share)


def _drawn_margins(samples: Any, rows: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    """Of so many rows, to lanes of margins, one after the other."""
    raise NotImplementedError("only compiled code calls this")


def _add_drawn(samples: Any, rows: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    """G[at, :d] += Σ of so many rows times their slopes."""
    raise NotImplementedError("only compiled code calls this")


@overload(_drawn_margins, inline="always")
def _drawn_margins_by_type(samples: Any, rows: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    return _margins_of_sparse_draws if samples.instance_class is SparseDraws else _margins_of_dense_draws


@overload(_add_drawn, inline="always")
def _add_drawn_by_type(samples: Any, rows: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    return _add_sparse_draws if samples.instance_class is SparseDraws else _add_dense_draws


def _margins_of_dense_draws(samples: Any, rows: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    lanes = margins.shape[1]
    if samples.far:
        for k in range(0, count, MARGINS):
            _eight_margins(samples.values, rows, k, d, X, at, margins, lanes, True)
    else:
        for k in range(0, count, MARGINS):
            _eight_margins(samples.values, rows, k, d, X, at, margins, lanes, False)


@formula
def _eight_margins(A: Any, rows: Any, k: int, d: int, X: Any, at: int, margins: Any, lanes: int, far: bool) -> None:
    r0, r1, r2, r3 = load(rows, k), load(rows, k + 1), load(rows, k + 2), load(rows, k + 3)
    r4, r5, r6, r7 = load(rows, k + 4), load(rows, k + 5), load(rows, k + 6), load(rows, k + 7)
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = broadcast(0.0, load(X, at, 0))
    for j in range(d):
        x = load(X, at, j)
        if far:
            # The next eight rows are on their way from memory: a line of each in turns.
            prefetch(1, x, A, load(rows, k + MARGINS + j % MARGINS), j // MARGINS)
        m0, m1 = fma(load(A, r0, j), x, m0), fma(load(A, r1, j), x, m1)
        m2, m3 = fma(load(A, r2, j), x, m2), fma(load(A, r3, j), x, m3)
        m4, m5 = fma(load(A, r4, j), x, m4), fma(load(A, r5, j), x, m5)
        m6, m7 = fma(load(A, r6, j), x, m6), fma(load(A, r7, j), x, m7)
    line, lane = k // lanes, k % lanes
    store(m0, margins, line, lane)
    store(m1, margins, line, lane + 1)
    store(m2, margins, line, lane + 2)
    store(m3, margins, line, lane + 3)
    store(m4, margins, line, lane + 4)
    store(m5, margins, line, lane + 5)
    store(m6, margins, line, lane + 6)
    store(m7, margins, line, lane + 7)


def _add_dense_draws(samples: Any, rows: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    fives, lanes = count - count % AT_ONCE, slopes.shape[1]
    for k in range(0, fives, AT_ONCE):
        _add_five_draws(samples.values, rows, k, d, slopes, at, G, lanes)
    for k in range(fives, count):
        s, row = load(slopes, k // lanes, k % lanes), load(rows, k)
        for j in range(d):
            store(fma(load(samples.values, row, j), s, load(G, at, j)), G, at, j)


@formula
def _add_five_draws(A: Any, rows: Any, k: int, d: int, slopes: Any, at: int, G: Any, lanes: int) -> None:
    r0, r1, r2, r3, r4 = load(rows, k), load(rows, k + 1), load(rows, k + 2), load(rows, k + 3), load(rows, k + 4)
    s0, s1 = load(slopes, k // lanes, k % lanes), load(slopes, (k + 1) // lanes, (k + 1) % lanes)
    s2, s3 = load(slopes, (k + 2) // lanes, (k + 2) % lanes), load(slopes, (k + 3) // lanes, (k + 3) % lanes)
    s4 = load(slopes, (k + 4) // lanes, (k + 4) % lanes)
    for j in range(d):  # coordinates lie side by side: LLVM puts them in lanes
        g = fma(load(A, r0, j), s0, load(G, at, j))
        g = fma(load(A, r1, j), s1, g)
        g = fma(load(A, r2, j), s2, g)
        g = fma(load(A, r3, j), s3, g)
        store(fma(load(A, r4, j), s4, g), G, at, j)


def _margins_of_sparse_draws(samples: Any, rows: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    lanes = margins.shape[1]
    for k in range(count):
        row, margin = load(rows, k), broadcast(0.0, load(X, at, 0))
        for e in range(load(samples.starts, row), load(samples.starts, row + 1)):
            margin = fma(load(samples.values, e), load(X, at, load(samples.columns, e)), margin)
        store(margin, margins, k // lanes, k % lanes)


def _add_sparse_draws(samples: Any, rows: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    lanes = slopes.shape[1]
    for k in range(count):
        row, s = load(rows, k), load(slopes, k // lanes, k % lanes)
        for e in range(load(samples.starts, row), load(samples.starts, row + 1)):
            column = load(samples.columns, e)
            store(fma(load(samples.values, e), s, load(G, at, column)), G, at, column)


@formula
def _sum_all(
    objective: Any, samples: Any, i: int, X: Any, at: int, scaled: Any, G: Any, share: int, counting: Any, draw: Any
) -> Any:
    first, end = samples.firsts[i], samples.firsts[i + 1]
    zero, squares = broadcast(0.0, load(G, share, 0)), broadcast(0.0, load(X, at, 0))
    for j in range(X.shape[1]):
        x = load(X, at, j)
        squares = fma(x, x, squares)
        store(x * objective.unit, scaled, share, j)
        store(zero, G, share, j)
    within = objective.reach > 0 and _within(objective, samples, i, squares)
    # Some rows at a time: all margins, then all slopes, then all products of these. In a loop of their own slopes need
    # not wait for each other; among the products LLVM would have them wait in memory.
    slopes = scratch(load(G, share, 0), TILE)
    several, inside, coins = _several(samples), zero, scratch(words_like(zero), COINS)
    for row in range(first, end, several):
        count = min(several, end - row)
        _margins(samples, row, count, X.shape[1], scaled, share, slopes)
        to_slopes(objective, within, samples, row, count, slopes)
        if not counting:
            keep_drawn(draw, i, row - first, count, coins, slopes)
        _add_products(samples, i, row, count, X.shape[1], slopes, share, G)
        if counting:
            inside = inside + _unclipped(objective, samples, row, count, slopes)
    return inside


@formula
def _unclipped(objective: Any, samples: Any, row: int, count: int, slopes: Any) -> Any:
    """How many of so many rows from `row` on have slopes below their limit: clipped ones are at it."""
    clip, one = load(objective.clip, 0), broadcast(1.0, load(slopes, 0))
    inside = broadcast(0.0, one)
    for k in range(count):
        # What fills up panels has the limit zero.
        short = fabs(load(slopes, k)) < clip * load(samples.inverse_norms, row + k)
        inside = inside + select(short, one, broadcast(0.0, one))
    return inside


@formula
def _within(objective: Any, samples: Any, i: int, squares: Any) -> Any:
    """Whether all margins of worker i are within reach, since |aᵀx| <= |a||x|, and no slope, up to 1, is clipped."""
    least = load(samples.least_inverse_norms, i)
    largest_norm = objective.reach * least
    return all_lanes(squares <= largest_norm * largest_norm) and all_lanes(load(objective.clip, 0) * least >= 1.0)


def _several(samples: Any) -> Any:
    """How many rows are worked on at a time."""
    raise NotImplementedError("only compiled code calls this")


def _margins(samples: Any, row: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    """margins[k] = aᵀx of the rows row + k, k < count, at x = X[at, :d]."""
    raise NotImplementedError("only compiled code calls this")


def _add_products(samples: Any, i: Any, row: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    """G[at, :d] += Σ_k slopes[k] aₖ of worker i's rows row + k, k < count."""
    raise NotImplementedError("only compiled code calls this")


@overload(_several, inline="always")
def _several_by_type(samples: Any) -> Any:
    return _several_sparse if samples.instance_class is SparseSamples else _several_dense


@overload(_margins, inline="always")
def _margins_by_type(samples: Any, row: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    return _margins_of_sparse if samples.instance_class is SparseSamples else _margins_of_dense


@overload(_add_products, inline="always")
def _add_products_by_type(samples: Any, i: Any, row: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    return _add_sparse if samples.instance_class is SparseSamples else _add_dense


def _several_dense(samples: Any) -> Any:
    return samples.tile


def _margins_of_dense(samples: Any, row: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    fives = count - count % AT_ONCE
    if samples.far:
        for k in range(0, fives, AT_ONCE):
            _five_margins(samples.values, row + k, d, X, at, margins, k, samples.tile)
    else:
        for k in range(0, fives, AT_ONCE):
            _five_margins(samples.values, row + k, d, X, at, margins, k, 0)
    for k in range(fives, count):
        margin = broadcast(0.0, load(margins, k))
        for j in range(d):
            margin = fma(load_wide(margin, samples.values, row + k, j), load(X, at, j), margin)
        store(margin, margins, k)


def _add_dense(samples: Any, i: Any, row: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    fives = count - count % AT_ONCE
    for k in range(0, fives, AT_ONCE):
        _add_five(samples.values, row + k, d, slopes, k, at, G)
    for k in range(fives, count):
        s = load(slopes, k)
        for j in range(d):
            store(fma(load_wide(s, samples.values, row + k, j), s, load(G, at, j)), G, at, j)


@formula
def _five_margins(A: Any, row: int, d: int, X: Any, at: int, margins: Any, k: int, ahead: int) -> None:
    m0 = m1 = m2 = m3 = m4 = broadcast(0.0, load(margins, 0))
    for j in range(d):
        x = load(X, at, j)
        if ahead > 0:
            # The next tile is on its way from memory while this one is worked on.
            prefetch(AT_ONCE, m0, A, row + ahead, j)
        m0 = fma(load_wide(m0, A, row, j), x, m0)
        m1 = fma(load_wide(m1, A, row + 1, j), x, m1)
        m2 = fma(load_wide(m2, A, row + 2, j), x, m2)
        m3 = fma(load_wide(m3, A, row + 3, j), x, m3)
        m4 = fma(load_wide(m4, A, row + 4, j), x, m4)
    store(m0, margins, k)
    store(m1, margins, k + 1)
    store(m2, margins, k + 2)
    store(m3, margins, k + 3)
    store(m4, margins, k + 4)


@formula
def _add_five(A: Any, row: int, d: int, slopes: Any, k: int, at: int, G: Any) -> None:
    s0, s1, s2 = load(slopes, k), load(slopes, k + 1), load(slopes, k + 2)
    s3, s4 = load(slopes, k + 3), load(slopes, k + 4)
    for j in range(d):
        g = load(G, at, j)
        g = fma(load_wide(g, A, row, j), s0, g)
        g = fma(load_wide(g, A, row + 1, j), s1, g)
        g = fma(load_wide(g, A, row + 2, j), s2, g)
        g = fma(load_wide(g, A, row + 3, j), s3, g)
        g = fma(load_wide(g, A, row + 4, j), s4, g)
        store(g, G, at, j)


def _several_sparse(samples: Any) -> Any:
    return samples.tile if samples.tile > 0 else ROWS


def _margins_of_sparse(samples: Any, row: Any, count: Any, d: Any, X: Any, at: Any, margins: Any) -> Any:
    for k in range(count):
        margin = broadcast(0.0, load(X, at, 0))
        first, end = load(samples.starts, row + k), load(samples.starts, row + k + 1)
        if samples.signs:
            for e in range(first, end):
                margin = margin + load(X, at, load(samples.columns, e))
            # Rounded as sums of terms with the sign would be, and never −0, as they never are.
            margin = fma(load_wide(margin, samples.values, row + k), margin, 0.0)
        else:
            for e in range(first, end):
                margin = fma(load_wide(margin, samples.values, e), load(X, at, load(samples.columns, e)), margin)
        store(margin, margins, k)


def _add_sparse(samples: Any, i: Any, row: Any, count: Any, d: Any, slopes: Any, at: Any, G: Any) -> Any:
    if samples.signs:
        for k in range(count):
            s = load(slopes, k)
            store(load_wide(s, samples.values, row + k) * s, slopes, k)
    if samples.tile > 0:
        tile = load(samples.tiles, i) + (row - load(samples.firsts, i)) // samples.tile
        _add_tile(samples, tile, load(samples.starts, row), d, slopes, at, G)
    else:
        for k in range(count):
            s = load(slopes, k)
            first, end = load(samples.starts, row + k), load(samples.starts, row + k + 1)
            if samples.signs:
                for e in range(first, end):
                    column = load(samples.columns, e)
                    store(load(G, at, column) + s, G, at, column)
            else:
                for e in range(first, end):
                    column = load(samples.columns, e)
                    store(fma(load_wide(s, samples.values, e), s, load(G, at, column)), G, at, column)


@formula
def _add_tile(samples: Any, tile: int, first: int, d: int, slopes: Any, at: int, G: Any) -> None:
    """The same sums in the same order, but G is read and written once a column instead of once a nonzero."""
    begin = first
    for j in range(d):
        end = first + load(samples.ends, tile, j)
        g = load(G, at, j)
        if samples.signs:
            for e in range(begin, end):
                g = g + load(slopes, load(samples.rows, e))
        else:
            for e in range(begin, end):
                value = load_wide(g, samples.values, first + load(samples.places, e))
                g = fma(value, load(slopes, load(samples.rows, e)), g)
        store(g, G, at, j)
        begin = end


@serial
def order_by_columns(samples: Any) -> None:
    """Fill in the nonzeros of each tile by columns: a column's stay in the order of their rows."""
    firsts, starts, columns, ends = samples.firsts, samples.starts, samples.columns, samples.ends
    for i in range(samples.tiles.size):
        for tile, begin in enumerate(range(firsts[i], firsts[i + 1], samples.tile), samples.tiles[i]):
            end = min(begin + samples.tile, firsts[i + 1])
            first = starts[begin]
            for e in range(first, starts[end]):
                ends[tile, columns[e]] += 1
            total = 0
            for j in range(ends.shape[1]):
                # Where a column's begin, for now: each that is filled in moves it on, and the last to their end.
                total, ends[tile, j] = total + ends[tile, j], total
            for row in range(begin, end):
                for e in range(starts[row], starts[row + 1]):
                    at = first + ends[tile, columns[e]]
                    if samples.places.size > 0:
                        samples.places[at] = e - first
                    samples.rows[at] = row - begin
                    ends[tile, columns[e]] += 1
