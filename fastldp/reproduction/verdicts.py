"""What the paper claims in words, what was measured, and whether it held."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.reproduction.series import Series

# A difference within so many standard errors decides nothing.
SURE = 2.0
# And within so many where one of the two was picked as the least of several, by the same runs.
SURE_OF_LEAST = 3.0
# Errors that differ by less are alike.
ALIKE = 0.2
# A lead of less decides nothing, however sure: runs with the same noise can show a lead of any size.
LEAD = 0.01
# So many points are near an accuracy, and so many are no loss.
NEAR, LOSS = 0.05, 0.02
TEST_IMAGES = 10_000
UNDECIDED = "undecided: what was measured is too near to the line for so many runs to tell on which side it is"


class Verdict(NamedTuple):
    """One claim."""

    where: str
    claim: str
    measured: str
    held: bool | None
    """None where the runs do not decide it."""

    @property
    def word(self) -> str:
        return {True: "held", False: "did not hold", None: "undecided"}[self.held]


def table(verdicts: Sequence[Verdict], width: int = 118) -> str:
    """The verdicts for a terminal, long texts wrapped, and what undecided means where some are."""
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
    if any(verdict.held is None for verdict in verdicts):
        lines += ["", UNDECIDED]
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a table in Markdown."""
    marks = {True: "", False: "**", None: "*"}
    rows = [f"| {v.where} | {v.claim} | {v.measured} | {marks[v.held]}{v.word}{marks[v.held]} |" for v in verdicts]
    return "\n".join(["| | claim | measured | verdict |", "|---|---|---|---|", *rows]) + "\n"


# The claims are about curves. All methods have the noise of the same seed, so differences are taken run by run.


def improves_then_deteriorates(where: str, claim: str, series: Series) -> Verdict:
    """Whether the least error lies at neither end."""
    low = int(np.argmin(series.mean))
    measured = (
        f"{series.mean[0]:.3g} at T = {series.x[0]:,}, least {series.mean[low]:.3g} at {series.x[low]:,}, "
        f"{series.mean[-1]:.3g} at {series.x[-1]:,}"
    )
    if low in (0, len(series.x) - 1):
        return Verdict(where, claim, measured, False)
    sides = [sign_of(series.values[end] - series.values[low], SURE_OF_LEAST) for end in (0, -1)]
    return Verdict(where, claim, measured, True if sides == [1, 1] else None)


def levels_off(where: str, claim: str, series: Series, since: int) -> Verdict:
    """Whether the error at the largest horizon is within a fifth of that at an earlier one."""
    k = series.at(since)
    change = series.mean[-1] / series.mean[k] - 1
    measured = f"{series.mean[k]:.3g} at T = {since:,}, {series.mean[-1]:.3g} at {series.x[-1]:,}: {change:+.0%}"
    # Surely below the upper limit, and surely above the lower.
    signs = {
        sign_of((1 + ALIKE) * series.values[k] - series.values[-1]),
        sign_of(series.values[-1] - (1 - ALIKE) * series.values[k]),
    }
    return Verdict(where, claim, measured, True if signs == {1} else False if -1 in signs else None)


def decreases(where: str, claim: str, series: Series, to: int) -> Verdict:
    """Whether the error is less at `to` than at the smallest horizon."""
    k = series.at(to)
    measured = f"{series.mean[0]:.3g} at T = {series.x[0]:,}, {series.mean[k]:.3g} at {to:,}"
    return Verdict(where, claim, measured, decided(sign_of(series.values[0] - series.values[k])))


def better(where: str, claim: str, first: Series, second: Series) -> Verdict:
    """Whether the first is better at the largest horizon."""
    ours, theirs = first.mean[-1], second.mean[-1]
    measured = f"{ours:.3g} against {theirs:.3g} at T = {first.x[-1]:,}"
    leads = abs(ours - theirs) > LEAD * min(ours, theirs)
    return Verdict(where, claim, measured, decided(sign_of(second.values[-1] - first.values[-1]) if leads else 0))


# Accuracies are shares of test images, whose number limits them as the number of runs does: both count.


def higher(where: str, claim: str, first: Series, second: Series) -> Verdict:
    """Whether the first ends at a higher accuracy."""
    return Verdict(where, claim, _two_accuracies(first, second), decided(_sign_above(first, second)))


def keeps(where: str, claim: str, first: Series, second: Series) -> Verdict:
    """Whether the first ends at an accuracy that is lower than the second's by two points at most."""
    measured = _two_accuracies(first, second)
    return Verdict(where, claim, measured, decided(_sign_above(first, second, -LOSS)))


def near(where: str, claim: str, series: Series, accuracy: float) -> Verdict:
    """Whether it ends within five points of an accuracy."""
    apart = abs(float(series.mean[-1]) - accuracy)
    sign = 0 if abs(NEAR - apart) <= SURE * np.sqrt(_variance(series)) else int(np.sign(NEAR - apart))
    return Verdict(where, claim, f"{percent(series)} at T = {series.x[-1]:,}", decided(sign))


def percent(series: Series) -> str:
    """The accuracy after the last round."""
    return f"{100 * series.mean[-1]:.1f} %"


def _two_accuracies(first: Series, second: Series) -> str:
    return f"{percent(first)} ({first.label}), {percent(second)} ({second.label})"


def _sign_above(first: Series, second: Series, difference: float = 0.0) -> int:
    """The sign of what the first is above the second and a difference, or 0 where it is not sure."""
    above = float(first.mean[-1] - second.mean[-1]) - difference
    sure = abs(above) > SURE * np.sqrt(_variance(first) + _variance(second))
    return int(np.sign(above)) if sure else 0


def _variance(series: Series) -> float:
    """Of the mean of the last accuracies, by the images and by the runs where there are several."""
    return float(series.mean[-1] * (1 - series.mean[-1]) / TEST_IMAGES + series.error[-1] ** 2)


def sign_of(differences: NDArray[np.float64], sure: float = SURE) -> int:
    """The sign of a mean of runs, or 0 where it is within two standard errors of zero."""
    mean, error = differences.mean(), differences.std() / np.sqrt(max(1, differences.size - 1))
    return int(np.sign(mean)) if abs(mean) > sure * error else 0


def decided(sign: int) -> bool | None:
    return None if sign == 0 else sign > 0
