"""The engine: every path against the oracle, the same bits however runs are packed and cut, and no allocation."""

import importlib
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import cases
import fastldp as fl
import naive
from fastldp.engine import block, driving, hardware, layouts, recording
from fastldp.engine.runs import Lane, Runs
from fastldp.kernels import gradient, jit
from fastldp.kernels.chacha import key_of
from fastldp.problems.composite import Composite

# Numba counts its allocations in a module of C.
runtime: Any = importlib.import_module("numba.core.runtime._nrt_python")

BUDGET = fl.Budget(1.0, 1e-4)
UNEQUAL = (5, 14, 1, 9)
# How a run can be executed: alone with its samples in the lanes, or in run lanes, on one thread or more.
PATHS = {"alone": (1, 1), "alone, two threads": (1, 2), "lanes": (3, 1), "lanes, two threads": (3, 2)}


def trajectory(case: cases.Case, run: fl.Solution, repetition: int) -> naive.History:
    assert run.ledger is not None
    deviations = np.broadcast_to(np.sqrt(run.ledger.variances), (case.problem.n, int(run.rounds[-1])))
    x0 = case.problem.regularizer.prox(np.zeros(case.problem.d), 0.0)
    step, gridded = case.problem.step_limit, case.problem.dtype == "float64"
    return naive.primal_dual(case.shards, case.loss, case.l2, case.g, x0, step, deviations, 4, repetition, gridded)


@cases.tiny_shards
@pytest.mark.parametrize("path", sorted(PATHS))
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ["box_l1", "l1_ball"])
def test_every_path_is_the_oracles(path: str, layout: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    repetitions, threads = PATHS[path]
    case = cases.make(name, layout=layout, sizes=UNEQUAL)
    record = [fl.Messages(2), fl.Every(5)]
    run = fl.solve(
        case.problem,
        BUDGET,
        rounds=21,
        repetitions=repetitions,
        seed=4,
        common_noise=True,
        n_jobs=threads,
        record=record,
    )
    history = trajectory(case, run, repetitions - 1)
    scale = np.abs(history.x).max()
    np.testing.assert_allclose(run.workers[-1], history.x[-1], rtol=1e-12, atol=1e-12 * scale)
    assert run.messages is not None
    assert run.broadcasts is not None
    np.testing.assert_allclose(run.broadcasts[-1], history.mean, rtol=0, atol=1e-12 * np.abs(history.mean).max())
    watched = history.messages[:, 2]
    np.testing.assert_allclose(run.messages[-1], watched, rtol=1e-12, atol=1e-12 * np.abs(watched).max())


@cases.tiny_shards
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["box_l1", "simplex"])
@pytest.mark.parametrize("least_in_column", [0, 10])
def test_blocks_of_two_lines(
    dtype: str, threads: int, name: str, least_in_column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sparse runs in float64 ride sixteen to a block, the few left over eight, and sums go by columns or by rows."""
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    monkeypatch.setattr(layouts, "LEAST_IN_COLUMN", least_in_column)
    ordered, order = [], gradient.order_by_columns

    def noted(samples: gradient.SparseSamples) -> None:
        ordered.append(samples.tile)
        order(samples)

    monkeypatch.setattr(gradient, "order_by_columns", noted)
    case = cases.make(name, layout="csr", sizes=UNEQUAL, dtype=dtype)
    record = [fl.Messages(2), fl.Every(4)]
    run = fl.solve(
        case.problem, BUDGET, rounds=9, repetitions=35, seed=4, common_noise=True, n_jobs=threads, record=record
    )
    few = fl.solve(case.problem, BUDGET, rounds=9, repetitions=8, seed=4, common_noise=True, n_jobs=1, record=record)
    assert ordered == ([gradient.TILE] if dtype == "float64" and least_in_column == 0 else [])
    for values, same in ((run.workers, few.workers), (run.means, few.means), (run.distance, few.distance)):
        np.testing.assert_array_equal(values[:8], same)
    assert run.messages is not None
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    for repetition in (0, 9, 15, 16, 31, 34):
        history = trajectory(case, run, repetition)
        scale = np.abs(history.messages).max()
        np.testing.assert_allclose(run.workers[repetition], history.x[-1], rtol=0, atol=tolerance * scale)
        np.testing.assert_allclose(run.messages[repetition], history.messages[:, 2], rtol=0, atol=tolerance * scale)


@pytest.mark.thorough
@cases.tiny_shards
@pytest.mark.parametrize("path", sorted(PATHS))
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_single_precision_follows_the_oracle(path: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise to single precision, so the same trajectory; off the grid, and the ledger says so."""
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    repetitions, threads = PATHS[path]
    case = cases.make("box_l1", layout=layout, sizes=UNEQUAL, dtype="float32")
    run = fl.solve(case.problem, BUDGET, rounds=21, repetitions=repetitions, seed=4, common_noise=True, n_jobs=threads)
    assert run.ledger is not None
    assert np.isnan(run.ledger.grids).all()
    assert np.isnan(run.ledger.sampler_delta)
    assert "float32, off the grid" in run.ledger.summary()
    history = trajectory(case, run, repetitions - 1)
    scale = np.abs(history.x).max()
    # Twenty-one rounds of numbers of this scale, each rounded to 6e-8 a few hundred times.
    np.testing.assert_allclose(run.workers[-1], history.x[-1], atol=2e-4 * scale)
    assert not np.array_equal(run.workers[-1], history.x[-1])


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(cases.REGULARIZERS))
def test_single_precision_converges(name: str) -> None:
    problem = cases.make(name, l2=1.0, dtype="float32").problem
    for repetitions in (1, 2):
        run = fl.solve(problem, rounds=600, repetitions=repetitions, record=fl.Final())
        x_star = problem.optimum()
        assert np.linalg.norm(run.x[0] - x_star) <= 2e-5 * np.linalg.norm(x_star)


def test_sample_lanes_change_only_the_rounding() -> None:
    problem = cases.make("box_l1", sizes=(40, 33)).problem
    alone = fl.solve(problem, BUDGET, rounds=300, seed=1)
    among = fl.solve(problem, BUDGET, rounds=300, repetitions=2, seed=1)
    # The grid swallows the difference of the gradients, so that even the bits are the same, or next to always.
    np.testing.assert_allclose(alone.means[0], among.means[0], rtol=1e-10, atol=1e-10)
    exact, others = fl.solve(problem, rounds=300), fl.solve(problem, rounds=300, repetitions=2)
    np.testing.assert_allclose(exact.means[0], others.means[0], rtol=1e-10, atol=1e-10)
    assert not np.array_equal(exact.means[0], others.means[0])


def a_run(problem: Composite, rounds: int, seed: int, *, step: float, epsilon: float, every: int = 7) -> Runs:
    schedule = fl.PrimalDual(step=step).schedule(problem, fl.Budget(epsilon, 1e-4), rounds)
    timetable = recording.timetable(fl.Every(every), rounds, problem.n)
    x0 = np.full(problem.d, 0.01 * seed)
    return Runs(problem, schedule, x0, key_of(seed, 0)[None], timetable, problem.optimum())


def mixed_runs() -> list[Runs]:
    """Runs over the same data that differ in all that runs of a block may differ in."""
    base = cases.make("box_l1", sizes=UNEQUAL).problem
    problems = [
        base.replace(
            l2=0.1 + 0.02 * k, gradient_bound=1.0 + 0.1 * k, regularizer=fl.BoxL1(0.001 * (k + 1), 0.3 + 0.05 * k)
        )
        for k in range(11)
    ]
    return [
        a_run(problem, 20 + 13 * (k % 5), k, step=0.05 + 0.01 * k, epsilon=0.5 + k, every=3 + k)
        for k, problem in enumerate(problems)
    ]


def results(runs: list[Runs]) -> list[tuple[Any, ...]]:
    return [
        (run.workers.copy(), run.means.copy(), run.consensus.copy(), run.distance.copy(), run.done.copy())
        for run in runs
    ]


def execute(runs: list[Runs], n_jobs: int) -> list[tuple[Any, ...]]:
    driving.execute(runs[0].problem, runs, n_jobs=n_jobs, advanced=lambda count: None, stop=threading.Event())
    return results(runs)


def test_a_run_has_the_same_bits_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Different horizons, steps, budgets, starts, l2, weights, boxes, bounds and records share blocks."""
    together = execute(mixed_runs(), 1)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 18_500)  # five rounds
    spread = execute(list(reversed(mixed_runs())), 2)[::-1]
    lonely = []
    for run in mixed_runs():
        single = block.Block(layouts.samples_in_lanes(run.problem, 1), [Lane(run, 0)])
        for end in single.ends(4):
            single.advance(end, threads=2)
        lonely += results([run])
    for one, two, three in zip(together, spread, lonely, strict=True):
        for a, b, c in zip(one, two, three, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


@cases.tiny_shards
@pytest.mark.parametrize(
    "method",
    [
        fl.PrimalDual(),
        fl.DPScaffold(0.05, 2),
        fl.LDPFedEXP(0.05, 2),
        fl.DPScaffNew(0.05, 0.3),
        fl.ISRLDP(0.05, accelerated=True),
    ],
    ids=repr,
)
def test_records_are_the_same_whether_one_call_makes_them_all(method: Any) -> None:
    problem = cases.make("zero", sizes=UNEQUAL).problem
    schedule = method.schedule(problem, BUDGET, 60)
    timetable = recording.timetable(fl.Every(7), 60, problem.n)
    found = []
    for ends in ([60], list(range(1, 61)), timetable.rounds.tolist(), [5, 14, 50, 60]):
        runs = Runs(problem, schedule, np.zeros(problem.d), key_of(3, 0)[None], timetable, problem.optimum())
        laid = block.Block(layouts.samples_in_rows(problem), [Lane(runs, 0)])
        for end in ends:
            laid.advance(end)
        assert np.isfinite(runs.means).all()
        found += results([runs])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_segments_end_where_runs_end_and_before_records_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.make("zero", sizes=UNEQUAL).problem
    runs = [a_run(problem, rounds, 3, step=0.1, epsilon=1.0, every=10) for rounds in (60, 45)]
    laid = block.Block(layouts.samples_in_rows(problem), [Lane(run, 0) for run in runs])
    assert laid.ends(1000) == [45, 60]
    assert laid.ends(25) == [25, 45, 50, 60]
    assert laid.ends(1000, at_records=True) == [10, 20, 30, 40, 45, 50, 60]
    assert laid.ends(1000, limit=30) == [30]
    monkeypatch.setattr(block, "MOST_RECORDS", 2)
    assert laid.ends(1000) == [20, 40, 45, 50, 60]
    laid.advance(20)
    assert laid.ends(1000) == [40, 45, 50, 60]


@cases.tiny_shards
def test_nothing_is_recorded_after_a_failure() -> None:
    problem = cases.make("zero", sizes=UNEQUAL).problem
    lost, sound = (fl.ISRLDP(step).schedule(problem, BUDGET, 40) for step in (1e300, 0.05))
    timetable = recording.timetable(fl.Every(1), 40, problem.n)
    runs = [
        Runs(problem, schedule, np.zeros(problem.d), key_of(3, 0)[None], timetable, problem.optimum())
        for schedule in (lost, sound)
    ]
    laid = block.Block(layouts.samples_in_rows(problem), [Lane(run, 0) for run in runs])
    laid.advance(40)
    failed = int(runs[0].failed[0])
    assert 0 < failed < 40
    assert np.isfinite(runs[0].means[0, : failed - 1]).all()
    for column in (runs[0].means, runs[0].consensus, runs[0].distance):
        assert np.isnan(column[0, failed:]).all()
    assert np.isfinite(runs[1].means).all()


@cases.tiny_shards
def test_blocks_are_used_again() -> None:
    """Forty short runs, five blocks of them in turn in one layout, and each with its own bits."""
    problem = cases.make("box_l1", sizes=UNEQUAL).problem
    kept = [fl.Every(4), fl.Messages(1)]
    given: dict[str, Any] = {"rounds": 9, "seed": 3, "common_noise": True, "record": kept}
    many = fl.solve(problem, BUDGET, repetitions=40, **given)
    few = fl.solve(problem, BUDGET, repetitions=3, **given)
    for values, same in ((many.means, few.means), (many.messages, few.messages), (many.workers, few.workers)):
        assert values is not None
        assert same is not None
        np.testing.assert_array_equal(values[:3], same)
    assert many.messages is not None
    assert len(np.unique(many.messages)) == many.messages.size
    runs = Runs(problem, *_parts(problem, 40))
    laid = block.Block(layouts.samples_in_rows(problem), [Lane(runs, k) for k in range(8)])
    laid.advance(9)
    assert laid.reuse([Lane(runs, k) for k in range(32, 40)])
    laid.advance(9)
    np.testing.assert_array_equal(runs.workers[32:], many.workers[32:])
    # Not with other lanes filled, nor with another run.
    assert not laid.reuse([Lane(runs, k) for k in range(7)])
    assert not laid.reuse([Lane(Runs(problem, *_parts(problem, 40)), k) for k in range(8)])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "method",
    [
        fl.PrimalDual(),
        fl.ISRLDP(0.3),
        fl.DPScaffold(0.1, 2, warm_start=True),
        fl.LDPFedEXP(0.1, 2),
        fl.DPScaffNew(0.2, 0.4),
    ],
    ids=lambda method: type(method).__name__,
)
def test_a_block_that_is_used_again_begins_anew(method: fl.Method) -> None:
    """From a start of its own, and after other runs: the bits are those of a block that has run nothing before."""
    problem = cases.make("zero").problem
    schedule, start = method.schedule(problem, BUDGET, 9), np.linspace(-0.5, 1.0, problem.d)
    keys = np.stack([key_of(3, repetition) for repetition in range(16)])
    common = schedule, start, keys, recording.timetable(fl.Every(4), 9, problem.n), problem.optimum()
    again, anew = Runs(problem, *common), Runs(problem, *common)
    lanes = layouts.samples_in_rows(problem)
    used = block.Block(lanes, [Lane(again, k) for k in range(8)])
    used.advance(9)
    assert used.reuse([Lane(again, k) for k in range(8, 16)])
    for laid in (used, block.Block(lanes, [Lane(anew, k) for k in range(8, 16)])):
        laid.advance(9)
    np.testing.assert_array_equal(again.workers[8:], anew.workers[8:])
    np.testing.assert_array_equal(again.means[8:], anew.means[8:])


def _parts(problem: fl.Problem, repetitions: int) -> tuple[Any, ...]:
    keys = np.stack([key_of(3, repetition) for repetition in range(repetitions)])
    schedule = fl.PrimalDual().schedule(problem, BUDGET, 9)
    return schedule, np.zeros(problem.d), keys, recording.timetable(fl.Every(4), 9, problem.n), problem.optimum()


def test_packing_is_longest_first_and_keeps_kinds_apart() -> None:
    runs = mixed_runs()
    packs = driving.pack(runs, 8)
    assert [len(mates) for mates in packs] == [8, 3]
    lengths = [lane.runs.rounds for mates in packs for lane in mates]
    assert lengths == sorted(lengths, reverse=True)
    assert [len(mates) for mates in driving.pack(runs, 4, lines=2)] == [8, 3]
    noiseless = a_run(runs[0].problem, 10, 0, step=0.1, epsilon=1.0)
    noiseless.schedule = fl.PrimalDual().schedule(runs[0].problem, None, 10)
    assert len(driving.pack([*runs, noiseless], 8)) == 3
    # Other data, and the same data in other shards, are other kinds too.
    elsewhere = a_run(cases.make("box_l1").problem, 10, 0, step=0.1, epsilon=1.0)
    assert len(driving.pack([*runs, elsewhere], 8)) == 3


def test_blocks_are_as_wide_as_registers_and_cores_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where data lie beyond a core's caches; and of wide blocks none is half empty, and no core has none."""
    A, b = np.ones((100, 400)), np.ones(100)
    dense, single = (fl.Problem(A, b, workers=2, dtype=dtype) for dtype in ("float64", "float32"))
    monkeypatch.setattr(hardware, "second_level_bytes", lambda: 100 * 400 * 8 - 1)
    monkeypatch.setattr(hardware, "vector_registers", lambda: (32, 64))
    runs = (1, 8, 9, 16, 24, 25, 32, 33, 64, 160)
    assert [driving.lines_of(dense, count, 2) for count in runs] == [1, 1, 1, 1, 1, 2, 2, 1, 2, 2]
    assert [driving.lines_of(dense, count, 1) for count in runs] == [1, 1, 2, 2, 1, 2, 2, 1, 2, 2]
    assert driving.lines_of(dense) == driving.lines_of(single, 32) == 1
    for held in ((16, 32), (16, 16), (32, 16)):
        monkeypatch.setattr(hardware, "vector_registers", lambda held=held: held)
        assert driving.lines_of(dense, 32, 2) == 1
    monkeypatch.setattr(hardware, "vector_registers", lambda: (32, 64))
    monkeypatch.setattr(hardware, "second_level_bytes", lambda: 100 * 400 * 8)
    assert driving.lines_of(dense, 32, 2) == 1
    assert driving.lines_of(fl.Problem(sparse.csr_array(A), b, workers=2)) == 2


@pytest.mark.parametrize("sizes", [(40, 41, 55), (1,) * 30])
def test_wide_blocks_of_dense_rows_have_the_bits_of_narrow_ones(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = cases.make("box_l1", sizes=sizes).problem
    narrow = fl.solve(problem, BUDGET, rounds=7, repetitions=13, seed=2, n_jobs=1)
    monkeypatch.setattr(driving, "far", lambda size: True)
    monkeypatch.setattr(driving, "sums_fit", lambda lines: True)
    assert driving.lines_of(problem, 13) == 2
    wide = fl.solve(problem, BUDGET, rounds=7, repetitions=13, seed=2, n_jobs=1)
    np.testing.assert_array_equal(wide.workers, narrow.workers)
    np.testing.assert_array_equal(wide.optimality, narrow.optimality)


def test_tiny_shards_do_not_fill_memory_with_padding() -> None:
    case = cases.make("box_l1", sizes=(1,) * 30)
    assert layouts.padding(case.problem) == 8.0
    run = fl.solve(case.problem, BUDGET, rounds=15, seed=4, common_noise=True)
    history = trajectory(case, run, 0)
    np.testing.assert_allclose(run.workers[0], history.x[-1], rtol=1e-12, atol=1e-12 * np.abs(history.x).max())


def test_recording_every_round_of_a_run_alone_changes_nothing() -> None:
    """Its noise is drawn for several rounds at once, across the ends of segments."""
    problem = cases.make("box_l1", sizes=(40, 33)).problem
    every = fl.solve(problem, BUDGET, rounds=37, seed=1, record=fl.Every(1))
    last = fl.solve(problem, BUDGET, rounds=37, seed=1, record=fl.Final())
    np.testing.assert_array_equal(every.workers, last.workers)


# The edges of single precision


def test_single_precision_survives_a_long_horizon() -> None:
    """Its early noise would overflow; capped, it spends as little as nothing."""
    problem = cases.make("box_l1", l2=1.0, dtype="float32").problem
    run = fl.solve(problem, BUDGET, rounds=20_000, repetitions=2, seed=0, record=fl.Final())
    assert run.status.ok
    assert run.ledger is not None
    assert run.ledger.spent_rho == pytest.approx(run.ledger.rho, rel=1e-12)


def test_single_precision_refuses_what_it_cannot_hold() -> None:
    A = np.eye(3)
    with pytest.raises(fl.errors.DataError, match="overflow in float32"):
        fl.Problem(1e20 * A, [1, -1, 1], workers=1, dtype="float32")
    problem = fl.Problem(A, [1, -1, 1], workers=1, dtype="float32")
    with pytest.raises(fl.errors.ArgumentError, match="^x0 = .*overflow in float32"):
        fl.solve(problem, rounds=1, x0=np.full(3, 1e20))


@pytest.mark.parametrize("repetitions", [1, 2])
def test_rows_too_small_to_invert_are_counted_once(repetitions: int) -> None:
    problem = fl.Problem([[1e-40]], [1e30], workers=1, loss="squared", dtype="float32", regularizer=fl.Box(1.0))
    run = fl.solve(problem, rounds=1, repetitions=repetitions, algorithm=fl.PrimalDual(step=0.25))
    assert run.x[0, 0] == pytest.approx(2.5e-11, rel=1e-4)


def test_a_last_round_that_overflows_only_in_the_dual_is_seen() -> None:
    A = np.random.default_rng(0).standard_normal((40, 5))
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=4, l2=0.1, regularizer=fl.Box(1.0))
    for horizon in range(505, 520):
        with pytest.warns(fl.errors.StepWarning):
            run = fl.solve(problem, rounds=horizon, repetitions=2, algorithm=fl.PrimalDual(step=5.0), throw=False)
        assert run.status.ok == np.isfinite(run.workers).all()
    assert not run.status.ok


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("name", ["box_l1", "simplex"])
def test_no_round_allocates(layout: str, alone: bool, name: str) -> None:
    problem = cases.make(name, layout=layout).problem
    run = a_run(problem, 200, 3, step=0.1, epsilon=1.0)
    in_panels = alone and layout == "dense"
    samples = layouts.samples_in_panels(problem) if in_panels else layouts.samples_in_rows(problem)
    laid = block.Block(samples, [Lane(run, 0)], alone=alone)

    def allocations(rounds: int) -> int:
        before = runtime.memsys_get_stats_alloc()
        laid.advance(laid.done + rounds)
        return int(runtime.memsys_get_stats_alloc() - before)

    runtime.memsys_enable_stats()
    try:
        allocations(3)  # compiles
        assert allocations(4) == allocations(150)
    finally:
        runtime.memsys_disable_stats()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("repetitions", [1, 32])
def test_memory_beside_the_data(layout: str, dtype: str, repetitions: int) -> None:
    """Three arrays of a block's size at most, however many blocks take turns, and the results.

    And what the layout adds: a copy of the data in single precision, panels for a dense run alone, and of sparse data
    short column numbers, and an order by columns for sixteen runs.
    """
    rng = np.random.default_rng(0)
    n, m, d = 40, 60, 300
    A = rng.standard_normal((n * m, d))
    A[rng.random(A.shape) < (0.7 if layout == "csr" else 0.0)] = 0.0
    data: Any = sparse.csr_array(A) if layout == "csr" else A
    problem = fl.Problem(data, np.where(A[:, 0] > 0, 1.0, -1.0), workers=n, l2=1.0, dtype=dtype)
    entries, item = np.count_nonzero(A), np.dtype(dtype).itemsize
    step = fl.PrimalDual(step=problem.step_limit)
    problem.optimum()

    def peak() -> int:
        tracemalloc.start()
        try:
            fl.solve(problem, BUDGET, rounds=3, repetitions=repetitions, algorithm=step, record=fl.Final(), n_jobs=1)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak()  # what is made once and kept, and compilation
    lines = driving.lines_of(problem, repetitions, cores=1) if repetitions > 1 else 1
    lanes = lines * layouts.lanes_of(problem)
    block_of = (3 * n + 10) * d * lanes * item + n * d * lanes  # rows for the server and to work in, and flags
    results = repetitions * n * d * 8
    copies = (layout == "dense" and repetitions == 1) or dtype == "float32"
    order = (2 if layout == "csr" else 0) * entries
    order += 3 * entries if layout == "csr" and dtype == "float64" and repetitions > 1 else 0
    a_sample = 10 * 8 * n * m  # its norm, where it starts, and so on
    assert peak() <= block_of + results + copies * entries * item + order + a_sample


def test_threads_take_about_equally_many_samples() -> None:
    problem = cases.make("box", sizes=(30, 1, 1, 1, 1, 30, 2, 2)).problem
    run = a_run(problem, 10, 0, step=0.1, epsilon=1.0)
    laid = block.Block(layouts.samples_in_rows(problem), [Lane(run, 0)])
    for threads in (1, 2, 3, 20):
        cuts = laid._cuts(threads)
        assert cuts[0] == 0
        assert cuts[-1] == 8
        assert (np.diff(cuts) > 0).all()
    assert laid._cuts(2).tolist() == [0, 4, 8] or laid._cuts(2).tolist() == [0, 5, 8]


@pytest.mark.skipif(jit.config.NUMBA_NUM_THREADS < 2, reason="Numba has one thread here")
@pytest.mark.parametrize("repetitions", [1, 8, 20, 41])
def test_blocks_times_threads_are_never_more_than_the_cores(repetitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one core or two: whole waves of blocks take a thread each, and what is left over shares all of them."""
    monkeypatch.setattr(driving, "SHORT_BLOCK", 0.0)
    monkeypatch.setattr(driving, "SHORT_JOB", 0.0)
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    monkeypatch.setattr(driving, "available_cores", lambda: 2)
    busy, most, lock, advance = [0], [0], threading.Lock(), block.Block.advance
    all_busy = threading.Event()

    def counted(self: block.Block, end: int, *, threads: int = 1) -> None:
        with lock:
            busy[0] += threads
            most[0] = max(most[0], busy[0])
            if busy[0] >= cores:
                all_busy.set()
        try:
            all_busy.wait(cases.HANGING)  # so that blocks do meet; without end only where they cannot
            advance(self, end, threads=threads)
        finally:
            with lock:
                busy[0] -= threads

    monkeypatch.setattr(block.Block, "advance", counted)
    problem = cases.make("box_l1").problem
    for cores in (1, 2):
        most[0] = 0
        all_busy.clear()
        fl.solve(problem, BUDGET, rounds=20, repetitions=repetitions, seed=1, n_jobs=cores, record=fl.Every(5))
        assert most[0] == cores


def test_what_a_block_on_a_thread_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error itself, and neither thread begins another block after it."""
    monkeypatch.setattr(driving, "SHORT_BLOCK", 0.0)
    monkeypatch.setattr(driving, "SHORT_JOB", 0.0)
    monkeypatch.setattr(driving, "available_cores", lambda: 2)
    begun = []

    def out_of_memory(self: block.Block, end: int, *, threads: int = 1) -> None:
        begun.append(self)
        raise MemoryError("no room for this block")

    monkeypatch.setattr(block.Block, "advance", out_of_memory)
    case = cases.make("box_l1")
    with pytest.raises(MemoryError, match="no room for this block"):
        fl.solve(case.problem, BUDGET, rounds=20, repetitions=64, seed=1, n_jobs=2)
    assert len(begun) <= 2
