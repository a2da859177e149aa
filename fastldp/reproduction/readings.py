"""The paper's first experiment under every fair reading of its protocol: which claims hold under which.

The recipe `readings-list` has the readings as data. Each is tuned, on other noise than is judged, and its claims are
those of Figure 1, with one more: that at the step of Algorithm 1 dynamic allocation is better than static.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fastldp.engine.recording import Final
from fastldp.methods import ISRLDP, PrimalDual
from fastldp.reproduction import allocating
from fastldp.reproduction.choosing import tuned
from fastldp.reproduction.claims import Claim, Point, better
from fastldp.reproduction.experiment import Experiment, Source, recipe_text, save_csv
from fastldp.reproduction.fig1 import BASELINES, curve_claims
from fastldp.reproduction.series import Series, ends
from fastldp.reproduction.verdicts import ALIKE, FAILED, HELD, UNDECIDED, Verdict
from fastldp.solve import solve
from fastldp.sweeping import Grid, Results
from fastldp.sweeping.document import Document, Table
from fastldp.sweeping.making import METHODS as METHODS_BY_NAME
from fastldp.tuning import Choice

LOCAL = {"DP-SCAFFOLD": "DPScaffold", "DP-FedAvg": "DPFedAvg"}
OURS, STATIC, ACCELERATED = "Algorithm 1", "Algorithm 1, static", "ISRL-DP, accelerated"
METHODS = (OURS, *BASELINES)
ALLOCATION = "at the same step dynamic allocation is better than static"
# Colours of Okabe and Ito, which all can tell apart; and a sign, for prints in grey.
MARKS = {HELD: ("#0072B2", "+"), FAILED: ("#D55E00", "−"), ALIKE: ("#DDDDDD", "="), UNDECIDED: ("#FFFFFF", "?")}


@dataclass(frozen=True)
class Reading:
    """One of them, as the recipe `readings-list` describes it."""

    name: str
    problem: dict[str, Any]
    tuned: str | int
    measure: str
    tail: int
    local_steps: int
    local_step: list[float]
    tail_step: list[float]
    rounds: list[int]

    @classmethod
    def listed(cls, *, quick: bool = False) -> list[Reading]:
        """All of the recipe."""
        document = Document(recipe_text("readings-list"), "readings-list")
        told, instead = document.values, document.small if quick else {}
        for k, one in enumerate([told["base"], *told["reading"]]):
            table = Table(document, ("reading", k - 1) if k else ("base",), one)
            one |= {name: table.axis(name) for name in ("local_step", "tail_step") if name in one}
        readings = [cls(**(told["base"] | one | instead)) for one in told["reading"]]
        # In a trial its first horizons stand for those that are named.
        at = dict(zip(told["base"]["rounds"], readings[0].rounds, strict=False))
        return [replace(one, tuned=at.get(one.tuned, one.tuned)) for one in readings]

    def tail_of(self, rounds: int) -> int:
        return rounds // self.tail if self.tail else 0

    def methods(self) -> list[Grid]:
        """The methods it tries beside those of all readings."""
        local = {"step": self.local_step, "local_steps": self.local_steps}
        found = [Grid(METHODS_BY_NAME[name], local, label=self.name) for name in LOCAL.values()]
        for T in self.rounds if self.tail else ():
            averaged = {"step": self.tail_step, "tail_average": self.tail_of(T)}
            found.append(Grid(ISRLDP, averaged, rounds=T, label=self.name))
        return found

    def family(self, label: str, rounds: int) -> dict[str, Any]:
        """The settings of a method that are tried at a horizon."""
        if label in LOCAL:
            return {"method": LOCAL[label], "local_steps": self.local_steps}
        if label == OURS:
            return {"method": "PrimalDual", "allocation": "dynamic"}
        accelerated = label == ACCELERATED
        tail = 0 if accelerated else self.tail_of(rounds)
        return {"method": "ISRLDP", "accelerated": accelerated, "tail_average": tail}

    def choice(self, trials: Results, label: str, rounds: int) -> Choice:
        """What suits a method at a horizon, or at that where its step is tuned."""
        if self.tuned == "once":
            return tuned(trials, measure=self.measure, **self.family(label, rounds)).once
        at = rounds if self.tuned == "each" else int(self.tuned)
        return tuned(trials, measure=self.measure, rounds=at, **self.family(label, at)).each[at]


class Readings(Experiment):
    """Figure 1's claims, under all of them."""

    name: ClassVar[str] = "readings"

    def run(self) -> list[Verdict]:
        claims: list[Claim] = []
        sources: dict[str, Source] = {}
        readings = Reading.listed(quick=self.place.quick)
        for reading in readings:
            found = self._tuned(reading)
            lows = {label: source.series.least for label, source in found.items()}
            claims += _claims(reading, lows)
            sources |= {f"{reading.name}: {label}": source for label, source in found.items()}
        save_csv(self.path("-steps.csv"), ("method", "rounds", "step"), _steps(sources))
        verdicts = self.judge(claims, sources)
        self._save_errors(readings, sources)
        self.save_figure(_drawn(verdicts, [one.name for one in readings], self.data))
        self.path("-map.md").write_text(_table(verdicts), encoding="utf-8")
        points = self._allocations()
        picture = allocating.drawn(points, allocating.slowest)
        for ending in (".png", ".pdf"):
            picture.savefig(self.path(f"-allocation{ending}"), dpi=150)
        allocating.save(self.path("-allocation.csv"), points)
        return verdicts

    def _save_errors(self, readings: Sequence[Reading], sources: dict[str, Source]) -> None:
        """The errors at the largest horizon, of the first repetitions, which are not judged."""
        points = [
            (Point(f"{reading.name}: {label}", reading.rounds[-1]), (reading.name, label))
            for reading in readings
            for label in (*METHODS, STATIC)
        ]
        errors = self.repeated([(point, sources[point.series]) for point, _ in points], 0, self.runs)
        rows = [(*names, at.rounds, self.runs, errors[at].mean(), errors[at].std()) for at, names in points]
        save_csv(self.path(".csv"), ("reading", "method", "rounds", "runs", "mean", "std"), rows)

    def _tuned(self, reading: Reading) -> dict[str, Source]:
        """How each method is run, with the errors of the trials that it was chosen by."""
        # A trial would compile longer in single precision than it runs.
        problem = reading.problem | ({"dtype": "float64"} if self.place.quick else {})
        wanted = self.recipe("readings-tuning", added=reading.methods(), problem=problem, rounds=reading.rounds)
        trials = self.swept(wanted, f"readings-tuning-{_slug(reading.name)}", "readings-tuning.h5", {})
        found = {}
        for label in METHODS:
            choices = [reading.choice(trials, label, T) for T in reading.rounds]
            at_edges = dict.fromkeys(edge.short for one in choices for edge in one.edges if edge.name == "step")
            self.note_edges(reading.name, [f"{label}: {', '.join(at_edges)}"] if at_edges else [])
            # A tail that is a share of the horizon stays that where the step is held.
            at = [(T, one.method | reading.family(label, T)) for T, one in zip(reading.rounds, choices, strict=True)]
            runs = [ends(trials.where(rounds=T, **one), reading.measure) for T, one in at]
            found[label] = Series(label, np.array(reading.rounds), np.array(runs), tuple(one for _, one in at))
        # At the same steps, so there is nothing to try.
        last = found[OURS].last
        still = {**last.parameters[0], "allocation": "static"}
        found[STATIC] = Series(STATIC, last.x, last.values, (still,))
        return {
            label: Source(series, "readings", "readings.h5", measure=reading.measure, problem=reading.problem)
            for label, series in found.items()
        }

    def _allocations(self) -> list[allocating.Measured]:
        """What dynamic allocation was worth, and what it should have been."""
        runs = self.sweep("readings-allocation", into="readings-allocation.h5")
        problem, _ = self.problem("readings-allocation")
        eigenvalues = allocating.eigenvalues_at_optimum(problem)
        points, mu = [], problem.safe_strong_convexity
        for step in runs.parameters["step"]:
            for T in runs.parameters["rounds"]:
                some = runs.where(step=step, rounds=T)
                # Of the mean model alone: what workers differ by is made by the last rounds.
                dynamic, static = (ends(some.where(allocation=how), "distance") for how in ("dynamic", "static"))
                expected = allocating.gain(step, mu, T, eigenvalues, problem.n)
                alone = solve(problem, rounds=T, algorithm=PrimalDual(step=step), record=Final(), n_jobs=1)
                still = float(alone.distance[0, -1])
                points.append(allocating.measured(step, T, step * mu * T, expected, dynamic, static, still))
        return points


def _claims(reading: Reading, lows: dict[str, int]) -> list[Claim]:
    last = reading.rounds[-1]
    ours, static = (Point(f"{reading.name}: {label}", last) for label in (OURS, STATIC))
    curves = curve_claims(reading.name, reading.name, reading.rounds, lows)
    return [*curves, better(reading.name, ALLOCATION, ours, static)]


def _steps(sources: dict[str, Source]) -> Iterator[tuple[Any, ...]]:
    """What was chosen."""
    for name, source in sources.items():
        for T, parameters in zip(source.series.x.tolist(), source.series.parameters, strict=True):
            yield name, T, parameters["step"]


def _slug(name: str) -> str:
    """A name for a file.

    >>> _slug("start 10·N(0, I), tuned at 1,000")
    'start-10-n-0-i-tuned-at-1-000'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _by_claim(verdicts: Sequence[Verdict]) -> dict[str, dict[str, str]]:
    """The word of each claim under each reading."""
    found: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.claim, {})[verdict.where] = verdict.word
    return found


def _drawn(verdicts: Sequence[Verdict], readings: Sequence[str], data: str) -> Figure:
    """The map: a row a claim, a column a reading."""
    words = _by_claim(verdicts)
    figure = Figure(figsize=(12.0, 6.2), layout="constrained")
    ax = figure.subplots()
    for y, under in enumerate(words.values()):
        for x, reading in enumerate(readings):
            colour, sign = MARKS[under[reading]]
            ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
            dark = under[reading] in (HELD, FAILED)
            ax.text(x, y, sign, ha="center", va="center", color="white" if dark else "0.3", fontsize=11)
    ax.set_xlim(-0.5, len(readings) - 0.5)
    ax.set_ylim(len(words) - 0.5, -0.5)
    ax.set_xticks(range(len(readings)), readings, rotation=40, ha="left", rotation_mode="anchor", fontsize=9)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(words)), list(words), fontsize=9)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    patches = [
        Patch(facecolor=colour, edgecolor="0.6", label=f"{sign}  {word}") for word, (colour, sign) in MARKS.items()
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
    figure.suptitle(f"{data}: the claims of Figure 1, under each reading of its protocol")
    return figure


def _table(verdicts: Sequence[Verdict]) -> str:
    """Markdown: of each claim the readings, by verdict; of those that decide nothing how many."""
    lines = ["| claim | held under | did not hold under | no difference under | undecided |", "|---|---|---|---|---|"]
    for claim, under in _by_claim(verdicts).items():
        by_word = [[reading for reading, word in under.items() if word == wanted] for wanted in MARKS]
        cells = [*("; ".join(readings) for readings in by_word[:-1]), f"{len(by_word[-1])} of {len(under)}"]
        lines.append(f"| {claim} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
