"""δ of releases of sampled gradients by Fourier's inversion: no grid of losses, no classes of rounds, no convolutions.

With Λ(w) = Σ ln E e^(wL), the sum over all releases of what a release's loss L has under P (see
`fastldp.privacy.amplification`), and any λ > 0,

    δ(ε) = E[(1 − e^(ε − L))₊] = 1/2π ∫ e^(Λ(w) − wε) / (w(w + 1)) du,    w = λ + iu.

The least |integrand| at u = 0 is at Rényi's best order. There it falls as a normal density does, and the trapezoidal
rule is exact but for what lies beyond its ends, of which there is a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from fastldp.privacy.amplification import Releases

Array = NDArray[np.float64]

# Where rounds differ, so many groups of them stand for all, each with the mean of their 1/s².
MOST_GROUPS = 100
# What may be left beyond the ends, of δ, where so many points are enough.
LEFT = 1e-4
# The integrand at so many points at once, and at how many at most.
AT_ONCE, MOST = 64, 8192
# The nodes of a panel, and the angle that they integrate to all digits over it.
NODES, TURNS = 16, 20.0


def delta_by_inversion(releases: Releases, epsilon: float) -> tuple[float, float]:
    """δ at ε, and how far it may be off.

    >>> delta, off = delta_by_inversion(Releases(0.1, np.full(100, 2.0)), 2.0)
    >>> round(delta, 5), off < 1e-5
    (0.01998, True)
    """
    precisions, counts = _grouped(releases.multipliers)
    laws = [_law(1 / math.sqrt(one), releases.rate) for one in precisions.tolist()]
    first = _law(float(releases.multipliers[0]), releases.rate)

    def log_moment(w: NDArray[np.complexfloating[Any, Any]]) -> NDArray[np.complex128]:
        total = np.zeros(w.shape, dtype=np.complex128)
        for law, count in zip(laws, counts.tolist(), strict=True):
            of_release = _log_mean(w, *law)
            if releases.presence < 1:
                of_round = releases.local * of_release
                most = np.maximum(of_round.real, 0.0)
                mixed = (1 - releases.presence) * np.exp(-most) + releases.presence * np.exp(of_round - most)
                total += count * (np.log(mixed) + most)
            else:
                total += count * releases.local * of_release
        if releases.early:
            total += releases.early * _log_mean(w, *first)
        return total

    def exponent(log_order: float) -> float:
        order = math.exp(log_order)
        return float(log_moment(np.array([order], dtype=np.complex128))[0].real) - order * epsilon

    def useful(log_order: float) -> float:
        """The same, but no larger orders than show that δ is no number at all."""
        return max(exponent(log_order), log_order - 700)

    found = minimize_scalar(useful, bounds=(-3.0, 12.0), method="bounded", options={"xatol": 1e-3})
    order = math.exp(float(found.x))
    chernoff = exponent(float(found.x))
    # The integrand repeats where the losses have been cut: a step that keeps what wraps around below e^−40.
    step = 2 * math.pi / _span(exponent, order, chernoff)
    laws, first = [_likely(*law, order) for law in laws], _likely(*first, order)
    # Nodes follow no faster turns of e^(iuL) than this.
    fastest = TURNS / max(
        float(np.ptp(losses[at : at + NODES])) for losses, _ in laws for at in (0, losses.size - NODES)
    )
    total, at, left = 0.0, 0, math.inf
    while at < MOST and step * (at + AT_ONCE) <= max(fastest, step * AT_ONCE):
        u = step * np.arange(at, at + AT_ONCE)
        w = order + 1j * u
        values = np.exp(log_moment(w) - w * epsilon - chernoff) / (w * (w + 1))
        total += float(values.real.sum()) - (float(values[0].real) / 2 if at == 0 else 0.0)
        at += AT_ONCE
        # Beyond the end |e^Λ| is what it is about there, and falls; the rest is at most ∫ du/u².
        last = float(np.abs(values[-AT_ONCE // 4 :] * w[-AT_ONCE // 4 :] ** 2).max())
        left = last / (step * float(u[-1]))
        if left <= LEFT * abs(total):
            break
    unit = step / math.pi * math.exp(min(chernoff, 700.0))
    return min(1.0, total * unit), left * unit


def _log_mean(w: NDArray[np.complexfloating[Any, Any]], losses: Array, log_mass: Array) -> NDArray[np.complex128]:
    """ln E e^(wL) of one release."""
    exponents = np.multiply.outer(w, losses) + log_mass
    top = exponents.real.max(axis=-1)
    return np.asarray(np.log(np.sum(np.exp(exponents - top[:, None]), axis=-1)) + top)


def _likely(losses: Array, log_mass: Array, order: float) -> tuple[Array, Array]:
    """Those nodes that the tilted law has its mass at, but for e^−45 of the most."""
    tilted = log_mass + order * losses
    kept = tilted > tilted.max() - 45
    return losses[kept], log_mass[kept]


def _span(exponent: Callable[[float], float], order: float, chernoff: float) -> float:
    """How wide an interval of losses has all of the tilted distribution but e^−40 of it, on either side of ε."""
    # Chernoff's bound of the tilted distribution at ε ± x: e^(Λ(λ ± s) − Λ(λ) ∓ s ε − s x), of the best of some s.
    wide = []
    for sign in (1, -1):
        bounds = []
        for share in (0.01, 0.03, 0.1, 0.2, 0.5, 0.9):
            at = order * (1 + sign * share) if sign < 0 else order + share * max(order, 10.0)
            moved = abs(at - order)
            bounds.append((exponent(math.log(at)) - chernoff + 40) / moved)
        wide.append(min(bounds))
    return 2 * max(wide)


def _grouped(multipliers: Array) -> tuple[Array, NDArray[np.int64]]:
    """1/s² and how many rounds have it."""
    precisions, counts = np.unique(1 / np.square(multipliers), return_counts=True)
    if precisions.size <= MOST_GROUPS:
        return precisions, counts
    # As narrow where 1/s² is large, which counts most.
    ids = np.floor(MOST_GROUPS * (precisions - precisions[0]) / np.ptp(precisions) * (1 - 1e-12)).astype(np.int64)
    group, members = np.unique(ids, return_inverse=True)
    sizes = np.bincount(members, counts, group.size)
    means = np.bincount(members, counts * precisions, group.size) / sizes
    return means, sizes.astype(np.int64)


def _law(s: float, rate: float) -> tuple[Array, Array]:
    """A release's losses at nodes of integration, and ln of P's mass there."""
    nodes, weights = leggauss(NODES)
    # Panels as wide as the deviation, and far enough for every order that is of use.
    edges = np.arange(-12 * s, 1 + 40 * s, s)
    z = (edges[:, None] + s * (1 + nodes) / 2).ravel()
    with np.errstate(divide="ignore"):
        out, of = np.log1p(-rate), math.log(rate)
    at_zero, above, below = (-((z - centre) ** 2) / (2 * s**2) for centre in (0.0, 1.0, -1.0))
    p, q = np.logaddexp(out + at_zero, of + above), np.logaddexp(out + at_zero, of + below)
    mass = np.tile(np.log(weights * s / 2), edges.size) - math.log(s * math.sqrt(2 * math.pi))
    return p - q, p + mass
