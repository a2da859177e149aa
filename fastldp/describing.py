"""Things in plain values: a method, a regularizer or a budget by its name and fields, and one text for equal ones."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fastldp.extending import code_of, name_of
from fastldp.kernels.formulas import is_ours
from fastldp.topology import Graph

# Parameters that came later: left out where they are not given, so that runs made before are known again.
LATER = ("prior", "lower", "upper", "PrimalDual.clip", "topology", "failures", "sampling")
# Longer arrays are known by their digest.
LONGEST_LIST = 64


def described(thing: Any) -> dict[str, Any]:
    """A method, loss, regularizer or budget by its name and fields, in plain values; from outside, by its code too."""
    own = fields(thing) if is_dataclass(thing) else ()
    values = {field.name: plain(getattr(thing, field.name)) for field in own}
    later = [name for name in values if {name, f"{type(thing).__name__}.{name}"} & {*LATER}]
    kept = {name: value for name, value in values.items() if value is not None or name not in later}
    code = {} if is_ours(type(thing)) else {"code": code_of(type(thing))}
    return {"name": name_of(type(thing)), **kept, **code}


def plain(value: Any) -> Any:
    """Arrays as lists, or by their digest where they are long; what has fields by those."""
    if isinstance(value, Graph):
        return value.plain
    if is_dataclass(value):
        return described(value)
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value, dtype=np.float64)
        if array.size <= LONGEST_LIST:
            return array.tolist()
        return {"length": array.size, "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
    return value.item() if isinstance(value, np.generic) else value


def section(values: Any) -> str:
    """The canonical text of a part of the parameters, in which 1.0 is 1, and a number that JSON lacks is a word.

    >>> section({"bound": float("inf"), "weight": 1.0})
    '{"bound":"inf","weight":1}'
    """
    return canonical(_counted(values))


def canonical(parameters: Any) -> str:
    """One text for equal parameters."""
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _counted(value: Any) -> Any:
    """1.0 as 1, for a specification may have either; and what is not finite by its name."""
    if isinstance(value, dict):
        return {key: _counted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_counted(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value
