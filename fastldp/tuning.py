"""tune(): a whole grid of settings in lanes together, and the best of them."""

from __future__ import annotations

import itertools
import secrets
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import memory
from fastldp.engine.recording import Final, timetable
from fastldp.engine.runs import Runs
from fastldp.errors import ArgumentError, FastLDPError, GridEdgeWarning
from fastldp.kernels.chacha import key_of
from fastldp.methods import Method
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.solve import (
    FEWER_ROUNDS,
    MOST_ROUNDS,
    check_common,
    execute,
    optimum_or_nan,
    starting_point,
    warn_of_dominance,
)
from fastldp.validation import integer

Array = NDArray[np.float64]

# Settings are tried on repetitions that no solve reaches, whatever its seed: their noise is never reported on.
FIRST_REPETITION = 2**63


class Trial(NamedTuple):
    """One setting and how it did."""

    algorithm: Method
    rounds: int
    error: float
    """The mean final optimality of the repetitions; infinite where one diverged, or none could run."""
    spread: float
    """Their standard deviation."""
    reason: str = ""
    """Why none could run."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """The table of all settings, the best first, and the edges of the grid the best lies on."""

    trials: tuple[Trial, ...]
    edges: tuple[str, ...]

    @property
    def algorithm(self) -> Method:
        """The winner."""
        return self.trials[0].algorithm

    @property
    def rounds(self) -> int:
        """The winner's horizon."""
        return self.trials[0].rounds

    @property
    def error(self) -> float:
        """The winner's mean error, on the noise it was chosen by: report a solve's instead."""
        return self.trials[0].error

    def __repr__(self) -> str:
        best = self.trials[0]
        return f"Tuned({len(self.trials):,} settings, the best {best.algorithm} with error {best.error:.4g})"

    def summary(self, most: int = 10) -> str:
        """The best settings as an aligned table."""
        lines = [f"  {'error':>10}  {'± std':>9}  {'rounds':>8}  setting"]
        for trial in self.trials[:most]:
            why = f": {trial.reason}" if trial.reason else ""
            lines.append(f"  {trial.error:>10.4g}  {trial.spread:>9.3g}  {trial.rounds:>8,}  {trial.algorithm}{why}")
        if len(self.trials) > most:
            lines.append(f"  and {len(self.trials) - most} more")
        lines += [f"  the winner lies on the edge of the grid: {edge}" for edge in self.edges]
        return "\n".join(lines)


def tune(
    problem: Composite,
    budget: Budget | None,
    algorithm_grid: Iterable[Method],
    *,
    rounds: int | Sequence[int],
    repetitions: int = 4,
    seed: int | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
) -> Tuned:
    """Try every setting of a grid, all in lanes together, and rank them by their mean final error.

    All have the same noise, that of repetitions no solve ever has, with the same seed or another, so that what a solve
    with the winner reports is not the luck it won by. Trying settings on private data spends a budget each: tune on
    public data.

    Parameters
    ----------
    problem : Problem
        With an optimum, by which settings are ranked.
    budget : Budget or None
        What each run is promised; None for runs without noise.
    algorithm_grid : list of methods
        Methods with their parameters, such as `grid(ISRLDP, step=[0.1, 0.3, 1.0])` makes.
    rounds : int or list of int
        The horizon, or several to choose from.
    repetitions : int
        Runs of every setting.
    seed : int, optional
        Of the noise; from the operating system where it is not given.
    n_jobs : int, optional
        How many cores may be used; all of them by default.
    progress : bool
        Whether to show a bar.

    Returns
    -------
    Tuned
        All settings, the best first; last those that cannot run, each with its reason.

    Examples
    --------
    >>> import numpy as np, fastldp as fl
    >>> A = np.random.default_rng(0).standard_normal((60, 3))
    >>> problem = fl.Problem(A, np.sign(A[:, 0]), workers=3, l2=0.1)
    >>> tuned = fl.tune(problem, None, fl.grid(fl.ISRLDP, step=[0.01, 1.0, 1e9]), rounds=50, repetitions=1)
    >>> tuned.algorithm.step
    1.0
    """
    check_common(problem, budget, n_jobs, seed)
    if isinstance(algorithm_grid, Method) or not isinstance(algorithm_grid, Iterable):
        raise ArgumentError("algorithm_grid", algorithm_grid, "give a list of methods, such as grid(...) makes")
    methods = list(algorithm_grid)
    horizons = list(rounds) if isinstance(rounds, Sequence | np.ndarray) else [rounds]
    if not methods:
        raise ArgumentError("algorithm_grid", algorithm_grid, "there is nothing to choose from")
    if not horizons:
        raise ArgumentError("rounds", rounds, "there is nothing to choose from")
    for method in methods:
        if not isinstance(method, Method):
            raise ArgumentError("algorithm_grid", method, "give instances such as ISRLDP(step=0.5)")
    remedy = f"{FEWER_ROUNDS}, or several"
    horizons = [integer("rounds", T, remedy, at_least=1, at_most=MOST_ROUNDS) for T in horizons]
    repetitions = integer("repetitions", repetitions, "give a whole number ≥ 1", at_least=1)
    kept = 8 * len(methods) * len(horizons) * (repetitions * (problem.n + 1) * problem.d + 6 * max(horizons))
    memory.refuse_beyond("algorithm_grid", kept, "try fewer settings, horizons or repetitions at once")
    # In common, so that the settings differ in nothing but themselves; only their errors leave this function.
    secret = secrets.randbits(256) if seed is None else int(seed)
    keys = np.stack([key_of(secret, FIRST_REPETITION + repetition) for repetition in range(repetitions)])
    start, optimum = starting_point(problem, None), optimum_or_nan(problem)
    if np.isnan(optimum).any():
        raise ArgumentError("problem", problem, "it has no certified optimum to measure errors by; give it l2 > 0")
    settings: list[Method] = []
    jobs: list[Runs] = []
    refused: list[Trial] = []
    for method, T in itertools.product(methods, horizons):
        try:
            schedule = method.schedule(problem, budget, T)
        except FastLDPError as error:  # one setting that cannot run is not the end of the others
            refused.append(Trial(method, T, np.inf, np.nan, str(error)))
            continue
        settings.append(method)
        jobs.append(Runs(problem, schedule, start, keys, timetable(Final(), T, problem.n), optimum))
    if not jobs:
        raise ArgumentError("algorithm_grid", algorithm_grid, f"no setting can run; of the first: {refused[0].reason}")
    for runs in jobs:
        if warn_of_dominance(problem, runs.schedule.factors**2):
            break
    execute(problem, jobs, n_jobs=n_jobs, progress=progress)
    if not all(runs.over().all() for runs in jobs):
        raise KeyboardInterrupt
    trials = sorted(map(_trial, settings, jobs), key=lambda trial: trial.error) + refused
    if trials[0].error == np.inf:
        raise ArgumentError("algorithm_grid", algorithm_grid, "every setting diverged; try smaller steps")
    edges = tuple(_edges(trials))
    for edge in edges:
        warnings.warn(f"the best setting lies on the edge of the grid: {edge}", GridEdgeWarning, stacklevel=2)
    return Tuned(tuple(trials), edges)


def _trial(method: Method, runs: Runs) -> Trial:
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
        errors = np.where(runs.failed > 0, np.inf, runs.consensus[:, -1] + runs.relative_distance[:, -1])
        return Trial(method, runs.rounds, float(errors.mean()), float(errors.std()))


def _edges(trials: Sequence[Trial]) -> Iterable[str]:
    """What the winner has that no setting otherwise of its kind exceeds, or falls below, though others differ."""
    rivals = [trial for trial in trials if _kind(trial.algorithm) == _kind(trials[0].algorithm)]
    for name in ["rounds", *(field.name for field in fields(trials[0].algorithm))]:
        values = [_size(getattr(trial if name == "rounds" else trial.algorithm, name)) for trial in rivals]
        numbers = {value for value in values if value is not None}
        best = values[0]
        if len(numbers) < 2 or best is None or best == np.inf:
            continue
        # One local step, or no tail, is not the edge of the grid but of the method.
        if best == min(numbers) and best != {"local_steps": 1, "tail_average": 0}.get(name):
            yield f"{name} = {best:g} is the smallest of {len(numbers)}"
        elif best == max(numbers):
            yield f"{name} = {best:g} is the largest of {len(numbers)}"


def _size(value: Any) -> float | None:
    """A number to compare; no clipping is the largest threshold, and what is no number has none."""
    if value is None:
        return np.inf
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _kind(method: Method) -> tuple[Any, ...]:
    """The method and what of its parameters is no number."""
    values = [getattr(method, field.name) for field in fields(method)]
    return type(method), *(str(value) for value in values if _size(value) is None)
