"""What a sweep found: runs to filter, tables to take away, means with error bars."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError, MissingExtraError, StoreError
from fastldp.privacy.ledger import Ledger
from fastldp.sweeping.layout import MEASURED, OUTCOMES, RECORDED, RUN_RAGGED, SETTING_RAGGED, Content, Ragged
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.store import ledger_fields, opened
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


@dataclass(frozen=True, eq=False)
class _Loaded:
    """All that a file and its parts hold."""

    content: Content
    parameters: list[dict[str, Any]]
    """Of each setting, flat."""
    columns: dict[str, Ragged]
    setting_columns: dict[str, Ragged]


def results(path: str | os.PathLike[str]) -> Results:
    """The results of a sweep, finished or not; a sweep that is writing them is not disturbed.

    >>> results("nowhere.h5")
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere.h5: there are no results of a sweep

    Where bytes of the file have changed since they were written, a `DamageWarning` says which runs that concerned.
    """
    with opened(path) as files:
        if not files:
            raise FileNotFoundError(f"{os.fspath(path)}: there are no results of a sweep")
        merged = Merged(files)
        content = merged.content
        loaded = _Loaded(
            content,
            _parameters(content),
            {name: column.ragged() for name, column in merged.run_columns().items()},
            {name: column.ragged() for name, column in merged.setting_columns().items()},
        )
    # Of a run whose beginning was lost there is nothing to show.
    finished = np.flatnonzero((content.runs["outcome"] != OUTCOMES.index(RUNNING)) & merged.whole)
    return Results(loaded, finished)


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
        return np.asarray(self._loaded.content.runs["setting"][self._rows])

    @cached_property
    def parameters(self) -> dict[str, list[Any]]:
        """Every parameter and the values it takes."""
        found: dict[str, dict[str, Any]] = {}
        for setting in np.unique(self._settings):
            for name, value in self._loaded.parameters[setting].items():
                found.setdefault(name, {}).setdefault(repr(value), value)
        return {name: list(values.values()) for name, values in found.items()}

    @property
    def varying(self) -> list[str]:
        """The parameters that differ between runs that have them."""
        return [name for name, values in self.parameters.items() if len(values) > 1]

    def where(self, **wanted: Any) -> Results:
        """The runs whose parameters have these values; a list allows several, a function says yes or no."""
        columns = {name for setting in self._loaded.parameters for name in setting} | {"repetition", "outcome"}
        keep = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            known_name("where", name, sorted(columns))
            if name in ("repetition", "outcome"):
                keep &= np.array([_matches(found, value) for found in self._short(name)], dtype=bool)
            else:
                fits = [_matches(setting.get(name), value) for setting in self._loaded.parameters]
                keep &= np.array(fits, dtype=bool)[self._settings]
        return Results(self._loaded, self._rows[keep])

    def made_by(self, settings: Mapping[str, int]) -> Results:
        """The runs of the settings with these keys, so many repetitions of each: those of one specification."""
        content = self._loaded.content
        wanted = np.array([settings.get(key.decode(), 0) for key in content.settings["key"].tolist()], dtype=np.int64)
        return Results(self._loaded, self._rows[content.runs["repetition"][self._rows] < wanted[self._settings]])

    def _short(self, name: str) -> list[Any]:
        values = self._loaded.content.runs[name][self._rows]
        return list(np.array(OUTCOMES, dtype=object)[values] if name == "outcome" else values.tolist())

    def table(self) -> dict[str, NDArray[Any]]:
        """A row a run: its parameters, repetition, outcome, last round, and errors and objective recorded last."""
        columns: dict[str, NDArray[Any]] = {}
        for name in self.parameters:
            values = [setting.get(name) for setting in self._loaded.parameters]
            columns[name] = _column(values)[self._settings]
        columns["repetition"] = self._loaded.content.runs["repetition"][self._rows]
        columns["outcome"] = np.array(self._short("outcome"), dtype=object)
        columns["round"] = self._loaded.content.runs["round"][self._rows]
        columns["seconds"] = self._loaded.content.runs["seconds"][self._rows]
        for name in RECORDED:
            columns[name] = self._last(name)
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            columns["optimality"] = columns["consensus"] + columns["distance"]
        return columns

    def _last(self, name: str) -> Array:
        return self._loaded.columns[name].last(self._rows)

    def records(self) -> dict[str, NDArray[Any]]:
        """A row a run and recorded round, tidy: parameters, repetition, round, errors, objective."""
        counts = np.array([run.rounds.size for run in self], dtype=np.int64)
        table = self.table()
        short = {name: np.repeat(table[name], counts) for name in (*self.parameters, "repetition", "outcome")}
        runs = list(self)
        columns = {"round": _end_to_end([run.rounds for run in runs], np.int64)}
        for name in MEASURES:
            columns[name] = _end_to_end([getattr(run, name) for run in runs], np.float64)
        return short | columns

    def means(self, *by: str, measure: str = "optimality") -> list[Mean]:
        """The mean of the last recorded error over the repetitions that completed, with its spread, for each setting.

        With parameters in `by` the runs are grouped by those alone.
        """
        known_name("measure", measure, MEASURES)
        for name in by:
            known_name("by", name, sorted(self.parameters))
        table = self.table()
        # What a run that diverged recorded last says nothing of its end.
        ends = np.where(table["outcome"] == COMPLETED, table[measure], np.nan)
        names = list(by) or self.varying
        groups: dict[tuple[str, ...], list[int]] = {}
        for row in range(len(self)):
            groups.setdefault(tuple(repr(table[name][row]) for name in names), []).append(row)
        return [Mean.of({name: table[name][rows[0]] for name in names}, ends[rows]) for rows in groups.values()]

    def curves(self, *by: str, measure: str = "optimality") -> list[Curve]:
        """The mean of an error along the rounds, with its spread, for each setting or each value of `by`.

        A curve ends where the first of its runs does.
        """
        known_name("measure", measure, MEASURES)
        for name in by:
            known_name("by", name, sorted(self.parameters))
        names = list(by) or self.varying
        groups: dict[tuple[str, ...], list[Run]] = {}
        for run in self:
            groups.setdefault(tuple(repr(run.parameters.get(name)) for name in names), []).append(run)
        found = []
        for runs in groups.values():
            planned = runs[0].planned
            if any(not np.array_equal(run.planned, planned) for run in runs):
                raise ArgumentError("by", by, "the runs of a group were recorded at different rounds; name more")
            label = {name: runs[0].parameters.get(name) for name in names}
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
        outcomes = self._short("outcome")
        counts = ", ".join(f"{outcomes.count(name):,} {name}" for name in OUTCOMES if name in outcomes)
        lines = [f"{len(self):,} runs of {np.unique(self._settings).size:,} settings: {counts or 'none'}", ""]
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
        content = self._loaded.content
        runs = {name: column for name, column in content.runs.items() if name not in OF_THE_MAKING}
        for name, column in sorted((content.settings | runs).items()):
            found.update(f"{name} {column.shape} {column.dtype}".encode())
            found.update(column.tobytes())
        for name in (*RUN_RAGGED, *SETTING_RAGGED):
            ragged = (self._loaded.columns | self._loaded.setting_columns)[name]
            found.update(ragged.values.tobytes())
            found.update(ragged.starts.tobytes())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Run:
    """One run."""

    _loaded: _Loaded
    _row: int

    @property
    def _setting(self) -> int:
        return int(self._loaded.content.runs["setting"][self._row])

    def _column(self, name: str) -> NDArray[Any]:
        return self._loaded.columns[name].row(self._row)

    @property
    def parameters(self) -> dict[str, Any]:
        """What defines it, but for the repetition."""
        return self._loaded.parameters[self._setting]

    @property
    def repetition(self) -> int:
        return int(self._loaded.content.runs["repetition"][self._row])

    @property
    def outcome(self) -> str:
        """``"completed"``, ``"diverged"`` or ``"failed"``."""
        return OUTCOMES[self._loaded.content.runs["outcome"][self._row]]

    @property
    def message(self) -> str:
        """What went wrong; empty where nothing did."""
        return bytes(self._column("message")).decode()

    @property
    def planned(self) -> NDArray[np.int64]:
        """The rounds that were to be recorded."""
        return self._loaded.setting_columns["rounds"].row(self._setting)

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
        variances = self._loaded.setting_columns["variances"].row(self._setting)
        fields = ledger_fields(self._loaded.content.settings["ledger"][self._setting], variances)
        return None if fields is None else Ledger.from_dict(fields)

    @property
    def seconds(self) -> float:
        """Its share of the time its blocks took."""
        return float(self._loaded.content.runs["seconds"][self._row])

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, machine, date and specification it was made by, with the data's fingerprint."""
        content = self._loaded.content
        session: dict[str, Any] = json.loads(content.sessions[content.runs["session"][self._row]])
        data: dict[str, Any] = json.loads(content.settings["provenance"][self._setting])
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


def _parameters(content: Content) -> list[dict[str, Any]]:
    """Of each setting, flat; where some differ in data or version alone, with those."""
    found = [flat(json.loads(text)) for text in content.settings["parameters"].tolist()]
    if np.unique(content.settings["identity"]).size == len(found):
        return found
    provenances = (json.loads(text) for text in content.settings["provenance"].tolist())
    return [setting | provenance for setting, provenance in zip(found, provenances, strict=True)]


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _matches(value: Any, wanted: Any) -> bool:
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, list | tuple | set | range | np.ndarray) and not isinstance(value, list):
        return any(_matches(value, one) for one in wanted)
    return bool(np.array_equal(value, wanted)) if isinstance(value, list) else value == wanted


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Numbers as numbers; anything else as objects."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _end_to_end(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate(arrays).astype(dtype) if arrays else np.zeros(0, dtype)


def _filled(values: NDArray[Any], length: int) -> Array:
    return np.concatenate([values, np.full(length - values.size, np.nan)])
