"""Drawn samples: coins and trajectories are the oracle's, bits depend on the seed alone, noise is as if all were in."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_mlp as of_networks
from numpy.typing import NDArray
from scipy import stats
from test_baselines import answers, deviations_of

import cases
import fastldp as fl
import naive
from fastldp.engine import driving
from fastldp.errors import ArgumentError
from fastldp.federation import Terms
from fastldp.kernels.chacha import SAMPLES, WORKERS, derived_keys, key_of

Array = NDArray[np.float64]
BUDGET = fl.Budget(1.0, 1e-4)
RATE, ROUNDS, SEED = 0.3, 6, 5
BASELINES: dict[str, Any] = {
    "fedavg": fl.DPFedAvg(0.3, 3, clip=0.7, server_step=0.6),
    "scaffold_warm": fl.DPScaffold(0.2, 2, warm_start=True),
    "fedexp": fl.LDPFedEXP(0.3, 3),
    "scaffnew": fl.DPScaffNew(0.3, 0.3, clip=0.7),
    "isrl": fl.ISRLDP(0.5),
    "isrl_accelerated": fl.ISRLDP(0.5, accelerated=True),
}
OF_SAMPLES = fl.Sampling(RATE)
# Groups of sixteen coins that are full, begun, and of one sample.
SIZES = (5, 33, 1, 16)


def sampled(method: Any, rate: float = RATE) -> Any:
    return replace(method, sampling=fl.Sampling(rate))


def limit(rate: float) -> int:
    return round(rate * 2**32)


def oracle(
    case: cases.Case, method: Any, run: fl.Solution, repetition: int, sampling: fl.Sampling = OF_SAMPLES
) -> Array:
    clip = naive.Sampled(
        limit(sampling.samples),
        np.inf if method.clip is None else method.clip,
        limit(sampling.workers),
        sampling.choice == "secret",
    )
    if isinstance(method, fl.PrimalDual):
        deviations = np.zeros((case.problem.n, ROUNDS))
        if run.ledger is not None:
            deviations = np.sqrt(np.broadcast_to(run.ledger.variances, deviations.shape))
        assert isinstance(method.step, float)
        given = case.shards, case.loss, case.l2, case.g, np.zeros(case.problem.d), method.step
        x = naive.primal_dual(*given, deviations, SEED, repetition, clip=clip, weighting=case.weighting).x
        return np.asarray(x[1:].mean(axis=1))
    found = answers(case, method, deviations_of(run, case.problem.n), SEED, repetition, ROUNDS, clip)
    return np.asarray(found)


@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 3, 20])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ["paper", *sorted(BASELINES)])
def test_trajectories_are_the_oracles(name: str, layout: str, repetitions: int) -> None:
    """With noise and without."""
    method = fl.PrimalDual(0.2, "static") if name == "paper" else BASELINES[name]
    case = cases.make("box_l1" if name == "paper" else "zero", sizes=SIZES, layout=layout)
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": sampled(method), "repetitions": repetitions}
    for budget in (BUDGET, None):
        run = fl.solve(case.problem, budget, record=fl.Every(1), seed=SEED, common_noise=True, **given)
        expected = oracle(case, method, run, repetitions - 1)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


@cases.tiny_shards
def test_workers_weighted_by_rows() -> None:
    case, method = cases.make("box", sizes=SIZES, weighting="rows"), fl.PrimalDual(0.2, "static")
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": sampled(method), "seed": SEED, "common_noise": True}
    run = fl.solve(case.problem, BUDGET, record=fl.Every(1), **given)
    expected = oracle(case, method, run, 0)
    np.testing.assert_allclose(run.means[0], expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


def test_single_precision() -> None:
    case = cases.make("zero", dtype="float32")
    method = BASELINES["isrl"]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": sampled(method), "seed": SEED, "common_noise": True}
    for repetitions in (1, 18):
        run = fl.solve(case.problem, repetitions=repetitions, record=fl.Every(1), **given)
        np.testing.assert_allclose(run.means[-1], oracle(case, method, run, repetitions - 1), atol=1e-5)


@cases.tiny_shards
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ["fedavg", "isrl"])
def test_bits_depend_on_nothing_but_the_seed(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Company, threads and segments, and whether a run is alone."""
    problem = cases.make("zero", sizes=SIZES, layout=layout).problem
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": sampled(BASELINES[name]), "seed": SEED}
    given["record"] = [fl.Every(2), fl.Messages(1)]
    many = fl.solve(problem, BUDGET, repetitions=20, n_jobs=1, **given)
    alone = fl.solve(problem, BUDGET, n_jobs=1, **given)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 1.0)  # a round each
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    few = fl.solve(problem, BUDGET, repetitions=3, n_jobs=2, **given)
    cut = fl.solve(problem, BUDGET, n_jobs=2, **given)
    for run, count in ((few, 3), (alone, 1), (cut, 1)):
        np.testing.assert_array_equal(many.means[:count], run.means)
        assert many.messages is not None
        assert run.messages is not None
        np.testing.assert_array_equal(many.messages[:count], run.messages)


def first_releases(rate: float, size: int, repetitions: int) -> Array:
    """(repetitions,): the sums over the drawn samples, of one worker whose gradients at zero are all of length one."""
    problem = fl.Problem(np.full((size, 1), 2.0), np.ones(size), workers=1, l2=1.0)
    method = fl.ISRLDP(1.0, sampling=fl.Sampling(rate))
    run = fl.solve(problem, rounds=1, algorithm=method, repetitions=repetitions, seed=3, record=fl.Messages(0))
    assert run.messages is not None
    return -run.messages[:, 0, 0] * size * fl.Sampling(rate).sample_rate


@pytest.mark.parametrize("rate", [0.03, 0.2, 0.9])
def test_as_many_are_drawn_as_a_binomial_says(rate: float) -> None:
    """So releases are unbiased, and coins independent over samples and runs."""
    size, repetitions = 50, 4000
    counts = first_releases(rate, size, repetitions)
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    found = np.bincount(np.rint(counts).astype(int), minlength=size + 1)
    expected = stats.binom.pmf(np.arange(size + 1), size, rate) * repetitions
    # What is seldom goes together.
    often = expected >= 5
    observed, wanted = np.append(found[often], found[~often].sum()), np.append(expected[often], expected[~often].sum())
    assert stats.chisquare(observed[wanted > 0], wanted[wanted > 0]).pvalue > 1e-6


def test_each_release_has_a_draw_of_its_own() -> None:
    """Rounds, local steps and workers: no two of them have the same, and all are fair."""
    rows, workers, steps, rounds = 48, 6, 3, 40
    A = np.tile(np.eye(rows), (workers, 1))
    problem = fl.Problem(A, np.ones(rows * workers), workers=workers, l2=1.0)
    # So short steps that gradients stay what they are at the start.
    method = fl.DPFedAvg(1e-9, steps, sampling=fl.Sampling(0.5))
    draws = []
    for worker in range(workers):
        run = fl.solve(problem, rounds=rounds, algorithm=method, seed=1, record=fl.Messages(worker))
        assert run.messages is not None
        draws.append(np.abs(run.messages[0]) > 0.5 / rows)
    seen = np.concatenate(draws)
    assert len({row.tobytes() for row in seen}) == workers * steps * rounds
    # Every sample is drawn half of the time, and no two together oftener than others.
    together = (2.0 * seen - 1).T @ (2.0 * seen - 1) / len(seen)
    assert np.abs(seen.mean(axis=0) - 0.5).max() < 6 * 0.5 / np.sqrt(len(seen))
    assert np.abs(together - np.eye(rows)).max() < 6 / np.sqrt(len(seen))


def test_keys_of_coins_are_their_own() -> None:
    """No address of theirs can be one of noise, or of another purpose, for they have other keys."""
    keys = np.stack([key_of(3, k) for k in range(5)])
    derived = [derived_keys(keys, what) for what in (SAMPLES, WORKERS)]
    everything = np.concatenate([keys, *derived])
    assert len({key.tobytes() for key in everything}) == 15
    np.testing.assert_array_equal(derived[0][2], naive.derived_key(3, 2, SAMPLES))


def test_of_no_sample_a_release_is_noise_alone() -> None:
    """The sum of nothing is zero, divided as ever."""
    A = np.array([[1.0, 0.5]])
    problem = fl.Problem(A, np.ones(1), workers=1, l2=1.0)
    method = fl.ISRLDP(0.1, sampling=fl.Sampling(2.0**-32))
    quiet = fl.solve(problem, rounds=4, algorithm=method, seed=0, record=fl.Messages(0), repetitions=3)
    assert not np.any(quiet.messages)
    noisy = fl.solve(problem, BUDGET, rounds=4, algorithm=method, seed=0, record=fl.Messages(0), common_noise=True)
    assert noisy.ledger is not None
    assert noisy.messages is not None
    sigma = float(np.sqrt(noisy.ledger.variances[0]))
    for t in range(4):
        noise, dithers = naive.draws(0, 0, 0, t + 1, 2)
        np.testing.assert_array_equal(noisy.messages[0, t], naive.release(np.zeros(2), sigma, noise, dithers, True))


def test_rates_are_what_coins_have() -> None:
    for rate in (0.1, 1 / 3, 0.2, 1.0, 2.0**-32):
        sampling = fl.Sampling(rate)
        assert sampling.sample_rate * 2**32 == limit(rate) == sampling.sample_limit + 1


def test_noise_is_as_if_nothing_were_amplified() -> None:
    """A sample moves a sum over those drawn as far as a sum over all, and the sum is divided by less."""
    problem = cases.make("zero").problem
    for method in (fl.PrimalDual(0.2), *BASELINES.values()):
        full, drawn = (one.schedule(problem, BUDGET, 20) for one in (method, sampled(method, 0.25)))
        np.testing.assert_allclose(drawn.ledger.variances, 16 * full.ledger.variances, rtol=1e-12)
        np.testing.assert_allclose(drawn.ledger.sensitivity, 4 * full.ledger.sensitivity, rtol=1e-12)
        assert drawn.ledger.spent_epsilon <= 1.0


def test_all_samples_are_no_sampling() -> None:
    for everything in (None, 1, 1.0, fl.Sampling()):
        assert fl.ISRLDP(0.1, sampling=everything) == fl.ISRLDP(0.1)
    assert fl.ISRLDP(0.1, sampling=0.1) == fl.ISRLDP(0.1, sampling=fl.Sampling(0.1))


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, 1e-12, np.nan, "half", True, [0.1]])
def test_rates_that_are_none(rate: Any) -> None:
    with pytest.raises(ArgumentError, match="sampling"):
        fl.ISRLDP(0.1, sampling=rate)
    with pytest.raises(ArgumentError, match="samples"):
        fl.Sampling(rate)


def test_what_full_gradients_are_needed_for_is_refused() -> None:
    problem = cases.make("zero", gradient_bound=0.5).problem
    for method in (fl.PrimalDual("planned"), fl.PrimalDual(0.1, "planned"), fl.ISRLDP("planned")):
        with pytest.raises(ArgumentError, match="full gradients"):
            fl.solve(problem, BUDGET, rounds=200, algorithm=sampled(method))
    plan = fl.plan(problem.facts, BUDGET, rounds=200)
    with pytest.raises(ArgumentError, match="full gradients"):
        fl.solve(problem, BUDGET, rounds=200, algorithm=sampled(fl.PrimalDual(allocation=plan)))
    with pytest.raises(ArgumentError, match="every"):
        fl.solve(problem, BUDGET, rounds=20, algorithm=sampled(fl.ISRLDP(0.1, clip=fl.AdaptiveClip(every=5))))


def test_thresholds_are_found_on_all_samples() -> None:
    """Counts before the first round are as they are without drawing; rounds clip to what they found."""
    case = cases.make("zero", sizes=(20, 30, 25))
    clip = fl.AdaptiveClip(early=6, factor=0.5)
    given: dict[str, Any] = {"rounds": ROUNDS, "seed": SEED, "record": [fl.Every(1), fl.Messages(1)]}
    given["common_noise"] = True
    runs = [
        fl.solve(case.problem, BUDGET, algorithm=method, **given)
        for method in (fl.ISRLDP(0.3, clip=clip), sampled(fl.ISRLDP(0.3, clip=clip)))
    ]
    for name in ("early_counts", "thresholds"):
        np.testing.assert_array_equal(getattr(runs[0], name), getattr(runs[1], name))
    assert not np.array_equal(runs[0].means, runs[1].means)


@cases.tiny_shards
@pytest.mark.parametrize("chunk", [32, 1024])
def test_a_network_takes_the_drawn_samples_alone(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one chunk and in several, with the bits of any number of threads."""
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    monkeypatch.setattr(fl.MLP, "chunk", chunk)
    problem = of_networks.make(regularizer=of_networks.G, l2=0.02)
    method = fl.ISRLDP(0.3, sampling=fl.Sampling(0.6))
    given: dict[str, Any] = {"rounds": 4, "algorithm": method, "seed": SEED, "common_noise": True}
    run = fl.solve(problem, of_networks.BUDGET, n_jobs=1, **given)
    x0 = problem.regularizer.prox(problem.start(), 0.0)
    shards, widths = of_networks.shards(), of_networks.WIDTHS
    deviations = of_networks.noise_of(run, problem, 4)[:, 0]
    clip = naive.Sampled(limit(0.6), 0.8)
    reference = naive.isrl(shards, widths, 0.02, of_networks.NAIVE_G, x0, 0.3, deviations, 4, SEED, 0, clip=clip)
    np.testing.assert_allclose(run.x[0], reference.x[-1], atol=of_networks.TOLERANCE)
    again = fl.solve(problem, of_networks.BUDGET, n_jobs=2, repetitions=2, **given)
    np.testing.assert_array_equal(again.x[0], run.x[0])


# Workers that take part.

IN_PART = [name for name in ["paper", *sorted(BASELINES)] if name != "scaffnew"]


@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 3, 20])
@pytest.mark.parametrize("weighting", ["uniform", "rows"])
@pytest.mark.parametrize("name", IN_PART)
def test_rounds_of_some_workers_are_the_oracles(name: str, weighting: str, repetitions: int) -> None:
    """Rounds that nobody takes part in are among them."""
    method = fl.PrimalDual(0.2, "static") if name == "paper" else BASELINES[name]
    case = cases.make("box_l1" if name == "paper" else "zero", sizes=SIZES, weighting=weighting)
    sampling = fl.Sampling(0.6, workers=0.4)
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": replace(method, sampling=sampling), "seed": SEED}
    run = fl.solve(case.problem, BUDGET, record=fl.Every(1), repetitions=repetitions, common_noise=True, **given)
    for k in range(repetitions):
        expected = oracle(case, method, run, k, sampling)
        np.testing.assert_allclose(run.means[k], expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


@cases.tiny_shards
@pytest.mark.parametrize("name", ["paper", "fedavg", "isrl"])
def test_in_secret_all_send_and_the_absent_noise_alone(name: str) -> None:
    method = fl.PrimalDual(0.2, "static") if name == "paper" else BASELINES[name]
    case, sampling = cases.make("zero", sizes=SIZES), fl.Sampling(0.6, 0.4, "secret")
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": replace(method, sampling=sampling), "seed": SEED}
    for repetitions in (1, 3):
        run = fl.solve(case.problem, BUDGET, record=fl.Every(1), repetitions=repetitions, common_noise=True, **given)
        expected = oracle(case, method, run, repetitions - 1, sampling)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())
    # Divided by what is drawn on average in all.
    full = method.schedule(case.problem, BUDGET, ROUNDS).ledger
    assert full is not None
    assert run.ledger is not None
    np.testing.assert_allclose(run.ledger.variances, full.variances / 0.24**2, rtol=1e-8)


@cases.tiny_shards
def test_a_network_takes_part_in_secret() -> None:
    problem = of_networks.make(regularizer=of_networks.G, l2=0.02)
    method = fl.ISRLDP(0.3, sampling=fl.Sampling(0.6, 0.4, "secret"))
    given: dict[str, Any] = {"rounds": 4, "algorithm": method, "seed": SEED, "common_noise": True}
    run = fl.solve(problem, of_networks.BUDGET, **given)
    x0 = problem.regularizer.prox(problem.start(), 0.0)
    deviations = of_networks.noise_of(run, problem, 4)[:, 0]
    clip = naive.Sampled(limit(0.6), 0.8, limit(0.4), True)
    of = of_networks.shards(), of_networks.WIDTHS, 0.02, of_networks.NAIVE_G, x0, 0.3
    reference = naive.isrl(*of, deviations, 4, SEED, 0, clip=clip)
    np.testing.assert_allclose(run.x[0], reference.x[-1], atol=of_networks.TOLERANCE)


@pytest.mark.parametrize("rate", [0.1, 0.6])
@pytest.mark.parametrize("weighting", ["uniform", "rows"])
def test_the_papers_method_among_participants_converges(rate: float, weighting: str) -> None:
    """To x* itself, without noise: with a nonsmooth g, workers whose data differ, and rounds of nobody."""
    problem = cases.make("box_l1", sizes=(9, 21, 14, 6, 30), weighting=weighting, l2=0.5).problem
    method = fl.PrimalDual(0.25, sampling=fl.Sampling(workers=rate))
    run = fl.solve(problem, rounds=150_000, algorithm=method, repetitions=2, seed=1, record=fl.Final())
    assert run.optimality.max() < 1e-20


def test_scaffold_with_some_workers_converges_and_averaging_does_not() -> None:
    problem = cases.make("zero", sizes=(9, 21, 14, 6, 30), l2=0.5).problem
    runs = [
        fl.solve(problem, rounds=20_000, algorithm=kind(0.1, 3, sampling=fl.Sampling(workers=0.3)), seed=1)
        for kind in (fl.DPScaffold, fl.DPFedAvg)
    ]
    scaffold, averaging = (run.optimality[0, -1] for run in runs)
    assert scaffold < 1e-20 < 1e-6 < averaging


@pytest.mark.parametrize("name", IN_PART)
@pytest.mark.parametrize("choice", ["public", "secret"])
def test_bits_of_absences_depend_on_nothing_but_the_seed(
    name: str, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = fl.PrimalDual(0.2, "static") if name == "paper" else BASELINES[name]
    method = replace(method, sampling=fl.Sampling(0.5, 0.4, choice))
    problem = cases.make("zero", sizes=(20, 30, 25, 40, 9)).problem
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "seed": SEED}
    given["record"] = [fl.Every(2), fl.Messages(1)]
    many = fl.solve(problem, BUDGET, repetitions=20, n_jobs=1, **given)
    alone = fl.solve(problem, BUDGET, n_jobs=1, **given)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 1.0)  # a round each
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    few = fl.solve(problem, BUDGET, repetitions=3, n_jobs=2, **given)
    for run, count in ((few, 3), (alone, 1)):
        assert many.messages is not None
        assert run.messages is not None
        np.testing.assert_array_equal(many.means[:count], run.means)
        np.testing.assert_array_equal(many.messages[:count], run.messages)
    assert many.messages is not None
    # Who is absent in public sends nothing.
    assert np.isnan(many.messages).any() == (choice == "public")


def test_as_many_take_part_as_a_binomial_says() -> None:
    n, rounds, rate = 20, 2000, 0.2
    problem = fl.Problem(np.ones((n, 1)), np.ones(n), workers=n, l2=1.0)
    method = fl.ISRLDP(1e-9, sampling=fl.Sampling(workers=rate))
    runs = [fl.solve(problem, rounds=rounds, algorithm=method, seed=2, record=fl.Messages(i)) for i in range(n)]
    there = np.stack([~np.isnan(run.messages[0, :, 0]) for run in runs])  # type: ignore[index]
    counts = np.bincount(there.sum(axis=0), minlength=n + 1)
    expected = stats.binom.pmf(np.arange(n + 1), n, rate) * rounds
    often = expected >= 5
    observed, wanted = (
        np.append(counts[often], counts[~often].sum()),
        np.append(expected[often], expected[~often].sum()),
    )
    assert stats.chisquare(observed, wanted).pvalue > 1e-6
    assert np.abs(np.corrcoef(there) - np.eye(n)).max() < 6 / np.sqrt(rounds)


def test_absences_that_a_method_does_not_know_are_refused() -> None:
    problem, some = cases.make("zero").problem, fl.Sampling(workers=0.5)
    with pytest.raises(ArgumentError, match="DPScaffNew"):
        fl.solve(problem, rounds=5, algorithm=fl.DPScaffNew(0.1, 0.5, sampling=some))
    with pytest.raises(ArgumentError, match="graph"):
        fl.solve(problem, rounds=5, algorithm=fl.PrimalDual(0.1, topology="ring", sampling=some))
    with pytest.raises(ArgumentError, match="secret"):
        fl.Sampling(0.5, choice="secret")
    with pytest.raises(ArgumentError, match="secret"):
        Terms(np.array([5, 5]), 3, BUDGET, 4, fl.ISRLDP(0.1, clip=1.0, sampling=some))
    with pytest.raises(ArgumentError, match="audit"):
        fl.audit(problem, BUDGET, rounds=3, algorithm=fl.ISRLDP(0.1, sampling=some))
