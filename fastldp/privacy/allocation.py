"""How the budget is spread over the rounds: the variances ξ_t² of Theorem 1, those of a plan, and the static ones.

Written with the sensitivity Δ of a release: 2B²/(n²m²) of the paper is Δ²/2 for Δ = 2B/(nm), and a
release of variance ξ² spends ρ_t = Δ²/(2ξ²).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.validation import integer, real

Variances = NDArray[np.float64]

# Noise of this variance already spends nothing that counts; beyond it the squares in a run would overflow.
LARGEST_VARIANCE = 1e200
LARGEST_VARIANCES = {"float64": LARGEST_VARIANCE, "float32": 1e30}
# A sum of 10⁷ terms is off by less than this; the variances are raised by it so as not to overspend.
SUM_ERROR = 1e-14


def dynamic_variances(
    rounds: int, rho: float, *, sensitivity: float, contraction: float, largest: float = LARGEST_VARIANCE
) -> Variances:
    """Theorem 1: ξ_t² = √(π/q_t) with q_t = (1 − contraction)^{T−t}, contraction = γ min{μ_f, 1}.

    In logarithms throughout, so that millions of rounds neither underflow nor overflow; none exceeds `largest`.

    Parameters
    ----------
    rounds : int
        The horizon T.
    rho : float
        What all rounds may spend.
    sensitivity : float
        Δ, how far one sample moves a release.
    contraction : float
        γ min{μ_f, 1}, in [0, 1).
    largest : float
        What no variance exceeds.

    Returns
    -------
    array of shape (T,)
        ξ² of the rounds.

    Examples
    --------
    >>> dynamic_variances(3, 0.5, sensitivity=1.0, contraction=0.75).round(3)
    array([7.  , 3.5 , 1.75])
    """
    rounds, rho, sensitivity = _checked(rounds, rho, sensitivity)
    contraction = real(
        "contraction",
        contraction,
        "give γ min{μ_f, 1}, in [0, 1); a smaller step makes it so",
        at_least=0,
        below=1,
    )
    log_ratio = 0.5 * math.log1p(-contraction)  # of neighbouring √q_t
    if log_ratio == 0:  # as of a contraction that is zero, or next to it
        total = float(rounds)
    else:
        total = math.expm1(rounds * log_ratio) / math.expm1(log_ratio)  # Σ √q_t
    # In place, for horizons of millions.
    log_roots = np.arange(rounds - 1, -1, -1, dtype=np.float64)
    np.multiply(log_roots, log_ratio, out=log_roots)
    return _spread(log_roots, math.log(total), rho, sensitivity, largest)


def planned_variances(
    log_weights: Variances, rho: float, *, sensitivity: float, largest: float = LARGEST_VARIANCE
) -> Variances:
    """ξ_t² ∝ 1/√w_t: the least Σ w_t ξ_t² that ρ can buy, for weights given by their logarithms.

    >>> planned_variances(2 * np.log([0.25, 0.5, 1.0]), 0.5, sensitivity=1.0).round(3)
    array([7.  , 3.5 , 1.75])
    """
    _, rho, sensitivity = _checked(len(log_weights), rho, sensitivity)
    log_roots = 0.5 * np.asarray(log_weights, dtype=np.float64)
    most = float(log_roots.max())
    total = most + math.log(float(np.sum(np.exp(log_roots - most))))
    return _spread(log_roots, total, rho, sensitivity, largest)


def _spread(log_roots: Variances, log_total: float, rho: float, sensitivity: float, largest: float) -> Variances:
    """Δ²/(2ρ) Σ√w / √w_t, from ln √w_t, which it overwrites, and ln Σ√w."""
    scale = 2 * math.log(sensitivity) - math.log(2 * rho) + log_total
    variances = np.subtract(scale, log_roots, out=log_roots)
    np.minimum(variances, math.log(largest), out=variances)
    np.exp(variances, out=variances)
    return _within(rho, sensitivity, variances)


def static_variances(rounds: int, rho: float, *, sensitivity: float) -> Variances:
    """The same variance in every round: ξ² = Δ² T / (2ρ).

    Parameters
    ----------
    rounds : int
        The horizon T.
    rho : float
        What all rounds may spend.
    sensitivity : float
        Δ, how far one sample moves a release.

    Returns
    -------
    array of shape (T,)
        ξ² of the rounds.

    Examples
    --------
    >>> static_variances(3, 0.5, sensitivity=1.0).round(3)
    array([3., 3., 3.])
    """
    rounds, rho, sensitivity = _checked(rounds, rho, sensitivity)
    return _within(rho, sensitivity, np.full(rounds, sensitivity**2 * rounds / (2 * rho)))


def factors_of(sensitivity: Variances, rho: Variances) -> tuple[int, Variances]:
    """The worker that needs least noise, and how much more variance each of the others needs."""
    needs = sensitivity**2 / rho
    least = int(np.argmin(needs))
    factors = needs / needs[least]
    # Rounded up, so that no worker overspends by a rounding error.
    return least, np.where(factors > 1, factors * (1 + 4 * np.finfo(np.float64).eps), 1.0)


def spent(variances: Variances, sensitivity: float) -> float:
    """Lemma 1: ρ = Σ_t Δ²/(2ξ_t²), what releases of these variances really spend."""
    shares = 2 * variances
    return float(np.sum(np.divide(sensitivity**2, shares, out=shares)))


def _within(rho: float, sensitivity: float, variances: Variances) -> Variances:
    """The variances, scaled in place by what rounding left so that they spend ρ and not more."""
    variances *= spent(variances, sensitivity) / rho * (1 + 4 * SUM_ERROR)
    return variances


def _checked(rounds: int, rho: float, sensitivity: float) -> tuple[int, float, float]:
    return (
        integer("rounds", rounds, "give a whole number ≥ 1", at_least=1),
        real("rho", rho, "give a finite number > 0", above=0, error=ArgumentError),
        real("sensitivity", sensitivity, "give a finite number > 0", above=0),
    )
