"""The two halves of a run's block, each by itself: a worker that releases, and a server that has releases alone.

Both drive the kernels of any other block. The worker's has one worker, with the number by which its noise is addressed;
the server's has all of them and no data, and in place of gradients and noise the releases that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.engine.block import Block
from fastldp.engine.compiling import Code
from fastldp.engine.driving import laid_out_alone
from fastldp.engine.recording import Timetable
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels import gradient, rounds
from fastldp.kernels.calling import lay
from fastldp.kernels.methods import TAKE, Method
from fastldp.kernels.release import LongRelease, Release, SingleRelease, Transcript
from fastldp.kernels.sampling import Drawing, Everyone
from fastldp.kernels.simd import aligned_zeros
from fastldp.methods import Schedule
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem

Array = NDArray[np.float64]
Key = NDArray[np.uint32]
# The lanes of double precision.
LANES = 8


class _Half(Block):
    """What both have in common: one run, whose releases are seen in a place of its own."""

    seen: Transcript

    def __init__(self, problem: Problem, schedule: Schedule, samples: Any, alone: bool, x0: Array, key: Key) -> None:
        rounds_ = schedule.deviations.size
        timetable = Timetable(np.array([rounds_]), -1)
        self.runs = Runs(problem, schedule, x0, key[None], timetable, np.full(problem.d, np.nan))
        super().__init__(samples, [Lane(self.runs, 0)], alone=alone)
        self._calls = self._compiled()

    def _transcript(self, releases: int, rounds: int) -> Transcript:
        return self.seen

    def _keep(self, release: int, broadcast: int, seen: Transcript) -> None:
        """Nothing: a transcript is read where it was seen."""

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of all that workers and server keep."""
        return *self.program.method.workers, *self.program.method.server


class WorkerBlock(_Half):
    """One worker of a run: it makes the releases of a round, at the point or from the state that a server gives it."""

    def __init__(self, shard: Problem, whole: Problem, schedule: Schedule, worker: int, x0: Array, key: Key) -> None:
        self._whole, self._worker = whole, slice(worker, worker + 1)
        adapting = schedule.adapting
        if adapting is not None:
            adapting = replace(adapting, factors=adapting.factors[self._worker])
        schedule = replace(schedule, factors=schedule.factors[self._worker], adapting=adapting)
        super().__init__(shard, schedule, *laid_out_alone(shard, whole, schedule.program), x0, key)
        steps, d = self.program.local_steps, shard.d
        self.seen = Transcript(0, self.zeros(steps, d), self.zeros(1, 1), self.zeros(1, d))

    def _method(self) -> Method:
        # With one release a round the server takes the worker's step, which is no secret.
        made = super()._method()
        does = TAKE if self.program.local_steps > 1 else 0
        attendance = made.attendance._replace(first=self._worker.start)
        return made._replace(of_workers=made.of_workers[:, self._worker].copy(), does=does, attendance=attendance)

    def _drawing(self) -> Drawing:
        made = super()._drawing()
        return made if isinstance(made, Everyone) else made._replace(first=self._worker.start)

    def _release(self, problem: Composite) -> Release | SingleRelease | LongRelease:
        weight = 1.0 / self.program.divisors(self._whole)[self._worker]
        return super()._release(problem)._replace(weight=weight.astype(self.dtype), first=self._worker.start)

    def make(self, t: int, kept: Mapping[str, Array], threshold: float | None, pace: float) -> tuple[Array, float]:
        """(releases, d) of round t, and the count or NaN; rounds below 0 count alone: t = −1 is the last of these."""
        for name, value in kept.items():
            self._kept(name)[...] = value.reshape(1, -1, *(1,) * (0 if self.alone else len(self.lane_shape)))
        if threshold is not None:
            self.objective.clip[...] = threshold
            self.release.unit[...] = threshold
        self._pace[...] = pace
        self.seen.counts.fill(np.nan)
        if t < 0:
            self._start[...] = self.state.points[0]
            self._count_early(t, t + 1)
        elif t == 0:
            self._warm_start()
        else:
            laid = self._lay(t - 1, t).part(t - 1, t)
            self._call(np.array([t - 1, t]), laid, self.seen, threads=1)
        lane = np.zeros(1, dtype=np.int64)
        releases = self._of_lanes(self.seen.messages, lane)[0]
        return np.array(releases[: 0 if t < 0 else None]), float(self._of_lanes(self.seen.counts, lane)[0, 0, 0])


class ServerBlock(_Half):
    """The server's half of a run: what workers keep follows from their releases, so it keeps it for them."""

    def __init__(self, problem: Problem, schedule: Schedule, x0: Array, key: Key) -> None:
        nothing = aligned_zeros((0, LANES))
        panels = gradient.Panels(
            aligned_zeros((0, problem.d, LANES)),
            nothing,
            nothing,
            np.zeros(problem.n),
            np.zeros(problem.n + 1, np.int64),
            gradient.AT_ONCE,
            False,
            aligned_zeros((1, problem.d, LANES)),
        )
        super().__init__(problem, schedule, panels, True, x0, key)
        steps = self.program.local_steps
        seen = self.zeros(problem.n * steps, problem.d), self.zeros(1, problem.n), self.zeros(0, problem.d)
        self.seen = Transcript(-1, *seen)

    def code(self) -> Code:
        code = super().code()
        with self._samples(1) as samples:
            others = rounds.replaying(tuple(self._about(samples, self._laid, self._nothing_seen)))
        pieces = {name: others.get(name, piece) for name, piece in code.pieces.items()}
        return code._replace(pieces=pieces, formulas={k: f for k, f in code.formulas.items() if k != "slopes"})

    def prepared(self, t: int) -> dict[str, Array]:
        """What workers and server keep when the releases of round t are made; nothing is changed by asking."""
        if t < 0:
            return {self.program.method.point: self._start[None]}
        arrays = self.state.workers, self.state.server
        before = [array.copy() for array in arrays]
        begin = max(t, 1) - 1
        laid = self._lay(begin, begin + 1).part(begin, begin + 1)
        laid.method.paces[0] = self._pace[0]
        with self._samples(1) as samples:
            place = lay(tuple(self._about(samples, laid, self.seen)), self._memory)
            rounds.prepare(t, self.problem.n, place, self._calls)
        found = {name: self._kept(name).copy() for name in self.kept}
        for array, old in zip(arrays, before, strict=True):
            array[...] = old
        return found

    def take(self, t: int, releases: Array, counts: Array) -> None:
        """What the server makes of (n, local steps, d) releases of round t and (n,) counts."""
        self.seen.messages[...] = releases.reshape(self.seen.messages.shape)
        self.seen.counts[0] = counts
        if t < 0:
            self._count_early(t, t + 1)
        elif t == 0:
            self._warm_start()
        else:
            self._stretches(np.array([t - 1, t]), 1)

    def kept_arrays(self) -> list[Array]:
        """All that it is between rounds, for `restore`."""
        state = self.state
        return [state.workers, state.server, state.public, self.objective.clip, self._pace]

    def restore(self, done: int, arrays: Sequence[Array]) -> None:
        """Go on after round `done` from what `kept_arrays` was then."""
        self.done = done
        for mine, kept in zip(self.kept_arrays(), arrays, strict=True):
            mine[...] = kept
        if self.adaptive:
            self.release.unit[...] = self.objective.clip

    @property
    def threshold(self) -> float | None:
        """What gradients of the round to come are clipped to, where that adapts."""
        return float(self.objective.clip[0]) if self.adaptive else None

    @property
    def pace(self) -> float:
        """What its steps are multiplied by."""
        return float(self._pace[0])

    @property
    def failed(self) -> int:
        """The first round after which something was not finite, or 0."""
        return int(self.state.failed[0])

    @property
    def models(self) -> Array:
        """(n, d)."""
        return np.array(np.broadcast_to(super().models, (self.problem.n, self.problem.d)), dtype=np.float64)
