"""Figure 2: a6a with a weighted ℓ1 norm over a box, the error along the rounds for several horizons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure

from fastldp.reproduction.choosing import edge_notes, told_of, tuned
from fastldp.reproduction.claims import Claim, Point, better, none_above, within
from fastldp.reproduction.drawing import draw_bands, draw_bars, draw_bound, finish, same_limits
from fastldp.reproduction.experiment import Experiment, Source
from fastldp.reproduction.series import PLANNED, Series, along_rounds, over_horizons, planned
from fastldp.reproduction.verdicts import Verdict
from fastldp.sweeping.trials import grid_of

# What else can solve it, tuned once for all horizons as the paper's method is.
RIVALS: dict[str, dict[str, Any]] = {
    "ISRL-DP": {"method": "ISRLDP", "accelerated": False},
    "ISRL-DP, accelerated": {"method": "ISRLDP", "accelerated": True},
    "DP-ScaffNew": {"method": "DPScaffNew"},
}
THEOREM = {"method": "PrimalDual", "step": None, "allocation": "dynamic", "accounting": "zcdp"}
# Over the horizons; a further curve is an entry here and one in the recipe fig2.
ENDS: dict[str, dict[str, Any]] = {
    "theorem's step, dynamic": THEOREM,
    "theorem's step, static": {**THEOREM, "allocation": "static"},
    "theorem's step, exact accounting": {**THEOREM, "accounting": "gdp"},
}


class Measured(NamedTuple):
    """What was measured."""

    step: str
    """The tuned step in words."""
    theorem: list[Series]
    """Along the rounds, a curve a horizon, at the theorem's step; and at the tuned one."""
    tuned: list[Series]
    ends: list[Series]
    """Of `ENDS`, over the horizons; then those of `RIVALS`, and that of the tuned step."""
    rivals: list[Series]
    """Of `RIVALS` among these."""
    plan: list[Series]
    """Planned, along the rounds."""
    planned: Series
    """And over the horizons."""


SIMILAR = 0.2
"""Errors that differ by less remain similar."""


class Figure2(Experiment):
    """The nonsmooth problem."""

    name: ClassVar[str] = "fig2"

    def run(self) -> list[Verdict]:
        found = self.measured()
        bound = self.bound("fig2", found.ends[0].x.tolist())
        self.save_figure(self._drawn(found, bound))
        self.save_series(
            [s.named(f"theorem's step, {s.label}") for s in found.theorem]
            + [s.named(f"{found.step}, {s.label}") for s in found.tuned]
            + [s.named(f"planned, {s.label}") for s in found.plan]
            + [*found.ends, found.planned, bound]
        )
        return self.judge(_claims(found), _sources(found))

    def measured(self) -> Measured:
        """The errors at the theorem's step, and at one that was tuned for all horizons on other noise."""
        searches = self.sweep("fig2-tuning", into="fig2-tuning.h5")
        families = {"Algorithm 1": {"method": "PrimalDual"}, **RIVALS}
        choices = {label: tuned(searches, **family) for label, family in families.items()}
        self.note_edges("fig2", edge_notes(choices))
        chosen = choices["Algorithm 1"]
        horizons = list(chosen.each)
        methods = [grid_of(one.once.method, f"{label}, tuned once") for label, one in choices.items()]
        told = told_of("fig2-tuning.h5", searches, edge_notes(choices))
        self.sweep("fig2", into="fig2.h5", methods=methods, tuning=told)
        self.sweep("fig2-exact", into="fig2.h5")
        found = self.sweep("fig2-planned", into="fig2.h5")
        searched = {**chosen.once.parameters, "accounting": "zcdp"}

        def curves(method: dict[str, Any]) -> list[Series]:
            return [along_rounds(f"T = {T:,}", found, T, method) for T in horizons]

        same = " (the theorem's)" if searched["step"] == self.problem("fig2")[0].safe_step else ""
        step = f"γ = {searched['step']:.3g}{same}, tuned"
        rivals = {f"{label}, tuned": {**choices[label].once.parameters, "accounting": "zcdp"} for label in RIVALS}
        ends = {**ENDS, **rivals, step: searched}
        plan = planned(found, accounting="zcdp")
        over = [over_horizons(label, found, dict.fromkeys(horizons, method)) for label, method in ends.items()]
        return Measured(
            step,
            curves(THEOREM),
            curves(searched),
            over,
            over[len(ENDS) : -1],
            [along_rounds(f"T = {T:,}", found, int(T), {**PLANNED, "accounting": "zcdp"}) for T in plan.x],
            plan,
        )

    def _drawn(self, found: Measured, bound: Series) -> Figure:
        figure = Figure(figsize=(11.0, 8.0), layout="constrained")
        axes = figure.subplots(2, 2).ravel()
        for ax, series, title in (
            (axes[0], found.theorem, "the theorem's step, γ = 1/4"),
            (axes[1], found.tuned, f"{found.step} once, for all T"),
            (axes[2], found.plan, "beyond the paper: planned"),
        ):
            draw_bands(ax, series)
            ax.set_title(title)
            finish(ax, "communication round", "optimality error")
        same_limits(axes[:3], [*found.theorem, *found.tuned, *found.plan])
        draw_bars(axes[3], [*found.ends, found.planned])
        axes[3].set_title("beyond the paper: after the last round")
        same_limits(axes[3:], [*found.ends, found.planned])
        draw_bound(axes[3], bound)
        finish(axes[3], "total communication rounds T", "optimality error after T rounds")
        runs = found.ends[0].values.shape[1]
        figure.suptitle(f"{self.data}, n = 20, m = 561, box-ℓ1 (0.01, 10), (1, 1e-4)-LDP, mean ± std of {runs} runs")
        return figure


def _sources(found: Measured) -> dict[str, Source]:
    """How each curve over the horizons was made."""
    exact = found.ends[2]
    made = {one: "fig2-exact" if one is exact else "fig2" for one in found.ends} | {found.planned: "fig2-planned"}
    return {f"Figure 2: {one.label}": Source(one, recipe, "fig2.h5") for one, recipe in made.items()}


def _claims(found: Measured) -> list[Claim]:
    dynamic, static, exact, *_, searched = (f"Figure 2: {one.label}" for one in found.ends)
    plan, x = f"Figure 2: {found.planned.label}", found.ends[0].x.tolist()
    last, beyond, where = x[-1], "Figure 2, beyond the paper", "Figure 2, planned"
    at_end, planned_end = Point(dynamic, last), Point(plan, int(found.planned.x[-1]))
    return [
        *_curve_claims("Figure 2, theorem's step", dynamic, x),
        *_curve_claims("Figure 2, tuned step", searched, x),
        better(beyond, "at large T dynamic allocation is better than static", at_end, Point(static, last)),
        better(beyond, "exact accounting is better than the paper's", Point(exact, last), at_end),
        *(
            better(
                beyond,
                f"Algorithm 1 is better than {one.label}, at large T",
                Point(searched, last),
                Point(f"Figure 2: {one.label}", last),
            )
            for one in found.rivals
        ),
        _no_divergence(where, planned_end),
        better(where, "at large T it is better than the theorem's step", planned_end, at_end),
        better(where, "at large T it is better than the tuned step", planned_end, Point(searched, last)),
        within(
            where,
            "its error is the same for all T (within 20 %)",
            Point(plan, int(found.planned.x[0])),
            planned_end,
            share=SIMILAR,
        ),
    ]


def _curve_claims(where: str, curve: str, x: Sequence[int]) -> list[Claim]:
    first, middle, last = (Point(curve, T) for T in (x[0], x[len(x) // 2], x[-1]))
    return [
        _no_divergence(where, last),
        better(where, f"the error becomes better from {first} to {middle.rounds:,}", middle, first),
        within(
            where,
            f"and remains similar from {middle.rounds:,} to {last.rounds:,} (within 20 %)",
            middle,
            last,
            share=SIMILAR,
        ),
    ]


def _no_divergence(where: str, last: Point) -> Claim:
    # Runs start at zero, where the error is 1.
    return none_above(where, f"no divergence at {last}: the error ends below the 1 it starts at", [last], 1.0)
