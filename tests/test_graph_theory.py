"""The theorem on graphs: round by round over random graphs, problems and steps; and its functions."""

import itertools
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
import naive
from fastldp import theory
from fastldp.errors import ArgumentError
from fastldp.planning import mixing
from fastldp.planning.mixing import extremes

SIZES = (5, 14, 9, 7, 11)
GRAPHS = ("complete", "ring", "grid", "star", "random:2:3", "random:8")


def links_at_random(n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Of a connected graph: a tree, and some more."""
    tree = {(int(rng.integers(k)), k) for k in range(1, n)}
    more = {(i, k) for i in range(n) for k in range(i + 1, n) if rng.random() < 0.2}
    return sorted(tree | more)


def apart_of(W: naive.Array) -> naive.Array:
    return np.eye(len(W)) - W


def one_round(
    case: cases.Case, L: naive.Array, x: naive.Array, dual: naive.Array, step: float, noise: naive.Array
) -> Any:
    """What Algorithm 1 makes of models and duals where workers hear their neighbours."""
    n = len(x)
    gradients = [naive.full_gradient(case.loss, A, b, case.l2, x[i]) / n for i, (A, b) in enumerate(case.shards)]
    message = x - step * (np.array(gradients) + noise + dual)
    apart = L @ message
    z = message - step * apart
    return np.array([case.g.prox(z[i], step / n) for i in range(n)]), dual + apart


def lyapunov(e: naive.Array, lam: naive.Array, L: naive.Array, step: float, beside: float = 0.0) -> float:
    """V = ‖e‖² + c⟨e, Le⟩ + γ⟨λ, L⁺λ⟩."""
    return float(np.sum(e * e) + beside * np.sum(e * (L @ e)) + step * np.sum(lam * (np.linalg.pinv(L) @ lam)))


@pytest.mark.parametrize("regularizer", ["zero", "box_l1", "l2_ball"])
@pytest.mark.parametrize("seed", range(12))
def test_every_round_contracts_on_every_graph(regularizer: str, seed: int) -> None:
    """From anywhere; noise of both signs adds γ²‖ζ‖² at most: its expectation is that of the theorem."""
    rng = np.random.default_rng(seed)
    case = cases.make(regularizer, l2=float(rng.uniform(0.05, 2.0)), sizes=SIZES, seed=seed)
    problem, n = case.problem, len(SIZES)
    L = apart_of(naive.metropolis(n, links_at_random(n, rng)))
    values = np.linalg.eigvalsh(L)
    mu, smooth = problem.strong_convexity, problem.smoothness
    step = min(1 / values[-1], 2 / (smooth + mu)) * float(rng.uniform(0.05, 1.0))
    factor, beside = max((1 - step * mu) ** 2, 1 - step * values[1]), step / (1 - step * values[1])
    x_star = problem.optimum()
    dual_star = naive.dual_star(case.loss, case.shards, case.l2, x_star)
    for size in (0.01, 1.0):
        x, dual = x_star + size * rng.standard_normal((n, problem.d)), size * rng.standard_normal((n, problem.d))
        dual -= dual.mean(axis=0)
        before = lyapunov(x - x_star, dual - dual_star, L, step)
        for scale in (0.0, size):
            noise = scale * rng.standard_normal(x.shape)
            for c in (0.0, beside):
                after = []
                for sign in (1, -1):
                    moved, changed = one_round(case, L, x, dual, step, sign * noise)
                    after.append(lyapunov(moved - x_star, changed - dual_star, L, step, c))
                assert np.mean(after) <= factor * before + step**2 * np.sum(noise * noise) + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_rounds_contract_in_the_mean_where_links_fail(seed: int) -> None:
    """The mean over everything that can fail, each with its probability."""
    rng = np.random.default_rng(seed)
    case = cases.make("box_l1", l2=float(rng.uniform(0.05, 2.0)), sizes=SIZES[:4], seed=seed)
    problem, n, p = case.problem, 4, float(rng.uniform(0.05, 0.5))
    W = naive.metropolis(n, links_at_random(n, rng))
    links = [(i, k) for i in range(n) for k in range(i + 1, n) if W[i, k] > 0]
    values, mu = np.linalg.eigvalsh(apart_of(W)), problem.strong_convexity
    step = min((1 - p / (1 - p)) / ((1 - p) * values[-1] + 2 * p * np.max(W - np.diag(np.diag(W)))), problem.step_limit)
    x_star = problem.optimum()
    dual_star = naive.dual_star(case.loss, case.shards, case.l2, x_star)
    x, dual = x_star + rng.standard_normal((n, problem.d)), rng.standard_normal((n, problem.d))
    dual -= dual.mean(axis=0)
    mean = (1 - p) * apart_of(W)
    before, after = lyapunov(x - x_star, dual - dual_star, mean, step), 0.0
    for there in itertools.product((False, True), repeat=len(links)):
        L = np.zeros((n, n))
        for (i, k), kept in zip(links, there, strict=True):
            if kept:
                L[[i, k], [i, k]] += W[i, k]
                L[[i, k], [k, i]] -= W[i, k]
        moved, changed = one_round(case, L, x, dual, step, np.zeros(x.shape))
        chance = float(np.prod([1 - p if kept else p for kept in there]))
        after += chance * lyapunov(moved - x_star, changed - dual_star, mean, step)
    factor = max((1 - step * mu) ** 2, 1 - step * (1 - p) * values[1])
    assert after <= factor * before + 1e-12
    found = theory.contraction(problem, step, topology=W, failures=p)
    assert found == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize("topology", GRAPHS)
def test_functions_are_those_of_the_theorem(topology: str) -> None:
    sizes = (5, 14, 9, 7, 11, 6, 8, 5, 12, 10)
    case = cases.make("box_l1", sizes=sizes)
    problem, n, x0 = case.problem, len(sizes), np.full(9, 0.2)
    L = apart_of(fl.Graph.of(topology).matrix(n).toarray())
    values, x_star, step = np.linalg.eigvalsh(L), problem.optimum(), 0.2
    dual = naive.dual_star(case.loss, case.shards, case.l2, x_star)
    reference = lyapunov(np.tile(x0 - x_star, (n, 1)), dual, L, step)
    assert theory.initial_error(problem, x0, step, topology=topology) == pytest.approx(reference, rel=1e-9)
    failing: dict[str, Any] = {"topology": topology, "failures": 0.2}
    reference = lyapunov(np.tile(x0 - x_star, (n, 1)), dual, 0.8 * L, step)
    assert theory.initial_error(problem, x0, step, **failing) == pytest.approx(reference, rel=1e-9)
    factor = max((1 - step * problem.strong_convexity) ** 2, 1 - step * values[1])
    assert theory.contraction(problem, step, topology=topology) == pytest.approx(factor, rel=1e-12)
    bounds = theory.recursion(problem, [3.0, 2.0], 5.0, step, topology=topology)
    first = factor * 5.0 + 9 * step**2 * n * 3.0
    np.testing.assert_allclose(bounds, [first, factor * first + 9 * step**2 * n * 2.0], rtol=1e-12)


def test_the_complete_graph_gives_lemma_2_and_more() -> None:
    problem = cases.make("box_l1", sizes=SIZES).problem
    budget, given = fl.Budget(4.0, 1e-4), dict[str, Any](topology="complete")
    assert theory.initial_error(problem, **given) == pytest.approx(theory.initial_error(problem), rel=1e-12)
    assert theory.contraction(problem, **given) <= theory.contraction(problem)
    ours, papers = (theory.error_bounds(problem, budget, 300, **which) for which in (given, {}))
    assert (ours <= papers).all()
    # The paper's 1 − γμ for (1 − γμ)², and 5/2 for 1.
    assert papers[-1] > 2 * ours[-1]


@pytest.mark.parametrize("topology", ["ring", "star", "random:2:3"])
@pytest.mark.parametrize("failures", [None, 0.3])
def test_bounds_hold_for_private_runs(topology: str, failures: float | None) -> None:
    problem = cases.make("box_l1", l2=0.5, sizes=(50,) * 6).problem
    budget, given = fl.Budget(8.0, 1e-3), dict[str, Any](topology=topology, failures=failures)
    bounds = theory.error_bounds(problem, budget, 400, **given)
    method = fl.PrimalDual(step=problem.safe_step, **given)
    run = fl.solve(problem, budget, rounds=400, algorithm=method, repetitions=100, seed=1, record=fl.Every(1))
    x_star = problem.optimum()
    measured = problem.n * (run.consensus + run.distance * (x_star @ x_star)).mean(axis=0)
    assert (measured <= bounds).all()
    assert measured[-1] > 0.02 * bounds[-1]
    assert run.optimality.mean(axis=0)[-1] <= theory.optimality_scale(problem) * bounds[-1]


@pytest.mark.parametrize("topology", ["ring", "grid", "star", "random:3"])
def test_extremes_of_large_graphs_are_on_the_safe_side(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 600
    values = np.linalg.eigvalsh(apart_of(fl.Graph.of(topology).matrix(n).toarray()))
    assert extremes(fl.Graph.of(topology), n) == pytest.approx((values[1], values[-1]), rel=1e-9)
    monkeypatch.setattr(mixing, "DENSE_ORDER", 0)
    extremes.cache_clear()
    found = extremes(fl.Graph.of(topology), n)
    extremes.cache_clear()
    assert found.least == pytest.approx(values[1], rel=1e-6)
    assert found.least <= values[1] * (1 + 1e-12)
    assert found.greatest >= values[-1] * (1 - 1e-12)


def test_what_the_theorem_does_not_cover_is_refused() -> None:
    problem = cases.make("zero").problem
    with pytest.raises(ArgumentError, match=r"failures = 0\.9: with so many failures nothing is proved"):
        theory.contraction(problem, topology="ring", failures=0.9)
    with pytest.raises(ArgumentError, match=r"failures = 0\.1: links are those of a graph"):
        theory.contraction(problem, failures=0.1)
    with pytest.raises(ArgumentError, match="step"):
        theory.error_bounds(problem, None, 10, step=0.5, topology="ring")
