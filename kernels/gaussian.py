"""Standard normals at an address: one ChaCha20 block of 16 words makes 8 of them by Box-Muller.

Coordinates 8c to 8c + 7 of a run's noise come from the block (c, round, worker, purpose) under the run's key.
Pair p of them is made of the words w[4p] to w[4p + 3]:

    u1 = w[4p] 2^-32 + (w[4p+1] >> 11) 2^-53 + 2^-53   in (0, 1]
    u2 = w[4p+2] 2^-32 + (w[4p+3] >> 11) 2^-53         in [0, 1)
    √(-2 ln u1) · (cos 2πu2, sin 2πu2)

In single precision the same block is used with u1 = (w[4p] >> 1) 2^-31 + 2^-32 and u2 = (w[4p+2] >> 8) 2^-24.
"""
from typing import Any

from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.jit import formula
from fastldp.kernels.simd import by_precision, convert, float64x8, fma, sqrt, uint32x8, uint32x16
from fastldp.kernels.vmath import cos_sin_turn, log


@formula
def uniform(like: Any, high: Any, low: Any, offset: Any) -> Any:
    return fma(convert(high, like), 2.0**-32, fma(convert(low >> 11, like), 2.0**-53, offset))


@formula
def box_muller(like: Any, w0: Any, w1: Any, w2: Any, w3: Any) -> Any:
    """Two independent standard normals of each lane from four words."""
    cosine, sine = cos_sin_turn(uniform(like, w2, w3, 0.0))
    radius = sqrt(-2.0 * log(uniform(like, w0, w1, 2.0**-53)))
    return radius * cosine, radius * sine


@formula
def normals(keys: Any, block: Any, round_: Any, worker: Any, purpose: Any) -> Any:
    """The normals of coordinates 8 block to 8 block + 7, as 8 vectors: keys is an array (8, lanes)."""
    w = chacha20(load_key(uint32x8, keys), block, round_, worker, purpose)
    n0, n1 = box_muller(float64x8, w[0], w[1], w[2], w[3])
    n2, n3 = box_muller(float64x8, w[4], w[5], w[6], w[7])
    n4, n5 = box_muller(float64x8, w[8], w[9], w[10], w[11])
    n6, n7 = box_muller(float64x8, w[12], w[13], w[14], w[15])
    return n0, n1, n2, n3, n4, n5, n6, n7
