"""Sampled releases: never less δ than there is, hardly more, whoever computes it; and what faults in it would do."""

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastldp as fl
import naive
from fastldp.federation import Terms
from fastldp.privacy import Sensitivity, amplification, conversions
from fastldp.privacy.amplification import Releases, Spending, delta_of, epsilon_of, scale_of
from fastldp.sklearn import LDPClassifier
from fastldp.verifying import accounting
from fastldp.verifying.sampled import delta_by_inversion

# What ln δ may be raised by: the grid adds about 2e-3, and classes of rounds 2e-3 of the variance of the loss.
LOOSE, LOOSE_CLASSES = 0.02, 0.06


def even(rate: float, multiplier: float, rounds: int, **rest: Any) -> Releases:
    return Releases(rate, np.full(rounds, multiplier), **rest)


@pytest.mark.parametrize(
    ("rate", "multiplier", "epsilon"),
    [(1.0, 3.0, 0.5), (0.1, 1.0, 0.5), (0.5, 0.3, 2.0), (0.01, 0.5, 1.0), (0.001, 0.2, 3.0), (0.9, 20.0, 0.05)],
)
def test_one_release_is_the_hockey_stick_on_the_line(rate: float, multiplier: float, epsilon: float) -> None:
    expected = naive.sampled_delta(rate, multiplier, epsilon)
    found = delta_of(even(rate, multiplier, 1), epsilon)
    assert expected <= found * (1 + 1e-9)
    assert found <= expected * math.exp(LOOSE)


@pytest.mark.parametrize(("rounds", "rho"), [(1, 0.02), (7, 0.5), (3000, 0.05)])
def test_with_every_sample_it_is_the_gaussian_promise(rounds: int, rho: float) -> None:
    """Replacing a sample moves a release by twice what a sample does."""
    multiplier = math.sqrt(rounds / rho * 2)
    for epsilon in (0.1, 1.0, 3.0):
        expected = conversions.delta_of(rho, epsilon, "gdp")
        found = delta_of(even(1.0, multiplier, rounds), epsilon)
        assert expected * (1 - 1e-9) <= found <= expected * math.exp(LOOSE)


SETTINGS = [
    Releases(0.1, np.full(100, 2.0)),
    Releases(0.02, np.full(1000, 1.0)),
    Releases(0.3, np.array([8.0, 9.0, 11.0, 14.0, 18.0] * 4)),
    Releases(0.5, np.full(20, 12.0), presence=0.2, local=3),
    Releases(0.05, np.repeat(np.geomspace(6.0, 1.5, 60), 5)),
]


@pytest.mark.parametrize("releases", SETTINGS)
def test_fouriers_inversion_finds_the_same(releases: Releases) -> None:
    loose = LOOSE if np.unique(releases.multipliers).size < 10 else LOOSE_CLASSES
    for epsilon in (0.5, 2.0):
        expected, off = delta_by_inversion(releases, epsilon)
        found = delta_of(releases, epsilon)
        assert off < 1e-3 * expected
        assert expected - off <= found * (1 + 1e-6)
        assert found <= (expected + off) * math.exp(loose)


@pytest.mark.parametrize("releases", SETTINGS)
def test_the_faults_that_accountants_have_are_seen(releases: Releases) -> None:
    """What a wrong relation, rate, sensitivity or composition finds is further off than the tests above allow."""
    delta, _ = delta_by_inversion(releases, 1.0)
    faulty = [
        releases._replace(rate=releases.rate * 0.9),
        releases._replace(multipliers=releases.multipliers * 2),  # a half of what a sample moves, as if it were removed
        releases._replace(multipliers=releases.multipliers[releases.multipliers.size // 10 + 1 :]),
        releases._replace(multipliers=np.full(releases.multipliers.size, releases.multipliers.max() * 1.1)),
    ]
    if releases.local > 1:
        faulty += [releases._replace(local=1), releases._replace(presence=1.0, rate=releases.rate * releases.presence)]
    for one in faulty:
        assert delta_of(one, 1.0) < delta * (1 - LOOSE)


def test_replacing_is_not_removing() -> None:
    """The promise is of replacing a sample; what dp-accounting says of removing one is another number."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    relation = pytest.importorskip("dp_accounting").NeighboringRelation
    told = {
        name: pld.from_gaussian_mechanism(
            2.0, sampling_prob=0.1, neighboring_relation=relation[name], value_discretization_interval=1e-3
        )
        .self_compose(100)
        .get_delta_for_epsilon(2.0)
        for name in ("REPLACE_ONE", "ADD_OR_REMOVE_ONE")
    }
    found = delta_of(even(0.1, 2.0, 100), 2.0)
    assert found == pytest.approx(told["REPLACE_ONE"], rel=LOOSE)
    assert found > 3 * told["ADD_OR_REMOVE_ONE"]


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_no_gradients_are_easier_to_tell_apart_in_more_dimensions(dimension: int) -> None:
    """Any two gradients within the bound, in any plane and of any lengths, against the pair on the line."""
    generator = np.random.default_rng(dimension)
    rate, s = 0.3, 0.8
    on_the_line = {alpha: naive.sampled_delta(rate, s, math.log(alpha)) for alpha in (1.2, 2.0)}
    for _ in range(20):
        a, b = generator.normal(size=(2, dimension))
        a, b = (v / np.linalg.norm(v) * generator.uniform(0.3, 1) for v in (a, b))
        for alpha, most in on_the_line.items():
            assert naive.sampled_delta_in_a_plane(rate, s, alpha, a, b) <= most * (1 + 1e-3)


def test_a_public_coin_mixes_and_a_secret_one_is_no_better() -> None:
    """With probability r a release, else nothing: δ of one round is r times that of the release."""
    release = even(0.2, 1.0, 1)
    for presence in (0.1, 0.7):
        found = delta_of(release._replace(presence=presence), 1.0)
        assert found == pytest.approx(presence * delta_of(release, 1.0), rel=LOOSE)


@settings(deadline=None, max_examples=15)
@given(
    st.floats(0.01, 1.0), st.floats(0.1, 8.0), st.floats(-9, -2), st.integers(1, 60), st.sampled_from([1.0, 0.3]),
    st.integers(1, 3), st.floats(0.0, 2.0),
)  # fmt: skip
def test_calibrated_noise_keeps_the_promise_and_little_less_does_not(
    rate: float, epsilon: float, power: float, rounds: int, presence: float, local: int, spread: float
) -> None:
    shape, delta = np.exp(np.linspace(spread, 0, rounds)), 10.0**power
    releases = Releases(rate, shape, presence, local)
    scale = scale_of(releases, epsilon, delta)
    kept = releases._replace(multipliers=shape * scale)
    assert delta_of(kept, epsilon) <= delta
    if scale * shape.min() > 2 * amplification.LEAST_MULTIPLIER:
        assert delta_of(kept._replace(multipliers=kept.multipliers * (1 - 5e-4)), epsilon) > delta
        assert epsilon_of(kept, delta) == pytest.approx(epsilon, rel=1e-3)


def test_more_noise_fewer_rounds_and_fewer_samples_promise_more() -> None:
    shape = np.geomspace(4.0, 1.0, 50)
    base = Releases(0.1, shape)
    delta = delta_of(base, 1.0)
    for better in (
        base._replace(multipliers=shape * 1.02), base._replace(multipliers=shape[:-1]), base._replace(rate=0.098),
        base._replace(presence=0.98),
    ):  # fmt: skip
        assert delta_of(better, 1.0) < delta


def test_classes_of_rounds_are_on_the_safe_side_and_cost_little() -> None:
    multipliers = np.geomspace(9.0, 1.0, 3000) * 3
    classes = amplification._classes(Releases(0.1, multipliers), amplification.MOST_CLASSES)
    assert classes.counts.sum() == multipliers.size
    taken = np.repeat(classes.multipliers, classes.counts)
    assert (taken <= np.sort(multipliers)).all()
    weights = [np.sinh(1 / one**2).sum() for one in (taken, multipliers)]
    assert 1 <= weights[0] / weights[1] <= 1 + 2 * amplification.CLASS_GAP


def test_what_is_cut_off_and_rounded_is_counted() -> None:
    """The tilted probabilities add up to one, less what is said."""
    for releases in SETTINGS:
        spending = Spending.of(releases, 1.0)
        assert spending.error < 1e-7
        assert abs(spending.probabilities.sum() - 1) <= spending.error


@pytest.mark.parametrize(("rate", "multiplier"), [(1e-9, 30.0), (1e-9, 3000.0), (1.0, 30.0), (0.001, 1e5)])
def test_far_more_noise_than_is_needed_takes_no_memory(rate: float, multiplier: float) -> None:
    """Where no number is as small as δ the best order is huge, and so would be the grid."""
    tracemalloc.start()
    found = delta_of(even(rate, multiplier, 1), 8.0)
    exact, off = delta_by_inversion(even(rate, multiplier, 1), 8.0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(found, exact, off) < 1e-300
    assert most < 5e7


def test_noise_that_hides_nothing_promises_nothing() -> None:
    assert delta_of(even(0.1, 0.01, 3), 1.0) == 1
    assert epsilon_of(even(0.1, 0.01, 3), 1e-5) == math.inf
    assert epsilon_of(even(0.1, 1e5, 3), 1e-2) == 0


# --------------------------------------------------------------------------- ledgers of sampled runs

SHARDS = np.repeat(np.arange(3), [40, 60, 80])
ROUNDS = 30
SAMPLING = fl.Sampling(0.2)


def problem() -> fl.Problem:
    data = fl.datasets.synthetic("a6a")
    return fl.Problem(data.A[: SHARDS.size], data.b[: SHARDS.size], workers=SHARDS, l2=0.1, row_bound=1.0)


def ledger_of(method: fl.Method, accounting: str = "pld", epsilon: Any = 1.0) -> fl.privacy.Ledger:
    run = fl.solve(problem(), fl.Budget(epsilon, 1e-4, accounting), rounds=ROUNDS, algorithm=method, seed=0)
    assert run.ledger is not None
    return run.ledger


METHODS: dict[str, Any] = {
    "static": fl.PrimalDual(0.2, "static", sampling=SAMPLING),
    "dynamic": fl.PrimalDual(0.2, sampling=SAMPLING),
    "warm": fl.DPScaffold(0.2, 3, warm_start=True, sampling=SAMPLING),
    "in part": fl.DPFedAvg(0.2, 2, sampling=fl.Sampling(0.2, 0.5)),
    "in part, warm": fl.DPScaffold(0.2, 2, warm_start=True, sampling=fl.Sampling(0.2, 0.5)),
    "in secret": fl.ISRLDP(0.2, sampling=fl.Sampling(0.2, 0.5, "secret")),
}


@pytest.mark.parametrize("name", METHODS)
def test_ledgers_of_sampled_runs_keep_what_they_promise(name: str) -> None:
    """Worker by worker, from the variances themselves: each its own gradients, a drawn one over q of its samples."""
    method, made = METHODS[name], problem()
    ledger = ledger_of(method)
    assert ledger.amplified
    assert np.max(ledger.total_epsilon) <= 1
    assert ledger.total_delta <= 1e-4
    sampling, local = method.sampling, getattr(method, "local_steps", 1)
    early = local if getattr(method, "warm_start", False) else 0
    bound = made.gradient_bound / (made.n if isinstance(method, fl.PrimalDual) else 1)  # that releases ∇fᵢ/n
    for i, size in enumerate(made.sizes.tolist()):
        # What is drawn on average of a message that is sent.
        moved = bound / (size * sampling.sample_rate * (sampling.worker_rate if sampling.choice == "secret" else 1))
        deviations = np.sqrt(np.broadcast_to(ledger.variances, (made.n, local * ROUNDS + early))[i])
        of_rounds = deviations[early::local] / moved
        delta, off = delta_by_inversion(
            Releases(sampling.sample_rate, of_rounds, sampling.worker_rate, local, early), 1.0
        )
        assert off < 1e-3 * delta
        assert 1e-4 * math.exp(-LOOSE_CLASSES) <= delta <= 1e-4 * (1 + 1e-6)


def test_a_budget_of_its_own_for_each_worker() -> None:
    ledger = ledger_of(METHODS["static"], epsilon=np.array([0.5, 1.0, 2.0]))
    assert np.all(ledger.total_epsilon <= np.array([0.5, 1.0, 2.0]))
    assert np.all(ledger.spent_epsilon >= np.array([0.5, 1.0, 2.0]) * 0.999)


def test_only_pld_amplifies() -> None:
    """By other accountings every sample counts as if it were in every release: more noise, and ρ as ever."""
    full, sampled = ledger_of(METHODS["static"], "gdp"), ledger_of(METHODS["static"])
    assert not full.amplified
    assert np.all(full.variances > 10 * sampled.variances)
    without = ledger_of(fl.PrimalDual(0.2, "static"), "pld")
    np.testing.assert_array_equal(without.variances, ledger_of(fl.PrimalDual(0.2, "static"), "gdp").variances)
    assert not without.amplified


def test_a_callers_own_variances_are_held_against_the_budget() -> None:
    enough = ledger_of(METHODS["static"]).shape * 2
    own = fl.PrimalDual(0.2, enough, sampling=SAMPLING)
    # They are the same for all workers, and the smallest needs most.
    most = float(ledger_of(METHODS["static"]).factors.max())
    kept = ledger_of(replace(own, allocation=enough * most))
    np.testing.assert_array_equal(kept.variances, enough * most)
    with pytest.raises(fl.errors.BudgetError, match="multiply them by") as refused:
        ledger_of(replace(own, allocation=enough / 100))
    factor = float(str(refused.value).split("multiply them by ")[1].split(" ")[0])
    assert np.max(ledger_of(replace(own, allocation=enough / 100 * factor)).total_epsilon) <= 1


def test_what_is_published_several_times_spends_more() -> None:
    ledger = ledger_of(METHODS["static"])
    assert np.max(ledger.epsilon_of_all(4)) > 1.5


def test_ledgers_say_how_they_were_amplified() -> None:
    ledger = ledger_of(METHODS["static"])
    assert "q = 0.2" in ledger.summary()
    assert "privacy loss distributions" in ledger.summary()
    assert "coins that only their worker knows" in ledger.statement()
    assert "μ =" not in ledger.statement()
    assert "as if every sample were in every release" in ledger_of(METHODS["static"], "gdp").summary()
    again = fl.privacy.Ledger.from_dict(ledger.to_dict())
    assert again.summary() == ledger.summary()


def test_accounts_refuse_what_does_not_add_up() -> None:
    account = fl.privacy.PrivacyAccount(2.0, 1e-4, "pld")
    with pytest.raises(fl.errors.ArgumentError, match="does not add up"):
        account.charge(ledger_of(METHODS["static"]))


def test_trainings_on_the_same_rows_do_not_share_an_amplified_budget() -> None:
    """Parts that are split by ρ may each hide behind δ that a sample is not drawn, and together they cannot."""
    rows = np.random.default_rng(0).normal(size=(400, 5))
    kinds = np.arange(400) % 4
    method = fl.ISRLDP(0.1, sampling=0.001, clip=1.0)
    given: dict[str, Any] = {"method": method, "rounds": 3, "workers": 4, "row_bound": 1.0, "random_state": 0}

    def fitted(count: int, accounting: str) -> fl.privacy.Ledger:
        model = LDPClassifier(3.0, 1e-4, accounting=accounting, classes=[*range(count)], **given)
        found: fl.privacy.Ledger = model.fit(rows, kinds % count).ledger_
        return found

    with pytest.raises(fl.errors.ArgumentError, match="3 trainings"):
        fitted(3, "pld")
    for kept in (fitted(3, "gdp"), fitted(2, "pld")):
        assert np.all(kept.spent_epsilon <= kept.epsilon)
        assert kept.total_delta <= 1e-4
    # What it would have been: each keeps to its part, and all of them not to the whole.
    part = fl.Budget(1.0, 1e-4, "pld").split(4).epsilon
    assert isinstance(part, float)
    multiplier = scale_of(even(0.001, 1.0, 1), part, 1e-4)
    assert epsilon_of(even(0.001, multiplier, 4), 1e-4) > 1.3


@pytest.mark.parametrize(("rate", "rounds"), [(0.001, 1), (8e-5, 1), (8e-5, 3)])
def test_promises_hold_for_the_sampler_where_hardly_anything_is_drawn(rate: float, rounds: int) -> None:
    """Even where δ alone would cover that a sample is drawn, and normals but no computer could do with no noise."""
    for sampling in (fl.Sampling(rate), fl.Sampling(1.0, rate)):
        for method in (fl.ISRLDP(0.1, sampling=sampling), fl.PrimalDual(0.1, sampling=sampling)):
            ledger = method.schedule(problem(), fl.Budget(np.array([1.0, 3.0, 1.0]), 1e-4, "pld"), rounds).ledger
            assert ledger is not None
            assert np.all(ledger.total_epsilon <= ledger.epsilon)
            assert ledger.total_delta <= 1e-4


def test_federations_refuse_what_does_not_add_up() -> None:
    """Workers account for their answers one by one."""
    method = fl.ISRLDP(0.1, sampling=0.1, clip=1.0)
    with pytest.raises(fl.errors.ArgumentError, match="nothing amplifies"):
        Terms(np.array([40, 50]), 3, fl.Budget(1.0, 1e-4, "pld"), 5, method)
    assert not Terms(np.array([40, 50]), 3, fl.Budget(1.0, 1e-4, "gdp"), 5, method).ledger.amplified


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, -1])
def test_no_release_hides_behind_others_of_its_round(at: int) -> None:
    """A round is as noisy as the least noisy of its releases, and so is what comes before the first."""
    ledger, budget = ledger_of(METHODS["warm"]), {"epsilon": 1.0, "delta": 1e-4, "accounting": "pld"}
    shape = ledger.shape.copy()
    shape[at] /= 100
    less = replace(ledger, shape=shape)
    assert less.total_delta > 1e-4
    assert accounting.wrong_with(less, budget)


def test_counts_are_not_amplified() -> None:
    method = replace(METHODS["static"], clip="adaptive")
    with pytest.raises(fl.errors.ArgumentError, match='accounting="gdp"'):
        ledger_of(method)


def test_others_find_a_ledger_that_promises_too_much() -> None:
    """By inversion, from what a file keeps: less noise, another rate, or a relation that halves what a sample moves."""
    ledger, budget = ledger_of(METHODS["static"]), {"epsilon": 1.0, "delta": 1e-4, "accounting": "pld"}
    assert accounting.wrong_with(ledger, budget) == []
    halved = Sensitivity(ledger.sensitivities.query / 2, ledger.sensitivities.arithmetic)
    assert accounting.wrong_with(replace(ledger, shape=ledger.shape * 0.97), budget)
    assert accounting.wrong_with(replace(ledger, sample_rate=0.22), budget)
    drawn = {"samples": 0.2, "workers": 1, "choice": "public"}
    assert accounting.wrong_draws(ledger, drawn) == []
    assert accounting.wrong_draws(replace(ledger, sample_rate=0.1), drawn)
    assert accounting.wrong_draws(ledger, None)
    truly = replace(ledger, sensitivities=halved)._amplified(lower=True)
    assert accounting.wrong_with(replace(truly, sensitivities=ledger.sensitivities), budget)


def test_the_best_noise_over_rounds_is_the_closed_form_without_sampling_and_better_with() -> None:
    weights = 0.8 ** np.arange(11, -1, -1.0)
    for rate, gains in ((1.0, False), (0.005, True)):
        best = amplification.best_multipliers(weights, rate, 1.0, 1e-5)
        closed = weights**-0.25
        closed = closed * scale_of(Releases(rate, closed), 1.0, 1e-5)
        assert delta_of(Releases(rate, best), 1.0) <= 1e-5
        if gains:
            assert weights @ best**2 < 0.98 * (weights @ closed**2)
        else:
            np.testing.assert_allclose(best, closed, rtol=2e-3)
