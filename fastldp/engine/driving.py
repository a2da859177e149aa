"""The engine: packs runs into blocks of lanes, spreads blocks and workers over threads, drives segments.

Nothing is ever added across lanes of runs, and every sum has a fixed order, so a run's bits depend on neither its
neighbours, nor the threads, nor how its rounds are cut into segments. A run alone puts its samples in the lanes, which
changes the rounding of its gradients and nothing else. A run of a network is always alone in its block.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import ThreadingBackend
from numpy.typing import NDArray
from scipy import sparse

from fastldp import memory
from fastldp.engine.block import NEVER, Block
from fastldp.engine.layouts import (
    Samples,
    bytes_beside,
    far,
    lanes_of,
    padding,
    samples_in_lanes,
    samples_in_panels,
    samples_in_rows,
    samples_to_draw,
    sums_fit,
)
from fastldp.engine.runs import Lane, Runs
from fastldp.engine.threads import Crew, several_callers, sharing, spread
from fastldp.forking import available_cores as available_cores
from fastldp.forking import parallel_kernels_run
from fastldp.kernels.calling import Piece
from fastldp.kernels.methods import rows_of
from fastldp.methods import Program
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem

# How long one kernel call should take, for Ctrl-C and the progress bar, and what a round costs: so many nanoseconds a
# product, a coordinate (its noise) and a round. Only the order of magnitude matters.
SEGMENT_NANOSECONDS = 1e8
PRODUCT, COORDINATE, ROUND = 2.0, 60.0, 1000.0

# The products of a round below which one thread does it sooner than several can agree to: some ten microseconds. On a
# busy machine each agreement may cost a time slice, so small problems keep to one thread.
PARALLEL_WORK = 30_000

# The nanoseconds of a block's rounds below which threads wait for each other's Python longer than the kernel takes.
SHORT_BLOCK = 3e5
# And of all blocks together, below which they are done before threads have started, which takes some milliseconds.
SHORT_JOB = 1e7

# How much larger than the data its panels may be.
MOST_PADDING = 2.0


class _Threads(ThreadingBackend):  # type: ignore[misc]
    """joblib's threads, but who waits for a result is woken by it: joblib looks for it every ten milliseconds."""

    supports_retrieve_callback = False

    def retrieve_result(self, out: Any, timeout: float | None = None) -> Any:
        # joblib hands on what a task raised as a value; this raises it again.
        return self.retrieve_result_callback(out.get(timeout))


def execute(
    problem: Composite,
    jobs: Sequence[Runs],
    *,
    n_jobs: int | None,
    advanced: Callable[[int], None],
    stop: threading.Event,
) -> None:
    """Run all jobs, all over the data of `problem`, to their end, or to the next segment once `stop` is set.

    `advanced` hears of the run-rounds done, from any thread.
    """
    cores = available_cores() if n_jobs is None else min(n_jobs, available_cores())
    lanes, lines = lanes_of(problem), lines_of(problem, sum(len(runs.keys) for runs in jobs), cores)
    packs = pack(jobs, lanes, lines)
    _refuse_what_cannot_fit(problem, jobs, lanes=lines * lanes, blocks=min(len(packs), cores))
    single = sum(len(pack) for pack in packs) == 1
    samples, alone = _laid_out(problem, jobs, single=single, runs=max(map(len, packs)))
    cost = nanoseconds(problem, max(runs.schedule.program.local_steps for runs in jobs))

    last = threading.local()

    def complete(batch: Sequence[Lane], threads: int) -> None:
        if stop.is_set():
            return
        # Laying out a block takes longer than running it where runs are short: each thread uses its last one again.
        block: Block | None = getattr(last, "block", None)
        if block is None or not block.reuse(batch):
            block = last.block = Block(samples, batch, alone=alone)
        drive(block, threads=threads, stop=stop, advanced=advanced)

    def complete_or_stop(batch: Sequence[Lane], threads: int) -> None:
        try:
            complete(batch, threads)
        except BaseException:
            stop.set()  # or the blocks of other threads would go on
            raise

    def complete_all(batches: Sequence[Sequence[Lane]], at_once: int, threads: int) -> None:
        if at_once == 1:
            for batch in batches:
                complete(batch, threads)
        else:
            parallel = Parallel(n_jobs=at_once, backend=_Threads(), batch_size=1, pre_dispatch="all")
            parallel(delayed(complete_or_stop)(batch, threads) for batch in batches)

    # Whole waves of blocks take a thread each; where it pays, the blocks left over share all threads.
    pays = cores > 1 and threads_pay(problem, alone=alone)
    waves = len(packs) - len(packs) % cores if pays else len(packs)
    lengths = [batch[0].runs.rounds * cost for batch in packs[:waves]]
    short = waves <= 1 or lengths[0] < SHORT_BLOCK or sum(lengths) < SHORT_JOB
    complete_all(packs[:waves], 1 if short else cores, 1)
    if left := packs[waves:]:
        work = problem.work * (1 if alone else lanes)
        complete_all(left, *spread(len(left), cores, work, problem.n, at_once=len(left) > 1 and several_callers()))


def drive(
    block: Block,
    *,
    threads: int = 1,
    stop: threading.Event | None = None,
    advanced: Callable[[int], None] | None = None,
    limit: int = NEVER,
    seconds: float = math.inf,
) -> None:
    """A block to its end, or to the segment at which there is a stop, the limit, or no time left.

    `advanced` hears of the run-rounds done.
    """
    deadline = time.perf_counter() + seconds
    length = segment_length(block.problem, block.program.local_steps)
    # Who has less time than a segment takes gets records one by one.
    at_records = seconds < 1e-9 * SEGMENT_NANOSECONDS
    crew = Crew(threads)
    with sharing(threads):
        for end in block.ends(length, at_records=at_records, limit=limit):
            before, done = block.rounds_done, block.done
            crew.begin()
            block.advance(end, threads=crew.now)
            crew.end(end - done)
            if advanced is not None:
                advanced(block.rounds_done - before)
            if block.over or time.perf_counter() > deadline or (stop is not None and stop.is_set()):
                break
    block.close()


def code_of(problem: Composite, jobs: Sequence[Runs]) -> list[Piece]:
    """All that the blocks of these jobs have compiled, or will, on all cores."""
    count = sum(len(runs.keys) for runs in jobs)
    lines = lines_of(problem, count, available_cores())
    packs = {(batch[0].runs.kind, len(batch)): batch for batch in pack(jobs, lanes_of(problem), lines)}
    samples, alone = _laid_out(problem, jobs, single=count == 1, runs=max(map(len, packs.values())))
    return [piece for batch in packs.values() for piece in Block(samples, batch, alone=alone).code().all()]


def _laid_out(problem: Composite, jobs: Sequence[Runs], *, single: bool, runs: int) -> tuple[Samples, bool]:
    """The data as kernels want them for blocks of so many runs, and whether one run puts its samples in the lanes."""
    if not (single and isinstance(problem, Problem)):
        return samples_in_lanes(problem, runs), False
    return laid_out_alone(problem, problem, jobs[0].schedule.program)


def laid_out_alone(problem: Problem, whole: Problem, program: Program) -> tuple[Samples, bool]:
    """The same for a single run on a problem, or on a part of the whole problem."""
    if program.sampling is not None and program.sampling.draws:
        return samples_to_draw(problem), True
    if sparse.issparse(problem.rows):
        return samples_in_rows(problem), True
    # Where shards are too small to fill panels the run rides in run lanes, alone.
    alone = padding(whole) <= MOST_PADDING
    return (samples_in_panels(problem) if alone else samples_in_rows(problem)), alone


def pack(jobs: Sequence[Runs], lanes: int, lines: int = 1) -> list[list[Lane]]:
    """Runs that can share lanes, longest first, so that the runs of a block end together.

    A block has `lines` lines of lanes, or one where no more runs are left than fill it.
    """
    by_kind: dict[tuple[object, ...], list[Lane]] = {}
    for runs in sorted(jobs, key=lambda runs: -runs.releases):
        by_kind.setdefault(runs.kind, []).extend(Lane(runs, k) for k in range(len(runs.keys)))
    packs = [
        list(batch[begin:end])
        for batch in by_kind.values()
        for begin, end in itertools.pairwise(cuts_of(len(batch), lines * lanes).tolist())
    ]
    return sorted(packs, key=lambda batch: -batch[0].runs.releases)


def cuts_of(runs: int, size: int) -> NDArray[np.int64]:
    """Where blocks of runs that can share lanes begin, and where the last ends.

    >>> cuts_of(20, 8).tolist()
    [0, 8, 16, 20]
    """
    return np.append(np.arange(0, runs, size, dtype=np.int64), runs)


def lines_of(problem: Composite, runs: int = 1, cores: int = 1) -> int:
    """How many lines of lanes a full block has, where so many runs are to be made on so many cores."""
    if not (isinstance(problem, Problem) and problem.dtype == "float64"):
        return 1  # float32 has sixteen runs in one line
    # Runs over sparse data share its indices, so sixteen cost each less than eight.
    if sparse.issparse(problem.rows):
        return 2
    # Data from beyond a core's caches are read once for sixteen runs instead of eight, where registers hold the sums of
    # so many and that leaves no core without a block, nor a block half empty.
    whole = -(-runs // lanes_of(problem)) % (2 * cores) == 0
    return 2 if whole and far(problem.rows.nbytes) and sums_fit(2) else 1


def nanoseconds(problem: Composite, local_steps: int) -> float:
    """What a round of a block costs, to an order of magnitude."""
    return local_steps * (PRODUCT * problem.work + COORDINATE * problem.n * problem.d) + ROUND


def segment_length(problem: Composite, local_steps: int) -> int:
    """How many rounds a kernel call should have."""
    return max(1, int(SEGMENT_NANOSECONDS / nanoseconds(problem, local_steps)))


def threads_pay(problem: Composite, *, alone: bool = False) -> bool:
    """Whether threads can share the rounds of a block, and these are long enough for it."""
    return parallel_kernels_run() and problem.work * (1 if alone else lanes_of(problem)) > PARALLEL_WORK


def _numbers_kept(program: Program) -> int:
    """By the workers of a run, in at most three arrays where there is a server, and of its links."""
    method, mixing = program.method, program.mixing
    of_links = 0 if mixing is None else mixing.links
    return max(3, rows_of(method.workers, method.mixed)[""]) * program.problem.n * program.problem.d + of_links


def _refuse_what_cannot_fit(problem: Composite, jobs: Sequence[Runs], *, lanes: int, blocks: int) -> None:
    """The arrays of all blocks at work, and what laying out data takes (not a network's), before all else."""
    numbers = max(_numbers_kept(runs.schedule.program) for runs in jobs)
    at_work = blocks * numbers * lanes * np.dtype(problem.dtype).itemsize
    single = sum(len(runs.keys) for runs in jobs) == 1
    beside = bytes_beside(problem, alone=single) if isinstance(problem, Problem) else 0
    memory.refuse_beyond("problem", at_work + beside, "use fewer cores (n_jobs=), or fewer workers")
