"""Regenerates the figure and numbers of the network in docs/reproduction.md.

    python scripts/readme_network.py [FOLDER]             all of it: over an hour on two cores that do nothing else
    python scripts/readme_network.py [FOLDER] --search    what the search finds: ten minutes

Needs MNIST (FASTLDP_DATA at a folder that has it, or a download). What `fastldp reproduce fig3` left in FOLDER, by
default out/reproduction, is not made again. Run it with the Python that has fastldp in it, such as .venv/bin/python
after scripts/quickstart.py.
"""

import argparse
import csv
import shutil
import sys
from pathlib import Path

from fastldp.cli import main as fastldp
from fastldp.reproduction.experiment import Place
from fastldp.reproduction.fig3 import Figure3
from readme import PICTURES, REPRODUCTION, write

MEASURES = ("test accuracy", "train loss", "consensus error")


def main() -> None:
    """Everything, or the search."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/reproduction"))
    parser.add_argument("--search", action="store_true")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    if given.search:
        Figure3(Place(folder, progress=True)).search()
    elif fastldp(["reproduce", "fig3", "--out", str(folder)]):
        sys.exit("the reproduction was not finished; the same command goes on")
    write(REPRODUCTION, "search", (folder / "fig3-search.md").read_text(encoding="utf-8"))
    if given.search:
        return
    shutil.copyfile(folder / "fig3.png", PICTURES / "fig3.png")
    verdicts = (folder / "fig3-verdicts.md").read_text(encoding="utf-8")
    write(REPRODUCTION, "network", f"{last_rounds(folder / 'fig3.csv')}\n\n{verdicts}")


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
