"""tune(): a whole grid of settings in lanes together, and the best of them; at each horizon, and once for all."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import memory
from fastldp.engine.recording import Final, timetable
from fastldp.engine.runs import Runs
from fastldp.errors import ArgumentError, FastLDPError, GridEdgeWarning
from fastldp.extending import name_of
from fastldp.grids import Grid
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
from fastldp.validation import integer, known_name

Array = NDArray[np.float64]
Criterion = Callable[[Composite, Array], float]

# Settings are tried on repetitions that no solve reaches, whatever its seed: their noise is never reported on.
FIRST_REPETITION = 2**63
# By what settings are ranked; the share of wrong answers stands for the accuracy, so that less is always better.
CRITERIA = ("optimality", "distance", "objective", "accuracy")
OF_OPTIMUM = ("optimality", "distance")
# One local step, or no tail, is not the edge of the grid but of the method.
LEAST = {"local_steps": 1, "tail_average": 0}


class Trial(NamedTuple):
    """One setting and how it did."""

    algorithm: Method | None
    """None where only its parameters are known."""
    rounds: int
    error: float
    """The mean final error of the repetitions; infinite where one diverged, or none could run."""
    spread: float
    """Their standard deviation."""
    reason: str = ""
    """Why none could run."""
    given: Mapping[str, Any] | None = None
    """The method's parameters as they were written, where that is known."""
    problem: Mapping[str, Any] | None = None
    """The problem's parameters that were tuned too."""

    @property
    def method(self) -> dict[str, Any]:
        """The method's name under ``"method"``, and its parameters."""
        if self.given is not None:
            return dict(self.given)
        own = self.algorithm
        return {"method": name_of(type(own)), **{one.name: getattr(own, one.name) for one in fields(own)}}  # type: ignore[arg-type]

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's, and those of the problem that were tuned too."""
        return {**self.method, **(self.problem or {})}


class Edge(NamedTuple):
    """A parameter of a choice that no setting otherwise alike exceeds, or falls below, though some differ in it."""

    name: str
    value: float
    largest: bool
    tried: tuple[float, ...]
    """All values that such settings have."""

    @property
    def short(self) -> str:
        """The parameter alone."""
        return f"{self.name} = {self.value:.3g}"

    def __str__(self) -> str:
        return f"{self.name} = {self.value:g} is the {'largest' if self.largest else 'smallest'} of {len(self.tried)}"

    @property
    def beyond(self) -> Any:
        """What comes next on the grid, by its last ratio where all are above zero; None where it is no number."""
        near, far = (self.tried[-1], self.tried[-2]) if self.largest else (self.tried[0], self.tried[1])
        if not np.isfinite([near, far]).all():
            return None
        found = near * near / far if self.tried[0] > 0 else 2 * near - far
        if isinstance(near, int) and isinstance(far, int):
            return round(found) if round(found) not in (near, 0) else None
        return float(f"{found:.12g}")


@dataclass(frozen=True)
class Choice:
    """The best setting, at one horizon or over all."""

    trial: Trial
    error: float
    """What it was chosen by, on noise that is not reported; over all horizons the geometric mean of their errors."""
    edges: tuple[Edge, ...] = ()
    """Beyond them a better setting may lie."""

    @property
    def algorithm(self) -> Method | None:
        """The method."""
        return self.trial.algorithm

    @property
    def parameters(self) -> dict[str, Any]:
        """The method's, with its name under ``"method"``, and the problem's that were tuned."""
        return self.trial.parameters

    @property
    def method(self) -> dict[str, Any]:
        """The method's alone."""
        return self.trial.method

    @property
    def at_edges(self) -> str:
        """For the end of a sentence."""
        return f"; at the edge of its grid: {', '.join(edge.short for edge in self.edges)}" if self.edges else ""


@dataclass(frozen=True, eq=False)
class Tuned:
    """The table of all settings, the best first, and the edges of the grid the best lies on."""

    trials: tuple[Trial, ...]
    edges: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", tuple(sorted(self.trials, key=lambda one: (one.reason != "", one.error))))
        found = edges_of(_with_rounds(self.trials[0]), [_with_rounds(trial) for trial in self.trials])
        object.__setattr__(self, "edges", tuple(map(str, found)))

    @property
    def algorithm(self) -> Method:
        """The winner."""
        found = self.trials[0].algorithm
        if found is None:
            raise ArgumentError("algorithm", _called(self.trials[0]), "its parameters do not say all of it")
        return found

    @property
    def rounds(self) -> int:
        """The winner's horizon."""
        return self.trials[0].rounds

    @property
    def error(self) -> float:
        """The winner's mean error, on the noise it was chosen by: report a solve's instead."""
        return self.trials[0].error

    @cached_property
    def _settings(self) -> dict[str, list[Trial]]:
        """The trials of each setting, by what it is."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(repr(trial.parameters), []).append(trial)
        return found

    @cached_property
    def once(self) -> Choice:
        """One choice for all horizons: the least mean, over the horizons, of the logarithm of the mean error."""
        everywhere = [some for some in self._settings.values() if len(some) == len(self.horizons)]
        if not everywhere:
            raise ArgumentError("rounds", self.horizons, "no setting was tried at all of them; take the best of `each`")
        with np.errstate(divide="ignore"):
            errors = [float(np.exp(np.mean(np.log([one.error for one in some])))) for some in everywhere]
        best = int(np.argmin(errors))
        return self._choice(everywhere[best][0], errors[best])

    @cached_property
    def each(self) -> dict[int, Choice]:
        """The least mean error at every horizon."""
        best = {T: min((one for one in self.trials if one.rounds == T), key=_error) for T in self.horizons}
        return {T: self._choice(trial, trial.error) for T, trial in best.items()}

    @property
    def horizons(self) -> list[int]:
        """Those that were tried, ascending."""
        return sorted({trial.rounds for trial in self.trials})

    def _choice(self, trial: Trial, error: float) -> Choice:
        tried = [some[0].parameters for some in self._settings.values()]
        return Choice(trial, error, tuple(edges_of(trial.parameters, tried)))

    def beyond(self) -> list[tuple[Trial, dict[str, Any]]]:
        """Settings to try next: those chosen, with a parameter beyond the edge of its grid."""
        found: dict[str, tuple[Trial, dict[str, Any]]] = {}
        alike = len({len(some) for some in self._settings.values()}) == 1
        for choice in (*([self.once] if alike else []), *self.each.values()):
            for edge in choice.edges:
                change = {edge.name: edge.beyond}
                key = repr(choice.parameters | change)
                if edge.beyond is not None and key not in self._settings:
                    found[key] = choice.trial, change
        return list(found.values())

    def __repr__(self) -> str:
        best = self.trials[0]
        return f"Tuned({len(self.trials):,} settings, the best {_called(best)} with error {best.error:.4g})"

    def summary(self, most: int = 10) -> str:
        """The best settings as an aligned table."""
        lines = [f"  {'error':>10}  {'± std':>9}  {'rounds':>8}  setting"]
        for trial in self.trials[:most]:
            why = f": {trial.reason}" if trial.reason else ""
            lines.append(f"  {trial.error:>10.4g}  {trial.spread:>9.3g}  {trial.rounds:>8,}  {_called(trial)}{why}")
        if len(self.trials) > most:
            lines.append(f"  and {len(self.trials) - most} more")
        lines += [f"  the winner lies on the edge of the grid: {edge}" for edge in self.edges]
        return "\n".join(lines)


def search(run: Callable[[Sequence[tuple[Trial, dict[str, Any]]]], Iterable[Trial]], extend: int) -> Tuned:
    """What `run` makes of nothing new, and then of what lies beyond the edges, so many times while anything does."""
    trials = [*run(())]
    for _ in range(extend):
        found = Tuned(tuple(trials))
        if found.error == np.inf or not (more := found.beyond()):
            break
        trials += run(more)
    return Tuned(tuple(trials))


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
    by: str | Criterion = "optimality",
    extend: int = 0,
) -> Tuned:
    """Try every setting of a grid, all in lanes together, and rank them by their mean final error.

    All have the same noise, that of repetitions no solve ever has, with the same seed or another, so that what a solve
    with the winner reports is not the luck it won by. Trying settings on private data spends a budget each: tune on
    public data.

    Parameters
    ----------
    problem : Problem
        With an optimum, where settings are ranked by how far from it they end.
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
    by : str or callable
        By what settings are ranked: ``"optimality"``, ``"distance"``, ``"objective"``, ``"accuracy"`` on the problem's
        test data, or a function of the problem and a final model that is less for a better one.
    extend : int
        So many times the grid goes on beyond an edge that the best lies on, at any horizon or over all.

    Returns
    -------
    Tuned
        All settings, the best first; last those that cannot run, each with its reason. Its `each` has the best at every
        horizon, and `once` the one for all of them.

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
    refused = algorithm_grid.refused if isinstance(algorithm_grid, Grid) else []
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
    extend = integer("extend", extend, "give a whole number ≥ 0", at_least=0)
    if not callable(by):
        known_name("by", by, CRITERIA, "; or give a function of the problem and a model")
    if by == "accuracy" and not problem.tested:
        raise ArgumentError("by", by, "there are no test data; give the problem some: test=(A, b)")
    kept = 8 * len(methods) * len(horizons) * (repetitions * (problem.n + 1) * problem.d + 6 * max(horizons))
    memory.refuse_beyond("algorithm_grid", kept, "try fewer settings, horizons or repetitions at once")
    # In common, so that the settings differ in nothing but themselves; only their errors leave this function.
    secret = secrets.randbits(256) if seed is None else int(seed)
    keys = np.stack([key_of(secret, FIRST_REPETITION + repetition) for repetition in range(repetitions)])
    start, optimum = starting_point(problem, None), optimum_or_nan(problem)
    if by in OF_OPTIMUM and np.isnan(optimum).any():
        raise ArgumentError("problem", problem, "it has no certified optimum to measure errors by; give it l2 > 0")

    def run(more: Sequence[tuple[Trial, dict[str, Any]]]) -> Iterable[Trial]:
        trials = [Trial(one.thing, T, np.inf, np.nan, str(one.refusal)) for one in refused for T in horizons]
        some = methods
        if more:
            made = [_changed(trial, change) for trial, change in more]
            some = [one for one in made if isinstance(one, Method)]
            trials = [one._replace(rounds=T) for one in made if isinstance(one, Trial) for T in horizons]
        jobs: list[Runs] = []
        tried: list[Method] = []
        for method, T in itertools.product(some, horizons):
            try:
                schedule = method.schedule(problem, budget, T)
            except FastLDPError as error:  # one setting that cannot run is not the end of the others
                trials.append(Trial(method, T, np.inf, np.nan, str(error)))
                continue
            tried.append(method)
            jobs.append(Runs(problem, schedule, start, keys, timetable(Final(), T, problem.n), optimum))
        if not jobs and not more:
            raise ArgumentError(
                "algorithm_grid", algorithm_grid, f"no setting can run; of the first: {trials[0].reason}"
            )
        if not jobs:  # the methods have their limits there
            return trials
        for runs in jobs:
            if warn_of_dominance(problem, runs.schedule.factors**2):
                break
        execute(problem, jobs, n_jobs=n_jobs, progress=progress)
        if not all(runs.over().all() for runs in jobs):
            raise KeyboardInterrupt
        return [*(_trial(method, runs, by) for method, runs in zip(tried, jobs, strict=True)), *trials]

    found = search(run, extend)
    if found.error == np.inf:
        raise ArgumentError("algorithm_grid", algorithm_grid, "every setting diverged; try smaller steps")
    for edge in found.edges:
        warnings.warn(f"the best setting lies on the edge of the grid: {edge}", GridEdgeWarning, stacklevel=2)
    return found


def _changed(trial: Trial, change: Mapping[str, Any]) -> Method | Trial:
    """A method with another parameter; or why there is none."""
    assert trial.algorithm is not None
    try:
        return dataclasses.replace(trial.algorithm, **change)
    except ArgumentError as error:  # a limit of the method, such as a probability of one
        return trial._replace(error=np.inf, spread=np.nan, reason=str(error), given={**trial.method, **change})


def _trial(method: Method, runs: Runs, by: str | Criterion) -> Trial:
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
        errors = np.where(runs.failed > 0, np.inf, _ends(runs, by))
        return Trial(method, runs.rounds, float(errors.mean()), float(errors.std()))


def _ends(runs: Runs, by: str | Criterion) -> Array:
    """What the runs ended with; the less, the better."""
    if by in OF_OPTIMUM:
        return runs.relative_distance[:, -1] + (runs.consensus[:, -1] if by == "optimality" else 0.0)
    if callable(by):
        measure = by
    else:
        measure = _objective if by == "objective" else _wrong
    return np.array([measure(runs.problem, x) if np.isfinite(x).all() else np.inf for x in runs.means[:, -1]])


def _objective(problem: Composite, x: Array) -> float:
    return problem.objective(x)


def _wrong(problem: Composite, x: Array) -> float:
    """The share of the test data that is not right."""
    return 1.0 - problem.accuracy(x)


def edges_of(chosen: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> Iterable[Edge]:
    """Which parameters of a choice are the smallest or the largest of those that were tried."""
    rivals = [one for one in tried if _kind(one) == _kind(chosen)]
    for name, value in chosen.items():
        best = _size(value)
        if best is None or best == np.inf:
            continue
        # The grid of steps may depend on the other parameters.
        alike = [one for one in rivals if name != "step" or {**one, name: value} == dict(chosen)]
        numbers = sorted({size for one in alike if (size := _size(one[name])) is not None})
        largest = best == numbers[-1]
        if len(numbers) > 1 and (largest or best == numbers[0] != LEAST.get(name)):
            yield Edge(name, value, largest, tuple(numbers))


def _size(value: Any) -> float | None:
    """A number to compare; no clipping is the largest threshold, and what is no number has none."""
    if value is None:
        return np.inf
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _kind(parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """What is no number."""
    return tuple((name, str(value)) for name, value in parameters.items() if _size(value) is None)


def _with_rounds(trial: Trial) -> dict[str, Any]:
    return {**trial.parameters, "rounds": trial.rounds}


def _error(trial: Trial) -> float:
    return trial.error


def _called(trial: Trial) -> str:
    if trial.algorithm is not None and trial.given is None:
        return str(trial.algorithm)
    values = [f"{name}={value!r}" for name, value in trial.parameters.items() if name != "method" and value is not None]
    return f"{trial.parameters['method']}({', '.join(values)})"
