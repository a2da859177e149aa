"""Regenerates figures and tables of docs/readings.md.

    python scripts/readme_readings.py [FOLDER]              all of it
    python scripts/readme_readings.py [FOLDER] --most 20    the map, judged by so many repetitions at most

Needs the paper's data (FASTLDP_DATA at a folder that has them, or a download) and half an hour on two cores; what
`fastldp reproduce readings` and `scaffold` left in FOLDER, by default out/reproduction, is not made again. Run it with
the Python that has fastldp in it, such as .venv/bin/python after scripts/quickstart.py.
"""

import argparse
import csv
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from fastldp.cli import main as fastldp
from fastldp.reproduction.claims import LOOKS
from fastldp.reproduction.verdicts import WORDS
from readme import PICTURES, README, REPRODUCTION, rows_of, tally, write

READINGS = REPRODUCTION.parent / "readings.md"
PANELS = "tuned once", "tuned at each T"
PAGES = {"readings": ("readings", "readings-allocation"), "scaffold": ("scaffold",)}


def main() -> None:
    """Everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", type=Path, default=Path("out/reproduction"))
    parser.add_argument("--most", type=int)
    given = parser.parse_args()
    folder: Path = given.folder
    most = [] if given.most is None else ["--most", str(given.most)]
    for what, pictures in PAGES.items():
        if fastldp(["reproduce", what, "--out", str(folder), *(most if what == "readings" else [])]):
            sys.exit("the reproduction was not finished; the same command goes on")
        for name in pictures:
            shutil.copyfile(folder / f"{name}.png", PICTURES / f"{name}.png")
    write(READINGS, "map", readings(folder, given.most))
    write(READINGS, "errors", errors(folder))
    write(README, "ten lines", ten_lines(folder))
    write(READINGS, "theory", theory(folder / "readings-luck.csv"))
    write(READINGS, "boundary", boundary(folder))


def readings(folder: Path, most: int | None) -> str:
    """The map as a table, how far it was judged, and the verdicts in a fold."""
    rows = rows_of(folder, ["readings"])
    table = (folder / "readings-verdicts.md").read_text(encoding="utf-8").splitlines()[:2] + rows
    fold = f"<details><summary>{len(rows)} claims: {tally(rows)}</summary>"
    last = max(look for look in LOOKS if most is None or look <= most)
    told = f"Judged by up to {last:,} repetitions"
    if last < LOOKS[-1]:
        told += f", of the {LOOKS[-1]:,} that `fastldp reproduce readings` has; with more, less is undecided"
    by_word = (folder / "readings-map.md").read_text(encoding="utf-8")
    return "\n".join([f"{told}.", "", by_word, fold, "", *table, "", "</details>"])


def ten_lines(folder: Path) -> str:
    """The paper's claims about Figure 1 with their verdicts, and under how many readings each has which."""
    of_figure, of_map = (table(folder / f"{name}-verdicts.md") for name in ("fig1", "readings"))
    count = len({where for where, *_ in of_map})
    lines = [f"| | {' | '.join(PANELS)} | of {count} readings: held | not | no difference |", "|---" * 6 + "|"]
    of_panels = [{claim: word for where, claim, word in of_figure if where == f"Figure 1, {panel}"} for panel in PANELS]
    for claim in of_panels[0]:
        counts = Counter(word for _, about, word in of_map if about == claim)
        cells = [*(words[claim] for words in of_panels), *(str(counts[word]) for word in WORDS[:-1])]
        lines.append(f"| {claim} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(path: Path) -> list[tuple[str, str, str]]:
    """Where, claim and verdict of the rows of a table of verdicts."""
    rows = [row for row in path.read_text(encoding="utf-8").splitlines()[2:] if row.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [(where, claim, word.strip("*")) for where, claim, _, word in cells]


def errors(folder: Path) -> str:
    """The last errors of all methods, a row a reading."""
    with (folder / "readings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["| reading | T | " + " | ".join(methods) + " |", "|---" * (2 + len(methods)) + "|"]
    for reading in dict.fromkeys(row["reading"] for row in rows):
        mine = {row["method"]: row for row in rows if row["reading"] == reading}
        cells = [f"{float(mine[method]['mean']):.3g} ± {float(mine[method]['std']):.2g}" for method in methods]
        lines.append(f"| {reading} | {int(mine[methods[0]]['rounds']):,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def theory(path: Path) -> str:
    """How far the first order alone is from what was measured, over all points of the map."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    apart = np.sort([abs(float(row["theory"]) / float(row["error"]) - 1) for row in rows])
    median, most, last = (apart[int(share * (apart.size - 1))] for share in (0.5, 0.9, 1.0))
    told = f"of {apart.size} errors it is within {median:.1%} in the median"
    return f"{told}, {most:.1%} for nine in ten, {last:.1%} at most"


def boundary(folder: Path) -> str:
    """How many of each verdict, at every ε."""
    with (folder / "scaffold.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [f"| DP-SCAFFOLD is better | {' | '.join(WORDS)} | largest ratio |", "|---" * (2 + len(WORDS)) + "|"]
    for claim in dict.fromkeys(row["claim"] for row in rows):
        mine = [row for row in rows if row["claim"] == claim]
        counts = Counter(row["verdict"] for row in mine)
        largest = max(float(row["ratio"]) for row in mine)
        cells = " | ".join(str(counts[word]) for word in WORDS)
        lines.append(f"| {claim.removeprefix('better ')} | {cells} | {largest:.3g} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
