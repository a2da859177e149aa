"""The trials of a sweep: how each of its settings did at each horizon, for whoever chooses among them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from fastldp.errors import ArgumentError
from fastldp.grids import Grid
from fastldp.methods import Method
from fastldp.sweeping.making import METHODS, kind_of
from fastldp.sweeping.reading import Results, results
from fastldp.sweeping.runner import sweep as run_sweep
from fastldp.sweeping.spec import read
from fastldp.sweeping.specification import Sweep
from fastldp.sweeping.work import COMPLETED
from fastldp.tuning import CRITERIA, Trial, Tuned, search
from fastldp.validation import integer, known_name


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
                _made(parameters[key][0]),
                T,
                float(np.mean(runs)),
                float(np.std(runs)),
                given=parameters[key][0],
                problem=parameters[key][1],
            )
            for (key, T), runs in settings.items()
        ]


def tune(
    sweep: Sweep, path: str | os.PathLike[str], *, by: str = "optimality", extend: int = 0, **options: Any
) -> Tuned:
    """The trials of a sweep that a file has or lacks, and of what lies beyond the edges of its grids."""
    known_name("by", by, CRITERIA)
    integer("extend", extend, "give a whole number ≥ 0", at_least=0)
    horizons = [T for one in sweep.methods for T in sweep.horizons(one)]

    def run(more: Sequence[tuple[Trial, dict[str, Any]]]) -> list[Trial]:
        wanted = sweep
        if more:
            methods = [grid_of({**trial.method, **change}) for trial, change in more]
            wanted = sweep.replace(methods=methods, rounds=sorted({*horizons}))
        spec = read(wanted)
        if len(spec.grounds) > 1 or len(spec.grounds[0].subjects) > 1 or len({s.budget for s in spec.settings}) > 1:
            raise ArgumentError("problems", wanted.problems, "settings of several problems or budgets are not compared")
        report = run_sweep(spec, path, **options)
        if report.interrupted:
            raise KeyboardInterrupt(report.summary())
        return trials_of(results(path).made_by({one.key: spec.repetitions for one in spec.settings}), by=by)

    return search(run, extend)


def grid_of(parameters: Mapping[str, Any], label: str = "", rounds: int | None = None) -> Grid:
    """A method with these parameters, its name among them, at the horizons of its sweep or at one of its own."""
    values = {name: [value] for name, value in parameters.items() if name != "method" and value is not None}
    return Grid(kind_of("method", parameters["method"], METHODS, Method), values, rounds=rounds, label=label)


def _made(parameters: Mapping[str, Any]) -> Method | None:
    """The method with these parameters; None where they do not say all, as of long arrays."""
    try:
        found: Method = grid_of(parameters)[0]
    except ArgumentError:
        return None
    return found


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
