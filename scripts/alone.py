"""One run alone on one thread and on two, in fresh processes: python scripts/alone.py [PROCESSES] [LAYERS …].

Prints a line a process: how long a cache line is on its way from core to core, µs a round of both solves in turns, and
what other programs used of the cores meanwhile; and then the distribution, which --write puts into docs/speed.md. A
virtual machine's cores may share a cache in one moment and not in the next, and two threads gain by each other only
where they do.
"""

import argparse
import os
import subprocess
import sys
import time

import numpy as np

import environment
import jobs
import limits
from measuring import timed
from readme import write

ROUNDS, TURNS = 3000, 3
PAGE = environment.ROOT / "docs" / "speed.md"
COLUMNS = "ns from core to core", "µs, one thread", "µs, two threads", "cores used by others"


def measure() -> list[float]:
    """In this process, as the columns say."""
    given = jobs.unmeasured(jobs.case(jobs.FIRST))
    for count in (1, 2):
        jobs.ours(given, 1, 20, n_jobs=count)()
    hop, began, other = limits.hop(), time.perf_counter(), busy() - time.process_time()
    turns = [[timed(jobs.ours(given, 1, ROUNDS, n_jobs=count)) for count in (1, 2)] for _ in range(TURNS)]
    other = (busy() - time.process_time() - other) / (time.perf_counter() - began)
    one, two = np.median(turns, axis=0) / ROUNDS
    return [1e9 * (hop + limits.hop()) / 2, 1e6 * one, 1e6 * two, other]


def busy() -> float:
    """The seconds that all cores together have worked, where the system tells."""
    try:
        with open("/proc/stat", encoding="ascii") as stat:
            ticks = [int(number) for number in stat.readline().split()[1:9]]
    except OSError:
        return float("nan")
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Every process, and all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("processes", type=int, nargs="?", default=50)
    parser.add_argument("layers", nargs="*", default=["omp", "workqueue"], help="threading layers of Numba's")
    parser.add_argument("--write", action="store_true", help="put the distribution into docs/speed.md")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.here:
        print(*(f"{number:.2f}" for number in measure()))
        return
    tables = "\n\n".join(table(layer, chosen.processes) for layer in chosen.layers)
    print(f"\n{tables}")
    if chosen.write:
        write(PAGE, "alone", tables)


def table(layer: str, processes: int) -> str:
    """The distribution over fresh processes."""
    command, environ = [sys.executable, __file__, "--here"], os.environ | {"NUMBA_THREADING_LAYER": layer}
    found = []
    for _ in range(processes):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
        print(done.stdout.strip(), flush=True)
        found.append([float(number) for number in done.stdout.split()])
    columns = np.array(found).T
    heads = f"{processes} processes, {layer}", "least", "25 %", "median", "75 %", "most"
    rows = [*zip(COLUMNS, columns, strict=True), ("one thread's time over that of two", columns[1] / columns[2])]
    spread = [(name, np.quantile(numbers, [0, 0.25, 0.5, 0.75, 1])) for name, numbers in rows]
    lines = [f"| {name} | {' | '.join(f'{number:.3g}' for number in numbers)} |" for name, numbers in spread]
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines])


if __name__ == "__main__":
    main()
