"""The trials of a sweep: how each of its settings did at each horizon, for whoever chooses among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from fastldp.methods import Method
from fastldp.sweeping.making import METHODS, kind_of
from fastldp.sweeping.reading import Results
from fastldp.sweeping.work import COMPLETED
from fastldp.tuning import Trial


def trials_of(found: Results, *, by: str = "optimality", also: Sequence[str] = ()) -> list[Trial]:
    """A trial for each setting of methods, and of what the problems have `also`, at each horizon."""
    table = found.table()
    ends = 1 - table[by] if by == "accuracy" else table[by]
    # A setting that diverged once is not a choice.
    errors = np.where(table["outcome"] == COMPLETED, ends, np.inf)
    settings: dict[tuple[str, int], list[float]] = {}
    parameters: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for row, name in enumerate(table["method"]):
        kind = kind_of("method", name, METHODS, Method)
        names = ["method", *(own.name for own in fields(kind))]
        both = tuple({one: _plain(table[one][row]) for one in some if one in table} for some in (names, also))
        parameters[repr(both)] = both[0], both[1]
        settings.setdefault((repr(both), int(table["rounds"][row])), []).append(float(errors[row]))
    with np.errstate(invalid="ignore"):  # of those that diverged
        return [
            Trial(
                None, T, float(np.mean(runs)), float(np.std(runs)), given=parameters[key][0], problem=parameters[key][1]
            )
            for (key, T), runs in settings.items()
        ]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
