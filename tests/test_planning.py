"""The planner: against the formulas by brute force, against runs of quadratic problems, and on bad input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import cases
import fastldp as fl
import naive
from fastldp.errors import ArgumentError, BudgetError, HorizonWarning, SpecError
from fastldp.planning.consensus import consensus_weights
from fastldp.planning.mixing import gaps_of
from fastldp.planning.plan import LARGEST_PLANNED_STEP, planned, way_of
from fastldp.planning.prediction import expected, log_weights
from fastldp.privacy.allocation import planned_variances
from fastldp.sweeping import spec

BUDGET = fl.Budget(1.0, 1e-4)
RHO = naive.rho_zcdp(1.0, 1e-4)


def hessian(d: int, seed: int = 0, low: float = 0.1, high: float = 2.0) -> naive.Array:
    """A random one with known extremes."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return np.asarray((Q * np.geomspace(low, high, d)) @ Q.T)


def prior_of(H: naive.Array, e: naive.Array) -> fl.Prior:
    rates, directions = np.linalg.eigh(H)
    return fl.Prior(float(np.linalg.norm(e)), rates, (directions.T @ e) ** 2 / (e @ e))


def facts(d: int = 6, n: int = 5, m: int = 80, **changes: Any) -> fl.Facts:
    given: dict[str, Any] = {"sizes": [m] * n, "dimension": d, "bound": 1.3, "l2": 0.1} | changes
    return fl.Facts(**given)


# Formulas


@pytest.mark.parametrize("rounds", [1, 2, 40, 700])
def test_variances_are_those_of_the_formula(rounds: int) -> None:
    H, e = hessian(6), np.ones(6)
    modes = prior_of(H, e).modes(facts())
    step, B, n, m = 0.2, 1.3, 5, 80
    reference = naive.planned_variances(H, rounds, step, B, RHO, n, m)
    computed = planned_variances(log_weights(modes, step / n, rounds), RHO, sensitivity=2 * B / (n * m))
    # Between 512 rounds or so the weights are interpolated.
    np.testing.assert_allclose(computed, reference, rtol=1e-10 if rounds < 400 else 1e-4)
    assert naive.rho_spent(computed, B, n, m) == pytest.approx(RHO, rel=1e-12)
    assert naive.rho_spent(computed, B, n, m) <= RHO


def test_no_other_variances_of_the_same_budget_are_better() -> None:
    H, rounds, step, n = hessian(4), 60, 0.25, 5
    weights = naive.planned_weights(H, step, n, rounds)
    best = planned_variances(np.log(weights), RHO, sensitivity=0.01)
    rng = np.random.default_rng(1)
    for size in (0.01, 0.1, 1.0):
        other = best * np.exp(size * rng.standard_normal(rounds))
        other *= np.sum(1 / other) / np.sum(1 / best)
        assert weights @ other > weights @ best


@pytest.mark.parametrize("rounds", [3, 200, 2000])
def test_expected_error_is_that_of_the_recursion(rounds: int) -> None:
    H, e, step, n = hessian(5), np.arange(1.0, 6.0), 0.25, 4
    noise = np.geomspace(2.0, 0.5, rounds) * 1e-3
    reference = naive.linear_error(H, e, step, n, noise)
    computed = expected(prior_of(H, e).modes(facts(5)), step / n, step**2 * noise)
    np.testing.assert_allclose(computed, reference, rtol=2e-4)


@pytest.mark.parametrize("allocation", ["planned", "static"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_tau_is_the_best(allocation: str, epsilon: float) -> None:
    """Against a search of the integral by brute force, from a start that hardly moves to one that is forgotten."""
    H, e = hessian(6), np.arange(1.0, 7.0) / 6
    found = fl.plan(facts(), fl.Budget(epsilon, 1e-4), prior=prior_of(H, e), allocation=allocation)
    price = 2 * 1.3**2 / (naive.rho_zcdp(epsilon, 1e-4) * 80**2 * 5)
    given = H, e, price, allocation == "planned"
    reference = minimize_scalar(
        lambda log_tau: naive.error_after(np.exp(log_tau), *given), bounds=(-9.0, 6.0), options={"xatol": 1e-6}
    )
    assert found.tau == pytest.approx(np.exp(reference.x), rel=0.01)
    assert naive.error_after(found.tau, *given) == pytest.approx(reference.fun, rel=1e-4)


def test_paper_allocation_is_between_planned_and_static() -> None:
    errors = [fl.plan(facts(), BUDGET, rounds=4000, allocation=how).error for how in ("planned", "dynamic", "static")]
    assert errors == sorted(errors)
    assert len(set(errors)) == 3


def test_error_depends_on_tau_alone() -> None:
    """The theory's main point: any horizon that is long enough is as good."""
    plans = [fl.plan(facts(), BUDGET, rounds=T) for T in (1000, 4000, 100_000)]
    assert len({round(plan.tau, 9) for plan in plans}) == 1
    assert plans[0].error == pytest.approx(plans[2].error, rel=5e-3)
    assert [plan.step * plan.rounds for plan in plans] == pytest.approx([5 * plans[0].tau] * 3)


def test_fewest_rounds_are_at_the_limit_of_the_step() -> None:
    found = fl.plan(facts(), BUDGET)
    assert found.rounds == found.smallest_rounds
    assert found.step <= LARGEST_PLANNED_STEP < found.step * found.rounds / (found.rounds - 1)


def test_plans_keep_to_the_limit_by_curvature() -> None:
    with pytest.warns(HorizonWarning, match="held at its limit of 0.6211"):
        assert fl.plan(facts(bound=5.6, l2=0.21), BUDGET, rounds=5).step == pytest.approx(5 / (5.6**2 / 4 + 0.21))


@pytest.mark.parametrize("step", [0.2, 0.6, 0.95])
@pytest.mark.parametrize("regularizer", ["zero", "box_l1", "l2_ball"])
def test_algorithm_1_contracts_with_every_step_below_1(regularizer: str, step: float) -> None:
    """V = ‖e‖² + γ/(1−γ) ‖Pe‖² + γ‖λ‖² shrinks by max{(1 − γμ_f)², 1 − γ} a round, as docs/planning.md shows."""
    case = cases.make(regularizer, l2=0.3, sizes=(5, 14, 1, 9))
    problem, n, l2 = case.problem, case.problem.n, 0.3
    assert step < 2 / (problem.smoothness + problem.strong_convexity)
    x_star = problem.optimum()
    dual = naive.dual_star(case.loss, case.shards, l2, x_star)
    x0, still = np.random.default_rng(0).standard_normal((n, problem.d)), np.zeros((n, 40))
    run = naive.primal_dual(case.shards, case.loss, l2, case.g, x0, step, still, 0, 0, gridded=False)
    e, apart = run.x - x_star, run.x - run.x.mean(axis=1, keepdims=True)
    parts = e**2 + step / (1 - step) * apart**2 + step * (run.dual - dual) ** 2
    V, least = parts.sum(axis=(1, 2)), 1e-20
    bound = max((1 - step * problem.strong_convexity) ** 2, 1 - step)
    assert (V[1:] <= bound * V[:-1] * (1 + 1e-9) + least).all()
    assert V[-1] < V[0]


@pytest.mark.parametrize("step", [0.2, 0.95])
@pytest.mark.parametrize("regularizer", ["zero", "box_l1"])
def test_clipped_runs_come_together_with_every_step_below_1(regularizer: str, step: float) -> None:
    """V of two runs' differences: clipped gradients are those of a convex function that bends no more."""
    case = cases.make(regularizer, l2=0.3, sizes=(5, 14, 1, 9))
    problem, n, clip = case.problem, case.problem.n, 0.1
    given = case.shards, case.loss, 0.3, case.g
    still, rng = np.zeros((n, 25)), np.random.default_rng(0)
    starts = 3 * rng.standard_normal((2, n, problem.d))
    one, other = (naive.primal_dual(*given, x0, step, still, 0, 0, gridded=False, clip=clip) for x0 in starts)
    norms = [
        np.linalg.norm(naive.sample_gradient(case.loss, a, b, starts[0, i]))
        for i, (A, B) in enumerate(case.shards)
        for a, b in zip(A, B, strict=True)
    ]
    assert np.mean(np.array(norms) > clip) > 0.3
    e = one.x - other.x
    apart = e - e.mean(axis=1, keepdims=True)
    V = (e**2 + step / (1 - step) * apart**2 + step * (one.dual - other.dual) ** 2).sum(axis=(1, 2))
    bound = max((1 - step * problem.strong_convexity) ** 2, 1 - step)
    assert (V[1:] <= bound * V[:-1] * (1 + 1e-9) + 1e-20).all()
    assert V[-1] < V[0]


def test_the_default_prior_is_the_even_spectrum() -> None:
    d, l2, B = 6, 0.1, 1.3
    even = fl.Prior(1.0, np.full(d, l2 + B**2 / (4 * d)))
    of_moment = fl.Prior(1.0, np.eye(d) * B**2 / d)
    for prior in (even, fl.Prior(1.0, l2 + B**2 / (4 * d)), of_moment):
        assert fl.plan(facts(), BUDGET, prior=prior).tau == pytest.approx(fl.plan(facts(), BUDGET).tau, rel=1e-9)


def test_trial_on_the_first_experiment() -> None:
    """n = 20, m = 100, d = 22: an even spectrum and a norm of 1 choose τ = 5.75 or so."""
    made = fl.plan(facts(22, 20, 100, bound=1.295), BUDGET, rounds=1000)
    assert made.tau == pytest.approx(5.75, rel=0.02)


def test_a_long_horizon_at_a_large_step_has_finite_variances() -> None:
    """w_t underflows there."""
    problem, _ = quadratic(1)
    schedule = fl.PrimalDual(step=0.25, allocation="planned").schedule(problem, BUDGET, 300_000)
    assert np.isfinite(schedule.deviations).all()
    assert (schedule.deviations > 0).all()


# Runs of quadratic problems, with the true Hessian and start


def quadratic(seed: int, n: int = 8, m: int = 150, d: int = 6, **changes: Any) -> tuple[fl.Problem, fl.Prior]:
    """A squared loss that nothing is clipped in, and all that can be known of it."""
    rng = np.random.default_rng(seed)
    sizes = np.full(n, m) if not changes.pop("unequal", False) else np.arange(1, n + 1) * (2 * m // (n + 1))
    A = rng.standard_normal((sizes.sum(), d)) * np.geomspace(0.3, 1.0, d)
    b = A @ np.full(d, 0.5) + 0.1 * rng.standard_normal(len(A))
    problem = fl.Problem(
        A, b, workers=np.repeat(np.arange(n), sizes), loss="squared", l2=0.05, gradient_bound=40.0, **changes
    )
    return problem, problem.exact_prior()


SHAPES: dict[str, dict[str, Any]] = {
    "eight workers": {},
    "few workers, many features": {"n": 3, "m": 500, "d": 20},
    "many workers, few features": {"n": 30, "m": 60, "d": 3},
    "unequal shards": {"unequal": True},
}
LOOSE = fl.Budget(6.0, 1e-3)


@cases.tiny_shards
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("allocation", ["planned", "dynamic", "static"])
def test_prediction_on_quadratic_problems(shape: str, allocation: str) -> None:
    """Within 15 %; the mean of 320 runs is within 6 % of its expectation even where d = 3."""
    problem, prior = quadratic(1, **SHAPES[shape])
    method = fl.PrimalDual(step="planned", allocation=allocation, prior=prior)
    run = fl.solve(problem, LOOSE, rounds=600, algorithm=method, repetitions=320, seed=5, record=fl.Final())
    made = fl.plan(problem.facts_of_data(), LOOSE, rounds=600, prior=prior, allocation=allocation)
    assert run.distance.mean() == pytest.approx(made.relative_error, rel=0.15)
    assert run.consensus.mean() == pytest.approx(made.consensus_error, rel=0.05)
    assert made.optimality == made.relative_error + made.consensus_error


def test_prediction_where_budgets_differ() -> None:
    problem, prior = quadratic(1)
    budget = fl.Budget(np.geomspace(2.0, 12.0, problem.n), 1e-3, accounting="gdp")
    method = fl.PrimalDual(step="planned", allocation="planned", prior=prior)
    run = fl.solve(problem, budget, rounds=600, algorithm=method, repetitions=320, seed=5, record=fl.Final())
    made = fl.plan(problem.facts_of_data(), budget, rounds=600, prior=prior)
    assert made.variances.shape == (problem.n, 600)
    assert run.distance.mean() == pytest.approx(made.relative_error, rel=0.15)
    assert run.consensus.mean() == pytest.approx(made.consensus_error, rel=0.05)


@pytest.mark.parametrize(
    "baseline",
    [
        fl.ISRLDP(step="planned", prior="exact"),
        fl.DPFedAvg(step="planned", local_steps=3, prior="exact"),
        fl.DPFedAvg(step="planned", local_steps=3, server_step=0.5, prior="exact"),
        fl.DPScaffold(step="planned", local_steps=3, prior="exact"),
    ],
    ids=str,
)
def test_prediction_of_baselines(baseline: Any) -> None:
    problem, prior = quadratic(1)
    run = fl.solve(problem, LOOSE, rounds=400, algorithm=baseline, repetitions=320, seed=5, record=fl.Final())
    made = fl.plan(problem.facts_of_data(), LOOSE, rounds=10_000, prior=prior, allocation="static")
    assert run.distance.mean() == pytest.approx(made.relative_error, rel=0.15)
    assert run.ledger is not None
    assert f"τ = {made.tau:.4g}" in run.ledger.plan
    # Workers of these hold one model.
    assert "differ" not in run.ledger.plan
    assert run.consensus.max() == 0


# On graphs, for the error of the average and what models differ by together


@pytest.mark.parametrize("topology", ["ring", "grid", "star", "random:3:1"])
@pytest.mark.parametrize("allocation", ["planned", "dynamic", "static"])
def test_prediction_on_graphs(topology: str, allocation: str) -> None:
    problem, prior = quadratic(1)
    given: dict[str, Any] = {"topology": topology}
    method = fl.PrimalDual(step="planned", allocation=allocation, prior=prior, **given)
    run = fl.solve(problem, LOOSE, rounds=600, algorithm=method, repetitions=320, seed=5, record=fl.Final())
    made = fl.plan(problem.facts_of_data(), LOOSE, rounds=600, prior=prior, allocation=allocation, **given)
    assert run.distance.mean() == pytest.approx(made.relative_error, rel=0.15)
    assert run.consensus.mean() == pytest.approx(made.consensus_error, rel=0.15)
    assert run.ledger is not None
    assert made.line() in run.ledger.plan


def test_plans_for_a_graph_are_better_there_than_those_for_a_server() -> None:
    problem, prior = quadratic(1)
    given: dict[str, Any] = {"rounds": 600, "repetitions": 320, "seed": 5, "record": fl.Final()}
    made = fl.plan(problem.facts_of_data(), LOOSE, rounds=600, prior=prior)
    errors = [
        fl.solve(problem, LOOSE, algorithm=method, **given).optimality.mean()
        for method in (
            fl.PrimalDual("planned", "planned", prior=prior, topology="star"),
            fl.PrimalDual(allocation=made, topology="star"),
        )
    ]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("topology", ["complete", "ring", "star"])
def test_no_other_step_or_variances_are_expected_to_be_much_better(topology: str) -> None:
    """The best step is found for steps that go to zero, and is the best for others within a percent or so."""
    of_graph = fl.Graph.of(topology)
    made = fl.plan(facts(), BUDGET, rounds=500, topology=topology)
    way = way_of(facts(), of_graph)
    assert way.topology == (None if topology == "complete" else of_graph)
    rest: dict[str, Any] = {"rounds": 500, "allocation": "planned"}
    rho = BUDGET.rho_of_workers(5)
    others = [
        planned(facts(), fl.Prior(), rho, facts().sensitivity, way, step=made.step * by, **rest).minimized
        for by in np.geomspace(0.5, 2, 15)
        if made.step * by <= way.limit(facts().smoothness)
    ]
    assert made.minimized <= min(others) * 1.02
    assert max(others) > made.minimized * 1.02
    if topology == "complete":
        return
    weights = np.exp(log_weights(fl.Prior().modes(facts()), made.step / 5, 500))
    weights += consensus_weights(fl.Prior().modes(facts()), gaps_of(of_graph, np.ones(5)), made.step, 5, 500)
    rng = np.random.default_rng(1)
    for size in (0.01, 0.1, 1.0):
        other = made.variances * np.exp(size * rng.standard_normal(500))
        other *= np.sum(1 / other) / np.sum(1 / made.variances)
        assert weights @ other > weights @ made.variances


def test_the_complete_graph_is_planned_as_a_server() -> None:
    one, other = (fl.plan(facts(), BUDGET, rounds=300, topology=topology) for topology in (None, "complete"))
    np.testing.assert_array_equal(one.variances, other.variances)
    assert (one.step, one.summary()) == (other.step, other.summary())


def test_links_that_fail_make_gaps_smaller() -> None:
    """Of the mean W, as 1 − p times the graph's: by it, halves take longer and steps are smaller."""
    whole, failing = (fl.plan(facts(), BUDGET, rounds=300, topology="ring", failures=p) for p in (None, 0.5))
    assert failing.halving == pytest.approx(2 * whole.halving * whole.step / failing.step, rel=0.05)
    assert failing.step < whole.step
    assert "0.5 of its links missing" in failing.summary()
    with pytest.raises(ArgumentError, match=r"failures = 0\.5: links are those of a graph"):
        fl.plan(facts(), BUDGET, failures=0.5)


@pytest.mark.parametrize("matrix", [[[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]])
def test_steps_on_a_graph_are_within_what_mixing_allows(matrix: list[list[float]]) -> None:
    """1/(1 − λₙ): beyond it workers would overshoot each other."""
    W = np.array(matrix)
    with pytest.warns(HorizonWarning):
        made = fl.plan(facts(n=2, bound=0.1), fl.Budget(50.0, 1e-3), rounds=1, topology=W)
    assert made.step == pytest.approx(1 / (1 - np.linalg.eigvalsh(W)[0]))


@pytest.mark.thorough
@cases.tiny_shards
@pytest.mark.parametrize("shape", SHAPES)
def test_no_grid_finds_much_better(shape: str) -> None:
    """The excess over the best of a grid of steps and allocations, all with the noise of one seed, is at most 10 %."""
    problem, prior = quadratic(2, **SHAPES[shape])
    common: dict[str, Any] = {"rounds": 600, "repetitions": 160, "seed": 6, "record": fl.Final()}
    common["common_noise"] = True
    planned = fl.PrimalDual(step="planned", allocation="planned", prior=prior)
    run = fl.solve(problem, LOOSE, algorithm=planned, **common)
    chosen = planned.schedule(problem, LOOSE, 600).step
    errors = [
        fl.solve(problem, LOOSE, algorithm=fl.PrimalDual(step, how), **common).distance.mean()
        for step in np.geomspace(chosen / 3, min(3 * chosen, problem.step_limit), 9)
        for how in ("dynamic", "static")
    ]
    assert run.distance.mean() <= 1.1 * min(errors)


@pytest.mark.parametrize("largest", [0.5, 9.0, 1e3])
def test_a_prior_that_bends_more_than_the_facts_limits_the_step(largest: float) -> None:
    few = facts(3, 1, 10_000, bound=1.0)
    made = fl.plan(few, BUDGET, prior=fl.Prior(1.0, [0.01, 0.01, largest]))
    assert made.step * max(largest, few.smoothness) <= 1
    assert made.error <= 1.0


def test_a_plan_knows_what_a_warm_start_spends() -> None:
    """A round more, of as many releases: a step as of so much less of the budget."""
    problem, rounds = quadratic(1)[0].replace(gradient_bound=1.0), 4

    def step(rho: float, *, warm_start: bool) -> float:
        budget = fl.Budget(float(fl.privacy.epsilon_of(rho, 1e-5, "zcdp")), 1e-5)
        made = fl.DPScaffold("planned", 500, warm_start=warm_start).schedule(problem, budget, rounds)
        return made.step

    warm, cold = step(1e-3, warm_start=True), step(1e-3, warm_start=False)
    assert warm == pytest.approx(step(1e-3 / (1 + 1 / rounds), warm_start=False), rel=1e-3)
    assert warm < 0.97 * cold


@pytest.mark.parametrize(("rounds", "said"), [(1, "1 round is few"), (2, "2 rounds are few")])
def test_few_rounds_are_said(rounds: int, said: str) -> None:
    with pytest.warns(HorizonWarning, match=f"^{said} for the plan"):
        fl.plan(fl.Facts([100] * 4, 5, 1.0), BUDGET, rounds=rounds)


@pytest.mark.parametrize(("local_steps", "server_step"), [(5, 50.0), (50, 10.0), (1, 3.0)])
def test_planned_steps_of_the_server_do_not_overshoot(local_steps: int, server_step: float) -> None:
    problem, prior = quadratic(1)
    # Means of 40 runs are uncertain by 0.03, and 0.45 is expected.
    method = fl.DPFedAvg("planned", local_steps, server_step=server_step, prior=prior)
    with pytest.warns(HorizonWarning, match="2 rounds are few for the plan") as told:
        few = fl.solve(problem, LOOSE, rounds=2, algorithm=method, repetitions=400, seed=0, record=fl.Final())
    rounds = int(str(told[0].message).split("where ")[1].split(" rounds")[0].replace(",", ""))
    run = fl.solve(problem, LOOSE, rounds=rounds, algorithm=method, repetitions=400, seed=0, record=fl.Final())
    assert run.distance.mean() < 0.5
    # At its limit a step does not overshoot either.
    assert run.distance.mean() < few.distance.mean() < 1.0


def test_a_warm_start_is_paid_for() -> None:
    problem, prior = quadratic(1)
    common: dict[str, Any] = {"local_steps": 200, "prior": prior}
    cold = fl.DPScaffold("planned", **common).schedule(problem, LOOSE, 2)
    warm = fl.DPScaffold("planned", warm_start=True, **common).schedule(problem, LOOSE, 2)
    # Half as many releases more, so more noise, and an earlier stop.
    assert warm.step < cold.step


# Methods, ledgers, files


def logistic(**changes: Any) -> fl.Problem:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((400, 5)) / 4
    return fl.Problem(A, np.where(A[:, 0] > 0, 1.0, -1.0), workers=4, l2=0.1, **changes)


def test_step_and_allocation_alone() -> None:
    problem = logistic(gradient_bound=1.0)
    both = fl.plan(problem.facts, BUDGET, rounds=900)
    step_alone = fl.PrimalDual(step="planned").schedule(problem, BUDGET, 900)
    assert step_alone.step == fl.plan(problem.facts, BUDGET, rounds=900, allocation="dynamic").step
    allocation_alone = fl.PrimalDual(step=both.step, allocation="planned").schedule(problem, BUDGET, 900)
    together = fl.PrimalDual(step="planned", allocation="planned").schedule(problem, BUDGET, 900)
    taken = fl.PrimalDual(step=both.step, allocation=both.variances).schedule(problem, BUDGET, 900)
    for schedule in (allocation_alone, together, taken):
        assert schedule.step == both.step
        np.testing.assert_array_equal(schedule.deviations, together.deviations)
        # But for what the sampler takes of the budget.
        raised = schedule.deviations / np.sqrt(both.shape)
        assert 1 < raised[0] < 1 + 1e-8
        np.testing.assert_allclose(raised, raised[0], rtol=1e-14)
    for schedule in (step_alone, allocation_alone, together):
        assert schedule.ledger is not None
        assert schedule.ledger.plan
        assert schedule.ledger.read_off_data == ""
        assert schedule.ledger.spent_epsilon <= 1.0


@cases.tiny_shards
def test_a_plan_is_an_allocation_where_workers_differ() -> None:
    """Also of the squared loss, whose rows no bound on gradients bounds: facts are then the caller's."""
    problem, _ = quadratic(1, unequal=True)
    public = fl.Facts(problem.sizes, problem.d, 40.0, 0.05, curvature=1.0, radius=4.0)
    budget = fl.Budget(np.geomspace(2.0, 6.0, problem.n), 1e-3)
    made = fl.plan(public, budget, rounds=600)
    run = fl.solve(problem, budget, rounds=600, algorithm=fl.PrimalDual(allocation=made), seed=0)
    assert run.ledger is not None
    # But for what the sampler takes of each worker's budget.
    raised = run.ledger.variances / made.variances
    np.testing.assert_allclose(raised, np.broadcast_to(raised[:, :1], raised.shape), rtol=1e-12)
    assert ((raised > 1) & (raised < 1 + 1e-8)).all()
    assert run.ledger.plan == made.line()
    assert run.ledger.read_off_data == ""
    assert np.all(run.ledger.spent_epsilon <= budget.epsilon * (1 + 1e-12))
    assert f"{made.variances.min():.4g} to {made.variances.max():.4g}" in made.summary()
    with pytest.raises(ArgumentError, match=r"made for 600 rounds of 8 workers, and this is 500"):
        fl.solve(problem, budget, rounds=500, algorithm=fl.PrimalDual(allocation=made))
    with pytest.raises(ArgumentError, match="a plan has a step"):
        fl.PrimalDual(0.1, made)


def test_paper_allocation_of_a_planned_step_is_the_paper_s() -> None:
    problem = fl.Problem(np.eye(40) * 2, np.ones(40), workers=4, loss="squared", l2=0.1, regularizer=fl.Box(1.0))
    planned = fl.PrimalDual(step="planned").schedule(problem, LOOSE, 4000)
    given = fl.PrimalDual(step=planned.step).schedule(problem, LOOSE, 4000)
    np.testing.assert_array_equal(planned.deviations, given.deviations)


@pytest.mark.thorough
@pytest.mark.parametrize("regularizer", [fl.BoxL1(0.01, 10.0), fl.L2Ball(2.0), fl.Simplex(1.0)], ids=str)
def test_planned_runs_with_regularizers_and_in_float32(regularizer: fl.Regularizer) -> None:
    problem = logistic(regularizer=regularizer, gradient_bound=1.0)
    method = fl.PrimalDual(step="planned", allocation="planned")
    run = fl.solve(problem, BUDGET, rounds=500, algorithm=method, repetitions=4, seed=0)
    assert run.status.ok
    assert run.ledger is not None
    assert "plan" in run.ledger.summary()
    short = fl.Problem(problem.rows, np.ones(400), workers=4, gradient_bound=1.0, l2=0.1, dtype="float32")
    assert fl.solve(short, BUDGET, rounds=500, algorithm=method, repetitions=4, seed=0).status.ok


def test_ledger_keeps_the_plan_in_a_file(tmp_path: Path) -> None:
    method = fl.PrimalDual(step="planned", allocation="planned", prior=fl.Prior(0.7, np.full(5, 0.2)))
    run = fl.solve(logistic(), BUDGET, rounds=500, algorithm=method, seed=0)
    run.save(tmp_path / "run.npz")
    loaded = fl.load(tmp_path / "run.npz")
    assert run.ledger is not None
    assert loaded.ledger is not None
    assert loaded.ledger.plan == run.ledger.plan
    assert "‖x¹ − x*‖ = 0.7, eigenvalues 0.2" in loaded.ledger.plan


def test_ledger_says_what_a_plan_read() -> None:
    def read(problem: fl.Problem, method: Any) -> str:
        ledger = method.schedule(problem, BUDGET, 3000).ledger
        assert ledger is not None
        return str(ledger.read_off_data)

    planned = fl.PrimalDual(step="planned", allocation="planned")
    assert read(logistic(), planned) == "the gradient bound"
    assert read(logistic(gradient_bound=1.0), planned) == ""
    assert read(quadratic(1)[0], planned) == "the length of the rows"
    exact = fl.PrimalDual(step="planned", prior="exact")
    assert read(logistic(gradient_bound=1.0), exact) == "the prior"
    assert read(logistic(), fl.ISRLDP(step="planned", clip=0.5)) == "the length of the rows"
    assert read(logistic(gradient_bound=1.0), fl.ISRLDP(step="planned", clip=0.5)) == ""
    assert read(logistic(), fl.ISRLDP(step="planned")) == "the gradient bound"


def test_a_smaller_clip_plans_for_less_noise() -> None:
    problem = logistic(gradient_bound=1.0)
    steps = [fl.ISRLDP(step="planned", clip=clip).schedule(problem, BUDGET, 3000).step for clip in (0.2, 1.0)]
    assert steps[0] > steps[1]


def test_facts() -> None:
    found = logistic(gradient_bound=0.8).facts
    assert (found.n, found.dimension, found.bound, found.l2, found.curvature) == (4, 5, 0.8, 0.1, 0.25)
    assert found.sizes.tolist() == [100] * 4
    assert found.read_off_data == ""
    assert found.step_limit == logistic(gradient_bound=0.8).safe_step
    assert found.bend == pytest.approx(0.25 * 0.8**2)
    read = logistic().facts_of_data()
    assert read.bound == logistic().gradient_bound
    assert read.read_off_data == "the gradient bound"
    assert "read off data   the gradient bound" in fl.plan(read, BUDGET).summary()


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from fastldp import figures

    ax = fl.plan(facts(), BUDGET).plot()
    figures.save(ax, tmp_path / "plan.png")
    marked = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(marked) == 1
    assert marked[0].get_xdata() == pytest.approx([fl.plan(facts(), BUDGET).tau])


# Bad input


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"norm": 0.0}, "norm"),
        ({"norm": -1.0}, "norm"),
        ({"norm": np.nan}, "norm"),
        ({"norm": "1"}, "norm"),
        ({"spectrum": [0.1, -0.2]}, "spectrum"),
        ({"spectrum": [0.1, np.inf]}, "spectrum"),
        ({"spectrum": [0.0, 0.0]}, "spectrum"),
        ({"spectrum": -1.0}, "spectrum"),
        ({"spectrum": "wide"}, "spectrum"),
        ({"spectrum": [[1.0, 0.5], [0.4, 1.0]]}, "spectrum"),
        ({"spectrum": [[1.0, 2.0], [2.0, 1.0]]}, "spectrum"),
        ({"spectrum": np.ones((2, 3))}, "spectrum"),
        ({"spectrum": np.ones((2, 2, 2))}, "spectrum"),
        ({"norm": 1e200}, "norm"),
        ({"norm": 1e-200}, "norm"),
        ({"spectrum": 1e300}, "spectrum"),
        ({"spectrum": 1e-200}, "spectrum"),
        ({"shares": [0.5, 0.5]}, "shares"),
        ({"spectrum": [0.1, 0.2], "shares": [0.5, 0.6]}, "shares"),
        ({"spectrum": [0.1, 0.2], "shares": [1.0]}, "shares"),
    ],
)
def test_a_prior_that_is_none(given: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument} = "):
        fl.Prior(**given)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"sizes": []}, "sizes"),
        ({"sizes": [10, 0]}, "sizes"),
        ({"sizes": [1.5]}, "sizes"),
        ({"sizes": 10}, "sizes"),
        ({"dimension": 0}, "dimension"),
        ({"bound": 0.0}, "bound"),
        ({"bound": 1e200}, "bound"),
        ({"bound": 1e-200}, "bound"),
        ({"dimension": 10**400}, "dimension"),
        ({"l2": 1e300}, "l2"),
        ({"l2": -0.1}, "l2"),
        ({"curvature": 0.0}, "curvature"),
        ({"radius": np.inf}, "radius"),
    ],
)
def test_facts_that_are_none(changes: dict[str, Any], argument: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument} = "):
        facts(**changes)


def test_few_rounds_are_planned_at_the_limit_of_the_step_and_it_is_said_what_they_cost() -> None:
    best = fl.plan(facts(), BUDGET)
    limit, before = best.step, best.error
    for rounds in (best.rounds - 1, best.rounds // 2, best.rounds // 10, 1):
        said = rf"^{rounds:,} round(s are| is) few.*where {best.rounds:,} rounds"
        with pytest.warns(HorizonWarning, match=said) as told:
            made = fl.plan(facts(), BUDGET, rounds=rounds)
        assert (made.rounds, made.smallest_rounds) == (rounds, best.rounds)
        assert made.step == pytest.approx(limit, rel=1e-2)
        # Ever more, as the warning says.
        assert made.error > 0.999 * before
        assert f"leave {made.relative_error:.3g} of" in str(told[0].message)
        before = made.error
    assert before == pytest.approx(1.0, rel=0.1)


def test_plans_that_cannot_be_made() -> None:
    with pytest.raises(ArgumentError, match=r"spectrum.*give 6 eigenvalues, or a 6 × 6 matrix"):
        fl.plan(facts(), BUDGET, prior=fl.Prior(spectrum=np.ones(5)))
    with pytest.raises(ArgumentError, match="the start is off where nothing bends"):
        fl.plan(facts(2), BUDGET, prior=fl.Prior(1.0, [0.0, 1.0], [1.0, 0.0]))
    for rounds in (0, 10**12, 2.5):
        with pytest.raises(ArgumentError, match="rounds = .*give a whole number from 1 to"):
            fl.plan(facts(), BUDGET, rounds=rounds)  # type: ignore[arg-type]
    with pytest.warns(fl.errors.StepWarning), pytest.raises(ArgumentError, match="errors would grow"):
        fl.PrimalDual(1000.0, "planned").schedule(logistic(), BUDGET, 100)
    with pytest.raises(ArgumentError, match="public numbers only; give problem.facts"):
        fl.plan(logistic(), BUDGET)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="budget"):
        fl.plan(facts(), None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="prior"):
        fl.plan(facts(), BUDGET, prior=1.0)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="did you mean 'static'"):
        fl.plan(facts(), BUDGET, allocation="statc")
    with pytest.raises(BudgetError, match="one for each of the 5 workers"):
        fl.plan(facts(), fl.Budget(np.ones(3), 1e-4))


def test_private_facts_are_not_taken_for_public_ones() -> None:
    with pytest.raises(ArgumentError, match=r"facts = 'the gradient bound'.*gradient_bound=.*facts_of_data"):
        _ = logistic().facts
    with pytest.raises(ArgumentError, match=r"facts = 'the length of the rows'"):
        _ = quadratic(1)[0].facts
    images, digits = np.random.default_rng(0).random((40, 9)), np.arange(40) % 3
    network = fl.MLP(images, digits, hidden=4, workers=2, clip=1.0)
    with pytest.raises(ArgumentError, match="how it bends is not known"):
        _ = network.facts
    with pytest.raises(ArgumentError, match="how it bends is not known"):
        fl.solve(network, BUDGET, rounds=50, algorithm=fl.PrimalDual(step="planned"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fl.PrimalDual(step="plan"), "step = 'plan'.*or \"planned\""),
        (lambda: fl.PrimalDual(step="planned", allocation=np.ones(3)), "variances of your own need a step"),
        (lambda: fl.PrimalDual(prior=fl.Prior()), "only a plan has a prior"),
        (lambda: fl.PrimalDual(step="planned", prior="true"), "prior = 'true'"),
        (lambda: fl.PrimalDual(step="planned", prior=2.0), "prior = 2.0"),  # type: ignore[arg-type]
        (lambda: fl.ISRLDP(step="planned", accelerated=True), "plain descent only"),
        (lambda: fl.DPFedAvg(step="best", local_steps=2), "step = 'best'"),
        (lambda: fl.solve(logistic(), rounds=9, algorithm=fl.PrimalDual(step="planned")), "noise of a budget"),
        (lambda: fl.solve(logistic(), rounds=9, algorithm=fl.ISRLDP(step="planned")), "noise of a budget"),
    ],
)
def test_methods_that_cannot_be_planned(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


# Sweeps and audits

SWEEP = """
rounds = 300
repetitions = 2
[data]
given = "tiny"
[problem]
workers = 4
l2 = 0.1
gradient_bound = 1.0
[budget]
epsilon = 1.0
delta = 1e-4
[[method]]
name = "PrimalDual"
step = "planned"
allocation = "planned"
prior = [{norm = [0.5, 1.0], spectrum = 0.2}, {norm = 1.0, spectrum = [[0.1, 0.2, 0.3, 0.4, 0.5]]}, "exact"]
[[method]]
name = "ISRLDP"
step = "planned"
"""


def tiny() -> tuple[Any, Any]:
    problem = logistic()
    return -problem.rows, np.ones(400)


def test_priors_of_a_sweep_are_kept_and_found(tmp_path: Path) -> None:
    fl.sweep(SWEEP, tmp_path / "runs.h5", given={"tiny": tiny()}, progress=False)
    found = fl.results(tmp_path / "runs.h5")
    assert len(found) == 2 * 5
    assert len(found.where(prior_spectrum=0.2)) == 2 * 2
    (run, _) = found.where(prior_norm=0.5)
    prior = fl.Prior(0.5, 0.2)
    problem = fl.Problem(*tiny(), workers=4, l2=0.1, gradient_bound=1.0)
    alone = fl.solve(
        problem, BUDGET, rounds=300, algorithm=fl.PrimalDual("planned", "planned", prior), repetitions=2, seed=0
    )
    assert run.optimality[-1] == alone.optimality[0, -1]
    assert alone.ledger is not None
    assert run.ledger is not None
    assert run.ledger.plan == alone.ledger.plan


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("spectrum = 0.2", "spectrum = -0.2", r"line 17.*spectrum = -0.2"),
        ("norm = [0.5, 1.0]", "norm = 0", r"line 17.*norm = 0: give ‖x¹ − x\*‖"),
        ("norm = [0.5, 1.0]", "size = 1", r"line 17.*Prior has no such parameter"),
    ],
)
def test_a_mistake_in_a_prior_has_its_line(old: str, new: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        spec.read(SWEEP.replace(old, new), {"tiny": tiny()})


def test_a_planned_run_is_as_private_as_any() -> None:
    problem, prior = logistic(gradient_bound=1.0), fl.Prior(norm=0.3)
    rounds = fl.plan(problem.facts, BUDGET, prior=prior).rounds
    assert 2 < rounds < 20
    method = fl.PrimalDual(step="planned", allocation="planned", prior=prior)
    found = fl.audit(problem, BUDGET, rounds=rounds, algorithm=method, transcripts=4000)
    assert found.passed
    assert found.shown_epsilon <= 1.0


def unbounded() -> fl.Problem:
    """A squared loss over all of space: gradients have no bound but a threshold."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 5)) / 3
    return fl.Problem(A, A @ np.ones(5), workers=4, loss="squared", l2=0.1)


@pytest.mark.parametrize("method", [fl.PrimalDual("planned", "planned", clip=2.0), fl.ISRLDP("planned", clip=2.0)])
def test_a_threshold_of_the_method_is_bound_enough_for_a_plan(method: fl.Method) -> None:
    """The same plan as where the problem has it, but for rows, whose length neither says."""
    mine = method.schedule(unbounded(), BUDGET, 50)
    rows = unbounded().rows
    clipped = fl.Problem(rows, rows @ np.ones(5), workers=4, loss="squared", l2=0.1, gradient_bound=2.0)
    theirs = replace(method, clip=None).schedule(clipped, BUDGET, 50)  # type: ignore[call-arg]
    assert mine.step == theirs.step
    assert np.array_equal(mine.deviations, theirs.deviations)
    assert mine.ledger is not None
    assert mine.ledger.read_off_data == "the length of the rows"


def test_no_schedule_of_no_rounds() -> None:
    with pytest.raises(ArgumentError, match=r"rounds = 0.*≥ 1"):
        fl.PrimalDual(clip=2.0).schedule(unbounded(), BUDGET, 0)
