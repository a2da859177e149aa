"""Whole solves over data that outgrow the caches, each peer at the same job in turns with ours."""

from importlib.util import find_spec

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import jobs
from measuring import Reference, measure

PEERS = {"numpy": "numpy batched", "jax": "jax", "torch": "torch"}
# A pair takes some two seconds.
SECONDS = 6.0

# Others may warn of what they like.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("shape", jobs.OUTGROWN)
def bench_large(benchmark: BenchmarkFixture, shape: str, peer: str, dtype: str) -> None:
    """Ours, with a peer as the reference."""
    if find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed: pip install 'fastldp[peers]'")
    size, runs, rounds, of_peer = jobs.OUTGROWN[shape]
    if not benchmark.enabled:
        size, rounds, of_peer = jobs.SMALL, 10, 2
    given = jobs.unmeasured(jobs.case(size, dtype))
    measure(
        benchmark,
        jobs.ours(given, runs, rounds),
        Reference(peer, jobs.theirs(PEERS[peer], given, runs, of_peer), runs * of_peer),
        jobs.work(given, runs, rounds),
        lambda _: jobs.apart(PEERS[peer], given),
        at_most=jobs.APART,
        seconds=SECONDS,
        rounds=rounds,
        runs=runs,
    )
