"""The error of noisy descent near the optimum, in the time τ = γT/n.

The average model obeys e ← (I − γH/n)e − γζ̄. With w(s) = tr e^{−2Hs}, and noise spread as ξ² ∝ 1/r, its error after a
time τ depends on the step and the horizon through τ alone:

    E‖e‖² = ‖e^{−Hτ} e₀‖² + price · ∫₀^τ r ds · ∫₀^τ w/r ds,

where s runs back from the end. r = √w is the best (Cauchy–Schwarz), r = 1 is equal noise, and the paper's is
r = e^{−μs/2}. The price is n·mean(Δᵢ²/ρᵢ)/2, where Δᵢ has the worker's weight: 2B²/(ρ m² n) where all are alike.

What it leaves out: that the Hessian changes on the way, clipping, and a nonsmooth g or a set. What the workers' models
differ by is the matter of `consensus`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.problems.prior import Modes

Array = NDArray[np.float64]

# So many points along τ, or along the rounds, and curves between them: errors of a thousandth or so.
POINTS = 512
# Modes that are slower than this, of the fastest, do not move at all.
NO_RATE = 1e-12


class Curve(NamedTuple):
    """The two parts of the error against τ."""

    taus: Array
    start: Array
    """What is left of the start."""
    noise: Array

    @property
    def error(self) -> Array:
        return np.asarray(self.start + self.noise)

    def best(self) -> float:
        """τ of the least error."""
        k = int(np.clip(np.argmin(self.error), 1, self.taus.size - 2))
        low, middle, high = np.log(self.error[k - 1 : k + 2])
        bend = low - 2 * middle + high
        # Where a parabola through the least and its neighbours has its vertex, along ln τ.
        shift = 0.0 if not 0 < bend < np.inf else float(np.clip(0.5 * (low - high) / bend, -1, 1))
        return float(self.taus[k] * (self.taus[1] / self.taus[0]) ** shift)


def curve(
    modes: Modes, price: float, allocation: str, decay: float, beside: Callable[[Array], Array] | None = None
) -> Curve:
    """The error against τ, on a range that has the least in it; `decay` is the paper's μ.

    What noise counts for `beside` its part in ‖x̄ − x*‖², at ages in τ, is added to w.
    """
    taus = _range(modes, price)
    left = np.exp(-2 * np.outer(taus, modes.rates))
    w, start = left @ modes.counts, left @ modes.squares
    dimension = float(modes.counts.sum())
    if beside is not None:
        w, dimension = w + beside(taus), dimension + float(beside(np.zeros(1))[0])
    r = {"planned": np.sqrt(w), "static": np.ones_like(w), "dynamic": np.exp(-0.5 * decay * taus)}[allocation]
    with np.errstate(over="ignore"):  # a release whose variance vanishes costs without limit
        ratio = np.divide(w, r, out=np.where(w > 0, np.inf, 0.0), where=r > 0)
        return Curve(taus, start, price * _integral(taus, r, 1.0) * _integral(taus, ratio, dimension))


def _range(modes: Modes, price: float) -> Array:
    total, dimension = float(modes.squares.sum()), float(modes.counts.sum())
    # The noise begins as price · d τ², so that much noise stops at a small τ.
    gain = float(modes.rates @ modes.squares) / (price * dimension)
    first = 1e-3 * min(1 / float(modes.rates.max()), gain)
    # And little noise lets the slowest mode decay to it.
    slowest = float(modes.rates[modes.rates > NO_RATE * modes.rates.max()].min())
    last = (2 + math.log1p(total * slowest**2 / (price * dimension))) / slowest
    return np.geomspace(first, last, POINTS)


def _integral(s: Array, f: Array, at_zero: float) -> Array:
    """∫₀^s f: before the first point f is hardly different from what it is at zero."""
    pieces = np.diff(s, prepend=0.0) * 0.5 * (f + np.concatenate([[at_zero], f[:-1]]))
    return np.asarray(np.cumsum(pieces))


def ages_of(rounds: int) -> Array:
    """Ages of noise in rounds: every one of a short horizon; of a long one the first all, and then ever fewer."""
    return np.unique(np.concatenate([[0.0], np.geomspace(1, max(rounds - 1, 1), POINTS).round()]))


def log_weights(modes: Modes, rate: float, rounds: int) -> Array:
    """(T,): ln w_t, w_t = tr (I − γH/n)^{2(T−t)}, what the noise of round t counts at the end; rate = γ/n."""
    ages = ages_of(rounds)
    exponents = 2 * np.outer(ages, np.log(np.maximum(np.abs(1 - rate * modes.rates), 1e-300)))
    largest = exponents.max(axis=1)
    found = largest + np.log(np.exp(exponents - largest[:, None]) @ modes.counts)
    return np.asarray(np.interp(np.log1p(np.arange(rounds - 1, -1, -1.0)), np.log1p(ages), found))


def expected(modes: Modes, rate: float, noise: Array) -> tuple[float, float]:
    """Both parts after T rounds; `noise` has the variance of γζ̄ in every round."""
    start = float(np.abs(1 - rate * modes.rates) ** (2 * noise.size) @ modes.squares)
    return start, float(noise @ np.exp(log_weights(modes, rate, noise.size)))
