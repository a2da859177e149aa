"""From a tuning sweep to the parameters a method is reported with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from fastldp.sweeping import Results
from fastldp.sweeping.spec import METHODS


class Choice(NamedTuple):
    """The best parameters at one horizon."""

    parameters: dict[str, Any]
    """The method's, with its name under ``"method"``, and those of the problem that were tuned with them."""
    error: float
    """The mean it was chosen by, on noise that is not reported; of accuracies the share of wrong answers."""
    edges: tuple[str, ...]
    """Parameters at the end of their grid: beyond it a better one may lie."""


def best(tuning: Results, *, measure: str = "optimality", also: Sequence[str] = (), **family: Any) -> dict[int, Choice]:
    """The best parameters of a family of settings at every horizon: the method's, and those `also` of its problem."""
    mine = tuning.where(**family)
    table = mine.table()
    names = ["method", *(field.name for field in fields(METHODS[family["method"]])), *also]
    ends = 1 - table[measure] if measure == "test_accuracy" else table[measure]
    # A setting that diverged once is not a choice.
    errors = np.where(table["outcome"] == "completed", ends, np.inf)
    settings: dict[int, dict[str, list[int]]] = {}
    for row in range(len(mine)):
        key = repr([table[name][row] for name in names])
        settings.setdefault(int(table["rounds"][row]), {}).setdefault(key, []).append(row)
    chosen = {}
    for rounds, by_setting in sorted(settings.items()):
        rows = min(by_setting.values(), key=lambda rows: float(errors[rows].mean()))
        parameters = {name: _plain(table[name][rows[0]]) for name in names}
        chosen[rounds] = Choice(parameters, float(errors[rows].mean()), _edges(parameters, mine))
    return chosen


def _edges(parameters: dict[str, Any], tried: Results) -> tuple[str, ...]:
    found = []
    for name, values in tried.parameters.items():
        value = parameters.get(name)
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if name in parameters and len(numbers) > 1 and value in (min(numbers), max(numbers)):
            found.append(f"{name} = {value:g}")
    return tuple(found)


def method_table(parameters: dict[str, Any], comment: str, rounds: int | None = None) -> str:
    """A table [[method]] with these parameters."""
    values = {"name": parameters["method"]} | {k: v for k, v in parameters.items() if k != "method" and v is not None}
    if rounds is not None:
        values["rounds"] = rounds
    return f"\n# {comment}\n[[method]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
