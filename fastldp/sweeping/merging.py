"""Several files seen as one: pieces of a run are joined, and what is there twice is taken once.

Nothing else is ever left out: every round that a piece of any file has is in the merged pieces, whether or not the
rounds before it are in one of these files. `covers` says so of a file that was made of others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.sweeping.layout import OUTCOMES, RUN_NUMBERS, File, Ragged, Values, spans
from fastldp.sweeping.work import COMPLETED, DIVERGED

Indices = NDArray[np.int64]

_OVER = (OUTCOMES.index(COMPLETED), OUTCOMES.index(DIVERGED))

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
        # By run, then by where pieces begin; of two that begin alike the one that goes further comes first.
        order = np.lexsort((-piece["round"], piece["begin"], piece["repetition"], setting))
        first = np.ones(order.size, dtype=bool)
        first[1:] = (np.diff(setting[order]) != 0) | (np.diff(piece["repetition"][order]) != 0)
        alone = first & np.append(first[1:], True)
        chains: list[Indices] = []
        borders = np.append(np.flatnonzero(first), order.size)
        for begin in np.flatnonzero(first & ~alone).tolist():
            end = int(borders[np.searchsorted(borders, begin, side="right")])
            chains += chains_of(order[begin:end], piece)
        # The rows of the merge, each by its pieces: mostly one.
        self._pieces = np.concatenate([order[alone], *chains]).astype(np.int64)
        lengths = np.append(np.ones(alone.sum(), dtype=np.int64), [chain.size for chain in chains]).astype(np.int64)
        heads = self._pieces[np.cumsum(lengths) - lengths]
        places = np.lexsort((piece["begin"][heads], piece["repetition"][heads], setting[heads]))
        self._pieces, self._row_of = _reordered(self._pieces, lengths, places)
        heads, self._last = heads[places], self._pieces[np.cumsum(lengths[places]) - 1]
        self.count = heads.size
        self._setting, self._begin = setting[heads], piece["begin"][heads]

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
            return np.asarray(_end_to_end(each, np.int64)[self._last])
        return np.asarray(self._all_numbers(name)[self._last])

    def rows(self, table: str, name: str) -> Gathered:
        for file in self.files:  # of the columns before this one
            file.let_go()
        picked, rows, count = self._pieces, self._row_of, self.count
        if table == "settings":
            picked, count = self._setting_rows, self._setting_rows.size
            rows = np.arange(count)
        elif name == "message":  # what went wrong before it was tried again is past
            picked, rows = self._last, np.arange(count)
        elif name == "memory":
            picked, rows = self._remembered()
        return Gathered([file.rows(table, name) for file in self.files], picked, rows, count)

    def _remembered(self) -> tuple[Indices, Indices]:
        """Of rows that may go on, the last piece that left a memory behind."""
        lengths = _end_to_end([file.rows("runs", "memory").lengths for file in self.files], np.int64)
        over = np.isin(self._all_numbers("outcome")[self._last], _OVER)
        kept = (lengths[self._pieces] > 0) & ~over[self._row_of]
        pieces, rows = self._pieces[kept], self._row_of[kept]
        last = np.append(np.diff(rows) != 0, True)[: rows.size]
        return pieces[last], rows[last]


@dataclass(frozen=True, eq=False)
class Gathered:
    """A long column of several files as one: rows that were picked from them, those of one row joined."""

    sources: list[Ragged]
    picked: Indices
    """Numbers of rows, counted through all sources."""
    rows: Indices
    """The row that each becomes a part of, ascending."""
    count: int

    @property
    def lengths(self) -> Indices:
        found = np.zeros(self.count, dtype=np.int64)
        np.add.at(found, self.rows, self._all_lengths[self.picked])
        return found

    @property
    def _all_lengths(self) -> Indices:
        return _end_to_end([source.lengths for source in self.sources], np.int64)

    def windows(self) -> Iterator[Values]:
        lengths = self._all_lengths[self.picked]
        ends = np.cumsum(lengths)
        begin = 0
        while begin < self.picked.size:
            before = ends[begin] - lengths[begin]
            # A row longer than a window comes whole.
            end = max(begin + 1, int(np.searchsorted(ends, before + WINDOW, side="right")))
            yield self._taken(self.picked[begin:end])
            begin = end

    def ragged(self) -> Ragged:
        """All of it; a view, where it is one file as it stands."""
        as_it_stands = len(self.sources) == 1 and self.sources[0].starts.size == self.count + 1
        if as_it_stands and np.array_equal(self.picked, np.arange(self.count)):
            return self.sources[0]
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        return Ragged(self._taken(self.picked), starts)

    def _taken(self, picked: Indices) -> Values:
        borders = np.cumsum([0] + [source.starts.size - 1 for source in self.sources])
        source_of = np.searchsorted(borders, picked, side="right") - 1
        lengths = np.zeros(picked.size, dtype=np.int64)
        begins = np.zeros(picked.size, dtype=np.int64)
        for k in np.unique(source_of):
            mine = source_of == k
            starts = self.sources[k].starts
            begins[mine] = starts[picked[mine] - borders[k]]
            lengths[mine] = starts[picked[mine] - borders[k] + 1] - begins[mine]
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


def chains_of(pieces: Indices, piece: dict[str, Any]) -> list[Indices]:
    """The pieces of one run as chains without a gap, from the first on, each as long as can be.

    A piece that lies within the rounds of a chain repeats them, and so does anything beside a run that is over.
    """
    chains = []
    left = pieces
    while left.size:
        start = int(piece["begin"][left[0]])
        chain = np.array(_chain(left, piece, start), dtype=np.int64)
        chains.append(chain)
        if piece["outcome"][chain[-1]] in _OVER and start == 0:
            break
        left = left[piece["round"][left] > piece["round"][chain[-1]]]
    return chains


def _chain(pieces: Indices, piece: dict[str, Any], start: int) -> list[int]:
    """The pieces that lead furthest from a round without a gap; a failure counts where none goes on."""
    further: dict[int, tuple[int, int]] = {}
    """Where a piece begins: how far one gets from there, and by which piece."""
    failures: dict[int, int] = {}
    for number in reversed(pieces.tolist()):  # those that begin last come first
        begin, end = int(piece["begin"][number]), int(piece["round"][number])
        if end == begin:
            failures[begin] = number
            continue
        over = piece["outcome"][number] in _OVER
        reach = end if over else further.get(end, (end, 0))[0]
        if reach >= further.get(begin, (0, 0))[0]:
            further[begin] = reach, number
    chain: list[int] = []
    reached = start
    while reached in further and not (chain and piece["outcome"][chain[-1]] in _OVER):
        chain.append(further[reached][1])
        reached = int(piece["round"][chain[-1]])
    if reached in failures and not (chain and piece["outcome"][chain[-1]] in _OVER):
        chain.append(failures[reached])
    return chain


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
    lacking = 0
    for piece in pieces[1:]:
        low, high = (np.searchsorted(there["run"], piece["run"], side=side) for side in ("left", "right"))
        found = np.zeros(low.size, dtype=bool)
        over = np.isin(piece["outcome"], _OVER)
        for step in range(int((high - low).max(initial=0))):
            row = np.minimum(low + step, there["run"].size - 1)
            fits = (there["begin"][row] <= piece["begin"]) & (there["round"][row] >= piece["round"])
            found |= (low + step < high) & fits & (~over | np.isin(there["outcome"][row], _OVER))
        lacking += int((~found).sum())
    return lacking


def _reordered(items: Indices, lengths: Indices, places: Indices) -> tuple[Indices, Indices]:
    """Groups of items, end to end, in another order; and the group of each."""
    begins = np.cumsum(lengths) - lengths
    return items[spans(begins[places], lengths[places])], np.repeat(np.arange(places.size), lengths[places])


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
