"""What the paper promises, seen in private runs at the first experiment's size on generated data."""

import numpy as np
import pytest

import fastldp as fl
import naive
from fastldp.engine import block, layouts, recording
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels.chacha import key_of

REPETITIONS = 32
BUDGET = fl.Budget(1.0, 1e-4)


@pytest.fixture(scope="module")
def problem() -> fl.Problem:
    """n = 20, m = 100, d = 22, l2 = 0.1."""
    data = fl.datasets.synthetic("ijcnn1")
    return fl.Problem(data.A.toarray(), data.b, workers=20, l2=0.1)


@pytest.mark.thorough
def test_static_allocation_deteriorates_and_dynamic_levels_off(problem: fl.Problem) -> None:
    def final(allocation: str, rounds: int) -> tuple[float, float]:
        run = fl.solve(
            problem,
            BUDGET,
            rounds=rounds,
            algorithm=fl.PrimalDual(allocation=allocation),
            repetitions=REPETITIONS,
            seed=0,
            common_noise=True,
            record=fl.Final(),
        )
        errors = run.optimality[:, -1]
        return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(REPETITIONS))

    static = {rounds: final("static", rounds) for rounds in (1000, 4000, 8000)}
    dynamic = {rounds: final("dynamic", rounds) for rounds in (1000, 4000, 8000)}
    # Growth from horizon to horizon, by more than four standard errors of the difference.
    for early, late in ((1000, 4000), (4000, 8000)):
        error = np.hypot(static[late][1], static[early][1])
        assert static[late][0] - static[early][0] > 4 * error
    # Level: doubling the horizon moves the mean by less than a third of what it moves the static one.
    moved = dynamic[8000][0] - dynamic[4000][0]
    assert abs(moved) < (static[8000][0] - static[4000][0]) / 3
    assert static[8000][0] > 2.5 * dynamic[8000][0]


@pytest.mark.parametrize("allocation", ["dynamic", "static"])
@pytest.mark.parametrize("nonsmooth", [False, True])
def test_lyapunov_function_stays_below_lemma_2(allocation: str, nonsmooth: bool) -> None:
    data = fl.datasets.synthetic("ijcnn1", rows=200)
    g = fl.BoxL1(0.01, 10.0) if nonsmooth else fl.Zero()
    problem = fl.Problem(data.A.toarray(), data.b, workers=4, l2=1.0, regularizer=g)
    rounds, lanes = 300, layouts.LANES["float64"]
    schedule = fl.PrimalDual(allocation=allocation).schedule(problem, BUDGET, rounds)
    assert schedule.ledger is not None
    x_star = problem.optimum()
    shards = [(data.A.toarray()[50 * i : 50 * i + 50], data.b[50 * i : 50 * i + 50]) for i in range(4)]
    dual_star = naive.dual_star("logistic", shards, 1.0, x_star)
    x0 = np.full(problem.d, 2.0)
    timetable = recording.Timetable(np.arange(10, rounds + 1, 10), -1)

    measured = np.zeros(timetable.rounds.size)
    for seed in range(4):
        keys = np.stack([key_of(seed, repetition) for repetition in range(lanes)])
        runs = Runs(problem, schedule, x0, keys, timetable, x_star)
        together = block.Block(layouts.samples_in_rows(problem), [Lane(runs, k) for k in range(lanes)])
        for k, end in enumerate(timetable.rounds):
            together.advance(int(end))
            for lane in range(lanes):
                x, dual = (np.array(part[..., lane], dtype=np.float64) for part in together.state.workers)
                measured[k] += naive.lyapunov(x, dual, x_star, dual_star, schedule.step) / (4 * lanes)

    # Lemma 2: E Φ^{t+1} ≤ (1 − γ min{μ_f, 1}) E Φ^t + (5/2) n d γ² ξ_t², from the Φ¹ that is known.
    n, d, step = problem.n, problem.d, schedule.step
    bound = naive.lyapunov(np.tile(x0, (n, 1)), np.zeros((n, d)), x_star, dual_star, step)
    bounds = []
    for variance in schedule.ledger.variances:
        bound = (1 - step * min(problem.strong_convexity, 1.0)) * bound + 2.5 * n * d * step**2 * variance
        bounds.append(bound)
    assert (measured < np.array(bounds)[timetable.rounds - 1]).all()
    # And the bound is not vacuous: within a factor of fifty of what is measured, everywhere.
    assert (50 * measured > np.array(bounds)[timetable.rounds - 1]).all()
