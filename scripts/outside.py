"""How fast are classes from outside beside the same formulas built in? Each pair is timed in turns, in one process."""

import importlib
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import fastldp as fl

# Copies of our own formulas, in a module that is not ours.
OUTSIDE = """
from dataclasses import dataclass
import numpy as np
import fastldp as fl
from fastldp.lanes import copysign, fabs, fma, load, maximum, mean_over_workers, minimum, prox, store


@dataclass(frozen=True)
class Huber(fl.Loss):
    delta: float = 1.0
    curvature = 1.0

    @property
    def slope_bound(self):
        return self.delta

    def value(self, z, b):
        r = np.abs(z - b)
        return np.where(r <= self.delta, 0.5 * r * r, self.delta * (r - 0.5 * self.delta))

    def slope(self, z, b):
        return minimum(self.delta, maximum(-self.delta, z - b))


@dataclass(frozen=True)
class L1(fl.Regularizer):
    weight: float

    def value(self, x):
        return float(self.weight * np.abs(x).sum())

    def shrink(self, z, scale):
        return copysign(maximum(0.0, fabs(z) - scale * self.weight), z)


@dataclass(frozen=True, eq=False)
class Own(fl.PrimalDual):
    pass
"""
TURNS, RUNS, ROUNDS = 15, 32, 2000


def jobs(mine: Any) -> dict[str, list[tuple[fl.Problem, fl.Method]]]:
    """What is timed: ours, and the same from outside."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 22))
    b = A @ rng.standard_normal(22)
    common: dict[str, Any] = {"workers": 20, "l2": 0.1, "gradient_bound": 1.0}

    def problem(loss: fl.Loss, g: fl.Regularizer) -> fl.Problem:
        return fl.Problem(A, b, loss=loss, regularizer=g, **common)

    paper = fl.PrimalDual(step=0.1)
    return {
        "a loss (Huber)": [(problem(kind.Huber(0.5), fl.L1(0.01)), paper) for kind in (fl, mine)],
        "a regularizer (L1)": [(problem(fl.Huber(0.5), kind.L1(0.01)), paper) for kind in (fl, mine)],
        "a method (Algorithm 1)": [(problem(fl.Huber(0.5), fl.L1(0.01)), kind) for kind in (paper, mine.Own(step=0.1))],
    }


def seconds(problem: fl.Problem, method: fl.Method, runs: int) -> float:
    began = time.perf_counter()
    given: dict[str, Any] = {"rounds": ROUNDS, "repetitions": runs, "record": fl.Final(), "seed": 0}
    fl.solve(problem, fl.Budget(1.0, 1e-4), algorithm=method, **given)
    return time.perf_counter() - began


def compared(pair: list[tuple[fl.Problem, fl.Method]], runs: int) -> tuple[float, float]:
    """The speed of the second as a share of the first's: the median over turns, and of the least times."""
    times: list[list[float]] = [[], []]
    for turn in range(TURNS + 1):
        for k in (0, 1) if turn % 2 else (1, 0):
            spent = seconds(*pair[k], runs)
            if turn:  # the first compiles
                times[k].append(spent)
    return median(ours / own for ours, own in zip(*times, strict=True)), min(times[0]) / min(times[1])


def main() -> None:
    """Print the speed of each from outside as a share of ours."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "outside_of_ours.py").write_text(OUTSIDE, encoding="utf-8")
        sys.path.insert(0, folder)
        found = jobs(importlib.import_module("outside_of_ours"))
        for runs in (RUNS, 1):
            for name, pair in found.items():
                middle, least = compared(pair, runs)
                print(f"{name}, {runs} runs: {middle:.1%} of the speed of ours (least times {least:.1%})", flush=True)


if __name__ == "__main__":
    main()
