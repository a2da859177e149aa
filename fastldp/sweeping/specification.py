"""The specification of a sweep as an object: problems, budgets, methods and horizons, checked when it is made."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from fastldp.describing import section
from fastldp.engine.recording import Every, Final
from fastldp.errors import ArgumentError, SpecError
from fastldp.grids import Argument, Grid, Place
from fastldp.methods import Method
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.problems.rows import digest_of
from fastldp.sweeping import toml
from fastldp.sweeping.document import Document
from fastldp.sweeping.gathering import (
    KIND_OF,
    ROUNDS,
    budget_grids,
    data_grids,
    given_by_name,
    horizons_of,
    method_grids,
    of_type,
    problem_grids,
    record_of,
    seeds_of,
    tuning_of,
)
from fastldp.sweeping.keys import KINDS, Kind
from fastldp.sweeping.setting import Rounds
from fastldp.sweeping.sources import Data, Source, source_of
from fastldp.validation import integer, known_name

if TYPE_CHECKING:
    from fastldp.sweeping.runner import Report
    from fastldp.tuning import Tuned

# More than a file or the memory of a machine should hold.
MOST_RUNS = 100_000_000


class Origin(NamedTuple):
    """How a sweep was read, and where its errors belong."""

    name: str = ""
    text: str = ""
    quick: bool = False
    synthetic: bool = False
    root: Place = Argument("")
    record: Place = Argument("record")


class Described(NamedTuple):
    """A problem of the sweep: the grid to blame, its parameters, and the data it is made of; or it was given."""

    grid: Grid
    values: dict[str, Any]
    source: Source | None
    given: Composite | None = None

    @property
    def name(self) -> str:
        """What its table is called."""
        return KIND_OF[self.grid.kinds[0]]

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]


@dataclass(frozen=True, eq=False, init=False)
class Sweep:
    """What a sweep is to run: every data × problem × budget × method × horizon × seed, each so many times.

    Anything that may be a list stands for all of its values, and lists combine. The same can be written in TOML.

    Parameters
    ----------
    problems : dict, Grid or list
        Problems by name, as ``{"mine": problem}``; or what problems to make of the `data`, as
        ``fl.grid(fl.Problem, workers=20, l2=[0.1, 0.2])``, with all keys that the table [problem] has.
    methods : Method, Grid, list or dict
        Methods, grids of them, and lists of both; in a dict by what they are, for people.
    rounds : int or list of int, optional
        The horizons T; a grid of methods may have some of its own.
    budgets : Budget, Grid or list, optional
        What runs are promised; without any they have no noise.
    data : str, Data, Grid, list or dict, optional
        What problems are made of: the name of a set, `sweeping.Data`, or arrays by name, as ``{"mine": (A, b)}``.
    repetitions : int
        Runs of each setting.
    seed : int or list of int
        Of the noise; or ``"os"``, for keys that nobody knows.
    common_noise : bool
        Whether all runs of a seed and repetition have the same noise, so that differences can be taken run by run.
    record : Every, Final or list of int, optional
        The rounds to record; at most 100 by default, evenly spaced.
    objective : bool, optional
        Whether the objective is recorded as well; by default where there is no error.
    models : bool
        Whether the average models are recorded as well.
    title : str
        For people.
    tuning : dict, optional
        How parameters were chosen, kept with the results.
    given : dict, optional
        Problems and arrays by the names that other arguments have for them.
    folder : path, optional
        Where files of data are looked for.

    Examples
    --------
    >>> import fastldp as fl
    >>> sweep = fl.Sweep(
    ...     data=fl.sweeping.Data(synthetic="ijcnn1", rows=400),
    ...     problems=fl.grid(fl.Problem, workers=4, l2=0.1),
    ...     budgets=fl.grid(fl.Budget, epsilon=[0.5, 1.0], delta=1e-4),
    ...     methods=[fl.PrimalDual(), fl.grid(fl.ISRLDP, step=[0.01, 0.1])],
    ...     rounds=[20, 40],
    ... )
    >>> sweep.runs
    12
    >>> fl.Sweep.from_toml(sweep.to_toml()) == sweep
    True
    """

    problems: tuple[Grid, ...]
    methods: tuple[Grid, ...]
    rounds: tuple[int, ...]
    budgets: tuple[Grid, ...]
    data: tuple[Grid, ...]
    repetitions: int
    seed: tuple[Any, ...]
    common_noise: bool
    record: Every | Final | Rounds | None
    objective: bool | None
    models: bool
    title: str
    tuning: Mapping[str, Any]
    given: Mapping[str, Any]
    folder: Path
    origin: Origin = field(init=False)
    """How it was read; of a sweep that was changed nobody says."""

    def __init__(
        self,
        *,
        problems: Mapping[str, Composite] | Grid | Sequence[Any],
        methods: Method | Grid | Sequence[Any] | Mapping[str, Any],
        rounds: int | Sequence[int] | None = None,
        budgets: Budget | Grid | Sequence[Any] | None = None,
        data: str | Data | Grid | Sequence[Any] | Mapping[str, tuple[Any, ...]] | None = None,
        repetitions: int = 1,
        seed: int | str | Sequence[int] = 0,
        common_noise: bool = False,
        record: Every | Final | Rounds | int | Sequence[int] | None = None,
        objective: bool | None = None,
        models: bool = False,
        title: str = "",
        tuning: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        keep = self._keep
        keep("origin", Origin())
        keep("given", given_by_name(given, data, problems))
        keep("folder", Path(folder))
        remedy = f"give a whole number ≥ 1, at most {MOST_RUNS:,}"
        keep("repetitions", integer("repetitions", repetitions, remedy, at_least=1, at_most=MOST_RUNS))
        keep("title", of_type("title", title, str, "give a text"))
        keep("common_noise", of_type("common_noise", common_noise, bool, "give True or False"))
        keep("models", of_type("models", models, bool, "give True or False"))
        keep("objective", of_type("objective", objective, bool | None, "give True or False, or leave it out"))
        keep("record", record_of(record))
        keep("tuning", tuning_of(tuning or {}))
        keep("budgets", tuple(budget_grids(budgets)))
        keep("seed", seeds_of(seed, common_noise))
        keep("methods", tuple(method_grids(methods)))
        keep("rounds", () if rounds is None else horizons_of(rounds))
        keep("data", tuple(data_grids(data)))
        keep("problems", tuple(problem_grids(problems)))
        if self.runs > MOST_RUNS:
            raise ArgumentError(
                "repetitions", repetitions, f"{self.runs:,} runs, more than {MOST_RUNS:,}; write several sweeps"
            )

    def _keep(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    # As text.

    @classmethod
    def from_toml(
        cls,
        spec: str | os.PathLike[str],
        given: Mapping[str, Any] | None = None,
        *,
        quick: bool = False,
        synthetic: bool = False,
        folder: str | os.PathLike[str] | None = None,
        **changes: Any,
    ) -> Sweep:
        """The sweep of a TOML file, or of a text that has line ends.

        Parameters
        ----------
        spec : path or str
            Its keys are in `fastldp/sweeping/SPEC.md`.
        given : dict, optional
            Data made in Python, (A, b), and problems, by the name that ``given = "..."`` has for them.
        quick : bool
            Whether the table [quick] replaces what stands above it, for a small trial.
        synthetic : bool
            Whether to take generated stand-ins in place of named sets.
        folder : path, optional
            Where files of data are looked for; beside the specification by default.
        **changes : arguments
            Of `Sweep`, in place of what is written.

        Returns
        -------
        Sweep
            Equal to any other that says the same.

        Raises
        ------
        SpecError
            The message has file, line and key.
        """
        if isinstance(spec, str) and "\n" in spec:
            text, name, place = spec, "spec", Path()
        else:
            path = Path(spec)
            name, place = path.name, path.parent
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise SpecError(f"{path}: not a text in UTF-8; give a TOML file") from None
        document = Document(text, name, quick=quick)
        with toml.blamed(document):
            sweep = cls(
                **toml.arguments(document, changes, synthetic=synthetic),
                given=given,
                folder=place if folder is None else folder,
            )
        if changes:  # the text is another's
            return sweep
        root, record = document.root(), document.only_table("record", "are recorded")
        sweep._keep("origin", Origin(name, text, quick, synthetic, root, record))
        return sweep

    def to_toml(self) -> str:
        """The same as text: what `from_toml` reads, with the same `given` where there were some.

        Returns
        -------
        str
            A specification with line ends.

        Raises
        ------
        ArgumentError
            Where a value has no text, as an object of a class that nobody else can import.
        """
        return toml.text_of(self)

    def __eq__(self, other: object) -> bool:
        return self._told == other._told if isinstance(other, Sweep) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._told)

    @property
    def _told(self) -> str:
        """One text for equal sweeps."""
        record = self.record
        recorded = ["rounds", record.written] if isinstance(record, Rounds) else repr(record)
        grids = [[one.text for one in several] for several in (self.problems, self.methods, self.budgets, self.data)]
        used = {name for one in (*self.problems, *self.data) for name in one.axes.get("given", ())}
        given = {name: _digest(self.given[name]) for name in sorted(used)}
        rest = [self.title, self.repetitions, self.common_noise, self.objective, self.models, dict(self.tuning)]
        return section([grids, [*self.rounds], [*self.seed], recorded, rest, given])

    def __repr__(self) -> str:
        title = f"{self.title!r}, " if self.title else ""
        return f"Sweep({title}{len(self.methods)} grids of methods, {self.runs:,} runs)"

    # As lists.

    @property
    def runs(self) -> int:
        """How many there are, with those of settings that are reached twice.

        Returns
        -------
        int
            Settings times repetitions.
        """
        horizons = sum(len(self.horizons(one)) * len(one.choices) for one in self.methods)
        budgets = sum(len(one.choices) for one in self.budgets) or 1
        return sum(1 for _ in self.described()) * budgets * horizons * len(self.seed) * self.repetitions

    def horizons(self, methods: Grid) -> tuple[int, ...]:
        """Those of a grid of methods."""
        if methods.rounds is None and not self.rounds:
            raise ArgumentError("rounds", None, f"{ROUNDS}; the grids of methods have none of their own")
        return self.rounds if methods.rounds is None else methods.rounds

    def sources(self) -> list[Source]:
        """Where data come from."""
        found = []
        for one in self.data:
            for choice in one.choices:
                with one.at.blame("name"):
                    if choice.refusal is not None:
                        raise choice.refusal
                    found.append(source_of(choice.thing, self.given, self.folder, one.at))
        return found

    def described(self) -> Iterator[Described]:
        """Every problem; those of the first data first, and those that were given last."""
        grids = [(one, values) for one in self.problems for _, values in one.combinations()]
        sources = self.sources()
        of_data = [(one, values) for one, values in grids if "given" not in values]
        if of_data and not sources:
            raise ArgumentError("data", None, "say what problems are made of, as data='ijcnn1', or give problems")
        if sources and not of_data:
            raise ArgumentError("data", [one.data.at for one in sources], "no problem is made of them; leave them out")
        for source in sources:
            for one, values in of_data:
                yield Described(one, values, source)
        for one, values in grids:
            if "given" in values:
                yield Described(one, values, None, self._given(one, values))

    def _given(self, grid: Grid, values: dict[str, Any]) -> Composite:
        with grid.at.blame():
            name, others = values["given"], [key for key in values if key != "given"]
            if others:
                raise ArgumentError(
                    others[0], values[others[0]], "a problem that is given is made already; leave it out"
                )
            known_name("given", name, tuple(self.given))
            problem = self.given[name]
            if not isinstance(problem, grid.kinds[0]):
                raise ArgumentError("given", name, f"it is no {grid.kinds[0].__name__}, but {type(problem).__name__}")
            found: Composite = problem
            return found

    # As work.

    def replace(self, **changes: Any) -> Sweep:
        """The same with other arguments.

        Parameters
        ----------
        **changes : arguments
            As of `Sweep`.

        Returns
        -------
        Sweep
            A new one, checked as such.
        """
        return dataclasses.replace(self, **changes)

    def run(self, path: str | os.PathLike[str], **options: Any) -> Report:
        """Make the runs that a file does not have yet.

        Parameters
        ----------
        path : path
            The HDF5 file; made where it is not there, added to where it is.
        **options : options
            As of `sweep`, such as ``n_jobs=2`` or ``backend="loky"``.

        Returns
        -------
        sweeping.Report
            How many runs were found and made, how they ended, and how many are missing.
        """
        from fastldp.sweeping.runner import sweep

        return sweep(self, path, **options)

    def tune(self, path: str | os.PathLike[str], *, by: str = "optimality", extend: int = 0, **options: Any) -> Tuned:
        """Make the runs as trials of methods on one problem, and rank them: `fastldp.tune` that can be stopped.

        Parameters
        ----------
        path : path
            The HDF5 file; trials that it has are not made again.
        by : str
            ``"optimality"``, ``"distance"``, ``"objective"``, or ``"accuracy"`` on test data.
        extend : int
            So many times grids go on beyond an edge that the best lies on, at any horizon or over all.
        **options : options
            As of `sweep`.

        Returns
        -------
        Tuned
            The parameters of all settings, the best first. Report runs of another `seed` than they were chosen by.
        """
        from fastldp.sweeping.trials import tune

        return tune(self, path, by=by, extend=extend, **options)


def _digest(given: Any) -> Any:
    """Of a problem or arrays made in Python."""
    if isinstance(given, Composite):
        return given.definition
    return digest_of("", *(one if sparse.issparse(one) else np.asarray(one) for one in given))
