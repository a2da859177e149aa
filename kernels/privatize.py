"""The one place where data leaves a worker: a query with Gaussian noise, released on a public grid.

    h = s (round((q + σN)/s) + U),   s = 2⁻¹⁵ times the power of two below σ,   U uniform: see `gaussian.dither`

With a true normal N this rounds what the Gaussian mechanism gives and adds a number drawn for itself: it is
post-processing, so h is as private as q + σN, at the sensitivity of q and no more. h lies on a grid that knows nothing
of the data: what the low bits of a floating-point sum tell, and attacks have read in them, is rounded away. U costs
(2¹¹ s/σ)²/12, a 3000th of the variance at most, and hides that N comes from finitely many bits. With q/s = k + f, k
whole, the rounded number is k + round(Nσ/s + f), where no rounding error grows with q. How close h is to what a true
normal gives is proven in docs/sampler.md.
"""

from typing import Any

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import bits, fma, from_bits, rint

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
    """σ, s and 1/s: what a worker's releases of one round have in common."""
    s = spacing(deviation)
    return deviation, s, 1.0 / s


@formula
def privatize(mode: int, query: Any, common: Any, normal: Any, dither: Any) -> Any:
    """The release of a query, see above; `common` is what `on_grid` gives."""
    deviation, s, inverse = common
    if mode == GRIDDED:
        # Times powers of two, so that of these only the fused sum rounds.
        scaled = query * inverse
        whole = rint(scaled)
        # Last what can be large: its sum then rounds a number that is as private already.
        return s * (whole + (rint(fma(normal, deviation * inverse, scaled - whole)) + dither))
    if mode == GAUSSIAN:
        return fma(deviation, normal, query)
    return query
