"""A setting: everything that defines a run but its repetition, the key it is known by, and the ground it stands on."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from fastldp.engine.driving import lines_of
from fastldp.engine.layouts import Samples, lanes_of, samples_in_lanes
from fastldp.engine.recording import Timetable
from fastldp.errors import ArgumentError
from fastldp.measures import ACCURACY
from fastldp.methods import Method, Schedule, Terms
from fastldp.noise import Noise
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.validation import integer

# What a specification has for a seed where keys are to come from the operating system.
FROM_OS = "os"
# The noise of so many rounds takes longer to compute than a leg should wait; but it is large.
MANY_ROUNDS = 100_000
MOST_LONG = 4
# Budgets that came from another process are new ones each time.
MOST_TERMS = 64


class Rounds(NamedTuple):
    """Rounds to record, and how they were written: settings are known by that."""

    values: tuple[int, ...]
    written: Any

    @classmethod
    def checked(cls, values: Sequence[Any], written: Any) -> Rounds:
        for one in values:
            integer("rounds", one, "give rounds from 1 on, a list or a range of them", at_least=1)
        return cls(tuple(values), written)

    def within(self, rounds: int) -> list[int]:
        """Of these the ones a horizon has; it must have one."""
        kept = [one for one in self.values if one <= rounds]
        if not kept:
            raise ArgumentError("rounds", [*self.values], f"a horizon of {rounds} rounds has none of them")
        return kept


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

    def measures(self, problem: Composite) -> tuple[str, ...]:
        """What is measured of recorded models: test data are there to be measured on, but a set of images has some."""
        return problem.measures if self.objective else (ACCURACY,) if problem.tested and problem.has_optimum else ()


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


@dataclass(eq=False)
class Ground:
    """Data, and the problems over them, which differ in their parameters alone. It is shipped once to each worker."""

    name: str
    subjects: list[Subject] = field(default_factory=list)
    _terms: dict[tuple[int, Budget | None], Terms] = field(default_factory=dict)
    _long: dict[str, Schedule] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def samples(self) -> Samples:
        """The data as kernels want them, laid out once in each process."""
        problem = self.subjects[0].problem
        return samples_in_lanes(problem, lines_of(problem) * lanes_of(problem))

    def schedule(self, setting: Setting) -> Schedule:
        """The noise of a setting's rounds; where they are many it is kept, for it will be wanted again soon."""
        if setting.rounds < MANY_ROUNDS:
            return self._made(setting)
        with self._lock:  # threads share a ground
            if setting.key not in self._long:
                if len(self._long) == MOST_LONG:
                    del self._long[next(iter(self._long))]
                self._long[setting.key] = self._made(setting)
            return self._long[setting.key]

    def _made(self, setting: Setting) -> Schedule:
        about = setting.subject, setting.budget
        terms = self._terms.get(about)
        if terms is None:
            if len(self._terms) >= MOST_TERMS:
                self._terms = {}
            terms = self._terms[about] = Terms(self.subjects[setting.subject].problem, setting.budget)
        return setting.method.outline(terms, setting.rounds).complete()

    def __reduce__(self) -> tuple[Any, ...]:
        # Neither the lock nor what can be made again travels.
        return Ground, (self.name, self.subjects)


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
