"""Standard normals at an address: ChaCha20's words make them by Box-Muller, and dithers of what is left over.

A noise is d numbers, in groups of sixteen. Coordinate 16c + k of it has two words: leading bits a[k] from the block
(2c, round, worker, purpose) under the run's key, further bits b[k] from the block 2c + 1. A last group of eight or
fewer has both in the one block 2c, a in its first half and b in its second. Of neighbours k and k + 1, k even:

    u1 = a[k] 2⁻³² + (b[k] >> 11) 2⁻⁵³ + 2⁻⁵³        in (0, 1]
    u2 = a[k+1] 2⁻³² + (b[k+1] >> 11) 2⁻⁵³           in [0, 1)
    √(−2 ln u1) · (cos 2πu2, sin 2πu2)               at most 12.8 in size

Where a[k] < 2²⁰, so that u1 < 2⁻¹², its last term 2⁻⁵³ is refined by 64 bits: the words e[k] and e[k+1] of the block
2c + 2³¹ make it e[k] 2⁻⁸⁵ + e[k+1] 2⁻¹¹⁷ + 2⁻¹¹⁸. So large normals are made of as fine uniforms as others, relative to
how likely they are; one pair in 4096 needs it. The 11 low bits of b[k] and b[k+1], which these leave, are their dithers
(see `privatize`). How close all this is to true normals is proven in docs/sampler.md.

Single precision makes the same normals but for rounding, from the leading bits alone: half as many blocks.

    u1 = (a[k] >> 1) 2⁻³¹ + 2⁻³²,  u2 = (a[k+1] >> 8) 2⁻²⁴    at most 6.7 in size
"""

from typing import Any

from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.simd import (
    any_lane,
    broadcast,
    by_precision,
    convert,
    fma,
    high_half,
    join,
    keep_apart,
    load,
    load_as,
    low_half,
    scratch,
    select,
    sqrt,
    store,
    store_across,
    store_rows,
    words_like,
)
from fastldp.kernels.vmath import cos_sin_turn, log

# How many rows the words of a group take: in memory, for Numba branches on the index of a tuple.
WORDS = 32
# How many the last terms of its u1 take: one that is common to all, and those of each pair where some are refined.
ENDS = 9


# Leading words below this, 2⁻¹² of them, have their uniforms refined,
FEW = 1 << 20
# by the block whose number has this bit, which no block of a noise has: that would take 2³⁴ coordinates.
REFINING = 1 << 31


@formula
def uniforms(like: Any, a0: Any, b0: Any, a1: Any, b1: Any, end: Any) -> Any:
    """u1 and u2 of the words of two coordinates, and of the last term of u1; single precision has one of its own."""
    # The sums are exact, but for that of a refined u1, and of u1 in single precision.
    if by_precision(like, True, False):
        return (
            fma(convert(a0, like), 2.0**-32, fma(convert(b0 >> 11, like), 2.0**-53, end)),
            fma(convert(a1, like), 2.0**-32, convert(b1 >> 11, like) * 2.0**-53),
        )
    return fma(convert(a0 >> 1, like), 2.0**-31, 2.0**-32), convert(a1 >> 8, like) * 2.0**-24


@formula
def last_term(like: Any, a0: Any, e0: Any, e1: Any) -> Any:
    """That of u1, refined by the words e where it is to be."""
    refined = fma(convert(e0, like), 2.0**-85, fma(convert(e1, like), 2.0**-117, 2.0**-118))
    return select(a0 < FEW, refined, broadcast(2.0**-53, like))


@formula
def box_muller(u1: Any, u2: Any) -> Any:
    """Two independent standard normals from two independent uniforms, in (0, 1] and [0, 1)."""
    radius = sqrt(-2.0 * log(u1))
    cosine, sine = cos_sin_turn(u2)
    return radius * cosine, radius * sine


@formula
def dither(like: Any, word: Any) -> Any:
    """One of the 2¹¹ odd multiples of 1/2 between −2¹⁰ and 2¹⁰, each as likely, from the low bits of a word."""
    return convert(word & 0x7FF, like) - 1023.5


@formula
def store_words(rows: Any, ends: Any, keys: Any, group: Any, few: Any, address: Any, like: Any) -> Any:
    """The words of a group, which may have but `few`, to rows: first those of a; and the last terms of its u1.

    `keys` is an array (8, lanes) of words, one key a column, with as many lanes as `like` has. Returns where the words
    of b begin, and how far apart the last terms of neighbouring coordinates are: 0 where all are the first.
    """
    round_, worker, purpose = address
    key = load_key(words_like(like), keys)
    even = broadcast(2 * group, key[0])
    at, step = broadcast(round_, key[0]), broadcast(purpose, key[0])
    if few or by_precision(like, False, True):
        store_rows(chacha20(key, even, at, worker, step), rows, 0)
    else:
        # Both blocks at once, side by side in vectors twice as wide: one alone waits for itself half of the time.
        w = chacha20(join(key, key), join(even, even + 1), join(at, at), worker, join(step, step))
        store_rows(low_half(w), rows, 0)
        store_rows(high_half(w), rows, 16)
    # Single precision has no use for b, nor for other last terms; eight coordinates have b in the same block.
    if by_precision(like, False, True):
        return 8 if few else 0, 0
    store(broadcast(2.0**-53, like), ends, 0)
    least = load_as(key[0], rows, 0)
    for k in range(2, 8 if few else 16, 2):
        a0 = load_as(key[0], rows, k)
        least = select(a0 < least, a0, least)
    if not any_lane(least < FEW):
        return 8 if few else 16, 0
    _refine(rows, ends, keys, even, at, worker, step)
    return 8 if few else 16, 1


@piece
def _refine(rows: Any, ends: Any, keys: Any, even: Any, round_: Any, worker: Any, purpose: Any) -> None:
    """The last terms of u1 of a group some of whose uniforms are refined, to the rows that follow the first."""
    keep_apart()  # rare, and as long as the common path
    further = scratch(even, 16)
    store_rows(chacha20(load_key(even, keys), even | REFINING, round_, worker, purpose), further, 0)
    like = load(ends, 0)  # for its type
    for k in range(0, 16, 2):
        e0, e1 = load_as(even, further, k), load_as(even, further, k + 1)
        store(last_term(like, load_as(even, rows, k), e0, e1), ends, 1 + k // 2)


@formula
def normals_of(like: Any, rows: Any, ends: Any, begin: Any, k: int) -> Any:
    """The normals and dithers of coordinates k and k + 1 of a group, from what `store_words` stored and gave."""
    further, apart = begin
    kind = words_like(like)
    a0, b0 = load_as(kind, rows, k), load_as(kind, rows, k + further)
    a1, b1 = load_as(kind, rows, k + 1), load_as(kind, rows, k + 1 + further)
    u1, u2 = uniforms(like, a0, b0, a1, b1, load(ends, apart * (1 + k // 2)))
    n0, n1 = box_muller(u1, u2)
    return n0, n1, dither(like, b0), dither(like, b1)


@formula
def store_group(
    normals: Any, dithers: Any, row: int, first: int, count: int, keys: Any, group: Any, address: Any, across: bool
) -> None:
    """A group of `count` coordinates of a noise, to a row of two arrays (rows, coordinates, lanes) from `first` on.

    Or, where its lanes are to lie apart, `across`, of arrays (rows, lanes, coordinates).
    """
    like = load(normals, 0, 0)  # for its type
    rows, ends = scratch(words_like(like), WORDS), scratch(like, ENDS)
    begin = store_words(rows, ends, keys, group, count <= 8, address, like)
    for k in range(0, min(16, count), 2):
        n0, n1, u0, u1 = normals_of(like, rows, ends, begin, k)
        _put(n0, normals, row, first + k, across)
        _put(n1, normals, row, first + k + 1, across)
        _put(u0, dithers, row, first + k, across)
        _put(u1, dithers, row, first + k + 1, across)


@formula
def _put(value: Any, array: Any, row: int, j: int, across: bool) -> None:
    if across:
        store_across(value, array, row, j)
    else:
        store(value, array, row, j)


@formula
def store_draw(
    normals: Any, dithers: Any, row: int, keys: Any, round_: Any, worker: Any, purpose: Any, across: bool = False
) -> None:
    """A noise to a row of two arrays, as of `store_group`, that have an even number of coordinates."""
    d = normals.shape[2] if across else normals.shape[1]
    for group in range((d + 15) // 16):
        first = 16 * group
        store_group(normals, dithers, row, first, d - first, keys, group, (round_, worker, purpose), across)
