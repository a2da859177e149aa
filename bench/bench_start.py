"""How long one waits before anything is computed: the import, and the first solve of a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from measuring import Reference, Work, measure

IMPORT = "import fastldp"
SOLVE = """
import numpy as np, fastldp as fl
A = np.random.default_rng(0).standard_normal((2000, 22))
p = fl.Problem(A, np.sign(A[:, 0]), workers=20, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0))
fl.solve(p, fl.Budget(1.0, 1e-4), rounds=10, repetitions=20, seed=0)
"""


def run(code: str, cache: Path) -> int:
    """A process of its own, with compiled kernels kept in a folder; its exit code."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, "-c", code], env=environment).returncode


@pytest.mark.parametrize("code", [IMPORT, SOLVE], ids=["import", "solve"])
def bench_start(benchmark: BenchmarkFixture, code: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A whole process with compiled kernels at hand, against one that imports NumPy."""
    # Where nothing is timed the kernels that the tests have compiled do.
    own = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = tmp_path_factory.getbasetemp() / "kernels" if benchmark.enabled else Path(own)
    reference = Reference("numpy", lambda: run("import numpy", cache))
    measure(benchmark, lambda: run(code, cache), reference, Work(), float, at_most=0.0)


@pytest.mark.once
def bench_compile(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """The first solve on a new machine: once, for it takes as long as much of the rest."""
    if not benchmark.enabled:
        pytest.skip("compiles everything anew, which is worth its time only where it is timed")
    reference = Reference("numpy", lambda: run("import numpy", tmp_path))
    measure(benchmark, lambda: run(SOLVE, tmp_path), reference, Work(), float, at_most=0.0, pairs=1)
