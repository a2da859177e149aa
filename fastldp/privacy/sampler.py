"""How far a release by the real sampler is from the ideal Gaussian release, and what that adds to δ.

The ideal release (`fastldp.kernels.privatize`) is s(round((q + σN)/s) + U) with a true normal N. The real one has N̂,
made of two uniforms of 53 bits by Box-Muller in double precision. Couple the two: the ideal uniforms are the real ones
with all their other bits. The two rounded numbers then differ by as many steps as there are boundaries (odd multiples
of s/2) between the two arguments, and k steps change the law of U, uniform on 2¹¹ neighbours, by k/2¹¹. So in total
variation the two releases of one number are no farther apart than 2⁻¹¹ E[boundaries between]. In units of 2⁻⁵³ σ/s
that expectation is at most the sum of

- 5.5 for the radius: given u2, each boundary lies in one of the 2⁵³ intervals of u1, and (σ/s) 8.6 |cos 2πu2| of them
  are in reach, as r is at most 8.6; E|cos| = 2/π. The last interval, u1 < 2⁻⁵³, is endless, but 2⁻⁵³ likely: 0.1;
- 5.1 for the angle: given u1, a turn passes (σ/s) 4r boundaries, each in one of the 2⁵³ intervals of u2; E r = √(π/2);
- 22.3 + 2|q|/σ for rounding: N̂ is off by 8.5 |N̂| units at most (2 ulp of logarithm, sine and cosine, half a unit an
  operation; a test finds 3.2) and the sum by a unit of itself. Either error may lead to a boundary on either side, so
  it counts twice: 2 · 9.5 E|N| = 15.2, and 2|q|/σ. And 5.5 more, and as much as rounds up the sum, for what is computed
  stands at one end of its interval rather than anywhere in it.

Summed, and rounded up: (40 + 2|q|/σ) 2⁻⁶⁴ σ/s a number, less than 2⁻⁴² while |q| < 10 σ. Distances add up, of the d
numbers of a release and of releases, each given those before. It is the norm of a whole query that is bounded, and
Σ|qⱼ| ≤ √d ‖q‖ (Cauchy and Schwarz): so d numbers are no farther from their ideals than d times one with q = ‖q‖/√d. If
the laws for two neighbouring inputs are each within D of ideal ones that are (ε, δ) apart, they are
(ε, δ + (1 + e^ε) D) apart. So the promise is one of small ε: at ε = 20 the factor is half a billion. And D grows with
d T: a network of 159,010 weights needs a δ of 10⁻⁴ rather than 10⁻⁵ for a thousand rounds. That the cipher's words are
uniform is taken for granted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SPACING = 2.0**-15
DITHERS = 2.0**11


def spacing(deviations: Array) -> Array:
    """The spacing of the grid that noise of these deviations is released on.

    >>> spacing(np.array([1.0, 1.9, 2.0])) * 2**15
    array([1., 1., 2.])
    """
    mantissas, _ = np.frexp(deviations)
    return np.asarray(deviations / mantissas / 2 * SPACING)


def distance(deviations: Array, query: float) -> Array:
    """The total variation between one released number and its ideal, for |q| ≤ query: affine in it.

    >>> bool(distance(np.array([1.0]), 1.0) < 2.0**-43)
    True
    """
    return np.asarray((40 + 2 * query / deviations) * 2.0**-53 / DITHERS * (deviations / spacing(deviations)))


def largest_distance(releases: int, query: float, inverses: float) -> float:
    """What `distance` adds up to at most over so many releases, where 1/σ² adds up to `inverses`: no σ is needed.

    A σ is less than two of the powers of two that its grid goes by, and Σ 1/σ is at most √(releases · Σ 1/σ²).

    >>> bool(largest_distance(2, 1.0, 2.0) >= distance(np.ones(2), 1.0).sum())
    True
    """
    return (40 * releases + 2 * query * math.sqrt(releases * inverses)) * 2.0**-53 / DITHERS * 2 / SPACING
