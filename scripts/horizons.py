"""What planned rounds cost beside more of them: horizons.py [--write] [--problems 10].

The adaptive plan at rounds="planned", and at 1,000, 2,000 and 4,000 rounds, on ijcnn1 and a6a (`FASTLDP_DATA` at the
files) with three l2 and on generated problems. With --write the table is put into docs/planning.md. Three minutes.
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from adaptive import BUDGET, L2, METHODS, REAL, problem_of
from untuned import Drawn

import fastldp as fl
from readme import ROOT, write

HORIZONS, REPETITIONS = (1000, 2000, 4000), 8
PLAN = METHODS["adaptive plan"]


def problems(generated: int) -> Iterator[tuple[str, fl.Problem]]:
    """With their names."""
    for name in REAL:
        for l2 in L2:
            yield f"{name}, l2 = {l2:g}", problem_of(name, l2)
    for k in range(generated):
        rng = np.random.default_rng([2028, k])
        drawn = Drawn.at_random(rng)
        yield f"d = {drawn.d}, m = {drawn.m}, l2 = {drawn.l2:.2g}, length {drawn.length:.2g}", drawn.problem(rng)


def error(problem: fl.Problem, rounds: int) -> float:
    """The mean final optimality."""
    run = fl.solve(
        problem, BUDGET, rounds=rounds, algorithm=PLAN, repetitions=REPETITIONS, seed=0, record=fl.Final(), throw=False
    )
    return float(np.mean(run.optimality[:, -1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # of horizons that are short for the plan
    horizons = " | ".join(f"T = {rounds:,}" for rounds in HORIZONS)
    lines = [f"| | planned rounds | error | {horizons} | over the best |", "|---" * (len(HORIZONS) + 4) + "|"]
    ratios = []
    for name, problem in problems(chosen.problems):
        rounds = PLAN.planned_rounds(problem, BUDGET)
        errors = [error(problem, one) for one in (rounds, *HORIZONS)]
        ratios.append(errors[0] / min(errors))
        lines.append(f"| {name} | {rounds:,} | {' | '.join(f'{one:.3g}' for one in errors)} | {ratios[-1]:.2f} |")
        print(lines[-1], flush=True)
    lines += ["", f"Over the best of the four the median is {np.median(ratios):.2f}, the worst {np.max(ratios):.2f}."]
    print(lines[-1])
    if chosen.write:
        write(Path(ROOT) / "docs" / "planning.md", "horizons", "\n".join(lines))


if __name__ == "__main__":
    main()
