"""What a sweep costs beside its kernels: planning, packing, joblib and writing.

Kernel time is what the loops of the methods themselves take, measured inside the same sweep; the rest is overhead.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import fastldp as fl
import jobs
from fastldp.kernels import rounds
from measuring import Work, measure, timed

HEAD = """
[data]
synthetic = "ijcnn1"
[problem]
workers = 20
l2 = 0.1
[budget]
epsilon = 1.0
delta = 1e-4
"""
# The first experiment with a twentieth of its rounds: eight horizons, four settings, twenty repetitions.
FIRST = """
rounds = {from = 50, to = 400, by = 50}
repetitions = 20
[[method]]
name = "PrimalDual"
allocation = ["dynamic", "static"]
step = [0.05, 0.25]
[record]
every = 50
[quick]
rounds = 20
repetitions = 2
"""
SHORT = """
rounds = 20
repetitions = {repetitions}
[[method]]
name = "PrimalDual"
step = {{from = 0.01, to = 0.25, count = {count}}}
"""
SWEEPS = {
    "first": FIRST + HEAD,
    "short": SHORT.format(count=50, repetitions=20) + HEAD,
    "settings": SHORT.format(count=300, repetitions=1) + HEAD,
}


class Clock:
    """Adds up what kernels take, over all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with its time added."""

        def call(*given: Any) -> Any:
            seconds = timed(lambda: function(*given))
            with self._lock:
                self.seconds += seconds

        return call


@contextmanager
def kernels_timed() -> Iterator[Clock]:
    """All kernels of the sweeps inside, timed."""
    clock = Clock()
    with (
        patch.object(rounds, "run_serial", clock.around(rounds.run_serial)),
        patch.object(rounds, "run_parallel", clock.around(rounds.run_parallel)),
    ):
        yield clock


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("sweep", SWEEPS)
def bench_sweep(benchmark: BenchmarkFixture, sweep: str, cores: int, tmp_path: Path) -> None:
    """A whole sweep, a run; `overhead` is the seconds of a run that are not in kernels."""
    numbers = iter(range(10_000))

    def job() -> Path:
        target = tmp_path / f"{next(numbers)}.h5"
        fl.sweep(SWEEPS[sweep], target, n_jobs=cores, quick=not benchmark.enabled)
        return target

    with kernels_timed() as clock:
        seconds = timed(job)
    table = fl.results(tmp_path / "0.h5").table()
    runs = len(table["rounds"])
    beside = seconds - clock.seconds / cores
    measure(
        benchmark,
        job,
        jobs.yardstick(),
        Work(runs),
        lambda target: float(np.mean(fl.results(target).table()["optimality"])),
        at_most=jobs.LARGEST_ERROR,
        rounds=int(table["rounds"].sum()),
        runs=runs,
        overhead=beside / runs,
        not_in_kernels=beside / seconds,
    )
