"""From the specification of a sweep to settings: its data are read and its problems are made, before anything runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fastldp.datasets.partitioning import WAYS, partition, sample
from fastldp.describing import described, plain, section
from fastldp.engine.recording import Every, Timetable, timetable
from fastldp.errors import ArgumentError, FastLDPError
from fastldp.grids import Grid, Place
from fastldp.methods import Method, Outline, Terms
from fastldp.noise import Noise
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.solve import optimum_or_nan, starting_point, warn_of_delta, warn_of_dominance, warn_of_sampler
from fastldp.sweeping.agenda import NO_SHAPE, Shape, shape_of
from fastldp.sweeping.keys import BUDGET_KEYS, SPREAD_KEYS, START_KEYS, TEST_KEYS
from fastldp.sweeping.setting import (
    FROM_OS,
    Card,
    Ground,
    Provenance,
    Rounds,
    Setting,
    Subject,
    Wanted,
    digest,
    text_after_method,
    text_before_method,
)
from fastldp.sweeping.sources import Data
from fastldp.sweeping.specification import Described, Sweep
from fastldp.validation import integer, known_name, real


@dataclass(frozen=True, eq=False)
class Spec:
    """A whole sweep, ready to be packed."""

    sweep: Sweep
    """What it was made of."""
    grounds: list[Ground]
    settings: list[Setting]
    cards: dict[str, Card]
    """By the settings' keys, as the following."""
    shapes: dict[str, Shape]
    refused: dict[str, str]
    """Why settings cannot run, of those that cannot."""

    @property
    def repetitions(self) -> int:
        return self.sweep.repetitions

    @property
    def title(self) -> str:
        return self.sweep.title

    @cached_property
    def text(self) -> str:
        """As it was read; of one that was made in Python as it could have been."""
        if self.sweep.origin.text:
            return self.sweep.origin.text
        try:
            return self.sweep.to_toml()
        except FastLDPError as error:
            return "\n".join([NO_TEXT, *(f"# {line}" for line in str(error).splitlines())])


NO_TEXT = "# Made in Python, of what has no text:"


def read(
    spec: str | os.PathLike[str] | Sweep,
    given: Mapping[str, Any] | None = None,
    *,
    quick: bool = False,
    synthetic: bool = False,
    folder: Path | None = None,
) -> Spec:
    """The settings of a sweep, or of one that `Sweep.from_toml` reads."""
    if isinstance(spec, Sweep):
        for name, value in (("given", given), ("quick", quick), ("synthetic", synthetic)):
            if value:
                raise ArgumentError(name, value, "only a specification in TOML takes it; give it to Sweep")
        return _Planner(spec).spec()
    return _Planner(Sweep.from_toml(spec, given, quick=quick, synthetic=synthetic, folder=folder)).spec()


@dataclass(frozen=True, eq=False)
class _Promised:
    """A budget of the sweep, with the place to blame; None without noise."""

    place: Place | None
    budget: Budget | None

    @cached_property
    def text(self) -> str:
        return section(None if self.budget is None else described(self.budget))


@dataclass(frozen=True, eq=False)
class _Tried:
    """A method of the sweep with its horizons, and the grid to blame."""

    grid: Grid
    method: Method
    horizons: tuple[int, ...]
    refusal: FastLDPError | None = None
    """Why there is no such method: it is one on paper, to be written down."""

    @cached_property
    def text(self) -> str:
        return section(described(self.method))


class _Planner:
    """Makes the settings of a sweep; what can be wrong with it alone was looked at when it was made."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.grounds: dict[str, Ground] = {}
        self.settings: list[Setting] = []
        self.cards: dict[str, Card] = {}
        self.shapes: dict[str, Shape] = {}
        self.refused: dict[str, str] = {}
        self._first_refusal: tuple[FastLDPError, _Promised, _Tried] | None = None
        self._record = cache(self._record_of)
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._known_shapes: dict[Shape, Shape] = {}
        # One for all settings that have it in common.
        self._provenance = cache(lambda fingerprint, version: Provenance(fingerprint=fingerprint, version=version))

    def spec(self) -> Spec:
        sweep = self.sweep
        budgets = [_Promised(one.at, budget) for one in sweep.budgets for budget in one] or [_Promised(None, None)]
        methods = [
            _Tried(one, choice.thing, sweep.horizons(one), choice.refusal)
            for one in sweep.methods
            for choice in one.choices
        ]
        noises = [Noise(None if seed == FROM_OS else seed, sweep.common_noise) for seed in sweep.seed]
        for problem in sweep.described():
            self._over(problem, budgets, methods, noises)
        if len(self.refused) == len(self.settings):
            self._refuse_all()
        return Spec(
            sweep,
            list(self.grounds.values()),
            self.settings,
            self.cards,
            self.shapes,
            self.refused,
        )

    def _refuse_all(self) -> None:
        """Where no setting can run, the specification is at fault."""
        assert self._first_refusal is not None
        error, promised, tried = self._first_refusal
        if (reasons := len({*self.refused.values()})) > 1:
            self._refuse_whole(f"no setting of it can run, for {reasons} reasons; of the first: {error}")
        with self._blame(promised, tried):
            raise error

    def _refuse_whole(self, remedy: str) -> NoReturn:
        self.sweep.origin.root.refuse("", remedy)

    def _over(
        self, wanted_problem: Described, budgets: list[_Promised], methods: list[_Tried], noises: list[Noise]
    ) -> None:
        """All settings of one problem."""
        ground, subject, problem = self._subject(wanted_problem)
        data, described_problem = _texts(wanted_problem, problem)
        endings: dict[tuple[int, Noise], str] = {}
        tries = [(tried, rounds) for tried in methods for rounds in tried.horizons]
        for promised in budgets:
            terms = Terms(problem, promised.budget)
            warn_of_delta(problem, promised.budget)
            before = text_before_method(promised.text, data)
            warned = False
            for tried, rounds in tries:
                outline = self._outline(tried, terms, rounds)
                if isinstance(outline, FastLDPError):
                    self._first_refusal = self._first_refusal or (outline, promised, tried)
                elif not warned:  # once for a problem and a budget
                    warned = warn_of_dominance(problem, outline.factors)
                try:
                    recorded, wanted = self._record(rounds, problem.n, problem.has_optimum)
                except FastLDPError:  # a horizon that nothing holds is refused as such
                    with self._blame(promised, tried):
                        if isinstance(outline, FastLDPError):
                            raise outline from None
                    raise
                shape = NO_SHAPE if isinstance(outline, FastLDPError) else self._shape(terms, outline, recorded)
                provenance = self._provenance(problem.tested_fingerprint, tried.method.edition)
                for noise in noises:
                    if (rounds, noise) not in endings:
                        record = section(wanted._asdict())
                        endings[rounds, noise] = text_after_method(described_problem, record, rounds, noise)
                    card = Card(before, tried.text, endings[rounds, noise], provenance)
                    key = card.key
                    if key in self.cards:  # the same setting, reached by two tables
                        continue
                    self.cards[key], self.shapes[key] = card, shape
                    if isinstance(outline, FastLDPError):
                        self.refused[key] = str(outline)
                    self.settings.append(
                        Setting(ground, subject, tried.method, promised.budget, rounds, recorded, wanted, noise, key)
                    )

    def _outline(self, tried: _Tried, terms: Terms, rounds: int) -> Outline | FastLDPError:
        """What a setting's runs would do, or why there can be none: which is not the end of the others."""
        if tried.refusal is not None:
            return tried.refusal
        try:
            outline = tried.method.outline(terms, rounds)
            if outline.sampler_spoils:  # or nearly so
                warn_of_sampler(outline.complete().ledger)
        except FastLDPError as error:
            return error
        return outline

    def _shape(self, terms: Terms, outline: Outline, recorded: Timetable) -> Shape:
        alike = terms.problem, outline.program.kind, terms.private, recorded.worker
        if alike not in self._shapes:
            shape = shape_of(terms.problem, outline.program, recorded, private=terms.private)
            # Equal shapes are one object: there are few, and a sweep has many settings.
            self._shapes[alike] = self._known_shapes.setdefault(shape, shape)
        return self._shapes[alike]

    @contextmanager
    def _blame(self, promised: _Promised, tried: _Tried) -> Iterator[None]:
        """An error of a method's schedule belongs to its budget, to the horizon, or to the method."""
        try:
            yield
        except ArgumentError as error:
            place = tried.grid.at
            if promised.place is not None and error.argument in BUDGET_KEYS:
                place = promised.place
            elif error.argument == "rounds" and tried.grid.rounds is None:
                place = self.sweep.origin.root
            with place.blame("name"):
                raise

    @contextmanager
    def _blame_source(self, data: Place, problem: Place) -> Iterator[None]:
        """An error of the data belongs to their table, or where they are test data to the problem's."""
        try:
            yield
        except ArgumentError as error:
            with (problem if error.argument in TEST_KEYS else data).blame():
                raise

    def _subject(self, wanted: Described) -> tuple[int, int, Composite]:
        """A problem, over the data it shares with others, and the numbers of both."""
        if wanted.given is not None:
            title = repr(("given", wanted.values["given"]))
            ground = self.grounds[title] = Ground(title)
            return self._placed(ground, wanted.given, starting_point(wanted.given, None))
        kind, choice, place, source = wanted.kind, wanted.values, wanted.grid.at, wanted.source
        assert source is not None  # or it would have been given
        common: dict[str, Any] = {key: choice[key] for key in ("workers", *kind.of_data) if key in choice}
        spread = {key: choice[key] for key in SPREAD_KEYS if key in choice}
        tested = {key: choice[key] for key in TEST_KEYS if key in choice}
        own: dict[str, Any] = {key: choice[key] for key in kind.own if key in choice}
        title = repr((wanted.name, source.parameters, plain_values(common), plain_values(spread), tested))
        there = self.grounds.get(title)
        problem: Composite
        with place.blame():
            if there is None:
                images = wanted.name == "network"
                with self._blame_source(source.place, place):
                    A, b, *test = source.images(**tested) if images else source.load(**tested)
                rows, common["workers"] = self._workers(place, b, common["workers"], spread)
                problem = kind.made(A[rows], b[rows], **common, **own, test=tuple(test) or None)
                there = self.grounds[title] = Ground(title)
            else:
                problem = there.subjects[0].problem.replace(**(kind.own | own))
        begins = {key: choice[key] for key in kind.of_start if key in choice}
        return self._placed(there, problem, self._start(place, problem, **begins))

    def _placed(self, ground: Ground, problem: Composite, start: Any) -> tuple[int, int, Composite]:
        ground.subjects.append(Subject(problem, start, optimum_or_nan(problem)))
        return list(self.grounds.values()).index(ground), len(ground.subjects) - 1, problem

    def _start(self, place: Place, problem: Composite, start: Any = None, start_seed: Any = None) -> Any:
        """Where all workers start: at a point that is given, or one that is drawn around zero."""
        with place.blame():
            if start is None or isinstance(start, np.ndarray):
                if start_seed is not None:
                    raise ArgumentError("start_seed", start_seed, "it draws what a number start multiplies; give both")
                x0 = start
            else:
                remedy = "give a number ≥ 0, by which standard normals are multiplied, or coordinates: [[0.5, 1.0]]"
                scale = real("start", start, remedy, at_least=0.0)
                seed = integer("start_seed", start_seed or 0, "give a whole number ≥ 0", at_least=0)
                x0 = scale * np.random.default_rng(seed).standard_normal(problem.d)
                x0 = problem.regularizer.prox(x0, 0.0)
            try:
                return starting_point(problem, x0)
            except ArgumentError as error:
                raise error.said_of("start") from None

    def _workers(self, place: Place, b: Any, workers: Any, spread: dict[str, Any]) -> tuple[Any, Any]:
        """Which rows are taken, and how many workers share them in order, or which of them has which row."""
        if not spread:
            return slice(None), workers
        if "partition" not in spread:
            place.refuse(next(iter(spread)), f"say how to spread the rows: partition = {', '.join(WAYS)}")
        if not isinstance(spread.get("pooled", False), bool):
            place.refuse("pooled", "give true or false: whether one worker has the rows of all")
        known_name("partition", spread["partition"], WAYS)
        rest = {key: spread[key] for key in ("share", "alpha", "sizes", "least") if key in spread}
        how, seed = spread["partition"], spread.get("partition_seed", 0)
        if "sizes" in rest and how != "dirichlet":  # which refuses sizes
            if "alpha" in rest:
                place.refuse("alpha", 'only partition = "dirichlet" has one; leave it out')
            if "least" in rest:
                place.refuse("least", "sizes say already how many rows each worker has; leave one of them out")
            found: tuple[Any, Any] = sample(b, workers, how, **rest, seed=seed)
        else:
            found = slice(None), partition(b, workers, how, **rest, seed=seed)
        return found[0], 1 if spread.get("pooled") else found[1]

    def _record_of(self, rounds: int, workers: int, has_optimum: bool) -> tuple[Timetable, Wanted]:
        """The rounds of a horizon that are recorded, and the words for it."""
        sweep, record = self.sweep, self.sweep.record
        # Without an optimum there would be no error to record, so measures are.
        objective = not has_optimum if sweep.objective is None else sweep.objective
        words = "default"
        with sweep.origin.record.blame("every", "rounds"):
            asked: Any = record
            if isinstance(record, Rounds):
                asked, words = record.within(rounds), f"rounds {digest(repr(record.written))[:8]}"
            elif record is not None:
                words = f"every {record.k}" if isinstance(record, Every) else "final"
            return timetable(asked, rounds, workers), Wanted(words, objective, sweep.models)


def _texts(wanted: Described, problem: Composite) -> tuple[str, str]:
    """Of data and problem, as settings are known by them; a problem that is given is one of given data."""
    told = {**problem.parameters, "regularizer": described(problem.regularizer)}
    if wanted.source is None:
        return section(Data(given=wanted.values["given"]).parameters), section({"workers": problem.n, **told})
    kept = ("workers", *SPREAD_KEYS, *TEST_KEYS, *START_KEYS)
    written = {key: plain(wanted.values[key]) for key in kept if key in wanted.values}
    return section(wanted.source.parameters), section({**written, **told})


def plain_values(choice: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in choice.items()}
