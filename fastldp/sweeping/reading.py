"""What a sweep found: runs to filter, tables to take away, means with error bars."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp import html
from fastldp.errors import ArgumentError, MissingExtraError
from fastldp.measures import ACCURACY, present_name
from fastldp.sweeping.grouping import Curve, Failure, Group, Mean, differing, groups_of, telling
from fastldp.sweeping.layout import (
    MEASURED,
    OUTCOMES,
    RAGGED,
    RECORDED,
    RUN_NUMBERS,
    SETTING_TEXTS,
    optimality,
    spans,
    warning_of_noise,
)
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.parameters import Parameter, matches, refuse_unknown_texts, shown
from fastldp.sweeping.run import Loaded, Run
from fastldp.sweeping.store import files_of
from fastldp.sweeping.work import COMPLETED, FAILED, RUNNING
from fastldp.validation import known_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame
    from xarray import Dataset

    from fastldp.reporting import Page

Array = NDArray[np.float64]

MEASURES = ("optimality", *RECORDED)
# How to have measured what was not.
REMEDIES = {
    "objective": "; objective = true in the table [record] has it recorded",
    ACCURACY: "; test = 0.2 in the table [problem] has it measured on test data",
}
# Of a longer table the first and the last rows are shown.
MOST_ROWS, FIRST_ROWS, LAST_ROWS = 40, 15, 5
# So many settings are named that failed for one reason.
MOST_NAMED = 5
# These may differ between files that hold the same results.
OF_THE_MAKING = ("session", "seconds")
# And what follows from others, which older files do not have.
DERIVED = ("statement",)


def results(path: str | os.PathLike[str]) -> Results:
    """The results of a sweep, finished or not; a sweep that is writing them is not disturbed.

    Where bytes of a file have changed since they were written, a `DamageWarning` says which runs that concerned.

    Parameters
    ----------
    path : path
        The HDF5 file that `sweep` writes.

    Returns
    -------
    Results
        The finished runs.

    Raises
    ------
    FileNotFoundError
        Where there is neither the file nor a part of it.

    Examples
    --------
    >>> results("nowhere.h5")
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere.h5: no such file, where results of a sweep should be
    """
    if os.path.isdir(path):
        raise IsADirectoryError(f"{os.fspath(path)}: a folder; name the file of results in it")
    files = files_of(path)
    if not files:
        raise FileNotFoundError(f"{os.fspath(path)}: no such file, where results of a sweep should be")
    loaded = Loaded(Merged(files))
    # Of a run whose beginning was lost there is nothing to show.
    finished = np.flatnonzero((loaded.numbers("outcome") != OUTCOMES.index(RUNNING)) & loaded.merged.whole)
    return Results(loaded, finished)


class Results:
    """Finished runs; iterate over them, filter them, or take a table."""

    def __init__(self, loaded: Loaded, rows: NDArray[np.int64]) -> None:
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
        """The runs whose parameters have these values.

        Parameters
        ----------
        **wanted : value, list or function
            By the name of a parameter, or ``repetition`` or ``outcome``. A list allows several, a function says yes or
            no.

        Returns
        -------
        Results
            Those that have all of them.
        """
        repetitions, repetition = np.unique(self._loaded.numbers("repetition"), return_inverse=True)
        of_runs = {
            "repetition": Parameter(repetitions.tolist(), repetition),
            "outcome": Parameter([*OUTCOMES], self._loaded.numbers("outcome")),
        }
        known = self._loaded.parameters | of_runs
        keep = np.ones(len(self), dtype=bool)
        for name, value in wanted.items():
            parameter = known[known_name("where", name, sorted(known))]
            refuse_unknown_texts(name, value, parameter.values)
            fits = [matches(one, value) for one in parameter.values]
            # A function that takes numbers alone is not asked about None where every run has one.
            fits.append(bool((parameter.numbers < 0).any()) and matches(None, value))
            keep &= np.array(fits, dtype=bool)[parameter.numbers][self._rows if name in of_runs else self._settings]
        return Results(self._loaded, self._rows[keep])

    def made_by(self, settings: Mapping[str, int]) -> Results:
        """The runs of the settings with these keys, so many repetitions of each: those of one specification.

        Parameters
        ----------
        settings : dict
            How many repetitions, by the key of a setting.

        Returns
        -------
        Results
            Those of them that are here.
        """
        keys = self._loaded.texts("key").tolist()
        wanted = np.array([settings.get(key.decode(), 0) for key in keys], dtype=np.int64)
        repetitions = self._loaded.numbers("repetition")[self._rows]
        return Results(self._loaded, self._rows[repetitions < wanted[self._settings]])

    @cached_property
    def _outcomes(self) -> NDArray[Any]:
        return np.array(OUTCOMES, dtype=object)[self._loaded.numbers("outcome")[self._rows]]

    def table(self) -> dict[str, NDArray[Any]]:
        """A row a run: its parameters, repetition, outcome, last round, and errors and objective recorded last.

        Returns
        -------
        dict
            Columns by name, an array each.
        """
        columns = {name: self._loaded.parameters[name].column()[self._settings] for name in self.parameters}
        columns["repetition"] = self._loaded.numbers("repetition")[self._rows]
        columns["outcome"] = self._outcomes
        columns["round"] = self._loaded.numbers("round")[self._rows]
        columns["seconds"] = self._loaded.numbers("seconds")[self._rows]
        for name in (*RECORDED, "optimality"):
            columns[name] = self._last(name)
        return columns

    def _last(self, measure: str) -> Array:
        """What runs recorded last; NaN of those that recorded nothing."""
        if measure == "optimality":
            return optimality(self._last("consensus"), self._last("distance"))
        return self._loaded.rows("runs", measure).last(self._rows)

    def records(self) -> dict[str, NDArray[Any]]:
        """A row a run and recorded round, tidy: parameters, repetition, round, errors, objective.

        Returns
        -------
        dict
            Columns by name, an array each.
        """
        table = self.table()
        counts = self._loaded.rows("runs", "consensus").lengths[self._rows]
        columns = {name: np.repeat(table[name], counts) for name in (*self.parameters, "repetition", "outcome")}
        columns["round"] = self._planned(counts)
        along = {name: self._along(name, counts) for name in RECORDED}
        return columns | {"optimality": optimality(along["consensus"], along["distance"])} | along

    def _planned(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first so many rounds that were to be recorded of each run, end to end."""
        planned = self._loaded.rows("settings", "rounds")
        return np.asarray(planned.values[spans(planned.starts[self._settings], counts)])

    def _along(self, name: str, counts: NDArray[np.int64]) -> Array:
        """What was recorded in so many rounds of each run, end to end; NaN of runs that did not record it."""
        found = self._loaded.rows("runs", name)
        has = found.lengths[self._rows] > 0
        values = np.full(counts.sum(), np.nan)
        values[np.repeat(has, counts)] = found.values[spans(found.starts[self._rows[has]], counts[has])]
        return values

    @cached_property
    def _telling(self) -> list[str]:
        """The parameters that tell the settings of these runs apart."""
        return telling(self._loaded.parameters, self._settings, self.varying)

    def _groups(self, by: Sequence[str], over: Sequence[str]) -> list[Group]:
        """The runs that have the same values of some parameters, or of all but those to average over."""
        for argument, names in (("by", by), ("over", over)):
            for name in names:
                known_name(argument, name, sorted(self.parameters))
        parameters = self._loaded.parameters
        names = list(by) or [name for name in self._telling if name not in over]
        mixed = [name for name in differing(parameters, self._settings, names) if name not in over]
        # What follows from the values averaged over, as the seed of data from the data, is averaged over with them.
        mixed = [name for name in mixed if name in differing(parameters, self._settings, [*names, *over])]
        if mixed:
            example = ", ".join(mixed[:4]) + (", ..." if len(mixed) > 4 else "")
            raise ArgumentError(
                "by",
                tuple(by),
                f"these runs differ in {example} too, which must not be averaged unsaid; name it as well, choose one "
                f"value with where, or say that it is to be averaged over: over={tuple(mixed)!r}",
            )
        return groups_of(parameters, self._settings, names)

    @cached_property
    def measures(self) -> list[str]:
        """What was recorded of these runs, of all that can be."""
        found = [name for name in RECORDED if not np.isnan(self._last(name)).all()]
        return (["optimality"] if {"consensus", "distance"} <= {*found} else []) + found

    def _measure(self, measure: str | None) -> str:
        """A measure that was recorded; what runs are judged by, where none is named."""
        if measure is None:
            return self._judged()
        measure = known_name("measure", present_name(measure), MEASURES)
        # Of runs that all failed nothing was recorded, which is no fault of the measure.
        if self.measures and measure not in self.measures:
            wanted = REMEDIES.get(measure, "")
            raise ArgumentError(
                "measure", measure, f"not recorded by these runs, use {', '.join(self.measures)}{wanted}"
            )
        return measure

    def means(self, *by: str, measure: str | None = None, over: Sequence[str] = ()) -> list[Mean]:
        """The mean of the last recorded error over the repetitions that completed, with its spread, for each setting.

        Parameters
        ----------
        *by : str
            Parameters to group the runs by; all that tell settings apart, where none is given.
        measure : str, optional
            ``"optimality"``, ``"consensus"``, ``"distance"``, ``"objective"``, of networks ``"train_loss"``, and where
            there were test data ``"accuracy"``. Where it is not given, what the runs are judged by: the optimality, or
            of networks the accuracy.
        over : list of str
            Parameters that are averaged over; in nothing else may the runs of a group differ.

        Returns
        -------
        list of Mean
            One a group, with its `label`, `runs`, `mean`, `std` and `error`.
        """
        # What a run that diverged recorded last says nothing of its end.
        ends = np.where(self._outcomes == COMPLETED, self._last(self._measure(measure)), np.nan)
        return [Mean.of(group.label, ends[group.rows]) for group in self._groups(by, over)]

    def curves(self, *by: str, measure: str | None = None, over: Sequence[str] = ()) -> list[Curve]:
        """The mean of an error along the rounds, with its spread, for each setting or each value of `by`.

        A curve ends where the first of its runs does.

        Parameters
        ----------
        *by : str
            As of `means`.
        measure : str, optional
            Likewise.
        over : list of str
            Likewise.

        Returns
        -------
        list of Curve
            One a group, with its `label`, `rounds`, `mean` and `std`.
        """
        return self._curves(self._groups(by, over), self._measure(measure), by)

    def _curves(self, groups: Sequence[Group], measure: str, by: Sequence[str]) -> list[Curve]:
        planned, found = self._loaded.rows("settings", "rounds"), []
        for group in groups:
            first, *others = (planned.row(setting) for setting in np.unique(self._settings[group.rows]).tolist())
            if not all(np.array_equal(first, other) for other in others):
                raise ArgumentError("by", tuple(by), "the runs of a group were recorded at different rounds; name more")
            found.append(Curve(group.label, first, self._matrix(measure, group.rows, first.size)))
        return found

    def _matrix(self, measure: str, rows: NDArray[np.int64], length: int) -> Array:
        """(runs, records): what some of the runs recorded, and NaN where they ended early."""
        if measure == "optimality":
            return optimality(self._matrix("consensus", rows, length), self._matrix("distance", rows, length))
        ragged, places = self._loaded.rows("runs", measure), self._rows[rows]
        counts = ragged.lengths[places]
        values = np.full((rows.size, length), np.nan)
        values[np.arange(length) < counts[:, None]] = ragged.values[spans(ragged.starts[places], counts)]
        return values

    def to_pandas(self, *, records: bool = False) -> DataFrame:
        """The table, or the tidy table of all recorded rounds, as a pandas DataFrame.

        Parameters
        ----------
        records : bool
            Whether to take `records()`, and not `table()`.

        Returns
        -------
        DataFrame
            With the columns of either.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "tables") from None
        return pandas.DataFrame(self.records() if records else self.table())

    def to_xarray(self) -> Dataset:
        """Errors with dimensions (run, record); shorter records end in NaN, and `round` says which rounds they are.

        Returns
        -------
        xarray Dataset
            With the parameters as coordinates of the runs.
        """
        try:
            import xarray
        except ImportError:
            raise MissingExtraError("xarray", "tables") from None
        every, table = np.arange(len(self)), self.table()
        counts = self._loaded.rows("runs", "consensus").lengths[self._rows]
        longest = int(counts.max(initial=0))
        found = {name: self._matrix(name, every, longest) for name in MEASURES}
        found["round"] = np.full((len(self), longest), np.nan)
        found["round"][np.arange(longest) < counts[:, None]] = self._planned(counts)
        kept = (*self.parameters, "repetition", "outcome", "seconds")
        data = {name: (("run", "record"), values) for name, values in found.items()}
        return xarray.Dataset(data, coords={name: ("run", table[name]) for name in kept})

    def summary(self, *, whole: bool = False) -> str:
        """Outcomes, what varies, the mean final error of each setting as an aligned table, and why settings failed.

        Parameters
        ----------
        whole : bool
            Whether to show all settings; else of more than forty the first and the last.

        Returns
        -------
        str
            Its lines.
        """
        warning = warning_of_noise(self._loaded.texts("parameters"))
        heads, rows, left_out = self._mean_table(whole)
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = ["  " + "  ".join(map(str.rjust, row, widths)) for row in (heads, *rows)]
        if left_out:
            lines.insert(1 + FIRST_ROWS, f"  ... {left_out:,} more ...")
        return "\n".join([*([warning] if warning else []), self._counts(), "", *lines, *self._told_failures(whole)])

    def _told_failures(self, whole: bool) -> list[str]:
        """Each reason with the settings that failed for it."""
        by_reason: dict[str, list[Failure]] = {}
        for failure in self.failures():
            by_reason.setdefault(failure.reason, []).append(failure)
        lines = ["", "failed"] if by_reason else []
        for reason, failures in by_reason.items():
            count = f"{len(failures):,} setting{'s' * (len(failures) != 1)}"
            lines.append(f"  {count}, {sum(failure.runs for failure in failures):,} runs: {reason}")
            told = failures if whole else failures[:MOST_NAMED]
            lines += [f"    {one.setting}" for one in told if one.setting]
            if len(failures) > len(told):
                lines.append(f"    ... {len(failures) - len(told):,} more ...")
        return lines

    def failures(self) -> list[Failure]:
        """The settings with runs that failed, and why; resuming with ``retry=True`` tries them again.

        Returns
        -------
        list of Failure
            One a setting and reason, with its `label`, `runs` and `reason`.
        """
        rows = self._rows[self._outcomes == FAILED]
        settings, messages = self._loaded.numbers("setting"), self._loaded.rows("runs", "message")
        found = Counter((int(settings[row]), bytes(messages.row(row)).decode()) for row in rows.tolist())
        parameters, names = self._loaded.parameters, self._telling if found else []
        return [
            Failure({name: parameters[name].of(setting) for name in names}, runs, reason)
            for (setting, reason), runs in found.items()
        ]

    def _counts(self) -> str:
        there = {name: int((self._outcomes == name).sum()) for name in OUTCOMES}
        counts = ", ".join(f"{count:,} {name}" for name, count in there.items() if count)
        return f"{len(self):,} runs of {np.unique(self._settings).size:,} settings: {counts or 'none'}"

    def _mean_table(self, whole: bool) -> tuple[list[str], list[list[str]], int]:
        """The table of means: its heads, its rows, and how many are left out after FIRST_ROWS."""
        judged = self._judged()
        heads = [*self._telling, "runs", judged, "± std", "± error"]
        means = self.means(measure=judged)
        beside = self.means(measure=ACCURACY) if ACCURACY in self.measures and judged != ACCURACY else []
        heads += [ACCURACY] if beside else []
        left_out = 0 if whole or len(means) <= MOST_ROWS else len(means) - FIRST_ROWS - LAST_ROWS
        rows = [[*map(shown, mean.label.values()), *mean.cells()] for mean in means]
        if beside:
            rows = [[*row, f"{mean.mean:.4g}"] for row, mean in zip(rows, beside, strict=True)]
        return heads, rows[:FIRST_ROWS] + rows[-LAST_ROWS:] if left_out else rows, left_out

    def _judged(self) -> str:
        """What runs are compared by: networks have no optimum, so by accuracy, or else by loss."""
        if not self.measures:
            return "optimality"
        return next(name for name in ("optimality", *MEASURED[::-1], "objective", "consensus") if name in self.measures)

    def __repr__(self) -> str:
        return f"Results({len(self):,} runs of {np.unique(self._settings).size:,} settings)"

    def _repr_html_(self) -> str:
        heads, rows, left_out = self._mean_table(whole=False)
        if left_out:
            rows.insert(FIRST_ROWS, [f"... {left_out:,} more ..."])
        return html.table(rows, heads, caption=self._counts())

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: str = "round",
        by: Sequence[str] = (),
        over: Sequence[str] = (),
        measure: str | None = None,
        label: str = "",
    ) -> Axes:
        """Means with error bars: along the recorded rounds, or at the end against a parameter.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes where it is not given.
        x : str
            ``"round"``, or a parameter such as ``"rounds"``.
        by : list of str
            As of `means`.
        over : list of str
            Likewise.
        measure : str, optional
            Likewise.
        label : str
            What the curves are called beside what they differ in.

        Returns
        -------
        matplotlib axes
            With the curves.
        """
        from fastldp.sweeping.drawing import plot_results

        return plot_results(self, ax, x=x, by=by, over=over, measure=measure, label=label)

    def report(self, path: str | os.PathLike[str] | None = None, *, title: str = "") -> Page:
        """All there is to say of these runs as one page to open in a browser, which loads nothing from elsewhere.

        Parameters
        ----------
        path : path, optional
            An HTML file to write it to. One that names the seed of noise is its owner's alone to read.
        title : str
            Over the page; what the specification says, or the name of the file, where it is not given.

        Returns
        -------
        Page
            With its text, `html`, and `save(path)`; notebooks show it.
        """
        from fastldp.reporting.page import made
        from fastldp.reporting.sweeps import report_of

        return made(report_of(self, title), path)

    def digest(self) -> str:
        """A digest of everything but wall times, machines and versions: equal for equal results.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        found = hashlib.sha256()
        loaded = self._loaded
        short = {name: loaded.texts(name) for name in SETTING_TEXTS}
        short |= {name: loaded.numbers(name) for name in RUN_NUMBERS if name not in OF_THE_MAKING}
        for name, column in sorted(short.items()):
            found.update(f"{name} {column.shape} {column.dtype}".encode())
            found.update(np.ascontiguousarray(column).data.cast("B") if column.size else b"")
        for table, names in RAGGED.items():
            for array in itertools.chain.from_iterable(
                loaded.rows(table, name) for name in names if name not in DERIVED
            ):
                found.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
        return found.hexdigest()
