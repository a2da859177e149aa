"""Conversions: sixty digits, Google's dp-accounting and each other agree, and rounding never promises too much."""

import math
from collections.abc import Callable

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp import RdpAccountant
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from fastldp.errors import BudgetError, UnknownNameError
from fastldp.privacy import delta_of, epsilon_of, rho_of

METHODS = ("zcdp", "zcdp-tight", "gdp")
BUDGETS = [(1.0, 1e-4), (0.5, 1e-5), (8.0, 1e-9), (0.01, 1e-3), (100.0, 1e-6)]

# The ranges promised, from corner to corner.
EPSILONS = (1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3)
DELTAS = (1e-300, 1e-100, 1e-12, 1e-4, 0.5)
RHOS = (1e-12, 1e-9, 1e-4, 0.1, 0.9, 8.0, 300.0, 1e6)
epsilons = st.floats(-6, 3).map(lambda x: 10.0**x)
deltas = st.floats(-300, math.log10(0.5)).map(lambda x: 10.0**x) | st.floats(1e-6, 0.5)
rhos = st.floats(-12, 6).map(lambda x: 10.0**x)
methods = st.sampled_from(METHODS)

TIGHT = 1e-9
# δ(ε) is flat where ε is far below δ: there it is δ, not ε, that comes back to the last digits.
FLAT = 2e-13


def true_delta(method: str, rho: float, epsilon: float) -> mpmath.mpf:
    """Each promise as its authors wrote it."""
    rho, epsilon = mpmath.mpf(rho), mpmath.mpf(epsilon)
    if method == "zcdp":
        return mpmath.exp(-((epsilon - rho) ** 2) / (4 * rho)) if epsilon > rho else mpmath.mpf(1)
    if method == "gdp":
        mu = mpmath.sqrt(2 * rho)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)

    def log_bound(log_excess: mpmath.mpf) -> mpmath.mpf:
        """Proposition 12 at the order α = 1 + e^log_excess; convex in α."""
        excess = mpmath.exp(log_excess)
        order = 1 + excess
        return excess * (order * rho - epsilon) + order * mpmath.log(excess / order) - log_excess

    # Golden section: the place to 1e-13, hence the least value to 1e-22.
    golden = (mpmath.sqrt(5) - 1) / 2
    low, high = mpmath.mpf(-60), mpmath.mpf(60)
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = log_bound(left), log_bound(right)
    while high - low > 1e-13:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = log_bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = log_bound(right)
    return mpmath.exp(min(at_left, at_right, mpmath.mpf(0)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rho_is_the_true_one_rounded_down(method: str, epsilon: float) -> None:
    for delta in DELTAS:
        rho = rho_of(epsilon, delta, method)
        with mpmath.workdps(60):
            assert true_delta(method, rho, epsilon) <= delta
            assert true_delta(method, rho * (1 + TIGHT), epsilon) > delta


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rho", RHOS)
def test_epsilon_is_the_true_one_rounded_up(method: str, rho: float) -> None:
    for delta in DELTAS:
        epsilon = epsilon_of(rho, delta, method)
        with mpmath.workdps(60):
            assert true_delta(method, rho, epsilon) <= delta
            if epsilon > 0:
                assert true_delta(method, rho, epsilon * (1 - TIGHT)) > delta


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rho", RHOS)
def test_delta_is_the_true_one_rounded_up(method: str, rho: float) -> None:
    smallest = math.ulp(0.0)
    # The last ε is one where δ is neither 1 nor too small for a float, whatever ρ is.
    for epsilon in (*EPSILONS, rho + 20 * math.sqrt(rho)):
        delta = delta_of(rho, epsilon, method)
        with mpmath.workdps(60):
            true = true_delta(method, rho, epsilon)
            assert true <= delta <= true * (1 + mpmath.mpf(TIGHT)) + 2 * smallest
        assert smallest <= delta <= 1


@pytest.mark.parametrize("method", ["zcdp-tight", "gdp"])
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.5])
def test_epsilon_is_zero_just_where_delta_covers_it(method: str, delta: float) -> None:
    edge = rho_of(1e-10 * delta, delta, method)
    assert epsilon_of(edge * (1 - 1e-6), delta, method) == 0.0
    beyond = edge * (1 + 1e-6)
    epsilon = epsilon_of(beyond, delta, method)
    assert 1e-8 * delta < epsilon < 1e-4 * delta
    with mpmath.workdps(60):
        assert delta * (1 - FLAT) <= true_delta(method, beyond, epsilon) <= delta


# The figures of the method's description, at (1, 1e-4) and (0.5, 1e-5).
@pytest.mark.parametrize(
    ("epsilon", "delta", "figures"),
    [(1.0, 1e-4, (0.025763, 0.040633, 0.049267)), (0.5, 1e-5, (0.005314, 0.008506, 0.010112))],
)
def test_known_figures(epsilon: float, delta: float, figures: tuple[float, ...]) -> None:
    computed = [rho_of(epsilon, delta, method) for method in METHODS]
    np.testing.assert_allclose(computed, figures, rtol=0, atol=5.01e-7)


def test_the_exact_accounting_needs_1_91_times_less_noise() -> None:
    assert rho_of(1.0, 1e-4, "gdp") / rho_of(1.0, 1e-4, "zcdp") == pytest.approx(1.91, abs=0.005)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_zcdp_is_the_papers_formula(epsilon: float, delta: float) -> None:
    assert rho_of(epsilon, delta) == pytest.approx(naive.rho_zcdp(epsilon, delta), rel=1e-10)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gdp_is_the_exact_profile(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta, "gdp")
    assert naive.delta_gdp(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    assert delta_of(rho, epsilon, "gdp") == pytest.approx(delta, rel=TIGHT)


# Google's dp-accounting


@pytest.mark.parametrize(
    ("epsilon", "delta"), [*BUDGETS, (1e-3, 0.01), (30.0, 0.5), (1e3, 1e-12), (1.0, 1e-100), (10.0, 1e-300)]
)
def test_gdp_against_dp_accounting(epsilon: float, delta: float) -> None:
    # One Gaussian release of sensitivity 1 and deviation σ has ρ = 1/(2σ²).
    sigma = dp_accounting.get_sigma_gaussian(epsilon, delta)
    rho = 1 / (2 * sigma**2)
    assert rho_of(epsilon, delta, "gdp") == pytest.approx(rho, rel=TIGHT)
    assert epsilon_of(rho, delta, "gdp") == pytest.approx(dp_accounting.get_epsilon_gaussian(sigma, delta), rel=TIGHT)
    assert delta_of(rho, epsilon, "gdp") == pytest.approx(
        GaussianPrivacyLoss(sigma).get_delta_for_epsilon(epsilon), rel=TIGHT
    )


# Where ε > 0: dp-accounting has one more bound, by total variation, that decides where δ alone nearly suffices.
@pytest.mark.parametrize(
    ("epsilon", "delta"), [*BUDGETS, (1e-3, 1e-9), (30.0, 0.1), (1e3, 1e-12), (1.0, 1e-100), (10.0, 1e-300)]
)
def test_tight_zcdp_against_dp_accounting(epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta, "zcdp-tight")
    event = dp_accounting.ZCDpEvent(rho)
    coarse = RdpAccountant(1 + np.geomspace(0.02, 1e8, 1001)).compose(event)
    _, best = coarse.get_epsilon_and_optimal_order(delta)
    # It only tries the orders it is given: the finer they are about the best, the nearer it comes, from above.
    fine = RdpAccountant(1 + (best - 1) * np.linspace(0.97, 1.03, 6001)).compose(event)
    assert epsilon == pytest.approx(fine.get_epsilon(delta), rel=TIGHT)
    assert epsilon_of(rho, delta, "zcdp-tight") == pytest.approx(fine.get_epsilon(delta), rel=TIGHT)
    assert delta_of(rho, epsilon, "zcdp-tight") == pytest.approx(fine.get_delta(epsilon), rel=3e-8)


# Each other


@given(methods, epsilons, deltas)
@example("gdp", 1e-6, 0.5)
@example("gdp", 2e-6, 1e-5)  # these go above ε, or δ, if all three functions round alike
@example("gdp", 1e-6, 1e-4)
@example("zcdp-tight", 1e-6, 1e-300)
def test_rho_leads_back_and_never_above(method: str, epsilon: float, delta: float) -> None:
    rho = rho_of(epsilon, delta, method)
    back = epsilon_of(rho, delta, method)
    assert back <= epsilon
    assert back >= epsilon * (1 - TIGHT) - FLAT * delta
    assert delta * (1 - TIGHT) <= delta_of(rho, epsilon, method) <= delta


@given(methods, rhos, deltas)
@example("gdp", 1e6, 1e-300)
@example("gdp", 1e-6, 3e-4)  # as above
@example("zcdp-tight", 2e-6, 1e-3)
@example("zcdp-tight", 1e-12, 0.5)
def test_epsilon_leads_back_and_never_above(method: str, rho: float, delta: float) -> None:
    epsilon = epsilon_of(rho, delta, method)
    if epsilon > 0:
        assert rho * (1 - TIGHT) <= rho_of(epsilon, delta, method) <= rho
        assert delta * (1 - TIGHT) <= delta_of(rho, epsilon, method) <= delta
    else:
        assert rho_of(1e-6, delta, method) >= rho
        assert delta_of(rho, 1e-6, method) <= delta


@given(methods, epsilons, deltas, rhos)
def test_conversions_are_monotone(method: str, epsilon: float, delta: float, rho: float) -> None:
    more = 1 + TIGHT
    assert rho_of(epsilon, delta, method) < rho_of(epsilon * more, delta, method)
    assert rho_of(epsilon, delta, method) < rho_of(epsilon, delta * more, method)
    assert epsilon_of(rho, delta, method) <= epsilon_of(rho * more, delta, method)
    assert epsilon_of(rho, delta, method) >= epsilon_of(rho, delta * more, method)
    assert delta_of(rho, epsilon, method) <= delta_of(rho * more, epsilon, method)
    assert delta_of(rho, epsilon, method) >= delta_of(rho, epsilon * more, method)


@given(epsilons, deltas, rhos)
def test_each_accounting_promises_more_than_the_one_before(epsilon: float, delta: float, rho: float) -> None:
    paper, tight, exact = (rho_of(epsilon, delta, method) for method in METHODS)
    assert paper < tight < exact
    paper, tight, exact = (epsilon_of(rho, delta, method) for method in METHODS)
    assert paper > tight >= exact
    assert exact < tight or tight == 0
    paper, tight, exact = (delta_of(rho, epsilon, method) for method in METHODS)
    assert paper >= tight >= exact


# Bad arguments


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, "one", None, True, [1.0], 10**400])
@pytest.mark.parametrize(
    ("function", "named"),
    [
        (lambda bad: epsilon_of(bad, 1e-4), "rho"),
        (lambda bad: delta_of(bad, 1.0), "rho"),
        (lambda bad: rho_of(bad, 1e-4), "epsilon"),
        (lambda bad: delta_of(0.1, bad), "epsilon"),
    ],
)
def test_bad_numbers(function: Callable[[object], float], named: str, bad: object) -> None:
    with pytest.raises(BudgetError, match=f"^{named} = .*: give a finite number > 0"):
        function(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 2.0, math.inf, math.nan, "small", None, True])
@pytest.mark.parametrize("function", [rho_of, epsilon_of])
def test_bad_delta(function: Callable[..., float], bad: object) -> None:
    with pytest.raises(BudgetError, match="^delta = .*: give a number between 0 and 1"):
        function(1.0, bad)


@pytest.mark.parametrize("function", [rho_of, epsilon_of, delta_of])
def test_unknown_method_lists_the_known(function: Callable[..., float]) -> None:
    names = "'zcdp', 'zcdp-tight', 'gdp', 'pld'"
    with pytest.raises(UnknownNameError, match=f"^method = 'gdpp': .*{names} .did you mean 'gdp'"):
        function(1.0, 0.1, "gdpp")
