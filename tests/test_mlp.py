"""Networks: every formula and every method against the oracle, clipping, rounding, bits, measures and refusals."""

import importlib
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize
from threadpoolctl import threadpool_info

import cases
import fastldp as fl
import naive
from fastldp import blas
from fastldp.engine import block, driving, layouts, recording
from fastldp.engine.objective import objective_of
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels.chacha import key_of
from fastldp.kernels.gradient import Scratch, store_gradient
from fastldp.kernels.jit import serial
from fastldp.kernels.sampling import Everyone
from fastldp.problems import mlp, network
from fastldp.sweeping import spec

Array = NDArray[np.float64]
# Numba counts its allocations in a module of C.
runtime: Any = importlib.import_module("numba.core.runtime._nrt_python")

BUDGET = fl.Budget(5.0, 1e-3)
SIZES = (37, 5, 20)
G, NAIVE_G = fl.BoxL1(1e-3, 0.7), naive.box_l1(1e-3, 0.7)
# Of 148 parameters: more than the lanes hold at once, and a last group that the noise makes in a way of its own.
WIDTHS = (11, 9, 4)
# Of models after a few rounds of noise of 0.01 and more, where gradients were rounded to single precision.
TOLERANCE = 1e-5


def data(features: int = WIDTHS[0], classes: int = WIDTHS[-1], seed: int = 3) -> tuple[Array, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, sum(SIZES))
    return rng.standard_normal((classes, features))[labels] + rng.standard_normal((labels.size, features)), labels


OWNERS = np.repeat(np.arange(len(SIZES)), SIZES)


def make(widths: tuple[int, ...] = WIDTHS, **given: Any) -> fl.MLP:
    images, labels = data(widths[0], widths[-1])
    defaults: dict[str, Any] = {"workers": OWNERS, "clip": 0.8, "strong_convexity": 0.05}
    return fl.MLP(images, labels, hidden=widths[1:-1], classes=widths[-1], **(defaults | given))


def shards(widths: tuple[int, ...] = WIDTHS) -> naive.Shards:
    images, labels = data(widths[0], widths[-1])
    return [(images[i == OWNERS], labels[i == OWNERS].astype(float)) for i in range(len(SIZES))]


def point(problem: fl.MLP, scale: float = 0.3) -> Array:
    return problem.start() + scale * np.random.default_rng(1).standard_normal(problem.d)


def gradients(problem: fl.MLP, x: Array, clip: float) -> Array:
    """The kernel's sums of clipped gradients."""
    samples = network.with_scratch(network.samples_of(problem), problem.n)
    total = np.full((problem.n, problem.d), np.nan)
    objective = objective_of([fl.Zero()], [clip], problem.d, lambda values: np.atleast_1d(np.array(values)[0]))
    store_gradients(objective, samples, x[None], Scratch(total, np.empty_like(total), np.empty(problem.n)))
    return total


@serial
def store_gradients(objective: Any, samples: Any, X: Any, scratch: Any) -> None:
    """The gradient of worker i at X[0], to the i-th scratch."""
    for i in range(scratch.gradient.shape[0]):
        store_gradient(objective, samples, i, X, 0, scratch, i, True, (Everyone(0), 0, 0))


# The gradient


@pytest.mark.parametrize("products", ["float64", "float32"])
@pytest.mark.parametrize("widths", [(5, 3), WIDTHS, (7, 6, 5, 3), (1, 1, 2)])
@pytest.mark.parametrize("clip", [np.inf, 0.8, 1e-3])
def test_gradients_are_clipped_as_if_each_were_formed(
    widths: tuple[int, ...], products: str, clip: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "CHUNK", 16)
    problem = make(widths, products=products)
    x = point(problem)
    computed = gradients(problem, x, clip)
    tolerance = 1e-13 if products == "float64" else 2e-5
    for i, (A, b) in enumerate(shards(widths)):
        reference = len(b) * naive.gradient(widths, A, b, x, clip)
        np.testing.assert_allclose(computed[i], reference, rtol=0, atol=tolerance * min(clip, 1.0) * len(b))


@pytest.mark.parametrize("products", ["float64", "float32"])
def test_no_sample_exceeds_the_threshold(products: str) -> None:
    """Each sample its own worker: clipped to a hair below C, never above, or left as it was."""
    images, labels = data()
    problem = fl.MLP(images, labels, hidden=9, workers=labels.size, products=products)
    x = point(problem, 2.0)
    formed = np.array([np.linalg.norm(naive.network_gradient(WIDTHS, a, b, x)) for a, b in zip(*data(), strict=True)])
    clip = float(np.median(formed))
    norms = np.linalg.norm(gradients(problem, x, clip), axis=1)
    assert (norms <= clip).all()
    slack = 200 * float(np.finfo(products).eps)
    np.testing.assert_allclose(norms, np.minimum(formed, clip), rtol=slack, atol=slack)


def test_people_get_the_same_gradient_and_objective() -> None:
    problem = make(regularizer=G, l2=0.1, products="float64")
    x = G.prox(point(problem), 0.0)
    reference = [naive.gradient(WIDTHS, A, b, x) + 0.1 * x for A, b in shards()]
    np.testing.assert_allclose(problem.worker_gradients(x), reference, atol=1e-14)
    np.testing.assert_allclose(problem.gradient(x), np.mean(reference, axis=0), atol=1e-14)
    losses = [
        np.mean([naive.cross_entropy(WIDTHS, a, int(c), x) for a, c in zip(A, b, strict=True)]) for A, b in shards()
    ]
    assert problem.train_loss(x) == pytest.approx(np.mean(losses), rel=1e-13)
    assert problem.objective(x) == pytest.approx(np.mean(losses) + 0.05 * x @ x + NAIVE_G.value(x), rel=1e-13)
    direction = np.random.default_rng(2).standard_normal(problem.d)
    smooth = problem.replace(regularizer=None)
    slope = (smooth.objective(x + 1e-6 * direction) - smooth.objective(x - 1e-6 * direction)) / 2e-6
    assert slope == pytest.approx(problem.gradient(x) @ direction, rel=1e-6)


@pytest.mark.thorough
def test_one_changed_sample_moves_the_sums_by_no_more_than_the_ledger_says() -> None:
    """In float32 too: only its chunk is rounded otherwise."""
    images, labels = data()
    other_images, other_labels = images.copy(), labels.copy()
    other_images[3], other_labels[3] = -30 * images[3], (labels[3] + 1) % 4
    x = 3 * point(make())
    pair = [
        gradients(fl.MLP(a, b, hidden=9, classes=4, workers=OWNERS), x, 0.01)
        for a, b in ((images, labels), (other_images, other_labels))
    ]
    moved = np.linalg.norm(pair[0] - pair[1], axis=1)
    np.testing.assert_array_equal(moved[1:], 0.0)
    problem = make(clip=0.01)
    # Most samples exceed the threshold, and this one does in both worlds.
    allowed = 2 * 0.01 * (1 + problem.rounding * problem.sizes)
    assert 0.01 < moved[0] <= allowed[0]


# Runs


def noise_of(run: fl.Solution, problem: fl.MLP, horizon: int) -> Array:
    assert run.ledger is not None
    return np.broadcast_to(np.sqrt(run.ledger.variances), (problem.n, horizon))


@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 3])
def test_the_papers_method_is_the_oracles(repetitions: int) -> None:
    problem = make(regularizer=G, l2=0.02)
    record = [fl.Every(2), fl.Messages(1)]
    method = fl.PrimalDual(step=0.8)
    given: dict[str, Any] = {"rounds": 7, "algorithm": method, "seed": 5, "common_noise": True, "record": record}
    run = fl.solve(problem, BUDGET, repetitions=repetitions, **given)
    x0 = G.prox(problem.start(), 0.0)
    deviations = noise_of(run, problem, 7)
    last = repetitions - 1
    history = naive.primal_dual(shards(), WIDTHS, 0.02, NAIVE_G, x0, 0.8, deviations, 5, last, clip=0.8)
    np.testing.assert_allclose(run.workers[last], history.x[-1], atol=TOLERANCE)
    assert run.messages is not None
    assert run.broadcasts is not None
    np.testing.assert_allclose(run.messages[last], history.messages[:, 1], atol=TOLERANCE)
    np.testing.assert_allclose(run.broadcasts[last], history.mean, atol=TOLERANCE)
    consensus = [naive.consensus(history.x[t]) for t in run.rounds]
    np.testing.assert_allclose(run.consensus[last], consensus, rtol=1e-3)
    # There is no optimum, and nobody is warned of that in every run.
    assert np.isnan(run.distance).all()


@cases.tiny_shards
def test_single_precision_products_follow_the_oracle_on_the_grid() -> None:
    problem = make(regularizer=G)
    run = fl.solve(
        problem, BUDGET, rounds=9, algorithm=fl.PrimalDual(step=0.8), seed=5, common_noise=True, record=fl.Messages(1)
    )
    history = naive.primal_dual(
        shards(), WIDTHS, 0.0, NAIVE_G, G.prox(problem.start(), 0.0), 0.8, noise_of(run, problem, 9), 5, 0, clip=0.8
    )
    np.testing.assert_allclose(run.workers[0], history.x[-1], atol=TOLERANCE)
    assert run.ledger is not None
    assert run.messages is not None
    # The first release, from the message: an odd multiple of half the grid, whatever the products were rounded to.
    x0 = G.prox(problem.start(), 0.0)
    halves = (x0 - run.messages[0, 0]) / 0.8 / (np.broadcast_to(run.ledger.grids, (3, 9))[1, 0] / 2)
    np.testing.assert_allclose(halves, 2 * np.rint((halves - 1) / 2) + 1, atol=1e-3)
    assert np.abs(halves).max() > 1e3


def test_the_ledger_counts_the_rounding_of_the_products() -> None:
    problem = make()
    schedule = fl.PrimalDual(step=1.0).schedule(problem, BUDGET, 10)
    ledger = schedule.ledger
    assert ledger is not None
    np.testing.assert_allclose(ledger.sensitivities.query, 2 * 0.8 / (3 * np.array(SIZES)), rtol=1e-15)
    # A chunk of 256 rows, 256 units of 2⁻²⁴ each.
    np.testing.assert_allclose(ledger.sensitivities.arithmetic / ledger.sensitivities.query, 2.0**-8, rtol=1e-4)
    assert ledger.precision == "float64"
    assert ledger.read_off_data == ""
    assert ledger.bound_source == "public"
    assert np.all(np.atleast_1d(ledger.spent_epsilon) <= 5.0)
    assert ledger.shape[0] / ledger.shape[-1] == pytest.approx(0.95 ** (-9 / 2))
    double = fl.PrimalDual(step=1.0).schedule(make(products="float64"), BUDGET, 10).ledger
    assert double is not None
    assert (double.sensitivities.arithmetic < 1e-9 * double.sensitivities.query).all()


@cases.tiny_shards
def test_fedavg_and_scaffold_are_the_oracles() -> None:
    problem = make(l2=0.02)
    start: dict[str, Any] = {"x0": problem.start(), "step": 0.3, "local_steps": 2, "server_step": 0.9, "rounds": 3}
    rest: dict[str, Any] = {"seed": 5, "repetition": 0, "clip": 0.8}
    run = fl.solve(problem, BUDGET, rounds=3, algorithm=fl.DPFedAvg(0.3, 2, server_step=0.9), seed=5, common_noise=True)
    reference = naive.fedavg(shards(), WIDTHS, 0.02, deviations=noise_of(run, problem, 6)[:, 0], **start, **rest)
    np.testing.assert_allclose(run.x[0], reference.x[-1], atol=TOLERANCE)
    method = fl.DPScaffold(0.3, 2, server_step=0.9, warm_start=True)
    run = fl.solve(problem, BUDGET, rounds=3, algorithm=method, seed=5, common_noise=True)
    deviations = noise_of(run, problem, 8)[:, 0]
    varied = naive.scaffold(shards(), WIDTHS, 0.02, deviations=deviations, **start, **rest, warm_start=True)
    np.testing.assert_allclose(run.x[0], varied.x[-1], atol=TOLERANCE)


@pytest.mark.thorough
@cases.tiny_shards
def test_fedexp_and_scaffnew_are_the_oracles() -> None:
    problem = make(l2=0.02)
    rest: dict[str, Any] = {"seed": 5, "repetition": 0, "clip": 0.8}
    run = fl.solve(problem, BUDGET, rounds=3, algorithm=fl.LDPFedEXP(0.3, 2), seed=5, common_noise=True)
    deviations = noise_of(run, problem, 6)[:, 0]
    reference = naive.fedexp(shards(), WIDTHS, 0.02, problem.start(), 0.3, 2, deviations, 3, **rest)
    np.testing.assert_allclose(run.x[0], reference.x[-1], atol=TOLERANCE)
    problem = make(regularizer=fl.BoxL1(1e-3, 2.0), l2=0.02)
    method = fl.DPScaffNew(0.3, 0.5)
    run = fl.solve(problem, BUDGET, rounds=6, algorithm=method, seed=5, common_noise=True, record=fl.Every(1))
    x0 = problem.regularizer.prox(problem.start(), 0.0)
    given = shards(), WIDTHS, 0.02, naive.box_l1(1e-3, 2.0), x0, 0.3, 0.5
    skipped = naive.scaffnew(*given, noise_of(run, problem, 6)[:, 0], 6, **rest)
    assert 0 < skipped.coins.sum() < 6
    np.testing.assert_allclose(run.means[0], skipped.x[1:], atol=TOLERANCE)


@cases.tiny_shards
@pytest.mark.parametrize("accelerated", [False, True])
def test_isrl_takes_the_prox_of_the_paper(accelerated: bool) -> None:
    problem = make(regularizer=fl.BoxL1(1e-3, 2.0), l2=0.02)
    method = fl.ISRLDP(0.3, accelerated=accelerated)
    run = fl.solve(problem, BUDGET, rounds=4, algorithm=method, seed=5, common_noise=True)
    x0 = problem.regularizer.prox(problem.start(), 0.0)
    given = shards(), WIDTHS, 0.02, naive.box_l1(1e-3, 2.0), x0
    rest: dict[str, Any] = {"deviations": noise_of(run, problem, 4)[:, 0], "rounds": 4, "clip": 0.8}
    rest |= {"seed": 5, "repetition": 0}
    if accelerated:
        reference = naive.isrl_accelerated(*given, 1 / 0.6, 0.02, **rest)
    else:
        reference = naive.isrl(*given, 0.3, **rest)
    np.testing.assert_allclose(run.x[0], reference.x[-1], atol=TOLERANCE)


@cases.tiny_shards
def test_isrl_is_the_oracles() -> None:
    problem = make(regularizer=fl.L2Ball(2.5), l2=0.02)
    run = fl.solve(
        problem, BUDGET, rounds=5, algorithm=fl.ISRLDP(0.3, clip=0.5, tail_average=2), seed=5, common_noise=True
    )
    x0 = problem.regularizer.prox(problem.start(), 0.0)
    deviations = noise_of(run, problem, 5)[:, 0]
    reference = naive.isrl(shards(), WIDTHS, 0.02, naive.l2_ball(2.5), x0, 0.3, deviations, 5, 5, 0, clip=0.5)
    np.testing.assert_allclose(run.x[0], naive.tail_mean(reference.x, 2), atol=TOLERANCE)


@cases.tiny_shards
def test_the_same_bits_on_any_number_of_threads_and_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    problem = make(regularizer=G)
    given: dict[str, Any] = {"rounds": 6, "algorithm": fl.PrimalDual(step=0.8), "seed": 2}
    reference = fl.solve(problem, BUDGET, n_jobs=1, record=fl.Final(), **given)
    for others in (
        {"n_jobs": 2, "record": fl.Final()},
        {"n_jobs": 2, "repetitions": 3, "record": fl.Every(1)},
        {"n_jobs": 1, "repetitions": 2},
    ):
        run = fl.solve(problem, BUDGET, **given, **others)
        np.testing.assert_array_equal(run.workers[0], reference.workers[0])
        np.testing.assert_array_equal(run.consensus[0, -1], reference.consensus[0, -1])


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_gets_its_threads_back() -> None:
    before = blas_threads()
    fl.solve(make(), rounds=2, algorithm=fl.PrimalDual(step=0.5), repetitions=3)
    assert blas_threads() == before


def test_any_thread_can_keep_blas_to_one_thread() -> None:
    """The first that asks is not the only one that is heeded, and the last that leaves need not be the first."""
    before, seen = blas_threads(), []

    def enter() -> None:
        with blas.one_thread():
            seen.append(blas_threads())

    enter()
    with ThreadPoolExecutor(1) as other:
        other.submit(enter).result()
        inside = blas.one_thread()
        other.submit(inside.__enter__).result()
        seen.append(blas_threads())
        inside.__exit__(None, None, None)
    assert seen == [[1] * len(before)] * 3
    assert blas_threads() == before


def runs_of(problem: fl.MLP, horizon: int) -> Runs:
    schedule = fl.PrimalDual(step=0.8).schedule(problem, BUDGET, horizon)
    timetable = recording.timetable(fl.Every(2), horizon, problem.n)
    return Runs(problem, schedule, problem.start(), key_of(1, 0)[None], timetable, np.full(problem.d, np.nan))


def test_a_run_goes_on_after_a_pause_with_the_same_bits() -> None:
    problem = make()
    through, first, second = (runs_of(problem, 8) for _ in range(3))
    samples = layouts.samples_in_lanes(problem, 1)
    whole = block.Block(samples, [Lane(through, 0)])
    whole.advance(8)
    before = block.Block(samples, [Lane(first, 0)])
    before.advance(5)
    after = block.Block(samples, [Lane(second, 0)])
    after.carry_on(5, before.memories([0]))
    after.advance(8)
    np.testing.assert_array_equal(through.workers, second.workers)


def test_no_round_allocates() -> None:
    problem = make(regularizer=G)
    laid = block.Block(layouts.samples_in_lanes(problem, 1), [Lane(runs_of(problem, 30), 0)])

    def allocations(rounds: int) -> int:
        before = runtime.memsys_get_stats_alloc()
        laid.advance(laid.done + rounds)
        return int(runtime.memsys_get_stats_alloc() - before)

    runtime.memsys_enable_stats()
    try:
        allocations(3)  # compiles
        assert allocations(4) == allocations(20)
    finally:
        runtime.memsys_disable_stats()


# Softmax regression


def test_softmax_regression_finds_the_minimiser() -> None:
    """Convex: without noise the paper's method ends where a quasi-Newton method does."""
    exact, problem = (make((5, 3), clip=None, l2=0.1, products=products) for products in mlp.PRODUCTS[::-1])
    np.testing.assert_array_equal(problem.start(), 0.0)
    reference = optimize.minimize(exact.objective, exact.start(), jac=exact.gradient, tol=1e-12).x
    run = fl.solve(problem, rounds=2000, algorithm=fl.PrimalDual(step=0.9), record=fl.Final())
    np.testing.assert_allclose(run.x[0], reference, atol=1e-5)
    assert run.objective[0, -1] == pytest.approx(exact.objective(reference), rel=1e-6)


# Measures


@cases.tiny_shards
def test_measures_are_recorded_saved_and_sent(tmp_path: Path) -> None:
    images, labels = data(seed=3)
    problem = make(regularizer=G, test=(images[:20], labels[:20]))
    run = fl.solve(problem, BUDGET, rounds=6, algorithm=fl.PrimalDual(step=0.8), repetitions=2, seed=1, record=[2, 6])
    assert list(run.measures) == ["objective", "train_loss", "accuracy"]
    x = run.means[1, 0]
    assert run.measures["accuracy"][1, 0] == naive.accuracy(WIDTHS, images[:20], labels[:20].astype(float), x)
    assert run.measures["train_loss"][1, 0] == problem.train_loss(x)
    assert run.objective[1, 0] == problem.objective(x)
    with pytest.raises(KeyError):
        run.measures["precision"]
    run.save(tmp_path / "run.npz")
    for other in (fl.load(tmp_path / "run.npz"), pickle.loads(pickle.dumps(run))):
        assert dict(other.measures).keys() == dict(run.measures).keys()
        for name in run.measures:
            np.testing.assert_array_equal(other.measures[name], run.measures[name])
    summary = run.summary()
    assert "accuracy" in summary
    assert "optimality" not in summary
    assert run.plot().get_ylabel() == "accuracy"


def test_bytes_are_scaled_and_images_flattened() -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 3, 2)).astype(np.uint8)
    labels = np.arange(12) % 3
    problem = fl.MLP(images, labels, hidden=4, workers=3, products="float64")
    scaled = fl.MLP(images.reshape(12, 6) / 255, labels, hidden=4, workers=3, products="float64")
    x = point(problem)
    assert problem.objective(x) == pytest.approx(scaled.objective(x), rel=1e-14)
    assert problem.fingerprint != fl.MLP(images, labels, hidden=5, workers=3, products="float64").fingerprint
    assert problem.fingerprint == fl.MLP(images, labels, hidden=4, workers=3, products="float64").fingerprint


def test_the_start_is_public_seeded_and_breaks_the_symmetry() -> None:
    problem = make()
    np.testing.assert_array_equal(problem.start(), make().start())
    assert not np.array_equal(problem.start(), problem.replace(start_seed=1).start())
    first, biases = naive.layers(WIDTHS, problem.start())[0]
    assert len(np.unique(first)) == first.size
    assert (biases == 0).all()


# Refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hidden": 0}, "^hidden = 0: "),
        ({"hidden": [4, 2.5]}, "^hidden = 2.5: "),
        ({"hidden": 10**300}, "^hidden = 1000"),
        ({"hidden": [2**31 - 1, 2**31 - 1]}, "^hidden = .*GB are free; give fewer units"),
        ({"classes": 10**300}, "^classes = 1000"),
        ({"clip": 1e308}, r"^clip = 1e\+308: .*to 1e\+20 in float32"),
        ({"hidden": "200"}, "^hidden = '200': "),
        ({"clip": 0.0}, "^clip = 0.0: .*> 0"),
        ({"strong_convexity": -1.0}, "^strong_convexity = -1.0: "),
        ({"products": "float16"}, "^products = 'float16': use one of"),
        ({"classes": 3}, "^labels = 3: number the classes from 0 to 2"),
        ({"classes": 1}, "^classes = 1: "),
        ({"test": 5}, r"^test = 5: give \(images, labels\)"),
        ({"test": (np.zeros((2, 3)), [0, 1])}, r"^test = \(2, 3\): the images have 11 features"),
        ({"start_seed": -1}, "^start_seed = -1: "),
        ({"workers": 100}, "^workers = 100: there are only 62 rows"),
        ({"regularizer": fl.BoxL1(np.ones(3), 1.0)}, "^weight = .*148 coordinates"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, Any], message: str) -> None:
    images, labels = data()
    with pytest.raises(fl.errors.ArgumentError, match=message):
        fl.MLP(images, labels, **({"hidden": 9, "workers": 3} | given))


def test_bad_images_and_labels() -> None:
    images, labels = data()
    for bad, classes, message in (
        (images[0], labels[:1], "^images = .*shape"),
        (np.where(np.arange(11) == 4, np.nan, images), labels, r"NaN or infinite entries, the first at \[0, 4\]"),
        (1e20 * images, labels, "overflow in float32"),
        (images, labels[:-1], "^labels = .*62 whole numbers"),
        (images, labels - 1, "^labels = -1: number the classes from 0"),
        (images, labels / 2, "^labels = .*whole numbers"),
    ):
        with pytest.raises(fl.errors.DataError, match=message):
            fl.MLP(bad, classes, hidden=9, workers=3)


def test_solves_that_need_more_than_was_given() -> None:
    problem = make(clip=None)
    with pytest.raises(fl.errors.ArgumentError, match="^step = None: a network has no default step"):
        fl.solve(problem, rounds=2)
    with pytest.raises(fl.errors.UnboundedGradientError, match="^clip = None: "):
        fl.solve(problem, BUDGET, rounds=2, algorithm=fl.PrimalDual(step=1.0))
    with pytest.raises(fl.errors.ArgumentError, match="test = None: there are no test images"):
        problem.accuracy(problem.start())
    with pytest.raises(fl.errors.OptimumError):
        problem.optimum()
    with pytest.raises(fl.errors.ArgumentError, match="^problem = MLP"):
        fl.tune(problem, BUDGET, [fl.ISRLDP(0.1, clip=1.0)], rounds=2)
    with pytest.raises(fl.errors.ArgumentError, match="^step = None: a network has no default step"):
        fl.audit(make(), BUDGET, rounds=2)
    with pytest.raises(fl.errors.ArgumentError, match="it cannot handle g"):
        fl.solve(make(regularizer=G), BUDGET, rounds=2, algorithm=fl.DPFedAvg(0.1, 2))


# The real thing


@pytest.mark.skipif("FASTLDP_DATA" not in os.environ, reason="FASTLDP_DATA does not name a folder with mnist")
def test_a_network_learns_the_digits() -> None:
    train, test = fl.datasets.load("mnist"), fl.datasets.load("mnist", part="test", rows=1000)
    rows, owners = fl.datasets.sample(train.labels, 10, "label", sizes=200, share=0.25)
    problem = fl.MLP(
        train.images[rows],
        train.labels[rows],
        hidden=30,
        workers=owners,
        regularizer=fl.BoxL1(1e-5, 10.0),
        clip=1.0,
        test=(test.images, test.labels),
    )
    run = fl.solve(problem, rounds=200, algorithm=fl.PrimalDual(step=1.0), record=[1, 200])
    accuracy = run.measures["accuracy"][0]
    assert accuracy[0] < 0.2
    assert accuracy[1] > 0.5


# Sweeps

SWEEP = """
rounds = [4, 6]
repetitions = 2
seed = 5
[data]
given = "digits"
[network]
workers = 3
partition = "label"
sizes = [[20, 12, 17]]
share = 0.5
hidden = 9
clip = [0.5, 0.8]
strong_convexity = 0.05
regularizer = {name = "BoxL1", weight = 1e-3, bound = 0.7}
[budget]
epsilon = 5.0
delta = 1e-3
[[method]]
name = "PrimalDual"
step = 0.8
"""


def test_a_sweep_over_networks_has_the_numbers_of_solves(tmp_path: Path) -> None:
    images, labels = data()
    given = {"digits": (images, labels, images[:20], labels[:20])}
    report = fl.sweep(SWEEP, tmp_path / "nets.h5", given=given)
    assert (report.completed, report.failed) == (8, 0)
    found = fl.results(tmp_path / "nets.h5")
    rows, owners = fl.datasets.sample(labels, 3, "label", sizes=[20, 12, 17], share=0.5)
    problem = fl.MLP(
        images[rows],
        labels[rows],
        hidden=9,
        workers=owners,
        clip=0.8,
        strong_convexity=0.05,
        regularizer=G,
        test=(images[:20], labels[:20]),
    )
    run = fl.solve(problem, BUDGET, rounds=6, algorithm=fl.PrimalDual(step=0.8), repetitions=2, seed=5)
    stored = found.where(clip=0.8, rounds=6)[1]
    np.testing.assert_array_equal(stored.x, run.x[1])
    np.testing.assert_array_equal(stored.accuracy, run.measures["accuracy"][1])
    np.testing.assert_array_equal(stored.train_loss, run.measures["train_loss"][1])
    assert np.isnan(stored.optimality).all()
    assert "accuracy" in found.summary()
    assert stored.ledger is not None
    assert run.ledger is not None
    assert stored.ledger.spent_rho == pytest.approx(run.ledger.spent_rho, rel=1e-12)
    assert found.where(rounds=6).curves(measure="accuracy")[0].values.shape == (2, 6)


def test_all_images_can_be_in_the_hands_of_one_worker(tmp_path: Path) -> None:
    """Whose noise is once what each of several adds, by the size of its own shard."""
    images, labels = data()
    text = SWEEP.replace("clip = [0.5, 0.8]", "clip = 0.8\npooled = [false, true]").replace("[4, 6]", "6")
    fl.sweep(text, tmp_path / "nets.h5", given={"digits": (images, labels, images[:20], labels[:20])})
    stored = fl.results(tmp_path / "nets.h5").where(pooled=True)[0]
    rows, _ = fl.datasets.sample(labels, 3, "label", sizes=[20, 12, 17], share=0.5)
    problem = fl.MLP(
        images[rows],
        labels[rows],
        hidden=9,
        workers=1,
        clip=0.8,
        strong_convexity=0.05,
        regularizer=G,
        test=(images[:20], labels[:20]),
    )
    run = fl.solve(problem, BUDGET, rounds=6, algorithm=fl.PrimalDual(step=0.8), seed=5)
    np.testing.assert_array_equal(stored.x, run.x[0])
    for broken, message in (
        (text.replace("pooled = [false, true]", "pooled = 1"), "pooled: give true or false"),
        (text.replace('partition = "label"\n', ""), "partition"),
    ):
        with pytest.raises(fl.errors.SpecError, match=message):
            fl.sweep(broken, tmp_path / "no.h5", given={"digits": data()})


def test_results_name_the_threshold_of_network_or_method(tmp_path: Path) -> None:
    text = SWEEP.replace("clip = [0.5, 0.8]\n", "").replace("step = 0.8", 'step = 0.8\nclip = ["adaptive", 0.7]')
    fl.sweep(text.replace("[4, 6]", "4"), tmp_path / "own.h5", given={"digits": data()})
    found = fl.results(tmp_path / "own.h5")
    assert sorted(map(str, found.parameters["clip"])) == ["0.7", "adaptive"]
    assert len(found.where(clip="adaptive")) == 2
    assert np.all(found.where(clip="adaptive").table()["threshold"] > 0)


def test_a_sweep_goes_on_in_the_middle_of_a_network(tmp_path: Path) -> None:
    """Legs of next to no time: every run is written down and taken up again after every segment."""
    given = {"digits": data()}
    fl.sweep(SWEEP, tmp_path / "whole.h5", given=given)
    fl.sweep(SWEEP, tmp_path / "pieces.h5", given=given, leg_seconds=1e-9)
    whole, pieces = fl.results(tmp_path / "whole.h5"), fl.results(tmp_path / "pieces.h5")
    assert whole.digest() == pieces.digest()
    assert np.isnan(whole.table()["accuracy"]).all()


def test_a_sweeps_images_need_a_network(tmp_path: Path) -> None:
    for old, new, message in (
        ('given = "digits"\n[network]\nworkers = 3', 'synthetic = "mnist"\nrows = 9\n[problem]\nworkers = 3', "hidden"),
        ("[network]", "[problem]", "line 12, problem.hidden: not a known key"),
        ("clip = [0.5, 0.8]", "clip = 0.0", "line 13, network.clip: clip = 0.0: "),
        ("sizes = [[20, 12, 17]]", "sizes = 100", "line 10, network.sizes: "),
    ):
        with pytest.raises(fl.errors.SpecError, match=message):
            fl.sweep(SWEEP.replace(old, new), tmp_path / "no.h5", given={"digits": data()})


def test_images_can_be_held_out_of_the_training_set(tmp_path: Path) -> None:
    images, labels = data()
    given = {"digits": (images, labels, images[:20], labels[:20])}
    text = SWEEP.replace("[network]", "held_out = 13\n[network]").replace("[[20, 12, 17]]", "[[10, 8, 6]]")
    found = spec.read(text, given).grounds[0].subjects[0].problem
    assert isinstance(found, fl.MLP)
    directly = fl.MLP(images, labels, hidden=9, workers=3, test=(images[-13:], labels[-13:]))
    for x in np.random.default_rng(0).standard_normal((50, found.d)):
        assert found.accuracy(x) == directly.accuracy(x)
    rows, _ = fl.datasets.sample(labels[:-13], 3, "label", sizes=[10, 8, 6], share=0.5)
    np.testing.assert_array_equal(np.sort(found.classes_of_rows[found.counted > 0]), np.sort(labels[rows]))
    for number, message in ((62, "hold out fewer"), (0, "whole number ≥ 1")):
        with pytest.raises(fl.errors.SpecError, match=f"data.held_out: .*{message}"):
            fl.sweep(text.replace("held_out = 13", f"held_out = {number}"), tmp_path / "no.h5", given=given)


def test_a_small_trial_replaces_single_keys_of_a_network() -> None:
    text = SWEEP + "[quick]\nrounds = 3\n[quick.network]\nhidden = 2\n"
    small = spec.read(text, {"digits": data()}, quick=True)
    whole = spec.read(text, {"digits": data()})
    assert {setting.rounds for setting in small.settings} == {3}
    for read, hidden in ((small, 2), (whole, 9)):
        problem = read.grounds[0].subjects[0].problem
        assert isinstance(problem, fl.MLP)
        assert problem.layers.widths[1] == hidden
        assert problem.clip == 0.5
