"""A block: runs over the same data that ride in lanes together, advanced a segment at a time.

Everything that may differ between the runs of a block is a vector of lanes: start, key, step, noise, l2, weights, size
of the set, clipping, optimum and length. A run alone has no lane axis; its lanes then hold samples and rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import blas
from fastldp.engine.between import links_of
from fastldp.engine.compiling import Code, compiling
from fastldp.engine.layouts import LANES, Samples
from fastldp.engine.objective import addressed, formulas_of, objective_of, with_losses
from fastldp.engine.runs import Group, Lane, groups_of, release_mode
from fastldp.forking import parallel_kernels_run
from fastldp.kernels import gradient, rounds
from fastldp.kernels.attendance import Attendance
from fastldp.kernels.barrier import barrier
from fastldp.kernels.calling import lay, laying_of
from fastldp.kernels.chacha import SAMPLES, WORKERS, derived_keys
from fastldp.kernels.clipping import Clipping
from fastldp.kernels.formulas import Objective
from fastldp.kernels.methods import Method, State, acts_of, rows_of
from fastldp.kernels.network import Network
from fastldp.kernels.release import LongRelease, Release, SingleRelease, Transcript
from fastldp.kernels.sampling import BLOCKS, Drawing, Drawn, DrawnAlone, Everyone
from fastldp.kernels.simd import aligned_zeros
from fastldp.methods.clipping import Adapting
from fastldp.methods.sampling import SECRET
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.network import with_scratch

Array = NDArray[np.float64]

# Laying out numbers for a kernel costs more than a short call of it takes: so many rounds at a time.
ROUNDS_LAID = 1024
# So many records are made at most before they are handed out to their runs.
MOST_RECORDS, MOST_RECORD_BYTES = 512, 16 * 2**20
NEVER = 2**63 - 1
# What a call is about takes some 5,000 bytes.
LAID_BYTES = 2**14
# What runs that adapt their threshold keep beside what their method does.
THRESHOLD, PACE = "threshold of clipping", "pace"
# Arrays of fewer numbers lie side by side in one, each from a cache line on: there are many, and each alone costs.
SMALL_ARRAY = 1024


class _Laid(NamedTuple):
    """What kernels need for the rounds begin + 1 to end."""

    begin: int
    end: int
    deviations: NDArray[Any]
    method: Method
    clipping: Clipping

    def part(self, begin: int, end: int) -> _Laid:
        """The same for some of them."""
        rounds, of = slice(begin - self.begin, end - self.begin), self.clipping
        method = self.method._replace(
            of_rounds=self.method.of_rounds[rounds], paces=self.method.paces[rounds.start : rounds.stop + 1]
        )
        if of.counted.size:
            of = of._replace(counted=of.counted[rounds], gains=of.gains[rounds], deviations=of.deviations[rounds])
        return _Laid(begin, end, self.deviations[rounds], method, of)


class Block:
    """Runs in lanes, the state they are in, and the numbers their kernel needs."""

    def __init__(self, samples: Samples, lanes: Sequence[Lane], *, alone: bool = False) -> None:
        self.samples = samples
        self._unused: NDArray[Any] = np.zeros(0)
        self._memory = aligned_zeros((LAID_BYTES,), np.uint8)
        self.alone = alone or not lanes[0].runs.problem.lanes_of_runs
        self._groups = groups_of(lanes)
        self._kinds = [group.runs for group in self._groups]
        self.horizon = max(runs.rounds for runs in self._kinds)
        problem = self._kinds[0].problem
        self.dtype = np.dtype(problem.dtype)
        line = LANES[problem.dtype]
        # A block of more runs than fill a cache line has lanes of two: (2, line) instead of (line,).
        self.lane_shape = (line,) if len(lanes) <= line else (2, line)
        self.lanes = math.prod(self.lane_shape)
        # Which kind each lane holds. Empty lanes repeat the first; their results are never read.
        self._kind_of_lane = np.zeros(self.lanes, dtype=np.int64)
        for kind, group in enumerate(self._groups):
            self._kind_of_lane[group.lanes] = kind

        self._programs = [runs.schedule.program for runs in self._kinds]
        self.program = self._programs[0]
        self.state = self._state(problem)
        self.objective = self._objective([runs.problem for runs in self._kinds])
        self._unit, self._pace = self.zeros(1), self.zeros(1)
        self.method = self._method()
        self._start = self.stack(runs.x0 for runs in self._kinds)
        self._optimum = self.stack(runs.optimum for runs in self._kinds)
        self._records = self._arrays_for(1)
        self.release = self._release(problem)
        timetables = {id(runs.timetable.rounds): runs.timetable.rounds for runs in self._kinds}
        self._recorded = np.unique(np.concatenate(list(timetables.values())))
        self._lengths = {runs.rounds for runs in self._kinds}
        nothing = self.zeros(0, problem.d)
        self._nothing_seen = Transcript(-1, nothing, self.zeros(0, problem.n), nothing)
        self._calls = rounds.Calls()
        self.clipping = self._clipping(problem)
        self.drawing = self._drawing()
        self._clips = self.objective.clip.copy()
        self._laid = _Laid(0, 0, self.release.deviations, self.method, self.clipping)
        self._begin()

    def reuse(self, lanes: Sequence[Lane]) -> bool:
        """Begin anew with other repetitions of the same runs in the same lanes; False where these are others."""
        groups = groups_of(lanes)
        if len(groups) != len(self._groups) or not all(map(Group.same_lanes, groups, self._groups)):
            return False
        self._groups = groups
        self._begin()
        return True

    def _begin(self) -> None:
        self.done = 0
        self._going = self._groups
        self._rounds_of_over = 0
        self.state.workers.fill(0.0)
        self.state.server.fill(0.0)
        for name in self.program.method.begin:
            self._kept(name)[...] = self._start
        self.state.failed.fill(0)
        self.objective.clip[...] = self._clips
        self.release.unit[...] = self._clips if self.adaptive else 1.0
        self._pace.fill(1.0)
        # Empty lanes, and all those of a run alone, have the key of the first run.
        self.release.keys[...] = self._groups[0].runs.keys[self._groups[0].repetitions[0]][:, None]
        for group in self._groups:
            self.release.keys[:, group.lanes] = group.runs.keys[group.repetitions].T
        if isinstance(self.release, SingleRelease):
            self.release.drawn.fill(-1)
        if not isinstance(self.drawing, Everyone):
            own = derived_keys(self.release.keys.T, SAMPLES).T
            self.drawing.keys[...] = own[:, :1] if self.alone else own
        if self.attending:
            own = derived_keys(self.release.keys.T, WORKERS)
            self.method.attendance.keys[...] = own[:1] if self.alone else own

    def carry_on(self, done: int, memories: Sequence[Array]) -> None:
        """Go on after round `done` with what `memories` gave of each run, in the order of the lanes."""
        self.done = done
        first = 0
        for name in self._checkpoint:
            field = self._kept(name)
            lanes = field[..., None] if self.alone else field.reshape(*field.shape[: -len(self.lane_shape)], self.lanes)
            size = lanes[..., 0].size
            for lane, kept in enumerate(memories):
                lanes[..., lane] = kept[first : first + size].reshape(lanes.shape[:-1])
            first += size
        if self.adaptive:
            self.release.unit[...] = self.objective.clip

    def memories(self, lanes: Sequence[int]) -> list[Array]:
        """What these runs need to go on after a pause, flat, in double precision, which holds single exactly."""
        fields = [self._of_lanes(self._kept(name), np.asarray(lanes)) for name in self._checkpoint]
        flat = np.concatenate([field.reshape(len(lanes), -1) for field in fields], axis=1)
        return list(flat.astype(np.float64))

    def zeros(self, *shape: int) -> NDArray[Any]:
        full = shape if self.alone else (*shape, *self.lane_shape)
        size, line = math.prod(full), 64 // self.dtype.itemsize
        if size > SMALL_ARRAY:
            return aligned_zeros(full, self.dtype)
        if size > self._unused.size:
            self._unused = aligned_zeros((4 * SMALL_ARRAY,), self.dtype)
        zeros, self._unused = self._unused[:size].reshape(full), self._unused[-(-size // line) * line :]
        return zeros

    def scratch(self, d: int, shares: int = 1) -> gradient.Scratch:
        """Where gradients are made, for so many shares of the workers."""
        # One after the other in memory, so that both fit in a small cache; the rows of a run alone lie apart in it.
        both = self.zeros(2 * shares, d + gradient.APART if self.alone else d)
        return gradient.Scratch(both[:shares], both[shares:], self.zeros(shares))

    @property
    def _checkpoint(self) -> tuple[str, ...]:
        method = self.program.method
        kept = (*method.workers, *method.server) if method.checkpoint is None else method.checkpoint
        return (*kept, THRESHOLD, PACE) if self.adaptive else kept

    @property
    def adaptive(self) -> bool:
        """Whether its runs adapt what they clip to."""
        return bool(self._adapting)

    @property
    def _adapting(self) -> list[Adapting]:
        """How each kind of runs does."""
        return [runs.schedule.adapting for runs in self._kinds if runs.schedule.adapting is not None]

    def _kept(self, name: str) -> NDArray[Any]:
        """What the workers or the server keep under a name: a view."""
        if name in (THRESHOLD, PACE):
            return self.objective.clip if name == THRESHOLD else self._pace
        return _kept(self.program.method, self.state.workers, self.state.server, name, self.done + 1)

    @property
    def models(self) -> NDArray[Any]:
        """(n, d, lanes) or (1, d, lanes): those after the last round."""
        return self._kept(self.program.method.answer)

    def _state(self, problem: Composite) -> State:
        method = self.program.method
        workers = self.zeros(rows_of(method.workers, method.mixed)[""], problem.n, problem.d)
        server = self.zeros(len(method.server), 1, problem.d)
        views = {
            field: _kept(method, workers, server, name)
            for field, name in (
                ("points", method.point),
                ("models", method.answer),
                ("sent", method.sends),
                ("checked", method.checked or method.sends),
            )
        }
        views["models"] = views["models"][None]
        for field, name in (("points", method.point), ("models", method.answer)):
            if name in method.mixed:
                first = rows_of(method.workers, method.mixed)[name]
                both = workers[first : first + 2]
                views[field] = both if field == "models" else both.reshape(-1, *both.shape[2:])
        failed = np.zeros(1 if self.alone else self.lanes, dtype=np.int64)
        made = self.scratch(problem.d)
        return State(workers, server, **views, public=self.zeros(1), **made._asdict(), failed=failed)

    def _method(self) -> Method:
        """The numbers of all runs, and the acts of their method."""
        method, programs = self.program.method, self._programs
        made = Method(
            acts=0,
            does=method.does(),
            local_steps=self.program.local_steps,
            numbers=self.stack([*program.method.numbers_of(program).values()] for program in programs),
            of_rounds=self.zeros(0, len(method.of_rounds)),
            of_workers=self.stack(program.method.worker_numbers_of(program) for program in programs),
            paces=self.zeros(1),
            unit=self._unit,
            l2=self.stack(runs.problem.l2 for runs in self._kinds),
            shares=self.stack(runs.problem.shares for runs in self._kinds),
            links=links_of([runs.schedule for runs in self._kinds], self.stack, self.zeros),
            attendance=self._attendance(),
        )
        method.try_formulas(self.program)
        return made

    def _attendance(self) -> Attendance:
        """Who takes part in a round, by the coins of each run; nothing where all do."""
        sampling, n, d = self.program.sampling, self.problem.n, self.problem.d
        if sampling is None or sampling.workers == 1:
            parts = self.zeros(n)
            parts.fill(1.0)
            flat, scratch = np.zeros((0, n, 0), self.dtype), (self.zeros(0, 0, 0), self.zeros(0, 0))
            no_keys = np.zeros((0, 8), dtype=np.uint32)
            return Attendance(no_keys, 0, 0, 0, False, self.zeros(0, n), flat, parts, self.zeros(0), *scratch)
        there, parts, runs = self.zeros(2, n), self.zeros(n), 1 if self.alone else self.lanes
        parts.fill(1.0)  # as it stays where all send
        return Attendance(
            keys=np.zeros((runs, 8), dtype=np.uint32),
            limit=sampling.worker_limit,
            least=self.program.method.least_workers if sampling.absences else 0,
            first=0,
            secret=sampling.choice == SECRET,
            there=there,
            of_runs=there.reshape(2, n, runs),
            parts=parts,
            shares=self.stack(runs.problem.shares for runs in self._kinds),
            kept=self.zeros(1, *self.state.workers.shape[:1], d),
            served=self.zeros(*self.state.server.shape[:1], d),
        )

    def code(self) -> Code:
        """What is compiled for this kind of block, or will be."""
        method, problem = self.program.method, self.problem
        with self._samples(1) as samples:
            loss = problem.loss if isinstance(problem, Problem) else None
            # Margins are in lanes of samples or of runs.
            in_lanes = isinstance(samples, gradient.Panels | gradient.DenseDraws | gradient.SparseDraws)
            axes = 2 if in_lanes else 1 + (0 if self.alone else len(self.lane_shape))
            laid = tuple(self._about(samples, self._laid, self._nothing_seen))
            formulas = formulas_of(self.objective, method.regularizer(self.program), loss, samples, axes)
        acts = acts_of(type(method), self.method, self.state, self.objective)
        tosses = self.method.links.there.shape[0] > 0
        pieces = rounds.pieces_of(
            laid, coins=method.coins, tosses=tosses, attending=self.attending, adaptive=self.adaptive
        )
        return Code(formulas, {"acts": (type(method), acts)}, pieces, laying_of(laid, self._memory))

    def _compiled(self) -> rounds.Calls:
        """Where all that the loop calls is compiled."""
        code = self.code()
        with compiling(code):
            self.objective, self.method = addressed(self.objective, code.formulas), addressed(self.method, code.acts)
            code.laying.compile()
            # The last first: with the first of them others have begun.
            found = {name: code.pieces[name].address for name in reversed(code.pieces)}
        return rounds.Calls(**found, acts=self.method.acts, does=self.method.does)

    def stack(self, values: Any) -> NDArray[Any]:
        """A value of each kind of run, in the lanes that hold it, lanes last; of a run alone, its value."""
        stacked = np.array(list(values), dtype=self.dtype)
        stacked = stacked.reshape(len(stacked), *(stacked.shape[1:] or (1,)))
        laid = self.zeros(*stacked.shape[1:])
        lanes_last = stacked[self._kind_of_lane].transpose(*range(1, stacked.ndim), 0)
        laid[...] = stacked[0] if self.alone else lanes_last.reshape(laid.shape)
        return laid

    def _objective(self, problems: Sequence[Composite]) -> Objective:
        of_runs = list(zip(problems, self._programs, strict=True))
        regularizers = [program.method.regularizer(program) for program in self._programs]
        clips = [program.enforced(problem) for problem, program in of_runs]
        objective = objective_of(regularizers, clips, problems[0].d, self.stack)
        if isinstance(self.samples, Network):
            return objective
        return with_losses(objective, [problem.loss for problem in problems], self.stack)

    def _release(self, problem: Composite) -> Release | SingleRelease | LongRelease:
        common: dict[str, Any] = {
            "mode": release_mode(problem, private=self._kinds[0].schedule.ledger is not None),
            "keys": np.zeros((8, self.lanes), dtype=np.uint32),
            "deviations": self.zeros(0),
            "first": 0,
            "factors": self.stack(runs.schedule.factors for runs in self._kinds),
            "weight": (1.0 / self.program.divisors(problem)).astype(self.dtype),
            "unit": self._unit,
        }
        if isinstance(self.samples, Network):
            shape = problem.n, self.lanes, 16
            return LongRelease(**common, normals=aligned_zeros(shape), dithers=aligned_zeros(shape))
        if self.alone:
            shape = problem.n, self.lanes, problem.d + problem.d % 2
            normals, dithers = aligned_zeros(shape, self.dtype), aligned_zeros(shape, self.dtype)
            drawn = np.zeros(problem.n, dtype=np.int64)
            return SingleRelease(**common, normals=normals, dithers=dithers, drawn=drawn)
        return Release(**common)

    @property
    def attending(self) -> bool:
        """Whether some workers may not take part in a round."""
        return bool(self.method.attendance.keys.shape[0] > 0)

    def _drawing(self) -> Drawing:
        """How its runs draw their samples; who does so alone has all lanes of the cipher for one key."""
        sampling = self.program.sampling
        if sampling is None or not sampling.draws:
            return Everyone()
        # Who takes part in secret draws samples, and who does not draws none.
        there = self.method.attendance.there if sampling.choice == SECRET else self.zeros(0, 0)
        keys = np.zeros((8, BLOCKS if self.alone else self.lanes), dtype=np.uint32)
        limits = np.full((1, *keys.shape[1:]), sampling.sample_limit, dtype=np.uint32)
        if not self.alone:
            return Drawn(keys, limits, 0, there)
        # One more than a worker may have, filled up to whole lanes.
        rows = np.zeros((1, int(self.problem.sizes.max()) + LANES["float32"]), dtype=np.int64)
        return DrawnAlone(keys, limits[0, :1], 0, there, rows)

    def ends(self, length: int, *, at_records: bool = False, limit: int = NEVER) -> list[int]:
        """Where segments end, up to the limit: there, at the end of every run, and at least every `length` rounds.

        And at every recorded round, or where as many records were made as may wait to be handed out.
        """
        regular = np.arange(self.done, self.horizon, length)[1:]
        recorded = self._recorded[np.searchsorted(self._recorded, self.done, side="right") :]
        if not at_records:
            recorded = recorded[self._most_records - 1 :: self._most_records]
        marks = np.unique(np.concatenate([recorded, list(self._lengths), [min(limit, self.horizon)], regular]))
        ends: list[int] = marks[(marks > self.done) & (marks <= limit)].astype(np.int64).tolist()
        return ends

    @property
    def _most_records(self) -> int:
        return max(1, min(MOST_RECORDS, MOST_RECORD_BYTES // self._start.nbytes))

    @property
    def problem(self) -> Composite:
        """Of the first of its runs; all have the same data."""
        return self._kinds[0].problem

    @property
    def over(self) -> bool:
        """Whether all its runs are."""
        return not self._going

    @property
    def rounds_done(self) -> int:
        """By all its runs together."""
        return self._rounds_of_over + self.done * sum(group.lanes.size for group in self._going)

    def advance(self, end: int, *, threads: int = 1) -> None:
        """Run up to and including round `end`, and record what the runs' timetables have of these rounds."""
        if not self._calls.visit:
            self._calls = self._compiled()
        begin = self.done
        threads = threads if parallel_kernels_run() else 1
        if begin == 0 and self.adaptive:
            self._count_early(-self.early_counts, 0)
        if begin == 0 and self.program.early_releases:
            self._warm_start()
        first, last = np.searchsorted(self._recorded, [begin, end], side="right")
        recorded = self._recorded[first:last]
        to_the_end = recorded.size and recorded[-1] == end
        ends = np.concatenate([[begin], recorded, [] if to_the_end else [end]]).astype(np.int64)
        if threads == 1:
            self._stretches(ends, threads)
        else:  # the threads of a parallel loop cannot measure together
            for k in range(ends.size - 1):
                self._stretches(ends[k : k + 2], threads)
        if end in self._lengths or self.state.failed.any():
            self._settle()

    def _warm_start(self) -> None:
        """Round 0: it has the numbers of the first, but counts nothing."""
        seen = self._transcript(self.program.early_releases, 1)
        laid = self._lay(0, 1).part(0, 1)
        counted = laid.clipping._replace(counted=np.zeros_like(laid.clipping.counted))
        self._call(np.array([-1, 0]), laid._replace(clipping=counted), seen, threads=1)
        self._keep(0, 0, seen)

    @property
    def early_counts(self) -> int:
        """How many there are before the first round, at most."""
        return max((one.early_gains.size for one in self._adapting), default=0)

    def _count_early(self, begin: int, end: int) -> None:
        """The counts begin + 1 to end of those before the first round, which have the rounds up to 0.

        They are made at the start: methods may put it where gradients are taken later on.
        """
        adapting, count = self._adapting, self.early_counts
        if begin == end:
            return
        # Those that count less often do so last.
        gains, deviations = (
            self._of_rounds([np.pad(part, (count - part.size, 0)) for part in parts], count + begin, count + end, 0.0)
            for parts in ([one.early_gains for one in adapting], [one.early_deviations for one in adapting])
        )
        size = end - begin
        clipping = self.clipping._replace(counted=np.ones(size, np.int64), gains=gains, deviations=deviations)
        method = self.method._replace(
            of_rounds=self.zeros(0, *self.method.of_rounds.shape[1:2]), paces=self.zeros(size + 1)
        )
        before = self.state.points.copy()
        self.state.points[...] = self._start
        seen = self._transcript(0, size)
        calls = self._calls
        self._calls = calls._replace(visit=calls.count_early, serve=calls.adapt_early, does=0, attend=0)
        try:
            self._call(np.array([begin, end]), _Laid(begin, end, self.zeros(size), method, clipping), seen, threads=1)
        finally:
            self._calls = calls
        self.state.points[...] = before
        for runs, lanes, repetitions in self._going:
            if runs.early_counts is not None:
                kept = runs.early_counts.shape[1]
                runs.early_counts[repetitions] = self._of_lanes(seen.counts, lanes)[:, size - kept :]

    def _stretches(self, ends: NDArray[np.int64], threads: int) -> None:
        """From round ends[0] to ends[1] and so on, each recorded where a timetable has it; in one call of a kernel."""
        begin, end = int(ends[0]), int(ends[-1])
        laid = self._lay(begin, end).part(begin, end)
        seen = self._transcript(self.program.local_steps * (end - begin), end - begin)
        if len(self._records[0]) < ends.size - 1:
            self._records = self._arrays_for(ends.size - 1)
        self._call(ends, laid, seen, threads=threads)
        self.done = end
        self._keep(self.program.releases(begin), self.program.broadcasts(begin), seen)
        self._hand_out(ends[1:])

    def _call(self, ends: NDArray[np.int64], laid: _Laid, seen: Transcript, *, threads: int) -> None:
        """These stretches in one call of a kernel."""
        laid.method.paces[0] = self._pace[0]
        cuts = self._cuts(threads) if threads > 1 else np.array([0, self.problem.n])
        with self._samples(cuts.size - 1) as samples:
            about = self._about(samples, laid, seen)
            kernel = rounds.run_parallel if threads > 1 else rounds.run_serial
            kernel(ends, cuts, barrier(cuts.size - 1), lay(tuple(about), self._memory), self._calls)
        if self.adaptive:
            self._pace[0] = laid.method.paces[-1]

    def _about(self, samples: Samples, laid: _Laid, seen: Transcript) -> rounds.Laid:
        """All that a call is about."""
        release = self.release._replace(deviations=laid.deviations)
        records = rounds.Records(self._optimum, *self._records)
        method = laid.method._replace(acts=self.method.acts, attendance=self.method.attendance)
        parts = method, self.state, self.objective, samples, release, seen, records, self._calls, laid.clipping
        return rounds.Laid(*parts, self.drawing)

    def _arrays_for(self, records: int) -> tuple[NDArray[Any], ...]:
        """Where so many average models, their spreads, their distances to the optimum and thresholds are put."""
        return self.zeros(records, self.problem.d), *(self.zeros(records) for _ in range(3))

    @contextmanager
    def _samples(self, shares: int) -> Iterator[Samples]:
        """The data, with scratch for so many shares of the workers; BLAS has one thread in each of them."""
        if isinstance(self.drawing, DrawnAlone) and self.drawing.rows.shape[0] != shares:
            rows = np.zeros((shares, *self.drawing.rows.shape[1:]), dtype=np.int64)
            self.drawing = self.drawing._replace(rows=rows)
        attendance = self.method.attendance
        if self.attending and attendance.kept.shape[0] != shares:
            kept = self.zeros(shares, self.state.workers.shape[0], self.problem.d)
            self.method = self.method._replace(attendance=attendance._replace(kept=kept))
        if self.state.gradient.shape[0] != shares:
            self.state = self.state._replace(**self.scratch(self.problem.d, shares)._asdict())
        if isinstance(self.samples, gradient.Panels) and self.samples.partial.shape[0] != shares:
            shape = shares, *self.samples.partial.shape[1:]
            self.samples = self.samples._replace(partial=aligned_zeros(shape, self.dtype))
        if isinstance(self.samples, gradient.DenseDraws | gradient.SparseDraws):
            lines = shares * gradient.CHOSEN
            if self.samples.targets.shape[0] != lines:
                both = (aligned_zeros((lines, self.samples.targets.shape[1]), self.dtype) for _ in range(2))
                self.samples = self.samples._replace(targets=next(both), inverse_norms=next(both))
        if not isinstance(self.samples, Network):
            yield self.samples
            return
        if self.samples.model.shape[0] != shares:
            self.samples = with_scratch(self.samples, shares, drawn=isinstance(self.drawing, DrawnAlone))
        with blas.one_thread():
            yield self.samples

    def _hand_out(self, measured: NDArray[np.int64]) -> None:
        """What was measured after these rounds, to the runs whose timetables have them."""
        failed = self.state.failed
        # Most runs of a block have the same timetable.
        by_timetable: dict[int, tuple[slice, list[NDArray[Any]]]] = {}
        for runs, lanes, repetitions in self._going:
            own = runs.timetable.rounds
            if id(own) not in by_timetable:
                first, last = np.searchsorted(own, [measured[0], measured[-1] + 1])
                # Every round that is recorded was measured.
                places = np.searchsorted(measured, own[first:last])
                by_timetable[id(own)] = slice(first, last), [self._of_all(column[places]) for column in self._records]
            now, columns = by_timetable[id(own)]
            for kept, column in zip(runs.recorded, columns, strict=True):
                kept[repetitions, now] = column[lanes]
            for lost in np.flatnonzero(failed[lanes]):
                # What was measured after a failure is no part of the run.
                late = slice(np.searchsorted(own, failed[lanes[lost]], side="right"), now.stop)
                for kept in runs.recorded:
                    kept[repetitions[lost], late] = np.nan

    def _settle(self) -> None:
        """How far all runs have come, and the models of those that are over now."""
        going = []
        models = self._of_all(self.models)
        finite = np.isfinite(models).all(axis=(1, 2))
        # What workers keep is looked at in the round after.
        finite &= np.isfinite(self._of_all(self.state.checked)).all(axis=(1, 2))
        for group in self._going:
            runs, lanes, repetitions = group
            done = min(self.done, runs.rounds)
            runs.done[repetitions] = done
            runs.failed[repetitions] = self.state.failed[lanes]
            if done < runs.rounds:
                over = runs.over(repetitions)
                if not over.all():
                    going.append(group.only(~over))
                runs, lanes, repetitions = group.only(over)
            runs.workers[repetitions] = models[lanes]
            # The averages tell a round late where a bounded set holds x and only the dual overflows.
            lost = repetitions[(runs.failed[repetitions] == 0) & ~finite[lanes]]
            runs.failed[lost] = runs.done[lost]
            self._rounds_of_over += done * lanes.size
        self._going = going

    def close(self) -> None:
        """Take the records and models of runs that were stopped before their end."""
        if self._going:
            self._settle()
        for runs, lanes, repetitions in self._going:
            runs.workers[repetitions] = self._of_lanes(self.models, lanes)

    def _transcript(self, releases: int, rounds: int) -> Transcript:
        worker = self._kinds[0].timetable.worker
        if worker < 0:
            return self._nothing_seen
        n, d = self.problem.n, self.problem.d
        seen = Transcript(worker, self.zeros(releases, d), self.zeros(rounds, n), self.zeros(rounds, d))
        seen.counts.fill(np.nan)
        return seen

    def _keep(self, release: int, broadcast: int, seen: Transcript) -> None:
        """What was seen, from these numbers on, of the runs that are not over."""
        if seen.worker < 0:
            return
        for runs, lanes, repetitions in self._going:
            for kept, first, new in (
                (runs.messages, release, seen.messages),
                (runs.broadcasts, broadcast, seen.broadcasts),
            ):
                assert kept is not None  # all runs of a block watch the same worker
                last = min(first + len(new), kept.shape[1])
                kept[repetitions, first:last] = self._of_lanes(new, lanes)[:, : last - first]
            if runs.counts is not None and release >= self.program.early_releases:
                first = broadcast - self.program.warm_start
                last = min(first + len(seen.counts), runs.rounds)
                runs.counts[repetitions, first:last] = self._of_lanes(seen.counts, lanes)[:, : last - first]

    def _cuts(self, threads: int) -> NDArray[np.int64]:
        """Where each thread's workers begin: about equally many samples for each."""
        starts = self._kinds[0].problem.starts
        shares = np.arange(1, threads) * (starts[-1] / threads)
        nearest = np.searchsorted((starts[:-1] + starts[1:]) / 2, shares)
        return np.unique(np.concatenate([[0], nearest, [starts.size - 1]])).astype(np.int64)

    def _lay(self, begin: int, end: int) -> _Laid:
        """What kernels need for these rounds, and some more: a horizon of millions is never laid out in full."""
        if self._laid.begin <= begin and end <= self._laid.end:
            return self._laid
        end = max(end, min(begin + ROUNDS_LAID, self.horizon))
        coefficients = self.stack(program.method.round_numbers_of(program, begin, end) for program in self._programs)
        paces = self.zeros(end - begin + 1)
        paces.fill(1.0)
        method = self.method._replace(of_rounds=coefficients, paces=paces)
        # A run that is over goes on in its lane, unread: with some noise, so that its grid exists.
        deviations = self._of_rounds([runs.schedule.deviations for runs in self._kinds], begin, end, 1.0)
        clipping = self.clipping
        if self._adapting:
            gains = self._of_rounds([one.gains for one in self._adapting], begin, end, 0.0)
            clipping = clipping._replace(
                counted=np.asarray((gains.reshape(end - begin, -1) > 0).any(axis=1), dtype=np.int64),
                gains=gains,
                deviations=self._of_rounds([one.deviations for one in self._adapting], begin, end, 0.0),
            )
        self._laid = _Laid(begin, end, deviations, method, clipping)
        return self._laid

    def _of_rounds(self, values: Sequence[Array], begin: int, end: int, over: float) -> NDArray[Any]:
        """A number of every run for each of these rounds; another of those that are over."""
        padded = np.full((end - begin, len(values)), over)
        for kind, of_run in enumerate(values):
            part = of_run[begin:end]
            padded[: part.size, kind] = part
        return self.stack(padded.T)

    def _clipping(self, problem: Composite) -> Clipping:
        """How all runs adapt their thresholds, without the numbers of rounds; nothing where they do not."""
        found, none = self._adapting, self.zeros(0)
        if not found:
            return Clipping(np.zeros(0, np.int64), none, none, none, 0.0, *[none] * 7)
        knots = max(one.knots.size for one in found)
        at, bends = zip(*(one.bends(knots) for one in found), strict=True)
        return Clipping(
            counted=np.zeros(0, np.int64),
            gains=none,
            deviations=none,
            factors=self.stack(one.factors for one in found),
            part=found[0].part,
            quantile=self.stack(one.clip.quantile for one in found),
            factor=self.stack(one.factor for one in found),
            least=self.stack(one.limits.least for one in found),
            most=self.stack(one.limits.most for one in found),
            released=self.zeros(problem.n),
            knots=self.stack(at),
            bends=self.stack(bends),
        )

    def _of_all(self, array: NDArray[Any]) -> NDArray[Any]:
        """What all lanes hold, lanes first: a view."""
        if self.alone:
            return array[None]
        flat: NDArray[Any] = array.reshape(*array.shape[: -len(self.lane_shape)], self.lanes)
        return flat.transpose(-1, *range(flat.ndim - 1))

    def _of_lanes(self, array: NDArray[Any], lanes: NDArray[np.int64]) -> NDArray[Any]:
        """What these lanes hold, lanes first."""
        return self._of_all(array)[: lanes.size] if self.alone else self._of_all(array)[lanes]


def _kept(method: Any, workers: NDArray[Any], server: NDArray[Any], name: str, round_: int = 0) -> NDArray[Any]:
    """The row of two arrays that a method calls so; in this round, where there are two of them in turns."""
    if name in method.workers:
        turn = round_ & 1 if name in method.mixed else 0
        row: NDArray[Any] = workers[rows_of(method.workers, method.mixed)[name] + turn]
    else:
        row = server[method.server.index(name)]
    return row
