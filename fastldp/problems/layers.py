"""A network of dense layers as a formula: its parameters in one vector, its loss and gradient in plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.floating[Any]]
Vector = NDArray[np.float64]


class Layers:
    """Layers of these widths, features first and classes last: sigmoids between, a softmax at the end.

    The vector of parameters has the layers one after the other: weights (units, inputs), then biases.

    >>> layers = Layers([4, 3, 2])
    >>> layers.d, [weights.shape for weights, _ in layers.split(np.zeros(layers.d))]
    (23, [(3, 4), (2, 3)])
    """

    def __init__(self, widths: Sequence[int]) -> None:
        self.widths = tuple(widths)
        counts = [units * (inputs + 1) for inputs, units in pairwise(self.widths)]
        self.offsets: tuple[int, ...] = (0, *accumulate(counts))
        """Where each layer begins in the vector, and its end."""

    @property
    def d(self) -> int:
        """How many parameters there are."""
        return self.offsets[-1]

    def split(self, x: Floats) -> Iterator[tuple[Floats, Floats]]:
        """The weights and biases of each layer: views of x."""
        for (inputs, units), begin in zip(pairwise(self.widths), self.offsets, strict=False):
            middle, end = begin + units * inputs, begin + units * (inputs + 1)
            yield x[begin:middle].reshape(units, inputs), x[middle:end]

    def start(self, seed: int) -> Vector:
        """Weights drawn uniformly (Glorot and Bengio 2010), biases zero; without a hidden layer all zero.

        Units of a hidden layer that begin alike would stay alike for ever.
        """
        x = np.zeros(self.d)
        if len(self.widths) > 2:
            rng = np.random.default_rng(seed)
            for weights, _ in self.split(x):
                weights[...] = rng.uniform(-1, 1, weights.shape) * np.sqrt(6 / sum(weights.shape))
        return x

    def scores(self, x: Floats, inputs: Floats) -> Floats:
        """(rows, classes): what the softmax is taken of."""
        return self._units(x, inputs)[-1]

    def losses(self, x: Floats, inputs: Floats, classes: NDArray[np.int64]) -> Vector:
        """The cross-entropy of every row."""
        scores = self.scores(x, inputs).astype(np.float64)
        top = scores.max(axis=1, keepdims=True)
        totals = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
        return np.asarray(totals - scores[np.arange(classes.size), classes])

    def gradient(self, x: Floats, inputs: Floats, classes: NDArray[np.int64]) -> Floats:
        """The sum of the rows' gradients, without clipping."""
        units = self._units(x, inputs)
        shares = np.exp(units[-1] - units[-1].max(axis=1, keepdims=True))
        slopes = shares / shares.sum(axis=1, keepdims=True)
        slopes[np.arange(classes.size), classes] -= 1
        total = np.zeros_like(x)
        parts, layers = list(self.split(total)), list(self.split(x))
        for layer in reversed(range(len(layers))):
            below = units[layer - 1] if layer else inputs
            parts[layer][0][...] = slopes.T @ below
            parts[layer][1][...] = slopes.sum(axis=0)
            if layer:
                slopes = (slopes @ layers[layer][0]) * (below - below * below)
        return total

    def _units(self, x: Floats, inputs: Floats) -> list[Floats]:
        """What each layer gives: the last its scores, the others sigmoids."""
        given: list[Floats] = []
        for layer, (weights, biases) in enumerate(self.split(x), start=1):
            below = given[-1] if given else inputs
            above = below @ weights.T + biases
            given.append(above if layer == len(self.widths) - 1 else expit(above))
        return given
