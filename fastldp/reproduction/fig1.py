"""Figure 1: ijcnn1, the error after T rounds of four methods, tuned once as in the paper and again at every T."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure

from fastldp.reproduction.choosing import edge_notes, methods_of, told_of, tuned
from fastldp.reproduction.claims import Claim, Point, better, falls_and_rises, within
from fastldp.reproduction.drawing import draw_bars, draw_bound, finish, same_limits
from fastldp.reproduction.experiment import Experiment, Source
from fastldp.reproduction.series import Series, over_horizons, planned
from fastldp.reproduction.verdicts import Verdict
from fastldp.sweeping import Grid
from fastldp.sweeping.trials import grid_of
from fastldp.tuning import Tuned

# A further curve is an entry here and one in the recipes fig1-tuning and fig1-clipped-tuning.
FAMILIES: dict[str, dict[str, Any]] = {
    "Algorithm 1": {"method": "PrimalDual", "allocation": "dynamic"},
    "DP-SCAFFOLD": {"method": "DPScaffold"},
    "DP-FedAvg": {"method": "DPFedAvg"},
    "ISRL-DP": {"method": "ISRLDP", "accelerated": False},
    "ISRL-DP, accelerated": {"method": "ISRLDP", "accelerated": True},
}
BASELINES = ("DP-SCAFFOLD", "DP-FedAvg", "ISRL-DP", "ISRL-DP, accelerated")
BETTER = (*pairwise(("Algorithm 1", "DP-SCAFFOLD", "DP-FedAvg", "ISRL-DP")), ("Algorithm 1", "ISRL-DP, accelerated"))
"""The paper's order, the better first."""

# Algorithm 1 as its theorem has it; a further curve is an entry here and one in the recipe fig1.
THEOREM = {"method": "PrimalDual", "step": None, "gradient_bound": None}
BEYOND: dict[str, dict[str, Any]] = {
    "dynamic allocation": {"allocation": "dynamic", "accounting": "zcdp"},
    "static allocation": {"allocation": "static", "accounting": "zcdp"},
    "dynamic, exact accounting": {"allocation": "dynamic", "accounting": "gdp"},
}


class Compared(NamedTuple):
    """What was measured without clipping, as in the paper."""

    horizons: list[int]
    choices: dict[str, Tuned]
    once: list[Series]
    each: list[Series]
    theorem: list[Series]
    """Of `BEYOND`."""
    planned: Series
    """Of Algorithm 1, from no more of the data than B."""


class Figure1(Experiment):
    """The smooth problem."""

    name: ClassVar[str] = "fig1"

    def run(self) -> list[Verdict]:
        found = self.compared()
        clipped = self._clipped()
        bound = self.bound("fig1", found.horizons)
        self.save_figure(self._drawn(found, clipped, bound))
        self.save_series(
            [s.named(f"{s.label}, tuned once") for s in found.once]
            + [s.named(f"{s.label}, tuned at each T") for s in found.each]
            + [s.named(f"{s.label}, tuned at each T, clipping") for s in clipped]
            + [s.named(f"Algorithm 1, theorem's step, {s.label}") for s in found.theorem]
            + [found.planned.named("Algorithm 1, planned"), bound]
        )
        return self.judge(_claims(found), self._sources(found, clipped))

    def _sources(self, found: Compared, clipped: Sequence[Series]) -> dict[str, Source]:
        """How each curve was made, by its panel and its name."""
        sources = {
            f"{panel}: {one.label}": Source(one, "fig1-exact" if "exact" in one.label else "fig1", "fig1.h5")
            for panel, series in ((ONCE, found.once), (EACH, found.each), (THEOREMS, found.theorem))
            for one in series
        }
        sources[f"Figure 1: {PLAN}"] = Source(found.planned, "fig1-planned", "fig1.h5")
        for one in clipped:
            # Verdicts are of the last horizon alone, and so of the bound that was chosen there.
            last = one.last
            problem = {"gradient_bound": last.parameters[0]["gradient_bound"]}
            sources[f"{CLIPS}: {one.label}"] = Source(last, "fig1-clipped", "fig1.h5", problem)
        return sources

    def compared(self) -> Compared:
        """All methods with the bound B that the data have, tuned on other noise than is reported."""
        tuning = self.sweep("fig1-tuning", into="fig1-tuning.h5", problem=self._precision())
        choices = {label: tuned(tuning, **family) for label, family in FAMILIES.items()}
        edges = edge_notes(choices)
        self.note_edges("fig1", edges)
        horizons = list(choices["Algorithm 1"].each)
        told = told_of("fig1-tuning.h5", tuning, edges)
        self.sweep("fig1", into="fig1.h5", methods=methods_of(choices), tuning=told)
        self.sweep("fig1-exact", into="fig1.h5")
        found = self.sweep("fig1-planned", into="fig1.h5")
        once, each = [], []
        for label, chosen in choices.items():
            fixed = dict.fromkeys(horizons, chosen.once.parameters)
            varied = {T: choice.parameters for T, choice in chosen.each.items()}
            once.append(over_horizons(label, found, fixed, accounting="zcdp"))
            each.append(over_horizons(label, found, varied, accounting="zcdp"))
        theorem = [
            over_horizons(label, found, {T: {**THEOREM, **how} for T in horizons}) for label, how in BEYOND.items()
        ]
        return Compared(horizons, choices, once, each, theorem, planned(found, accounting="zcdp", gradient_bound=None))

    def _precision(self) -> dict[str, str]:
        """Tuning is quicker in single precision, but for a trial: that would compile longer than it runs."""
        return {"dtype": "float64"} if self.place.quick else {}

    def _clipped(self) -> list[Series]:
        """All methods with a bound that is tuned as well, from the same few, enforced by clipping."""
        tuning = self.sweep("fig1-clipped-tuning", into="fig1-tuning.h5", problem=self._precision())
        tuning = tuning.where(gradient_bound=lambda bound: bound is not None)
        choices = {label: tuned(tuning, **family) for label, family in FAMILIES.items()}
        self.note_edges("fig1, all clip", edge_notes(choices, once=False))
        told = told_of("fig1-tuning.h5", tuning, edge_notes(choices, once=False))
        # A bound is the problem's, so there is a sweep for each that was chosen.
        methods: dict[float, list[Grid]] = {}
        for label, chosen in choices.items():
            for T, choice in chosen.each.items():
                bound = choice.parameters["gradient_bound"]
                methods.setdefault(bound, []).append(grid_of(choice.method, f"{label}, tuned at T = {T:,}", T))
        for bound, some in methods.items():
            found = self.sweep(
                "fig1-clipped",
                into="fig1.h5",
                methods=some,
                tuning=told,
                name=f"fig1-clipped-{bound:g}",
                problem={"gradient_bound": bound},
            )
        return [
            over_horizons(label, found, {T: choice.parameters for T, choice in chosen.each.items()})
            for label, chosen in choices.items()
        ]

    def _drawn(self, found: Compared, clipped: list[Series], bound: Series) -> Figure:
        figure = Figure(figsize=(11.0, 8.0), layout="constrained")
        axes = figure.subplots(2, 2).ravel()
        for ax, series, title in (
            (axes[0], found.once, "tuned once, for all T"),
            (axes[1], found.each, "tuned again at every T"),
            (axes[2], [*found.theorem, found.planned], "beyond the paper: Algorithm 1, γ = 1/4 or planned"),
            (axes[3], clipped, "beyond the paper: all clip, tuned at every T"),
        ):
            draw_bars(ax, series)
            ax.set_title(title)
        same_limits(axes[:2], [*found.once, *found.each])
        same_limits(axes[2:3], [*found.theorem, found.planned])
        same_limits(axes[3:], clipped)
        draw_bound(axes[2], bound)
        for ax in axes:
            finish(ax, "total communication rounds T", "optimality error after T rounds")
        runs = found.once[0].values.shape[1]
        figure.suptitle(f"{self.data}, n = 20, m = 100, (1, 1e-4)-LDP, mean ± std of {runs} runs")
        return figure


# In a table of sources curves have the names of their panel and their own.
ONCE, EACH, THEOREMS, PLAN, CLIPS = "tuned once", "tuned at each T", "theorem's step", "planned", "all clip"
SIMILAR = 0.2
"""Errors that differ by less are stable."""


def curve_claims(where: str, panel: str, horizons: Sequence[int], lows: Mapping[str, int]) -> list[Claim]:
    """What the paper says of the curves of all methods and of their order; `lows` are where curves seem least.

    Whether a curve falls and rises is asked of few horizons, which is cheaper: doubled ones, and where it is least.
    """
    first, last = horizons[0], horizons[-1]
    some = {T for T in horizons if T / first in (1, 2, 4, 8)}
    ours, since = f"{panel}: Algorithm 1", horizons[len(horizons) // 2]
    return [
        *(
            falls_and_rises(
                where,
                f"{label} improves with T and then deteriorates",
                f"{panel}: {label}",
                sorted({*some, lows[label], last}),
            )
            for label in BASELINES
        ),
        better(where, "the error of Algorithm 1 decreases at first", Point(ours, horizons[1]), Point(ours, first)),
        within(
            where,
            "and stabilizes as T increases (within 20 %)",
            Point(ours, since),
            Point(ours, last),
            share=SIMILAR,
        ),
        *order_claims(where, panel, last),
    ]


def order_claims(where: str, panel: str, last: int) -> list[Claim]:
    """The paper's order of the methods, at the largest horizon."""
    return [
        better(
            where,
            f"at large T {first} is better than {second}",
            Point(f"{panel}: {first}", last),
            Point(f"{panel}: {second}", last),
        )
        for first, second in BETTER
    ]


def _claims(found: Compared) -> list[Claim]:
    last = found.horizons[-1]
    since = found.horizons[len(found.horizons) // 2]
    plan, dynamic = f"Figure 1: {PLAN}", f"{THEOREMS}: dynamic allocation"
    theorem, planned = "Figure 1, theorem's step", "Figure 1, planned"
    at_end = Point(dynamic, last)
    # Horizons that can be planned for may begin later.
    first_planned, last_planned = Point(plan, int(found.planned.x[0])), Point(plan, int(found.planned.x[-1]))
    return [
        *(
            claim
            for panel, series in ((ONCE, found.once), (EACH, found.each))
            for claim in curve_claims(
                f"Figure 1, {panel}", panel, found.horizons, {one.label: one.least for one in series}
            )
        ),
        within(
            theorem,
            "at the theorem's step the error levels off (within 20 %)",
            Point(dynamic, since),
            at_end,
            share=SIMILAR,
        ),
        better(
            theorem,
            "at large T dynamic allocation is better than static",
            at_end,
            Point(f"{THEOREMS}: static allocation", last),
        ),
        better(
            theorem,
            "exact accounting is better than the paper's",
            Point(f"{THEOREMS}: dynamic, exact accounting", last),
            at_end,
        ),
        better(planned, "at large T the plan is better than the theorem's step", last_planned, at_end),
        better(
            planned,
            "at large T the plan is better than the step tuned at each T",
            last_planned,
            Point(f"{EACH}: Algorithm 1", last),
        ),
        within(
            planned,
            "its error is the same for all T (within 20 %)",
            first_planned,
            last_planned,
            share=SIMILAR,
        ),
        *order_claims("Figure 1, all clip", CLIPS, last),
    ]
