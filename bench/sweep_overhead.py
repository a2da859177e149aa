"""What a sweep costs beside its kernels: planning, packing, joblib, writing, and reading back.

    python bench/sweep_overhead.py

Kernel time is what the loops of the methods themselves take, measured inside the same sweep; the rest is overhead.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastldp as fl
from fastldp.algorithms.isrl import NoisyDescent
from fastldp.algorithms.local_steps import LocalSteps
from fastldp.algorithms.primal_dual import Algorithm1

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
# Eight horizons, four settings, twenty repetitions: the size of the first experiment.
FIRST = """
rounds = {from = 1000, to = 8000, by = 1000}
repetitions = 20
[[method]]
name = "PrimalDual"
allocation = ["dynamic", "static"]
step = [0.05, 0.25]
[record]
every = 100
"""
SHORT = """
rounds = 20
repetitions = {repetitions}
[[method]]
name = "PrimalDual"
step = {{from = 0.01, to = 0.25, count = {count}}}
"""


class Clock:
    """Adds up what kernels take, over all threads."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*given)
            finally:
                with self._lock:
                    self.seconds += time.perf_counter() - began

        return call


class _Loops:
    """The loops of a method with a clock around them."""

    def __init__(self, loops: Any, clock: Clock) -> None:
        self.run_serial, self.run_parallel = clock.timed(loops.run_serial), clock.timed(loops.run_parallel)


@contextmanager
def kernels_timed() -> Iterator[Clock]:
    """All kernels of the sweeps inside, timed."""
    clock = Clock()
    programs: tuple[Any, ...] = (Algorithm1, LocalSteps, NoisyDescent)
    before = [program.loops for program in programs]
    for program in programs:
        program.loops = _Loops(program.loops, clock)
    try:
        yield clock
    finally:
        for program, loops in zip(programs, before, strict=True):
            program.loops = loops


def measure(text: str, folder: Path, n_jobs: int) -> tuple[float, float, int, Path]:
    """Wall time, kernel time and runs of a sweep, and its file."""
    target = folder / f"{time.perf_counter_ns()}.h5"
    with kernels_timed() as clock:
        began = time.perf_counter()
        report = fl.sweep(text, target, n_jobs=n_jobs)
        return time.perf_counter() - began, clock.seconds, report.completed, target


def main() -> None:
    """The three numbers, each on one core and on two."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measure(FIRST.replace("8000", "1000") + HEAD, folder, 1)  # compiles
        for n_jobs in (1, 2):
            wall, kernels, runs, path = measure(FIRST + HEAD, folder, n_jobs)
            share = 1 - kernels / (n_jobs * wall)
            print(
                f"{runs} runs of the first experiment's size, {n_jobs} cores: {wall:.2f} s, {share:.1%} not in kernels"
            )
        print(f"  {path.stat().st_size / 1e6:.2f} MB")
        for count, repetitions in ((500, 20), (10_000, 1)):
            text = SHORT.format(count=count, repetitions=repetitions) + HEAD
            for n_jobs in (1, 2):
                wall, kernels, runs, path = measure(text, folder, n_jobs)
                each = 1e3 * (wall - kernels / n_jobs) / runs
                print(f"{runs:,} short runs of {count:,} settings, {n_jobs} cores: {wall:.2f} s, {each:.3f} ms a run")
            began = time.perf_counter()
            table = fl.results(path).table()
            print(f"  {len(table['optimality']):,} final errors read in {time.perf_counter() - began:.3f} s")


if __name__ == "__main__":
    main()
