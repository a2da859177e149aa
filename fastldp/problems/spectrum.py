"""Extreme eigenvalues of the shards' second moments, for the constants L_f and μ_f."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import LinearOperator, eigsh

# Up to this order a Gram matrix is formed; beyond it only products with A are used.
DENSE_ORDER = 1500
# What an iterative eigenvalue may fall short by; added, since 1/L_f must be a safe step.
ITERATIVE_ERROR = 1e-8


def extreme_curvatures(A: Any, starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n, 2): the least and greatest eigenvalue of AᵢᵀAᵢ/mᵢ of each shard."""
    return np.array([_extremes(A[start:stop]) for start, stop in pairwise(starts)])


def _extremes(rows: Any) -> tuple[float, float]:
    m, d = rows.shape
    if min(m, d) <= DENSE_ORDER:
        gram = rows.T @ rows if d <= m else rows @ rows.T
        values = eigvalsh((gram.toarray() if sparse.issparse(gram) else gram) / m)
        # Fewer samples than features leave directions without any curvature.
        return (max(float(values[0]), 0.0) if d <= m else 0.0), float(values[-1])
    operator = LinearOperator((d, d), matvec=lambda v: rows.T @ (rows @ v) / m, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(d)
    largest = eigsh(operator, k=1, v0=start, tol=ITERATIVE_ERROR, return_eigenvectors=False)
    return 0.0, float(largest[0]) * (1 + ITERATIVE_ERROR)
