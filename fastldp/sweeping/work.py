"""What a worker does, in whatever process: run blocks for a while, and give back what was recorded and how to go on."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.describing import canonical
from fastldp.engine.block import NEVER, Block
from fastldp.engine.driving import drive
from fastldp.engine.recording import Timetable
from fastldp.engine.runs import Lane, Runs
from fastldp.measures import ACCURACY, measured
from fastldp.noise import identity
from fastldp.problems.composite import Composite
from fastldp.provenance import of_machine
from fastldp.sweeping.setting import Ground, Setting

Array = NDArray[np.float64]

# What the records of a block may take in memory before they are handed over.
MOST_BYTES = 64 * 2**20

COMPLETED, DIVERGED, FAILED, RUNNING = "completed", "diverged", "failed", "running"


class Pending(NamedTuple):
    """A run that is not over: how far it has come, and what it needs to go on."""

    setting: Setting
    repetition: int
    done: int = 0
    checkpoint: Array | None = None


class Leg(NamedTuple):
    """A piece of a run: the rounds begin + 1 to end, and what was recorded in them."""

    key: str
    repetition: int
    begin: int
    end: int
    outcome: str
    message: str
    seconds: float
    machine: str
    columns: dict[str, Array]
    """consensus, distance, what the problem measures, models, x and the checkpoint (memory); those that there are."""


class Batch(NamedTuple):
    """What came of a task: legs, and how each setting's noise was spread."""

    legs: list[Leg]
    ledgers: dict[str, dict[str, Any] | None]

    @property
    def rounds(self) -> int:
        """Run-rounds done."""
        return sum(leg.end - leg.begin for leg in self.legs)


def complete(
    ground: Ground,
    blocks: Sequence[Sequence[Pending]],
    *,
    seconds: float,
    parent: int = 0,
    threads: int = 1,
    stop: threading.Event | None = None,
) -> Batch:
    """Run blocks to their end; one that is not there after so many seconds, or at a stop, is left where it is.

    `parent` is the process that wants them, where it is on this machine.
    """
    if os.getpid() != parent and threading.current_thread() is threading.main_thread():
        # Ctrl-C reaches all processes of a terminal; the parent hears it, and workers hand over what they have.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent not in (0, os.getpid()):
        _leave_with(parent)
    batch = Batch([], {})
    for block in blocks:
        if stop is not None and stop.is_set():
            break
        _complete(ground, block, batch, seconds=seconds, threads=threads, stop=stop)
    return batch


def rehearse(ground: Ground, runs: Sequence[Pending], rounds: int) -> Batch:
    """Run a block for no more than so many rounds, as `complete` does; what it needs is compiled then."""
    batch = Batch([], {})
    _complete(ground, runs, batch, most=rounds)
    return batch


@lru_cache(maxsize=1)
def _leave_with(parent: int) -> None:
    """End this process soon after its parent was killed: nobody would take what it makes, or ever stop it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _complete(
    ground: Ground,
    pending: Sequence[Pending],
    batch: Batch,
    *,
    seconds: float = math.inf,
    threads: int = 1,
    stop: threading.Event | None = None,
    most: int = NEVER,
) -> None:
    """Run one block, and add what came of it to the batch."""
    began, done = time.perf_counter(), pending[0].done
    legs, ledgers = batch
    try:
        lanes, limit = _lanes(ground, pending)
        block = Block(ground.samples, lanes)
        if done:
            block.carry_on(done, [run.checkpoint for run in pending if run.checkpoint is not None])
        drive(block, threads=threads, stop=stop, limit=min(limit, done + most), seconds=seconds)
    except Exception as error:  # it is kept with the runs it befell, and the sweep goes on
        apart = _by_setting(pending)
        if len(apart) > 1:  # runs do not depend on who is beside them: only those of the setting at fault fail
            for mine in apart.values():
                _complete(ground, mine, batch, seconds=seconds, threads=threads, stop=stop, most=most)
            return
        message = f"{type(error).__name__}: {error}"
        for run in pending:
            ledgers.setdefault(run.setting.key, None)
            legs.append(Leg(run.setting.key, run.repetition, done, done, FAILED, message, 0.0, machine(), {}))
        return
    going = [number for number, lane in enumerate(lanes) if not lane.runs.over(lane.repetition)]
    checkpoints = dict(zip(going, block.memories(going), strict=True)) if going else {}
    each = (time.perf_counter() - began) / len(pending)
    for number, (run, lane) in enumerate(zip(pending, lanes, strict=True)):
        if ledgers.get(run.setting.key) is None:
            ledger = lane.runs.schedule.ledger
            # It may be as long as its run: it is handed over once, with the first rounds.
            told = None if ledger is None or done else {"statement": ledger.statement()}
            ledgers[run.setting.key] = None if ledger is None or told is None else ledger.to_dict() | told
        if lane.runs.done[lane.repetition] > done or number not in checkpoints:
            legs.append(_leg(run, lane, checkpoints.get(number), each))


def _lanes(ground: Ground, pending: Sequence[Pending]) -> tuple[list[Lane], int]:
    """The runs of a block, and the round until which memory allows them to be recorded."""
    by_setting = _by_setting(pending)
    begin, window = pending[0].done, max(1, MOST_BYTES // (8 * len(pending) * ground.subjects[0].problem.d))
    # All end where the first of them has recorded all it may.
    end = min(_last(mine[0].setting.timetable, begin, window) for mine in by_setting.values())
    places: dict[tuple[str, int], Lane] = {}
    for key, mine in by_setting.items():
        setting = mine[0].setting
        problem, start, optimum = ground.subjects[setting.subject]
        about = problem, setting.method, setting.budget, setting.rounds, start
        # A run that goes on without a seed has a new key for its other rounds: noise is addressed, so that is as good.
        keys = setting.noise.keys((run.repetition for run in mine), partial(identity, *about))
        schedule = ground.schedule(setting).noised(setting.noise.origin)
        runs = Runs(problem, schedule, start, keys, _between(setting.timetable, begin, end), optimum)
        places |= {(key, run.repetition): Lane(runs, row) for row, run in enumerate(mine)}
    return [places[run.setting.key, run.repetition] for run in pending], end


def _by_setting(pending: Sequence[Pending]) -> dict[str, list[Pending]]:
    found: dict[str, list[Pending]] = {}
    for run in pending:
        found.setdefault(run.setting.key, []).append(run)
    return found


def _last(timetable: Timetable, begin: int, window: int) -> int:
    """The last round that may be recorded, of a timetable that goes on after `begin`."""
    if timetable.rounds.size <= window:
        return NEVER
    ahead = timetable.rounds[timetable.rounds > begin]
    return int(ahead[window - 1]) if ahead.size > window else NEVER


def _between(timetable: Timetable, begin: int, end: int) -> Timetable:
    """Of a timetable the rounds after `begin` and up to `end`."""
    if begin == 0 and end == NEVER:
        return timetable
    first, last = np.searchsorted(timetable.rounds, [begin, end], side="right")
    return Timetable(timetable.rounds[first:last], timetable.worker)


@np.errstate(over="ignore")  # of runs that diverged
def _leg(run: Pending, lane: Lane, checkpoint: Array | None, seconds: float) -> Leg:
    runs, row = lane
    failed = int(runs.failed[row])
    # A run that diverged is noticed at the end of a segment, which depends on its neighbours: it ends where it failed.
    end = failed or int(runs.done[row])
    outcome = DIVERGED if failed else COMPLETED if checkpoint is None else RUNNING
    reached = slice(0, int(np.searchsorted(runs.timetable.rounds, end, side="right")))
    columns = {"consensus": runs.consensus[row, reached], "distance": runs.relative_distance[row, reached]}
    if runs.schedule.adapting is not None:
        columns["threshold"] = runs.threshold[row, reached]
    models = runs.means[row, reached]
    if names := run.setting.wanted.measures(runs.problem):
        columns |= measured(models, names, partial(_measures, runs.problem, names))
    if run.setting.wanted.models:
        columns["models"] = models.ravel()
    if outcome == COMPLETED:
        columns["x"] = np.add.reduce(runs.workers[row]) / runs.problem.n
    elif checkpoint is not None:
        columns["memory"] = checkpoint
    message = f"the average model was not finite at round {failed:,}" if failed else ""
    return Leg(run.setting.key, run.repetition, run.done, end, outcome, message, seconds, machine(), columns)


def _measures(problem: Composite, names: Sequence[str], x: Array) -> Mapping[str, float]:
    return {ACCURACY: problem.accuracy(x)} if names == (ACCURACY,) else problem.measure(x)


@lru_cache(maxsize=1)
def machine() -> str:
    """The machine this process runs on, as JSON."""
    return canonical(of_machine())
