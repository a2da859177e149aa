"""What a sweep is given, as grids and lists: things alone, lists of them, dicts by name, all checked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastldp.describing import canonical
from fastldp.engine.recording import Every, Final
from fastldp.errors import ArgumentError
from fastldp.grids import Argument, Grid, axis_of, made
from fastldp.losses import NAMES as LOSS_NAMES
from fastldp.losses import Loss
from fastldp.methods import Method
from fastldp.privacy.budget import Budget
from fastldp.regularizers import Regularizer
from fastldp.solve import MOST_ROUNDS
from fastldp.sweeping.keys import KINDS, TUNING_KEYS
from fastldp.sweeping.making import LOSSES, PARTS, REGULARIZERS, part
from fastldp.sweeping.setting import FROM_OS, Rounds
from fastldp.sweeping.sources import Data
from fastldp.validation import integer, known_name

# What problems are called in a specification, by their class.
KIND_OF = {kind.made: name for name, kind in KINDS.items()}
ROUNDS = f"give a whole number from 1 to {MOST_ROUNDS:,}, a list or a range of them"


def of_type(argument: str, value: Any, kind: Any, remedy: str) -> Any:
    """A value of the type that it must have."""
    if not isinstance(value, kind):
        raise ArgumentError(argument, value, remedy)
    return value


def _listed(value: Any) -> list[Any]:
    """A thing or several; a grid is one."""
    return [*value] if isinstance(value, Iterable) and not isinstance(value, Grid | str | Mapping) else [value]


def _placed(argument: str, value: Any) -> Iterator[Any]:
    """Each of several things; grids among them know where they were written."""
    for k, one in enumerate(_listed(value)):
        yield _at(f"{argument}[{k}]", one) if isinstance(one, Grid) and one.place is None else one


def _at(name: str, grid: Grid) -> Grid:
    return grid.said(Argument(name, grid.axes), grid.label)


def _without_none(grid: Grid) -> list[Grid]:
    """None leaves a parameter out, which a list cannot say in a text: such grids are several."""
    for name, axis in grid.axes.items():
        if any(value is None for value in axis):
            others = [value for value in axis if value is not None]
            left = _without_none(grid.replace(**{name: None}))
            return [*left, *_without_none(grid.replace(**{name: others}))] if others else left
    return [grid]


def given_by_name(*arguments: Any) -> dict[str, Any]:
    """What is given in dicts, with its names checked."""
    found: dict[str, Any] = {}
    for name, thing in (
        item for value in arguments for one in _listed(value) if isinstance(one, Mapping) for item in one.items()
    ):
        if not isinstance(name, str) or not name:
            raise ArgumentError("given", name, "give each a name that is a text")
        if found.setdefault(name, thing) is not thing:
            raise ArgumentError("given", name, "two things have this name; give each its own")
    return found


def budget_grids(budgets: Any) -> Iterator[Grid]:
    """Of budgets, and grids of them."""
    for k, one in enumerate([] if budgets is None else _placed("budgets", budgets)):
        if isinstance(one, Budget):
            yield _at(f"budgets[{k}]", Grid.of(one))
            continue
        if not isinstance(one, Grid) or one.kinds != (Budget,):
            raise ArgumentError("budgets", one, "give Budget(epsilon, delta), grid(Budget, epsilon=[...]), or a list")
        for key in ("epsilon", "delta"):
            if key not in one.axes:
                one.at.refuse(key, "a budget needs it; leave budgets out to run without noise")
        for choice in one.choices:
            if choice.refusal is not None:
                with one.at.blame():
                    raise choice.refusal
        yield one


def method_grids(methods: Any, argument: str = "methods") -> Iterator[Grid]:
    """Of methods, grids of them, and dicts of both by what they are."""
    if isinstance(methods, Mapping):
        for label, one in methods.items():
            found = method_grids(one, f"{argument}[{label!r}]")
            yield from (grid.said(grid.place, str(label)) for grid in found)
        return
    several = [*_placed(argument, methods)]
    if not several:
        raise ArgumentError(argument, methods, "there is nothing to run")
    for k, one in enumerate(several):
        if isinstance(one, Method):
            yield _at(f"{argument}[{k}]", Grid.of(one))
        elif isinstance(one, Grid) and all(issubclass(kind, Method) for kind in one.kinds):
            yield from map(_of_methods, _without_none(one))
        else:
            raise ArgumentError(argument, one, "give methods such as ISRLDP(step=0.5), or grid(ISRLDP, step=[...])")


def _of_methods(grid: Grid) -> Grid:
    """A grid of methods whose parts are made, and whose horizons are numbers."""
    with grid.at.blame("name"):
        if grid.rounds is not None:
            horizons_of(grid.rounds)
    changes = {}
    for name, kind in PARTS.items():
        axis = grid.axes.get(name, ())
        if any(isinstance(value, dict) for value in axis):
            with _of_part(grid, name):
                changes[name] = [made(kind, value) if isinstance(value, dict) else value for value in axis]
    found = grid.replace(**changes) if changes else grid
    return found.checked()


@contextmanager
def _of_part(grid: Grid, name: str) -> Iterator[None]:
    """An error inside is of a parameter of this parameter."""
    with grid.at.blame(name):
        try:
            yield
        except ArgumentError as error:
            raise error if error.argument == name else error.said_of(f"{name}.{error.argument}") from None


def data_grids(data: Any) -> Iterator[Grid]:
    """Of names of sets, of data, and of dicts of arrays."""
    for k, one in enumerate([] if data is None else _placed("data", data)):
        if isinstance(one, Mapping):
            yield _at(f"data[{k}]", Grid(Data, {"given": [*one]}))
        elif isinstance(one, str | Data):
            yield _at(f"data[{k}]", Grid.of(Data(one) if isinstance(one, str) else one))
        elif isinstance(one, Grid) and one.kinds == (Data,):
            yield from _without_none(one)
        elif isinstance(one, Mapping):
            raise ArgumentError(
                "data", one, "give one dict of arrays by name, or name them in a list and in given={...}"
            )
        else:
            raise ArgumentError("data", one, "give the name of a set, sweeping.Data(...), or {'mine': (A, b)}")


def problem_grids(problems: Any) -> Iterator[Grid]:
    """Of problems by name, and of grids of those that are to be made."""
    remedy = "give {'mine': problem}, grid(Problem, workers=20, l2=[...]) to make some of the data, or a list"
    if isinstance(problems, Mapping):
        for name, problem in problems.items():
            kind = next((kind for kind in KIND_OF if isinstance(problem, kind)), None)
            if kind is None:
                raise ArgumentError("problems", problem, remedy)
            yield _at(f"problems[{name!r}]", Grid(kind, {"given": name}))
        return
    several = [*_placed("problems", problems)]
    if not several:
        raise ArgumentError("problems", problems, remedy)
    for one in several:
        if isinstance(one, Mapping):
            yield from problem_grids(one)
        elif not isinstance(one, Grid) or len(one.kinds) > 1 or one.kinds[0] not in KIND_OF:
            raise ArgumentError("problems", one, remedy)
        else:
            yield from map(_of_problems, _without_none(one))


def _of_problems(grid: Grid) -> Grid:
    """A grid of problems with keys that are known, and whose parts are made."""
    known = KINDS[KIND_OF[grid.kinds[0]]].keys
    for key in grid.axes:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            grid.at.refuse(key, f"not a known key; {hint}known are {', '.join(known)}")
    if "workers" not in grid.axes and "given" not in grid.axes:
        grid.at.refuse("workers", "say how many workers share the rows")
    changes = {}
    with _of_part(grid, "regularizer"):
        if "regularizer" in grid.axes:
            axis = grid.axes["regularizer"]
            changes["regularizer"] = [part("regularizer", one, REGULARIZERS, Regularizer, "BoxL1") for one in axis]
    with _of_part(grid, "loss"):
        if any(not _is_name(one) for one in grid.axes.get("loss", ())):
            axis = grid.axes["loss"]
            changes["loss"] = [one if _is_name(one) else part("loss", one, LOSSES, Loss, "logistic") for one in axis]
    return grid.replace(**changes) if changes else grid


def _is_name(loss: Any) -> bool:
    return isinstance(loss, str) and loss in LOSS_NAMES


def horizons_of(rounds: Any) -> tuple[int, ...]:
    return tuple(integer("rounds", T, ROUNDS, at_least=1, at_most=MOST_ROUNDS) for T in axis_of("rounds", rounds))


def seeds_of(seed: Any, common: bool) -> tuple[Any, ...]:
    remedy = f'give a whole number from 0 to 2**63 − 1, or "{FROM_OS}" for keys that nobody knows'
    seeds = axis_of("seed", seed)
    if common and FROM_OS in seeds:
        raise ArgumentError("common_noise", common, f'noise in common needs seeds, and seed = "{FROM_OS}" has none')
    return tuple(s if s == FROM_OS else integer("seed", s, remedy, at_least=0, at_most=2**63 - 1) for s in seeds)


def record_of(record: Any) -> Every | Final | Rounds | None:
    if record is None or isinstance(record, Every | Final | Rounds):
        return record
    values = axis_of("record", record)
    try:
        return Rounds.checked(values, [*values] if isinstance(record, Iterable) else record)
    except ArgumentError:
        raise ArgumentError("record", record, "give Every(k), Final(), or a list of rounds from 1 on") from None


def tuning_of(tuning: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(tuning, Mapping):
        raise ArgumentError("tuning", tuning, f"give a dict of {', '.join(TUNING_KEYS)}")
    for name in tuning:
        known_name("tuning", name, TUNING_KEYS)
    try:
        canonical(dict(tuning))
    except (TypeError, ValueError):
        raise ArgumentError("tuning", tuning, "give texts, numbers and lists of them") from None
    return dict(tuning)
