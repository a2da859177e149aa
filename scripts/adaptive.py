"""The adaptive plan beside a search on the data: adaptive.py [--write] [--quick] [SET ...].

Prints, for ijcnn1 and a6a at the paper's sizes (`FASTLDP_DATA` at the files) and generated sets, errors of the paper's
defaults, of the plan without clipping, of the adaptive plan, and of the best of a search over threshold, step and
allocation made on the data, which no deployment can make; and of that search without clipping. The search has noise of
its own, and what is reported is of other noise. With --write it is put into docs/clipping.md. Half an hour; --quick
has one l2 and horizon.
"""

import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastldp as fl
from readme import ROOT, write

BUDGET = fl.Budget(1.0, 1e-4)
WORKERS, REPETITIONS, SEARCHED = 20, 20, 4
L2, HORIZONS = (0.1, 0.01, 0.001), (1000, 4000)
GENERATED_ROWS = 6000
# Of the median of the gradients' norms at zero; and steps.
THRESHOLDS = (0.15, 0.3, 0.5, 0.8, 1.2, 2.0)
STEPS = np.geomspace(0.003, 1.0, 9)
ALLOCATIONS = ("dynamic", "static")
METHODS = {
    "paper": fl.PrimalDual(),
    "plan": fl.PrimalDual("planned", "planned"),
    "adaptive plan": fl.PrimalDual("planned", "planned", clip="adaptive"),
}


class Row(NamedTuple):
    """The errors of a problem at a horizon."""

    problem: str
    rounds: int
    errors: dict[str, float]
    searched: float
    unclipped: float

    @property
    def cells(self) -> list[str]:
        ratio = self.errors["adaptive plan"] / self.searched
        return [
            self.problem,
            f"{self.rounds:,}",
            *(f"{error:.3g}" for error in self.errors.values()),
            f"{self.searched:.3g}",
            f"{ratio:.2f}",
            f"{self.unclipped:.3g}",
        ]


def problem_of(name: str, l2: float) -> fl.Problem:
    """The paper's, or one on generated data."""
    if name in ("ijcnn1", "a6a"):
        data = fl.datasets.load(name)
        rows = 2000 if name == "ijcnn1" else None
        g = fl.Zero() if name == "ijcnn1" else fl.BoxL1(0.01, 10.0)
        return fl.Problem(data.A[:rows], data.b[:rows], workers=WORKERS, l2=l2, regularizer=g)
    data = fl.datasets.synthetic(name, rows=GENERATED_ROWS)
    return fl.Problem(data.A, data.b, workers=WORKERS, l2=l2)


def error(problem: fl.Problem, method: Any, rounds: int) -> float:
    """The mean final optimality."""
    given: dict[str, Any] = {"rounds": rounds, "algorithm": method, "repetitions": REPETITIONS, "seed": 0}
    run = fl.solve(problem, BUDGET, record=fl.Final(), throw=False, **given)
    return float(np.mean(run.optimality[:, -1]))


def searched(problem: fl.Problem, rounds: int, thresholds: list[float | None]) -> float:
    """That of the best of a search, with other noise than it was searched with."""
    methods = [fl.PrimalDual(step, way, clip=C) for C in thresholds for step in STEPS for way in ALLOCATIONS]
    found = fl.tune(problem, BUDGET, methods, rounds=rounds, repetitions=SEARCHED, seed=1)
    return error(problem, found.algorithm, rounds)


def main() -> None:
    warnings.simplefilter("ignore")  # of steps beyond the theorem, which a search may take
    quick = "--quick" in sys.argv[1:]
    names = [word for word in sys.argv[1:] if not word.startswith("--")] or ["ijcnn1", "a6a", "w8a", "mushrooms"]
    lines = [f"| | T | {' | '.join(METHODS)} | searched on the data | ratio | searched without clipping |"]
    lines.append("|---" * (len(METHODS) + 5) + "|")
    print("\n".join(lines), flush=True)
    for name in names:
        for l2 in L2[:1] if quick else L2:
            problem = problem_of(name, l2)
            typical = float(np.median(problem.row_norms)) / 2
            for rounds in HORIZONS[:1] if quick else HORIZONS:
                errors = {kind: error(problem, method, rounds) for kind, method in METHODS.items()}
                best = searched(problem, rounds, [part * typical for part in THRESHOLDS])
                shown = name if name in ("ijcnn1", "a6a") else f"{name}, generated"
                row = Row(f"{shown}, l2 = {l2:g}", rounds, errors, best, searched(problem, rounds, [None]))
                lines.append(f"| {' | '.join(row.cells)} |")
                print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        write(Path(ROOT) / "docs" / "clipping.md", "adaptive", "\n".join(lines))


if __name__ == "__main__":
    main()
