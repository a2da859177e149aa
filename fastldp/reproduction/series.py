"""A curve of a figure: means over repetitions with their spread, against the horizon or the round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.sweeping import Results
from fastldp.sweeping.work import COMPLETED

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """One curve."""

    label: str
    x: NDArray[np.int64]
    values: Array
    """(points, repetitions)."""
    parameters: tuple[dict[str, Any], ...]
    """Of the method, at each point."""
    horizon: int | None = None
    """Where x counts rounds of one horizon."""

    @property
    def mean(self) -> Array:
        return np.asarray(self.values.mean(axis=1))

    @property
    def std(self) -> Array:
        return np.asarray(self.values.std(axis=1))

    @property
    def error(self) -> Array:
        """The standard error of each mean."""
        return np.asarray(self.std / np.sqrt(max(1, self.values.shape[1] - 1)))

    def named(self, label: str) -> Series:
        """The same under another name."""
        return replace(self, label=label)

    @property
    def least(self) -> int:
        """Where it is least."""
        return int(self.x[np.argmin(self.mean)])

    @property
    def last(self) -> Series:
        """Its last point alone."""
        return replace(self, x=self.x[-1:], values=self.values[-1:], parameters=self.parameters[-1:])

    def at(self, x: int) -> int:
        """Which point is at x."""
        return int(np.flatnonzero(self.x == x)[0])

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for x, mean, std, parameters in zip(self.x, self.mean, self.std, self.parameters, strict=True):
            horizon = int(x) if self.horizon is None else self.horizon
            yield self.label, horizon, int(x), self.values.shape[1], float(mean), float(std), json.dumps(parameters)


def over_horizons(label: str, results: Results, chosen: dict[int, dict[str, Any]], **where: Any) -> Series:
    """The final errors of a method over the horizons, with the parameters chosen for each."""
    values = [ends(results.where(rounds=rounds, **method, **where)) for rounds, method in chosen.items()]
    return Series(label, np.array(list(chosen)), np.array(values), tuple(chosen.values()))


def ends(results: Results, measure: str = "optimality") -> Array:
    """The last errors of the runs of one setting, in the order of their repetitions; infinite where one diverged."""
    table = results.table()
    errors = np.where(table["outcome"] == COMPLETED, table[measure], np.inf)
    return np.asarray(errors[np.argsort(table["repetition"])])


PLANNED = {"method": "PrimalDual", "step": "planned", "allocation": "planned"}


def planned(results: Results, **where: Any) -> Series:
    """The final errors of Algorithm 1 as it was planned, at the horizons it could be."""
    horizons = results.where(**PLANNED, **where).parameters["rounds"]
    return over_horizons("planned", results, dict.fromkeys(sorted(horizons), PLANNED), **where)


def along_rounds(
    label: str, results: Results, rounds: int, method: dict[str, Any], *, measure: str = "optimality", **where: Any
) -> Series:
    """The error of a method, or another measure, along the rounds of one horizon."""
    some = results.where(rounds=rounds, **method, **where)
    (curve,) = some.curves("rounds", measure=measure)
    values = curve.values[np.argsort(some.table()["repetition"])]
    return Series(label, curve.rounds, values.T, (method,) * curve.rounds.size, horizon=rounds)
