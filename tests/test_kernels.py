"""The kernels that make up a round, one by one, against the oracle: each lane is a run of its own."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import cases
import fastldp as fl
import naive
from fastldp.engine import hardware, layouts
from fastldp.engine.objective import addressed, formulas_of, objective_of, with_losses
from fastldp.kernels import gradient, jit, metrics, privatize, simd
from fastldp.kernels.sampling import Everyone
from fastldp.losses import as_loss
from fastldp.privacy import sampler
from fastldp.sweeping.setting import Ground, Subject

LANES = layouts.LANES["float64"]
extreme = st.sampled_from([0.0, -0.0, 5e-324, 1e-12, 1.0, -1.0, 1e8, -1e100, 1e150])
moderate = st.floats(-3, 3, allow_nan=False)
moderate_rows = arrays(np.float64, (1, 5, LANES), elements=moderate)
extreme_rows = arrays(np.float64, (1, 5, LANES), elements=st.one_of(moderate, extreme))


@jit.serial
def store_gradients(objective, samples, X, scratch):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        gradient.store_gradient(objective, samples, i, X, i, scratch, i, True, (Everyone(0), 0, 0))


def scratch_for(G: np.ndarray) -> gradient.Scratch:
    return gradient.Scratch(G, np.zeros_like(G), np.full((G.shape[0], *G.shape[2:]), np.nan, G.dtype))


def gradients(loss: str | fl.Loss, clips: np.ndarray, samples: Any, X: np.ndarray, scratch: gradient.Scratch) -> None:
    """Of every worker i at X[i], to the i-th scratch; with a threshold of each lane."""
    stack = partial(cases.in_lanes, lane_shape=X.shape[2:], dtype=X.dtype.name)
    plain = objective_of([fl.Zero()] * clips.size, clips.ravel().tolist(), X.shape[1], stack)
    objective = with_losses(plain, [as_loss(loss)] * clips.size, stack)
    # Margins are in lanes of samples or of runs.
    axes = 2 if isinstance(samples, gradient.Panels) else X.ndim - 1
    formulas = formulas_of(objective, fl.Zero(), as_loss(loss), samples, axes)
    store_gradients(addressed(objective, formulas), samples, X, scratch)


@jit.serial
def releases(mode, query, deviation, normal, dither, out):  # type: ignore[no-untyped-def]
    for j in range(query.shape[0]):
        common = privatize.on_grid(simd.load(deviation))
        h = privatize.privatize(mode, simd.load(query, j), common, simd.load(normal, j), simd.load(dither, j))
        simd.store(h, out, j)


SETS: dict[str, type[fl.L2Ball | fl.Simplex | fl.L1Ball]]
SETS = {"l2_ball": fl.L2Ball, "simplex": fl.Simplex, "l1_ball": fl.L1Ball}
RADII = np.linspace(0.5, 4.0, LANES)


@pytest.mark.parametrize("name", sorted(SETS))
@given(Z=moderate_rows)
def test_projections_agree_with_the_oracle(name: str, Z: np.ndarray) -> None:
    X = cases.prox_in_lanes([SETS[name](radius) for radius in RADII], Z, RADII)
    for lane in range(LANES):
        reference = getattr(naive, name)(RADII[lane]).prox(Z[0, :, lane], 1.0)
        np.testing.assert_allclose(X[0, :, lane], reference, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", sorted(SETS))
@given(Z=extreme_rows)
def test_projections_of_extreme_rows(name: str, Z: np.ndarray) -> None:
    """The oracle's sums lose their small terms here; the regularizers' own are checked by definition elsewhere."""
    X = cases.prox_in_lanes([SETS[name](radius) for radius in RADII], Z, RADII)
    for lane in range(LANES):
        reference = SETS[name](RADII[lane]).prox(Z[0, :, lane], 1.0)
        np.testing.assert_allclose(X[0, :, lane], reference, rtol=1e-12, atol=1e-13)


@given(Z=extreme_rows)
def test_box_l1(Z: np.ndarray) -> None:
    threshold, bound = np.linspace(0.0, 1.0, LANES), np.linspace(0.5, 4.0, LANES)
    X = cases.prox_in_lanes([fl.BoxL1(*given) for given in zip(threshold, bound, strict=True)], Z, np.ones(LANES))
    for lane in range(LANES):
        reference = naive.box_l1(threshold[lane], bound[lane]).prox(Z[0, :, lane], 1.0)
        np.testing.assert_array_equal(X[0, :, lane], reference)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("bound", [None, 0.4])
def test_gradients(loss: str, layout: str, bound: float | None) -> None:
    case = cases.make("box", loss=loss, layout=layout, sizes=(1, 2, 3, 4, 5, 11), gradient_bound=bound)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((6, 9, LANES)) * 10.0 ** np.arange(-3, 5)
    G = np.full_like(X, np.nan)  # what was there is not added to
    samples, scratch = layouts.samples_in_rows(case.problem), scratch_for(G)
    gradients(loss, np.full(LANES, bound or 1e300), samples, X, scratch)
    for i, (A, b) in enumerate(case.shards):
        for lane in range(LANES):
            reference = len(b) * naive.gradient(loss, A, b, X[i, :, lane], bound or np.inf)
            np.testing.assert_allclose(G[i, :, lane], reference, rtol=1e-12, atol=1e-12)
            assert scratch.inside[i, lane] == naive.inside(loss, A, b, X[i, :, lane], bound or np.inf)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("lane_shape", [(8,), (2, 8)])
@pytest.mark.parametrize(("sizes", "d"), [((1, 199, 200, 201, 450), 30), ((1,) * 7, 30), ((3, 300), 1200)])
def test_sums_by_columns_have_the_bits_of_sums_by_rows(
    loss: str, lane_shape: tuple[int, ...], sizes: tuple[int, ...], d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards of less than a tile, just one and several; long rows, empty ones and columns; and the oracle's sums."""
    monkeypatch.setattr(layouts, "LEAST_IN_COLUMN", 0)
    rng = np.random.default_rng(3)
    A = np.where(rng.random((sum(sizes), d)) < 0.4, rng.standard_normal((sum(sizes), d)), 0.0)
    A[::7] = 0.0
    A[:, [0, 17, 29]] = 0.0
    b = np.where(rng.random(len(A)) < 0.5, 1.0, -1.0)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    problem = fl.Problem(sparse.csr_array(A), b, workers=owners, l2=0.1, loss=loss)
    by_rows, by_columns = layouts.samples_in_rows(problem), layouts.samples_in_lanes(problem, 16)
    assert isinstance(by_columns, gradient.SparseSamples)
    tile = by_columns.tile
    assert tile == 200 if d == 30 else 100 < tile < 150
    places = [
        np.argsort(problem.rows[first : min(first + tile, end)].indices, kind="stable")
        for begin, end in pairwise(problem.starts)
        for first in range(begin, end, tile)
    ]
    np.testing.assert_array_equal(by_columns.places, np.concatenate(places))
    X = simd.aligned_zeros((problem.n, problem.d, *lane_shape))
    X[...] = rng.standard_normal(X.shape)

    def at(samples: layouts.Samples) -> np.ndarray:
        G = simd.aligned_zeros(X.shape)
        gradients(loss, np.full(lane_shape, 1e300), samples, X, scratch_for(G))
        return G

    np.testing.assert_array_equal(at(by_columns), at(by_rows))
    G, flat = at(by_columns).reshape(*X.shape[:2], -1), X.reshape(*X.shape[:2], -1)
    for i, (first, end) in enumerate(pairwise(problem.starts)):
        reference = (end - first) * naive.gradient(loss, A[first:end], b[first:end], flat[i, :, 5], np.inf)
        np.testing.assert_allclose(G[i, :, 5], reference, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [1, 7, 130])
def test_tiles_of_dense_rows_have_the_bits_of_row_after_row(dtype: str, d: int) -> None:
    """One row a worker, shards of less than a tile, of just one, and of what five rows and a tile leave over."""
    rng, sizes = np.random.default_rng(4), (1, 1, 4, 5, 6, 39, 40, 41, 85)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    A, b = rng.standard_normal((owners.size, d)), np.where(rng.random(owners.size) < 0.5, 1.0, -1.0)
    problem = fl.Problem(A, b, workers=owners, l2=0.1, dtype=dtype)
    by_rows, lanes = layouts.samples_in_rows(problem), layouts.LANES[dtype]
    assert isinstance(by_rows, gradient.DenseSamples)
    X = rng.standard_normal((problem.n, d, 2, lanes)).astype(dtype)

    def at(X: np.ndarray, **tiling: Any) -> np.ndarray:
        G = np.full_like(X, np.nan)
        limits = np.full(X.shape[2:], np.finfo(dtype).max, dtype)
        gradients("logistic", limits, by_rows._replace(**tiling), X, scratch_for(G))
        return G

    one_by_one = at(np.ascontiguousarray(X[:, :, 0]), tile=1, far=False)
    for tile in (5, 10, gradient.ROWS):
        for far in (False, True):
            np.testing.assert_array_equal(at(np.ascontiguousarray(X[:, :, 0]), tile=tile, far=far), one_by_one)
    if dtype == "float64":  # two lines of lanes over the same rows
        np.testing.assert_array_equal(at(X, tile=10, far=True)[:, :, 0], one_by_one)
    precision = 1e-12 if dtype == "float64" else 1e-4
    for i, (first, end) in enumerate(pairwise(problem.starts)):
        reference = (end - first) * naive.gradient("logistic", A[first:end], b[first:end], X[i, :, 0, 3], np.inf)
        np.testing.assert_allclose(one_by_one[i, :, 3], reference, rtol=precision, atol=precision)


def test_tiles_are_as_large_as_caches_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiling(d: int, dtype: str = "float64", layout: Any = layouts.samples_in_rows) -> tuple[int, bool]:
        samples = layout(fl.Problem(np.ones((100, d)), np.ones(100), workers=2, dtype=dtype))
        return samples.tile, samples.far

    monkeypatch.setattr(hardware, "second_level_bytes", lambda: 2**18)
    assert tiling(10) == (gradient.ROWS, False)
    assert tiling(100) == (20, False)
    assert tiling(100, "float32") == (gradient.ROWS, False)
    assert tiling(327) == (5, False)
    assert tiling(328) == (5, True)
    assert tiling(328, "float32") == (10, False)
    assert tiling(10_000) == (5, True)
    assert tiling(10, layout=layouts.samples_in_panels) == (25, False)
    monkeypatch.setattr(hardware, "second_level_bytes", lambda: 2**21)
    assert tiling(328) == (gradient.ROWS, False)
    assert tiling(2000) == (5, False)


def test_sums_go_by_columns_where_it_pays() -> None:
    """Sixteen runs over columns of many nonzeros, in float64; a tile has as many as can be counted in 16 bits."""

    def tile(d: int, nonzeros: int, *, rows: int = 400, dtype: str = "float64", runs: int = 16) -> int:
        A = sparse.csr_array(np.where(np.arange(d) < nonzeros, 0.5, 0.0) * np.ones((rows, 1)))
        samples = layouts.samples_in_lanes(fl.Problem(A, np.ones(rows), workers=2, dtype=dtype), runs)
        assert isinstance(samples, gradient.SparseSamples)
        assert samples.places.size == samples.rows.size == (rows * nonzeros if samples.tile else 0)
        return samples.tile

    assert tile(20, 1) == gradient.TILE == 200
    assert tile(21, 1) == 0
    assert tile(20, 1, runs=8) == 0
    assert tile(20, 1, dtype="float32") == 0
    assert tile(500, 327) == 200
    assert tile(500, 328) == 199
    assert tile(65_536, 65_536, rows=2) == 0


def test_sums_of_sweeps_go_by_columns_too() -> None:
    problem = fl.Problem(sparse.csr_array(np.ones((400, 3))), np.ones(400), workers=2, l2=0.1)
    samples = Ground("ground", [Subject(problem, np.zeros(3), np.zeros(3))]).samples
    assert isinstance(samples, gradient.SparseSamples)
    assert samples.tile == gradient.TILE


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_lane_that_clips_or_saturates_leaves_the_bits_of_its_neighbours(layout: str, dtype: str) -> None:
    """Where no lane does either, slopes are made in a shorter way: the same numbers."""
    problem = cases.make("box_l1", layout=layout, sizes=(3, 101, 45), dtype=dtype).problem
    samples, lanes = layouts.samples_in_rows(problem), layouts.LANES[dtype]
    X = np.random.default_rng(2).normal(size=(problem.n, problem.d, lanes)).astype(dtype)
    unclipped = np.full(lanes, np.finfo(dtype).max, dtype)

    def at(X: np.ndarray, clip: np.ndarray) -> np.ndarray:
        G = np.empty_like(X)
        gradients("logistic", clip, samples, X, scratch_for(G))
        return G

    plain, clip, far, lost = at(X, unclipped), unclipped.copy(), X.copy(), X.copy()
    clip[2] = 0.1
    far[:, :, 2] *= 1e6
    lost[:, :, 2] = np.nan
    others = np.arange(lanes) != 2
    for G in (at(X, clip), at(far, unclipped), at(lost, unclipped)):
        np.testing.assert_array_equal(G[..., others], plain[..., others])
        assert not np.array_equal(G[..., 2], plain[..., 2])
    # Far out the slopes are 0 and 1, and the gradient a sum of rows.
    rows = problem.rows.toarray() if layout == "csr" else problem.rows
    for i, (first, end) in enumerate(zip(problem.starts[:-1], problem.starts[1:], strict=True)):
        A = rows[first:end]
        sums = (A @ far[i, :, 2].astype(np.float64) > 0) @ A
        np.testing.assert_allclose(at(far, unclipped)[i, :, 2], sums, rtol=1e-5, atol=1e-5)
    # No margin of a lost point is known, and all slopes are taken for 0: no NaN tells what a worker holds.
    np.testing.assert_array_equal(at(lost, unclipped)[..., 2], 0.0)


def test_releases() -> None:
    rng = np.random.default_rng(2)
    query, normal = rng.standard_normal((2, 50, LANES))
    dither = rng.integers(-1024, 1024, query.shape) + 0.5
    deviation = np.array([1e-80, 0.3, 0.5, 0.999, 1.0, 1.5, 7.0, 1e90])
    out = np.empty_like(query)
    releases(privatize.GRIDDED, query, deviation, normal, dither, out)
    grid = np.array([naive.spacing(sigma) for sigma in deviation])
    np.testing.assert_array_equal(grid, sampler.spacing(deviation))
    for lane in range(LANES):
        reference = naive.release(query[:, lane], deviation[lane], normal[:, lane], dither[:, lane], True)
        np.testing.assert_array_equal(out[:, lane], reference)
    # Odd multiples of half the spacing, to the last bit; but a query beyond 2⁵² spacings is left as it is.
    halves = out[:, 1:] / (grid[1:] / 2)
    np.testing.assert_array_equal(halves % 2, 1.0)
    releases(privatize.EXACT, query, deviation, normal, dither, out)
    np.testing.assert_array_equal(out, query)
    releases(privatize.GAUSSIAN, query, deviation, normal, dither, out)
    np.testing.assert_allclose(out, query + deviation * normal, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("thousands", [2**30, -(2**38), -(3 * 2**40), 3 * 2**40 - 1, -(2**41) + 1])
def test_a_large_query_moves_a_release_and_changes_nothing_else(thousands: int) -> None:
    """By multiples of 2¹⁰ spacings, up to where floats have no more than halves of one: to the last bit."""
    rng = np.random.default_rng(4)
    deviation = np.array([0.3, 0.5, 0.999, 1.0, 1.5, 7.0, 1e-20, 1e20])
    grid = np.array([naive.spacing(sigma) for sigma in deviation])
    normal = rng.standard_normal((50, LANES))
    dither = rng.integers(-1024, 1024, normal.shape) + 0.5
    query = rng.integers(-1000, 1000, normal.shape) * grid / 2
    near, far = np.empty((2, *normal.shape))
    releases(privatize.GRIDDED, query, deviation, normal, dither, near)
    moved = 1024.0 * thousands * grid
    releases(privatize.GRIDDED, query + moved, deviation, normal, dither, far)
    np.testing.assert_array_equal(far - moved, near)
    np.testing.assert_array_equal(near / (grid / 2) % 2, 1.0)


def test_measures() -> None:
    rng = np.random.default_rng(3)
    X, x_star = rng.standard_normal((4, 5, LANES)), rng.standard_normal(5)
    mean, consensus, distance = np.zeros((2, 5, LANES)), np.zeros((2, LANES)), np.zeros((2, LANES))
    metrics.measure(1, X, np.repeat(x_star[:, None], LANES, axis=1), mean, consensus, distance)
    for lane in range(LANES):
        x = X[..., lane]
        np.testing.assert_allclose(mean[1, :, lane], x.mean(axis=0), rtol=1e-14)
        assert consensus[1, lane] == pytest.approx(naive.consensus(x), rel=1e-13)
        assert distance[1, lane] / (x_star @ x_star) == pytest.approx(naive.distance(x, x_star), rel=1e-13)
    assert not np.concatenate([mean[0], consensus[:1], distance[:1]]).any()
