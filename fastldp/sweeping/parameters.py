"""The parameters of settings: the values each takes, as columns of a table, and which of them are wanted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import UnknownNameError

# So many values are listed in an error.
MOST_LISTED = 8


class Parameter(NamedTuple):
    """The values that a parameter takes, and which of them each setting has; −1 is none."""

    values: list[Any]
    numbers: NDArray[np.int64]

    @classmethod
    def of_all(cls, settings: Iterable[dict[str, Any]], count: int) -> dict[str, Parameter]:
        """By name, those of the first setting first."""
        # Settings with the same names are taken together, column by column, for there may be a great many.
        alike: dict[tuple[str, ...], tuple[list[int], list[Any]]] = {}
        for row, setting in enumerate(settings):
            rows, values = alike.setdefault(tuple(setting), ([], []))
            rows.append(row)
            values.append(tuple(setting.values()))
        found: dict[str, Parameter] = {}
        seen: dict[str, dict[Any, int]] = {}
        for names, (rows, values) in alike.items():
            for name, column in zip(names, zip(*values, strict=True), strict=True):
                parameter = found.setdefault(name, cls([], np.full(count, -1)))
                parameter.numbers[rows] = parameter._numbered(column, seen.setdefault(name, {}))
        return found

    def _numbered(self, column: Sequence[Any], seen: dict[Any, int]) -> NDArray[np.int64]:
        """The numbers of some values; those that were not seen yet are added."""
        marks = column
        if not {*map(type, column)}.isdisjoint((bool, list, dict)):  # true is no 1, and lists cannot be looked up
            marks = [(type(v), repr(v)) if isinstance(v, bool | list | dict) else v for v in column]
        for mark, value in dict(zip(marks, column, strict=True)).items():
            if seen.setdefault(mark, len(self.values)) == len(self.values):
                self.values.append(value)
        return np.fromiter(map(seen.__getitem__, marks), np.int64, len(marks))

    def of(self, setting: int) -> Any:
        number = self.numbers[setting]
        return None if number < 0 else self.values[number]

    def column(self) -> NDArray[Any]:
        """Its value in each setting: numbers as numbers, and anything else as objects."""
        there = bool((self.numbers >= 0).all())
        if there and all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values):
            return np.array(self.values)[self.numbers]
        values = np.empty(len(self.values) + 1, dtype=object)
        values[:-1] = self.values
        return values[self.numbers]  # the last of which is None


def flat(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a setting as columns of a table.

    >>> flat({"data": {"synthetic": "a6a", "rows": None}, "method": {"name": "ISRLDP", "step": 0.5}, "rounds": 9})
    {'data': 'synthetic a6a', 'data_rows': None, 'method': 'ISRLDP', 'step': 0.5, 'rounds': 9}
    """
    columns: dict[str, Any] = {}
    for section, values in parameters.items():
        if section == "data":
            columns |= _of_data(values)
        elif section == "problem":
            # A network and its method may both have a threshold: what one lacks hides nothing of the other's.
            columns |= {name: value for name, value in values.items() if value is not None or name not in columns}
            for part in ("loss", "regularizer"):
                if isinstance(inner := values[part], dict):
                    columns[part] = inner["name"]
                    columns |= {f"{part}_{name}": value for name, value in inner.items() if name != "name"}
        elif section == "budget":
            values = values or {"epsilon": None, "delta": None, "accounting": None}
            columns |= {name: value for name, value in values.items() if name != "name"}
        elif section == "method":
            columns["method"] = values["name"]
            columns |= {name: value for name, value in values.items() if name != "name"}
            for part, word in (("prior", "given"), ("clip", "adaptive"), ("sampling", "given")):
                if isinstance(inner := values.get(part), dict):
                    columns |= {f"{part}_{name}": value for name, value in inner.items() if name != "name"}
                    columns[part] = word
        elif section == "record":
            # Runs that were recorded otherwise are other runs, with the same noise.
            kept = [name for name in ("objective", "models") if values.get(name)]
            columns["record"] = " + ".join([str(values["rounds"]), *kept])
        else:
            columns[section] = values
    return columns


def _of_data(values: dict[str, Any]) -> dict[str, Any]:
    way = next(name for name in ("name", "synthetic", "file", "given") if name in values)
    label = values[way] if way != "synthetic" else f"synthetic {values[way]}"
    rest = {f"data_{name}": value for name, value in values.items() if name not in (way, "dense")}
    return {"data": label} | rest


def shown(value: Any) -> str:
    """A value for people; of a long array, which is known by its digest, its length and the digest's beginning.

    >>> shown(0.10), shown({"length": 300, "sha256": "3fa8b2c1d2e3"})
    ('0.1', '300 numbers (3fa8b2c1)')
    """
    if isinstance(value, dict) and value.keys() == {"length", "sha256"}:
        return f"{value['length']:,} numbers ({value['sha256'][:8]})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def refuse_unknown_texts(name: str, wanted: Any, values: Sequence[Any]) -> None:
    """Raise where a parameter never has a text that is wanted: it is misspelt, or of another file."""
    for one in wanted if isinstance(wanted, list | tuple | set) else [wanted]:
        if isinstance(one, str) and one not in values:
            there = ", ".join(repr(value) for value in values[:MOST_LISTED]) + ", ..." * (len(values) > MOST_LISTED)
            near = difflib.get_close_matches(one, [value for value in values if isinstance(value, str)], n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise UnknownNameError(name, one, f"no run of the file has it; there are {there}{hint}")


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value is the wanted one, one of several, or one that a function says yes to."""
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, list | tuple | set | range | np.ndarray) and not isinstance(value, list):
        return any(matches(value, one) for one in wanted)
    return bool(np.array_equal(value, wanted)) if isinstance(value, list) else value == wanted
