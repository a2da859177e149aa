"""What is assumed of the data before they are seen: how far the optimum lies, and how the objective bends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError
from fastldp.problems.facts import LARGEST, Facts
from fastldp.validation import is_scalar, real, reals

Array = NDArray[np.float64]

# With less l2 than this, of a sample's curvature, optima are taken to be no farther.
FLATTEST = 1e-4
# The mean gradient at the start, of the length of a typical one.
GRADIENT = 0.3
# An eigenvalue of a second moment may come out below zero by so much of the largest.
ROUNDING = 1e-10


class Modes(NamedTuple):
    """The objective near its optimum, along the eigenvectors of its Hessian H."""

    rates: Array
    """The eigenvalues, each once."""
    counts: Array
    """How many eigenvectors have it."""
    squares: Array
    """What of ‖x¹ − x*‖² lies along those."""


@dataclass(frozen=True, eq=False)
class Prior:
    """Public guesses; a wrong one costs accuracy, never privacy.

    Parameters
    ----------
    norm : float
        ‖x¹ − x*‖, the norm of the optimum where runs start at zero.
    spectrum : float or array of shape (d,) or (d, d), optional
        The eigenvalues of H, the Hessian of Σ wᵢ fᵢ with its l2: d numbers, or one for all; or, as a matrix, the second
        moment E[a aᵀ] of public samples of the same kind, of which H is l2 + curvature · E[a aᵀ] at most. Where it is
        not given, all are l2 + curvature · radius²/d, as for rows that fill the bound evenly.
    shares : array of shape (d,), optional
        How ‖x¹ − x*‖² is divided between the eigenvectors: d numbers that add up to 1; evenly by default.

    Examples
    --------
    >>> Prior().modes(Facts(sizes=[100] * 20, dimension=25, bound=1.0, l2=0.1)).rates.round(3).tolist()
    [0.11]
    """

    norm: float = 1.0
    spectrum: Any = None
    shares: Any = None

    def __post_init__(self) -> None:
        remedy = f"give ‖x¹ − x*‖, a number > 0, from {1 / LARGEST:g} to {LARGEST:g}"
        norm = real("norm", self.norm, remedy, at_least=1 / LARGEST, below=2 * LARGEST)
        object.__setattr__(self, "norm", norm)
        if self.spectrum is not None:
            object.__setattr__(self, "spectrum", _spectrum(self.spectrum))
        if self.shares is not None:
            object.__setattr__(self, "shares", _shares(self.shares, self.spectrum))

    @classmethod
    def of_facts(cls, facts: Facts) -> Prior:
        """What is assumed where nothing else is known of where the optimum lies.

        Where a sample bends far more than l2, ‖x*‖ √bend = 0.11 d^⅓ κ^¼ with κ = bend/l2; it has the units it should,
        and of such powers came closest to the best step of generated problems. Where l2 bends more, the mean gradient
        at the start, here 0.3 √bend, over l2 is as far as an optimum can lie: 0.3 κ. In between half of their harmonic
        mean.
        """
        flattest = max(facts.l2, FLATTEST * facts.bend)
        ratio = facts.bend / flattest
        bent, held = 0.11 * facts.dimension ** (1 / 3) * ratio**0.25, GRADIENT * ratio
        norm = bent * held / (bent + held) / math.sqrt(facts.bend)
        return cls(norm=min(max(norm, 1 / LARGEST), LARGEST))

    def modes(self, facts: Facts) -> Modes:
        """The prior for a problem's numbers."""
        d = facts.dimension
        if np.ndim(self.spectrum) == 0:
            rate = facts.l2 + facts.bend / d if self.spectrum is None else self.spectrum
            return Modes(np.array([rate]), np.array([float(d)]), np.array([self.norm**2]))
        spectrum: Array = self.spectrum
        if len(spectrum) != d:
            raise ArgumentError("spectrum", spectrum, f"give {d} eigenvalues, or a {d} × {d} matrix: one a coordinate")
        if spectrum.ndim == 2:
            spectrum = facts.l2 + facts.curvature * np.maximum(np.linalg.eigvalsh(spectrum), 0.0)
        shares = np.full(d, 1 / d) if self.shares is None else self.shares
        rates, group = np.unique(spectrum, return_inverse=True)
        if rates @ np.bincount(group, shares) == 0:
            raise ArgumentError("shares", shares, "the start is off where nothing bends: there is nothing to learn")
        counts, squares = np.bincount(group), self.norm**2 * np.bincount(group, shares)
        return Modes(rates, counts.astype(np.float64), squares.astype(np.float64))

    def summary(self) -> str:
        """In a few words."""
        if self.spectrum is None:
            spectrum = "an even spectrum"
        elif np.ndim(self.spectrum) == 2:
            spectrum = "the spectrum of a second moment"
        else:
            low, high = f"{np.min(self.spectrum):.3g}", f"{np.max(self.spectrum):.3g}"
            spectrum = f"eigenvalues {low}" if low == high else f"eigenvalues {low} to {high}"
        return f"‖x¹ − x*‖ = {self.norm:.3g}, {spectrum}"


def _spectrum(value: ArrayLike) -> float | Array:
    remedy = "give eigenvalues ≥ 0, one for all or one a coordinate, or a second-moment matrix"
    array = reals("spectrum", value, remedy)
    if not np.isfinite(array).all():
        raise ArgumentError("spectrum", value, f"{remedy}; it has NaN or infinite entries")
    if array.ndim == 2:
        scale = np.abs(array).max(initial=0.0)
        if array.shape[0] != array.shape[1] or not np.allclose(array, array.T, rtol=0, atol=ROUNDING * scale):
            raise ArgumentError("spectrum", value, f"{remedy}; a matrix must be square and symmetric")
        least = float(np.linalg.eigvalsh(array)[0]) if array.size else 0.0
        if least < -ROUNDING * scale * len(array):
            raise ArgumentError("spectrum", value, f"{remedy}; this one has the negative eigenvalue {least:.3g}")
    elif array.ndim > 2:
        raise ArgumentError("spectrum", value, f"{remedy}; this has {array.ndim} dimensions")
    elif (array < 0).any():
        raise ArgumentError("spectrum", value, f"{remedy}; none may be negative")
    if not array.any():
        raise ArgumentError("spectrum", value, f"{remedy}; where nothing bends there is nothing to learn")
    if not 1 / LARGEST <= array.max() <= LARGEST:
        raise ArgumentError("spectrum", value, f"{remedy}; the largest from {1 / LARGEST:g} to {LARGEST:g}")
    if is_scalar(value):
        return float(array)
    array.setflags(write=False)
    return array


def _shares(value: ArrayLike, spectrum: Any) -> Array:
    remedy = "give numbers ≥ 0 that add up to 1, one for each eigenvalue of spectrum="
    array = reals("shares", value, remedy)
    fits = np.ndim(spectrum) == 1 and array.shape == np.shape(spectrum)
    if not fits or not (array >= 0).all() or not abs(array.sum() - 1) < 1e-6:
        raise ArgumentError("shares", value, remedy)
    array.setflags(write=False)
    return array
