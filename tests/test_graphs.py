"""Workers on a graph in place of a server: against the oracle with W written out, and the same bits however cut."""

import math
import threading
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import cases
import fastldp as fl
import naive
import sweeps
from fastldp.cli import main
from fastldp.engine import between, block, driving, layouts, recording
from fastldp.engine.runs import Lane, Runs
from fastldp.errors import ArgumentError, ExtensionError, TooLargeError, UnknownNameError
from fastldp.kernels.chacha import key_of
from fastldp.kernels.release import PUBLIC_BITS
from fastldp.lanes import apart, load, mean_over_workers, prox, store
from fastldp.topology import OF_LINK

BUDGET = fl.Budget(1.0, 1e-4)
SIZES = (5, 14, 9, 7, 11, 6, 8)
# How a run can be executed: alone with its samples in the lanes, or in run lanes, on one thread or more.
PATHS = {"alone": (1, 1), "alone, two threads": (1, 2), "lanes": (3, 1), "two lines of lanes": (11, 2)}


def links(name: str, n: int) -> list[tuple[int, int]]:
    """Those of the graphs that have a rule."""
    if name == "complete":
        return [(i, k) for i in range(n) for k in range(i + 1, n)]
    if name == "ring":
        return sorted({(min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n)} - {(0, 0)})
    if name == "star":
        return [(0, k) for k in range(1, n)]
    width = int(np.ceil(np.sqrt(n)))
    places = {divmod(i, width): i for i in range(n)}
    beside = [(i, places.get((row, column + 1))) for (row, column), i in places.items()]
    below = [(i, places.get((row + 1, column))) for (row, column), i in places.items()]
    return sorted((i, k) for i, k in beside + below if k is not None)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 9, 20])
@pytest.mark.parametrize("name", ["complete", "ring", "grid", "star"])
def test_named_graphs_have_the_oracles_weights(name: str, n: int) -> None:
    W = fl.Graph.of(name).matrix(n).toarray()
    np.testing.assert_allclose(W, naive.metropolis(n, links(name, n)), rtol=0, atol=1e-15)
    assert W.min() >= 0
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1.0, rtol=0, atol=1e-14)
    if name == "complete":
        np.testing.assert_allclose(W, np.full((n, n), 1 / n), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("n", "degree"), [(9, 2), (10, 3), (6, 4), (7, 6), (30, 8), (300, 5)])
def test_random_graphs_have_their_degree_and_are_connected(n: int, degree: int) -> None:
    graphs = [fl.Graph.random(degree, seed) for seed in range(5)]
    for graph in graphs:
        pairs = graph.pairs(n)
        assert (np.bincount(pairs.ravel(), minlength=n) == degree).all()
        assert (pairs[:, 0] < pairs[:, 1]).all()
        assert len(np.unique(pairs, axis=0)) == len(pairs) == n * degree // 2
        reached = np.linalg.matrix_power(graph.matrix(n).toarray(), n)
        assert reached.min() > 0
    np.testing.assert_array_equal(graphs[0].pairs(n), fl.Graph.of(f"random:{degree}").pairs(n))
    if degree < n - 1:
        assert len({graph.pairs(n).tobytes() for graph in graphs}) > 1


def test_random_links_are_drawn_alike_for_ever() -> None:
    """Results of a seed can be made again: the draw is part of what a version promises."""
    found = fl.Graph.of("random:3:5").pairs(8).tolist()
    assert found == [[0, 3], [0, 6], [0, 7], [1, 2], [1, 4], [1, 6], [2, 4], [2, 5], [3, 5], [3, 7], [4, 5], [6, 7]]


class Networkx:
    """What of a networkx graph is looked at."""

    def __init__(self, nodes: list[Any], edges: list[tuple[Any, Any]], *, directed: bool = False) -> None:
        self.nodes, self._edges, self._directed = nodes, edges, directed

    def edges(self) -> list[tuple[Any, Any]]:
        return self._edges

    def is_directed(self) -> bool:
        return self._directed


def test_graphs_of_ones_own() -> None:
    n = len(SIZES)
    W = naive.metropolis(n, links("grid", n))
    lazy = (np.eye(n) + W) / 2
    for given in (lazy, sparse.csr_array(lazy), sparse.coo_matrix(lazy)):
        np.testing.assert_allclose(fl.Graph.of(given).matrix(n).toarray(), lazy, rtol=0, atol=1e-15)
    assert fl.Graph.of(lazy) == fl.Graph.of(sparse.csr_array(lazy)) != fl.Graph.of(W)
    numbered = Networkx([*range(n)][::-1], [(k, i) for i, k in links("grid", n)])
    named = Networkx([*"abcdefg"], [("abcdefg"[i], "abcdefg"[k]) for i, k in links("grid", n)] + [("b", "b")])
    for graph in (numbered, named):
        np.testing.assert_allclose(fl.Graph.of(graph).matrix(n).toarray(), W, rtol=0, atol=1e-15)
    assert repr(fl.Graph.of(W)) == "<Graph of 7 workers, 8 links>"


SKEWED = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]])
APART = np.kron(np.eye(2), np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    ("topology", "told"),
    [
        ("rign", "ring"),
        ("random", "DEGREE"),
        ("random:x", "DEGREE"),
        ("ring:3", "DEGREE"),
        ("random:1", "≥ 2"),
        ("random:4:-1", "≥ 0"),
        (7, "networkx"),
        (SKEWED, r"W\[0, 1\] = 0.5 and W\[1, 0\] = 0.25"),
        (APART, "from worker 0 to worker 2"),
        (np.full((3, 3), 0.25), "row 0 to 0.75"),
        (np.array([[1.5, -0.5], [-0.5, 1.5]]), "≥ 0"),
        (np.ones((2, 3)) / 3, "row and a column"),
        (np.full((2, 2), np.nan), "finite"),
        (np.full((2, 2), 0.5, dtype=object), "finite real numbers"),
        (sparse.coo_array(np.array([0.5, 0.5])), r"row and a column for each worker, not \(2,\)"),
        (np.array([[1 - 1e-12, 1e-12], [1e-12, 1 - 1e-12]]), "from worker 0 to worker 1"),
        (np.full((3, 3), 1 / 3, np.float32), "row 0 to 1.00000003"),
        (Networkx([0, 1], [(0, 1)], directed=True), "to_undirected"),
        (Networkx([0, 1, 2], [(0, 1)]), "worker 2"),
        (Networkx([], []), "no nodes"),
    ],
)
def test_what_is_no_graph_is_refused(topology: Any, told: str) -> None:
    with pytest.raises((ArgumentError, UnknownNameError), match=told):
        fl.PrimalDual(topology=topology)


@pytest.mark.parametrize(
    ("given", "workers", "told"),
    [
        ({"topology": "random:9"}, 7, "at most 6 neighbours"),
        ({"topology": "random:3"}, 7, "odd"),
        ({"topology": naive.metropolis(3, [(0, 1), (1, 2)])}, 7, "of 3 workers"),
        ({"topology": "ring", "failures": 1.0}, 7, "below 1"),
        ({"failures": 0.1}, 7, 'topology="ring"'),
        ({"topology": "ring", "clip": "adaptive"}, 7, "counts"),
    ],
)
def test_what_no_run_can_have_is_refused_before_it(given: dict[str, Any], workers: int, told: str) -> None:
    problem = cases.make("box_l1", sizes=SIZES[:workers]).problem
    for budget in (BUDGET, None):
        with pytest.raises(ArgumentError, match=told):
            fl.solve(problem, budget, rounds=3, algorithm=fl.PrimalDual(**given))


def test_what_rounding_makes_of_weights_is_no_matter() -> None:
    given = np.array([[-1e-17, 1.0], [1.0, -1e-17]])
    assert fl.Graph.of(given).matrix(2).toarray().tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_words_and_rates_are_refused_or_not_as_what_they_mean() -> None:
    sampled = fl.PrimalDual(topology="ring", sampling=0.5)
    assert sampled.sampling == fl.Sampling(0.5)
    assert fl.PrimalDual(topology="ring", sampling=1.0).sampling is None
    for given in ({"clip": "adaptive"}, {"sampling": fl.Sampling(workers=0.5)}):
        with pytest.raises(ArgumentError, match="on a graph"):
            fl.PrimalDual(topology="ring", **given)
        # The complete graph without failures is a server, which has both.
        assert repr(fl.PrimalDual(topology="complete", **given)) == repr(fl.PrimalDual(**given))


def test_links_that_nearly_always_fail_are_there_now_and_then() -> None:
    problem = cases.make("box_l1", sizes=SIZES).problem
    method = fl.PrimalDual(topology="ring", failures=1 - 1e-12)
    schedules = [method.schedule(problem, BUDGET, 5)]
    laid = between.links_of(schedules, lambda values: np.array(list(values))[None], np.zeros)
    assert 0 < 1 - laid.chance[0, 0] / 2**PUBLIC_BITS < 1e-6


def test_links_beyond_memory_are_refused_before_they_are_made() -> None:
    with pytest.raises(TooLargeError, match="topology = 'complete'.*fewer links"):
        fl.Graph.complete().mixing(10**7)
    tracemalloc.start()
    laid = fl.Graph.complete().mixing(300)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most <= laid.links * OF_LINK + 10**5


def test_parameters_say_what_is_given() -> None:
    assert repr(fl.PrimalDual(topology="complete")) == repr(fl.PrimalDual())
    assert "topology" not in repr(fl.PrimalDual())
    method = fl.PrimalDual(topology="random:4", failures=0.1)
    assert repr(method).endswith("topology=Graph.random(degree=4, seed=0), failures=0.1)")
    assert fl.PrimalDual(topology="ring", failures=0).failures is None
    assert fl.PrimalDual(topology="complete", failures=0.5).topology == fl.Graph.complete()


def mixed(case: cases.Case, run: fl.Solution, W: NDArray[Any], failures: float = 0.0) -> naive.Mixed:
    """The oracle's, of the last repetition."""
    deviations = np.zeros((case.problem.n, int(run.rounds[-1])))
    if run.ledger is not None:
        deviations = np.broadcast_to(np.sqrt(run.ledger.variances), deviations.shape)
    x0 = case.problem.regularizer.prox(np.zeros(case.problem.d), 0.0)
    given = case.shards, case.loss, case.l2, case.g, x0, case.problem.step_limit, deviations, W, 4, len(run.x) - 1
    return naive.gossip(*given, case.problem.dtype == "float64", weighting=case.weighting, failures=failures)


@cases.tiny_shards
@pytest.mark.parametrize("path", sorted(PATHS))
@pytest.mark.parametrize(
    ("topology", "failures", "layout", "name", "weighting"),
    [
        ("ring", None, "dense", "box_l1", "uniform"),
        ("grid", 0.4, "csr", "l1_ball", "rows"),
        ("star", None, "csr", "zero", "rows"),
        ("complete", 0.7, "dense", "box_l1", "uniform"),
        ("random:4:3", 0.1, "dense", "box_l1", "uniform"),
    ],
)
def test_every_path_is_the_oracles(
    topology: str,
    failures: float | None,
    layout: str,
    name: str,
    weighting: str,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    repetitions, threads = PATHS[path]
    case = cases.make(name, layout=layout, sizes=SIZES, weighting=weighting)
    n, worker = case.problem.n, 2
    run = fl.solve(
        case.problem,
        BUDGET,
        rounds=19,
        algorithm=fl.PrimalDual(topology=topology, failures=failures),
        repetitions=repetitions,
        seed=4,
        common_noise=True,
        n_jobs=threads,
        record=[fl.Messages(worker), fl.Every(5)],
    )
    given = fl.Graph.of(topology).pairs(n).tolist() if "random" in topology else links(topology, n)
    history = mixed(case, run, naive.metropolis(n, [(i, k) for i, k in given]), failures or 0.0)
    scale = np.abs(history.x).max()
    np.testing.assert_allclose(run.workers[-1], history.x[-1], rtol=1e-12, atol=1e-12 * scale)
    assert run.messages is not None
    assert run.broadcasts is not None
    size = np.abs(history.messages).max()
    np.testing.assert_allclose(run.messages[-1], history.messages[:, worker], rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(run.broadcasts[-1], history.heard[:, worker], rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(run.consensus[-1, -1], naive.consensus(history.x[-1]), rtol=1e-9)


@pytest.mark.parametrize("topology", ["complete", "ring", "grid", "star", "random:4:1"])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("failures", [None, pytest.param(0.3, marks=pytest.mark.thorough)])
def test_without_noise_every_graph_comes_to_the_optimum(topology: str, lazy: bool, failures: float | None) -> None:
    problem = cases.make("box_l1", sizes=(12,) * 9, l2=1.0).problem
    graph: Any = fl.Graph.of(topology)
    if lazy:
        graph = (sparse.eye_array(9) + graph.matrix(9)) / 2
    run = fl.solve(problem, rounds=6000, algorithm=fl.PrimalDual(topology=graph, failures=failures), record=fl.Final())
    assert run.optimality[0, -1] < 1e-20
    assert run.consensus[0, -1] < 1e-20


def test_the_complete_graph_is_a_server_bit_by_bit_or_up_to_rounding() -> None:
    problem = cases.make("box_l1").problem
    common: dict[str, Any] = {"rounds": 40, "repetitions": 2, "seed": 4}
    server = fl.solve(problem, BUDGET, **common)
    named = fl.solve(problem, BUDGET, algorithm=fl.PrimalDual(topology="complete"), **common)
    np.testing.assert_array_equal(server.workers, named.workers)
    # With links that may be missing it goes over the links of a graph, and nearly none ever is.
    over_links = fl.PrimalDual(topology="complete", failures=1e-9)
    common |= {"common_noise": True}
    server, linked = (fl.solve(problem, BUDGET, algorithm=method, **common) for method in (fl.PrimalDual(), over_links))
    np.testing.assert_allclose(linked.workers, server.workers, rtol=1e-11, atol=1e-11)
    assert not np.array_equal(linked.workers, server.workers)


@pytest.mark.parametrize("failures", [None, 0.3])
@pytest.mark.parametrize(
    ("name", "loss", "budget"),
    [
        ("box_l1", "logistic", BUDGET),
        ("box_l1", "logistic", fl.Budget(0.01, 1e-4)),
        ("zero", "squared", None),
        ("l2_ball", "squared", BUDGET),
    ],
)
def test_the_duals_sum_to_zero_bit_by_bit(name: str, loss: str, budget: fl.Budget | None, failures: Any) -> None:
    """The exact sum of all duals, of whatever size; of sums that round it is not zero, as the oracle's shows."""
    case = cases.make(name, loss=loss, sizes=(12,) * 7)
    method = fl.PrimalDual(topology="grid", failures=failures)
    timetable = recording.timetable(fl.Every(10), 500, 7)
    runs = Runs(
        case.problem,
        method.schedule(case.problem, budget, 500),
        np.zeros(9),
        np.stack([key_of(4, repetition) for repetition in range(2)]),
        timetable,
        np.zeros(9),
    )
    laid = block.Block(layouts.samples_in_lanes(case.problem, 2), [Lane(runs, k) for k in range(2)])
    for end in (1, 2, 50, 500):
        laid.advance(end)
        duals = laid._kept("dual")[..., :2]
        assert (np.abs(duals).max(axis=0) > 0).all()
        assert {math.fsum(duals[:, j, run]) for j in range(9) for run in range(2)} == {0.0}
    if budget is BUDGET and failures is None and loss == "logistic":
        solved = fl.solve(case.problem, budget, rounds=100, algorithm=method, seed=4, common_noise=True)
        rounded = mixed(case, solved, naive.metropolis(7, links("grid", 7))).dual[-1]
        assert max(abs(math.fsum(rounded[:, j])) for j in range(9)) > 0


def some_runs(problem: fl.Problem, *, failing: bool) -> list[Runs]:
    """On one graph, of other steps, horizons, seeds and shares of failures."""
    found = []
    for k in range(11):
        method = fl.PrimalDual(step=0.05 + 0.01 * k, topology="random:4", failures=0.05 * (k + 1) if failing else None)
        schedule = method.schedule(problem, fl.Budget(0.5 + k, 1e-4), 20 + 13 * (k % 5))
        timetable = recording.timetable(fl.Every(3 + k), schedule.deviations.size, problem.n)
        x0 = np.full(problem.d, 0.01 * k)
        found.append(Runs(problem, schedule, x0, key_of(k, 0)[None], timetable, problem.optimum()))
    return found


def results(runs: list[Runs]) -> list[tuple[Any, ...]]:
    return [(run.workers.copy(), run.means.copy(), run.consensus.copy(), run.distance.copy()) for run in runs]


@cases.tiny_shards
@pytest.mark.parametrize("failing", [False, True])
def test_a_run_has_the_same_bits_in_any_company(failing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.make("box_l1", sizes=SIZES).problem

    def execute(runs: list[Runs], n_jobs: int) -> list[tuple[Any, ...]]:
        driving.execute(problem, runs, n_jobs=n_jobs, advanced=lambda count: None, stop=threading.Event())
        return results(runs)

    together = execute(some_runs(problem, failing=failing), 1)
    monkeypatch.setattr(driving, "SEGMENT_NANOSECONDS", 18_500)  # some rounds
    monkeypatch.setattr(driving, "PARALLEL_WORK", 0)
    spread = execute(list(reversed(some_runs(problem, failing=failing))), 2)[::-1]
    lonely = []
    for run in some_runs(problem, failing=failing):
        single = block.Block(layouts.samples_in_lanes(run.problem, 1), [Lane(run, 0)])
        for end in single.ends(4):
            single.advance(end, threads=2)
        lonely += results([run])
    for one, two, three in zip(together, spread, lonely, strict=True):
        for a, b, c in zip(one, two, three, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


def test_only_runs_of_one_graph_share_blocks() -> None:
    problem = cases.make("box_l1", sizes=SIZES).problem
    lazy = (sparse.eye_array(7) + fl.Graph.ring().matrix(7)) / 2
    methods = [fl.PrimalDual(), fl.PrimalDual(topology="complete")]
    methods += [fl.PrimalDual(topology=one) for one in ("ring", "star", "random:2:0", "random:2:1", lazy)]
    methods += [fl.PrimalDual(topology="ring", failures=share) for share in (0.1, 0.2)]
    methods += [fl.PrimalDual(step=0.1, topology="ring")]
    kinds = [method.schedule(problem, BUDGET, 9).program.kind for method in methods]
    assert len({*kinds}) == 7
    assert kinds[0] == kinds[1]
    assert kinds[2] == kinds[-1]
    assert kinds[-3] == kinds[-2]


@cases.tiny_shards
def test_a_run_goes_on_from_its_checkpoint() -> None:
    """After odd and even rounds: what neighbours read lies in turns."""
    problem = cases.make("box_l1", sizes=SIZES).problem
    method = fl.PrimalDual(topology="grid", failures=0.3)
    schedule, timetable = method.schedule(problem, BUDGET, 30), recording.timetable(fl.Every(7), 30, problem.n)

    def fresh() -> tuple[Runs, block.Block]:
        key = np.stack([key_of(3, repetition) for repetition in range(3)])
        runs = Runs(problem, schedule, np.zeros(problem.d), key, timetable, problem.optimum())
        return runs, block.Block(layouts.samples_in_rows(problem), [Lane(runs, k) for k in range(3)])

    whole, laid = fresh()
    laid.advance(30)
    for cut in (1, 8, 13):
        first, begun = fresh()
        begun.advance(cut)
        second, rest = fresh()
        rest.carry_on(cut, begun.memories([0, 1, 2]))
        rest.advance(30)
        np.testing.assert_array_equal(second.workers, whole.workers)
        kept = timetable.rounds > cut
        np.testing.assert_array_equal(second.means[:, kept], whole.means[:, kept])
        np.testing.assert_array_equal(first.means[:, ~kept], whole.means[:, ~kept])


@pytest.mark.filterwarnings("ignore::fastldp.errors.StepWarning")
def test_a_run_that_diverges_is_told_at_the_same_round_however_cut() -> None:
    problem = cases.make("zero", sizes=SIZES).problem
    schedule = fl.PrimalDual(topology="ring", step=1e30, allocation="static").schedule(problem, BUDGET, 60)
    timetable = recording.timetable(fl.Every(60), 60, problem.n)
    failed = set()
    for ends in ([60], list(range(1, 61)), [5, 9, 60]):
        runs = Runs(problem, schedule, np.zeros(problem.d), key_of(3, 0)[None], timetable, problem.optimum())
        laid = block.Block(layouts.samples_in_rows(problem), [Lane(runs, 0)])
        for end in ends:
            if not laid.over:
                laid.advance(end)
        laid.close()
        failed.add(int(runs.failed[0]))
    assert len(failed) == 1
    assert 0 < failed.pop() < 60


def test_links_fail_as_often_as_is_said_and_each_by_itself() -> None:
    """Of 90 links in 300 rounds, at both ends at once."""
    problem = cases.make("zero", sizes=(3,) * 10).problem
    method = fl.PrimalDual(topology="complete", failures=0.3)
    schedule = method.schedule(problem, None, 300)
    timetable = recording.timetable(fl.Final(), 300, problem.n)
    key = np.stack([key_of(3, repetition) for repetition in range(2)])
    runs = Runs(problem, schedule, np.zeros(problem.d), key, timetable, problem.optimum())
    laid = block.Block(layouts.samples_in_rows(problem), [Lane(runs, k) for k in range(2)])
    there = []
    for end in range(1, 301):
        laid.advance(end)
        there.append(laid.method.links.there[:, :2].copy())
    found = np.array(there)  # rounds, links, runs
    assert set(np.unique(found)) == {0.0, 1.0}
    missing = 1 - found
    n = missing[..., 0].size
    for run in range(2):
        assert abs(missing[..., run].mean() - 0.3) < 5 * np.sqrt(0.21 / n)
    # Between runs, rounds and links they are as independent as coins are.
    centred = missing - 0.3
    for a, b in (
        (centred[..., 0], centred[..., 1]),
        (centred[1:, :, 0], centred[:-1, :, 0]),
        (centred[:, 1:, 0], centred[:, :-1, 0]),
        (centred[:, 16:, 0], centred[:, :-16, 0]),
    ):
        assert abs((a * b).sum()) < 5 * 0.21 * np.sqrt(a.size)


def test_a_run_alone_tosses_the_coins_of_company_for_more_links_than_one_batch() -> None:
    """435 links: alone the lanes of the cipher hold blocks of sixteen coins, eight of them at once."""
    problem = cases.make("zero", sizes=(16,) * 30).problem  # enough samples to fill lanes alone
    method = fl.PrimalDual(topology="complete", failures=0.5)
    alone, among = (fl.solve(problem, BUDGET, rounds=3, algorithm=method, seed=2, repetitions=k) for k in (1, 2))
    np.testing.assert_array_equal(alone.workers[0], among.workers[0])


def test_what_needs_a_server_is_refused_on_a_graph() -> None:
    problem = cases.make("box_l1", sizes=SIZES, gradient_bound=1.0).problem
    method = fl.PrimalDual(step=0.1, allocation="static", topology="ring")
    with pytest.raises(ArgumentError, match="a federation has a server"):
        fl.federation.Terms.of(problem, BUDGET, 9, method)
    with pytest.raises(ArgumentError, match="failures= leaves links out"):
        fl.PrimalDual(topology="ring", sampling=fl.Sampling(workers=0.5))
    # Samples may be drawn, by a rate alone too.
    assert fl.PrimalDual(topology="ring", sampling=0.5).sampling == fl.Sampling(0.5)
    server = fl.federation.Terms.of(problem, BUDGET, 9, fl.PrimalDual(step=0.1, allocation="static"))
    assert "topology" not in server.to_json()


def test_the_command_line_has_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["solve", "--rows", "200", "--workers", "5", "--rounds", "20", "--seed", "1", "--row-bound", "1"]
    assert main([*given, "--topology", "random:2", "--failures", "0.1"]) == 0
    assert "topology=random:2:0" in capsys.readouterr().out
    assert main([*given, "--topology", "rign"]) == 2
    assert "topology" in capsys.readouterr().err
    assert main([*given, "--topology", "ring", "--clip", "adaptive"]) == 2
    assert "counts" in capsys.readouterr().err


SWEEP = sweeps.spec(
    'topology = ["complete", "ring", "random:2:1"]\nfailures = 0.2\nstep = 0.1',
    'name = "PrimalDual"\ntopology = ["star", "complete"]\nstep = 0.1',
    rounds="20",
)


def test_sweeps_have_graphs_and_can_be_verified(tmp_path: Path) -> None:
    sweeps.run(SWEEP, tmp_path / "r.h5", n_jobs=2)
    found = fl.results(tmp_path / "r.h5")
    assert {run.outcome for run in found} == {"completed"}, [run.message for run in found]
    there = {(run.parameters.get("topology"), run.parameters.get("failures")) for run in found}
    assert there == {("complete", 0.2), ("ring", 0.2), ("random:2:1", 0.2), ("star", None), (None, None)}
    problem = fl.Problem(*sweeps.DATA["tiny"], workers=4, l2=0.1)
    for run in found:
        topology, failures = run.parameters.get("topology"), run.parameters.get("failures")
        method = fl.PrimalDual(step=0.1, topology=topology, failures=failures)
        solved = fl.solve(problem, fl.Budget(4.0, 1e-3), rounds=20, algorithm=method, repetitions=3, seed=3)
        np.testing.assert_array_equal(run.x, solved.x[run.repetition])
    assert all(claim.status == "confirmed" for claim in fl.verify(tmp_path / "r.h5", given=sweeps.DATA).claims)


@pytest.mark.parametrize("failures", [None, 0.3])
def test_the_audit_attacks_a_worker_by_what_it_hears(failures: float | None) -> None:
    problem = cases.make("box_l1", sizes=SIZES, gradient_bound=1.0).problem
    method = fl.PrimalDual(step=0.1, topology="ring", failures=failures)
    found = fl.audit(problem, fl.Budget(4.0, 1e-3), rounds=3, transcripts=3000, algorithm=method)
    assert found.passed, found.summary()


def test_ledgers_say_who_sees_what() -> None:
    problem = cases.make("box_l1", sizes=SIZES).problem
    server, among = (fl.PrimalDual(topology=one).schedule(problem, BUDGET, 5).ledger for one in (None, "ring"))
    assert server is not None
    assert among is not None
    assert "the server included" in server.statement()
    assert "its neighbours included" in among.statement()
    assert "no neighbour either" in among.summary()
    np.testing.assert_array_equal(server.variances, among.variances)


@dataclass(frozen=True)
class Diffusion(fl.Method):
    """A step of each worker by itself, and then a mean of the neighbours: of nobody here, and in a few lines."""

    step: float
    topology: Any = None
    workers: ClassVar[tuple[str, ...]] = ("X",)
    mixed: ClassVar[tuple[str, ...]] = ("X",)
    begin: ClassVar[tuple[str, ...]] = ("X",)
    server: ClassVar[tuple[str, ...]] = ("heard",)
    point: ClassVar[str] = "X"
    answer: ClassVar[str] = "X"
    sends: ClassVar[str] = "heard"

    def take(self, run: Any, i: Any, k: Any) -> None:
        for j in range(run.d):
            x = load(run.X, i, j)
            store(x - self.step * (load(run.noisy, j) + run.l2 * x), run.X, i, j)

    def receive(self, run: Any, i: Any) -> None:
        apart(run, run.X, i, run.next_X, i)
        for j in range(run.d):
            store(load(run.X, i, j) - load(run.next_X, i, j), run.next_X, i, j)
        prox(run, run.next_X, i, self.step)

    def serve(self, run: Any) -> None:
        pass


@dataclass(frozen=True)
class DiffusionOrMean(Diffusion):
    """With a server too, which its workers hear nothing of."""

    def serve(self, run: Any) -> None:
        for j in range(run.d):
            store(mean_over_workers(run.X, j), run.heard, 0, j)


def test_who_has_no_neighbours_hears_nothing_and_all_are_neighbours_where_they_are_said_to_be() -> None:
    """Not what lies beyond the end of an array of none."""
    case, rounds = cases.make("box_l1", sizes=SIZES), 15
    n = case.problem.n
    for topology, W in ((None, np.eye(n)), ("complete", np.full((n, n), 1 / n))):
        run = fl.solve(case.problem, rounds=rounds, algorithm=DiffusionOrMean(0.2, topology), repetitions=2)
        x = np.zeros((n, case.problem.d))
        for _ in range(rounds):
            moved = [x[i] - 0.2 * naive.full_gradient(case.loss, *case.shards[i], case.l2, x[i]) for i in range(n)]
            x = np.stack([case.g.prox(z, 0.2) for z in W @ np.stack(moved)])
        np.testing.assert_allclose(run.workers[-1], x, rtol=1e-10, atol=1e-12)


def test_methods_from_outside_have_graphs() -> None:
    case, rounds = cases.make("box_l1", sizes=SIZES), 15
    n, W = case.problem.n, naive.metropolis(len(SIZES), links("grid", len(SIZES)))
    with pytest.raises(ExtensionError, match="serve changes nothing"):
        fl.solve(case.problem, rounds=3, algorithm=Diffusion(0.2))
    run = fl.solve(case.problem, BUDGET, rounds=rounds, algorithm=Diffusion(0.2, "grid"), repetitions=2, seed=4)
    assert run.ledger is not None
    assert "its neighbours included" in run.ledger.statement()
    run = fl.solve(case.problem, rounds=rounds, algorithm=Diffusion(0.2, "grid"), repetitions=2)
    x = np.zeros((n, case.problem.d))
    for _ in range(rounds):
        moved = [x[i] - 0.2 * naive.full_gradient(case.loss, *case.shards[i], case.l2, x[i]) for i in range(n)]
        x = np.stack([case.g.prox(z, 0.2) for z in W @ np.stack(moved)])
    np.testing.assert_allclose(run.workers[-1], x, rtol=1e-10, atol=1e-12)
