"""What sampling does to the error at one budget: error against gradients: sampling_cost.py [--write].

Runs of one method, full and with samples drawn at several rates, over horizons; each keeps the same (ε, δ) by
accounting "pld". The price of a run is how many gradients of samples a worker computes, on average. Draws
scripts/figures/sampling_cost.png; with --write the table is put into docs/amplification.md: some minutes.
"""

import sys
from typing import NamedTuple

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt

import fastldp as fl
from readme import ROOT, write

BUDGET = fl.Budget(1.0, 1e-4, accounting="pld")
RATES = (1.0, 0.3, 0.1, 0.03)
HORIZONS = (30, 100, 300, 1000)
REPETITIONS = 20


class Cell(NamedTuple):
    """The errors of one rate at one horizon."""

    mean: float
    off: float
    """The standard error of the mean."""


def main() -> None:
    """A row for each horizon."""
    found = {rate: [cell(rate, rounds) for rounds in HORIZONS] for rate in RATES}
    heads = "".join(f" q = {rate:g} |" for rate in RATES)
    lines = [f"| rounds |{heads}", "|---|" + "---|" * len(RATES)]
    for number, rounds in enumerate(HORIZONS):
        cells = [found[rate][number] for rate in RATES]
        lines.append(f"| {rounds:,} | " + " | ".join(f"{one.mean:.3g} ± {2 * one.off:.1g}" for one in cells) + " |")
    print("\n".join(lines))
    draw(found)
    if "--write" in sys.argv[1:]:
        write(ROOT / "docs" / "amplification.md", "cost", "\n".join(lines))


def cell(rate: float, rounds: int) -> Cell:
    """The final error of repetitions."""
    data = fl.datasets.synthetic("ijcnn1")
    problem = fl.Problem(
        data.A, data.b, workers=20, l2=0.1, row_bound=1.3, gradient_bound="half", regularizer=fl.BoxL1(0.01, 10.0)
    )
    method = fl.PrimalDual(sampling=rate)
    run = fl.solve(
        problem, BUDGET, rounds=rounds, algorithm=method, repetitions=REPETITIONS, seed=26, record=fl.Final()
    )
    errors = run.optimality[:, -1]
    return Cell(float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(REPETITIONS)))


def draw(found: dict[float, list[Cell]]) -> None:
    """Error against gradients, and against rounds."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for rate, cells in found.items():
        means, off = ([getattr(one, name) for one in cells] for name in ("mean", "off"))
        for axes, prices in ((left, np.array(HORIZONS) * rate), (right, np.array(HORIZONS))):
            axes.errorbar(prices, means, yerr=2 * np.array(off), marker="o", capsize=3, label=f"q = {rate:g}")
    left.set(xscale="log", yscale="log", xlabel="gradients computed, in passes over the data", ylabel="optimality")
    right.set(xscale="log", xlabel="rounds")
    left.legend()
    figure.savefig(ROOT / "scripts" / "figures" / "sampling_cost.png", dpi=110)


if __name__ == "__main__":
    main()
