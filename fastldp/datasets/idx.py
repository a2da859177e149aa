"""The IDX format of MNIST: a magic number, the sizes, the numbers."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.datasets.dataset import Images
from fastldp.datasets.unpacking import unpacked
from fastldp.errors import ArgumentError, FileFormatError

# The third byte of the magic number; all are big-endian.
KINDS = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array in an IDX file, plain or packed by gzip, bzip2 or xz.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "labels"
    ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3]) + bytes([7, 2, 1]))
    ...     read_idx(file)
    array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    if not path.is_file():
        raise ArgumentError("path", str(path), "there is no such file")
    return from_bytes(unpacked(path), str(path))


def from_bytes(content: bytes, name: str) -> NDArray[Any]:
    """The same of a file's content; the name is for errors."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in KINDS or content[3] == 0:
        found = content[:4].hex(" ") or "nothing"
        raise FileFormatError(f"{name} is not an IDX file: it begins with {found}, not 00 00, a type and a dimension")
    kind, dimensions = np.dtype(KINDS[content[2]]), content[3]
    begins = 4 + 4 * dimensions
    sizes = np.frombuffer(content[4:begins], dtype=">u4") if len(content) >= begins else None
    if sizes is None:
        raise FileFormatError(f"{name} is cut off: {len(content)} bytes, and its sizes alone take {begins}")
    shape = tuple(int(size) for size in sizes)
    needed = begins + kind.itemsize * math.prod(shape)
    if len(content) != needed:
        what = "is cut off" if len(content) < needed else "goes on after its end"
        raise FileFormatError(f"{name} {what}: {len(content):,} bytes, and {shape} numbers of {kind} take {needed:,}")
    return np.frombuffer(content, dtype=kind, offset=begins).reshape(shape).astype(kind.newbyteorder("="))


def read_images(images: str | os.PathLike[str], labels: str | os.PathLike[str]) -> Images:
    """Images and their classes from two IDX files, as MNIST and its relatives come."""
    return paired(read_idx(images), read_idx(labels), str(images))


def paired(images: NDArray[Any], labels: NDArray[Any], name: str) -> Images:
    """Images of a row each, with their classes."""
    if images.ndim < 2 or images.dtype != np.uint8:
        raise FileFormatError(f"{name} does not hold images of bytes: {images.dtype} of shape {images.shape}")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise FileFormatError(f"the labels of {name} are not one whole number each: {labels.dtype}, {labels.shape}")
    if len(images) != len(labels):
        raise FileFormatError(
            f"{name} has {len(images):,} images and {len(labels):,} labels: they do not belong together"
        )
    return Images(images.reshape(len(images), math.prod(images.shape[1:])), labels.astype(np.int64), name)
