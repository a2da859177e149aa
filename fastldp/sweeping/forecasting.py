"""What a sweep would do, and how long it would take: a trial of every kind of block, on all cores, as workers do it."""

from __future__ import annotations

import heapq
import math
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.engine import driving
from fastldp.kernels import calling
from fastldp.solve import check_jobs
from fastldp.sweeping import spec as specs
from fastldp.sweeping.agenda import Agenda, Blocks
from fastldp.sweeping.backends import backend_of
from fastldp.sweeping.runner import COMMIT_SECONDS, agenda_of, bytes_of, duration, size, told_reasons
from fastldp.sweeping.setting import Ground
from fastldp.sweeping.spec import Spec
from fastldp.sweeping.specification import Sweep
from fastldp.sweeping.store import SettingRow, Store, Stored, real_path
from fastldp.sweeping.work import FAILED, Batch, Leg, Pending, rehearse

Array = NDArray[np.float64]

# How long each kind of block is tried, at each of two lengths.
TRIAL_SECONDS = 0.15
# So many blocks of a kind are tried at most; where they are short they differ in their settings.
MOST_TRIED = 64
# Fewer blocks are handed to slots one by one; of more, the last ones do not matter.
FEW_BLOCKS = 10_000


@dataclass(frozen=True)
class Forecast:
    """What a sweep would do."""

    settings: int
    runs: int
    found: int
    """Of the runs, those that the file has already."""
    begun: int
    failed: int
    blocks: int
    rounds: int
    """Of all runs that are missing."""
    seconds: float
    """From reading the specification to the end of writing, with kernels that are compiled."""
    bytes: int
    slots: int
    compiled: int
    """How many kernels had to be compiled for the trial; the sweep will find them."""
    refused: int = 0
    """Runs that will be written down as failed, for their settings cannot run."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why these cannot, and how many settings."""

    def summary(self) -> str:
        """The same as an aligned table.

        Returns
        -------
        str
            A line for settings, runs, what is to do, time and file each, and for each reason why some cannot run.
        """
        compiled = f", for which {self.compiled} kernels were compiled" if self.compiled else ""
        unfinished = [f"{n:,} {what}" for n, what in ((self.begun, "begun"), (self.failed, "failed")) if n]
        also = f" ({', '.join(unfinished)})" if unfinished else ""
        left = self.runs - self.found - self.refused
        rows = [
            ("settings", f"{self.settings:,}"),
            ("runs", f"{self.runs:,}, of which {self.found:,} are in the file{also}"),
            (
                "to do",
                f"{left:,} runs in {self.blocks:,} blocks, {self.rounds:,} rounds",
            ),
            ("time", f"about {duration(self.seconds)} on {self.slots} cores, by a short trial{compiled}"),
            ("file", f"about {size(self.bytes)} more"),
        ]
        rows += [("cannot run", told.replace(" failed:", ":", 1)) for told in told_reasons(self.reasons)]
        return "\n".join(f"  {name:<10} {text}" for name, text in rows)


class Pace(NamedTuple):
    """A cost that grows with a count: seconds = fixed + each · count."""

    fixed: float
    each: float

    @classmethod
    def through(cls, first: tuple[int, float], second: tuple[int, float]) -> Pace:
        """The line through two measurements of (count, seconds); neither part of it is negative.

        >>> Pace.through((10, 3.0), (50, 7.0))
        Pace(fixed=2.0, each=0.1)
        """
        (few, short), (many, long) = first, second
        if many <= few or long <= short:
            return cls(long, 0.0) if many <= few else cls((short + long) / 2, 0.0)
        each = (long - short) / (many - few)
        if each * few > short:  # the second, which took longer, is the better known
            return cls(0.0, long / many)
        return cls(short - each * few, each)


class Measured(NamedTuple):
    """What the parts of a sweep were seen to take."""

    planning: float
    """Reading the specification and the file."""
    loading: float
    """Kernels that are compiled."""
    blocks: Mapping[int, Pace]
    """A block by its rounds, with all slots at work, by kind."""
    commits: Pace
    """Writing a part, by its runs."""
    folding: Pace
    """Making the one file, by its runs."""

    def seconds(self, blocks: Blocks, runs: int, slots: int, *, shared: bool) -> float:
        """Of a whole sweep; `shared` says that a block left alone has all slots."""
        each = np.zeros(blocks.size)
        for kind, pace in self.blocks.items():
            alike = blocks.kinds == kind
            each[alike] = pace.fixed + pace.each * blocks.rounds[alike]
        working = each.sum() / slots if shared and blocks.size == 1 else makespan(each, slots)
        # What is written is read and copied once more in the end.
        parts = max(1, math.ceil(working / COMMIT_SECONDS))
        writing = parts * self.commits.fixed + runs * self.commits.each + self.folding.fixed + runs * self.folding.each
        return self.planning + (self.loading + float(working) + writing if runs else 0.0)


def makespan(seconds: Array, slots: int) -> float:
    """When the last of so many slots is done, each taking the next job in turn.

    >>> makespan(np.array([3.0, 2.0, 2.0]), 2)
    4.0
    """
    if seconds.size > FEW_BLOCKS:
        return float(seconds.sum()) / slots
    ends = [0.0] * slots
    for one in seconds.tolist():
        heapq.heapreplace(ends, ends[0] + one)
    return max(ends)


def forecast(
    spec: str | os.PathLike[str] | Sweep,
    path: str | os.PathLike[str],
    *,
    n_jobs: int | None = None,
    retry: bool = False,
    mix: bool = False,
    given: Mapping[str, Any] | None = None,
    quick: bool = False,
    synthetic: bool = False,
) -> Forecast:
    """What `sweep` would do, how long it might take, and how large the file would get. Nothing is written to it.

    Parameters
    ----------
    spec : path, str or Sweep
        A TOML file, a text, or an object, as of `sweep`.
    path : path
        The HDF5 file, which need not be there.
    n_jobs : int, optional
        How many blocks may run at a time; as many as there are cores by default.
    retry : bool
        Whether what failed before is to be run again.
    mix : bool
        Whether the same runs of other data are allowed in the file, as of `sweep`.
    given : dict, optional
        Data made in Python, as of `sweep`.
    quick : bool
        Whether it is a small trial, by the table [quick].
    synthetic : bool
        Whether to take generated stand-ins in place of named sets.

    Returns
    -------
    Forecast
        Counts, seconds and bytes.
    """
    check_jobs(n_jobs)
    began = time.perf_counter()
    read = specs.read(spec, given, quick=quick, synthetic=synthetic)
    target = real_path(path)
    agenda = agenda_of(read, Stored(target), target, retry=retry, mix=mix)
    blocks = agenda.blocks()
    planning = time.perf_counter() - began
    slots = backend_of("threads", read.grounds, n_jobs, None).slots
    before = _compilations()
    measured = _measured(read, agenda, blocks, slots, planning)
    shared = blocks.size == 1 and driving.threads_pay(read.grounds[blocks.grounds[0]].subjects[0].problem)
    return Forecast(
        settings=len(read.settings),
        runs=agenda.wanted,
        found=agenda.wanted - len(agenda) - agenda.refused,
        begun=agenda.begun,
        failed=agenda.count(FAILED),
        blocks=blocks.size,
        rounds=agenda.rounds,
        seconds=measured.seconds(blocks, len(agenda), slots, shared=shared),
        bytes=bytes_of(read, agenda),
        slots=slots,
        compiled=_compilations() - before,
        refused=agenda.refused,
        reasons=dict(Counter(read.refused.values()).most_common()),
    )


def _measured(spec: Spec, agenda: Agenda, blocks: Blocks, slots: int, planning: float) -> Measured:
    loading, paces = 0.0, {}
    batches: list[Batch] = []
    with ThreadPoolExecutor(slots) as pool:
        for first, alike in agenda.examples(blocks):
            ground, compiled = spec.grounds[blocks.grounds[first]], _compilations()
            numbers = np.flatnonzero(alike)
            some = numbers[:: -(-numbers.size // MOST_TRIED)]
            tried = [agenda.pending(blocks, number) for number in some.tolist()]
            cold, warm = (_timed(partial(rehearse, ground, tried[0], 1)) for _ in range(2))
            if _compilations() == compiled:
                loading += max(0.0, cold - warm)
            pace, made = _tried(ground, tried, blocks.rounds[some].tolist(), slots, pool)
            paces[int(blocks.kinds[first])] = pace
            batches += made
    return Measured(planning, loading, paces, *_writing(spec, batches))


def _tried(
    ground: Ground, blocks: Sequence[Sequence[Pending]], lengths: Sequence[int], slots: int, pool: ThreadPoolExecutor
) -> tuple[Pace, list[Batch]]:
    """Blocks of one kind and these lengths on all slots at once: what each takes by its rounds, and what it made."""
    rounds, took = 1, _timed(partial(rehearse, ground, blocks[0], 1))
    while rounds < lengths[0] and took < TRIAL_SECONDS:
        rounds = min(lengths[0], 4 * rounds)
        took = _timed(partial(rehearse, ground, blocks[0], rounds))
    # Where all is done in no time, as many blocks as make the time long enough to be measured.
    count = min(len(blocks), max(1, round(TRIAL_SECONDS / took)))
    made: list[Batch] = []

    def together(rounds: int) -> tuple[int, float]:
        """Rounds, and the seconds of a block with all slots at work: the median, where there are blocks for three."""
        made.clear()
        spells = []
        for spell in range(min(3, count)):
            some = blocks[spell:count:3]
            began = time.perf_counter()
            first, *_ = pool.map(lambda each: [rehearse(ground, block, rounds) for block in each], [some] * slots)
            spells.append((time.perf_counter() - began) / len(some))
            made.extend(first)
        return round(sum(min(rounds, most) for most in lengths[:count]) / count), statistics.median(spells)

    return Pace.through(together(-(-rounds // 8)), together(rounds)), made


def _writing(spec: Spec, batches: Sequence[Batch]) -> tuple[Pace, Pace]:
    """What it takes to write a part and to make the one file, by the runs in it; tried in a folder of its own."""
    legs = [leg for batch in batches for leg in batch.legs]
    if not legs:
        return Pace(0.0, 0.0), Pace(0.0, 0.0)
    ledgers = {key: ledger for batch in batches for key, ledger in batch.ledgers.items()}
    rounds = {setting.key: setting.timetable.rounds for setting in spec.settings if setting.key in ledgers}
    rows = {key: SettingRow(spec.cards[key], ledger, rounds[key]) for key, ledger in ledgers.items()}
    (commit_one, fold_one), (commit_all, fold_all) = (_written(some, rows) for some in (legs[:1], legs))
    count = len(legs)
    return Pace.through((1, commit_one), (count, commit_all)), Pace.through((1, fold_one), (count, fold_all))


def _written(legs: Sequence[Leg], rows: Mapping[str, SettingRow]) -> tuple[float, float]:
    """The seconds it takes to write a part and to make a file of it: of three, those in which nothing came between."""
    tries = []
    for _ in range(3):
        with (
            tempfile.TemporaryDirectory() as folder,
            Store(Path(folder) / "trial.h5", session={}, lock=False) as store,
        ):
            tries.append((_timed(partial(store.commit, legs, rows)), _timed(store.fold)))
    commit, fold = (min(one) for one in zip(*tries, strict=True))
    return commit, fold


def _timed(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def _compilations() -> int:
    """How many kernels this process has compiled."""
    return calling.counts()[1]
