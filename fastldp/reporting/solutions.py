"""The report of one solve: its errors along the rounds, what was promised, and what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp.measures import ACCURACY
from fastldp.privacy.ledger import Ledger
from fastldp.reporting.page import Code, Drawn, Page, Pairs, Section, Table, Words

if TYPE_CHECKING:
    from fastldp.solution import Solution


def report_of(run: Solution, title: str) -> Page:
    """The page about this solution."""
    columns, rows = run._table(measures=True)
    repetitions, n, d = run.workers.shape
    return Page(
        kind="Report of a solve",
        title=title or "One private solve" if run.ledger else title or "One solve without noise",
        lead=run.description,
        tiles=_tiles(run, columns),
        sections=[
            Section("What was found", [*_found(run), Table(["round", *(column.name for column in columns)], rows)]),
            Section("What was promised", promised(run.ledger, repetitions)),
            Section(
                "Where it comes from",
                [
                    Pairs(
                        [
                            ("solved", run.description),
                            ("ended", run._ended()),
                            ("repetitions", f"{repetitions:,}"),
                            ("workers", f"{n:,}"),
                            ("numbers of a model", f"{d:,}"),
                            ("seed", "one was given; it is not written here" if run.seed is not None else "none known"),
                        ]
                    )
                ],
            ),
        ],
    )


def _tiles(run: Solution, columns: Any) -> list[tuple[str, str, str]]:
    tiles = [
        ("rounds", f"{run.status.round:,}", run.status.outcome.value),
        ("repetitions", f"{len(run.workers):,}", ""),
    ]
    for column in columns[:1]:
        last = column.values[~np.isnan(column.values[:, -1]), -1]
        if last.size:
            tiles.append((f"{column.name} at the end", f"{last.mean():.4g}", f"± {last.std():.2g} std"))
    if run.ledger is not None:
        epsilon = float(np.max(run.ledger.promised_epsilon))
        tiles.append(("ε", f"{epsilon:g}", f"δ = {run.ledger.delta:g}, {run.ledger.accounting}"))
    return tiles


def _found(run: Solution) -> list[Any]:
    judged = {} if run.is_of_network else {"optimality": run.optimality, "distance": run.distance}
    judged |= {"consensus": run.consensus} | {name: run.measures[name] for name in run.measures}
    if run.thresholds is not None:
        judged["threshold"] = run.thresholds
    if run.is_of_network:  # judged by its measures, which come first
        judged = {name: run.measures[name] for name in reversed([*run.measures])} | judged
    measures = [_measure(name, values) for name, values in judged.items()]
    content: dict[str, Any] = {
        "kind": "explorer",
        "parameters": [],
        "rows": [[]],
        "runs": [len(run.workers)],
        "outcomes": [f"{len(run.workers):,}"],
        "measures": measures,
        "rounds": [run.rounds],
        "roundsOf": [0],
        "plain": [],
        "measure": measures[0]["name"],
        "logY": measures[0]["log"],
        "x": "round",
    }
    return [Drawn(content), Words("Means over the repetitions; the band is one standard deviation either side.")]


def _measure(name: str, values: NDArray[np.float64]) -> dict[str, Any]:
    with np.errstate(all="ignore"):  # of runs that diverged
        mean, std = values.mean(axis=0), values.std(axis=0)
    return {"name": name, "log": name != ACCURACY, "mean": [mean[-1]], "std": [std[-1]], "curves": [[mean, std]]}


def promised(ledger: Ledger | None, repetitions: int = 1) -> list[Any]:
    """A ledger in words and as a table."""
    if ledger is None:
        return [Words("Nothing: no budget was given, and the messages are not private.", note=True)]
    return [Words(ledger.statement(repetitions)), Code(ledger.summary(), "The whole ledger")]
