"""The ground that runs share: data, and the problems over them. It is shipped once to each worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fastldp.engine import lines_of
from fastldp.layouts import Samples, lanes_of, samples_in_lanes
from fastldp.methods import Schedule, Terms
from fastldp.privacy.budget import Budget
from fastldp.sweeping.setting import Setting, Subject

# The noise of so many rounds takes longer to compute than a leg should wait; but it is large.
MANY_ROUNDS = 100_000
MOST_LONG = 4
# Budgets that came from another process are new ones each time.
MOST_TERMS = 64


@dataclass(eq=False)
class Ground:
    """Problems over the same data that differ in their parameters alone; those weighted alike can share lanes."""

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
