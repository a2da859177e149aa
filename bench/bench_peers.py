"""The same job by JAX and PyTorch, and in Flower and Opacus, against ours; NumPy's times are in `bench_solve`."""

from importlib.util import find_spec

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import jobs
from frameworks import FRAMEWORKS
from measuring import Reference, measure

# Of each job its size and runs, our rounds and theirs, which take about as long.
JOBS: dict[str, tuple[jobs.Size, int, int, int]] = {
    "dense-160": (jobs.FIRST, 160, 1000, 220),
    "sparse-160": (jobs.SPARSE, 160, 120, 18),
    "dense-1": (jobs.FIRST, 1, 10_000, 1600),
}

# Enough pairs that some are of good moments.
SECONDS = 8.0
# What frameworks can finish: the first experiment, one run of so few rounds.
FRAMEWORK_ROUNDS = 10

# Others may warn of what they like.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("peer", ["jax", "torch"])
def bench_peer(benchmark: BenchmarkFixture, peer: str, job: str, dtype: str) -> None:
    if find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed: pip install 'fastldp[peers]'")
    size, runs, our_rounds, rounds = JOBS[job]
    if not benchmark.enabled:
        our_rounds, rounds = 10, 2
    given = jobs.case(size, dtype)
    measure(
        benchmark,
        jobs.theirs(peer, given, runs, rounds),
        Reference("fastldp", jobs.ours(given, runs, our_rounds), runs * our_rounds),
        jobs.work(given, runs, rounds),
        lambda _: jobs.apart(peer, given),
        at_most=jobs.APART,
        seconds=SECONDS,
        rounds=rounds,
        runs=runs,
    )


@pytest.mark.thorough
@pytest.mark.once
@pytest.mark.parametrize("framework", FRAMEWORKS)
def bench_framework(benchmark: BenchmarkFixture, framework: str) -> None:
    """Once, for starting it takes longest; `worker_round` is the seconds of a round of one worker, started already."""
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: pip install 'fastldp[frameworks]'")
    given, rounds = jobs.case(jobs.FIRST), FRAMEWORK_ROUNDS
    run = FRAMEWORKS[framework]
    apart = float(np.abs(run(jobs.peer_job(given, 1, 10)).x - jobs.noiseless(given, 10)).max())
    finished = measure(
        benchmark,
        lambda: run(jobs.peer_job(given, 1, rounds, deviation=0.02)),
        Reference("fastldp", jobs.ours(given, 1, 2000), 2000),
        jobs.work(given, 1, rounds),
        lambda _: apart,
        at_most=jobs.APART,
        pairs=1,
        rounds=rounds,
        runs=1,
    )
    benchmark.extra_info["worker_round"] = finished.seconds / (rounds * given.size.n)
