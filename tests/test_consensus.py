"""What noise makes workers' models differ by: against the covariance of all models and duals, and closed forms."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import naive
from fastldp.planning import mixing
from fastldp.planning.consensus import consensus_weights
from fastldp.planning.mixing import Gaps
from fastldp.problems.prior import Modes


def weights_at_random(n: int, seed: int) -> naive.Array:
    """Symmetric, doubly stochastic and connected: means of permutations both ways, one of them a cycle."""
    rng = np.random.default_rng(seed)
    cycle = np.roll(np.eye(n), 1, axis=0)
    turns = [cycle, *(np.eye(n)[rng.permutation(n)] for _ in range(seed % 3)), np.eye(n)]
    shares = rng.dirichlet(np.ones(len(turns)))
    return np.asarray(sum(share * (turn + turn.T) / 2 for share, turn in zip(shares, turns, strict=True)))


def modes_of(rates: naive.Array) -> Modes:
    return Modes(rates, np.ones(rates.size), np.full(rates.size, 1 / rates.size))


def predicted(W: naive.Array, rates: naive.Array, step: float, variances: naive.Array, factors: naive.Array) -> float:
    n = len(W)
    weights = consensus_weights(modes_of(rates), Gaps.of(W, factors), step, n, variances.size)
    return float(step**2 * factors.mean() / n * variances @ weights)


@pytest.mark.parametrize("rounds", [1, 2, 30, 700])
@pytest.mark.parametrize("seed", range(8))
def test_consensus_error_is_that_of_the_covariance(seed: int, rounds: int) -> None:
    rng = np.random.default_rng([seed, rounds])
    n = int(rng.integers(2, 7))
    W, rates = weights_at_random(n, seed), rng.uniform(0.0, 2.0, 2)
    step = min(0.9, float(rng.uniform(0.02, 0.9) / np.max(1 - np.linalg.eigvalsh(W))))
    variances, factors = np.geomspace(3.0, 0.5, rounds), rng.uniform(1.0, 3.0, n)
    reference = naive.disagreement(np.diag(rates), W, step, np.outer(factors, variances))
    # Between ages noise is taken to be the same, and eigenvalues within 5 % of each other to be one.
    assert predicted(W, rates, step, variances, factors) == pytest.approx(reference, rel=2e-3, abs=1e-12)


def test_that_of_a_server_does_not_depend_on_who_has_the_noise() -> None:
    n, factors = 6, np.array([1.0, 4.0, 1.0, 2.0, 9.0, 1.0])
    given = modes_of(np.array([0.3, 1.0])), 0.3, n, 50
    of_matrix = consensus_weights(given[0], Gaps.of(np.full((n, n), 1 / n), factors), *given[1:])
    np.testing.assert_allclose(of_matrix, consensus_weights(given[0], Gaps.complete(n), *given[1:]), rtol=1e-9)


@pytest.mark.parametrize("gap", [1e-4, 0.05, 1.0, 1.3])
@pytest.mark.parametrize("step", [0.01, 0.25, 0.7])
def test_constant_noise_adds_up_to_the_closed_form(gap: float, step: float) -> None:
    """γℓ above 1, where workers overshoot each other, up to 4/3, beyond which they drift apart."""
    flat, a = Modes(np.zeros(1), np.ones(1), np.ones(1)), step * gap
    total = consensus_weights(flat, Gaps(np.array([gap]), np.ones(1)), step, 3, int(60 / a) + 60).sum()
    assert total == pytest.approx((1 - a) ** 2 / (a * (2 - 1.5 * a)), rel=1e-6)


def test_errors_that_grow_are_infinite() -> None:
    flat = Modes(np.zeros(1), np.ones(1), np.ones(1))
    assert consensus_weights(flat, Gaps(np.array([1.5]), np.ones(1)), 1.0, 3, 10).sum() == np.inf


def test_a_lone_worker_differs_from_nobody() -> None:
    assert consensus_weights(modes_of(np.ones(2)), Gaps.complete(1), 0.2, 1, 40).sum() == 0


@pytest.mark.parametrize("kind", ["ring", "random"])
def test_large_graphs_are_near_their_whole_spectrum(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, rng = 400, np.random.default_rng(0)
    turns = [np.roll(np.arange(n), 1)] + [rng.permutation(n) for _ in range(3 * (kind == "random"))]
    ones = [sparse.csr_array((np.ones(n), (np.arange(n), turn)), shape=(n, n)) for turn in turns]
    W: Any = sum((one + one.T) / 2 for one in ones) / (2 * len(ones)) + 0.5 * sparse.eye_array(n)
    factors = rng.uniform(1.0, 3.0, n)
    given = modes_of(np.array([0.1, 1.0])), 0.2, n
    for rounds in (50, 1000, 20_000):
        exact = consensus_weights(given[0], Gaps.of(W, factors), *given[1:], rounds)
        with monkeypatch.context() as patched:
            patched.setattr(mixing, "DENSE_ORDER", 0)
            found = consensus_weights(given[0], Gaps.of(W, factors), *given[1:], rounds)
        assert found.sum() == pytest.approx(exact.sum(), rel=0.1)
        assert Gaps.of(W, factors).counts.sum() == pytest.approx(n - 1, rel=0.02)
