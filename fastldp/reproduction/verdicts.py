"""What the paper claims in words, what was measured, and whether it held."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fastldp.reproduction.series import Series

# Of means whose difference is within so many standard errors nothing is said.
SURE = 2.0
# Errors that differ by less are alike.
ALIKE = 0.2


class Verdict(NamedTuple):
    """One claim."""

    where: str
    claim: str
    measured: str
    held: bool

    @property
    def word(self) -> str:
        return "held" if self.held else "did not hold"


def table(verdicts: Sequence[Verdict], width: int = 118) -> str:
    """The verdicts for a terminal, long texts wrapped."""
    where = max(len(verdict.where) for verdict in verdicts)
    # Three gaps of two, and a verdict of twelve.
    text = (width - where - 6 - 12) // 2
    lines = [f"{'':<{where}}  {'claim':<{text}}  {'measured':<{text}}  verdict"]
    for verdict in verdicts:
        claim, measured = (textwrap.wrap(part, text) for part in (verdict.claim, verdict.measured))
        for k in range(max(len(claim), len(measured))):
            cells = [column[k] if k < len(column) else "" for column in (claim, measured)]
            first, last = (verdict.where, verdict.word) if k == 0 else ("", "")
            lines.append(f"{first:<{where}}  {cells[0]:<{text}}  {cells[1]:<{text}}  {last}".rstrip())
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a table in Markdown."""
    rows = [
        f"| {v.where} | {v.claim} | {v.measured} | {'**' if not v.held else ''}{v.word}{'**' if not v.held else ''} |"
        for v in verdicts
    ]
    return "\n".join(["| | claim | measured | verdict |", "|---|---|---|---|", *rows]) + "\n"


# The claims are about curves; each is a comparison that noise of the size of the error bars cannot decide.


def improves_then_deteriorates(where: str, claim: str, series: Series) -> Verdict:
    """Whether the least error lies at neither end, and is sure to."""
    low = int(np.argmin(series.mean))
    before = _surely_less(series, low, 0)
    after = _surely_less(series, low, -1)
    measured = (
        f"{series.mean[0]:.3g} at T = {series.x[0]:,}, least {series.mean[low]:.3g} at {series.x[low]:,}, "
        f"{series.mean[-1]:.3g} at {series.x[-1]:,}"
    )
    return Verdict(where, claim, measured, before and after)


def levels_off(where: str, claim: str, series: Series, since: int) -> Verdict:
    """Whether the error at the largest horizon is like that at an earlier one."""
    k = series.at(since)
    change = series.mean[-1] / series.mean[k] - 1
    measured = f"{series.mean[k]:.3g} at T = {since:,}, {series.mean[-1]:.3g} at {series.x[-1]:,}: {change:+.0%}"
    return Verdict(where, claim, measured, bool(abs(change) <= ALIKE))


def decreases(where: str, claim: str, series: Series, to: int) -> Verdict:
    """Whether the error is surely less at `to` than at the smallest horizon."""
    k = series.at(to)
    measured = f"{series.mean[0]:.3g} at T = {series.x[0]:,}, {series.mean[k]:.3g} at {to:,}"
    return Verdict(where, claim, measured, _surely_less(series, k, 0))


def better(where: str, claim: str, first: Series, second: Series) -> Verdict:
    """Whether the first is surely better at the largest horizon."""
    gap = second.mean[-1] - first.mean[-1]
    measured = f"{first.mean[-1]:.3g} against {second.mean[-1]:.3g} at T = {first.x[-1]:,}"
    return Verdict(where, claim, measured, bool(gap > SURE * np.hypot(first.error[-1], second.error[-1])))


def _surely_less(series: Series, k: int, other: int) -> bool:
    gap = series.mean[other] - series.mean[k]
    return bool(gap > SURE * np.hypot(series.error[k], series.error[other]))
