"""How results lie in an HDF5 file: the only module that imports h5py. `RESULTS.md`, beside it, is for readers.

A file has settings and runs, one row each. What is longer than a number lies end to end in one array, with the starts
of the rows beside it, as in a compressed sparse matrix. Part files have the same layout, with pieces of runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import h5py
import numpy as np
from numpy.typing import NDArray

from fastldp.errors import FileFormatError
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED, RUNNING

FORMAT, SCHEMA = "fastldp sweep", 1

OUTCOMES = (COMPLETED, DIVERGED, FAILED, RUNNING)
OUTCOME_TYPE = h5py.enum_dtype({name: code for code, name in enumerate(OUTCOMES)}, basetype="i1")

SETTING_TEXTS = ("key", "identity", "parameters", "provenance", "ledger")
SETTING_RAGGED = {"rounds": np.int64, "variances": np.float64}
RUN_NUMBERS = {"setting": np.int64, "repetition": np.int64, "begin": np.int64, "round": np.int64, "outcome": np.int8}
# What networks measure came later: a file without such a column has nothing in it.
RUN_LATER = ("train_loss", "test_accuracy")
RUN_RAGGED = ("consensus", "distance", "objective", *RUN_LATER, "models", "x", "memory")

# Small arrays are not worth a chunk and its filters.
FILTERED_FROM = 4096
# More rows are gathered by number.
FEW_ROWS = 256

Values = NDArray[Any]


class Ragged(NamedTuple):
    """Rows of different lengths, end to end: row k is values[starts[k]:starts[k + 1]]."""

    values: Values
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Values], dtype: Any = np.float64) -> Ragged:
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(np.concatenate(rows).astype(dtype, copy=False) if rows else np.zeros(0, dtype), starts)

    def row(self, k: int) -> Values:
        return self.values[self.starts[k] : self.starts[k + 1]]

    def take(self, rows: NDArray[np.int64], groups: NDArray[np.int64], count: int) -> Ragged:
        """These rows, in this order; those with the same group, ascending, become one row of `count`."""
        lengths = np.diff(self.starts)[rows]
        starts = np.zeros(count + 1, dtype=np.int64)
        np.add.at(starts, groups + 1, lengths)
        if rows.size < FEW_ROWS:  # which may be long: slices take no more room than they fill
            values = np.concatenate([self.values[:0], *(self.row(k) for k in rows.tolist())])
        else:
            ends = np.cumsum(lengths)
            values = self.values[np.arange(ends[-1]) + np.repeat(self.starts[rows] - (ends - lengths), lengths)]
        return Ragged(values, np.cumsum(starts))

    @classmethod
    def joined(cls, pieces: Sequence[Ragged]) -> Ragged:
        """The rows of several, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        offsets = np.cumsum([0] + [piece.values.size for piece in pieces])
        starts = [piece.starts[:-1] + offset for piece, offset in zip(pieces, offsets[:-1], strict=True)]
        return cls(np.concatenate([piece.values for piece in pieces]), np.concatenate([*starts, offsets[-1:]]))


class Content(NamedTuple):
    """All that a file holds but the long columns, which are read when they are asked for."""

    settings: dict[str, Values]
    """SETTING_TEXTS as arrays of bytes."""
    runs: dict[str, Values]
    """RUN_NUMBERS, and `message` as bytes."""
    seconds: Values
    session: NDArray[np.int64]
    sessions: list[bytes]
    """What, where and by whom runs were made, as JSON; `session` says which is a run's."""


class File:
    """One file, open for reading."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        with _readable(path):
            self._file = _opened(path)
        try:
            with _readable(path):
                self._check()
                self.sorted = bool(self._file.attrs.get("sorted", False))
                """Whether settings and runs lie in their order already."""
                self.content = self._content()
        except BaseException:
            self._file.close()
            raise

    def _check(self) -> None:
        if self._file.attrs.get("format") != FORMAT:
            raise FileFormatError(f"{self.path}: an HDF5 file, but not one of fastldp sweep; choose another name")
        schema = int(self._file.attrs["schema"])
        if schema != SCHEMA:
            raise FileFormatError(f"{self.path}: its schema is {schema}, this fastldp knows {SCHEMA}; install another")

    def _content(self) -> Content:
        file = self._file
        return Content(
            {name: file["settings"][name][()] for name in SETTING_TEXTS},
            {name: file["runs"][name][()] for name in (*RUN_NUMBERS, "message")},
            file["provenance/seconds"][()],
            file["provenance/session"][()].astype(np.int64),
            list(file["provenance/sessions"][()]),
        )

    def ragged(self, table: str, name: str) -> Ragged:
        """A long column of "settings" or "runs"."""
        with _readable(self.path):
            if name in RUN_LATER and name not in self._file[table]:
                return Ragged(np.zeros(0), np.zeros(self.content.seconds.size + 1, dtype=np.int64))
            group = self._file[table][name]
            return Ragged(group["values"][()], group["starts"][()])

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(path: str | os.PathLike[str]) -> h5py.File:
    """Without a lock, for no file is ever changed in place."""
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking flag" not in str(error):
            raise
        return h5py.File(path, "r")  # this process has it open already, with a lock


@contextmanager
def _readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever h5py says of a file that is not whole becomes one error that names it."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError, FileFormatError):
        raise
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise FileFormatError(f"{os.fspath(path)}: not a whole file of fastldp sweep ({error})") from None


def _write(
    file: h5py.File,
    content: Content,
    setting_columns: Iterator[tuple[str, Ragged]],
    run_columns: Iterator[tuple[str, Ragged]],
) -> None:
    """Everything, into a file open for writing; long columns are taken one at a time."""
    file.attrs["format"], file.attrs["schema"] = FORMAT, SCHEMA
    settings, runs, provenance = (file.create_group(name) for name in ("settings", "runs", "provenance"))
    for name in SETTING_TEXTS:
        _put(settings, name, content.settings[name])
    for name, ragged in setting_columns:
        _put_ragged(settings, name, ragged)
    for name in RUN_NUMBERS:
        numbers = content.runs[name]
        _put(runs, name, numbers.astype(OUTCOME_TYPE) if name == "outcome" else numbers)
    _put(runs, "message", content.runs["message"])
    last: dict[str, Values] = {}
    for name, ragged in run_columns:
        _put_ragged(runs, name, ragged)
        if name in ("consensus", "distance"):
            last[name] = _last_of_rows(ragged)
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
        _put(runs, "optimality", last["consensus"] + last["distance"])
    _put(provenance, "seconds", content.seconds)
    _put(provenance, "session", content.session)
    _put(provenance, "sessions", texts(content.sessions))


def image(
    content: Content,
    setting_columns: Iterator[tuple[str, Ragged]],
    run_columns: Iterator[tuple[str, Ragged]],
    *,
    in_order: bool = False,
) -> bytes:
    """The bytes of a whole file, made in memory: HDF5 itself does not survive a disk that is full.

    With `in_order` readers need not sort settings and runs.
    """
    with h5py.File("image", "w", driver="core", backing_store=False) as file:
        _write(file, content, setting_columns, run_columns)
        file.attrs["sorted"] = in_order
        file.flush()
        made: bytes = file.id.get_file_image()
    return made


def texts(items: Sequence[bytes]) -> Values:
    """Byte strings as one array, each as wide as the longest."""
    return np.array(items, dtype=f"S{max([1, *map(len, items)])}")


def _put(group: h5py.Group, name: str, values: Values) -> None:
    if values.nbytes < FILTERED_FROM:
        group.create_dataset(name, data=values)
    else:
        group.create_dataset(name, data=values, compression="gzip", compression_opts=1, shuffle=True, fletcher32=True)


def _put_ragged(group: h5py.Group, name: str, ragged: Ragged) -> None:
    inner = group.create_group(name)
    _put(inner, "values", ragged.values)
    _put(inner, "starts", ragged.starts)


def _last_of_rows(ragged: Ragged) -> Values:
    """The last number of each row; NaN of an empty one."""
    there = np.diff(ragged.starts) > 0
    last = np.full(there.size, np.nan)
    last[there] = ragged.values[ragged.starts[1:][there] - 1]
    return last
