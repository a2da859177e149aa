"""What dynamic allocation is worth: the noise it leaves after T rounds, beside that of static allocation.

With q_t = (1 − γμ)^{T−t} dynamic variances are ∝ 1/√q_t, and static ones equal; both have the same sum of inverses,
which is what a budget fixes. The theorem bounds the error by Σ q_t ξ_t², whose minimum is dynamic allocation, and
u = γμT alone says by how much: the ratio of the two is (Σ√q_t)²/(T Σ q_t) → tanh(u/4)/(u/4), which is one where u is
small and 4/u where it is large. In truth the squared error along an eigenvector of the mean Hessian with eigenvalue λ
shrinks by (1 − γλ/n)² in a round, and what is left is Σ_j Σ_t (1 − γλ_j/n)^{2(T−t)} ξ_t². Where nμ is the only
eigenvalue the ratio of that tends to (8/3)/u: the allocation is not optimal for it, but static noise is worse than the
bound says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fastldp import figures
from fastldp.problems.linear import Problem
from fastldp.reproduction.experiment import save_csv
from fastldp.reproduction.response import curvature

Array = NDArray[np.float64]


def gain_of_bound(u: Array) -> Array:
    """Dynamic over static, of the theorem's bound."""
    return np.asarray(np.tanh(u / 4) / (u / 4))


def gain(step: float, strong_convexity: float, rounds: int, eigenvalues: Array, workers: int) -> float:
    """Dynamic over static, of the noise that is left after so many rounds; eigenvalues are of the mean Hessian."""
    before = np.arange(rounds)[::-1]
    root = (1 - step * strong_convexity) ** (before / 2)
    left = sum((1 - step * value / workers) ** (2 * before) for value in eigenvalues)
    return float(np.sum(left / root) * np.mean(root) / np.sum(left))


def eigenvalues_at_optimum(problem: Problem) -> Array:
    """Of the Hessian of the mean loss of the workers, at the optimum."""
    return np.asarray(np.linalg.eigvalsh(curvature(problem, problem.optimum())))


class Measured(NamedTuple):
    """Both allocations at one step and horizon."""

    step: float
    rounds: int
    u: float
    """γμT."""
    expected: float
    ratio: float
    error: float
    """One standard error of the ratio."""


def measured(
    step: float, rounds: int, u: float, expected: float, dynamic: Array, static: Array, without_noise: float
) -> Measured:
    """From the errors of runs, and what the error is without noise: the rest is noise."""
    ours, theirs = dynamic - without_noise, static - without_noise
    ratio = float(ours.mean() / theirs.mean())
    # To first order, run by run: the runs of both have the same noise.
    error = float(np.std(ours - ratio * theirs, ddof=1) / abs(theirs.mean()) / np.sqrt(ours.size))
    return Measured(step, rounds, u, expected, ratio, error)


def save(path: Path, points: list[Measured]) -> None:
    save_csv(path, Measured._fields, points)


def drawn(points: list[Measured], slowest: Any) -> Figure:
    """Measurements on the theory."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    u = np.geomspace(0.05, 20.0, 200)
    ax.plot(u, gain_of_bound(u), color="0.4", linestyle=":", label="the theorem's bound: tanh(u/4)/(u/4)")
    ax.plot(u, slowest(u), color="0.4", linestyle="--", label="the slowest direction alone")
    for k, step in enumerate(sorted({point.step for point in points})):
        some = [point for point in points if point.step == step]
        xs = [point.u for point in some]
        ax.plot(xs, [point.expected for point in some], color=f"C{k}", marker="_", markersize=14, linestyle="none")
        values, errors = ([getattr(point, name) for point in some] for name in ("ratio", "error"))
        figures.bars(
            ax, np.array(xs), np.array(values), 2 * np.array(errors), color=f"C{k}", marker="osD"[k % 3], markersize=4,
            linestyle="none", label=f"measured, γ = {step:g}",
        )  # fmt: skip
    ax.plot([], [], color="0.2", marker="_", markersize=14, linestyle="none", label="expected, by all eigenvalues")
    ax.axvline(1.0, color="0.8", zorder=0)
    ax.set_xscale("log")
    ax.set_ylim(0, 1.1)
    ax.set_xlabel("u = γμT")
    ax.set_ylabel("noise after T rounds, dynamic / static")
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    ax.grid(True, alpha=0.3)
    return figure


def slowest(u: Array) -> Array:
    """`gain` for the eigenvalue nμ alone, and short steps."""
    return np.asarray((8 / 3) * (1 - np.exp(-1.5 * u)) * (1 - np.exp(-u / 2)) / (u * (1 - np.exp(-2 * u))))
