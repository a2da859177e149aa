# mypy: allow-untyped-calls
"""The formulas of losses and regularizers in kernels: compiled by themselves, and called at an address.

A kernel knows no loss and no regularizer: it calls the slopes of a tile of rows, or the prox of a row, at the address
it is given. So kernels are compiled once for all of them, and one from outside costs no more than its own formula. A
call serves a whole tile or row, and so costs nothing beside what it does.

A formula is a method of a class, such as `slope(self, z, b)`. In Python `self` is an object of it; here it has the
object's numbers in lanes, by the same names, so that one text serves both.
"""

import hashlib
import sys
from collections import namedtuple
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.core import cgutils
from numba.extending import models, overload, register_model
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

from fastldp.kernels.calling import Piece, call, likeness, once
from fastldp.kernels.jit import formula, own_formula, serial
from fastldp.kernels.simd import Typed, broadcast, intrinsic, lanes_at, load, maximum, minimum, store

Floats = NDArray[np.floating[Any]]

PACKAGE = __name__.partition(".")[0]
# Times this, a scalar of single precision is one of double, which formulas are for; vectors stay as they are.
AS_FORMULAS_TAKE = 1.0


class Objective(NamedTuple):
    """The loss and the regularizer of a block of runs."""

    slopes: int  # the address of the loss's
    unit: float  # what margins are multiplied by
    reach: float  # up to this margins have their slopes, from 0 to 1, in a shorter way; 0 where there is none
    clip: Floats  # (1, lanes): the largest norm a sample's gradient may have, or the largest number
    loss_numbers: Floats  # (fields, lanes)
    prox: int  # the address of the regularizer's; 0 where it changes nothing
    numbers: Floats  # (fields, lanes)
    vectors: Floats  # (fields, d, lanes): a number of each coordinate
    structure: NDArray[np.int64]  # (fields, d): a whole number of each coordinate, the same for all runs


class Fields(NamedTuple):
    """What formulas find in `self`, by name: each a row of an array of `Objective`."""

    numbers: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()
    structure: tuple[str, ...] = ()


class Formulas(types.Dummy):
    """The Numba type that stands for a class with formulas: it is another where the sources of the class are."""

    def __init__(self, owner: type) -> None:
        self.owner, self.sources = owner, _sources_of(owner)
        super().__init__(name=f"Formulas({owner.__module__}.{owner.__qualname__})")

    @property
    def key(self) -> Any:
        return self.owner, self.sources


@cache
def _sources_of(owner: type) -> str:
    """A digest of the files that have the formulas of one of our classes, so that no cache outlives an edit."""
    modules = {kind.__module__ for kind in owner.__mro__ if is_ours(kind)} | {f"{PACKAGE}.lanes"}
    files = [sys.modules[name].__file__ for name in sorted(modules) if name in sys.modules]
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in files if file)).hexdigest()


register_model(Formulas)(models.OpaqueModel)


@intrinsic
def row_of(context: Any, array: Any, k: Any) -> Typed:
    """Row k of an array, as an array that owns nothing."""
    kind = types.Array(array.dtype, array.ndim - 1, "C")

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole, row = context.make_array(array)(context, builder, args[0]), context.make_array(kind)(context, builder)
        shape, strides = (cgutils.unpack_tuple(builder, part, array.ndim) for part in (whole.shape, whole.strides))
        begin = cgutils.pointer_add(builder, whole.data, builder.mul(strides[0], args[1]), row.data.type)
        populate_array(row, begin, shape[1:], strides[1:], whole.itemsize, None)
        return row._getvalue()

    return kind(array, types.intp), emit


def tuple_of(arguments: str, parts: dict[str, str]) -> Any:
    """A formula of these arguments for a tuple with names: of each, what it is, as text with `load` and `row`."""
    parts = parts or {"nothing": "0"}  # Numba has no tuples with names and nothing in them
    scope: dict[str, Any] = {"Made": namedtuple("Made", parts), "load": load, "row": row_of}
    exec(f"def made({arguments}):\n    return Made({', '.join(parts.values())})", scope)
    return own_formula(scope["made"])


@cache
def _numbers_of(owner: Any) -> Any:
    """The numbers of a class by name: read once for a loop, for LLVM cannot know that what it stores is not these."""
    return tuple_of("numbers", {name: f"load(numbers, {k})" for k, name in enumerate(owner.fields().numbers)})


@cache
def _self_of(owner: Any) -> Any:
    """What formulas of a class call `self`: of vectors it has coordinate j, or all where they are of whole rows."""
    fields, of_vector = owner.fields(), "row(vectors, {})" if hasattr(owner, "prox_row") else "load(vectors, {}, j)"
    parts = {name: f"mine.{name}" for name in fields.numbers}
    parts |= {name: of_vector.format(k) for k, name in enumerate(fields.vectors)}
    parts |= {name: f"row(structure, {k})" for k, name in enumerate(fields.structure)}
    return tuple_of("mine, vectors, structure, j", parts)


def _slope(formulas: Any, numbers: Any, z: Any, b: Any) -> Any:
    """φ' of a loss, whose margins are in its unit."""
    raise NotImplementedError("only compiled code calls this")


def _short_slope(formulas: Any, numbers: Any, z: Any, b: Any) -> Any:
    """The same where margins are within reach."""
    raise NotImplementedError("only compiled code calls this")


@overload(_slope, inline="always")
def _slope_of_class(formulas: Any, numbers: Any, z: Any, b: Any) -> Any:
    return _of_margin(formulas.owner, "slope_in_unit")


@overload(_short_slope, inline="always")
def _short_slope_of_class(formulas: Any, numbers: Any, z: Any, b: Any) -> Any:
    return _of_margin(formulas.owner, "short_slope")


def _of_margin(owner: Any, name: str) -> Any:
    # What a class of ours makes faster is not taken from one that inherits it: its slope may be another.
    text = own_formula(getattr(owner, name, owner.slope) if is_ours(owner) else owner.slope)
    self_of, numbers_of = _self_of(owner), _numbers_of(owner)

    def of_margin(formulas: Any, numbers: Any, z: Any, b: Any) -> Any:
        return text(self_of(numbers_of(numbers), numbers, numbers, 0), z, b)

    return of_margin


def _slopes(
    formulas: Any,
    within: bool,
    clip: Any,
    inverse_norms: Any,
    targets: Any,
    row: int,
    count: int,
    numbers: Any,
    slopes: Any,
) -> None:
    """Margins of so many samples from `row` on to φ' of them, in place, limited so that no gradient exceeds `clip`.

    A sample's gradient is this number times its row, so limiting it clips the sample's gradient.
    """
    if within:
        for k in range(count):
            store(_short_slope(formulas, numbers, load(slopes, k) * AS_FORMULAS_TAKE, 0.0), slopes, k)
    else:
        for k in range(count):
            limit = clip * load(inverse_norms, row + k)
            s = _slope(formulas, numbers, load(slopes, k) * AS_FORMULAS_TAKE, load(targets, row + k))
            # Whatever the point, no slope exceeds its limit: in this order of arguments a NaN becomes −limit. So no
            # message tells by a NaN what a worker holds.
            store(minimum(limit, maximum(s, -limit)), slopes, k)


def _prox(formulas: Any, X: Any, i: Any, scale: Any, numbers: Any, vectors: Any, structure: Any) -> Any:
    """Replace X[i] by the prox of scale·g there."""
    raise NotImplementedError("only compiled code calls this")


@overload(_prox, inline="always")
def _prox_of_class(formulas: Any, X: Any, i: Any, scale: Any, numbers: Any, vectors: Any, structure: Any) -> Any:
    self_of, numbers_of = _self_of(formulas.owner), _numbers_of(formulas.owner)
    if hasattr(formulas.owner, "prox_row"):
        of_row = own_formula(formulas.owner.prox_row)

        def at_once(formulas: Any, X: Any, i: Any, scale: Any, numbers: Any, vectors: Any, structure: Any) -> Any:
            of_row(self_of(numbers_of(numbers), vectors, structure, 0), X, i, scale)

        return at_once
    of_coordinate = own_formula(formulas.owner.shrink)

    def one_by_one(formulas: Any, X: Any, i: Any, scale: Any, numbers: Any, vectors: Any, structure: Any) -> Any:
        mine = numbers_of(numbers)
        for j in range(X.shape[1]):
            me = self_of(mine, vectors, structure, j)
            store(of_coordinate(me, load(X, i, j) * AS_FORMULAS_TAKE, scale), X, i, j)

    return one_by_one


def _prox_of_row(formulas: Any, X: Any, i: int, scale: Any, numbers: Any, vectors: Any, structure: Any) -> None:
    _prox(formulas, X, i, scale, numbers, vectors, structure)


def slopes_of(owner: type, objective: Objective, samples: Any, axes: int) -> Piece:
    """A loss's slopes: of samples like these, with margins in an array of so many axes."""

    def made() -> Piece:
        clip, numbers = typeof(objective.clip), typeof(objective.loss_numbers)
        rows = typeof(samples.inverse_norms), typeof(samples.targets), types.intp, types.intp
        kinds = types.boolean, lanes_at(clip, 1), *rows, numbers, types.Array(clip.dtype, axes, "C")
        return Piece(_slopes, Formulas(owner), *kinds, ours=is_ours(owner))

    return once((_slopes, owner, likeness((objective, *samples[1:3])), axes), made)


def prox_of(owner: type, objective: Objective, models: Floats) -> Piece:
    """A regularizer's prox, of models in arrays like this."""

    def made() -> Piece:
        numbers = typeof(objective.numbers)
        further = numbers, typeof(objective.vectors), typeof(objective.structure)
        kinds = typeof(models), types.intp, lanes_at(numbers, 1), *further
        return Piece(_prox_of_row, Formulas(owner), *kinds, ours=is_ours(owner))

    return once((_prox_of_row, owner, likeness((objective, models))), made)


def is_ours(owner: type) -> bool:
    """Whether a class is part of this package."""
    return owner.__module__.partition(".")[0] == PACKAGE


@formula
def to_slopes(objective: Any, within: bool, samples: Any, row: int, count: int, slopes: Any) -> None:
    """Margins of so many rows from `row` on to their slopes, in place."""
    rows = samples.inverse_norms, samples.targets, row, count
    call(objective.slopes, (within, load(objective.clip, 0), *rows, objective.loss_numbers, slopes))


@formula
def apply_prox(objective: Any, X: Any, i: int, scale: Any) -> None:
    """Replace X[i] by the prox of scale·g there."""
    if objective.prox != 0:
        # What is called takes a scale of the type of X, and would not notice another.
        exact = broadcast(scale, load(X, i, 0))
        call(objective.prox, (X, i, exact, objective.numbers, objective.vectors, objective.structure))


@serial
def apply_to_rows(objective: Objective, X: Any, scale: float) -> None:
    """Replace every row of X, of one run, by the prox of scale·g there."""
    for i in range(X.shape[0]):
        apply_prox(objective, X, i, scale)
