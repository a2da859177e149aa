"""What graphs cost in error, rounding and time: neighbours.py [--write] [--rounds 1000000].

Prints, for ijcnn1 as the paper has it (`FASTLDP_DATA` at the files), the error of the average and what workers differ
by on several graphs; how far from zero the duals sum after many rounds, beside a form that rounds every sum; and what
runs of 10,000 workers take. With --write the last two are put into docs/graphs.md. Five minutes.
"""

import argparse
import math
import resource
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastldp as fl
from fastldp.engine import block, layouts, recording
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels.chacha import key_of
from fastldp.lanes import load, prox, store
from fastldp.methods.gossip import PrimalDualOnGraph
from readme import ROOT, write

PAGE = Path(ROOT) / "docs" / "graphs.md"
BUDGET = fl.Budget(1.0, 1e-4)
GRAPHS = ("complete", "random:8:0", "grid", "ring", "star")
WORKERS, ROWS, ROUNDS, REPETITIONS = 20, 2000, 1000, 80
MANY, FEATURES = 10_000, 20


def trial() -> list[str]:
    """Errors at the end, the mean of the repetitions."""
    data = fl.datasets.load("ijcnn1")
    problem = fl.Problem(
        data.A[:ROWS], data.b[:ROWS], workers=WORKERS, l2=0.1, regularizer=fl.BoxL1(weight=0.01, bound=10.0)
    )
    size = float(np.sum(problem.optimum() ** 2))
    lines = ["| graph | error of the average | of a run, from to | what models differ by |", "|---|---|---|---|"]
    for graph in GRAPHS:
        method = fl.PrimalDual(step=0.25, topology=graph)
        given: dict[str, Any] = {"rounds": ROUNDS, "repetitions": REPETITIONS, "seed": 0, "common_noise": True}
        run = fl.solve(problem, BUDGET, algorithm=method, record=fl.Final(), **given)
        low, high = np.quantile(run.distance, [0.05, 0.95])
        apart = run.consensus.mean() / size
        lines.append(f"| {graph} | {run.distance.mean():.3f} | {low:.2f}–{high:.2f} | {apart:.3f} |")
    return lines


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(PrimalDualOnGraph):
    """The same with duals as anyone would write them: every sum is rounded."""

    @property
    def _in_kernels(self) -> Any:
        return self

    def receive(self, run: Any, i: Any) -> None:
        links, step = run.links, self.step * run.pace
        for j in range(run.d):
            message = load(run.X, i, j)
            apart = message - message
            for k in range(load(links.begin, i), load(links.begin, i + 1)):
                apart = apart + load(links.weights, k) * (message - load(run.X, load(links.neighbours, k), j))
            store(load(run.dual, i, j) + apart, run.dual, i, j)
            store(message - step * apart, run.next_X, i, j)
        prox(run, run.next_X, i, self.scale * run.pace)  # type: ignore[attr-defined]


def sums(method: fl.PrimalDual, budget: fl.Budget | None, ends: list[int]) -> list[float]:
    """The largest |Σᵢ Λᵢ|, added up exactly, over the largest dual, after these rounds."""
    data = fl.datasets.synthetic("ijcnn1", rows=200)
    problem = fl.Problem(data.A, data.b, workers=WORKERS, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0))
    schedule = method.schedule(problem, budget, ends[-1])
    timetable = recording.timetable(fl.Final(), ends[-1], problem.n)
    start = np.zeros(problem.d)
    runs = Runs(problem, schedule, start, key_of(0, 0)[None], timetable, start)
    laid = block.Block(layouts.samples_in_rows(problem), [Lane(runs, 0)])
    found = []
    for end in ends:
        for part in range(laid.done + 10_000, end, 10_000):
            laid.advance(part)
        laid.advance(end)
        duals: NDArray[Any] = laid._kept("dual")[..., 0]
        found.append(max(abs(math.fsum(duals[:, j])) for j in range(problem.d)) / float(np.abs(duals).max()))
    return found


def drift(rounds: int) -> list[str]:
    """Of both forms on a ring, private and not."""
    ends = [rounds // 1000, rounds // 100, rounds // 10, rounds]
    lines = [
        "| sum of the duals over the largest | " + " | ".join(f"T = {end:,}" for end in ends) + " |",
        "|---" * 5 + "|",
    ]
    common: dict[str, Any] = {"step": 0.25, "topology": "ring", "allocation": "static"}
    for budget, told in ((BUDGET, "private"), (None, "without noise")):
        for kind, form in ((Rounded, "every sum rounded"), (fl.PrimalDual, "multiples of a quantum")):
            found = sums(kind(**common), budget, ends)
            lines.append(f"| {form}, {told} | " + " | ".join(f"{one:.2g}" for one in found) + " |")
    return lines


def many() -> list[str]:
    """Rounds of 10,000 workers with 20 samples each, on one core."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((20 * MANY, FEATURES)) / np.sqrt(FEATURES)
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=MANY, l2=0.1, gradient_bound=1.0)
    lines = ["| 10,000 workers | a round of 8 runs |", "|---|---|"]
    for graph in ("complete", "ring", "random:8:0"):
        seconds = []
        for _ in range(3):
            began = time.perf_counter()
            method = fl.PrimalDual(step=0.25, topology=graph, allocation="static")
            for rounds in (5, 25):
                given: dict[str, Any] = {
                    "rounds": rounds,
                    "repetitions": 8,
                    "seed": 0,
                    "record": fl.Final(),
                    "n_jobs": 1,
                }
                began = time.perf_counter()
                fl.solve(problem, BUDGET, algorithm=method, **given)
                seconds.append(time.perf_counter() - began)
        each = (min(seconds[1::2]) - min(seconds[::2])) / 20
        lines.append(f"| {graph} | {1e3 * each:.1f} ms |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rounds", type=int, default=1_000_000)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    print("\n".join(trial()), flush=True)
    for name, lines in (("drift", drift(chosen.rounds)), ("many workers", many())):
        print("\n".join(lines), flush=True)
        if chosen.write:
            write(PAGE, name, "\n".join(lines))
    print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    main()
