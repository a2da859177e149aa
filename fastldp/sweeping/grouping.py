"""Runs that go together: those with the same values of some parameters, what they differ in, and their means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.sweeping.parameters import Parameter, shown

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# What data and methods were, where their names do not tell: named last, and only where nothing else differs.
PROVENANCE = ("fingerprint", "version", "code", "loss_code", "regularizer_code")


class Group(NamedTuple):
    """Runs by their places among those given, and the values they have in common."""

    label: dict[str, Any]
    rows: Integers


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a group of runs, of those that are not NaN."""

    label: dict[str, Any]
    runs: int
    mean: float
    std: float

    @classmethod
    def of(cls, label: dict[str, Any], values: Array) -> Mean:
        there = values[~np.isnan(values)]
        if there.size == 0:
            return cls(label, 0, math.nan, math.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(label, there.size, float(there.mean()), float(there.std()))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.std / math.sqrt(self.runs - 1) if self.runs > 1 else math.nan

    def cells(self) -> list[str]:
        return [f"{self.runs:,}", f"{self.mean:.4g}", f"{self.std:.3g}", f"{self.error:.2g}"]


class Failure(NamedTuple):
    """A setting whose runs failed, and why."""

    label: dict[str, Any]
    runs: int
    reason: str

    @property
    def setting(self) -> str:
        """What tells it from the others, in words."""
        return ", ".join(f"{name}={shown(value)}" for name, value in self.label.items() if value is not None)


@dataclass(frozen=True, eq=False)
class Curve:
    """An error along the rounds, of a group of runs."""

    label: dict[str, Any]
    rounds: Integers = field(repr=False)
    values: Array = field(repr=False)
    """(runs, records)."""

    @property
    def mean(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # of runs that diverged
            return np.asarray(self.values.mean(axis=0))

    @property
    def std(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.values.std(axis=0))


def groups_of(parameters: Mapping[str, Parameter], settings: Integers, names: Sequence[str]) -> list[Group]:
    """The runs of these settings by their values of some parameters, in the order of the first of each."""
    if not settings.size:
        return []
    group = _numbered(parameters, settings, names)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    members = sorted(np.split(order, cuts), key=lambda rows: int(rows[0]))
    return [Group({name: parameters[name].of(int(settings[rows[0]])) for name in names}, rows) for rows in members]


def differing(parameters: Mapping[str, Parameter], settings: Integers, names: Sequence[str]) -> list[str]:
    """The other parameters in which runs with the same values of these differ; a value that is not there is one too."""
    settings = np.unique(settings)
    if not settings.size:
        return []
    group = _numbered(parameters, settings, names)
    count, found = np.unique(group).size, []
    for name, parameter in parameters.items():
        if name not in names:
            marks = _marks(parameter)[settings]
            # Most are the same in all settings.
            if (marks != marks[0]).any() and np.unique(np.stack([group, marks]), axis=1).shape[1] > count:
                found.append(name)
    return found


def telling(parameters: Mapping[str, Parameter], settings: Integers, varying: Sequence[str]) -> list[str]:
    """The names that tell all settings apart: those that vary, and what some have and others have not."""
    names = [name for name in varying if name not in PROVENANCE]
    while hidden := differing(parameters, settings, names):
        names.append(min(hidden, key=lambda name: name in PROVENANCE))
    return names


def _numbered(parameters: Mapping[str, Parameter], settings: Integers, names: Sequence[str]) -> Integers:
    """Which group each of these settings is in."""
    if not names:
        return np.zeros(settings.size, dtype=np.int64)
    marks = np.stack([_marks(parameters[name])[settings] for name in names], axis=1)
    return np.asarray(np.unique(marks, axis=0, return_inverse=True)[1]).reshape(-1)


def _marks(parameter: Parameter) -> Integers:
    """A number for each value, of every setting; None and none at all have the same."""
    seen: dict[str, int] = {}
    # By the texts of values, for lists cannot be compared otherwise.
    numbers = [seen.setdefault(repr(value), len(seen)) for value in (*parameter.values, None)]
    return np.array(numbers, dtype=np.int64)[parameter.numbers]
