"""Several files seen as one: a run's pieces are put together, and what is there twice is taken once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.sweeping.layout import (
    OUTCOMES,
    RUN_NUMBERS,
    RUN_RAGGED,
    SETTING_RAGGED,
    SETTING_TEXTS,
    Content,
    File,
    Ragged,
)
from fastldp.sweeping.layout import texts as as_texts
from fastldp.sweeping.work import COMPLETED, DIVERGED

Indices = NDArray[np.int64]

_OVER = (OUTCOMES.index(COMPLETED), OUTCOMES.index(DIVERGED))


class Merged:
    """The runs of all files, sorted by their parameters and repetition, whatever the order they were made in."""

    def __init__(self, files: Sequence[File]) -> None:
        self.files = list(files)
        contents = [file.content for file in self.files]
        self._choose_settings(contents)
        self._choose_pieces(contents)

    def _choose_settings(self, contents: Sequence[Content]) -> None:
        """Each setting once: the first row that has its ledger, or the first."""
        rows = _joined([content.settings["key"] for content in contents])
        known = _joined([content.settings["ledger"] for content in contents]) != b"null"
        _, first, number = np.unique(rows, return_index=True, return_inverse=True)
        # The first row with a ledger, where there is one.
        order = np.lexsort((np.arange(rows.size), ~known, number))
        _, leading = np.unique(number[order], return_index=True)
        chosen = order[leading] if rows.size else first
        if len(self.files) == 1 and self.files[0].sorted:
            places = np.argsort(chosen)
        else:
            known_by = [_joined([c.settings[name] for c in contents])[chosen] for name in ("parameters", "provenance")]
            texts = list(zip(*(column.tolist() for column in known_by), strict=True))
            places = np.array(sorted(range(chosen.size), key=lambda k: _sort_key(*texts[k])), dtype=np.int64)
        self._setting_rows = chosen[places].astype(np.int64)
        rank = np.empty(chosen.size, dtype=np.int64)
        rank[places] = np.arange(chosen.size)
        self._rank = rank[number]
        """The place of every row of every file among the merged settings."""

    def _choose_pieces(self, contents: Sequence[Content]) -> None:
        """The pieces that make up each run, from round 0 on without a gap."""
        offsets = np.cumsum([0] + [content.settings["key"].size for content in contents])
        setting = _joined([self._rank[c.runs["setting"] + at] for c, at in zip(contents, offsets[:-1], strict=True)])
        run = {name: _joined([content.runs[name] for content in contents]) for name in RUN_NUMBERS}
        run["setting"] = setting.astype(np.int64)
        # By run, then by where pieces begin; of two that begin alike the one that goes further comes first.
        order = np.lexsort((-run["round"], run["begin"], run["repetition"], run["setting"]))
        new = np.ones(order.size, dtype=bool)
        for name in ("setting", "repetition"):
            new[1:] &= run[name][order][1:] == run[name][order][:-1]
        new[1:] = ~new[1:]
        group = np.cumsum(new) - 1
        whole = new & np.append(new[1:], True) & (run["begin"][order] == 0)
        pieces: list[int] = order[whole].tolist()
        groups: list[int] = group[whole].tolist()
        for number in np.unique(group[~whole]):
            begin, end = np.searchsorted(group, [number, number + 1])
            chain = _chain(order[begin:end], run)
            pieces += chain
            groups += [int(number)] * len(chain)
        sort = np.argsort(np.array(groups, dtype=np.int64), kind="stable")
        self._pieces = np.array(pieces, dtype=np.int64)[sort]
        _, self._groups = np.unique(np.array(groups, dtype=np.int64)[sort], return_inverse=True)
        self._groups = self._groups.astype(np.int64)
        self.count = int(self._groups[-1]) + 1 if self._groups.size else 0
        last = np.append(self._groups[1:] != self._groups[:-1], True)[: self._groups.size]
        self._last = self._pieces[last]
        self.runs = {name: run[name][self._last] for name in RUN_NUMBERS}
        self.runs["begin"] = np.zeros(self.count, dtype=np.int64)

    @cached_property
    def content(self) -> Content:
        """The short columns."""
        contents = [file.content for file in self.files]
        settings = {
            name: _joined([content.settings[name] for content in contents])[self._setting_rows]
            for name in SETTING_TEXTS
        }
        runs: dict[str, Any] = dict(self.runs)
        runs["message"] = _joined([content.runs["message"] for content in contents])[self._last]
        sessions = sorted({session for content in contents for session in content.sessions})
        place = {session: k for k, session in enumerate(sessions)}
        session = _joined([np.array([place[s] for s in c.sessions], dtype=np.int64)[c.session] for c in contents])
        seconds = np.zeros(self.count)
        np.add.at(seconds, self._groups, _joined([content.seconds for content in contents])[self._pieces])
        return Content(
            {name: as_texts(column.tolist()) for name, column in settings.items()},
            runs | {"message": as_texts(runs["message"].tolist())},
            seconds,
            session[self._last].astype(np.int64),
            sessions,
        )

    def setting_column(self, name: str) -> Ragged:
        rows = Ragged.joined([file.ragged("settings", name) for file in self.files])
        count = self._setting_rows.size
        return rows.take(self._setting_rows, np.arange(count), count)

    def run_column(self, name: str) -> Ragged:
        rows = Ragged.joined([file.ragged("runs", name) for file in self.files])
        if name != "memory":
            return rows.take(self._pieces, self._groups, self.count)
        # Of a run that may go on, what the last piece that has a memory left behind.
        kept = (np.diff(rows.starts)[self._pieces] > 0) & ~np.isin(self.runs["outcome"], _OVER)[self._groups]
        pieces, groups = self._pieces[kept], self._groups[kept]
        last = np.append(groups[1:] != groups[:-1], True)[: groups.size]
        return rows.take(pieces[last], groups[last], self.count)

    def setting_columns(self) -> Iterator[tuple[str, Ragged]]:
        return ((name, self.setting_column(name)) for name in SETTING_RAGGED)

    def run_columns(self) -> Iterator[tuple[str, Ragged]]:
        return ((name, self.run_column(name)) for name in RUN_RAGGED)


def _chain(pieces: Indices, run: dict[str, Any]) -> list[int]:
    """The pieces of one run that lead furthest from round 0 without a gap; a failure counts where none goes on."""
    further: dict[int, tuple[int, int]] = {}
    """Where a piece begins: how far one gets from there, and by which piece."""
    failures: dict[int, int] = {}
    for piece in reversed(pieces.tolist()):  # those that begin last come first
        begin, end = int(run["begin"][piece]), int(run["round"][piece])
        if end == begin:
            failures[begin] = piece
            continue
        over = run["outcome"][piece] in _OVER
        reach = end if over else further.get(end, (end, 0))[0]
        if reach >= further.get(begin, (0, 0))[0]:
            further[begin] = reach, piece
    chain: list[int] = []
    reached = 0
    while reached in further and not (chain and run["outcome"][chain[-1]] in _OVER):
        chain.append(further[reached][1])
        reached = int(run["round"][chain[-1]])
    if reached in failures and not (chain and run["outcome"][chain[-1]] in _OVER):
        chain.append(failures[reached])
    return chain


def _joined(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(columns) if columns else np.zeros(0, dtype="S1")


def _sort_key(*texts: bytes) -> tuple[Any, ...]:
    """Settings in an order that people expect: by parameter, numbers by size."""
    return tuple(_ranked(leaf) for text in texts for leaf in _leaves(json.loads(text)))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield key
            yield from _leaves(value[key])
    elif isinstance(value, list):
        yield len(value)
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _ranked(value: Any) -> tuple[int, Any]:
    """Comparable whatever the types: nothing, truth values, numbers, texts."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    return (2, value) if isinstance(value, int | float) else (3, value)
