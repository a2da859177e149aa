"""A setting: everything that defines a run but its repetition, and the key it is known by."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from fastldp.composite import Composite
from fastldp.methods import Method
from fastldp.noise import Noise
from fastldp.privacy.budget import Budget
from fastldp.recording import Timetable

# What a specification has for a seed where keys are to come from the operating system.
FROM_OS = "os"


class Subject(NamedTuple):
    """A problem, where its runs start, and the optimum their errors are measured by."""

    problem: Composite
    start: NDArray[np.float64]
    optimum: NDArray[np.float64]


class Wanted(NamedTuple):
    """What is recorded: at which rounds, in words, and what beside the errors."""

    rounds: str
    objective: bool
    """And whatever else the problem measures of a model."""
    models: bool


@dataclass(frozen=True, eq=False, slots=True)
class Setting:
    """What a worker needs to make a run; `parameters` stays with the parent."""

    ground: int
    """Which data, of the sweep's."""
    subject: int
    """Which problem over them."""
    method: Method
    budget: Budget | None
    rounds: int
    timetable: Timetable
    wanted: Wanted
    noise: Noise
    key: str
    """A digest of all that the numbers of its runs depend on."""


class Provenance(TypedDict):
    """Where the numbers of a setting's runs come from beside its parameters."""

    fingerprint: str
    """Of the data."""
    version: int
    """Of the method."""


@dataclass(frozen=True, eq=False, slots=True)
class Card:
    """How a setting is written down; its text is in pieces, which settings share."""

    before: str
    """The text up to the method: budget and data."""
    method: str
    after: str
    """The text from the problem on."""
    provenance: Provenance

    @property
    def text(self) -> str:
        """The parameters, canonical."""
        return self.before + self.method + self.after

    @property
    def identity(self) -> str:
        """A digest of the parameters alone: two settings with one identity differ in data or version."""
        return digest(self.text)

    @property
    def key(self) -> str:
        """A digest of all that the numbers of its runs depend on."""
        return digest(f"{self.text} {self.provenance['fingerprint']} {self.provenance['version']}")

    @property
    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text)
        return found


def text_before_method(budget: str, data: str) -> str:
    """What a card's text begins with, from the texts of its sections."""
    return f'{{"budget":{budget},"data":{data},"method":'


def text_after_method(problem: str, record: str, rounds: int, noise: Noise) -> str:
    """What a card's text ends with, from the texts of its sections."""
    # All noise was in common once: it goes unsaid, so that runs made then are known again.
    own = "" if noise.common else ',"noise":"own"'
    seed = f'"{FROM_OS}"' if noise.seed is None else noise.seed
    return f'{own},"problem":{problem},"record":{record},"rounds":{rounds},"seed":{seed}}}'


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
