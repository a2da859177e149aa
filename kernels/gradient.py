"""The gradient of one worker's loss, in lanes.

The same text serves both kinds of lanes, since `load` gives a vector or a scalar by the shape of the array. In
run lanes X[n, d, lanes] holds many runs and a sample is a row of scalars; in sample lanes X[n, d] is one run and
a row is a panel of samples, P[panels, d, lanes]. Either way a product is a scalar times a vector.

Rows have the label folded in for the logistic loss: with −b·a for a, φ is ln(1 + eᶻ) of the margin z and φ' is σ(z).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import broadcast, fma, lane_sum, load, maximum, minimum, prefetch, store
from fastldp.kernels.vmath import sigmoid

LOGISTIC = 0
SQUARED = 1
SOFTMAX = 2  # of a network

Floats = NDArray[np.floating[Any]]


class DenseSamples(NamedTuple):
    """What the workers hold, as one matrix: worker i has the rows firsts[i] to firsts[i + 1]."""

    values: Floats  # (rows, d)
    targets: Floats  # (rows,): b for the squared loss
    inverse_norms: Floats  # (rows,): 1/‖a‖
    firsts: NDArray[np.int64]  # (n + 1,)


class SparseSamples(NamedTuple):
    """The same in compressed rows."""

    values: Floats  # (nonzeros,)
    targets: Floats
    inverse_norms: Floats
    firsts: NDArray[np.int64]
    columns: NDArray[np.uint32]  # (nonzeros,)
    starts: NDArray[np.int64]  # (rows + 1,)


class Panels(NamedTuple):
    """The same with samples in the lanes; a worker's last panel is filled up with rows of zeros."""

    values: Floats  # (panels, d, lanes)
    targets: Floats  # (panels, lanes)
    inverse_norms: Floats  # (panels, lanes)
    firsts: NDArray[np.int64]  # (n + 1,): worker i has the panels firsts[i] to firsts[i + 1]
    partial: Floats  # (n, d, lanes): room for the sums of each lane


Samples = DenseSamples | SparseSamples | Panels

# How the gradient is made, by the type of the samples.
GRADIENTS: dict[type, Callable[..., Any]] = {}


def add_gradient(loss: Any, clip: Any, samples: Any, i: Any, X: Any, row: Any, G: Any) -> Any:
    """G[i] += Σ_l φ'(aₗᵀx) aₗ over worker i's samples at x = X[row], each clipped to the norm `clip`."""
    raise NotImplementedError("only compiled code calls this")


@overload(add_gradient, inline="always")
def _by_type_of_samples(loss: Any, clip: Any, samples: Any, i: Any, X: Any, row: Any, G: Any) -> Any:
    return GRADIENTS[samples.instance_class]


def _rows(loss: Any, clip: Any, samples: Any, i: Any, X: Any, row: Any, G: Any) -> Any:
    _dense(loss, clip, samples, i, X, row, G)


def _panels(loss: Any, clip: Any, samples: Any, i: Any, X: Any, row: Any, G: Any) -> Any:
    for j in range(X.shape[1]):
        store(broadcast(0.0, load(samples.partial, i, j)), samples.partial, i, j)
    _dense(loss, clip, samples, i, X, row, samples.partial)
    for j in range(X.shape[1]):
        store(load(G, i, j) + lane_sum(load(samples.partial, i, j)), G, i, j)


# The loss is chosen out here, once a worker: chosen in the loops it would cost a tenth of the gradient.
@formula
def _dense(loss: int, clip: Any, samples: Any, i: int, X: Any, at: int, G: Any) -> None:
    if loss == LOGISTIC:
        _add_dense(LOGISTIC, clip, samples, i, X, at, G)
    else:
        _add_dense(SQUARED, clip, samples, i, X, at, G)


def _sparse(loss: Any, clip: Any, samples: Any, i: Any, X: Any, row: Any, G: Any) -> Any:
    if loss == LOGISTIC:
        _add_sparse(LOGISTIC, clip, samples, i, X, row, G)
    else:
        _add_sparse(SQUARED, clip, samples, i, X, row, G)


GRADIENTS |= {DenseSamples: _rows, SparseSamples: _sparse, Panels: _panels}


@formula
def slope(loss: int, margin: Any, target: Any, limit: Any) -> Any:
    """φ'(margin), limited: σ(z) for the logistic loss, z − b for the squared.

    A sample's gradient is this number times its row, so limiting it clips the sample's gradient.
    """
    # In this order of arguments a NaN comes through, so that a diverged run is seen.
    if loss == LOGISTIC:
        return minimum(limit, sigmoid(margin))
    return minimum(limit, maximum(-limit, margin - target))


@formula
def _slope_within(loss: int, clip: Any, margin: Any, samples: Any, row: int, last: int) -> Any:
    """The slope of a row; past a worker's last row its limit is zero, and so is the slope."""
    inside = 1.0 if row <= last else 0.0
    row = min(row, last)
    return slope(loss, margin, load(samples.targets, row), clip * (load(samples.inverse_norms, row) * inside))


@formula
def _add_dense(loss: int, clip: Any, samples: Any, i: int, X: Any, at: int, G: Any) -> None:
    d = X.shape[1]
    A = samples.values
    zero = broadcast(0.0, load(G, i, 0))
    last = samples.firsts[i + 1] - 1
    # Five rows at once: their sums hide the latency of fma, and G is read once for all five.
    for row in range(samples.firsts[i], last + 1, 5):
        # Past the end the last row is read again, with slope zero.
        r1, r2, r3, r4 = min(row + 1, last), min(row + 2, last), min(row + 3, last), min(row + 4, last)
        m0 = m1 = m2 = m3 = m4 = zero
        for j in range(d):
            x = load(X, at, j)
            # The next panels are on their way from memory while these are worked on.
            prefetch(A, row + 5, j)
            prefetch(A, row + 6, j)
            prefetch(A, row + 7, j)
            prefetch(A, row + 8, j)
            prefetch(A, row + 9, j)
            m0 = fma(load(A, row, j), x, m0)
            m1 = fma(load(A, r1, j), x, m1)
            m2 = fma(load(A, r2, j), x, m2)
            m3 = fma(load(A, r3, j), x, m3)
            m4 = fma(load(A, r4, j), x, m4)
        s0 = _slope_within(loss, clip, m0, samples, row, last)
        s1 = _slope_within(loss, clip, m1, samples, row + 1, last)
        s2 = _slope_within(loss, clip, m2, samples, row + 2, last)
        s3 = _slope_within(loss, clip, m3, samples, row + 3, last)
        s4 = _slope_within(loss, clip, m4, samples, row + 4, last)
        for j in range(d):
            g = load(G, i, j)
            g = fma(load(A, row, j), s0, g)
            g = fma(load(A, r1, j), s1, g)
            g = fma(load(A, r2, j), s2, g)
            g = fma(load(A, r3, j), s3, g)
            g = fma(load(A, r4, j), s4, g)
            store(g, G, i, j)


@formula
def _sparse_margin(samples: Any, row: int, X: Any, at: int) -> Any:
    margin = broadcast(0.0, load(X, at, 0))
    for k in range(load(samples.starts, row), load(samples.starts, row + 1)):
        margin = fma(load(samples.values, k), load(X, at, load(samples.columns, k)), margin)
    return margin


@formula
def _add_sparse_row(samples: Any, row: int, s: Any, i: int, G: Any) -> None:
    for k in range(load(samples.starts, row), load(samples.starts, row + 1)):
        column = load(samples.columns, k)
        store(fma(load(samples.values, k), s, load(G, i, column)), G, i, column)


@formula
def _add_sparse(loss: int, clip: Any, samples: Any, i: int, X: Any, at: int, G: Any) -> None:
    last = samples.firsts[i + 1] - 1
    # Four rows at once, so that their slopes are computed side by side.
    for row in range(samples.firsts[i], last + 1, 4):
        r1, r2, r3 = min(row + 1, last), min(row + 2, last), min(row + 3, last)
        m0 = _sparse_margin(samples, row, X, at)
        m1 = _sparse_margin(samples, r1, X, at)
        m2 = _sparse_margin(samples, r2, X, at)
        m3 = _sparse_margin(samples, r3, X, at)
        s0 = _slope_within(loss, clip, m0, samples, row, last)
        s1 = _slope_within(loss, clip, m1, samples, row + 1, last)
        s2 = _slope_within(loss, clip, m2, samples, row + 2, last)
        s3 = _slope_within(loss, clip, m3, samples, row + 3, last)
        _add_sparse_row(samples, row, s0, i, G)
        _add_sparse_row(samples, r1, s1, i, G)
        _add_sparse_row(samples, r2, s2, i, G)
        _add_sparse_row(samples, r3, s3, i, G)
