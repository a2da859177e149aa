"""The same job by JAX and PyTorch, in turns with ours; NumPy's times are beside ours in `bench_solve`."""

from importlib.util import find_spec

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import jobs
from measuring import Reference, measure

# Of each job its size and runs, our rounds and theirs: some fifty milliseconds each.
JOBS: dict[str, tuple[jobs.Size, int, int, int]] = {
    "dense-160": (jobs.FIRST, 160, 100, 20),
    "sparse-160": (jobs.SPARSE, 160, 20, 4),
    "dense-1": (jobs.FIRST, 1, 2000, 500),
}

# JAX and PyTorch may warn of what they like.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("peer", ["jax", "torch"])
def bench_peer(benchmark: BenchmarkFixture, peer: str, job: str, dtype: str) -> None:
    if find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed: pip install 'fastldp[peers]'")
    size, runs, our_rounds, rounds = JOBS[job]
    given = jobs.case(size, dtype)
    measure(
        benchmark,
        jobs.theirs(peer, given, runs, rounds),
        Reference("fastldp", jobs.ours(given, runs, our_rounds), runs * our_rounds),
        jobs.work(given, runs, rounds),
        lambda _: jobs.apart(peer, given),
        at_most=jobs.APART,
        rounds=rounds,
        runs=runs,
    )
