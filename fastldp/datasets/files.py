"""Data of one's own: a LIBSVM, .npz or .csv file, told apart by its ending."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np

from fastldp import memory
from fastldp.archives import read_arrays
from fastldp.datasets.dataset import Dataset
from fastldp.datasets.libsvm import read_libsvm
from fastldp.errors import ArgumentError, FileFormatError
from fastldp.validation import known_name

# What to say of a path that is no file: of nothing, and of a folder.
MISSING = ("there is no such file", "it is a folder, not a file")
SEPARATORS = (",", ";", "\t")


def read_file(path: str | os.PathLike[str], *, label: str | int | None = None) -> Dataset:
    """Rows and labels as the file has them: arrays A and b of an .npz file, columns of a .csv file, or LIBSVM's lines.

    Parameters
    ----------
    path : path
        The file; its ending says which of these it is.
    label : str or int, optional
        Of a .csv file, the column of the labels, by its name or its number from 0; the last by default.

    Returns
    -------
    Dataset
        Dense rows of an .npz or .csv file, sparse ones of a LIBSVM file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "three.csv"
    ...     _ = file.write_text("height,sick,age\\n1.5,0,30\\n2,1,40\\n")
    ...     data = read_file(file, label="sick")
    >>> data.A.tolist(), data.b.tolist()
    ([[1.5, 30.0], [2.0, 40.0]], [0.0, 1.0])
    """
    path = Path(path)
    if not path.is_file():
        raise ArgumentError("path", str(path), MISSING[path.is_dir()])
    if path.suffix == ".csv":
        return _from_csv(path, label)
    if label is not None:
        raise ArgumentError("label", label, f"only a .csv file has columns to choose from, and this is {path.name}")
    if path.suffix == ".npz":
        arrays = read_arrays(path, "write it with np.savez(file, A=A, b=b)", ("A", "b"))
        return Dataset(arrays["A"], arrays["b"], str(path))
    return read_libsvm(path)


def _from_csv(path: Path, label: str | int | None) -> Dataset:
    # A number takes two characters at least.
    memory.refuse_beyond(str(path), 8 * path.stat().st_size, "give a smaller file")
    try:
        with path.open(encoding="utf-8-sig") as lines:
            first = lines.readline()
        separator = next((one for one in SEPARATORS if one in first), ",")
        cells = [cell.strip().strip('"') for cell in first.split(separator)]
        header = not all(map(_is_number, cells))
        table = np.loadtxt(
            path, delimiter=separator, skiprows=int(header), ndmin=2, encoding="utf-8-sig", quotechar='"'
        )
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: not a text in UTF-8: {error}") from None
    except ValueError as error:
        where = _what_is_no_number(path, separator, cells if header else [], label) or str(error)
        raise FileFormatError(f"{path}: not a table of numbers with one header at most: {where}") from None
    if table.shape[0] == 0 or table.shape[1] < 2:
        raise FileFormatError(
            f"{path}: a table of shape {table.shape}; give rows with a label and at least one feature"
        )
    column = _column(label, cells if header else [], table.shape[1])
    return Dataset(np.delete(table, column, axis=1), table[:, column].copy(), str(path))


def _what_is_no_number(path: Path, separator: str, names: list[str], label: str | int | None) -> str | None:
    """The first cell or row that does not fit, and what to do about it."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.reader(lines, delimiter=separator)
        width = len(names)
        for row in rows:
            if not row or (names and rows.line_num == 1):
                continue
            width = width or len(row)
            if len(row) != width:
                return f"row {rows.line_num} has {len(row)} columns and not {width}"
            for k, cell in enumerate(row):
                if not _is_number(cell):
                    column = f"{k} ({names[k]})" if names else str(k)
                    found = f"{cell!r} is no number" if cell.strip() else "nothing"
                    hint = "write labels as 0 and 1" if k == _column(label, names, width) else "leave that out"
                    return f"row {rows.line_num}, column {column}: {found}; {hint}"
    return None


def _column(label: str | int | None, names: list[str], count: int) -> int:
    """Where the labels are."""
    if label is None:
        return count - 1
    if isinstance(label, str) and not (label.isdecimal() and label not in names):
        if not names:
            raise ArgumentError("label", label, f"the file has no header; give a number from 0 to {count - 1}")
        return names.index(known_name("label", label, names))
    if not 0 <= int(label) < count:
        raise ArgumentError("label", label, f"give a number from 0 to {count - 1}, or a name")
    return int(label)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
