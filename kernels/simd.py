# mypy: allow-untyped-calls, allow-untyped-decorators, allow-subclassing-any
"""Lane vectors: a SIMD value type for Numba.

A lane vector holds one number of each of several independent runs, so a kernel written with it reads as the
formula of a single run. A vector of floats is one 64-byte cache line: `float64x8` or `float32x16`.

- Operators work lane by lane. A scalar operand takes the type of the vector it meets: `2.0 * x`, `x > 0.0`.
- Comparisons give masks (`boolx8`, `boolx16`) for `select`, `any_lane`, `all_lanes`, `&`, `|` and `~`.
- The functions take float64 scalars as well, so one text serves both and gives both the same bits.

Every operation is the plain IEEE one, without fast-math flags: with `contract` LLVM fuses a product and a sum
in one kernel and not in another, `arcp` and `reassoc` change results outright. What is to be fused is written
`fma(a, b, c)`. So a run's bits depend neither on its lane, nor on the kernel around it, nor on the machine.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.np.arrayobj import populate_array
from numpy.typing import DTypeLike, NDArray

# Numba is annotated in part only. A `Kind` is a Numba type.
Kind = Any
intrinsic: Callable[[Callable[..., Any]], Any] = extending.intrinsic
intrinsic_of_literals: Callable[[Callable[..., Any]], Any] = extending.intrinsic(prefer_literal=True)
# What the body of an intrinsic returns: its signature and the function that emits LLVM, or None if ill-typed.
Typed = tuple[Signature, Callable[..., Any]] | None


class Vector(types.Type):
    """The Numba type of `lanes` values of type `dtype`."""

    def __init__(self, dtype: Kind, lanes: int) -> None:
        self.dtype = dtype
        self.lanes = lanes
        super().__init__(name=f"{dtype}x{lanes}")


@extending.register_model(Vector)
class VectorModel(extending.models.PrimitiveModel):
    """One LLVM vector, in registers, locals, tuples and arguments alike."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager[kind.dtype].get_value_type(), kind.lanes))


float64x8 = Vector(types.float64, 8)
int64x8 = Vector(types.int64, 8)
uint64x8 = Vector(types.uint64, 8)
uint32x8 = Vector(types.uint32, 8)
boolx8 = Vector(types.boolean, 8)
float32x16 = Vector(types.float32, 16)
int32x16 = Vector(types.int32, 16)
uint32x16 = Vector(types.uint32, 16)
boolx16 = Vector(types.boolean, 16)


def _dtype(kind: Kind) -> Kind:
    return kind.dtype if isinstance(kind, Vector) else kind


def _with_dtype(kind: Kind, dtype: Kind) -> Kind:
    """The type shaped like `kind`, a vector or a scalar, that holds `dtype`."""
    return Vector(dtype, kind.lanes) if isinstance(kind, Vector) else dtype


def _meant(like: Kind) -> Kind:
    """The type that an argument called `like` stands for: the type itself, or that of a value."""
    if isinstance(like, types.Omitted):
        return like.value
    if isinstance(like, types.TypeRef):
        return like.instance_type
    return like.dtype if isinstance(like, types.NumberClass) else types.unliteral(like)


def _common(context: Any, kinds: Sequence[Kind]) -> Kind:
    """The type operands meet in: that of the vectors, if they agree, or what Numba makes of scalars."""
    vectors = {kind for kind in kinds if isinstance(kind, Vector)}
    if vectors:
        return vectors.pop() if len(vectors) == 1 else None
    return context.unify_types(*map(types.unliteral, kinds))


@extending.lower_cast(types.Boolean, Vector)
@extending.lower_cast(types.Integer, Vector)
@extending.lower_cast(types.Float, Vector)
def _in_all_lanes(context: Any, builder: Any, source: Kind, target: Vector, value: Any) -> Any:
    scalar = context.cast(builder, value, source, target.dtype)
    empty = ir.Constant(context.get_value_type(target), ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.IntType(32)(0))
    from_first = ir.Constant(ir.VectorType(ir.IntType(32), target.lanes), [0] * target.lanes)
    return builder.shuffle_vector(first, empty, from_first)


# Operators. For each, the LLVM instruction on floats, signed integers, unsigned integers and masks.
ARITHMETIC: dict[Any, tuple[str | None, str | None, str | None, str | None]] = {
    operator.add: ("fadd", "add", "add", None),
    operator.sub: ("fsub", "sub", "sub", None),
    operator.mul: ("fmul", "mul", "mul", None),
    operator.truediv: ("fdiv", None, None, None),
    operator.neg: ("fneg", "neg", "neg", None),
    operator.and_: (None, "and_", "and_", "and_"),
    operator.or_: (None, "or_", "or_", "or_"),
    operator.xor: (None, "xor", "xor", "xor"),
    operator.invert: (None, "not_", "not_", "not_"),
    operator.lshift: (None, "shl", "shl", None),
    operator.rshift: (None, "ashr", "lshr", None),
}
COMPARISONS = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}
IN_PLACE = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    operator.iand: operator.and_,
    operator.ior: operator.or_,
    operator.ixor: operator.xor,
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
}


def _instruction(symbol: Any, dtype: Kind) -> str | None:
    on_floats, on_signed, on_unsigned, on_masks = ARITHMETIC[symbol]
    if isinstance(dtype, types.Float):
        return on_floats
    if isinstance(dtype, types.Boolean):
        return on_masks
    return on_signed if dtype.signed else on_unsigned


def _compare(builder: Any, dtype: Kind, sign: str, a: Any, b: Any) -> Any:
    if isinstance(dtype, types.Float):
        # Of a NaN only != is true.
        return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, a, b)
    return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(sign, a, b)


def _register(symbol: Any, result: Callable[[Vector], Kind], emit: Callable[..., Any]) -> None:
    """Teach Numba one operator on vectors: `result` gives its type (None: undefined), `emit` its LLVM."""

    @infer_global(symbol)
    class Operator(AbstractTemplate):
        def generic(self, args: Sequence[Kind], kws: Any) -> Signature | None:
            if not any(isinstance(arg, Vector) for arg in args):
                return None
            kind = _common(self.context, args)
            returned = None if kind is None else result(kind)
            return None if returned is None else signature(returned, *[kind] * len(args))

    @extending.lower_builtin(symbol, types.VarArg(Vector))
    def lower(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        return emit(builder, sig.args[0].dtype, *args)


def _register_arithmetic(symbol: Any, plain: Any) -> None:
    _register(
        symbol,
        lambda kind: kind if _instruction(plain, kind.dtype) else None,
        lambda builder, dtype, *args: getattr(builder, str(_instruction(plain, dtype)))(*args),
    )


def _register_comparison(symbol: Any, sign: str) -> None:
    _register(
        symbol,
        lambda kind: None if isinstance(kind.dtype, types.Boolean) else _with_dtype(kind, types.boolean),
        lambda builder, dtype, a, b: _compare(builder, dtype, sign, a, b),
    )


for _symbol in ARITHMETIC:
    _register_arithmetic(_symbol, _symbol)
for _symbol, _plain in IN_PLACE.items():
    _register_arithmetic(_symbol, _plain)
for _symbol, _sign in COMPARISONS.items():
    _register_comparison(_symbol, _sign)


# Functions of floats, lane by lane.
def _call(builder: Any, name: str, *args: Any) -> Any:
    """Call an LLVM intrinsic by its full name: llvmlite cannot make those of vectors."""
    kind = args[0].type
    element = kind.element if isinstance(kind, ir.VectorType) else kind
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    suffix = lanes + {"double": "f64", "float": "f32"}.get(str(element), str(element))
    function_type = ir.FunctionType(kind, [kind] * len(args))
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{suffix}")
    return builder.call(function, args)


def _lanewise(context: Any, kinds: Sequence[Kind], emit: Callable[..., Any]) -> Typed:
    """A function whose arguments and result share one type of floats."""
    kind = _common(context, kinds)
    if isinstance(kind, types.Integer):
        kind = types.float64
    if not isinstance(_dtype(kind), types.Float):
        return None
    return signature(kind, *[kind] * len(kinds)), lambda _, builder, sig, args: emit(builder, *args)


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any) -> Typed:
    """a * b + c, rounded once."""
    return _lanewise(context, (a, b, c), lambda builder, *args: _call(builder, "fma", *args))


@intrinsic
def sqrt(context: Any, x: Any) -> Typed:
    """The square root; NaN below zero."""
    return _lanewise(context, (x,), lambda builder, x: _call(builder, "sqrt", x))


@intrinsic
def fabs(context: Any, x: Any) -> Typed:
    """The absolute value."""
    return _lanewise(context, (x,), lambda builder, x: _call(builder, "fabs", x))


@intrinsic
def rint(context: Any, x: Any) -> Typed:
    """The nearest integer, as a float; halves go to the even one."""
    return _lanewise(context, (x,), lambda builder, x: _call(builder, "rint", x))


@intrinsic
def copysign(context: Any, size: Any, sign: Any) -> Typed:
    """|size| with the sign of `sign`."""
    return _lanewise(context, (size, sign), lambda builder, *args: _call(builder, "copysign", *args))


def _choose(builder: Any, sign: str, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(sign, a, b), a, b)


@intrinsic
def minimum(context: Any, a: Any, b: Any) -> Typed:
    """a if a < b else b, one instruction: a NaN in b comes through, a NaN in a gives b."""
    return _lanewise(context, (a, b), lambda builder, a, b: _choose(builder, "<", a, b))


@intrinsic
def maximum(context: Any, a: Any, b: Any) -> Typed:
    """a if a > b else b, one instruction: a NaN in b comes through, a NaN in a gives b."""
    return _lanewise(context, (a, b), lambda builder, a, b: _choose(builder, ">", a, b))


@intrinsic
def polynomial(context: Any, x: Any, coefficients: Any) -> Typed:
    """c0 + c1 x + c2 x² + ... for a tuple of numbers, by Horner's rule in fused steps, unrolled."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        scalars = cgutils.unpack_tuple(builder, args[1], len(coefficients))
        terms = [context.cast(builder, *pair, x) for pair in zip(scalars, coefficients, strict=True)]
        total = terms.pop()
        while terms:
            total = _call(builder, "fma", total, args[0], terms.pop())
        return total

    return signature(x, x, coefficients), emit


# Masks.
@intrinsic
def select(context: Any, mask: Any, a: Any, b: Any) -> Typed:
    """a where the mask is true, b elsewhere."""
    kind = _common(context, (a, b))
    if isinstance(mask, Vector) and not isinstance(kind, Vector):
        kind = Vector(kind, mask.lanes)
    if kind is None:
        return None
    return signature(kind, mask, kind, kind), lambda _, builder, sig, args: builder.select(*args)


def _of_all_lanes(mask: Kind, sign: str, bits: int) -> Typed:
    """Compare the lanes of a mask, as one integer, with `bits`."""
    whole = ir.IntType(mask.lanes if isinstance(mask, Vector) else 1)
    return signature(types.boolean, mask), lambda _, builder, sig, args: builder.icmp_unsigned(
        sign, builder.bitcast(args[0], whole), whole(bits)
    )


@intrinsic
def any_lane(context: Any, mask: Any) -> Typed:
    """Whether the mask is true in some lane."""
    return _of_all_lanes(mask, "!=", 0)


@intrinsic
def all_lanes(context: Any, mask: Any) -> Typed:
    """Whether the mask is true in every lane."""
    return _of_all_lanes(mask, "==", -1)


# Integers, and between types. `like` is a type, or any value of it.
@intrinsic
def rotate_left(context: Any, x: Any, count: Any) -> Typed:
    """The bits of unsigned integers, turned towards the high end."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        # The fence is no instruction. Without it LLVM moves turns by whole bytes past `^`, and makes two of one.
        number = context.get_value_type(_with_dtype(x, {32: types.float32, 64: types.float64}[_dtype(x).bitwidth]))
        apart = _call(builder, "arithmetic.fence", builder.bitcast(args[0], number))
        words = builder.bitcast(apart, args[0].type)
        return _call(builder, "fshl", words, words, args[1])

    return signature(x, x, x), emit


@intrinsic
def broadcast(context: Any, value: Any, like: Any) -> Typed:
    """`value` in every lane of the type of `like`; a vector of that type stays as it is."""
    kind = _meant(like)
    return signature(kind, kind, like), lambda _, builder, sig, args: args[0]


@intrinsic
def by_precision(context: Any, like: Any, double: Any, single: Any) -> Typed:
    """The first constant where `like` is in double precision, the second where it is in single."""
    which = 1 if _dtype(_meant(like)) == types.float64 else 2
    kinds = (like, double, single)
    return signature(kinds[which], *kinds), lambda _, builder, sig, args: args[which]


@intrinsic
def convert(context: Any, x: Any, like: Any) -> Typed:
    """The numbers of x in the type of `like`; those out of its range give anything."""
    kind = _meant(like)
    have, want = _dtype(types.unliteral(x)), _dtype(kind)
    if isinstance(have, types.Float) and isinstance(want, types.Float):
        change = "fpext" if want.bitwidth > have.bitwidth else "fptrunc"
    elif isinstance(have, types.Float):
        change = "fptosi" if want.signed else "fptoui"
    elif isinstance(want, types.Float):
        change = "sitofp" if have.signed else "uitofp"
    elif want.bitwidth > have.bitwidth:
        change = "sext" if have.signed else "zext"
    else:
        change = "trunc" if want.bitwidth < have.bitwidth else "bitcast"
    return signature(kind, x, like), lambda context, builder, sig, args: getattr(builder, change)(
        args[0], context.get_value_type(kind)
    )


@intrinsic
def bits(context: Any, x: Any) -> Typed:
    """The bits of floats, as signed integers of their width."""
    kind = _with_dtype(x, types.Integer.from_bitwidth(_dtype(x).bitwidth))
    return signature(kind, x), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(kind)
    )


@intrinsic
def from_bits(context: Any, x: Any, like: Any) -> Typed:
    """The floats, of the type of `like`, that have the bits x."""
    kind = _meant(like)
    # Numba widens int32 scalars in arithmetic, so these are first brought back to the width of `like`.
    exact = _with_dtype(kind, types.Integer.from_bitwidth(_dtype(kind).bitwidth))
    return signature(kind, exact, like), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(kind)
    )


# Single lanes, for the rare code that must treat runs one by one.
@intrinsic
def lane(context: Any, x: Any, index: Any) -> Typed:
    """The number in one lane; a scalar is its own."""
    if not isinstance(x, Vector):
        return signature(x, x, types.intp), lambda _, builder, sig, args: args[0]
    return signature(x.dtype, x, types.intp), lambda _, builder, sig, args: builder.extract_element(*args)


@intrinsic
def lane_sum(context: Any, x: Any) -> Typed:
    """The sum over the lanes of floats, upper half to lower half until one is left."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        total = args[0]
        for half in (8, 4, 2, 1):
            if half < x.lanes:
                upper = ir.Constant(ir.VectorType(ir.IntType(32), half), [half + k for k in range(half)])
                lower = ir.Constant(ir.VectorType(ir.IntType(32), half), list(range(half)))
                total = builder.fadd(
                    builder.shuffle_vector(total, total, lower), builder.shuffle_vector(total, total, upper)
                )
        return builder.extract_element(total, ir.IntType(32)(0))

    return signature(x.dtype, x), emit


def _rearranged(kind: Kind, lanes: Sequence[int], *args: Kind) -> Typed:
    """These lanes, counted through all arguments, of vectors or of tuples of them, one by one."""
    vector = kind.dtype if isinstance(kind, types.UniTuple) else kind
    made: Kind = Vector(vector.dtype, len(lanes))
    if isinstance(kind, types.UniTuple):
        made = types.UniTuple(made, kind.count)
    order = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        if not isinstance(kind, types.UniTuple):
            return builder.shuffle_vector(args[0], args[-1], order)
        unpacked = [cgutils.unpack_tuple(builder, arg, kind.count) for arg in (args[0], args[-1])]
        items = [builder.shuffle_vector(*pair, order) for pair in zip(*unpacked, strict=True)]
        return context.make_tuple(builder, made, items)

    return signature(made, *args), emit


def _lanes_of(kind: Kind) -> int:
    return int((kind.dtype if isinstance(kind, types.UniTuple) else kind).lanes)


@intrinsic
def join(context: Any, a: Any, b: Any) -> Typed:
    """The lanes of a, then those of b, in a vector twice as wide; of tuples of vectors, one by one."""
    return _rearranged(a, range(2 * _lanes_of(a)), a, a)


@intrinsic
def low_half(context: Any, x: Any) -> Typed:
    """The first half of the lanes; of tuples of vectors, one by one."""
    return _rearranged(x, range(_lanes_of(x) // 2), x)


@intrinsic
def high_half(context: Any, x: Any) -> Typed:
    """The second half of the lanes; of tuples of vectors, one by one."""
    return _rearranged(x, range(_lanes_of(x) // 2, _lanes_of(x)), x)


@intrinsic
def words_like(context: Any, like: Any) -> Typed:
    """Zeros of 32 bits, as many as `like` has lanes: the type of a cipher's words beside it."""
    kind = _with_dtype(_meant(like), types.uint32)
    return signature(kind, like), lambda context, builder, sig, args: context.get_constant_null(kind)


@intrinsic
def lane_numbers(context: Any, like: Any) -> Typed:
    """0, 1, 2, ... in the lanes of the integer vector type of `like`."""
    kind = _meant(like)
    return signature(kind, like), lambda context, builder, sig, args: ir.Constant(
        context.get_value_type(kind), list(range(kind.lanes))
    )


@intrinsic
def keep_apart(context: Any) -> Typed:
    """Forbid LLVM to inline the function this is called in, where that would spoil the code around the call."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return signature(types.none), emit


# Memory: C-contiguous arrays whose last axis is the lanes, or the last two for two lines of them, or arrays of scalars
# where every axis is given. Indices are not checked and do not wrap around.
LINE = 512  # bits


def aligned_zeros(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Zeros that begin at a cache line, as NumPy's own need not: a gradient over them is 6 % faster."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    scratch = np.zeros(size + 63, np.uint8)
    begin = -scratch.ctypes.data % 64
    return scratch[begin : begin + size].view(dtype).reshape(shape)


def _lines(kind: Vector) -> int:
    """How many axes the lanes take: one for a cache line or less of them, one more for two lines."""
    return 2 if kind.lanes * kind.dtype.bitwidth > LINE else 1


def lanes_at(array: Kind, indices: int) -> Kind:
    """What lies at so many indices: a scalar, or the lanes of the one or two axes that are left."""
    left = array.ndim - indices
    return Vector(array.dtype, left * LINE // array.dtype.bitwidth) if left > 0 else array.dtype


def _place(array: Kind, indices: Sequence[Kind], kind: Kind) -> Kind:
    """The type of the indices, if they lead to a `kind` in the array."""
    axes = len(indices) + (_lines(kind) if isinstance(kind, Vector) else 0)
    if not isinstance(array, types.Array) or array.layout != "C" or array.ndim != axes:
        return None
    fits = array.dtype == _dtype(kind) and all(isinstance(index, types.Integer) for index in indices)
    return types.StarArgTuple([types.intp] * len(indices)) if fits else None


def _address(context: Any, builder: Any, sig: Signature, args: Any, kind: Kind) -> Any:
    """Where `array[indices]` begins, the last two of args, as a pointer to `kind`."""
    return address_in(context, builder, sig.args[-2], args[-2], cgutils.unpack_tuple(builder, args[-1]), kind)


def address_in(context: Any, builder: Any, array: Kind, value: Any, indices: Sequence[Any], kind: Kind) -> Any:
    """Where an array has the `kind` that begins at these indices, as a pointer to it."""
    view = context.make_array(array)(context, builder, value)
    extents = cgutils.unpack_tuple(builder, view.shape, array.ndim)
    offset = context.get_constant(types.intp, 0)
    for extent, index in zip(extents, indices, strict=False):
        offset = builder.add(builder.mul(offset, extent), index)
    if isinstance(kind, Vector):
        offset = builder.mul(offset, context.get_constant(types.intp, kind.lanes))
    begin = builder.gep(view.data, [offset], inbounds=True)
    return builder.bitcast(begin, context.get_value_type(kind).as_pointer())


@intrinsic_of_literals
def scratch(context: Any, like: Any, count: Any) -> Typed:
    """An array on the stack, its values not set, of so many (a constant) of the type of `like`."""
    kind = _meant(like)
    lanes = (*[2] * (_lines(kind) - 1), kind.lanes // _lines(kind)) if isinstance(kind, Vector) else ()
    shape = (count.literal_value, *lanes)
    array = types.Array(_dtype(kind), len(shape), "C")

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        place = cgutils.alloca_once(builder, context.get_value_type(kind), size=count.literal_value)
        place.align = LINE // 8
        view, number, itemsize = context.make_array(array)(context, builder), ir.IntType(64), _dtype(kind).bitwidth // 8
        populate_array(
            view,
            data=builder.bitcast(place, view.data.type),
            shape=[number(extent) for extent in shape],
            strides=[number(itemsize * math.prod(shape[axis + 1 :])) for axis in range(len(shape))],
            itemsize=number(itemsize),
            meminfo=None,
        )
        return view._getvalue()

    return signature(array, like, count), emit


def _load(array: Kind, indices: Sequence[Kind], kind: Kind, *like: Kind) -> Typed:
    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        # NumPy aligns arrays to an element, not to a cache line.
        return builder.load(_address(context, builder, sig, args, kind), align=_dtype(kind).bitwidth // 8)

    place = _place(array, indices, kind)
    return None if place is None else (signature(kind, *like, array, place), emit)


@intrinsic
def load(context: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] as a cache line of lanes, array[*indices, :, :] as two, array[*indices] as a scalar."""
    return _load(array, indices, lanes_at(array, len(indices)))


@intrinsic
def load_as(context: Any, like: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] as the type of `like`: `uint32x8` is half a cache line."""
    return _load(array, indices, _meant(like), like)


@intrinsic
def load_wide(context: Any, like: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] or a scalar array[*indices], as numbers like those of `like`, which has all of the array's.

    Lanes are as many as `like` has, however narrow the numbers are that lie in the array.
    """
    kind = _meant(like)
    lies = Vector(array.dtype, kind.lanes) if array.ndim > len(indices) else array.dtype
    wide = _with_dtype(lies, _dtype(kind))
    place = _place(array, indices, lies)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        bits = array.dtype.bitwidth
        value = builder.load(_address(context, builder, sig, args, lies), align=bits // 8)
        if wide == lies:
            return value
        change = builder.fpext if isinstance(array.dtype, types.Float) else builder.sitofp
        return change(value, context.get_value_type(wide))

    return None if place is None else (signature(wide, like, array, place), emit)


@intrinsic
def store(context: Any, value: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] = value, or array[*indices] = value for a scalar."""
    kind = value if isinstance(value, Vector) else array.dtype

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        builder.store(args[0], _address(context, builder, sig, args, kind), align=_dtype(kind).bitwidth // 8)
        return context.get_dummy_value()

    place = _place(array, indices, kind)
    return None if place is None else (signature(types.none, kind, array, place), emit)


@intrinsic
def store_rows(context: Any, values: Any, array: Any, first: Any) -> Typed:
    """array[first + k, :] = the k-th vector of a tuple, for all of them."""
    indices = types.UniTuple(types.intp, 1)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        for k, value in enumerate(cgutils.unpack_tuple(builder, args[0], values.count)):
            place = context.make_tuple(builder, indices, [builder.add(args[2], ir.IntType(64)(k))])
            row = signature(types.none, array, indices)
            address = _address(context, builder, row, [args[1], place], values.dtype)
            builder.store(value, address, align=values.dtype.dtype.bitwidth // 8)
        return context.get_dummy_value()

    fits = _place(array, [types.intp], values.dtype) is not None
    return (signature(types.none, values, array, types.intp), emit) if fits else None


@intrinsic
def store_across(context: Any, value: Any, array: Any, row: Any, column: Any) -> Typed:
    """array[row, k, column] = lane k of the value, for every lane."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        vector, view, row, column = args
        for k in range(value.lanes):
            lane, place = ir.IntType(64)(k), context.make_tuple(builder, indices, [row, ir.IntType(64)(k), column])
            address = _address(context, builder, signature(types.none, array, indices), [view, place], array.dtype)
            builder.store(builder.extract_element(vector, lane), address)
        return context.get_dummy_value()

    indices = types.UniTuple(types.intp, 3)
    return signature(types.none, value, array, types.intp, types.intp), emit


@intrinsic_of_literals
def prefetch(context: Any, rows: Any, like: Any, array: Any, first: Any, part: Any) -> Typed:
    """Ask for a part of array[first : first + rows] in the second-level cache; it may lie beyond the end.

    So many rows (a constant) have as many parts as one has entries, or fewer: a part is whole cache lines. An entry is
    a number, or as many as `like` has lanes.
    """
    several, lanes = rows.literal_value, _meant(like).lanes if array.ndim > 2 else 1
    lines = -(-several * lanes * array.dtype.bitwidth // LINE)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        byte, flag, number = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)
        ask = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, ask, "llvm.prefetch.p0")
        indices = [args[3], *[number(0)] * (array.ndim - 1)]
        begin = builder.bitcast(address_in(context, builder, array, args[2], indices, array.dtype), byte)
        for line in range(lines):
            offset = builder.mul(builder.add(builder.mul(args[4], number(lines)), number(line)), number(LINE // 8))
            # To read, into the second level, data.
            builder.call(function, [builder.gep(begin, [offset]), flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return signature(types.none, rows, like, array, types.intp, types.intp), emit
