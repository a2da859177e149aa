"""How much each worker counts: f = Σᵢ wᵢ fᵢ with wᵢ = 1/n, or wᵢ = mᵢ/M of all M rows.

Whatever is said of uniform weights holds of others with n wᵢ fᵢ in the place of fᵢ: the block of worker i in the
gradient of the stacked f(x₁..xₙ) = Σ wᵢ fᵢ(xᵢ) is wᵢ∇fᵢ, so L_f = maxᵢ wᵢLᵢ and μ_f = minᵢ wᵢμᵢ, and one sample moves
it by 2wᵢB/mᵢ: 2B/M, the same for all, where rows count. g is not weighted. The methods do it in three ways:

- Algorithm 1 releases wᵢ∇fᵢ, and wᵢ l2 xᵢ is added to it; everything else stays, the prox of (γ/n)g too. At a fixed
  point all messages agree, so wᵢ∇fᵢ(x) + Λᵢ are equal, to (1/n)∇f(x) as the duals sum to zero: x minimises f + g.
- ISRL-DP and DP-ScaffNew release n wᵢ∇fᵢ, whose plain mean is ∇f.
- DP-FedAvg, LDP-FedEXP and DP-SCAFFOLD take local steps on ∇fᵢ itself, and the server's means, of the models and of the
  control variates, are Σ wᵢyᵢ and c = Σ wᵢcᵢ. SCAFFOLD then rests where cᵢ = ∇fᵢ(x) and c = 0: where ∇f(x) = 0.

The model x̄ that is recorded, and the spread around it, are the plain mean and spread of the workers' models under any
weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UNIFORM, ROWS = "uniform", "rows"
WEIGHTINGS = (UNIFORM, ROWS)

Sizes = NDArray[np.int64]
Array = NDArray[np.float64]


def shares_of(weighting: str, sizes: Sizes) -> Array:
    """(n,): n wᵢ, exactly 1 for all where weights are uniform.

    >>> shares_of("rows", np.array([10, 30])).tolist()
    [0.5, 1.5]
    """
    if weighting == UNIFORM:
        return np.ones(sizes.size)
    return np.asarray(sizes.size * sizes / sizes.sum())


def divisors_of(weighting: str, sizes: Sizes) -> Array:
    """(n,): mᵢ/wᵢ, what the sum of a worker's gradients is divided by in ∇f: n mᵢ, or M.

    >>> divisors_of("uniform", np.array([10, 30])).tolist(), divisors_of("rows", np.array([10, 30])).tolist()
    ([20.0, 60.0], [40.0, 40.0])
    """
    of_each = sizes.size * sizes if weighting == UNIFORM else np.full(sizes.size, sizes.sum())
    return of_each.astype(np.float64)
