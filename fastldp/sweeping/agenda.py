"""The agenda of a sweep: which runs are still to be made, which of them share a block, and blocks into tasks.

It is kept in arrays over (setting, repetition), for there may be millions of runs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.engine import driving
from fastldp.engine.layouts import lanes_of
from fastldp.engine.recording import Timetable
from fastldp.engine.runs import kind_of_block
from fastldp.methods import Program
from fastldp.problems.composite import Composite
from fastldp.sweeping.layout import OUTCOMES
from fastldp.sweeping.store import NOTHING, Standings
from fastldp.sweeping.work import FAILED, RUNNING, Batch, Leg, Pending, machine

if TYPE_CHECKING:
    from fastldp.sweeping.spec import Spec

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# What a block costs beside its rounds, to an order of magnitude.
BLOCK_SECONDS = 1e-3
# Blocks that take less are sent together, so that sending them costs little beside running them.
TASK_SECONDS = 0.2
# Fewer tasks a slot would leave some of them idle at the end.
TASKS_A_SLOT = 4
CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}


class Shape(NamedTuple):
    """What packing must know of a setting."""

    kind: tuple[Any, ...]
    """What its runs must have in common with others to share a block."""
    nanoseconds: float
    """Of a round of a block."""


# Of settings that cannot run: they are in no block.
NO_SHAPE = Shape((), 0.0)


def shape_of(problem: Composite, program: Program, timetable: Timetable, *, private: bool) -> Shape:
    kind = kind_of_block(problem, program, timetable, private=private)
    return Shape(kind, driving.nanoseconds(problem, program.local_steps))


class Blocks(NamedTuple):
    """Blocks of runs that can share lanes, as numbers: block k is runs[begins[k]:ends[k]]."""

    runs: Integers
    """By row of the setting times repetitions, plus repetition."""
    begins: Integers
    ends: Integers
    rounds: Integers
    """How many each has still to make."""
    seconds: Array
    """How long each may take; an estimate."""
    grounds: Integers
    """The data of each."""
    kinds: Integers
    """What the runs of each have in common, and whether they fill more than a line of lanes."""

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.begins.size)

    def only(self, which: NDArray[Any]) -> Blocks:
        """Some of them, in this order."""
        return Blocks(self.runs, *(column[which] for column in self[1:]))


class Task(NamedTuple):
    """Blocks over the same data, for one worker."""

    ground: int
    blocks: list[list[Pending]]
    alone: bool
    """Whether nothing else is to be done at the time."""


class Agenda:
    """The runs that are wanted and missing. Of those that have not begun nothing is held but a flag."""

    def __init__(self, spec: Spec, standings: Standings, *, retry: bool) -> None:
        self._spec = spec
        self._rows = {setting.key: row for row, setting in enumerate(spec.settings)}
        self.outcomes = standings.outcome.copy()
        """(settings, repetitions): what the file has of each run, and what was taken since; −1 is nothing."""
        again = standings.outcome == CODES[RUNNING]
        if retry:
            again |= standings.outcome == CODES[FAILED]
        missing = again | (standings.outcome == NOTHING)
        cannot = np.array([setting.key in spec.refused for setting in spec.settings])
        self._refused = np.nonzero(missing & cannot[:, None])
        self._done_of_refused = standings.done[self._refused]
        self._missing = missing & ~cannot[:, None]
        self._begun = {
            place: Pending(spec.settings[place[0]], place[1], int(standings.done[place]), checkpoint)
            for place, checkpoint in standings.checkpoints.items()
            if again[place] and standings.done[place] > 0 and not cannot[place[0]]
        }
        self._count = int(self._missing.sum())
        self._rounds = np.array([setting.rounds for setting in spec.settings], dtype=np.int64)
        self._grounds = np.array([setting.ground for setting in spec.settings], dtype=np.int64)
        shapes = [spec.shapes[setting.key] for setting in spec.settings]
        self._nanoseconds = np.array([shape.nanoseconds for shape in shapes])
        problems = [ground.subjects[0].problem for ground in spec.grounds]
        sizes = np.array([driving.lines_of(problem) * lanes_of(problem) for problem in problems], dtype=np.int64)
        self._sizes = sizes[self._grounds]
        """How many runs of each setting fill a block."""
        # Kinds are numbered as they first appear.
        numbers: dict[tuple[Any, ...], int] = {}
        kinds = [
            numbers.setdefault((setting.ground, *shape.kind), len(numbers))
            for setting, shape in zip(spec.settings, shapes, strict=True)
        ]
        self._kinds = np.array(kinds, dtype=np.int64)
        # Settings of a kind side by side, the longest first, so that the runs of a block end together.
        self._order = np.lexsort((-self._rounds, self._kinds))

    def __len__(self) -> int:
        """How many runs are missing."""
        return self._count

    @property
    def wanted(self) -> int:
        """How many runs there are, missing or not."""
        return int(self._missing.size)

    @property
    def refused(self) -> int:
        """How many runs there are to be written down as failed, for their settings cannot run."""
        return int(self._refused[0].size)

    def refusals(self) -> Iterator[Batch]:
        """These, as what a worker would give back; those of a setting together."""
        runs = zip(*(column.tolist() for column in (*self._refused, self._done_of_refused)), strict=True)
        for row, some in itertools.groupby(runs, key=itemgetter(0)):
            key = self._spec.settings[row].key
            about = FAILED, self._spec.refused[key], 0.0, machine()
            yield Batch([Leg(key, repetition, done, done, *about, {}) for _, repetition, done in some], {key: None})

    def reasons(self) -> Counter[str]:
        """Why settings cannot run, and how many are refused for it, of those that are in the file as failed."""
        failed = (self.outcomes == CODES[FAILED]).any(axis=1)
        return Counter(reason for key, reason in self._spec.refused.items() if failed[self._rows[key]])

    @property
    def begun(self) -> int:
        """How many of the missing runs have made some of their rounds."""
        return len(self._begun)

    @property
    def rounds(self) -> int:
        """Of all missing runs, those still to be made."""
        return int(self.of_settings @ self._rounds) - sum(run.done for run in self._begun.values())

    @property
    def of_settings(self) -> Integers:
        """How many runs of each setting are missing."""
        return np.asarray(self._missing.sum(axis=1, dtype=np.int64))

    def count(self, outcome: str) -> int:
        """How many of the runs that are wanted have come to this outcome."""
        return int(np.count_nonzero(self.outcomes == CODES[outcome]))

    def take(self, legs: Iterable[Leg]) -> None:
        """What was made: a run that is over is missing no more, another goes on from there."""
        for leg in legs:
            row = self._rows[leg.key]
            place = row, leg.repetition
            self.outcomes[place] = CODES[leg.outcome]
            if leg.outcome == RUNNING:
                self._begun[place] = Pending(self._spec.settings[row], leg.repetition, leg.end, leg.columns["memory"])
            else:
                self._begun.pop(place, None)
                self._count -= int(self._missing[place])
                self._missing[place] = False

    def blocks(self) -> Blocks:
        """All that is missing in blocks: what has begun first, and then the longest."""
        rows, repetitions = np.nonzero(self._missing[self._order])
        rows = self._order[rows]
        done = np.zeros(rows.size, dtype=np.int64)
        if self._begun:
            all_done = np.zeros(self._missing.shape, dtype=np.int64)
            all_done[tuple(np.array(list(self._begun)).T)] = [run.done for run in self._begun.values()]
            done = all_done[rows, repetitions]
            # Of a kind, what is at the same round side by side.
            order = np.lexsort((done, self._kinds[rows]))
            rows, repetitions, done = rows[order], repetitions[order], done[order]
        numbers = np.arange(rows.size)
        first = np.ones(rows.size, dtype=bool)
        first[1:] = (np.diff(self._kinds[rows]) != 0) | (np.diff(done) != 0)
        place = numbers - np.maximum.accumulate(np.where(first, numbers, 0))
        begins = np.flatnonzero(place % self._sizes[rows] == 0)
        ends = np.append(begins, rows.size)[1:]
        heads = rows[begins]
        left = self._rounds[heads] - done[begins]
        made = Blocks(
            runs=rows * self._missing.shape[1] + repetitions,
            begins=begins,
            ends=ends,
            rounds=left,
            seconds=BLOCK_SECONDS + 1e-9 * left * self._nanoseconds[heads],
            grounds=self._grounds[heads],
            kinds=2 * self._kinds[heads] + (ends - begins > 8),
        )
        return made.only(np.lexsort((-made.seconds, done[begins] == 0)))

    def pending(self, blocks: Blocks, number: int) -> list[Pending]:
        """The runs of one of the blocks."""
        found = []
        for run in blocks.runs[blocks.begins[number] : blocks.ends[number]].tolist():
            place = row, repetition = divmod(run, self._missing.shape[1])
            found.append(self._begun.get(place) or Pending(self._spec.settings[row], repetition))
        return found

    def examples(self, blocks: Blocks) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """A block of each kind, the first, and which blocks are like it."""
        for kind in np.unique(blocks.kinds):
            alike = blocks.kinds == kind
            yield int(np.argmax(alike)), alike


def wave_of(blocks: Blocks, slots: int, leg: float) -> Blocks:
    """The blocks to be run next: those too long for one leg, no more than there are slots, and short ones beside them.

    What has begun is thus brought to its end before more is begun, and few runs are half done at any moment.
    """
    long = np.flatnonzero(blocks.seconds > leg)
    short = np.flatnonzero(blocks.seconds <= leg)
    if long.size:
        # As many as begin before the slots that are left have had a leg's time.
        begins = np.cumsum(blocks.seconds[short]) - blocks.seconds[short]
        short = short[begins < max(0, slots - long.size) * leg]
    return blocks.only(np.concatenate([long[:slots], short]))


def tasks_of(agenda: Agenda, wave: Blocks, slots: int, leg: float) -> Iterator[Task]:
    """The tasks of a wave, each made when it is asked for."""
    short = wave.seconds <= leg
    enough = min(TASK_SECONDS, float(wave.seconds[short].sum()) / (TASKS_A_SLOT * slots))
    piles: dict[int, tuple[float, list[list[Pending]]]] = {}
    columns: Any = zip(wave.grounds.tolist(), wave.seconds.tolist(), strict=True)
    for number, (ground, seconds) in enumerate(columns):
        block = agenda.pending(wave, number)
        if seconds > leg:
            yield Task(ground, [block], alone=wave.size == 1)
            continue
        before, pile = piles.pop(ground, (0.0, []))
        pile.append(block)
        if before + seconds >= enough:
            yield Task(ground, pile, alone=wave.size == 1)
        else:
            piles[ground] = before + seconds, pile
    for ground, (_, pile) in piles.items():
        yield Task(ground, pile, alone=wave.size == 1)
