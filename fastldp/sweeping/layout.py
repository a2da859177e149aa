"""How results lie in an HDF5 file: the only module that imports h5py. `RESULTS.md`, beside it, is for readers.

A file has settings and runs, one row each. What is longer than a number lies end to end in one array, with the starts
of the rows beside it, as in a compressed sparse matrix. Part files have the same layout, with pieces of runs. Every
file is sealed, and nothing of it is read before all its bytes are known to be those that were written.
"""

from __future__ import annotations

import io
import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from fastldp.errors import DamagedError, FileFormatError
from fastldp.measures import ACCURACY, FORMER_NAMES
from fastldp.privacy.statement import SECRET, SHARED
from fastldp.sweeping import sealing
from fastldp.sweeping.setting import FROM_OS
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED, RUNNING

FORMAT, SCHEMA = "fastldp sweep", 2

OUTCOMES = (COMPLETED, DIVERGED, FAILED, RUNNING)
OUTCOME_TYPE = h5py.enum_dtype({name: code for code, name in enumerate(OUTCOMES)}, basetype="i1")

SETTING_TEXTS = ("key", "identity", "parameters", "provenance", "ledger")
SETTING_RAGGED: dict[str, Any] = {"rounds": np.int64, "variances": np.float64, "statement": np.uint8}
RUN_NUMBERS: dict[str, Any] = {
    "setting": np.int64,
    "repetition": np.int64,
    "begin": np.int64,
    "round": np.int64,
    "outcome": np.int8,
    "session": np.int64,
    "seconds": np.float64,
}
MEASURED = ("train_loss", ACCURACY)
"""What is measured of networks, and on test data."""
RECORDED = ("consensus", "distance", "objective", "threshold", *MEASURED)
"""What may be recorded along the rounds."""
OF_ROUNDS = (*RECORDED, "models")
"""These have numbers of recorded rounds; the others say how a run stands where it has come to."""
RUN_RAGGED: dict[str, Any] = {
    "message": np.uint8,
    **dict.fromkeys((*OF_ROUNDS, "x", "memory"), np.float64),
}
RAGGED = {"settings": SETTING_RAGGED, "runs": RUN_RAGGED}

# Noise is not worth compressing; what settings have in common is.
COMPRESSED = ("settings/rounds", "settings/statement", *(f"settings/{name}" for name in SETTING_TEXTS))
# Small arrays are not worth a chunk and its filters.
COMPRESSED_FROM = 4096
# Larger files are mapped into memory instead.
MOST_COPIED = 64 * 2**20
# So many runs, and settings, are named where they were damaged.
NAMED = 2

PROMISE = (
    "The ledger of a setting has what each of its runs promised and spent; in words, fastldp.results(path)[k].ledger"
    ".statement(). Whoever sees several runs sees several budgets spent"
)

Values = NDArray[Any]


class Rows(Protocol):
    """Rows of different lengths, end to end, that may be more than memory holds."""

    @property
    def lengths(self) -> NDArray[np.int64]: ...

    def windows(self) -> Iterator[Values]:
        """Their values, some at a time."""


class Tables(Protocol):
    """Settings and runs, a row each, to be written to a file or read from some."""

    @property
    def sessions(self) -> list[bytes]:
        """What, where and by whom runs were made, as JSON; the number `session` says which is a run's."""

    def texts(self, name: str) -> Values:
        """One of SETTING_TEXTS, as an array of bytes."""

    def numbers(self, name: str) -> Values:
        """One of RUN_NUMBERS."""

    def rows(self, table: str, name: str) -> Rows:
        """A long column of "settings" or "runs"."""


class Ragged(NamedTuple):
    """Rows of different lengths, end to end: row k is values[starts[k]:starts[k + 1]]."""

    values: Values
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Values], dtype: Any = np.float64) -> Ragged:
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(np.concatenate(rows).astype(dtype, copy=False) if rows else np.zeros(0, dtype), starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def windows(self) -> Iterator[Values]:
        yield self.values

    def row(self, k: int) -> Values:
        return self.values[self.starts[k] : self.starts[k + 1]]

    def last(self, rows: NDArray[np.int64]) -> Values:
        """The last number of each of these rows; NaN of an empty one."""
        begin, end = self.starts[rows], self.starts[rows + 1]
        found = np.full(rows.size, np.nan)
        found[end > begin] = self.values[end[end > begin] - 1]
        return found


def optimality(consensus: Values, distance: Values) -> Values:
    """The sum of both, which may overflow of a run that diverged."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(consensus + distance)


def spans(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers from each begin on, so many of them, end to end.

    >>> spans(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return np.asarray(np.arange(lengths.sum()) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths))


class File:
    """One file, open for reading, and sound: what was damaged and could not be made again is refused."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        with _readable(self.path):
            self._map = _mapped(self.path)
            if not sealing.is_sealed(memoryview(self._map)):
                _refuse_unsealed(self.path)
            sealed = sealing.opened(memoryview(self._map), self.let_go)
            self._bytes = sealed.content
            self._file = h5py.File(_Window(self._bytes), "r")
            _refuse_foreign(self.path, self._file.attrs, "install another")
            self.in_order = bool(self._file.attrs["sorted"])
            """Whether settings and runs lie in their order already."""
            self.damage = self._damage(sealed.damaged) if sealed.damaged else ""
            """What was found damaged and was made again from parity, in words."""

    @property
    def runs(self) -> int:
        return int(self._file["runs/setting"].size)

    @property
    def settings(self) -> int:
        return int(self._file["settings/key"].size)

    @property
    def sessions(self) -> list[bytes]:
        found: list[bytes] = self._array("sessions").tolist()
        return found

    def texts(self, name: str) -> Values:
        return self._array(f"settings/{name}")

    def numbers(self, name: str) -> Values:
        return self._array(f"runs/{name}")

    def rows(self, table: str, name: str) -> Ragged:
        """A long column; one that is not there has nothing in any row."""
        dtype = RAGGED[table][name]
        if name not in self._file[table]:  # perhaps a file of the time when it was called otherwise
            name = next((former for former, now in FORMER_NAMES.items() if now == name), name)
        if name not in self._file[table]:
            count = self.runs if table == "runs" else self.settings
            return Ragged(np.zeros(0, dtype), np.zeros(count + 1, dtype=np.int64))
        return Ragged(self._array(f"{table}/{name}/values"), self._array(f"{table}/{name}/starts"))

    def let_go(self) -> None:
        """Take no more memory for what was looked at; it is still there to be looked at again."""
        if isinstance(self._map, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def _array(self, name: str) -> Values:
        """A view of the file where that can be had, so that memory is taken only for what is looked at."""
        data = self._file[name]
        offset = data.id.get_offset()
        if offset is None:  # compressed, or empty
            return np.asarray(data[()])
        flat = np.frombuffer(self._bytes, data.dtype, data.size, offset)
        return flat.view(np.int8) if h5py.check_enum_dtype(data.dtype) else flat

    def _damage(self, pages: Sequence[int]) -> str:
        """Which columns, and which runs or settings, lay in damaged pages."""
        touched: dict[str, set[int]] = {}
        self._file.visititems(lambda name, item: touched.update({name: self._touched(name, item, pages)}))
        where = [self._named(table, {name: rows for name, rows in touched.items() if rows}) for table in RAGGED]
        count = f"{len(pages)} pages of it were" if len(pages) > 1 else "a page of it was"
        what = "; ".join(filter(None, where)) or "there were no numbers in it"
        mended = f"{count} damaged, and made again from parity ({what})"
        return f"{self.path}: {mended}; the next sweep into it writes it anew"

    def _touched(self, name: str, item: Any, pages: Sequence[int]) -> set[int]:
        """The rows of an array that lie in these pages."""
        rows: set[int] = set()
        if not isinstance(item, h5py.Dataset) or item.size == 0:
            return rows
        for offset, size, elements in _extents(item):
            for page in pages:
                begin, end = page * sealing.PAGE - offset, (page + 1) * sealing.PAGE - offset
                if begin < size and end > 0 and item.chunks is not None:
                    rows |= {*elements}
                elif begin < size and end > 0:
                    rows |= {*elements[max(0, begin) // item.dtype.itemsize : -(-end // item.dtype.itemsize)]}
        if name.endswith("/values"):
            starts = self._array(name.removesuffix("values") + "starts")
            return {*(np.searchsorted(starts, sorted(rows), side="right") - 1).tolist()}
        return rows

    def _named(self, table: str, touched: dict[str, set[int]]) -> str:
        """The columns of a table that were touched, and the first of its rows, for people; empty where none were."""
        columns = sorted({name.split("/")[1] for name in touched if name.startswith(table)})
        count = self.runs if table == "runs" else self.settings
        rows = sorted({row for name, rows in touched.items() if name.startswith(table) for row in rows if row < count})
        names = [self._name(table, row) for row in rows[:NAMED]]
        more = f" and {len(rows) - NAMED:,} more" if len(rows) > NAMED else ""
        return f"{', '.join(columns)} of {', '.join(names)}{more}" if rows else ""

    def _name(self, table: str, row: int) -> str:
        setting = int(self.numbers("setting")[row]) if table == "runs" else row
        parameters = json.loads(self.texts("parameters")[setting])
        told = {**parameters["method"], **(parameters["budget"] or {}), "rounds": parameters["rounds"]}
        told = {key: value for key, value in told.items() if key != "name" and value not in (None, False)}
        shown = ", ".join(f"{key}={value}" for key, value in told.items() if not isinstance(value, dict | list))
        name = f"setting {setting} ({parameters['method']['name']}, {shown})"
        return f"repetition {self.numbers('repetition')[row]} of {name}" if table == "runs" else name


def _extents(data: h5py.Dataset) -> Iterator[tuple[int, int, range]]:
    """Where an array lies in its file: the first byte and the number of bytes of each piece, and its elements."""
    if data.chunks is None:
        yield data.id.get_offset(), data.nbytes, range(data.size)
        return
    for number in range(data.id.get_num_chunks()):
        chunk = data.id.get_chunk_info(number)
        first = chunk.chunk_offset[0]
        yield chunk.byte_offset, chunk.size, range(first, min(first + data.chunks[0], data.size))


class _Window(io.RawIOBase):
    """Bytes in memory as a file for h5py, without a copy of them."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._position = content, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, len(self._content))[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        found = self._content[self._position : self._position + len(buffer)]
        buffer[: len(found)] = found
        self._position += len(found)
        return len(found)


def _mapped(path: str) -> mmap.mmap | bytes:
    """The bytes of a file, which stay what they are though another should take its name.

    Small ones are copied, so that not even a change in place can reach what was checked.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(handle).st_size
        if size == 0:
            raise DamagedError("it is empty")
        if size > MOST_COPIED:
            return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        with open(handle, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(handle)


def _refuse_unsealed(path: str) -> None:
    """Raise where a file is of another program, or of an fastldp that did not seal."""
    try:
        with h5py.File(path, "r", locking=False) as file:
            attributes = dict(file.attrs)
    except (OSError, RuntimeError, KeyError, ValueError):
        return
    # One of ours that has lost its seal is damaged.
    if attributes.get("format") != FORMAT or attributes.get("schema") == 1:
        _refuse_foreign(path, attributes, "choose another name")


def _refuse_foreign(path: str, attributes: Mapping[str, Any], remedy: str) -> None:
    if attributes.get("format") != FORMAT:
        raise FileFormatError(f"{path}: an HDF5 file, but not one of fastldp sweep; choose another name")
    if (schema := int(attributes["schema"])) != SCHEMA:
        raise FileFormatError(f"{path}: its schema is {schema}, this fastldp knows {SCHEMA}; {remedy}")


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Whatever is said of a file that is not whole becomes one error that names it."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{path}: not a whole file of fastldp sweep ({error})") from None
    except FileFormatError:
        raise
    except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the system's word, not HDF5's
            raise
        raise FileFormatError(f"{path}: not a whole file of fastldp sweep ({error})") from None


def write(file: io.RawIOBase, tables: Tables, *, in_order: bool = False) -> None:
    """A whole file, sealed; long columns are written a window at a time. In order, readers need not sort it."""
    with h5py.File(file, "w") as root:
        root.attrs["privacy"] = f"{warning_of_noise(tables.texts('parameters'))} {PROMISE}".strip()
        root.attrs["format"], root.attrs["schema"], root.attrs["sorted"] = FORMAT, SCHEMA, in_order
        for name in SETTING_TEXTS:
            _put(root, f"settings/{name}", tables.texts(name))
        for name in SETTING_RAGGED:
            _put_rows(root, tables, "settings", name)
        for name, dtype in RUN_NUMBERS.items():
            numbers = tables.numbers(name).astype(dtype, copy=False)
            _put(root, f"runs/{name}", numbers.astype(OUTCOME_TYPE) if name == "outcome" else numbers)
        ends = {name: _put_rows(root, tables, "runs", name) for name in RUN_RAGGED}
        _put(root, "runs/optimality", optimality(ends["consensus"], ends["distance"]))
        _put(root, "sessions", texts(tables.sessions))
    sealing.seal(file)


def warning_of_noise(parameters: Values) -> str:
    """What a file says first where noise is made of seeds, or in common; nothing where there is none such."""
    private = ~np.char.startswith(parameters, b'{"budget":null')
    seeded = private & ~np.char.endswith(parameters, f'"seed":"{FROM_OS}"}}'.encode())
    # Noise in common goes unsaid in parameters, as it did when there was no other.
    common = seeded & (np.char.find(parameters, b'"noise":"own"') < 0)
    return f"{SECRET}.{f' {SHARED}.' if common.any() else ''}" if seeded.any() else ""


def texts(items: Sequence[bytes]) -> Values:
    """Byte strings as one array, each as wide as the longest."""
    return np.array(items, dtype=f"S{max([1, *map(len, items)])}")


def _put(root: h5py.File, name: str, values: Values) -> None:
    root.create_dataset(name, data=values, **_filters(name, values.nbytes))


def _filters(name: str, size: int) -> dict[str, Any]:
    pays = name in COMPRESSED and size >= COMPRESSED_FROM
    return {"compression": "gzip", "compression_opts": 1, "shuffle": True} if pays else {}


def _put_rows(root: h5py.File, tables: Tables, table: str, column: str) -> Values:
    """Write a long column, unless it is empty; the last number of each row, NaN of an empty one."""
    name, dtype, rows = f"{table}/{column}", RAGGED[table][column], tables.rows(table, column)
    lengths = rows.lengths
    starts = np.concatenate([[0], np.cumsum(lengths)])
    last = np.full(lengths.size, np.nan)
    if starts[-1] == 0:
        return last
    there = np.flatnonzero(lengths)
    ends = starts[there + 1] - 1
    size = int(starts[-1])
    values = root.create_dataset(f"{name}/values", (size,), dtype, **_filters(name, size * np.dtype(dtype).itemsize))
    begin = 0
    for window in rows.windows():
        values[begin : begin + window.size] = window
        inside = slice(*np.searchsorted(ends, [begin, begin + window.size]))
        last[there[inside]] = window[ends[inside] - begin]
        begin += window.size
    _put(root, f"{name}/starts", starts)
    return last
