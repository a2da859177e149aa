"""Numba's threads in parallel kernels: how many a block has, how many blocks run at once, and who may start them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numba

from fastldp.kernels import jit

# Numba's simplest threading layer aborts where two threads start parallel kernels at the same time.
ONE_CALLER = ("workqueue",)
_TURN = threading.Lock()

# What a round costs that threads share, beside its work, in nanoseconds a thread: counters, what the server reads of
# other cores' caches and these fetch back. Two threads were measured to lose 1.5 µs a round where their cores share a
# cache and 3.7 where not, uneven shares included. And what a product takes.
MEETING, PRODUCT = 600.0, 0.25

# Threads use their cores to the full, also where they wait for each other. Those that had less than this of them share
# them with other programs; one thread may be faster then, and is tried for a segment. Who was faster goes on for so
# many segments.
LEAST_USE, SEGMENTS = 0.65, 10


def threading_layer() -> str:
    """What Numba runs parallel kernels on, or would: it says so only after the first."""
    try:
        return str(numba.threading_layer())  # type: ignore[attr-defined]
    except ValueError:
        return f"{jit.config.THREADING_LAYER} (chosen when the first parallel kernel runs)"


def several_callers() -> bool:
    """Whether several threads may start parallel kernels at the same time."""
    numba.get_num_threads()  # chooses the layer
    return threading_layer() not in ONE_CALLER


@contextmanager
def sharing(count: int) -> Iterator[None]:
    """So many of Numba's threads for parallel kernels inside the with, in turns where there must be; one needs none."""
    if count == 1:
        yield
        return
    with nullcontext() if several_callers() else _TURN:
        before = numba.get_num_threads()
        numba.set_num_threads(count)
        try:
            yield
        finally:
            numba.set_num_threads(before)


def spread(blocks: int, cores: int, work: float, workers: int, *, at_once: bool) -> tuple[int, int]:
    """How many blocks of so many products a round run at the same time, and on how many threads each.

    As the last of them ends soonest: threads share a round's workers, and meet once a round.

    >>> spread(1, 2, 1e6, 20, at_once=True)
    (1, 2)
    >>> spread(8, 64, 1e6, 20, at_once=True)
    (8, 8)
    >>> spread(8, 64, 1e6, 20, at_once=False)
    (1, 20)
    """

    def rounds_of_all(choice: tuple[int, int]) -> tuple[float, int]:
        count, threads = choice
        meeting = MEETING * threads if threads > 1 else 0.0
        return -(-blocks // count) * (PRODUCT * work / threads + meeting), -count

    # Blocks in turns have two threads at least: whether these pay has been asked.
    choices = [
        (count, threads)
        for count in range(1, (min(blocks, cores) if at_once else 1) + 1)
        for most in [min(cores // count, workers)]
        for threads in range(min(most, 2 if count == 1 else 1), most + 1)
    ]
    return min(choices, key=rounds_of_all)


class Crew:
    """The threads of a block: as many as it may have, or one while other programs keep their cores busy.

    A thread that has lost its core keeps the others waiting for a time slice, a thousand rounds of small data. The
    results are the same, bit for bit.
    """

    def __init__(self, most: int) -> None:
        self.most = self.now = most
        self._paces: dict[int, float] = {}
        self._settled = 2  # the first segment wakes threads, and lays out what it is about
        self._began = time.perf_counter(), time.process_time()

    def begin(self) -> None:
        """Before a segment."""
        self._began = time.perf_counter(), time.process_time()

    def end(self, rounds: int) -> None:
        """After a segment of so many rounds."""
        wall, used = self._began
        self.judge(rounds, time.perf_counter() - wall, time.process_time() - used)

    def judge(self, rounds: int, seconds: float, used: float) -> None:
        """Choose who runs the next segment, after one that took so long and used so much of the cores."""
        if self.most == 1:
            return
        self._paces[self.now] = seconds / rounds
        self._settled -= 1
        if self._settled > 0:
            return
        if self.now == self.most:
            if used < LEAST_USE * self.now * seconds:
                self.now = 1
        elif self._settled == 0 or self._paces[1] > self._paces[self.most]:
            # The time of one thread is over, or it was no faster.
            self.now, self._settled = self.most, 0 if self._settled == 0 else SEGMENTS
        else:
            self._settled = SEGMENTS
