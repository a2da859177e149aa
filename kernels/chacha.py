"""ChaCha20 (RFC 8439) in lanes: one block of 16 words for each of several keys at once.

A block is addressed, not streamed: words 12 to 15 of the state, where the RFC has counter and nonce, are
(coordinate block, round, worker, purpose), and the key belongs to a run. Any block can be computed alone.

Nothing random of a run has the address of anything else. Noise has the local step for a purpose, and those below are
beyond all of these. What needs all four words for itself has a key of its own, derived from that of the run.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.jit import formula
from fastldp.kernels.simd import broadcast, load_as, rotate_left

# Purposes: what all may know of a run's randomness, of worker 0, and where links fail of a worker that is none (see
# `mixing`); counts of gradients that are not clipped, in rounds and before them. Local steps count up to the least.
PUBLIC, COUNT, EARLY_COUNT = 2**32 - 1, 2**32 - 2, 2**32 - 3
# Keys of their own: which samples are drawn, by (16 samples, round, worker, local step); which workers take part, by
# (16 workers, round, 0, 0).
SAMPLES, WORKERS = b"fastldp draws v1", b"fastldp takes v1"


def key_of(seed: int, repetition: int, run: bytes = b"") -> NDArray[np.uint32]:
    """The key of one run, 8 words: other seeds, repetitions and digests of runs give unrelated keys."""
    material = seed.to_bytes(32, "little") + repetition.to_bytes(8, "little") + run
    digest = hashlib.blake2b(material, digest_size=32, person=b"fastldp noise v1").digest()
    return np.frombuffer(digest, dtype="<u4").astype(np.uint32)


def derived_keys(keys: NDArray[np.uint32], what: bytes) -> NDArray[np.uint32]:
    """(runs, 8): the keys that these runs have for something of its own."""
    digests = [hashlib.blake2b(key.astype("<u4").tobytes(), digest_size=32, person=what).digest() for key in keys]
    return np.frombuffer(b"".join(digests), dtype="<u4").astype(np.uint32).reshape(-1, 8)


@formula
def load_key(like: Any, keys: Any) -> Any:
    """The keys of all lanes, as 8 vectors of the type of `like`, from an array (8, lanes)."""
    return (
        load_as(like, keys, 0),
        load_as(like, keys, 1),
        load_as(like, keys, 2),
        load_as(like, keys, 3),
        load_as(like, keys, 4),
        load_as(like, keys, 5),
        load_as(like, keys, 6),
        load_as(like, keys, 7),
    )


@formula
def quarter_round(a: Any, b: Any, c: Any, d: Any) -> Any:
    """RFC 8439, section 2.1."""
    a = a + b
    d = rotate_left(d ^ a, 16)
    c = c + d
    b = rotate_left(b ^ c, 12)
    a = a + b
    d = rotate_left(d ^ a, 8)
    c = c + d
    b = rotate_left(b ^ c, 7)
    return a, b, c, d


@formula
def chacha20(key: Any, counter: Any, first: Any, second: Any, third: Any) -> Any:
    """The 16 words of one block; the key is 8 vectors, the other words are vectors or scalars."""
    s0 = broadcast(0x61707865, key[0])
    s1 = broadcast(0x3320646E, key[0])
    s2 = broadcast(0x79622D32, key[0])
    s3 = broadcast(0x6B206574, key[0])
    s12 = broadcast(counter, key[0])
    s13 = broadcast(first, key[0])
    s14 = broadcast(second, key[0])
    s15 = broadcast(third, key[0])
    x0, x1, x2, x3 = s0, s1, s2, s3
    x4, x5, x6, x7, x8, x9, x10, x11 = key
    x12, x13, x14, x15 = s12, s13, s14, s15
    for _ in range(10):
        x0, x4, x8, x12 = quarter_round(x0, x4, x8, x12)
        x1, x5, x9, x13 = quarter_round(x1, x5, x9, x13)
        x2, x6, x10, x14 = quarter_round(x2, x6, x10, x14)
        x3, x7, x11, x15 = quarter_round(x3, x7, x11, x15)
        x0, x5, x10, x15 = quarter_round(x0, x5, x10, x15)
        x1, x6, x11, x12 = quarter_round(x1, x6, x11, x12)
        x2, x7, x8, x13 = quarter_round(x2, x7, x8, x13)
        x3, x4, x9, x14 = quarter_round(x3, x4, x9, x14)
    return (
        x0 + s0,
        x1 + s1,
        x2 + s2,
        x3 + s3,
        x4 + key[0],
        x5 + key[1],
        x6 + key[2],
        x7 + key[3],
        x8 + key[4],
        x9 + key[5],
        x10 + key[6],
        x11 + key[7],
        x12 + s12,
        x13 + s13,
        x14 + s14,
        x15 + s15,
    )
