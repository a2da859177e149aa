"""The release: on its grid, as close to the ideal as derived, and as useful as plain Gaussian noise."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import cases
import fastldp as fl
import naive
from fastldp.kernels.chacha import key_of
from fastldp.kernels.gaussian import store_draw
from fastldp.kernels.jit import serial

BUDGET = fl.Budget(1.0, 1e-4)
Array = NDArray[np.float64]


@serial
def fill(keys, normals, dithers):  # type: ignore[no-untyped-def]
    store_draw(normals, dithers, 0, keys, 1, 2, 3)


@pytest.fixture(scope="module")
def drawn() -> tuple[Array, Array]:
    """A quarter of a million normals and their dithers, (coordinates, repetitions)."""
    keys = np.stack([key_of(5, repetition) for repetition in range(8)], axis=1)
    normals, dithers = np.empty((2, 2**15, 8))
    fill(keys, normals[None], dithers[None])
    return normals, dithers


def words(coordinates: int) -> NDArray[np.uint64]:
    """(coordinates / 2, 4): the leading and further words of pairs of coordinates of the first repetition."""
    key = naive.key_of(5, 0)
    blocks = [naive.chacha20_block(key, (block, 1, 2, 3)) for block in range(coordinates // 8)]
    # (groups, two blocks, pairs, two of a pair) to (groups, pairs, two of a pair, two words of each).
    return np.array(blocks, np.uint64).reshape(-1, 2, 8, 2).transpose(0, 2, 3, 1).reshape(-1, 4)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision on this machine")
def test_the_error_of_a_normal_is_as_the_derivation_has_it(drawn: tuple[Array, Array]) -> None:
    """E|N̂ − N| < 2⁻⁵³, N the exact function of the two uniforms of 53 bits."""
    w = words(2**13)
    u1, u2 = (w[:, 0] << 21) | (w[:, 1] >> 11), (w[:, 2] << 21) | (w[:, 3] >> 11)
    unit = np.longdouble(2.0**-53)
    radius = np.sqrt(-2 * np.log((u1 + np.uint64(1)).astype(np.longdouble) * unit))
    quarter = (u2 + np.uint64(1 << 50)) >> np.uint64(51)
    # The rest of the turn, exact on integers, times 2π to extended precision.
    rest = u2.astype(np.int64) - (quarter.astype(np.int64) << 51)
    angle = rest.astype(np.longdouble) * unit * np.longdouble("6.28318530717958647692528676655900576839")
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = np.array([(cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine)])
    pair = turned[(quarter % 4).astype(int), :, np.arange(len(w))]
    # Those of more bits have another test.
    common = np.repeat(w[:, 0] >= 1 << 20, 2)
    computed, exact = drawn[0][: 2 * len(w), 0][common], (radius[:, None] * pair).ravel()[common]
    error = np.abs(computed - exact).astype(np.float64) / 2.0**-53
    spread = error.std() / math.sqrt(error.size)
    assert 0.1 < error.mean() + 5 * spread < 1
    # Two units in the last place of each factor and half a unit for each operation bound every single one.
    assert (error <= 8.5 * np.abs(computed) + 1e-3).all()


def test_dithers_are_uniform_and_independent_of_the_normals(drawn: tuple[Array, Array]) -> None:
    normals, dithers = (values.ravel() for values in drawn)
    steps = (dithers + 1023.5).astype(int)
    np.testing.assert_array_equal(steps + 0.5 - 1024, dithers)
    assert stats.chisquare(np.bincount(steps, minlength=2048)).pvalue > 1e-4
    # With the value and the size of their own normals, and along coordinates and repetitions.
    n = dithers.size
    scaled = dithers / 2048 * math.sqrt(12)
    for other in (normals, np.abs(normals) - math.sqrt(2 / math.pi), np.roll(scaled, 8), np.roll(scaled, 1)):
        assert abs(np.mean(scaled * other)) * math.sqrt(n) < 4
    fine = np.mod(normals * 2.0**20, 1.0) - 0.5
    assert abs(np.mean(scaled * fine)) * math.sqrt(12 * n) < 4


def test_dithers_are_those_of_the_oracle(drawn: tuple[Array, Array]) -> None:
    w = words(64)
    expected = [naive.dither(int(word)) for pair in w for word in (pair[1], pair[3])]
    np.testing.assert_array_equal(drawn[1][:64, 0], expected)


def test_the_law_of_a_coarse_release_is_the_ideal_one(drawn: tuple[Array, Array]) -> None:
    """Rounded to cells of σ/4, so that a quarter of a million draws can tell: the integral of the density over them."""
    normals, dithers = (values.ravel() for values in drawn)
    q, sigma = 0.3, 1.7
    s = naive.spacing(sigma)
    h = s * (np.rint((q + sigma * normals) / s) + dithers)
    edges = q + sigma * np.linspace(-3, 3, 25)
    counts = np.histogram(h, [-np.inf, *edges, np.inf])[0]
    # Gaussian plus uniform of the dither's width, cell by cell.
    width = 2048 * s

    def integral(x: Array) -> Array:
        z = (x - q) / sigma
        return np.asarray(sigma * (z * stats.norm.cdf(z) + stats.norm.pdf(z)))

    cdf = (integral(edges + width / 2) - integral(edges - width / 2)) / width
    assert stats.chisquare(counts, h.size * np.diff([0.0, *cdf, 1.0])).pvalue > 1e-3


@cases.tiny_shards
@pytest.mark.parametrize("sizes", [(12, 12, 12), (5, 14, 1, 9)])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_every_message_comes_from_the_grid(sizes: tuple[int, ...], repetitions: int) -> None:
    case = cases.make("box_l1", sizes=sizes)
    worker = 1
    run = fl.solve(
        case.problem, BUDGET, rounds=40, repetitions=repetitions, seed=3, common_noise=True, record=fl.Messages(worker)
    )
    assert run.ledger is not None
    assert run.messages is not None
    n, step = case.problem.n, case.problem.step_limit
    grids = np.broadcast_to(run.ledger.grids, (n, 40))
    deviations = np.broadcast_to(np.sqrt(run.ledger.variances), (n, 40))
    for repetition in range(repetitions):
        history = naive.primal_dual(
            case.shards, case.loss, case.l2, case.g, np.zeros(9), step, deviations, 3, repetition
        )
        x, dual = history.x[:-1, worker], history.dual[:-1, worker]
        h = (x - run.messages[repetition]) / step - dual - case.l2 * x / n
        halves = h / (grids[worker][:, None] / 2)
        np.testing.assert_allclose(halves, 2 * np.rint((halves - 1) / 2) + 1, atol=1e-4)
        # Not because all are zero, or the grid so fine that anything fits.
        assert np.abs(halves).max() > 1e4


def test_the_grid_costs_nothing_to_speak_of() -> None:
    """The same noise with and without the grid: the errors differ by far less than those of two seeds do."""
    case = cases.make("box_l1")
    run = fl.solve(case.problem, BUDGET, rounds=60, repetitions=4, seed=2, common_noise=True, record=fl.Final())
    assert run.ledger is not None
    deviations = np.broadcast_to(np.sqrt(run.ledger.variances), (3, 60))
    given = case.shards, case.loss, case.l2, case.g, np.zeros(9), case.problem.step_limit, deviations, 2
    off_grid = [naive.primal_dual(*given, repetition, gridded=False).x[-1] for repetition in range(4)]
    plain = np.array([naive.optimality(x, case.problem.optimum()) for x in off_grid])
    on_grid = run.optimality[:, -1]
    assert np.abs(on_grid - plain).max() < 0.1 * plain.std()
    # What the dither and the rounding add to the variance of a release.
    added = ((2048 * run.ledger.grids) ** 2 / 12 + run.ledger.grids**2 / 12) / run.ledger.variances
    assert added.max() < 1 / 3000
