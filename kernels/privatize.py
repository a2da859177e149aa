"""The one place where data leaves a worker: a query with Gaussian noise, released on a public grid.

    h = s (round((q + σN)/s) + U),   s = 2⁻¹⁵ times the power of two below σ,   U uniform: see `gaussian.dither`

With a true normal N this rounds what the Gaussian mechanism gives and adds a number drawn for itself: it is
post-processing, so h is as private as q + σN, at the sensitivity of q and no more. h lies on a grid that knows nothing
of the data: what the low bits of a floating-point sum tell, and attacks have read in them, is rounded away. U costs
(2¹¹ s/σ)²/12, a 3000th of the variance at most, and hides that N comes from finitely many bits. With q/s = k + f, k
a multiple of 2¹⁰, the rounded number is k + round(Nσ/s + f), where no rounding error grows with q. How close h is to
what a true normal gives is proven in docs/sampler.md.
"""

from typing import Any

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import bits, fma, from_bits

# How a block of runs releases its queries.
EXACT = 0  # no noise: not private
GAUSSIAN = 1  # noise, but no grid: for exploration in float32
GRIDDED = 2  # noise on the public grid: private

EXPONENT = 0x7FF0000000000000  # the bits of a number's power of two


@formula
def spacing(deviation: Any) -> Any:
    """The spacing s of the grid for noise of this deviation: between 2⁻¹⁵ and 2⁻¹⁶ of it, a power of two."""
    return from_bits(bits(deviation) & EXPONENT, deviation) * 2.0**-15


@formula
def on_grid(deviation: Any) -> Any:
    """σ, s and what rounds to multiples of 2¹⁰ s and of s: what a worker's releases of one round have in common."""
    s = spacing(deviation)
    # Floats from 2⁵² s to 2⁵³ s are multiples of s: adding one between them and taking it off again rounds.
    return deviation, s, s * (1.5 * 2.0**62), s * (1.5 * 2.0**52)


@formula
def privatize(mode: int, query: Any, common: Any, normal: Any, dither: Any) -> Any:
    """The release of a query, see above; `common` is what `on_grid` gives."""
    deviation, s, coarse, fine = common
    if mode == GRIDDED:
        # Coarse, so that where it ceases to round, from 2⁶¹ s on, all floats are multiples of s already.
        whole = (query + coarse) - coarse
        # Of these only the fused sum is not exact before it is rounded to the grid.
        noise = (fma(normal, deviation, query - whole) + fine) - fine
        # Last what can be large: its sum then rounds a number that is as private already.
        return whole + fma(dither, s, noise)
    if mode == GAUSSIAN:
        return fma(deviation, normal, query)
    return query
