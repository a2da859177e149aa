# mypy: allow-untyped-calls
"""What workers make of their neighbours' messages, where no server stands between them: sums over links.

Neighbours take the same number off each other, in other order and so with the other sign, bit by bit. What all workers
add to their duals is zero in exact arithmetic then, with some links missing too; and `two_sum` keeps what rounding
takes, so that it is zero to a second double's precision.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.calling import found
from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.release import PUBLIC, PUBLIC_BITS, Release
from fastldp.kernels.simd import (
    broadcast,
    convert,
    keep_apart,
    lane,
    lane_numbers,
    load,
    load_as,
    scratch,
    select,
    store,
    store_rows,
    words_like,
)

Floats = NDArray[np.floating[Any]]

# The coins of links are public, and have in their addresses a worker that there is none of.
NO_WORKER = 2**32 - 1
# A block of the cipher is so many coins.
COINS = 16


class Links(NamedTuple):
    """Who mixes whose messages, the same in all runs of a block; nothing where a server does."""

    begin: NDArray[np.int64]  # (n + 1,): where each worker's neighbours begin
    neighbours: NDArray[np.int64]  # (2 links,)
    weights: Floats  # (2 links,): that of the link, the same at both ends
    numbers: NDArray[np.int64]  # (2 links,): of the link, by which its coin is addressed
    chance: Floats  # (1, lanes): that a link is missing in a round, times 2²⁴
    there: Floats  # (links, lanes): 1 or, where it is missing in this round, 0; nothing where none ever is


@formula
def two_sum(a: Any, b: Any) -> Any:
    """a + b rounded, and what rounding took from it, exactly (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@formula
def apart(links: Any, values: Any, i: Any, j: Any) -> Any:
    """Σₖ Wᵢₖ (values[i, j] − values[k, j]) over the neighbours of worker i, and what rounding took from the sum."""
    own = load(values, i, j)
    total = lost = broadcast(0.0, own)
    begin, end = links.begin[i], links.begin[i + 1]
    if links.there.shape[0] == 0:
        if begin < end:
            total = links.weights[begin] * (own - load(values, links.neighbours[begin], j))
        for k in range(begin + 1, end):
            total, error = two_sum(total, links.weights[k] * (own - load(values, links.neighbours[k], j)))
            lost = lost + error
    else:
        for k in range(begin, end):
            term = links.weights[k] * (own - load(values, links.neighbours[k], j))
            # Not times 0: that of an infinite number is none.
            there = load(links.there, links.numbers[k]) != 0.0
            total, error = two_sum(total, select(there, term, broadcast(0.0, term)))
            lost = lost + error
    return total, lost


def _toss(t: Any, links: Any, release: Any) -> Any:
    """Which links are there in round t, by the coins of all runs, or of one, for several groups at once."""
    raise NotImplementedError("only compiled code calls this")


@overload(_toss, inline="always")
def _by_lanes_of_release(t: Any, links: Any, release: Any) -> Any:
    return _toss_of_runs if release.instance_class is Release else _toss_of_run


def _toss_of_runs(t: Any, links: Any, release: Any) -> Any:
    chance, count = load(links.chance, 0), links.there.shape[0]
    words = words_like(chance)
    key, rows = load_key(words, release.keys), scratch(words, COINS)
    for group in range((count + COINS - 1) // COINS):
        store_rows(chacha20(key, group, t, NO_WORKER, PUBLIC), rows, 0)
        for c in range(min(COINS, count - COINS * group)):
            coin = convert(load_as(words, rows, c) >> (32 - PUBLIC_BITS), chance)
            there = select(coin < chance, broadcast(0.0, chance), broadcast(1.0, chance))
            store(there, links.there, COINS * group + c)


def _toss_of_run(t: Any, links: Any, release: Any) -> Any:
    lanes = load(release.normals, 0, 0)  # for its type: the key is the same in all
    chance, count, several = load(links.chance, 0), links.there.shape[0], release.normals.shape[1]
    words = words_like(lanes)
    key, rows = load_key(words, release.keys), scratch(words, COINS)
    for batch in range((count + COINS * several - 1) // (COINS * several)):
        first = batch * several
        store_rows(chacha20(key, lane_numbers(words) + np.uint32(first), t, NO_WORKER, PUBLIC), rows, 0)
        for c in range(COINS):
            coins = convert(load_as(words, rows, c) >> (32 - PUBLIC_BITS), lanes)
            for k in range(several):
                link = COINS * (first + k) + c
                if link < count:
                    store(0.0 if lane(coins, k) < chance else 1.0, links.there, link)


def toss(placed: Any, place: int, t: int) -> None:
    """Which links are there in round t."""
    method, release = found(placed, place)[0], found(placed, place)[4]
    _toss_all(t, method.links, release)


@piece
def _toss_all(t: int, links: Any, release: Any) -> None:
    keep_apart()  # for the cipher's registers
    _toss(t, links, release)
