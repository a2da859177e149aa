"""Sweeps: the bits of solve, whatever the legs they are made in; and what a changed specification does to a file."""

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp.engine.block import Block
from fastldp.errors import ArgumentError, BackendError, StepWarning, StoreError
from fastldp.sweeping import runner, work
from fastldp.sweeping.backends import Threads
from fastldp.sweeping.store import Store

TINY_LEG = 1e-9
"""Seconds: every leg is one segment, from one record to the next."""


def solved(
    run: fl.sweeping.Run, problem: fl.Problem, method: Any, budget: fl.Budget | None, record: Any
) -> fl.Solution:
    rounds = run.parameters["rounds"]
    # Two repetitions or more ride in lanes, as all runs of a sweep do.
    return fl.solve(problem, budget, rounds=rounds, algorithm=method, repetitions=3, seed=3, record=record)


CASES: dict[str, tuple[str, list[Any]]] = {
    "primal_dual": ("primal_dual", [fl.PrimalDual(), fl.PrimalDual(allocation="static")]),
    "fedavg": ("fedavg", [fl.DPFedAvg(0.1, 3), fl.DPFedAvg(0.2, 3)]),
    "scaffold": ("scaffold", [fl.DPScaffold(0.1, 2), fl.DPScaffold(0.1, 2, warm_start=True)]),
    "isrl": ("isrl", [fl.ISRLDP(0.1), fl.ISRLDP(0.3)]),
    "accelerated": ("accelerated", [fl.ISRLDP(0.1, accelerated=True)]),
    "averaged": ("averaged", [fl.ISRLDP(0.2, tail_average=20)]),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["tiny", "thin"])
@pytest.mark.parametrize("name", ["primal_dual", "scaffold", "isrl"])
def test_runs_are_those_of_solve_bit_for_bit(name: str, layout: str, dtype: str, tmp_path: Path) -> None:
    compare_with_solve(name, layout, dtype, tmp_path)


@pytest.mark.parametrize("name", ["fedavg", "accelerated", "averaged"])
def test_runs_of_variants_are_those_of_solve_bit_for_bit(name: str, tmp_path: Path) -> None:
    compare_with_solve(name, "tiny", "float64", tmp_path)


def compare_with_solve(name: str, layout: str, dtype: str, tmp_path: Path) -> None:
    text, methods = CASES[name]
    dense = "true" if layout == "tiny" else "false"
    written = sweeps.spec(
        text,
        data=f'given = "{layout}"\ndense = {dense}',
        problem=f'dtype = "{dtype}"',
        record="every = 7\nobjective = true\nmodels = true",
    )
    sweeps.run(written, tmp_path / "r.h5")
    found = fl.results(tmp_path / "r.h5")
    assert len(found) == len(methods) * 2 * 3
    problem = fl.Problem(*sweeps.DATA[layout], workers=4, l2=0.1, dtype=dtype)
    budget = fl.Budget(4.0, 1e-3)
    for run in found:
        described = run.parameters
        (method,) = (m for m in methods if all(described.get(key) == value for key, value in vars(m).items()))
        solution = solved(run, problem, method, budget, fl.Every(7))
        k = run.repetition
        np.testing.assert_array_equal(run.rounds, solution.rounds)
        np.testing.assert_array_equal(run.consensus, solution.consensus[k])
        np.testing.assert_array_equal(run.distance, solution.distance[k])
        np.testing.assert_array_equal(run.optimality, solution.optimality[k])
        np.testing.assert_array_equal(run.objective, solution.objective[k])
        np.testing.assert_array_equal(run.models, solution.means[k])
        np.testing.assert_array_equal(run.x, solution.x[k])


def test_the_ledger_of_a_run_is_that_of_solve(tmp_path: Path) -> None:
    budget = "epsilon = [[1.0, 2.0, 3.0, 4.0]]\ndelta = 1e-3\naccounting = 'gdp'"
    sweeps.run(sweeps.spec("primal_dual", rounds="20", budget=budget), tmp_path / "r.h5")
    problem = fl.Problem(*sweeps.DATA["tiny"], workers=4, l2=0.1)
    solution = fl.solve(problem, fl.Budget(np.array([1.0, 2.0, 3.0, 4.0]), 1e-3, "gdp"), rounds=20, seed=3)
    ledger = fl.results(tmp_path / "r.h5").where(allocation="dynamic")[0].ledger
    assert ledger is not None
    assert solution.ledger is not None
    assert ledger.summary() == solution.ledger.summary()
    np.testing.assert_array_equal(ledger.variances, solution.ledger.variances)


def test_a_run_without_a_budget_has_no_ledger(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(budget=""), tmp_path / "r.h5")
    assert fl.results(tmp_path / "r.h5")[0].ledger is None


# Legs.

MIXED = sweeps.spec("isrl", "averaged", rounds="[25, 33, 50]", record="rounds = [1, 10, 33, 50]")


@pytest.mark.parametrize("name", list(sweeps.METHODS))
def test_many_legs_give_the_bits_of_one_go(name: str, tmp_path: Path) -> None:
    text = sweeps.spec(name, record="every = 9\nobjective = true\nmodels = true")
    assert sweeps.digest(text, tmp_path / "a.h5", leg_seconds=TINY_LEG) == sweeps.digest(text, tmp_path / "b.h5")


@pytest.mark.parametrize("name", list(sweeps.METHODS))
def test_a_sweep_that_dies_again_and_again_ends_with_the_bits_of_one_go(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sweeps.spec(name, rounds="[30, 50]", record="every = 15")
    for _ in range(2):
        with sweeps.dying(monkeypatch, commits=1):
            sweeps.run(text, tmp_path / "a.h5", leg_seconds=TINY_LEG, n_jobs=1)
    report = sweeps.run(text, tmp_path / "a.h5")
    assert report.resumed + report.found > 0
    assert fl.results(tmp_path / "a.h5").digest() == sweeps.digest(text, tmp_path / "b.h5")


SAMPLED = (
    'name = "ISRLDP"\nstep = 0.2\nsampling = [0.3, {samples = 0.5, workers = 0.4}]',
    'name = "DPScaffold"\nstep = 0.1\nlocal_steps = 2\nwarm_start = true\nsampling = {samples = 0.4, workers = 0.5}',
    'name = "PrimalDual"\nsampling = {samples = 0.5, workers = 0.6, choice = "secret"}',
)


@pytest.mark.parametrize("noise", ["", "common = true"])
def test_drawn_samples_and_workers_are_the_same_after_a_crash(
    noise: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In legs, after deaths, and as solve has them; the file is confirmed, ledgers and bits."""
    budget = 'epsilon = 4.0\ndelta = 1e-3\naccounting = "pld"'
    text = sweeps.spec(*SAMPLED, rounds="[7, 20]", record="every = 3", noise=noise, budget=budget)
    for _ in range(3):
        with sweeps.dying(monkeypatch, commits=1):
            sweeps.run(text, tmp_path / "a.h5", leg_seconds=TINY_LEG, n_jobs=1)
    report = sweeps.run(text, tmp_path / "a.h5", leg_seconds=TINY_LEG)
    assert report.resumed > 0
    found = fl.results(tmp_path / "a.h5")
    assert found.digest() == sweeps.digest(text, tmp_path / "b.h5")
    assert fl.verify(tmp_path / "a.h5", given=sweeps.DATA).passed
    if noise:
        problem = fl.Problem(*sweeps.DATA["tiny"], workers=4, l2=0.1)
        sampling = fl.Sampling(0.4, 0.5)
        method = fl.DPScaffold(0.1, 2, warm_start=True, sampling=sampling)
        given: dict[str, Any] = {"rounds": 20, "repetitions": 3, "seed": 3, "common_noise": True}
        solution = fl.solve(problem, fl.Budget(4.0, 1e-3, "pld"), algorithm=method, **given)
        runs = found.where(rounds=20, method="DPScaffold")
        assert len(runs) == 3
        for run in runs:
            np.testing.assert_array_equal(run.x, solution.x[run.repetition])
            assert run.ledger is not None
            assert run.ledger.amplified
            assert solution.ledger is not None
            np.testing.assert_array_equal(run.ledger.variances, solution.ledger.variances)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_runs_of_other_horizons_and_records_share_blocks_and_legs(dtype: str, tmp_path: Path) -> None:
    text = MIXED.replace("l2 = 0.1", f'l2 = [0.1, 0.2]\ndtype = "{dtype}"')
    assert sweeps.digest(text, tmp_path / "a.h5", leg_seconds=TINY_LEG) == sweeps.digest(text, tmp_path / "b.h5")


def test_a_block_whose_records_fill_its_memory_hands_them_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = sweeps.spec("scaffold", record="every = 1")
    expected = sweeps.digest(text, tmp_path / "a.h5")
    # Room for four records of the twelve runs in lanes.
    monkeypatch.setattr(work, "MOST_BYTES", 4 * 8 * 12 * 5)
    assert sweeps.digest(text, tmp_path / "b.h5") == expected


def test_neither_order_nor_neighbours_nor_threads_change_a_bit(tmp_path: Path) -> None:
    together = sweeps.spec("isrl", "averaged", "primal_dual")
    sweeps.run(together, tmp_path / "a.h5", n_jobs=2)
    for name in ("primal_dual", "averaged", "isrl"):
        sweeps.run(sweeps.spec(name), tmp_path / "b.h5", n_jobs=1)
    assert fl.results(tmp_path / "a.h5").digest() == fl.results(tmp_path / "b.h5").digest()


def test_one_large_block_shares_out_its_workers_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sweeps.spec("primal_dual", rounds="20")
    expected = sweeps.digest(text, tmp_path / "a.h5")
    monkeypatch.setattr("fastldp.engine.driving.PARALLEL_WORK", 0)
    assert sweeps.digest(text, tmp_path / "b.h5") == expected


# Resuming, and changing what is wanted.


def test_the_same_command_again_finds_everything(tmp_path: Path) -> None:
    first = sweeps.run(MIXED, tmp_path / "r.h5")
    again = sweeps.run(MIXED, tmp_path / "r.h5")
    assert (first.found, first.completed, again.found, again.completed) == (0, 27, 27, 0)
    assert "27 found; nothing was left to do" in again.summary()


def test_a_changed_specification_adds_its_new_runs_alone(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(rounds="[30, 50]"), tmp_path / "r.h5")
    report = sweeps.run(sweeps.spec(rounds="[50, 60]"), tmp_path / "r.h5")
    assert (report.found, report.completed) == (6, 6)
    assert fl.results(tmp_path / "r.h5").parameters["rounds"] == [30, 50, 60]


def test_more_repetitions_are_added_to_those_there_are(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(repetitions=2), tmp_path / "r.h5")
    report = sweeps.run(sweeps.spec(repetitions=5), tmp_path / "r.h5")
    assert (report.found, report.completed) == (8, 12)
    assert fl.results(tmp_path / "r.h5").digest() == sweeps.digest(sweeps.spec(repetitions=5), tmp_path / "b.h5")


def test_fewer_repetitions_leave_what_is_there(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(repetitions=3), tmp_path / "r.h5")
    report = sweeps.run(sweeps.spec(repetitions=2), tmp_path / "r.h5")
    assert (report.runs, report.found) == (8, 8)
    assert len(fl.results(tmp_path / "r.h5")) == 12


def test_changed_data_are_not_mixed_in(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(), tmp_path / "r.h5")
    A, b = sweeps.matrix()
    with pytest.raises(StoreError, match="the data differed then"):
        sweeps.run(sweeps.spec(), tmp_path / "r.h5", given={"tiny": (2 * A, b)})


def test_files_of_the_same_name_are_data_of_their_own(tmp_path: Path) -> None:
    A, b = sweeps.matrix()
    for folder, scale in (("d1", 1.0), ("d2", 2.0)):
        (tmp_path / folder).mkdir()
        np.savez(tmp_path / folder / "train.npz", A=scale * A, b=b)
    files = ["d1/train.npz", "d2/train.npz", "d2/../d1/train.npz"]
    (tmp_path / "spec.toml").write_text(sweeps.spec(rounds="30", repetitions=1, data=f"file = {files}"))
    report = fl.sweep(tmp_path / "spec.toml", tmp_path / "r.h5")
    assert report.completed == 6
    found = fl.results(tmp_path / "r.h5")
    assert sorted(set(found.table()["data"])) == sorted(files)
    one, other, again = (found.where(data=file).table()["optimality"].tolist() for file in files)
    assert one == again
    assert not set(one) & set(other)
    prints = [{run.provenance["fingerprint"] for run in found.where(data=file)} for file in files]
    assert prints[0] == prints[2] != prints[1]


def test_a_file_that_changed_is_not_mixed_in(tmp_path: Path) -> None:
    A, b = sweeps.matrix()
    (tmp_path / "spec.toml").write_text(sweeps.spec(data='file = "train.npz"'))
    np.savez(tmp_path / "train.npz", A=A, b=b)
    fl.sweep(tmp_path / "spec.toml", tmp_path / "r.h5")
    np.savez(tmp_path / "train.npz", A=2 * A, b=b)
    for attempt in (fl.sweep, fl.sweeping.forecast):
        with pytest.raises(StoreError, match="the data differed then"):
            attempt(tmp_path / "spec.toml", tmp_path / "r.h5")


def test_a_changed_method_is_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps.run(sweeps.spec(), tmp_path / "r.h5")
    monkeypatch.setattr(fl.ISRLDP, "version", fl.ISRLDP.version + 1)
    with pytest.raises(StoreError, match="the method's version differed then"):
        sweeps.run(sweeps.spec(), tmp_path / "r.h5")


def test_what_is_mixed_on_purpose_stays_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps.run(sweeps.spec(), tmp_path / "r.h5")
    monkeypatch.setattr(fl.ISRLDP, "version", fl.ISRLDP.version + 1)
    report = sweeps.run(sweeps.spec(), tmp_path / "r.h5", mix=True)
    assert (report.found, report.completed) == (0, 12)
    found = fl.results(tmp_path / "r.h5")
    assert found.parameters["version"] == [fl.ISRLDP.version - 1, fl.ISRLDP.version]
    assert [mean.runs for mean in found.means()] == [3] * 8


# What goes wrong.

DIVERGING = sweeps.spec(
    'name = "ISRLDP"\nstep = [0.1, 1e30]', rounds="[40, 90]", problem='loss = "squared"', budget="", record="every = 13"
)


def test_runs_that_diverge_are_kept_with_the_round(tmp_path: Path) -> None:
    report = sweeps.run(DIVERGING, tmp_path / "r.h5")
    assert (report.completed, report.diverged) == (6, 6)
    run = fl.results(tmp_path / "r.h5").where(outcome="diverged")[0]
    assert "not finite at round" in run.message
    assert run.x.size == 0


def test_where_a_run_diverges_does_not_depend_on_legs_or_neighbours(tmp_path: Path) -> None:
    one_go = sweeps.digest(DIVERGING, tmp_path / "a.h5")
    assert sweeps.digest(DIVERGING, tmp_path / "b.h5", leg_seconds=TINY_LEG) == one_go
    sweeps.run(DIVERGING.replace("[40, 90]", "40"), tmp_path / "c.h5")
    sweeps.run(DIVERGING.replace("[40, 90]", "90"), tmp_path / "c.h5")
    assert fl.results(tmp_path / "c.h5").digest() == one_go


def test_runs_that_diverged_are_not_made_again(tmp_path: Path) -> None:
    sweeps.run(DIVERGING, tmp_path / "r.h5")
    report = sweeps.run(DIVERGING, tmp_path / "r.h5", retry=True)
    assert (report.found, report.unsound, report.sound) == (12, 6, False)


def failing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Blocks fail that have come so far."""
    advance = Block.advance

    def broken(self: Block, end: int, *, threads: int = 1) -> None:
        if self.done >= after:
            raise MemoryError("no room")
        advance(self, end, threads=threads)

    monkeypatch.setattr(Block, "advance", broken)


@pytest.mark.parametrize("after", [0, 15])
def test_failures_are_kept_and_made_again_when_asked(
    after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sweeps.spec(record="every = 15")
    with monkeypatch.context() as patch:
        failing(patch, after)
        report = sweeps.run(text, tmp_path / "a.h5", leg_seconds=TINY_LEG)
        assert report.failed == 12
        # A second failure takes the place of the first.
        assert sweeps.run(text, tmp_path / "a.h5", leg_seconds=TINY_LEG, retry=True).failed == 12
    assert fl.results(tmp_path / "a.h5")[0].message == "MemoryError: no room"
    assert sweeps.run(text, tmp_path / "a.h5").found == 12
    report = sweeps.run(text, tmp_path / "a.h5", retry=True)
    assert (report.completed, report.resumed) == (12, 12 if after else 0)
    assert fl.results(tmp_path / "a.h5").digest() == sweeps.digest(text, tmp_path / "b.h5")


def test_an_error_of_the_writer_ends_the_sweep_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sweeps.spec("isrl", "primal_dual", record="every = 15")
    monkeypatch.setattr(runner, "COMMIT_SECONDS", 0.0)
    with warnings.catch_warnings(), sweeps.dying(monkeypatch, commits=2):
        warnings.simplefilter("error")
        sweeps.run(text, tmp_path / "r.h5", leg_seconds=TINY_LEG)
    assert sweeps.run(text, tmp_path / "r.h5").completed == 24
    assert not list(tmp_path.glob("*.parts"))


def test_workers_that_are_always_lost_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> Any:
        raise ConnectionResetError("gone")
        yield

    monkeypatch.setattr(Threads, "lost", (ConnectionResetError,))
    monkeypatch.setattr(Threads, "stream", lost)
    with pytest.raises(BackendError, match="lost 6 times in a row, the last time with ConnectionResetError: gone"):
        sweeps.run(sweeps.spec(), tmp_path / "r.h5")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "thread"}, "did you mean 'threads'"),
        ({"address": "tcp://127.0.0.1:1"}, "only the backends dask and ray"),
        ({"n_jobs": 0}, "n_jobs = 0"),
        ({"leg_seconds": 0}, "leg_seconds = 0"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_made(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=message):
        sweeps.run(sweeps.spec(), tmp_path / "r.h5", **options)
    assert not list(tmp_path.iterdir())


def test_a_step_beyond_the_theorem_warns_once_when_the_specification_is_read(tmp_path: Path) -> None:
    with pytest.warns(StepWarning, match="step = 0.5 is above"):
        report = sweeps.run(sweeps.spec('name = "PrimalDual"\nstep = 0.5', rounds="9"), tmp_path / "r.h5")
    assert report.completed == 3


# Before and along the way.


def test_a_forecast_counts_and_writes_nothing(tmp_path: Path) -> None:
    plan = fl.sweeping.forecast(MIXED, tmp_path / "r.h5", given=sweeps.DATA)
    assert (plan.settings, plan.runs, plan.found, plan.rounds) == (9, 27, 0, 9 * (25 + 33 + 50))
    assert plan.blocks == 4
    assert plan.seconds > 0
    assert not list(tmp_path.iterdir())


def test_a_forecast_knows_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = sweeps.spec(record="every = 15")
    with sweeps.dying(monkeypatch, commits=1):
        sweeps.run(text, tmp_path / "r.h5", leg_seconds=TINY_LEG)
    begun = fl.sweeping.forecast(text, tmp_path / "r.h5", given=sweeps.DATA)
    assert begun.begun > 0
    assert "begun" in begun.summary()
    with monkeypatch.context() as patch:
        failing(patch, 0)
        sweeps.run(text, tmp_path / "r.h5")
    done = fl.sweeping.forecast(text, tmp_path / "r.h5", given=sweeps.DATA)
    assert (done.found, done.failed, done.blocks) == (12, 12, 0)
    # Failures of settings that are not wanted are nobody's.
    other = fl.sweeping.forecast(sweeps.spec("fedavg"), tmp_path / "r.h5", given=sweeps.DATA)
    assert other.failed == 0


def test_the_forecast_of_the_file_is_of_the_right_size(tmp_path: Path) -> None:
    text = sweeps.spec(rounds="2000", repetitions=20, record="every = 10\nmodels = true")
    plan = fl.sweeping.forecast(text, tmp_path / "r.h5", given=sweeps.DATA)
    sweeps.run(text, tmp_path / "r.h5")
    assert 0.5 < (tmp_path / "r.h5").stat().st_size / plan.bytes < 1.5


def test_a_sweep_too_large_for_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "free_bytes", lambda path: 100)
    with pytest.raises(StoreError, match="100 B are free"):
        sweeps.run(sweeps.spec(), tmp_path / "r.h5")


def test_progress_is_log_lines_where_there_is_no_terminal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "fastldp.sweeping"):
        sweeps.run(sweeps.spec(), tmp_path / "r.h5", progress=True)
    assert "12 runs wanted, 0 found" in caplog.messages[0]
    assert caplog.messages[-1].startswith("12 of 12 runs")
    assert capsys.readouterr().err == ""


def test_a_long_horizon_keeps_its_schedule_and_resumes_from_its_last_leg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = sweeps.spec("primal_dual", rounds="120_000", repetitions=2, record="every = 40_000")
    with sweeps.dying(monkeypatch, commits=1):
        sweeps.run(text, tmp_path / "a.h5", leg_seconds=TINY_LEG)
    report = sweeps.run(text, tmp_path / "a.h5")
    assert report.resumed == 4
    assert report.rounds < 4 * 120_000
    assert fl.results(tmp_path / "a.h5").digest() == sweeps.digest(text, tmp_path / "b.h5")


def test_a_store_is_left_alone_by_a_sweep_that_wants_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps.run(sweeps.spec(), tmp_path / "r.h5")
    before = (tmp_path / "r.h5").stat()
    monkeypatch.setattr(Store, "commit", None)
    sweeps.run(sweeps.spec(), tmp_path / "r.h5")
    assert (tmp_path / "r.h5").stat() == before


# Numbers that must not change by accident. Where one of them does on purpose, raise `version` of the method.

GOLDEN = {
    "primal_dual": [-0.1357105107551674, 0.11431330322704171, -0.13958758925673956, 0.11505623903365618],
    "fedavg": [-1.8213402640013778, 0.2748849340128997, -2.2478646799116175, 0.13813143895382707],
    "scaffold": [-0.6254608224957826, 0.4025604548670746, -0.6345480310882299, 0.4109323457782387],
    "fedexp": [-0.6403931718850839, 0.5093648526920146, -0.7074614600161342, 0.6213883749198637],
    "scaffnew": [-0.3930290717293243, 0.5384193836121882, -0.6521167788969113, 0.40313555381018173],
    "isrl": [-0.22438114216938793, 0.17140204937131254, -0.6529771218451139, 0.4077986910180335],
    "accelerated": [-0.6484692799039026, -0.04972155238218662],
    "averaged": [-0.06582004174091775, 0.051037533087733275],
}


@pytest.mark.parametrize("name", list(sweeps.METHODS))
def test_numbers_are_those_of_this_version_of_the_method(name: str, tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(name, rounds="30", repetitions=2, noise="common = true"), tmp_path / "r.h5")
    found = [run.x.sum() for run in fl.results(tmp_path / "r.h5")]
    remedy = "raise `version` of the method if this changes, so that sweeps do not mix old numbers and new ones"
    np.testing.assert_allclose(found, GOLDEN[name], rtol=1e-12, err_msg=remedy)
