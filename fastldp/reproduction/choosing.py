"""From a tuning sweep to the parameters a method is reported with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from fastldp.sweeping import Grid, Results
from fastldp.sweeping.parameters import shown
from fastldp.sweeping.trials import grid_of, trials_of
from fastldp.tuning import Tuned

# Tuned beside the method's own parameters, where a sweep varies it: the norm that gradients are clipped to.
OF_PROBLEM = ("gradient_bound",)

# By what rules choices are made.
LEAST = "the least mean error, at each horizon and over all (geometric mean), on noise that is not reported"
MOST_RIGHT = "the highest accuracy on images held out of the training set"


def tuned(tuning: Results, *, measure: str = "optimality", also: Sequence[str] = OF_PROBLEM, **family: Any) -> Tuned:
    """The best parameters of a family of settings that a sweep tried at the same horizons.

    They are the method's, and those `also` of its problem. Of accuracies the error is the share of wrong answers.
    """
    return Tuned(tuple(trials_of(tuning.where(**family), by=measure, also=also)))


def edge_notes(choices: Mapping[str, Tuned], *, once: bool = True) -> list[str]:
    """A line for each family that has a choice at an edge of its grid; `once` says whether those for all T count."""
    notes = []
    for label, found in choices.items():
        at: dict[str, list[str]] = {}
        places = ({"once": found.once} if once else {}) | {f"T = {T:,}": one for T, one in found.each.items()}
        for place, choice in places.items():
            for edge in choice.edges:
                at.setdefault(edge.short, []).append(place)
        words = [f"{edge} ({'all' if len(where) == len(places) else ', '.join(where)})" for edge, where in at.items()]
        if words:
            notes.append(f"{label}: {'; '.join(words)}")
    return notes


def methods_of(choices: Mapping[str, Tuned]) -> list[Grid]:
    """All choices, once and at every horizon."""
    found = []
    for label, one in choices.items():
        found.append(grid_of(one.once.method, f"{label}, tuned once{one.once.at_edges}"))
        for T, choice in one.each.items():
            found.append(grid_of(choice.method, f"{label}, tuned at T = {T:,}{choice.at_edges}", T))
    return found


def told_of(file: str, trials: Results, edges: Sequence[str], *, rule: str = LEAST) -> dict[str, Any]:
    """What the methods of a sweep were chosen from, which is kept with its results."""
    varied = {name: sorted(values, key=_in_order) for name, values in trials.parameters.items() if len(values) > 1}
    grid = [f"{name}: {', '.join(map(shown, values))}" for name, values in varied.items()]
    told: dict[str, Any] = {"file": file, "digest": digest_of(trials), "rule": rule, "runs": len(trials)}
    return told | {"grid": grid, "edges": [*edges]}


def _in_order(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, and before all else, however a file has them."""
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, shown(value)


def digest_of(trials: Results) -> str:
    """A digest of parameters, outcomes and errors of these runs: equal for equal results."""
    columns = {name: values.tolist() for name, values in trials.table().items() if name != "seconds"}
    return hashlib.sha256(repr(sorted(columns.items())).encode()).hexdigest()[:32]
