"""The audit: it agrees with a sound mechanism, shows no more than is there, and finds every fault put in."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import cases
import fastldp as fl
import naive
from fastldp import block, figures, noise
from fastldp.algorithms import schedule
from fastldp.auditing import evidence, pair
from fastldp.auditing.adversary import View, look
from fastldp.errors import ArgumentError, BudgetError
from fastldp.privacy import Sensitivity, epsilon_of
from fastldp.problem import Problem

ROOT = Path(fl.__file__).parent.parent
BUDGET = fl.Budget(2.0, 1e-3)


def small(wide: bool = False, **changes: Any) -> Problem:
    """Within the box both gradients of a replaced sample are clipped; wide, it has two pairs of coordinates."""
    A = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [0.6, -0.8], [1.0, 0.0]])
    given: dict[str, Any] = {"workers": 2, "l2": 1.0, "regularizer": fl.Box(0.25), "gradient_bound": 1.0}
    return Problem(np.hstack([A, A[::-1]]) if wide else A, [1, -1, 1, 1, -1, 1], **(given | changes))


METHODS = {
    "dynamic": (small(), fl.PrimalDual()),
    "static": (small(), fl.PrimalDual(allocation="static")),
    "given": (small(), fl.PrimalDual(allocation=np.array([8.0, 3.0, 6.0, 5.0]))),
    "unequal": (small(workers=np.array([0, 1, 1, 1, 1, 2])), fl.PrimalDual(step=0.1)),
    "l2_ball": (small(regularizer=fl.L2Ball(0.25)), fl.PrimalDual()),
    "squared": (small(loss="squared", regularizer=fl.Zero()), fl.PrimalDual(step=0.2)),
}


@pytest.mark.parametrize("name", sorted(METHODS))
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
    seen = look(case.problem, case.problem, 2, schedule, np.zeros(9), View(run.messages, run.broadcasts))
    np.testing.assert_array_equal(seen.loss, 0.0)
    steps = np.broadcast_to(run.ledger.grids / np.sqrt(run.ledger.variances), (3, 6))[2]
    for repetition in range(3):
        for t in range(6):
            normals, dithers = naive.draws(9, repetition, 2, t + 1, 9)
            expected = normals + dithers * steps[t]
            np.testing.assert_allclose(seen.noise[repetition, t], expected, atol=0.51 * steps[t])


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


def findings(transcripts: int = 20_000, **changes: Any) -> str:
    problem = small(**changes)
    found = fl.audit(problem, BUDGET, rounds=4, transcripts=transcripts, seed=2)
    assert not found.passed
    assert "WRONG" in found.summary()
    return "; ".join(found.findings)


def test_noise_ten_percent_too_small_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = block.Block._deviations
    monkeypatch.setattr(block.Block, "_deviations", lambda self, begin, end: 0.9 * right(self, begin, end))
    found = findings()
    assert "of the claimed variance" in found
    assert "the variance of the loss" in found


def test_variances_shifted_by_a_round_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = block.Block._deviations
    monkeypatch.setattr(
        block.Block, "_deviations", lambda self, begin, end: np.roll(right(self, begin, end), 1, axis=0)
    )
    assert "of the claimed variance" in findings()


def test_half_the_sensitivity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """C where 2C is right: the noise is as the ledger says, but the ledger is wrong."""
    right = schedule.released

    def halved(problem: Problem, bound: float, divisors: Any) -> Sensitivity:
        whole = right(problem, bound, divisors)
        return Sensitivity(whole.query / 2, whole.arithmetic)

    monkeypatch.setattr(schedule, "released", halved)
    found = findings(transcripts=100_000)
    assert "more than the sensitivity in the ledger" in found
    # So wrong that the transcripts themselves show more than is claimed.
    assert "the transcripts show ε" in found


def test_a_seed_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = noise.key_of
    monkeypatch.setattr(noise, "key_of", lambda seed, repetition, run: right(0, repetition))
    found = findings(2000)
    assert "between the two inputs" in found
    assert "between seeds" in found


class Mutant(NamedTuple):
    """A line of a kernel, what it becomes, the number of workers to audit it with, and what is found."""

    right: str
    wrong: str
    workers: int
    found: str
    source: str = "release.py"


ADDRESS = "d - j <= 8, (t, i, purpose), deviation)"
MUTANTS = {
    "all workers": Mutant(ADDRESS, "d - j <= 8, (t, 0, purpose), deviation)", 2, "correlated between workers 0 and 1"),
    "workers two apart": Mutant(ADDRESS, "d - j <= 8, (t, i % 2, purpose), deviation)", 3, "between workers 0 and 2"),
    "next worker, last round": Mutant(ADDRESS, "d - j <= 8, (t + i, 0, purpose), deviation)", 2, "workers 0 and 1"),
    "two rounds": Mutant(ADDRESS, "d - j <= 8, ((t + 1) // 2, i, purpose), deviation)", 2, "correlated between rounds"),
    "one radius": Mutant(
        "a0, b0 = load_as(kind, rows, k), load_as(kind, rows, k + further)",
        "a0, b0 = load_as(kind, rows, 0), load_as(kind, rows, further)",
        2,
        "correlated between coordinates, in size",
        "gaussian.py",
    ),
    "off the grid": Mutant(
        "h0 = privatize(release.mode, load(state.gradient, share, j + k) * weight, common, n0, u0)",
        "h0 = privatize(1, load(state.gradient, share, j + k) * weight, common, n0, u0)",
        2,
        "off the public grid",
    ),
    "a run alone": Mutant(
        "normal, dither = load(release.normals, i, lane_of_t, j), load(release.dithers, i, lane_of_t, j)",
        "normal, dither = 0.5 * load(release.normals, i, lane_of_t, j), load(release.dithers, i, lane_of_t, j)",
        1,
        "a run alone releases other noise",
    ),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_faults_in_the_kernels_are_found(name: str, tmp_path: Path) -> None:
    """The real kernels but for one line, compiled and audited in a process of their own."""
    mutant = MUTANTS[name]
    kernels = ROOT / "kernels" if (ROOT / "kernels").is_dir() else ROOT / "fastldp" / "kernels"
    shutil.copytree(ROOT / "fastldp", tmp_path / "fastldp", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(kernels, tmp_path / "fastldp" / "kernels", dirs_exist_ok=True)
    source = tmp_path / "fastldp" / "kernels" / mutant.source
    text = source.read_text(encoding="utf-8")
    assert text.count(mutant.right) == 1
    source.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    script = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "import fastldp, test_audit\n"
        "assert fastldp.__file__.startswith(sys.argv[1]), fastldp.__file__\n"
        "print(test_audit.findings(2000, wide=True, workers=int(sys.argv[3])))\n"
    )
    arguments = [str(tmp_path), str(Path(__file__).parent), str(mutant.workers)]
    # A cache that goes with it: such kernels must be found nowhere else.
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert found.returncode == 0, found.stderr[-2000:]
    assert mutant.found in found.stdout


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
