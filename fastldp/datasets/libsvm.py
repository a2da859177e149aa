"""LIBSVM's text format: chunks of lines parsed by the kernel on all cores, and its findings put into words."""

from __future__ import annotations

import codecs
import math
import os
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp import memory
from fastldp.datasets.dataset import Dataset
from fastldp.datasets.unpacking import unpacked
from fastldp.errors import ArgumentError, FileFormatError
from fastldp.forking import available_cores
from fastldp.kernels import libsvm as kernel
from fastldp.validation import integer

CHUNK = 1 << 21
# Column numbers are int32, as in SciPy.
LARGEST_INDEX = 2**31 - 1

MESSAGES = {
    kernel.BAD_LABEL: "the label {word} is not a finite decimal number",
    kernel.BAD_ENTRY: "{word} is not index:value; an index is a whole number ≥ 0",
    kernel.BAD_VALUE: "the value of {word} is not a finite decimal number",
    kernel.INDEX_TOO_SMALL: "the index of {word} is 0, and the first is 1 here; give zero_based=True if it is meant",
    kernel.INDEX_TOO_LARGE: "the index of {word} is larger than {most}",
    kernel.NOT_ASCENDING: "the indices do not ascend: {word} repeats one or comes after a larger one; sort the line",
}


def read_libsvm(
    path: str | os.PathLike[str], *, features: int | None = None, zero_based: bool | Literal["auto"] = "auto"
) -> Dataset:
    """A file of `label index:value ...` lines, plain or packed by gzip, bzip2 or xz; labels as the file has them.

    Numbers are rounded as Python rounds them, and zeros that the file spells out are kept. Empty lines, comments from
    # on and a `qid:` after the label are passed over.

    Parameters
    ----------
    path : path
        The file.
    features : int, optional
        The number of columns; an index beyond is an error. Where it is not given, the largest index decides.
    zero_based : bool or str
        Whether indices count from 0. ``"auto"`` says so where the file has an index 0.

    Returns
    -------
    Dataset
        Sparse rows, and a label each.

    Raises
    ------
    FileFormatError
        Where it is not in the format, with the line: indices that repeat or do not ascend, NaN, infinities, words that
        are no numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "three"
    ...     _ = file.write_text("+1 1:0.5 3:2\\n-1 2:1e-3  # a comment\\n+1\\n")
    ...     data = read_libsvm(file)
    >>> data.A.toarray().tolist()
    [[0.5, 0.0, 2.0], [0.0, 0.001, 0.0], [0.0, 0.0, 0.0]]
    >>> data.b.tolist()
    [1.0, -1.0, 1.0]
    """
    return from_text(unpacked(Path(path)), str(path), features=features, zero_based=zero_based)


def from_text(text: bytes, name: str, *, features: int | None, zero_based: bool | Literal["auto"]) -> Dataset:
    """The same of a file's content; the name is for errors."""
    if features is not None:
        remedy = f"give a whole number from 1 to {LARGEST_INDEX:,}"
        features = integer("features", features, remedy, at_least=1, at_most=LARGEST_INDEX)
    if not (isinstance(zero_based, bool) or zero_based == "auto"):
        raise ArgumentError("zero_based", zero_based, 'give True, False or "auto"')
    text = text.removeprefix(codecs.BOM_UTF8)  # which some editors put at the beginning
    least = 1 if zero_based is False else 0
    most = (LARGEST_INDEX if features is None else features) - (zero_based is True)
    parsed = _parse(text, name, least, most)
    if not parsed.labels.size:
        raise FileFormatError(f"{name} has no rows")
    _settle_the_rest(text, name, parsed)
    base = 0 if zero_based is True or parsed.indices.min(initial=1) == 0 else 1
    columns = features or int(parsed.indices.max(initial=base - 1)) + 1 - base
    if columns == 0:
        raise FileFormatError(f"{name} has no index:value entries; give features= to say how many columns there are")
    if parsed.indices.max(initial=0) - base >= columns:
        # Found only now: that the file counts from 0 was not known before.
        row = int(np.searchsorted(np.cumsum(parsed.lengths), np.argmax(parsed.indices == columns), side="right"))
        _refuse(text, name, parsed.places[row], f"an index is larger than {columns - 1}: the file counts from 0")
    np.subtract(parsed.indices, base, out=parsed.indices)
    # Of one type with the column numbers, or SciPy widens those.
    counted = np.int32 if parsed.values.size <= LARGEST_INDEX else np.int64
    starts = np.concatenate([[0], np.cumsum(parsed.lengths)]).astype(counted)
    A = sparse.csr_array((parsed.values, parsed.indices, starts), shape=(parsed.labels.size, columns))
    return Dataset(A, parsed.labels, name)


def _parse(text: bytes, name: str, least: int, most: int) -> kernel.Rows:
    """All chunks on all cores, put together in order: what is computed does not depend on where they end."""
    array = np.frombuffer(text, dtype=np.uint8)

    def parse(chunk: tuple[int, int]) -> kernel.Rows:
        lines, colons = kernel.count(array, *chunk)
        into = kernel.Rows(
            labels=np.empty(lines),
            places=np.empty(lines, dtype=np.int64),
            lengths=np.empty(lines, dtype=np.int64),
            indices=np.empty(colons, dtype=np.int32),
            values=np.empty(colons),
        )
        code, place, rows, entries = kernel.parse(array, *chunk, least, most, into)
        if code != kernel.FINE:
            _refuse(text, name, place, MESSAGES[code], most=f"{most:,}")
        by_row, by_entry = (part[:rows] for part in into[:3]), (part[:entries] for part in into[3:])
        return kernel.Rows._make([*by_row, *by_entry])

    chunks = list(pairwise(_line_starts(text)))
    _refuse_what_cannot_fit(array, chunks)
    with ThreadPoolExecutor(available_cores()) as pool:
        parts = list(pool.map(parse, chunks))
        return kernel.Rows._make(pool.map(np.concatenate, zip(*parts, strict=True)))


def _line_starts(text: bytes) -> list[int]:
    """Where the chunks begin, each at a line, and the end."""
    starts = [0]
    while starts[-1] < len(text) or len(starts) == 1:
        newline = text.find(b"\n", starts[-1] + CHUNK)
        starts.append(len(text) if newline < 0 else newline + 1)
    return starts


def _refuse_what_cannot_fit(array: NDArray[np.uint8], chunks: list[tuple[int, int]]) -> None:
    """By the first chunk: all are alike as a rule. Chunks and what they make are in memory together."""
    lines, colons = kernel.count(array, *chunks[0])
    memory.refuse_beyond("path", 2 * len(chunks) * (24 * lines + 12 * colons), "give a smaller file")


def _settle_the_rest(text: bytes, name: str, parsed: kernel.Rows) -> None:
    """Replace the NaN that the kernel leaves where a number takes Python's float()."""
    ends = np.cumsum(parsed.lengths)
    of_values = np.searchsorted(ends, np.flatnonzero(np.isnan(parsed.values)), side="right")
    for row in np.union1d(np.flatnonzero(np.isnan(parsed.labels)), of_values).tolist():
        place = int(parsed.places[row])
        words = _words(text, place)
        pairs = words[len(words) - int(parsed.lengths[row]) :]
        numbers = [float(words[0]), *(float(pair.partition(b":")[2]) for pair in pairs)]
        for word, number in zip([words[0], *pairs], numbers, strict=True):
            if not math.isfinite(number):
                _refuse(text, name, place, f"{_shown(word)} is too large for a float64")
        parsed.labels[row] = numbers[0]
        parsed.values[ends[row] - len(pairs) : ends[row]] = numbers[1:]


def _words(text: bytes, place: int) -> list[bytes]:
    """From a byte on to the end of its line or the comment on it."""
    end = text.find(b"\n", place)
    content = text[place : len(text) if end < 0 else end].partition(b"#")[0]
    return re.split(rb"[ \t\r]+", content.rstrip(b" \t\r"))


def _shown(word: bytes) -> str:
    printed = word.decode("ascii", "backslashreplace")
    return repr(printed if len(printed) <= 40 else printed[:37] + "...")


def _refuse(text: bytes, name: str, place: int, message: str, **facts: str) -> NoReturn:
    """The error with its line, and a hint where the file may have been cut off there."""
    word = _shown(_words(text, place)[0])
    cut = "; the last line has no end, so the file may be cut off" if text.find(b"\n", place) < 0 else ""
    line = text.count(b"\n", 0, place) + 1
    raise FileFormatError(f"{name}, line {line}: {message.format(word=word, **facts)}{cut}")
