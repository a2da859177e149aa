"""Lane vectors: a SIMD value type for Numba.

A lane vector holds one number of each of several independent runs, and a kernel written with it reads as
the formula of one run. A vector of floats is one 64-byte cache line: `float64x8` or `float32x16`.

- Operators work lane by lane; a scalar operand takes the type of the vector it meets (`2.0 * x`, `x > 0.0`).
- Comparisons give masks (`bool_x8`, `bool_x16`) for `select`, `any_lane` and `all_lanes`.
- Functions take vectors and plain scalars alike, so one text serves both, with the same bits.

Every operation is the IEEE one, with no fast-math flag: `contract` would let LLVM fuse a product and a sum
in one kernel and not in another, `arcp` and `reassoc` change results outright. A fused product is written
`fma(a, b, c)`. So the bits of a run depend on neither its lane, the kernel, nor the machine.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, Signature, infer_global, signature
from numba.extending import (
    intrinsic as _intrinsic,
)
from numba.extending import (
    lower_builtin,
    lower_cast,
    models,
    register_model,
)

# Numba carries no annotations; this says what its decorator does.
intrinsic: Callable[[Callable[..., Any]], Any] = _intrinsic
Typed = tuple[Signature, Callable[..., Any]] | None


class Vector(types.Type):  # type: ignore[misc]
    """The Numba type of `lanes` values of type `dtype` in one LLVM vector."""

    def __init__(self, dtype: types.Type, lanes: int) -> None:
        self.dtype = dtype
        self.lanes = lanes
        super().__init__(name=f"{dtype}x{lanes}")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector is the LLVM vector of its lanes, in registers, locals, tuples and arguments."""

    def __init__(self, dmm: Any, fe_type: Vector) -> None:
        element = dmm.lookup(fe_type.dtype).get_value_type()
        super().__init__(dmm, fe_type, ir.VectorType(element, fe_type.lanes))


float64x8 = Vector(types.float64, 8)
int64x8 = Vector(types.int64, 8)
uint64x8 = Vector(types.uint64, 8)
uint32x8 = Vector(types.uint32, 8)
bool_x8 = Vector(types.boolean, 8)
float32x16 = Vector(types.float32, 16)
int32x16 = Vector(types.int32, 16)
uint32x16 = Vector(types.uint32, 16)
bool_x16 = Vector(types.boolean, 16)


def _dtype(kind: types.Type) -> types.Type:
    return kind.dtype if isinstance(kind, Vector) else types.unliteral(kind)


def _with_dtype(kind: types.Type, dtype: types.Type) -> types.Type:
    """The type shaped like `kind`, vector or scalar, whose values are `dtype`."""
    return Vector(dtype, kind.lanes) if isinstance(kind, Vector) else dtype


def _common(context: Any, kinds: Sequence[types.Type]) -> types.Type | None:
    """The type operands meet in: that of the vectors, which must agree, else what Numba makes of scalars."""
    vectors = {kind for kind in kinds if isinstance(kind, Vector)}
    if len(vectors) == 1:
        return vectors.pop()
    return None if vectors else context.unify_types(*map(types.unliteral, kinds))


# --- Scalars become vectors ---------------------------------------------------------------------------


@lower_cast(types.Integer, Vector)
@lower_cast(types.Float, Vector)
@lower_cast(types.Boolean, Vector)
def _splat(context: Any, builder: Any, source: types.Type, target: Vector, value: Any) -> Any:
    scalar = context.cast(builder, value, source, target.dtype)
    single = ir.VectorType(scalar.type, 1)
    first = builder.insert_element(ir.Constant(single, ir.Undefined), scalar, ir.IntType(32)(0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), target.lanes), [0] * target.lanes)
    return builder.shuffle_vector(first, ir.Constant(single, ir.Undefined), everywhere)


# --- Operators ----------------------------------------------------------------------------------------

# The LLVM instruction for floats, signed integers, unsigned integers and masks; None where there is none.
OPERATORS: dict[Any, tuple[str | None, str | None, str | None, str | None]] = {
    operator.add: ("fadd", "add", "add", None),
    operator.sub: ("fsub", "sub", "sub", None),
    operator.mul: ("fmul", "mul", "mul", None),
    operator.truediv: ("fdiv", None, None, None),
    operator.and_: (None, "and_", "and_", "and_"),
    operator.or_: (None, "or_", "or_", "or_"),
    operator.xor: (None, "xor", "xor", "xor"),
    operator.lshift: (None, "shl", "shl", None),
    operator.rshift: (None, "ashr", "lshr", None),
    operator.neg: ("fneg", "neg", "neg", None),
    operator.invert: (None, "not_", "not_", "not_"),
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
COMPARISONS: dict[Any, str] = {
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.eq: "==",
    operator.ne: "!=",
}


def _instruction(symbol: Any, dtype: types.Type) -> str | None:
    floating, signed, unsigned, mask = OPERATORS[symbol]
    if isinstance(dtype, types.Float):
        return floating
    if isinstance(dtype, types.Boolean):
        return mask
    return signed if dtype.signed else unsigned


def _register(symbol: Any, result: Callable[[Vector], types.Type | None], emit: Callable[..., Any]) -> None:
    """Teach Numba one operator on vectors: `result` types it (None where undefined), `emit` writes it."""

    @infer_global(symbol)
    class Operator(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Sequence[types.Type], kws: dict[str, types.Type]) -> Signature | None:
            if not any(isinstance(kind, Vector) for kind in args):
                return None
            kind = _common(self.context, args)
            returned = None if kind is None else result(kind)
            return None if returned is None else signature(returned, *[kind] * len(args))

    for arity in (1, 2):
        lower_builtin(symbol, *[Vector] * arity)(
            lambda _, builder, sig, args: emit(builder, sig.args[0].dtype, *args)
        )


def _register_arithmetic(symbol: Any, immutable: Any) -> None:
    _register(
        symbol,
        lambda kind: kind if _instruction(immutable, kind.dtype) else None,
        lambda builder, dtype, *args: getattr(builder, _instruction(immutable, dtype) or "")(*args),
    )


def _register_comparison(symbol: Any, sign: str) -> None:
    def emit(builder: Any, dtype: types.Type, a: Any, b: Any) -> Any:
        if isinstance(dtype, types.Float):
            # As in IEEE and NumPy, only != is true of a NaN.
            return (builder.fcmp_unordered if sign == "!=" else builder.fcmp_ordered)(sign, a, b)
        return (builder.icmp_signed if dtype.signed else builder.icmp_unsigned)(sign, a, b)

    _register(symbol, lambda kind: None if kind.dtype is types.boolean else _with_dtype(kind, types.boolean), emit)


for _symbol in OPERATORS:
    _register_arithmetic(_symbol, _symbol)
for _symbol, _immutable in IN_PLACE.items():
    _register_arithmetic(_symbol, _immutable)
for _symbol, _sign in COMPARISONS.items():
    _register_comparison(_symbol, _sign)


# --- Functions of vectors and scalars -----------------------------------------------------------------


def _call(builder: Any, name: str, *args: Any) -> Any:
    """Call an LLVM intrinsic by its full name, since llvmlite cannot mangle vector types."""
    kind = args[0].type
    element = getattr(kind, "element", kind)
    letter = {"double": "f64", "float": "f32"}.get(str(element), str(element))
    lanes = f"v{kind.count}" if isinstance(kind, ir.VectorType) else ""
    function_type = ir.FunctionType(kind, [arg.type for arg in args])
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{lanes}{letter}"), args
    )


def _lanewise(context: Any, kinds: Sequence[types.Type], emit: Callable[..., Any]) -> Typed:
    """Type a function whose arguments and result share one floating or integer type."""
    kind = _common(context, kinds)
    if kind is None:
        return None
    if isinstance(kind, types.Integer):
        kind = types.float64
    return signature(kind, *[kind] * len(kinds)), lambda _, builder, sig, args: emit(builder, *args)


def _lane_call(context: Any, kinds: Sequence[types.Type], name: str) -> Typed:
    return _lanewise(context, kinds, lambda builder, *args: _call(builder, name, *args))


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any) -> Typed:
    """a * b + c, rounded once."""
    return _lane_call(context, (a, b, c), "fma")


@intrinsic
def sqrt(context: Any, x: Any) -> Typed:
    """The square root; NaN below zero."""
    return _lane_call(context, (x,), "sqrt")


@intrinsic
def fabs(context: Any, x: Any) -> Typed:
    """The absolute value (the built-in `abs` does the same)."""
    return _lane_call(context, (x,), "fabs")


@intrinsic
def rint(context: Any, x: Any) -> Typed:
    """The nearest integer as a float; halves go to the even one."""
    return _lane_call(context, (x,), "rint")


@intrinsic
def floor(context: Any, x: Any) -> Typed:
    """The largest integer not above x, as a float."""
    return _lane_call(context, (x,), "floor")


@intrinsic
def copysign(context: Any, x: Any, sign: Any) -> Typed:
    """The magnitude of x with the sign of `sign`."""
    return _lane_call(context, (x, sign), "copysign")


@intrinsic
def minimum(context: Any, a: Any, b: Any) -> Typed:
    """a if a < b else b: a NaN in b comes through, a NaN in a does not; one instruction."""
    return _lanewise(context, (a, b), lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


@intrinsic
def maximum(context: Any, a: Any, b: Any) -> Typed:
    """a if a > b else b: a NaN in b comes through, a NaN in a does not; one instruction."""
    return _lanewise(context, (a, b), lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))


@intrinsic
def select(context: Any, mask: Any, a: Any, b: Any) -> Typed:
    """a where the mask is true, b elsewhere; both are computed."""
    kind = _common(context, (a, b))
    if kind is None:
        return None
    if isinstance(mask, Vector) and not isinstance(kind, Vector):
        kind = Vector(kind, mask.lanes)
    return signature(kind, mask, kind, kind), lambda _, builder, sig, args: builder.select(*args)


@intrinsic
def any_lane(context: Any, mask: Any) -> Typed:
    """Whether the mask is true in some lane."""

    def emit(_: Any, builder: Any, sig: Signature, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(mask.lanes))
        return builder.icmp_unsigned("!=", bits, bits.type(0))

    return (signature(types.boolean, mask), emit) if isinstance(mask, Vector) else None


@intrinsic
def all_lanes(context: Any, mask: Any) -> Typed:
    """Whether the mask is true in every lane."""

    def emit(_: Any, builder: Any, sig: Signature, args: Any) -> Any:
        bits = builder.bitcast(args[0], ir.IntType(mask.lanes))
        return builder.icmp_unsigned("==", bits, bits.type(-1))

    return (signature(types.boolean, mask), emit) if isinstance(mask, Vector) else None


@intrinsic
def rotate_left(context: Any, x: Any, count: Any) -> Typed:
    """The bits of integers rotated towards the high end."""
    kind = _common(context, (x, count)) if isinstance(x, Vector) else types.unliteral(x)
    return signature(kind, kind, kind), lambda _, builder, sig, args: _call(builder, "fshl", args[0], *args)


# --- Between types ------------------------------------------------------------------------------------


def _kind_of(like: types.Type) -> types.Type:
    """The type meant by `like`: a type written in the kernel, or any value of it."""
    if isinstance(like, types.TypeRef):
        return like.instance_type
    return like.dtype if isinstance(like, types.NumberClass) else types.unliteral(like)


@intrinsic
def broadcast(context: Any, value: Any, like: Any) -> Typed:
    """`value` in every lane of the type of `like`; a vector of that type already is itself."""
    kind = _kind_of(like)
    return signature(kind, kind, like), lambda _, builder, sig, args: args[0]


@intrinsic
def convert(context: Any, x: Any, like: Any) -> Typed:
    """The numbers of x in the type of `like`, lane by lane; a float must lie in the integer's range."""
    kind = _kind_of(like)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        have, want = _dtype(x), _dtype(kind)
        target = context.get_value_type(kind)
        if isinstance(have, types.Float) and isinstance(want, types.Float):
            change = builder.fpext if want.bitwidth > have.bitwidth else builder.fptrunc
        elif isinstance(have, types.Float):
            change = builder.fptosi if want.signed else builder.fptoui
        elif isinstance(want, types.Float):
            change = builder.sitofp if have.signed else builder.uitofp
        elif want.bitwidth > have.bitwidth:
            change = builder.sext if have.signed else builder.zext
        else:
            change = builder.trunc
        same = target == args[0].type
        return args[0] if same else change(args[0], target)

    return signature(kind, x, like), emit


@intrinsic
def bits(context: Any, x: Any) -> Typed:
    """The bits of floats as signed integers of the same width."""
    kind = _with_dtype(x, types.int64 if _dtype(x) == types.float64 else types.int32)
    return signature(kind, x), lambda context, builder, sig, args: builder.bitcast(
        args[0], context.get_value_type(kind)
    )


@intrinsic
def from_bits(context: Any, x: Any, like: Any) -> Typed:
    """The floats, of the type of `like`, that have the bits of the integers x (its low bits, if longer)."""
    kind = _kind_of(like)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        target = context.get_value_type(kind)
        if isinstance(x, Vector) or target.__class__.__name__ == "DoubleType":
            return builder.bitcast(args[0], target)
        return builder.bitcast(builder.trunc(args[0], ir.IntType(32)), target)

    return signature(kind, x, like), emit


# --- Memory -------------------------------------------------------------------------------------------


def _address(context: Any, builder: Any, kind: types.Type, sig: Signature, args: Any) -> Any:
    """The address of `array[indices]`, as a pointer to `kind`: no bounds, no wrap-around, no strides."""
    array, indices = sig.args[-2:]
    view = context.make_array(array)(context, builder, args[-2])
    shape = cgutils.unpack_tuple(builder, view.shape, array.ndim)
    offset = context.get_constant(types.intp, 0)
    for extent, index in zip(shape, cgutils.unpack_tuple(builder, args[-1], len(indices)), strict=False):
        offset = builder.add(builder.mul(offset, extent), index)
    if isinstance(kind, Vector):
        offset = builder.mul(offset, context.get_constant(types.intp, kind.lanes))
    pointer = builder.gep(view.data, [offset], inbounds=True)
    return builder.bitcast(pointer, context.get_value_type(kind).as_pointer())


def _check(array: types.Type, indices: Sequence[types.Type], kind: types.Type) -> types.StarArgTuple | None:
    """The type of the indices, where they fit a C-contiguous array of `kind`."""
    axes = len(indices) + isinstance(kind, Vector)
    fits = isinstance(array, types.Array) and array.layout == "C" and array.ndim == axes
    return types.StarArgTuple([types.intp] * len(indices)) if fits and array.dtype == _dtype(kind) else None


def _load(array: types.Type, indices: Sequence[types.Type], kind: types.Type, *lead: types.Type) -> Typed:
    positions = _check(array, indices, kind)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        # NumPy promises the alignment of an element, not of a cache line.
        return builder.load(_address(context, builder, kind, sig, args), align=_dtype(kind).bitwidth // 8)

    return None if positions is None else (signature(kind, *lead, array, positions), emit)


@intrinsic
def load(context: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] as one cache line of lanes: the last axis of a C-contiguous array."""
    return _load(array, indices, Vector(array.dtype, 512 // array.dtype.bitwidth))


@intrinsic
def load_as(context: Any, like: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] as a vector of the type of `like`: for `uint32x8`, half a cache line."""
    return _load(array, indices, _kind_of(like), like)


@intrinsic
def entry(context: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices], a scalar, without the wrap-around check that Numba's signed indices cost."""
    return _load(array, indices, array.dtype)


@intrinsic
def store(context: Any, value: Any, array: Any, *indices: Any) -> Typed:
    """array[*indices, :] = value."""
    positions = _check(array, indices, value)

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        pointer = _address(context, builder, value, sig, args)
        builder.store(args[0], pointer, align=value.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return None if positions is None else (signature(types.none, value, array, positions), emit)


@intrinsic
def lane(context: Any, x: Any, index: Any) -> Typed:
    """The scalar in one lane."""
    return signature(x.dtype, x, types.intp), lambda _, builder, sig, args: builder.extract_element(*args)


@intrinsic
def with_lane(context: Any, x: Any, index: Any, value: Any) -> Typed:
    """x with one lane replaced."""
    return signature(x, x, types.intp, x.dtype), lambda _, builder, sig, args: builder.insert_element(
        args[0], args[2], args[1]
    )


@intrinsic
def lane_numbers(context: Any, like: Any) -> Typed:
    """0, 1, 2, ... in the integer lanes of the type of `like`."""
    kind = _kind_of(like)
    return signature(kind, like), lambda context, builder, sig, args: ir.Constant(
        context.get_value_type(kind), list(range(kind.lanes))
    )


# --- Polynomials --------------------------------------------------------------------------------------


@intrinsic
def by_precision(context: Any, x: Any, double: Any, single: Any) -> Typed:
    """The first constant (a number or a tuple) where x is in double precision, the second in single."""
    which = 1 if _dtype(x) == types.float64 else 2
    kinds = (x, double, single)
    return signature(kinds[which], *kinds), lambda _, builder, sig, args: args[which]


@intrinsic
def polynomial(context: Any, x: Any, coefficients: Any) -> Typed:
    """c0 + c1 x + c2 x² + ... by Horner's rule in fused steps, unrolled: c is a tuple of numbers."""

    def emit(context: Any, builder: Any, sig: Signature, args: Any) -> Any:
        kinds = sig.args[1]
        values = cgutils.unpack_tuple(builder, args[1], len(kinds))
        terms = [context.cast(builder, value, kind, x) for value, kind in zip(values, kinds, strict=True)]
        total = terms[-1]
        for term in reversed(terms[:-1]):
            total = _call(builder, "fma", total, args[0], term)
        return total

    return signature(x, x, coefficients), emit
