"""What a ledger promises and spends, computed by others: `dp-accounting`, or formulas written apart from ours.

Releases of Gaussian noise compose to one of μ² = Σ Δ²/ξ². Its exact δ(ε) is below δ at the promised ε wherever the
promise holds, by whatever accounting it was made. The accounting itself is one formula each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from fastldp.methods.sampling import Sampling
from fastldp.privacy.conversions import EXACT
from fastldp.privacy.ledger import Ledger
from fastldp.verifying.sampled import delta_by_inversion

# What a sum of a million variances, and a formula solved by iteration, may differ in.
ROUNDING = 1e-9
# A minimum that was searched for is known to half the digits.
SEARCHED = 1e-6


class Accountant(NamedTuple):
    """Who says what δ is at an ε, of a Gaussian release of this μ."""

    name: str
    delta: Callable[[float, float], float]


@cache
def accountant() -> Accountant:
    """`dp-accounting` where it is installed, or else the exact formula of Balle and Wang."""
    try:
        from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
    except ImportError:
        told = "the exact formula, by code of its own (pip install 'fastldp[verify]' has dp-accounting do it)"
        return Accountant(told, exact_delta)

    def theirs(mu: float, epsilon: float) -> float:
        return float(GaussianPrivacyLoss(standard_deviation=1 / mu).get_delta_for_epsilon(epsilon))

    return Accountant("dp-accounting", theirs)


def exact_delta(mu: float, epsilon: float) -> float:
    """Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2), in logarithms.

    >>> round(exact_delta(math.sqrt(2 * 0.049267), 1.0), 7)
    0.0001
    """
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return -math.exp(first) * math.expm1(min(0.0, second - first))


def spent(ledger: Ledger) -> list[float]:
    """Σ Δ²/(2ξ²) of each worker, gradients and counts, added up exactly."""
    shape = math.fsum(1.0 / value for value in ledger.shape.tolist())
    counts = math.fsum(1.0 / value for value in ledger.count_variances.tolist())
    of_counts = [0.0] * ledger.factors.size
    if ledger.count_variances.size:
        of_counts = [ledger.count_sensitivity**2 * counts / (2 * factor) for factor in ledger.count_factors.tolist()]
    moved = ledger.sensitivities.total.tolist()
    return [
        move**2 * shape / (2 * factor) + more
        for move, factor, more in zip(moved, ledger.factors.tolist(), of_counts, strict=True)
    ]


def wrong_with(ledger: Ledger, budget: dict[str, Any]) -> list[str]:
    """What another accountant finds wrong with a ledger, for the budget that its run was given."""
    asked = np.broadcast_to(np.asarray(budget["epsilon"], dtype=np.float64), ledger.promised_epsilon.shape)
    if not np.array_equal(asked, ledger.promised_epsilon) or budget["delta"] != ledger.delta:
        return ["it promises another (ε, δ) than the setting asked for"]
    if budget["accounting"] != ledger.accounting:
        return [f"it is by {ledger.accounting}, and the setting asked for {budget['accounting']}"]
    numbers = (ledger.shape, ledger.factors, ledger.sensitivities.total, ledger.promised_rho)
    if not all(values.size and np.isfinite(values).all() and (values > 0).all() for values in numbers):
        return ["it has variances, sensitivities or ρ that are not positive numbers"]
    if ledger.amplified:
        return _wrong_with_sampled(ledger)
    found: list[str] = []
    told = {*zip(ledger.promised_epsilon.tolist(), ledger.promised_rho.tolist(), spent(ledger), strict=True)}
    for epsilon, rho, used in sorted(told):
        found += _wrong(epsilon, ledger.delta, ledger.accounting, rho, used)
    return found


def wrong_draws(ledger: Ledger, drawn: dict[str, Any] | None) -> list[str]:
    """Whether a ledger counts on coins that its setting does not flip; `drawn` is the setting's `sampling`."""
    expected: tuple[float, float, str] = (1.0, 1.0, "")
    if drawn is not None:
        asked = Sampling(drawn["samples"], drawn["workers"], drawn["choice"])
        expected = asked.sample_rate, asked.worker_rate, asked.choice
    if (ledger.sample_rate, ledger.worker_rate, ledger.choice) == expected:
        return []
    return ["it is of samples or workers drawn otherwise than the setting asked for"]


def _wrong_with_sampled(ledger: Ledger) -> list[str]:
    """Of amplified releases δ is found by an integral of its own; their ρ is a figure of speech."""
    found: list[str] = []
    for epsilon, key in sorted({*zip(ledger.promised_epsilon.tolist(), ledger.of_spending.tolist(), strict=True)}):
        exact, off = delta_by_inversion(ledger.releases_of(key), epsilon)
        if exact - off > ledger.delta * (1 + SEARCHED):
            told = f"at ε = {epsilon:g} its sampled releases have δ = {exact:.4g}"
            found.append(f"{told}, more than the promised {ledger.delta:g}")
    return found


@cache
def _wrong(epsilon: float, delta: float, accounting: str, rho: float, used: float) -> tuple[str, ...]:
    found: list[str] = []
    theirs = accountant().delta
    if used > rho * (1 + ROUNDING):
        found.append(f"its variances spend ρ = {used:.6g}, more than the {rho:.6g} that it promises")
    exact = theirs(math.sqrt(2 * used), epsilon)
    if exact > delta * (1 + ROUNDING):
        found.append(f"at ε = {epsilon:g} its releases have δ = {exact:.3g}, more than the promised {delta:g}")
    if accounting in EXACT:
        agrees = math.isclose(theirs(math.sqrt(2 * rho), epsilon), delta, rel_tol=SEARCHED)
    elif accounting == "zcdp":
        agrees = math.isclose(rho + 2 * math.sqrt(rho * -math.log(delta)), epsilon, rel_tol=ROUNDING)
    else:
        agrees = math.isclose(_tight_epsilon(rho, delta), epsilon, rel_tol=SEARCHED)
    if not agrees:
        found.append(f"ρ = {rho:.6g} is not what {accounting} makes of ε = {epsilon:g} at δ = {delta:g}")
    return tuple(found)


def _tight_epsilon(rho: float, delta: float) -> float:
    """Proposition 12 of Canonne, Kamath and Steinke: the least over the order α of what zCDP implies."""

    def of_order(log_t: float) -> float:
        alpha = 1 + math.exp(log_t)
        return alpha * rho + (-math.log(delta) - math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)

    return float(minimize_scalar(of_order, bounds=(-10, 30), method="bounded", options={"xatol": 1e-10}).fun)
