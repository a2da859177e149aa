"""What the paper claims in words, what was measured, and whether it held."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from fastldp.reproduction.series import Series

# An accuracy's distance from a line within so many standard errors decides nothing.
SURE = 2.0
# So many points are near an accuracy, and so many are no loss.
NEAR, LOSS = 0.05, 0.02
TEST_IMAGES = 10_000
HELD, FAILED, ALIKE, UNDECIDED = "held", "did not hold", "no difference", "undecided"
WORDS = (HELD, FAILED, ALIKE, UNDECIDED)
TOLD = {
    ALIKE: "no difference: what is compared is shown to differ by less than 5 %, if at all",
    UNDECIDED: "undecided: what was measured is too near to the line for so many runs to tell on which side it is",
}


class Verdict(NamedTuple):
    """One claim."""

    where: str
    claim: str
    measured: str
    held: bool | None
    """None where the runs do not decide it."""
    alike: bool = False
    """Whether what is compared is shown to be no different, within five percent."""
    ratio: float | None = None
    """Of the errors that are compared: the middle of its limits."""

    @property
    def word(self) -> str:
        return ALIKE if self.alike else {True: HELD, False: FAILED, None: UNDECIDED}[self.held]


def table(verdicts: Sequence[Verdict], width: int = 118) -> str:
    """The verdicts for a terminal, long texts wrapped, and what undecided means where some are."""
    where = max(len(verdict.where) for verdict in verdicts)
    # Three gaps of two, and the longest verdict.
    text = (width - where - 6 - len(ALIKE)) // 2
    lines = [f"{'':<{where}}  {'claim':<{text}}  {'measured':<{text}}  verdict"]
    for verdict in verdicts:
        claim, measured = (textwrap.wrap(part, text) for part in (verdict.claim, verdict.measured))
        for k in range(max(len(claim), len(measured))):
            cells = [column[k] if k < len(column) else "" for column in (claim, measured)]
            first, last = (verdict.where, verdict.word) if k == 0 else ("", "")
            lines.append(f"{first:<{where}}  {cells[0]:<{text}}  {cells[1]:<{text}}  {last}".rstrip())
    words = {verdict.word for verdict in verdicts}
    lines += [line for word, told in TOLD.items() if word in words for line in ("", told)]
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a table in Markdown."""
    marks = {HELD: "", FAILED: "**", ALIKE: "*", UNDECIDED: "*"}
    rows = [f"| {v.where} | {v.claim} | {v.measured} | {marks[v.word]}{v.word}{marks[v.word]} |" for v in verdicts]
    return "\n".join(["| | claim | measured | verdict |", "|---|---|---|---|", *rows]) + "\n"


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
    """Of the mean of the last accuracies, by the images and by the runs where there are several.

    Of few runs the spread is hardly known: it counts for so much more that limits of Student's t would be as wide.
    """
    runs = series.values.shape[1]
    widened = float(stats.t.ppf(stats.norm.cdf(SURE), runs - 1)) / SURE if runs > 1 else 0.0
    return float(series.mean[-1] * (1 - series.mean[-1]) / TEST_IMAGES + (widened * series.error[-1]) ** 2)


def decided(sign: int) -> bool | None:
    return None if sign == 0 else sign > 0
