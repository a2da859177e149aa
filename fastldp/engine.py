"""The engine: packs runs into blocks of lanes, spreads blocks and workers over threads, drives segments.

A run is one lane of a block. Nothing is ever added across lanes, and every sum has a fixed order, so a
run's bits depend on neither its neighbours, nor the threads, nor how its rounds are cut into segments.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse

from fastldp import memory
from fastldp.algorithms import Schedule
from fastldp.kernels import gradient, jit, metrics, privatize, rounds
from fastldp.problem import Problem
from fastldp.recording import Plan

Array = NDArray[np.float64]

LANES = 8
# The work of one kernel call, in sample visits: about a tenth of a second, for Ctrl-C and the progress bar.
SEGMENT_WORK = 20_000_000
LOSS_CODES = {"logistic": gradient.LOGISTIC, "squared": gradient.SQUARED}

# Numba's simplest threading layer aborts where two threads start parallel kernels at the same time.
_ONE_PARALLEL_CALLER = threading.Lock()


@dataclass(frozen=True, eq=False)
class Run:
    """One lane: a schedule, a start, and the key of its noise."""

    schedule: Schedule
    x0: Array
    key: NDArray[np.uint32]


class Block:
    """Up to LANES runs of equal length over the same data, and what was recorded of them."""

    def __init__(self, problem: Problem, samples: gradient.Samples, runs: Sequence[Run], plan: Plan) -> None:
        n, d = problem.n, problem.d
        # Empty lanes repeat the last run; their results are never read.
        filled = [runs[min(k, len(runs) - 1)] for k in range(LANES)]
        self.runs = runs
        self.plan = plan
        self.samples = samples
        self.horizon = runs[0].schedule.deviations.size
        self.done = 0

        starts = np.stack([run.x0 for run in filled], axis=-1)
        self.state = rounds.State(
            X=np.repeat(starts[None], n, axis=0),
            dual=np.zeros((n, d, LANES)),
            half=np.empty((n, d, LANES)),
            mean=np.empty((d, LANES)),
            failed=np.zeros(LANES, dtype=np.int64),
        )
        steps = np.array([run.schedule.step for run in filled])
        form = problem.regularizer.kernel_form(d)
        self.method = rounds.Method(
            loss=LOSS_CODES[problem.loss],
            prox=form.code,
            step=steps,
            shrink=np.full(LANES, problem.l2 / n),
            threshold=np.outer(form.weight, steps / n),
            size=np.full(LANES, form.size),
            weight=1.0 / (n * problem.sizes),
        )
        grids = np.array([run.schedule.grid for run in filled])
        private = bool((grids > 0).all())
        self.release = rounds.Release(
            mode=privatize.GRIDDED if private else privatize.EXACT,
            keys=np.ascontiguousarray(np.stack([run.key for run in filled], axis=-1)),
            deviations=np.empty((0, LANES)),
            factors=np.ascontiguousarray(np.stack([run.schedule.factors for run in filled], axis=-1)),
            grid=grids,
            inverse_grid=1 / grids if private else grids,
        )
        self.filled = filled

        records = plan.rounds.size
        self.optimum = np.full(d, np.nan)
        self.means = np.full((records, d, LANES), np.nan)
        self.consensus = np.full((records, LANES), np.nan)
        self.distance = np.full((records, LANES), np.nan)
        self.messages = np.full((self.horizon if plan.worker >= 0 else 0, d, LANES), np.nan)
        self._final = np.empty((d, LANES))

    def segments(self, length: int) -> list[int]:
        """Where calls end: at every recorded round, and at least every `length` rounds."""
        regular = np.arange(self.done, self.horizon, length)[1:]
        ends = np.concatenate([self.plan.rounds, regular, [self.horizon]])
        return [int(end) for end in np.unique(ends) if end > self.done]

    def advance(self, end: int, *, parallel: bool) -> None:
        """Run up to and including round `end`, and record it where the plan says so."""
        first, last = self.done + 1, end + 1
        # One deviation a round and lane, for this call alone: a horizon of millions is never held in full.
        deviations = np.stack([run.schedule.deviations[self.done : end] for run in self.filled], axis=-1)
        release = self.release._replace(deviations=np.ascontiguousarray(deviations))
        seen = rounds.Transcript(self.plan.worker, self.messages[self.done : end])
        if parallel:
            rounds.run_parallel(first, last, self.state, self.samples, self.method, release, seen)
        else:
            rounds.run_serial(first, last, self.state, self.samples, self.method, release, seen)
        self.done = end
        record = int(np.searchsorted(self.plan.rounds, end))
        if record < self.plan.rounds.size and self.plan.rounds[record] == end:
            metrics.measure(
                self.state.X, self.optimum, self.means[record], self.consensus[record], self.distance[record]
            )

    @property
    def failed(self) -> NDArray[np.int64]:
        """The round at which each run became non-finite, or 0."""
        return self.state.failed[: len(self.runs)]


def execute(
    problem: Problem,
    runs: Sequence[Run],
    plan: Plan,
    optimum: Array,
    *,
    n_jobs: int | None,
    advanced: Callable[[int], None],
    stop: threading.Event,
) -> list[Block]:
    """Run all runs to their end, or to the next segment once `stop` is set; `advanced` hears of run-rounds done."""
    cores = available_cores() if n_jobs is None else min(n_jobs, available_cores())
    _refuse_what_cannot_fit(problem, runs, plan)
    samples = samples_of(problem)
    blocks = [Block(problem, samples, runs[k : k + LANES], plan) for k in range(0, len(runs), LANES)]
    visits = problem.A.shape[0] * (problem.A.nnz / problem.A.shape[0] if sparse.issparse(problem.A) else problem.d)
    length = max(1, int(SEGMENT_WORK / visits))
    for block in blocks:
        block.optimum[:] = optimum

    def complete(block: Block, parallel: bool) -> None:
        for end in block.segments(length):
            if stop.is_set() or block.failed.all():
                return
            before = block.done
            block.advance(end, parallel=parallel)
            advanced((end - before) * len(block.runs))

    # Whole waves of blocks take a thread each; the blocks left over share all threads, one after another.
    alone = len(blocks) - len(blocks) % cores
    if alone:
        Parallel(n_jobs=cores, backend="threading")(delayed(complete)(block, False) for block in blocks[:alone])
    for block in blocks[alone:]:
        with _ONE_PARALLEL_CALLER, _numba_threads(cores):
            complete(block, True)
    return blocks


def samples_of(problem: Problem) -> gradient.Samples:
    """The problem's data as kernels take it."""
    common = problem.b, problem.slope_limits, problem.starts
    if sparse.issparse(problem.A):
        columns, starts = problem.A.indices.astype(np.uint32), problem.A.indptr.astype(np.int64)
        return gradient.SparseSamples(problem.A.data, *common, columns, starts)
    return gradient.DenseSamples(problem.A, *common)


def available_cores() -> int:
    """The cores this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, int(jit.config.NUMBA_NUM_THREADS)))


class _numba_threads:
    """So many of Numba's threads inside the with, as many as before after it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> None:
        self.before = numba.get_num_threads()
        numba.set_num_threads(self.count)

    def __exit__(self, *_: object) -> None:
        numba.set_num_threads(self.before)


def _refuse_what_cannot_fit(problem: Problem, runs: Sequence[Run], plan: Plan) -> None:
    """State, records and messages, estimated before any of it is allocated."""
    lanes = -(-len(runs) // LANES) * LANES
    n, d, horizon = problem.n, problem.d, runs[0].schedule.deviations.size
    state = 3 * n * d * lanes
    records = plan.rounds.size * (d + 2) * lanes
    messages = horizon * d * lanes if plan.worker >= 0 else 0
    needed = 8 * (state + records + messages)
    memory.refuse_beyond("solve", needed, "ask for fewer repetitions, records or messages")
