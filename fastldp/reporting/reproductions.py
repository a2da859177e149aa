"""The report of a reproduction: the curves of each figure, the claims about it, and what became of them."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastldp.reporting.page import Code, Heading, Page, Section, Table, Words, curves
from fastldp.reproduction.verdicts import TOLD, WORDS, Verdict

TITLES = {
    "fig1": "Figure 1",
    "fig2": "Figure 2",
    "fig3": "Figure 3",
    "table1": "Table 1",
    "planner": "The planner",
    "readings": "Figure 1 under other readings",
    "scaffold": "Where DP-SCAFFOLD is better",
}
BOUND = "bound"
# So many curves whose names begin or end alike are a picture of their own.
ENOUGH = 3


def report_of(
    folder: Path, found: Mapping[str, Sequence[Verdict]], notes: Sequence[str], *, quick: bool, command: str
) -> Page:
    """The page about experiments that were made in this folder by a command, with the verdicts of each."""
    verdicts = [verdict for some in found.values() for verdict in some]
    counts = Counter(verdict.word for verdict in verdicts)
    trial = [Words("A quick trial: horizons too short for the paper's claims to show.", note=True)] if quick else []
    sections = [Section(TITLES[name], _experiment(folder, name, some)) for name, some in found.items()]
    remarks: list[Any] = [*trial, *(Words(f"{note}.") for note in notes)]
    remarks += [Words(f"{told[0].upper()}{told[1:]}.") for word, told in TOLD.items() if counts[word]]
    return Page(
        kind="Report of a reproduction",
        title="The paper's claims, and what became of them",
        lead=", ".join(TITLES[name] for name in found) + f", made in {folder.name}",
        tiles=[(word, f"{counts[word]:,}", "") for word in WORDS],
        sections=[
            *sections,
            Section("What to know", remarks),
            Section("How to make it again", _again(folder, command)),
        ],
    )


def _experiment(folder: Path, name: str, verdicts: Sequence[Verdict]) -> list[Any]:
    rows = [[verdict.where, verdict.claim, verdict.measured, verdict.word] for verdict in verdicts]
    blocks: list[Any] = []
    if (path := folder / f"{name}.csv").exists():
        blocks += _pictures(path)
    if (path := folder / f"{name}.txt").exists():
        blocks.append(Code(path.read_text(encoding="utf-8"), "The table as it was printed"))
    return [*blocks, Table(["of", "claim", "measured", "verdict"], rows)] if rows else blocks


def _pictures(path: Path) -> list[Any]:
    """The curves of a file of points: means with one standard deviation."""
    with path.open(newline="", encoding="utf-8") as file:
        points = [*csv.DictReader(file)]
    if not (points and "round" in points[0]):
        return []  # a table, as that of the paper's bounds
    series: dict[tuple[str, str], dict[str, Any]] = {}
    along = any(point["round"] != point["rounds"] for point in points)
    for point in points:
        key = point["series"], point["rounds"] if along else ""
        name = f"{key[0]}, T = {int(key[1]):,}" if along else key[0]
        # A bound may be so far off that it presses the curves together: it is shown when it is asked for.
        one = series.setdefault(key, {"name": name, "off": BOUND in key[0], "x": [], "y": [], "error": [], "runs": []})
        one["x"].append(int(point["round"]))
        one["y"].append(float(point["mean"]))
        one["error"].append(float(point["std"]))
        one["runs"].append(int(point["runs"]))
    accuracies = all(0 <= value <= 1 for one in series.values() for value in one["y"])
    x, y = "round" if along else "rounds T", "accuracy" if accuracies and along else "error"
    blocks: list[Any] = []
    for name, some in _panels([*series.values()]).items():
        blocks += [Heading(name), curves(some, x, y, log_y=not accuracies)]
    return blocks


def _panels(series: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Curves by what their names have in common, before a colon or after the last comma; the others together.

    >>> [*_panels([{"name": f"{name}, tuned"} for name in "abc"] + [{"name": "d, planned"}])]
    ['tuned', 'other curves']
    """
    found = defaultdict(list)
    for one in series:
        first, colon, _ = one["name"].partition(": ")
        found[first if colon else one["name"].rpartition(", ")[2]].append(one)
    own = {name: some for name, some in found.items() if len(some) >= ENOUGH}
    rest = [one for one in series if not any(one in some for some in own.values())]
    return own | ({"other curves" if own else "curves": rest} if rest else {})


def _again(folder: Path, command: str) -> list[Any]:
    specs = sorted(path for path in folder.glob("*.toml"))
    told = "Every sweep lies beside its results as the specification that it was made from."
    return [Code(command), Words(told), *(Code(path.read_text(encoding="utf-8"), path.name) for path in specs)]
