"""Methods, losses, regularizers and priors by the names that specifications and commands write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastldp import losses, methods, regularizers
from fastldp.extending import found
from fastldp.grids import made
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
PARTS: dict[str, Any] = {"prior": Prior, "clip": methods.AdaptiveClip, "sampling": methods.Sampling}


def kind_of(argument: str, name: Any, known: Mapping[str, Any], base: type) -> Any:
    """The class of a name: one of ours, or ``module:Class`` of a user's own."""
    if isinstance(name, str) and ":" in name:
        return found(argument, name, base)
    return known[known_name(argument, name, tuple(known))]


def part(argument: str, value: Any, known: Mapping[str, Any], base: type, default: str = "") -> Any:
    """A loss or a regularizer: itself, its name, or a dict of its name and parameters.

    >>> part("regularizer", {"name": "Box", "bound": 1.0}, REGULARIZERS, regularizers.Regularizer)
    Box(bound=1.0)
    """
    if isinstance(value, base):
        return value
    values = {"name": default} | value if isinstance(value, dict) else {"name": value}
    return made(kind_of(argument, values.pop("name"), known, base), values)
