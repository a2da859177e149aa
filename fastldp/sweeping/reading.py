"""What a sweep found: runs to filter, tables to take away, means with error bars."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError, MissingExtraError, StoreError
from fastldp.privacy.ledger import Ledger
from fastldp.privacy.statement import SECRET
from fastldp.sweeping.layout import (
    MEASURED,
    OUTCOMES,
    RAGGED,
    RECORDED,
    RUN_NUMBERS,
    SETTING_TEXTS,
    Ragged,
    holds_seeds,
    spans,
)
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.store import files_of, ledger_fields
from fastldp.sweeping.work import COMPLETED, RUNNING
from fastldp.validation import known_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from xarray import Dataset

Array = NDArray[np.float64]

MEASURES = ("optimality", *RECORDED)
# These may differ between files that hold the same results.
OF_THE_MAKING = ("session", "seconds")


def results(path: str | os.PathLike[str]) -> Results:
    """The results of a sweep, finished or not; a sweep that is writing them is not disturbed.

    Where bytes of a file have changed since they were written, a `DamageWarning` says which runs that concerned.

    >>> results("nowhere.h5")
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere.h5: there are no results of a sweep
    """
    files = files_of(path)
    if not files:
        raise FileNotFoundError(f"{os.fspath(path)}: there are no results of a sweep")
    loaded = _Loaded(Merged(files))
    # Of a run whose beginning was lost there is nothing to show.
    finished = np.flatnonzero((loaded.numbers("outcome") != OUTCOMES.index(RUNNING)) & loaded.merged.whole)
    return Results(loaded, finished)


class _Loaded:
    """All that a file and its parts hold, column by column, as it is asked for."""

    def __init__(self, merged: Merged) -> None:
        self.merged = merged
        # Not methods that are cached, for those would keep what nobody holds any more.
        self.numbers = cache(merged.numbers)
        self.texts = cache(merged.texts)
        self.rows: Callable[[str, str], Ragged] = cache(lambda table, name: merged.rows(table, name).ragged())

    @cached_property
    def sessions(self) -> list[bytes]:
        return self.merged.sessions

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Every parameter; where settings differ in data or version alone, those too."""
        texts = self.texts("parameters").tolist()
        settings = (flat(json.loads(text)) for text in texts)
        if np.unique(self.texts("identity")).size < len(texts):
            provenances = map(json.loads, self.texts("provenance").tolist())
            settings = (setting | provenance for setting, provenance in zip(settings, provenances, strict=True))
        return Parameter.of_all(settings, len(texts))


class Parameter(NamedTuple):
    """The values that a parameter takes, and which of them each setting has; −1 is none."""

    values: list[Any]
    numbers: NDArray[np.int64]

    @classmethod
    def of_all(cls, settings: Iterable[dict[str, Any]], count: int) -> dict[str, Parameter]:
        """By name, those of the first setting first."""
        # Settings with the same names are taken together, column by column, for there may be a great many.
        alike: dict[tuple[str, ...], tuple[list[int], list[Any]]] = {}
        for row, setting in enumerate(settings):
            rows, values = alike.setdefault(tuple(setting), ([], []))
            rows.append(row)
            values.append(tuple(setting.values()))
        found: dict[str, Parameter] = {}
        seen: dict[str, dict[Any, int]] = {}
        for names, (rows, values) in alike.items():
            for name, column in zip(names, zip(*values, strict=True), strict=True):
                parameter = found.setdefault(name, cls([], np.full(count, -1)))
                parameter.numbers[rows] = parameter._numbered(column, seen.setdefault(name, {}))
        return found

    def _numbered(self, column: Sequence[Any], seen: dict[Any, int]) -> NDArray[np.int64]:
        """The numbers of some values; those that were not seen yet are added."""
        marks = column
        if not {*map(type, column)}.isdisjoint((bool, list, dict)):  # true is no 1, and lists cannot be looked up
            marks = [(type(v), repr(v)) if isinstance(v, bool | list | dict) else v for v in column]
        for mark, value in dict(zip(marks, column, strict=True)).items():
            if seen.setdefault(mark, len(self.values)) == len(self.values):
                self.values.append(value)
        return np.fromiter(map(seen.__getitem__, marks), np.int64, len(marks))

    def of(self, setting: int) -> Any:
        number = self.numbers[setting]
        return None if number < 0 else self.values[number]

    def column(self) -> NDArray[Any]:
        """Its value in each setting: numbers as numbers, and anything else as objects."""
        there = bool((self.numbers >= 0).all())
        if there and all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values):
            return np.array(self.values)[self.numbers]
        values = np.empty(len(self.values) + 1, dtype=object)
        values[:-1] = self.values
        return values[self.numbers]  # the last of which is None


class Results:
    """Finished runs; iterate over them, filter them, or take a table."""

    def __init__(self, loaded: _Loaded, rows: NDArray[np.int64]) -> None:
        self._loaded, self._rows = loaded, rows

    def __len__(self) -> int:
        return self._rows.size

    def __iter__(self) -> Iterator[Run]:
        return (Run(self._loaded, int(row)) for row in self._rows)

    def __getitem__(self, number: int) -> Run:
        return Run(self._loaded, int(self._rows[number]))

    @cached_property
    def _settings(self) -> NDArray[np.int64]:
        return np.asarray(self._loaded.numbers("setting")[self._rows])

    @cached_property
    def parameters(self) -> dict[str, list[Any]]:
        """Every parameter and the values it takes."""
        settings = np.unique(self._settings)
        found = {}
        for name, parameter in self._loaded.parameters.items():
            numbers = np.unique(parameter.numbers[settings])
            if values := [parameter.values[number] for number in numbers.tolist() if number >= 0]:
                found[name] = values
        return found

    @property
    def varying(self) -> list[str]:
        """The parameters that differ between runs that have them."""
        return [name for name, values in self.parameters.items() if len(values) > 1]

    def where(self, **wanted: Any) -> Results:
        """The runs whose parameters have these values; a list allows several, a function says yes or no."""
        known = self._loaded.parameters
        keep = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            known_name("where", name, sorted({*known, "repetition", "outcome"}))
            if name in ("repetition", "outcome"):
                found, each = np.unique(self._loaded.numbers(name)[self._rows], return_inverse=True)
                values = found.tolist() if name == "repetition" else [OUTCOMES[code] for code in found]
                keep &= np.array([_matches(one, value) for one in values], dtype=bool)[each]
            else:
                fits = [_matches(one, value) for one in (*known[name].values, None)]
                keep &= np.array(fits, dtype=bool)[known[name].numbers][self._settings]
        return Results(self._loaded, self._rows[keep])

    def made_by(self, settings: Mapping[str, int]) -> Results:
        """The runs of the settings with these keys, so many repetitions of each: those of one specification."""
        keys = self._loaded.texts("key").tolist()
        wanted = np.array([settings.get(key.decode(), 0) for key in keys], dtype=np.int64)
        repetitions = self._loaded.numbers("repetition")[self._rows]
        return Results(self._loaded, self._rows[repetitions < wanted[self._settings]])

    @cached_property
    def _outcomes(self) -> NDArray[Any]:
        return np.array(OUTCOMES, dtype=object)[self._loaded.numbers("outcome")[self._rows]]

    def table(self) -> dict[str, NDArray[Any]]:
        """A row a run: its parameters, repetition, outcome, last round, and errors and objective recorded last."""
        columns = {name: self._loaded.parameters[name].column()[self._settings] for name in self.parameters}
        columns["repetition"] = self._loaded.numbers("repetition")[self._rows]
        columns["outcome"] = self._outcomes
        columns["round"] = self._loaded.numbers("round")[self._rows]
        columns["seconds"] = self._loaded.numbers("seconds")[self._rows]
        for name in RECORDED:
            columns[name] = self._last(name)
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            columns["optimality"] = columns["consensus"] + columns["distance"]
        return columns

    def _last(self, name: str) -> Array:
        return self._loaded.rows("runs", name).last(self._rows)

    def records(self) -> dict[str, NDArray[Any]]:
        """A row a run and recorded round, tidy: parameters, repetition, round, errors, objective."""
        table = self.table()
        counts = self._loaded.rows("runs", "consensus").lengths[self._rows]
        columns = {name: np.repeat(table[name], counts) for name in (*self.parameters, "repetition", "outcome")}
        planned = self._loaded.rows("settings", "rounds")
        columns["round"] = planned.values[spans(planned.starts[self._settings], counts)]
        along = {name: self._along(name, counts) for name in RECORDED}
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            columns["optimality"] = along["consensus"] + along["distance"]
        return columns | along

    def _along(self, name: str, counts: NDArray[np.int64]) -> Array:
        """What was recorded in so many rounds of each run, end to end; NaN of runs that did not record it."""
        found = self._loaded.rows("runs", name)
        has = found.lengths[self._rows] > 0
        values = np.full(counts.sum(), np.nan)
        values[np.repeat(has, counts)] = found.values[spans(found.starts[self._rows[has]], counts[has])]
        return values

    def _groups(self, by: Sequence[str]) -> list[tuple[dict[str, Any], NDArray[np.int64]]]:
        """The runs that have the same values of some parameters, or of all that vary: these values, and which runs."""
        for name in by:
            known_name("by", name, sorted(self.parameters))
        names = list(by) or self.varying
        known = self._loaded.parameters
        # By the texts of values, for lists cannot be compared otherwise.
        marks = np.zeros((self._loaded.texts("key").size, len(names)), dtype=np.int64)
        for k, name in enumerate(names):
            seen: dict[str, int] = {}
            texts = [repr(value) for value in (*known[name].values, None)]
            marks[:, k] = np.array([seen.setdefault(text, len(seen)) for text in texts])[known[name].numbers]
        _, group = np.unique(marks, axis=0, return_inverse=True) if names else (None, np.zeros(len(marks), dtype=int))
        order = np.argsort(group[self._settings], kind="stable")
        cuts = np.flatnonzero(np.diff(group[self._settings][order])) + 1
        members = sorted(np.split(order, cuts), key=lambda rows: int(rows[0])) if len(self) else []
        return [({name: known[name].of(self._settings[rows[0]]) for name in names}, rows) for rows in members]

    def means(self, *by: str, measure: str = "optimality") -> list[Mean]:
        """The mean of the last recorded error over the repetitions that completed, with its spread, for each setting.

        With parameters in `by` the runs are grouped by those alone.
        """
        known_name("measure", measure, MEASURES)
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            found = self._last("consensus") + self._last("distance") if measure == "optimality" else self._last(measure)
        # What a run that diverged recorded last says nothing of its end.
        ends = np.where(self._outcomes == COMPLETED, found, np.nan)
        return [Mean.of(label, ends[rows]) for label, rows in self._groups(by)]

    def curves(self, *by: str, measure: str = "optimality") -> list[Curve]:
        """The mean of an error along the rounds, with its spread, for each setting or each value of `by`.

        A curve ends where the first of its runs does.
        """
        known_name("measure", measure, MEASURES)
        found = []
        for label, rows in self._groups(by):
            runs = [self[row] for row in rows.tolist()]
            planned = runs[0].planned
            if any(not np.array_equal(run.planned, planned) for run in runs):
                raise ArgumentError("by", by, "the runs of a group were recorded at different rounds; name more")
            values = np.stack([_filled(getattr(run, measure), planned.size) for run in runs])
            found.append(Curve(label, planned, values))
        return found

    def to_pandas(self, *, records: bool = False) -> DataFrame:
        """The table, or with `records` the tidy table of all recorded rounds, as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "tables") from None
        return pandas.DataFrame(self.records() if records else self.table())

    def to_xarray(self) -> Dataset:
        """Errors with dimensions (run, record); shorter records end in NaN, and `round` says which rounds they are."""
        try:
            import xarray
        except ImportError:
            raise MissingExtraError("xarray", "tables") from None
        runs = list(self)
        longest = max((run.rounds.size for run in runs), default=0)
        table = self.table()
        data = {
            name: (
                ("run", "record"),
                np.array([_filled(getattr(run, name), longest) for run in runs]).reshape(len(runs), longest),
            )
            for name in (*MEASURES, "round")
        }
        kept = (*self.parameters, "repetition", "outcome", "seconds")
        coordinates = {name: ("run", table[name]) for name in kept}
        return xarray.Dataset(data, coords=coordinates)

    def summary(self) -> str:
        """Outcomes, what varies, and the mean final error of each setting, as an aligned table."""
        there = {name: int((self._outcomes == name).sum()) for name in OUTCOMES}
        counts = ", ".join(f"{count:,} {name}" for name, count in there.items() if count)
        secret = [f"{SECRET}."] if holds_seeds(self._loaded.texts("parameters")) else []
        lines = [*secret, f"{len(self):,} runs of {np.unique(self._settings).size:,} settings: {counts or 'none'}", ""]
        judged = self._judged()
        means = self.means(measure=judged)
        cells = [[*(shown(value) for value in mean.label.values()), *mean.cells()] for mean in means]
        heads = [*self.varying, "runs", judged, "± std", "± error"]
        widths = [max(len(row[k]) for row in [heads, *cells]) for k in range(len(heads))]
        for row in [heads, *cells]:
            lines.append("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        return "\n".join(lines)

    def _judged(self) -> str:
        """What runs are compared by: networks have no optimum, so by accuracy, or else by loss."""
        for name in () if np.isfinite(self._last("distance")).any() else MEASURED[::-1]:
            if np.isfinite(self._last(name)).any():
                return name
        return "optimality"

    def __repr__(self) -> str:
        return f"Results({len(self):,} runs of {np.unique(self._settings).size:,} settings)"

    def plot(
        self, ax: Axes | None = None, *, x: str = "round", by: Sequence[str] = (), measure: str = "optimality"
    ) -> Axes:
        """Means with error bars: along the recorded rounds, or at the end against a parameter such as ``"rounds"``."""
        from fastldp.figures import plot_results

        return plot_results(self, ax, x=x, by=by, measure=measure)

    def digest(self) -> str:
        """A digest of everything but wall times, machines and versions: equal for equal results."""
        found = hashlib.sha256()
        loaded = self._loaded
        short = {name: loaded.texts(name) for name in SETTING_TEXTS}
        short |= {name: loaded.numbers(name) for name in RUN_NUMBERS if name not in OF_THE_MAKING}
        for name, column in sorted(short.items()):
            found.update(f"{name} {column.shape} {column.dtype}".encode())
            found.update(np.ascontiguousarray(column).data.cast("B") if column.size else b"")
        for table, names in RAGGED.items():
            for name in names:
                for array in loaded.rows(table, name):
                    found.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Run:
    """One run."""

    _loaded: _Loaded
    _row: int

    @property
    def _setting(self) -> int:
        return int(self._loaded.numbers("setting")[self._row])

    def _column(self, name: str) -> NDArray[Any]:
        return self._loaded.rows("runs", name).row(self._row)

    @property
    def parameters(self) -> dict[str, Any]:
        """What defines it, but for the repetition."""
        found = self._loaded.parameters.items()
        return {name: parameter.of(self._setting) for name, parameter in found if parameter.numbers[self._setting] >= 0}

    @property
    def repetition(self) -> int:
        return int(self._loaded.numbers("repetition")[self._row])

    @property
    def outcome(self) -> str:
        """``"completed"``, ``"diverged"`` or ``"failed"``."""
        return OUTCOMES[self._loaded.numbers("outcome")[self._row]]

    @property
    def message(self) -> str:
        """What went wrong; empty where nothing did."""
        return bytes(self._column("message")).decode()

    @property
    def planned(self) -> NDArray[np.int64]:
        """The rounds that were to be recorded."""
        return self._loaded.rows("settings", "rounds").row(self._setting)

    @property
    def rounds(self) -> NDArray[np.int64]:
        """Of these the ones that it reached."""
        return self.planned[: self._column("consensus").size]

    @property
    def round(self) -> NDArray[np.int64]:
        """The same as `rounds`."""
        return self.rounds

    @property
    def consensus(self) -> Array:
        return self._column("consensus")

    @property
    def distance(self) -> Array:
        return self._column("distance")

    @property
    def optimality(self) -> Array:
        """Consensus + distance, at the recorded rounds."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            return np.asarray(self.consensus + self.distance)

    @property
    def objective(self) -> Array:
        """NaN where the specification did not ask for it."""
        return self._measure("objective")

    @property
    def train_loss(self) -> Array:
        """Of a network; NaN of any other problem."""
        return self._measure("train_loss")

    @property
    def test_accuracy(self) -> Array:
        """Of a network with test images; NaN of any other problem."""
        return self._measure("test_accuracy")

    def _measure(self, name: str) -> Array:
        found = self._column(name)
        return found if found.size else np.full(self.consensus.size, np.nan)

    @property
    def models(self) -> Array:
        """(records, d): the average models, where the specification asked for them."""
        found = self._column("models")
        if not found.size:
            raise StoreError("models along the rounds were not recorded; set models = true in the table [record]")
        return found.reshape(self.rounds.size, -1)

    @property
    def x(self) -> Array:
        """(d,): the final average model; empty where the run did not complete."""
        return self._column("x")

    @property
    def ledger(self) -> Ledger | None:
        """What was promised and spent; None for a run without a budget."""
        variances = self._loaded.rows("settings", "variances").row(self._setting)
        fields = ledger_fields(self._loaded.texts("ledger")[self._setting], variances)
        return None if fields is None else Ledger.from_dict(fields)

    @property
    def seconds(self) -> float:
        """Its share of the time its blocks took."""
        return float(self._loaded.numbers("seconds")[self._row])

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, machine, date and specification it was made by, with the data's fingerprint."""
        session: dict[str, Any] = json.loads(self._loaded.sessions[self._loaded.numbers("session")[self._row]])
        data: dict[str, Any] = json.loads(self._loaded.texts("provenance")[self._setting])
        return session | data


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean of a group of runs."""

    label: dict[str, Any]
    runs: int
    mean: float
    std: float

    @classmethod
    def of(cls, label: dict[str, Any], values: Array) -> Mean:
        there = values[~np.isnan(values)]
        if there.size == 0:
            return cls(label, 0, math.nan, math.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(label, there.size, float(there.mean()), float(there.std()))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.std / math.sqrt(self.runs - 1) if self.runs > 1 else math.nan

    def cells(self) -> list[str]:
        return [f"{self.runs:,}", f"{self.mean:.4g}", f"{self.std:.3g}", f"{self.error:.2g}"]


@dataclass(frozen=True, eq=False)
class Curve:
    """An error along the rounds, of a group of runs."""

    label: dict[str, Any]
    rounds: NDArray[np.int64]
    values: Array
    """(runs, records)."""

    @property
    def mean(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):  # of runs that diverged
            return np.asarray(self.values.mean(axis=0))

    @property
    def std(self) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.values.std(axis=0))


def flat(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a setting as columns of a table.

    >>> flat({"data": {"synthetic": "a6a", "rows": None}, "method": {"name": "ISRLDP", "step": 0.5}, "rounds": 9})
    {'data': 'synthetic a6a', 'data_rows': None, 'method': 'ISRLDP', 'step': 0.5, 'rounds': 9}
    """
    columns: dict[str, Any] = {}
    for section, values in parameters.items():
        if section == "data":
            columns |= _of_data(values)
        elif section == "problem":
            inner = values["regularizer"]
            columns |= {name: value for name, value in values.items() if name != "regularizer"}
            columns["regularizer"] = inner["name"]
            columns |= {f"regularizer_{name}": value for name, value in inner.items() if name != "name"}
        elif section == "budget":
            values = values or {"epsilon": None, "delta": None, "accounting": None}
            columns |= {name: value for name, value in values.items() if name != "name"}
        elif section == "method":
            columns["method"] = values["name"]
            columns |= {name: value for name, value in values.items() if name != "name"}
            if isinstance(prior := values.get("prior"), dict):
                columns |= {f"prior_{name}": value for name, value in prior.items() if name != "name"}
                columns["prior"] = "given"
        elif section == "record":
            # Runs that were recorded otherwise are other runs, with the same noise.
            kept = [name for name in ("objective", "models") if values.get(name)]
            columns["record"] = " + ".join([str(values["rounds"]), *kept])
        else:
            columns[section] = values
    return columns


def _of_data(values: dict[str, Any]) -> dict[str, Any]:
    way = next(name for name in ("name", "synthetic", "file", "given") if name in values)
    label = values[way] if way != "synthetic" else f"synthetic {values[way]}"
    rest = {f"data_{name}": value for name, value in values.items() if name not in (way, "dense")}
    return {"data": label} | rest


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _matches(value: Any, wanted: Any) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, list | tuple | set | range | np.ndarray) and not isinstance(value, list):
        return any(_matches(value, one) for one in wanted)
    return bool(np.array_equal(value, wanted)) if isinstance(value, list) else value == wanted


def _filled(values: NDArray[Any], length: int) -> Array:
    return np.concatenate([values, np.full(length - values.size, np.nan)])
