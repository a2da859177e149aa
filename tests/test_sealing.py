"""The seal of a file: every byte is covered, and what is damaged is made again or refused."""

import io
import random
import zlib

import pytest

from fastldp.errors import DamagedError
from fastldp.sweeping import sealing
from fastldp.sweeping.sealing import PAGE

SIZES = [0, 1, PAGE - 1, PAGE, PAGE + 1, 33 * PAGE, 70 * PAGE + 5]


def sealed(size: int) -> tuple[bytes, bytes]:
    """Some content, and it sealed."""
    content = random.Random(size).randbytes(size)
    file = io.BytesIO(content)
    sealing.seal(file)
    return content, file.getvalue()


def opened(file: bytes | bytearray) -> tuple[bytes, list[int]]:
    found = sealing.opened(memoryview(file))
    return bytes(found.content), found.damaged


@pytest.mark.parametrize("size", SIZES)
def test_what_was_sealed_is_read_and_the_file_is_not_much_larger(size: int) -> None:
    content, file = sealed(size)
    assert opened(file) == (content, [])
    assert sealing.is_sealed(memoryview(file))
    assert len(file) <= size * (1 + 1 / 32) + 6 * PAGE


@pytest.mark.parametrize("size", SIZES)
def test_a_flipped_byte_is_found_and_mended_wherever_it_is(size: int) -> None:
    content, file = sealed(size)
    chance = random.Random(1)
    positions = {0, size, len(file) - 1, *(chance.randrange(len(file)) for _ in range(100))}
    for position in positions:
        damaged = bytearray(file)
        damaged[position] ^= chance.randrange(1, 256)
        found, pages = opened(damaged)
        assert found == content
        assert position // PAGE in pages


@pytest.mark.parametrize("size", SIZES)
def test_a_lost_block_of_the_disk_is_mended_wherever_it_is(size: int) -> None:
    content, file = sealed(size)
    for begin in range(0, len(file), 1000):
        damaged = bytearray(file)
        damaged[begin : begin + PAGE] = bytes(len(file[begin : begin + PAGE]))
        assert opened(damaged)[0] == content


def test_as_many_pages_in_a_row_as_there_is_parity_are_mended_and_no_more() -> None:
    content, file = sealed(70 * PAGE)  # with four pages of parity
    damaged = bytearray(file)
    damaged[10 * PAGE : 14 * PAGE] = bytes(4 * PAGE)
    assert opened(damaged) == (content, [10, 11, 12, 13])
    damaged[14 * PAGE] ^= 1
    with pytest.raises(DamagedError, match="in 5 pages between bytes 40,960 and 61,439, which is more than its parity"):
        opened(damaged)


def test_a_page_and_its_parity_cannot_both_be_lost() -> None:
    content, file = sealed(PAGE)
    damaged = bytearray(file)
    damaged[2 * PAGE] ^= 1  # its parity, behind the first seal
    assert opened(damaged) == (content, [2])
    damaged[0] ^= 1
    with pytest.raises(DamagedError, match="more than its parity can make again"):
        opened(damaged)


def test_both_seals_cannot_be_lost() -> None:
    content, file = sealed(PAGE)
    damaged = bytearray(file)
    damaged[PAGE + 9] ^= 1
    assert opened(damaged) == (content, [1])
    damaged[-1] ^= 1
    with pytest.raises(DamagedError, match="both copies of its seal"):
        opened(damaged)


@pytest.mark.parametrize("window", [1, 7])
def test_pages_beyond_the_first_window_are_checked(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "WINDOW", window)
    content, file = sealed(40 * PAGE)
    damaged = bytearray(file)
    damaged[33 * PAGE] ^= 1
    assert opened(damaged) == (content, [33])


def test_a_page_that_parity_makes_is_checked_too() -> None:
    """A parity page that has its checksum, but is not of the content."""
    _, file = sealed(PAGE)
    forged = bytearray(file)
    parity = forged[2 * PAGE : 3 * PAGE] = bytes(PAGE)
    for seal in (PAGE, 4 * PAGE):  # the checksums follow the head of 16 bytes: content, parity, parity
        forged[seal + 20 : seal + 24] = zlib.crc32(parity).to_bytes(4, "little")
        body = forged[seal : seal + PAGE - 4]
        forged[seal + PAGE - 4 : seal + PAGE] = zlib.crc32(body).to_bytes(4, "little")
    assert opened(forged)[1] == []
    forged[0] ^= 1
    with pytest.raises(DamagedError, match="its parity is not of this content"):
        opened(forged)


def test_pages_in_each_others_place_are_mended() -> None:
    content, file = sealed(40 * PAGE)
    swapped = file[PAGE : 2 * PAGE] + file[:PAGE] + file[2 * PAGE :]
    assert opened(swapped) == (content, [0, 1])


@pytest.mark.parametrize("change", [-PAGE, -1, 1, PAGE])
def test_a_file_that_was_cut_or_went_on_is_refused(change: int) -> None:
    _, file = sealed(40 * PAGE)
    with pytest.raises(DamagedError):
        opened(file[:change] if change < 0 else file + bytes(change))


def test_a_parity_of_another_file_makes_nothing_up() -> None:
    (_, file), (_, other) = sealed(40 * PAGE), sealed(40 * PAGE - 1)
    with pytest.raises(DamagedError):
        opened(other[: 20 * PAGE] + file[20 * PAGE :])
