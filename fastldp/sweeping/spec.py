"""From a specification to settings: data, problems, budgets and methods, checked before anything runs.

The keys of each table are documented in `fastldp/sweeping/SPEC.md`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastldp import losses
from fastldp.datasets.partitioning import WAYS, partition, sample
from fastldp.describing import canonical, described, plain, section
from fastldp.engine.recording import Every, Final, Timetable, timetable
from fastldp.errors import ArgumentError, FastLDPError, SpecError
from fastldp.methods import Method, Outline, Terms
from fastldp.noise import Noise
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP
from fastldp.problems.weighting import UNIFORM
from fastldp.regularizers import Regularizer
from fastldp.solve import MOST_ROUNDS, optimum_or_nan, starting_point, warn_of_delta, warn_of_dominance, warn_of_sampler
from fastldp.sweeping.agenda import NO_SHAPE, Shape, shape_of
from fastldp.sweeping.document import Document, Table
from fastldp.sweeping.making import LOSSES, METHODS, PARTS, REGULARIZERS, kind_of, made, parameters_of, sketched
from fastldp.sweeping.setting import (
    FROM_OS,
    Card,
    Ground,
    Provenance,
    Setting,
    Subject,
    Wanted,
    digest,
    text_after_method,
    text_before_method,
)
from fastldp.sweeping.sources import Source, source_of
from fastldp.validation import integer, known_name, real

# More than a file or the memory of a machine should hold.
MOST_RUNS = 100_000_000
NOISE_KEYS = ("common",)
TUNING_KEYS = ("file", "digest", "rule", "runs", "grid", "edges")
ROOT_TABLES = ("noise", "tuning", "data", "problem", "network", "budget", "method", "record")
ROOT_KEYS = ("title", "rounds", "repetitions", "seed", *ROOT_TABLES)
SPREAD_KEYS = ("partition", "share", "alpha", "partition_seed", "sizes", "least")
START_KEYS = ("start", "start_seed")

TEST_KEYS = ("test", "test_seed")


class Kind(NamedTuple):
    """What a table that describes a problem has: keys that the data are laid out by, and others with their defaults."""

    of_data: tuple[str, ...]
    own: dict[str, Any]
    of_start: tuple[str, ...] = ()
    """Where runs start, which is no part of the problem."""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("workers", *SPREAD_KEYS, *TEST_KEYS, *self.of_data, *self.own, *self.of_start)


KINDS = {
    "problem": Kind(
        ("loss", "dtype", "row_bound"),
        {"l2": 0.0, "regularizer": None, "gradient_bound": None, "weighting": UNIFORM},
        START_KEYS,
    ),
    "network": Kind(
        ("hidden", "classes", "products"),
        {
            "l2": 0.0,
            "regularizer": None,
            "clip": None,
            "strong_convexity": None,
            "start_seed": 0,
            "weighting": UNIFORM,
        },
    ),
}
BUDGET_KEYS = ("epsilon", "delta", "accounting")
RECORD_KEYS = ("every", "rounds", "final", "objective", "models")


@dataclass(frozen=True, eq=False)
class Spec:
    """A whole sweep, ready to be packed."""

    name: str
    text: str
    title: str
    repetitions: int
    grounds: list[Ground]
    settings: list[Setting]
    cards: dict[str, Card]
    """By the settings' keys, as the following."""
    shapes: dict[str, Shape]
    refused: dict[str, str]
    """Why settings cannot run, of those that cannot."""
    quick: bool = False
    synthetic: bool = False
    """How it was read."""
    tuning: dict[str, Any] = field(default_factory=dict)
    """How its parameters were chosen, as it says itself; no run depends on it."""


def read(
    spec: str | os.PathLike[str],
    given: Mapping[str, tuple[Any, ...]] | None = None,
    *,
    quick: bool = False,
    synthetic: bool = False,
    folder: Path | None = None,
) -> Spec:
    """A specification from a TOML file, or from a text that has line ends.

    `given` has data made in Python, (A, b); files are looked for in the `folder`, or beside the specification. With
    `quick` the table [quick] replaces what stands above it; with `synthetic` stand-ins replace named sets.
    """
    if isinstance(spec, str) and "\n" in spec:
        document = Document(spec, "spec", quick=quick)
        return _Reader(document, given or {}, folder=folder or Path(), synthetic=synthetic).spec()
    path = Path(spec)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not a text in UTF-8; give a TOML file") from None
    document = Document(text, path.name, quick=quick)
    return _Reader(document, given or {}, folder=folder or path.parent, synthetic=synthetic).spec()


@dataclass(frozen=True, eq=False)
class _Promised:
    """A budget of the sweep, with the table to blame; None without noise."""

    table: Table | None
    budget: Budget | None

    @cached_property
    def text(self) -> str:
        return section(None if self.budget is None else described(self.budget))


@dataclass(frozen=True, eq=False)
class _Tried:
    """A method of the sweep with its horizons, and the table to blame."""

    table: Table
    method: Method
    horizons: tuple[int, ...]
    refusal: FastLDPError | None = None
    """Why there is no such method: it is one on paper, to be written down."""

    @cached_property
    def text(self) -> str:
        return section(described(self.method))

    @property
    def can_be_written(self) -> bool:
        """Of a sketch, whose values nobody has checked."""
        try:
            return bool(self.text)
        except (TypeError, ValueError):  # a date, or an infinite number
            return False


class _Reader:
    """Reads one document; what can be wrong is looked at in the order in which it is written."""

    def __init__(
        self,
        document: Document,
        given: Mapping[str, tuple[Any, ...]],
        *,
        folder: Path = Path(),
        synthetic: bool = False,
    ) -> None:
        self.document, self.given, self.folder, self.synthetic = document, given, folder, synthetic
        self.root = document.root()
        self.root.know(ROOT_KEYS)
        self._know_quick()
        self.grounds: dict[str, Ground] = {}
        self.settings: list[Setting] = []
        self.cards: dict[str, Card] = {}
        self.shapes: dict[str, Shape] = {}
        self.refused: dict[str, str] = {}
        self._first_refusal: tuple[FastLDPError, Table | None, Table] | None = None
        self._record = cache(self._record_of)
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._known_shapes: dict[Shape, Shape] = {}
        # One for all settings that have it in common.
        self._provenance = cache(lambda fingerprint, version: Provenance(fingerprint=fingerprint, version=version))

    def spec(self) -> Spec:
        with self.root.blame():
            remedy = f"give a whole number ≥ 1, at most {MOST_RUNS:,}"
            repetitions = integer(
                "repetitions", self.root.values.get("repetitions", 1), remedy, at_least=1, at_most=MOST_RUNS
            )
        title = self.root.values.get("title", "")
        if not isinstance(title, str):
            self.root.refuse("title", "give a text")
        budgets, noises, methods = self._budgets(), self._noises(), self._methods()
        names = [name for name in KINDS if name in self.document.values] or ["problem"]
        tables = [one for name in names for one in self._tables(name, KINDS[name].keys)]
        sources = self._sources()
        horizons = sum(len(tried.horizons) for tried in methods)
        runs = len(sources) * len(tables) * len(budgets) * horizons * len(noises) * repetitions
        if runs > MOST_RUNS:
            self.document.refuse((), f"{runs:,} runs, more than {MOST_RUNS:,}; write several sweeps")
        for source, problem_table in itertools.product(sources, tables):
            self._over(source, problem_table, budgets, methods, noises)
        if len(self.refused) == len(self.settings):
            self._refuse_all()
        return Spec(
            self.document.name,
            self.document.text,
            title,
            repetitions,
            list(self.grounds.values()),
            self.settings,
            self.cards,
            self.shapes,
            self.refused,
            quick=self.document.quick,
            synthetic=self.synthetic,
            tuning=self._tuning(),
        )

    def _refuse_all(self) -> None:
        """Where no setting can run, the specification is at fault."""
        assert self._first_refusal is not None
        error, budget, method = self._first_refusal
        if (reasons := len({*self.refused.values()})) > 1:
            self.document.refuse((), f"no setting of it can run, for {reasons} reasons; of the first: {error}")
        with self._blame(budget, method):
            raise error

    def _know_quick(self) -> None:
        """Refuse what [quick] must not have, now and not only on the day when it is used."""
        quick = Table(self.document, ("quick",), self.document.small)
        quick.know(ROOT_KEYS)
        own = [kind for table in self.document.tables("method") for kind in self._kinds(table).values()]
        known = {name: kind.keys for name, kind in KINDS.items()} | {
            "data": Source.KEYS,
            "budget": BUDGET_KEYS,
            "method": method_keys((*METHODS.values(), *own)),
            "record": RECORD_KEYS,
            "noise": NOISE_KEYS,
            "tuning": TUNING_KEYS,
        }
        for name in quick.values.keys() & known.keys():
            found = quick.values[name]
            for k, values in enumerate(found if isinstance(found, list) else [found]):
                path = ("quick", name, k) if isinstance(found, list) else ("quick", name)
                if isinstance(values, dict):
                    Table(self.document, path, values).know(known[name])

    def _tables(self, name: str, known: tuple[str, ...]) -> list[tuple[Table, dict[str, Any]]]:
        """Every choice of every table of a name, with the table to blame."""
        tables = self.document.tables(name)
        if not tables:
            self.document.refuse((), f"there is no table [{name}]; see fastldp sweep --help for an example")
        return [(table, choice) for table in tables for choice in table.choices(known)]

    def _sources(self) -> list[Source]:
        found = []
        for table, choice in self._tables("data", Source.KEYS):
            if self.synthetic and "name" in choice:
                choice = {"synthetic": choice["name"]} | {k: v for k, v in choice.items() if k != "name"}
            with table.blame("name"):
                found.append(source_of(choice, self.given, self.folder, table))
        return found

    def _budgets(self) -> list[_Promised]:
        if "budget" not in self.document.values:
            return [_Promised(None, None)]
        found = []
        for table, choice in self._tables("budget", BUDGET_KEYS):
            for key in ("epsilon", "delta"):
                if key not in choice:
                    table.refuse(key, "a budget needs it; leave the table [budget] out to run without noise")
            with table.blame():
                found.append(_Promised(table, Budget(**choice)))
        return found

    def _methods(self) -> list[_Tried]:
        found: list[_Tried] = []
        everywhere: tuple[int, ...] | None = None
        for table in self.document.tables("method"):
            before = len(found)
            kinds = self._kinds(table)
            for choice in table.choices(method_keys(kinds.values())):
                kind = kinds[choice.pop("name", "PrimalDual")]
                with table.blame():
                    for name in PARTS:
                        if isinstance(choice.get(name), dict):
                            choice[name] = self._of_method(table, name, choice[name])
                    if "rounds" in choice:
                        horizons = self._horizons([choice.pop("rounds")])
                    else:
                        with self.root.blame():
                            everywhere = everywhere or self._horizons(self.root.axis("rounds"))
                        horizons = everywhere
                    found.append(self._tried(table, kind, choice, horizons))
            refusals = [tried.refusal for tried in found[before:] if tried.refusal is not None]
            if len(refusals) == len(found) - before:  # the table is wrong, and not how its values combine
                with table.blame("name"):
                    raise refusals[0]
        if not found:
            self.document.refuse((), "there is no table [[method]]; see fastldp sweep --help for an example")
        return found

    def _tried(self, table: Table, kind: Any, choice: dict[str, Any], horizons: tuple[int, ...]) -> _Tried:
        """A method, or the sketch of one whose parameters refuse each other."""
        with table.blame("name"):
            try:
                return _Tried(table, made(kind, choice), horizons)
            except ArgumentError as error:
                sketch = _Tried(table, sketched(kind, choice), horizons, error)
                if sketch.method is None or not sketch.can_be_written:
                    raise
                return sketch

    def _kinds(self, table: Table) -> dict[str, Any]:
        """The methods that a table names."""
        name = table.values.get("name", "PrimalDual")
        with table.blame():
            names = name if isinstance(name, list) else [name]
            return {str(one): kind_of("name", one, METHODS, Method) for one in names}

    def _horizons(self, values: list[Any]) -> tuple[int, ...]:
        remedy = f"give a whole number from 1 to {MOST_ROUNDS:,}, a list or a range of them"
        return tuple(integer("rounds", T, remedy, at_least=1, at_most=MOST_ROUNDS) for T in values)

    def _noises(self) -> list[Noise]:
        table = self._only_table("noise", "have their noise")
        table.know(NOISE_KEYS)
        common = table.flag("common", default=False)
        remedy = f'give a whole number from 0 to 2**63 − 1, or "{FROM_OS}" for keys that nobody knows'
        seeds = self.root.axis("seed", 0)
        if common and FROM_OS in seeds:
            self.document.refuse(("noise", "common"), f'noise in common needs seeds, and seed = "{FROM_OS}" has none')
        with self.root.blame():
            whole = [s if s == FROM_OS else integer("seed", s, remedy, at_least=0, at_most=2**63 - 1) for s in seeds]
        return [Noise(None if seed == FROM_OS else seed, common) for seed in whole]

    def _tuning(self) -> dict[str, Any]:
        """What is said of how parameters were chosen: plain values, kept as they are."""
        table = self._only_table("tuning", "are tuned")
        table.know(TUNING_KEYS)
        try:
            canonical(table.values)
        except (TypeError, ValueError):
            table.refuse("", "give texts, numbers and lists of them")
        return dict(table.values)

    def _only_table(self, name: str, what: str) -> Table:
        """A table that there is once, or none, which is empty."""
        first, *others = self.document.tables(name) or [Table(self.document, (name,), {})]
        if others:
            others[0].refuse("", f"all runs {what} in one way: write one table [{name}]")
        return first

    def _made(self, table: Table, kind: Any, choice: dict[str, Any]) -> Any:
        with table.blame("name"):
            return made(kind, choice)

    def _of_method(self, table: Table, name: str, values: dict[str, Any]) -> Any:
        """A parameter of a method that is a table."""
        inner = Table(self.document, (*table.path, name), values)
        with inner.blame():
            return self._made(inner, PARTS[name], values)

    def _part(self, table: Table, key: str, value: Any, known: dict[str, Any], base: type, default: str) -> Any:
        """A loss or a regularizer: its name, or a table of its name and parameters; from outside by ``module:name``."""
        values = dict(value) if isinstance(value, dict) else {"name": value}
        name = values.pop("name", default)
        inner = Table(self.document, (*table.path, key), value if isinstance(value, dict) else {})
        with table.blame(key):
            kind = kind_of(key, name, known, base)
        with inner.blame():
            return self._made(inner, kind, values)

    def _over(
        self,
        source: Source,
        table_and_choice: tuple[Table, dict[str, Any]],
        budgets: list[_Promised],
        methods: list[_Tried],
        noises: list[Noise],
    ) -> None:
        """All settings of one problem."""
        table, choice = table_and_choice
        ground, subject, problem = self._subject(source, table, choice)
        data, described_problem = section(source.parameters), section(self._described(choice, problem))
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
                    self._first_refusal = self._first_refusal or (outline, promised.table, tried.table)
                elif not warned:  # once for a problem and a budget
                    warned = warn_of_dominance(problem, outline.factors)
                try:
                    recorded, wanted = self._record(rounds, problem.n, problem.has_optimum)
                except FastLDPError:  # a horizon that nothing holds is refused as such
                    with self._blame(promised.table, tried.table):
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
    def _blame(self, budget: Table | None, method: Table) -> Iterator[None]:
        """An error of a method's schedule belongs to its budget, to the horizon, or to the method."""
        try:
            yield
        except ArgumentError as error:
            of_budget = budget is not None and error.argument in BUDGET_KEYS
            of_root = error.argument == "rounds" and "rounds" not in method.values
            table = budget if of_budget and budget is not None else self.root if of_root else method
            with table.blame("name"):
                raise

    @contextmanager
    def _blame_source(self, data: Table, problem: Table) -> Iterator[None]:
        """An error of the data belongs to their table, or where they are test data to the problem's."""
        try:
            yield
        except ArgumentError as error:
            with (problem if error.argument in TEST_KEYS else data).blame():
                raise

    def _subject(self, source: Source, table: Table, choice: dict[str, Any]) -> tuple[int, int, Composite]:
        """The problem of a choice, over the data it shares with others, and the numbers of both."""
        name = str(table.path[0])
        kind = KINDS[name]
        common: dict[str, Any] = {key: choice[key] for key in ("workers", *kind.of_data) if key in choice}
        spread = {key: choice[key] for key in SPREAD_KEYS if key in choice}
        tested = {key: choice[key] for key in TEST_KEYS if key in choice}
        own: dict[str, Any] = {key: choice[key] for key in kind.own if key in choice}
        if "workers" not in choice:
            table.refuse("workers", "say how many workers share the rows")
        if "regularizer" in choice:
            own["regularizer"] = self._part(
                table, "regularizer", choice["regularizer"], REGULARIZERS, Regularizer, "BoxL1"
            )
        if choice.get("loss") not in (None, *losses.NAMES):
            common["loss"] = self._part(table, "loss", choice["loss"], LOSSES, losses.Loss, "logistic")
        title = repr((name, source.parameters, plain_values(common), plain_values(spread), tested))
        ground = self.grounds.get(title)
        problem: Composite
        with table.blame():
            if ground is None:
                images = name == "network"
                with self._blame_source(source.table, table):
                    A, b, *test = source.images(**tested) if images else source.load(**tested)
                rows, common["workers"] = self._workers(table, b, common["workers"], spread)
                make: Any = MLP if images else Problem
                problem = make(A[rows], b[rows], **common, **own, test=tuple(test) or None)
                ground = self.grounds[title] = Ground(title)
            else:
                problem = ground.subjects[0].problem.replace(**(kind.own | own))
        begins = {key: choice[key] for key in kind.of_start if key in choice}
        subject = Subject(problem, self._start(table, problem, **begins), optimum_or_nan(problem))
        ground.subjects.append(subject)
        return list(self.grounds).index(title), len(ground.subjects) - 1, problem

    def _start(self, table: Table, problem: Composite, start: Any = None, start_seed: Any = None) -> Any:
        """Where all workers start: at a point that is given, or one that is drawn around zero."""
        with table.blame():
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

    def _workers(self, table: Table, b: Any, workers: Any, spread: dict[str, Any]) -> tuple[Any, Any]:
        """Which rows are taken, and how many workers share them in order, or which of them has which row."""
        if not spread:
            return slice(None), workers
        if "partition" not in spread:
            table.refuse(next(iter(spread)), f"say how to spread the rows: partition = {', '.join(WAYS)}")
        known_name("partition", spread["partition"], WAYS)
        rest = {key: spread[key] for key in ("share", "alpha", "sizes", "least") if key in spread}
        how, seed = spread["partition"], spread.get("partition_seed", 0)
        if "sizes" in rest and how != "dirichlet":  # which refuses sizes
            if "alpha" in rest:
                table.refuse("alpha", 'only partition = "dirichlet" has one; leave it out')
            if "least" in rest:
                table.refuse("least", "sizes say already how many rows each worker has; leave one of them out")
            return sample(b, workers, how, **rest, seed=seed)
        return slice(None), partition(b, workers, how, **rest, seed=seed)

    def _described(self, choice: dict[str, Any], problem: Composite) -> dict[str, Any]:
        return {
            "workers": plain(choice["workers"]),
            **{key: plain(choice[key]) for key in (*SPREAD_KEYS, *TEST_KEYS, *START_KEYS) if key in choice},
            **problem.parameters,
            "regularizer": described(problem.regularizer),
        }

    def _record_of(self, rounds: int, workers: int, has_optimum: bool) -> tuple[Timetable, Wanted]:
        table = self._only_table("record", "are recorded")
        values = table.values
        if "messages" in values:
            table.refuse("messages", "a sweep does not keep messages; solve(record=Messages(worker)) does")
        table.know(RECORD_KEYS)
        # Without an optimum there would be no error to record, so measures are.
        objective, models = table.flag("objective", default=not has_optimum), table.flag("models", default=False)
        ways = [key for key in ("every", "rounds") if key in values and values[key] is not False]
        ways += ["final"] if table.flag("final", default=False) else []
        if len(ways) > 1:
            table.refuse(ways[1], f"{ways[0]} says already which rounds to record")
        record: Any = None
        words = "default"
        with table.blame("every", "rounds"):
            if ways == ["every"]:
                record, words = Every(values["every"]), f"every {values['every']}"
            elif ways == ["final"]:
                record, words = Final(), "final"
            elif ways == ["rounds"]:
                record = self._within(table, rounds)
                words = f"rounds {digest(repr(values['rounds']))[:8]}"
            return timetable(record, rounds, workers), Wanted(words, objective, models)

    def _within(self, table: Table, rounds: int) -> Any:
        """Of the listed rounds those a horizon has; it must have one."""
        wanted = table.axis("rounds")
        for one in wanted:
            integer("rounds", one, "give rounds from 1 on, a list or a range of them", at_least=1)
        kept = [one for one in wanted if one <= rounds]
        if not kept:
            raise ArgumentError("rounds", wanted, f"a horizon of {rounds} rounds has none of them")
        return kept


def method_keys(kinds: Iterable[Any]) -> tuple[str, ...]:
    """The keys that a table [[method]] of these may have."""
    return "name", "rounds", *dict.fromkeys(name for kind in kinds for name in parameters_of(kind))


def plain_values(choice: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in choice.items()}
