"""The planner, on the paper's data: what it promises, what it does, and what a wrong prior costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fastldp.planning import Prior, plan
from fastldp.reproduction.choosing import edge_notes, told_of, tuned
from fastldp.reproduction.claims import Claim, Contrast, Point, better, near_at_all, within
from fastldp.reproduction.drawing import draw_bars, finish, same_limits
from fastldp.reproduction.experiment import Experiment, Source, save_csv
from fastldp.reproduction.series import PLANNED, Series, over_horizons, planned
from fastldp.reproduction.series import ends as errors_at_end
from fastldp.reproduction.verdicts import Verdict
from fastldp.sweeping.trials import grid_of

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""What a wrong prior is wrong by."""
SIMILAR = 0.2
"""Errors that differ by less are the same."""
EXCESS = 0.1
"""What a plan may be worse by than a search, to be called as good."""


class Found(NamedTuple):
    """On one set of data."""

    data: str
    series: list[Series]
    """Planned, planned by all that can be known, the paper's, the best of the search; then other planned methods, and
    last, at the horizons that it can be planned for, half of a public row bound."""
    expected: dict[str, float]
    """The error to expect of the plans, by one who knows all; by their series."""
    priors: list[Series]
    """After the last horizon, planned by wrong priors: of each factor of the spectrum all factors of the norm."""
    recipe: str

    @property
    def wrong(self) -> NDArray[np.float64]:
        """(factors of the spectrum, factors of the norm, runs)."""
        return np.array([one.values[0] for one in self.priors]).reshape(len(FACTORS), len(FACTORS), -1)


class Planner(Experiment):
    """Beyond the paper."""

    name: ClassVar[str] = "planner"

    def run(self) -> list[Verdict]:
        found = [self._on(data) for data in ("ijcnn1", "a6a")]
        self.save_figure(_drawn(found))
        self.save_series(series.named(f"{one.data}: {series.label}") for one in found for series in one.series)
        save_csv(self.path("-prior.csv"), ("data", "norm", "spectrum", "runs", "mean", "std"), _wrong_rows(found))
        self.path(".md").write_text("\n".join(_table(one) for one in found), encoding="utf-8")
        claims = [claim for one in found for claim in _claims(one)]
        return self.judge(claims, {name: source for one in found for name, source in _sources(one).items()})

    def _on(self, data: str) -> Found:
        recipe = f"planner-{data}"
        trials = self.sweep(f"{recipe}-tuning", into=f"{recipe}-tuning.h5")
        searched = tuned(trials, method="PrimalDual")
        edges = edge_notes({"the search": searched}, once=False)
        self.note_edges(recipe, edges)
        chosen = {T: choice.method for T, choice in searched.each.items()}
        horizons = list(chosen)
        problem, budget = self.problem(f"{recipe}-tuning")
        facts = problem.facts_of_data()
        (rate,) = Prior().modes(facts).rates
        priors = [{"norm": a, "spectrum": float(f"{b * rate:.6g}")} for b in FACTORS for a in FACTORS]
        methods = [grid_of(chosen[T], f"the best of the search at T = {T:,}", T) for T in horizons]
        methods += [grid_of({**PLANNED, "prior": prior}, "a wrong prior", horizons[-1]) for prior in priors]
        told = told_of(f"{recipe}-tuning.h5", trials, edges)
        runs = self.sweep(recipe, into=f"{recipe}.h5", methods=methods, tuning=told)

        def ends(label: str, **method: Any) -> Series:
            return over_horizons(label, runs, dict.fromkeys(horizons, method))

        series = [
            ends("planned, public prior", **PLANNED, prior=None),
            ends("planned, true H and x*", **PLANNED, prior="exact"),
            ends("paper: γ = 1/4, dynamic", method="PrimalDual", step=None, allocation="dynamic"),
            over_horizons("best of a search", runs, chosen),
        ]
        others = {
            "planned step, equal noise": {"method": "PrimalDual", "step": "planned", "allocation": "static"},
            "ISRL-DP, planned": {"method": "ISRLDP", "step": "planned"},
            "DP-FedAvg, planned": {"method": "DPFedAvg", "step": "planned"},
        }
        # Baselines have no place where g is not smooth.
        there = runs.parameters["method"]
        series += [ends(label, **method) for label, method in others.items() if method["method"] in there]
        half = planned(self.sweep(f"{recipe}-half", into=f"{recipe}-half.h5"))
        series.append(half.named("planned, clipped at half of the row bound"))
        at_last = runs.where(**PLANNED, prior="given", rounds=horizons[-1])
        wrong = []
        for prior in priors:
            found = at_last.where(prior_norm=prior["norm"], prior_spectrum=prior["spectrum"])
            label, method = f"prior {prior['norm']:g}, {prior['spectrum']:g}", {**PLANNED, "prior": prior}
            wrong.append(Series(label, np.array(horizons[-1:]), errors_at_end(found)[None], (method,)))
        exact = problem.exact_prior()
        truly = plan(facts, budget, prior=exact)
        as_known = float(np.interp(plan(facts, budget).tau, truly.curve.taus, truly.curve.error))
        expected = dict(zip((s.label for s in series), (as_known / exact.norm**2, truly.relative_error), strict=False))
        return Found(self.data, series, expected, wrong, recipe)


def _drawn(found: list[Found]) -> Figure:
    figure = Figure(figsize=(10.0, 7.0), layout="constrained")
    for k, one in enumerate(found):
        above, below = figure.add_subplot(2, 2, 1 + k), figure.add_subplot(2, 2, 3 + k)
        draw_bars(above, one.series)
        same_limits([above], one.series)
        finish(above, "total communication rounds T", "optimality error after T rounds")
        above.set_title(f"{one.data}: the plan, the paper, a search")
        means, spreads = one.wrong.mean(axis=2), one.wrong.std(axis=2)
        for b, factor in enumerate(FACTORS):
            below.errorbar(
                FACTORS,
                means[b],
                yerr=spreads[b],
                color=f"C{b}",
                marker="o",
                markersize=4,
                capsize=2,
                label=f"spectrum × {factor:g}",
            )
        finish(below, "‖x*‖ as assumed, by default 1", "optimality error")
        below.set_xscale("log", base=2)
        below.set_xticks(FACTORS, [f"{factor:g}" for factor in FACTORS])
        below.set_title(f"{one.data}: other priors, T = {one.series[0].x[-1]:,}")
    figure.suptitle(f"n = 20, (1, 1e-4)-LDP, mean ± std of {found[0].series[0].values.shape[1]} runs")
    return figure


def _wrong_rows(found: list[Found]) -> Iterator[tuple[Any, ...]]:
    for one in found:
        for b, spectrum in enumerate(FACTORS):
            for a, norm in enumerate(FACTORS):
                values = one.wrong[b, a]
                yield one.data, norm, spectrum, values.size, float(values.mean()), float(values.std())


def _table(one: Found) -> str:
    """Markdown: the errors at every horizon, and those that were expected."""
    horizons = one.series[0].x.tolist()
    lines = [
        f"| {one.data} | expected by one who knows H and x* | " + " | ".join(f"T = {T:,}" for T in horizons) + " |"
    ]
    lines.append("|---" * (len(horizons) + 2) + "|")
    for series in one.series:
        expected = f"{one.expected[series.label]:.3g}" if series.label in one.expected else ""
        cells = {x: f"{mean:.3g} ± {std:.2g}" for x, mean, std in zip(series.x, series.mean, series.std, strict=True)}
        lines.append(f"| {series.label} | {expected} | " + " | ".join(cells.get(T, "") for T in horizons) + " |")
    return "\n".join(lines) + "\n"


def _claims(one: Found) -> list[Claim]:
    where = f"Planner, {one.data}"

    def curve(number: int) -> str:
        return _name(one, one.series[number])

    public, exact, paper, searched, equal = map(curve, range(5))
    horizons = one.series[0].x.tolist()
    first, last = horizons[0], horizons[-1]
    at_end = Point(public, last)
    worse = tuple(Contrast(Point(paper, last), Point(_name(one, wrong), last)) for wrong in one.priors)
    return [
        better(where, "the plan with the public prior is better than the paper's step", at_end, Point(paper, last)),
        better(
            where, "its allocation is better than equal noise with a step planned for that", at_end, Point(equal, last)
        ),
        within(
            where,
            f"its error is the same from T = {first:,} to {last:,} (within 20 %)",
            Point(public, first),
            at_end,
            share=SIMILAR,
        ),
        *(
            near_at_all(
                where,
                f"with the {prior} it is within 10 % of the best of a search",
                [(Point(planned, T), Point(searched, T)) for T in horizons],
                share=EXCESS,
            )
            for prior, planned in (("public prior", public), ("true H and x*", exact))
        ),
        Claim(
            where,
            "a prior up to 4 times the default or a fourth of it, in both numbers, is better than the paper's step",
            (worse,),
            shown=(Point(paper, last),),
        ),
    ]


def _name(one: Found, series: Series) -> str:
    return f"{one.data}: {series.label}"


def _sources(one: Found) -> dict[str, Source]:
    made = {_name(one, series): Source(series, one.recipe, f"{one.recipe}.h5") for series in one.series[:5]}
    for series in one.priors:
        method = series.parameters[0]
        told = {f"prior_{name}": value for name, value in method["prior"].items()}
        where = PLANNED | {"prior": "given"} | told
        made[_name(one, series)] = Source(series, one.recipe, f"{one.recipe}.h5", where=where)
    return made
