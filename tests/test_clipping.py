"""Clipping that adapts: thresholds, counts and runs against the oracle, the ledger of the pair, and bad input."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_mlp
from test_baselines import answers

import cases
import fastldp as fl
import naive
from fastldp.engine import driving
from fastldp.errors import ArgumentError, BudgetError, ClippingWarning, HorizonWarning
from fastldp.methods import Method

# Counts of so few samples have much noise.
pytestmark = pytest.mark.filterwarnings("ignore:the threshold of clipping was still on its way")

BUDGET = fl.Budget(1.0, 1e-4)
ROUNDS = 9
CLIP = fl.AdaptiveClip(quantile=0.6, start=0.4, every=2, share=0.2, rate=0.7, early=3, factor=0.8)
METHODS: dict[str, Method] = {
    "primal_dual": fl.PrimalDual(0.2, clip=CLIP),
    "primal_dual_static": fl.PrimalDual(0.2, "static", clip=CLIP),
    "fedavg": fl.DPFedAvg(0.3, 3, clip=CLIP, server_step=0.6),
    "scaffold": fl.DPScaffold(0.3, 2, clip=CLIP, warm_start=True),
    "fedexp": fl.LDPFedEXP(0.3, 2, clip=CLIP),
    "scaffnew": fl.DPScaffNew(0.3, 0.4, clip=replace(CLIP, every=None)),
    "isrl": fl.ISRLDP(0.5, clip=CLIP),
    "isrl_tail": fl.ISRLDP(0.5, tail_average=3, clip=replace(CLIP, early=0, factor=None)),
    "isrl_accelerated": fl.ISRLDP(0.5, accelerated=True, clip=CLIP),
}


def oracle_of(case: cases.Case, method: Method, run: fl.Solution, repetition: int) -> naive.Adaptive:
    """The oracle's clipping, with the noise that the ledger says counts have, after those before the first round."""
    clip: Any = method.clip  # type: ignore[attr-defined]
    n, samples, rounds = case.problem.n, int(case.problem.sizes.sum()), int(run.rounds[-1])
    sigma = np.zeros(n) if run.ledger is None else np.sqrt(run.ledger.count_factors * run.ledger.count_variances[0])
    counted = [*range(1 - clip.early, 1), *(range(clip.every, rounds, clip.every) if clip.every else ())]
    gains = {t: clip.rate / (1 + j / 10 + 10 * np.sum(sigma**2)) for j, t in enumerate(counted)}
    limits = clip.start / 1e6, clip.start * 1e6
    made = naive.Adaptive(clip.quantile, clip.start, gains, sigma, samples, limits, factor=clip.factor or 1.0)
    x0 = case.g.prox(np.zeros(case.problem.d), 0.0)
    address = naive.Address(5, repetition, 0, 0, 1)
    made.begin(case.loss, case.shards, x0, address, gridded=case.problem.dtype == "float64")
    return made


def expected_of(case: cases.Case, method: Any, run: fl.Solution, clip: naive.Adaptive, repetition: int) -> Any:
    """(rounds, d): the oracle's average model after every round."""
    n = case.problem.n
    if isinstance(method, fl.PrimalDual):
        deviations = (
            np.zeros((n, ROUNDS)) if run.ledger is None else np.sqrt(np.broadcast_to(run.ledger.variances, (n, ROUNDS)))
        )
        x0 = case.g.prox(np.zeros(case.problem.d), 0.0)
        given = case.shards, case.loss, case.l2, case.g, x0, method.step, deviations, 5, repetition
        return naive.primal_dual(*given, clip=clip).x[1:].mean(axis=1)  # type: ignore[arg-type]
    deviations = (
        np.zeros(n)
        if run.ledger is None
        else np.sqrt(np.broadcast_to(run.ledger.variances, (n, run.ledger.releases))[:, 0])
    )
    return answers(case, method, deviations, 5, repetition, ROUNDS, clip)


@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 3, 20])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("sizes", [(12, 12, 12), (5, 14, 1, 9)])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_trajectories_are_the_oracles(name: str, sizes: tuple[int, ...], layout: str, repetitions: int) -> None:
    case, method = cases.make("zero", sizes=sizes, layout=layout), METHODS[name]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "repetitions": repetitions, "seed": 5}
    given["common_noise"] = True  # as the oracle has it
    for budget in (BUDGET, None):
        run = fl.solve(case.problem, budget, record=fl.Every(1), **given)
        clip = oracle_of(case, method, run, repetitions - 1)
        expected = expected_of(case, method, run, clip, repetitions - 1)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max())
        thresholds = [clip.threshold(t + 2) for t in range(ROUNDS)]
        assert run.thresholds is not None
        np.testing.assert_allclose(run.thresholds[-1], np.array(thresholds), rtol=1e-12)
        # It has moved after each count in a round.
        assert len({*thresholds}) == (1 if method.clip.every is None else 5)  # type: ignore[attr-defined]
        assert thresholds[0] == (0.4 if name == "isrl_tail" else pytest.approx(thresholds[0]))


@pytest.mark.thorough
@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 20])
def test_single_precision(repetitions: int) -> None:
    case, method = cases.make("zero", dtype="float32"), METHODS["isrl"]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "repetitions": repetitions, "seed": 5}
    run = fl.solve(case.problem, BUDGET, common_noise=True, **given)
    clip = oracle_of(case, method, run, repetitions - 1)
    expected = expected_of(case, method, run, clip, repetitions - 1)
    np.testing.assert_allclose(run.means[-1], expected, atol=1e-4 * np.abs(expected).max())


@cases.tiny_shards
def test_networks() -> None:
    problem, shards, widths = test_mlp.make(l2=0.02), test_mlp.shards(), test_mlp.WIDTHS
    start = float(
        np.linalg.norm(naive.network_gradient(widths, shards[0][0][0], int(shards[0][1][0]), problem.start()))
    )
    # A fixed threshold of the problem's would hold that of the method down.
    clip = fl.AdaptiveClip(0.6, min(start, problem.clip / 2), every=1, share=0.3, rate=0.4, early=0)
    method = fl.ISRLDP(0.3, clip=clip)
    run = fl.solve(problem, BUDGET, rounds=5, algorithm=method, seed=5, common_noise=True, record=fl.Every(1))
    assert run.ledger is not None
    n, samples = problem.n, int(problem.sizes.sum())
    sigma = np.sqrt(run.ledger.count_factors * run.ledger.count_variances[0])
    gains = {t: 0.4 / (1 + (t - 1) / 10 + 10 * np.sum(sigma**2)) for t in (1, 2, 3, 4)}
    oracle = naive.Adaptive(0.6, clip.start, gains, sigma, samples, (0.0, problem.clip))
    deviations = np.sqrt(np.broadcast_to(run.ledger.variances, (n, 5)))[:, 0]
    found = naive.isrl(shards, widths, 0.02, naive.zero(), problem.start(), 0.3, deviations, 5, 5, 0, clip=oracle)
    np.testing.assert_allclose(run.means[0], found.x[1:], atol=test_mlp.TOLERANCE)
    assert run.thresholds is not None
    np.testing.assert_allclose(run.thresholds[0], [oracle.threshold(t + 2) for t in range(5)], rtol=1e-12)


@pytest.mark.parametrize("repetitions", [1, 20])
@pytest.mark.parametrize(
    "method",
    [
        fl.PrimalDual("planned", "static", clip=CLIP),
        fl.PrimalDual("planned", "planned", clip=CLIP),
        fl.ISRLDP("planned", clip=CLIP),
        fl.DPFedAvg("planned", 2, clip=CLIP),
        fl.DPScaffold("planned", 2, clip=CLIP),
    ],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.filterwarnings("ignore::fastldp.errors.HorizonWarning")
def test_planned_steps_follow_the_threshold(method: Any, repetitions: int) -> None:
    case = cases.make("box_l1" if method.proximal else "zero", sizes=(12, 12, 12))
    schedule = method.schedule(case.problem, BUDGET, ROUNDS)
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "repetitions": repetitions, "seed": 5}
    run = fl.solve(case.problem, BUDGET, common_noise=True, record=fl.Every(1), **given)
    clip = oracle_of(case, method, run, repetitions - 1)
    clip.steps = schedule.adapting.knots, schedule.adapting.paces
    expected = expected_of(case, replace(method, step=schedule.step, prior=None), run, clip, repetitions - 1)
    np.testing.assert_allclose(run.means[-1], expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
    paces = [clip.pace(t) for t in range(1, ROUNDS + 1)]
    assert len({*paces, 1.0}) > 2


@cases.tiny_shards
@pytest.mark.parametrize("name", ["primal_dual", "scaffold", "fedexp"])
def test_bits_depend_on_nothing_but_the_seed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Company, threads and segments."""
    problem, method = cases.make("zero", sizes=(5, 14, 1, 9)).problem, METHODS[name]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "seed": 5, "record": [fl.Every(2), fl.Messages(1)]}
    many = fl.solve(problem, BUDGET, repetitions=20, n_jobs=1, **given)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 1.0)  # a round each
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    few = fl.solve(problem, BUDGET, repetitions=3, n_jobs=2, **given)
    for what in ("means", "messages", "broadcasts", "thresholds", "counts", "early_counts"):
        np.testing.assert_array_equal(getattr(many, what)[:3], getattr(few, what))
    assert many.counts is not None
    counted = ~np.isnan(many.counts[0, :, 0])
    assert (np.flatnonzero(counted) + 1).tolist() == [2, 4, 6, 8]


SWEEP = """
rounds = [7, 12]
repetitions = 3
seed = 1
[data]
synthetic = "ijcnn1"
rows = 200
[problem]
workers = 4
l2 = 0.1
[budget]
epsilon = 1.0
delta = 1e-4
[[method]]
step = ["planned", 0.2]
allocation = "static"
clip = [{quantile = 0.7, every = 3, early = 5}, {quantile = 0.8, start = 0.1, every = 2, share = 0.2, early = 0}, 0.4]
[[method]]
name = "ISRLDP"
step = 0.3
clip = "adaptive"
rounds = 12
"""


@pytest.mark.filterwarnings("ignore::fastldp.errors.HorizonWarning")
def test_sweeps_stop_anywhere_and_go_on_with_the_same_bits(tmp_path: Path) -> None:
    """Runs of several settings share lanes; their thresholds and paces are part of what is kept of them."""
    files = {name: tmp_path / f"{name}.h5" for name in ("whole", "legs", "alone")}
    fl.sweep(SWEEP, files["whole"], progress=False)
    fl.sweep(SWEEP, files["legs"], progress=False, leg_seconds=1e-9)
    before, after = SWEEP.split("[[method]]\n")[0], SWEEP.split("[[method]]\n")[2]
    fl.sweep(f"{before}[[method]]\n{after}", files["alone"], progress=False)
    found = {
        name: {(str(run.parameters), run.repetition): run for run in fl.results(path)} for name, path in files.items()
    }
    assert len(found["whole"]) == 3 * (2 * 3 * 2 + 1)
    assert len(found["alone"]) == 3
    for others in (found["legs"], found["alone"]):
        for about, run in others.items():
            whole = found["whole"][about]
            np.testing.assert_array_equal(run.optimality, whole.optimality)
            np.testing.assert_array_equal(run.threshold, whole.threshold)
            chosen = run.parameters
            if chosen["clip"] == "adaptive":
                assert len({*run.threshold.tolist()}) > (chosen["clip_every"] is not None)
                assert run.ledger is not None
                assert run.ledger.count_rho == pytest.approx(chosen["clip_share"] * run.ledger.rho, rel=1e-6)
            else:
                assert np.isnan(run.threshold).all()
    assert "threshold" in fl.results(files["whole"]).where(clip="adaptive").measures


# The ledger


@cases.tiny_shards
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_ledgers_count_both_of_the_pair(name: str, accounting: str, tmp_path: Path) -> None:
    """ρ of gradients 2wC/m apart, in units of C, and of counts 1/M apart, from what was really used."""
    problem, method = cases.make("zero", sizes=(5, 14, 1, 9)).problem, METHODS[name]
    budget = fl.Budget(np.array([1.0, 2.0, 0.5, 1.0]), 1e-4, accounting)
    counts = {"scaffnew": 3, "isrl_tail": 4}.get(name, 7)
    run = fl.solve(problem, budget, rounds=ROUNDS, algorithm=method, record=[fl.Every(3), fl.Messages(0)])
    ledger = run.ledger
    assert ledger is not None
    shift = 2 / method.divisors(problem)
    of_gradients = np.array([shift[i] ** 2 * np.sum(1 / (2 * ledger.variances[i])) for i in range(4)])
    variances = ledger.count_factors[:, None] * ledger.count_variances
    of_counts = np.sum(1 / 29**2 / (2 * variances), axis=1)
    np.testing.assert_allclose(of_counts, 0.2 * budget.rho_of_workers(4), rtol=1e-5)
    np.testing.assert_allclose(of_gradients + of_counts, ledger.spent_rho, rtol=1e-9)
    assert np.all(ledger.spent_epsilon <= np.asarray(ledger.epsilon))
    seen = np.concatenate([run.early_counts, run.counts], axis=1)
    assert ledger.counts == np.count_nonzero(~np.isnan(seen[0, :, 0])) == counts
    assert ledger.releases == run.messages.shape[1]  # type: ignore[union-attr]
    assert f"{counts} a worker, sensitivity 0.0344828" in ledger.summary()
    run.save(tmp_path / "run.npz")
    again = fl.load(tmp_path / "run.npz")
    assert again.ledger is not None
    assert again.ledger.summary() == ledger.summary()
    np.testing.assert_array_equal(again.thresholds, run.thresholds)


def test_nothing_is_read_off_the_data() -> None:
    """Neither bound nor step: other data have the same noise, and the ledger says that nothing was read."""
    rng = np.random.default_rng(0)
    found = []
    for scale in (1.0, 50.0):
        A = scale * rng.standard_normal((200, 4))
        problem = fl.Problem(A, np.sign(A[:, 0]), workers=4, l2=0.1)
        for method in (fl.PrimalDual("planned", "planned", clip="adaptive"), fl.ISRLDP("planned", clip="adaptive")):
            schedule = method.schedule(problem, BUDGET, 500)
            assert schedule.ledger is not None
            assert schedule.ledger.read_off_data == ""
            assert "read off data   nothing" in schedule.ledger.summary()
            found.append((schedule.step, schedule.deviations.tolist(), schedule.adapting.paces.tolist()))  # type: ignore[union-attr]
    assert found[:2] == found[2:]


def test_an_outlier_costs_neither_privacy_nor_accuracy() -> None:
    """A row of norm 10⁶, whose gradient would drown all others: clipping holds it, and the noise does not know it."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((2000, 6)) / 2
    b = np.where(A @ rng.standard_normal(6) > 0, 1.0, -1.0)
    far = A.copy()
    far[7] *= 1e6 / np.linalg.norm(far[7])
    budget, method = fl.Budget(2.0, 1e-4), fl.PrimalDual("planned", "static", clip="adaptive")
    errors = []
    x_star = fl.Problem(A, b, workers=10, l2=0.1).optimum()
    for rows in (A, far):
        problem = fl.Problem(rows, b, workers=10, l2=0.1)
        run = fl.solve(problem, budget, rounds=600, algorithm=method, repetitions=8, seed=3, common_noise=True)
        assert run.ledger is not None
        assert run.ledger.spent_epsilon <= 2.0
        errors.append(float(np.mean(np.sum((run.x - x_star) ** 2, axis=1)) / (x_star @ x_star)))
    assert errors[1] < 1.2 * errors[0] < 0.5


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_budget_is_overspent(settings: int) -> None:
    """At random settings, ρ from what was really used, by a formula of its own."""
    rng = np.random.default_rng(5)
    for _ in range(settings):
        sizes = rng.integers(1, 60, rng.integers(1, 6))
        A = np.ones((sizes.sum(), 2))
        weighting = str(rng.choice(["uniform", "rows"]))
        problem = fl.Problem(A, np.ones(len(A)), workers=np.repeat(np.arange(sizes.size), sizes), weighting=weighting)
        clip = fl.AdaptiveClip(
            quantile=rng.uniform(0.01, 0.99),
            start=10 ** rng.uniform(-5, 5),
            every=int(rng.integers(1, 8)),
            share=float(rng.choice([1e-6, 0.05, 0.5, 1 - 1e-9])),
            early=int(rng.integers(0, 50)),
        )
        rounds = int(rng.integers((clip.every or 0) + 1, 60))
        epsilon, delta = 10 ** rng.uniform(-2, 1.5, sizes.size), 10 ** rng.uniform(-9, -2)
        budget = fl.Budget(epsilon, delta, str(rng.choice(["zcdp", "gdp"])))
        methods: list[Any] = [
            fl.PrimalDual(0.1, str(rng.choice(["static", "dynamic"])), clip=clip),
            fl.DPScaffold(0.1, int(rng.integers(1, 4)), clip=clip, warm_start=True),
            fl.ISRLDP(0.1, clip=clip),
        ]
        method = methods[rng.integers(3)]
        schedule = method.schedule(problem, budget, rounds)
        # What the kernels are given, not what the ledger says.
        sigma = schedule.deviations * np.ones(rounds)
        each = np.repeat(sigma, schedule.program.local_steps)
        early = np.full(schedule.program.early_releases, sigma[0])
        of_releases = np.sum(1 / np.concatenate([early, each]) ** 2)
        adapting = schedule.adapting
        counted = np.concatenate([adapting.early_deviations, adapting.deviations[adapting.gains > 0]])
        counts = np.sum(1 / counted**2)
        M, promised = sizes.sum(), budget.rho_of_workers(sizes.size)
        for i in range(sizes.size):
            spent = (2 / method.divisors(problem)[i]) ** 2 / schedule.factors[i] ** 2 * of_releases / 2
            spent += 1 / M**2 / adapting.factors[i] ** 2 * counts / 2
            assert 0.99 * promised[i] < spent <= promised[i], (method, i)


def rows_of(scale: float = 1.0, **given: Any) -> fl.Problem:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 4))
    return fl.Problem(scale * A, np.where(A[:, 0] > 0, 1.0, -1.0), workers=4, l2=0.1, **given)


@pytest.mark.parametrize("scale", [1e-3, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_where_it_starts_is_public(scale: float, loss: str) -> None:
    """A bound that was read off the data does not hold it."""
    problem = rows_of(scale, loss=loss, regularizer=fl.Box(1.0))
    method = fl.ISRLDP(0.1, clip=fl.AdaptiveClip(every=1, early=0))
    assert method.schedule(problem, BUDGET, 5).program.enforced(problem) == 1.0


@pytest.mark.parametrize("share", [0.05, 0.5, 1 - 1e-6])
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_the_sampler_is_paid_for_by_counts_too(share: float, accounting: str) -> None:
    clip = fl.AdaptiveClip(share=share, early=1)
    for method in (fl.PrimalDual(0.1, "static", clip=clip), fl.ISRLDP(0.1, clip=clip)):
        ledger = method.schedule(rows_of(), fl.Budget(1.0, 1e-4, accounting), 50).ledger
        assert ledger is not None
        assert ledger.total_epsilon <= 1.0
        assert ledger.total_delta <= 1e-4


@pytest.mark.filterwarnings("ignore")
def test_early_counts_are_made_at_the_start() -> None:
    problem, x0 = rows_of(), np.array([9.0, 0, 0, 0])
    method = fl.ISRLDP(0.1, clip=fl.AdaptiveClip(start=0.3, early=1))
    run = fl.solve(problem, None, rounds=3, x0=x0, algorithm=method, record=[fl.Final(), fl.Messages(0)])
    # Rows are times −b.
    norms = np.linalg.norm(problem.rows, axis=1) / (1 + np.exp(-problem.rows @ x0))
    assert run.early_counts is not None
    assert run.early_counts[0, 0].sum() == pytest.approx(np.mean(norms < 0.3), abs=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_plans_have_what_counts_leave() -> None:
    problem = rows_of()
    half = fl.Budget(float(fl.privacy.epsilon_of(0.5 * float(BUDGET.rho), 1e-4, "zcdp")), 1e-4)
    for kind in (fl.ISRLDP, fl.PrimalDual):
        steps, rounds = [], []
        for share, budget in ((0.5, BUDGET), (1e-9, half)):
            method: Any = kind("planned", clip=fl.AdaptiveClip(share=share, factor=1.0))
            steps.append(method.schedule(problem, budget, 500).step)
            rounds.append(method.planned_rounds(problem, budget))
        assert steps[0] == pytest.approx(steps[1], rel=1e-3)
        assert rounds[0] == pytest.approx(rounds[1], rel=0.01)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 100.0])
def test_the_factor_is_the_documented_one(epsilon: float) -> None:
    budget = fl.Budget(epsilon, 1e-4)
    clarity = 0.95 * budget.rho * 4 * 50**2 / (2 * 4)
    schedule = fl.PrimalDual("planned", "planned", clip="adaptive").schedule(rows_of(), budget, 100)
    assert schedule.adapting is not None
    assert schedule.adapting.factor == pytest.approx(np.clip((clarity / 800) ** 0.25, 0.1, 2.0), rel=1e-6)


def documented_prior(facts: fl.Facts) -> fl.Prior:
    far, held = 0.11 * facts.dimension ** (1 / 3) * (facts.bend / facts.l2) ** 0.25, 0.3 * facts.bend / facts.l2
    return fl.Prior(norm=1 / (1 / far + 1 / held) / np.sqrt(facts.bend))


@pytest.mark.filterwarnings("ignore")
def test_the_step_is_planned_for_gradients_of_the_length_that_was_found() -> None:
    """C is a multiple of their median, and the plan knows which."""
    problem, factor, C = rows_of(), 0.5, 0.25
    clip = fl.AdaptiveClip(share=1e-9, factor=factor)
    adapting = fl.PrimalDual("planned", "planned", clip=clip).schedule(problem, BUDGET, 3000)
    assert adapting.adapting is not None
    # Gradients of the logistic loss at zero are half of the rows.
    facts = fl.Facts([50] * 4, 4, C, 0.1, radius=2 * C / factor)
    made = fl.plan(facts, BUDGET, rounds=3000, prior=documented_prior(facts))
    at = np.array([C])
    assert adapting.step * adapting.adapting.pace(at)[0] == pytest.approx(made.step, rel=0.05)
    assert adapting.adapting.expected(at)[0] == pytest.approx(made.relative_error, rel=0.05)


def test_a_public_bound_limits_what_was_found_and_multiplied() -> None:
    """Not what is counted before it is: a bound below the median would be multiplied too."""
    method = fl.ISRLDP(0.1, clip=fl.AdaptiveClip(factor=0.5, rate=3.0))
    problem = rows_of()
    median = float(np.median(problem.row_norms)) / 2
    run = fl.solve(problem.replace(gradient_bound=0.5 * median), None, rounds=5, algorithm=method)
    assert run.thresholds is not None
    assert run.thresholds[0, -1] == pytest.approx(0.5 * median, rel=0.05)
    assert run.thresholds[0, -1] <= 0.5 * median


def test_what_was_found_is_shown() -> None:
    method = fl.PrimalDual("planned", "planned", clip="adaptive")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HorizonWarning)
        run = fl.solve(rows_of(), fl.Budget(5.0, 1e-4), rounds=500, algorithm=method, repetitions=3, seed=0)
    assert run.thresholds is not None
    assert run.steps is not None
    low, middle, high = np.sort(run.thresholds[:, -1])
    assert f"C = {middle:.3g}, from {low:.3g} to {high:.3g}" in run.summary()
    # Steps follow thresholds: the longer gradients are, the shorter steps.
    assert (np.argsort(run.steps) == np.argsort(-run.thresholds[:, -1])).all() or np.ptp(run.steps) == 0
    assert "by the plan's prior" in run.summary()


# What may be wrong with it


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"quantile": 0.0}, "quantile"),
        ({"quantile": 1.0}, "quantile"),
        ({"quantile": np.nan}, "quantile"),
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "share"),
        ({"start": 0.0}, "start"),
        ({"start": -1.0}, "start"),
        ({"start": np.inf}, "start"),
        ({"every": 0}, "every"),
        ({"early": -1}, "early"),
        ({"early": 0}, "early"),
        ({"factor": 0.0}, "factor"),
        ({"factor": 0.5, "early": 0, "every": 1}, "factor"),
        ({"every": 2.5}, "every"),
        ({"rate": 0.0}, "rate"),
        ({"rate": "fast"}, "rate"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        fl.AdaptiveClip(**given)


@pytest.mark.parametrize("method", [fl.PrimalDual(0.1, clip=CLIP), fl.ISRLDP(0.1, clip=CLIP)])
@pytest.mark.parametrize("budget", [BUDGET, None])
def test_fewer_rounds_than_one_count(method: Method, budget: fl.Budget | None) -> None:
    with pytest.raises(ArgumentError, match=r"rounds = 2.*every = 2"):
        fl.solve(cases.make().problem, budget, rounds=2, algorithm=method)


def test_other_words_than_adaptive_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r'clip = .adapt.*"adaptive"'):
        fl.ISRLDP(0.1, clip="adapt")
    assert fl.ISRLDP(0.1, clip="adaptive").clip == fl.AdaptiveClip()


@pytest.mark.filterwarnings("ignore::fastldp.errors.OptimumWarning", "ignore::fastldp.errors.DeltaWarning")
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_thresholds_keep_to_their_limits(scale: float) -> None:
    """They stay within a factor of 10⁶ of their start, whatever the data, and that is said."""
    rng = np.random.default_rng(0)
    A = scale * rng.standard_normal((300, 3))
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=3, l2=0.1)
    method = fl.ISRLDP(1e-20, clip=fl.AdaptiveClip(every=1, rate=1000.0, share=0.5))
    with pytest.warns(ClippingWarning, match=re.escape(f"its limit, {1e-6 if scale < 1 else 1e6:g}, in 4 of 4")):
        run = fl.solve(problem, fl.Budget(50.0, 1e-2), rounds=30, algorithm=method, repetitions=4, seed=1)
    assert run.thresholds is not None
    assert 1e-6 <= run.thresholds.min() <= run.thresholds.max() <= 1e6


def test_a_public_bound_is_never_exceeded() -> None:
    """A bound of the problem's holds the threshold too."""
    problem = cases.make("zero", gradient_bound=0.05).problem
    run = fl.solve(problem, BUDGET, rounds=30, algorithm=fl.ISRLDP(0.1, clip=CLIP), seed=1, repetitions=3)
    assert run.thresholds is not None
    assert run.thresholds.max() <= 0.05


# The audit, and one call with nothing to tune


@pytest.mark.parametrize(
    "method",
    [
        fl.PrimalDual(0.2, "static", clip=fl.AdaptiveClip(0.6, 0.4, every=1, share=0.3, rate=0.7, early=2)),
        fl.PrimalDual("planned", "planned", clip=fl.AdaptiveClip(0.6, 0.4, share=0.3, early=3)),
        fl.DPScaffold(0.2, 2, clip=fl.AdaptiveClip(0.6, 0.4, every=1, share=0.3, rate=0.7, early=2), warm_start=True),
    ],
    ids=["PrimalDual", "planned", "DPScaffold"],
)
def test_the_audit_attacks_gradient_and_count(method: Method) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((24, 3)) / 2
    problem = fl.Problem(A, np.where(A[:, 0] > 0, 1.0, -1.0), workers=2, l2=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HorizonWarning)
        found = fl.audit(problem, fl.Budget(4.0, 1e-3), rounds=3, algorithm=method, transcripts=1500, seed=2)
    assert found.passed, found.findings
    # The pair is nearly the worst: one that is counted in one input and not in the other, with opposite gradients.
    assert 0.85 * found.ledger_power < found.power <= found.ledger_power
    assert any("variance of a count" in line for line in found.unseen)


def test_one_call_with_nothing_to_tune() -> None:
    """Rounds, step, allocation and clipping are planned from public numbers, and the paper's method stays as it is."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 5))
    problem = fl.Problem(A, np.where(A @ rng.standard_normal(5) > 0, 1.0, -1.0), workers=10, l2=0.1)
    budget = fl.Budget(1.0, 1e-5, accounting="gdp")
    run = fl.solve(problem, budget, seed=1, repetitions=4)
    assert run.ledger is not None
    assert run.ledger.read_off_data == ""
    assert run.ledger.spent_epsilon <= 1.0
    assert 100 <= run.rounds[-1] <= 20_000
    assert float(run.optimality[:, -1].mean()) < 0.3
    plain = fl.solve(problem, budget, rounds=50, seed=1, record=fl.Final())
    assert plain.thresholds is None
    assert plain.ledger is not None
    assert "PrimalDual(step=None, allocation='dynamic'" in plain.description


@pytest.mark.parametrize(
    ("budget", "given", "said"),
    [
        (None, {}, "without noise give a number"),
        (BUDGET, {"rounds": "many"}, 'or "planned"'),
        (BUDGET, {"algorithm": fl.ISRLDP(0.1)}, r'ISRLDP\(step="planned"\)'),
        (BUDGET, {"algorithm": fl.LDPFedEXP(0.1, 2)}, "nothing plans this method"),
    ],
)
def test_rounds_that_cannot_be_planned(budget: fl.Budget | None, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        fl.solve(cases.make().problem, budget, **given)


def test_counts_that_cannot_carry_it_are_said() -> None:
    problem = rows_of(1e4)
    with pytest.warns(ClippingWarning, match="still on its way in"):
        fl.solve(problem, BUDGET, rounds=20, algorithm=fl.ISRLDP(0.1, clip="adaptive"), repetitions=4, seed=0)


def test_the_remedy_for_own_variances_leaves_room_for_counts() -> None:
    variances = np.full(5, 1e-6)
    for _ in range(2):
        method = fl.PrimalDual(0.1, variances, clip="adaptive")
        try:
            method.schedule(rows_of(), BUDGET, 5)
            break
        except BudgetError as error:
            found = re.search(r"multiply them by ([0-9.e+]+) or more", str(error))
            assert found is not None
            variances = variances * float(found[1])
    else:
        pytest.fail("the remedy was refused")


@pytest.mark.parametrize(
    ("clip", "bound"),
    [(fl.AdaptiveClip(start=1e-140), None), (fl.AdaptiveClip(factor=1e140), None), ("adaptive", 1e-130)],
)
def test_what_cannot_be_planned_is_said_of_clip(clip: Any, bound: float | None) -> None:
    problem = rows_of().replace(gradient_bound=bound)
    with pytest.raises(ArgumentError, match="^clip = "):
        fl.PrimalDual("planned", "planned", clip=clip).schedule(problem, BUDGET, 50)


def test_counts_with_noise_that_overflows_are_refused() -> None:
    problem = rows_of(dtype="float32")
    with pytest.raises(BudgetError, match="^share = "):
        fl.ISRLDP(0.1, clip=fl.AdaptiveClip(share=1e-100)).schedule(problem, BUDGET, 50)


@pytest.mark.filterwarnings("ignore")
def test_a_budget_that_promises_next_to_nothing_has_a_ledger() -> None:
    schedule = fl.PrimalDual("planned", "planned", clip="adaptive").schedule(rows_of(), fl.Budget(1e6, 1e-4), 2000)
    assert schedule.ledger is not None
    assert 0 <= schedule.ledger.total_delta <= 1
