"""Pictures of results; matplotlib is loaded only when one is drawn."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from fastldp.errors import MissingExtraError
from fastldp.validation import known_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastldp.solution import Solution


def save(axes: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure the axes are in; the ending of the path chooses the format."""
    figure = axes.get_figure(root=True)
    assert figure is not None  # axes made by subplots always have one
    figure.savefig(path, dpi=150)


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


def plot_solution(solution: Solution, ax: Axes | None = None) -> Axes:
    """The mean error along the rounds, with one standard deviation either side, on a logarithmic axis."""
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot  # so that the caller's pyplot.show() shows it

        _, ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")
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
