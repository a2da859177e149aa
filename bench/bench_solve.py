"""Whole solves, with all that surrounds their kernels, against NumPy at the same job."""

from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import fastldp as fl
import jobs
from measuring import Reference, measure

# Rounds of ours and of NumPy: of ours so many that starting, a few milliseconds, is two percent at most, as in the
# thousands of rounds that runs have; of NumPy as many as take as long, for the longer job of two meets more of the
# machine's bad moments.
ROUNDS: dict[tuple[str, int], tuple[int, int]] = {
    ("dense", 1): (10_000, 1250),
    ("dense", 20): (3000, 660),
    ("dense", 160): (1000, 160),
    ("sparse", 1): (2000, 180),
    ("sparse", 20): (400, 80),
    ("sparse", 160): (240, 33),
}
# Enough pairs that some are of good moments.
SECONDS = 4.0
# A local step of a baseline is a gradient, as a round of the paper's method is.
STEPS = 5
METHODS: dict[str, tuple[Any, int]] = {
    "PrimalDual": (fl.PrimalDual(step=jobs.STEP), 1),
    "DPFedAvg": (fl.DPFedAvg(0.01, STEPS), STEPS),
    "DPScaffold": (fl.DPScaffold(0.01, STEPS), STEPS),
    "ISRLDP": (fl.ISRLDP(0.01), 1),
    "ISRLDP-accelerated": (fl.ISRLDP(0.01, accelerated=True), 1),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("runs", [1, 20, 160])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def bench_solve(benchmark: BenchmarkFixture, layout: str, runs: int, dtype: str) -> None:
    given = jobs.case(jobs.FIRST if layout == "dense" else jobs.SPARSE, dtype)
    rounds, of_numpy = ROUNDS[layout, runs] if benchmark.enabled else (10, 2)
    measure(
        benchmark,
        jobs.ours(given, runs, rounds),
        jobs.numpy_reference(given, runs, of_numpy),
        jobs.work(given, runs, rounds),
        jobs.final_error,
        at_most=jobs.LARGEST_ERROR,
        seconds=SECONDS,
        rounds=rounds,
        runs=runs,
    )


# Ours against ours, (runs, rounds, precision, cores) of job and reference, which take about as long.
OWN: dict[str, tuple[tuple[int, int, str, int | None], tuple[int, int, str, int | None]]] = {
    "float32": ((160, 1000, "float32", None), (160, 460, "float64", None)),
    "cores": ((160, 600, "float64", None), (160, 300, "float64", 1)),
    "runs": ((20, 3000, "float64", None), (160, 460, "float64", None)),
}


@pytest.mark.parametrize("compared", OWN)
def bench_own(benchmark: BenchmarkFixture, compared: str) -> None:
    """What single precision, a second core and full lanes are worth: each in turns with a solve without it."""
    (runs, rounds, dtype, cores), (their_runs, their_rounds, their_dtype, their_cores) = OWN[compared]
    if not benchmark.enabled:
        rounds = their_rounds = 10
    given = jobs.case(jobs.FIRST, dtype)
    other = jobs.ours(jobs.case(jobs.FIRST, their_dtype), their_runs, their_rounds, n_jobs=their_cores)
    measure(
        benchmark,
        jobs.ours(given, runs, rounds, n_jobs=cores),
        Reference("fastldp", other, their_runs * their_rounds),
        jobs.work(given, runs, rounds),
        jobs.final_error,
        at_most=jobs.LARGEST_ERROR,
        seconds=SECONDS,
        rounds=rounds,
        runs=runs,
    )


@pytest.mark.parametrize("method", METHODS)
def bench_methods(benchmark: BenchmarkFixture, method: str) -> None:
    """The paper's method and the baselines on a smooth problem, a local gradient."""
    algorithm, steps = METHODS[method]
    given, runs, rounds = jobs.smooth(jobs.FIRST), 160, 100 // steps
    measure(
        benchmark,
        jobs.ours(given, runs, rounds, algorithm=algorithm),
        jobs.numpy_reference(jobs.case(jobs.FIRST), runs, 10),
        jobs.work(given, runs, rounds, gradients=steps),
        jobs.final_error,
        at_most=jobs.LARGEST_ERROR,
        rounds=rounds,
        runs=runs,
    )
