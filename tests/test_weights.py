"""Workers weighted by their rows: all methods, constants and promises against the oracle; tiny shards are warned of."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import cases
import fastldp as fl
import naive
from fastldp import theory
from fastldp.engine import driving
from fastldp.engine.recording import timetable
from fastldp.engine.runs import kind_of_block
from fastldp.errors import ArgumentError, NoiseWarning, UnknownNameError
from fastldp.planning.plan import planned, way_of
from fastldp.sweeping import spec

BUDGET = fl.Budget(1.0, 1e-4)
SIZES = (5, 24, 1, 9)
ROUNDS = 7
METHODS: dict[str, Any] = {
    "primal_dual": fl.PrimalDual(),
    "fedavg": fl.DPFedAvg(0.3, 3, server_step=0.6),
    "fedavg_clipped": fl.DPFedAvg(0.3, 3, clip=0.7),
    "scaffold": fl.DPScaffold(0.3, 3, clip=0.7, server_step=0.6),
    "scaffold_warm": fl.DPScaffold(0.2, 2, warm_start=True),
    "fedexp": fl.LDPFedEXP(0.3, 3),
    "scaffnew": fl.DPScaffNew(0.3, 0.4),
    "isrl": fl.ISRLDP(0.5),
    "isrl_tail": fl.ISRLDP(0.5, clip=0.7, tail_average=3),
    "isrl_accelerated": fl.ISRLDP(0.5, accelerated=True),
}


def rows_case(name: str = "zero", **given: Any) -> cases.Case:
    return cases.make(name, **({"sizes": SIZES} | given), weighting="rows")


def reference(case: cases.Case, method: Any, run: fl.Solution, repetition: int) -> Any:
    """(rounds, d): the oracle's plain mean of the models after every round, seed 5."""
    n, d = case.problem.n, case.problem.d
    x0, gridded = case.g.prox(np.zeros(d), 0.0), case.problem.dtype == "float64"
    releases = 1 if run.ledger is None else run.ledger.releases
    variances = np.zeros((n, max(releases, ROUNDS))) if run.ledger is None else run.ledger.variances
    deviations = np.sqrt(np.broadcast_to(variances, (n, np.shape(variances)[-1])))
    weighting: dict[str, Any] = {"gridded": gridded, "weighting": "rows"}
    if isinstance(method, fl.PrimalDual):
        given = case.shards, case.loss, case.l2, case.g, x0, case.problem.step_limit
        return naive.primal_dual(*given, deviations, 5, repetition, **weighting).x[1:].mean(axis=1)
    weighting["clip"] = np.inf if method.clip is None else method.clip
    common = deviations[:, 0], ROUNDS, 5, repetition
    if isinstance(method, fl.ISRLDP):
        isrl = case.shards, case.loss, case.l2, case.g, x0
        if method.accelerated:
            return naive.isrl_accelerated(*isrl, 1 / (2 * method.step), case.l2, *common, **weighting).x[1:]  # type: ignore[operator]
        x = naive.isrl(*isrl, method.step, *common, **weighting).x  # type: ignore[arg-type]
        begins = ROUNDS - max(method.tail_average, 1)
        return np.array([naive.tail_mean(x[: t + 2], max(1, t + 1 - begins)) for t in range(ROUNDS)])
    if isinstance(method, fl.DPScaffNew):
        skipping = case.shards, case.loss, case.l2, case.g, x0, method.step, method.probability
        return naive.scaffnew(*skipping, *common, **weighting).x[1:]
    if isinstance(method, fl.LDPFedEXP):
        given_local = case.shards, case.loss, case.l2, x0, method.step, method.local_steps
        return naive.fedexp(*given_local, *common, **weighting).x[1:]
    local = case.shards, case.loss, case.l2, x0, method.step, method.local_steps, method.server_step
    if isinstance(method, fl.DPFedAvg):
        return naive.fedavg(*local, *common, **weighting).x[1:]
    return naive.scaffold(*local, *common, **weighting, warm_start=method.warm_start).x[1:]


# Trajectories


@pytest.mark.parametrize("repetitions", [1, 3, 20])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_trajectories_are_the_oracles(name: str, layout: str, repetitions: int) -> None:
    case, method = rows_case(layout=layout), METHODS[name]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "repetitions": repetitions, "seed": 5}
    for budget in (BUDGET, None):
        run = fl.solve(case.problem, budget, **given, common_noise=True, record=fl.Every(1))
        expected = reference(case, method, run, repetitions - 1)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["box_l1", "simplex"])
def test_algorithm_1_with_a_nonsmooth_g(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prox keeps γ/n, whatever the weights."""
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    case = rows_case(name, loss="squared")
    for repetitions in (1, 3):
        run = fl.solve(
            case.problem,
            BUDGET,
            rounds=ROUNDS,
            repetitions=repetitions,
            seed=5,
            common_noise=True,
            n_jobs=threads,
            record=fl.Every(1),
        )
        expected = reference(case, METHODS["primal_dual"], run, repetitions - 1)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["primal_dual", "fedavg", "scaffold_warm", "isrl"])
def test_single_precision(name: str) -> None:
    case, method = rows_case(dtype="float32"), METHODS[name]
    run = fl.solve(
        case.problem,
        BUDGET,
        rounds=ROUNDS,
        algorithm=method,
        repetitions=18,
        seed=5,
        common_noise=True,
        record=fl.Every(1),
    )
    expected = reference(case, method, run, 17)
    np.testing.assert_allclose(run.means[17], expected, atol=1e-4 * np.abs(expected).max())


WIDTHS = (6, 4, 3)


def network(weighting: str = "rows", **changes: Any) -> tuple[fl.MLP, naive.Shards]:
    rng = np.random.default_rng(3)
    images, labels = rng.standard_normal((26, 6)), rng.integers(0, 3, 26)
    owners = np.repeat(np.arange(3), [4, 15, 7])
    given: dict[str, Any] = {"hidden": 4, "clip": 0.8, "l2": 0.02, "products": "float64", "classes": 3} | changes
    problem = fl.MLP(images, labels, workers=owners, weighting=weighting, **given)
    return problem, [(images[owners == i], labels[owners == i].astype(float)) for i in range(3)]


@pytest.mark.thorough
@pytest.mark.parametrize("repetitions", [1, 2])
@pytest.mark.parametrize(
    "method",
    [fl.PrimalDual(0.8), fl.DPFedAvg(0.3, 2), fl.DPScaffold(0.3, 2, warm_start=True), fl.ISRLDP(0.4)],
    ids=repr,
)
def test_networks_are_the_oracles(method: Any, repetitions: int) -> None:
    problem, shards = network()
    run = fl.solve(problem, BUDGET, rounds=4, algorithm=method, repetitions=repetitions, seed=5, common_noise=True)
    assert run.ledger is not None
    deviations = np.sqrt(np.broadcast_to(run.ledger.variances, (3, run.ledger.releases)))
    x0, last = problem.start(), repetitions - 1
    weighting: dict[str, Any] = {"clip": 0.8, "weighting": "rows"}
    if isinstance(method, fl.PrimalDual):
        found = naive.primal_dual(shards, WIDTHS, 0.02, naive.zero(), x0, 0.8, deviations, 5, last, **weighting).x[-1]
        expected = found.mean(axis=0)
    elif isinstance(method, fl.ISRLDP):
        given = shards, WIDTHS, 0.02, naive.zero(), x0, 0.4, deviations[:, 0], 4, 5, last
        expected = naive.isrl(*given, **weighting).x[-1]
    else:
        of_local = shards, WIDTHS, 0.02, x0, 0.3, 2, 1.0, deviations[:, 0], 4, 5, last
        if isinstance(method, fl.DPFedAvg):
            expected = naive.fedavg(*of_local, **weighting).x[-1]
        else:
            expected = naive.scaffold(*of_local, **weighting, warm_start=True).x[-1]
    np.testing.assert_allclose(run.x[-1], expected, atol=1e-9 * np.abs(expected).max())


def test_networks_measure_what_is_weighted() -> None:
    problem, shards = network()
    x, w = problem.start() + 0.1, naive.weights_of(shards, "rows")
    losses = [
        np.mean([naive.cross_entropy(WIDTHS, a, int(c), x) for a, c in zip(A, b, strict=True)]) for A, b in shards
    ]
    assert problem.train_loss(x) == pytest.approx(float(w @ losses), rel=1e-12)
    assert problem.objective(x) == pytest.approx(float(w @ losses) + 0.01 * float(x @ x), rel=1e-12)
    gradients = [naive.gradient(WIDTHS, A, b, x) + 0.02 * x for A, b in shards]
    np.testing.assert_allclose(problem.gradient(x), w @ np.array(gradients), rtol=1e-10, atol=1e-14)
    assert problem.safe_strong_convexity == pytest.approx(0.02 * 4 / 26, rel=1e-12)
    uniform = problem.replace(weighting="uniform")
    assert uniform.definition == network("uniform")[0].definition
    assert uniform.train_loss(x) == pytest.approx(float(np.mean(losses)), rel=1e-12)
    assert "weighting" not in uniform.parameters
    assert "weighted by rows" in repr(problem)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["primal_dual", "scaffold", "isrl"])
def test_bits_depend_on_nothing_but_the_seed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, method = rows_case().problem, METHODS[name]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "seed": 5, "record": [fl.Every(2), fl.Messages(1)]}
    many = fl.solve(problem, BUDGET, repetitions=20, n_jobs=1, **given)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 1.0)
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    few = fl.solve(problem, BUDGET, repetitions=3, n_jobs=2, **given)
    np.testing.assert_array_equal(many.means[:3], few.means)
    np.testing.assert_array_equal(many.workers[:3], few.workers)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(METHODS))
def test_equal_shards_weighted_by_rows_are_uniform(name: str) -> None:
    """n·12/36 of three workers is 1, so that even the bits are the same."""
    problem = cases.make("zero").problem
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": METHODS[name], "repetitions": 3, "seed": 5}
    uniform = fl.solve(problem, BUDGET, **given, common_noise=True)
    weighted = fl.solve(problem.replace(weighting="rows"), BUDGET, **given, common_noise=True)
    np.testing.assert_array_equal(uniform.means, weighted.means)
    assert uniform.ledger is not None
    assert weighted.ledger is not None
    np.testing.assert_array_equal(uniform.ledger.variances, weighted.ledger.variances)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "rounds"),
    [
        (fl.PrimalDual(), 6000),
        (fl.DPFedAvg(0.3, 1), 2000),
        (fl.DPScaffold(0.1, 5), 3000),
        (fl.ISRLDP(0.3), 2000),
        (fl.ISRLDP(0.2, accelerated=True), 6000),
    ],
    ids=repr,
)
def test_without_noise_runs_rest_at_the_optimum(method: Any, rounds: int) -> None:
    """Of the weighted objective, which is not that of uniform weights."""
    case = rows_case(sizes=(5, 24, 3, 9), l2=1.0)
    run = fl.solve(case.problem, rounds=rounds, algorithm=method, record=fl.Final())
    slow = isinstance(method, fl.ISRLDP) and method.accelerated  # 1/T², without a certificate
    assert run.optimality[0, -1] < (1e-9 if slow else 1e-18)
    x_star = case.problem.optimum()
    g = naive.objective_gradient("logistic", case.shards, 1.0, x_star, "rows")
    assert np.linalg.norm(g) < 1e-10
    assert np.linalg.norm(x_star - case.problem.replace(weighting="uniform").optimum()) > 1e-3


# The problem, the theory and the planner


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_constants_objective_and_gradient(loss: str, layout: str) -> None:
    case = rows_case("box_l1", loss=loss, layout=layout, sizes=(15, 24, 11, 19))
    problem, x = case.problem, np.linspace(-0.3, 0.4, 9)
    given = loss, case.shards, case.l2
    assert problem.smoothness == pytest.approx(naive.smoothness(*given, "rows"), rel=1e-12)
    assert problem.strong_convexity == pytest.approx(naive.strong_convexity(*given, "rows"), rel=1e-9)
    assert problem.objective(x) == pytest.approx(naive.objective(*given, case.g, x, "rows"), rel=1e-12)
    np.testing.assert_allclose(problem.gradient(x), naive.objective_gradient(*given, x, "rows"), rtol=1e-10)
    # Every sample counts the same: as one worker that has all of them.
    labels = -np.ones(69) if loss == "logistic" else problem.targets
    together = fl.Problem(problem.rows, labels, workers=1, loss=loss, l2=case.l2, regularizer=problem.regularizer)
    np.testing.assert_allclose(problem.optimum(), together.optimum(), atol=1e-10)


def test_public_constants_have_the_heaviest_and_the_lightest_worker() -> None:
    problem = fl.Problem(
        np.eye(9), np.ones(9), workers=[0] * 6 + [1] * 3, l2=8.0, row_bound=2.0, gradient_bound="half", weighting="rows"
    )
    assert problem.safe_step == pytest.approx(1 / (6 / 9 * (1.0 + 8.0)), rel=1e-12)
    assert problem.facts.step_limit == pytest.approx(problem.safe_step, rel=1e-12)
    assert problem.safe_strong_convexity == pytest.approx(3 / 9 * 8.0, rel=1e-12)
    np.testing.assert_allclose(problem.facts.sensitivity, 2 * 1.0 / 9, rtol=1e-12)


def test_the_ledgers_variances_are_the_same_for_all_workers() -> None:
    case = rows_case("box_l1", sizes=(5, 240, 2, 9))
    ledger = fl.solve(case.problem, BUDGET, rounds=30).ledger
    assert ledger is not None
    B, M = max(naive.gradient_bound_logistic(A) for A, _ in case.shards), 256
    assert isinstance(ledger.sensitivity, float)
    assert ledger.sensitivity == pytest.approx(2 * B / M, rel=1e-9)
    assert ledger.variances.shape == (30,)
    rho, mu = float(np.max(ledger.affordable_rho)), naive.strong_convexity("logistic", case.shards, case.l2, "rows")
    step = case.problem.step_limit
    for m, w in zip(case.problem.sizes.tolist(), naive.weights_of(case.shards, "rows").tolist(), strict=True):
        expected = naive.dynamic_variances(30, step, mu, B, rho, 1 / w, m)
        np.testing.assert_allclose(ledger.variances, expected, rtol=1e-8)
    isrl = fl.solve(case.problem.replace(regularizer=None), BUDGET, rounds=30, algorithm=fl.ISRLDP(0.1)).ledger
    assert isrl is not None
    assert isrl.sensitivity == pytest.approx(4 * 2 * B / M, rel=1e-9)


def test_theory_speaks_of_the_weighted_problem() -> None:
    case = rows_case("box_l1", sizes=(5, 14, 9, 40))
    problem, x_star, step = case.problem, case.problem.optimum(), 0.2
    n, d, sizes, w = 4, 9, (5, 14, 9, 40), naive.weights_of(case.shards, "rows")
    dual_star = naive.dual_star("logistic", case.shards, case.l2, x_star, "rows")
    start = naive.lyapunov(np.zeros((n, d)), np.zeros((n, d)), x_star, dual_star, step)
    assert theory.initial_error(problem, step=step) == pytest.approx(start, rel=1e-12)
    mu = naive.strong_convexity("logistic", case.shards, case.l2, "rows")
    assert theory.contraction(problem, step) == pytest.approx(1 - step * mu, rel=1e-12)
    epsilons = np.array([0.5, 1.0, 4.0, 0.8])
    rhos = np.array([naive.rho_zcdp(float(epsilon), 1e-4) for epsilon in epsilons])
    B = max(naive.gradient_bound_logistic(A) for A, _ in case.shards)
    floor = 20 * B**2 * d * sum(w[i] ** 2 / (rhos[i] * sizes[i] ** 2) for i in range(n)) / mu**2
    assert theory.noise_floor(problem, fl.Budget(epsilons, 1e-4)) == pytest.approx(floor, rel=1e-12)
    # The paper's bounds hold of runs.
    run = fl.solve(problem, BUDGET, rounds=200, algorithm=fl.PrimalDual(step), repetitions=8, seed=1)
    bounds = theory.optimality_scale(problem) * theory.error_bounds(problem, BUDGET, 200, step=step)
    assert (run.optimality.mean(axis=0) <= bounds[run.rounds - 1]).all()


def quadratic(weighting: str) -> fl.Problem:
    """Every row of worker i has one feature of a length of its own, so that Hessians are known and none is clipped."""
    rng = np.random.default_rng(0)
    sizes = (30, 300, 60, 210)
    A = rng.standard_normal((600, 5)) / 4
    b = A @ np.ones(5) + 0.01 * rng.standard_normal(600)
    owners = np.repeat(np.arange(4), sizes)
    box = fl.Box(20.0)
    return fl.Problem(A, b, workers=owners, loss="squared", l2=0.5, regularizer=box, weighting=weighting)


@pytest.mark.thorough
@pytest.mark.parametrize("allocation", ["planned", "dynamic", "static"])
def test_the_planners_error_is_that_of_runs(allocation: str) -> None:
    problem, budget = quadratic("rows"), fl.Budget(20.0, 1e-4)
    method = fl.PrimalDual("planned", allocation, prior="exact")
    run = fl.solve(problem, budget, rounds=400, algorithm=method, repetitions=400, seed=1, record=fl.Final())
    assert run.ledger is not None
    facts, prior = problem.facts_of_data(), problem.exact_prior()
    made = planned(
        facts,
        prior,
        budget.rho_of_workers(4),
        facts.sensitivity,
        way_of(facts),
        rounds=400,
        allocation=allocation,
        convexity=problem.safe_strong_convexity,
    )
    expected = made.error / prior.norm**2
    assert float(run.distance.mean()) == pytest.approx(expected, rel=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("method", [fl.DPFedAvg("planned", 2), fl.ISRLDP("planned")], ids=repr)
def test_planned_baselines_weigh_the_noise_as_the_server_does(method: Any) -> None:
    """The error that a ledger's plan expects, against runs; noise of small shards has small weight."""
    problem = quadratic("rows").replace(regularizer=None, gradient_bound=30.0)
    kind, budget = type(method), fl.Budget(20.0, 1e-4)
    given = {"local_steps": 2} if kind is fl.DPFedAvg else {}
    run = fl.solve(
        problem,
        budget,
        rounds=400,
        algorithm=kind("planned", **given, prior="exact"),
        repetitions=400,
        seed=1,
        record=fl.Final(),
    )
    assert run.ledger is not None
    expected = float(run.ledger.plan.split("error at the start ")[1].split(",")[0])
    assert float(run.distance.mean()) == pytest.approx(expected, rel=0.1)


# Audits


@pytest.mark.thorough
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_audits_pass(name: str, layout: str) -> None:
    g = fl.Box(0.25) if any(kind in name for kind in ("primal", "isrl", "scaffnew")) else fl.Zero()
    A = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [0.6, -0.8], [1.0, 0.0]])
    problem = fl.Problem(
        sparse.csr_array(A) if layout == "csr" else A,
        [1, -1, 1, 1, -1, 1],
        workers=[0, 0, 1, 1, 1, 1],
        l2=1.0,
        regularizer=g,
        gradient_bound=1.0,
        weighting="rows",
    )
    for worker in (0, 1):
        given: dict[str, Any] = {"rounds": 4, "algorithm": METHODS[name], "worker": worker, "seed": 1}
        found = fl.audit(problem, fl.Budget(2.0, 1e-3), transcripts=8000, **given)
        assert found.passed, found.summary()
        assert 0 < found.power <= found.ledger_power * (1 + 1e-12)
        assert 0 < found.shown_epsilon < found.exact_epsilon


def test_neighbours_are_weighted_alike() -> None:
    problem = cases.make("box", gradient_bound=1.0).problem
    with pytest.raises(ArgumentError, match="weighting differs"):
        fl.audit(problem, BUDGET, rounds=2, neighbour=problem.replace(weighting="rows"), transcripts=2)


# Keys, sweeps and the command


def test_uniform_weights_go_unsaid() -> None:
    problem = cases.make("zero", sizes=SIZES).problem
    assert "weighting" not in problem.parameters
    weighted = problem.replace(weighting="rows")
    assert weighted.parameters == problem.parameters | {"weighting": "rows"}
    assert weighted.definition != problem.definition
    assert weighted.replace(l2=0.3).weighting == "rows"
    assert weighted.rows is problem.rows
    assert "weighted by rows" in repr(weighted)
    assert "weighted" not in repr(problem)
    with pytest.raises(UnknownNameError, match="weighting"):
        problem.replace(weighting="row")
    with pytest.raises(UnknownNameError, match="weighting"):
        fl.Facts([3, 4], 2, 1.0, weighting="sizes")


def test_runs_of_other_weights_do_not_share_a_block() -> None:
    problem = cases.make("zero").problem
    wanted = timetable(None, 3, problem.n)
    mates = [
        kind_of_block(each, fl.ISRLDP(0.1).schedule(each, BUDGET, 3).program, wanted, private=True)
        for each in (problem, problem.replace(l2=0.3), problem.replace(weighting="rows"))
    ]
    assert mates[0] == mates[1] != mates[2]


SWEEP = """
rounds = 6
repetitions = 3

[data]
synthetic = "ijcnn1"
rows = 200

[problem]
workers = 4
partition = "dirichlet"
least = 30
l2 = 0.1
weighting = ["uniform", "rows"]

[budget]
epsilon = 1.0
delta = 1e-4

[[method]]
name = ["PrimalDual", "ISRLDP"]
step = 0.2
"""


def test_sweeps_have_the_numbers_of_solves(tmp_path: Path) -> None:
    fl.sweep(SWEEP, tmp_path / "runs.h5", progress=False)
    data = fl.datasets.synthetic("ijcnn1")
    A, b = data.A[:200], data.b[:200]
    owners = fl.datasets.partition(b, 4, "dirichlet", least=30)
    results = fl.results(tmp_path / "runs.h5")
    assert len(spec.read(SWEEP).settings) == 4
    # Uniform weights go unsaid.
    for weighting, stored in (("uniform", None), ("rows", "rows")):
        problem = fl.Problem(A.toarray(), b, workers=owners, l2=0.1, weighting=weighting)
        for method in (fl.PrimalDual(0.2), fl.ISRLDP(0.2)):
            run = fl.solve(problem, BUDGET, rounds=6, algorithm=method, repetitions=3, seed=0)
            found = results.where(method=type(method).__name__, weighting=stored)
            assert len(found) == 3
            np.testing.assert_array_equal([each.optimality for each in found], run.optimality)


def test_keys_of_uniform_sweeps_are_what_they_were() -> None:
    text = SWEEP.replace("least = 30\n", "").replace('["uniform", "rows"]', '"uniform"')
    unsaid = text.replace('weighting = "uniform"\n', "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        keys = [[setting.key for setting in spec.read(one).settings] for one in (text, unsaid)]
    assert keys[0] == keys[1]


# Tiny shards


def tiny(**given: Any) -> fl.Problem:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((106, 3))
    owners = np.repeat(np.arange(3), [50, 6, 50])
    return fl.Problem(A, np.sign(A[:, 0]), workers=owners, l2=0.1, **given)


@pytest.mark.parametrize("method", [fl.PrimalDual(), fl.DPFedAvg(0.1, 2), fl.ISRLDP(0.1)], ids=repr)
def test_noise_that_dominates_is_warned_of(method: Any) -> None:
    with pytest.warns(
        NoiseWarning, match=r"worker 1 has 6 of 106 rows.* 69\.4 times .*weighting=\"rows\".*least="
    ) as found:
        fl.solve(tiny(), BUDGET, rounds=3, algorithm=method)
    assert len(found) == 1
    assert found[0].filename == __file__
    # Errors of warnings, as in all tests: weights by rows, no noise, and variances of the caller's own do not warn.
    fl.solve(tiny(weighting="rows"), BUDGET, rounds=3, algorithm=method)
    fl.solve(tiny(), rounds=3, algorithm=method)


def test_what_does_not_dominate_is_not_warned_of() -> None:
    A = np.eye(40)[:, :3] + 0.1
    for owners in ([0] * 40, [0] * 10 + [1] * 30):  # alone, and 9 times the variance
        fl.solve(fl.Problem(A, np.ones(40), workers=owners, l2=0.1), BUDGET, rounds=3)
    fl.solve(tiny(), BUDGET, rounds=3, algorithm=fl.PrimalDual(0.1, np.full(3, 1e9)))
    # An ε of its own is what the caller wants.
    equal = fl.Problem(A, np.ones(40), workers=4, l2=0.1)
    fl.solve(equal, fl.Budget(np.array([0.05, 1.0, 1.0, 1.0]), 1e-4), rounds=3)
    fewer = fl.Problem(A, np.ones(40), workers=[0] * 10 + [1] * 15 + [2] * 15, l2=0.1)
    fl.solve(fewer, fl.Budget(np.array([0.05, 1.0, 1.0]), 1e-4), rounds=3)


def test_sweeps_and_grids_warn_once() -> None:
    text = (
        SWEEP.replace("least = 30\n", "")
        .replace('["uniform", "rows"]', '"uniform"')
        .replace("rounds = 6", "rounds = [3, 6]")
    )
    with pytest.warns(NoiseWarning) as found:
        spec.read(text)
    assert len(found) == 1
    with pytest.warns(NoiseWarning) as found:
        fl.tune(tiny(), BUDGET, fl.grid(fl.ISRLDP, step=[0.1, 0.1]), rounds=[3], repetitions=1)
    assert len(found) == 1


@pytest.mark.parametrize("how", ["contiguous", "shuffled", "label", "dirichlet"])
@pytest.mark.parametrize("least", [1, 7, 10])
def test_every_worker_has_the_least_number_of_rows(how: str, least: int) -> None:
    labels = np.arange(200) % 3
    given: dict[str, Any] = {"alpha": 0.05} if how == "dirichlet" else {}
    owners = fl.datasets.partition(labels, 20, how, least=least, seed=3, **given)
    assert np.bincount(owners, minlength=20).min() >= least
    np.testing.assert_array_equal(owners, fl.datasets.partition(labels, 20, how, least=least, seed=3, **given))


def test_few_rows_are_moved() -> None:
    labels = np.arange(600) % 3
    before = fl.datasets.partition(labels, 12, "dirichlet", alpha=0.4, seed=1)
    np.testing.assert_array_equal(before, fl.datasets.partition(labels, 12, "dirichlet", alpha=0.4, least=0, seed=1))
    sizes, least = np.bincount(before), 25
    after = fl.datasets.partition(labels, 12, "dirichlet", alpha=0.4, least=least, seed=1)
    missing = int(np.maximum(least - sizes, 0).sum())
    assert missing > 0
    assert (before != after).sum() == missing
    # From the largest, which come down to one level.
    lost = sizes - np.bincount(after)
    assert (lost[sizes < least] == sizes[sizes < least] - least).all()
    assert np.ptp((sizes - lost)[lost > 0]) <= 1
    assert (sizes[lost > 0].min()) >= sizes[lost == 0].max() - 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"least": 11}, "least = 11.*at most 10"),
        ({"least": -1}, "least = -1"),
        ({"least": 2.5}, "least = 2.5"),
        ({"least": 6, "how": "shuffled", "sizes": [5, 95, 20, 20, 20, 20, 5, 5, 5, 5]}, "worker 0 has 5 rows, fewer"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        fl.datasets.partition(np.arange(100) % 2, 10, **given)


def test_a_sweep_refuses_sizes_with_a_least() -> None:
    text = SWEEP.replace('partition = "dirichlet"', 'partition = "shuffled"\nsizes = 30')
    with pytest.raises(fl.errors.SpecError, match="sizes say already"):
        spec.read(text)
