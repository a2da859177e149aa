"""Allocation and ledger: the paper's formulas, exact over ten million rounds, rounded towards privacy."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
import naive
from fastldp.errors import ArgumentError, BudgetError, DataError, DeltaWarning, UnknownNameError
from fastldp.methods import Terms
from fastldp.privacy import allocation, dynamic_variances, rho_of, static_variances
from fastldp.sweeping import spec as specs

METHODS = ("zcdp", "zcdp-tight", "gdp")


# The oracle's plain q_t underflows for a long horizon and a large μ.
@pytest.mark.parametrize("rounds", [1, 2, 10, 1000])
@pytest.mark.parametrize("mu", [0.005, 0.3, 2.0])
def test_allocations_are_theorem_1(rounds: int, mu: float) -> None:
    bound, rho, n, m, step = 1.3, 0.0257, 20, 100, 0.25
    sensitivity = 2 * bound / (n * m)
    dynamic = dynamic_variances(rounds, rho, sensitivity=sensitivity, contraction=step * min(mu, 1.0))
    np.testing.assert_allclose(dynamic, naive.dynamic_variances(rounds, step, mu, bound, rho, n, m), rtol=1e-11)
    static = static_variances(rounds, rho, sensitivity=sensitivity)
    np.testing.assert_allclose(static, naive.static_variances(rounds, bound, rho, n, m), rtol=1e-12)


@pytest.mark.parametrize("rounds", [1, 7, 1000, 100_000, 10_000_000])
@pytest.mark.parametrize("contraction", [0.0, 1e-9, 0.00125, 0.25])
def test_allocation_spends_the_budget_exactly(rounds: int, contraction: float) -> None:
    rho, sensitivity = 0.0257, 1e-3
    variances = dynamic_variances(rounds, rho, sensitivity=sensitivity, contraction=contraction)
    assert np.isfinite(variances).all()
    assert (variances > 0).all()
    assert (np.diff(variances) <= 0).all()
    total = math.fsum(sensitivity**2 / (2 * variances))
    assert total <= rho
    assert total == pytest.approx(rho, rel=1e-12)


def test_allocation_matches_logarithms_where_the_plain_formula_underflows() -> None:
    rounds, contraction, rho, sensitivity = 10_000_000, 1e-4, 0.03, 1e-3
    variances = dynamic_variances(rounds, rho, sensitivity=sensitivity, contraction=contraction)
    # √q_t shrinks by √(1 − c) a round: the plain q_1 is e^{−1000}, which no float64 holds.
    ratios = np.log(variances[-5_000_000:-1] / variances[-4_999_999:])
    np.testing.assert_allclose(ratios, -0.5 * math.log1p(-contraction), atol=1e-13)
    total = (1 - math.exp(rounds * 0.5 * math.log1p(-contraction))) / (1 - math.sqrt(1 - contraction))
    assert variances[-1] == pytest.approx(sensitivity**2 / (2 * rho) * total, rel=1e-10)


def test_dynamic_allocation_beats_others_on_the_bound() -> None:
    """It minimises Σ q_t ξ_t² at the same ρ: perturbing it can only do worse."""
    rho, sensitivity, contraction, rounds = 0.03, 1e-3, 0.01, 500
    best = dynamic_variances(rounds, rho, sensitivity=sensitivity, contraction=contraction)
    q = (1 - contraction) ** np.arange(rounds - 1, -1, -1)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = best * np.exp(0.3 * rng.standard_normal(rounds))
        other *= allocation.spent(other, sensitivity) / rho
        assert q @ best <= q @ other


def test_budget_values() -> None:
    assert fl.Budget(1.0, 1e-4).rho == rho_of(1.0, 1e-4)
    each = fl.Budget(np.array([0.5, 1.0]), 1e-4, "gdp").rho
    np.testing.assert_array_equal(each, [rho_of(0.5, 1e-4, "gdp"), rho_of(1.0, 1e-4, "gdp")])


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, "one", None, True, [1.0, -1.0], [[1.0]], []])
def test_bad_epsilon(epsilon: object) -> None:
    with pytest.raises(BudgetError, match="^epsilon = "):
        fl.Budget(epsilon, 1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 2.0, math.nan, "small", None])
def test_bad_delta(delta: object) -> None:
    with pytest.raises(BudgetError, match="^delta = "):
        fl.Budget(1.0, delta)  # type: ignore[arg-type]


def test_unknown_accounting_lists_the_known() -> None:
    with pytest.raises(UnknownNameError, match="'zcdp', 'zcdp-tight', 'gdp', 'pld' .did you mean 'gdp'"):
        fl.Budget(1.0, 1e-4, "gdpp")
    with pytest.raises(UnknownNameError, match="method"):
        rho_of(1.0, 1e-4, "renyi")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2.0}, "rounds"),
        ({"rho": -1.0}, "rho"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"contraction": 1.0}, "contraction"),
        ({"contraction": math.nan}, "contraction"),
    ],
)
def test_bad_allocation_arguments(arguments: dict[str, float], named: str) -> None:
    good = {"rounds": 3, "rho": 0.1, "sensitivity": 1.0, "contraction": 0.1}
    with pytest.raises(ArgumentError, match=f"^{named} = "):
        dynamic_variances(**(good | arguments))  # type: ignore[arg-type]


# The ledger


@pytest.mark.parametrize("accounting", METHODS)
@pytest.mark.parametrize("chosen", ["dynamic", "static"])
def test_ledger_meets_the_promise_and_wastes_nothing(accounting: str, chosen: str) -> None:
    problem = cases.make("box_l1", sizes=(5, 12, 30)).problem
    budget = fl.Budget(np.array([0.3, 1.0, 2.0]), 1e-5, accounting)
    ledger = fl.PrimalDual(allocation=chosen).schedule(problem, budget, 400).ledger
    assert ledger is not None
    assert (ledger.spent_epsilon <= budget.epsilon).all()  # type: ignore[union-attr]
    np.testing.assert_allclose(ledger.total_epsilon, budget.epsilon, rtol=1e-9)
    assert ledger.variances.shape == (3, 400)
    assert ledger.releases == 400
    # Recomputed from Lemma 1, not from the ledger's own sums: exact gradients spend a hair less.
    for i, m in enumerate(problem.sizes):
        rho = naive.rho_spent(ledger.variances[i], problem.gradient_bound, problem.n, int(m))
        assert rho <= budget.rho[i]  # type: ignore[index]
        assert rho == pytest.approx(budget.rho[i], rel=4e-6)  # type: ignore[index]


def test_ledger_of_equal_workers_is_one_line() -> None:
    problem = cases.make("zero").problem
    ledger = fl.PrimalDual().schedule(problem, fl.Budget(1.0, 1e-4), 100).ledger
    assert ledger is not None
    assert isinstance(ledger.epsilon, float)
    assert isinstance(ledger.rho, float)
    assert isinstance(ledger.sensitivity, float)
    assert ledger.variances.shape == (100,)
    reference = naive.dynamic_variances(
        100, problem.step_limit, problem.strong_convexity, problem.gradient_bound, ledger.rho, 3, 12
    )
    np.testing.assert_allclose(ledger.variances, reference, rtol=4e-6)
    assert (ledger.variances >= reference).all()
    assert ledger.read_off_data == "the gradient bound, the step"
    assert "a leak of its own" in ledger.summary()


@pytest.mark.filterwarnings("ignore:step = 0.25 takes rows to be within")  # told to who has the data alone
@pytest.mark.parametrize("allocation", ["dynamic", "static"])
def test_a_run_to_deploy_owes_nothing_to_the_data(allocation: str) -> None:
    """With a public bound, neighbouring data give the same step, grid and noise: only the messages may differ."""
    schedules = []
    for scale in (1.0, 30.0):
        A = np.eye(6)
        A[0] *= scale
        problem = fl.Problem(A, np.ones(6), workers=2, l2=0.3, gradient_bound=1.0)
        schedules.append(fl.PrimalDual(allocation=allocation).schedule(problem, fl.Budget(1.0, 1e-4), 20))
    one, other = schedules
    assert one.ledger is not None
    assert other.ledger is not None
    assert one.ledger.read_off_data == other.ledger.read_off_data == ""
    assert one.step == other.step
    np.testing.assert_array_equal(one.deviations, other.deviations)
    # The squared loss has no public step; given one, nothing is left that was read off the data.
    squared = cases.make("box", loss="squared", gradient_bound=1.0).problem
    for method, read in ((fl.PrimalDual(), "the step"), (fl.PrimalDual(step=0.1), "")):
        ledger = method.schedule(squared, fl.Budget(1.0, 1e-4), 20).ledger
        assert ledger is not None
        assert ledger.read_off_data == read


def test_sensitivity_parts() -> None:
    problem = cases.make("zero", gradient_bound=0.5).problem
    ledger = fl.PrimalDual().schedule(problem, fl.Budget(1.0, 1e-4), 10).ledger
    assert ledger is not None
    parts = ledger.sensitivities
    np.testing.assert_allclose(parts.query, 2 * 0.5 / (3 * 12))
    assert (parts.arithmetic < 1e-12 * parts.query).all()
    assert ledger.bound_source == "public"


def test_variances_of_the_callers_own() -> None:
    problem = cases.make("zero").problem
    budget = fl.Budget(1.0, 1e-4)
    calibrated = fl.PrimalDual(allocation="static").schedule(problem, budget, 50).ledger
    assert calibrated is not None
    generous = 1.5 * calibrated.variances
    ledger = fl.PrimalDual(allocation=generous).schedule(problem, budget, 50).ledger
    assert ledger is not None
    np.testing.assert_array_equal(ledger.variances, generous)
    assert ledger.spent_rho == pytest.approx(calibrated.affordable_rho[0] / 1.5, rel=1e-9)
    with pytest.raises(BudgetError, match="multiply them by 1.1111111"):
        fl.PrimalDual(allocation=0.9 * calibrated.variances).schedule(problem, budget, 50)
    for wrong, why in ((generous[:-1], "shape"), (-generous, "> 0"), (generous * np.nan, "NaN")):
        with pytest.raises(ArgumentError, match=why):
            fl.PrimalDual(allocation=wrong).schedule(problem, budget, 50)
    with pytest.raises(ArgumentError, match="budget"):
        fl.PrimalDual(allocation=generous).schedule(problem, None, 50)


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, np.array([1e-9, 3.0])])
@pytest.mark.parametrize(
    "method", [fl.PrimalDual(), fl.PrimalDual(step=0.2, allocation="static"), fl.DPScaffold(0.1, 3), fl.ISRLDP(0.1)]
)
def test_an_outline_knows_whether_the_sampler_spoils_a_promise(method: Any, epsilon: Any) -> None:
    problem, budget = cases.make("zero", sizes=(5, 12)).problem, fl.Budget(epsilon, 1e-4)
    outline = method.outline(Terms(problem, budget), 700)
    ledger = outline.complete().ledger
    assert outline.sampler_spoils == (ledger.total_delta > ledger.delta) == (np.min(epsilon) < 1e-3)


def test_noise_that_no_run_could_hold_is_refused() -> None:
    problem = cases.make("zero").problem
    huge, tiny = (problem.replace(gradient_bound=bound) for bound in (1e130, 1e-139))
    for method in (fl.PrimalDual(), fl.ISRLDP(0.1)):
        with pytest.raises(BudgetError, match=r"epsilon = .*variance above 1e\+200"):
            method.schedule(huge, fl.Budget(1.0, 1e-4), 10)
        with pytest.raises(BudgetError, match="epsilon = .*the noise vanishes"):
            method.schedule(tiny, fl.Budget(1e30, 1e-4), 10)
    with pytest.raises(DataError, match="squares overflow"):
        fl.PrimalDual().schedule(
            fl.Problem(np.eye(2), [1.0, 2.0], workers=1, loss="squared", regularizer=fl.Box(1e300)),
            fl.Budget(1.0, 1e-4),
            10,
        )


def test_ledger_round_trip() -> None:
    problem = cases.make("box", sizes=(5, 12)).problem
    ledger = fl.PrimalDual().schedule(problem, fl.Budget(1.0, 1e-4), 10).ledger
    assert ledger is not None
    again = fl.Ledger.from_dict(ledger.to_dict())
    np.testing.assert_array_equal(again.variances, ledger.variances)
    assert again.summary() == ledger.summary()


def test_a_large_delta_is_said_where_it_is_given() -> None:
    with pytest.warns(DeltaWarning, match=r"delta = 0\.5 is above 0\.001: .* such as 1e-5") as caught:
        fl.Budget(1.0, 0.5)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.Budget(1.0, 1e-3)


def test_a_delta_above_one_over_the_samples_is_said_where_they_are_known() -> None:
    A = np.ones((3000, 1))
    problem = fl.Problem(A, A[:, 0], workers=np.repeat([0, 1], [1000, 2000]), l2=0.1)
    with pytest.warns(DeltaWarning, match=r"delta = 0\.0005 is no less than 1/m = 0\.0005 .* m = 2,000 samples"):
        fl.solve(problem, fl.Budget(1.0, 1 / 2000), rounds=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fl.solve(problem, fl.Budget(1.0, 1 / 2001), rounds=2)
        fl.solve(problem, rounds=2)
    text = "rounds = 2\n[data]\ngiven = 'ones'\n[problem]\nworkers = 1\nl2 = 0.1\n[budget]\nepsilon = 1.0\n"
    text += "delta = 1e-3\n[[method]]\nname = 'PrimalDual'\n"
    with pytest.warns(DeltaWarning, match=r"1/m = 0\.000333 "):
        specs.read(text, {"ones": (A, A[:, 0])})
