"""Docstrings of all public names are complete, by numpydoc's validator, and the reference has each of them."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpydoc.validate import validate

import fastldp
import fastldp.sklearn

REFERENCE = Path(__file__).parent.parent / "docs" / "api.md"
SUBMODULES = (
    "privacy",
    "sklearn",
    "theory",
    "datasets",
    "sweeping",
    "federation",
    "verifying",
    "reporting",
    "errors",
    "lanes",
)
# Of the validator's errors those that are ours too: the docstring is there, its first line is a sentence, every
# parameter has a type and a description, and functions say what they return. Summaries may begin with a formula.
CHECKED = {"GL03", "GL08", "SS01", "SS03", "SS06", "RT01", "RT03"}
CHECKED |= {"PR01", "PR02", "PR03", "PR04", "PR07", "PR09", "PR10"}
# Of methods and properties what stands in their signature need not be said again, nor of formulas.
BRIEF = {"PR01", "RT01"}
FORMULAS = {"value", "slope", "shrink", "prox_row"}
# What users do not make themselves: its fields are documented where they are declared. And what they inherit from.
MADE_FOR_USERS = {
    "Loss",
    "Regularizer",
    "Method",
    "Solution",
    "Status",
    "Outcome",
    "Ledger",
    "Plan",
    "Tuned",
    "Row",
    "Sensitivity",
    "Audit",
}
MADE_FOR_USERS |= {"Page", "Claim", "Verification"}
MADE_FOR_USERS |= {"Results", "Run", "Report", "Forecast", "Dataset", "Images", "Sample", "HeldOut"}
MADE_FOR_USERS |= {"Results", "Run", "Report", "Forecast", "Dataset", "Images", "Sample", "HeldOut", "Ask", "Answer"}


def public_names() -> Iterator[str]:
    """Everything in the package's contract, by the name users know it by."""
    for name in fastldp.__all__:
        if not inspect.ismodule(getattr(fastldp, name)):
            yield name
    for name in SUBMODULES:
        module = getattr(fastldp, name)
        names = getattr(module, "__all__", [found for found in vars(module) if not found.startswith("_")])
        for found in names:
            thing = getattr(module, found)
            own = getattr(thing, "__module__", "").startswith(module.__name__)
            if callable(thing) and own and found not in ("shown",) and getattr(fastldp, found, None) is not thing:
                yield f"{name}.{found}"


def resolved(name: str) -> Any:
    thing: Any = fastldp
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def documented() -> Iterator[str]:
    """The public names, and what public classes have of their own that users call."""
    for name in public_names():
        thing = resolved(name)
        yield name
        if inspect.isclass(thing) and not issubclass(thing, Exception | Warning):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    yield f"{name}.{member}"


@pytest.mark.parametrize("name", [*documented()])
def test_docstrings_are_complete(name: str) -> None:
    thing, (*path, last) = resolved(name), name.split(".")
    # What redefines something of a base class has that one's docstring.
    if not thing.__doc__ and (inspect.getdoc(thing) or last in FORMULAS):
        return
    member = any(part[0].isupper() for part in path)
    obvious = member or path == ["lanes"] or last in MADE_FOR_USERS
    skipped = BRIEF if obvious or (inspect.isclass(thing) and issubclass(thing, Exception)) else set()
    errors = [error for error in validate(f"fastldp.{name}")["errors"] if error[0] in CHECKED - skipped]
    assert not errors, "\n".join(": ".join(error) for error in errors)


def test_the_reference_has_every_public_name() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    whole = {f"{module}." for module in re.findall(r"automodule:: fastldp\.(\w+)", text)}
    listed = set(re.findall(r"^   ([\w.]+)$", text, re.MULTILINE))
    missing = {name for name in public_names() if name not in listed and not name.startswith(tuple(whole))}
    assert missing <= {"FastLDPError"}
