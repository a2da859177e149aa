"""Grids: every combination of lists of parameters, as a tuner tries them and a sweep runs them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Protocol, overload

import numpy as np

from fastldp.describing import described, plain, section
from fastldp.errors import ArgumentError, shown
from fastldp.extending import name_of

# Of one grid; each takes some memory before anything runs.
MOST_CHOICES = 1_000_000


class Place(Protocol):
    """Where something was written, which its errors are to name: a table of a file, or an argument in Python."""

    @property
    def values(self) -> Mapping[str, Any]: ...

    def refuse(self, key: str, remedy: str) -> NoReturn: ...

    def blame(self, *also: str) -> AbstractContextManager[None]: ...


@dataclass(frozen=True)
class Argument:
    """A place in Python: an argument, or one of several that it has."""

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def refuse(self, key: str, remedy: str) -> NoReturn:
        name = f"{self.name}, {key}" if key and self.name else self.name or key
        raise ArgumentError(name, self.values.get(key), remedy)

    @contextmanager
    def blame(self, *also: str) -> Iterator[None]:
        """An error inside is of an argument of this one."""
        try:
            yield
        except ArgumentError as error:
            if not self.name or error.argument.startswith(self.name):
                raise
            raise error.said_of(f"{self.name}, {error.argument}") from None


class Choice(NamedTuple):
    """One combination: what was made of it, or why it cannot be."""

    thing: Any
    """Where it cannot be, a sketch, which is good for nothing but to be written down."""
    refusal: ArgumentError | None = None


class Grid(Sequence[Any]):
    """Every combination of lists of parameters, of one kind of thing or of several.

    As a sequence it is what was made of them, but for those whose parameters refuse each other: they are `refused`.

    Parameters
    ----------
    kind : type or tuple of types
        Of what, as `ISRLDP`.
    values : dict
        Of each parameter a list of values to try, or one. A list inside a list is one value that is an array.
    rounds : int or list of int, optional
        Horizons of its own.
    label : str
        What it is, for people.
    place : object, optional
        Where it was written; it is left to readers of files.

    Examples
    --------
    >>> from fastldp import ISRLDP
    >>> found = Grid(ISRLDP, {"step": [0.1, 1.0], "accelerated": True})
    >>> len(found), found[1].step
    (2, 1.0)
    """

    def __init__(
        self,
        kind: type[Any] | Sequence[type[Any]],
        values: Mapping[str, Any],
        *,
        rounds: int | Sequence[int] | None = None,
        label: str = "",
        place: Place | None = None,
    ) -> None:
        self.kinds: tuple[Any, ...] = (kind,) if isinstance(kind, type) else tuple(kind)
        self.axes: dict[str, tuple[Any, ...]] = {name: axis_of(name, value) for name, value in values.items()}
        self.rounds: tuple[int, ...] | None = None if rounds is None else axis_of("rounds", rounds)
        self.label = label
        self.place = place
        if not self.kinds or not all(isinstance(one, type) for one in self.kinds):
            raise ArgumentError("kind", kind, "give a class, such as ISRLDP, or a list of them")

    @classmethod
    def of(cls, thing: Any) -> Grid:
        """The grid of a single thing that was made already."""
        if not is_dataclass(thing):
            raise ArgumentError("kind", thing, "its class is no dataclass, so nobody can tell its parameters")
        given = {own.name: getattr(thing, own.name) for own in fields(thing) if own.init}
        kept = {name: value for name, value in given.items() if not is_default(type(thing), name, value)}
        grid = cls(type(thing), {})
        grid.axes = {name: (value,) for name, value in kept.items()}
        grid.__dict__["choices"] = (Choice(thing),)  # what was made is used as it is
        return grid

    def replace(self, **values: Any) -> Grid:
        """The same with other values of some parameters; None leaves a parameter out.

        Parameters
        ----------
        **values : list or value
            Of each parameter, all to be tried, or one.

        Returns
        -------
        Grid
            A new one.
        """
        axes = {**self.axes, **{name: axis_of(name, value) for name, value in values.items()}}
        other = self.said(self.place, self.label)
        other.axes = {name: axis for name, axis in axes.items() if not (len(axis) == 1 and axis[0] is None)}
        other.__dict__.pop("choices", None)
        return other

    def said(self, place: Place | None, label: str) -> Grid:
        """The same, written elsewhere, or under another label."""
        other = Grid(self.kinds, {}, label=label, place=place)
        other.axes, other.rounds = self.axes, self.rounds
        if "choices" in self.__dict__:
            other.__dict__["choices"] = self.choices
        return other

    def combinations(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Kinds and values, one combination after the other."""
        count = len(self.kinds) * math.prod(map(len, self.axes.values()))
        if count > MOST_CHOICES:
            remedy = f"its lists combine to {count:,} choices, more than {MOST_CHOICES:,}; write several sweeps"
            self.at.refuse("", remedy)
        for kind, *values in itertools.product(self.kinds, *self.axes.values()):
            yield kind, dict(zip(self.axes, values, strict=True))

    def checked(self) -> Grid:
        """The same, with everything made: what is wrong with it is said now."""
        assert self.choices  # or it had been refused
        return self

    @property
    def at(self) -> Place:
        """Where it was written."""
        return Argument("", self.axes) if self.place is None else self.place

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """What is made of each combination, or why nothing is."""
        found = tuple(self._made(kind, values) for kind, values in self.combinations())
        refusals = [choice.refusal for choice in found if choice.refusal is not None]
        if len(refusals) == len(found):  # the grid is wrong, and not how its values combine
            with self.at.blame("name"):
                raise refusals[0]
        return found

    def _made(self, kind: Any, values: dict[str, Any]) -> Choice:
        with self.at.blame("name"):
            try:
                return Choice(made(kind, values))
            except ArgumentError as error:
                sketch = sketched(kind, values)
                if sketch is None or not _can_be_written(sketch):
                    raise
                return Choice(sketch, error)

    @property
    def refused(self) -> list[Choice]:
        """Combinations whose parameters refuse each other."""
        return [choice for choice in self.choices if choice.refusal is not None]

    @cached_property
    def _things(self) -> list[Any]:
        return [choice.thing for choice in self.choices if choice.refusal is None]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._things[index]

    def __len__(self) -> int:
        return len(self._things)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={_listed(axis)}" for name, axis in self.axes.items())
        own = "" if self.rounds is None else f", rounds={_listed(self.rounds)}"
        return f"Grid({' | '.join(kind.__name__ for kind in self.kinds)}: {values}{own})"

    @cached_property
    def text(self) -> str:
        """One text for equal grids."""
        axes = {name: [written_down(value) for value in axis] for name, axis in self.axes.items()}
        own = None if self.rounds is None else [*self.rounds]
        return section([[name_of(kind) for kind in self.kinds], axes, own, self.label])

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Grid) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def grid(kind: type[Any] | Sequence[type[Any]], **values: Any) -> Grid:
    """Every combination of the values given, as instances of a method; what is not a list is the same in all.

    Parameters
    ----------
    kind : type or tuple of types
        The class of the method, as `ISRLDP`, or several that have all of these parameters.
    **values : list or value
        Of each parameter, all to be tried, or one. A list inside a list is one value that is an array. In a sweep
        `rounds` are horizons of these methods alone, and `label` says what they are, for people.

    Returns
    -------
    sweeping.Grid
        The methods, in the order of the lists; a sequence. Combinations that refuse each other are left out of it,
        and stand in its attribute `refused`.

    Examples
    --------
    >>> from fastldp import ISRLDP
    >>> grid(ISRLDP, step=[0.1, 1.0], clip=[0.5, None], tail_average=5)[1]
    ISRLDP(step=0.1, clip=None, accelerated=False, tail_average=5, prior=None)
    """
    kinds = (kind,) if isinstance(kind, type) else tuple(kind)
    apart = {name: values.pop(name) for name in ("rounds", "label") if name in values and not _have(kinds, name)}
    found = Grid(kinds, values, **apart)
    # What has no parameters to see is made by a sweep, of its data.
    return found.checked() if all(map(is_dataclass, kinds)) else found


def axis_of(name: str, value: Any) -> tuple[Any, ...]:
    """The values that a parameter takes; a list inside a list is one of them, an array.

    >>> axis_of("step", [0.1, 0.2]), axis_of("step", 0.1)
    ((0.1, 0.2), (0.1,))
    """
    several = [*value] if isinstance(value, list | tuple | range | np.ndarray) else [value]
    if not several:
        raise ArgumentError(name, value, "an empty list leaves nothing to run")
    return tuple(_one(name, item) for item in several)


def _one(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        try:
            value = np.array(value)
        except ValueError:
            value = np.array(None)
        if value.dtype.kind not in "iuf" and value.size:
            raise ArgumentError(name, value, "a list inside a list is an array of numbers")
        return value
    return value.item() if isinstance(value, np.generic) else value


def _have(kinds: Sequence[Any], name: str) -> bool:
    return any(name in parameters_of(kind) for kind in kinds)


def parameters_of(kind: Any) -> list[str]:
    """The names of all parameters."""
    return [own.name for own in fields(kind)] if is_dataclass(kind) else []


def defaults_of(kind: Any) -> dict[str, Any]:
    """The parameters that may be left out, with what they then are."""
    found = {}
    for own in fields(kind) if is_dataclass(kind) else ():
        if own.default is not MISSING:
            found[own.name] = own.default
        elif own.default_factory is not MISSING:
            found[own.name] = own.default_factory()
    return found


def is_default(kind: Any, name: str, value: Any) -> bool:
    """Whether a parameter is what it is where nobody gives it."""
    defaults = defaults_of(kind)
    if name not in defaults:
        return False
    default = defaults[name]
    return value is default or (type(value) is type(default) and written_down(value) == written_down(default))


def written_down(value: Any) -> Any:
    """A parameter in plain values, an array as its list however long it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(value)
    if isinstance(value, np.ndarray | list | tuple):
        return ["array", *np.asarray(value, dtype=np.float64).ravel().tolist(), *np.shape(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {name: written_down(item) for name, item in value.items()} if isinstance(value, dict) else repr(value)


def _can_be_written(thing: Any) -> bool:
    """Of a sketch, whose values nobody has checked."""
    try:
        return bool(section(described(thing)))
    except (TypeError, ValueError):  # a date, or an infinite number
        return False


def _listed(axis: Sequence[Any], most: int = 6) -> str:
    if len(axis) == 1:
        return shown(axis[0])
    return f"[{', '.join(map(shown, axis[:most]))}{', ...' * (len(axis) > most)}]"


def sketched(kind: Any, values: Mapping[str, Any]) -> Any:
    """What its own checks refused to make, for nothing but to be written down; None where parameters are not its own.

    >>> from fastldp import ISRLDP
    >>> sketched(ISRLDP, {"step": "planned", "accelerated": True}).accelerated
    True
    """
    if not is_dataclass(kind) or not values.keys() <= {*parameters_of(kind)}:
        return None
    defaults = defaults_of(kind)
    if {*parameters_of(kind)} - values.keys() - defaults.keys():
        return None
    of_kind: Any = kind
    sketch = object.__new__(of_kind)
    for name, value in {**defaults, **values}.items():
        object.__setattr__(sketch, name, value)
    return sketch


def made(kind: Any, values: Mapping[str, Any]) -> Any:
    """An instance of a kind; parameters that it has not, or that are missing, are named with those it has.

    >>> from fastldp import Box
    >>> made(Box, {"bound": 1.0})
    Box(bound=1.0)
    """
    known = parameters_of(kind)
    for name, value in values.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ArgumentError(name, value, f"{kind.__name__} has no such parameter; {has}")
    defaults = defaults_of(kind)
    needed = [name for name in known if name not in defaults]
    missing = [name for name in needed if name not in values]
    if missing:
        others = [name for name in known if name not in needed]
        optional = f"; it may have {', '.join(others)}" if others else ""
        raise ArgumentError(missing[0], None, f"not given; {kind.__name__} needs {' and '.join(missing)}{optional}")
    return kind(**values)
