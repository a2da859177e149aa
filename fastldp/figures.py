"""Pictures of results; matplotlib is loaded only when one is drawn."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import MissingExtraError
from fastldp.validation import known_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastldp.auditing import Audit
    from fastldp.planning import Plan
    from fastldp.solution import Solution


def save(axes: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure the axes are in; the ending of the path chooses the format."""
    figure_of(axes).savefig(path, dpi=150)


def figure_of(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert figure is not None  # axes made by subplots always have one
    return figure


def require_matplotlib() -> None:
    """Raise where there is no matplotlib, before work whose picture could not be drawn."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot")


def require_format(path: str | os.PathLike[str]) -> None:
    """Raise where the ending of a path is no format that can be written."""
    require_matplotlib()
    from matplotlib.backend_bases import FigureCanvasBase

    ending = os.path.splitext(path)[1].lstrip(".").lower()
    known_name("plot", ending, sorted(FigureCanvasBase.get_supported_filetypes()))


def plot_solution(solution: Solution, ax: Axes | None = None, *, label: str = "", measure: str | None = None) -> Axes:
    """The mean error along the rounds, with one standard deviation either side, on a logarithmic axis; or a measure.

    Of a network, which has no optimum, the last of its measures: the accuracy, or else the train loss. On axes
    that have curves already the next colours are taken, and names that are not taken yet.
    """
    if measure is not None:
        known_name("measure", measure, (*solution.measures,))
    elif solution.is_of_network:
        measure = [*solution.measures][-1]
    ax = axes(ax)
    first, named = curves_on(ax), _namer(label, names_on(ax))
    if measure is not None:
        name, values = measure.replace("_", " "), solution.measures[measure]
        band(ax, solution.rounds, values.mean(axis=0), values.std(axis=0), f"C{first}", named(f"{name} (mean ± std)"))
        ax.set_ylabel(name)
    else:
        errors = solution.optimality
        named_error = named("optimality (mean ± std)")
        band(ax, solution.rounds, errors.mean(axis=0), errors.std(axis=0), f"C{first}", named_error)
        for k, (values, style, name) in enumerate(
            ((solution.distance, "--", "distance to the optimum"), (solution.consensus, ":", "consensus error")), 1
        ):
            ax.plot(solution.rounds, values.mean(axis=0), color=f"C{first + k}", linestyle=style, label=named(name))
        ax.set_yscale("log")
        ax.set_ylabel("error")
    ax.set_xlabel("communication round")
    ax.grid(True, which="major", alpha=0.3)
    if measure is None or label or first:
        ax.legend(frameon=False)
    return ax


def curves_on(ax: Axes) -> int:
    """How many named curves axes have already."""
    return len(ax.get_legend_handles_labels()[1])


def names_on(ax: Axes) -> list[str]:
    return [*map(str, ax.get_legend_handles_labels()[1])]


def _namer(label: str, taken: list[str]) -> Callable[[str], str]:
    """Names the curves of one run: by the caller's label, or by its number where others are on the axes."""
    count = 2
    while any(name.startswith(f"run {count}: ") for name in taken):
        count += 1
    prefix = label or (f"run {count}" if taken else "")
    return lambda name: f"{prefix}: {name}" if prefix else name


def plot_audit(audit: Audit, ax: Axes | None = None) -> Axes:
    """The privacy losses under either input, the Gaussians predicted, and the ε that is shown and claimed."""
    ax = axes(ax)
    # Some sixty bars over the losses that occur.
    occupied = np.flatnonzero(audit.counts.sum(axis=0))
    group = max(1, (occupied[-1] - occupied[0]) // 60)
    last = audit.counts.shape[1] // group * group
    edges = audit.edges[: last + 1 : group]
    counts = audit.counts[:, :last].reshape(2, -1, group).sum(axis=2)
    density = counts / (audit.transcripts * np.diff(edges))
    mean, variance = audit.loss_mean[1], audit.loss_variance[1]
    losses = np.linspace(edges[0], edges[-1], 500)
    for k, (sign, name) in enumerate(((1, "an input"), (-1, "its neighbour"))):
        ax.stairs(density[k], edges, fill=True, alpha=0.35, color=f"C{k}", label=f"losses under {name}")
        bell = np.exp(-((losses - sign * mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        ax.plot(losses, bell, color=f"C{k}", linewidth=1)
    shown, claimed = audit.shown_epsilon, audit.epsilon
    ax.axvline(shown, color="C2", linestyle="--", label=f"ε shown, {shown:.3f}")
    ax.axvline(claimed, color="C3", label=f"ε claimed, {claimed:g}")
    ax.set_xlim(audit.edges[occupied[0]] - 0.1, max(audit.edges[occupied[-1] + 1], claimed) + 0.1)
    ax.set_xlabel("privacy loss: ln of the likelihood ratio of a transcript")
    ax.set_ylabel("density")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_plan(plan: Plan, ax: Axes | None = None) -> Axes:
    """The error to expect against τ with its two parts, and the plan's choice."""
    ax = axes(ax)
    taus, start, noise = plan.curve
    ax.plot(taus, plan.curve.error, color="C0", label="error expected")
    ax.plot(taus, start, color="C1", linestyle="--", label="left of the start")
    ax.plot(taus, noise, color="C2", linestyle=":", label="by the noise")
    ax.plot(plan.tau, plan.minimized, "o", color="C3", label=f"τ = {plan.tau:.3g}: {plan.minimized:.3g}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    least = float(plan.curve.error.min())
    ax.set_xlim(max(plan.tau / 30, taus[0]), min(plan.tau * 30, taus[-1]))
    ax.set_ylim(least / 30, least * 30)
    ax.set_xlabel("τ = γT/n")
    ax.set_ylabel("E‖x̄ − x*‖²" if plan.topology is None else "‖x*‖² E optimality")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(frameon=False)
    return ax


def bars(ax: Axes, x: Any, mean: NDArray[np.float64], spread: NDArray[np.float64], **style: Any) -> None:
    """Points with bars of one spread either side."""
    # On a log axis the lower end of a bar must stay above zero.
    ax.errorbar(x, mean, yerr=(np.minimum(spread, 0.99 * mean), spread), capsize=2, **style)


def band(
    ax: Axes,
    x: Any,
    mean: NDArray[np.float64],
    spread: NDArray[np.float64],
    color: Any,
    label: str,
    alpha: float = 0.2,
    **style: Any,
) -> None:
    """A curve with a band of one spread either side."""
    with np.errstate(over="ignore", invalid="ignore"):  # of runs that diverged
        # On a log axis the lower edge of the band must stay above zero.
        low, high = np.maximum(mean - spread, mean * 1e-2), mean + spread
    ax.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0)
    ax.plot(x, mean, color=color, label=label, **style)


def axes(ax: Axes | None) -> Axes:
    """The caller's axes, or new ones."""
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot  # so that the caller's pyplot.show() shows it

        _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
    return ax
