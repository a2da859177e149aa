"""What formulas are written with: in Python on NumPy arrays, in kernels on lanes of runs.

Beside these a formula has `+`, `-`, `*`, `/`, comparisons, and `&`, `|`, `~` of them; it has no `if` on values, which
may differ from lane to lane: `select` chooses. Loops over the coordinates of a row go by `load` and `store`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload
from scipy.special import expit

from fastldp.kernels import formulas, methods, mixing, simd, vmath

__all__ = [
    "all_lanes",
    "any_lane",
    "apart",
    "broadcast",
    "copysign",
    "exp",
    "fabs",
    "fma",
    "load",
    "log",
    "maximum",
    "mean_over_workers",
    "minimum",
    "mix",
    "prox",
    "select",
    "sigmoid",
    "sqrt",
    "store",
    "weighted_mean",
]


def exp(x: Any) -> Any:
    """e^x."""
    return np.exp(x)


def log(x: Any) -> Any:
    """ln x of a positive number."""
    return np.log(x)


def sigmoid(x: Any) -> Any:
    """1/(1 + e^-x)."""
    return expit(x)


def sqrt(x: Any) -> Any:
    """√x."""
    return np.sqrt(x)


def fabs(x: Any) -> Any:
    """|x|."""
    return np.abs(x)


def copysign(size: Any, sign: Any) -> Any:
    """|size| with the sign of `sign`."""
    return np.copysign(size, sign)


def minimum(a: Any, b: Any) -> Any:
    """The smaller; b where a or b is NaN."""
    return np.where(a < b, a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger; b where a or b is NaN."""
    return np.where(a > b, a, b)


def select(mask: Any, a: Any, b: Any) -> Any:
    """a where the mask is true, and b elsewhere."""
    return np.where(mask, a, b)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a·b + c, rounded once in kernels and twice in Python."""
    return a * b + c


def any_lane(mask: Any) -> Any:
    """Whether the mask is true anywhere."""
    return bool(np.any(mask))


def all_lanes(mask: Any) -> Any:
    """Whether the mask is true everywhere."""
    return bool(np.all(mask))


def broadcast(value: Any, like: Any) -> Any:
    """The number in every lane that `like` has."""
    return np.full_like(like, value, dtype=np.float64)


def load(array: Any, *indices: Any) -> Any:
    """array[*indices] in every lane."""
    return array[indices]


def store(value: Any, array: Any, *indices: Any) -> None:
    """array[*indices] = value in every lane."""
    array[indices] = value


def mean_over_workers(values: Any, j: Any) -> Any:
    """The mean of values[:, j], of what workers keep."""
    return np.mean(values[:, j], axis=0)


def weighted_mean(values: Any, j: Any, shares: Any) -> Any:
    """Σ wᵢ values[i, j], with shares n wᵢ."""
    weighed = values[:, j]
    # Shares are of workers, or of workers and runs.
    return (np.reshape(shares, (*np.shape(shares), *[1] * (weighed.ndim - np.ndim(shares)))) * weighed).sum(0) / len(
        values
    )


def apart(run: Any, values: Any, i: Any, out: Any, row: Any) -> None:
    """out[row] = Σₖ Wᵢₖ (values[i] − values[k]) over worker i's neighbours on a graph, for a method's `receive`.

    In kernels these sums are exact, of numbers that are rounded to a quantum: over all workers they are zero.
    """
    links, total = run.links, np.zeros_like(values[i])
    for k in range(links.begin[i], links.begin[i + 1]):
        total += links.weights[k] * (values[i] - values[links.neighbours[k]])
    out[row] = total


def mix(run: Any, values: Any, i: Any, step: Any, sums: Any, out: Any) -> None:
    """out[i] = values[i] − step times what `apart` gives, and sums[i] plus that, in its place."""
    apart(run, values, i, out, i)
    sums[i] += out[i]
    out[i] = values[i] - step * out[i]


def prox(run: Any, array: Any, i: Any, scale: Any) -> None:
    """Replace array[i] by the prox of scale·g there, of the g of a method's run."""
    rows = array[i].T
    array[i] = (
        np.stack([run.objective.prox(row, scale) for row in rows.reshape(-1, rows.shape[-1])]).reshape(rows.shape).T
    )


def _in_kernels(plain: Callable[..., Any], compiled: Any) -> None:
    """Let kernels call something of ours where formulas call a function above."""
    count = plain.__code__.co_argcount

    def one(x: Any) -> Any:
        return lambda x: compiled(x)

    def two(a: Any, b: Any) -> Any:
        return lambda a, b: compiled(a, b)

    def three(a: Any, b: Any, c: Any) -> Any:
        return lambda a, b, c: compiled(a, b, c)

    overload(plain, inline="always", strict=False)((one, two, three)[count - 1])


_KINDS: tuple[tuple[Any, tuple[Callable[..., Any], ...]], ...] = (
    (simd, (sqrt, fabs, copysign, minimum, maximum, select, fma, any_lane, all_lanes, broadcast)),
    (vmath, (exp, log, sigmoid)),
    (methods, (mean_over_workers, weighted_mean)),
)
for _module, _functions in _KINDS:
    for _plain in _functions:
        _in_kernels(_plain, getattr(_module, _plain.__name__))


# Inlining by Numba cannot do with an unknown number of arguments; that by LLVM can.
_INLINED: Any = {"forceinline": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@overload(load, strict=False, jit_options=_INLINED)
def _load(array: Any, *indices: Any) -> Any:
    return lambda array, *indices: simd.load(array, *indices)


@overload(store, strict=False, jit_options=_INLINED)
def _store(value: Any, array: Any, *indices: Any) -> Any:
    return lambda value, array, *indices: simd.store(value, array, *indices)


@overload(prox, strict=False, jit_options=_INLINED)
def _prox(run: Any, array: Any, i: Any, scale: Any) -> Any:
    return lambda run, array, i, scale: formulas.apply_prox(run.objective, array, i, scale)


@overload(apart, strict=False, jit_options=_INLINED)
def _apart(run: Any, values: Any, i: Any, out: Any, row: Any) -> Any:
    return lambda run, values, i, out, row: mixing.apart(run.links, values, i, out, row)


@overload(mix, strict=False, jit_options=_INLINED)
def _mix(run: Any, values: Any, i: Any, step: Any, sums: Any, out: Any) -> Any:
    return lambda run, values, i, step, sums, out: mixing.mix(run.links, values, i, step, sums, out)
