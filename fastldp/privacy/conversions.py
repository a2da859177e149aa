"""From ρ to (ε, δ) and back, for a composition of Gaussian releases; always rounded towards privacy.

T Gaussian releases of total ρ-zCDP are what one Gaussian release with μ² = 2ρ is, so three promises
can be read off the same ρ:

- ``"zcdp"``: ε = ρ + 2√(ρ ln 1/δ), the paper's (Bun and Steinke 2016);
- ``"zcdp-tight"``: the best that zCDP alone implies (Canonne, Kamath and Steinke 2020, Proposition 12);
- ``"gdp"``: exact for Gaussians, δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Balle and Wang 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numpy.polynomial.legendre import leggauss
from scipy.optimize import brentq, minimize_scalar
from scipy.special import erfcx, log_ndtr

from fastldp.errors import BudgetError
from fastldp.validation import known_name, real

METHODS = ("zcdp", "zcdp-tight", "gdp")

# Roots are found to this relative width, and moved by more than it in the direction that promises less:
# ρ by more than ε, so that going from ε to ρ and back never ends above ε.
ROOT = 1e-13
EPSILON_UP = 1 + 1e-12
RHO_DOWN = 1 - 2e-11

ROOT_2, ROOT_PI = math.sqrt(2), math.sqrt(math.pi)
# Gauss-Legendre on [0, 1], exact to the last digit on the short intervals it is used on.
NODES, WEIGHTS = (leggauss(12)[0] + 1) / 2, leggauss(12)[1] / 2


def epsilon_of(rho: float, delta: float, method: str = "zcdp") -> float:
    """The ε at δ of a mechanism with total ρ.

    >>> round(epsilon_of(0.025763, 1e-4), 4)
    1.0
    """
    method, rho, delta = _checked(method, rho=rho, delta=delta)
    if method == "zcdp":
        return _up(rho + 2 * math.sqrt(rho * -math.log(delta)))
    if _delta(method, rho, 0.0) <= delta:
        return 0.0
    # δ falls as ε grows, and the paper's ε is an upper end.
    upper = _up(rho + 2 * math.sqrt(rho * -math.log(delta)))
    return _crossing(lambda epsilon: _delta(method, rho, epsilon) - delta, 0.0, upper) * EPSILON_UP


def rho_of(epsilon: float, delta: float, method: str = "zcdp") -> float:
    """The largest ρ whose promise at δ is ε.

    >>> [round(rho_of(1.0, 1e-4, method), 6) for method in ("zcdp", "zcdp-tight", "gdp")]
    [0.025763, 0.040633, 0.049267]
    """
    method, epsilon, delta = _checked(method, epsilon=epsilon, delta=delta)
    log_inverse = -math.log(delta)
    # (√(ε + ln 1/δ) − √(ln 1/δ))², written without the difference of near equals.
    rho = (epsilon / (math.sqrt(epsilon + log_inverse) + math.sqrt(log_inverse))) ** 2
    if method == "zcdp":
        return _down(rho)
    upper = rho
    while _delta(method, upper, epsilon) <= delta:
        upper *= 2
    return _crossing(lambda r: _delta(method, r, epsilon) - delta, rho * 0.999, upper) * RHO_DOWN


def delta_of(rho: float, epsilon: float, method: str = "zcdp") -> float:
    """The δ at ε of a mechanism with total ρ.

    >>> round(delta_of(0.049267, 1.0, "gdp"), 7)
    0.0001
    """
    method, rho, epsilon = _checked(method, rho=rho, epsilon=epsilon)
    return min(1.0, _up(_delta(method, rho, epsilon)))


def _delta(method: str, rho: float, epsilon: float) -> float:
    if method == "gdp":
        return _delta_gdp(rho, epsilon)
    if method == "zcdp":
        return math.exp(-((epsilon - rho) ** 2) / (4 * rho)) if epsilon > rho else 1.0
    return _delta_tight(rho, epsilon)


def _delta_gdp(rho: float, epsilon: float) -> float:
    mu = math.sqrt(2 * rho)
    # With near = (ε/μ − μ/2)/√2 and far = (ε/μ + μ/2)/√2, far² − near² = ε, so both terms share e^{−near²}:
    # δ = ½ e^{−near²} (erfcx(near) − erfcx(far)).
    near, far = (epsilon / mu - mu / 2) / ROOT_2, (epsilon / mu + mu / 2) / ROOT_2
    apart = mu / ROOT_2  # far − near, without the rounding of either
    if apart < 0.5:
        # Near equals: the difference as the integral of −erfcx' = 2/√π − 2t erfcx(t), which is positive throughout.
        t = near + apart * NODES
        return 0.5 * math.exp(-near * near) * apart * float(WEIGHTS @ (2 / ROOT_PI - 2 * t * erfcx(t)))
    if near < 0:
        first, second = float(log_ndtr(-near * ROOT_2)), epsilon + float(log_ndtr(-far * ROOT_2))
        return math.exp(first) * -math.expm1(second - first)
    return 0.5 * math.exp(-near * near) * float(erfcx(near) - erfcx(far))


def _delta_tight(rho: float, epsilon: float) -> float:
    def log_delta(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)

    # The best order lies near (ε + ρ)/(2ρ), where the first term alone is least.
    guess = math.log(max((epsilon - rho) / (2 * rho), 1e-3))
    best = minimize_scalar(log_delta, bounds=(guess - 12, guess + 12), method="bounded", options={"xatol": 1e-9})
    return math.exp(min(0.0, float(best.fun)))


def _crossing(f: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(f, low, high, xtol=high * ROOT, rtol=ROOT))


def _checked(
    method: str, *, rho: float | None = None, epsilon: float | None = None, delta: float | None = None
) -> tuple[str, float, float]:
    known_name("method", method, METHODS)
    numbers = []
    if rho is not None:
        numbers.append(real("rho", rho, "give a finite number > 0", above=0, error=BudgetError))
    if epsilon is not None:
        numbers.append(real("epsilon", epsilon, "give a finite number > 0", above=0, error=BudgetError))
    if delta is not None:
        numbers.append(real("delta", delta, "give a number between 0 and 1", above=0, below=1, error=BudgetError))
    return method, numbers[0], numbers[1]


def _up(value: float) -> float:
    return value * (1 + 8 * 2.0**-53)


def _down(value: float) -> float:
    # The formula's own rounding is a few units; the promise must hold for what is returned.
    return value * (1 - 32 * 2.0**-53)
