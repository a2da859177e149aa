"""What planning costs beside tuning, over generated problems: untuned.py [--write] [--problems 36] [--minutes 8].

Problems are drawn: l2 from 10⁻⁴ to 1, d from 5 to 1,000, m from 20 to 5,000, the smaller class from 3 to 50 %, spectra
from flat to steep, rows of any length, some with outliers. For each the errors of the paper's defaults, of the plan
without clipping and of the adaptive plan stand beside the best of a search over threshold and step made on the data.
Prints quantiles of the ratios; with --write they are put into docs/clipping.md. A quarter of an hour; what was found is
kept in out/untuned.csv and not made again, so that it can be had in pieces of so many minutes.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fastldp as fl
from readme import ROOT, write

BUDGET = fl.Budget(1.0, 1e-4)
KEPT = Path(ROOT) / "out" / "untuned.csv"
WORKERS, ROUNDS, REPETITIONS, SEARCHED = 20, 1000, 8, 2
# So many numbers at most: a search reads them thousands of times.
LARGEST = 3 * 10**5
# Of the median of the gradients' norms at zero; and steps.
THRESHOLDS = (0.1, 0.2, 0.4, 0.7, 1.2, 2.0)
STEPS = np.geomspace(0.001, 1.0, 10)
METHODS = {
    "paper": fl.PrimalDual(),
    "plan": fl.PrimalDual("planned", "planned"),
    "adaptive plan": fl.PrimalDual("planned", "planned", clip="adaptive"),
}
QUANTILES = {"least": 0.0, "median": 0.5, "75 %": 0.75, "90 %": 0.9, "worst": 1.0}


class Drawn(NamedTuple):
    """What a problem is made of."""

    l2: float
    d: int
    m: int
    balance: float
    decay: float
    """Of the spectrum: eigenvalue j of the features' covariance is j^−decay."""
    length: float
    """Of a typical row."""
    outliers: bool

    @classmethod
    def at_random(cls, rng: np.random.Generator) -> "Drawn":
        d = int(np.exp(rng.uniform(np.log(5), np.log(1000))))
        most = min(5000, LARGEST // (WORKERS * d))
        return cls(
            l2=10 ** rng.uniform(-4, 0),
            d=d,
            m=int(np.exp(rng.uniform(np.log(20), np.log(max(21, most))))),
            balance=float(np.exp(rng.uniform(np.log(0.03), np.log(0.5)))),
            decay=rng.uniform(0, 2),
            length=10 ** rng.uniform(-1, 1.4),
            outliers=bool(rng.random() < 0.2),
        )

    def problem(self, rng: np.random.Generator) -> fl.Problem:
        """Over so many workers."""
        A, b = self.samples(rng)
        return fl.Problem(A, b, workers=WORKERS, l2=self.l2)

    def samples(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Normal features of this spectrum, labels of a logistic model with an offset that makes classes unequal."""
        rows = WORKERS * self.m
        scales = np.arange(1, self.d + 1) ** (-self.decay / 2)
        A = rng.standard_normal((rows, self.d)) * scales
        A *= self.length / np.sqrt(np.sum(scales**2))
        direction = rng.standard_normal(self.d)
        margins = A @ direction
        margins *= 3 / margins.std()
        noisy = margins + rng.logistic(size=rows)
        b = np.where(noisy > np.quantile(noisy, 1 - self.balance), 1.0, -1.0)
        b[:2] = 1.0, -1.0  # both classes, however few samples
        A[:, 0] += self.length / 2  # features have means, as offsets do
        if self.outliers:
            A[rng.choice(rows, max(1, rows // 200), replace=False)] *= 100
        return A, b


def error(problem: fl.Problem, method: Any) -> float:
    """The mean final optimality, or that of staying at zero where runs diverged."""
    given: dict[str, Any] = {"rounds": ROUNDS, "repetitions": REPETITIONS, "seed": 0}
    run = fl.solve(problem, BUDGET, algorithm=method, record=fl.Final(), throw=False, **given)
    return float(np.mean(run.optimality[:, -1]))


def searched(problem: fl.Problem) -> float:
    """That of the best of a search, with other noise than it was searched with."""
    typical = float(np.median(problem.row_norms)) / 2
    methods = [fl.PrimalDual(step, "static", clip=part * typical) for part in THRESHOLDS for step in STEPS]
    return error(problem, fl.tune(problem, BUDGET, methods, rounds=ROUNDS, repetitions=SEARCHED, seed=1).algorithm)


def row(name: str, ratios: NDArray[np.float64]) -> str:
    return f"| {name} | " + " | ".join(f"{np.quantile(ratios, q):,.3g}" for q in QUANTILES.values()) + " |"


def measured(k: int) -> list[float]:
    """The errors of problem k: of the best of the search, and of the methods."""
    rng = np.random.default_rng([2026, k])
    drawn = Drawn.at_random(rng)
    problem = drawn.problem(rng)
    errors = [searched(problem), *(error(problem, method) for method in METHODS.values())]
    print(k, drawn, dict(zip(["searched", *METHODS], np.round(errors, 4), strict=True)), flush=True)
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=36)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # of steps beyond the theorem, which a search may take
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.touch()
    with KEPT.open(newline="") as file:
        kept = [[float(cell) for cell in cells] for cells in csv.reader(file)]
    began = time.monotonic()
    with KEPT.open("a", newline="") as file:
        for k in range(len(kept), chosen.problems):
            if time.monotonic() - began > 60 * chosen.minutes:
                break
            kept.append(measured(k))
            csv.writer(file).writerow(kept[-1])
            file.flush()
    found = np.nan_to_num(np.array(kept[: chosen.problems]), nan=np.inf)
    ratios = found[:, 1:] / found[:, :1]
    lines = [f"| over the search, {len(found)} problems | {' | '.join(QUANTILES)} |"]
    lines.append("|---" * (len(QUANTILES) + 1) + "|")
    lines += [row(name, ratios[:, column]) for column, name in enumerate(METHODS)]
    print("\n".join(lines))
    if chosen.write:
        write(Path(ROOT) / "docs" / "clipping.md", "untuned", "\n".join(lines))


if __name__ == "__main__":
    main()
