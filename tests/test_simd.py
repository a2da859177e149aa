"""The lane vectors: NumPy's operations in every lane, and scalars that run the same text to the same bits."""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from numpy.typing import NDArray

from fastldp.kernels.jit import formula, serial
from fastldp.kernels.simd import (
    aligned_zeros,
    all_lanes,
    any_lane,
    bits,
    boolx8,
    broadcast,
    by_precision,
    convert,
    copysign,
    fabs,
    float32x16,
    float64x8,
    fma,
    from_bits,
    high_half,
    int32x16,
    int64x8,
    join,
    lane,
    lane_numbers,
    lane_sum,
    load,
    load_as,
    low_half,
    maximum,
    minimum,
    polynomial,
    prefetch,
    rint,
    rotate_left,
    scratch,
    select,
    sqrt,
    store,
    store_across,
    store_rows,
    uint32x8,
    uint32x16,
    uint64x8,
)

Array = NDArray[Any]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-40, 3.0, -7.25]
FLOATS = [(np.float64, 8), (np.float32, 16)]
INTEGERS = [
    (np.int64, int64x8),
    (np.uint64, uint64x8),
    (np.uint32, uint32x8),
    (np.int32, int32x16),
    (np.uint32, uint32x16),
]


def quiet() -> np.errstate:
    """NumPy warns where IEEE gives inf or NaN, which are among the cases."""
    return np.errstate(all="ignore")


def float_pairs(dtype: Any, lanes: int) -> tuple[Array, Array]:
    """Every pair of special values, then random ones."""
    random = np.random.default_rng(5)
    a, b = (grid.ravel() for grid in np.meshgrid(SPECIAL, SPECIAL))
    a = np.concatenate([a, random.normal(size=512) * 10.0 ** random.integers(-9, 9, 512)])
    b = np.concatenate([b, random.normal(size=512) * 10.0 ** random.integers(-9, 9, 512)])
    with quiet():
        return a.astype(dtype).reshape(-1, lanes), b.astype(dtype).reshape(-1, lanes)


def same(computed: Array, reference: Array) -> None:
    """Bit for bit, except that any NaN is as good as another."""
    assert computed.dtype == reference.dtype
    np.testing.assert_array_equal(computed, reference)
    numbers = ~np.isnan(reference)
    np.testing.assert_array_equal(np.signbit(computed[numbers]), np.signbit(reference[numbers]))


@serial
def float_operators(A: Any, B: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        a, b = load(A, k), load(B, k)
        store(a + b, out, 0, k)
        store(a - b, out, 1, k)
        store(a * b, out, 2, k)
        store(a / b, out, 3, k)
        store(-a, out, 4, k)
        store(select(a < b, a, b), out, 5, k)
        store(select(a <= b, a, b), out, 6, k)
        store(select(a > b, a, b), out, 7, k)
        store(select(a >= b, a, b), out, 8, k)
        store(select(a == b, 1.0, a), out, 9, k)
        store(select(a != b, 1.0, a), out, 10, k)
        store(select((a < b) & (b > 0.0) | ~(a < 1.0) ^ (b > 2.0), 1.0, 0.0 * a), out, 11, k)


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_float_operators_are_those_of_numpy(dtype: Any, lanes: int) -> None:
    a, b = float_pairs(dtype, lanes)
    out = np.empty((12, *a.shape), dtype)
    float_operators(a, b, out)
    one = dtype(1.0)
    with quiet():
        reference = [
            a + b,
            a - b,
            a * b,
            a / b,
            -a,
            np.where(a < b, a, b),
            np.where(a <= b, a, b),
            np.where(a > b, a, b),
            np.where(a >= b, a, b),
            np.where(a == b, one, a),
            np.where(a != b, one, a),
            np.where((a < b) & (b > 0.0) | ~(a < 1.0) ^ (b > 2.0), one, 0 * a),
        ]
    for row, expected in enumerate(reference):
        same(out[row], expected)


@serial
def integer_operators(like: Any, A: Any, B: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        a, b = load_as(like, A, k), load_as(like, B, k)
        store(a + b, out, 0, k)
        store(a - b, out, 1, k)
        store(a * b, out, 2, k)
        store(a & b, out, 3, k)
        store(a | b, out, 4, k)
        store(a ^ b, out, 5, k)
        store(~a, out, 6, k)
        store(a << 3, out, 7, k)
        store(a >> (b & 31), out, 8, k)
        store(select(a < b, a, b), out, 9, k)
        store(select(a >= 7, 7, a), out, 10, k)
        store(-a + lane_numbers(like), out, 11, k)


@pytest.mark.parametrize(("dtype", "kind"), INTEGERS, ids=str)
def test_integer_operators_are_those_of_numpy(dtype: Any, kind: Any) -> None:
    information = np.iinfo(dtype)
    random = np.random.default_rng(6)
    a = random.integers(information.min, information.max, (64, kind.lanes), dtype, endpoint=True)
    b = random.integers(information.min, information.max, (64, kind.lanes), dtype, endpoint=True)
    out = np.empty((12, *a.shape), dtype)
    integer_operators(kind, a, b, out)
    seven = dtype(7)
    reference = [a + b, a - b, a * b, a & b, a | b, a ^ b, ~a, a << dtype(3), a >> (b & dtype(31))]
    reference += [np.where(a < b, a, b), np.where(a >= seven, seven, a)]
    reference += [np.zeros_like(a) - a + np.arange(kind.lanes, dtype=dtype)]
    for row, expected in enumerate(reference):
        np.testing.assert_array_equal(out[row], expected)


@serial
def float_functions(A: Any, B: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        a, b = load(A, k), load(B, k)
        store(sqrt(a), out, 0, k)
        store(fabs(a), out, 1, k)
        store(rint(a), out, 2, k)
        store(copysign(a, b), out, 3, k)
        store(minimum(a, b), out, 4, k)
        store(maximum(a, b), out, 5, k)
        store(from_bits(bits(a), a), out, 6, k)


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_functions_are_those_of_numpy(dtype: Any, lanes: int) -> None:
    a, b = float_pairs(dtype, lanes)
    out = np.empty((7, *a.shape), dtype)
    float_functions(a, b, out)
    with quiet():
        # A NaN in the second argument of minimum and maximum comes through, one in the first does not.
        smaller, larger = np.where(a < b, a, b), np.where(a > b, a, b)
        reference = [np.sqrt(a), np.abs(a), np.rint(a), np.copysign(a, b), smaller, larger, a]
    for row, expected in enumerate(reference):
        same(out[row], expected)


@formula
def text(a: Any, b: Any) -> Any:
    """One formula for vectors and scalars."""
    root = sqrt(fabs(a)) / fma(b, b, 1.0)
    step = select(a > b, rint(root * 8.0), rint(-a))
    low = polynomial(root, (0.1, -0.7, 1e-3, 2.0))
    tiny = from_bits(bits(root) & ~0xFF, root)
    return minimum(2.0, maximum(low, 2 * step - b)) * copysign(1.5, b) + tiny * by_precision(a, 1.0, 2.0)


@serial
def text_on_lanes(A: Any, B: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        store(text(load(A, k), load(B, k)), out, k)


@serial
def text_on_scalars(A: Any, B: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[k, j] = text(A[k, j], B[k, j])


def test_scalars_give_the_bits_of_lanes() -> None:
    a, b = float_pairs(np.float64, 8)
    in_lanes, in_scalars = np.empty_like(a), np.empty_like(a)
    text_on_lanes(a, b, in_lanes)
    text_on_scalars(a, b, in_scalars)
    same(in_lanes, in_scalars)


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_a_result_does_not_depend_on_its_lane(dtype: Any, lanes: int) -> None:
    a, b = float_pairs(dtype, lanes)
    straight, turned = np.empty_like(a), np.empty_like(a)
    text_on_lanes(a, b, straight)
    for shift in range(1, lanes):
        rolled = [np.ascontiguousarray(np.roll(x, shift, axis=1)) for x in (a, b)]
        text_on_lanes(*rolled, turned)
        same(turned, np.roll(straight, shift, axis=1))


@serial
def fused_and_not(A: Any, B: Any, C: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        a, b, c = load(A, k), load(B, k), load(C, k)
        store(fma(a, b, c), out, 0, k)
        store(a * b + c, out, 1, k)


def test_only_fma_is_fused() -> None:
    a, b = np.random.default_rng(7).normal(size=(2, 64, 8))
    c = -a * b
    out = np.empty((2, 64, 8))
    fused_and_not(a, b, c, out)
    exact = [float(Fraction(x) * Fraction(y) + Fraction(z)) for x, y, z in zip(a.flat, b.flat, c.flat, strict=True)]
    np.testing.assert_array_equal(out[0].ravel(), exact)
    assert np.count_nonzero(out[0]) > 400
    np.testing.assert_array_equal(out[1], 0.0)


@serial
def in_place(A: Any, out: Any) -> None:
    total = broadcast(0, float64x8)
    for k in range(A.shape[0]):
        total += load(A, k)
        total *= 0.5
        total -= 1
    total /= 3.0
    word = broadcast(1, uint32x8)
    word <<= 5
    word |= 3
    word ^= 1
    word &= 0xFF
    word >>= 1
    store(total + convert(word, total), out)


def test_in_place_operators() -> None:
    A = np.random.default_rng(8).normal(size=(5, 8))
    out = np.empty(8)
    in_place(A, out)
    total = np.zeros(8)
    for row in A:
        total = (total + row) * 0.5 - 1
    np.testing.assert_array_equal(out, total / 3.0 + 17.0)


@serial
def conversions(F: Any, W: Any, I: Any, floats: Any, integers: Any, words: Any) -> None:  # noqa: E741
    store(convert(load_as(uint32x8, W), float64x8), floats, 0)
    store(convert(load(I), float64x8), floats, 1)
    store(convert(load(F), int64x8), integers, 0)
    store(convert(load_as(uint32x8, W), int64x8), integers, 1)
    store(bits(load(F)), integers, 2)
    store(convert(load(I), uint32x8), words, 0)
    store(rotate_left(load_as(uint32x8, W), 7), words, 1)


def test_conversions_and_bits() -> None:
    F = np.array([0.0, -1.5, 2.5, 1e15, -1e15, 3.999, -0.0, 7.0])
    W = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 12345, 7, 2**24 + 1], np.uint32)
    integers = np.array([0, -1, 2**40, -(2**40), 5, 6, 7, 2**53], np.int64)
    floats_out, integers_out, words_out = (
        np.empty((2, 8)),
        np.empty((3, 8), np.int64),
        np.empty((2, 8), np.uint32),
    )
    conversions(F, W, integers, floats_out, integers_out, words_out)
    np.testing.assert_array_equal(floats_out, [W, integers])
    np.testing.assert_array_equal(integers_out, [F.astype(np.int64), W, F.view(np.int64)])
    np.testing.assert_array_equal(words_out, [integers.astype(np.uint32), W << np.uint32(7) | W >> np.uint32(25)])


@serial
def mask_summary(A: Any, out: Any) -> None:
    for k in range(A.shape[0]):
        positive = load(A, k) > 0.0
        out[k, 0] = any_lane(positive)
        out[k, 1] = all_lanes(positive)
        out[k, 2] = any_lane(A[k, 0] > 0.0) & all_lanes(A[k, 1] > 0.0)


@serial
def backwards(A: Any, out: Any) -> None:
    """By way of two arrays, one of which is only in the way."""
    kept, beside = scratch(load(A, 0), 5), scratch(load(A, 0), 5)
    for k in range(5):
        store(load(A, k), kept, k)
        store(load(A, k) + 1, beside, k)
    for k in range(5):
        store(load(kept, 4 - k), out, k)


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_rooms_hold_lanes_two_lines_and_scalars(dtype: Any, lanes: int) -> None:
    for shape in ((5, lanes), (5, 2, lanes), (5,)):
        A = np.random.default_rng(9).normal(size=shape).astype(dtype)
        out = np.empty_like(A)
        backwards(A, out)
        np.testing.assert_array_equal(out, A[::-1])


@serial
def columns(A: Any, out: Any) -> None:
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            store_across(load(A, i, j), out, i, j)


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_lanes_are_stored_across(dtype: Any, lanes: int) -> None:
    A = np.random.default_rng(10).normal(size=(2, 3, lanes)).astype(dtype)
    out = np.zeros((2, lanes, 3), dtype)
    columns(A, out)
    np.testing.assert_array_equal(out, A.transpose(0, 2, 1))


@serial
def rows_from(A: Any, out: Any, first: int) -> None:
    store_rows((load(A, 0), load(A, 1), load(A, 2)), out, first)


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_a_tuple_of_vectors_is_stored_in_rows(dtype: Any, lanes: int) -> None:
    A = np.random.default_rng(11).normal(size=(3, lanes)).astype(dtype)
    out = np.zeros((6, lanes), dtype)
    rows_from(A, out, 2)
    np.testing.assert_array_equal(out, np.concatenate([np.zeros((2, lanes)), A, np.zeros((1, lanes))]))


@pytest.mark.parametrize(("dtype", "lanes"), FLOATS)
def test_any_and_all(dtype: Any, lanes: int) -> None:
    A = np.concatenate([-np.ones((1, lanes)), np.ones((1, lanes)), 1 - 2 * np.eye(lanes)]).astype(dtype)
    out = np.empty((len(A), 3), np.bool_)
    mask_summary(A, out)
    positive = A > 0
    np.testing.assert_array_equal(out.T, [positive.any(axis=1), positive.all(axis=1), positive[:, 0] & positive[:, 1]])


@serial
def lanes_one_by_one(A: Any, out: Any) -> None:
    x = load(A)
    for k in range(8):
        out[k] = lane(x, 7 - k) * lane(out[k], 0)  # a scalar is its own lane


def test_single_lanes() -> None:
    A, out = np.arange(1.0, 9.0), np.arange(8.0)
    lanes_one_by_one(A, out)
    np.testing.assert_array_equal(out, A[::-1] * np.arange(8.0))


@formula
def swap(pair: Any) -> Any:
    return pair[1], pair[0]


@serial
def masked(mask: Any, x: Any) -> Any:
    return select(mask, x, -1.0), mask


@serial
def copy_swapped(A: Any, columns: Any, out: Any) -> None:
    for i in range(A.shape[0]):
        for k in range(columns.shape[0]):
            pair = swap((load(A, i, k), load(A, i, load(columns, k))))
            x, mask = masked(pair[0] > 0.0, pair[0])
            store(select(mask, x, pair[1]), out, i, k)


def test_memory_tuples_and_calls() -> None:
    A = np.random.default_rng(9).normal(size=(3, 4, 8))
    columns = np.array([2, 0, 3, 1], np.uint32)
    # Neither array begins at a cache line.
    out = np.empty(3 * 4 * 8 + 1)[1:].reshape(3, 4, 8)
    copy_swapped(A, columns, out)
    np.testing.assert_array_equal(out, np.where(A[:, columns] > 0.0, A[:, columns], A))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint32])
def test_aligned_zeros_begin_at_a_cache_line(dtype: Any) -> None:
    for rows in range(1, 20):
        array = aligned_zeros((rows, 3), dtype)
        assert array.ctypes.data % 64 == 0
        assert array.flags.c_contiguous
        assert array.dtype == dtype
        np.testing.assert_array_equal(array, np.zeros((rows, 3)))


@serial
def sums(A: Any, totals: Any, cells: Any, panels: Any) -> None:
    for k in range(A.shape[0]):
        prefetch(5, 0.0, cells, k + 1, k)  # beyond the end in the last turns, which is harmless
        prefetch(5, load(A, k), panels, k, 0)
        store(lane_sum(load(A, k)), totals, k)
        store(load(cells, k, 0) + load(cells, k, 1), cells, k, 1)


@pytest.mark.parametrize(("dtype", "lanes"), [(np.float64, 8), (np.float32, 16)])
def test_sums_over_lanes_and_scalars_in_memory(dtype: Any, lanes: int) -> None:
    A = np.random.default_rng(5).standard_normal((7, lanes)).astype(dtype)
    totals, cells = np.empty(7, dtype), np.arange(14).reshape(7, 2).astype(dtype)
    before = A.copy()
    sums(A, totals, cells, A[:, None])
    expected = A
    while expected.shape[1] > 1:
        half = expected.shape[1] // 2
        expected = expected[:, :half] + expected[:, half:]
    np.testing.assert_array_equal(totals, expected[:, 0])
    np.testing.assert_array_equal(cells[:, 1], 4 * np.arange(7) + 1)
    np.testing.assert_array_equal(A, before)


def wrong_indices(A: Any) -> Any:
    return lane(load(A, 0, 0, 0), 0)


def wrong_types(A: Any) -> Any:
    return lane(load(A, 0) + broadcast(1.0, float32x16), 0)


def wrong_operator(A: Any) -> Any:
    return lane(load(A, 0) << 2, 0)


def wrong_mask(A: Any) -> Any:
    return lane((load(A, 0) > 0.0) + broadcast(True, boolx8), 0)


@pytest.mark.parametrize("function", [wrong_indices, wrong_types, wrong_operator, wrong_mask])
def test_what_makes_no_sense_does_not_compile(function: Any) -> None:
    with pytest.raises(TypingError):
        njit(function)(np.zeros((2, 8)))


def test_only_contiguous_arrays_have_lanes() -> None:
    with pytest.raises(TypingError):
        in_place(np.zeros((5, 16))[:, ::2], np.zeros(8))


@serial
def rearranged(A: Any, wide: Any, swapped: Any) -> None:
    a, b = load(A, 0), load(A, 1)
    store(join(a, b), wide, 0)
    # Of tuples, one by one; the halves of what was joined, the other way round.
    pair = join((a, b), (b, a))
    first, second = high_half(pair), low_half(pair)
    store(first[0], swapped, 0)
    store(first[1], swapped, 1)
    store(second[0], swapped, 2)
    store(second[1], swapped, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_halves_and_wholes(dtype: Any) -> None:
    lanes = 8 if dtype == np.float64 else 16
    A = np.arange(2 * lanes).astype(dtype).reshape(2, lanes)
    wide, swapped = np.zeros((1, 2, lanes), dtype), np.zeros((4, lanes), dtype)
    rearranged(A, wide, swapped)
    np.testing.assert_array_equal(wide[0], A)
    np.testing.assert_array_equal(swapped, A[[1, 0, 0, 1]])


CACHED = """
import numpy as np
from fastldp.kernels.jit import formula, serial
from fastldp.kernels.simd import fma, load, select, store

@formula
def inner(pair, scale):
    return select(pair[0] > 0.0, fma(pair[0], scale, pair[1]), pair[1])

@serial
def kernel(A, out):
    for k in range(A.shape[0]):
        store(inner((load(A, k), load(out, k)), 2.0), out, k)

for dtype, lanes in ((np.float64, 8), (np.float32, 16)):
    out = np.zeros((3, lanes), dtype)
    kernel(np.arange(-8, -8 + 3 * lanes).astype(dtype).reshape(3, lanes), out)
    print(int(out.sum()))
print("hits", sum(kernel.stats.cache_hits.values()), "misses", sum(kernel.stats.cache_misses.values()))
"""


@pytest.mark.thorough
def test_a_second_process_loads_from_the_cache(tmp_path: Path) -> None:
    script = tmp_path / "cached.py"
    script.write_text(CACHED)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    printed = [
        subprocess.run(
            [sys.executable, script], env=environment, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        for _ in range(2)
    ]
    assert [lines[-1] for lines in printed] == ["hits 0 misses 2", "hits 2 misses 0"]
    assert printed[0][:-1] == printed[1][:-1] == ["240", "1560"]
