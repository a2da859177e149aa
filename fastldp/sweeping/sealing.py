"""A seal for files: a checksum of every page, and parity from which damaged pages are made again.

A sealed file has four parts, each of whole pages: the content, padded; the seal; the parity; the seal once more. The
seal has the length of the content, the CRC-32 of each page of content and parity, and its own. Of P parity pages the
k-th is the exclusive or of the pages k, k + P, k + 2P, ... of the content, so one page of each such group can be made
again, and with it any P pages in a row. What lies where follows from the size of the file alone.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import DamagedError

PAGE = 4096
# One page of parity for so many of content.
PAGES_A_PARITY = 32
MAGIC = b"fastldp\x02"
# So many pages are checked before memory is let go.
WINDOW = 8192
_HEAD = struct.Struct("<8sQ")
_CRC = struct.Struct("<I")

Pages = NDArray[np.uint8]


class _Places(NamedTuple):
    """How many pages a file has of each kind."""

    content: int
    parity: int
    seal: int
    """Of one of its two copies."""

    @classmethod
    def of_content(cls, content: int) -> _Places:
        parity = -(-content // PAGES_A_PARITY) + 1
        return cls(content, parity, -(-(_HEAD.size + 4 * (content + parity) + _CRC.size) // PAGE))

    @property
    def parity_begins(self) -> int:
        # Between the content and its parity lies a seal: what is damaged on both sides of a border is not of one group.
        return self.content + self.seal

    @property
    def seals(self) -> tuple[int, int]:
        """Where its copies begin."""
        return self.content, self.parity_begins + self.parity

    @property
    def all(self) -> int:
        return self.content + self.parity + 2 * self.seal

    @classmethod
    def of_file(cls, size: int) -> _Places | None:
        """Or None where no sealed file has this size."""
        low, high = 1, max(1, size // PAGE)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if cls.of_content(middle).all * PAGE < size else (low, middle)
        places = cls.of_content(low)
        return places if places.all * PAGE == size else None


class Sealed(NamedTuple):
    """The content of a sealed file, sound."""

    content: memoryview
    damaged: list[int]
    """The pages of the file that had to be made again, if any."""


def seal(file: io.RawIOBase | io.BytesIO) -> None:
    """Add padding, parity and seal to a file that can be read and written."""
    length = file.seek(0, 2)
    places = _Places.of_content(max(1, -(-length // PAGE)))
    file.write(bytes(places.content * PAGE - length))
    parity = np.zeros((places.parity, PAGE), dtype=np.uint8)
    checksums: list[int] = []
    file.seek(0)
    for begin in range(0, places.content, places.parity):
        pages = _pages(file.read(min(places.parity, places.content - begin) * PAGE))
        parity[: len(pages)] ^= pages
        checksums += _checksums(pages)
    checksums += _checksums(parity)
    head = _HEAD.pack(MAGIC, length) + np.array(checksums, dtype="<u4").tobytes()
    head += bytes(places.seal * PAGE - _CRC.size - len(head))
    head += _CRC.pack(zlib.crc32(head))
    file.seek(places.content * PAGE)
    for part in (head, parity.tobytes(), head):
        file.write(part)


def is_sealed(file: memoryview) -> bool:
    """Whether there is a seal, sound or not, where one ought to be."""
    places = _Places.of_file(len(file))
    copies = () if places is None else places.seals
    return any(bytes(file[at * PAGE : at * PAGE + len(MAGIC)]) == MAGIC for at in copies)


def opened(file: memoryview, let_go: Callable[[], None] = lambda: None) -> Sealed:
    """The content of a sealed file; damaged pages are made again from parity, in a copy, where that can be done.

    `let_go` is called now and then, and may take back the memory of pages that were looked at.
    """
    places = _Places.of_file(len(file))
    if places is None:
        raise DamagedError(f"no whole file has its length of {len(file):,} bytes: something was cut off or added")
    pages = _pages(file)
    damaged: list[int] = []
    head = None
    for begin in places.seals:
        found = pages[begin : begin + places.seal].tobytes()
        if found.startswith(MAGIC) and zlib.crc32(found[: -_CRC.size]) == _CRC.unpack(found[-_CRC.size :])[0]:
            head = head or found
        else:
            damaged += range(begin, begin + places.seal)
    if head is None:
        raise DamagedError("both copies of its seal are damaged")
    length = _HEAD.unpack_from(head)[1]
    expected = np.frombuffer(head, "<u4", places.content + places.parity, _HEAD.size)
    wrong = _differing(pages[: places.content], expected[: places.content], let_go)
    parity = pages[places.parity_begins :][: places.parity]
    lost = _differing(parity, expected[places.content :])
    damaged += [*wrong, *(places.parity_begins + page for page in lost)]
    if not wrong:
        return Sealed(file[:length], damaged)
    groups = [page % places.parity for page in wrong]
    if len({*groups}) < len(groups) or not {*groups}.isdisjoint(lost):
        raise DamagedError(f"it is damaged in {_shown(damaged)}, which is more than its parity can make again")
    mended = _pages(bytearray(file[: places.content * PAGE]))
    for page, group in zip(wrong, groups, strict=True):
        mended[page] = 0
        mended[page] = parity[group] ^ np.bitwise_xor.reduce(mended[group :: places.parity], axis=0)
    if _differing(mended, expected[: places.content]):
        raise DamagedError(f"it is damaged in {_shown(damaged)}, and its parity is not of this content")
    return Sealed(mended.reshape(-1).data[:length], damaged)


def _differing(pages: Pages, expected: NDArray[np.uint32], let_go: Callable[[], None] = lambda: None) -> list[int]:
    """The pages whose checksum is not the expected one."""
    different: list[int] = []
    for begin in range(0, len(pages), WINDOW):
        found = np.array(_checksums(pages[begin : begin + WINDOW]), dtype=np.uint32)
        different += (begin + np.flatnonzero(found != expected[begin : begin + WINDOW])).tolist()
        let_go()
    return different


def _checksums(pages: Pages) -> list[int]:
    return [zlib.crc32(page) for page in pages]


def _pages(data: Any) -> Pages:
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, PAGE)


def _shown(pages: list[int]) -> str:
    return f"{len(pages)} pages between bytes {min(pages) * PAGE:,} and {(max(pages) + 1) * PAGE - 1:,}"
