"""The paper's bounds: against the oracle's formulas, against each other, and against private runs."""

import math

import numpy as np
import pytest

import cases
import fastldp as fl
import naive
from fastldp import theory
from fastldp.errors import ArgumentError, UnknownNameError

BUDGET = fl.Budget(1.0, 1e-4)


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


def test_theorem_1_is_lemma_2_with_the_dynamic_allocation() -> None:
    """Telescoping the lemma with Theorem 1's variances ends at or below the theorem's bound, near it for large T."""
    problem = cases.make("box_l1", l2=1.0).problem
    start = theory.initial_error(problem)
    for rounds in (1, 10, 300, 3000):
        ledger = fl.PrimalDual().schedule(problem, BUDGET, rounds).ledger
        assert ledger is not None
        lemma = theory.error_bounds(problem, ledger.variances, start)[-1]
        theorem = theory.error_bound(problem, BUDGET, rounds)
        # The ledger's variances are a few millionths larger, for the grid.
        assert lemma <= theorem * (1 + 1e-5)
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


def test_min_rounds_brings_the_first_term_down() -> None:
    problem = cases.make("zero", sizes=(400, 400)).problem
    budget = fl.Budget(8.0, 1e-4)
    rounds = theory.min_rounds(problem, budget)
    assert rounds > 1
    first = theory.contraction(problem) ** rounds * theory.initial_error(problem)
    assert first <= theory.utility(problem, budget) * (1 + 1e-9)
    assert theory.contraction(problem) ** (rounds - 2) * theory.initial_error(problem) > 0.9 * theory.utility(
        problem, budget
    )


def test_utility_rows_of_table_1() -> None:
    problem = cases.make("zero").problem
    mu, bound = problem.strong_convexity, problem.gradient_bound
    common = 9 * math.log(1e4) / (3 * 12**2)
    assert theory.utility(problem, BUDGET) == pytest.approx(bound**2 / mu**2 * common)
    for method in ("dp-fedavg", "dp-scaffold", "isrl-dp"):
        assert theory.utility(problem, BUDGET, method, clip=0.5) == pytest.approx(0.25 / mu * common)


def test_measured_errors_stay_below_the_theorem() -> None:
    problem = cases.make("box_l1", l2=1.0).problem
    rounds = 400
    run = fl.solve(problem, BUDGET, rounds=rounds, repetitions=16, seed=0, record=fl.Final())
    x_star = problem.optimum()
    # Σᵢ‖xᵢ − x*‖² = n (consensus + ‖x̄ − x*‖²), a part of Φ.
    measured = problem.n * np.mean(run.consensus[:, -1] + run.distance[:, -1] * (x_star @ x_star))
    assert measured < theory.error_bound(problem, BUDGET, rounds)


def test_bad_arguments() -> None:
    problem = cases.make("zero").problem
    with pytest.raises(ArgumentError, match="^variances = "):
        theory.error_bounds(problem, np.ones((2, 5)), 1.0)
    with pytest.raises(ArgumentError, match="^start = "):
        theory.error_bounds(problem, np.ones(5), -1.0)
    with pytest.raises(ArgumentError, match="^rounds = 0"):
        theory.error_bound(problem, BUDGET, 0)
    with pytest.raises(UnknownNameError, match="primal-dual"):
        theory.utility(problem, BUDGET, "sgd")
    with pytest.raises(ArgumentError, match="^l2 = 0"):
        theory.noise_floor(cases.make("zero", l2=0.0).problem, BUDGET)
