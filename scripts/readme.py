"""Regenerates the figures and tables of README.md and docs/, between their marks: python scripts/readme.py [FOLDER].

Needs the paper's data (FASTLDP_DATA at a folder that has them, or a download) and about a quarter of an hour; what
`fastldp reproduce all` and `planner` left in FOLDER, by default out/reproduction, is not made again. Run it with the
Python that has fastldp in it, such as .venv/bin/python after scripts/quickstart.py. The conversions are printed.
"""

import argparse
import csv
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import fastldp as fl
from fastldp import figures
from fastldp.cli import audit
from fastldp.cli import main as fastldp
from fastldp.reproduction.verdicts import WORDS

ROOT, PICTURES = Path(__file__).parents[1], Path(__file__).parent / "figures"
README, REPRODUCTION = ROOT / "README.md", ROOT / "docs" / "reproduction.md"
PLANNING, AUDIT = ROOT / "docs" / "planning.md", ROOT / "docs" / "audit.md"
PAPER = ("fig1", "fig2", "table1")
SHOWN = (1000, 2000, 4000, 8000)
TRANSCRIPTS = 1_000_000
TABLE_1_WORDS = """\
In this last table `utility` is the paper's formula with the O's constants one: of Algorithm 1 the order of Φ, the
squared distances of all workers' models and duals from the optimal ones; of the others, of the objective's excess.
Errors and the floor are optimality errors, without clipping. `composite` is the paper's word on a method; the ISRL-DP
of this package takes the prox too, after a later paper of its authors."""


def main() -> None:
    """Everything."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/reproduction")
    for what in ("all", "planner"):
        if fastldp(["reproduce", what, "--out", str(folder)]):
            sys.exit("the reproduction was not finished; the same command goes on")
    PICTURES.mkdir(exist_ok=True)
    for name in ("fig1", "fig2", "planner"):
        shutil.copyfile(folder / f"{name}.png", PICTURES / f"{name}.png")
    write(REPRODUCTION, "claims", claims(folder))
    write(REPRODUCTION, "luck", luck(folder / "fig1-luck.csv"))
    rows = rows_of(folder, PAPER)
    write(README, "verdicts", f"{len(rows)} claims about its figures {tally(rows)}")
    write(PLANNING, "planner", planner(folder))
    conversions()
    write(AUDIT, "audits", audits())


def write(page: Path, name: str, text: str) -> None:
    """Put a text between its marks: in paragraphs of its own, or within one where the marks are."""
    whole = page.read_text(encoding="utf-8")
    made, count = re.subn(
        rf"(<!-- {name} -->)(\n?).*?(<!-- end of {name} -->)",
        lambda at: f"{at[1]}\n\n{text.strip()}\n\n{at[3]}" if at[2] else f"{at[1]}{text.strip()}{at[3]}",
        whole,
        flags=re.DOTALL,
    )
    if count != 1:
        sys.exit(f"{page.name} has no marks for {name!r}")
    page.write_text(made, encoding="utf-8")


def claims(folder: Path) -> str:
    """The verdicts in a fold, the errors of Figure 1, and Table 1."""
    summary, table = verdicts(folder, PAPER)
    parts = [f"<details><summary>{summary}</summary>", table, final_errors(folder / "fig1.csv")]
    return "\n\n".join([*parts, table_1(folder / "table1.csv"), TABLE_1_WORDS, "</details>"])


def luck(path: Path) -> str:
    """What errors at the last horizon differ by, with luck and without, and what the first order says of them."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["rounds"]) == SHOWN[-1]]
    heads = "error, geometric mean", "first order alone", "runs differ by", "without luck", "worth as many runs"
    lines = [f"| T = {SHOWN[-1]:,} | {' | '.join(heads)} |", "|---" * 6 + "|"]
    for row in rows:
        error, theory, spread, without = (float(row[name]) for name in ("error", "theory", "spread", "spread_without"))
        told = f"{spread:.0%} | {without:.1%} | {(spread / without) ** 2:,.0f}×"
        lines.append(f"| {row['series']} | {error:.3g} | {theory:.3g} | {told} |")
    return "\n".join(lines)


def planner(folder: Path) -> str:
    """The errors, and the verdicts in a fold."""
    summary, table = verdicts(folder, ["planner"])
    errors = (folder / "planner.md").read_text(encoding="utf-8")
    return f"{errors}\n<details><summary>{summary}</summary>\n\n{table}\n\n</details>"


def verdicts(folder: Path, names: Sequence[str]) -> tuple[str, str]:
    """In a few words, and in a table."""
    heads = (folder / f"{names[0]}-verdicts.md").read_text(encoding="utf-8").splitlines()[:2]
    rows = rows_of(folder, names)
    return f"{len(rows)} claims: {tally(rows)}", "\n".join(heads + rows)


def rows_of(folder: Path, names: Sequence[str]) -> list[str]:
    """The rows of the tables of verdicts."""
    tables = [(folder / f"{name}-verdicts.md").read_text(encoding="utf-8").splitlines() for name in names]
    return [row for table in tables for row in table[2:] if row.startswith("|")]


def tally(rows: Sequence[str]) -> str:
    """How many there are of each verdict, in words."""
    held, failed, alike, undecided = (sum(row.rstrip(" |*").endswith(word) for row in rows) for word in WORDS)
    return f"{held} held, {failed} did not, {alike} show no difference and {undecided} are undecided"


def final_errors(path: Path) -> str:
    """The points of Figure 1 at some horizons."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = ["| Figure 1: final error, mean ± std of 20 runs | " + " | ".join(f"T = {T:,}" for T in SHOWN) + " |"]
    lines.append("|---|" + "---|" * len(SHOWN))
    for series in dict.fromkeys(row["series"] for row in rows):
        points = {int(row["rounds"]): row for row in rows if row["series"] == series}
        cells = [f"{float(points[T]['mean']):.3g} ± {float(points[T]['std']):.2g}" for T in SHOWN]
        lines.append(f"| {series} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table_1(path: Path) -> str:
    """As Markdown."""
    with path.open(encoding="utf-8", newline="") as file:
        heads, *rows = csv.reader(file)
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def conversions() -> None:
    """What each accounting makes of (1, 1e-4), and the noise that runs under either really have."""
    for method in fl.privacy.METHODS:
        print(f"rho at (1, 1e-4), {method}: {fl.privacy.rho_of(1.0, 1e-4, method):.6f}")
    ledgers = [fl.solve(small(), fl.Budget(1.0, 1e-4, method), rounds=5).ledger for method in ("zcdp", "gdp")]
    paper, exact = (ledger.variances for ledger in ledgers if ledger is not None)
    print(f"exact accounting needs {float(np.mean(paper / exact)):.2f} times less noise variance")


def audits() -> str:
    """The attack on the kernels, under the paper's accounting and the exact one."""
    lines = ["| accounting | loss, mean | predicted | loss, variance | predicted | ε shown | ε exact | ε claimed |"]
    lines.append("|---|" + "---|" * 7)
    for method in ("zcdp", "gdp"):
        found = fl.audit(small(), fl.Budget(1.0, 1e-4, method), rounds=5, transcripts=TRANSCRIPTS, progress=True)
        numbers = (*found.loss_mean, *found.loss_variance, found.shown_epsilon, found.exact_epsilon, found.epsilon)
        cells = [f"{x:.5f}" for x in numbers[:4]] + [f"{x:.2f}" for x in numbers[4:]]
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
        if method == "gdp":
            figures.save(found.plot(), PICTURES / "audit.png")
    return "\n".join(lines)


def small() -> fl.Problem:
    """The problem that `fastldp audit` attacks by default."""
    parser = argparse.ArgumentParser()
    audit.add_arguments(parser)
    return audit.small_problem(parser.parse_args([]))


if __name__ == "__main__":
    main()
