"""The adaptive plan beside a search on the data: adaptive.py [--write] [--quick] [--plans] [--figure|--cost] [SET ...].

Prints, for ijcnn1 and a6a at the paper's sizes (`FASTLDP_DATA` at the files) and generated sets, errors of the paper's
defaults, of the plan without clipping, of the adaptive plan, and of the best of a search over threshold, step and
allocation made on the data, which no deployment can make; and of that search without clipping. The search has noise of
its own, and what is reported is of other noise. With --write it is put into docs/clipping.md. Half an hour; --quick
has one l2 and horizon; --plans keeps what the page has of the searches, which no change of a plan moves, and is made
in two minutes. With --figure it draws error and accuracy against ε instead, to scripts/figures/adaptive.png: four
minutes; with --cost it measures the time that clipping takes instead: half a minute.
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fastldp as fl
from readme import ROOT, write

PAGE = Path(ROOT) / "docs" / "clipping.md"
BUDGET = fl.Budget(1.0, 1e-4)
WORKERS, REPETITIONS, SEARCHED = 20, 20, 4
L2, HORIZONS = (0.1, 0.01, 0.001), (1000, 2000, 4000)
# Of the figure, whose search has half of the thresholds and steps.
EPSILONS, DRAWN = np.geomspace(0.1, 10.0, 5), 8
# The rows that the paper takes of its sets, and those of generated ones.
REAL = {"ijcnn1": 2000, "a6a": 11_220}
GENERATED_ROWS, TEST_ROWS = 6000, 4000
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
            *self.name,
            *(f"{error:.3g}" for error in self.errors.values()),
            f"{self.searched:.3g}",
            f"{ratio:.2f}",
            f"{self.unclipped:.3g}",
        ]

    @property
    def name(self) -> tuple[str, str]:
        return self.problem, f"{self.rounds:,}"


def kept() -> dict[tuple[str, str], tuple[float, float]]:
    """What the page has of the searches, with and without clipping."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    found = [row for row in rows if len(row) == len(METHODS) + 5 and ", l2 = " in row[0]]
    return {(row[0], row[1]): (float(row[-3]), float(row[-1])) for row in found}


def rows_of(name: str, *, tested: bool) -> tuple[fl.datasets.Dataset, NDArray[np.int64], NDArray[np.int64]]:
    """A set, the paper's or generated, its rows, and those for tests; of them a6a keeps a fifth of all."""
    data = fl.datasets.load(name) if name in REAL else fl.datasets.synthetic(name, rows=GENERATED_ROWS + TEST_ROWS)
    size = data.b.size
    train, test = np.arange(min(size, REAL.get(name, GENERATED_ROWS))), np.arange(0)
    if tested and train.size < size:
        test = np.arange(train.size, min(size, train.size + TEST_ROWS))
    elif tested:
        train, test = fl.datasets.hold_out(size, 0.2)
    return data, train, test


def problem_of(name: str, l2: float, *, tested: bool = False) -> fl.Problem:
    """The paper's, or one on generated data."""
    data, train, test = rows_of(name, tested=tested)
    g = fl.BoxL1(0.01, 10.0) if name == "a6a" else fl.Zero()
    given: dict[str, Any] = {"test": (data.A[test], data.b[test])} if tested else {}
    return fl.Problem(data.A[train], data.b[train], workers=WORKERS, l2=l2, regularizer=g, **given)


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


def shown(name: str) -> str:
    """What a set is called."""
    return name if name in REAL else f"{name}, generated"


def draw(names: list[str]) -> None:
    """Error and accuracy against ε, a column for each set."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        2, len(names), figsize=(3.2 * len(names), 5.6), sharex=True, squeeze=False, layout="constrained"
    )
    for column, name in enumerate(names):
        problem = problem_of(name, L2[0], tested=True)
        typical = float(np.median(problem.row_norms)) / 2
        found: dict[str, list[tuple[float, float]]] = {}
        for epsilon in EPSILONS:
            budget = fl.Budget(float(epsilon), BUDGET.delta)
            methods: dict[str, Any] = {**METHODS}
            grid = [fl.PrimalDual(step, clip=part * typical) for part in THRESHOLDS[::2] for step in STEPS[::2]]
            methods["searched on the data"] = fl.tune(
                problem, budget, grid, rounds=HORIZONS[0], repetitions=SEARCHED, seed=1
            ).algorithm
            for kind, method in methods.items():
                given: dict[str, Any] = {"rounds": HORIZONS[0], "algorithm": method, "seed": 0, "throw": False}
                run = fl.solve(problem, budget, repetitions=DRAWN, record=fl.Final(), **given)
                found.setdefault(kind, []).append((float(run.optimality[:, -1].mean()), float(run.accuracy.mean())))
            print(name, f"{epsilon:.3g}", {kind: values[-1] for kind, values in found.items()}, flush=True)
        best = problem.accuracy(problem.optimum())
        for kind, values in found.items():
            for row in (0, 1):
                axes[row, column].plot(EPSILONS, [value[row] for value in values], marker="o", markersize=3, label=kind)
        axes[1, column].axhline(best, color="0.5", linewidth=1, label="of the optimum")
        axes[1, column].axhline(problem.majority, color="0.5", linewidth=1, linestyle=":", label="of the larger class")
        axes[0, column].set(title=shown(name), yscale="log", xscale="log", ylim=(None, 3.0))
        axes[1, column].set(xlabel="ε")
    axes[0, 0].set_ylabel("error")
    axes[1, 0].set_ylabel("accuracy on test data")
    axes[1, -1].legend(frameon=False, fontsize=7)
    figure.savefig(ROOT / "scripts" / "figures" / "adaptive.png", dpi=120)


def cost(turns: int = 9) -> str:
    """CPU time beside that of runs that do not clip, the median over turns."""
    data = fl.datasets.synthetic("ijcnn1", rows=REAL["ijcnn1"])
    problem = fl.Problem(data.A, data.b, workers=WORKERS, l2=L2[0])
    problem.optimum()
    kinds = {
        "none": None,
        "a number": 0.3,
        '"adaptive"': "adaptive",
        "every=10": fl.AdaptiveClip(every=10),
        "every=10, early=0": fl.AdaptiveClip(every=10, early=0),
    }

    def seconds(clip: Any, rounds: int) -> float:
        method, began = fl.PrimalDual(0.2, "static", clip=clip), time.process_time()
        given: dict[str, Any] = {"rounds": rounds, "algorithm": method, "repetitions": 16, "record": fl.Final()}
        fl.solve(problem, BUDGET, seed=0, n_jobs=1, **given)
        return time.process_time() - began

    for clip in kinds.values():
        seconds(clip, 30)  # compiled, where it was not
    lines = [f"| T | {' | '.join(list(kinds)[1:])} |", "|---" * len(kinds) + "|"]
    for rounds in (1000, 3000):
        taken = np.array([[seconds(clip, rounds) for clip in kinds.values()] for _ in range(turns)])
        ratios = np.median(taken[:, 1:] / taken[:, :1], axis=0)
        lines.append(f"| {rounds:,} | {' | '.join(f'{100 * (one - 1):+.1f} %' for one in ratios)} |")
    return "\n".join(lines)


def main() -> None:
    warnings.simplefilter("ignore")  # of steps beyond the theorem, which a search may take
    quick, plans = "--quick" in sys.argv[1:], "--plans" in sys.argv[1:]
    known = kept()
    names = [word for word in sys.argv[1:] if not word.startswith("--")] or ["ijcnn1", "a6a", "w8a", "mushrooms"]
    if "--figure" in sys.argv[1:]:
        draw(names)
        return
    if "--cost" in sys.argv[1:]:
        table = cost()
        print(table)
        if "--write" in sys.argv[1:]:
            write(PAGE, "cost", table)
        return
    lines = [f"| | T | {' | '.join(METHODS)} | searched on the data | ratio | searched without clipping |"]
    lines.append("|---" * (len(METHODS) + 5) + "|")
    print("\n".join(lines), flush=True)
    for name in names:
        for l2 in L2[:1] if quick else L2:
            problem = problem_of(name, l2)
            typical = float(np.median(problem.row_norms)) / 2
            for rounds in HORIZONS[:1] if quick else HORIZONS:
                errors = {kind: error(problem, method, rounds) for kind, method in METHODS.items()}
                row = Row(f"{shown(name)}, l2 = {l2:g}", rounds, errors, np.nan, np.nan)
                if plans:
                    best, unclipped = known[row.name]
                else:
                    best = searched(problem, rounds, [part * typical for part in THRESHOLDS])
                    unclipped = searched(problem, rounds, [None])
                row = row._replace(searched=best, unclipped=unclipped)
                lines.append(f"| {' | '.join(row.cells)} |")
                print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        write(PAGE, "adaptive", "\n".join(lines))


if __name__ == "__main__":
    main()
