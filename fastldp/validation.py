"""Checks that turn a bad argument into an error that names it, before any work starts."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError, UnknownNameError


def real(
    argument: str,
    value: Any,
    remedy: str,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
    error: type[ArgumentError] = ArgumentError,
) -> float:
    """A finite real number within the limits."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise error(argument, value, remedy)
    try:
        number = float(value)
    except OverflowError:
        raise error(argument, value, remedy) from None
    if not (math.isfinite(number) and number > above and at_least <= number <= at_most and number < below):
        raise error(argument, value, remedy)
    return number


def integer(argument: str, value: Any, remedy: str, *, at_least: int, at_most: int | None = None) -> int:
    """A whole number within the limits; 3.0 is not one, True is not one."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise ArgumentError(argument, value, remedy)
    number = int(value)
    if number < at_least or (at_most is not None and number > at_most):
        raise ArgumentError(argument, value, remedy)
    return number


def known_name(argument: str, value: Any, known: Collection[str], further: str = "") -> str:
    """One of the known names; the error lists them, suggests the nearest, and says what else there is."""
    if isinstance(value, str) and value in known:
        return value
    names = ", ".join(repr(name) for name in known)
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UnknownNameError(argument, value, f"use one of {names}{hint}{further}")


def is_scalar(value: Any) -> bool:
    """Whether a value stands for one thing, right or wrong, and not for a list of things."""
    return value is None or bool(np.isscalar(value)) or (isinstance(value, np.ndarray) and value.ndim == 0)


def reals(argument: str, value: Any, remedy: str, error: type[ArgumentError] = ArgumentError) -> NDArray[np.float64]:
    """An array of real numbers of any shape, as a float64 copy of the caller's."""
    try:
        array = np.array(value)
        # Text, complex numbers and ragged lists all convert in some way; none of them is what was meant.
        if array.dtype.kind not in "biuf":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise error(argument, value, remedy) from None


def whole_numbers(
    argument: str, value: Any, length: int, remedy: str, error: type[ArgumentError] = ArgumentError
) -> NDArray[np.int64]:
    """An int64 vector of the given length; numbers with a fraction in their type are not whole."""
    try:
        array = np.array(value)
    except ValueError:  # ragged
        raise error(argument, value, remedy) from None
    if array.shape != (length,) or array.dtype.kind not in "iu" or (array > np.iinfo(np.int64).max).any():
        raise error(argument, value, remedy)
    return array.astype(np.int64)


def vector(argument: str, value: Any, length: int, remedy: str) -> NDArray[np.float64]:
    """A finite float64 vector of the given length, as a copy of the caller's."""
    array = reals(argument, value, remedy)
    if array.shape != (length,):
        raise ArgumentError(argument, value, f"{remedy}; its shape is {array.shape}, not {(length,)}")
    if not np.isfinite(array).all():
        raise ArgumentError(argument, value, f"{remedy}; it has NaN or infinite entries")
    return array
