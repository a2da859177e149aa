"""Small problems of every kind, each as the package takes it and as the oracle does."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import fastldp as fl
import naive
from fastldp.engine.objective import addressed, formulas_of, objective_of
from fastldp.kernels import formulas, jit, simd

# Of tests that have shards of a row or so on purpose, whose noise dominates.
tiny_shards = pytest.mark.filterwarnings("ignore::fastldp.errors.NoiseWarning")

# So many seconds say that a process or thread hangs, on however slow a machine.
HANGING = 600

WEIGHTS = np.array([0.002, 0.0, 0.03, 0.01, 0.05, 0.0, 0.02, 0.01, 0.015])

# Each regularizer with its oracle; sizes chosen so that the set binds at the optimum.
REGULARIZERS: dict[str, tuple[fl.Regularizer, naive.Regularizer]] = {
    "zero": (fl.Zero(), naive.zero()),
    "box_l1": (fl.BoxL1(0.01, 0.6), naive.box_l1(0.01, 0.6)),
    "box_l1_vector": (fl.BoxL1(WEIGHTS, 0.5), naive.box_l1(WEIGHTS, 0.5)),
    "box": (fl.Box(0.3), naive.box(0.3)),
    "l2_ball": (fl.L2Ball(0.7), naive.l2_ball(0.7)),
    "l1_ball": (fl.L1Ball(0.9), naive.l1_ball(0.9)),
    "simplex": (fl.Simplex(0.8), naive.simplex(0.8)),
}


class Case(NamedTuple):
    """One problem twice."""

    problem: fl.Problem
    shards: naive.Shards
    loss: str
    l2: float
    g: naive.Regularizer
    weighting: str = "uniform"


def make(
    regularizer: str = "zero",
    *,
    loss: str = "logistic",
    layout: str = "dense",
    sizes: tuple[int, ...] = (12, 12, 12),
    l2: float = 0.1,
    gradient_bound: float | None = None,
    dtype: str = "float64",
    weighting: str = "uniform",
    seed: int = 7,
) -> Case:
    """A problem with nine features and shards of the given sizes, heterogeneous on purpose."""
    rng = np.random.default_rng(seed)
    rows, d = sum(sizes), WEIGHTS.size
    A = rng.standard_normal((rows, d)) / 2
    owners = np.repeat(np.arange(len(sizes)), sizes)
    A += 0.3 * rng.standard_normal((len(sizes), d))[owners]
    if layout == "csr":
        A[rng.random((rows, d)) < 0.5] = 0.0
    scores = A @ rng.standard_normal(d) + 0.3 * rng.standard_normal(rows)
    b = np.where(scores > 0, 1.0, -1.0) if loss == "logistic" else scores
    ours, theirs = REGULARIZERS[regularizer]
    data: Any = sparse.csr_array(A) if layout == "csr" else A
    problem = fl.Problem(
        data,
        b,
        workers=owners,
        loss=loss,
        l2=l2,
        regularizer=ours,
        gradient_bound=gradient_bound,
        dtype=dtype,
        weighting=weighting,
    )
    shards = [(A[owners == i], b[owners == i]) for i in range(len(sizes))]
    return Case(problem, shards, loss, l2, theirs, weighting)


@jit.serial
def _prox(objective: Any, X: Any, scale: Any) -> None:
    formulas.apply_prox(objective, X, 0, simd.load(scale))


def prox_in_lanes(regularizers: Sequence[fl.Regularizer], Z: NDArray[Any], scale: NDArray[Any]) -> NDArray[Any]:
    """That of the one row of Z by the kernels, with a regularizer and a scale of each lane."""
    X, stack = Z.copy(), partial(in_lanes, lane_shape=Z.shape[2:], dtype=Z.dtype.name)
    objective = objective_of(regularizers, [np.inf] * len(regularizers), Z.shape[1], stack)
    _prox(addressed(objective, formulas_of(objective, regularizers[0], None, None, 0)), X, scale)
    return X


def in_lanes(values: Any, lane_shape: tuple[int, ...], dtype: str = "float64") -> NDArray[Any]:
    """A value of each lane, lanes last."""
    stacked = np.array(list(values), dtype=dtype)
    stacked = stacked.reshape(len(stacked), *(stacked.shape[1:] or (1,)))
    return np.ascontiguousarray(np.moveaxis(stacked, 0, -1)).reshape(*stacked.shape[1:], *lane_shape)


def guide_modules() -> dict[str, str]:
    """The modules of the guide to classes of one's own, by their names."""
    guide = Path(__file__).parent.parent / "docs" / "extending.md"
    texts = re.findall(r"```python\n(# (\w+)\.py\n.*?)```", guide.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {name: text for text, name in texts}
