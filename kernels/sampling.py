"""Which samples a release is made of, where runs draw them: each by a coin of its own.

A coin is a word of the cipher under a key that is derived from the run's (see `chacha`): that of sample l of worker i,
in release k of round t, is word l mod 16 of the block (l // 16, t, i, k). A sample is drawn where its coin is not above
a limit, so with a probability that is a multiple of 2⁻³² exactly. Coins are the worker's secret, as its noise is.

In run lanes each run draws for itself, and the slopes of samples that it has not drawn become zero, which adds nothing
to a sum. A run of a network is always alone, and takes the drawn rows only.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.jit import piece
from fastldp.kernels.simd import (
    broadcast,
    keep_apart,
    lane_numbers,
    load,
    load_as,
    scratch,
    select,
    store,
    store_rows,
    words_like,
)

Words = NDArray[np.uint32]
Floats = NDArray[np.floating[Any]]

# The coins of a block of the cipher.
COINS = 16
# How many blocks are made at once for a run alone: as many words as fill a line.
BLOCKS = 16


class Everyone(NamedTuple):
    """All samples are in every release."""

    nothing: int = 0


class Drawn(NamedTuple):
    """How the runs of a block draw their samples."""

    keys: Words  # (8, lanes)
    limits: Words  # (1, lanes): of the coins of samples that are drawn
    first: int  # the number of the block's first worker
    there: Floats  # (2, n, lanes): 0 of workers that draw none in even or odd rounds; nothing where all take part


class DrawnAlone(NamedTuple):
    """How a run alone does: the lanes of its cipher are blocks."""

    keys: Words  # (8, blocks): the same in all lanes
    limits: Words  # (1,)
    first: int
    there: Floats  # (2, n)
    rows: NDArray[np.int64]  # (shares, rows of a worker + 1, at most): scratch for the numbers of those that are drawn


Drawing = Everyone | Drawn | DrawnAlone


def keep_drawn(draw: Any, i: Any, begin: Any, count: Any, coins: Any, slopes: Any) -> Any:
    """Slopes of worker i's samples from `begin` on to zero where they are not of a draw, (how, round, release).

    A worker's samples are all asked for, in order: `coins`, scratch for COINS words, keeps those at hand.
    """
    raise NotImplementedError("only compiled code calls this")


@overload(keep_drawn, inline="always")
def _by_type_of_draw(draw: Any, i: Any, begin: Any, count: Any, coins: Any, slopes: Any) -> Any:
    return _keep_drawn if draw[0].instance_class is Drawn else _keep_all


def _keep_all(draw: Any, i: Any, begin: Any, count: Any, coins: Any, slopes: Any) -> Any:
    pass


def _keep_drawn(draw: Any, i: Any, begin: Any, count: Any, coins: Any, slopes: Any) -> Any:
    drawing, t, k = draw
    zero = broadcast(0.0, load(slopes, 0))
    limits = load_as(words_like(zero), drawing.limits, 0)
    for at in range(begin, begin + count):
        if at % COINS == 0:
            _flip(limits, drawing, at // COINS, t, i, k, coins)
        drawn = load_as(limits, coins, at % COINS) <= limits
        store(select(drawn, load(slopes, at - begin), zero), slopes, at - begin)
    if drawing.there.shape[0] > 0:
        there = load(drawing.there, t & 1, i)
        for at in range(count):
            store(select(there > 0.0, load(slopes, at), zero), slopes, at)


@piece
def _flip(like: Any, drawing: Any, block: int, t: int, i: int, k: int, coins: Any) -> None:
    keep_apart()  # the cipher among the gradients would spoil these
    store_rows(chacha20(load_key(like, drawing.keys), block, t, drawing.first + i, k), coins, 0)


def count_drawn(draw: Any, i: Any, size: Any, share: Any, counting: Any) -> Any:
    """How many of worker i's samples are of a draw, of a run alone; −1 where all are, as in those that count."""
    raise NotImplementedError("only compiled code calls this")


def number_drawn(draw: Any, share: Any, at: Any) -> Any:
    """The number of one of them, among the worker's samples."""
    raise NotImplementedError("only compiled code calls this")


@overload(count_drawn, inline="always")
def _count_by_type(draw: Any, i: Any, size: Any, share: Any, counting: Any) -> Any:
    return _count_drawn if draw[0].instance_class is DrawnAlone else _all_are_drawn


def _all_are_drawn(draw: Any, i: Any, size: Any, share: Any, counting: Any) -> Any:
    return -1


def _count_drawn(draw: Any, i: Any, size: Any, share: Any, counting: Any) -> Any:
    return -1 if counting else _draw_rows(draw[0], draw[1], i, draw[2], size, share)


@overload(number_drawn, inline="always")
def _number_by_type(draw: Any, share: Any, at: Any) -> Any:
    return _number_drawn if draw[0].instance_class is DrawnAlone else _number_of_all


def _number_of_all(draw: Any, share: Any, at: Any) -> Any:
    return at


def _number_drawn(draw: Any, share: Any, at: Any) -> Any:
    return load(draw[0].rows, share, at)


@piece
def _draw_rows(drawing: Any, t: int, i: int, k: int, size: int, share: int) -> int:
    """How many of worker i's samples are drawn for release k of round t; rows[share] begins with their numbers."""
    keep_apart()
    if drawing.there.shape[0] > 0 and load(drawing.there, t & 1, i) == 0.0:
        return 0
    like, limit = load(drawing.keys, 0), load(drawing.limits, 0)
    coins = scratch(like, COINS)
    key, blocks = load_key(like, drawing.keys), drawing.keys.shape[1]
    count = 0
    for begin in range(0, size, COINS * blocks):
        several = lane_numbers(like) + np.uint32(begin // COINS)
        store_rows(chacha20(key, several, t, drawing.first + i, k), coins, 0)
        for at in range(min(size - begin, COINS * blocks)):
            # Whether the number stays is decided by where the next one goes: no branch, which nobody could foresee.
            store(begin + at, drawing.rows, share, count)
            count += load(coins, at % COINS, at // COINS) <= limit
    return count
