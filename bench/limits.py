"""What this machine can do at most: products and sums a second, bytes read and bytes of the cipher, matrix products."""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np

from fastldp.kernels import jit
from fastldp.kernels.barrier import await_end, barrier, end_round
from fastldp.kernels.chacha import chacha20, load_key
from fastldp.kernels.simd import aligned_zeros, fma, load, store, store_rows

# For so many seconds each: a limit is that of a good moment, and there are bad seconds.
TRYING = 1.5


@jit.parallel
def _multiply(X: Any, rounds: int) -> None:
    """Ten independent chains of fma on each thread: enough for two units with a latency of four or five cycles."""
    for thread in numba.prange(X.shape[0]):
        a, b = load(X, thread, 0), load(X, thread, 1)
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = a
        for _ in range(rounds):
            s0 = fma(a, b, s0)
            s1 = fma(a, b, s1)
            s2 = fma(a, b, s2)
            s3 = fma(a, b, s3)
            s4 = fma(a, b, s4)
            s5 = fma(a, b, s5)
            s6 = fma(a, b, s6)
            s7 = fma(a, b, s7)
            s8 = fma(a, b, s8)
            s9 = fma(a, b, s9)
        store(s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9, X, thread, 2)


@jit.parallel
def _read(X: Any, totals: Any) -> None:
    """Every cache line of X, added up in eight chains a thread."""
    for thread in numba.prange(X.shape[0]):
        s0 = s1 = s2 = s3 = load(totals, thread)
        for k in range(0, X.shape[1], 4):
            s0 = s0 + load(X, thread, k)
            s1 = s1 + load(X, thread, k + 1)
            s2 = s2 + load(X, thread, k + 2)
            s3 = s3 + load(X, thread, k + 3)
        store(s0 + s1 + s2 + s3, totals, thread)


@jit.parallel
def _encipher(keys: Any, words: Any, blocks: int) -> None:
    """Blocks of ChaCha20, as many at once as a vector has lanes, one after the other into the same place."""
    for thread in numba.prange(words.shape[0]):
        key = load_key(load(keys, 0), keys)
        for block in range(blocks):
            store_rows(chacha20(key, np.uint32(block), np.uint32(0), np.uint32(thread), np.uint32(0)), words[thread], 0)


@jit.parallel
def _toss(line: Any, times: int) -> None:
    """Two threads write to a cache line by turns."""
    for thread in numba.prange(2):
        for t in range(times):
            await_end(line, 2 * t + thread - 1)
            end_round(line, 2 * t + thread)


def hop(times: int = 500) -> float:
    """The seconds in which what one core writes is seen by another: less where they share a cache; at this moment."""
    best = float("inf")
    for _ in range(4):  # the first may compile, or wake threads
        line = barrier(1)
        began = time.perf_counter()
        _toss(line, times)
        best = min(best, time.perf_counter() - began)
    return best / (2 * times)


@cache
def flops(dtype: str = "float64", threads: int | None = None) -> float:
    """Floating-point operations a second, on all threads or so many: a product and a sum count as two."""
    threads, rounds, lanes = threads or numba.get_num_threads(), 1_000_000, 64 // np.dtype(dtype).itemsize
    X = aligned_zeros((threads, 3, lanes), dtype)
    return threads * rounds * 10 * lanes * 2 / shortest(lambda: _multiply(X, rounds))


@cache
def read(threads: int | None = None, megabytes: int = 200) -> float:
    """Bytes of memory read a second, on all threads or so many."""
    return megabytes * 1e6 / shortest(reading(megabytes * 1_000_000, threads))


def reading(size: int, threads: int | None = None) -> Callable[[], Any]:
    """A job that reads so many bytes of memory once, but for a few at the end, on all threads or so many."""
    threads = threads or numba.get_num_threads()
    X = aligned_zeros((threads, size // 64 // threads // 4 * 4, 8))
    X[...] = 1.0
    totals = aligned_zeros((threads, 8))
    return lambda: _read(X, totals)


@cache
def cipher(threads: int | None = None) -> float:
    """Bytes of ChaCha20 made a second, on all threads or so many: by our own kernel, a limit as far as that is one."""
    threads, blocks, lanes = threads or numba.get_num_threads(), 100_000, 16
    keys, words = aligned_zeros((8, lanes), np.uint32), aligned_zeros((threads, 16, lanes), np.uint32)
    return threads * blocks * lanes * 64 / shortest(lambda: _encipher(keys, words, blocks))


@cache
def gemm(dtype: str = "float64", size: int = 1024) -> float:
    """Floating-point operations a second of NumPy's product of two matrices, on all the threads it takes."""
    A = np.ones((size, size), dtype)
    out = np.empty_like(A)
    return 2 * size**3 / shortest(lambda: np.matmul(A, A, out=out))


def measured() -> dict[str, float]:
    """All limits, on all threads."""
    precisions = ("float64", "float32")
    rates = {f"fma {dtype}": flops(dtype) for dtype in precisions}
    return rates | {f"gemm {dtype}": gemm(dtype) for dtype in precisions} | {"read": read(), "cipher": cipher()}


def caches() -> dict[str, int]:
    """The bytes of a core's first and second cache, and of the last, which it may share; what the system tells."""
    found = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((entry / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found[f"L{level}"] = int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
    return found


def shortest(job: Callable[[], Any]) -> float:
    """The least of many times, in seconds; the first, which may compile, does not count."""
    job()
    best, end = float("inf"), time.perf_counter() + TRYING
    while (began := time.perf_counter()) < end:
        job()
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    """The table of limits."""
    print(f"on {numba.get_num_threads()} threads")
    for name, rate in measured().items():
        print(f"{name}: {rate / 1e9:.1f} {'GB/s' if name in ('read', 'cipher') else 'GFlop/s'}")
    if numba.get_num_threads() > 1:
        print(f"from core to core: {1e9 * hop():.0f} ns")


if __name__ == "__main__":
    main()
