"""Generated stand-ins for the public sets, seeded, so that everything runs without a download."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp import memory
from fastldp.datasets.dataset import Dataset, Images
from fastldp.validation import integer, known_name


class Feature(NamedTuple):
    """A categorical feature, one-hot."""

    categories: int
    fall: float
    """Category k has a share ∝ k^−fall."""
    missing: float = 0.0


# The census set's 14 features, 122 columns: numbers cut at their quintiles, and names of which some are rare.
CENSUS = (
    Feature(5, 0.0),
    Feature(8, 2.2, missing=0.056),
    Feature(5, 0.0),
    Feature(16, 1.6),
    Feature(5, 0.3),
    Feature(7, 1.6),
    Feature(14, 1.2, missing=0.056),
    Feature(6, 1.3),
    Feature(5, 2.8),
    Feature(2, 1.0),
    Feature(2, 4.0),
    Feature(2, 4.5),
    Feature(5, 0.3),
    Feature(40, 4.0, missing=0.019),
)
# The same in a9a, where one country more occurs.
LARGE_CENSUS = (*CENSUS[:-1], CENSUS[-1]._replace(categories=41))
# The mushrooms' 21 features, 112 columns.
MUSHROOMS = tuple(
    Feature(categories, 1.5) for categories in (6, 4, 10, 2, 9, 2, 2, 2, 12, 2, 4, 4, 9, 9, 1, 4, 3, 5, 9, 6, 7)
)
# Rows are of five kinds, with these shares.
KINDS = (0.35, 0.25, 0.2, 0.12, 0.08)
# What the engine's signal keeps of its last value.
MEMORY = 0.33
# The words of w8a's pages: columns, and how many a page has on average.
WORDS, WORDS_A_PAGE = 300, 11.65
# Pixels from the middle of a line to where it is white.
PEN = 1.5
# The rows the paper uses: 20 workers of 100, and of 561.
PAPER_ROWS = {"ijcnn1": 2000, "a6a": 11220}
ROWS = PAPER_ROWS | {"a9a": 32561, "w8a": 49749, "mushrooms": 8124, "mnist": 60000}
STAND_INS = tuple(ROWS)
# What a row takes in memory while it is made, in bytes, no more than about.
ROW_BYTES = {"ijcnn1": 1000, "w8a": 10_000, "mnist": 4000}
# The share of +1.
POSITIVES = {"ijcnn1": 0.097, "a6a": 0.24, "a9a": 0.24, "w8a": 0.03, "mushrooms": 0.48}


# A str that is "mnist" at run time is typed as a Dataset; where it is written out, the name decides.
@overload
def synthetic(  # type: ignore[overload-overlap]
    name: Literal["mnist"], *, rows: int | None = None, seed: int = 0
) -> Images: ...


@overload
def synthetic(name: str, *, rows: int | None = None, seed: int = 0) -> Dataset: ...


def synthetic(name: str, *, rows: int | None = None, seed: int = 0) -> Dataset | Images:
    """A generated stand-in of the named set: its columns, sparsity, row norms, label balance and conditioning.

    Against the real ijcnn1 (the paper's rows) and a6a: entries a row within 1 %, quantiles of the row norms within 5 %,
    of the eigenvalues of AᵀA/m the sum within 3 %, the greatest within 15 % and the median within a factor of 1.6, the
    share of +1 within 2 points.

    Parameters
    ----------
    name : str
        ``"ijcnn1"``, ``"a6a"``, ``"a9a"``, ``"w8a"``, ``"mushrooms"``, or ``"mnist"``, images of ten shapes.
    rows : int, optional
        How many; those that the paper takes of ijcnn1, and all of any other set, where it is not given.
    seed : int
        Of whatever is drawn; of mnist another gives other images of the same ten shapes.

    Returns
    -------
    Dataset or Images
        Sparse rows with labels −1 and +1; of ``"mnist"``, images with classes.

    Examples
    --------
    >>> synthetic("a6a").A.shape
    (11220, 122)
    >>> synthetic("mnist", rows=100).images.shape
    (100, 784)
    """
    known_name("name", name, STAND_INS)
    rows = ROWS[name] if rows is None else integer("rows", rows, "give a whole number ≥ 1", at_least=1)
    memory.refuse_beyond("rows", ROW_BYTES.get(name, 1500) * rows, "ask for fewer", value=rows)
    rng = np.random.default_rng(integer("seed", seed, "give a whole number ≥ 0", at_least=0))
    if name == "mnist":
        return _digits(rows, rng)
    if name == "ijcnn1":
        A = _engine_signal(rows, rng)
    elif name == "w8a":
        A = _pages(rows, rng)
    else:
        features = {"a6a": CENSUS, "a9a": LARGE_CENSUS, "mushrooms": MUSHROOMS}[name]
        A = _categories(rows, features, rng)
    return Dataset(A, _labels(A, POSITIVES[name], rng), f"synthetic {name}")


def _engine_signal(rows: int, rng: np.random.Generator) -> sparse.csr_array[Any]:
    """22 columns: the position in a cycle of ten, a load that is high in stretches, a speed, ten delays of a signal."""
    position = np.zeros((rows, 10))
    position[np.arange(rows), np.arange(rows) % 10] = 1.0
    high = np.repeat(rng.random(-(-rows // 100)) < 0.2, 100)[:rows]
    load = np.where(high, rng.normal(-0.375, 0.04, rows), rng.normal(-0.73, 0.012, rows))
    speed = rng.normal(0.174, 0.018, rows)
    # An autoregressive signal of deviation 0.036, after the fifty steps in which it forgets its start.
    steps = rng.normal(0.0, 0.036 * np.sqrt(1 - MEMORY**2), rows + 59)
    signal = 0.004 + np.array([*accumulate(steps, lambda last, step: MEMORY * last + step)])[50:]
    delays = np.lib.stride_tricks.sliding_window_view(signal, 10)
    return sparse.csr_array(np.column_stack([position, load, speed, delays]))


def _categories(rows: int, features: Sequence[Feature], rng: np.random.Generator) -> sparse.csr_array[Any]:
    """Categorical features, one-hot; half of a row's are drawn for themselves, half follow from the kind of the row."""
    kind = rng.choice(len(KINDS), rows, p=KINDS)
    columns, there = [], []
    first = 0
    for feature in features:
        shares = 1.0 / np.arange(1, feature.categories + 1) ** feature.fall
        own, typical = (rng.choice(feature.categories, size, p=shares / shares.sum()) for size in (rows, len(KINDS)))
        columns.append(first + np.where(rng.random(rows) < 0.5, typical[kind], own))
        there.append(rng.random(rows) >= feature.missing)
        first += feature.categories
    present = np.stack(there, axis=1)
    indices = np.stack(columns, axis=1)[present]
    starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    return sparse.csr_array((np.ones(indices.size), indices, starts), shape=(rows, first))


def _pages(rows: int, rng: np.random.Generator) -> sparse.csr_array[Any]:
    """Words on pages: few are frequent, and long pages have more of all."""
    frequency = 1.0 / np.arange(3, WORDS + 3) ** 0.7
    length = rng.lognormal(0.0, 0.6, (rows, 1))
    share = 1 - np.exp(-length * frequency * (1.05 * WORDS_A_PAGE / (frequency.sum() * np.exp(0.18))))
    return sparse.csr_array((rng.random((rows, WORDS)) < share).astype(np.float64))


def _labels(A: sparse.csr_array[Any], positives: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Labels of a noisy linear rule, with the given share of +1."""
    # A logistic rule with logistic noise, cut at the quantile that gives the share.
    scores = A @ rng.normal(0.0, 2.0, A.shape[1]) + rng.logistic(size=A.shape[0])
    return np.where(scores > np.quantile(scores, 1 - positives), 1.0, -1.0)


def _digits(rows: int, rng: np.random.Generator) -> Images:
    """Ten shapes, each moved by up to two pixels and more or less dark, with a ninth of the pixels missing."""
    moved = [np.roll(_shapes(), (down, right), axis=(1, 2)) for down in range(-2, 3) for right in range(-2, 3)]
    labels = rng.integers(0, 10, rows)
    images = np.stack(moved).reshape(25, 10, 784)[rng.integers(0, 25, rows), labels]
    darkness = rng.uniform(0.7, 1.0, (rows, 1)).astype(np.float32)
    there = rng.integers(0, 9, images.shape, dtype=np.uint8) > 0
    return Images((images * darkness * there).astype(np.uint8), labels, "synthetic mnist")


def _shapes() -> NDArray[np.float32]:
    """(10, 28, 28): a closed curve a class, the same whatever the seed, drawn with a soft pen."""
    rng = np.random.default_rng(0)
    turns = np.arange(1, 4)[:, None] * np.linspace(0, 2 * np.pi, 200)
    pixels = np.indices((28, 28)).reshape(2, 784, 1)
    shapes = np.empty((10, 784), dtype=np.float32)
    for shape in shapes:
        waves = rng.normal(0.0, 1.0, (2, 2, 3)) / np.arange(1, 4)
        curve = waves[0] @ np.cos(turns) + waves[1] @ np.sin(turns)
        low, high = curve.min(axis=1, keepdims=True), curve.max(axis=1, keepdims=True)
        # Within the 20 × 20 pixels in the middle, as the real ones.
        curve = 4 + 19 * (curve - low) / (high - low)
        distance = np.sqrt(((pixels - curve[:, None]) ** 2).sum(axis=0).min(axis=1))
        shape[:] = 255 * np.clip(PEN - distance, 0, 1)
    return shapes.reshape(10, 28, 28)
