"""Threads that meet: every share is done once a round, in order, whoever comes late."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import pytest

import cases
import fastldp as fl
from fastldp.engine import block, layouts, recording
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels.barrier import await_end, barrier, claim, end_round, finish
from fastldp.kernels.chacha import key_of
from fastldp.kernels.jit import serial

ROUNDS = 400


@serial
def take_part(k: int, rounds: int, met: Any, visits: Any, seen: Any) -> None:
    """visits[round, share] counts; seen[round] is what the last one of a round finds of it and of the one before."""
    shares = met.shape[0] - 2
    for t in range(rounds):
        for beside in range(shares):
            share = (k + beside) % shares
            if claim(met, share, t):
                visits[t, share] += 1
                if finish(met, t):
                    for other in range(shares):
                        seen[t] += visits[t, other]
                    end_round(met, t)
        await_end(met, t)


@pytest.mark.parametrize("shares", [1, 2, 5])
@pytest.mark.parametrize("present", [1, 2, 5])
def test_every_share_is_done_once_a_round(shares: int, present: int) -> None:
    """With all threads, and with some that never come: the others do their shares."""
    met, visits = barrier(shares), np.zeros((ROUNDS, shares), dtype=np.int64)
    seen = np.zeros(ROUNDS, dtype=np.int64)
    with ThreadPoolExecutor(present) as pool:
        for k in range(min(present, shares)):
            pool.submit(take_part, k, ROUNDS, met, visits, seen)
    assert (visits == 1).all()
    assert (seen == shares).all()


def test_who_comes_late_finds_all_done() -> None:
    met, visits = barrier(2), np.zeros((ROUNDS, 2), dtype=np.int64)
    seen = np.zeros(ROUNDS, dtype=np.int64)
    for k in (0, 1):
        take_part(k, ROUNDS, met, visits, seen)
    assert (visits == 1).all()


@pytest.fixture
def most() -> Iterator[int]:
    """Numba's threads, as many as there are, before and after."""
    before = numba.get_num_threads()
    yield before
    numba.set_num_threads(before)


@cases.tiny_shards
@pytest.mark.parametrize(
    "method",
    [
        fl.PrimalDual(),
        fl.DPScaffold(0.05, 2),
        fl.LDPFedEXP(0.05, 2),
        fl.DPScaffNew(0.05, 0.3),
        fl.ISRLDP(0.05, accelerated=True),
    ],
    ids=repr,
)
def test_rounds_have_the_same_bits_on_fewer_threads_than_shares(method: Any, most: int) -> None:
    """One thread goes through the rounds for all; the others' turns come when nothing is left to do."""
    problem = cases.make("zero", sizes=(30, 1, 1, 7, 30)).problem
    schedule = method.schedule(problem, fl.Budget(1.0, 1e-4), 60)
    timetable = recording.timetable(fl.Final(), 60, problem.n)
    found = []
    for threads, shares in ((1, 1), (1, 4), (2, 2), (2, 4)):
        given = schedule, np.zeros(problem.d), key_of(3, 0)[None], timetable, problem.optimum()
        runs = Runs(problem, *given)
        laid = block.Block(layouts.samples_in_rows(problem), [Lane(runs, 0)])
        numba.set_num_threads(min(threads, most))
        for end in (1, 20, 60):
            laid.advance(end, threads=shares)
        found.append(runs.workers.copy())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
