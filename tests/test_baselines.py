"""The baselines: noisy trajectories are the oracle's, methods agree where they should, ledgers count all releases."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
import naive
from fastldp.engine import driving
from fastldp.errors import ArgumentError
from fastldp.methods import Program, schedule
from fastldp.methods.base import MOST_LOCAL_STEPS
from fastldp.privacy import Sensitivity

BUDGET = fl.Budget(1.0, 1e-4)
Method = fl.DPFedAvg | fl.DPScaffold | fl.LDPFedEXP | fl.DPScaffNew | fl.ISRLDP
METHODS: dict[str, Method] = {
    "fedavg": fl.DPFedAvg(0.3, 3),
    "fedavg_clipped": fl.DPFedAvg(0.3, 3, clip=0.7, server_step=0.6),
    "scaffold": fl.DPScaffold(0.3, 3, clip=0.7, server_step=0.6),
    "scaffold_warm": fl.DPScaffold(0.2, 2, warm_start=True),
    "fedexp": fl.LDPFedEXP(0.3, 3),
    "fedexp_clipped": fl.LDPFedEXP(0.2, 1, clip=0.7),
    "scaffnew": fl.DPScaffNew(0.3, 0.3),
    "scaffnew_clipped": fl.DPScaffNew(0.3, 0.75, clip=0.7),
    "isrl": fl.ISRLDP(0.5),
    "isrl_clipped": fl.ISRLDP(0.5, clip=0.7),
    "isrl_tail": fl.ISRLDP(0.5, tail_average=3),
    "isrl_accelerated": fl.ISRLDP(0.5, accelerated=True),
}
SIZES = {"equal": (12, 12, 12), "unequal": (5, 14, 1, 9)}
ROUNDS = 7


def answers(
    case: cases.Case,
    method: Any,
    deviations: Any,
    seed: int,
    repetition: int,
    rounds: int,
    adaptive: naive.Adaptive | naive.Sampled | None = None,
) -> Any:
    """(rounds, d): the oracle's model after every round."""
    x0 = case.g.prox(np.zeros(case.problem.d), 0.0)
    clip: naive.Clip = adaptive or (np.inf if method.clip is None else method.clip)
    common, how = (deviations, rounds, seed, repetition), dict[str, Any](weighting=case.weighting)
    gridded = case.problem.dtype == "float64"
    assert not isinstance(method.step, str)
    if isinstance(method, fl.ISRLDP):
        given = case.shards, case.loss, case.l2, case.g, x0
        if method.accelerated:
            upsilon = 1 / (2 * method.step)
            return naive.isrl_accelerated(*given, upsilon, case.l2, *common, gridded, clip, **how).x[1:]
        x = naive.isrl(*given, method.step, *common, gridded, clip, **how).x
        tail = [x[: t + 2] for t in range(rounds)]
        begins = rounds - max(method.tail_average, 1)
        return np.array([naive.tail_mean(part, max(1, t + 1 - begins)) for t, part in enumerate(tail)])
    if isinstance(method, fl.DPScaffNew):
        given = case.shards, case.loss, case.l2, case.g, x0
        return naive.scaffnew(*given, method.step, method.probability, *common, gridded, clip, **how).x[1:]
    if isinstance(method, fl.LDPFedEXP):
        given_two = case.shards, case.loss, case.l2, x0, method.step, method.local_steps
        return naive.fedexp(*given_two, *common, gridded, clip, **how).x[1:]
    steps = method.step, method.local_steps, method.server_step
    given_local = case.shards, case.loss, case.l2, x0, *steps
    if isinstance(method, fl.DPFedAvg):
        return naive.fedavg(*given_local, *common, gridded, clip, **how).x[1:]
    return naive.scaffold(*given_local, *common, gridded, clip, method.warm_start, **how).x[1:]


def deviations_of(run: fl.Solution, n: int) -> Any:
    if run.ledger is None:
        return np.zeros(n)
    return np.sqrt(np.broadcast_to(run.ledger.variances, (n, run.ledger.releases))[:, 0])


@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 3, 20])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("sizes", sorted(SIZES))
@pytest.mark.parametrize("name", sorted(METHODS))
def test_trajectories_are_the_oracles(name: str, sizes: str, layout: str, repetitions: int) -> None:
    case, method = cases.make("zero", sizes=SIZES[sizes], layout=layout), METHODS[name]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "repetitions": repetitions, "seed": 5}
    given["common_noise"] = True  # as the oracle has it
    for budget in (BUDGET, None):
        run = fl.solve(case.problem, budget, record=fl.Every(1), **given)
        last = repetitions - 1
        expected = answers(case, method, deviations_of(run, case.problem.n), 5, last, ROUNDS)
        np.testing.assert_allclose(run.means[last], expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())
        # All workers hold the server's model.
        assert (run.consensus == 0).all()
        np.testing.assert_array_equal(run.workers[last], np.tile(run.means[last, -1], (case.problem.n, 1)))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["box", "l2_ball", "l1_ball", "simplex", "box_l1", "box_l1_vector"])
@pytest.mark.parametrize("method", ["isrl", "isrl_accelerated", "isrl_tail", "scaffnew"])
@pytest.mark.parametrize("repetitions", [1, 20])
def test_proximal_steps(name: str, method: str, repetitions: int) -> None:
    case = cases.make(name, loss="squared", gradient_bound=0.8)
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": METHODS[method], "seed": 5, "common_noise": True}
    for budget in (BUDGET, None):
        run = fl.solve(case.problem, budget, repetitions=repetitions, record=fl.Every(1), **given)
        clipped = replace(METHODS[method], clip=0.8)
        expected = answers(case, clipped, deviations_of(run, 3), 5, repetitions - 1, ROUNDS)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-10, atol=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["fedavg_clipped", "scaffold_warm", "fedexp", "isrl_tail", "scaffnew"])
def test_single_precision(name: str) -> None:
    case, method = cases.make("zero", dtype="float32"), METHODS[name]
    run = fl.solve(case.problem, BUDGET, rounds=ROUNDS, algorithm=method, repetitions=18, seed=5, common_noise=True)
    expected = answers(case, method, deviations_of(run, 3), 5, 17, ROUNDS)
    np.testing.assert_allclose(run.means[17], expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.thorough
@cases.tiny_shards
@pytest.mark.parametrize("name", sorted(METHODS))
def test_bits_depend_on_nothing_but_the_seed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Company, threads and segments; runs of other lengths and parameters in the same block."""
    problem, method = cases.make("zero", sizes=SIZES["unequal"]).problem, METHODS[name]
    kept = [fl.Every(2), fl.Messages(1)]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "seed": 5, "record": kept}
    many = fl.solve(problem, BUDGET, repetitions=20, n_jobs=1, **given)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 1.0)  # a round each
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    few = fl.solve(problem, BUDGET, repetitions=3, n_jobs=2, **given)
    for ours, theirs in ((many.means, few.means), (many.messages, few.messages), (many.broadcasts, few.broadcasts)):
        assert ours is not None
        assert theirs is not None
        np.testing.assert_array_equal(ours[:3], theirs)
    assert not np.isnan(many.means).any()
    assert many.messages is not None
    assert not np.isnan(many.messages).any()


@cases.tiny_shards
@pytest.mark.parametrize(
    ("name", "releases"),
    [
        ("fedavg", 3 * ROUNDS),
        ("scaffold", 3 * ROUNDS),
        ("scaffold_warm", 2 * ROUNDS + 2),
        ("fedexp", 3 * ROUNDS),
        ("scaffnew", ROUNDS),
        ("isrl", ROUNDS),
    ],
)
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_ledgers_count_every_release(name: str, releases: int, accounting: str) -> None:
    problem, method = cases.make("zero", sizes=SIZES["unequal"], gradient_bound=0.9).problem, METHODS[name]
    budget = fl.Budget(np.array([1.0, 2.0, 0.5, 1.0]), 1e-4, accounting)
    run = fl.solve(problem, budget, rounds=ROUNDS, algorithm=method, record=fl.Messages(0))
    assert run.ledger is not None
    assert run.messages is not None
    assert run.ledger.releases == run.messages.shape[1] == releases
    clip: Any = 0.9 if method.clip is None else method.clip
    np.testing.assert_allclose(run.ledger.affordable_rho, budget.rho_of_workers(4), rtol=1e-8)
    for i, (m, rho) in enumerate(zip(problem.sizes, run.ledger.affordable_rho, strict=True)):
        variance = naive.local_variance(releases, clip, rho, int(m))
        np.testing.assert_allclose(run.ledger.variances[i], np.full(releases, variance), rtol=1e-9)
    spent = np.atleast_1d(run.ledger.total_epsilon)
    assert (spent <= budget.epsilon).all()
    np.testing.assert_allclose(spent, budget.epsilon, rtol=1e-9)
    assert run.ledger.bound_source == "public"
    assert run.ledger.read_off_data == ""


def test_messages_are_the_releases() -> None:
    """Noisy gradients on their grid: the k-th local step's of round t, the warm start's first."""
    case = cases.make("zero")
    run = fl.solve(
        case.problem,
        BUDGET,
        rounds=3,
        algorithm=METHODS["scaffold_warm"],
        seed=5,
        common_noise=True,
        record=fl.Messages(1),
    )
    assert run.ledger is not None
    assert run.messages is not None
    halves = run.messages[0] / (run.ledger.grids[0] / 2)
    np.testing.assert_array_equal(halves % 2, 1.0)
    sigma = np.sqrt(run.ledger.variances[0])
    # Before the first round both are at the start: the same gradient, other noise.
    gradient = naive.gradient("logistic", *case.shards[1], np.zeros(9))
    for k in range(2):
        normals, _ = naive.draws(5, 0, 1, 0, 9, k)
        np.testing.assert_allclose(run.messages[0, k], gradient + sigma * normals, atol=0.04 * sigma)


def test_without_noise_and_with_one_local_step_all_are_gradient_descent() -> None:
    problem = cases.make("zero").problem
    step, x, expected = 0.4, np.zeros(9), []
    for _ in range(30):
        x = x - step * problem.gradient(x)
        expected.append(x)
    for method in (fl.DPFedAvg(step, 1), fl.ISRLDP(step), fl.DPScaffold(step, 1), fl.DPScaffNew(step, 1.0)):
        run = fl.solve(problem, rounds=30, algorithm=method, record=fl.Every(1))
        # Of SCAFFOLD too: the mean of the control variates' corrections is zero.
        np.testing.assert_allclose(run.means[0], expected, rtol=1e-11, atol=1e-13)


@pytest.mark.thorough
def test_scaffold_converges_where_fedavg_drifts() -> None:
    """Heterogeneous shards and ten local steps: control variates take the drift off."""
    problem = cases.make("zero", l2=0.2).problem
    drifting = fl.solve(problem, rounds=3000, algorithm=fl.DPFedAvg(0.2, 10), record=fl.Final())
    controlled = fl.solve(problem, rounds=3000, algorithm=fl.DPScaffold(0.2, 10), record=fl.Final())
    longer = fl.solve(problem, rounds=6000, algorithm=fl.DPFedAvg(0.2, 10), record=fl.Final())
    assert controlled.optimality[0, -1] < 1e-20
    assert drifting.optimality[0, -1] > 1e-4
    # It has stalled: twice the rounds bring it no nearer.
    assert longer.optimality[0, -1] == pytest.approx(drifting.optimality[0, -1], rel=1e-6)


@pytest.mark.thorough
def test_acceleration_is_faster() -> None:
    """On badly scaled features, where a plain step is slow."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 9)) * np.geomspace(1.0, 0.01, 9)
    problem = fl.Problem(A, A @ np.ones(9), workers=3, loss="squared", l2=1e-4)
    step = 1 / (problem.n * problem.smoothness)
    plain = fl.solve(problem, rounds=300, algorithm=fl.ISRLDP(step), record=fl.Final())
    accelerated = fl.solve(problem, rounds=300, algorithm=fl.ISRLDP(step / 2, accelerated=True), record=fl.Final())
    least = problem.objective(problem.optimum())
    assert accelerated.objective[0, -1] - least < 0.2 * (plain.objective[0, -1] - least)


def test_refusals() -> None:
    nonsmooth = cases.make("box_l1").problem
    for method in (fl.DPFedAvg(0.1, 2), fl.DPScaffold(0.1, 2), fl.LDPFedEXP(0.1, 2)):
        for problem in (nonsmooth, cases.make("l2_ball").problem):
            with pytest.raises(ArgumentError, match="no proximal step"):
                fl.solve(problem, BUDGET, rounds=3, algorithm=method)
    with pytest.raises(ArgumentError, match="only 3 rounds"):
        fl.solve(cases.make("zero").problem, rounds=3, algorithm=fl.ISRLDP(0.1, tail_average=4))
    with pytest.raises(ArgumentError, match="give an instance"):
        fl.solve(cases.make("zero").problem, rounds=3, algorithm="isrl")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: fl.DPFedAvg(0.0, 2), "step"),
        (lambda: fl.DPFedAvg(0.1, 0), "local_steps"),
        (lambda: fl.DPFedAvg(0.1, 2.5), "local_steps"),  # type: ignore[arg-type]
        (lambda: fl.DPFedAvg(0.1, 2, clip=-1.0), "clip"),
        (lambda: fl.DPFedAvg(0.1, 2, server_step=np.inf), "server_step"),
        (lambda: fl.DPScaffold(0.1, 2, warm_start=1), "warm_start"),  # type: ignore[arg-type]
        (lambda: fl.LDPFedEXP("planned", 2), "step"),  # type: ignore[arg-type]
        (lambda: fl.LDPFedEXP(0.1, 0), "local_steps"),
        (lambda: fl.LDPFedEXP(0.1, 2, clip=np.nan), "clip"),
        (lambda: fl.DPScaffNew(-0.1, 0.5), "step"),
        (lambda: fl.DPScaffNew("planned", 0.5), "step"),  # type: ignore[arg-type]
        (lambda: fl.DPScaffNew(0.1, 0.0), "probability"),
        (lambda: fl.DPScaffNew(0.1, 1.0000001), "probability"),
        (lambda: fl.DPScaffNew(0.1, np.nan), "probability"),
        (lambda: fl.DPScaffNew(0.1, True), "probability"),
        (lambda: fl.DPScaffNew(0.1, 0.5, clip=0.0), "clip"),
        (lambda: fl.ISRLDP(np.nan), "step"),
        (lambda: fl.ISRLDP(0.1, accelerated="yes"), "accelerated"),  # type: ignore[arg-type]
        (lambda: fl.ISRLDP(0.1, tail_average=-1), "tail_average"),
        (lambda: fl.ISRLDP(0.1, accelerated=True, tail_average=3), "tail_average"),
    ],
)
def test_bad_parameters(build: Any, argument: str) -> None:
    with pytest.raises(ArgumentError, match=argument):
        build()


@pytest.mark.thorough
def test_a_clipping_threshold_makes_the_squared_loss_private() -> None:
    problem = cases.make("zero", loss="squared").problem
    with pytest.raises(fl.errors.UnboundedGradientError):
        fl.solve(problem, BUDGET, rounds=3, algorithm=fl.ISRLDP(0.1))
    run = fl.solve(problem, BUDGET, rounds=3, algorithm=fl.ISRLDP(0.1, clip=0.5), seed=0)
    assert run.ledger is not None
    assert run.ledger.bound == 0.5
    # The audit attacks what the method clips to, below the data's bound or above it.
    for loss, clip in (("squared", 0.5), ("logistic", 20.0)):
        small = cases.make("zero", loss=loss, sizes=(4, 4)).problem
        method = fl.ISRLDP(0.001, clip=clip)
        found = fl.audit(small, fl.Budget(2.0, 1e-3), rounds=3, algorithm=method, transcripts=2000)
        assert found.passed, found.summary()
        assert found.power == pytest.approx(found.ledger_power, rel=1e-6)


@pytest.mark.thorough
def test_divergence_is_seen() -> None:
    problem = cases.make("zero", loss="squared").problem
    for method in (fl.DPFedAvg(1e6, 3), fl.LDPFedEXP(1e6, 3), fl.DPScaffNew(1e6, 0.5), fl.ISRLDP(1e6)):
        with pytest.raises(fl.errors.DivergedError):
            fl.solve(problem, rounds=200, algorithm=method, repetitions=2)


def audited(name: str, transcripts: int) -> fl.Audit:
    """An attack on a small problem, with a prox where the method has one."""
    g = fl.BoxL1(0.05, 0.25) if isinstance(METHODS[name], fl.ISRLDP | fl.DPScaffNew) else fl.Zero()
    A = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [0.6, -0.8], [1.0, 0.0]])
    problem = fl.Problem(A, [1, -1, 1, 1, -1, 1], workers=2, l2=1.0, regularizer=g, gradient_bound=1.0)
    given: dict[str, Any] = {"rounds": 4, "algorithm": METHODS[name], "transcripts": transcripts, "seed": 1}
    return fl.audit(problem, fl.Budget(2.0, 1e-3), **given)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(METHODS))
def test_audits_pass(name: str) -> None:
    found = audited(name, 8000)
    assert found.passed, found.summary()
    assert 0 < found.power <= found.ledger_power * (1 + 1e-12)
    assert 0 < found.shown_epsilon < found.exact_epsilon


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["fedexp", "scaffnew", "isrl", "isrl_accelerated"])
def test_audits_notice_half_the_sensitivity(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = schedule.released

    def halved(*about: Any) -> Sensitivity:
        whole = right(*about)
        return Sensitivity(whole.query / 2, whole.arithmetic)

    monkeypatch.setattr(schedule, "released", halved)
    found = audited(name, 8000)
    assert not found.passed
    assert "more than the sensitivity in the ledger" in found.summary()


@pytest.mark.thorough
@pytest.mark.parametrize("g", ["box_l1", "box_l1_vector", "simplex"])
@pytest.mark.parametrize("name", ["isrl", "scaffnew"])
def test_proximal_methods_reach_the_optimum_of_a_nonsmooth_problem(name: str, g: str) -> None:
    """Heterogeneous shards; of DPScaffNew whatever the coins."""
    problem = cases.make(g, sizes=SIZES["unequal"]).problem
    run = fl.solve(problem, rounds=3000, algorithm=METHODS[name], repetitions=3, seed=1, record=fl.Final())
    assert (run.optimality[:, -1] < 1e-16).all()
    # The answer is what a prox gave: it has the optimum's zeros, which are certified up to rounding only.
    np.testing.assert_array_equal(run.x[0] == 0, np.abs(problem.optimum()) < 1e-11)


@pytest.mark.thorough
def test_the_accelerated_method_reaches_the_optimum_of_a_nonsmooth_problem() -> None:
    problem, method = cases.make("box_l1").problem, fl.ISRLDP(0.5, accelerated=True)
    assert fl.solve(problem, rounds=4000, algorithm=method, record=fl.Final()).optimality[0, -1] < 1e-8
    # Without strong convexity the objective is at most 2υ‖x⁰ − x*‖²/(T(T + 1)) off, υ = 1/(2η) ≥ L.
    flat = cases.make("box_l1", l2=0.0).problem
    assert flat.n * flat.smoothness <= 1 / (2 * 0.5)
    run = fl.solve(flat, rounds=1000, algorithm=method, record=fl.Every(10))
    gaps = run.objective[0] - flat.objective(flat.optimum())
    assert (gaps <= 2 * np.sum(flat.optimum() ** 2) / (run.rounds * (run.rounds + 1))).all()


@pytest.mark.thorough
def test_fedexp_takes_longer_steps_where_workers_agree_on_the_optimum() -> None:
    """All samples can be fitted at once, by workers who know features of their own each: there FedExP is at home."""
    rng = np.random.default_rng(0)
    A = np.vstack([np.pad(rng.standard_normal((3, 2)), ((0, 0), (2 * i, 8 - 2 * i))) for i in range(5)])
    problem = fl.Problem(A, A @ rng.standard_normal(10), workers=5, loss="squared")
    extrapolated = fl.solve(problem, rounds=1000, algorithm=fl.LDPFedEXP(0.1, 5), record=fl.Every(10))
    averaged = fl.solve(problem, rounds=1000, algorithm=fl.DPFedAvg(0.1, 5), record=fl.Every(10))
    assert extrapolated.optimality[0, -1] < 1e-8
    assert extrapolated.optimality[0, -1] < 1e-3 * averaged.optimality[0, -1]
    # Updates that share no feature make mean ‖Δᵢ‖² n times ‖Δ̄‖².
    given = fl.solve(problem, rounds=1000, algorithm=fl.DPFedAvg(0.1, 5, server_step=5 / 2), record=fl.Every(10))
    np.testing.assert_allclose(extrapolated.means, given.means, rtol=1e-9, atol=1e-11)


@pytest.mark.thorough
def test_fedexp_takes_the_noise_off() -> None:
    """Workers who have the same data differ by noise alone: were it not taken off, the server's step would be n/2."""
    n, d = 40, 30
    rng = np.random.default_rng(0)
    A = np.tile(rng.standard_normal((5, d)), (n, 1))
    b = np.tile(np.where(rng.random(5) < 0.5, -1.0, 1.0), n)
    problem = fl.Problem(A, b, workers=n, l2=0.1)
    run = fl.solve(
        problem, BUDGET, rounds=1, algorithm=fl.LDPFedEXP(0.1, 1), repetitions=200, seed=3, common_noise=True
    )
    mean = fl.solve(
        problem, BUDGET, rounds=1, algorithm=fl.DPFedAvg(0.1, 1), repetitions=200, seed=3, common_noise=True
    )
    steps = np.linalg.norm(run.x, axis=1) / np.linalg.norm(mean.x, axis=1)
    # (mean ‖Δᵢ‖² − noise)/‖Δ̄‖² has mean zero or so, and deviations of √(2n/d).
    assert (steps >= 1 - 1e-12).all()
    assert np.mean(steps > 1 + 1e-9) < 0.3
    assert steps.max() < n / 6


@pytest.mark.thorough
def test_workers_who_do_not_move_leave_the_server_where_it_is() -> None:
    """0/0 is no step."""
    problem = fl.Problem(np.eye(4), np.zeros(4), workers=2, loss="squared")
    run = fl.solve(problem, rounds=3, algorithm=fl.LDPFedEXP(0.1, 2), repetitions=2)
    np.testing.assert_array_equal(run.x, 0.0)


@pytest.mark.thorough
def test_coins_are_the_keys_and_come_as_often_as_they_should() -> None:
    """Of every repetition its own, for all workers the same; seen where the server sends something."""
    given: dict[str, Any] = {"rounds": 400, "repetitions": 20, "common_noise": True}
    for p in (0.01, 0.3, 1.0):
        method = fl.DPScaffNew(0.01, p)
        sent = []
        for dtype in ("float64", "float32"):
            problem = cases.make("zero", sizes=(2, 1), dtype=dtype).problem
            run = fl.solve(problem, BUDGET, algorithm=method, seed=5, record=[fl.Final(), fl.Messages(0)], **given)
            assert run.broadcasts is not None
            sent.append(~np.isnan(run.broadcasts[:, :, 0]))
        np.testing.assert_array_equal(sent[0], sent[1])
        for repetition in (0, 19):
            expected = [naive.coin(5, repetition, t, p) for t in range(1, 401)]
            np.testing.assert_array_equal(sent[0][repetition], expected)
        assert abs(sent[0].mean() - p) <= 5 * np.sqrt(p * (1 - p) / 8000)


def test_coins_know_no_noise() -> None:
    """The address of a coin is that of no release: worker, round and block are, but not the purpose."""
    # And counts have purposes between the two.
    assert naive.COIN == naive.COUNT + 1 == MOST_LOCAL_STEPS + 2
    # The k-th release of a round has the purpose k, below the number of local steps.
    assert fl.DPFedAvg(0.1, MOST_LOCAL_STEPS).local_steps - 1 < naive.COIN


@cases.tiny_shards
def test_scaffnew_that_always_communicates_is_isrl() -> None:
    problem = cases.make("box_l1", sizes=SIZES["unequal"]).problem
    given: dict[str, Any] = {"rounds": 30, "seed": 5, "common_noise": True, "record": fl.Every(1)}
    always = fl.solve(problem, BUDGET, algorithm=fl.DPScaffNew(0.4, 1.0), **given)
    plain = fl.solve(problem, BUDGET, algorithm=fl.ISRLDP(0.4), **given)
    np.testing.assert_allclose(always.means, plain.means, rtol=1e-9, atol=1e-11)


@pytest.mark.thorough
def test_squared_losses_are_clipped_where_local_steps_leave_the_set() -> None:
    """B holds in the box only, and workers go on from outside of it: kernels enforce it, and the adversary knows."""
    A = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0], [0.8, -0.6]])
    given: dict[str, Any] = {"workers": 2, "loss": "squared", "regularizer": fl.Box(0.1)}
    problem, other = fl.Problem(A, [0.5, -0.5, 0.5, 0.5], **given), fl.Problem(A, [0.4, -0.5, 0.5, 0.5], **given)
    assert problem.gradient_bound == other.gradient_bound
    method = fl.DPScaffNew(0.5, 0.2)
    found = fl.audit(problem, fl.Budget(8.0, 1e-2), rounds=6, neighbour=other, algorithm=method, transcripts=4000)
    assert found.passed, found.summary()


def test_with_strong_convexity_the_accelerated_method_forgets_its_step() -> None:
    """Later steps are 2/(μr), as Ghadimi and Lan have it: a grid of steps does nothing in long runs."""
    problem = fl.Problem(np.eye(4), np.ones(4), workers=2, l2=0.1)

    def round_(number: int, step: float, problem: fl.Problem) -> Any:
        method = fl.ISRLDP(step, accelerated=True)
        return method.coefficients(Program(method, problem, 2000, step), number - 1, number)[0]

    _, pull, step, share = round_(2000, 0.1, problem)
    np.testing.assert_allclose(round_(2000, 1e-3, problem), round_(2000, 0.1, problem), rtol=0.01)
    assert step == pytest.approx(2 / (0.1 * 2001), rel=1e-3)
    assert pull == pytest.approx(share, rel=1e-3)
    assert round_(5, 1e-3, problem)[2] < 0.1 * round_(5, 0.1, problem)[2]
    flat = problem.replace(l2=0.0)
    assert round_(2000, 1e-3, flat)[2] == pytest.approx(0.01 * round_(2000, 0.1, flat)[2])
