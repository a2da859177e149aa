"""The paper's bounds: against the oracle's formulas, against each other, and against private runs."""

import math
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
import naive
from fastldp import theory
from fastldp.errors import ArgumentError, BudgetError, UnknownNameError

BUDGET = fl.Budget(1.0, 1e-4)
# Workers that differ in everything a bound depends on.
SIZES = (5, 14, 9, 40)
EPSILONS = np.array([0.5, 1.0, 4.0, 0.8])


def lemma_2(phi: float, variances: naive.Array, step: float, mu: float, d: int) -> list[float]:
    """eq-one-descent, round by round, with the variances as (n, T)."""
    bounds = []
    for t in range(variances.shape[1]):
        phi = (1 - step * min(mu, 1)) * phi + 5 / 2 * d * step**2 * sum(float(v) for v in variances[:, t])
        bounds.append(phi)
    return bounds


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_initial_error_is_the_lyapunov_function(loss: str, layout: str) -> None:
    case = cases.make("box_l1", loss=loss, layout=layout, sizes=(5, 14, 1, 9))
    n, d, x_star = case.problem.n, case.problem.d, case.problem.optimum()
    x0 = np.full(d, 0.2)
    dual_star = naive.dual_star(loss, case.shards, case.l2, x_star)
    step = case.problem.step_limit
    reference = naive.lyapunov(np.tile(x0, (n, 1)), np.zeros((n, d)), x_star, dual_star, step)
    assert theory.initial_error(case.problem, x0) == pytest.approx(reference, rel=1e-12)


def test_the_start_is_that_of_a_solve() -> None:
    problem = cases.make("simplex").problem
    nearest = np.full(problem.d, 0.8 / problem.d)
    assert theory.initial_error(problem) == pytest.approx(theory.initial_error(problem, nearest), rel=1e-12)


@pytest.mark.parametrize("allocation", ["dynamic", "static"])
def test_error_bounds_are_lemma_2_with_the_variances_of_each_worker(allocation: str) -> None:
    case = cases.make("box_l1", sizes=SIZES)
    n, d, rounds, step = 4, 9, 60, 0.2
    mu = naive.strong_convexity("logistic", case.shards, case.l2)
    B = max(naive.gradient_bound_logistic(A) for A, _ in case.shards)
    rhos = [naive.rho_zcdp(float(epsilon), 1e-4) for epsilon in EPSILONS]
    if allocation == "dynamic":
        rows = [naive.dynamic_variances(rounds, step, mu, B, rho, n, m) for rho, m in zip(rhos, SIZES, strict=True)]
    else:
        rows = [naive.static_variances(rounds, B, rho, n, m) for rho, m in zip(rhos, SIZES, strict=True)]
    variances = np.array(rows)
    x_star = case.problem.optimum()
    dual_star = naive.dual_star("logistic", case.shards, case.l2, x_star)
    x0 = np.full(d, -0.3)
    phi = naive.lyapunov(np.tile(x0, (n, 1)), np.zeros((n, d)), x_star, dual_star, step)

    reference = lemma_2(phi, variances, step, mu, d)
    budget = fl.Budget(EPSILONS, 1e-4)
    computed = theory.error_bounds(case.problem, budget, rounds, allocation=allocation, x0=x0, step=step)
    # The variances of a run are a few millionths larger, for rounding.
    np.testing.assert_allclose(computed, reference, rtol=1e-5)
    np.testing.assert_allclose(theory.recursion(case.problem, variances, phi, step), reference, rtol=1e-12)


def test_variances_of_ones_own_and_no_budget() -> None:
    problem = cases.make("zero").problem
    own = np.linspace(9.0, 3.0, 20)
    start = theory.initial_error(problem)
    generous = fl.Budget(100.0, 1e-4)
    computed = theory.error_bounds(problem, generous, 20, allocation=own)
    np.testing.assert_allclose(computed, theory.recursion(problem, own, start), rtol=1e-12)
    # One row for all workers is as good as one for each.
    np.testing.assert_allclose(computed, theory.recursion(problem, np.tile(own, (3, 1)), start), rtol=1e-12)
    noiseless = start * theory.contraction(problem) ** np.arange(1, 21)
    np.testing.assert_allclose(theory.error_bounds(problem, None, 20), noiseless, rtol=1e-12)
    assert theory.noise_floor(problem, None) == 0
    assert theory.error_bound(problem, None, 20) == pytest.approx(noiseless[-1], rel=1e-12)


@pytest.mark.parametrize("kind", ["alike", "unequal", "public"])
def test_theorem_1_is_lemma_2_with_the_dynamic_allocation(kind: str) -> None:
    """Telescoping the lemma with Theorem 1's variances ends at or below the theorem's bound, near it for large T."""
    problem, budget = cases.make("box_l1", l2=1.0).problem, BUDGET
    if kind == "unequal":
        problem, budget = cases.make("box_l1", l2=1.0, sizes=SIZES).problem, fl.Budget(EPSILONS, 1e-4)
    if kind == "public":
        # The noise is then allocated by l2 alone, though the data are strongly convex too.
        problem = cases.make("box", loss="squared", l2=0.2, sizes=(60, 60), gradient_bound=100.0).problem
        assert problem.safe_strong_convexity < 0.8 * problem.strong_convexity
    for rounds in (1, 10, 300, 3000):
        lemma = theory.error_bounds(problem, budget, rounds)[-1]
        theorem = theory.error_bound(problem, budget, rounds)
        assert lemma <= theorem * (1 + 1e-5)
    if kind != "public":
        # (1 + √(1 − γμ))² is bounded by 4 in the theorem: the loss is that factor.
        rate = 1 - theory.contraction(problem)
        assert lemma / theorem == pytest.approx((1 + math.sqrt(1 - rate)) ** 2 / 4, rel=1e-4)


def test_noise_floor_is_the_papers_formula() -> None:
    problem = cases.make("zero").problem
    n, m, d, bound = 3, 12, 9, problem.gradient_bound
    rho = naive.rho_zcdp(1.0, 1e-4)
    mu = problem.strong_convexity
    assert theory.noise_floor(problem, BUDGET) == pytest.approx(20 * bound**2 * d / (rho * n * m**2 * mu**2), rel=1e-9)
    # Equal budgets given one by one are the same; a smaller one for a single worker raises the floor.
    each = fl.Budget(np.ones(3), 1e-4)
    assert theory.noise_floor(problem, each) == pytest.approx(theory.noise_floor(problem, BUDGET), rel=1e-12)
    less = fl.Budget(np.array([1.0, 1.0, 0.5]), 1e-4)
    assert theory.noise_floor(problem, less) > theory.noise_floor(problem, BUDGET)


def test_curvature_beyond_one_does_not_count() -> None:
    case = cases.make("zero", l2=30.0)
    assert case.problem.strong_convexity == 10.0
    assert theory.contraction(case.problem) == 1 - case.problem.step_limit
    bound = case.problem.gradient_bound
    assert theory.utility(case.problem, BUDGET) == pytest.approx(bound**2 * 9 * math.log(1e4) / (3 * 12**2))
    assert theory.utility(case.problem, BUDGET, "isrl-dp") == pytest.approx(theory.utility(case.problem, BUDGET) / 10)


def test_min_rounds_is_table_1() -> None:
    case = cases.make("zero", sizes=(400, 400))
    n, m, d, step, epsilon, x0 = 2, 400, 9, 0.1, 8.0, np.full(9, 0.5)
    mu = naive.strong_convexity("logistic", case.shards, case.l2)
    B = max(naive.gradient_bound_logistic(A) for A, _ in case.shards)
    phi = theory.initial_error(case.problem, x0, step)
    inside = epsilon**2 * n * m**2 * min(mu**2, 1) * phi / (B**2 * d * math.log(1 / 1e-4))
    reference = math.ceil(math.log(inside) / (step * min(mu, 1)))
    assert reference > 1
    assert theory.min_rounds(case.problem, fl.Budget(epsilon, 1e-4), x0=x0, step=step) == reference


def test_min_rounds_brings_the_first_term_down() -> None:
    problem = cases.make("zero", sizes=(400, 300, 500)).problem
    budget = fl.Budget(np.array([8.0, 9.0, 5.0]), 1e-4)
    rounds = theory.min_rounds(problem, budget)
    assert rounds > 1
    first = theory.contraction(problem) ** rounds * theory.initial_error(problem)
    assert first <= theory.utility(problem, budget) * (1 + 1e-9)
    assert theory.contraction(problem) ** (rounds - 2) * theory.initial_error(problem) > 0.9 * theory.utility(
        problem, budget
    )
    # Under a budget so small that the noise exceeds the start, every T will do.
    assert theory.min_rounds(problem, fl.Budget(1e-3, 1e-4)) == 1


def test_utility_rows_of_table_1() -> None:
    problem = cases.make("zero").problem
    mu, bound = problem.strong_convexity, problem.gradient_bound
    common = 9 * math.log(1e4) / (3 * 12**2)
    assert theory.utility(problem, BUDGET) == pytest.approx(bound**2 / mu**2 * common)
    for method in ("dp-fedavg", "dp-scaffold", "isrl-dp"):
        assert theory.utility(problem, BUDGET, method, clip=0.5) == pytest.approx(0.25 / mu * common)
        assert theory.utility(problem, BUDGET, method) == pytest.approx(bound**2 / mu * common)

    rows = theory.table_1(problem, BUDGET, clip=0.5)
    assert [row.method for row in rows] == ["dp-fedavg", "dp-scaffold", "isrl-dp", "primal-dual"]
    assert [row.composite for row in rows] == [False, False, False, True]
    assert [row.min_rounds for row in rows] == [None, None, None, theory.min_rounds(problem, BUDGET)]
    assert [row.utility for row in rows] == pytest.approx([0.25 / mu * common] * 3 + [bound**2 / mu**2 * common])


def test_utility_of_unequal_workers_scales_as_the_noise_floor() -> None:
    """Σᵢ 1/(εᵢ mᵢ)² stands for n/(ε m)²: at small ε the floor's ρ is ε²/(4 ln(1/δ)), and the two are 80 apart."""
    problem = cases.make("zero", sizes=SIZES).problem
    budget = fl.Budget(1e-3 * EPSILONS, 1e-4)
    assert theory.noise_floor(problem, budget) / theory.utility(problem, budget) == pytest.approx(80, rel=1e-3)


@pytest.mark.parametrize("regularizer", ["zero", "box"])
def test_no_optimality_exceeds_its_scale_and_one_reaches_it(regularizer: str) -> None:
    """Both sides of ‖x*‖ = 1: the worst models lie apart around x* where it is long, together where it is short."""
    case = cases.make(regularizer, l2=0.01)
    n, d, x_star = case.problem.n, case.problem.d, case.problem.optimum()
    scale = theory.optimality_scale(case.problem)
    long = float(x_star @ x_star) > 1
    assert long == (regularizer == "zero")
    dual = np.zeros((n, d))

    def ratio(x: naive.Array) -> float:
        return naive.optimality(x, x_star) / naive.lyapunov(x, dual, x_star, dual, 0.25)

    rng = np.random.default_rng(0)
    spreads = rng.standard_normal((200, 2, 1, 1)) * rng.standard_normal((200, 2, n, d))
    models = [x_star + apart + together[0] for apart, together in spreads]
    assert max(ratio(x) for x in models) <= scale * (1 + 1e-9)
    apart = x_star + np.array([1.0, -1.0, 0.0])[:, None] * np.ones(d)
    together = np.tile(x_star + 1.0, (n, 1))
    assert ratio(apart if long else together) == pytest.approx(scale, rel=1e-9)


def test_where_the_optimum_is_zero_the_distance_is_absolute() -> None:
    problem = fl.Problem(np.eye(4), [1, -1, 1, -1], workers=2, regularizer=fl.BoxL1(5.0, 1.0))
    assert not problem.optimum().any()
    assert theory.optimality_scale(problem) == 0.5


@cases.tiny_shards
@pytest.mark.filterwarnings("ignore::fastldp.errors.SamplerWarning")
@pytest.mark.parametrize("allocation", ["dynamic", "static"])
@pytest.mark.parametrize(("regularizer", "loss"), [("box_l1", "logistic"), ("l2_ball", "squared")])
def test_measured_optimality_stays_below_lemma_2(regularizer: str, loss: str, allocation: str) -> None:
    """The mean of 32 runs, at every tenth round, with workers of unequal shards and budgets."""
    problem = cases.make(regularizer, loss=loss, l2=1.0, sizes=SIZES).problem
    budget = fl.Budget(20 * EPSILONS, 1e-4)
    run = fl.solve(
        problem,
        budget,
        rounds=200,
        algorithm=fl.PrimalDual(allocation=allocation),
        repetitions=32,
        seed=0,
        record=fl.Every(10),
    )
    errors = theory.error_bounds(problem, budget, 200, allocation=allocation)
    bounds = theory.optimality_scale(problem) * errors[run.rounds - 1]
    measured = run.optimality.mean(axis=0)
    spread = run.optimality.std(axis=0, ddof=1) / math.sqrt(32)
    assert (measured + 4 * spread < bounds).all()
    if allocation == "dynamic":
        assert errors[-1] <= theory.error_bound(problem, budget, 200) * (1 + 1e-5)


@pytest.mark.filterwarnings("ignore::fastldp.errors.SamplerWarning")
def test_how_tight_lemma_2_is_where_the_error_is_known() -> None:
    """One worker and the Hessian I: E Φ^{t+1} = (1 − γ)² E Φ^t + d γ² ξ² exactly, and the lemma is above it.

    In the end by (5/2)(1 − (1 − γ)²)/γ = 4.375 times: 5/2 for its constant, the rest for 1 − γ where (1 − γ)² is true.
    """
    d, rounds, repetitions = 9, 60, 64
    b = np.linspace(-30.0, 30.0, d)
    # The box is far from where the runs go, and bounds the gradients.
    problem = fl.Problem(np.sqrt(d) * np.eye(d), b, workers=1, loss="squared", regularizer=fl.Box(100.0))
    budget = fl.Budget(1e6, 1e-4)
    static = fl.PrimalDual(allocation="static")
    run = fl.solve(
        problem, budget, rounds=rounds, algorithm=static, repetitions=repetitions, seed=0, record=fl.Every(1)
    )
    assert run.ledger is not None
    variance, step = float(run.ledger.variances[0]), 0.25
    x_star = problem.optimum()
    exact, phi = [], float(x_star @ x_star)
    for _ in range(rounds):
        phi = (1 - step) ** 2 * phi + d * step**2 * variance
        exact.append(phi)
    measured = run.distance * float(x_star @ x_star)
    spread = measured.std(axis=0, ddof=1) / math.sqrt(repetitions)
    assert (np.abs(measured.mean(axis=0) - exact) < 5 * spread).all()
    bounds = theory.error_bounds(problem, budget, rounds, allocation="static")
    assert (bounds > exact).all()
    assert bounds[-1] / exact[-1] == pytest.approx(4.375, rel=1e-3)


def test_the_default_step_is_that_of_a_solve() -> None:
    """At a public bound it comes from the bound, and is smaller than what the data would allow."""
    problem = cases.make("zero", gradient_bound=10.0).problem
    step = 3 / (25 + 0.1)
    assert step < problem.step_limit
    assert theory.contraction(problem) == pytest.approx(1 - step * 0.1 / 3, rel=1e-15)
    schedule = fl.PrimalDual().schedule(problem, BUDGET, 10)
    assert theory.initial_error(problem) == theory.initial_error(problem, step=schedule.step)


def test_clipped_runs_have_no_bound() -> None:
    problem = cases.make("zero", gradient_bound=0.5).problem
    for statement in (
        lambda: theory.error_bounds(problem, BUDGET, 10),
        lambda: theory.recursion(problem, np.ones(3), 1.0),
        lambda: theory.noise_floor(problem, BUDGET),
        lambda: theory.error_bound(problem, BUDGET, 10),
        lambda: theory.min_rounds(problem, BUDGET),
    ):
        with pytest.raises(ArgumentError, match="^gradient_bound = 0.5: samples are clipped"):
            statement()
    # Gradients that grow without limit are always clipped somewhere; rows scaled to the bound never.
    with pytest.raises(ArgumentError, match="may reach inf"):
        theory.noise_floor(cases.make("zero", loss="squared", gradient_bound=50.0).problem, BUDGET)
    rows = np.random.default_rng(0).standard_normal((40, 7))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    scaled = fl.Problem(rows, np.ones(40), workers=4, l2=0.1, gradient_bound=1.0)
    assert theory.noise_floor(scaled, BUDGET) > 0


def test_without_strong_convexity_the_lemma_adds_up_and_the_theorem_is_silent() -> None:
    problem = cases.make("box_l1", l2=0.0).problem
    assert theory.contraction(problem) == 1
    assert theory.recursion(problem, np.zeros(3), 2.0).tolist() == [2.0, 2.0, 2.0]
    assert (np.diff(theory.error_bounds(problem, BUDGET, 5)) > 0).all()
    for statement in (
        lambda: theory.noise_floor(problem, BUDGET),
        lambda: theory.error_bound(problem, None, 5),
        lambda: theory.min_rounds(problem, BUDGET),
        lambda: theory.utility(problem, BUDGET, "dp-scaffold"),
    ):
        with pytest.raises(ArgumentError, match="^l2 = 0"):
            statement()


@pytest.mark.parametrize("step", [0.2500001, 3.0])
def test_a_step_above_the_limit_has_no_bound(step: float) -> None:
    problem = cases.make("zero").problem
    assert problem.step_limit == 0.25
    for statement in (
        lambda: theory.contraction(problem, step),
        lambda: theory.initial_error(problem, step=step),
        lambda: theory.recursion(problem, np.ones(3), 1.0, step),
        lambda: theory.error_bounds(problem, BUDGET, 10, step=step),
        lambda: theory.error_bound(problem, BUDGET, 10, step=step),
        lambda: theory.min_rounds(problem, BUDGET, step=step),
        lambda: theory.table_1(problem, BUDGET, step=step),
    ):
        with pytest.raises(ArgumentError, match=r"^step = .* min\{1/4, 1/L_f\} = 0\.25 Lemma 2"):
            statement()


BAD_CALLS: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("variances", "recursion", (np.ones((2, 5)), 1.0), {}),
    ("variances", "recursion", (np.ones((1, 3, 5)), 1.0), {}),
    ("variances", "recursion", ([1.0, -1.0], 1.0), {}),
    ("variances", "recursion", ([1.0, np.nan], 1.0), {}),
    ("variances", "recursion", (["a"], 1.0), {}),
    ("start", "recursion", (np.ones(5), -1.0), {}),
    ("start", "recursion", (np.ones(5), np.nan), {}),
    ("step", "contraction", (0.0,), {}),
    ("step", "contraction", ("0.1",), {}),
    ("x0", "initial_error", (np.ones(4),), {}),
    ("x0", "error_bounds", (BUDGET, 10), {"x0": np.full(9, np.nan)}),
    ("rounds", "error_bounds", (BUDGET, 0), {}),
    ("rounds", "error_bound", (BUDGET, 0), {}),
    ("rounds", "error_bound", (BUDGET, 2.0), {}),
    ("budget", "error_bounds", (1.0, 10), {}),
    ("budget", "error_bound", ((1.0, 1e-4), 10), {}),
    ("budget", "noise_floor", (1.0,), {}),
    ("budget", "min_rounds", (None,), {}),
    ("budget", "utility", (None,), {}),
    ("budget", "table_1", (None,), {}),
    ("clip", "utility", (BUDGET, "dp-fedavg"), {"clip": 0.0}),
    ("clip", "utility", (BUDGET, "primal-dual"), {"clip": 1.0}),
]


@pytest.mark.parametrize(("argument", "name", "arguments", "named"), BAD_CALLS)
def test_bad_arguments(argument: str, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    problem = cases.make("zero").problem
    with pytest.raises(ArgumentError, match=f"^{argument} = "):
        getattr(theory, name)(problem, *arguments, **named)


def test_bad_names_problems_and_budgets_of_others() -> None:
    problem = cases.make("zero").problem
    with pytest.raises(UnknownNameError, match="primal-dual"):
        theory.utility(problem, BUDGET, "sgd")
    with pytest.raises(UnknownNameError, match="dynamic"):
        theory.error_bounds(problem, BUDGET, 10, allocation="dynamik")
    for name in ("contraction", "initial_error", "optimality_scale"):
        with pytest.raises(ArgumentError, match="^problem = "):
            getattr(theory, name)(np.eye(3))
    for name in ("noise_floor", "min_rounds", "utility", "table_1"):
        with pytest.raises(BudgetError, match="each of the 3 workers"):
            getattr(theory, name)(problem, fl.Budget(np.ones(4), 1e-4))
        with pytest.raises(ArgumentError, match="^problem = "):
            getattr(theory, name)(np.eye(3), BUDGET)
    nothing = fl.Problem(np.zeros((4, 2)), np.ones(4), workers=2, l2=1.0)
    with pytest.raises(ArgumentError, match="every row is zero"):
        theory.min_rounds(nothing, BUDGET)
