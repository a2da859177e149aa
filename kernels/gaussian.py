"""Standard normals at an address: one ChaCha20 block of 16 words makes 8 of them by Box-Muller.

Coordinates 8c to 8c + 7 of a noise come from the block (c, round, worker, purpose) under the run's key.
Pair p of them, at 8c + 2p and 8c + 2p + 1, is made of the words w[4p] to w[4p + 3]:

    u1 = w[4p] 2⁻³² + (w[4p+1] >> 11) 2⁻⁵³ + 2⁻⁵³    in (0, 1]
    u2 = w[4p+2] 2⁻³² + (w[4p+3] >> 11) 2⁻⁵³         in [0, 1)
    √(−2 ln u1) · (cos 2πu2, sin 2πu2)               at most 8.6 in size

The 11 low bits of w[4p+1] and of w[4p+3], which these leave, are the dithers of the pair (see `privatize`).

Single precision reads the same block and makes the same normals but for rounding, from fewer of its bits:

    u1 = (w[4p] >> 1) 2⁻³¹ + 2⁻³²,  u2 = (w[4p+2] >> 8) 2⁻²⁴    at most 6.7 in size
"""

from typing import Any

from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.jit import formula
from fastldp.kernels.simd import (
    by_precision,
    convert,
    float64x8,
    fma,
    load,
    sqrt,
    store,
    words_like,
)
from fastldp.kernels.vmath import cos_sin_turn, log


@formula
def box_muller(like: Any, w0: Any, w1: Any, w2: Any, w3: Any) -> Any:
    """Two independent standard normals of the type of `like` from four words."""
    # The sums for u1 and u2 are exact, but for that of u1 in single precision.
    if by_precision(like, True, False):
        u1 = fma(convert(w0, like), 2.0**-32, fma(convert(w1 >> 11, like), 2.0**-53, 2.0**-53))
        u2 = fma(convert(w2, like), 2.0**-32, convert(w3 >> 11, like) * 2.0**-53)
    else:
        u1 = fma(convert(w0 >> 1, like), 2.0**-31, 2.0**-32)
        u2 = convert(w2 >> 8, like) * 2.0**-24
    radius = sqrt(-2.0 * log(u1))
    cosine, sine = cos_sin_turn(u2)
    return radius * cosine, radius * sine


@formula
def dither(like: Any, word: Any) -> Any:
    """One of the 2¹¹ odd multiples of 1/2 between −2¹⁰ and 2¹⁰, each as likely, from the low bits of a word."""
    return convert(word & 0x7FF, like) - 1023.5


@formula
def draw(keys: Any, block: Any, round_: Any, worker: Any, purpose: Any, like: Any = float64x8) -> Any:
    """The normals of coordinates 8 block to 8 block + 7, and their dithers: twice 8 vectors of the type of `like`.

    `keys` is an array (8, lanes) of words, one key a column.
    """
    key = load_key(words_like(like), keys)
    w = chacha20(key, block, round_, worker, purpose)
    n0, n1 = box_muller(like, w[0], w[1], w[2], w[3])
    n2, n3 = box_muller(like, w[4], w[5], w[6], w[7])
    n4, n5 = box_muller(like, w[8], w[9], w[10], w[11])
    n6, n7 = box_muller(like, w[12], w[13], w[14], w[15])
    u0, u1 = dither(like, w[1]), dither(like, w[3])
    u2, u3 = dither(like, w[5]), dither(like, w[7])
    u4, u5 = dither(like, w[9]), dither(like, w[11])
    u6, u7 = dither(like, w[13]), dither(like, w[15])
    return (n0, n1, n2, n3, n4, n5, n6, n7), (u0, u1, u2, u3, u4, u5, u6, u7)


@formula
def store_draw(
    normals: Any, dithers: Any, row: Any, keys: Any, block: Any, round_: Any, worker: Any, purpose: Any
) -> None:
    """The same to rows `row` to `row` + 7 of two arrays (rows, lanes), whose type they take."""
    n, u = draw(keys, block, round_, worker, purpose, load(normals, row))
    _store_eight(n, normals, row)
    _store_eight(u, dithers, row)


@formula
def _store_eight(values: Any, out: Any, row: Any) -> None:
    store(values[0], out, row)
    store(values[1], out, row + 1)
    store(values[2], out, row + 2)
    store(values[3], out, row + 3)
    store(values[4], out, row + 4)
    store(values[5], out, row + 5)
    store(values[6], out, row + 6)
    store(values[7], out, row + 7)
