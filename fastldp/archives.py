"""Archives of arrays (.npz) from outside: whatever they claim is checked against their size before memory is given.

The zip format has a checksum (CRC-32) of the content of each array, which is verified. It has none of the arrays' names
and of what its directory says of them: `digest_of` is for writers who want these covered too.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fastldp import memory
from fastldp.errors import FastLDPError, FileFormatError

# How many bytes one byte can unpack to at most, by the way it is packed: those that NumPy writes.
MOST_RATIO = {ZIP_STORED: 1, ZIP_DEFLATED: 1032}
# Numbers and text; no objects, which would be pickles, and no records.
KINDS = "biufcSU"
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
PIECE = 1 << 20
SUFFIX = ".npy"


def read_arrays(
    path: str | os.PathLike[str], remedy: str, wanted: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """The wanted arrays of an archive by name, or all of them.

    Every damage is a `FileFormatError` that names the file, and the array if it is of one, and ends in the remedy. No
    more memory is asked for than the file's size can unpack to, and than the machine has.
    """
    with _told(path, remedy), open(path, "rb") as file, ZipFile(file) as archive:
        members = _members(archive, wanted)
        _refuse_false_sizes(path, os.fstat(file.fileno()).st_size, list(members.values()))
        return {name: _array(archive, name, member) for name, member in members.items()}


def names_of(path: str | os.PathLike[str], remedy: str) -> list[str]:
    """The names of the arrays of an archive, none of which is read."""
    with _told(path, remedy), ZipFile(path) as archive:
        return [member.removesuffix(SUFFIX) for member in archive.namelist()]


@contextmanager
def _told(path: str | os.PathLike[str], remedy: str) -> Iterator[None]:
    """Damage that is found inside is told in words, with the remedy."""
    try:
        yield
    except (FileNotFoundError, FastLDPError):
        raise
    # The readers of zip files, of DEFLATE and of NumPy's headers tell of damage by a dozen types of errors.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise FileFormatError(f"{os.fspath(path)}: damaged, or not the right file ({reason}); {remedy}") from error


def digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    """A sha256 of all names, types, shapes and contents. It tells of damage, not of whom the arrays are from.

    >>> digest_of({"a": np.zeros(2)}) == digest_of({"b": np.zeros(2)})
    False
    """
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        # A line that says how many bytes follow: no two sets of arrays give the same text.
        digest.update(json.dumps([name, array.dtype.str, array.shape, array.nbytes]).encode() + b"\n")
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _members(archive: ZipFile, wanted: Collection[str] | None) -> dict[str, ZipInfo]:
    """The wanted members by the names of their arrays."""
    found: dict[str, ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(SUFFIX)
        if wanted is not None and name not in wanted:
            continue
        if name in found:
            raise ValueError(f"it has two arrays {name!r}")
        found[name] = member
    missing = [name for name in wanted or () if name not in found]
    if missing:
        raise ValueError(f"it has no array {missing[0]!r}")
    return found


def _refuse_false_sizes(path: str | os.PathLike[str], there: int, members: list[ZipInfo]) -> None:
    """Refuse what the file's own bytes cannot unpack to, then what the machine's memory cannot hold."""
    for member in members:
        if member.compress_type not in MOST_RATIO:
            raise ValueError(f"{member.filename!r} is packed in a way that NumPy does not write")
        if member.file_size > MOST_RATIO[member.compress_type] * member.compress_size:
            raise ValueError(f"{member.filename!r} claims {member.file_size:,} bytes from {member.compress_size:,}")
    # Members that lie over each other would unpack to more than the whole file can.
    if sum(member.compress_size for member in members) > there:
        raise ValueError(f"its arrays claim more bytes than the {there:,} there are")
    memory.refuse_beyond(
        os.fspath(path), sum(member.file_size for member in members), "free some, or give a smaller file"
    )


def _array(archive: ZipFile, name: str, member: ZipInfo) -> NDArray[Any]:
    try:
        with archive.open(member) as stream:
            return _content(stream, member.file_size)
    except Exception as error:
        raise ValueError(f"array {name!r}: {str(error) or type(error).__name__}") from error


def _content(stream: IO[bytes], size: int) -> NDArray[Any]:
    """An array in NumPy's format; its shape must take the member's size exactly, which is known before it is read."""
    shape, columns_first, dtype = HEADERS[npy.read_magic(stream)](stream)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects, which are not read: they can run code")
    if dtype.kind not in KINDS or dtype.itemsize == 0:
        raise ValueError(f"it holds neither numbers nor text, but {dtype}")
    needed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or needed != size - stream.tell():
        raise ValueError(f"its shape {shape} takes {needed:,} bytes of {dtype}, and there are {size - stream.tell():,}")
    content = np.empty(needed, dtype=np.uint8)
    at = 0
    while at < needed:
        piece = stream.read(min(PIECE, needed - at))
        if not piece:
            raise EOFError("it ends too early")
        content[at : at + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        at += len(piece)
    # The checksum is verified at the end of the member.
    if stream.read(1):
        raise ValueError("it goes on after its end")
    return np.ndarray(shape, dtype, buffer=content.data, order="F" if columns_first else "C")
