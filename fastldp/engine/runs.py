"""Runs: repetitions of one setting, what a block must know of them, and what they have recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.engine.recording import Timetable
from fastldp.kernels import privatize
from fastldp.methods import Program, Schedule
from fastldp.problems.composite import Composite

Array = NDArray[np.float64]


@dataclass(eq=False)
class Runs:
    """Repetitions of one run: what defines them, and what has been recorded of each."""

    problem: Composite
    schedule: Schedule
    x0: Array
    keys: NDArray[np.uint32]
    """(repetitions, 8)."""
    timetable: Timetable
    optimum: Array
    done: NDArray[np.int64] = field(init=False)
    failed: NDArray[np.int64] = field(init=False)
    """The round at which the average became non-finite, or 0."""
    workers: Array = field(init=False)
    means: Array = field(init=False)
    consensus: Array = field(init=False)
    distance: Array = field(init=False)
    """The squared distance to the optimum."""
    threshold: Array = field(init=False)
    """What gradients are clipped to after each recorded round."""
    messages: Array | None = field(init=False)
    broadcasts: Array | None = field(init=False)
    early_counts: Array | None = field(init=False)
    """(repetitions, counts, n): those before the first round."""
    counts: Array | None = field(init=False)
    """(repetitions, T, n): those of all workers, where clipping adapts and one is watched; NaN where none was sent."""

    def __post_init__(self) -> None:
        repetitions, records, d = len(self.keys), self.timetable.rounds.size, self.problem.d
        self.done, self.failed = np.zeros((2, repetitions), dtype=np.int64)
        self.workers = np.full((repetitions, self.problem.n, d), np.nan)
        self.means = np.full((repetitions, records, d), np.nan)
        self.consensus = np.full((repetitions, records), np.nan)
        self.distance = np.full((repetitions, records), np.nan)
        self.threshold = np.full((repetitions, records), np.nan)
        watched = self.timetable.worker >= 0
        self.messages = np.full((repetitions, self.releases, d), np.nan) if watched else None
        answers = self.schedule.program.broadcasts(self.rounds)
        self.broadcasts = np.full((repetitions, answers, d), np.nan) if watched else None
        adapting = self.schedule.adapting
        self.counts = self.early_counts = None
        if watched and adapting is not None:
            early = adapting.early_gains.size
            self.counts = np.full((repetitions, self.rounds, self.problem.n), np.nan)
            self.early_counts = np.full((repetitions, early, self.problem.n), np.nan)

    @property
    def recorded(self) -> tuple[Array, ...]:
        """What kernels measure, in the order of `rounds.Records`."""
        return self.means, self.consensus, self.distance, self.threshold

    @property
    def rounds(self) -> int:
        """T."""
        return self.schedule.deviations.size

    @property
    def releases(self) -> int:
        """How many noisy gradients each worker releases."""
        return self.schedule.program.releases(self.rounds)

    @property
    def relative_distance(self) -> Array:
        """‖x̄ − x*‖²/‖x*‖², or ‖x̄‖² where x* is zero."""
        with np.errstate(over="ignore"):  # of runs that diverged
            return self.distance / (float(self.optimum @ self.optimum) or 1.0)

    def over(self, repetitions: Any = slice(None)) -> NDArray[np.bool_]:
        """Of which of these repetitions nothing is left to be done."""
        return np.asarray((self.done[repetitions] == self.rounds) | (self.failed[repetitions] > 0))

    @property
    def kind(self) -> tuple[Any, ...]:
        """What runs must have in common to share a block."""
        return kind_of_block(
            self.problem, self.schedule.program, self.timetable, private=self.schedule.ledger is not None
        )


def kind_of_block(problem: Composite, program: Program, timetable: Timetable, *, private: bool) -> tuple[Any, ...]:
    """What runs must have in common to share a block."""
    data = *map(id, problem.data), type(problem.loss), problem.dtype, problem.weighting
    return *data, problem.regularizer.kind, program.kind, release_mode(problem, private=private), timetable.worker


class Lane(NamedTuple):
    """One run: a repetition of `runs`."""

    runs: Runs
    repetition: int


def release_mode(problem: Composite, *, private: bool) -> int:
    """How a run's queries are released: without noise, or with noise on the grid, or off it in single precision."""
    if not private:
        return privatize.EXACT
    return privatize.GRIDDED if problem.dtype == "float64" else privatize.GAUSSIAN


class Group(NamedTuple):
    """The lanes of a block that hold repetitions of the same run, and which."""

    runs: Runs
    lanes: NDArray[np.int64]
    repetitions: NDArray[np.int64]

    def same_lanes(self, other: Group) -> bool:
        """Whether these are repetitions of the same run in the same lanes."""
        return self.runs is other.runs and np.array_equal(self.lanes, other.lanes)

    def only(self, which: NDArray[np.bool_]) -> Group:
        """Some of them."""
        return Group(self.runs, self.lanes[which], self.repetitions[which])


def groups_of(lanes: Sequence[Lane]) -> list[Group]:
    """Lanes by the run they repeat, in order of first appearance."""
    by_runs: dict[int, list[int]] = {}
    for number, lane in enumerate(lanes):
        by_runs.setdefault(id(lane.runs), []).append(number)
    return [
        Group(lanes[mine[0]].runs, np.array(mine), np.array([lanes[k].repetition for k in mine]))
        for mine in by_runs.values()
    ]
