"""Runs that a command is to take alone: NAME=VALUE."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastldp as fl

if TYPE_CHECKING:
    from fastldp.sweeping import Results


def chosen(path: Path, conditions: Sequence[str]) -> Results:
    """The runs of a file that meet all conditions; there must be one."""
    found = fl.results(path).where(**dict(map(_condition, conditions)))
    if not len(found):
        remedy = "no run of the file is like that" if conditions else "no run is finished yet"
        raise fl.errors.ArgumentError("where", list(conditions), remedy)
    return found


def _condition(text: str) -> tuple[str, Any]:
    """NAME=VALUE, with VALUE a number, a truth value, None, or a text."""
    name, sign, value = text.partition("=")
    if not sign:
        raise fl.errors.ArgumentError("where", text, "write it as NAME=VALUE, such as rounds=4000")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
