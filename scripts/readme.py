"""Regenerates the figures and the tables of numbers in README.md: python scripts/readme.py [FOLDER].

Needs the paper's data (FASTLDP_DATA at a folder that has them, or a download) and about a quarter of an hour; what
`fastldp reproduce all` left in FOLDER, by default out/reproduction, is not made again. Run it with the Python that has
fastldp in it, such as .venv/bin/python after scripts/quickstart.py.
"""

import argparse
import csv
import shutil
import sys
from pathlib import Path

import numpy as np

import fastldp as fl
from fastldp import figures
from fastldp.cli import audit
from fastldp.cli import main as fastldp

PICTURES = Path(__file__).parent / "figures"
SHOWN = (1000, 2000, 4000, 8000)
TRANSCRIPTS = 1_000_000


def main() -> None:
    """Everything, printed as Markdown."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/reproduction")
    if fastldp(["reproduce", "all", "--out", str(folder)]):
        sys.exit("the reproduction was not finished; the same command goes on")
    PICTURES.mkdir(exist_ok=True)
    for name in ("fig1", "fig2"):
        shutil.copyfile(folder / f"{name}.png", PICTURES / f"{name}.png")
    final_errors(folder / "fig1.csv")
    for name in ("fig1", "fig2", "table1"):
        print((folder / f"{name}-verdicts.md").read_text(encoding="utf-8"))
    print((folder / "table1.txt").read_text(encoding="utf-8"))
    conversions()
    audits()


def final_errors(path: Path) -> None:
    """The points of Figure 1 at some horizons."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    print("| final error, mean ± std of 20 runs | " + " | ".join(f"T = {T:,}" for T in SHOWN) + " |")
    print("|---|" + "---|" * len(SHOWN))
    for series in dict.fromkeys(row["series"] for row in rows):
        points = {int(row["rounds"]): row for row in rows if row["series"] == series}
        cells = [f"{float(points[T]['mean']):.3g} ± {float(points[T]['std']):.2g}" for T in SHOWN]
        print(f"| {series} | " + " | ".join(cells) + " |")
    print()


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
