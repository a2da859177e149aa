"""Regenerates the figure and numbers of the network in docs/reproduction.md.

    python scripts/readme_network.py [FOLDER]             all of it: over an hour on two cores that do nothing else
    python scripts/readme_network.py [FOLDER] --trials    the table of the search's trials that are in FOLDER, at once

Needs MNIST (FASTLDP_DATA at a folder that has it, or a download). What `fastldp reproduce fig3` left in FOLDER, by
default out/reproduction, is not made again. Run it with the Python that has fastldp in it, such as .venv/bin/python
after scripts/quickstart.py.
"""

import argparse
import csv
import shutil
import sys
from pathlib import Path

import numpy as np

import fastldp as fl
from fastldp.cli import main as fastldp
from fastldp.reproduction import fig3, searching
from readme import PICTURES, REPRODUCTION, write

MEASURES = ("test accuracy", "train loss", "consensus error")


def main() -> None:
    """Everything, or the table of trials."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/reproduction"))
    parser.add_argument("--trials", action="store_true")
    given = parser.parse_args()
    folder: Path = given.folder
    if not given.trials:
        if fastldp(["reproduce", "fig3", "--out", str(folder)]):
            sys.exit("the reproduction was not finished; the same command goes on")
        shutil.copyfile(folder / "fig3.png", PICTURES / "fig3.png")
        verdicts = (folder / "fig3-verdicts.md").read_text(encoding="utf-8")
        write(REPRODUCTION, "network", f"{last_rounds(folder / 'fig3.csv')}\n\n{verdicts}")
    write(REPRODUCTION, "trials", trials(folder))


def trials(folder: Path) -> str:
    """The best of the trials in a folder, of each kind and horizon."""
    lines = ["| budget | | T | trials | best | right of 10,000 held out |", "|---|---|---|---|---|---|"]
    for budget in fig3.BUDGETS:
        (epsilon, _), name = searching.promise_of_search(budget), fig3.budget_name(budget)
        for kind, file in zip(fig3.KINDS, (fig3.SEARCH, fig3.ADAPTIVE_SEARCH, fig3.CENTRAL_SEARCH), strict=True):
            found = fl.results(folder / file).where(epsilon=epsilon)
            for rounds in sorted(found.parameters.get("rounds", [])):
                table = found.where(rounds=rounds).table()
                best = int(np.nanargmax(table["accuracy"]))
                setting = searching.Setting(*(table[field][best] for field in searching.Setting._fields))
                told = f"{len(table['rounds'])} | {setting.letters} | {table['accuracy'][best]:.1%}"
                lines.append(f"| {name} | {kind} | {rounds:,} | {told} |")
    table = fl.results(folder / fig3.OPEN_SEARCH).table()
    for pooled, rounds, accuracy in zip(table["pooled"], table["rounds"], table["accuracy"], strict=True):
        kind = "all images in one place" if pooled else "ten workers"
        lines.append(f"| no privacy | {kind} | {rounds:,} | 1 | γ = 1 | {accuracy:.1%} |")
    return "\n".join(lines)


def last_rounds(path: Path) -> str:
    """What the runs end with, with one standard deviation where there are several."""
    with path.open(encoding="utf-8", newline="") as file:
        ends = {row["series"]: row for row in csv.DictReader(file) if row["round"] == row["rounds"]}
    lines = ["| after the last round | runs | test accuracy | train loss | consensus error |", "|---|---|---|---|---|"]
    for run in dict.fromkeys(name.rsplit(", ", 1)[0] for name in ends):
        accuracy, loss, consensus = (ends[f"{run}, {measure}"] for measure in MEASURES)
        share = spread(accuracy, "{:.1f}", 100.0)
        count = accuracy["runs"]
        lines.append(f"| {run} | {count} | {share} % | {spread(loss, '{:.3f}')} | {spread(consensus, '{:.3g}')} |")
    return "\n".join(lines)


def spread(row: dict[str, str], digits: str, unit: float = 1.0) -> str:
    """A mean, and what runs differ by."""
    mean, std = (digits.format(unit * float(row[name])) for name in ("mean", "std"))
    return mean if row["runs"] == "1" else f"{mean} ± {std}"


if __name__ == "__main__":
    main()
