"""Figure 2: a6a with a weighted ℓ1 norm over a box, the error along the rounds for several horizons."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure

from fastldp.reproduction.choosing import best, method_table
from fastldp.reproduction.drawing import draw_bands, draw_bars, finish, same_limits
from fastldp.reproduction.experiment import Experiment
from fastldp.reproduction.series import Series, along_rounds, over_horizons
from fastldp.reproduction.verdicts import Verdict, better, decreases, levels_off, sign_of

PAPER_STEP = {"method": "PrimalDual", "step": None, "allocation": "dynamic"}


class Figure2(Experiment):
    """The nonsmooth problem."""

    name: ClassVar[str] = "fig2"

    def run(self) -> list[Verdict]:
        tuning = self.sweep("fig2-tuning", into="fig2-tuning.h5")
        choices = best(tuning, method="PrimalDual")
        horizons = list(choices)
        tuned_at = horizons[len(horizons) // 2]
        tuned = choices[tuned_at].parameters
        self.sweep("fig2", into="fig2.h5", added=method_table(tuned, f"tuned at T = {tuned_at:,}"))
        found = self.sweep("fig2-exact", into="fig2.h5")

        def curves(method: dict[str, Any]) -> list[Series]:
            return [along_rounds(f"T = {T:,}", found, T, method, accounting="zcdp") for T in horizons]

        def ends(label: str, method: dict[str, Any], accounting: str = "zcdp") -> Series:
            return over_horizons(label, found, dict.fromkeys(horizons, method), accounting=accounting)

        paper, searched = curves(PAPER_STEP), curves(tuned)
        step = f"γ = {tuned['step']:.3g}, tuned at T = {tuned_at:,}"
        dynamic = ends("theorem's step, dynamic", PAPER_STEP)
        static = ends("theorem's step, static", {**PAPER_STEP, "allocation": "static"})
        exact = ends("theorem's step, exact accounting", PAPER_STEP, "gdp")
        smaller = ends(step, tuned)
        bound = self.bound("fig2", horizons)
        self.save_figure(self._drawn(paper, searched, [dynamic, static, exact, smaller], bound, step))
        self.save_series(
            [s.named(f"theorem's step, {s.label}") for s in paper]
            + [s.named(f"{step}, {s.label}") for s in searched]
            + [dynamic, static, exact, smaller, bound]
        )
        return [
            *_verdicts("Figure 2, theorem's step", dynamic, paper),
            *_verdicts("Figure 2, tuned step", smaller, searched),
            better(
                "Figure 2, beyond the paper", "at large T dynamic allocation is better than static", dynamic, static
            ),
            better("Figure 2, beyond the paper", "exact accounting is better than the paper's", exact, dynamic),
        ]

    def _drawn(self, paper: list[Series], tuned: list[Series], ends: list[Series], bound: Series, step: str) -> Figure:
        figure = Figure(figsize=(13.0, 4.0), layout="constrained")
        axes = figure.subplots(1, 3)
        draw_bands(axes[0], paper)
        axes[0].set_title("the theorem's step, γ = 1/4")
        draw_bands(axes[1], tuned)
        axes[1].set_title(step)
        same_limits(axes[:2], [*paper, *tuned])
        for ax in axes[:2]:
            finish(ax, "communication round", "optimality error")
        draw_bars(axes[2], ends)
        axes[2].plot(bound.x, bound.mean, color="0.5", linestyle=":", label=bound.label)
        axes[2].set_title("beyond the paper: after the last round")
        finish(axes[2], "total communication rounds T", "optimality error after T rounds")
        runs = paper[0].values.shape[1]
        figure.suptitle(f"{self.data}, n = 20, m = 561, box-ℓ1 (0.01, 10), (1, 1e-4)-LDP, {runs} runs each")
        return figure


def _verdicts(where: str, ends: Series, curves: list[Series]) -> list[Verdict]:
    middle = int(ends.x[len(ends.x) // 2])
    last = curves[-1]
    finite = bool(np.isfinite(last.values).all())
    # Runs start at zero, where the error is 1.
    below = sign_of(1.0 - last.values[-1]) if finite else -1
    return [
        Verdict(
            where,
            f"no divergence at T = {last.horizon:,}: the error ends below the 1 it starts at",
            f"largest {last.mean.max():.3g} on the way, {last.mean[-1]:.3g} at the end",
            None if below == 0 else below > 0,
        ),
        decreases(where, f"the error becomes better from T = {ends.x[0]:,} to {middle:,}", ends, middle),
        levels_off(where, f"and remains similar from {middle:,} to {ends.x[-1]:,} (within 20 %)", ends, middle),
    ]
