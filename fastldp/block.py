"""A block: runs over the same data that ride in lanes together, advanced a segment at a time.

Everything that may differ between the runs of a block is a vector of lanes: start, key, step, noise, l2, weights, size
of the set, clipping, optimum and length. A run alone has no lane axis; its lanes then hold samples and rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp.algorithms import Schedule
from fastldp.kernels import gradient, metrics, privatize, rounds
from fastldp.kernels.simd import aligned_zeros
from fastldp.problem import Problem
from fastldp.recording import Plan

Array = NDArray[np.float64]

LANES = {"float64": 8, "float32": 16}
LOSS_CODES = {"logistic": gradient.LOGISTIC, "squared": gradient.SQUARED}


@dataclass(eq=False)
class Run:
    """One run: what defines it, and what has been recorded of it."""

    problem: Problem
    schedule: Schedule
    x0: Array
    key: NDArray[np.uint32]
    plan: Plan
    optimum: Array
    done: int = 0
    failed: int = 0
    """The round at which the average became non-finite, or 0."""
    workers: Array = field(init=False)
    means: Array = field(init=False)
    consensus: Array = field(init=False)
    distance: Array = field(init=False)
    """The squared distance to the optimum."""
    messages: Array | None = field(init=False)

    def __post_init__(self) -> None:
        records, d = self.plan.rounds.size, self.problem.d
        self.workers = np.full((self.problem.n, d), np.nan)
        self.means = np.full((records, d), np.nan)
        self.consensus = np.full(records, np.nan)
        self.distance = np.full(records, np.nan)
        self.messages = np.full((self.rounds, d), np.nan) if self.plan.worker >= 0 else None

    @property
    def rounds(self) -> int:
        """T."""
        return self.schedule.deviations.size

    @property
    def over(self) -> bool:
        """Whether nothing is left to be done."""
        return self.done == self.rounds or self.failed > 0

    @property
    def lane_mates(self) -> tuple[Any, ...]:
        """What runs must have in common to share a block."""
        problem = self.problem
        data = id(problem.rows), id(problem.starts), problem.loss, problem.dtype
        return *data, problem.regularizer.kernel_form(problem.d).code, release_mode(self), self.plan.worker


def release_mode(run: Run) -> int:
    """How a run's queries are released: without noise, or with noise on the grid, or off it in single precision."""
    if run.schedule.ledger is None:
        return privatize.EXACT
    return privatize.GRIDDED if run.problem.dtype == "float64" else privatize.GAUSSIAN


class Block:
    """Runs in lanes, the state they are in, and the numbers their kernel needs."""

    def __init__(self, samples: gradient.Samples, runs: Sequence[Run], *, alone: bool = False) -> None:
        self.runs = runs
        self.samples = samples
        self.done = 0
        self.horizon = max(run.rounds for run in runs)
        problem = runs[0].problem
        self.dtype = np.dtype(problem.dtype)
        line = LANES[problem.dtype]
        # A block of more runs than fill a cache line has lanes of two: (2, line) instead of (line,).
        self.lane_shape = (line,) if len(runs) <= line else (2, line)
        self.lanes = math.prod(self.lane_shape)
        self.alone = alone
        # Empty lanes repeat the last run; their results are never read.
        self._filled = [runs[0]] if self.alone else [runs[min(k, len(runs) - 1)] for k in range(self.lanes)]

        n, d = problem.n, problem.d
        self.state = rounds.State(
            X=self._stack(np.tile(run.x0, (n, 1)) for run in self._filled),
            dual=self._zeros(n, d),
            half=self._zeros(n, d),
            mean=self._zeros(d),
            failed=np.zeros(len(self._filled), dtype=np.int64),
        )
        forms = [run.problem.regularizer.kernel_form(d) for run in self._filled]
        steps = [run.schedule.step for run in self._filled]
        self.method = rounds.Method(
            loss=LOSS_CODES[problem.loss],
            prox=forms[0].code,
            step=self._stack(steps),
            shrink=self._stack(run.problem.l2 / n for run in self._filled),
            threshold=self._stack(step * form.weight / n for step, form in zip(steps, forms, strict=True)),
            clip=self._stack(min(run.problem.clip, np.finfo(self.dtype).max) for run in self._filled),
            size=self._stack(form.size for form in forms),
            weight=(1.0 / (n * problem.sizes)).astype(self.dtype),
        )
        self._optimum = self._stack(run.optimum for run in self._filled)
        self._measured = self._zeros(d), self._zeros(1), self._zeros(1)
        self.release = self._release(n, d)

    def _zeros(self, *shape: int) -> NDArray[Any]:
        return aligned_zeros(shape if self.alone else (*shape, *self.lane_shape), self.dtype)

    def _stack(self, values: Any) -> NDArray[Any]:
        """One value of each run, lanes last; of a run alone, its value."""
        stacked = np.stack([np.atleast_1d(np.asarray(value, dtype=self.dtype)) for value in values], axis=-1)
        laid = self._zeros(*stacked.shape[:-1])
        laid[...] = stacked[..., 0] if self.alone else stacked.reshape(laid.shape)
        return laid

    def _release(self, n: int, d: int) -> rounds.Release | rounds.SingleRelease:
        keys = np.stack([self._filled[k % len(self._filled)].key for k in range(self.lanes)], axis=-1)
        common: dict[str, Any] = {
            "mode": release_mode(self.runs[0]),
            "keys": np.ascontiguousarray(keys),
            "deviations": self._zeros(0),
            "factors": self._stack(run.schedule.factors for run in self._filled),
        }
        if not self.alone:
            return rounds.Release(**common)
        normals, dithers = (aligned_zeros((n, -(-d // 8) * 8, self.lanes), self.dtype) for _ in range(2))
        return rounds.SingleRelease(**common, normals=normals, dithers=dithers, drawn=np.full(n, -1))

    def ends(self, length: int) -> list[int]:
        """Where segments end: at every recorded round, at the end of every run, and at least every `length` rounds."""
        regular = np.arange(self.done, self.horizon, length)[1:]
        marks = [run.plan.rounds for run in self.runs] + [np.array([run.rounds for run in self.runs]), regular]
        return [int(end) for end in np.unique(np.concatenate(marks)) if end > self.done]

    def advance(self, end: int, *, threads: int = 1) -> None:
        """Run up to and including round `end`, and record it in the runs whose plans say so."""
        begin, count = self.done, end - self.done
        release = self.release._replace(deviations=self._deviations(begin, end))
        worker = self.runs[0].plan.worker
        d = self.state.mean.shape[0]
        seen = rounds.Transcript(worker, self._zeros(count if worker >= 0 else 0, d))
        given = self.state, self.samples, self.method, release, seen
        if threads > 1:
            rounds.run_parallel(begin + 1, end + 1, self._cuts(threads), *given)
        else:
            rounds.run_serial(begin + 1, end + 1, *given)
        self.done = end
        measured = False
        for k, run in enumerate(self.runs):
            if run.over:
                continue
            run.done = min(end, run.rounds)
            run.failed = int(self.state.failed[k])
            if run.messages is not None:
                run.messages[begin : run.done] = self._lane(seen.messages, k)[: run.done - begin]
            record = int(np.searchsorted(run.plan.rounds, end))
            if record < run.plan.rounds.size and run.plan.rounds[record] == end:
                if not measured:
                    metrics.measure(self.state.X, self._optimum, *self._measured)
                    measured = True
                mean, consensus, distance = (self._lane(values, k) for values in self._measured)
                run.means[record], run.consensus[record], run.distance[record] = mean, consensus[0], distance[0]
            if run.over:
                run.workers[...] = self._lane(self.state.X, k)
                # The averages tell a round late where a bounded set holds x and only the dual overflows.
                if not run.failed and not np.isfinite(run.workers).all():
                    run.failed = run.done

    def _cuts(self, threads: int) -> NDArray[np.int64]:
        """Where each thread's workers begin: about equally many samples for each."""
        starts = self.runs[0].problem.starts
        shares = np.arange(1, threads) * (starts[-1] / threads)
        nearest = np.searchsorted((starts[:-1] + starts[1:]) / 2, shares)
        return np.unique(np.concatenate([[0], nearest, [starts.size - 1]])).astype(np.int64)

    def _deviations(self, begin: int, end: int) -> NDArray[Any]:
        """ξ_t of every run for these rounds alone: a horizon of millions is never laid out in full."""
        laid = self._zeros(end - begin)
        for k, run in enumerate(self._filled):
            part = run.schedule.deviations[begin:end]
            self._lane(laid, k)[: part.size] = part
            # A run that is over goes on in its lane, unread: with some noise, so that its grid exists.
            self._lane(laid, k)[part.size :] = 1.0
        return laid

    def _lane(self, array: NDArray[Any], k: int) -> NDArray[Any]:
        if self.alone:
            return array
        flat: NDArray[Any] = array.reshape(*array.shape[: -len(self.lane_shape)], self.lanes)
        return flat[..., k]

    def close(self) -> None:
        """Take the models of runs that were stopped before their end."""
        for k, run in enumerate(self.runs):
            if not run.over:
                run.workers[...] = self._lane(self.state.X, k)


def samples_in_rows(problem: Problem) -> gradient.DenseSamples | gradient.SparseSamples:
    """The data for runs in lanes: the problem's own arrays in double precision, a copy in single."""
    dtype = np.dtype(problem.dtype)
    common = problem.targets.astype(dtype, copy=False), _inverse_norms(problem).astype(dtype), problem.starts
    if sparse.issparse(problem.rows):
        # Column numbers are not negative, so those of 32 bits can be read as unsigned where they lie.
        indices, starts = problem.rows.indices, problem.rows.indptr.astype(np.int64)
        columns = indices.view(np.uint32) if indices.itemsize == 4 else indices.astype(np.uint32)
        return gradient.SparseSamples(problem.rows.data.astype(dtype, copy=False), *common, columns, starts)
    return gradient.DenseSamples(problem.rows.astype(dtype, copy=False), *common)


def padding(problem: Problem) -> float:
    """How much larger panels are than the rows they hold."""
    lanes = LANES[problem.dtype]
    return float(np.sum(-(-problem.sizes // lanes)) * lanes / problem.sizes.sum())


def samples_in_panels(problem: Problem) -> gradient.Panels:
    """Dense data with the samples in the lanes, for one run: a copy, filled up to whole panels with zeros."""
    dtype, lanes = np.dtype(problem.dtype), LANES[problem.dtype]
    counts = -(-problem.sizes // lanes)
    firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    panels = int(firsts[-1])
    values = aligned_zeros((panels, problem.d, lanes), dtype)
    targets, norms = np.zeros((panels, lanes), dtype), np.zeros((panels, lanes), dtype)
    inverse_norms = _inverse_norms(problem)
    for i in range(problem.n):
        mine, size = slice(problem.starts[i], problem.starts[i + 1]), int(problem.sizes[i])
        here = slice(firsts[i], firsts[i + 1])
        padded = np.zeros((counts[i] * lanes, problem.d), dtype)
        padded[:size] = problem.rows[mine]
        values[here] = padded.reshape(counts[i], lanes, problem.d).transpose(0, 2, 1)
        targets[here].reshape(-1)[:size] = problem.targets[mine]
        norms[here].reshape(-1)[:size] = inverse_norms[mine]
    return gradient.Panels(values, targets, norms, firsts, aligned_zeros((problem.n, problem.d, lanes), dtype))


def _inverse_norms(problem: Problem) -> Array:
    """1/‖a‖ of every row, finite in the precision of the runs; rows so small are not clipped by any bound."""
    smallest = 4 * float(np.finfo(problem.dtype).tiny)
    return np.asarray(1 / np.maximum(problem.row_norms, smallest))
