"""What noise makes the workers' models differ by.

Near the optimum, along an eigenvector of W with λ = 1 − ℓ < 1 and one of the Hessian H with h = its eigenvalue over n,
the models' part e and the duals' part γΛ = u follow, with v = (1 − γh)e − u − γζ,

    e ← (1 − γℓ)v,    u ← u + γℓ v.

So what is left of the noise of one round, s rounds later, is g_s with g_{s+2} = p g_{s+1} − q g_s, where
p = (1 − γℓ)(2 − γh) and q = (1 − γℓ)(1 − γh): it swings, and its squares fall like q^s. Under constant noise they add
up to (1 − γℓ)²/(γℓ(2 − 1.5γℓ)) where h = 0, or about 1/(2γℓ): workers differ by ½γξ²d · (1/n) Σ 1/ℓ.
The part along 1, where λ = 1, is the average model's: `prediction`.

It leaves out what `prediction` does, and what workers differ by since their data do, which decays like q^{T/2}.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastldp.planning.mixing import Gaps
from fastldp.planning.prediction import ages_of
from fastldp.problems.prior import Modes

Array = NDArray[np.float64]

# Where both roots of the recurrence are one they are taken to be so far apart.
APART = 1e-7


def consensus_weights(modes: Modes, gaps: Gaps, step: float, parts: int, rounds: int) -> Array:
    """(T,): c_t, so that Σ c_t times the variance of γζ̄ in round t is (1/n) Σ E‖x̄ − xᵢ‖² after round T.

    Exact where noise is the same from an age to the next of `ages_of`, in between the mean.
    """
    ages = ages_of(rounds)
    edges = np.append(ages[ages < rounds], float(rounds))
    spans = np.diff(edges)
    a = np.repeat(step * gaps.values, modes.rates.size)
    b = np.tile(step / parts * modes.rates, gaps.values.size)
    left = tails(a, b, edges)
    if not np.isfinite(left).all():
        return np.full(rounds, np.inf)
    means = np.maximum(-np.diff(left @ np.outer(gaps.counts, modes.counts).ravel()), 0.0) / spans
    return np.asarray(np.repeat(means, spans.astype(np.int64))[::-1])


def tails(a: Array, b: Array, ages: Array) -> Array:
    """(ages, …): Σ g_s² over s ≥ each age, for a = γℓ and b = γh; infinite where errors grow."""
    p, q = (1 - a) * (2 - b), (1 - a) * (1 - b)
    first, second = 1 - a, (1 - a) * ((1 - a) * (1 - b) - a)
    root = np.emath.sqrt(p * p - 4 * q).astype(complex)
    root = np.where(np.abs(root) < APART, APART, root)
    one, other = (p + root) / 2, (p - root) / 2
    one_part, other_part = (second - other * first) / root, (second - one * first) / root

    def at(s: Array) -> Array:
        return np.asarray((one_part * one ** s[:, None] - other_part * other ** s[:, None]).real)

    g, following = at(ages), at(ages + 1)
    # Σ g_s² and Σ g_s g_{s+1} from an age on, of the recurrence times g_{s+1} and of its square; 1 + q − p = a.
    above = (1 + q) * (following - g) ** 2 + 2 * g * following * ((1 - q) * (1 + q) + a * q) - p * p * (1 - q) * g * g
    stable = np.maximum(np.abs(one), np.abs(other)) < 1
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(stable, above / (a * (1 - q) * (1 + q + p)), np.inf)
