"""The agenda of a sweep: which runs are still to be made, in arrays over (setting, repetition)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import engine
from fastldp.layouts import lanes_of
from fastldp.sweeping.layout import OUTCOMES
from fastldp.sweeping.store import NOTHING, Standings
from fastldp.sweeping.work import FAILED, RUNNING, Leg, Pending

if TYPE_CHECKING:
    from fastldp.sweeping.spec import Spec

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# What a block costs beside its rounds, to an order of magnitude.
BLOCK_SECONDS = 1e-3
CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}


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
        self._missing = again | (standings.outcome == NOTHING)
        self._begun = {
            place: Pending(spec.settings[place[0]], place[1], int(standings.done[place]), memory)
            for place, memory in standings.memories.items()
            if again[place] and standings.done[place] > 0
        }
        self._count = int(self._missing.sum())
        self._rounds = np.array([setting.rounds for setting in spec.settings], dtype=np.int64)
        self._grounds = np.array([setting.ground for setting in spec.settings], dtype=np.int64)
        shapes = [spec.shapes[setting.key] for setting in spec.settings]
        self._nanoseconds = np.array([shape.nanoseconds for shape in shapes])
        # Kinds are numbered as they first appear.
        numbers: dict[tuple[Any, ...], int] = {}
        kinds = [
            numbers.setdefault((setting.ground, *shape.mates), len(numbers))
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
                self._missing[place] = False
                self._count -= 1

    def blocks(self) -> Blocks:
        """All that is missing in blocks: what has begun first, and then the longest."""
        repetitions = self._missing.shape[1]
        fresh = self._missing[self._order]
        places = np.array(list(self._begun), dtype=np.int64).reshape(-1, 2)
        if places.size:
            where = np.empty_like(self._order)
            where[self._order] = np.arange(where.size)
            fresh[where[places[:, 0]], places[:, 1]] = False
        rows, each = np.nonzero(fresh)
        rows = self._order[rows]
        begun = self._blocks(*self._sorted(places), repetitions)
        return _joined(begun, self._blocks(rows, each, np.zeros(rows.size, dtype=np.int64), repetitions))

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

    def _sorted(self, places: Integers) -> tuple[Integers, Integers, Integers]:
        """Rows, repetitions and rounds done of runs that have begun, those that can go on together side by side."""
        rows, repetitions = places.T
        done = np.array([run.done for run in self._begun.values()], dtype=np.int64)
        order = np.lexsort((repetitions, rows, -self._rounds[rows], done, self._kinds[rows]))
        return rows[order], repetitions[order], done[order]

    def _blocks(self, rows: Integers, each: Integers, done: Integers, repetitions: int) -> Blocks:
        """Blocks of runs that lie side by side where they can share lanes, the longest first."""
        kinds = self._kinds[rows]
        changes = np.flatnonzero((np.diff(kinds) != 0) | (np.diff(done) != 0)) + 1
        cuts = np.concatenate([[0], changes, [rows.size]]) if rows.size else np.zeros(1, dtype=np.int64)
        begins = [np.zeros(0, dtype=np.int64)]
        ends = [np.zeros(0, dtype=np.int64)]
        for first, last in itertools.pairwise(cuts.tolist()):
            problem = self._spec.grounds[self._grounds[rows[first]]].subjects[0].problem
            cut = engine.cuts_of(last - first, engine.lines_of(problem) * lanes_of(problem))
            begins.append(first + cut[:-1])
            ends.append(first + cut[1:])
        begin, end = np.concatenate(begins), np.concatenate(ends)
        heads = rows[begin]
        left = self._rounds[heads] - done[begin]
        made = Blocks(
            runs=rows * repetitions + each,
            begins=begin,
            ends=end,
            rounds=left,
            seconds=BLOCK_SECONDS + 1e-9 * left * self._nanoseconds[heads],
            grounds=self._grounds[heads],
            kinds=2 * self._kinds[heads] + (end - begin > 8),
        )
        return made.only(np.argsort(-made.seconds, kind="stable"))


def _joined(first: Blocks, second: Blocks) -> Blocks:
    shifted = second._replace(begins=second.begins + first.runs.size, ends=second.ends + first.runs.size)
    return Blocks(*(np.concatenate(pair) for pair in zip(first, shifted, strict=True)))
