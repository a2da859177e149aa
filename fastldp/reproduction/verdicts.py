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
    ALIKE: "no difference: what is compared is shown to differ by less than 5 %, or two points of accuracy, if at all",
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


# Accuracies are compared run by run, for runs have noise in common, and on the same test images. One alone is a share
# of these, whose number limits it as the number of runs does: then both count.


def higher(where: str, claim: str, first: Series, second: Series) -> Verdict:
    """Whether the first ends at a higher accuracy; no difference where it is not sure, but within two points."""
    above, reach = _above(first, second)
    held = decided(int(np.sign(above)) if abs(above) > reach else 0)
    return Verdict(where, claim, _two_accuracies(first, second), held, held is None and abs(above) + reach < LOSS)


def keeps(where: str, claim: str, first: Series, second: Series) -> Verdict:
    """Whether the first ends at an accuracy that is lower than the second's by two points at most."""
    above, reach = _above(first, second)
    held = decided(int(np.sign(above + LOSS)) if abs(above + LOSS) > reach else 0)
    return Verdict(where, claim, _two_accuracies(first, second), held)


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


def _above(first: Series, second: Series) -> tuple[float, float]:
    """What the first is above the second, and how far that may be off: of one run each, by the images alone."""
    differences = first.values[-1] - second.values[-1]
    runs = differences.size
    if runs == 1:
        return float(differences[0]), SURE * float(np.sqrt(_of_images(first) + _of_images(second)))
    return float(differences.mean()), SURE * _widened(runs) * float(differences.std(ddof=1)) / float(np.sqrt(runs))


def _variance(series: Series) -> float:
    """Of the mean of the last accuracies, by the images and by the runs where there are several."""
    return _of_images(series) + float(_widened(series.values.shape[1]) * series.error[-1]) ** 2


def _of_images(series: Series) -> float:
    return float(series.mean[-1] * (1 - series.mean[-1])) / TEST_IMAGES


def _widened(runs: int) -> float:
    """Of few runs the spread is hardly known: it counts for so much more that limits of Student's t are as wide."""
    return float(stats.t.ppf(stats.norm.cdf(SURE), runs - 1)) / SURE if runs > 1 else 0.0


def decided(sign: int) -> bool | None:
    return None if sign == 0 else sign > 0
