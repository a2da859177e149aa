"""Files as they lie or packed by gzip, bzip2 or xz: told by their first bytes, whatever they are called.

They are read in pieces, and no further than a limit: a few packed bytes can unpack to more than any machine has.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from fastldp import memory
from fastldp.errors import ArgumentError, FileFormatError

# What a name may end in besides.
ENDINGS = ("", ".bz2", ".gz", ".xz")

PIECE = 1 << 20
# Formats that say how long a file is do so within so many bytes.
BEGINNING = 1024
# What xz may fill up a file with after a stream.
FILL = b"\0"
# Data are packed to a tenth as a rule; what unpacks to no more than the second number may be packed as well as it can.
MOST_RATIO, ALWAYS_FINE = 200, 1 << 28


def unpacked(path: Path, promised: Callable[[bytes], int] | None = None) -> bytes:
    """The plain content of a file.

    Where the format says how long a file is, `promised` gives that length by the first kilobyte, and no more than a
    piece beyond it is read. Otherwise what is packed may unpack to 200 times its size, or 256 MiB if that is more. No
    content may take more than half of the memory that is free, for its numbers need some too.
    """
    if not path.is_file():
        raise ArgumentError("path", str(path), "there is no such file")
    with path.open("rb") as file:
        beginning = file.read(max(map(len, PACKERS)))
        file.seek(0)
        pieces_of = next((pieces_of for mark, pieces_of in PACKERS.items() if beginning.startswith(mark)), None)
        if pieces_of is None:
            return _joined(_pieces(file), path, promised, packed=None)
        try:
            return _joined(pieces_of(file), path, promised, packed=path.stat().st_size)
        except FileFormatError:
            raise
        # Truncated and damaged files are told in six ways.
        except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, MemoryError) as error:
            raise FileFormatError(
                f"{path} cannot be unpacked ({error}): it is damaged or not whole; get it again, or give it unpacked"
            ) from error


def _pieces(stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while piece := stream.read(PIECE):
        yield piece


def _gzip(file: IO[bytes]) -> Iterator[bytes]:
    with gzip.open(file) as stream:
        yield from _pieces(stream)


def _streams(new: Callable[[], Any], file: IO[bytes]) -> Iterator[bytes]:
    """One stream after the other: Python's own files take one that is damaged at its beginning for the end."""
    decompressor, packed = new(), file.read(PIECE)
    while packed or not decompressor.needs_input:
        if piece := decompressor.decompress(packed, PIECE):
            yield piece
        if decompressor.eof:
            packed = decompressor.unused_data.lstrip(FILL)
            while not packed and (more := file.read(PIECE)):
                packed = more.lstrip(FILL)
            if not packed:
                return
            decompressor = new()
        else:
            packed = file.read(PIECE) if decompressor.needs_input else b""
    raise EOFError("it ends before its end is marked")


PACKERS: dict[bytes, Callable[[IO[bytes]], Iterator[bytes]]] = {
    b"\x1f\x8b": _gzip,
    b"BZh": partial(_streams, bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": partial(_streams, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)),
}


def _joined(pieces: Iterator[bytes], path: Path, promised: Callable[[bytes], int] | None, packed: int | None) -> bytes:
    """The content of a plain file, or of a packed one of so many bytes, up to the limit."""
    content = io.BytesIO()
    most, (limit, why) = math.inf, _limit(packed if promised is None else None)
    for piece in pieces:
        content.write(piece)
        if promised is not None and most == math.inf and content.tell() >= BEGINNING:
            most = promised(content.getvalue()[:BEGINNING])
        if content.tell() > limit:
            remedy = "give a smaller file" if packed is None else "if that is really its content, give it unpacked"
            raise FileFormatError(
                f"{path}: {content.tell():,} bytes were read, and the limit is {limit:,}, {why}; {remedy}"
            )
        if content.tell() > most:
            break
    return content.getvalue()


def _limit(packed: int | None) -> tuple[float, str]:
    """How long a content may be, and why."""
    available = memory.available_bytes()
    in_memory = math.inf if available is None else available // 2
    ratio = math.inf if packed is None else max(MOST_RATIO * packed, ALWAYS_FINE)
    if ratio < in_memory:
        return ratio, f"{MOST_RATIO} times the {packed:,} bytes of the file and no less than {ALWAYS_FINE:,}"
    return in_memory, "half of the memory that is free"
