"""From ρ to (ε, δ) and back, for a composition of Gaussian releases; always rounded towards privacy.

T Gaussian releases of total ρ-zCDP are what one Gaussian release with μ² = 2ρ is, so three promises
can be read off the same ρ:

- ``"zcdp"``: ε = ρ + 2√(ρ ln 1/δ), the paper's (Bun and Steinke 2016);
- ``"zcdp-tight"``: the best that zCDP alone implies (Canonne, Kamath and Steinke 2020, Proposition 12);
- ``"gdp"``: exact for Gaussians, δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Balle and Wang 2018);
- ``"pld"``: the same, and where samples or workers are drawn at random also what that amplifies (`amplification`).

Proposition 12 holds for every order α = 1 + t: ln 1/δ = t(ε + ln(1 + 1/t) − (1 + t)ρ) + ln(1 + t). At the best
order ε = (2t + 1)ρ − ln(1 + 1/t), and there ln 1/δ = t²ρ + ln(1 + t): one equation for t, whichever is asked for.
Read off the first formula, a promise holds even where t is not quite the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx

from fastldp.errors import BudgetError
from fastldp.validation import known_name, real

METHODS = ("zcdp", "zcdp-tight", "gdp", "pld")
EXACT = ("gdp", "pld")

ULP = 2.0**-52
# What is returned is moved by more than the last operations round. ρ by more than ε, so that going from ε to ρ
# and back never ends above ε; for the same reason δ counts one hair of rounding, ε two and ρ three.
EPSILON_UP, RHO_DOWN = 1 + 4 * ULP, 1 - 16 * ULP
DELTA_HAIRS, EPSILON_HAIRS, RHO_HAIRS = 1, 2, 3

ROOT_PI = math.sqrt(math.pi)
# Gauss-Legendre on [0, 1], exact to the last digit on the short intervals it is used on.
NODES, WEIGHTS = (leggauss(12)[0] + 1) / 2, leggauss(12)[1] / 2


def epsilon_of(rho: float, delta: float, method: str = "zcdp") -> float:
    """The ε at δ of a mechanism with total ρ; 0 where δ alone covers it.

    Parameters
    ----------
    rho : float
        What all releases spend.
    delta : float
        δ.
    method : str
        ``"zcdp"``, ``"zcdp-tight"``, ``"gdp"`` or ``"pld"``.

    Returns
    -------
    float
        ε, rounded up.

    Examples
    --------
    >>> round(epsilon_of(0.025763, 1e-4), 4)
    1.0
    """
    known_name("method", method, METHODS)
    rho, log_inverse = _positive("rho", rho), _stricter(_fraction(delta), EPSILON_HAIRS)
    if method == "zcdp":
        epsilon = rho + 2 * math.sqrt(rho * log_inverse)
    else:
        epsilon = _epsilon_tight(rho, log_inverse)
    # The exact promise is never worse than the tight one, which is a start on the right side.
    if method in EXACT and epsilon > 0:
        epsilon = _newton(lambda e: _profile(rho, e)[:2], log_inverse, epsilon)
    return max(0.0, epsilon) * EPSILON_UP


def rho_of(epsilon: float, delta: float, method: str = "zcdp") -> float:
    """The largest ρ whose promise at δ is ε.

    Parameters
    ----------
    epsilon : float
        ε.
    delta : float
        δ.
    method : str
        ``"zcdp"``, ``"zcdp-tight"``, ``"gdp"`` or ``"pld"``.

    Returns
    -------
    float
        ρ, rounded down.

    Examples
    --------
    >>> [round(rho_of(1.0, 1e-4, method), 6) for method in ("zcdp", "zcdp-tight", "gdp")]
    [0.025763, 0.040633, 0.049267]
    """
    known_name("method", method, METHODS)
    return _rho(_positive("epsilon", epsilon), _stricter(_fraction(delta), RHO_HAIRS), method)


@lru_cache(maxsize=1024)  # a sweep asks for the same again and again
def _rho(epsilon: float, log_inverse: float, method: str) -> float:
    if method == "zcdp":
        # (√(ε + ln 1/δ) − √(ln 1/δ))², written without the difference of near equals.
        root = epsilon / (math.sqrt(epsilon + log_inverse) + math.sqrt(log_inverse))
        rho = root * root
    else:
        rho = _rho_tight(epsilon, log_inverse)
    if method in EXACT:
        rho = _newton(lambda r: _profile(r, epsilon)[::2], log_inverse, rho)
    return rho * RHO_DOWN


def delta_of(rho: float, epsilon: float, method: str = "zcdp") -> float:
    """The δ at ε of a mechanism with total ρ; never 0, as no Gaussian release has δ = 0.

    Parameters
    ----------
    rho : float
        What all releases spend.
    epsilon : float
        ε.
    method : str
        ``"zcdp"``, ``"zcdp-tight"``, ``"gdp"`` or ``"pld"``.

    Returns
    -------
    float
        δ, rounded up.

    Examples
    --------
    >>> round(delta_of(0.049267, 1.0, "gdp"), 7)
    0.0001
    """
    known_name("method", method, METHODS)
    rho, epsilon = _positive("rho", rho), _positive("epsilon", epsilon)
    near = (epsilon - rho) / (2 * math.sqrt(rho))
    # Every method has δ ≤ e^{−near²} where near > 0; from 28 on that is below the smallest float.
    if method == "zcdp" or near > 28:
        log_inverse = max(0.0, near) * near
    elif method == "zcdp-tight":
        log_inverse = _log_inverse_tight(rho, epsilon)
    else:
        log_inverse = _profile(rho, epsilon)[0]
    return min(1.0, math.nextafter(math.exp(DELTA_HAIRS * _hair(log_inverse) - log_inverse), 1.0))


def _epsilon_tight(rho: float, log_inverse: float) -> float:
    def value_and_slope(log_t: float) -> tuple[float, float]:
        t = math.exp(log_t)
        return t * t * rho + math.log1p(t), 2 * t * t * rho + t / (1 + t)

    # Either term of t²ρ + ln(1 + t) alone reaches ln 1/δ no earlier than their sum.
    start = min((math.log(log_inverse) - math.log(rho)) / 2, _log_expm1(log_inverse))
    t = math.exp(_newton(value_and_slope, log_inverse, start))
    return (1 + t) * rho + (log_inverse - math.log1p(t)) / t - math.log1p(1 / t)


def _rho_tight(epsilon: float, log_inverse: float) -> float:
    def value_and_slope(log_t: float) -> tuple[float, float]:
        t = math.exp(log_t)
        spent = t * t * (epsilon + math.log1p(1 / t)) / (2 * t + 1)  # t²ρ
        return spent + math.log1p(t), (2 * spent * (1 + t) + t) / (2 * t + 1)

    # As above; t²ε/(2t + 1) = ln 1/δ is a quadratic equation.
    alone = (log_inverse + math.sqrt(log_inverse) * math.sqrt(log_inverse + epsilon)) / epsilon
    t = math.exp(_newton(value_and_slope, log_inverse, min(math.log(alone), _log_expm1(log_inverse))))
    return (epsilon + math.log1p(1 / t) - (log_inverse - math.log1p(t)) / t) / (1 + t)


def _log_inverse_tight(rho: float, epsilon: float) -> float:
    def value_and_slope(log_t: float) -> tuple[float, float]:
        t = math.exp(log_t)
        return 2 * t * rho - math.log1p(1 / t), 2 * t * rho + 1 / (1 + t)

    # ln(1 + 1/t) = (2t + 1)ρ − ε is at least ρ − ε, and at least 2/(2t + 1).
    log_ratio = max(rho - epsilon, 4 * rho / (epsilon + math.hypot(epsilon, math.sqrt(8 * rho))))
    if log_ratio > 40:
        return 0.0  # t < e⁻⁴⁰: no order promises anything that a float could tell from δ = 1
    t = math.exp(_newton(value_and_slope, epsilon - rho, -math.log(math.expm1(log_ratio))))
    return t * (epsilon - rho + math.log1p(1 / t) - t * rho) + math.log1p(t)


def _profile(rho: float, epsilon: float) -> tuple[float, float, float]:
    """The exact ln 1/δ, and its derivatives by ε and by ρ."""
    # With near, far = (ε ∓ ρ)/(2√ρ), far² − near² = ε, so both terms share e^{−near²}:
    # δ = ½ e^{−near²} (erfcx(near) − erfcx(far)). Where near < 0, erfcx grows as its square: there without it.
    apart = math.sqrt(rho)
    near, far = (epsilon - rho) / (2 * apart), (epsilon + rho) / (2 * apart)
    shared = math.exp(-(min(near, 0.0) ** 2))
    at_far = shared * float(erfcx(far))
    if apart < 1:
        # Near equals: the difference as the integral of −erfcx' = 2/√π − 2t erfcx(t), which is positive throughout.
        t = near + apart * NODES
        gap = shared * apart * 2 * float(WEIGHTS @ (1 / ROOT_PI - t * erfcx(t)))
    else:
        gap = (float(erfcx(near)) if near > 0 else math.erfc(near)) - at_far
    return max(near, 0.0) ** 2 - math.log(gap / 2), at_far / gap, -shared / (ROOT_PI * apart * gap)


def _newton(value_and_slope: Callable[[float], tuple[float, float]], target: float, x: float) -> float:
    """Where a convex function comes down to its target, from a start above it: no step passes the root."""
    value, slope = value_and_slope(x)
    last = math.inf
    # Until it is there, or until rounding keeps it from falling.
    while target + _hair(abs(target)) / 4 < value < last:
        last = value
        x -= (value - target) / slope
        value, slope = value_and_slope(x)
    return x


def _log_expm1(x: float) -> float:
    return x + math.log(-math.expm1(-x))


def _hair(log_inverse: float) -> float:
    """More than what computing ln 1/δ rounds."""
    return 4 * ULP * (1 + 2 * log_inverse)


def _stricter(delta: float, hairs: int) -> float:
    """ln 1/δ for a δ some hairs smaller than asked for, so that rounding cannot make it larger."""
    log_inverse = -math.log(delta)
    return log_inverse + hairs * _hair(log_inverse)


def _positive(argument: str, value: float) -> float:
    return real(argument, value, "give a finite number > 0", above=0, error=BudgetError)


def _fraction(delta: float) -> float:
    return real("delta", delta, "give a number between 0 and 1", above=0, below=1, error=BudgetError)
