"""How everything here is measured: warmed up, in turns with its reference, with what it did stored beside its time.

A busy moment then hurts job and reference alike, and their ratio little.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import limits

# How long the pairs of one benchmark may take together, unless it says so, and how many they are at most.
SECONDS = 0.5
MOST = 20
# Libraries keep their threads spinning for a while after a job: one that needs all cores waits until they sleep.
PAUSE = 0.02


class Reference(NamedTuple):
    """What a job is measured in turns with."""

    name: str
    job: Callable[[], Any]
    units: float = 1  # of work, as `Work` counts it


class Work(NamedTuple):
    """What a job does."""

    units: float = 1  # run-rounds, values, calls: what a time is divided by
    flops: float = 0  # a unit
    bytes: float = 0  # a unit, read or written
    dtype: str = "float64"
    threads: int | None = None  # all of them
    noise: float = 0  # a unit, bytes of the cipher


def measure(
    benchmark: Any,
    job: Callable[[], Any],
    reference: Reference,
    work: Work,
    error: Callable[[Any], float],
    *,
    at_most: float,
    pairs: int | None = None,
    seconds: float = SECONDS,
    **info: Any,
) -> Any:
    """Time a job in turns with its reference; fail where the error of its result is larger than it may be.

    Job and reference should take about as long: the longer one would meet more of the machine's bad moments.

    Without timing (`--benchmark-disable`) each runs once. `benchmark` is the fixture, whose methods have no types.
    """
    times: list[float] = []
    pause = PAUSE if benchmark.enabled and work.threads != 1 else 0.0

    def before() -> None:
        wait(pause)
        times.append(timed(reference.job))
        wait(pause)

    if benchmark.enabled and pairs is None:
        # The first of each compiles and fills caches; the second says how many fit.
        reference.job()
        job()
        a_pair = timed(reference.job) + timed(job) + 2 * pause
        pairs = min(MOST, max(1, int(seconds / a_pair)))
    result = benchmark.pedantic(job, setup=before, rounds=pairs or 1)
    wrong = float(error(result))
    if not wrong <= at_most:  # a NaN is wrong too
        raise AssertionError(f"the result is off by {wrong:.3g}, and may be by {at_most:.3g}")
    benchmark.extra_info |= info | {"error": wrong, "units": work.units}
    benchmark.extra_info |= {"flops": work.flops, "bytes": work.bytes, "noise": work.noise}
    benchmark.extra_info |= {"reference": reference.name, "reference_units": reference.units, "reference_data": times}
    if benchmark.enabled:
        benchmark.extra_info |= fractions(work, min(benchmark.stats.stats.data))
    return result


def wait(seconds: float) -> None:
    """Without sleeping: a core that has slept is up to twice as slow at first."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def timed(job: Callable[[], Any]) -> float:
    """The seconds a job takes."""
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def fractions(work: Work, seconds: float) -> dict[str, float]:
    """What of the machine's measured limits a job reaches that takes so long: of the rates that it needs at all."""
    found = {}
    if work.flops:
        rate = work.flops * work.units / seconds
        found["of_fma"] = rate / limits.flops(work.dtype, work.threads)
        if work.threads is None:
            found["of_gemm"] = rate / limits.gemm(work.dtype)
    if work.bytes:
        found["of_read"] = work.bytes * work.units / seconds / limits.read(work.threads)
    if work.noise:
        found["of_cipher"] = work.noise * work.units / seconds / limits.cipher(work.threads)
    return found
