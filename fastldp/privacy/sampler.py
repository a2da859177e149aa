"""What the real sampler costs beside a true Gaussian: a little of ε and of δ, which calibration leaves room for.

`docs/sampler.md` is the proof; the formulas here bear its names. A release of two neighbouring coordinates falls into
a rectangle of the plane of their two normals, whose sides are 2¹¹ s/σ, between 2⁻⁵ and 2⁻⁴. The real probability of
every such rectangle within a radius of `REACH` is e^±η times the true one, η at most `LARGEST` and, squared,
`MEAN_SQUARE` on average. So the laws of a whole run with the real and with true normals are (ε₁, δ₁)-close, either way,
but for a tail of τ a pair, and a run that true normals make (ε, δ)-private is with the real ones

    (ε + 2ε₁, e^ε₁ δ + nτ + (1 + e^(ε + ε₁)) δ₁)-private,    n pairs of coordinates in all releases together.

Nothing of this depends on the size of a query, and e^ε stands beside a δ₁ alone that is as small as one likes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

VERSION = 2
"""Of the construction: 1 had no further words for large normals, and rounded the sum of query and noise."""

SPACING = 2.0**-15
DITHERS = 2.0**11
SMALLEST_WINDOW, LARGEST_WINDOW = DITHERS * SPACING / 2, DITHERS * SPACING
"""What of a normal one released number tells: an interval longer than the first, no longer than the second."""

REACH = 10.25
"""Rectangles within this radius have the probabilities that are said."""
LARGEST = 2.0**-37
"""Of all |ln(real/true)| there, and"""
MEAN_SQUARE = 2.0**-82
"""of its square on average, at most."""
DIAGONAL = math.sqrt(2) * LARGEST_WINDOW
# e^x ≤ 1 + x + CURVATURE x² for x ≤ 1.
CURVATURE = math.e - 2
# What of δ the sums of many η may exceed ε₁ with.
SHARE = 2.0**-30


def spacing(deviations: Array) -> Array:
    """The spacing of the grid that noise of these deviations is released on.

    >>> spacing(np.array([1.0, 1.9, 2.0])) * 2**15
    array([1., 1., 2.])
    """
    mantissas, _ = np.frexp(deviations)
    return np.asarray(deviations / mantissas / 2 * SPACING)


@dataclass(frozen=True)
class Construction:
    """How many bits a pair of normals is made of, and how far floating point moves them; ours by default."""

    radius: int = 53
    """u1 has so many bits,"""
    further: int = 64
    """and so many more where it is"""
    threshold: int = 12
    """below 2 to the power of minus this."""
    angle: int = 53
    """The bits of u2."""
    rounding: float = 10 * 2.0**-53
    """A normal, times σ/s and with what is added to it before it is rounded, is off by so much of itself,"""
    shift: float = 2.0**-58
    """and by so much more."""

    def log_ratio(self, distance: Array, window: float) -> Array:
        """η: |real/true − 1|, at most, of a square of this side whose centre is so far from the origin."""
        c, half = np.asarray(distance, dtype=np.float64), window / math.sqrt(2)
        nearest, farthest = np.maximum(c - half, 0.0), c + half
        # One over the least probability of the square: Jensen's inequality for the density's logarithm.
        inverse = 2 * math.pi / window**2 * np.exp(c**2 / 2 + window**2 / 12)
        turn = np.where(c > half, np.arcsin(half / np.maximum(c, half)) / math.pi, 1.0)
        edge = math.sqrt(2 * self.threshold * math.log(2))
        cells = (nearest <= edge) * 2.0**-self.radius + (farthest >= edge) * 2.0 ** -(self.radius + self.further)
        rings = np.exp(-(nearest**2) / 2) - np.exp(-(farthest**2) / 2)
        moved = math.sqrt(2) * self.rounding * farthest + 2 * self.shift
        strips = 2 / window * np.cosh(farthest * window / 2) * math.exp(window**2 / 6)
        return np.asarray((cells * turn + 4 * 2.0**-self.angle * rings) * inverse + moved * strips)


class Cost(NamedTuple):
    """What the sampler takes of a promise."""

    log_ratio: float
    """ε₁, of which a promise pays two."""
    remainder: float
    """What is added to e^ε₁ δ."""


def tail(shift: float) -> float:
    """τ: how likely a pair of normals is beyond the reach, or another input's is, so many σ away; at most.

    >>> tail(0.1) < 1.1e-22
    True
    """
    radius = REACH - DIAGONAL - shift
    return min(1.0, 1.001 * math.exp(-(radius**2) / 2)) if radius > 0 else 1.0


def cost(pairs: int, epsilon: float, delta: float, shift: float) -> Cost:
    """What so many pairs of normals cost a promise of (ε, δ), where one sample moves a release by `shift` σ at most.

    >>> cost(80_000 * 1_000, 0.5, 1e-5, 0.01).log_ratio < 5e-8
    True
    """
    tau = tail(shift)
    # ln 1/δ₁ for (1 + e^(ε + ε₁)) δ₁ = SHARE δ and any ε₁ ≤ 1.
    log_inverse = -math.log(SHARE * delta) + float(np.logaddexp(0.0, epsilon + 1))
    # Chernoff's bound on the sum of all η, at the best order α for which αη ≤ 1.
    order = min(1 / LARGEST, max(2.0, math.sqrt(log_inverse / (CURVATURE * pairs * MEAN_SQUARE))))
    exponent = pairs * (CURVATURE * order**2 * MEAN_SQUARE + order * tau)
    return Cost((exponent + log_inverse) / (order - 1), min(1.0, pairs * tau + SHARE * delta))


def left(epsilon: float, delta: float, taken: Cost) -> tuple[float, float] | None:
    """The (ε, δ) that true normals may spend; None where the sampler would take half of either, or more."""
    if 4 * taken.log_ratio > min(epsilon, 1.0) or 2 * taken.remainder > delta:
        return None
    # Rounded down, by more than what these and what reads them back round.
    down = 1 - 2.0**-48
    return (epsilon - 2 * taken.log_ratio) * down, (delta - taken.remainder) * math.exp(-taken.log_ratio) * down


def distance(deviations: Array, query: float) -> Array:
    """Of the first version: the total variation between one released number and its ideal, for |q| ≤ query."""
    return np.asarray((40 + 2 * query / deviations) * 2.0**-53 / DITHERS * (deviations / spacing(deviations)))
