"""Figure 3: a network on MNIST, its test accuracy along the rounds for two budgets and three horizons.

Beside them stand a threshold that is found and exact accounting, and as yardsticks a trusted server and no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastldp import figures
from fastldp.reproduction import searching
from fastldp.reproduction.climbing import Point
from fastldp.reproduction.experiment import Experiment, Place, save_csv
from fastldp.reproduction.searching import ADAPTIVE_AXES, AXES, CENTRAL_AXES, Chosen, Promise, Rung, Setting
from fastldp.reproduction.series import Series, along_rounds
from fastldp.reproduction.verdicts import LOSS, NEAR, Verdict, higher, keeps, near, percent
from fastldp.sweeping import Results

BUDGETS: tuple[Promise, ...] = ((1.0, 1e-4), (0.5, 1e-5))
"""The paper's, (ε, δ), the larger ε first."""
ACCURACY = 0.70
"""What the paper reports at T = 1,000."""
MEASURES = {"accuracy": "test accuracy", "train_loss": "train loss", "consensus": "consensus error"}
# So many of the first rung of the search go on to the second.
FINALISTS = 3
SEARCH, ADAPTIVE_SEARCH, CENTRAL_SEARCH, OPEN_SEARCH = (
    f"fig3-search{which}.h5" for which in ("", "-adaptive", "-central", "-open")
)
KINDS = ("fixed clip", "adaptive clip", "trusted server")
# Runs that have the recipe of another's name.
RECIPES = dict.fromkeys(("fig3-scaled", "fig3-exact", "fig3-adaptive"), "fig3-beyond")


class Found(NamedTuple):
    """What suits one budget."""

    fixed: Chosen
    adaptive: Chosen
    central: Chosen


class Panel(NamedTuple):
    """The runs of one budget: their accuracies along the rounds."""

    budget: Promise
    setting: Setting
    """At the middle horizon; its step is that of all."""
    horizons: list[Series]
    scaled: Series
    """At the shortest horizon, with a step that leads as far as at the middle one."""
    exact: Series
    adaptive: Series
    central: Series
    sampler_delta: float
    """What the sampler adds to δ, at most, in any of them, and"""
    total_delta: float
    """what δ then is, at most."""

    @property
    def name(self) -> str:
        return budget_name(self.budget)


class Figure3(Experiment):
    """The nonconvex problem."""

    name: ClassVar[str] = "fig3"
    # What a run needs to go on are 25 MB, which take a second to write.
    leg_seconds: ClassVar[float] = 60.0

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._measured: list[Series] = []
        """All measures of all runs, to be saved."""

    def run(self) -> list[Verdict]:
        panels = [self._made(budget, found) for budget, found in self.search().items()]
        self.save_figure(self._drawn(panels, *self._without_privacy()))
        self.save_series(self._measured)
        return [verdict for panel in panels for verdict in _verdicts(panel)]

    def search(self) -> dict[Promise, Found]:
        """What suits each budget, with no privacy beside it; all trials are saved."""
        found: dict[Promise, Found] = {}
        begin: list[Point] = [(0, 0, 0), (0, 0, 0)]
        for budget in BUDGETS:
            found[budget], begin = self._searched(budget, begin)
        self.sweep("fig3-search-open", into=OPEN_SEARCH)
        self._save_trials()
        return found

    def _searched(self, budget: Promise, begin: Sequence[Point]) -> tuple[Found, list[Point]]:
        """What suits a budget; and where to begin with the next, which is smaller: at half of γCT."""
        first = Rung(self, "fig3-search", SEARCH).climb(budget, [begin[0]])
        fixed = Rung(self, "fig3-search-long", SEARCH).climb(budget, first.climb.best_of(FINALISTS))
        # Its noise is spread as for the fixed threshold.
        setting = partial(searching.adaptive, bend=AXES[-1].at(fixed.climb.best[-1]))
        adaptive = Rung(self, "fig3-search-long", ADAPTIVE_SEARCH, ADAPTIVE_AXES, setting).climb(budget, [(0,)])
        central = Rung(self, "fig3-search-central", CENTRAL_SEARCH, CENTRAL_AXES).climb(budget, [begin[1]])
        found = Found(fixed, adaptive, central)
        for kind, chosen in zip(KINDS, found, strict=True):
            self.notes.append(
                f"{budget_name(budget)}, {kind}: the search at T = {chosen.horizon:,} chose {chosen.setting.letters}, "
                f"with {chosen.accuracy:.1%} of the images that were held out right; {chosen.surroundings}"
            )
        return found, [(best[0] - 1, *best[1:]) for best in (first.climb.best, central.climb.best)]

    def _save_trials(self) -> None:
        """All trials of the search."""
        names = ("epsilon", "delta", "clip", "strong_convexity", "step", "rounds", "outcome", "accuracy", "train_loss")
        rows: list[tuple[Any, ...]] = []
        for file in (SEARCH, ADAPTIVE_SEARCH, CENTRAL_SEARCH):
            table = self.found(file).table()
            rows += zip([file] * len(table["rounds"]), *(table[name] for name in names), strict=True)
        save_csv(self.path("-search.csv"), ("file", *names), rows)

    def _made(self, budget: Promise, found: Found) -> Panel:
        """The runs of one budget, with what was chosen for it."""
        horizons, (few,) = self.horizons("fig3"), self.horizons("fig3-central")
        short, middle, _ = horizons

        def arm(label: str, name: str, chosen: Chosen, rounds: int, fits: int, **how: Any) -> Series:
            """Runs with a step that fits a horizon."""
            given = chosen.at(fits).given(budget, f"chosen for T = {fits:,}", **how) | {"tuning": chosen.told}
            made = self.sweep(RECIPES.get(name, name), into="fig3.h5", name=f"{name}-{budget[0]:g}", **given)
            mine = made.where(epsilon=budget[0], accounting=how.get("accounting", "zcdp"))
            return self._along(f"{budget_name(budget)}, {label}", mine, rounds, chosen.at(fits).parameters)

        at = f"T = {middle:,}"
        curves: dict[str, Any] = {
            "horizons": [arm(f"T = {T:,}", "fig3", found.fixed, T, middle) for T in horizons],
            "scaled": arm(f"T = {short:,}, longer steps", "fig3-scaled", found.fixed, short, short, only=short),
            "exact": arm(f"{at}, exact accounting", "fig3-exact", found.fixed, middle, middle, accounting="gdp"),
            "adaptive": arm(f"{at}, adaptive clip", "fig3-adaptive", found.adaptive, middle, middle),
            "central": arm(f"trusted server, T = {few:,}", "fig3-central", found.central, few, few),
        }
        ledgers = [run.ledger for run in self.found("fig3.h5").where(epsilon=budget[0])]
        deltas = [(ledger.sampler_delta, ledger.total_delta) for ledger in ledgers if ledger is not None]
        sampler, total = (max(column) for column in zip(*deltas, strict=True))
        return Panel(budget, found.fixed.at(middle), **curves, sampler_delta=sampler, total_delta=total)

    def _without_privacy(self) -> tuple[Series, Series]:
        """The accuracies without noise and clipping: of the ten workers, and of one who has all their images."""
        found = self.sweep("fig3-open", into="fig3-open.h5")
        (T,) = self.horizons("fig3-open")
        several, one = (found.where(pooled=pooled) for pooled in (False, True))
        return self._along("no privacy", several, T, {}), self._along("no privacy, all images in one place", one, T, {})

    def _along(self, label: str, found: Results, rounds: int, parameters: dict[str, Any]) -> Series:
        """The accuracies of some runs; all that was measured of them is kept."""
        measured = [along_rounds(label, found, rounds, parameters, measure=measure) for measure in MEASURES]
        self._measured += [one.named(f"{label}, {n}") for one, n in zip(measured, MEASURES.values(), strict=True)]
        return measured[0]

    def _drawn(self, panels: list[Panel], several: Series, pooled: Series) -> Figure:
        figure = Figure(figsize=(11.0, 5.0), layout="constrained")
        for ax, panel in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
            _draw(ax, panel, several, pooled)
        found = self.found("fig3.h5").parameters
        widths = "–".join(map(str, [784, *found["hidden"][0], found["classes"][0]]))
        figure.suptitle(f"{self.data}, {widths}, n = 10, m = {found['sizes'][0]:,}, box-ℓ1 (1e-5, 10)")
        return figure


def budget_name(budget: Promise) -> str:
    """As the paper writes it.

    >>> budget_name((0.5, 1e-5))
    '(0.5, 1e-5)'
    """
    return f"({budget[0]:g}, {budget[1]:.0e})".replace("e-0", "e-")


def _draw(ax: Axes, panel: Panel, several: Series, pooled: Series) -> None:
    """Accuracies along the rounds; what is beyond the paper in other lines of the colour of its horizon."""
    for one in (pooled, several):
        ax.plot(one.x, 100 * one.mean, color="0.6" if one is several else "0.75", linestyle="-.", label=one.label)
    end = 100 * panel.central.mean[-1]
    ax.axhline(end, color="0.35", linestyle=":", label=f"{_own(panel, panel.central)}: {percent(panel.central)}")
    ax.axhspan(100 * (ACCURACY - NEAR), 100 * (ACCURACY + NEAR), color="0.93", linewidth=0, label="the paper's 70 %")
    styles = [(one, f"C{k}", "-") for k, one in enumerate(panel.horizons)]
    styles += [(panel.scaled, "C0", "--"), (panel.exact, "C1", "--"), (panel.adaptive, "C1", ":")]
    for one, color, line in styles:
        figures.band(ax, one.x, 100 * one.mean, 100 * one.std, color, _own(panel, one), linestyle=line)
        # What the text speaks of is the end; its bar is of the runs.
        figures.bars(ax, one.x[-1:], 100 * one.mean[-1:], 100 * one.std[-1:], color=color, marker="o", markersize=4)
    ax.set_title(f"{panel.name}-LDP: {panel.setting.letters}", fontsize=10)
    ax.set_xlabel("communication round")
    ax.set_ylabel("test accuracy, %")
    ax.set_ylim(0, 100)
    ax.grid(True, alpha=0.3)
    ax.legend(frameon=False, fontsize=7.5, loc="lower right", ncols=2)


def _own(panel: Panel, one: Series) -> str:
    """Its label without the panel's name."""
    return one.label.removeprefix(f"{panel.name}, ")


def _verdicts(panel: Panel) -> list[Verdict]:
    where, beyond = f"Figure 3, {panel.name}", f"Figure 3, {panel.name}, beyond the paper"
    short, middle, long = panel.horizons
    T = [one.horizon for one in panel.horizons]
    lower = f"the accuracy is lower at T = {T[0]:,} than at {T[1]:,}"
    return [
        higher(where, lower, middle, short),
        higher(where, f"{lower}, where steps are longer so that they lead as far", middle, panel.scaled),
        near(where, f"it is about {ACCURACY:.0%} at T = {T[1]:,} (within {100 * NEAR:.0f} points)", middle, ACCURACY),
        keeps(where, f"nothing is lost at T = {T[2]:,} (within {100 * LOSS:.0f} points)", long, middle),
        higher(beyond, "exact accounting is better than the paper's", panel.exact, middle),
        keeps(
            beyond,
            f"a threshold that is found is as good as one that was searched for (within {100 * LOSS:.0f} points)",
            panel.adaptive,
            middle,
        ),
        # The paper's normals are ideal.
        Verdict(
            beyond,
            "the promise holds with what the sampler adds to δ",
            f"at most {panel.sampler_delta:.2g}: δ = {panel.total_delta:.2g} in all",
            panel.total_delta <= panel.budget[1],
        ),
    ]
