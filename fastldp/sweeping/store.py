"""The result file of a sweep: whatever moment the process is killed at, what was reported as finished is there.

HDF5 has no journal, so no file is ever written in place. Finished legs go to a part file of their own, written whole,
synced and renamed into the folder `<file>.parts`. Parts are folded into the one file by a copy that is renamed over it.
A part that a crash left behind after its fold repeats what the file has, and is taken once.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import FastLDPError, FileFormatError, StoreError
from fastldp.sweeping import layout
from fastldp.sweeping.layout import OUTCOMES, RUN_RAGGED, SETTING_TEXTS, Content, File, Ragged, texts
from fastldp.sweeping.lock import Lock
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.setting import Card, canonical
from fastldp.sweeping.work import Leg

# Folding copies the whole file, so it waits until the parts are many, and as large as the file.
MANY_PARTS = 64
# So often a reader begins again because a writer has folded meanwhile.
ATTEMPTS = 100


class Standing(NamedTuple):
    """How far a stored run has come."""

    outcome: str
    done: int
    memory: NDArray[np.float64] | None


class Stored:
    """What a file and its parts hold: the settings, and how far each run has come."""

    def __init__(self, path: Path) -> None:
        refuse_foreign(path)
        self.standings: dict[tuple[str, int], Standing] = {}
        """By key of the setting, and repetition."""
        self._settings: dict[str, tuple[str, dict[str, Any]]] = {}
        with opened(path) as files:
            if files:
                self._look(Merged(files))

    def _look(self, merged: Merged) -> None:
        content = merged.content
        keys = [key.decode() for key in content.settings["key"].tolist()]
        identities, provenances = (content.settings[name].tolist() for name in ("identity", "provenance"))
        for key, identity, provenance in zip(keys, identities, provenances, strict=True):
            self._settings[key] = identity.decode(), json.loads(provenance)
        memory = merged.run_column("memory")
        remembered = np.diff(memory.starts) > 0
        columns = (content.runs[name].tolist() for name in ("setting", "repetition", "outcome", "round"))
        for row, (setting, repetition, outcome, done) in enumerate(zip(*columns, strict=True)):
            kept = memory.row(row).copy() if remembered[row] else None
            self.standings[keys[setting], repetition] = Standing(OUTCOMES[outcome], done, kept)

    def strangers(self, cards: Mapping[str, Card]) -> list[tuple[Card, dict[str, Any]]]:
        """Settings that are stored with the same parameters, but of other data or another version of the method."""
        stored = {identity: provenance for key, (identity, provenance) in self._settings.items() if key not in cards}
        ours = {card.identity: card for card in cards.values()}
        return [(ours[identity], stored[identity]) for identity in ours.keys() & stored.keys()]


class SettingRow(NamedTuple):
    """A setting as it is written down."""

    card: Card
    ledger: dict[str, Any] | None
    rounds: NDArray[np.int64]
    """Those that are recorded."""


class Store:
    """The file and its parts, for the one process that writes them."""

    def __init__(self, path: str | os.PathLike[str], *, session: Mapping[str, Any], lock: bool = True) -> None:
        self.path = Path(path)
        self.folder = parts_folder(self.path)
        self._session = dict(session)
        self._name, self._count = secrets.token_hex(6), 0
        self._lock = Lock(self.folder / "lock") if lock else None

    def __enter__(self) -> Store:
        refuse_foreign(self.path)
        with _disk(self.path):
            if self._lock is None:
                self.folder.mkdir(parents=True, exist_ok=True)
            else:
                self._lock.acquire(self.path)
            _sync(self.folder.parent)
            for stale in self.folder.glob(".tmp-*"):
                stale.unlink()
        try:
            self.stored = Stored(self.path)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
        with suppress(OSError):  # there are parts in it, or another writer has just come
            self.folder.rmdir()

    def commit(self, legs: Sequence[Leg], settings: Mapping[str, SettingRow]) -> None:
        """Keep legs for good: when this returns they are on the disk."""
        if not legs:
            return
        keys = list(dict.fromkeys(leg.key for leg in legs))
        image = _image(legs, [(key, settings[key]) for key in keys], self._session)
        self._count += 1
        with _disk(self.path):
            _write_whole(self.folder / f"part-{self._name}-{self._count:08d}.h5", image, self.folder)

    def tidy(self) -> None:
        """Fold where it costs little beside what was written."""
        parts = parts_of(self.path)
        if len(parts) >= MANY_PARTS:
            size = self.path.stat().st_size if self.path.exists() else 0
            of_parts = sum(part.stat().st_size for part in parts)
            self._merge(parts, into_part=size > of_parts)

    def fold(self) -> None:
        """All parts into the one file."""
        if parts := parts_of(self.path):
            self._merge(parts, into_part=False)

    def _merge(self, parts: Sequence[Path], *, into_part: bool) -> None:
        """Parts into the file, or into one part where the file is too large to be copied for their sake."""
        self._count += 1
        target = self.folder / f"part-{self._name}-{self._count:08d}.h5" if into_part else self.path
        sources = [self.path, *parts] if not into_part and self.path.exists() else parts
        with _disk(self.path):
            with ExitStack() as stack:
                merged = Merged([stack.enter_context(File(source)) for source in sources])
                columns = merged.setting_columns(), merged.run_columns()
                image = layout.image(merged.content, *columns, in_order=True)
            _write_whole(target, image, self.folder)
            for part in parts:
                part.unlink()


def parts_folder(path: Path) -> Path:
    return path.with_name(path.name + ".parts")


def parts_of(path: Path) -> list[Path]:
    return sorted(parts_folder(path).glob("part-*.h5"))


def refuse_foreign(path: Path) -> None:
    """Raise, before anything is written, where the path is taken by something else."""
    if path.is_dir():
        raise StoreError(f"{path}: a folder; give the name of a file")
    if path.exists():
        File(path).close()


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[list[File]]:
    """The file and its parts, open for reading, while another process may be folding them."""
    path = Path(path)
    for attempt in range(ATTEMPTS):
        with ExitStack() as stack:
            parts = parts_of(path)
            try:
                # The parts first: they vanish only after the file has what they hold.
                files = [stack.enter_context(_part(part)) for part in parts]
                if path.exists():
                    files.insert(0, stack.enter_context(File(path)))
            except FileNotFoundError:
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            # A list of a folder is not made in one moment: a part may have come and others gone meanwhile.
            if set(parts) - set(parts_of(path)) and attempt < ATTEMPTS - 1:
                continue
            yield files
            return


def _part(path: Path) -> File:
    try:
        return File(path)
    except FileFormatError as error:
        raise FileFormatError(
            f"{error}; it is a part that was damaged after it was written: move it away, and the same command will "
            "make its runs again"
        ) from None


def _image(legs: Sequence[Leg], settings: Sequence[tuple[str, SettingRow]], session: Mapping[str, Any]) -> bytes:
    machines = sorted({leg.machine for leg in legs})
    place = {key: k for k, (key, _) in enumerate(settings)}
    written: dict[str, list[bytes]] = {name: [] for name in SETTING_TEXTS}
    for key, row in settings:
        scalars = None if row.ledger is None else {k: _plain(v) for k, v in row.ledger.items() if k != "shape"}
        for name, text in (
            ("key", key),
            ("identity", row.card.identity),
            ("parameters", row.card.text),
            ("provenance", canonical(row.card.provenance)),
            ("ledger", canonical(scalars)),
        ):
            written[name].append(text.encode())
    runs: dict[str, NDArray[Any]] = {
        "setting": np.array([place[leg.key] for leg in legs], dtype=np.int64),
        "repetition": np.array([leg.repetition for leg in legs], dtype=np.int64),
        "begin": np.array([leg.begin for leg in legs], dtype=np.int64),
        "round": np.array([leg.end for leg in legs], dtype=np.int64),
        "outcome": np.array([OUTCOMES.index(leg.outcome) for leg in legs], dtype=np.int8),
        "message": texts([leg.message.encode() for leg in legs]),
    }
    content = Content(
        {name: texts(column) for name, column in written.items()},
        runs,
        np.array([leg.seconds for leg in legs]),
        np.array([machines.index(leg.machine) for leg in legs], dtype=np.int64),
        [canonical({**session, "machine": machine}).encode() for machine in machines],
    )
    empty = np.zeros(0)
    setting_columns = {
        "rounds": Ragged.of([row.rounds for _, row in settings], np.int64),
        "variances": Ragged.of([empty if row.ledger is None else row.ledger["shape"] for _, row in settings]),
    }
    run_columns = {name: Ragged.of([leg.columns.get(name, empty) for leg in legs]) for name in RUN_RAGGED}
    return layout.image(content, iter(setting_columns.items()), iter(run_columns.items()))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        # One number stands for all workers where they agree.
        same = value.size > 0 and bool((value == value[0]).all())
        return {"every": value[0].item(), "of": value.size} if same else value.tolist()
    return value


def ledger_fields(text: bytes, variances: NDArray[np.float64]) -> dict[str, Any] | None:
    """What `Ledger.from_dict` takes, from what was written."""
    found = json.loads(text)
    if found is None:
        return None
    restored = {
        name: np.full(value["of"], value["every"])
        if isinstance(value, dict)
        else np.array(value)
        if isinstance(value, list)
        else value
        for name, value in found.items()
    }
    return restored | {"shape": variances}


def _write_whole(path: Path, image: bytes, folder: Path) -> None:
    """A file that is there whole or not at all, and stays; it is written in the folder first."""
    temporary = folder / f".tmp-{path.name}"
    try:
        with open(temporary, "wb") as file:
            file.write(image)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """What the disk refuses, in words, with what to do."""
    try:
        yield
    except FastLDPError:
        raise
    except OSError as error:
        number = error.errno
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "free some, and give the same command again"
            raise StoreError(f"{path}: no space left on the disk; what is stored is safe; {remedy}") from error
        if number in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise StoreError(
                f"{path}: cannot be written there ({os.strerror(number)}); choose a folder of yours"
            ) from error
        raise StoreError(f"{path}: {error}; what is stored is safe, give the same command again") from error


def free_bytes(path: Path) -> int:
    """What the disk under a path has left."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
