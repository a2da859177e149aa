# mypy: allow-untyped-calls
"""Code that is compiled by itself and called at an address, on what lies at another.

Numba puts the code of whatever a function calls into that function, and LLVM optimises all of it again. A call at an
address has none of that: each piece is compiled once, whoever calls it, and what calls it need not know its types. All
that a block of runs is about is laid into memory as one tuple, and pieces find it there.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import models, register_model
from numpy.typing import NDArray

from fastldp.kernels.jit import LOOK_AGAIN, is_kept, own_piece, piece, serial
from fastldp.kernels.simd import Typed, intrinsic

Pieces = TypeVar("Pieces")


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


class Piece:
    """Code that is compiled by itself: a text, and the types of its arguments.

    What is ours is kept in the cache. Numba would not see where classes of others were edited: theirs is compiled anew.
    """

    def __init__(self, text: Any, *kinds: Any, ours: bool = True) -> None:
        self.function = _function(text, ours)
        self.text, self.kinds, self.ours = text, kinds, ours
        # Where another process has been asked to compile it: whether that is at work on it.
        self.is_begun: Callable[[], bool] | None = None
        self._compiled = False

    @cached_property
    def address(self) -> int:
        """Where it is compiled: now, if nobody has."""
        _COUNTS["found" if self.is_compiled and self.is_begun is None else "compiled"] += 1
        while self.is_begun is not None and self.is_begun():
            time.sleep(LOOK_AGAIN)
        compiled = self.compile()
        return int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name))

    def compile(self) -> Any:
        """In this process, or out of the cache."""
        self.function.compile(self.kinds)
        return self.function.overloads[self.kinds]

    @property
    def is_compiled(self) -> bool:
        """Whether in this process, or in the cache; what was once is not looked for again."""
        if not self._compiled:
            in_process = self.kinds in self.function.overloads
            self._compiled = in_process or (self.ours and is_kept(self.function, self.kinds))
        return self._compiled


@cache
def _function(text: Any, ours: bool) -> Any:
    if hasattr(text, "py_func"):  # compiled as something else
        return text
    return (piece if ours else own_piece)(text)


def laying_of(block: tuple[Any, ...], memory: NDArray[Any]) -> Piece:
    """What lays tuples like this one."""
    return once((_lay, likeness(block)), lambda: Piece(_lay, typeof(block), typeof(memory)))


def likeness(value: Any) -> Any:
    """What values must have in common to have one Numba type; sooner found than that, and as good to remember by."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.ndim, value.flags.writeable
    return (type(value), *map(likeness, value)) if isinstance(value, tuple) else type(value)


def once(about: Any, made: Callable[[], Pieces]) -> Pieces:
    """The pieces about something: in this process, made once."""
    if about not in _MADE:
        with _ONE_MAKES:
            _MADE.setdefault(about, made())
    found: Pieces = _MADE[about]
    return found


_MADE: dict[Any, Any] = {}
_ONE_MAKES = threading.Lock()


def counts() -> tuple[int, int]:
    """How many pieces this process has found in the cache, and for how many it, or a helper, had to compile."""
    return _COUNTS["found"], _COUNTS["compiled"]


_COUNTS: Counter[str] = Counter()


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
