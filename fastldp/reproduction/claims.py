"""Claims about errors: each an interval for one number, which shrinks with the repetitions until it decides.

The number Θ of a claim is made of contrasts, the mean over runs of the logarithm of a ratio of two errors. Methods and
horizons share the noise of a repetition, so the ratio is taken run by run. Of one contrast is "A is better than B";
of several, Θ is the largest over ways of the least over the contrasts of a way: that a curve falls and rises again is
that at some horizon (a way) the error is less than at either end (two contrasts).

Intervals hold for all claims of a table and at all looks at once, but for a probability of `FAMILY` (approximate in one
thing: that the mean of so many logarithms is normal, which `scripts/false_verdicts.py` tries on worse ones). A look at
one of N claims after r repetitions has one-sided limits by Student's t, each wrong with a probability of FAMILY/(2N)
times the share of r in the sum over the looks: errors are spent as repetitions are, least where few runs are the least
normal. By Bonferroni's inequality all limits hold together, however claims depend on each other, whatever makes one
stop.

The maximum and the minimum cost no more. Which way is best, and which contrast of a way least, is chosen on other runs
than are judged. A lower limit for Θ is the least of the lower limits in the chosen way: it is wrong only where that of
the contrast that truly is least is wrong. An upper limit is the largest, over the ways, of the upper limit of one
contrast of each: it is wrong only where that of the way that truly is best is wrong. So each errs as one limit does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fastldp.reproduction.verdicts import Verdict

Array = NDArray[np.float64]

FAMILY = 0.05
"""With this probability at most any claim of a page gets a false verdict."""
LOOKS = (20, 40, 80, 160, 320, 640, 1280)
"""The repetitions that claims are judged by, one after the other, until they are decided."""
QUICK_LOOKS = (4, 8)
MARGIN = 0.05
"""Errors that differ by less are no different."""


class Point(NamedTuple):
    """Whose error, after how many rounds."""

    series: str
    rounds: int

    def __str__(self) -> str:
        return f"T = {self.rounds:,}"


Errors = Mapping[Point, Array]
"""Of the same repetitions, run by run; infinite where a run diverged."""
Measure = Callable[[Sequence[Point], int], Errors]
"""Makes so many repetitions that nothing was chosen by."""


class Contrast(NamedTuple):
    """The mean of log(over/under), run by run; a number is an error that is known."""

    over: Point | float
    under: Point | float

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(one for one in self if isinstance(one, Point))

    def of(self, errors: Errors) -> Array:
        """Run by run."""
        with np.errstate(divide="ignore", invalid="ignore"):
            over, under = (np.log(errors[one] if isinstance(one, Point) else one) for one in self)
            return np.atleast_1d(over - under)


class Interval(NamedTuple):
    """Limits of a logarithm of a ratio."""

    low: float = -np.inf
    high: float = np.inf

    def within(self, other: Interval) -> Interval:
        """What both say: limits that hold at all looks hold together."""
        return Interval(max(self.low, other.low), min(self.high, other.high))


@dataclass(frozen=True)
class Claim:
    """That Θ lies between two numbers."""

    where: str
    text: str
    ways: tuple[tuple[Contrast, ...], ...]
    low: float = 0.0
    high: float = np.inf
    margin: float = MARGIN
    """Within so much of `low` there is no difference; 0 where the claim itself has a margin."""
    shown: tuple[Point, ...] = ()
    """Whose errors are told beside the verdict."""
    least: float = -np.inf
    """What Θ cannot be less than by much, where a lower limit is not worth more runs."""

    @property
    def points(self) -> set[Point]:
        return {point for way in self.ways for contrast in way for point in contrast.points}

    @property
    def simple(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.ways) == 1 and len(self.ways[0]) == 1


def better(where: str, text: str, first: Point, second: Point) -> Claim:
    """That the first error is less."""
    return Claim(where, text, ((Contrast(second, first),),), shown=(first, second))


def within(where: str, text: str, first: Point, second: Point, *, share: float) -> Claim:
    """That the second error is the first, but for a share of it either way."""
    limits = {"low": float(np.log1p(-share)), "high": float(np.log1p(share))}
    return Claim(where, text, ((Contrast(second, first),),), **limits, margin=0.0, shown=(first, second))


def falls_and_rises(where: str, text: str, series: str, horizons: Sequence[int]) -> Claim:
    """That at some horizon in between the error is less than at the first and at the last."""
    first, *between, last = (Point(series, T) for T in horizons)
    ways = tuple((Contrast(first, point), Contrast(last, point)) for point in between)
    # Of a curve that has no dip of 5 % it matters little whether it only falls, or only rises.
    return Claim(where, text, ways, shown=(first, *between, last), least=0.0)


def none_above(where: str, text: str, points: Iterable[Point], limit: float, *, margin: float = MARGIN) -> Claim:
    """That no error is above a number."""
    way = tuple(Contrast(limit, point) for point in points)
    return Claim(where, text, (way,), margin=margin, shown=tuple(point for one in way for point in one.points))


def near_at_all(where: str, text: str, pairs: Sequence[tuple[Point, Point]], *, share: float) -> Claim:
    """That of every pair the first error exceeds the second by less than a share of it."""
    ways = tuple((Contrast(first, second),) for first, second in pairs)
    shown = tuple(point for pair in pairs for point in pair)
    return Claim(where, text, ways, low=-np.inf, high=float(np.log1p(share)), margin=0.0, shown=shown)


def limits(ratios: Array, level: float) -> Interval:
    """One-sided limits of a mean, each wrong with this probability, by Student's t."""
    if not np.isfinite(ratios).all():
        # One infinite ratio shows an infinite mean, unless others are infinite the other way.
        signs = {float(value) for value in ratios[~np.isfinite(ratios)]}
        return Interval(*2 * (*signs,)) if signs in ({np.inf}, {-np.inf}) else Interval()
    count = ratios.size
    if count < 2:
        return Interval()
    reach = _quantile(level, count - 1) * float(ratios.std(ddof=1)) / np.sqrt(count)
    return Interval(float(ratios.mean()) - reach, float(ratios.mean()) + reach)


@cache
def _quantile(level: float, freedom: int) -> float:
    """What Student's t exceeds with this probability."""
    return float(stats.t.isf(level, freedom))


@dataclass
class Standing:
    """A claim on its way to a verdict."""

    claim: Claim
    best: int
    """The way that was chosen on other runs, and of each way the contrast that was least there."""
    least: tuple[int, ...]
    found: dict[tuple[int, int], Interval] = field(default_factory=dict)
    """Of the contrasts, by all looks so far."""
    runs: int = 0
    means: dict[Point, float] = field(default_factory=dict)

    @classmethod
    def of(cls, claim: Claim, chosen_on: Errors) -> Standing:
        """What is to be chosen is chosen on runs that no verdict rests on."""
        if claim.simple:
            return cls(claim, 0, (0,))
        estimates = [[_estimate(contrast.of(chosen_on)) for contrast in way] for way in claim.ways]
        best = int(np.argmax([min(way) for way in estimates]))
        return cls(claim, best, tuple(int(np.argmin(way)) for way in estimates))

    def contrasts(self) -> list[tuple[int, int]]:
        """Those that limits are still wanted of."""
        ways = self.claim.ways
        mine = [(self.best, k) for k in range(len(ways[self.best]))]
        others = [(j, self.least[j]) for j in range(len(ways)) if j != self.best]
        # A way that is surely no dip of 5 % (or surely below the upper limit) needs no more runs.
        enough = self.claim.low + self.claim.margin if np.isinf(self.claim.high) else self.claim.high
        return mine + [one for one in others if self.found.get(one, Interval()).high >= enough]

    def points(self) -> set[Point]:
        return {point for j, k in self.contrasts() for point in self.claim.ways[j][k].points}

    def look(self, errors: Errors, level: float) -> None:
        """Take the limits that these runs give."""
        for j, k in self.contrasts():
            ratios = self.claim.ways[j][k].of(errors)
            self.runs = max(self.runs, ratios.size)
            self.found[j, k] = self.found.get((j, k), Interval()).within(limits(ratios, level))
        for point in self.claim.shown:
            if point in errors:
                self.means[point] = float(np.exp(np.mean(np.log(errors[point]))))

    @property
    def interval(self) -> Interval:
        """Of Θ."""
        of_best = (self.found.get((self.best, k), Interval()).low for k in range(len(self.claim.ways[self.best])))
        of_all = (self.found.get((j, k), Interval()).high for j, k in enumerate(self.least))
        return Interval(min(of_best), max(of_all))

    @property
    def alike(self) -> bool:
        """Whether there is no difference, within the margin."""
        (low, high), edge, reach = self.interval, self.claim.low, float(np.log1p(self.claim.margin))
        if high >= edge:
            low = max(low, self.claim.least)
        return bool(self.claim.margin > 0 and edge - reach < low and high < edge + reach)

    @property
    def held(self) -> bool | None:
        low, high = self.interval
        if (low > self.claim.low or self.claim.low == -np.inf) and (
            high < self.claim.high or self.claim.high == np.inf
        ):
            return True
        return False if high < self.claim.low or low > self.claim.high else None

    @property
    def decided(self) -> bool:
        return self.alike or self.held is not None

    def verdict(self) -> Verdict:
        with np.errstate(over="ignore"):  # of few runs that differ by much
            low, high = (f"{np.exp(end):.3g}" for end in self.interval)
        measured = f"{self._errors()}; ratio {low} to {high}, {self.runs:,} runs"
        ratio = float(np.exp(np.mean(self.interval))) if np.isfinite(self.interval).all() else None
        return Verdict(
            self.claim.where, self.claim.text, measured, None if self.alike else self.held, self.alike, ratio
        )

    def _errors(self) -> str:
        """In words."""
        told = self._told()
        if len({point.series for point in told}) > 1 and len({point.rounds for point in told}) == 1:
            return f"{' against '.join(f'{self.means[point]:.3g}' for point in told)} at {told[0]}"
        return ", ".join(f"{self.means[point]:.3g} at {point}" for point in sorted(told))

    def _told(self) -> list[Point]:
        """The errors that the verdict rests on: of many ways, those of the best."""
        wanted = self.claim.shown
        if len(self.claim.ways) > 1:
            of_best = {point for contrast in self.claim.ways[self.best] for point in contrast.points}
            wanted = tuple(point for point in wanted if point in of_best)
        return [point for point in wanted if point in self.means]


def decide(
    claims: Sequence[Claim],
    chosen_on: Errors,
    measure: Measure,
    *,
    looks: Sequence[int] = LOOKS,
    family: float = FAMILY,
    most: int | None = None,
) -> list[Verdict]:
    """A verdict on each: repetitions are added, of those settings that a claim still needs, until there is one.

    `chosen_on` are the errors of other repetitions than are judged, at all points. With `most` no look is at more
    repetitions than so many, by the limits that all looks together would have: what is judged later stays as sure.
    """
    standing = [Standing.of(claim, chosen_on) for claim in claims]
    for count in looks:
        if most is not None and count > most:
            break
        waiting = [one for one in standing if not one.decided]
        if not waiting:
            break
        errors = measure(sorted({point for one in waiting for point in one.points()}), count)
        for one in waiting:
            one.look(errors, family * count / (2 * len(claims) * sum(looks)))
    return [one.verdict() for one in standing]


def _estimate(ratios: Array) -> float:
    mean = float(np.mean(ratios))
    return mean if not np.isnan(mean) else -np.inf
