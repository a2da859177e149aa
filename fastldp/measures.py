"""What is measured of the recorded models beside their errors: each problem says what, by name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp import blas

Array = NDArray[np.float64]

# What is measured on test data.
ACCURACY = "accuracy"
# What measures were called once.
FORMER_NAMES = {"test_accuracy": ACCURACY}
Measure = Callable[[Array], Mapping[str, float]]


def present_name(name: str) -> str:
    """What a measure is called today; who asks by a former name is told."""
    if name in FORMER_NAMES:
        warnings.warn(f"{name} is now called {FORMER_NAMES[name]}", DeprecationWarning, stacklevel=3)
    return FORMER_NAMES.get(name, name)


def measured(models: Array, names: Sequence[str], measure: Measure) -> dict[str, Array]:
    """Every measure of every model, (..., d): arrays of the leading shape, NaN where a model is not finite.

    >>> measured(np.array([[3.0, 4.0], [np.nan, 0.0]]), ["norm"], lambda x: {"norm": float(np.hypot(*x))})
    {'norm': array([ 5., nan])}
    """
    found = {name: np.full(models.shape[:-1], np.nan) for name in names}
    with np.errstate(over="ignore"):  # of a run that diverged
        for place in np.ndindex(models.shape[:-1]):
            if np.isfinite(models[place]).all():
                for name, value in measure(models[place]).items():
                    found[name][place] = value
    return found


class Measures(Mapping[str, Array]):
    """The measures of a solution's records by name, (repetitions, records) each; computed when one is first asked for.

    >>> measures = Measures(["norm"], np.array([[[3.0, 4.0]]]), lambda x: {"norm": float(np.hypot(*x))})
    >>> list(measures), measures["norm"]
    (['norm'], array([[5.]]))
    """

    def __init__(self, names: Sequence[str], models: Array, measure: Measure, *, threads: bool = True) -> None:
        self._names = tuple(names)
        self._models, self._measure = models, measure
        # Whether BLAS may have threads: where products are small, waiting for them takes longer than the product.
        self._threads = threads
        self._values: dict[str, Array] | None = None

    @classmethod
    def known(cls, values: Mapping[str, Array]) -> Measures:
        """Measures that were computed before."""
        made = cls(tuple(values), np.zeros((0, 0)), lambda x: {})
        made._values = dict(values)
        return made

    def at(self, records: NDArray[np.integer[Any]]) -> Measures:
        """The measures of some records alone; the others are not computed for them."""
        if self._values is not None:
            return Measures.known({name: values[:, records] for name, values in self._values.items()})
        return Measures(self._names, self._models[:, records], self._measure, threads=self._threads)

    @property
    def at_hand(self) -> bool:
        """Whether to ask for them takes no time to speak of: they are computed, or those of a small problem."""
        return self._values is not None or not self._threads

    def __getitem__(self, name: str) -> Array:
        if name not in self._names and (name := present_name(name)) not in self._names:
            raise KeyError(name)
        if self._values is None:
            with nullcontext() if self._threads else blas.one_thread():
                self._values = measured(self._models, self._names, self._measure)
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names  # without computing it

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Measures({', '.join(self._names)})"  # without computing them

    def __reduce__(self) -> tuple[Any, ...]:
        # What travels are the values, not the private data that gave them.
        return Measures.known, (dict(self),)
