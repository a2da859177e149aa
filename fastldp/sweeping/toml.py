"""Specifications as TOML: the arguments of a sweep from a document, and the text of a sweep.

The keys of each table are documented in `fastldp/sweeping/SPEC.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fastldp.engine.recording import Every, Final
from fastldp.errors import ArgumentError, SpecError
from fastldp.extending import found, name_of
from fastldp.grids import Grid, is_default, parameters_of
from fastldp.losses import Loss
from fastldp.methods import Method
from fastldp.privacy.budget import Budget
from fastldp.regularizers import Regularizer
from fastldp.sweeping.document import Document, Table
from fastldp.sweeping.keys import (
    BUDGET_KEYS,
    KINDS,
    NOISE_KEYS,
    RECORD_KEYS,
    ROOT_KEYS,
    TUNING_KEYS,
    method_keys,
)
from fastldp.sweeping.making import METHODS, PARTS, kind_of
from fastldp.sweeping.setting import Rounds
from fastldp.sweeping.sources import Data
from fastldp.topology import Graph

if TYPE_CHECKING:
    from fastldp.sweeping.specification import Sweep

DATA_KEYS = tuple(parameters_of(Data))
# Where an argument of a sweep stands in a document, if it is not called the same there.
PATHS = {name: ("noise", name.removesuffix("_noise")) for name in ("common_noise",)}
PATHS |= {name: ("record", name) for name in ("objective", "models")}
# Classes from outside are found again by name; of which base they are is looked at.
BASES = (Method, Regularizer, Loss)


# From a document.


@contextmanager
def blamed(document: Document) -> Iterator[None]:
    """What a sweep says of its arguments belongs to the document's keys."""
    try:
        yield
    except SpecError:
        raise
    except ArgumentError as error:
        path = PATHS.get(error.argument, (error.argument,))
        known = path[0] in document.values
        document.refuse(path if known else (), str(error))


def arguments(document: Document, changes: Mapping[str, Any], *, synthetic: bool = False) -> dict[str, Any]:
    """The arguments of the sweep that a document describes, or others; its grids know their tables."""
    root = document.root()
    root.know(ROOT_KEYS)
    _know_quick(document)
    names = [name for name in KINDS if name in document.values] or ["problem"]
    noise = document.only_table("noise", "have their noise")
    noise.know(NOISE_KEYS)
    given: dict[str, Any] = {name: root.values[name] for name in ("title", "repetitions") if name in root.values}
    given |= {name: root.axis(name) for name in ("rounds", "seed") if name in root.values}
    given["common_noise"] = noise.flag("common", default=False)
    given["tuning"] = document.only_table("tuning", "are tuned").values
    given["budgets"] = [Grid(Budget, table.axes(BUDGET_KEYS), place=table) for table in document.tables("budget")]
    if "budget" in document.values and not given["budgets"]:
        _refuse_missing(document, "budget")
    given["methods"] = [_methods(table) for table in document.tables("method")]
    if not given["methods"] and "methods" not in changes:
        document.refuse((), "there is no table [[method]]; see fastldp sweep --help for an example")
    given["problems"] = [
        Grid(KINDS[name].made, table.axes(KINDS[name].keys), place=table)
        for name in names
        for table in document.tables(name)
    ]
    if not given["problems"] and "problems" not in changes:
        _refuse_missing(document, names[0])
    given["data"] = [_data(table, synthetic) for table in document.tables("data")]
    if not given["data"] and not all("given" in one.axes for one in given["problems"]) and "data" not in changes:
        _refuse_missing(document, "data")
    return given | _record(document.only_table("record", "are recorded")) | dict(changes)


def _refuse_missing(document: Document, name: str) -> NoReturn:
    document.refuse((), f"there is no table [{name}]; see fastldp sweep --help for an example")


def _methods(table: Table) -> Grid:
    kinds = _kinds(table)
    axes = table.axes(method_keys(kinds.values()))
    axes.pop("name", None)
    rounds, label = axes.pop("rounds", None), ""
    if not any("label" in parameters_of(kind) for kind in kinds.values()):
        axes.pop("label", None)
        label = table.values.get("label", "")
    if not isinstance(label, str):
        table.refuse("label", "give a text")
    with table.blame("rounds"):
        return Grid([*kinds.values()], axes, rounds=rounds, label=label, place=table)


def _kinds(table: Table) -> dict[str, Any]:
    """The methods that a table names."""
    name = table.values.get("name", "PrimalDual")
    with table.blame():
        names = name if isinstance(name, list) else [name]
        return {str(one): kind_of("name", one, METHODS, Method) for one in names}


def _data(table: Table, synthetic: bool) -> Grid:
    axes = table.axes(DATA_KEYS)
    if synthetic and "name" in axes:
        axes = {"synthetic" if key == "name" else key: values for key, values in axes.items()}
    return Grid(Data, axes, place=table)


def _record(table: Table) -> dict[str, Any]:
    values = table.values
    if "messages" in values:
        table.refuse("messages", "a sweep does not keep messages; solve(record=Messages(worker)) does")
    table.know(RECORD_KEYS)
    kept: dict[str, Any] = {"models": table.flag("models", default=False)}
    if "objective" in values:
        kept["objective"] = table.flag("objective", default=False)
    ways = [key for key in ("every", "rounds") if key in values and values[key] is not False]
    ways += ["final"] if table.flag("final", default=False) else []
    if len(ways) > 1:
        table.refuse(ways[1], f"{ways[0]} says already which rounds to record")
    with table.blame("every", "rounds"):
        if ways == ["every"]:
            kept["record"] = Every(values["every"])
        elif ways == ["final"]:
            kept["record"] = Final()
        elif ways == ["rounds"]:
            kept["record"] = Rounds.checked(table.axis("rounds"), values["rounds"])
    return kept


def _know_quick(document: Document) -> None:
    """Refuse what [quick] must not have, now and not only on the day when it is used."""
    quick = Table(document, ("quick",), document.small)
    quick.know(ROOT_KEYS)
    own = [kind for table in document.tables("method") for kind in _kinds(table).values()]
    known = {name: kind.keys for name, kind in KINDS.items()} | {
        "data": DATA_KEYS,
        "budget": BUDGET_KEYS,
        "method": method_keys((*METHODS.values(), *own)),
        "record": RECORD_KEYS,
        "noise": NOISE_KEYS,
        "tuning": TUNING_KEYS,
    }
    for name in quick.values.keys() & known.keys():
        several = quick.values[name]
        for k, values in enumerate(several if isinstance(several, list) else [several]):
            path = ("quick", name, k) if isinstance(several, list) else ("quick", name)
            if isinstance(values, dict):
                Table(document, path, values).know(known[name])


# To a text.


def text_of(sweep: Sweep) -> str:
    """A document that a sweep is read from again."""
    lines = [f"title = {_value('title', sweep.title)}"] if sweep.title else []
    lines += [f"rounds = {_axis('rounds', sweep.rounds)}"] if sweep.rounds else []
    lines += [f"repetitions = {sweep.repetitions}", f"seed = {_axis('seed', sweep.seed)}"]
    if sweep.common_noise:
        lines += ["", "[noise]", "common = true"]
    lines += _tables("data", sweep.data)
    for name, kind in KINDS.items():
        lines += _tables(name, [one for one in sweep.problems if one.kinds == (kind.made,)])
    lines += _tables("budget", sweep.budgets)
    record = _recorded(sweep)
    lines += ["", "[record]", *record] if record else []
    for one in sweep.methods:
        names = [_name(kind) for kind in one.kinds]
        own = {} if one.rounds is None else {"rounds": one.rounds}
        label = {"label": (one.label,)} if one.label else {}
        lines += ["", "[[method]]", *_lines({"name": names, **label, **one.axes, **own})]
    if sweep.tuning:
        lines += ["", "[tuning]", *(f"{name} = {_value(name, value)}" for name, value in sweep.tuning.items())]
    return "\n".join(lines) + "\n"


def _tables(name: str, grids: Sequence[Grid]) -> list[str]:
    header = f"[{name}]" if len(grids) == 1 else f"[[{name}]]"
    return [line for one in grids for line in ("", header, *_lines(one.axes))]


def _lines(axes: Mapping[str, Sequence[Any]]) -> list[str]:
    return [f"{_key(name)} = {_axis(name, axis)}" for name, axis in axes.items()]


def _recorded(sweep: Sweep) -> list[str]:
    record = sweep.record
    lines = []
    if isinstance(record, Every):
        lines.append(f"every = {record.k}")
    elif isinstance(record, Final):
        lines.append("final = true")
    elif record is not None:
        lines.append(f"rounds = {_value('record', record.written)}")
    if sweep.objective is not None:
        lines.append(f"objective = {_value('objective', sweep.objective)}")
    return [*lines, "models = true"] if sweep.models else lines


def _axis(name: str, axis: Sequence[Any]) -> str:
    """The values of a key: one alone, or a list of them; an array is a list inside a list."""
    values = [_value(name, value) for value in axis]
    return values[0] if len(values) == 1 and not isinstance(axis[0], np.ndarray) else f"[{', '.join(values)}]"


def _value(name: str, value: Any) -> str:
    if isinstance(value, np.ndarray | list | tuple):
        return (
            f"[{', '.join(_value(name, one) for one in (value.tolist() if isinstance(value, np.ndarray) else value))}]"
        )
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(name, item)}' for key, item in value.items())}}}"
    if isinstance(value, Graph) and value.given is None:
        return _value(name, value.plain)
    if is_dataclass(value) and not isinstance(value, type | Graph):
        return _object(name, value)
    raise ArgumentError(name, value, "TOML has no such value, so the sweep cannot be written as a text")


def _object(name: str, value: Any) -> str:
    """A part of a problem or a method: its name, unless the key says it, and what is not its default."""
    kind = type(value)
    axes = {
        key: (own,) for key in parameters_of(kind) if not is_default(kind, key, own := _of_list(getattr(value, key)))
    }
    named = {} if kind in PARTS.values() else {"name": (_name(kind),)}
    if named and not axes:
        return _text(named["name"][0])
    return f"{{{', '.join(_lines(named | axes))}}}"


def _of_list(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list | tuple) else value


def _name(kind: Any) -> str:
    """The name by which a class is found again."""
    name = name_of(kind)
    if ":" in name:
        base = next(base for base in BASES if issubclass(kind, base))
        if kind.__module__ == "__main__" or "<locals>" in name or found("name", name, base) is not kind:
            raise ArgumentError("name", name, "nobody else can import it: put the class into a module on Python's path")
    return name


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _text(name)


def _text(value: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else _escaped(c) for c in value)
    return f'"{escaped}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xD800 <= code < 0xE000:
        raise ArgumentError("text", character, "half of a pair of surrogates has no text; leave it out")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
