"""Why a smaller error may come with less accuracy, and whether another plan has more: accuracy.py [--write].

On generated and real sets: error, cosine of x̄ to x*, accuracy on test data, and what the accuracy would be with the
margins aᵀx̄ moved by a constant, so that as many samples are above zero as with x*. On generated problems (--problems
10): the accuracy with the planned threshold and step, and with these times ½ and 2, under equal noise: the
mean of the differences and its standard error. With --write both tables are put into docs/clipping.md. Three minutes.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from adaptive import METHODS, problem_of, rows_of, shown
from numpy.typing import NDArray
from untuned import Drawn

import fastldp as fl
from readme import ROOT, write

BUDGET = fl.Budget(1.0, 1e-4)
ROUNDS, REPETITIONS = 1000, 8
SETS = ("mushrooms", "w8a", "ijcnn1", "a6a")
TIMES = (0.5, 1.0, 2.0)
ADAPTIVE = METHODS["adaptive plan"]

Array = NDArray[np.float64]


def right(margins: Array, b: Array) -> float:
    return float(np.mean(margins * b > 0))


def solved(problem: fl.Problem, method: Any) -> fl.Solution:
    given: dict[str, Any] = {"rounds": ROUNDS, "repetitions": REPETITIONS, "seed": 0}
    return fl.solve(problem, BUDGET, algorithm=method, record=fl.Final(), throw=False, **given)


def moved(margins: Array, share: float) -> Array:
    """By a constant, so that such a share of them is above zero."""
    return margins - np.quantile(margins, 1 - share)


def planned(problem: fl.Problem, run: fl.Solution) -> tuple[float, float]:
    """The threshold that runs of the adaptive plan came to, and the step for it."""
    schedule = ADAPTIVE.schedule(problem, BUDGET, ROUNDS)
    assert schedule.adapting is not None
    assert run.thresholds is not None
    C = float(np.median(run.thresholds[:, -1]))
    return C, schedule.step * float(schedule.adapting.pace(np.array([C]))[0])


def of_set(name: str) -> list[str]:
    """A row for each method."""
    problem = problem_of(name, 0.1, tested=True)
    data, _, test = rows_of(name, tested=True)
    A, b = data.A[test], data.b[test]
    x_star = problem.optimum()
    best = A @ x_star
    share, lines = float(np.mean(best > 0)), []
    lines.append(f"| {shown(name)} | x* | | 1 | {right(best, b):.3f} | {right(best, b):.3f} | {share:.2f} |")
    runs = {kind: solved(problem, method) for kind, method in METHODS.items()}
    C, step = planned(problem, runs["adaptive plan"])
    still: dict[str, Any] = {"rounds": ROUNDS, "record": fl.Final()}
    runs["the same without noise"] = fl.solve(problem, None, algorithm=fl.PrimalDual(step, clip=C), **still)
    runs["and without clipping"] = fl.solve(problem, None, algorithm=fl.PrimalDual(step), **still)
    for kind, run in runs.items():
        cosine = run.x @ x_star / np.linalg.norm(run.x, axis=1) / np.linalg.norm(x_star)
        margins = [A @ x for x in run.x]
        as_they_are = np.mean([right(one, b) for one in margins])
        shifted = np.mean([right(moved(one, share), b) for one in margins])
        above = np.mean([np.mean(one > 0) for one in margins])
        error = f"{run.optimality[:, -1].mean():.3g}"
        cells = f"{error} | {cosine.mean():.2f} | {as_they_are:.3f} | {shifted:.3f} | {above:.2f}"
        lines.append(f"| | {kind} | {cells} |")
    return lines


def gains(k: int) -> Array:
    """What other thresholds (down) and steps (across) gain in accuracy on a generated problem."""
    rng = np.random.default_rng([2027, k])
    drawn = Drawn.at_random(rng)
    drawn = drawn._replace(m=max(40, drawn.m))
    A, b = drawn.samples(rng)
    train, test = fl.datasets.hold_out(b.size, 0.3, seed=k)
    problem = fl.Problem(A[train], b[train], workers=20, l2=drawn.l2, test=(A[test], b[test]))
    run = solved(problem, ADAPTIVE)
    C, step = planned(problem, run)
    found = np.zeros((len(TIMES), len(TIMES)))
    for row, of_threshold in enumerate(TIMES):
        for column, of_step in enumerate(TIMES):
            method = fl.PrimalDual(min(1.0, of_step * step), "static", clip=of_threshold * C)
            found[row, column] = solved(problem, method).accuracy[:, -1].mean()
    print(k, drawn, np.round(found, 3).tolist(), flush=True)
    return np.asarray(found - found[1, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # of steps beyond the theorem
    lines = ["| | | error | cosine to x* | accuracy | margins moved | share above zero |", "|---" * 7 + "|"]
    for name in SETS:
        lines += of_set(name)
        print("\n".join(lines[-6:]), flush=True)
    of_problems = np.array([gains(k) for k in range(chosen.problems)])
    mean, error = of_problems.mean(axis=0), of_problems.std(axis=0, ddof=1) / np.sqrt(len(of_problems))
    steps = " | ".join(f"step × {one:g}" for one in TIMES)
    others = [f"| accuracy gained, {len(of_problems)} problems | {steps} |", "|---" * 4 + "|"]
    for row, of_threshold in enumerate(TIMES):
        cells = [f"{100 * m:+.1f} ± {100 * e:.1f} %" for m, e in zip(mean[row], error[row], strict=True)]
        others.append(f"| threshold × {of_threshold:g} | {' | '.join(cells)} |")
    print("\n".join([*lines, *others]))
    if chosen.write:
        write(Path(ROOT) / "docs" / "clipping.md", "accuracy", "\n".join(lines))
        write(Path(ROOT) / "docs" / "clipping.md", "aims", "\n".join(others))


if __name__ == "__main__":
    main()
