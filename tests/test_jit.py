"""The kernel cache: never stale, never in the way."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import NumbaError

import fastldp.kernels
from fastldp.kernels import jit

SOURCES = Path(fastldp.kernels.__file__).parent

SOLVE = """
import warnings
import numpy as np, fastldp as fl
from fastldp.kernels import calling
problem = fl.Problem(np.eye(4), [1, -1, 1, 1], workers=2, l2=0.1)
fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=2, repetitions=16, n_jobs=1, seed=0)
print(*calling.counts())
"""


@jit.serial
def allocating(n):  # type: ignore[no-untyped-def]
    return np.zeros(n).sum()


def test_a_kernel_that_would_allocate_does_not_compile() -> None:
    with pytest.raises(NumbaError, match="found for signature"):
        allocating(3)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )


@pytest.mark.thorough
def test_a_second_process_finds_the_first_ones_kernels(tmp_path: Path) -> None:
    first, second = (run(SOLVE, NUMBA_CACHE_DIR=str(tmp_path)).stdout.split() for _ in range(2))
    assert first[0] == second[1] == "0"
    assert second[0] == first[1] != "0"


def test_other_sources_use_another_folder(tmp_path: Path) -> None:
    copy = tmp_path / "kernels"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import importlib.util as u; s = u.spec_from_file_location('jit', {!r}); m = u.module_from_spec(s); "
        "s.loader.exec_module(m); print(m.cache_folder())"
    )
    same = run(code.format(str(copy / "jit.py"))).stdout.strip()
    assert same == str(jit.cache_folder())
    with (copy / "vmath.py").open("a") as file:
        file.write("\n# another version\n")
    assert run(code.format(str(copy / "jit.py"))).stdout.strip() != same


@pytest.mark.thorough
def test_no_writable_folder_is_said_once_and_not_fatal(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder should be")
    done = run(SOLVE, NUMBA_CACHE_DIR=str(blocked), XDG_CACHE_HOME=str(blocked), HOME=str(blocked))
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1
    assert done.stdout.split()[0] == "0"


def test_a_users_own_cache_folder_is_left_as_it_was(tmp_path: Path) -> None:
    code = "from numba import config; before = config.CACHE_DIR; import fastldp; assert config.CACHE_DIR == before"
    run(code)
    run(code, NUMBA_CACHE_DIR=str(tmp_path))


def test_threads_that_make_kernels_at_once_keep_them_in_one_folder() -> None:
    """Numba has one setting for the folders of all caches, which is changed for a moment."""
    before, folder = jit.config.CACHE_DIR, str(jit.cache_folder())
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(lambda _: jit.serial(allocating.py_func), range(400)))
    finally:
        sys.setswitchinterval(interval)
    assert all(kernel._cache.cache_path.startswith(folder) for kernel in made)
    assert before == jit.config.CACHE_DIR
