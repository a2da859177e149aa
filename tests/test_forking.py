"""A forked child solves with the parent's bits, on one thread where Numba's layer would have it killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cases

SCRIPT = Path(__file__).parent / "forked.py"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


def solved_in_both(how: str, layer: str, repetitions: int = 1) -> dict[str, list[str]]:
    """What the processes said, by who said it."""
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), how, str(repetitions)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=cases.HANGING,
        check=False,
    )
    if "No threading layer could be loaded" in done.stderr:
        pytest.skip(f"Numba has no layer {layer} here")
    assert done.returncode == 0, done.stderr
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        who, text = line.split(" ", 1)
        said.setdefault(who, []).append(text)
    return said


@pytest.mark.parametrize("repetitions", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_a_child_after_openmp_is_serial_and_has_the_same_bits(repetitions: int) -> None:
    said = solved_in_both("fork", "omp", repetitions)
    assert (said["layer"], said["status"]) == (["omp"], ["0"])
    bits, manner = said["parent"][0].split()
    assert manner == "parallel"  # or the test shows nothing
    assert said["child"] == [f"{bits} serial"]


@pytest.mark.thorough
def test_children_of_a_pool() -> None:
    said = solved_in_both("pool", "omp")
    bits, manner = said["parent"][0].split()
    assert manner == "parallel"
    assert said["child"] == [f"{bits} serial"] * 2


@pytest.mark.parametrize(("how", "layer"), [("fork", "workqueue"), ("before", "omp")])
def test_a_child_that_can_is_parallel(how: str, layer: str) -> None:
    """With a layer that starts its threads anew, and where the parent had none when it forked."""
    said = solved_in_both(how, layer)
    assert said["status"] == ["0"]
    assert said["child"] == said["parent"]
    assert said["child"][0].endswith("parallel")
