"""Whatever point a server sends, one sample moves what a worker releases by no more than the ledger says."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import fastldp as fl
from fastldp.engine import block, driving, layouts, recording
from fastldp.engine.runs import Lane, Runs
from fastldp.errors import ArgumentError
from fastldp.kernels.chacha import key_of
from fastldp.methods.schedule import released
from fastldp.problems.composite import Composite

Array = NDArray[np.float64]

SCALES = (5e-324, 1e-300, 1e-170, 1e-39, 1e-3, 1.0, 30.0, 1e10)
HUGE = (1e20, 3e38, 1e152, 1e155, 1e290, 1.7e308)
SPECIAL = (np.inf, -np.inf, np.nan)
# Steps that are too long for rows of all sizes are of no interest here, nor are points that single precision has not.
pytestmark = [
    pytest.mark.filterwarnings("ignore::fastldp.errors.StepWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
PRECISIONS = pytest.mark.parametrize("dtype", ["float64", "float32"])


def hostile_points(d: int, seed: int, more: int = 0) -> list[Array]:
    """Every scale with all signs alike, alternating, and random; one coordinate alone, or special; and mixtures."""
    rng = np.random.default_rng(seed)
    alternating = np.where(np.arange(d) % 2, -1.0, 1.0)
    points = [np.zeros(d)]
    for scale in (*SCALES, *HUGE, *SPECIAL):
        one = np.zeros(d)
        one[int(rng.integers(d))] = scale
        points += [np.full(d, scale), alternating * scale, one, np.where(one != 0, scale, rng.standard_normal(d))]
    for _ in range(more):
        points.append(rng.choice([*SCALES, *HUGE, *SPECIAL], d) * rng.choice([-1.0, 1.0], d))
    return points


def queries(problem: Composite, points: Sequence[Array], *, method: Any = None, alone: bool = False) -> Array:
    """(points, d): what the last worker's release is of at each point, before the noise, by a block's own kernels."""
    method = fl.PrimalDual(step=0.1) if method is None else method
    schedule, wanted = method.schedule(problem, None, 1), recording.timetable(None, 1, problem.n)
    schedule.program.private = True  # without noise, so that it is seen, but in all else as with it
    no_optimum = np.full(problem.d, np.nan)
    jobs = [Runs(problem, schedule, point, key_of(0, 0)[None], wanted, no_optimum) for point in points]
    alone = alone or not problem.lanes_of_runs
    if alone and isinstance(problem, fl.Problem):
        samples: layouts.Samples = layouts.samples_in_panels(problem)
    else:
        samples = layouts.samples_in_lanes(problem, 16)
    several = 1 if alone else driving.lines_of(problem) * layouts.lanes_of(problem)
    found = []
    for first in range(0, len(jobs), several):
        lanes = [Lane(runs, 0) for runs in jobs[first : first + several]]
        runs = block.Block(samples, lanes, alone=alone)
        runs.advance(1)
        # The scratch where the release of the last worker was made.
        gradient = runs.state.gradient[0][: problem.d].astype(np.float64).reshape(problem.d, -1)
        found.append(gradient[:, : len(lanes)].T)
    return np.concatenate(found)


def assert_contained(worlds: Sequence[Composite], points: Sequence[Array], bound: float | None, **given: Any) -> None:
    """Of worlds that differ in one sample of the last worker, any two are as close as the sensitivity everywhere."""
    seen = [queries(world, points, **given) for world in worlds]
    for query in seen:
        assert np.isfinite(query).all()
    for one, other in combinations(range(len(worlds)), 2):
        largest = bound if bound is not None else max(worlds[k].gradient_bound for k in (one, other))
        problem = worlds[one]
        allowed = float(released(problem, largest, problem.divisors).total[-1])
        if problem.dtype == "float32":  # its rounding is in no ledger
            allowed *= 1 + 4 * (problem.sizes[-1] + problem.d + 4) * float(np.finfo(np.float32).eps)
        apart = np.linalg.norm((seen[one] - seen[other]) / allowed, axis=1)
        assert apart.max() <= 1.0, (one, other, points[int(apart.argmax())], apart.max())


# Linear models

D, ROWS = 5, 9


def samples_of_all_sizes(dtype: str) -> list[Array]:
    alternating = np.where(np.arange(D) % 2, -1.0, 1.0)
    ordinary = np.random.default_rng(5).standard_normal(D)
    scales = [0.0, 5e-324, 1e-310, 3e-308, 1e-200, 1e-152, 1e-45, 2e-38, 1e-18, 1.0, 1e7, 1e14]
    scales += [1e100, 1e139] if dtype == "float64" else []
    return [ordinary, *(scale * alternating for scale in scales), 1e7 * np.eye(D)[0], 1e-3 * np.eye(D)[-1]]


def linear_worlds(
    loss: str, layout: str, dtype: str, bound: float | None, *, first: float = 1.0, **given: Any
) -> list[fl.Problem]:
    """Those with every one of these samples in the same place; the first worker's first is so many times as long."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((ROWS, D))
    A[0] *= first
    labels = np.where(rng.random(ROWS) < 0.5, 1.0, -1.0)
    targets = [1.0] if loss == "logistic" else [1.0, -1e10, 1e300]
    worlds = []
    for row in samples_of_all_sizes(dtype):
        for target in targets:
            mine, b = A.copy(), labels.copy()
            mine[-2], b[-2] = row, target
            rows = sparse.csr_array(mine) if layout == "csr" else mine
            worlds.append(
                fl.Problem(rows, b, workers=[0] * 3 + [1] * 6, loss=loss, dtype=dtype, gradient_bound=bound, **given)
            )
    return worlds


@pytest.mark.thorough
@PRECISIONS
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("layout", ["dense", "csr", "panels"])
@pytest.mark.parametrize("bound", [0.7, 1e-13, 1e13])
def test_linear_models_that_clip(loss: str, layout: str, dtype: str, bound: float) -> None:
    worlds = linear_worlds(loss, layout, dtype, bound)
    assert_contained(worlds, hostile_points(D, 1), bound, alone=layout == "panels")


@PRECISIONS
@pytest.mark.parametrize("layout", ["dense", "csr", pytest.param("panels", marks=pytest.mark.thorough)])
def test_the_logistic_loss_unclipped(layout: str, dtype: str) -> None:
    assert_contained(
        linear_worlds("logistic", layout, dtype, None), hostile_points(D, 2), None, alone=layout == "panels"
    )


@pytest.mark.thorough
@PRECISIONS
@pytest.mark.parametrize("layout", ["dense", "csr", "panels"])
@pytest.mark.parametrize("regularizer", [fl.Box(2.0), fl.L2Ball(3.0), fl.Simplex(2.0)])
def test_the_squared_loss_outside_its_set(layout: str, dtype: str, regularizer: fl.Regularizer) -> None:
    """B is the largest gradient over the set, in which a server's point need not lie."""
    worlds = linear_worlds("squared", layout, dtype, None, first=1e7, regularizer=regularizer)
    # Where another sample has the largest gradient, both worlds have the same B.
    alike = [world for world in worlds if world.gradient_bound == worlds[0].gradient_bound]
    assert len(alike) > 15
    assert_contained(alike, hostile_points(D, 3), None, alone=layout == "panels")


@pytest.mark.parametrize("method", [fl.DPFedAvg(0.1, 1, clip=0.5), fl.ISRLDP(0.1)])
def test_baselines_are_held_to_their_bounds_too(method: Any) -> None:
    regularizer = fl.Box(2.0) if isinstance(method, fl.ISRLDP) else None
    worlds = linear_worlds("squared", "dense", "float64", None, first=1e7, regularizer=regularizer)
    if regularizer is not None:
        worlds = [world for world in worlds if world.gradient_bound == worlds[0].gradient_bound]
    program = method.schedule(worlds[0], None, 1).program
    assert program.enforced(worlds[0]) == (np.inf if method.clip is None else method.clip)
    program.private = True
    bound = worlds[0].gradient_bound if method.clip is None else method.clip
    assert program.enforced(worlds[0]) == bound
    points = hostile_points(D, 4)
    seen = [queries(world, points, method=method) for world in worlds]
    allowed = float(released(worlds[0], bound, method.divisors(worlds[0])).total[-1])
    for one, other in combinations(seen, 2):
        assert (np.linalg.norm(one / allowed - other / allowed, axis=1) <= 1.0).all()


@pytest.mark.long
@PRECISIONS
@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("layout", ["dense", "csr", "panels"])
@pytest.mark.parametrize("bound", [0.7, 1e-19, 1e-6, 30.0, 1e19])
def test_linear_models_at_many_points(loss: str, layout: str, dtype: str, bound: float) -> None:
    worlds = linear_worlds(loss, layout, dtype, bound)
    assert_contained(worlds, hostile_points(D, 11, more=600), bound, alone=layout == "panels")


# Networks

WIDTHS = (6, 4, 5, 3)


def network_worlds(products: str, clip: float | None, widths: tuple[int, ...] = WIDTHS) -> list[fl.MLP]:
    rng = np.random.default_rng(7)
    images, labels = rng.standard_normal((40, widths[0])), np.arange(40) % widths[-1]
    alternating = np.where(np.arange(widths[0]) % 2, -1.0, 1.0)
    scales = [0.0, 1e-300, 1e-40, 1e-20, 1.0, 1e6, 1e14] + ([1e100, 1e139] if products == "float64" else [])
    worlds = []
    for image in (images[-1], *(scale * alternating for scale in scales), np.full(widths[0], 1e14)):
        mine = images.copy()
        mine[-1] = image
        worlds.append(
            fl.MLP(
                mine, labels, hidden=widths[1:-1], classes=3, workers=[0] * 3 + [1] * 37, clip=clip, products=products
            )
        )
    return worlds


@pytest.mark.thorough
@pytest.mark.parametrize("products", ["float32", "float64"])
@pytest.mark.parametrize("clip", [1.0, 1e-19, 1e19])
@pytest.mark.parametrize("widths", [(6, 3), WIDTHS])
def test_networks(products: str, clip: float, widths: tuple[int, ...]) -> None:
    worlds = network_worlds(products, clip, widths)
    start = worlds[0].layers.start(1)
    points = [start, *(start * scale for scale in (*SCALES, *HUGE, *SPECIAL)), *hostile_points(worlds[0].d, 5)[::3]]
    assert_contained(worlds, points, clip)


@pytest.mark.long
@pytest.mark.parametrize("products", ["float32", "float64"])
@pytest.mark.parametrize("clip", [1.0, 1e-19, 1e-9, 1e19])
@pytest.mark.parametrize("widths", [(6, 3), (6, 4, 3), WIDTHS, (6, 4, 4, 4, 4, 4, 3)])
def test_networks_at_many_points(products: str, clip: float, widths: tuple[int, ...]) -> None:
    worlds = network_worlds(products, clip, widths)
    start = worlds[0].layers.start(1)
    rng = np.random.default_rng(12)
    points = hostile_points(worlds[0].d, 13, more=200)
    # Layers of different scales, so that some overflow and others do not.
    for _ in range(300):
        sizes = 10.0 ** rng.uniform(-300, 300, len(widths) - 1) if rng.random() < 0.5 else 10.0 ** rng.uniform(-40, 40)
        scales = np.repeat(np.broadcast_to(sizes, len(widths) - 1), np.diff(worlds[0].layers.offsets))
        points.append(start * scales)
    assert_contained(worlds, points, clip)


def test_no_message_of_a_network_is_nan_for_one_bright_image() -> None:
    """Huge weights whose products with it overflow in single precision, and with no other image do."""
    dark = np.full((20, 4), 0.01)
    bright = dark.copy()
    bright[-1] = 1e10
    weights = np.where(np.arange(2 * 4 + 2) % 2, -1e30, 1e30)
    sent = []
    for images in (dark, bright):
        problem = fl.MLP(images, np.arange(20) % 2, hidden=(), workers=2, clip=1.0, products="float32")
        assert np.isfinite(weights.astype(np.float32)).all()
        sent.append(queries(problem, [weights])[0])
    assert np.isfinite(sent).all()
    assert np.linalg.norm(sent[0] - sent[1]) <= 2 * 1.0 / (2 * 10)


def test_a_network_that_does_not_clip_shows_that_it_diverged() -> None:
    problem = network_worlds("float32", None)[0]
    assert np.isnan(queries(problem, [np.full(problem.d, np.nan)])).any()


# Thresholds whose squares vanish


@pytest.mark.parametrize("clip", [1e-30, 1e-46, 5e-324, 1e30, 1e300])
def test_thresholds_that_single_precision_cannot_square_are_refused(clip: float) -> None:
    A, b = np.eye(4), np.ones(4)
    pattern = r" = .* 1e-20 to 1e\+20 in float32"
    with pytest.raises(ArgumentError, match="^clip" + pattern):
        fl.MLP(A, b.astype(int), hidden=(), workers=2, clip=clip)
    with pytest.raises(ArgumentError, match="^clip" + pattern):
        fl.MLP(A, b.astype(int), hidden=(), workers=2).replace(clip=clip)
    with pytest.raises(ArgumentError, match="^gradient_bound" + pattern):
        fl.Problem(A, b, workers=2, gradient_bound=clip, dtype="float32")
    if 1e-140 < clip < 1e140:
        problem = fl.Problem(A, b, workers=2, dtype="float32")
        for method in (fl.DPFedAvg(0.1, 1, clip=clip), fl.ISRLDP(0.1, clip=clip)):
            for budget in (None, fl.Budget(1.0, 1e-3)):
                with pytest.raises(ArgumentError, match="^clip" + pattern):
                    fl.solve(problem, budget, rounds=2, algorithm=method)


@pytest.mark.thorough
@pytest.mark.parametrize("clip", [1e-30, 1e-100])
def test_small_thresholds_clip_in_double_precision(clip: float) -> None:
    problem = fl.MLP(np.eye(4), np.arange(4) % 2, hidden=3, workers=2, clip=clip, products="float64")
    assert np.linalg.norm(queries(problem, [problem.start()])[0]) <= clip / 2
