"""The report of a sweep: what was asked, what was found, what was promised, what failed, and how to make it again."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp.measures import ACCURACY
from fastldp.privacy.ledger import Ledger
from fastldp.reporting.page import Code, Drawn, Heading, Page, Pairs, Section, Table, Words, unique
from fastldp.sweeping.drawing import SELF_EVIDENT, name_of
from fastldp.sweeping.layout import OUTCOMES, warning_of_noise
from fastldp.sweeping.parameters import shown
from fastldp.sweeping.work import COMPLETED

if TYPE_CHECKING:
    from fastldp.sweeping.grouping import Group
    from fastldp.sweeping.reading import Results

# More settings make a page that no browser sorts at once.
MOST_SETTINGS = 2000
# All curves of a page have so many points together, so that it stays below a megabyte.
MOST_POINTS = 45_000
# Points of one curve that a reader could tell apart.
MOST_ON_A_CURVE = 120
# Data may be synthetic without the option that puts synthetic ones in the place of files.
OPTIONS = {"quick": "--quick", "synthetic": "--synthetic"}
# So many statements, and sessions, are printed whole.
MOST_TOLD = 12
# Of more values than this a parameter's first and last are named.
MOST_VALUES = 12


def report_of(results: Results, title: str) -> Page:
    """The page about these runs."""
    texts = results._loaded.texts("parameters")[np.unique(results._settings)]
    warning = warning_of_noise(texts)
    groups = results._groups((), ())
    runs = f"{len(results):,} runs of {len(groups):,} settings"
    return Page(
        kind="Report of a sweep",
        title=title or _title(results),
        lead=runs + (f" on {', '.join(map(shown, results.parameters['data']))}" if groups else ""),
        tiles=_tiles(results, groups),
        secret=bool(warning),
        sections=[
            Section("What was asked", _asked(results, warning)),
            Section("What was found", _found(results, groups)),
            Section("What was promised", _promised(results)),
            Section("What failed", _failed(results)),
            Section("Where it comes from", _provenance(results)),
            Section("How to make it again", _again(results)),
        ],
    )


def _title(results: Results) -> str:
    """What the specification calls itself, or else the file."""
    titles = {_document(session).get("title", "") for session in _sessions(results)} - {""}
    path = results._loaded.merged.files[0].path
    return str(titles.pop()) if len(titles) == 1 else os.path.basename(path)


def _document(session: dict[str, Any]) -> dict[str, Any]:
    """The specification of a session, as it was read."""
    try:
        return tomllib.loads(session.get("spec", ""))
    except tomllib.TOMLDecodeError:
        return {}


def _sessions(results: Results) -> list[dict[str, Any]]:
    """Those that made these runs."""
    numbers = np.unique(results._loaded.numbers("session")[results._rows])
    return [json.loads(results._loaded.sessions[number]) for number in numbers.tolist()]


def _tiles(results: Results, groups: Sequence[Group]) -> list[tuple[str, str, str]]:
    counts = {name: int((results._outcomes == name).sum()) for name in OUTCOMES}
    others = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count and name != COMPLETED)
    tiles = [
        ("settings", f"{len(groups):,}", ", ".join(results._telling[:4])),
        ("runs completed", f"{counts[COMPLETED]:,}", others or "none diverged or failed"),
    ]
    means = [mean for mean in results.means() if mean.runs] if results.measures else []
    if means:
        judged = results._judged()
        best = (max if judged == ACCURACY else min)(means, key=lambda mean: mean.mean)
        tiles.append((f"best {judged}", f"{best.mean:.4g} ± {best.std:.2g}", name_of(best.label, short=True)))
    epsilons = sorted(value for value in results.parameters.get("epsilon", []) if isinstance(value, int | float))
    if epsilons:
        delta = ", ".join(shown(value) for value in results.parameters["delta"] if value is not None)
        tiles.append(("ε", " · ".join(f"{value:g}" for value in epsilons[:4]), f"δ = {delta}"))
    return tiles


def _asked(results: Results, warning: str) -> list[Any]:
    rows = []
    for name, values in results.parameters.items():
        if not isinstance(values[0], dict) and values != [None]:
            rows.append((name.replace("_", " "), _values(values), len(values) > 1))
    varying = [(name, text) for name, text, varies in rows if varies]
    fixed = [(name, text) for name, text, varies in rows if not varies]
    blocks: list[Any] = [Words(f"{warning}.".replace("..", "."), note=True)] if warning else []
    if varying:
        blocks += [Heading("What was varied"), Pairs(varying)]
    blocks += [Heading("What was the same in all runs"), Pairs(fixed, many=True)]
    return blocks


def _values(values: Sequence[Any]) -> str:
    texts = [*map(shown, values)]
    if len(texts) > MOST_VALUES:
        texts = [*texts[:MOST_VALUES], f"... {len(values) - MOST_VALUES - 1:,} more ...", texts[-1]]
    return ", ".join(texts)


def _found(results: Results, groups: Sequence[Group]) -> list[Any]:
    if not results.measures:
        return [Words("No run recorded anything.")]
    blocks: list[Any] = []
    kept = groups[:MOST_SETTINGS]
    if len(groups) > len(kept):
        told = f"The first {len(kept):,} of {len(groups):,} settings: a page has room for no more."
        blocks.append(Words(f"{told} Results.where(...).report() makes a report of some of them.", note=True))
    content, thinned = _explorer(results, kept)
    blocks.append(Drawn(content))
    if thinned:
        blocks.append(Words(thinned))
    words = "Means over the repetitions that completed; ± is one standard deviation of a run, not of the mean."
    return [*blocks, Words(words)]


def _explorer(results: Results, groups: Sequence[Group]) -> tuple[dict[str, Any], str]:
    names = results._telling
    parameters, rows = _columns(names, groups)
    measures = results.measures
    places = _places(results, groups, len(measures))
    rounds, of_row, thinned = _rounds(results, groups, places)
    shown_measures = []
    for measure in measures:
        means = results.means(measure=measure)[: len(groups)]
        lines = []
        for group, k in zip(groups, of_row, strict=True):
            values = results._matrix(measure, group.rows, rounds[k][0])[:, rounds[k][1]]
            with np.errstate(all="ignore"):  # of runs that diverged
                lines.append([values.mean(axis=0), values.std(axis=0)] if values.size else None)
        shown_measures.append(
            {
                "name": measure,
                "log": measure != ACCURACY,
                "mean": [mean.mean for mean in means],
                "std": [mean.std for mean in means],
                "curves": lines,
            }
        )
    completed = [int((results._outcomes[group.rows] == COMPLETED).sum()) for group in groups]
    judged = results._judged()
    horizons = "rounds" in names and len(results.parameters["rounds"]) > 1
    return {
        "kind": "explorer",
        "parameters": parameters,
        "rows": rows,
        "runs": completed,
        "outcomes": [
            f"{count:,}" if count == group.rows.size else f"{count:,} of {group.rows.size:,}"
            for count, group in zip(completed, groups, strict=True)
        ],
        "measures": shown_measures,
        "rounds": [planned for _, _, planned in rounds],
        "roundsOf": of_row,
        "plain": [*SELF_EVIDENT],
        "measure": judged,
        "logY": judged != ACCURACY,
        "x": "rounds" if horizons else "round",
    }, thinned


def _columns(names: Sequence[str], groups: Sequence[Group]) -> tuple[list[dict[str, Any]], list[list[int]]]:
    """The values that each parameter takes, in their order, and which of them each setting has; −1 is none."""
    columns, numbers = [], []
    for name in names:
        own = [group.label[name] for group in groups]
        texts = {value if isinstance(value, int | float | str) else shown(value) for value in own if value is not None}
        values = sorted(texts, key=lambda value: (isinstance(value, str), value))
        place = {value: k for k, value in enumerate(values)}
        columns.append({"name": name, "values": values})
        found = [value if isinstance(value, int | float | str) or value is None else shown(value) for value in own]
        numbers.append([-1 if value is None else place[value] for value in found])
    return columns, [list(row) for row in zip(*numbers, strict=True)] or [[] for _ in groups]


def _places(results: Results, groups: Sequence[Group], measures: int) -> int:
    """How many points a curve may have."""
    return int(min(MOST_ON_A_CURVE, max(4, MOST_POINTS // (max(1, len(groups)) * measures))))


def _rounds(
    results: Results, groups: Sequence[Group], most: int
) -> tuple[list[tuple[int, NDArray[np.int64], NDArray[np.int64]]], list[int], str]:
    """The rounds that are drawn, as (recorded, places, rounds); which are a setting's; and what is left out."""
    planned = results._loaded.rows("settings", "rounds")
    found: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
    known: dict[bytes, int] = {}
    of_row = []
    for group in groups:
        rounds = planned.row(int(results._settings[group.rows[0]]))
        key = rounds.tobytes()
        if key not in known:
            known[key] = len(found)
            places = np.unique(np.linspace(0, rounds.size - 1, min(most, rounds.size)).round().astype(np.int64))
            found.append((rounds.size, places, rounds[places]))
        of_row.append(known[key])
    thinned = max((size for size, places, _ in found if places.size < size), default=0)
    words = f"Of up to {thinned:,} recorded rounds of a run {most} are drawn, evenly spaced, the last among them."
    return found, of_row, words if thinned else ""


def _promised(results: Results) -> list[Any]:
    """Each statement once, with how many settings it is of."""
    counts: dict[str, int] = {}
    first: dict[str, Ledger] = {}
    without = 0
    settings, places = np.unique(results._settings, return_index=True)
    for place in places[:MOST_SETTINGS].tolist():
        ledger = results[place].ledger
        if ledger is None:
            without += 1
            continue
        text = ledger.statement()
        counts[text] = counts.get(text, 0) + 1
        first.setdefault(text, ledger)
    blocks: list[Any] = []
    for text, count in [*counts.items()][:MOST_TOLD]:
        ledger = first[text]
        epsilon = f"ε = {float(np.max(ledger.promised_epsilon)):g}, δ = {ledger.delta:g}, {ledger.accounting}"
        blocks.append(Heading(f"{epsilon}: {_counted(count, 'setting')}"))
        blocks += [Words(text), Code(ledger.summary(), "The ledger of the first of them")]
    if len(counts) > MOST_TOLD:
        left = len(counts) - MOST_TOLD
        blocks.append(Words(f"{left:,} more statements are in the file: fastldp.results(path)[k].ledger.statement()."))
    if counts:
        blocks.append(Words("All this is of one run. Whoever sees several runs sees several budgets spent."))
    if without:
        told = "ran without noise, or failed before any was made: nothing is promised of them"
        blocks.append(Words(f"{_counted(without, 'setting')} {told}."))
    if settings.size > MOST_SETTINGS:
        blocks.append(Words(f"The first {MOST_SETTINGS:,} of {settings.size:,} settings were looked at."))
    return blocks


def _failed(results: Results) -> list[Any]:
    by_reason: dict[str, list[str]] = {}
    for failure in results.failures():
        by_reason.setdefault(failure.reason, []).append(failure.setting or "the only one")
    diverged = int((results._outcomes == "diverged").sum())
    blocks: list[Any] = []
    if diverged:
        blocks.append(Words(f"{_counted(diverged, 'run')} diverged: they have no end, and no mean has them."))
    for reason, settings in by_reason.items():
        blocks += [Heading(reason), Table(["setting"], [[one] for one in settings[:MOST_SETTINGS]])]
    return blocks or [Words("Nothing: every run completed.")]


def _provenance(results: Results) -> list[Any]:
    sessions = _sessions(results)
    blocks: list[Any] = []
    for session in sessions[:MOST_TOLD]:
        about = {OPTIONS.get(name, name): value for name, value in session.items() if name != "spec"}
        rows = [(name.replace("_", " "), words(value)) for name, value in about.items() if value not in ("", {}, None)]
        blocks.append(Pairs(rows))
    if len(sessions) > MOST_TOLD:
        blocks.append(Words(f"{len(sessions) - MOST_TOLD:,} more sessions are in the file."))
    settings = np.unique(results._settings)
    texts = results._loaded.texts("provenance")[settings].tolist()
    data = results._loaded.parameters["data"]
    found = {(shown(data.of(int(k))), json.loads(text)["fingerprint"]) for k, text in zip(settings, texts, strict=True)}
    heads = ["data", "fingerprint of the problem made of them"]
    return [*blocks, Table(heads, sorted(found))] if found else blocks


def words(value: Any) -> str:
    """A value of a session, for people."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {words(item)}" for name, item in value.items())
    return ", ".join(map(words, value)) if isinstance(value, list) else str(value)


def _again(results: Results) -> list[Any]:
    texts = unique(session.get("spec", "") for session in _sessions(results))
    blocks: list[Any] = [
        Words("Save the specification below, make its runs, and compare: the same seed gives the same bits."),
        Code("fastldp sweep specification.toml --out again.h5\nfastldp report again.h5\nfastldp verify again.h5"),
    ]
    for k, text in enumerate(texts[:MOST_TOLD]):
        blocks.append(Code(text.strip(), "The specification" if len(texts) == 1 else f"Specification {k + 1}"))
    if len(texts) > MOST_TOLD:
        blocks.append(Words(f"{len(texts) - MOST_TOLD:,} more specifications are in the file."))
    return blocks


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
