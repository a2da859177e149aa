# mypy: allow-untyped-calls
"""What workers make of their neighbours' messages, where no server stands between them: sums over links.

Both ends of a link take off each other's message the same number, with the other sign, and round it to a multiple of a
quantum, the same for all: such numbers are added without rounding. So what all workers add to their duals is zero, and
stays zero, bit by bit, whichever links there are.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.calling import found
from fastldp.kernels.chacha import PUBLIC, chacha20, load_key
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.release import PUBLIC_BITS, Release
from fastldp.kernels.simd import (
    broadcast,
    convert,
    fma,
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
    rounding: Floats  # (1, lanes): what rounds to multiples of the quantum where it is added and taken off again
    chance: Floats  # (1, lanes): that a link is missing in a round, times 2²⁴
    there: Floats  # (links, lanes): 1 or, where it is missing in this round, 0; nothing where none ever is


@formula
def over(weight: Any, own: Any, other: Any, rounding: Any) -> Any:
    """What goes over a link."""
    return fma(weight, own - other, rounding) - rounding


@formula
def apart(links: Any, values: Any, i: Any, out: Any, row: Any) -> None:
    """out[row] = Σₖ Wᵢₖ (values[i] − values[k]) over the neighbours of worker i, in multiples of the quantum."""
    rounding = load(links.rounding, 0)
    zero = broadcast(0.0, rounding)
    for j in range(values.shape[1]):
        store(zero, out, row, j)
    for k in range(links.begin[i], links.begin[i + 1]):
        weight, other, there = links.weights[k], links.neighbours[k], zero == zero
        if links.there.shape[0] > 0:
            there = load(links.there, links.numbers[k]) != 0.0
        for j in range(values.shape[1]):
            flow = over(weight, load(values, i, j), load(values, other, j), rounding)
            # Not times 0: that of an infinite number is none.
            store(load(out, row, j) + select(there, flow, zero), out, row, j)


@formula
def mix(links: Any, values: Any, i: Any, step: Any, sums: Any, out: Any) -> None:
    """sums[i] += what `apart` gives, and out[i] = values[i] − step times that; all at once for the last two links."""
    begin, end = links.begin[i], links.begin[i + 1]
    if links.there.shape[0] > 0 or end - begin < 2:
        apart(links, values, i, out, i)
        for j in range(values.shape[1]):
            _keep(load(out, i, j), load(values, i, j), step, sums, out, i, j)
        return
    rounding, last = load(links.rounding, 0), end - 2
    # Read before loops that store: nothing tells LLVM that what these store is not the links.
    two = _two(links, last)
    if begin == last:
        for j in range(values.shape[1]):
            _keep(_over_two(values, i, two, j, rounding), load(values, i, j), step, sums, out, i, j)
        return
    if (end - begin) % 2 != 0:
        weight, other = links.weights[begin], links.neighbours[begin]
        for j in range(values.shape[1]):
            store(over(weight, load(values, i, j), load(values, other, j), rounding), out, i, j)
        begin += 1
    else:
        some = _two(links, begin)
        for j in range(values.shape[1]):
            store(_over_two(values, i, some, j, rounding), out, i, j)
        begin += 2
    for k in range(begin, last, 2):
        some = _two(links, k)
        for j in range(values.shape[1]):
            store(load(out, i, j) + _over_two(values, i, some, j, rounding), out, i, j)
    for j in range(values.shape[1]):
        difference = load(out, i, j) + _over_two(values, i, two, j, rounding)
        _keep(difference, load(values, i, j), step, sums, out, i, j)


@formula
def _two(links: Any, k: Any) -> Any:
    return links.weights[k], links.weights[k + 1], links.neighbours[k], links.neighbours[k + 1]


@formula
def _over_two(values: Any, i: Any, two: Any, j: Any, rounding: Any) -> Any:
    own = load(values, i, j)
    first = over(two[0], own, load(values, two[2], j), rounding)
    return first + over(two[1], own, load(values, two[3], j), rounding)


@formula
def _keep(difference: Any, own: Any, step: Any, sums: Any, out: Any, i: Any, j: Any) -> None:
    store(load(sums, i, j) + difference, sums, i, j)
    store(own - step * difference, out, i, j)


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
