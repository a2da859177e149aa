"""Whole solves, with all that surrounds their kernels, against NumPy at the same job."""

from collections.abc import Callable
from typing import Any, NamedTuple

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


@pytest.mark.thorough
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


class Ours(NamedTuple):
    """A solve of the first experiment, private."""

    runs: int
    rounds: int
    dtype: str = "float64"
    cores: int | None = None
    uneven: bool = False  # shards of 50 to 150 samples, each with a budget of its own

    def case(self) -> jobs.Case:
        """Its problem."""
        return jobs.uneven(jobs.FIRST) if self.uneven else jobs.case(jobs.FIRST, self.dtype)

    def job(self) -> Callable[[], fl.Solution]:
        """What is timed."""
        budget = jobs.UNEVEN_BUDGET if self.uneven else jobs.BUDGET
        return jobs.ours(self.case(), self.runs, self.rounds, n_jobs=self.cores, budget=budget)


# Ours against ours: job and reference take about as long.
OWN = {
    "float32": (Ours(160, 1000, dtype="float32"), Ours(160, 460)),
    "cores": (Ours(160, 600), Ours(160, 300, cores=1)),
    "runs": (Ours(20, 3000), Ours(160, 460)),
    "shards": (Ours(160, 600, uneven=True), Ours(160, 600)),
}


@pytest.mark.thorough
@pytest.mark.parametrize("compared", OWN)
def bench_own(benchmark: BenchmarkFixture, compared: str) -> None:
    """What single precision, a second core, full lanes and even shards are worth, in turns with a solve without."""
    ours, other = OWN[compared] if benchmark.enabled else (one._replace(rounds=10) for one in OWN[compared])
    measure(
        benchmark,
        ours.job(),
        Reference("fastldp", other.job(), other.runs * other.rounds),
        jobs.work(ours.case(), ours.runs, ours.rounds),
        jobs.final_error,
        at_most=jobs.LARGEST_ERROR,
        seconds=SECONDS,
        rounds=ours.rounds,
        runs=ours.runs,
    )


# Workers on a graph against the same with a server: size, graph, runs and rounds of both.
GRAPHS: dict[str, tuple[jobs.Size, str, int, int]] = {
    "complete": (jobs.FIRST, "complete", 160, 500),
    "ring": (jobs.FIRST, "ring", 160, 500),
    "ring-many": (jobs.OUTGROWN["workers"].size, "ring", 16, 200),
    "ring-many-alone": (jobs.OUTGROWN["workers"].size, "ring", 1, 400),
    "random-many": (jobs.OUTGROWN["workers"].size, "random:8:0", 16, 200),
}


@pytest.mark.thorough
@pytest.mark.parametrize("graph", GRAPHS)
def bench_graphs(benchmark: BenchmarkFixture, graph: str) -> None:
    """Neighbours in place of a server; the complete graph is one."""
    size, topology, runs, rounds = GRAPHS[graph]
    if not benchmark.enabled:
        size, rounds = jobs.SMALL._replace(n=10), 10
    given = jobs.unmeasured(jobs.case(size))
    methods = [fl.PrimalDual(step=jobs.STEP, allocation="static", topology=one) for one in (topology, None)]
    ours, server = (jobs.ours(given, runs, rounds, algorithm=method) for method in methods)
    measure(
        benchmark,
        ours,
        Reference("fastldp", server, runs * rounds),
        jobs.work(given, runs, rounds),
        lambda solution: float(solution.consensus.max()),
        at_most=jobs.LARGEST_ERROR,
        seconds=SECONDS,
        rounds=rounds,
        runs=runs,
    )


@pytest.mark.parametrize("method", METHODS)
def bench_methods(benchmark: BenchmarkFixture, method: str) -> None:
    """The paper's method and the baselines on a smooth problem, a local gradient."""
    algorithm, steps = METHODS[method]
    given, runs, (gradients, of_numpy) = jobs.smooth(jobs.FIRST), 160, (500, 80) if benchmark.enabled else (10, 2)
    rounds = gradients // steps
    measure(
        benchmark,
        jobs.ours(given, runs, rounds, algorithm=algorithm),
        jobs.numpy_reference(jobs.case(jobs.FIRST), runs, of_numpy),
        jobs.work(given, runs, rounds, gradients=steps),
        jobs.final_error,
        at_most=jobs.LARGEST_ERROR,
        seconds=SECONDS,
        rounds=rounds,
        runs=runs,
    )
