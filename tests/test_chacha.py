"""ChaCha20 in lanes: the RFC's vectors, and plain integers under a different key in every lane."""

import hashlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import naive
from fastldp.kernels.chacha import chacha20, key_of, load_key
from fastldp.kernels.jit import serial
from fastldp.kernels.simd import broadcast, lane_numbers, store, uint32x8, uint32x16

LANES = pytest.mark.parametrize("kind", [uint32x8, uint32x16], ids=str)


@serial
def blocks(like: Any, keys: Any, words: Any, out: Any) -> None:
    block = chacha20(load_key(like, keys), words[0], words[1], words[2], words[3])
    for k in range(16):
        store(block[k], out, k)


@serial
def consecutive(like: Any, key: Any, words: Any, out: Any) -> None:
    """One key in all lanes, and the counter words[0] + lane."""
    shared = (
        broadcast(key[0], like),
        broadcast(key[1], like),
        broadcast(key[2], like),
        broadcast(key[3], like),
        broadcast(key[4], like),
        broadcast(key[5], like),
        broadcast(key[6], like),
        broadcast(key[7], like),
    )
    block = chacha20(shared, lane_numbers(like) + words[0], words[1], words[2], words[3])
    for k in range(16):
        store(block[k], out, k)


# RFC 8439: section 2.3.2, then appendix A.1, 1 to 5: key, words 12 to 15, block.
RFC_8439 = [
    (
        bytes(range(32)),
        (1, 0x09000000, 0x4A000000, 0),
        "e4e7f110 15593bd1 1fdd0f50 c47120a3 c7f4d1c7 0368c033 9aaa2204 4e6cd4c3"
        "466482d2 09aa9f07 05d7c214 a2028bd9 d19c12b5 b94e16de e883d0cb 4e3c50a2",
    ),
    (
        bytes(32),
        (0, 0, 0, 0),
        "ade0b876 903df1a0 e56a5d40 28bd8653 b819d2bd 1aed8da0 ccef36a8 c70d778b"
        "7c5941da 8d485751 3fe02477 374ad8b8 f4b8436a 1ca11815 69b687c3 8665eeb2",
    ),
    (
        bytes(32),
        (1, 0, 0, 0),
        "bee7079f 7a385155 7c97ba98 0d082d73 a0290fcb 6965e348 3e53c612 ed7aee32"
        "7621b729 434ee69c b03371d5 d539d874 281fed31 45fb0a51 1f0ae1ac 6f4d794b",
    ),
    (
        bytes(31) + b"\x01",
        (1, 0, 0, 0),
        "2452eb3a 9249f8ec 8d829d9b ddd4ceb1 e8252083 60818b01 f38422b8 5aaa49c9"
        "bb00ca8e da3ba7b4 c4b592d1 fdf2732f 4436274e 2561b3c8 ebdd4aa6 a0136c00",
    ),
    (
        b"\x00\xff" + bytes(30),
        (2, 0, 0, 0),
        "fb4dd572 4bc42ef1 df922636 327f1394 a78dea8f 5e269039 a1bebbc1 caf09aae"
        "a25ab213 48a6b46c 1b9d9bcb 092c5be6 546ca624 1bec45d5 87f47473 96f0992e",
    ),
    (
        bytes(32),
        (0, 0, 0, 0x02000000),
        "374dc6c2 3736d58c b904e24a cd3f93ef 88228b1a 96a4dfb3 5b76ab72 c727ee54"
        "0e0e978a f3145c95 1b748ea8 f786c297 99c28f5f 628314e8 398a19fa 6ded1b53",
    ),
]


def words_of(text: str) -> NDArray[np.uint32]:
    digits = text.replace(" ", "")
    return np.array([int(digits[k : k + 8], 16) for k in range(0, 128, 8)], np.uint32)


@LANES
@pytest.mark.parametrize(("key", "words", "block"), RFC_8439)
def test_the_vectors_of_the_rfc(kind: Any, key: bytes, words: tuple[int, ...], block: str) -> None:
    keys = np.repeat(np.frombuffer(key, "<u4").astype(np.uint32)[:, None], kind.lanes, axis=1)
    out = np.empty((16, kind.lanes), np.uint32)
    blocks(kind, keys, np.array(words, np.int64), out)
    np.testing.assert_array_equal(out, np.repeat(words_of(block)[:, None], kind.lanes, axis=1))


@LANES
def test_every_lane_has_its_own_key(kind: Any) -> None:
    random = np.random.default_rng(21)
    out = np.empty((16, kind.lanes), np.uint32)
    for _ in range(20):
        keys = random.integers(0, 2**32, (8, kind.lanes), np.uint32)
        words = random.integers(0, 2**32, 4, np.int64)
        blocks(kind, keys, words, out)
        counter, first, second, third = words.tolist()
        reference = [naive.chacha20_block(key, (counter, first, second, third)) for key in keys.T.tolist()]
        np.testing.assert_array_equal(out.T, reference)


@LANES
def test_lanes_may_be_consecutive_blocks_of_one_key(kind: Any) -> None:
    key = key_of(3, 1)
    out = np.empty((16, kind.lanes), np.uint32)
    # The counter wraps around within the vector.
    first = 2**32 - 3
    consecutive(kind, key, np.array([first, 4, 5, 6], np.int64), out)
    counters = [(first + lane) % 2**32 for lane in range(kind.lanes)]
    reference = [naive.chacha20_block(key.tolist(), (counter, 4, 5, 6)) for counter in counters]
    np.testing.assert_array_equal(out.T, reference)


def test_keys() -> None:
    key = key_of(7, 2)
    assert key.dtype == np.uint32
    material = (7).to_bytes(32, "little") + (2).to_bytes(8, "little")
    digest = hashlib.blake2b(material, digest_size=32, person=b"fastldp noise v1").digest()
    assert key.astype("<u4").tobytes() == digest
    # Other seeds and repetitions have other keys: they are in different bytes of what is hashed.
    keys = {key_of(seed, repetition).tobytes() for seed in range(40) for repetition in range(40)}
    assert len(keys) == 1600
    key_of(2**256 - 1, 2**64 - 1)
    with pytest.raises(OverflowError):
        key_of(2**256, 0)
