"""From a tuning sweep to the parameters a method is reported with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from fastldp.sweeping import Results
from fastldp.sweeping.making import METHODS
from fastldp.sweeping.parameters import shown

# Tuned beside the method's own parameters, where a sweep varies it: the norm that gradients are clipped to.
OF_PROBLEM = ("gradient_bound",)

# By what rules choices are made.
LEAST = "the least mean error, at each horizon and over all (geometric mean), on noise that is not reported"
MOST_RIGHT = "the highest accuracy on images held out of the training set"


class Choice(NamedTuple):
    """The best parameters, at one horizon or over all."""

    parameters: dict[str, Any]
    """The method's, with its name under ``"method"``, and the problem's that were tuned."""
    error: float
    """The mean error it was chosen by, on noise that is not reported; over all horizons the geometric mean of those."""
    edges: tuple[str, ...]
    """Parameters at the end of their grid: beyond it a better one may lie."""

    @property
    def at_edges(self) -> str:
        return f"; at the edge of its grid: {', '.join(self.edges)}" if self.edges else ""

    @property
    def method(self) -> dict[str, Any]:
        return {name: value for name, value in self.parameters.items() if name not in OF_PROBLEM}


class Tuned(NamedTuple):
    """A family of settings, tuned in two ways."""

    once: Choice
    """One choice for all horizons: the least mean, over the horizons, of the logarithm of the mean error."""
    each: dict[int, Choice]
    """The least mean error at every horizon."""


def tuned(tuning: Results, *, measure: str = "optimality", also: Sequence[str] = OF_PROBLEM, **family: Any) -> Tuned:
    """The best parameters of a family of settings that a sweep tried at the same horizons.

    They are the method's, and those `also` of its problem. Of accuracies the error is the share of wrong answers.
    """
    mine = tuning.where(**family)
    table = mine.table()
    names = ["method", *(field.name for field in fields(METHODS[family["method"]])), *also]
    ends = 1 - table[measure] if measure == "accuracy" else table[measure]
    # A setting that diverged once is not a choice.
    errors = np.where(table["outcome"] == "completed", ends, np.inf)
    settings: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[int, list[float]]] = {}
    for row in range(len(mine)):
        parameters = {name: _plain(table[name][row]) for name in names if name in table}
        key = repr(parameters)
        settings[key] = parameters
        found.setdefault(key, {}).setdefault(int(table["rounds"][row]), []).append(float(errors[row]))
    means = {key: {T: float(np.mean(runs)) for T, runs in by_T.items()} for key, by_T in found.items()}
    overall = {key: float(np.exp(np.mean(np.log([*by_T.values()])))) for key, by_T in means.items()}

    def least(by: Mapping[str, float]) -> Choice:
        key = min(by, key=by.__getitem__)
        return Choice(settings[key], by[key], _edges(settings[key], [*settings.values()]))

    horizons = sorted({T for by_T in means.values() for T in by_T})
    return Tuned(least(overall), {T: least({key: by_T[T] for key, by_T in means.items()}) for T in horizons})


def _edges(chosen: dict[str, Any], tried: list[dict[str, Any]]) -> tuple[str, ...]:
    """Which of the chosen parameters are the least or the largest of those that were tried."""
    found = []
    for name, value in chosen.items():
        # The grid of steps may depend on the other parameters.
        alike = [s for s in tried if name != "step" or {**s, "step": None} == {**chosen, "step": None}]
        numbers = {s[name] for s in alike if isinstance(s[name], int | float) and not isinstance(s[name], bool)}
        if len(numbers) > 1 and value in (min(numbers), max(numbers)):
            found.append(f"{name} = {value:.3g}")
    return tuple(found)


def edge_notes(choices: Mapping[str, Tuned], *, once: bool = True) -> list[str]:
    """A line for each family that has a choice at an edge of its grid; `once` says whether those for all T count."""
    notes = []
    for label, found in choices.items():
        at: dict[str, list[str]] = {}
        places = ({"once": found.once} if once else {}) | {f"T = {T:,}": one for T, one in found.each.items()}
        for place, choice in places.items():
            for edge in choice.edges:
                at.setdefault(edge, []).append(place)
        words = [f"{edge} ({'all' if len(where) == len(places) else ', '.join(where)})" for edge, where in at.items()]
        if words:
            notes.append(f"{label}: {'; '.join(words)}")
    return notes


def method_table(parameters: dict[str, Any], comment: str, rounds: int | None = None) -> str:
    """A table [[method]] with these parameters."""
    values = {"name": parameters["method"]} | {k: v for k, v in parameters.items() if k != "method" and v is not None}
    if rounds is not None:
        values["rounds"] = rounds
    return f"\n# {comment}\n[[method]]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def method_tables(choices: Mapping[str, Tuned]) -> str:
    """The tables of all choices, once and at every horizon."""
    text = ""
    for label, found in choices.items():
        text += method_table(found.once.method, f"{label}, tuned once{found.once.at_edges}")
        for T, choice in found.each.items():
            text += method_table(choice.method, f"{label}, tuned at T = {T:,}{choice.at_edges}", rounds=T)
    return text


def tuning_table(file: str, trials: Results, edges: Sequence[str], *, rule: str = LEAST) -> str:
    """A table [tuning]: what the methods above were chosen from, which is kept with their results."""
    grid = [f"{name}: {', '.join(map(shown, values))}" for name, values in trials.parameters.items() if len(values) > 1]
    told: dict[str, Any] = {"file": file, "digest": digest_of(trials), "rule": rule, "runs": len(trials)}
    told |= {"grid": grid, "edges": [*edges]}
    return "\n[tuning]\n" + "".join(f"{name} = {_toml(value)}\n" for name, value in told.items())


def digest_of(trials: Results) -> str:
    """A digest of parameters, outcomes and errors of these runs: equal for equal results."""
    columns = {name: values.tolist() for name, values in trials.table().items() if name != "seconds"}
    return hashlib.sha256(repr(sorted(columns.items())).encode()).hexdigest()[:32]


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + "}"
    return repr(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
