"""Run by test_threads.py in a process of its own: solves on more threads than there may be cores.

Prints a hash of each solve's bits, a line each.
"""

import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

import fastldp as fl
from fastldp.engine import driving, threads


def solved(problem: fl.Problem, method: Any, repetitions: int, cores: int) -> str:
    budget = fl.Budget(1.0, 1e-4)
    run = fl.solve(problem, budget, rounds=30, algorithm=method, repetitions=repetitions, seed=1, n_jobs=cores)
    return hashlib.sha256(run.workers.tobytes() + run.consensus.tobytes() + run.means.tobytes()).hexdigest()


def main(most: int) -> None:
    # They take turns where the machine has fewer cores.
    driving.available_cores, driving.PARALLEL_WORK = lambda: most, 0
    threads.MEETING = 0.0  # all of them, however little there is to do
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40 * 23, 11)) / 5
    problem = fl.Problem(A, np.sign(A[:, 0] + 0.1), workers=40, l2=0.1)
    for method in (fl.PrimalDual(), fl.DPScaffold(0.05, 2)):
        for repetitions in (1, 9, 20):
            found = {solved(problem, method, repetitions, cores) for cores in (1, 2, 3, 5, 8, most)}
            # Several callers at once, each with threads of its own, or in turns.
            alike = [(problem, method, repetitions, 5)] * 6
            with ThreadPoolExecutor(3) as pool:
                found |= set(pool.map(lambda one: solved(*one), alike))
            print(f"{repetitions} {' '.join(found)}", flush=True)
    print(numba.threading_layer())  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(int(sys.argv[1]))
