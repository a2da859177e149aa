"""A search on a grid that has no edge: it goes on until what is best has worse on either side, or stands at a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

Point = tuple[int, ...]
"""How many steps of each axis from its start."""


class Axis(NamedTuple):
    """Values that differ by a ratio from their neighbours, between limits."""

    name: str
    start: float
    ratio: float = 2.0
    least: float = 0.0
    most: float = math.inf

    def at(self, steps: int) -> float:
        """The value so many steps from the start.

        >>> Axis("clip", 5.0).at(-1)
        2.5
        """
        return float(f"{self.start * self.ratio**steps:.12g}")

    def allows(self, steps: int) -> bool:
        return self.least <= self.at(steps) <= self.most


class Climb(NamedTuple):
    """What was tried, and what of it was best."""

    best: Point
    tried: dict[Point, float]
    limits: tuple[str, ...]
    """Axes along which something beside the best was not tried, because it may not be, or there were trials enough."""

    def best_of(self, count: int) -> list[Point]:
        """So many of the best, the best first."""
        return sorted(self.tried, key=self.tried.__getitem__, reverse=True)[:count]


def climbed(
    axes: Sequence[Axis],
    judge: Callable[[list[Point]], dict[Point, float]],
    begin: Sequence[Point],
    *,
    may: Callable[[Point], bool] = lambda _: True,
    margin: float = 0.0,
    most: float = math.inf,
) -> Climb:
    """The point of the highest worth: of those to begin with, and then of neighbours along each axis in turn.

    Neighbours are judged on both sides, and the search moves to one that is better by more than the margin, until no
    axis has such a one, so it ends; or else after so many trials. Points that axes or `may` refuse are not tried.
    """

    def allowed(point: Point) -> bool:
        return all(axis.allows(steps) for axis, steps in zip(axes, point, strict=True)) and may(point)

    tried = judge([point for point in dict.fromkeys(begin) if allowed(point)])
    best = max(tried, key=tried.__getitem__)
    settled = axis = 0
    while settled < len(axes) and len(tried) < most:
        sides = [point for point in beside(best, axis) if allowed(point)]
        if missing := [point for point in sides if point not in tried]:
            tried |= judge(missing)
        better = max([best, *sides], key=tried.__getitem__)
        if tried[better] <= tried[best] + margin:
            settled, axis = settled + 1, (axis + 1) % len(axes)
        else:
            best, settled = better, 0
    limits = [axes[k].name for k in range(len(axes)) if not tried.keys() >= {*beside(best, k)}]
    return Climb(best, tried, tuple(limits))


def beside(point: Point, axis: int) -> tuple[Point, Point]:
    """Its neighbours along an axis.

    >>> beside((0, 2), 1)
    ((0, 1), (0, 3))
    """
    below, above = ((*point[:axis], point[axis] + way, *point[axis + 1 :]) for way in (-1, 1))
    return below, above
