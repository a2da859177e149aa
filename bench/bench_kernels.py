"""The parts of a round one by one, and the whole of it, on one core: each against the same formula in NumPy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_benchmark.fixture import BenchmarkFixture

import fastldp as fl
import jobs
import limits
from fastldp.engine.block import Block
from fastldp.engine.layouts import LANES, samples_in_panels, samples_in_rows
from fastldp.engine.objective import addressed, formulas_of, objective_of, with_losses
from fastldp.engine.recording import timetable
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels import formulas, gaussian, gradient, jit, vmath
from fastldp.kernels.chacha import key_of
from fastldp.kernels.sampling import Everyone
from fastldp.kernels.simd import aligned_zeros, load, store
from measuring import Reference, Work, measure

Array = NDArray[Any]
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32"])
# How far two right answers may be apart, for what they are of.
ROUNDING = {"float64": 1e-12, "float32": 1e-4}
WORKERS, FEATURES = 64, 128
REPEATS = 20


@jit.serial
def _exp(X: Any, out: Any, repeats: int) -> None:
    for _ in range(repeats):
        for k in range(X.shape[0]):
            store(vmath.exp(load(X, k)), out, k)


@jit.serial
def _normals(keys: Any, normals: Any, dithers: Any, repeats: int) -> None:
    for t in range(repeats):
        for worker in range(normals.shape[0]):
            gaussian.store_draw(normals, dithers, worker, keys, t, worker, 0)


@jit.serial
def _gradients(objective: Any, samples: Any, X: Any, scratch: Any, repeats: int) -> None:
    for _ in range(repeats):
        for i in range(X.shape[0]):
            gradient.store_gradient(objective, samples, i, X, i, scratch, i, False, (Everyone(0), 0, 0))


@jit.serial
def _prox(objective: Any, Z: Any, X: Any, scale: Any, repeats: int) -> None:
    for _ in range(repeats):
        for i in range(X.shape[0]):
            for j in range(X.shape[1]):
                store(load(Z, i, j), X, i, j)
            formulas.apply_prox(objective, X, i, load(scale, 0))


def _farthest(computed: Array, reference: Array) -> float:
    return float(np.abs(computed - reference).max())


def _random(dtype: str, *shape: int) -> Array:
    """Normals with lanes as the last axis."""
    X = aligned_zeros((*shape, LANES[dtype]), dtype)
    X[...] = np.random.default_rng(0).standard_normal(X.shape)
    return X


def _in_all_lanes(dtype: str, values: Any) -> Array:
    """The first of the values in every lane."""
    value = np.atleast_1d(np.array(list(values), dtype)[0])
    return np.ascontiguousarray(np.broadcast_to(value[..., None], (*value.shape, LANES[dtype])))


def _lanes_of(value: float, dtype: str) -> Array:
    return np.full((1, LANES[dtype]), value, dtype)


@pytest.mark.thorough
@DTYPES
def bench_exp(benchmark: BenchmarkFixture, dtype: str) -> None:
    X = _random(dtype, 16_384 // LANES[dtype])
    out, expected = np.empty_like(X), np.empty_like(X)

    def with_numpy() -> None:
        for _ in range(REPEATS):
            np.exp(X, out=expected)

    # A product and a sum a coefficient, and some six of either before and after the polynomial.
    coefficients = vmath.EXP_64 if dtype == "float64" else vmath.EXP_32
    values = REPEATS * X.size
    measure(
        benchmark,
        lambda: _exp(X, out, REPEATS),
        Reference("numpy", with_numpy, values),
        Work(values, 2 * len(coefficients) + 12, 2 * X.itemsize, dtype, threads=1),
        lambda _: _farthest(out / expected, np.ones_like(out)),
        at_most=ROUNDING[dtype],
    )


@pytest.mark.thorough
@DTYPES
def bench_normals(benchmark: BenchmarkFixture, dtype: str) -> None:
    normals = aligned_zeros((WORKERS, FEATURES, LANES[dtype]), dtype)
    dithers, theirs = np.empty_like(normals), np.empty_like(normals)
    keys = np.stack([key_of(0, repetition) for repetition in range(LANES[dtype])], axis=1)
    rng = np.random.default_rng(0)

    def of_numpy() -> None:
        for _ in range(REPEATS):
            rng.standard_normal(out=theirs, dtype=normals.dtype.type)

    def off(_: None) -> float:
        """From mean zero and variance one."""
        return max(abs(float(normals.mean())), abs(float(normals.var()) - 1))

    measure(
        benchmark,
        lambda: _normals(keys, normals, dithers, REPEATS),
        Reference("numpy", of_numpy, REPEATS * normals.size),
        Work(REPEATS * normals.size, bytes=2 * normals.itemsize, dtype=dtype, threads=1),
        off,
        at_most=0.03,
    )


@pytest.mark.thorough
@DTYPES
@pytest.mark.parametrize("lanes", ["runs", "samples"])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def bench_gradient(benchmark: BenchmarkFixture, layout: str, lanes: str, dtype: str) -> None:
    size = jobs.FIRST if layout == "dense" else jobs.SPARSE
    repeats = 20 if layout == "dense" else 2
    given = jobs.case(size, dtype)
    alone = lanes == "samples"
    in_panels = alone and layout == "dense"
    samples = samples_in_panels(given.problem, size.n) if in_panels else samples_in_rows(given.problem)
    X = _random(dtype, size.n, size.d) if not alone else np.ascontiguousarray(_random(dtype, size.n, size.d)[..., 0])
    G = np.zeros_like(X)
    scratch = gradient.Scratch(G, np.empty_like(X), np.zeros((size.n, *X.shape[2:]), X.dtype))
    stack = (
        partial(_in_all_lanes, dtype) if not alone else lambda values: np.atleast_1d(np.array(list(values), dtype)[0])
    )
    axes = 1 if alone and not in_panels else 2
    plain = objective_of([fl.Zero()], [np.inf], size.d, stack)
    objective = with_losses(plain, [given.problem.loss], stack)
    objective = addressed(objective, formulas_of(objective, fl.Zero(), given.problem.loss, samples, axes))
    A = np.ascontiguousarray(-given.b[:, :, None] * given.A).astype(dtype)
    transposed = np.ascontiguousarray(A.transpose(0, 2, 1))

    def with_numpy() -> Array:
        points = X[..., None] if alone else X
        for _ in range(repeats):
            summed = np.matmul(transposed, 1 / (1 + np.exp(-np.matmul(A, points))))
        return np.asarray(summed[..., 0] if alone else summed)

    runs = 1 if alone else LANES[dtype]
    measure(
        benchmark,
        lambda: _gradients(objective, samples, X, scratch, repeats),
        Reference("numpy", with_numpy, runs * repeats),
        jobs.work(given, runs, repeats, threads=1),
        lambda _: _farthest(G, with_numpy()) / float(np.abs(G).max()),
        at_most=ROUNDING[dtype],
        runs=runs,
    )


def _onto_simplex(Z: Array, radius: float) -> Array:
    """The projection of the columns Z[i, :, lane] (Held, Wolfe and Crowder 1974)."""
    descending = -np.sort(-Z, axis=1)
    ranks = np.arange(1, Z.shape[1] + 1)[:, None]
    thresholds = (np.cumsum(descending, axis=1) - radius) / ranks
    last = (descending > thresholds).sum(axis=1, keepdims=True) - 1
    return np.asarray(np.maximum(Z - np.take_along_axis(thresholds, last, axis=1), 0))


def _onto_l1_ball(Z: Array, radius: float) -> Array:
    inside = np.abs(Z).sum(axis=1, keepdims=True) <= radius
    return np.where(inside, Z, np.copysign(_onto_simplex(np.abs(Z), radius), Z))


def _onto_l2_ball(Z: Array, radius: float) -> Array:
    return np.asarray(Z * np.minimum(1, radius / np.sqrt((Z * Z).sum(axis=1, keepdims=True))))


PROJECTIONS: dict[str, tuple[fl.Regularizer, Callable[[Array, float], Array]]] = {
    "l2_ball": (fl.L2Ball(5.0), _onto_l2_ball),
    "simplex": (fl.Simplex(5.0), _onto_simplex),
    "l1_ball": (fl.L1Ball(5.0), _onto_l1_ball),
}


def _objective(regularizer: fl.Regularizer, dtype: str) -> formulas.Objective:
    objective = objective_of([regularizer], [np.inf], FEATURES, partial(_in_all_lanes, dtype))
    return addressed(objective, formulas_of(objective, regularizer, None, None, 0))


@DTYPES
def bench_prox_box_l1(benchmark: BenchmarkFixture, dtype: str) -> None:
    Z = _random(dtype, WORKERS, FEATURES)
    X, shrunk = np.empty_like(Z), np.empty_like(Z)
    threshold, bound = Z.dtype.type(0.3), Z.dtype.type(1.0)
    objective = _objective(fl.BoxL1(0.3, 1.0), dtype)

    def with_numpy() -> Array:
        for _ in range(REPEATS):
            np.abs(Z, out=shrunk)
            np.subtract(shrunk, threshold, out=shrunk)
            np.clip(shrunk, 0, bound, out=shrunk)
            np.copysign(shrunk, Z, out=shrunk)
        return shrunk

    values = REPEATS * Z.size
    measure(
        benchmark,
        lambda: _prox(objective, Z, X, _lanes_of(1.0, dtype), REPEATS),
        Reference("numpy", with_numpy, values),
        Work(values, 2, 2 * Z.itemsize, dtype, threads=1),
        lambda _: _farthest(X, with_numpy()),
        at_most=ROUNDING[dtype],
    )


@pytest.mark.thorough
@pytest.mark.parametrize("onto", sorted(PROJECTIONS))
def bench_prox_row(benchmark: BenchmarkFixture, onto: str) -> None:
    onto_set, project = PROJECTIONS[onto]
    Z = _random("float64", WORKERS, FEATURES)
    X = np.empty_like(Z)
    objective = _objective(onto_set, "float64")
    measure(
        benchmark,
        lambda: _prox(objective, Z, X, _lanes_of(1.0, "float64"), REPEATS),
        Reference("numpy", lambda: project(Z, 5.0), Z.size),
        Work(REPEATS * Z.size, bytes=2 * Z.itemsize, threads=1),
        lambda _: _farthest(X, project(Z, 5.0)),
        at_most=ROUNDING["float64"],
    )


def _block(given: jobs.Case, rounds: int, optimum: Array, *, alone: bool) -> tuple[Block, list[Lane]]:
    """A full block of runs, or a run alone, laid out as a solve does."""
    problem = given.problem
    schedule = fl.PrimalDual(step=jobs.STEP).schedule(problem, jobs.BUDGET, rounds)
    keys = np.stack([key_of(0, repetition) for repetition in range(1 if alone else LANES[problem.dtype])])
    runs = Runs(problem, schedule, np.zeros(problem.d), keys, timetable(fl.Final(), rounds, problem.n), optimum)
    lanes = [Lane(runs, repetition) for repetition in range(len(keys))]
    samples = samples_in_panels(problem) if alone else samples_in_rows(problem)
    return Block(samples, lanes, alone=alone), lanes


def _rounds_of_block(given: jobs.Case, rounds: int, optimum: Array, threads: int, alone: bool) -> Callable[[], Runs]:
    block, lanes = _block(given, rounds, optimum, alone=alone)

    def job() -> Runs:
        block.reuse(lanes)
        block.advance(rounds, threads=threads)
        block.close()
        return lanes[0].runs

    return job


def _error(done: Runs, optimum: Array) -> float:
    return float((done.consensus + done.distance / (float(optimum @ optimum) or 1.0)).mean())


@pytest.mark.thorough
@DTYPES
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def bench_round(benchmark: BenchmarkFixture, layout: str, dtype: str) -> None:
    """A block of runs on one core, everything included."""
    given = jobs.case(jobs.FIRST if layout == "dense" else jobs.SPARSE, dtype)
    rounds, runs, optimum = 200 if layout == "dense" else 30, LANES[dtype], given.problem.optimum()
    measure(
        benchmark,
        _rounds_of_block(given, rounds, optimum, threads=1, alone=False),
        jobs.numpy_reference(given, runs, rounds // 5),
        jobs.work(given, runs, rounds, threads=1),
        lambda done: _error(done, optimum),
        at_most=jobs.LARGEST_ERROR,
        rounds=rounds,
        runs=runs,
        apart=jobs.apart("numpy loop", given),
    )


def bench_round_of_large_data(benchmark: BenchmarkFixture) -> None:
    """One run on data beyond the caches, all cores: a matter of memory, and so against reading as much of it."""
    given, rounds = jobs.case(jobs.LARGE if benchmark.enabled else jobs.FIRST), 10
    # An optimum of large data takes long: errors are distances from zero.
    optimum = np.zeros(given.size.d)
    read = limits.reading(8 * given.size.entries)

    def read_in_every_round() -> None:
        for _ in range(rounds):
            read()

    measure(
        benchmark,
        _rounds_of_block(given, rounds, optimum, threads=2, alone=True),
        Reference("reading", read_in_every_round, rounds),
        jobs.work(given, 1, rounds),
        lambda done: _error(done, optimum),
        at_most=jobs.LARGEST_ERROR,
        seconds=2.0,
        rounds=rounds,
        runs=1,
        apart=jobs.apart("numpy loop", given),
    )
