"""Unequal shards: what uniform weights, weights by rows and a least shard make of one split: unequal.py [--write].

Prints a table of errors on generated data with as many rows and features as mushrooms, split over 20 workers by
Dirichlet(0.5) shares of its classes: the smallest of the twenty shards decides over the noise where all weigh the same.
With --write it is put into docs/data.md.
"""

import sys
import warnings
from typing import Any

import numpy as np

import fastldp as fl
from readme import ROOT, write

BUDGET = fl.Budget(1.0, 1e-4)
WORKERS, ROUNDS, LEAST = 20, 2000, 100
SPLIT_SEED = 0
METHODS = {
    "theorem": fl.PrimalDual(),
    "planned": fl.PrimalDual("planned", "planned"),
}


def main() -> None:
    """A row for each way."""
    data = fl.datasets.synthetic("mushrooms")
    lines = [f"| workers | smallest shard | largest | {' | '.join(f'{name} step' for name in METHODS)} |"]
    lines.append("|---|---|---|" + "---|" * len(METHODS))
    ways: dict[str, tuple[int, str]] = {
        "weighted uniformly": (0, "uniform"),
        f"weighted uniformly, `least={LEAST}`": (LEAST, "uniform"),
        "weighted by rows": (0, "rows"),
        f"weighted by rows, `least={LEAST}`": (LEAST, "rows"),
    }
    for name, (least, weighting) in ways.items():
        owners = fl.datasets.partition(data.b, WORKERS, "dirichlet", alpha=0.5, least=least, seed=SPLIT_SEED)
        problem = fl.Problem(
            data.A, data.b, workers=owners, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0), weighting=weighting
        )
        errors = [f"{error(problem, method):.3g}" for method in METHODS.values()]
        lines.append(f"| {name} | {problem.sizes.min()} | {problem.sizes.max():,} | {' | '.join(errors)} |")
    print("\n".join(lines))
    if "--write" in sys.argv[1:]:
        write(ROOT / "docs" / "data.md", "unequal", "\n".join(lines))


def error(problem: fl.Problem, method: Any) -> float:
    """The mean final optimality of twenty runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.errors.NoiseWarning)  # the table is about it
        run = fl.solve(problem, BUDGET, rounds=ROUNDS, algorithm=method, repetitions=20, seed=0, record=fl.Final())
    return float(np.mean(run.optimality))


if __name__ == "__main__":
    main()
