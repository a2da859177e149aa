"""The gradient of one worker's loss, for all runs of a block at once."""

from typing import Any, NamedTuple

import numpy as np
from fastldp.kernels.jit import formula
from fastldp.kernels.simd import broadcast, entry, fma, load, maximum, minimum, store
from fastldp.kernels.vmath import sigmoid
from numba.extending import overload
from numpy.typing import NDArray

LOGISTIC = 0
SQUARED = 1


class DenseSamples(NamedTuple):
    """What the workers hold, as one C-contiguous matrix: worker i has the rows firsts[i] to firsts[i + 1]."""

    values: NDArray[np.floating[Any]]
    labels: NDArray[np.floating[Any]]
    limits: NDArray[np.floating[Any]]
    firsts: NDArray[np.int64]


class SparseSamples(NamedTuple):
    """The same in compressed rows."""

    values: NDArray[np.floating[Any]]
    labels: NDArray[np.floating[Any]]
    limits: NDArray[np.floating[Any]]
    firsts: NDArray[np.int64]
    columns: NDArray[np.uint32]
    starts: NDArray[np.int64]


Samples = DenseSamples | SparseSamples


@formula
def slope(loss: int, margin: Any, label: Any, limit: Any) -> Any:
    """dφ/d(margin), limited: φ' is −b/(1 + exp(b·margin)) for the logistic loss, margin − b for the squared.

    A sample's gradient is this number times its row, so limiting it clips the sample's gradient.
    """
    if loss == LOGISTIC:
        derivative = -label * sigmoid(-label * margin)
    else:
        derivative = margin - label
    # In this order of arguments a NaN comes through, so that a diverged run is seen.
    return minimum(limit, maximum(-limit, derivative))


def add_gradient(loss: Any, samples: Any, X: Any, i: Any, G: Any) -> Any:
    """G[i] += Σ_l φ'(aₗᵀx) aₗ over worker i's samples at x = X[i]; dense or sparse by the type of the rows."""
    raise NotImplementedError("only compiled code calls this")


@overload(add_gradient, inline="always")
def _by_type_of_samples(loss: Any, samples: Any, X: Any, i: Any, G: Any) -> Any:
    return _sparse if samples.instance_class is SparseSamples else _dense


def _dense(loss: Any, samples: Any, X: Any, i: Any, G: Any) -> Any:
    _add_dense(loss, samples, X, i, G)


def _sparse(loss: Any, samples: Any, X: Any, i: Any, G: Any) -> Any:
    _add_sparse(loss, samples, X, i, G)


@formula
def _add_dense(loss: int, samples: Any, X: Any, i: int, G: Any) -> None:
    d = X.shape[1]
    A, labels, limits = samples.values, samples.labels, samples.limits
    zero = broadcast(0.0, load(X, 0, 0))
    row, stop = samples.firsts[i], samples.firsts[i + 1]
    # Four samples at once: their sums hide the latency of the products, and G is read once for all four.
    while row + 4 <= stop:
        m0 = m1 = m2 = m3 = zero
        for j in range(d):
            x = load(X, i, j)
            m0 = fma(entry(A, row, j), x, m0)
            m1 = fma(entry(A, row + 1, j), x, m1)
            m2 = fma(entry(A, row + 2, j), x, m2)
            m3 = fma(entry(A, row + 3, j), x, m3)
        s0 = slope(loss, m0, labels[row], limits[row])
        s1 = slope(loss, m1, labels[row + 1], limits[row + 1])
        s2 = slope(loss, m2, labels[row + 2], limits[row + 2])
        s3 = slope(loss, m3, labels[row + 3], limits[row + 3])
        for j in range(d):
            g = load(G, i, j)
            g = fma(entry(A, row, j), s0, g)
            g = fma(entry(A, row + 1, j), s1, g)
            g = fma(entry(A, row + 2, j), s2, g)
            g = fma(entry(A, row + 3, j), s3, g)
            store(g, G, i, j)
        row += 4
    while row < stop:
        m0 = zero
        for j in range(d):
            m0 = fma(entry(A, row, j), load(X, i, j), m0)
        s0 = slope(loss, m0, labels[row], limits[row])
        for j in range(d):
            store(fma(entry(A, row, j), s0, load(G, i, j)), G, i, j)
        row += 1


@formula
def _add_sparse(loss: int, samples: Any, X: Any, i: int, G: Any) -> None:
    values, columns, starts = samples.values, samples.columns, samples.starts
    zero = broadcast(0.0, load(X, 0, 0))
    for row in range(samples.firsts[i], samples.firsts[i + 1]):
        margin = zero
        for k in range(starts[row], starts[row + 1]):
            margin = fma(entry(values, k), load(X, i, entry(columns, k)), margin)
        s = slope(loss, margin, samples.labels[row], samples.limits[row])
        for k in range(starts[row], starts[row + 1]):
            column = entry(columns, k)
            store(fma(entry(values, k), s, load(G, i, column)), G, i, column)
