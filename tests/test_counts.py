"""Counts of clipping that adapts: how far a sample moves one, the noise that each has, and what they cost."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from test_clipping import documented_prior

import cases
import fastldp as fl
import naive
from fastldp.errors import ArgumentError, ClippingWarning
from fastldp.kernels.chacha import COUNT, EARLY_COUNT, PUBLIC
from fastldp.methods import Method
from fastldp.methods.base import MOST_LOCAL_STEPS
from fastldp.methods.schedule import Terms
from fastldp.privacy import sampler
from fastldp.sweeping import spec

pytestmark = pytest.mark.filterwarnings(
    "ignore:the threshold of clipping", "ignore::fastldp.errors.NoiseWarning", "ignore::fastldp.errors.HorizonWarning"
)

BUDGET = fl.Budget(1.0, 1e-4)
STILL = 1e-12  # a step by which nothing moves


def rows_of(M: int = 200, workers: Any = 4, **given: Any) -> fl.Problem:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, 4))
    return fl.Problem(A, np.where(A[:, 0] > 0, 1.0, -1.0), workers=workers, **({"l2": 0.1} | given))


@pytest.mark.parametrize(
    ("repetitions", "method"),
    [
        (1, fl.ISRLDP(STILL, accelerated=True)),
        (3, fl.PrimalDual(STILL)),
        (20, fl.DPScaffold(STILL, 2, warm_start=True)),
    ],
    ids=lambda given: type(given).__name__,
)
def test_every_count_has_noise_of_its_own(repetitions: int, method: Any) -> None:
    """Of its worker's budget, from an address that no other count has, over the exact count wherever runs begin."""
    case, rounds, early = cases.make("zero", sizes=(5, 14, 1, 9)), 20, 40
    x0, budget = np.linspace(-1.0, 1.5, 9), fl.Budget(np.array([1.0, 4.0, 0.5, 2.0]), 1e-4)
    clip = fl.AdaptiveClip(0.6, 0.7, every=1, share=0.9, rate=0.7, early=early, factor=0.8)
    method = type(method)(**(vars(method) | {"clip": clip}))
    given: dict[str, Any] = {"rounds": rounds, "algorithm": method, "repetitions": repetitions, "seed": 5}
    run = fl.solve(case.problem, budget, x0=x0, common_noise=True, record=[fl.Every(1), fl.Messages(0)], **given)
    assert run.ledger is not None
    sigma = np.sqrt(run.ledger.count_factors * run.ledger.count_variances[0])
    assert len({*sigma.tolist()}) == 4
    counted = [*range(1 - early, rounds)]
    gains = {t: 0.7 / (1 + j / 10 + 10 * np.sum(sigma**2)) for j, t in enumerate(counted)}
    oracle = naive.Adaptive(0.6, 0.7, gains, sigma, 29, (0.7e-6, 0.7e6), factor=0.8)
    address = naive.Address(5, repetitions - 1, 0, 0, 1)
    oracle.begin(case.loss, case.shards, x0, address, gridded=True)
    for t in range(1, rounds):
        C = oracle.threshold(t)
        for i, shard in enumerate(case.shards):
            oracle.count(naive.inside(case.loss, *shard, x0, C), address._replace(worker=i, round_=t), True)
    assert run.early_counts is not None
    assert run.counts is not None
    found = np.concatenate([run.early_counts[-1], run.counts[-1, :-1]])
    np.testing.assert_allclose(found, [oracle.released[t] for t in counted], rtol=1e-9, atol=1e-12)


def test_purposes_of_noise_are_apart() -> None:
    """Of counts, of those before the first round, of coins, and of all local steps that a method may have."""
    purposes = {COUNT, EARLY_COUNT, PUBLIC}
    assert len(purposes) == 3
    assert min(purposes) >= MOST_LOCAL_STEPS
    assert max(purposes) < 2**32


def counts_of(A: Any, b: Any, workers: Any, layout: str, dtype: str, repetitions: int) -> Any:
    """Without noise, before the first round and in it, at a threshold of 0.4; and the releases of worker 0."""
    problem = fl.Problem(sparse.csr_array(A) if layout == "csr" else A, b, workers=workers, l2=1.0, dtype=dtype)
    clip = fl.AdaptiveClip(start=0.4, every=1, early=1, rate=1e-20, factor=1.0)
    run = fl.solve(
        problem,
        rounds=2,
        algorithm=fl.ISRLDP(STILL, clip=clip),
        repetitions=repetitions,
        record=[fl.Final(), fl.Messages(0)],
    )
    assert run.early_counts is not None
    assert run.counts is not None
    assert run.messages is not None
    return len(b) * np.array([run.early_counts[-1, 0], run.counts[-1, 0]]), run.messages[-1, 0]


@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize(
    ("layout", "dtype"),
    [
        ("dense", "float64"),
        pytest.param("csr", "float64", marks=pytest.mark.thorough),
        pytest.param("dense", "float32", marks=pytest.mark.thorough),
    ],
)
def test_a_sample_moves_a_count_by_one_at_most(layout: str, dtype: str, repetitions: int) -> None:
    """At the threshold and next to it, at zero, twice there, far away, and alone on its worker."""
    rng = np.random.default_rng(3)
    sizes, unit = (3, 1, 9), np.array([1.0, 0, 0])
    workers, M = np.repeat([0, 1, 2], sizes), sum(sizes)
    A = rng.standard_normal((M, 3))
    A[0], A[1], A[2], A[3] = 0.0, 0.8 * unit, 0.8 * unit, 0.8 * unit
    b = np.where(rng.random(M) < 0.5, 1.0, -1.0)
    before, message = counts_of(A, b, workers, layout, dtype, repetitions)
    # Gradients at zero are half as long as rows; one that is as long as the threshold is not shorter.
    short = np.linalg.norm(A.astype(dtype), axis=1) / 2 < np.asarray(0.4, dtype)
    np.testing.assert_allclose(before, np.tile(np.bincount(workers, short), (2, 1)), atol=1e-5)
    for row in (0, 1, 3):
        for other in (0 * unit, np.nextafter(0.8, 0) * unit, 0.8 * unit, 1.01 * unit, 1e6 * unit, 1e-6 * unit, -A[1]):
            changed = A.copy()
            changed[row] = other
            after, moved = counts_of(changed, b, workers, layout, dtype, repetitions)
            change = np.abs(after - before)
            assert change.max() <= 1 + 1e-5
            assert (np.delete(change, workers[row], axis=1) <= 1e-5).all()
            # And of three samples' mean a release by 2C/3.
            assert np.linalg.norm(moved - message) <= 2 * 0.4 / 3 * (1 + 1e-5)


@pytest.mark.parametrize("early", [0, 3])
def test_repetitions_that_follow_each_other_in_a_block_begin_anew(early: int) -> None:
    """Thresholds, units and paces of the runs before them are gone."""
    clip = fl.AdaptiveClip(0.6, 0.2, every=2, share=0.3, rate=0.7, early=early)
    given: dict[str, Any] = {"rounds": 60, "algorithm": fl.PrimalDual("planned", "static", clip=clip), "n_jobs": 1}
    given |= {"seed": 5, "record": [fl.Every(10), fl.Messages(0)]}
    problem, budget = rows_of(), fl.Budget(5.0, 1e-4)
    many = fl.solve(problem, budget, repetitions=48, **given)
    few = fl.solve(problem, budget, repetitions=20, **given)
    for what in ("means", "messages", "thresholds", "counts", "early_counts"):
        np.testing.assert_array_equal(getattr(many, what)[:20], getattr(few, what))


PLANNED = """
rounds = 60
repetitions = 2
seed = 1
[data]
synthetic = "ijcnn1"
rows = 200
[problem]
workers = 4
l2 = 0.1
gradient_bound = 0.5
[budget]
epsilon = 5.0
delta = 1e-4
[[method]]
step = "planned"
allocation = "static"
clip = """


def test_runs_that_are_planned_at_other_thresholds_share_lanes(tmp_path: Path) -> None:
    """From starts a thousand times apart, after other numbers of counts, and with counts in other rounds."""
    clips = [
        f"{{start = {start}, every = {every}, early = {early}, share = 0.5}}"
        for start, every, early in ((0.3, 3, 5), (3e-4, 4, 9))
    ]
    fl.sweep(f"{PLANNED}[{', '.join(clips)}]", tmp_path / "both.h5", progress=False)
    fl.sweep(f"{PLANNED}{clips[0]}", tmp_path / "alone.h5", progress=False)
    both = {(run.parameters["clip_start"], run.repetition): run for run in fl.results(tmp_path / "both.h5")}
    assert len(both) == 4
    for run in fl.results(tmp_path / "alone.h5"):
        other = both[run.parameters["clip_start"], run.repetition]
        np.testing.assert_array_equal(run.optimality, other.optimality)
        np.testing.assert_array_equal(run.threshold, other.threshold)


# What they cost


def ledger_of(problem: fl.Problem, clip: fl.AdaptiveClip | float, rounds: int = 1, budget: fl.Budget = BUDGET) -> Any:
    ledger = fl.ISRLDP(0.1, clip=clip).schedule(problem, budget, rounds).ledger
    assert ledger is not None
    return ledger


def test_the_sampler_draws_a_pair_for_every_count() -> None:
    ledger = ledger_of(rows_of(), fl.AdaptiveClip(early=10_000), 3)
    # Of four numbers each release, and of one each count.
    shift = max(ledger.sensitivity / math.sqrt(ledger.variances[0]), 1 / 200 / math.sqrt(ledger.count_variances[0]))
    cost = sampler.cost(3 * 2 + 10_000, 1.0, 1e-4, shift)
    assert ledger.sampler_epsilon == pytest.approx(2 * cost.log_ratio, rel=1e-12)
    assert ledger.sampler_epsilon > 1.2 * 2 * sampler.cost(3 * 2, 1.0, 1e-4, shift).log_ratio


def test_the_sampler_knows_how_far_a_sample_moves_a_count() -> None:
    """In their deviations: a count that has all of the budget is moved as far as a gradient that has it."""
    of_count, of_gradient = (
        ledger_of(rows_of(), fl.AdaptiveClip(early=1, share=share), budget=fl.Budget(50.0, 1e-3))
        for share in (1 - 1e-9, 1e-9)
    )
    assert np.max(of_count.sampler_epsilon) == pytest.approx(np.max(of_gradient.sampler_epsilon), rel=1e-3)


def test_counts_are_raised_with_what_the_sampler_takes() -> None:
    ledger = ledger_of(rows_of(), fl.AdaptiveClip(share=1 - 1e-9), budget=fl.Budget(1e-4, 1e-4))
    assert np.all(np.asarray(ledger.spent_rho) < np.asarray(ledger.rho))
    assert np.all(np.asarray(ledger.total_epsilon) <= 1e-4)


def test_rounding_of_counts_and_of_quotients_is_counted() -> None:
    """A share is a product, and a release is over the threshold first: each is rounded once more, in both worlds."""
    problem, unit = rows_of(), 2.0**-53
    ledger, fixed = ledger_of(problem, "adaptive"), ledger_of(problem, 1.0)  # type: ignore[arg-type]
    assert ledger.count_sensitivity >= 1 / 200 + 2 * unit
    more = ledger.sensitivities.arithmetic - fixed.sensitivities.arithmetic
    assert more.min() >= 2 * unit
    assert ledger.sensitivities.query == pytest.approx(fixed.sensitivities.query, rel=1e-15)


def test_settings_of_one_problem_keep_their_own_shares() -> None:
    """What they have in common is computed once, and is not what counts leave of the budget."""
    terms = Terms(rows_of(), BUDGET)
    methods: list[Method] = [fl.ISRLDP(0.1, clip=fl.AdaptiveClip(share=share)) for share in (0.05, 0.9, 0.05)]
    ledgers = [method.outline(terms, 20).complete().ledger for method in methods]
    for ledger, share in zip(ledgers, (0.05, 0.9, 0.05), strict=True):
        assert ledger is not None
        assert ledger.spent_share <= 1
        assert ledger.spent_rho == pytest.approx(BUDGET.rho, rel=1e-6)
        assert ledger.count_rho == pytest.approx(share * BUDGET.rho, rel=1e-6)


def test_workers_spend_their_own_budgets_on_counts() -> None:
    budget = fl.Budget(np.array([1.0, 4.0, 0.5, 2.0]), 1e-4)
    ledger = ledger_of(rows_of(), fl.AdaptiveClip(share=0.3), 20, budget)
    assert ledger.count_rho == pytest.approx(0.3 * budget.rho_of_workers(4), rel=1e-6)
    by_hand = [sum(1 / 200**2 / (2 * factor * v) for v in ledger.count_variances) for factor in ledger.count_factors]
    assert ledger.count_rho == pytest.approx(np.array(by_hand), rel=1e-6)
    assert math.isclose(ledger.spent_share, 1.0, rel_tol=1e-6)


@pytest.mark.parametrize("start", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("allocation", ["planned", "dynamic", "static"])
def test_plans_spend_the_budget_wherever_the_threshold_starts(start: float, allocation: str) -> None:
    """A plan is of the noise at the start, and the run's of its noise in units of the threshold."""
    method = fl.PrimalDual("planned", allocation, clip=fl.AdaptiveClip(start=start, share=0.3))
    ledger = method.schedule(rows_of(), BUDGET, 400).ledger
    assert ledger is not None
    assert ledger.spent_rho == pytest.approx(BUDGET.rho, rel=1e-6)
    by_hand = np.sum((2 / (4 * 50)) ** 2 / (2 * ledger.variances))
    assert by_hand == pytest.approx(0.7 * BUDGET.rho, rel=1e-6)


def test_rounds_are_twice_those_for_half_of_the_start_and_what_counts_leave() -> None:
    problem, budget, share = rows_of(4000), fl.Budget(5.0, 1e-5), 0.6
    left = fl.Budget(float(fl.privacy.epsilon_of((1 - share) * float(np.max(budget.rho)), 1e-5, "zcdp")), 1e-5)
    method = fl.PrimalDual("planned", "planned", clip=fl.AdaptiveClip(start=0.6, share=share, factor=0.8))
    facts = fl.Facts([1000] * 4, 4, 0.3, 0.1, radius=2 * 0.3 / 0.8)
    prior = documented_prior(facts)
    fewest = fl.plan(facts, left, prior=prior).smallest_rounds
    assert 50 < fewest < 10_000
    assert method.planned_rounds(problem, budget) == pytest.approx(2 * fewest, rel=0.01)
    assert abs(fl.plan(facts, budget, prior=prior).smallest_rounds / fewest - 1) > 0.02


def test_what_is_read_off_the_data_beside_the_threshold_is_said() -> None:
    def read(problem: fl.Problem, method: Any) -> str:
        ledger = method.schedule(problem, BUDGET, 500).ledger
        assert ledger is not None
        return str(ledger.read_off_data)

    clip: Any = "adaptive"
    for method in (fl.PrimalDual("planned", "planned", "exact", clip), fl.ISRLDP("planned", clip, prior="exact")):
        assert read(rows_of(), method) == "the prior"
    squared = rows_of(loss="squared")
    assert read(squared, fl.PrimalDual(0.1, clip=clip)) == "the strong convexity"
    assert read(squared, fl.PrimalDual(0.1, "static", clip=clip)) == ""
    assert read(rows_of(), fl.PrimalDual(0.1, clip=clip)) == ""
    assert read(rows_of(), fl.PrimalDual(clip=clip)) == "the step"


@pytest.mark.parametrize("loss", ["logistic", "squared", fl.Huber(0.5), fl.SmoothedHinge(0.5)], ids=str)
@pytest.mark.parametrize("weighting", ["uniform", "rows"])
def test_other_data_of_the_same_shape_have_the_same_schedule(loss: Any, weighting: str) -> None:
    """Where the ledger says that nothing is read: steps, rounds, noise, and where thresholds may go."""
    rng, found = np.random.default_rng(4), []
    budget = fl.Budget(np.array([1.0, 3.0, 2.0]), 1e-5)
    for scale in (1.0, 300.0):
        A = scale * rng.standard_normal((120, 3))
        b = np.where(rng.random(120) < 0.3, 1.0, -1.0)
        problem = fl.Problem(A, b, workers=[0] * 20 + [1] * 60 + [2] * 40, loss=loss, l2=0.1, weighting=weighting)
        for method in (fl.PrimalDual("planned", "planned", clip="adaptive"), fl.ISRLDP("planned", clip="adaptive")):
            schedule = method.schedule(problem, budget, 50)
            assert schedule.ledger is not None
            assert schedule.ledger.read_off_data == ""
            assert schedule.adapting is not None
            sigma = (*schedule.deviations, *schedule.factors, *schedule.adapting.variances, *schedule.adapting.factors)
            steps = schedule.step, *schedule.adapting.knots, *schedule.adapting.paces, *schedule.adapting.limits
            found.append((method.planned_rounds(problem, budget), *steps, schedule.adapting.factor, *sigma))
    assert found[:2] == found[2:]


def test_starts_that_the_precision_does_not_hold_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"^start = 1e\+30.*float32"):
        fl.ISRLDP(0.1, clip=fl.AdaptiveClip(start=1e30)).schedule(rows_of(dtype="float32"), BUDGET, 50)


def test_networks_that_nothing_can_be_planned_for() -> None:
    """Said of the problem, with what to give; not of a threshold that nobody gave."""
    images, digits = np.random.default_rng(0).random((40, 9)), np.arange(40) % 3
    network = fl.MLP(images, digits, hidden=4, workers=2)
    with pytest.raises(ArgumentError, match=r"^problem = MLP.*give rounds=, and algorithm=PrimalDual\(step=0.2\)"):
        fl.solve(network, BUDGET)


def test_runs_that_went_far_have_a_summary() -> None:
    """Whose squares overflow: of a threshold that no counts could bring near."""
    method = fl.ISRLDP(0.1, clip=fl.AdaptiveClip(start=1e100))
    run = fl.solve(rows_of(), BUDGET, rounds=50, algorithm=method, seed=1, repetitions=2)
    assert "completed 50 rounds" in run.summary()


@pytest.mark.parametrize(
    ("clip", "said"),
    [
        ("none", 'give a norm, "adaptive"'),
        (fl.AdaptiveClip, r"an AdaptiveClip\(quantile=0.8\)"),
        ({"quantile": 0.3}, r"an AdaptiveClip\(quantile=0.8\), in TOML {quantile = 0.8}; leave it out for none"),
        ([0.5, 1.0], "leave it out for none"),
        (0.0, "finite number > 0"),
        (-1.0, "finite number > 0"),
    ],
)
def test_what_clip_can_be_is_said_of_what_it_cannot(clip: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=f"^clip = .*{said}"):
        fl.ISRLDP(0.1, clip=clip)


def test_specifications_write_thresholds_as_they_are_documented() -> None:
    """A number, a word, and tables of what differs from the word, which an empty one is."""
    written = {"[0.3, 'adaptive']": [0.3, fl.AdaptiveClip()], "{}": [fl.AdaptiveClip()]}
    written["{quantile = 0.8, every = 50}"] = [fl.AdaptiveClip(quantile=0.8, every=50)]
    for text, clips in written.items():
        methods: list[Any] = [setting.method for setting in spec.read(PLANNED + text).settings]
        assert [method.clip for method in methods] == clips


@pytest.mark.filterwarnings("error:the threshold of clipping")
@pytest.mark.parametrize(("quantile", "norm"), [(0.5, 1e4), (0.9, 1e-1), (0.9, 1e5), (0.2, 1e-4)])
def test_thresholds_that_found_the_quantile_are_not_said_to_be_on_their_way(quantile: float, norm: float) -> None:
    """However far that was from their start; and they are where counts could not carry them, down as up."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 4))
    A *= norm * rng.uniform(0.5, 1.5, (2000, 1)) / np.linalg.norm(A, axis=1, keepdims=True)
    problem = fl.Problem(A, np.where(A[:, 0] > 0, 1.0, -1.0), workers=4, l2=0.1 * norm**2)
    method = fl.ISRLDP(1e-9 / norm**2, clip=fl.AdaptiveClip(quantile=quantile, factor=1.0))
    given: dict[str, Any] = {"rounds": 5, "repetitions": 4, "seed": 0}
    run = fl.solve(problem, fl.Budget(20.0, 1e-5), algorithm=method, **given)
    assert run.thresholds is not None
    np.testing.assert_allclose(run.thresholds[:, -1], np.quantile(problem.row_norms / 2, quantile), rtol=0.3)
    early = fl.ISRLDP(1e-9 / norm**2, clip=fl.AdaptiveClip(quantile=quantile, factor=1.0, early=2, rate=0.4))
    with pytest.warns(ClippingWarning, match="still on its way in 4 of 4"):
        fl.solve(problem, fl.Budget(20.0, 1e-5), algorithm=early, **given)


@pytest.mark.filterwarnings("ignore::fastldp.errors.GridEdgeWarning")
def test_fixed_thresholds_are_tuned_beside_those_that_adapt() -> None:
    """In blocks of their own: with the errors they have alone."""
    methods: list[Any] = [fl.ISRLDP(step, clip=clip) for clip in (0.5, "adaptive") for step in (0.1, 0.2)]
    given: dict[str, Any] = {"rounds": 20, "repetitions": 3, "seed": 0}
    budget = fl.Budget(5.0, 1e-4)

    def errors(tried: list[Any]) -> dict[Any, float]:
        return {trial.algorithm: trial.error for trial in fl.tune(rows_of(), budget, tried, **given).trials}

    assert errors(methods) == errors(methods[:2]) | errors(methods[2:])


def test_what_is_followed_from_counts_is_what_runs_have() -> None:
    """Within a public bound too, that counts may look beyond before what they found is multiplied."""
    problem = rows_of()
    bound = 0.25 * float(np.median(problem.row_norms))
    for given in ({"factor": 0.5}, {"factor": 1.4}, {"factor": 0.9, "every": 3}, {"early": 0, "every": 2}):
        method, bounded = (
            fl.ISRLDP(0.1, clip=fl.AdaptiveClip(share=0.5, **given)),
            problem.replace(gradient_bound=bound),
        )
        run = fl.solve(
            bounded, fl.Budget(20.0, 1e-4), rounds=12, algorithm=method, record=[fl.Every(1), fl.Messages(0)]
        )
        adapting = method.schedule(bounded, fl.Budget(20.0, 1e-4), 12).adapting
        assert adapting is not None
        assert run.early_counts is not None
        assert run.counts is not None
        assert run.thresholds is not None
        followed, _ = adapting.follow(run.early_counts, run.counts)
        first = run.early_counts.shape[1]
        np.testing.assert_allclose(followed[:, first + 1 :], run.thresholds[:, :-1], rtol=1e-12)
