"""The result of a solve: models, errors along the rounds, ledger, and how it ended."""

from __future__ import annotations

import json
import os
import secrets
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import disk, html
from fastldp.archives import digest_of, read_arrays
from fastldp.engine.recording import some_of
from fastldp.errors import ArgumentError, FileFormatError
from fastldp.measures import ACCURACY, FORMER_NAMES, Measures
from fastldp.privacy.ledger import Ledger
from fastldp.privacy.statement import SECRET

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastldp.reporting import Page

Array = NDArray[np.float64]

FORMAT, FORMER = "fastldp solution 2", "fastldp solution 1"


class Outcome(Enum):
    """How a solve can end."""

    COMPLETED = "completed"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Status:
    """How a solve ended, at which round, and what to do about it."""

    outcome: Outcome
    round: int
    message: str

    @property
    def ok(self) -> bool:
        """Whether all rounds were run."""
        return self.outcome is Outcome.COMPLETED

    @classmethod
    def completed(cls, rounds: int) -> Status:
        """Of a solve that ran to its end."""
        return cls(Outcome.COMPLETED, rounds, f"completed {rounds:,} rounds")

    @classmethod
    def diverged(cls, round_: int, repetitions: list[int], step: float) -> Status:
        """Of a solve in which some repetitions became infinite."""
        which = ", ".join(map(str, repetitions[:5])) + (", ..." if len(repetitions) > 5 else "")
        return cls(
            Outcome.DIVERGED,
            round_,
            f"diverged: the average model was not finite at round {round_:,} (repetition {which}); "
            f"take a smaller step than {step:g}, a bounded regularizer, a larger budget, or clip gradients: "
            "gradient_bound= of the problem, clip= of the method or a network",
        )

    @classmethod
    def interrupted(cls, done: list[int], rounds: int) -> Status:
        """Of a solve that Ctrl-C ended."""
        whole = sum(count == rounds for count in done)
        most = max((count for count in done if count < rounds), default=0)
        return cls(
            Outcome.INTERRUPTED,
            most,
            f"interrupted: {whole} of {len(done)} repetitions are complete, the others came to {min(done):,} to "
            f"{most:,} of {rounds:,} rounds; what was recorded until then is kept",
        )


class _Column(NamedTuple):
    """Of the table of errors: its values, (repetitions, rows), and what is written of several."""

    name: str
    width: int
    values: Array
    shown: Callable[[Array], str]


def _mean(digits: int) -> Callable[[Array], str]:
    return lambda values: f"{values.mean():.{digits}g}"


def _spread(values: Array) -> str:
    """The median of repetitions, and what they lie between."""
    low, middle, high = (f"{value:.3g}" for value in np.quantile(values, (0.0, 0.5, 1.0)))
    return middle if low == high else f"{middle}, from {low} to {high}"


@dataclass(eq=False)
class Solution:
    """What `solve` returns; arrays have one row a repetition.

    A repetition that ended early has NaN in the records it did not reach; one that never began has NaN models too.
    """

    workers: Array
    """(repetitions, n, d): the workers' final models."""
    rounds: NDArray[np.int64]
    """(records,): the rounds that were recorded."""
    consensus: Array
    """(repetitions, records): (1/n) Σᵢ ‖x̄ − xᵢ‖²."""
    distance: Array
    """(repetitions, records): ‖x̄ − x*‖² / ‖x*‖², or ‖x̄‖² where x* = 0."""
    means: Array
    """(repetitions, records, d): x̄."""
    messages: Array | None
    """(repetitions, releases, d): what the server saw of the watched worker. Of the baselines, each noisy gradient:
    K a round for the local methods, whose accounting counts every one, after the warm start's."""
    broadcasts: Array | None
    """(repetitions, T, d): what the server sent, kept with the messages: the average of all messages for `PrimalDual`,
    the new model for the local methods (after the server's control variate of a warm start), for `ISRLDP` the point
    where the round's gradients were taken, and for `DPScaffNew` the new model, or NaN where nothing was sent."""
    ledger: Ledger | None
    """What was promised and spent; None for a solve without a budget, which is not private."""
    status: Status
    seed: int | None
    """The seed given; None where the key came from the operating system, or a file was written without it."""
    seconds: float
    description: str
    measures: Measures
    """What else is measured of x̄, by name, (repetitions, records) each: ``"objective"``, of a network
    ``"train_loss"``, and where there are test data ``"accuracy"``. Computed when first asked for."""
    thresholds: Array | None = None
    """(repetitions, records): C after each recorded round, where clipping adapts."""
    steps: Array | None = None
    """(repetitions,): the step at the last of these."""
    expected: Array | None = None
    """(repetitions,): what the plan expected to be left there of the error at the start; NaN where it is no plan's."""
    counts: Array | None = None
    """(repetitions, T, n): what workers released of their counts, kept with the messages; NaN where nothing was."""
    early_counts: Array | None = None
    """(repetitions, counts, n): the same of those before the first round."""

    @property
    def x(self) -> Array:
        """(repetitions, d): the mean of the workers' final models."""
        return np.asarray(self.workers.mean(axis=1))

    @property
    def optimality(self) -> Array:
        """(repetitions, records): the paper's error, consensus + distance."""
        return self.consensus + self.distance

    @property
    def objective(self) -> Array:
        """(repetitions, records): the objective at x̄; computed when first asked for."""
        return self.measures["objective"]

    @property
    def accuracy(self) -> Array:
        """(repetitions, records): the share of the test data that x̄ gets right; computed when first asked for."""
        if ACCURACY not in self.measures:
            raise ArgumentError("test", None, "there were no test data; give the problem test=(A, b)")
        return self.measures[ACCURACY]

    def summary(self) -> str:
        """The errors along the rounds and the ledger, as an aligned table."""
        repetitions = len(self.consensus)
        columns, rows = self._table(measures=True)
        widths = [9, *(column.width for column in columns)]
        lines = [self.description, self._ended(), ""]
        for cells in [["round", *(column.name for column in columns)], *rows]:
            lines.append("".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
        lines += [*self._found(), "", "privacy"]
        if self.ledger is None:
            return "\n".join([*lines, "  none: no budget was given, the messages are not private"])
        if repetitions > 1:
            spends = np.max(self.ledger.epsilon_of_all(repetitions))
            told = f"the budget is that of one; publishing all {repetitions} spends ε = {spends:.3g} at the same δ"
            lines.append(f"  {'repetitions':<15} {told}")
        words = textwrap.wrap(self.ledger.statement(repetitions), 116, initial_indent="  ", subsequent_indent="  ")
        return "\n".join([*lines, self.ledger.summary(), "", *words])

    def _found(self) -> list[str]:
        """What clipping that adapts came to, and the plan that follows it."""
        if self.thresholds is None or self.steps is None or self.expected is None:
            return []
        there = ~np.isnan(self.thresholds[:, -1])
        rows = [("threshold", f"C = {_spread(self.thresholds[there, -1])}"), ("step", _spread(self.steps[there]))]
        if np.isfinite(self.expected[there]).any():
            rows.append(("expected", f"{_spread(self.expected[there])} of the error at the start, by the plan's prior"))
        return ["", "found by noisy counts", *(f"  {name:<15} {text}" for name, text in rows)] if there.any() else []

    def __repr__(self) -> str:
        repetitions, n, d = self.workers.shape
        promised = "not private" if self.ledger is None else repr(self.ledger)
        return (
            f"Solution({self.status.outcome.value} at round {self.status.round:,}, {repetitions} × {n} workers × "
            f"{d:,} numbers, {promised}; summary() says more)"
        )

    def _repr_html_(self) -> str:
        # What takes minutes to compute is not shown unasked.
        columns, rows = self._table(measures=self.measures.at_hand)
        errors = html.table(rows, ["round", *(column.name for column in columns)])
        more = "" if self.measures.at_hand else html.paragraph(f"summary() computes {', '.join(self.measures)}")
        ledger = (
            html.paragraph("not private: no budget was given") if self.ledger is None else self.ledger._repr_html_()
        )
        return html.paragraph(f"{self.description}\n{self._ended()}") + errors + more + ledger

    def _ended(self) -> str:
        count = len(self.consensus)
        return f"{self.status.message}; {count} repetition{'s' * (count != 1)}, {self.seconds:.2f} s"

    def _table(self, *, measures: bool) -> tuple[list[_Column], list[list[str]]]:
        """The columns of the table of errors, and its cells at some eight of the recorded rounds."""
        shown = some_of(self.rounds.size)
        columns, rows = self._columns(shown, measures), []
        for row, k in enumerate(shown):
            # Of the repetitions that came this far.
            there = ~np.isnan(self.consensus[:, k])
            if there.any():
                with np.errstate(over="ignore", invalid="ignore"):  # of runs that went far
                    cells = [column.shown(column.values[there, row]) for column in columns]
                rows.append([f"{self.rounds[k]:,}", *cells])
        return columns, rows

    def _columns(self, shown: NDArray[np.int64], measured: bool) -> list[_Column]:
        """What there is to show of these records."""
        measures, optimality = self.measures.at(shown), self.optimality[:, shown]
        consensus = _Column("consensus", 10, self.consensus[:, shown], _mean(3))
        own = [name for name in measures if name != "objective"] if measured else []
        judged = [_Column(name, max(10, len(name)), measures[name], _mean(4)) for name in own]
        if self.is_of_network:  # which has no optimum
            return [*judged, consensus]
        errors = [
            _Column("optimality", 11, optimality, _mean(4)),
            _Column("± std", 9, optimality, lambda values: f"{values.std():.3g}"),
            consensus,
            _Column("distance", 9, self.distance[:, shown], _mean(4)),
        ]
        return [*errors, _Column("objective", 10, measures["objective"], _mean(6)), *judged] if measured else errors

    @property
    def is_of_network(self) -> bool:
        """Whether it is of a network, which has no optimum and is judged by accuracy and loss."""
        return "train_loss" in self.measures

    def plot(self, ax: Axes | None = None, *, label: str = "", measure: str | None = None) -> Axes:
        """The mean error along the rounds with one standard deviation either side; `label` names the run in legends.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new axes where it is not given.
        label : str
            What the run is called in legends.
        measure : str, optional
            One of `measures` to draw, as ``"accuracy"``, in place of the error.

        Returns
        -------
        matplotlib axes
            With the curves.
        """
        from fastldp.figures import plot_solution

        return plot_solution(self, ax, label=label, measure=measure)

    def report(self, path: str | os.PathLike[str] | None = None, *, title: str = "") -> Page:
        """Errors, promise and origin as one page to open in a browser, without the seed.

        Parameters
        ----------
        path : path, optional
            An HTML file to write it to.
        title : str
            Over the page.

        Returns
        -------
        Page
            With its text, `html`, and `save(path)`; notebooks show it.
        """
        from fastldp.reporting import solutions
        from fastldp.reporting.page import made

        return made(solutions.report_of(self, title), path)

    def save(self, path: str | os.PathLike[str], *, keep_seed: bool = False) -> None:
        """Write everything but the seed to one .npz file, whole or not at all; `fastldp.load` reads it.

        With the seed the noise can be taken off again. A file that keeps it is its owner's alone (mode 0600), and says
        so first.

        Parameters
        ----------
        path : path
            Of the file, which is replaced where it is there.
        keep_seed : bool
            Whether to write the seed too.
        """
        if not isinstance(keep_seed, bool):
            raise ArgumentError("keep_seed", keep_seed, "give True or False")
        seed = self.seed if keep_seed else None
        target = disk.target_of(path)
        # Short, for the target's name may be as long as the system allows already.
        temporary = target.with_name(f".fastldp-{secrets.token_hex(8)}")
        with disk.Draft(temporary, disk.SHARED if seed is None else disk.PRIVATE) as draft:
            arrays = self._arrays(seed)
            np.savez_compressed(draft, **arrays | {DIGEST: digest_of(arrays)})
            draft.publish(target)

    def _arrays(self, seed: int | None) -> dict[str, Any]:
        """Everything, as arrays by name."""
        header = ({} if seed is None else {"secret": SECRET}) | {
            "format": FORMAT,
            "status": [self.status.outcome.value, self.status.round, self.status.message],
            "seed": None if seed is None else str(seed),
            "seconds": self.seconds,
            "description": self.description,
            "private": self.ledger is not None,
            "watched": self.messages is not None,
        }
        content: dict[str, Any] = {HEADER: json.dumps(header)} | {name: getattr(self, name) for name in SAVED}
        content |= {MEASURE + name: values for name, values in self.measures.items() if name not in SAVED}
        if self.messages is not None:
            content |= {name: getattr(self, name) for name in WATCHED}
        content |= {name: getattr(self, name) for name in ADAPTED if getattr(self, name) is not None}
        if self.ledger is not None:
            content[STATEMENT] = self.ledger.statement(len(self.workers))
            content |= {LEDGER + name: value for name, value in self.ledger.to_dict().items()}
        return {name: np.asarray(value) for name, value in content.items()}


HEADER, DIGEST, STATEMENT = "header", "digest", "statement"
SAVED = ("workers", "rounds", "consensus", "distance", "means", "objective")
WATCHED = ("messages", "broadcasts")
# Of clipping that adapts.
ADAPTED = ("thresholds", "steps", "expected", "counts", "early_counts")
MEASURE, LEDGER = "measure_", "ledger_"
REMEDY = "restore it from a copy, or solve again and save that"


def load(path: str | os.PathLike[str]) -> Solution:
    """A solution that `Solution.save` wrote; a file in which anything that is read was changed since is refused.

    Files of the former format have no digest of everything to check, only the checksum of each array.

    Parameters
    ----------
    path : path
        Of the .npz file.

    Returns
    -------
    Solution
        As it was saved; its seed is None unless that was kept.
    """
    arrays = read_arrays(path, REMEDY)
    try:
        return _restored(arrays)
    # In what no digest vouches for, anything may be wrong.
    except Exception as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise FileFormatError(
            f"{os.fspath(path)}: damaged, or not written by Solution.save ({reason}); {REMEDY}"
        ) from error


def _restored(arrays: dict[str, NDArray[Any]]) -> Solution:
    """The solution of these arrays, once they are known to be those that were saved."""
    digest = arrays.pop(DIGEST, None)
    header = json.loads(str(arrays[HEADER]))
    # The former format has no digest; one that has lost its own is not of that format.
    if header["format"] != (FORMER if digest is None else FORMAT):
        raise ValueError(f"its format is {header['format']!r}, {'without' if digest is None else 'with'} a digest")
    if digest is not None and str(digest) != digest_of(arrays):
        raise ValueError("its content has another digest than was saved with it")
    _refuse_misfits(arrays)
    ledger = {name.removeprefix(LEDGER): _plain(value) for name, value in arrays.items() if name.startswith(LEDGER)}
    kept = {name.removeprefix(MEASURE): value for name, value in arrays.items() if name.startswith(MEASURE)}
    measures = {FORMER_NAMES.get(name, name): value for name, value in kept.items()}
    watched = {name: arrays[name] if header["watched"] else None for name in WATCHED}
    outcome, round_, message = header["status"]
    return Solution(
        workers=arrays["workers"],
        rounds=arrays["rounds"],
        consensus=arrays["consensus"],
        distance=arrays["distance"],
        means=arrays["means"],
        **watched,
        ledger=Ledger.from_dict(ledger) if header["private"] else None,
        status=Status(Outcome(outcome), round_, message),
        seed=None if header["seed"] is None else int(header["seed"]),
        seconds=header["seconds"],
        description=header["description"],
        measures=Measures.known({"objective": arrays["objective"]} | measures),
        **{name: arrays[name] for name in ADAPTED if name in arrays},
    )


def _refuse_misfits(arrays: dict[str, NDArray[Any]]) -> None:
    """Arrays of different solutions, or of none, do not go together."""
    repetitions, _, d = arrays["workers"].shape
    records = arrays["rounds"].size
    shapes = {"rounds": (records,), "means": (repetitions, records, d)}
    for name in (*SAVED[1:], *(name for name in arrays if name.startswith(MEASURE))):
        expected = shapes.get(name, (repetitions, records))
        if arrays[name].shape != expected or arrays[name].dtype.kind not in "if":
            raise ValueError(f"{name!r} is {arrays[name].dtype} of shape {arrays[name].shape}, not {expected}")


def _plain(value: NDArray[Any]) -> Any:
    return value.item() if value.ndim == 0 else value
