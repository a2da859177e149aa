"""An experiment of the paper: its sweeps, its picture and table, and what they say about the paper's claims."""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastldp import sweeping, theory
from fastldp.privacy.budget import Budget
from fastldp.problems.linear import Problem
from fastldp.reproduction.series import Series
from fastldp.reproduction.verdicts import Verdict
from fastldp.sweeping import Report, Results
from fastldp.sweeping import spec as specs
from fastldp.sweeping.document import Document
from fastldp.sweeping.reading import results
from fastldp.sweeping.runner import LEG_SECONDS
from fastldp.sweeping.spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Place:
    """Where an experiment is made, and how much of it."""

    folder: Path
    quick: bool = False
    synthetic: bool = False
    n_jobs: int | None = None
    progress: bool = False


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
        self._keys: dict[str, int] = {}
        """The settings of the experiment's sweeps, and how many repetitions of each: a file may have others too."""

    @abstractmethod
    def run(self) -> list[Verdict]:
        """Make it, write its files, and judge the claims."""

    def path(self, ending: str) -> Path:
        """A file of the experiment's."""
        return self.place.folder / f"{self.name}{ending}"

    def sweep(
        self, recipe: str, *, into: str, added: str = "", name: str = "", values: Mapping[str, Any] | None = None
    ) -> Results:
        """The runs of a recipe, with what is added to it, in a file; what is there already is not made again.

        `values` replace those that the recipe has on the lines of these keys.
        """
        text = with_values(recipe_text(recipe), values or {}) + added
        # Beside the results lies exactly what they were made from.
        spec = self.place.folder / f"{name or recipe}.toml"
        spec.write_text(text, encoding="utf-8")
        read = self._specs[name or recipe] = specs.read(spec, quick=self.place.quick, synthetic=self.place.synthetic)
        target = self.place.folder / into
        report: Report = sweeping.sweep(
            read, target, n_jobs=self.place.n_jobs, leg_seconds=self.leg_seconds, progress=self.place.progress
        )
        if report.interrupted:
            raise Stopped(report.summary())
        self._keys |= {setting.key: read.repetitions for setting in read.settings}
        found = results(target).made_by(self._keys)
        self.data = ", ".join(found.parameters["data"])
        return found

    def horizons(self, recipe: str) -> list[int]:
        """Those of a recipe that lists them."""
        found: list[int] = Document(recipe_text(recipe), recipe, quick=self.place.quick).values["rounds"]
        return found

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


def with_values(text: str, values: Mapping[str, Any]) -> str:
    """A recipe with other numbers on the lines of these keys.

    >>> with_values("workers = 20\\ngradient_bound = [0.1, 0.6]\\n", {"gradient_bound": 0.6})
    'workers = 20\\ngradient_bound = 0.6\\n'
    """
    for key, value in values.items():
        text, found = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value!r}", text)
        if found != 1:
            raise ValueError(f"the recipe has {found} lines for {key}")
    return text


def save_csv(path: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)
