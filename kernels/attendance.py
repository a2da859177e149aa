# mypy: allow-untyped-calls
"""Which workers take part in a round, where runs draw them, and that those who do not stay as they were.

The coin of worker i in round t is word i mod 16 of the block (i // 16, t, 0, 0), under a key of its own that is derived
from the run's. Before the first round, and in round 0, all take part.

Where the coins are public an absent worker sends nothing. Its acts are not called; in a block some of whose runs have
it they are, and what it kept comes back. What the server does is about those who are there: `run.shares` are n wᵢ,
scaled so that those of the participants sum to n, and `run.parts` the same of equal weights; both are zero of the
others. Where nobody is there the server stays as it was too. Where the coins are secret all send, and an absent worker
noise alone (see `sampling`).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.calling import found
from fastldp.kernels.chacha import chacha20
from fastldp.kernels.jit import formula, piece
from fastldp.kernels.simd import (
    all_lanes,
    any_lane,
    broadcast,
    fma,
    keep_apart,
    lane_numbers,
    load,
    scratch,
    select,
    store,
    store_rows,
    uint32x16,
)

Floats = NDArray[np.floating[Any]]

# The coins of a block of the cipher, and the blocks that are made at once.
COINS = BLOCKS = 16


class Attendance(NamedTuple):
    """Who takes part in the rounds of a block's runs; no keys where all do."""

    keys: NDArray[np.uint32]  # (runs, 8)
    limit: int  # of the coins of workers that take part
    least: int  # where fewer come to a round nobody takes part in it
    first: int  # the number of the block's first worker
    secret: bool  # whether those who do not send as all others do
    there: Floats  # (2, n, lanes): 1 or 0, in even and in odd rounds
    of_runs: Floats  # (2, n, runs): the same, in the same place
    parts: Floats  # (n, lanes): 1 of those who are there, times n over how many they are; of all where all are
    shares: Floats  # (n, lanes): n wᵢ of all
    kept: Floats  # (threads, rows, d, lanes): what a worker kept
    served: Floats  # (rows, d, lanes): what the server did


def attend(placed: Any, place: int, t: int) -> None:
    """Who takes part in round t."""
    _draw(t, found(placed, place)[0].attendance)


@piece
def _draw(t: int, who: Any) -> None:
    keep_apart()  # for the cipher's registers
    like = broadcast(0, uint32x16)
    coins, n = scratch(like, COINS), who.of_runs.shape[1]
    for run in range(who.of_runs.shape[2]):
        key = (
            broadcast(load(who.keys, run, 0), like),
            broadcast(load(who.keys, run, 1), like),
            broadcast(load(who.keys, run, 2), like),
            broadcast(load(who.keys, run, 3), like),
            broadcast(load(who.keys, run, 4), like),
            broadcast(load(who.keys, run, 5), like),
            broadcast(load(who.keys, run, 6), like),
            broadcast(load(who.keys, run, 7), like),
        )
        count = 0
        for block in range(who.first // COINS, (who.first + n - 1) // COINS + 1, BLOCKS):
            store_rows(chacha20(key, lane_numbers(like) + np.uint32(block), t, 0, 0), coins, 0)
            for at in range(COINS * BLOCKS):
                i = COINS * block + at - who.first
                if 0 <= i < n:
                    there = t <= 0 or load(coins, at % COINS, at // COINS) <= who.limit
                    store(1.0 if there else 0.0, who.of_runs, t & 1, i, run)
                    count += there
        if count < who.least:
            for i in range(n):
                store(0.0, who.of_runs, t & 1, i, run)


@formula
def anybody(who: Any, t: int, i: int) -> Any:
    """Whether worker i takes part in round t in some run."""
    return any_lane(load(who.there, t & 1, i) > 0.0)


@formula
def everybody(who: Any, t: int, i: int) -> Any:
    """Whether it does in all."""
    return all_lanes(load(who.there, t & 1, i) > 0.0)


@formula
def keep(who: Any, workers: Any, i: int, share: int) -> None:
    """What worker i keeps, for those runs in which it will turn out to be absent."""
    for row in range(workers.shape[0]):
        for j in range(workers.shape[2]):
            store(load(workers, row, i, j), who.kept, share, row, j)


@formula
def bring_back(who: Any, workers: Any, t: int, i: int, share: int) -> None:
    """That again, where it was absent in round t."""
    there = load(who.there, t & 1, i) > 0.0
    for row in range(workers.shape[0]):
        for j in range(workers.shape[2]):
            store(select(there, load(workers, row, i, j), load(who.kept, share, row, j)), workers, row, i, j)


@formula
def unsay(who: Any, messages: Any, t: int, i: int, first: int, count: int) -> None:
    """No messages of round t where worker i was absent."""
    there = load(who.there, t & 1, i) > 0.0
    for k in range(first, first + count):
        for j in range(messages.shape[1]):
            sent = load(messages, k, j)
            store(select(there, sent, broadcast(np.nan, sent)), messages, k, j)


@formula
def weigh(who: Any, shares: Any, server: Any, t: int) -> Any:
    """What each participant of round t counts, of the server; and in which runs there is one."""
    count = total = broadcast(0.0, load(who.parts, 0))
    n = who.parts.shape[0]
    for i in range(n):
        there = load(who.there, t & 1, i)
        count, total = count + there, fma(there, load(who.shares, i), total)
    some = count > 0.0
    of_one, of_share = select(some, float(n) / count, 0.0), select(some, float(n) / total, 0.0)
    for i in range(n):
        there = load(who.there, t & 1, i)
        store(there * of_one, who.parts, i)
        store(there * load(who.shares, i) * of_share, shares, i)
    for row in range(server.shape[0]):
        for j in range(server.shape[2]):
            store(load(server, row, 0, j), who.served, row, j)
    return some


@formula
def serve_nobody(who: Any, server: Any, some: Any) -> None:
    """What the server kept again, where nobody was there."""
    for row in range(server.shape[0]):
        for j in range(server.shape[2]):
            store(select(some, load(server, row, 0, j), load(who.served, row, j)), server, row, 0, j)
