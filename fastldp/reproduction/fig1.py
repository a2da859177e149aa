"""Figure 1: ijcnn1, the error after T rounds of four methods, tuned once as in the paper and again at every T."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

from matplotlib.figure import Figure

from fastldp.reproduction.choosing import Choice, best, method_table
from fastldp.reproduction.drawing import draw_bars, finish, same_limits
from fastldp.reproduction.experiment import Experiment
from fastldp.reproduction.series import Series, over_horizons
from fastldp.reproduction.verdicts import Verdict, better, decreases, improves_then_deteriorates, levels_off

FAMILIES: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"method": "PrimalDual"},
    "DP-SCAFFOLD": {"method": "DPScaffold"},
    "DP-FedAvg": {"method": "DPFedAvg"},
    "ISRL-DP": {"method": "ISRLDP", "accelerated": False},
    "ISRL-DP, accelerated": {"method": "ISRLDP", "accelerated": True},
}
ORDER = ("Algorithm 1", "DP-SCAFFOLD", "DP-FedAvg", "ISRL-DP")
"""The paper's order, the best first."""
PAPER_STEP = {"method": "PrimalDual", "step": None}


class Figure1(Experiment):
    """The smooth problem."""

    name: ClassVar[str] = "fig1"

    def run(self) -> list[Verdict]:
        tuning = self.sweep("fig1-tuning", into="fig1-tuning.h5")
        choices = {label: best(tuning, **family) for label, family in FAMILIES.items()}
        horizons = list(choices["Algorithm 1"])
        # Once: where the paper's experiment begins to be long enough, at the second horizon.
        tuned_at = horizons[1]
        self.sweep("fig1", into="fig1.h5", added=_tables(choices, tuned_at))
        found = self.sweep("fig1-exact", into="fig1.h5")
        once, each = [], []
        for label, chosen in choices.items():
            fixed = dict.fromkeys(horizons, chosen[tuned_at].parameters)
            varied = {T: choice.parameters for T, choice in chosen.items()}
            once.append(over_horizons(label, found, fixed, accounting="zcdp"))
            each.append(over_horizons(label, found, varied, accounting="zcdp"))
        beyond = [
            over_horizons(label, found, {T: {**PAPER_STEP, "allocation": how} for T in horizons}, accounting=method)
            for label, how, method in (
                ("dynamic allocation", "dynamic", "zcdp"),
                ("static allocation", "static", "zcdp"),
                ("dynamic, exact accounting", "dynamic", "gdp"),
            )
        ]
        bound = self.bound("fig1", horizons)
        self.save_figure(self._drawn(once, each, beyond, bound, tuned_at))
        self.save_series(
            [s.named(f"{s.label}, tuned at T = {tuned_at:,}") for s in once]
            + [s.named(f"{s.label}, tuned at each T") for s in each]
            + [s.named(f"Algorithm 1, theorem's step, {s.label}") for s in beyond]
            + [bound]
        )
        return [
            *_verdicts("Figure 1, tuned once", once, horizons),
            *_verdicts("Figure 1, tuned at each T", each, horizons),
            *_beyond("Figure 1, beyond the paper", beyond, horizons),
        ]

    def _drawn(
        self, once: list[Series], each: list[Series], beyond: list[Series], bound: Series, tuned_at: int
    ) -> Figure:
        figure = Figure(figsize=(13.0, 4.0), layout="constrained")
        axes = figure.subplots(1, 3)
        for ax, series, title in (
            (axes[0], once, f"tuned once, at T = {tuned_at:,}"),
            (axes[1], each, "tuned again at every T"),
        ):
            draw_bars(ax, series)
            ax.set_title(title)
        same_limits(axes[:2], [*once, *each])
        draw_bars(axes[2], beyond)
        axes[2].plot(bound.x, bound.mean, color="0.5", linestyle=":", label=bound.label)
        axes[2].set_title("beyond the paper: Algorithm 1, γ = 1/4")
        for ax in axes:
            finish(ax, "total communication rounds T", "optimality error after T rounds")
        figure.suptitle(f"{self.data}, n = 20, m = 100, (1, 1e-4)-LDP, {once[0].values.shape[1]} runs each")
        return figure


def _tables(choices: dict[str, dict[int, Choice]], tuned_at: int) -> str:
    text = ""
    for label, chosen in choices.items():
        text += method_table(chosen[tuned_at].parameters, f"{label}, tuned at T = {tuned_at:,}")
        for T, choice in chosen.items():
            note = f"; at the edge of its grid: {', '.join(choice.edges)}" if choice.edges else ""
            text += method_table(choice.parameters, f"{label}, tuned at T = {T:,}{note}", rounds=T)
    return text


def _verdicts(where: str, series: list[Series], horizons: list[int]) -> list[Verdict]:
    by_label = {one.label: one for one in series}
    found = [
        improves_then_deteriorates(where, f"{label} improves with T and then deteriorates", by_label[label])
        for label in FAMILIES
        if label != "Algorithm 1"
    ]
    ours = by_label["Algorithm 1"]
    since = horizons[len(horizons) // 2]
    found.append(decreases(where, "the error of Algorithm 1 decreases at first", ours, horizons[1]))
    found.append(levels_off(where, "and stabilizes as T increases (within 20 %)", ours, since))
    for first, second in pairwise(ORDER):
        found.append(better(where, f"at large T {first} is better than {second}", by_label[first], by_label[second]))
    return found


def _beyond(where: str, series: list[Series], horizons: list[int]) -> list[Verdict]:
    dynamic, static, exact = series
    since = horizons[len(horizons) // 2]
    return [
        levels_off(where, "at the theorem's step the error levels off (within 20 %)", dynamic, since),
        better(where, "at large T dynamic allocation is better than static", dynamic, static),
        better(where, "exact accounting is better than the paper's", exact, dynamic),
    ]
