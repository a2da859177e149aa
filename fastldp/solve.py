"""solve(): validate, run, and build the Solution."""

from __future__ import annotations

import signal
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp import bars, memory
from fastldp.engine import driving
from fastldp.engine.compiling import is_compiling
from fastldp.engine.recording import Record, Timetable, timetable
from fastldp.engine.runs import Runs
from fastldp.errors import (
    ArgumentError,
    ClippingWarning,
    DeltaWarning,
    DivergedError,
    InterruptedSolve,
    NoiseWarning,
    OptimumError,
    OptimumWarning,
    SamplerWarning,
)
from fastldp.measures import Measures
from fastldp.methods import Method, PrimalDual
from fastldp.methods.clipping import REACH, AdaptiveClip
from fastldp.methods.planned import PLANNED
from fastldp.noise import Noise, identity
from fastldp.privacy.budget import LARGEST_DELTA, Budget
from fastldp.privacy.ledger import Ledger
from fastldp.problems.composite import LARGEST_ENTRY, Composite
from fastldp.problems.weighting import UNIFORM
from fastldp.solution import Outcome, Solution, Status
from fastldp.validation import integer, vector

Array = NDArray[np.float64]

# The noise is addressed by the round in 32 bits.
MOST_ROUNDS = 2**32 - 1
FEWER_ROUNDS = f"give a whole number from 1 to {MOST_ROUNDS:,}"
# What is computed for every round before the first: variances, deviations, and room to compute them in.
ARRAYS_OF_ROUNDS = 6
# A worker whose noise has more than so many times the variance of the others' median is warned of.
MOST_DOMINANCE = 10.0
# A threshold that went so much of the way that its counts could carry it was hardly there: it stops at the quantile.
ARRIVED = 0.8


def solve(
    problem: Composite,
    budget: Budget | None = None,
    *,
    rounds: int | str = PLANNED,
    algorithm: Method | None = None,
    repetitions: int = 1,
    seed: int | None = None,
    common_noise: bool = False,
    x0: ArrayLike | None = None,
    record: Record = None,
    n_jobs: int | None = None,
    progress: bool = False,
    throw: bool = True,
) -> Solution:
    """Solve a problem with locally private messages.

    Parameters
    ----------
    problem : Problem or MLP
        What to minimise, and how the data are split over workers.
    budget : Budget, optional
        The (ε, δ) each worker is promised; None runs without noise, and promises nothing.
    rounds : int or str
        The horizon T, for which the variances are allocated; ``"planned"`` takes the fewest that suffice.
    algorithm : method, optional
        Where it is not given, `PrimalDual()`, the paper's method as it is; or, where rounds are planned, the same with
        step and allocation planned and clipping that adapts: nothing to tune, and nothing read off the data. Or
        `ISRLDP`, `DPFedAvg`, `DPScaffold`, `LDPFedEXP`, `DPScaffNew`, or a `Method` of your own.
    repetitions : int
        Independent runs, each with noise of its own.
    seed : int, optional
        The same run has the same bits under the same seed, on any number of threads, and any other run has other noise.
        None takes a key from the operating system and does not keep it, as a deployment should: who knows the seed can
        take the noise off.
    common_noise : bool
        Whether all runs of this seed have the same noise, whatever else differs between them, for comparisons. Of runs
        with noise in common no more than one may ever be published.
    x0 : array of shape (d,), optional
        The start, for all workers; zero (of a network its seeded start), or the point of the regularizer's set nearest
        to it.
    record : Every, Final, Messages or list, optional
        `Every(k)`, a list of rounds, or `Final()`; `Messages(worker)` keeps that worker's messages, alone or in a list
        with one of the others. By default at most 100 rounds, evenly spaced.
    n_jobs : int, optional
        How many cores may be used; all of them by default.
    progress : bool
        Whether to show a bar.
    throw : bool
        Whether a run that diverged or was interrupted raises (the error carries the solution) or is returned with its
        status.

    Returns
    -------
    Solution
        Models, errors along the rounds, and the ledger.

    Examples
    --------
    >>> import numpy as np, fastldp as fl
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((400, 5)) / 3
    >>> problem = fl.Problem(A, np.sign(A[:, 0]), workers=4, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0))
    >>> run = fl.solve(problem, fl.Budget(epsilon=1.0, delta=1e-4), rounds=50, repetitions=3, seed=0)
    >>> run.x.shape, run.optimality.shape
    ((3, 5), (3, 50))
    >>> run.ledger.spent_epsilon <= 1.0
    True
    """
    check_common(problem, budget, n_jobs, seed)
    method = algorithm
    if algorithm is None:
        method = planned_method() if isinstance(rounds, str) else PrimalDual()
    if not isinstance(method, Method):
        raise ArgumentError("algorithm", algorithm, "give an instance such as PrimalDual() or ISRLDP(step=0.5)")
    if isinstance(rounds, str):
        rounds = _planned_rounds(problem, budget, rounds, method)
    rounds = integer("rounds", rounds, FEWER_ROUNDS, at_least=1, at_most=MOST_ROUNDS)
    repetitions = integer("repetitions", repetitions, "give a whole number ≥ 1", at_least=1)
    memory.refuse_beyond("rounds", 8 * ARRAYS_OF_ROUNDS * rounds, "ask for fewer rounds", value=rounds)
    wanted = timetable(record, rounds, problem.n)
    start = starting_point(problem, x0)
    noise = Noise.checked(seed, common_noise)
    began = time.perf_counter()
    schedule = method.schedule(problem, budget, rounds).noised(noise.origin)
    _refuse_what_cannot_fit(problem, wanted, rounds, schedule.program.releases(rounds), repetitions)
    warn_of_delta(problem, budget)
    warn_of_sampler(schedule.ledger)
    warn_of_dominance(problem, schedule.factors**2)
    optimum = optimum_or_nan(problem)
    keys = noise.keys(range(repetitions), lambda: identity(problem, method, budget, rounds, start))
    runs = Runs(problem, schedule, start, keys, wanted, optimum)
    execute(problem, [runs], n_jobs=n_jobs, progress=progress)
    warn_of_thresholds(runs)
    solution = _solution(runs, method, noise.seed, seconds=time.perf_counter() - began)
    if throw and solution.status.outcome is Outcome.DIVERGED:
        raise DivergedError(solution)
    if throw and solution.status.outcome is Outcome.INTERRUPTED:
        raise InterruptedSolve(solution)
    return solution


def planned_method() -> PrimalDual:
    """The paper's method with nothing to tune and nothing read off the data."""
    return PrimalDual(step=PLANNED, allocation=PLANNED, clip=AdaptiveClip())


def _planned_rounds(problem: Composite, budget: Budget | None, rounds: str, method: Method) -> int:
    if rounds != PLANNED:
        raise ArgumentError("rounds", rounds, f'give a whole number ≥ 1, or "{PLANNED}"')
    if budget is None:
        raise ArgumentError("rounds", rounds, "a plan weighs the noise of a budget=; without noise give a number")
    return method.planned_rounds(problem, budget)


def check_common(problem: Any, budget: Any, n_jobs: Any, seed: Any) -> None:
    """What every entry refuses before it begins."""
    if not isinstance(problem, Composite):
        raise ArgumentError("problem", problem, "give a fastldp.Problem, or a fastldp.MLP")
    if budget is not None and not isinstance(budget, Budget):
        raise ArgumentError("budget", budget, "give a Budget(epsilon, delta), or None for a run without noise")
    check_jobs(n_jobs)
    if seed is not None:
        integer("seed", seed, "give a whole number from 0 to 2**256 − 1", at_least=0, at_most=2**256 - 1)


def check_jobs(n_jobs: Any) -> None:
    if n_jobs is not None:
        integer("n_jobs", n_jobs, "give a number of cores ≥ 1; without one all are used", at_least=1)


def warn_of_delta(problem: Composite, budget: Budget | None) -> None:
    """Say where δ allows what privacy is to prevent: to publish a sample of some worker as it is, now and then."""
    most = int(problem.sizes.max())
    # A budget says so itself where δ is large whatever the problem.
    if budget is not None and 1 / most <= budget.delta <= LARGEST_DELTA:
        warnings.warn(
            f"delta = {budget.delta:g} is no less than 1/m = {1 / most:.3g} for a worker with m = {most:,} samples: "
            f"publishing one of them at random, whole, would keep such a promise; give a δ far below {1 / most:.1g}",
            DeltaWarning,
            stacklevel=3,
        )


def warn_of_sampler(ledger: Ledger | None) -> None:
    """Say where the sampler takes so much of the promise that nothing was calibrated to what it leaves."""
    if ledger is not None and ledger.total_delta > ledger.delta:
        warnings.warn(
            f"the sampler's distance from true normals adds {np.max(ledger.sampler_epsilon):.2g} to ε and "
            f"{ledger.sampler_delta:.2g} to δ = {ledger.delta:g}, so the promise holds for ideal normals only: promise "
            "a larger δ or a smaller ε, or spread it over more rounds",
            SamplerWarning,
            stacklevel=3,
        )


def warn_of_dominance(problem: Composite, factors: Array) -> bool:
    """Say where uniform weights let the noise of one small shard drown the average; `factors` are of variances."""
    if problem.weighting != UNIFORM or problem.n == 1:
        return False
    worst = int(np.argmax(factors))
    size = int(problem.sizes[worst])
    times = float(factors[worst] / np.median(np.delete(factors, worst)))
    # What a small ε of its own adds, which the caller chose, is not mended by weights.
    by_rows = float(np.median(np.delete((size / problem.sizes) ** 2, worst))) * MOST_DOMINANCE
    if times <= MOST_DOMINANCE or by_rows >= 1:
        return False
    warnings.warn(
        f"worker {worst} has {size:,} of {problem.sizes.sum():,} rows, and its noise {times:.3g} times the median "
        f"variance of the others', at the same weight 1/{problem.n} in the average: weight workers by their rows "
        '(Problem(..., weighting="rows")), or give each more of them (datasets.partition(..., least=))',
        NoiseWarning,
        stacklevel=3,
    )
    return True


def warn_of_thresholds(runs: Runs) -> None:
    """Say where a threshold that adapts went as far from its start as it may, or as its noisy counts could carry it."""
    adapting = runs.schedule.adapting
    if adapting is None:
        return
    start, before = adapting.limits.start, adapting.factor if adapting.clip.early else 1.0
    with np.errstate(invalid="ignore"):
        moved = np.log(runs.threshold[:, -1] / (start * before))
    reach = np.where(moved < 0, *adapting.reach)
    far = np.flatnonzero((np.abs(moved) > ARRIVED * reach) & (runs.threshold[:, -1] < adapting.limits.most))
    if 2 * far.size >= len(moved):
        most = float(np.exp(reach[far].max()))
        warnings.warn(
            f"the threshold of clipping was still on its way in {far.size} of {len(moved)} repetitions: "
            f"{adapting.counts} counts with so much noise move it by a factor of {most:.3g} at most; "
            f"give AdaptiveClip(start=...) nearer to the norms of the gradients than {start:g}, scale the features, or "
            "give counts a larger share=",
            ClippingWarning,
            stacklevel=3,
        )
    for limit, where in ((start / REACH, "below"), (start * REACH, "above")):
        reached = np.flatnonzero((runs.threshold == np.asarray(limit, runs.problem.dtype)).any(axis=1))
        if reached.size:
            warnings.warn(
                f"the threshold of clipping came to its limit, {limit:g}, in {reached.size} of {len(runs.threshold)} "
                f"repetitions: gradients are far {where} AdaptiveClip(start={start:g}); give a start nearer to their "
                "norms, or scale the features",
                ClippingWarning,
                stacklevel=3,
            )


def execute(problem: Composite, jobs: Sequence[Runs], *, n_jobs: int | None, progress: bool) -> None:
    """Run all jobs, with a bar, until they are done or Ctrl-C is pressed."""
    total = sum(runs.rounds * len(runs.keys) for runs in jobs)
    bar = bars.bar(show=progress, total=total, unit="round")
    lock = threading.Lock()

    def advanced(count: int) -> None:
        with lock:
            bar.update(count)

    with bar, stop_on_interrupt(is_compiling) as stop:
        driving.execute(problem, jobs, n_jobs=n_jobs, advanced=advanced, stop=stop)


def starting_point(problem: Composite, x0: ArrayLike | None) -> Array:
    if x0 is None:
        return problem.regularizer.prox(problem.start(), 0.0)
    start = vector("x0", x0, problem.d, f"give {problem.d} finite numbers")
    if np.abs(start).max() > LARGEST_ENTRY[problem.dtype]:
        raise ArgumentError("x0", x0, f"entries so large that their squares overflow in {problem.dtype}")
    if not np.isfinite(problem.regularizer.value(start)):
        raise ArgumentError("x0", x0, "it lies outside the regularizer's set; regularizer.prox(x0, 0.0) is inside")
    # What rounding may have left outside is taken off: the gradient bound holds on the set alone.
    return problem.regularizer.prox(start, 0.0)


def optimum_or_nan(problem: Composite) -> Array:
    """x*, for the errors that are recorded; NaN where there is none, with a warning where there might have been."""
    if not problem.has_optimum:
        return np.full(problem.d, np.nan)
    try:
        return problem.optimum()
    except OptimumError as error:
        warnings.warn(f"distances are recorded as NaN: {error}", OptimumWarning, stacklevel=3)
        return np.full(problem.d, np.nan)


@contextmanager
def stop_on_interrupt(at_once: Callable[[], bool] = lambda: False) -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; a second one, or the first where `at_once` says so, interrupts. In the main thread."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        if stop.is_set() or at_once():
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


def _refuse_what_cannot_fit(
    problem: Composite, wanted: Timetable, rounds: int, releases: int, repetitions: int
) -> None:
    """What the runs keep, estimated before any of it is laid out."""
    records = wanted.rounds.size * (problem.d + 2)
    messages = (releases + rounds) * problem.d if wanted.worker >= 0 else 0
    needed = 8 * repetitions * (problem.n * problem.d + records + messages)
    memory.refuse_beyond("repetitions", needed, "ask for fewer repetitions, records or messages", value=repetitions)


def _solution(runs: Runs, method: Method, seed: int | None, seconds: float) -> Solution:
    schedule, adapting = runs.schedule, runs.schedule.adapting
    found: dict[str, Any] = {}
    if adapting is not None:
        last = runs.threshold[:, -1]
        found = {"thresholds": runs.threshold, "steps": schedule.step * adapting.pace(last)}
        found["expected"] = adapting.expected(last)
    # A step that follows the threshold is not known before that is found.
    step = "" if adapting is not None and (adapting.paces != 1).any() else f", step {schedule.step:g}"
    return Solution(
        workers=runs.workers,
        rounds=runs.timetable.rounds,
        consensus=runs.consensus,
        distance=runs.relative_distance,
        means=runs.means,
        messages=runs.messages,
        broadcasts=runs.broadcasts,
        **found,
        counts=runs.counts,
        early_counts=runs.early_counts,
        ledger=schedule.ledger,
        status=_status(runs),
        seed=seed,
        seconds=seconds,
        description=f"{runs.problem}, {_shown(method)}{step}, {runs.rounds:,} rounds",
        # Runs that ride in lanes are of linear models, whose products are small.
        measures=Measures(
            runs.problem.measures, runs.means, runs.problem.measure, threads=not runs.problem.lanes_of_runs
        ),
    )


def _shown(method: Method) -> str:
    """A method for people: what it is called with, unless that is an array of thousands."""
    return type(method).__name__ if len(repr(method)) > 120 else repr(method)


def _status(runs: Runs) -> Status:
    failed = np.flatnonzero(runs.failed)
    if failed.size:
        return Status.diverged(int(runs.failed[failed].min()), failed.tolist(), runs.schedule.step)
    if not runs.over().all():
        return Status.interrupted(runs.done.tolist(), runs.rounds)
    return Status.completed(runs.rounds)
