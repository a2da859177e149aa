"""Table 1: its formulas for the constants of both experiments, the floor of Theorem 1, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from fastldp import theory
from fastldp.reproduction.claims import Claim, Point, none_above
from fastldp.reproduction.experiment import Experiment, Source, save_csv
from fastldp.reproduction.fig1 import Figure1
from fastldp.reproduction.fig2 import Figure2
from fastldp.reproduction.series import Series
from fastldp.reproduction.verdicts import Verdict

NAMES = {"dp-fedavg": "DP-FedAvg", "dp-scaffold": "DP-SCAFFOLD", "isrl-dp": "ISRL-DP", "primal-dual": "Algorithm 1"}
OWN = NAMES["primal-dual"]
HEADS = (
    "experiment",
    "method",
    "smallest T",
    "utility",
    "in units of",
    "composite",
    "floor",
    "error, theorem's step",
    "error, tuned",
    "at T",
)
# Where all runs start, at zero.
START = 1.0
NOTES = """\
utility: Table 1's formulas, the O's constants one. That of Algorithm 1 is the order of Φ, the summed squared distances
of all workers' models and duals from the optimal ones; those of the others are of the objective's excess over its
least value. They say how errors scale, not which method is better.
floor: Theorem 1's, as a bound on the optimality error; vacuous above 1, the error that all runs start at.
error: the optimality error (a squared distance, relative to that of the start) after T rounds, mean of the runs,
without clipping. Tuned: the parameters were, at this T (Figure 2: once, for all T).
"""


class Measured(NamedTuple):
    """The errors of an experiment, without clipping."""

    source: Experiment
    theorem: Series
    """Of Algorithm 1 at the theorem's step, over the horizons."""
    tuned: dict[str, Series]
    """Of each method that can solve it."""


class Table1(Experiment):
    """Formulas beside measurements, which are those of Figures 1 and 2."""

    name: ClassVar[str] = "table1"

    def run(self) -> list[Verdict]:
        smooth, nonsmooth = Figure1(self.place), Figure2(self.place)
        one, two = smooth.compared(), nonsmooth.measured()
        measured = {
            "Figure 1": Measured(smooth, one.theorem[0], {series.label: series for series in one.each}),
            "Figure 2": Measured(nonsmooth, two.ends[0], {OWN: two.ends[-1], NAMES["isrl-dp"]: two.rivals[0]}),
        }
        rows, claims, sources = [], [], {}
        for where, found in measured.items():
            problem, budget = found.source.problem(found.source.name)
            scale = theory.optimality_scale(problem)
            floor = scale * theory.noise_floor(problem, budget)
            rows += [_row(where, row, floor, found) for row in theory.table_1(problem, budget)]
            claims.append(below_floor(f"Table 1, {where}", floor, where, found.theorem.x.tolist()))
            sources[where] = Source(found.theorem, found.source.name, f"{found.source.name}.h5")
        save_csv(self.path(".csv"), HEADS, rows)
        self.path(".txt").write_text(f"{_text(rows)}\n{NOTES}", encoding="utf-8")
        return self.judge(claims, sources)


def _row(where: str, row: theory.Row, floor: float, found: Measured) -> tuple[Any, ...]:
    label = NAMES[row.method]
    own = label == OWN
    tuned = found.tuned.get(label)
    return (
        where,
        label,
        f"{row.min_rounds:,}" if row.min_rounds else "T*, to be tuned",
        f"{row.utility:.4g}",
        "Φ" if own else "objective",
        "yes" if row.composite else "no",
        f"{floor:.4g}{' (vacuous)' if floor > START else ''}" if own else "",
        f"{found.theorem.mean[-1]:.4g}" if own else "",
        "cannot: g is nonsmooth" if tuned is None else f"{tuned.mean[-1]:.4g}",
        f"{found.theorem.x[-1]:,}",
    )


def below_floor(where: str, floor: float, curve: str, horizons: Sequence[int]) -> Claim:
    """That the error is below the floor at every horizon; and whether that says anything."""
    vacuous = f", which is vacuous: runs start at {START:g}" if floor > START else ""
    text = f"the error caused by the noise stays below Theorem 1's floor ({floor:.3g}{vacuous}), whatever T"
    return none_above(where, text, [Point(curve, T) for T in horizons], floor)


def _text(rows: list[tuple[Any, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in [HEADS, *rows])
