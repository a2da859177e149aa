"""Regenerates figures and tables of docs/readings.md: python scripts/readme_readings.py [FOLDER].

Needs the paper's data (FASTLDP_DATA at a folder that has them, or a download) and half an hour on two cores; what
`fastldp reproduce readings` and `scaffold` left in FOLDER, by default out/reproduction, is not made again. Run it with
the Python that has fastldp in it, such as .venv/bin/python after scripts/quickstart.py.
"""

import csv
import shutil
import sys
from collections import Counter
from pathlib import Path

from fastldp.cli import main as fastldp
from fastldp.reproduction.verdicts import WORDS
from readme import PICTURES, REPRODUCTION, rows_of, tally, write

READINGS = REPRODUCTION.parent / "readings.md"
PAGES = {"readings": ("readings", "readings-allocation"), "scaffold": ("scaffold",)}


def main() -> None:
    """Everything."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "out/reproduction")
    for what, pictures in PAGES.items():
        if fastldp(["reproduce", what, "--out", str(folder)]):
            sys.exit("the reproduction was not finished; the same command goes on")
        for name in pictures:
            shutil.copyfile(folder / f"{name}.png", PICTURES / f"{name}.png")
    write(READINGS, "map", readings(folder))
    write(READINGS, "errors", errors(folder))
    write(READINGS, "boundary", boundary(folder))


def readings(folder: Path) -> str:
    """The map as a table, and the verdicts in a fold."""
    rows = rows_of(folder, ["readings"])
    table = (folder / "readings-verdicts.md").read_text(encoding="utf-8").splitlines()[:2] + rows
    fold = f"<details><summary>{len(rows)} claims: {tally(rows)}</summary>"
    return "\n".join([(folder / "readings-map.md").read_text(encoding="utf-8"), fold, "", *table, "", "</details>"])


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
