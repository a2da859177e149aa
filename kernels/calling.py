# mypy: allow-untyped-calls
"""Code that is compiled by itself and called at an address, on what lies at another.

Numba puts the code of whatever a function calls into that function, and LLVM optimises all of it again. A call at an
address has none of that: each piece is compiled once, whoever calls it, and what calls it need not know its types. All
that a block of runs is about is laid into memory as one tuple, and pieces find it there.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model
from numpy.typing import NDArray

from fastldp.kernels.jit import own_piece, piece, serial
from fastldp.kernels.simd import Typed, intrinsic


class Placed(types.Dummy):
    """The Numba type that stands for what lies at an address, or for the first parts of it."""

    def __init__(self, block: types.Type, name: str = "") -> None:
        self.block = block
        super().__init__(name=name or f"Placed({block.name})")


register_model(Placed)(models.OpaqueModel)


@intrinsic
def found(context: Any, placed: Any, place: Any) -> Typed:
    """The tuple that was laid there; only what is used of it is read."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = context.get_value_type(placed.block)
        return builder.load(builder.inttoptr(args[1], kind.as_pointer()))

    return placed.block(placed, types.intp), emit


@intrinsic
def _size(context: Any, block: Any) -> Typed:
    """How many bytes a tuple takes."""
    return types.intp(block), lambda context, builder, sig, args: ir.IntType(64)(context.get_abi_sizeof(args[0].type))


@intrinsic
def _write(context: Any, block: Any, place: Any) -> Typed:
    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[0], builder.inttoptr(args[1], args[0].type.as_pointer()))
        return context.get_dummy_value()

    return types.none(block, types.intp), emit


@serial
def _lay(block: Any, memory: Any) -> Any:
    if _size(block) <= memory.size:
        _write(block, memory.ctypes.data)
    return _size(block)


def lay(block: tuple[Any, ...], memory: NDArray[Any]) -> int:
    """The address of a tuple, in memory that is large enough for it; who lays it keeps its arrays alive."""
    size = int(_lay(block, memory))
    if size > memory.size:
        raise MemoryError(f"{size} bytes do not fit in {memory.size}")
    return int(memory.ctypes.data)


@cache
def _compiled(text: Any, ours: bool) -> Any:
    """Texts about our own classes are cached. Numba would not see where others were edited: these are compiled anew."""
    made = (piece if ours else own_piece)(text)
    _PIECES.append(made)
    return made


_PIECES: list[Any] = []


def address_of(text: Any, *kinds: Any, ours: bool = True) -> int:
    """Where a text is compiled for arguments of these types."""
    function = _compiled(text, ours)
    function.compile(kinds)
    compiled = function.overloads[kinds]
    return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))


def likeness(value: Any) -> Any:
    """What values must have in common to have one Numba type; sooner found than that, and as good to remember by."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.ndim, value.flags.writeable
    return (type(value), *map(likeness, value)) if isinstance(value, tuple) else type(value)


def once(about: Any, compiled: Callable[[], Any]) -> Any:
    """What is compiled about something: in this process, once."""
    if about not in _COMPILED:
        _COMPILED[about] = compiled()
    return _COMPILED[about]


_COMPILED: dict[Any, Any] = {}


def counts() -> tuple[int, int]:
    """How many pieces this process has found in the cache, and how many it has compiled."""
    stats = [function.stats for function in _PIECES]
    return sum(sum(s.cache_hits.values()) for s in stats), sum(sum(s.cache_misses.values()) for s in stats)


@intrinsic
def call(context: Any, address: Any, arguments: Any) -> Typed:
    """Call what is compiled at the address with these arguments, after the one that takes no value."""
    kinds = [types.intp if isinstance(kind, types.Integer) else types.unliteral(kind) for kind in arguments]

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        parts = cgutils.unpack_tuple(builder, args[1], len(kinds))
        values = [context.cast(builder, *of) for of in zip(parts, arguments, kinds, strict=True)]
        taken = (Placed(types.none), *kinds)
        function = context.call_conv.get_function_type(types.none, taken)
        pointer = builder.inttoptr(args[0], function.as_pointer())
        # Pieces do not raise, so how the call ended is not looked at.
        context.call_conv.call_function(builder, pointer, types.none, taken, [context.get_dummy_value(), *values])
        return context.get_dummy_value()

    return types.none(types.intp, arguments), emit
