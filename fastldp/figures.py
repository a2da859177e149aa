"""Pictures of results; matplotlib is loaded only when one is drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from fastldp.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastldp.solution import Solution


def save(axes: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure the axes are in; the ending of the path chooses the format."""
    figure = axes.get_figure(root=True)
    assert figure is not None  # axes made by subplots always have one
    figure.savefig(path, dpi=150)


def plot_solution(solution: Solution, ax: Axes | None = None) -> Axes:
    """The mean error along the rounds, with one standard deviation either side, on a logarithmic axis."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    if ax is None:
        ax = Figure(figsize=(6.4, 4.0), layout="constrained").subplots()
    errors = solution.optimality
    mean, spread = errors.mean(axis=0), errors.std(axis=0)
    # On a log axis the lower edge of the band must stay above zero.
    lower = np.maximum(mean - spread, mean * 1e-2)
    ax.fill_between(solution.rounds, lower, mean + spread, color="C0", alpha=0.2, linewidth=0)
    ax.plot(solution.rounds, mean, color="C0", label="optimality (mean ± std)")
    ax.plot(
        solution.rounds,
        solution.distance.mean(axis=0),
        color="C1",
        linestyle="--",
        label="distance to the optimum",
    )
    ax.plot(solution.rounds, solution.consensus.mean(axis=0), color="C2", linestyle=":", label="consensus error")
    ax.set_yscale("log")
    ax.set_xlabel("communication round")
    ax.set_ylabel("error")
    ax.grid(True, which="major", alpha=0.3)
    ax.legend(frameon=False)
    return ax
