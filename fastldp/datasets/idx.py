"""The IDX format of MNIST: a magic number, the sizes, the numbers."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.datasets.dataset import Images
from fastldp.datasets.unpacking import unpacked
from fastldp.errors import FileFormatError

# The third byte of the magic number; all are big-endian.
KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array in an IDX file, plain or packed by gzip, bzip2 or xz.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    array
        Of the shape and the type that the file says.

    Raises
    ------
    FileFormatError
        Where it is not in the format, or cut off.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "labels"
    ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1]))
    ...     read_idx(file)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    return from_bytes(unpacked(path, lambda beginning: _header(beginning, str(path)).length), str(path))


class _Header(NamedTuple):
    """What an IDX file says it holds."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begins: int
    """The byte at which the numbers begin."""

    @property
    def length(self) -> int:
        """Of the whole file, in bytes."""
        return self.begins + self.dtype.itemsize * math.prod(self.shape)


def _header(content: bytes, name: str) -> _Header:
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in KINDS or content[3] == 0:
        found = content[:4].hex(" ") or "nothing"
        raise FileFormatError(f"{name} is not an IDX file: it begins with {found}, not 00 00, a type and a dimension")
    begins = 4 + 4 * content[3]
    if len(content) < begins:
        raise FileFormatError(f"{name} is cut off: {len(content)} bytes, and its sizes alone take {begins}")
    sizes = np.frombuffer(content, dtype=">u4", count=content[3], offset=4)
    return _Header(np.dtype(KINDS[content[2]]), tuple(sizes.tolist()), begins)


def from_bytes(content: bytes, name: str) -> NDArray[Any]:
    """The same of a file's content; the name is for errors."""
    header = _header(content, name)
    if len(content) != header.length:
        size, needed = len(content), header.length
        there = f"is cut off: {size:,} bytes" if size < needed else f"goes on after its end: over {needed:,} bytes"
        sizes = f"{header.shape} numbers of {header.dtype}"
        raise FileFormatError(f"{name} {there}, and {sizes} take {needed:,}; get it again")
    try:
        numbers = np.frombuffer(content, dtype=header.dtype, offset=header.begins).reshape(header.shape)
    except ValueError as error:  # too many dimensions, or a size of 0 beside sizes that no array can have
        raise FileFormatError(f"{name} holds no array: its sizes are {header.shape} ({error})") from None
    return numbers.astype(header.dtype.newbyteorder("="))


def read_images(images: str | os.PathLike[str], labels: str | os.PathLike[str]) -> Images:
    """Images and their classes from two IDX files, as MNIST and its relatives come.

    Parameters
    ----------
    images : path
        The file of the images, of bytes.
    labels : path
        The file of their classes.

    Returns
    -------
    Images
        A row each.

    Raises
    ------
    FileFormatError
        Where one of them is not in the format, or they do not belong together.
    """
    return paired(read_idx(images), read_idx(labels), str(images))


def paired(images: NDArray[Any], labels: NDArray[Any], name: str) -> Images:
    """Images of a row each, with their classes."""
    if images.ndim < 2 or images.dtype != np.uint8:
        raise FileFormatError(f"{name} does not hold images of bytes: {images.dtype} of shape {images.shape}")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise FileFormatError(f"the labels of {name} are not one whole number each: {labels.dtype}, {labels.shape}")
    if len(images) != len(labels):
        counts = f"{len(images):,} images and {len(labels):,} labels"
        raise FileFormatError(f"{name} has {counts}: they do not belong together")
    return Images(images.reshape(len(images), math.prod(images.shape[1:])), labels.astype(np.int64), name)
