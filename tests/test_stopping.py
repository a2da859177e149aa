"""The cost of the best of a random number of trials, beside exact divergences of Gaussian ones."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from fastldp.errors import ArgumentError
from fastldp.privacy.stopping import epsilon_of_best, mean_of_trials, renyi_of_best


def log_slope(log_q: float, gamma: float) -> float:
    """ln f'(q) of f(q) = E[q^K] = ln(1 − (1 − γ)q)/ln γ."""
    return math.log((1 - gamma) / -math.log(gamma)) - math.log1p(-(1 - gamma) * math.exp(log_q))


def exact(order: float, mu: float, gamma: float) -> float:
    """Of the best of K scores N(0, 1) against those of N(μ, 1): the largest score has the density φ(y) f'(Φ(y))."""

    def integrand(y: float) -> float:
        first = norm.logpdf(y - mu) + log_slope(log_ndtr(y - mu), gamma)
        second = norm.logpdf(y) + log_slope(log_ndtr(y), gamma)
        return math.exp(order * first + (1 - order) * second)

    ends = (-12.0 - order * abs(mu), 12.0 + order * abs(mu))
    return math.log(quad(integrand, *ends, limit=400, epsabs=0)[0]) / (order - 1)


@pytest.mark.parametrize("gamma", [0.5, 0.05, 1e-3])
def test_the_mean_is_that_of_the_distribution(gamma: float) -> None:
    k = np.arange(1, 40_000)
    p = np.exp(k * math.log1p(-gamma)) / (k * -math.log(gamma))
    assert p.sum() == pytest.approx(1)
    assert (k * p).sum() == pytest.approx(mean_of_trials(gamma))
    assert math.exp(log_slope(0.0, gamma)) == pytest.approx(mean_of_trials(gamma))


@pytest.mark.parametrize("order", [1.5, 4.0, 20.0])
@pytest.mark.parametrize("gamma", [0.5, 0.05, 1e-3])
@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0])
def test_it_bounds_exact_divergences(order: float, gamma: float, mu: float) -> None:
    bound = renyi_of_best(order, mu**2 / 2, gamma)
    for way in (mu, -mu):
        assert 0 < exact(order, way, gamma) <= bound


@pytest.mark.parametrize("gamma", [0.5, 0.05, 1e-3])
def test_it_is_near_them_where_scores_are_far_apart(gamma: float) -> None:
    assert renyi_of_best(20.0, 0.5, gamma) < 1.4 * exact(20.0, 1.0, gamma)


@pytest.mark.parametrize("order", [2.0, 10.0])
@pytest.mark.parametrize("mu", [0.1, 0.5])
def test_it_bounds_what_the_lemma_gives_for_gaussians(order: float, mu: float) -> None:
    """λρ + max of ln(f'(q)^λ f'(p)^(1−λ))/(λ − 1), where N(0, 1) and N(μ, 1) allow q ≤ Φ(Φ⁻¹(p) + μ)."""
    z, gamma = np.linspace(-12, 12, 2001), 0.02
    worst = max(
        order * log_slope(float(log_ndtr(at + mu)), gamma) + (1 - order) * log_slope(float(log_ndtr(at)), gamma)
        for at in z.tolist()
    )
    by_lemma = order * mu**2 / 2 + worst / (order - 1)
    assert exact(order, mu, gamma) <= by_lemma <= renyi_of_best(order, mu**2 / 2, gamma)


def test_epsilon_is_one_that_the_best_of_gaussian_scores_keeps() -> None:
    rho, delta, gamma = 0.02, 1e-5, 0.03
    epsilon, mu = epsilon_of_best(rho, delta, mean_of_trials(gamma)), math.sqrt(2 * rho)
    # All events "the best score is above y", either way.
    for way in (mu, -mu):
        for y in np.linspace(-6, 8, 300).tolist():
            first, second = (
                1 - math.log1p(-(1 - gamma) * float(ndtr(y - shift))) / math.log(gamma) for shift in (way, 0.0)
            )
            assert first <= math.exp(epsilon) * second + delta


@pytest.mark.parametrize(("rho", "trials"), [(0.01, 10.0), (0.033, 4.0), (0.5, 100.0), (0.001, 1.5)])
def test_it_is_what_another_accountant_finds(rho: float, trials: float) -> None:
    accountant = RdpAccountant(orders=[1 + math.exp(v) for v in np.linspace(-2, 8, 600)])
    trial = dp_event.GaussianDpEvent(1 / math.sqrt(2 * rho))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(trial, trials, 0.0))
    # Of its orders none is quite the best.
    assert epsilon_of_best(rho, 1e-5, trials) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_it_grows_with_what_it_should() -> None:
    costs = [epsilon_of_best(0.01, 1e-5, trials) for trials in (1.001, 2, 10, 1000)]
    assert costs == sorted(costs)
    assert epsilon_of_best(0.02, 1e-5, 10) > costs[2] > epsilon_of_best(0.01, 1e-4, 10)


@pytest.mark.parametrize("trials", [1.0, 0.5, math.nan, "ten"])
def test_means_that_are_none_are_refused(trials: float) -> None:
    with pytest.raises(ArgumentError, match="trials"):
        epsilon_of_best(0.01, 1e-5, trials)
