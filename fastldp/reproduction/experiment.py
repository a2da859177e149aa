"""An experiment of the paper: its sweeps, its picture and table, and what they say about the paper's claims."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastldp import sweeping, theory
from fastldp.describing import described
from fastldp.methods import Method
from fastldp.privacy.budget import Budget
from fastldp.problems.linear import Problem
from fastldp.reproduction.claims import LOOKS, QUICK_LOOKS, Claim, Errors, Point, decide
from fastldp.reproduction.response import Luck, Response, lucks, response
from fastldp.reproduction.series import Series, ends
from fastldp.reproduction.verdicts import Verdict
from fastldp.sweeping import Grid, Report, Results, Sweep
from fastldp.sweeping import spec as specs
from fastldp.sweeping.document import Document
from fastldp.sweeping.parameters import shown
from fastldp.sweeping.reading import results
from fastldp.sweeping.runner import LEG_SECONDS
from fastldp.sweeping.spec import Spec
from fastldp.sweeping.trials import grid_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# What a curve's parameters say beside the method's.
NOT_OF_METHOD = ("accounting", "gradient_bound")


@dataclass(frozen=True)
class Place:
    """Where an experiment is made, and how much of it."""

    folder: Path
    quick: bool = False
    synthetic: bool = False
    n_jobs: int | None = None
    progress: bool = False
    most: int | None = None
    """Claims are judged by so many repetitions at most, where that is less than an experiment has."""


@dataclass(frozen=True)
class Source:
    """How the runs of a curve were made, so that there can be more of them."""

    series: Series
    recipe: str
    into: str
    problem: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe's problem has in place of its own, or beside it; as the following have of data and budget."""
    data: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    measure: str = "optimality"
    where: Mapping[str, Any] | None = None
    """What its runs are known by, where that is not what the method was called with."""

    def method(self, rounds: int) -> dict[str, Any]:
        """What it was run with at a horizon."""
        parameters = self.series.parameters[self.series.at(rounds)]
        return {name: value for name, value in parameters.items() if name not in NOT_OF_METHOD}


class Stopped(KeyboardInterrupt):
    """Ctrl-C during a sweep: what is finished is kept, and the same command goes on."""


class Experiment(ABC):
    """One of them; what it writes begins with its name."""

    name: ClassVar[str]
    leg_seconds: ClassVar[float] = LEG_SECONDS
    """How often a run that goes on is written down."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.data = ""
        """The name of the data, which says whether they are real."""
        self.notes: list[str] = []
        """What a reader of the verdicts should know."""
        self._specs: dict[str, Spec] = {}
        """What was run, by name."""
        self._responses: dict[tuple[str, bool], Response | None] = {}
        """Of the settings that claims were judged by."""
        self._helps: dict[Point, bool] = {}
        """Whether errors differ less without luck, by runs that are not judged."""
        self._luck: dict[Point, Luck] = {}
        """What it took away, by the points that claims were judged by."""
        self._keys: dict[str, int] = {}
        """The settings of the experiment's sweeps, and how many repetitions of each: a file may have others too."""

    @abstractmethod
    def run(self) -> list[Verdict]:
        """Make it, write its files, and judge the claims."""

    def path(self, ending: str) -> Path:
        """A file of the experiment's."""
        return self.place.folder / f"{self.name}{ending}"

    def recipe(
        self,
        name: str,
        *,
        added: Sequence[Grid] = (),
        problem: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Sweep:
        """The sweep of a recipe, of more methods, with other arguments.

        Its problem, data and budget may have other parameters in place of theirs, or beside them.
        """
        text, quick, synthetic = recipe_text(name), self.place.quick, self.place.synthetic
        if "[[method]]" not in text:
            changes, added = {"methods": added} | changes, ()
        read = Sweep.from_toml(text, quick=quick, synthetic=synthetic, **changes)
        return read.replace(
            methods=[*read.methods, *added],
            problems=[one.replace(**(problem or {})) for one in read.problems],
            data=[one.replace(**(data or {})) for one in read.data],
            budgets=[one.replace(**(budget or {})) for one in read.budgets] or None,
        )

    def sweep(self, recipe: str, *, into: str, name: str = "", methods: Sequence[Grid] = (), **changes: Any) -> Results:
        """The runs of a recipe, of more methods too, in a file; what is there already is not made again.

        `changes` are those of `recipe`.
        """
        return self.swept(self.recipe(recipe, added=methods, **changes), name or recipe, into, self._keys)

    def swept(self, sweep: Sweep, name: str, into: str, keys: dict[str, int]) -> Results:
        """The runs of a sweep, and those of the settings with these keys, to which its own are added."""
        # Beside the results lies exactly what they were made from.
        (self.place.folder / f"{name}.toml").write_text(sweep.to_toml(), encoding="utf-8")
        read = self._specs[name] = specs.read(sweep)
        target = self.place.folder / into
        report: Report = sweeping.sweep(
            read, target, n_jobs=self.place.n_jobs, leg_seconds=self.leg_seconds, progress=self.place.progress
        )
        if report.interrupted:
            raise Stopped(report.summary())
        keys |= {setting.key: read.repetitions for setting in read.settings}
        found = results(target).made_by(keys)
        self.data = ", ".join(found.parameters["data"])
        return found

    def found(self, file: str) -> Results:
        """The runs of this experiment's sweeps that are in a file."""
        return results(self.place.folder / file).made_by(self._keys)

    @property
    def runs(self) -> int:
        """The repetitions of a curve, which are not judged."""
        return (QUICK_LOOKS if self.place.quick else LOOKS)[0]

    def judge(self, claims: Sequence[Claim], sources: Mapping[str, Source]) -> list[Verdict]:
        """A verdict on each claim, by repetitions beyond those of the curves.

        By the curves' is chosen which way of a claim is best, and where errors differ less without their runs' luck.
        """

        def measure(points: Iterable[Point], count: int, after: int = self.runs) -> Errors:
            asked = [(point, sources[point.series]) for point in sorted(points)]
            return self.repeated(asked, after, after + count, steadied=True)

        chosen_on = measure({point for claim in claims for point in claim.points}, self.runs, 0)
        looks = QUICK_LOOKS if self.place.quick else LOOKS
        verdicts = decide(claims, chosen_on, measure, looks=looks, most=self.place.most)
        rows = ((point.series, *one) for point, one in self._luck.items())
        save_csv(self.path("-luck.csv"), ("series", *Luck._fields), rows)
        return verdicts

    def repeated(
        self, points: Sequence[tuple[Point, Source]], begin: int, end: int, *, steadied: bool = False
    ) -> Errors:
        """The errors of these repetitions, at some points; `steadied`, without their luck."""
        sweeps: dict[str, list[tuple[Point, Source]]] = {}
        for point, source in points:
            alike = source.recipe, source.into, *map(dict, (source.data, source.problem, source.budget))
            sweeps.setdefault(repr(alike), []).append((point, source))
        errors: dict[Point, Any] = {}
        for some in sweeps.values():
            first = some[0][1]
            given: dict[str, Any] = {"data": first.data, "problem": first.problem, "budget": first.budget}
            methods = [grid_of(one.method(at.rounds), at.series, at.rounds) for at, one in some]
            wanted = self.recipe(first.recipe, **given, methods=methods, repetitions=end)
            about = [shown(value) for values in given.values() for value in values.values()]
            name = "-".join([self.name, "verdicts", first.recipe.removeprefix(f"{self.name}-"), *about, f"{end}"])
            found = self.swept(wanted, name, first.into, {})
            for point, source in some:
                told = source.method(point.rounds) if source.where is None else source.where
                errors[point] = ends(found.where(rounds=point.rounds, **told), source.measure)[begin:]
            if steadied:
                self._steady(errors, dict(some), self._specs[name], range(begin, end))
        return errors

    def _steady(self, errors: dict[Point, Any], sources: Mapping[Point, Source], made: Spec, runs: range) -> None:
        """Divide the errors of points, whose methods a sweep has last, by the luck of their runs, where it is known."""
        methods = [one.choices[0].thing for one in made.sweep.methods[-len(sources) :]]
        found = zip(sources.items(), methods, strict=True)
        responses = {point: self._response(source, made, method, point.rounds) for (point, source), method in found}
        known = {point: one for point, one in responses.items() if one is not None}
        if known:
            keys = made.settings[0].noise.keys(runs, bytes)
            found_lucks = lucks([*known.values()], keys, self.place.n_jobs)
            for (point, one), luck in zip(known.items(), found_lucks, strict=True):
                told = Luck.of(point.rounds, one, errors[point], errors[point] / luck)
                if runs.start == 0:
                    self._helps[point] = told.spread_without < told.spread
                if self._helps.get(point, True):
                    errors[point] = errors[point] / luck
                    self._luck[point] = told

    def _response(self, source: Source, made: Spec, method: Method, rounds: int) -> Response | None:
        """What errors of a method owe to noise, to first order."""
        wanted = described(method), rounds
        (setting,) = (one for one in made.settings if (described(one.method), one.rounds) == wanted)
        about = setting.key, source.measure == "optimality"
        if about not in self._responses:
            self._responses[about] = response(made.grounds[setting.ground], setting, differing=about[1])
        return self._responses[about]

    def horizons(self, recipe: str, *, quick: bool | None = None) -> list[int]:
        """Those of a recipe that lists them, or its only one; of a quick trial, where this is one."""
        small = self.place.quick if quick is None else quick
        found: int | list[int] = Document(recipe_text(recipe), recipe, quick=small).values["rounds"]
        return [found] if isinstance(found, int) else found

    def problem(self, name: str) -> tuple[Problem, Budget]:
        """The problem and the budget of a specification that was run, for the theory of them."""
        found = self._specs[name]
        budget = found.settings[0].budget
        assert budget is not None  # all recipes have one
        problem = found.grounds[0].subjects[0].problem
        assert isinstance(problem, Problem)  # the theory speaks of no other
        return problem, budget

    def bound(self, name: str, horizons: Sequence[int]) -> Series:
        """Theorem 1's bound on the mean error at the theorem's step, for a specification's problem and budget."""
        problem, budget = self.problem(name)
        scale = theory.optimality_scale(problem)
        bounds = [scale * theory.error_bound(problem, budget, T) for T in horizons]
        return Series("Theorem 1's bound", np.array(horizons), np.array(bounds)[:, None], ({},) * len(horizons))

    def note_edges(self, where: str, notes: Sequence[str]) -> None:
        """Say which choices lie at the edge of the grid they were chosen from."""
        self.notes += [f"at the edge of its grid, {where}: {note}" for note in notes]

    def save_figure(self, figure: Figure) -> None:
        for ending in (".png", ".pdf"):
            figure.savefig(self.path(ending), dpi=150)

    def save_series(self, series: Iterable[Series]) -> None:
        """Means and spreads, a row a point."""
        rows = [row for one in series for row in one.rows()]
        save_csv(self.path(".csv"), ("series", "rounds", "round", "runs", "mean", "std", "parameters"), rows)


def recipe_text(name: str) -> str:
    """The text of a recipe that ships with the package."""
    return (files("fastldp.reproduction") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")


def save_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)
