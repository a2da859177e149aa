"""Run by test_forking.py in a process of its own: a solve on threads, a fork, the same solve in the child.

Prints what the parent and the children had, a line each: a hash of the bits, and how many parallel kernels ran.
"""

import hashlib
import multiprocessing
import os
import sys
from typing import Any

import numba
import numpy as np

import fastldp as fl
from fastldp.engine import driving
from fastldp.kernels import rounds

calls = 0
kernel: Any = rounds.run_parallel


def counted(*arguments: Any) -> Any:
    global calls
    calls += 1
    return kernel(*arguments)


def solved(repetitions: int) -> str:
    """A solve large enough for threads to share a block, as a line of text."""
    global calls
    calls = 0
    rng = np.random.default_rng(0)
    A = rng.standard_normal((800, 50)) / 20
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=4, l2=0.1)
    run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=20, repetitions=repetitions, seed=1)
    digest = hashlib.sha256(run.workers.tobytes() + run.consensus.tobytes() + run.means.tobytes()).hexdigest()
    return f"{digest} {'parallel' if calls else 'serial'}"


def report(who: str, line: str) -> None:
    print(who, line, flush=True)


def main(how: str, repetitions: int) -> None:
    # Two threads, on one core if need be: they take turns there.
    driving.available_cores = lambda: 2
    rounds.run_parallel = counted
    if how != "before":
        report("parent", solved(repetitions))
        report("layer", numba.threading_layer())  # type: ignore[attr-defined]
    if how == "pool":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            for line in pool.map(solved, [repetitions] * 2):
                report("child", line)
        return
    child = os.fork()
    if child == 0:
        report("child", solved(repetitions))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    report("status", str(status))
    if how == "before":
        report("parent", solved(repetitions))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
