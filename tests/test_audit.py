"""The audit: it agrees with a sound mechanism, shows no more than is there, and finds every fault put in."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cases
import fastldp as fl
import naive
from fastldp import figures, noise
from fastldp.auditing import evidence, independence, pair
from fastldp.auditing.adversary import Transcripts, look
from fastldp.auditing.independence import closest
from fastldp.auditing.queries import query
from fastldp.auditing.watching import Watch, Watched
from fastldp.errors import ArgumentError, BudgetError
from fastldp.kernels.chacha import key_of
from fastldp.methods import schedule
from fastldp.privacy import Sensitivity, epsilon_of
from fastldp.problems.linear import Problem
from mutants import small, small_network

BUDGET = fl.Budget(2.0, 1e-3)


METHODS = {
    "dynamic": (small(), fl.PrimalDual()),
    "static": (small(), fl.PrimalDual(allocation="static")),
    "given": (small(), fl.PrimalDual(allocation=np.array([8.0, 3.0, 6.0, 5.0]))),
    "unequal": (small(workers=np.array([0, 1, 1, 1, 1, 2])), fl.PrimalDual(step=0.1)),
    "l2_ball": (small(regularizer=fl.L2Ball(0.25)), fl.PrimalDual()),
    "squared": (small(loss="squared", regularizer=fl.Zero()), fl.PrimalDual(step=0.2)),
}


@pytest.mark.parametrize(
    "name",
    ["dynamic", *(pytest.param(name, marks=pytest.mark.thorough) for name in sorted(METHODS) if name != "dynamic")],
)
def test_a_sound_mechanism_passes(name: str) -> None:
    problem, method = METHODS[name]
    found = fl.audit(problem, BUDGET, rounds=4, algorithm=method, worker=1, transcripts=20_000, seed=1)
    assert found.passed, found.summary()
    # The worst pair is the worst: each release differs by the whole sensitivity, so the ledger's power is reached.
    ledger = method.schedule(problem, BUDGET, 4).ledger
    assert ledger is not None
    assert found.ledger_power == pytest.approx(2 * np.broadcast_to(ledger.spent_rho, problem.n)[1])
    assert found.power == pytest.approx(found.ledger_power, rel=1e-9)
    # And the loss is that of the Gaussian composition, to the standard errors of 40,000 transcripts.
    for (measured, predicted), spread in ((found.loss_mean, 1.0), (found.loss_variance, math.sqrt(2 * found.power))):
        assert measured == pytest.approx(predicted, abs=4 * spread * math.sqrt(found.power / 40_000))
    assert found.loss_mean[1] == pytest.approx(found.power / 2, rel=1e-9)
    assert 0.2 * found.exact_epsilon < found.shown_epsilon < found.exact_epsilon < found.epsilon
    assert found.exact_epsilon == pytest.approx(epsilon_of(found.power / 2, 1e-3, "gdp"))


@pytest.mark.thorough
@cases.tiny_shards
def test_sparse_data_and_budgets_of_each_worker() -> None:
    case = cases.make("box", layout="csr", sizes=(4, 6), gradient_bound=1.0)
    budget = fl.Budget(np.array([1.0, 3.0]), 1e-3)
    for worker, epsilon in ((0, 1.0), (1, 3.0)):
        found = fl.audit(case.problem, budget, rounds=3, worker=worker, transcripts=8000)
        assert found.passed, found.summary()
        assert found.epsilon == epsilon


def test_the_adversary_finds_the_noise_that_was_added() -> None:
    """Reading the messages backwards gives the oracle's normals, up to the dither and the rounding to the grid."""
    case = cases.make("l1_ball", sizes=(5, 7, 4))
    run = fl.solve(case.problem, BUDGET, rounds=6, repetitions=3, seed=9, common_noise=True, record=fl.Messages(2))
    assert run.ledger is not None
    assert run.messages is not None
    assert run.broadcasts is not None
    schedule = fl.PrimalDual().schedule(case.problem, BUDGET, 6)
    seen = look(case.problem, case.problem, 2, schedule, np.zeros(9), Transcripts(run.messages, run.broadcasts))
    np.testing.assert_array_equal(seen.loss, 0.0)
    steps = np.broadcast_to(run.ledger.grids / np.sqrt(run.ledger.variances), (3, 6))[2]
    for repetition in range(3):
        for t in range(6):
            normals, dithers = naive.draws(9, repetition, 2, t + 1, 9)
            expected = normals + dithers * steps[t]
            np.testing.assert_allclose(seen.noise[repetition, t], expected, atol=0.51 * steps[t])


@pytest.mark.thorough
def test_a_pair_of_the_callers_own() -> None:
    problem = small()
    A = problem.rows.copy()
    A[4] = [0.0, 0.5]
    neighbour = Problem(A, -np.ones(6), workers=2, l2=1.0, regularizer=fl.Box(0.25), gradient_bound=1.0)
    found = fl.audit(problem, BUDGET, rounds=4, neighbour=neighbour, transcripts=20_000)
    assert found.passed, found.summary()
    assert "worker 1" in found.description
    # Easier neighbours spend less than the ledger allows for.
    assert 0 < found.power < 0.5 * found.ledger_power


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"l2": 0.5}, "l2 differs"),
        ({"regularizer": fl.Box(0.2)}, "regularizer differs"),
        ({"workers": 3}, "other sizes"),
        ({"gradient_bound": 2.0}, "the same gradient_bound="),
    ],
)
def test_pairs_that_are_not_adjacent(change: dict[str, Any], why: str) -> None:
    A = small().rows.copy()
    A[4] = [0.0, 0.5]
    given: dict[str, Any] = {"workers": 2, "l2": 1.0, "regularizer": fl.Box(0.25), "gradient_bound": 1.0}
    with pytest.raises(ArgumentError, match=why):
        fl.audit(small(), BUDGET, rounds=4, neighbour=Problem(A, -np.ones(6), **(given | change)))


@pytest.mark.parametrize("rows", [[], [1, 4]])
def test_pairs_that_differ_in_none_or_two(rows: list[int]) -> None:
    A = small().rows.copy()
    A[rows] = 0.25
    neighbour = Problem(A, -np.ones(6), workers=2, l2=1.0, regularizer=fl.Box(0.25), gradient_bound=1.0)
    with pytest.raises(ArgumentError, match=f"differs in {len(rows)} samples"):
        fl.audit(small(), BUDGET, rounds=4, neighbour=neighbour)


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="at least 1,024"):
        fl.audit(small(), fl.Budget(1.0, 1e-4), rounds=4, transcripts=20)
    with pytest.raises(ArgumentError, match="a billion would not show"):
        fl.audit(small(), fl.Budget(1e-5, 1e-4), rounds=4)
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        fl.audit(small(), BUDGET, rounds=4, worker=2)
    with pytest.raises(ArgumentError, match="float32"):
        fl.audit(small(dtype="float32"), BUDGET, rounds=4)
    with pytest.raises(ArgumentError, match="nothing to audit"):
        fl.audit(small(), None, rounds=4)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="algorithm"):
        fl.audit(small(), BUDGET, rounds=4, algorithm="dynamic")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="rounds"):
        fl.audit(small(), BUDGET, rounds=10**12)
    with pytest.raises(ArgumentError, match="n_jobs"):
        fl.audit(small(), BUDGET, rounds=4, n_jobs=0)
    with pytest.raises(ArgumentError, match="differ in a sample of worker 1"):
        fl.audit(
            pair.worst(small(), 1, 1.0).problem,
            BUDGET,
            rounds=4,
            neighbour=pair.worst(small(), 1, 1.0).neighbour,
            worker=0,
        )
    with pytest.raises(ArgumentError, match="confidence"):
        fl.audit(small(), BUDGET, rounds=4, confidence=1.0)
    with pytest.raises(BudgetError, match="one for each of the 2 workers"):
        fl.audit(small(), fl.Budget(np.array([1.0, 2.0, 3.0]), 1e-3), rounds=4)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(BudgetError, match="epsilon"):
            fl.audit(small(), fl.Budget(bad, 1e-3), rounds=4)


def test_fewest_transcripts_that_show_something() -> None:
    """What the error asks for is enough, and half of it is not."""
    power = 2 * fl.Budget(1.0, 1e-4).rho_of_workers(1)[0]
    needed = evidence.transcripts_needed(power, 1e-4, 0.95)
    assert needed is not None
    assert evidence.epsilon_expected(power, needed, 1e-4, 0.95) > 0
    assert evidence.epsilon_expected(power, needed // 2, 1e-4, 0.95) == 0


def test_clopper_pearson() -> None:
    """The limits are where the binomial tails are half of the error each."""
    hits, false, trials, others = np.array([300]), np.array([40]), 1000, 2000
    shown = evidence.epsilon_shown(hits, false, trials, others, 1e-3, 0.9)[0]
    p = stats.binomtest(300, 1000).proportion_ci(0.9, "exact").low
    q = stats.binomtest(40, 2000).proportion_ci(0.9, "exact").high
    assert shown == pytest.approx(math.log((p - 1e-3) / q), rel=1e-9)
    # Nothing seen shows nothing; everything seen cannot be divided by zero.
    for hits, false in ((np.array([0]), np.array([0])), (np.array([10]), np.array([2000]))):
        assert evidence.epsilon_shown(hits, false, trials, others, 1e-3, 0.9)[0] == 0.0


@pytest.mark.thorough
def test_what_is_shown_is_there_in_95_of_100() -> None:
    """Losses drawn from the Gaussians themselves, 400 audits: the bound may exceed the truth in one of twenty."""
    rng = np.random.default_rng(0)
    power, delta = 0.3, 1e-3
    truth = epsilon_of(power / 2, delta, "gdp")
    exceeded, shown = 0, []
    for _ in range(400):
        thresholds = evidence.Thresholds(power)
        for world, sign in ((0, 1), (1, -1)):
            thresholds.add(world, rng.normal(sign * power / 2, math.sqrt(power), 20_000))
        shown.append(thresholds.lower_bound(delta, 0.95))
        exceeded += shown[-1] > truth
    # Of a binomial of 400 and 1/20, 35 are exceeded once in two thousand times.
    assert exceeded < 35
    assert np.mean(shown) > 0.5 * truth


# Faults. Each is put into the package from here, and the audit must find it.


def findings(transcripts: int = 20_000, budget: fl.Budget = BUDGET) -> str:
    found = fl.audit(small(), budget, rounds=4, transcripts=transcripts, seed=2)
    assert not found.passed
    assert "WRONG" in found.summary()
    assert str(found).startswith("THE LEDGER IS WRONG\n")
    assert found.findings[0] in str(found)
    return "; ".join(found.findings)


def with_noise(monkeypatch: pytest.MonkeyPatch, changed: Callable[[Any], Any]) -> None:
    """Runs have other deviations than their ledgers say."""
    right = fl.PrimalDual.schedule

    def made(self: fl.PrimalDual, *given: Any) -> schedule.Schedule:
        whole = right(self, *given)
        return replace(whole, deviations=changed(whole.deviations))

    monkeypatch.setattr(fl.PrimalDual, "schedule", made)


def test_noise_ten_percent_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with_noise(monkeypatch, lambda deviations: 0.9 * deviations)
    found = findings()
    assert "of the claimed variance" in found
    assert "the variance of the loss" in found


@pytest.mark.thorough
def test_variances_shifted_by_a_round_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with_noise(monkeypatch, lambda deviations: np.roll(deviations, 1))
    assert "of the claimed variance" in findings()


@pytest.mark.thorough
def test_half_the_sensitivity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """C where 2C is right: the noise is as the ledger says, but the ledger is wrong."""
    right = schedule.released

    def halved(*about: Any) -> Sensitivity:
        whole = right(*about)
        return Sensitivity(whole.query / 2, whole.arithmetic)

    monkeypatch.setattr(schedule, "released", halved)
    # Of exact accounting: a third more than is claimed is what to expect the transcripts to show.
    found = findings(transcripts=50_000, budget=fl.Budget(2.0, 1e-3, "gdp"))
    assert "more than the sensitivity in the ledger" in found
    # So wrong that the transcripts themselves show more than is claimed.
    assert "the transcripts show ε" in found


def test_a_seed_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "key_of", lambda seed, repetition, run: key_of(0, repetition))
    found = findings(2000)
    assert "between the two inputs" in found
    assert "between seeds" in found


@pytest.mark.thorough
def test_noise_that_cannot_be_read_out_is_no_finding() -> None:
    """So many rounds of so strong a contraction that early noise drowns the late: an error, not a verdict."""
    with pytest.raises(ArgumentError, match="audit fewer rounds"):
        fl.audit(small(), BUDGET, rounds=1500, transcripts=256)
    found = fl.audit(small(), BUDGET, rounds=1500, transcripts=256, algorithm=fl.PrimalDual(allocation="static"))
    assert found.passed, found.summary()


def test_a_pair_too_alike_to_show_anything() -> None:
    problem = small()
    A = problem.rows.copy()
    A[4] *= 1 + 1e-6
    neighbour = Problem(A, -np.ones(6), workers=2, l2=1.0, regularizer=fl.Box(0.25), gradient_bound=1.0)
    found = fl.audit(problem, BUDGET, rounds=4, neighbour=neighbour, transcripts=2000)
    assert found.passed
    assert found.shown_epsilon == 0
    assert "needs more transcripts" in found.summary()


def test_an_audit_is_short_at_a_prompt_and_printed() -> None:
    found = fl.audit(small(), BUDGET, rounds=4, transcripts=4000)
    assert repr(found).startswith("Audit(nothing contradicts the ledger: ε = ")
    assert len(repr(found)) < 150
    assert str(found).startswith("nothing contradicts the ledger\n")
    assert len(str(found).splitlines()) == 6


def test_picture_and_plain_values(tmp_path: Path) -> None:
    found = fl.audit(small(), BUDGET, rounds=4, transcripts=4000)
    axes = found.plot()
    figures.save(axes, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    plain = found.to_dict()
    assert plain["passed"] is True
    assert np.sum(plain["counts"]) == pytest.approx(8000, abs=4)
    assert fl.privacy.audit is fl.audit


def test_worst_pair_is_one_sample_apart() -> None:
    for problem in (small(), cases.make("box", layout="csr", gradient_bound=1.0).problem):
        inputs = pair.worst(problem, 1, problem.gradient_bound)
        assert pair.given(inputs.problem, inputs.neighbour).worker == 1
        assert inputs.problem.gradient_bound == inputs.neighbour.gradient_bound == problem.gradient_bound


def test_the_worst_pair_keeps_to_a_public_row_bound() -> None:
    """Its rows are scaled like any others, and the default step is that of the problem."""
    problem = small(row_bound=2.0, gradient_bound="half")
    inputs = pair.worst(problem, 0, problem.gradient_bound)
    for one in (inputs.problem, inputs.neighbour):
        assert isinstance(one, Problem)
        assert one.row_bound == 2.0
        assert one.safe_step == problem.safe_step
        assert one.rows[0] @ one.rows[0] == pytest.approx(4.0)
    found = fl.audit(problem, BUDGET, rounds=3, transcripts=2000)
    assert found.passed, found.summary()
    assert 0.7 < found.power / found.ledger_power < 1


# Independence: all pairs


@pytest.mark.parametrize("numbers", [3, 16, 200])
def test_unrelated_noise_is_as_rarely_alike_as_is_said(numbers: int) -> None:
    """Noise of a sound mechanism, 400 times: of all comparisons a tenth may be below 1/10, and nearly as many are."""
    rng = np.random.default_rng(numbers)
    for change in (np.asarray, independence.sizes):
        rare = 0
        for _ in range(400):
            rows = change(rng.standard_normal((30, numbers)))
            rare += closest(rows, groups=np.arange(30) // 3).p < 0.1
        # Of a binomial of 400 and 1/10, 63 are exceeded once in ten thousand times.
        assert 10 < rare < 63


def test_noise_used_twice_is_found_in_any_pair() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 16))
    assert closest(rows).p > 1e-3
    rows[1700] = -rows[3] * (1 + 1e-9)
    found = closest(rows)
    assert (found.first, found.second, found.pairs) == (3, 1700, 2000 * 1999 // 2)
    assert found.p < 1e-30
    assert found.least(1e-6) < 1
    # Of other sizes only, where signs are drawn anew.
    rows[1700] = np.abs(rows[3]) * rng.choice([-1.0, 1.0], 16)
    found = closest(independence.sizes(rows))
    assert (found.first, found.second) == (3, 1700)


def test_transcripts_with_the_same_noise_are_found_however_far_apart() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((30_000, 2, 3))
    assert independence.repeated(noise) is None
    noise[29_000] = noise[17] + 1e-12
    assert independence.repeated(noise) == (17, 29_000)
    # Two numbers on a grid agree by chance, sooner or later.
    assert independence.repeated(np.zeros((30_000, 1, 2))) is None


def test_all_workers_are_compared_in_all_pairs() -> None:
    rng = np.random.default_rng(0)
    watched = Watched(Watch(list(range(40)), 8), 3, 4)
    noise = rng.standard_normal((40, 8, 3, 4))
    noise[37, :, 0] = noise[4, :, 2]
    noise[21] *= 0.3
    for worker in range(40):
        watched.add(worker, noise[worker], np.zeros(3), 0.0)
    found = watched.compared()[""]
    assert (watched.place(found.first), watched.place(found.second)) == ((4, 2), (37, 0))
    assert found.pairs == 40 * 39 // 2 * 9
    # Far below what each of some thirty checks may cry wolf with.
    assert max(found.p, watched.checks()[1].p) < evidence.FALSE_ALARM / 1000
    assert "worker 21" in watched.checks()[1].finding


def test_who_is_watched() -> None:
    def of(n: int, d: int, releases: int, transcripts: int = 2000) -> Watch:
        problem = Problem(np.ones((n, d)), np.ones(n), workers=n, gradient_bound=1.0)
        return Watch.of(problem, n // 2, releases, transcripts)

    assert of(2, 2, 4).workers == [0, 1]
    assert of(2, 2, 4).repetitions == 2000
    assert of(1000, 2, 5).workers == list(range(1000))
    # No time for all: as many as there is time for, the attacked one among them.
    some = of(20_000, 2, 5).workers
    assert 2 <= len(some) < 20_000
    assert 10_000 in some
    assert len(set(some)) == len(some)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", [12, pytest.param(400, marks=pytest.mark.long)])
def test_a_sound_mechanism_is_rarely_suspected(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With alarms as frequent as one audit in ten, no more audits fail than that, but for chance."""
    monkeypatch.setattr(evidence, "FALSE_ALARM", 0.1)
    alarms = 0
    for seed in range(seeds):
        found = fl.audit(small(workers=3), BUDGET, rounds=3, transcripts=1024, seed=seed)
        alarms += not found.passed
    # So many or more are seen once in ten thousand times.
    assert alarms < stats.binom.isf(1e-4, seeds, 0.1)


# What could not have been seen


def unseen(**given: Any) -> str:
    problem = small(**{name: given.pop(name) for name in ("workers",) if name in given})
    arguments: dict[str, Any] = {"rounds": 3, "transcripts": 2000} | given
    found = fl.audit(problem, BUDGET, **arguments)
    assert found.to_dict()["unseen"] == list(found.unseen)
    assert all(line in found.summary() for line in found.unseen)
    return "\n".join(found.unseen)


@pytest.mark.thorough
def test_the_report_says_what_could_not_have_been_seen() -> None:
    text = unseen()
    for words in ("variance: off by less than", "sensitivity: understated", "clipping: a bound", "dithers: constant"):
        assert words in text
    assert "between a release of one worker and one of another" in text
    assert "there is one release a round, and no warm start" in text
    alone = unseen(workers=1, rounds=1)
    assert "noise shared by workers: there is but one" in alone
    assert "noise shared by rounds: there is but one release" in alone
    own = unseen(algorithm=fl.PrimalDual(allocation=np.full(3, 1.6)))
    assert "noise shared by two horizons" in own


@pytest.mark.thorough
def test_a_fault_just_larger_than_what_is_unseen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variance of all releases, off by twice what the report says would not have been seen."""
    found = fl.audit(small(), BUDGET, rounds=3, transcripts=4000)
    line = next(line for line in found.unseen if line.startswith("variance: "))
    least = float(line.split()[-3].rstrip("%")) / 100
    assert 0.01 < least < 0.1
    with_noise(monkeypatch, lambda deviations: math.sqrt(1 + 2 * least) * deviations)
    assert "the noise of all releases" in "; ".join(fl.audit(small(), BUDGET, rounds=3, transcripts=4000).findings)


# Networks

NETWORK_BUDGET = fl.Budget(6.0, 1e-3)


@pytest.mark.parametrize("clip", [np.inf, 0.8, 1e-3])
def test_the_adversary_knows_the_gradients_of_networks(clip: float) -> None:
    problem = small_network(hidden=(4, 3), products="float64")
    rng = np.random.default_rng(1)
    x = np.stack([problem.start(), rng.standard_normal(problem.d)])
    for worker in range(3):
        images, labels = problem.shard(worker)
        reference = [naive.gradient((6, 4, 3, 3), images, labels.astype(float), point, clip) for point in x]
        means, inside = query(problem, worker, x, np.full(2, clip))
        np.testing.assert_allclose(means, np.array(reference), rtol=0, atol=1e-14)
        of_oracle = [naive.inside((6, 4, 3, 3), images, labels.astype(float), point, clip) for point in x]
        assert inside.tolist() == of_oracle


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        (fl.PrimalDual(step=0.5), {}),
        (fl.PrimalDual(step=0.5), {"hidden": ()}),
        (fl.DPFedAvg(0.2, 2), {"products": "float64"}),
        (fl.DPScaffold(0.2, 2, warm_start=True), {}),
        (fl.ISRLDP(0.2), {"regularizer": fl.Box(3.0)}),
    ],
)
def test_audits_of_networks_pass(method: Any, changes: dict[str, Any]) -> None:
    problem = small_network(**changes)
    found = fl.audit(problem, NETWORK_BUDGET, rounds=2, algorithm=method, worker=1, transcripts=300)
    assert found.passed, found.summary()
    # Of networks no pair is known to be the worst; this one comes close.
    assert 0.8 < found.power / found.ledger_power <= 1 + 1e-9
    assert found.shown_epsilon < found.exact_epsilon < found.epsilon


def test_pairs_of_networks() -> None:
    problem = small_network()
    for inputs in pair.candidates(problem, 2, 0.5):
        assert pair.given(inputs.problem, inputs.neighbour).worker == 2
        assert isinstance(inputs.problem, fl.MLP)
        np.testing.assert_array_equal(inputs.problem.start(), problem.start())
    with pytest.raises(ArgumentError, match="give a fastldp.MLP"):
        pair.given(problem, small())
    with pytest.raises(ArgumentError, match="start_seed differs"):
        pair.given(problem, problem.replace(start_seed=1))
