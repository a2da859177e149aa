"""A sweep of a million runs: what planning, running, reading and resuming it take, in seconds and in memory.

python scripts/million.py                          100,000 settings of ten repetitions, some minutes
python scripts/million.py --settings 1000          a small trial
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastldp as fl
from fastldp.forking import available_cores
from fastldp.kernels import rounds
from fastldp.sweeping import spec as specs

SPEC = """
rounds = 20
repetitions = {repetitions}
[data]
given = "small"
[problem]
workers = 4
l2 = 0.1
[budget]
epsilon = 1.0
delta = 1e-4
[[method]]
name = "PrimalDual"
step = {{from = 0.01, to = 0.2, count = {settings}}}
[record]
every = 5
"""
# A sweep's numbers do not depend on what its data are.
_ROWS = np.random.default_rng(0).standard_normal((40, 5)) / 3
GIVEN = {"small": (_ROWS, np.where(_ROWS[:, 0] > 0, 1.0, -1.0))}


def plan(text: str, path: Path) -> dict[str, Any]:
    began = time.perf_counter()
    read = specs.read(text, GIVEN)
    return {"planned": len(read.settings), "seconds": time.perf_counter() - began}


def run(text: str, path: Path) -> dict[str, Any]:
    """What is beside kernels is what the threads had and did not spend in them."""
    spent, lock = [0.0], threading.Lock()

    def timed(kernel: Callable[..., None]) -> Callable[..., None]:
        def call(*given: Any) -> None:
            began = time.perf_counter()
            kernel(*given)
            with lock:
                spent[0] += time.perf_counter() - began

        return call

    small = SPEC.format(settings=20, repetitions=2)
    fl.sweep(small, path.with_name("warm.h5"), given=GIVEN, progress=False, n_jobs=2)
    rounds.run_serial = timed(rounds.run_serial)
    report = fl.sweep(text, path, given=GIVEN, progress=True, n_jobs=2)
    threads = available_cores()
    beside = report.seconds - spent[0] / min(2, threads)
    return {
        "completed": report.completed,
        "seconds": report.seconds,
        "beside kernels, ms a run": 1e3 * beside / report.runs,
        "MB of the file": path.stat().st_size / 1e6,
    }


def read(text: str, path: Path) -> dict[str, Any]:
    began = time.perf_counter()
    table = fl.results(path).table()
    return {"rows": len(table["round"]), "seconds": time.perf_counter() - began}


def resume(text: str, path: Path) -> dict[str, Any]:
    report = fl.sweep(text, path, given=GIVEN, progress=False, n_jobs=2)
    return {"found": report.found, "completed": report.completed, "seconds": report.seconds}


STEPS = {"plan": plan, "run": run, "read": read, "resume": resume}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=100_000, help="how many (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=10, help="of each (%(default)s)")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:  # each in a process of its own, for the memory it takes
        settings = arguments.settings
        found = STEPS[arguments.step](SPEC.format(settings=settings, repetitions=arguments.repetitions), arguments.path)
        found["MB of memory at most"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        for step in STEPS:
            done = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--step", step, "--path", f"{folder}/million.h5"],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout).items()
            shown = (f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.3g}" for name, value in found)
            print(f"{step:>8}: {', '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
