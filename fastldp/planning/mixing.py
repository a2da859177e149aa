"""How fast a graph mixes: the eigenvalues of I − W, off the vector 1 that W leaves as it is."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from fastldp.problems.prior import Modes
from fastldp.problems.spectrum import DENSE_ORDER, ITERATIVE_ERROR
from fastldp.topology import Graph

Array = NDArray[np.float64]

# Eigenvalues that are as near as this count as one.
NEAR = 1.05
# Beyond `DENSE_ORDER` workers the spectrum is found by so many steps of Lanczos' method from so many vectors.
STEPS, PROBES = 160, 32
# For the least one so many restarts, before a factor of the matrix is made; what that is moved by to have one.
RESTARTS, MOVED = 300, 1e-12


class Gaps(NamedTuple):
    """I − W on all that the workers' models can differ by."""

    values: Array
    """The eigenvalues ℓ = 1 − λ > 0, each once."""
    counts: Array
    """The noise along their eigenvectors, over the mean of the workers': their number, where all have the same."""

    @classmethod
    def complete(cls, n: int) -> Gaps:
        """Of W = 11ᵀ/n, a server's mean; whatever the workers' noise."""
        return cls(np.ones(1), np.array([n - 1.0]))

    @classmethod
    def of(cls, W: Any, factors: Array) -> Gaps:
        """Of a matrix of weights, sparse or not, where the variances of the workers' noise are as their factors."""
        n = factors.size
        if n <= DENSE_ORDER:
            values, vectors = np.linalg.eigh(np.eye(n) - dense(W))
            # The first is the zero along 1.
            return _merged(values[1:], (vectors[:, 1:] ** 2).T @ factors / factors.mean())
        signs = np.random.default_rng(0).choice((-1.0, 1.0), (n, PROBES))
        return _merged(*_quadrature(W, np.sqrt(factors / factors.mean())[:, None] * signs))

    def with_failures(self, failures: float) -> Gaps:
        """Where such a share of links is missing in every round: of the mean W."""
        return Gaps((1 - failures) * self.values, self.counts)

    def shares(self, modes: Modes, parts: int, taus: Array) -> Array:
        """What noise counts in the consensus error, as that of the average does in ‖x̄ − x*‖², in the time τ = γT/n.

        For steps that go to zero: ½ e^{−(nℓ + nh)s}, along each ℓ and h.
        """
        of_gaps = np.exp(-parts * np.outer(taus, self.values)) @ self.counts
        return np.asarray(0.5 * of_gaps * (np.exp(-np.outer(taus, modes.rates)) @ modes.counts))


@lru_cache(maxsize=8)
def _of_alike(graph: Graph, n: int) -> Gaps:
    """Kept, for a sweep plans on one graph many times."""
    return Gaps.of(graph.matrix(n), np.ones(n))


def gaps_of(graph: Graph | None, factors: Array, failures: float | None = None) -> Gaps:
    """Of the workers with these factors of noise on a graph, or around a server where there is none."""
    n = factors.size
    if graph is None:
        return Gaps.complete(n)
    found = _of_alike(graph, n) if (factors == factors[0]).all() else Gaps.of(graph.matrix(n), factors)
    return found.with_failures(failures or 0.0)


class Extremes(NamedTuple):
    """Of the eigenvalues of I − W off 1: 1 − λ₂ or a little less, and 1 − λₙ or more."""

    least: float
    greatest: float


@lru_cache(maxsize=8)
def extremes(graph: Graph | None, n: int) -> Extremes:
    """Of n workers on a graph, or around a server."""
    if graph is None or n == 1:
        return Extremes(1.0, 1.0)
    W = graph.matrix(n)
    if n <= DENSE_ORDER:
        values = np.linalg.eigvalsh(np.eye(n) - dense(W))
        return Extremes(float(values[1]), float(values[-1]))
    # Each eigenvalue is within a circle around an entry of the diagonal (Gershgorin).
    greatest = 2 * float(np.max(1 - W.diagonal()))
    off_ones = LinearOperator((n, n), matvec=lambda v: W @ v - v.mean(), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    try:
        second = eigsh(
            off_ones, 1, which="LA", v0=start, maxiter=RESTARTS, tol=ITERATIVE_ERROR, return_eigenvectors=False
        )
        least = 1 - float(second[0])
    except ArpackNoConvergence:
        # Those that hang together so loosely have factors with few entries.
        laplacian = sparse.csc_array(sparse.eye_array(n) - W)
        least = float(eigsh(laplacian, 2, sigma=-MOVED, v0=start, return_eigenvectors=False).max())
    return Extremes(least * (1 - ITERATIVE_ERROR), greatest)


def dense(W: Any) -> Array:
    """A matrix as an array."""
    return np.asarray(W.toarray() if sparse.issparse(W) else W)


def _quadrature(W: Any, starts: Array) -> tuple[Array, Array]:
    """ℓ and counts, so that Σ count f(ℓ) is the mean of startᵀ f(I − W) start off 1: Lanczos' method and Gauss' rule.

    Without orthogonalization eigenvalues come out several times, with counts that add up to what they should.
    """
    starts = starts - starts.mean(axis=0)
    squares = np.sum(starts * starts, axis=0)
    now, before = starts / np.sqrt(squares), np.zeros_like(starts)
    diagonal, beside = np.zeros((2, STEPS, PROBES))
    for k in range(STEPS):
        w = now - W @ now - (beside[k - 1] * before if k else 0.0)
        diagonal[k] = np.sum(now * w, axis=0)
        w -= diagonal[k] * now
        w -= w.mean(axis=0)
        # Where few eigenvalues differ all is found early; the rest then counts nothing.
        beside[k] = np.maximum(np.sqrt(np.sum(w * w, axis=0)), np.finfo(np.float64).eps)
        now, before = w / beside[k], now
    found = [eigh_tridiagonal(diagonal[:, k], beside[:-1, k]) for k in range(PROBES)]
    counts = [squares[k] / PROBES * vectors[0] ** 2 for k, (_, vectors) in enumerate(found)]
    return np.concatenate([values for values, _ in found]), np.concatenate(counts)


def _merged(values: Array, counts: Array) -> Gaps:
    """Eigenvalues that are near as one, so that the mean of 1/ℓ stays."""
    values = np.maximum(values, np.finfo(np.float64).eps)
    group = np.unique(np.floor(np.log(values) / math.log(NEAR) + 0.5), return_inverse=True)[1]
    total: Array = np.bincount(group, counts).astype(np.float64)
    kept = total > 0
    return Gaps((total[kept] / np.bincount(group, counts / values)[kept]), total[kept])
