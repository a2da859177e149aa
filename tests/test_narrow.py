"""Data in narrow types: chosen only where they are the same numbers, and then every bit of a run is the same."""

import math
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from test_kernels import gradients, scratch_for

import cases
import fastldp as fl
from fastldp.engine import driving, layouts, narrow
from fastldp.kernels import gradient, simd

BUDGET = fl.Budget(1.0, 1e-4)
DOUBLE, SINGLE = np.dtype("float64"), np.dtype("float32")
# Whole numbers and halves in and beyond each type's range, numbers of single precision, and of double alone.
whole = st.sampled_from([0.0, -0.0, 1.0, -1.0, 127.0, -127.0, 128.0, -128.0, 32767.0, -32767.0, 32768.0, 65536.0])
single = st.floats(width=32, allow_nan=False, allow_infinity=False)
double = st.one_of(st.sampled_from([0.1, 0.5, 2.0**24 + 1, 1e-310, 5e-324, 1e39, 1e300]), st.floats(-2, 2))


def in_single(value: float) -> bool:
    """Whether four bytes hold it, as the standard library has it."""
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False


HOLDS: dict[str, Callable[[float], bool]] = {
    "int8": lambda value: value.is_integer() and abs(value) <= 127,
    "int16": lambda value: value.is_integer() and abs(value) <= 32767,
    "float32": in_single,
    "float64": lambda value: True,
}


@given(values=st.lists(st.one_of(whole, single, double), min_size=1, max_size=6))
def test_the_narrowest_type_is_the_first_that_holds_every_number(values: list[float]) -> None:
    found = narrow.narrowest(np.array(values), DOUBLE)
    assert found.name == next(name for name, holds in HOLDS.items() if all(map(holds, values)))
    widened = np.array(values).astype(found).astype(DOUBLE)
    np.testing.assert_array_equal(widened, values)
    if found.kind == "f":  # the signs of zeros too
        assert widened.tobytes() == np.array(values).tobytes()


@pytest.mark.parametrize("value", [127.0, 128.0, 32767.0, 32768.0, 2.0**24 + 1])
def test_the_edges_of_each_type(value: float) -> None:
    for signed in (value, -value):
        found = narrow.narrowest(np.array([1.0, signed]), DOUBLE)
        assert found.name == next(name for name, holds in HOLDS.items() if holds(signed))


@pytest.mark.parametrize("start", [1.0, -3.5, 2.0**-149, 2.0**127, 1 / 3])
def test_one_unit_in_the_last_place_keeps_data_wide(start: float) -> None:
    values = np.full(3 * narrow.AT_ONCE, float(np.float32(start)))
    assert narrow.narrowest(values, DOUBLE).itemsize < 8
    for place in (0, narrow.AT_ONCE - 1, narrow.AT_ONCE, values.size - 1):
        for towards in (-math.inf, math.inf):
            other = values.copy()
            other[place] = np.nextafter(values[place], towards)
            assert narrow.narrowest(other, DOUBLE) == DOUBLE


def test_what_is_no_number_or_has_more_bits_stays_as_it_is() -> None:
    for value in (math.nan, math.inf, -math.inf):
        # No such data are let in; if they were, floats would hold them or they would stay.
        assert narrow.narrowest(np.array([1.0, value]), DOUBLE).kind == "f"
        assert narrow.narrowest(np.array([1.0, value]), SINGLE) == SINGLE
    # In single precision what counts is the rounded number, and single itself is nothing narrower.
    assert narrow.narrowest(np.array([2.0 + 1e-12]), SINGLE) == np.int8
    assert narrow.narrowest(np.array([0.5]), SINGLE) == SINGLE
    assert narrow.narrowest(np.zeros((0, 3)), DOUBLE) == np.int8


@given(rows=st.lists(st.lists(st.sampled_from([1.0, -1.0, 1.0, 1.0, 2.0, 0.0, 0.5]), max_size=4), max_size=4))
def test_signs_are_those_of_rows_of_nothing_else(rows: list[list[float]]) -> None:
    starts = np.cumsum([0, *map(len, rows)])
    signs = narrow.signs_of(np.array([value for row in rows for value in row]), starts)
    if all(set(row) in (set(), {1.0}, {-1.0}) for row in rows):
        assert signs is not None
        assert signs.tolist() == [row[0] if row else 1.0 for row in rows]
    else:
        assert signs is None


def drawn(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Data that a type has all of, and no narrower one; zeros of both signs among them."""
    A = {
        "ones": np.ones(shape),
        "int8": rng.integers(-127, 128, shape).astype(float),
        "int16": rng.integers(0, 256, shape).astype(float),
        "float32": rng.standard_normal(shape).astype(np.float32).astype(float),
    }[kind]
    A[rng.random(shape) < 0.6] = 0.0
    return A


def hostile(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> np.ndarray:
    """Points among which are zeros of both signs, subnormal numbers, and those whose margins overflow or cancel."""
    X = simd.aligned_zeros(shape, dtype)
    X[...] = rng.standard_normal(shape)
    lane = np.arange(math.prod(shape[2:])).reshape(shape[2:]) if len(shape) > 2 else np.zeros(1, int)
    X[0] = 0.0
    X[1] = -0.0
    X[2] *= np.finfo(dtype).tiny * 2.0**-8
    X[3] = np.where(np.arange(shape[1]).reshape(-1, *(1,) * (len(shape) - 2)) % 2, 1.0, -1.0)
    X[4] *= np.finfo(dtype).max / 4
    if lane.size > 1:
        X[:, 0][:, lane == 3] = np.inf
        X[:, 1][:, lane == 5] = np.nan
    return X


SIZES = (1, 7, 40, 41, 3, 16)


def problem_of(kind: str, layout: str, dtype: str) -> fl.Problem:
    rng = np.random.default_rng(5)
    A = drawn(kind, (sum(SIZES), 23), rng)
    owners, b = np.repeat(np.arange(len(SIZES)), SIZES), rng.choice([-1.0, 1.0], len(A))
    data: Any = sparse.csr_array(A) if layout == "csr" else A
    return fl.Problem(data, b, workers=owners, l2=0.1, dtype=dtype, regularizer=fl.BoxL1(0.01, 2.0))


def as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept narrow."""
    monkeypatch.setattr(layouts, "narrowest", lambda values, dtype: dtype)
    monkeypatch.setattr(layouts, "signs_of", lambda values, starts: None)


@pytest.mark.parametrize("kind", ["ones", "int8", "int16", "float32"])
@pytest.mark.parametrize("layout", ["panels", "csr", "csr alone", "by columns"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_narrow_data_have_the_bits_of_wide_ones(
    kind: str, layout: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "float32" == dtype:
        pytest.skip("nothing is narrower")
    problem = problem_of(kind, "dense" if layout == "panels" else "csr", dtype)
    line, kept = layouts.LANES[dtype], np.dtype("int8" if kind == "ones" else kind)
    of_runs = {"csr": (line,), "by columns": (2, line)}.get(layout, ())
    X = hostile((problem.n, problem.d, *of_runs), np.dtype(dtype), np.random.default_rng(6))

    def laid_out() -> Any:
        if layout == "panels":
            return layouts.samples_in_panels(problem, problem.n)
        samples: Any = layouts.samples_in_rows(problem)
        return layouts._by_columns_too(samples, problem.d) if layout == "by columns" else samples

    def at(samples: Any) -> bytes:
        G = simd.aligned_zeros((problem.n, problem.d, *of_runs), dtype)
        found = []
        for clip in (np.finfo(dtype).max, 0.5):
            scratch = scratch_for(G) if of_runs else gradient.Scratch(G, np.zeros_like(G), np.zeros(problem.n, dtype))
            gradients("logistic", np.full(of_runs or 1, clip, dtype), samples, X, scratch)
            found.append(G.tobytes() + scratch.inside.tobytes())
        return b"".join(found)

    monkeypatch.setattr(layouts, "LEAST_IN_COLUMN", 0)
    monkeypatch.setattr(layouts, "far", lambda size: True)
    slim = laid_out()
    as_they_were(monkeypatch)
    wide = laid_out()
    assert wide.values.dtype == dtype
    if kind == "ones" and layout != "panels":
        assert slim.signs
        assert slim.values.size == len(problem.rows.indptr) - 1
    else:
        assert slim.values.dtype == kept
    assert at(slim) == at(wide)


@cases.tiny_shards
@pytest.mark.parametrize(
    ("kind", "layout", "repetitions"),
    [("ones", "csr", 20), ("ones", "csr", 1), ("int16", "csr", 3), ("int8", "dense", 1)],
)
def test_runs_over_narrow_data_have_the_bits_of_wide_ones(
    kind: str, layout: str, repetitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole solves, private, on one thread and two."""
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    monkeypatch.setattr(layouts, "far", lambda size: True)
    problem = problem_of(kind, layout, "float64")

    def solve(threads: int) -> fl.Solution:
        given: dict[str, Any] = {"rounds": 12, "repetitions": repetitions, "seed": 3, "n_jobs": threads}
        return fl.solve(problem, BUDGET, algorithm=fl.PrimalDual(step=1e-4), **given)

    slim = [solve(1), solve(2)]
    as_they_were(monkeypatch)
    wide = solve(1)
    for run in slim:
        assert run.workers.tobytes() == wide.workers.tobytes()


def test_only_data_beyond_a_cores_cache_are_copied_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    dense, rows = problem_of("int8", "dense", "float64"), problem_of("int8", "csr", "float64")
    seen: list[int] = []

    def near(size: int) -> bool:
        seen.append(size)
        return False

    monkeypatch.setattr(layouts, "far", near)
    assert layouts.samples_in_panels(dense).values.dtype == np.float64
    panels = sum(-(-size // 8) for size in SIZES)
    assert seen[0] == panels * 8 * dense.d * 8
    sparse_rows = layouts.samples_in_rows(rows)
    assert isinstance(sparse_rows, gradient.SparseSamples)
    assert np.shares_memory(sparse_rows.values, rows.rows.data)
    assert seen[-1] == rows.rows.nnz * (8 + 2)


@pytest.mark.parametrize("kind", ["ones", "int8", "float32"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("beyond", [True, False])
def test_laying_out_takes_no_more_than_is_foreseen(
    kind: str, layout: str, dtype: str, beyond: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "far", lambda size: beyond)
    monkeypatch.setattr(layouts, "LEAST_IN_COLUMN", 0)
    problem = problem_of(kind, layout, dtype)
    own = [problem.rows.data, problem.rows.indices] if layout == "csr" else [problem.rows]

    def taken(samples: Any) -> int:
        parts = [samples.values, *(getattr(samples, name) for name in ("columns", "places", "rows") if layout == "csr")]
        return sum(part.nbytes for part in parts if not any(np.shares_memory(part, mine) for mine in own))

    for lanes in (8, 16, 32):
        samples: Any = layouts.samples_in_lanes(problem, lanes)
        # Signs are a number a row, of which there is no more than one for every nonzero here.
        assert taken(samples) <= layouts.bytes_beside(problem, alone=False)
    if layout == "dense":
        panels = layouts.samples_in_panels(problem)
        assert taken(panels) <= layouts.bytes_beside(problem, alone=True)
        assert panels.values.dtype != dtype or taken(panels) == layouts.bytes_beside(problem, alone=True)


def test_it_is_said_how_data_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ones, grey = np.ones((1000, 20)), np.full((1000, 20), 255.0)
    assert layouts.as_kept(sparse.csr_array(ones)) == "a sign of each row, columns in uint16: 0.0480 MB"
    assert layouts.as_kept(sparse.csr_array(grey)) == "values in float64, columns in uint16: 0.200 MB"
    assert layouts.as_kept(grey) == "float64: 0.160 MB"
    monkeypatch.setattr(layouts, "far", lambda size: True)
    assert layouts.as_kept(sparse.csr_array(grey)) == "values in int16, columns in uint16: 0.0800 MB"
    assert layouts.as_kept(grey) == "float64: 0.160 MB; for one run alone int16: 0.0400 MB"
    assert layouts.as_kept(grey / 255 / 3) == "float64: 0.160 MB"
    assert layouts.as_kept(grey, "float32") == "float32: 0.0800 MB; for one run alone int16: 0.0400 MB"


def test_column_numbers_are_as_short_as_the_features_allow() -> None:
    for d, width in ((2**16, np.uint16), (2**16 + 1, np.uint32)):
        A = sparse.csr_array((np.ones(2), ([0, 1], [3, d - 1])), shape=(2, d))
        samples = layouts.samples_in_rows(fl.Problem(A, [1, -1], workers=2))
        assert isinstance(samples, gradient.SparseSamples)
        assert samples.columns.dtype == width
        assert samples.columns.tolist() == [3, d - 1]
        assert [samples.values[first:end].tolist() for first, end in pairwise(samples.firsts)] == [[-1.0], [1.0]]
