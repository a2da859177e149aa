"""The result file of a sweep: whatever moment the process is killed at, what was reported as finished is there.

HDF5 has no journal, so no file is ever written in place. Finished legs go to a part file of their own, written whole,
synced and renamed into the folder `<file>.parts`. Parts are merged into the file, or into a larger part, and removed
once that is on the disk and was read again and found to hold every piece of a run that they hold. A part that a crash
left behind after that repeats what is there, and is taken once.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import disk
from fastldp.describing import canonical
from fastldp.errors import ArgumentError, DamagedError, DamageWarning, StoreError
from fastldp.sweeping import layout
from fastldp.sweeping.layout import OUTCOMES, RAGGED, File, Ragged, Tables, texts
from fastldp.sweeping.merging import Merged, uncovered
from fastldp.sweeping.setting import Card
from fastldp.sweeping.work import COMPLETED, DIVERGED, Leg

# So many files are merged where a merge costs little beside what was written.
MANY_PARTS = 64
# So often a reader begins again because a writer has merged meanwhile.
ATTEMPTS = 100
NOTHING = -1
EMPTY = np.zeros(0)
# What is written of a ledger in columns of their own.
APART = ("shape", "statement")


class Standings(NamedTuple):
    """How far runs have come: arrays (settings, repetitions)."""

    outcome: NDArray[np.int8]
    """A number of OUTCOMES, or NOTHING where nothing is stored."""
    done: NDArray[np.int64]
    """The rounds."""
    checkpoints: dict[tuple[int, int], NDArray[np.float64]]
    """What runs that may go on need for it."""


class Stored:
    """What a file and its parts hold: the settings, and how far each run has come."""

    def __init__(self, path: Path) -> None:
        files = files_of(path)
        merged = Merged(files, in_order=False)
        self._settings = {name: merged.texts(name) for name in ("key", "identity", "provenance")}
        whole = np.flatnonzero(merged.whole)
        self._runs = {name: merged.numbers(name)[whole] for name in ("setting", "repetition", "outcome", "round")}
        kept = merged.rows("runs", "memory").ragged()
        there = np.flatnonzero(kept.lengths[whole])
        self._checkpoints = {row: kept.row(whole[row]).copy() for row in there.tolist()}
        self.damaged = any(file.damage for file in files)

    def standings(self, keys: Sequence[str], repetitions: int) -> Standings:
        """How far the repetitions of the settings with these keys have come."""
        outcome = np.full((len(keys), repetitions), NOTHING, dtype=np.int8)
        done = np.zeros((len(keys), repetitions), dtype=np.int64)
        place = {key.encode(): k for k, key in enumerate(keys)}
        wanted = np.array([place.get(key, -1) for key in self._settings["key"].tolist()], dtype=np.int64)
        row = wanted[self._runs["setting"]]
        repetition = self._runs["repetition"]
        ours = (row >= 0) & (repetition < repetitions)
        outcome[row[ours], repetition[ours]] = self._runs["outcome"][ours]
        done[row[ours], repetition[ours]] = self._runs["round"][ours]
        checkpoints = {(int(row[k]), int(repetition[k])): kept for k, kept in self._checkpoints.items() if ours[k]}
        return Standings(outcome, done, checkpoints)

    def strangers(self, cards: Mapping[str, Card]) -> list[tuple[Card, dict[str, Any]]]:
        """Settings that are stored with the same parameters, but of other data or another version of the method."""
        keys, identities, provenances = (self._settings[name].tolist() for name in ("key", "identity", "provenance"))
        ours = {card.identity.encode(): card for card in cards.values()}
        return [
            (ours[identity], json.loads(provenance))
            for key, identity, provenance in zip(keys, identities, provenances, strict=True)
            if identity in ours and key.decode() not in cards
        ]


class SettingRow(NamedTuple):
    """A setting as it is written down."""

    card: Card
    ledger: dict[str, Any] | None
    rounds: NDArray[np.int64]
    """Those that are recorded."""


class Store:
    """The file and its parts, for the one process that writes them."""

    def __init__(
        self, path: str | os.PathLike[str], *, session: Mapping[str, Any], lock: bool = True, shared: bool = False
    ) -> None:
        self.path = real_path(path)
        self.folder = parts_folder(self.path)
        self._mode = disk.SHARED if shared else disk.PRIVATE
        self._session = dict(session)
        self._name, self._count = secrets.token_hex(6), 0
        self._lock = disk.Lock(self.folder / "lock") if lock else None

    def __enter__(self) -> Store:
        if self.path.exists():
            _main(self.path)  # before anything is written, where the path is taken by something else
        with disk.in_words(self.path):
            if self.folder.is_symlink():
                raise StoreError(f"{self.folder}: a link, where parts are to be written; remove it, if it is not yours")
            if self._lock is None:
                disk.make_folder(self.folder, self._folder_mode)
            else:
                self._lock.acquire(self.path, self._folder_mode)
            for stale in self.folder.glob(".tmp-*"):
                disk.remove(stale)
        try:
            self.stored = Stored(self.path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with disk.in_words(self.path):
            if self._lock is not None:
                self._lock.release()
            disk.remove_folder(self.folder)  # unless there are parts in it, or another writer has just come

    @property
    def _folder_mode(self) -> int:
        return 0o700 if self._mode == disk.PRIVATE else 0o777

    def commit(self, legs: Sequence[Leg], settings: Mapping[str, SettingRow]) -> None:
        """Keep legs for good: when this returns they are on the disk."""
        if legs:
            keys = list(dict.fromkeys(leg.key for leg in legs))
            self._write(self._next_part(), _Legs(legs, [(key, settings[key]) for key in keys], self._session))

    def tidy(self) -> None:
        """Merge, where there are many files, those that are small beside the others."""
        parts = parts_of(self.path)
        if len(parts) >= MANY_PARTS:
            size = {file: file.stat().st_size for file in (self.path, *parts) if file.exists()}
            chosen = sorted(size, key=size.__getitem__)
            # What is as large as all smaller ones together is not copied for their sake.
            while len(chosen) > 2 and size[chosen[-1]] >= sum(size[file] for file in chosen[:-1]):
                chosen.pop()
            if self.path in chosen or not self.path.exists():
                self._merge([file for file in chosen if file != self.path], self.path)
            else:
                self._merge(chosen, self._next_part())

    def fold(self) -> None:
        """All parts into the one file; and the file anew, where it was damaged."""
        parts = parts_of(self.path)
        if parts or self.stored.damaged:
            self._merge(parts, self.path, in_order=True)

    def confirm(self, keys: Sequence[str], outcome: NDArray[np.int8]) -> None:
        """Raise where the file does not have each run that was taken as finished, with its outcome."""
        there = Stored(self.path).standings(keys, outcome.shape[1])
        over = np.isin(outcome, [OUTCOMES.index(COMPLETED), OUTCOMES.index(DIVERGED)])
        absent = (outcome != NOTHING) & (there.outcome == NOTHING)
        if lacking := int((absent | (over & (there.outcome != outcome))).sum()):
            told = f"{lacking:,} runs that were finished are not in it"
            raise StoreError(f"{self.path}: {told}; keep it, and report this")

    def _merge(self, parts: Sequence[Path], target: Path, *, in_order: bool = False) -> None:
        """Parts, and the target where it is there, into the target; then the parts are removed."""
        with disk.in_words(self.path):
            sources = [_main(target)] if target.exists() else []
            sources += [file for part in parts if (file := _part(part)) is not None]

            def check(draft: Path) -> None:
                if lacking := uncovered(File(draft), sources):
                    message = f"{lacking:,} pieces of runs would not get there; nothing was changed; report this"
                    raise StoreError(f"{target}: {message}")

            self._write(target, Merged(sources, in_order=in_order), in_order=in_order, check=check)
            for part in parts:
                disk.remove(part)

    def _next_part(self) -> Path:
        self._count += 1
        return self.folder / f"part-{self._name}-{self._count:08d}.h5"

    def _write(
        self, path: Path, tables: Tables, *, in_order: bool = False, check: Callable[[Path], None] | None = None
    ) -> None:
        with disk.in_words(self.path), disk.Draft(self.folder / f".tmp-{path.name}", self._mode) as draft:
            layout.write(draft, tables, in_order=in_order)
            draft.publish(path, keep_mode=True, check=check)


def real_path(path: str | os.PathLike[str]) -> Path:
    """The file itself, where the path is a link to it."""
    target = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
    if not target.name or target.is_symlink():
        raise ArgumentError("path", os.fspath(path), "no name of a file, or a link to itself; give the name of a file")
    return target


def parts_folder(path: Path) -> Path:
    return path.with_name(path.name + ".parts")


def parts_of(path: Path) -> list[Path]:
    return sorted(parts_folder(path).glob("part-*.h5"))


def files_of(path: str | os.PathLike[str]) -> list[File]:
    """The file and its parts, while another process may be merging them; where they are damaged, that is told."""
    path = real_path(path)
    for attempt in range(ATTEMPTS):
        last = attempt == ATTEMPTS - 1
        parts = parts_of(path)
        try:
            # The parts first: they vanish only after another file has what they hold.
            found = [(part, _part(part)) for part in parts]
            if path.exists():
                found.insert(0, (path, _main(path)))
        except OSError as error:
            if last or error.errno not in (errno.ENOENT, errno.ESTALE):
                raise
            continue
        # A list of a folder is not made in one moment: a part may have come and others gone meanwhile.
        if parts == parts_of(path):
            break
    for name, file in found:
        beyond = f"{name}: damaged beyond repair; the runs it had are missing, and a sweep makes them again"
        if damage := beyond if file is None else file.damage:
            warnings.warn(damage, DamageWarning, stacklevel=3)
    return [file for _, file in found if file is not None]


def _main(path: Path) -> File:
    if path.is_dir():
        raise StoreError(f"{path}: a folder; give the name of a file")
    try:
        return File(path)
    except DamagedError as error:
        raise DamagedError(
            f"{error}; put back a copy that is whole, or move it away, and the same command makes its runs again"
        ) from None


def _part(path: Path) -> File | None:
    """A part; None of one that is ruined, for it has nothing to give, and its runs are made again."""
    try:
        return File(path)
    except DamagedError:
        return None


class _Legs:
    """Legs and their settings, as a file has them."""

    def __init__(
        self, legs: Sequence[Leg], settings: Sequence[tuple[str, SettingRow]], session: Mapping[str, Any]
    ) -> None:
        self._legs, self._settings = legs, settings
        self._place = {key: k for k, (key, _) in enumerate(settings)}
        self._machines = sorted({leg.machine for leg in legs})
        self.sessions = [canonical({**session, **_facts(machine)}).encode() for machine in self._machines]

    def texts(self, name: str) -> NDArray[Any]:
        return texts([_text(name, key, row).encode() for key, row in self._settings])

    def numbers(self, name: str) -> NDArray[Any]:
        of_leg: dict[str, Callable[[Leg], float]] = {
            "setting": lambda leg: self._place[leg.key],
            "round": lambda leg: leg.end,
            "outcome": lambda leg: OUTCOMES.index(leg.outcome),
            "session": lambda leg: self._machines.index(leg.machine),
        }
        return np.array([*map(of_leg.get(name, attrgetter(name)), self._legs)])

    def rows(self, table: str, name: str) -> Ragged:
        found: list[NDArray[Any]]
        if name == "rounds":
            found = [row.rounds for _, row in self._settings]
        elif name == "statement":
            told = ["" if row.ledger is None else row.ledger["statement"] for _, row in self._settings]
            found = [np.frombuffer(text.encode(), np.uint8) for text in told]
        elif name == "variances":
            found = [EMPTY if row.ledger is None else row.ledger["shape"] for _, row in self._settings]
        elif name == "message":
            found = [np.frombuffer(leg.message.encode(), np.uint8) for leg in self._legs]
        else:
            found = [leg.columns.get(name, EMPTY) for leg in self._legs]
        return Ragged.of(found, RAGGED[table][name])


def _facts(machine: str) -> dict[str, Any]:
    """What is known of a machine; of one that is known by its name alone, that."""
    found: dict[str, Any] = json.loads(machine) if machine.startswith("{") else {"machine": machine}
    return found


def _text(name: str, key: str, row: SettingRow) -> str:
    if name == "key":
        return key
    if name == "provenance":
        return canonical(row.card.provenance)
    if name == "ledger":
        return canonical(row.ledger and {field: _plain(v) for field, v in row.ledger.items() if field not in APART})
    return row.card.identity if name == "identity" else row.card.text


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        # One number stands for all workers where they agree.
        same = value.size > 0 and bool((value == value[0]).all())
        return {"every": value[0].item(), "of": value.size} if same else value.tolist()
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        return np.full(value["of"], value["every"])
    return np.array(value) if isinstance(value, list) else value


def ledger_fields(text: bytes, variances: NDArray[np.float64]) -> dict[str, Any] | None:
    """What `Ledger.from_dict` takes, from what was written."""
    found = json.loads(text)
    if found is None:
        return None
    return {name: _restored(value) for name, value in found.items()} | {"shape": variances}
