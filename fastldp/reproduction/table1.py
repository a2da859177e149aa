"""Table 1: its formulas for the constants of both experiments, the floor of Theorem 1, and what was measured."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fastldp import theory
from fastldp.reproduction.experiment import Experiment, save_csv
from fastldp.reproduction.verdicts import Verdict

NAMES = {"dp-fedavg": "DP-FedAvg", "dp-scaffold": "DP-SCAFFOLD", "isrl-dp": "ISRL-DP", "primal-dual": "Algorithm 1"}
HEADS = ("experiment", "method", "smallest T", "utility", "composite", "noise floor", "measured", "at T")
EXPERIMENTS = {"fig1": "Figure 1", "fig2": "Figure 2"}


class Table1(Experiment):
    """Formulas beside measurements, which are those of Figures 1 and 2 where they are in the folder."""

    name: ClassVar[str] = "table1"

    def run(self) -> list[Verdict]:
        rows, verdicts = [], []
        for recipe, where in EXPERIMENTS.items():
            made = self._rows(recipe, where)
            rows += made
            verdicts.append(_verdict(where, made))
        save_csv(self.path(".csv"), HEADS, rows)
        self.path(".txt").write_text(_text(rows), encoding="utf-8")
        return verdicts

    def _rows(self, recipe: str, where: str) -> list[tuple[Any, ...]]:
        measured, horizon = self._measured(recipe)
        problem, budget = self.problem(f"table1-{recipe}")
        scale = theory.optimality_scale(problem)
        made = []
        for row in theory.table_1(problem, budget):
            own = row.method == "primal-dual"
            made.append(
                (
                    where,
                    NAMES[row.method],
                    f"{row.min_rounds:,}" if row.min_rounds else "T*, to be tuned",
                    f"{row.utility:.4g}",
                    "yes" if row.composite else "no",
                    f"{scale * theory.noise_floor(problem, budget):.4g}" if own else "",
                    f"{measured:.4g}" if own else "",
                    f"{horizon:,}" if own else "",
                )
            )
        return made

    def _measured(self, recipe: str) -> tuple[float, int]:
        """The mean error at the theorem's step after the largest horizon."""
        found = self.sweep(recipe, into=f"{recipe}.h5", name=f"table1-{recipe}")
        mine = found.where(method="PrimalDual", step=None, allocation="dynamic", accounting="zcdp")
        horizon = max(mine.parameters["rounds"])
        return float(np.mean(mine.where(rounds=horizon).table()["optimality"])), horizon


def _verdict(where: str, rows: list[tuple[Any, ...]]) -> Verdict:
    floor, measured = float(rows[-1][5]), float(rows[-1][6])
    return Verdict(
        f"Table 1, {where}",
        "the error caused by the noise stays below Theorem 1's floor, whatever T",
        f"{measured:.3g} at T = {rows[-1][7]}, the floor is {floor:.3g}",
        measured <= floor,
    )


def _text(rows: list[tuple[Any, ...]]) -> str:
    widths = [max(len(str(row[k])) for row in [HEADS, *rows]) for k in range(len(HEADS))]
    return (
        "\n".join(
            "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in [HEADS, *rows]
        )
        + "\n"
    )
