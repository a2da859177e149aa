"""Several files seen as one: pieces of a run are joined, and what is there twice is taken once.

A piece is an interval of rounds, and a run's numbers at a round are the same in all pieces that have it. So the pieces
of a run are merged as intervals are: those that touch or overlap become one, with every round in it once. Nothing is
left out, whatever the order in which files are merged; `uncovered` sees to it, of a file that was made of others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.sweeping.layout import OF_ROUNDS, OUTCOMES, RUN_NUMBERS, File, Ragged, Values, spans
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED, RUNNING

Indices = NDArray[np.int64]

_OVER = (OUTCOMES.index(COMPLETED), OUTCOMES.index(DIVERGED))
# By outcome: what says more of how a run stands, of pieces that end at one round.
_STANDING = np.array([{COMPLETED: 2, DIVERGED: 2, FAILED: 1, RUNNING: 0}[outcome] for outcome in OUTCOMES])
# More rounds than a run may have.
SPAN = 2**33

# In JSON that is sorted by its keys.
_NUMBER = re.compile(rb"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")

# How many numbers of a long column are gathered at a time.
WINDOW = 2**20
# Longer rows are copied one by one, others by the numbers of their values.
MANY_VALUES = 64


class Merged:
    """The runs of all files, by setting and repetition; in order, settings are sorted by their parameters.

    A run that lacks its beginning, or has a gap, has several rows, or one that does not begin at round 0: `whole` says
    which rows do.
    """

    def __init__(self, files: Sequence[File], *, in_order: bool = True) -> None:
        self.files = list(files)
        self._choose_settings(in_order=in_order)
        self._join_pieces()

    def _choose_settings(self, *, in_order: bool) -> None:
        """Each setting once: the first row that has its ledger, or the first."""
        keys = self._all_texts("key")
        unknown = self._all_texts("ledger") == b"null"
        _, number = np.unique(keys, return_inverse=True)
        order = np.lexsort((unknown, number))
        _, leading = np.unique(number[order], return_index=True)
        chosen = order[leading]
        if len(self.files) == 1 and self.files[0].in_order:
            places = np.argsort(chosen)
        elif in_order:
            places = _sorted(*(self._all_texts(name)[chosen] for name in ("parameters", "provenance")))
        else:
            places = np.arange(chosen.size)
        self._setting_rows = chosen[places].astype(np.int64)
        rank = np.empty(chosen.size, dtype=np.int64)
        rank[places] = np.arange(chosen.size)
        self._rank = rank[number]
        """The place of every row of every file among the merged settings."""

    def _all_texts(self, name: str) -> Values:
        return _end_to_end([file.texts(name) for file in self.files], "S1")

    def _all_numbers(self, name: str) -> Values:
        return _end_to_end([file.numbers(name) for file in self.files], RUN_NUMBERS[name])

    def _join_pieces(self) -> None:
        offsets = np.cumsum([0] + [file.settings for file in self.files])
        of_files = [file.numbers("setting") + offset for file, offset in zip(self.files, offsets[:-1], strict=True)]
        setting = self._rank[_end_to_end(of_files, np.int64)]
        piece = {name: self._all_numbers(name) for name in ("repetition", "begin", "round", "outcome")}
        order = np.lexsort((piece["begin"], piece["repetition"], setting))
        first = np.ones(order.size, dtype=bool)
        first[1:] = (np.diff(setting[order]) != 0) | (np.diff(piece["repetition"][order]) != 0)
        alone = first & np.append(first[1:], True)
        borders = np.append(np.flatnonzero(first), order.size)
        unions: list[Union] = []
        for begin in np.flatnonzero(first & ~alone).tolist():
            end = int(borders[np.searchsorted(borders, begin, side="right")])
            unions += self._unions(order[begin:end], piece)
        # The rows of the merge, each by the pieces that have its records: mostly one, which also says how it stands.
        self._pieces = np.concatenate([order[alone], *(np.array(union.pieces) for union in unions)]).astype(np.int64)
        repeated = [np.zeros(alone.sum()), *(np.array(union.repeated) for union in unions)]
        lengths = np.append(np.ones(alone.sum()), [len(union.pieces) for union in unions]).astype(np.int64)
        heads = self._pieces[np.cumsum(lengths) - lengths]
        standing = np.append(order[alone], [union.standing for union in unions]).astype(np.int64)
        places = np.lexsort((piece["begin"][heads], piece["repetition"][heads], setting[heads]))
        moved = spans((np.cumsum(lengths) - lengths)[places], lengths[places])
        self._row_of = np.repeat(np.arange(places.size), lengths[places])
        self._pieces, self._repeated = self._pieces[moved], np.concatenate(repeated).astype(np.int64)[moved]
        heads, self._standing = heads[places], standing[places]
        self.count = heads.size
        self._setting, self._begin = setting[heads], piece["begin"][heads]

    def _unions(self, pieces: Indices, piece: dict[str, Any]) -> list[Union]:
        """The pieces of one run, by their beginnings, as intervals that neither touch nor overlap."""
        found = []
        for group in groups_of(pieces, piece):
            of_records: list[int] = []
            repeated: list[int] = []
            reached = int(piece["begin"][group[0]])
            for number in group.tolist():
                begin, end = int(piece["begin"][number]), int(piece["round"][number])
                if end > reached or not of_records:
                    of_records.append(number)
                    repeated.append(self._records_in(number, begin, reached) if begin < reached else 0)
                    reached = max(reached, end)
            ends = group[piece["round"][group] == reached]
            standing = max(ends.tolist(), key=lambda number: self._rank_of(number, int(piece["outcome"][number])))
            found.append(Union(of_records, repeated, standing))
        return found

    def _records_in(self, number: int, begin: int, end: int) -> int:
        """How many rounds of those after `begin`, up to `end`, a piece has recorded."""
        file, row = self._place_of(number)
        planned = file.rows("settings", "rounds").row(int(file.numbers("setting")[row]))
        return int(np.searchsorted(planned, end, side="right") - np.searchsorted(planned, begin, side="right"))

    def _rank_of(self, number: int, outcome: int) -> tuple[Any, ...]:
        """Of pieces that end at one round, which says how the run stands: one that is over, or the last failure."""
        if OUTCOMES[outcome] != FAILED:
            return (outcome in _OVER, 0)
        file, row = self._place_of(number)
        started = json.loads(file.sessions[file.numbers("session")[row]]).get("started", "")
        return (False, 1, started, bytes(file.rows("runs", "message").row(row)))

    def _place_of(self, number: int) -> tuple[File, int]:
        """The file and the row of a piece."""
        borders = np.cumsum([0] + [file.runs for file in self.files])
        which = int(np.searchsorted(borders, number, side="right")) - 1
        return self.files[which], int(number - borders[which])

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Whether rows begin at round 0."""
        return np.asarray(self._begin == 0)

    @property
    def sessions(self) -> list[bytes]:
        return sorted({session for file in self.files for session in file.sessions})

    def texts(self, name: str) -> Values:
        return _trimmed(self._all_texts(name)[self._setting_rows])

    def numbers(self, name: str) -> Values:
        if name in ("setting", "begin"):
            return np.asarray(self._setting if name == "setting" else self._begin)
        if name == "seconds":
            return np.asarray(np.bincount(self._row_of, self._all_numbers(name)[self._pieces], self.count))
        if name == "session":
            place = {session: k for k, session in enumerate(self.sessions)}
            each = [np.array([place[s] for s in file.sessions])[file.numbers(name)] for file in self.files]
            return np.asarray(_end_to_end(each, np.int64)[self._standing])
        return np.asarray(self._all_numbers(name)[self._standing])

    def rows(self, table: str, name: str) -> Gathered:
        for file in self.files:  # of the columns before this one
            file.let_go()
        sources = [file.rows(table, name) for file in self.files]
        if table == "settings":
            return Gathered(sources, self._setting_rows, np.arange(self._setting_rows.size), self._setting_rows.size)
        if name in OF_ROUNDS:
            return Gathered(sources, self._pieces, self._row_of, self.count, self._repeated_values(sources))
        if name == "memory":
            return Gathered(sources, *self._checkpoints(sources), self.count)
        return Gathered(sources, self._standing, np.arange(self.count), self.count)

    def _repeated_values(self, sources: Sequence[Ragged]) -> Indices:
        """How many of the first numbers of each piece other pieces of its row have."""
        if not self._repeated.any():
            return self._repeated
        lengths = _end_to_end([source.lengths for source in sources], np.int64)[self._pieces]
        records = _end_to_end([file.rows("runs", "consensus").lengths for file in self.files], np.int64)
        # A record has one number, or as many as a model has.
        return np.asarray(self._repeated * (lengths // np.maximum(records[self._pieces], 1)))

    def _checkpoints(self, sources: Sequence[Ragged]) -> tuple[Indices, Indices]:
        """Of rows that may go on, a piece that left a checkpoint where the row ends."""
        lengths = _end_to_end([source.lengths for source in sources], np.int64)
        ends = self._all_numbers("round")
        over = np.isin(self._all_numbers("outcome")[self._standing], _OVER)
        kept = (lengths[self._pieces] > 0) & (ends[self._pieces] == ends[self._standing][self._row_of])
        kept &= ~over[self._row_of]
        return self._pieces[kept], self._row_of[kept]


class Union(NamedTuple):
    """Pieces of a run that touch or overlap."""

    pieces: list[int]
    """Those that have its records, each with some that the others have not,"""
    repeated: list[int]
    """and how many of each one's first records the others have."""
    standing: int
    """The piece that says how the run stands at its end."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """A long column of several files as one: rows that were picked from them, those of one row joined."""

    sources: list[Ragged]
    picked: Indices
    """Numbers of rows, counted through all sources."""
    rows: Indices
    """The row that each becomes a part of, ascending."""
    count: int
    without: Indices | None = None
    """How many of its first values each is taken without."""

    @property
    def lengths(self) -> Indices:
        found = np.zeros(self.count, dtype=np.int64)
        np.add.at(found, self.rows, self._places[1])
        return found

    @cached_property
    def _places(self) -> tuple[Indices, Indices]:
        """Where what is picked begins in its source, and how long it is."""
        begins = _end_to_end([source.starts[:-1] for source in self.sources], np.int64)[self.picked]
        lengths = _end_to_end([source.lengths for source in self.sources], np.int64)[self.picked]
        return (begins, lengths) if self.without is None else (begins + self.without, lengths - self.without)

    def windows(self) -> Iterator[Values]:
        lengths = self._places[1]
        ends = np.cumsum(lengths)
        begin = 0
        while begin < self.picked.size:
            before = ends[begin] - lengths[begin]
            # A row longer than a window comes whole.
            end = max(begin + 1, int(np.searchsorted(ends, before + WINDOW, side="right")))
            yield self._taken(slice(begin, end))
            begin = end

    def ragged(self) -> Ragged:
        """All of it; a view, where it is one file as it stands."""
        whole = self.without is None or not self.without.any()
        as_it_stands = whole and len(self.sources) == 1 and self.sources[0].starts.size == self.count + 1
        if as_it_stands and np.array_equal(self.picked, np.arange(self.count)):
            return self.sources[0]
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        return Ragged(self._taken(slice(None)), starts)

    def _taken(self, which: slice) -> Values:
        begins, lengths = (column[which] for column in self._places)
        borders = np.cumsum([0] + [source.starts.size - 1 for source in self.sources])
        source_of = np.searchsorted(borders, self.picked[which], side="right") - 1
        targets = np.cumsum(lengths) - lengths
        taken = np.empty(int(lengths.sum()), dtype=self.sources[0].values.dtype if self.sources else np.float64)
        for k in np.unique(source_of):
            mine = (source_of == k) & (lengths > 0)
            _copy(self.sources[k].values, begins[mine], taken, targets[mine], lengths[mine])
        return taken


def _copy(source: Values, begins: Indices, target: Values, places: Indices, lengths: Indices) -> None:
    """Rows from one array to another."""
    if lengths.sum() > MANY_VALUES * lengths.size:
        for begin, place, length in zip(begins.tolist(), places.tolist(), lengths.tolist(), strict=True):
            target[place : place + length] = source[begin : begin + length]
        return
    target[spans(places, lengths)] = source[spans(begins, lengths)]


def groups_of(pieces: Indices, piece: dict[str, Any]) -> list[Indices]:
    """Pieces of one run, by their beginnings, in groups that touch or overlap."""
    reach = np.maximum.accumulate(piece["round"][pieces])
    return np.split(pieces, np.flatnonzero(piece["begin"][pieces][1:] > reach[:-1]) + 1)


def uncovered(target: File, sources: Sequence[File]) -> int:
    """How many pieces of the sources a file that was made of them lacks: none, or it must not take their place."""
    files = [target, *sources]
    names, number = np.unique(np.concatenate([file.texts("key") for file in files]), return_inverse=True)
    offsets = np.cumsum([0] + [file.settings for file in files])
    pieces = []
    for file, offset in zip(files, offsets[:-1], strict=True):
        run = number[file.numbers("setting") + offset] + names.size * file.numbers("repetition")
        pieces.append({"run": run, **{name: file.numbers(name) for name in ("begin", "round", "outcome")}})
    there = pieces[0]
    order = np.lexsort((there["begin"], there["run"]))
    there = {name: column[order] for name, column in there.items()}
    # Rows of one run have a gap between them: where a piece is in one of them, so is all that it is joined to.
    same = np.diff(there["run"]) == 0
    lacking = int((same & (there["begin"][1:] <= there["round"][:-1])).sum())
    for piece in pieces[1:]:
        # The last row of the run that begins no later than the piece.
        starts, start = (side["run"] * SPAN + side["begin"] for side in (there, piece))
        row = np.maximum(np.searchsorted(starts, start, side="right") - 1, 0)
        if starts.size == 0:
            lacking += start.size
            continue
        fits = there["run"][row] == piece["run"]
        fits &= (there["begin"][row] <= piece["begin"]) & (there["round"][row] >= piece["round"])
        at_its_end = there["round"][row] == piece["round"]
        fits &= ~at_its_end | (_STANDING[there["outcome"][row]] >= _STANDING[piece["outcome"]])
        lacking += int((~fits).sum())
    return lacking


def _end_to_end(columns: Sequence[Values], dtype: Any) -> Values:
    return np.concatenate(columns) if columns else np.zeros(0, dtype=dtype)


def _trimmed(texts: Values) -> Values:
    """Byte strings, each as wide as the longest of these."""
    return texts.astype(f"S{max(1, int(np.char.str_len(texts).max(initial=1)))}")


def _sorted(*columns: Values) -> Indices:
    """The order of settings that people expect: by what is written in words, and then by numbers, as they come.

    >>> _sorted(np.array([b'{"name":"b","step":1}', b'{"name":"a","step":10}', b'{"name":"a","step":9}'])).tolist()
    [2, 1, 0]
    """
    alike: dict[bytes, tuple[list[int], list[float]]] = {}
    for row, texts in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        pieces = _NUMBER.split(b" ".join(texts))
        rows, numbers = alike.setdefault(b"#".join(pieces[::2]), ([], []))
        rows.append(row)
        numbers.extend(map(float, pieces[1::2]))
    order = []
    for _, (rows, numbers) in sorted(alike.items()):
        keys = np.array(numbers).reshape(len(rows), -1).T[::-1]
        order.append(np.array(rows)[np.lexsort(keys)] if numbers else np.array(rows))
    return _end_to_end(order, np.int64)
