"""Files as they lie or packed by gzip, bzip2 or xz: told by their first bytes, whatever they are called."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

from fastldp.errors import FileFormatError

PACKERS = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ\x00": lzma.decompress}
# What a name may end in besides.
ENDINGS = ("", ".bz2", ".gz", ".xz")


def unpacked(path: Path) -> bytes:
    """The plain content of a file."""
    content = path.read_bytes()
    for mark, decompress in PACKERS.items():
        if content.startswith(mark):
            try:
                return decompress(content)
            # Truncated and damaged files are told in five ways.
            except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise FileFormatError(f"{path} cannot be unpacked ({error}): it is damaged or not whole") from error
    return content
