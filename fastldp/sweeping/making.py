"""Methods, losses, regularizers and priors from a name and values, as specifications and commands write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from fastldp import losses, methods, regularizers
from fastldp.errors import ArgumentError
from fastldp.extending import found
from fastldp.problems.prior import Prior
from fastldp.validation import known_name

METHODS = {kind.__name__: kind for kind in methods.METHODS}
LOSSES = losses.NAMES | {kind.__name__: kind for kind in (losses.Huber, losses.SmoothedHinge)}
REGULARIZERS = {
    kind.__name__: kind
    for kind in (
        regularizers.Zero,
        regularizers.BoxL1,
        regularizers.Box,
        regularizers.L1,
        regularizers.GroupL2,
        regularizers.L2Ball,
        regularizers.L1Ball,
        regularizers.Simplex,
    )
}

# Parameters of methods that are written as tables.
PARTS: dict[str, Any] = {"prior": Prior, "clip": methods.AdaptiveClip}


def kind_of(argument: str, name: Any, known: Mapping[str, Any], base: type) -> Any:
    """The class of a name: one of ours, or ``module:Class`` of a user's own."""
    if isinstance(name, str) and ":" in name:
        return found(argument, name, base)
    return known[known_name(argument, name, tuple(known))]


def parameters_of(kind: Any) -> list[str]:
    """The names of all parameters."""
    return [field.name for field in fields(kind)] if is_dataclass(kind) else []


def sketched(kind: Any, values: Mapping[str, Any]) -> Any:
    """What its own checks refused to make, for nothing but to be written down; None where parameters are not its own.

    >>> sketched(METHODS["ISRLDP"], {"step": "planned", "accelerated": True}).accelerated
    True
    """
    if not is_dataclass(kind) or not values.keys() <= {*parameters_of(kind)}:
        return None
    of_kind: Any = kind
    sketch = object.__new__(of_kind)
    for field in fields(of_kind):
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if field.name not in values and default is MISSING:
            return None
        object.__setattr__(sketch, field.name, values.get(field.name, default))
    return sketch


def made(kind: Any, values: Mapping[str, Any]) -> Any:
    """An instance of a kind; parameters that it has not, or that are missing, are named with those it has.

    >>> made(REGULARIZERS["Box"], {"bound": 1.0})
    Box(bound=1.0)
    """
    known = parameters_of(kind)
    for name, value in values.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ArgumentError(name, value, f"{kind.__name__} has no such parameter; {has}")
    all_fields = fields(kind) if is_dataclass(kind) else ()
    needed = [field.name for field in all_fields if field.default is MISSING and field.default_factory is MISSING]
    missing = [name for name in needed if name not in values]
    if missing:
        others = [name for name in known if name not in needed]
        optional = f"; it may have {', '.join(others)}" if others else ""
        raise ArgumentError(missing[0], None, f"not given; {kind.__name__} needs {' and '.join(missing)}{optional}")
    return kind(**values)
