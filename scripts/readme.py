"""Regenerates the figure and the tables of numbers in README.md: python3 scripts/readme.py (about four minutes).

Run it with the Python that has fastldp in it, such as .venv/bin/python after scripts/quickstart.py.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import fastldp as fl
from fastldp import figures
from fastldp.cli import audit

HORIZONS = (1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000)
SHOWN = (1000, 2000, 4000, 8000)
CURVES = {
    "static": ("static", "zcdp"),
    "dynamic (the paper's)": ("dynamic", "zcdp"),
    "dynamic, exact accounting": ("dynamic", "gdp"),
}
PICTURES = Path(__file__).parent / "figures"
TRANSCRIPTS = 1_000_000


def final_errors(problem: fl.Problem, allocation: str, accounting: str, rounds: int) -> NDArray[np.float64]:
    """The error after the last round, of 20 repetitions."""
    run = fl.solve(
        problem,
        fl.Budget(epsilon=1.0, delta=1e-4, accounting=accounting),
        rounds=rounds,
        algorithm=fl.PrimalDual(allocation=allocation),
        repetitions=20,
        seed=0,
        record=fl.Final(),
    )
    return np.asarray(run.optimality[:, -1])


def main() -> None:
    """The first experiment's size: n = 20, m = 100, d = 22, l2 = 0.1, on generated data."""
    data = fl.datasets.synthetic("ijcnn1")
    problem = fl.Problem(data.A.toarray(), data.b, workers=20, l2=0.1)
    axes = Figure(figsize=(6.4, 3.8), layout="constrained").subplots()
    print("| final error, mean ± std of 20 runs | " + " | ".join(f"T = {rounds:,}" for rounds in SHOWN) + " |")
    print("|---|" + "---|" * len(SHOWN))
    for name, (allocation, accounting) in CURVES.items():
        errors = [final_errors(problem, allocation, accounting, rounds) for rounds in HORIZONS]
        means, spreads = [float(e.mean()) for e in errors], [float(e.std()) for e in errors]
        axes.errorbar(HORIZONS, means, yerr=spreads, marker="o", capsize=3, label=name)
        cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(means, spreads, strict=True)]
        print(f"| {name} | " + " | ".join(cells[HORIZONS.index(rounds)] for rounds in SHOWN) + " |")
    axes.set_xlabel("total communication rounds T")
    axes.set_ylabel("optimality error after T rounds")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{data.name}, n = 20, m = 100, (1, 1e-4)-LDP")
    axes.grid(True, alpha=0.3)
    axes.legend(frameon=False)
    PICTURES.mkdir(exist_ok=True)
    figures.save(axes, PICTURES / "allocation.png")
    conversions()
    audits()


def conversions() -> None:
    """What each accounting makes of (1, 1e-4), and the noise that runs under either really have."""
    for method in fl.privacy.METHODS:
        print(f"rho at (1, 1e-4), {method}: {fl.privacy.rho_of(1.0, 1e-4, method):.6f}")
    ledgers = [fl.solve(small(), fl.Budget(1.0, 1e-4, method), rounds=5).ledger for method in ("zcdp", "gdp")]
    paper, exact = (ledger.variances for ledger in ledgers if ledger is not None)
    print(f"exact accounting needs {float(np.mean(paper / exact)):.2f} times less noise variance")


def audits() -> None:
    """The attack on the kernels, under the paper's accounting and the exact one."""
    print("| accounting | loss, mean | predicted | loss, variance | predicted | ε shown | ε exact | ε claimed |")
    print("|---|" + "---|" * 7)
    for method in ("zcdp", "gdp"):
        found = fl.audit(small(), fl.Budget(1.0, 1e-4, method), rounds=5, transcripts=TRANSCRIPTS, progress=True)
        numbers = (*found.loss_mean, *found.loss_variance, found.shown_epsilon, found.exact_epsilon, found.epsilon)
        cells = [f"{x:.5f}" for x in numbers[:4]] + [f"{x:.2f}" for x in numbers[4:]]
        print(f"| `{method}` | " + " | ".join(cells) + " |")
        if method == "gdp":
            figures.save(found.plot(), PICTURES / "audit.png")


def small() -> fl.Problem:
    """The problem that `fastldp audit` attacks by default."""
    parser = argparse.ArgumentParser()
    audit.add_arguments(parser)
    return audit.small_problem(parser.parse_args([]))


if __name__ == "__main__":
    main()
