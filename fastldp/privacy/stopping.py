"""What the best of a random number of trials tells those who see nothing else (Papernot and Steinke 2022, Theorem 2).

The number K of trials has the logarithmic distribution, P(K = k) = (1 − γ)^k / (k ln(1/γ)), of mean
(1/γ − 1)/ln(1/γ). Where a trial, with its score, is (λ, λρ)-Rényi private for all λ, as those of Gaussian releases are,
the best is (λ, ε(λ))-Rényi private, by the theorem's bound at its best λ̂ = √(ln(1/γ)/ρ),

    ε(λ) = (λ − 1)ρ + 2√(ρ ln(1/γ)) + ln E[K]/(λ − 1).

It is no promise against whoever sees the trials that lost, as the server of local privacy does: these add up.
"""

from __future__ import annotations

import math

from scipy.optimize import brentq, minimize_scalar

from fastldp.errors import BudgetError
from fastldp.validation import real

LARGEST_MEAN = 1e12


def mean_of_trials(gamma: float) -> float:
    """E[K] of the logarithmic distribution.

    >>> round(mean_of_trials(0.1), 3)
    3.909
    """
    return (1 / gamma - 1) / -math.log(gamma)


def renyi_of_best(order: float, rho: float, gamma: float) -> float:
    """ε(λ): a bound on the Rényi divergence of this order, above 1, of the best trial."""
    log_inverse = -math.log(gamma)
    # λ̂ is no less than 1.
    other = max(1.0, math.sqrt(log_inverse / rho))
    return order * rho + (other - 1) * rho + log_inverse / other + math.log(mean_of_trials(gamma)) / (order - 1)


def epsilon_of_best(rho: float, delta: float, trials: float) -> float:
    """The ε at δ of showing the best of a random number of trials alone, each of ρ with its score.

    Parameters
    ----------
    rho : float
        What each trial spends, its score included.
    delta : float
        δ.
    trials : float
        How many there are on average, above 1, of the logarithmic distribution.

    Returns
    -------
    float
        ε, for those who see the best trial and nothing of the others, not even how many there were.

    Examples
    --------
    >>> round(epsilon_of_best(0.01, 1e-5, 10), 2)
    0.99
    """
    rho = real("rho", rho, "give a finite number > 0", above=0, error=BudgetError)
    delta = real("delta", delta, "give a number between 0 and 1", above=0, below=1, error=BudgetError)
    mean = real("trials", trials, f"give a mean from above 1 to {LARGEST_MEAN:g}", above=1, at_most=LARGEST_MEAN)
    gamma = math.exp(brentq(lambda log_gamma: mean_of_trials(math.exp(log_gamma)) - mean, -50.0, -1e-9))

    def at(log_order: float) -> float:
        # From Rényi to (ε, δ) as in Canonne, Kamath and Steinke 2020, Proposition 12; any order gives a promise.
        above = math.exp(log_order)
        order = 1 + above
        log_rest = math.log(delta) + math.log(order)
        return renyi_of_best(order, rho, gamma) + math.log(above / order) - log_rest / above

    return max(0.0, float(minimize_scalar(at, bounds=(-15.0, 25.0), method="bounded").fun))
