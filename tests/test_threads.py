"""How many threads a block has: by its work, by how many blocks there are, and by what else keeps the cores busy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cases
from fastldp.engine import driving, threads
from fastldp.engine.threads import Crew, spread

SCRIPT = Path(__file__).parent / "crowded.py"


@pytest.mark.parametrize("cores", [2, 8, 64])
@pytest.mark.parametrize("blocks", [1, 2, 5, 7, 20])
def test_threads_of_blocks_at_once_never_exceed_the_cores(blocks: int, cores: int) -> None:
    for at_once in (False, True):
        for work in (1e5, 1e8):
            count, each = spread(blocks, cores, work, workers=20, at_once=at_once)
            assert 1 <= count <= blocks
            assert count == 1 or at_once
            assert count * each <= cores
            assert each <= 20


def test_many_threads_share_a_round_only_where_it_is_long() -> None:
    """Each costs the others as much, whatever there is to do."""
    assert spread(1, 64, 1e8, 1000, at_once=True) == (1, 64)
    assert spread(1, 64, 44_000, 1000, at_once=True)[1] < 16
    assert spread(1, 2, driving.PARALLEL_WORK, 20, at_once=True) == (1, 2)


def test_blocks_that_are_left_run_at_once_where_these_are_more_cores() -> None:
    assert spread(20, 64, 4e5, 20, at_once=True)[0] > 1


def test_a_busy_machine_is_left_to_one_thread_where_it_is_faster() -> None:
    crew = Crew(2)
    crew.judge(100, 3.0, 2.0)
    assert crew.now == 2  # the first segment tells nothing
    crew.judge(100, 1.0, 1.9)
    assert crew.now == 2  # both cores are ours
    crew.judge(100, 3.0, 3.2)
    assert crew.now == 1  # one of them is not
    for _ in range(threads.SEGMENTS):
        crew.judge(100, 2.0, 2.0)
        assert crew.now == 1
    crew.judge(100, 2.0, 2.0)
    assert crew.now == 2  # to see whether it is still so


def test_a_busy_machine_is_shared_where_one_thread_is_slower() -> None:
    crew = Crew(4)
    crew.judge(100, 1.0, 4.0)
    crew.judge(100, 1.0, 2.0)
    assert crew.now == 1
    crew.judge(100, 3.0, 3.0)
    for _ in range(threads.SEGMENTS - 1):
        assert crew.now == 4
        crew.judge(100, 1.0, 2.0)
    assert crew.now == 4
    crew.judge(100, 1.0, 2.0)
    assert crew.now == 1


def test_a_crew_of_one_stays_so() -> None:
    crew = Crew(1)
    crew.judge(100, 1.0, 0.1)
    assert crew.now == 1


@pytest.mark.thorough
@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_sixteen_threads_have_the_bits_of_one(layer: str) -> None:
    """Of one run, a block and several at once, and where several callers share the threads."""
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "16"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "16"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=cases.HANGING,
        check=False,
    )
    if "No threading layer could be loaded" in done.stderr:
        pytest.skip(f"Numba has no layer {layer} here")
    assert done.returncode == 0, done.stderr
    *lines, used = done.stdout.splitlines()
    assert used == layer
    assert [line.split()[0] for line in lines] == ["1", "9", "20"] * 2
    for line in lines:
        assert len(line.split()) == 2, "other threads, other bits"
