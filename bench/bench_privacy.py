"""Accounting: what is asked of it once a solve, or thousands of times a sweep."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import fastldp as fl
import jobs
from measuring import Work, measure

EPSILON, DELTA, CALLS = 1.0, 1e-4, 200


@pytest.mark.parametrize("method", fl.privacy.METHODS)
def bench_conversion(benchmark: BenchmarkFixture, method: str) -> None:
    """(ε, δ) to ρ and back."""

    def there_and_back() -> float:
        for _ in range(CALLS):
            epsilon = fl.privacy.epsilon_of(fl.privacy.rho_of(EPSILON, DELTA, method), DELTA, method)
        return epsilon

    measure(
        benchmark,
        there_and_back,
        jobs.yardstick(),
        Work(CALLS),
        lambda epsilon: abs(epsilon - EPSILON),
        at_most=1e-6,
    )


@pytest.mark.parametrize("spectrum", ["even", "of-every-coordinate"])
def bench_plan(benchmark: BenchmarkFixture, spectrum: str) -> None:
    """A plan of 8000 rounds for a6a's size, by an even spectrum and by one of 123 eigenvalues."""
    facts = fl.Facts(sizes=[561] * 20, dimension=123, bound=3.75, l2=0.1)
    prior = fl.Prior(spectrum=None if spectrum == "even" else np.geomspace(0.1, 1.0, 123))

    def overspent() -> float:
        variances = fl.plan(facts, jobs.BUDGET, rounds=8000, prior=prior).variances
        return float(np.sum(facts.sensitivity[0] ** 2 / (2 * variances)) / float(jobs.BUDGET.rho) - 1)

    measure(
        benchmark,
        overspent,
        jobs.yardstick(),
        Work(1, bytes=8 * 8000, threads=1),
        lambda excess: excess,
        at_most=1e-12,
        rounds=8000,
    )


@pytest.mark.parametrize("allocation", ["dynamic", "static"])
def bench_schedule(benchmark: BenchmarkFixture, allocation: str) -> None:
    """The noise of 8000 rounds, with its ledger and what the sampler takes of the budget."""
    problem, method = jobs.case(jobs.FIRST).problem, fl.PrimalDual(step=jobs.STEP, allocation=allocation)
    rounds = 8000

    def overspent() -> float:
        for _ in range(3):
            ledger = method.schedule(problem, jobs.BUDGET, rounds).ledger
            assert ledger is not None  # there is a budget
            excess = max(float(ledger.total_epsilon) - EPSILON, ledger.total_delta - DELTA)
        return excess

    measure(
        benchmark,
        overspent,
        jobs.yardstick(),
        Work(3, bytes=8 * rounds, threads=1),
        lambda excess: excess,
        at_most=0.0,
        rounds=rounds,
    )
