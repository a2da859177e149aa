"""Figure 3: a network on MNIST, its test accuracy along the rounds for two budgets and three horizons."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastldp.reproduction.choosing import MOST_RIGHT, Choice, method_table, tuned, tuning_table
from fastldp.reproduction.experiment import Experiment, save_csv
from fastldp.reproduction.series import Series, along_rounds
from fastldp.reproduction.verdicts import LOSS, NEAR, Verdict, higher, keeps, near
from fastldp.sweeping import Results

BUDGETS = ((1.0, 1e-4), (0.5, 1e-5))
"""The paper's, (ε, δ), the larger ε first."""
METHOD: dict[str, Any] = {"method": "PrimalDual"}
CHOSEN = {"clip": "C", "strong_convexity": "μ"}
"""What is chosen of the network, beside the method's step, with the letters of the paper."""
ACCURACY = 0.70
"""What the paper reports at T = 1,000."""
MEASURES = {"accuracy": "test accuracy", "train_loss": "train loss", "consensus": "consensus error"}


class Arm(NamedTuple):
    """One curve."""

    label: str
    rounds: int
    accounting: str = "zcdp"

    def along_rounds(self, found: Results, parameters: dict[str, float], measure: str) -> Series:
        return along_rounds(self.label, found, self.rounds, parameters, measure=measure, accounting=self.accounting)


class Panel(NamedTuple):
    """The runs of one budget."""

    budget: tuple[float, float]
    network: dict[str, float]
    step: float
    """Of all horizons."""
    horizons: list[Series]
    """Their accuracies."""
    exact: Series
    measured: list[Series]
    """All measures of all of them."""
    sampler_delta: float
    """What the sampler adds to δ, at most, in any of them, and"""
    total_delta: float
    """what δ then is, at most."""
    problem: str

    @property
    def name(self) -> str:
        return budget_name(self.budget)


class Figure3(Experiment):
    """The nonconvex problem."""

    name: ClassVar[str] = "fig3"
    # What a run needs to go on are 25 MB, which take a second to write.
    leg_seconds: ClassVar[float] = 60.0

    def run(self) -> list[Verdict]:
        tried = self.sweep("fig3-search", into="fig3-search.h5")
        # The larger budget was searched with the larger ε.
        searched = sorted(tried.parameters["epsilon"], reverse=True)
        (delta,) = tried.parameters["delta"]
        edges = {}
        for epsilon in searched:
            _, first = chosen(tried, epsilon)
            edges[epsilon] = first.edges
            rest = f"clip = {first.parameters['clip']!r}\n{budget_table((epsilon, delta))}"
            rest += method_table(METHOD | {"step": first.parameters["step"]}, "with other allocations")
            tried = self.sweep("fig3-search-mu", into="fig3-search.h5", added=rest, name=f"fig3-search-mu-{epsilon:g}")
        table = tried.table()
        names = ("epsilon", "delta", *CHOSEN, "step", "rounds", "outcome", "accuracy", "train_loss")
        save_csv(self.path("-search.csv"), names, zip(*(table[name] for name in names), strict=True))
        panels = []
        for budget, epsilon in zip(BUDGETS, searched, strict=True):
            horizon, choice = chosen(tried, epsilon)
            # Those of C and γ, which were chosen first, and of μ.
            both = tuple(dict.fromkeys((*edges[epsilon], *choice.edges)))
            told = tuning_table("fig3-search.h5", tried, both, rule=MOST_RIGHT)
            panels.append(self._made(budget, horizon, choice._replace(edges=both), told))
        self.save_figure(self._drawn(panels))
        self.save_series([series for panel in panels for series in panel.measured])
        return [verdict for panel in panels for verdict in _verdicts(panel)]

    def _made(self, budget: tuple[float, float], searched_at: int, choice: Choice, told: str) -> Panel:
        """The runs of one budget, with what was chosen for it at another horizon, and what is told of the search."""
        horizons = self.horizons("fig3")
        middle = horizons[1]
        network = {name: choice.parameters[name] for name in CHOSEN}
        step = carried_over(choice.parameters["step"], searched_at, middle)
        self.notes.append(_note(budget, choice, searched_at, step, middle))
        given = network_and_budget(budget, choice, searched_at)
        method = method_table(METHOD | {"step": step}, f"chosen for T = {middle:,}, and taken for all") + told
        self.sweep("fig3", into="fig3.h5", added=given + method, name=f"fig3-{budget[0]:g}")
        given += 'accounting = "gdp"\n'
        found = self.sweep("fig3-exact", into="fig3.h5", added=given + method, name=f"fig3-exact-{budget[0]:g}")
        found = found.where(epsilon=budget[0])
        arms = [Arm(f"T = {T:,}", T) for T in horizons]
        arms.append(Arm(f"T = {middle:,}, exact accounting", middle, "gdp"))
        parameters = {"step": step, **network}
        *accuracies, exact = (arm.along_rounds(found, parameters, "accuracy") for arm in arms)
        measured = [
            arm.along_rounds(found, parameters, measure).named(f"{budget_name(budget)}, {arm.label}, {name}")
            for arm in arms
            for measure, name in MEASURES.items()
        ]
        ledgers = [ledger for ledger in (run.ledger for run in found) if ledger is not None]
        deltas = max(ledger.sampler_delta for ledger in ledgers), max(ledger.total_delta for ledger in ledgers)
        widths = "–".join(map(str, [784, *found.parameters["hidden"][0], found.parameters["classes"][0]]))
        problem = f"{widths}, n = 10, m = {found.parameters['sizes'][0]:,}, box-ℓ1 (1e-5, 10)"
        return Panel(budget, network, step, accuracies, exact, measured, *deltas, problem)

    def _drawn(self, panels: list[Panel]) -> Figure:
        figure = Figure(figsize=(11.0, 4.4), layout="constrained")
        for ax, panel in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
            _draw(ax, panel)
        figure.suptitle(f"{self.data}, {panels[0].problem}")
        return figure


def chosen(tried: Results, epsilon: float) -> tuple[int, Choice]:
    """The horizon of the search, and what classified most images there."""
    family = METHOD | {"epsilon": epsilon}
    ((horizon, choice),) = tuned(tried, measure="accuracy", also=tuple(CHOSEN), **family).each.items()
    return horizon, choice


def carried_over(step: float, searched_at: int, rounds: int) -> float:
    """The step at another horizon that leads as far, 1 at most.

    >>> carried_over(0.5, 200, 1000), carried_over(1.0, 200, 100)
    (0.1, 1.0)
    """
    return min(1.0, float(f"{step * searched_at / rounds:.12g}"))


def network_and_budget(budget: tuple[float, float], choice: Choice, searched_at: int) -> str:
    """What a recipe that ends in its table [network] lacks beside the method."""
    lines = "".join(f"{name} = {choice.parameters[name]!r}\n" for name in CHOSEN)
    step = choice.parameters["step"]
    comment = f"# As the search chose at T = {searched_at:,}, with γ = {step:g}{choice.at_edges}"
    return f"{comment}\n{lines}{budget_table(budget)}"


def budget_table(budget: tuple[float, float]) -> str:
    return f"\n[budget]\nepsilon = {budget[0]!r}\ndelta = {budget[1]!r}\n"


def budget_name(budget: tuple[float, float]) -> str:
    """As the paper writes it.

    >>> budget_name((0.5, 1e-5))
    '(0.5, 1e-5)'
    """
    return f"({budget[0]:g}, {budget[1]:.0e})".replace("e-0", "e-")


def _note(budget: tuple[float, float], choice: Choice, searched_at: int, step: float, rounds: int) -> str:
    letters = CHOSEN | {"step": "γ"}
    found = ", ".join(f"{letter} = {choice.parameters[name]:g}" for name, letter in letters.items())
    return (
        f"{budget_name(budget)}: the search at T = {searched_at:,} chose {found}, with {1 - choice.error:.1%} of the "
        f"images that were held out right{choice.at_edges}; so γ = {step:g} at T = {rounds:,}"
    )


def _draw(ax: Axes, panel: Panel) -> None:
    """Accuracies along the rounds; what is beyond the paper in broken lines of the colour of its horizon."""
    ax.axhspan(100 * (ACCURACY - NEAR), 100 * (ACCURACY + NEAR), color="0.9", linewidth=0, label="the paper's 70 %")
    styles: list[dict[str, Any]] = [{"color": f"C{k}"} for k in range(len(panel.horizons))]
    styles.append({"color": "C1", "linestyle": "--"})
    for one, style in zip([*panel.horizons, panel.exact], styles, strict=True):
        ax.plot(one.x, 100 * one.mean, label=one.label, **style)
        ax.plot(one.x[-1:], 100 * one.mean[-1:], marker="o", markersize=4, **style)
    found = ", ".join(f"{CHOSEN[name]} = {value:g}" for name, value in panel.network.items())
    ax.set_title(f"{panel.name}-LDP: γ = {panel.step:g}, {found}", fontsize=10)
    ax.set_xlabel("communication round")
    ax.set_ylabel("test accuracy, %")
    ax.set_ylim(0, 100)
    ax.grid(True, alpha=0.3)
    ax.legend(frameon=False, fontsize=8, loc="lower right")


def _verdicts(panel: Panel) -> list[Verdict]:
    where, beyond = f"Figure 3, {panel.name}", f"Figure 3, {panel.name}, beyond the paper"
    short, middle, long = panel.horizons
    T = [one.horizon for one in panel.horizons]
    return [
        higher(where, f"the accuracy is lower at T = {T[0]:,} than at {T[1]:,}", middle, short),
        near(where, f"it is about {ACCURACY:.0%} at T = {T[1]:,} (within {100 * NEAR:.0f} points)", middle, ACCURACY),
        keeps(where, f"nothing is lost at T = {T[2]:,} (within {100 * LOSS:.0f} points)", long, middle),
        higher(beyond, "exact accounting is better than the paper's", panel.exact, middle),
        # The paper's normals are ideal.
        Verdict(
            beyond,
            "the promise holds with what the sampler adds to δ",
            f"at most {panel.sampler_delta:.2g}: δ = {panel.total_delta:.2g} in all",
            panel.total_delta <= panel.budget[1],
        ),
    ]
