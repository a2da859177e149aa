"""The ground that runs share: data, and the problems over them. It is shipped once to each worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fastldp.algorithms import Schedule
from fastldp.block import Samples, lanes_of, samples_in_lanes
from fastldp.engine import lines_of
from fastldp.sweeping.setting import Setting, Subject

# The noise of so many rounds takes longer to compute than a leg should wait; but it is large.
MANY_ROUNDS = 100_000
MOST_LONG = 4
FEW_ROUNDS = 200


@dataclass(eq=False)
class Ground:
    """Problems that differ in l2, regularizer or bound alone, so that their runs can share lanes."""

    name: str
    subjects: list[Subject] = field(default_factory=list)
    _short: dict[str, Schedule] = field(default_factory=dict)
    _long: dict[str, Schedule] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def samples(self) -> Samples:
        """The data as kernels want them, laid out once in each process."""
        problem = self.subjects[0].problem
        return samples_in_lanes(problem, lines_of(problem) * lanes_of(problem))

    def schedule(self, setting: Setting) -> Schedule:
        """The noise of a setting's rounds; where they are many it is kept, for it will be wanted again soon."""
        if setting.rounds <= FEW_ROUNDS and setting.key in self._short:
            return self._short[setting.key]
        if setting.rounds < MANY_ROUNDS:
            return self._made(setting)
        with self._lock:  # threads share a ground
            if setting.key not in self._long:
                if len(self._long) == MOST_LONG:
                    del self._long[next(iter(self._long))]
                self._long[setting.key] = self._made(setting)
            return self._long[setting.key]

    def remember(self, setting: Setting, schedule: Schedule) -> None:
        """Keep the noise of a short run, which takes longer to compute than the run."""
        if setting.rounds <= FEW_ROUNDS:
            self._short[setting.key] = schedule

    def _made(self, setting: Setting) -> Schedule:
        schedule: Schedule = setting.method.schedule(
            self.subjects[setting.subject].problem, setting.budget, setting.rounds
        )
        return schedule

    def __reduce__(self) -> tuple[Any, ...]:
        # Neither the lock nor what can be made again travels.
        return Ground, (self.name, self.subjects)
