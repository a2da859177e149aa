"""Federations: the same bits as a simulation, what is refused, and what is spent."""

import copy
import hashlib
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cases
import fastldp as fl
from fastldp.cli import main
from fastldp.engine.halves import WorkerBlock
from fastldp.errors import (
    ArgumentError,
    BudgetError,
    DamagedError,
    FastLDPError,
    FileFormatError,
    RefusedError,
    StoreError,
)
from fastldp.federation import Answer, Ask, Server, Terms, Worker, common_key
from fastldp.federation.account import Prices, Spent, affordable, together
from fastldp.federation.messages import packed
from fastldp.privacy.sampler import spacing

Array = NDArray[np.float64]

SIZES = (30, 44, 21)
BUDGET = fl.Budget(np.array([1.0, 2.0, 1.5]), 1e-4)
SEED = 5
KEY = common_key(SEED)

METHODS: dict[str, tuple[str, fl.Method]] = {
    "primal_dual": ("box_l1", fl.PrimalDual()),
    "primal_dual_static": ("simplex", fl.PrimalDual(step=0.1, allocation="static")),
    "primal_dual_adaptive": ("box_l1", fl.PrimalDual("planned", "planned", clip=fl.AdaptiveClip(every=4, early=5))),
    "fedavg": ("zero", fl.DPFedAvg(0.1, 3)),
    "fedavg_adaptive": ("zero", fl.DPFedAvg("planned", 3, clip="adaptive")),
    "scaffold": ("zero", fl.DPScaffold(0.1, 3)),
    "scaffold_warm_adaptive": ("zero", fl.DPScaffold(0.1, 2, clip=fl.AdaptiveClip(every=3), warm_start=True)),
    "fedexp": ("zero", fl.LDPFedEXP(0.1, 3)),
    "isrl": ("l2_ball", fl.ISRLDP(0.3)),
    "isrl_sampled": ("l2_ball", fl.ISRLDP(0.3, sampling=0.4)),
    "isrl_in_secret": ("box", fl.ISRLDP(0.3, sampling=fl.Sampling(0.5, 0.4, "secret"))),
    "fedavg_sampled_adaptive": ("zero", fl.DPFedAvg(0.1, 3, clip=fl.AdaptiveClip(), sampling=0.4)),
    "isrl_accelerated": ("l1_ball", fl.ISRLDP(0.3, accelerated=True)),
    "isrl_tail": ("box", fl.ISRLDP(0.3, tail_average=4)),
    "scaffnew": ("box_l1", fl.DPScaffNew(0.3, 0.4)),
}


def problem_of(regularizer: str = "box_l1", **changes: Any) -> fl.Problem:
    given: dict[str, Any] = {"sizes": SIZES, "gradient_bound": 1.2} | changes
    return cases.make(regularizer, **given).problem


def shard(problem: fl.Problem, i: int) -> tuple[Any, Array]:
    """What worker i brings: rows, whose labels of ±1 the problem has folded in."""
    mine = slice(problem.starts[i], problem.starts[i + 1])
    if not problem.targets.any():
        return problem.rows[mine], -np.ones(int(problem.sizes[i]))
    return problem.rows[mine], problem.targets[mine]


def budget_of(terms: Terms, i: int) -> fl.Budget:
    epsilon = float(np.broadcast_to(terms.budget.epsilon, terms.n)[i])
    return fl.Budget(epsilon, terms.budget.delta, terms.budget.accounting)


@contextmanager
def workers_of(problem: fl.Problem, terms: Terms, folder: Path, key: bytes | None = KEY) -> Iterator[list[Worker]]:
    """All workers of a training, each with a folder of its own."""
    made = [
        Worker(*shard(problem, i), budget_of(terms, i), terms, worker=i, folder=folder / str(i), key=key)
        for i in range(terms.n)
    ]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def run(server: Server, workers: list[Worker], *, rounds: int | None = None) -> None:
    """A training, through bytes; or so many rounds of it."""
    while not server.over and rounds != 0:
        for i, ask in server.ask().items():
            server.tell(i, workers[i].answer(ask.to_bytes()).to_bytes())
        rounds = None if rounds is None else rounds - 1


def simulated(problem: fl.Problem, terms: Terms) -> fl.Solution:
    return fl.solve(problem, terms.budget, rounds=terms.horizon, algorithm=terms.method, seed=SEED, common_noise=True)


@pytest.mark.filterwarnings("ignore::fastldp.errors.ClippingWarning")  # of a dozen rounds
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("method", METHODS)
def test_a_federation_has_the_bits_of_a_simulation(method: str, layout: str, tmp_path: Path) -> None:
    regularizer, algorithm = METHODS[method]
    weighting = "rows" if layout == "csr" else "uniform"
    problem = problem_of(regularizer, layout=layout, weighting=weighting)
    terms = Terms.of(problem, BUDGET, 12, algorithm)
    server = Server(terms, coins=KEY)
    with workers_of(problem, terms, tmp_path) as workers:
        run(server, workers)
        spent = [one.spent_epsilon for one in workers]
    expected = simulated(problem, terms)
    assert expected.ledger is not None
    assert np.array_equal(server.x, expected.x[0])
    assert np.array_equal(server.models, expected.workers[0])
    # All was spent, and nothing more; the server counts the same.
    assert np.all(np.asarray(spent) <= BUDGET.epsilon)
    np.testing.assert_allclose(spent, BUDGET.epsilon, rtol=1e-9)
    np.testing.assert_allclose(server.spent_rho, expected.ledger.spent_rho, rtol=1e-12)


@pytest.mark.parametrize(("name", "regularizer"), [("HeavyBall", "box_l1"), ("Anchored", "zero")])
def test_classes_from_outside_have_the_bits_of_a_simulation(
    name: str, regularizer: str, outside: Path, tmp_path: Path
) -> None:
    kind = getattr(importlib.import_module("mymethods"), name)
    method = kind(0.1) if name == "HeavyBall" else kind(0.1, 3)
    problem = problem_of(regularizer)
    terms = Terms.of(problem, BUDGET, 9, method)
    assert Terms.from_json(terms.to_json(), classes=[kind]) == terms
    with pytest.raises(ArgumentError, match="hand it in"):
        Terms.from_json(terms.to_json())
    server = Server(terms)
    with workers_of(problem, terms, tmp_path) as workers:
        run(server, workers)
    assert np.array_equal(server.x, simulated(problem, terms).x[0])


# Terms.


def test_the_digest_of_terms_is_of_the_code_of_classes_from_outside(
    outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = importlib.import_module("mymethods").HeavyBall
    problem = problem_of("box_l1")
    agreed = Terms.of(problem, BUDGET, 9, kind(0.1))
    text = agreed.to_json()
    # Somebody who has another formula under the same name.
    monkeypatch.setattr(kind, "serve", lambda self, run: None)
    assert Terms.of(problem, BUDGET, 9, kind(0.1)).digest != agreed.digest
    with pytest.raises(FileFormatError, match="other code here"):
        Terms.from_json(text, classes=[kind])


def test_terms_are_text_and_back() -> None:
    for regularizer, method in METHODS.values():
        terms = Terms.of(problem_of(regularizer), BUDGET, 12, method, name="first")
        again = Terms.from_json(terms.to_json())
        assert again == terms
        assert again.digest == terms.digest
        assert hash(again) == hash(terms)
        np.testing.assert_array_equal(again.ledger.variances, terms.ledger.variances)
    given = fl.PrimalDual(step=0.1, allocation=2 * np.asarray(terms.ledger.variances).max() + np.arange(12.0))
    weights = fl.BoxL1(np.arange(9.0), 1.0)
    terms = Terms(np.array(SIZES), 9, BUDGET, 12, given, regularizer=weights, row_bound=1.0, gradient_bound="half")
    assert Terms.from_json(terms.to_json()) == terms


def test_terms_that_differ_have_other_digests() -> None:
    problem = problem_of()
    base = Terms.of(problem, BUDGET, 12)
    others = [
        Terms.of(problem, BUDGET, 13),
        Terms.of(problem, fl.Budget(1.0, 1e-4), 12),
        Terms.of(problem, BUDGET, 12, fl.PrimalDual(allocation="static")),
        Terms.of(problem, BUDGET, 12, name="second"),
        Terms.of(problem, BUDGET, 12, x0=np.full(9, 0.1)),
        Terms.of(problem.replace(l2=0.2), BUDGET, 12),
        Terms.of(problem.replace(weighting="rows"), BUDGET, 12),
    ]
    assert len({one.digest for one in [base, *others]}) == 8
    assert all(one != base for one in others)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text[:-5], "no terms"),
        (lambda text: text.replace('"horizon"', '"x"').replace('"l2": 0.1', '"l2": 0.2'), "whose digest"),
        (lambda text: text.replace('"fastldp": [\n  1', '"fastldp": [\n  9'), "another version"),
        (lambda text: text.replace('"l2"', '"l3"'), "they have"),
        (lambda text: text.replace('"class": "PrimalDual"', '"class": "os:system"'), "hand it in"),
        (lambda text: text.replace('"prior"', '"prayer"'), "is not as it is here"),
    ],
)
def test_text_that_is_no_terms_is_refused(change: Any, told: str) -> None:
    text = Terms.of(problem_of(), BUDGET, 12).to_json()
    assert change(text) != text
    with pytest.raises(FastLDPError, match=told):
        Terms.from_json(change(text))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "row_bound= or gradient_bound=, or the method a clip="),
        ({"row_bound": 1.0, "loss": "squared"}, "row_bound= or gradient_bound="),
        ({"gradient_bound": 1.0, "loss": "squared", "algorithm": fl.PrimalDual()}, "the method a step="),
        ({"algorithm": fl.PrimalDual(step=0.1, clip=1.0), "loss": "squared"}, "the strong convexity"),
        ({"row_bound": 1.0, "algorithm": fl.PrimalDual("planned", prior="exact")}, "prior|exact|read|optimum"),
        ({"row_bound": 1.0, "budget": 1.0}, "give a Budget"),
        ({"row_bound": 1.0, "sizes": [0, 3]}, "≥ 1 for each worker"),
        ({"row_bound": 1.0, "sizes": []}, "≥ 1 for each worker"),
        ({"row_bound": 1.0, "dimension": 0}, "whole number"),
        ({"row_bound": 1.0, "rounds": 0}, "from 1 to"),
        ({"row_bound": 1.0, "rounds": "many"}, "planned"),
        ({"row_bound": 1.0, "algorithm": "PrimalDual"}, "give an instance"),
        ({"row_bound": 1.0, "name": 3}, "give a text"),
        ({"row_bound": 1.0, "x0": np.ones(3)}, "4 finite numbers"),
        ({"row_bound": 1.0, "budget": fl.Budget(1.0, 1e-21)}, "the sampler"),
    ],
)
def test_terms_that_are_not_public_or_wrong_are_refused(given: dict[str, Any], told: str) -> None:
    usual: dict[str, Any] = {"sizes": [40, 50], "dimension": 4, "budget": fl.Budget(1.0, 1e-4), "rounds": 10, "l2": 0.1}
    with pytest.raises(ArgumentError, match=told):
        Terms(**usual | given)


def test_terms_are_of_problems_in_double_precision() -> None:
    with pytest.raises(ArgumentError, match="float32"):
        Terms.of(problem_of(dtype="float32"), BUDGET, 10)
    images = fl.MLP(np.zeros((4, 3)), [0, 1, 0, 1], hidden=2, workers=2, clip=1.0)
    with pytest.raises(ArgumentError, match="networks are not supported"):
        Terms.of(images, BUDGET, 10)


def test_rounds_may_be_planned() -> None:
    terms = Terms(np.array([400, 500]), 9, fl.Budget(1.0, 1e-4), l2=0.1)
    assert terms.horizon >= 100
    assert terms.ledger.clipping
    assert Terms.from_json(terms.to_json()) == terms


# The worker.


@pytest.fixture(scope="module")
def usual() -> tuple[fl.Problem, Terms]:
    problem = problem_of()
    return problem, Terms.of(problem, fl.Budget(1.0, 1e-4), 6)


@pytest.fixture
def worker(usual: tuple[fl.Problem, Terms], tmp_path: Path) -> Iterator[Worker]:
    problem, terms = usual
    with Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, worker=0, folder=tmp_path / "f") as made:
        yield made


def ask_of(on: Terms, round_: int = 1, **changes: Any) -> Ask:
    return replace(Ask(0, round_, on.digest, np.zeros(9)), **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"terms": "0" * 64}, "terms"),
        ({"worker": 1}, "stranger"),
        ({"round": 0}, "round"),
        ({"round": -1}, "round"),
        ({"round": 7}, "round"),
        ({"round": 1.0}, "round"),
        ({"round": True}, "round"),
        ({"round": "1"}, "round"),
        ({"point": np.zeros(8)}, "shape"),
        ({"point": np.zeros((1, 9))}, "shape"),
        ({"point": np.zeros(9, np.float32)}, "shape"),
        ({"point": np.full(9, np.nan)}, "not finite"),
        ({"point": np.full(9, np.inf)}, "not finite"),
        ({"point": np.full(9, 0.61)}, "set"),
        ({"kept": {"X": np.zeros(9)}}, "shape"),
        ({"threshold": 1.0}, "threshold"),
        ({"pace": 0.0}, "threshold"),
        ({"pace": float("nan")}, "threshold"),
        ({"pace": 1}, "threshold"),
    ],
)
def test_a_worker_refuses(changes: dict[str, Any], reason: str, worker: Worker) -> None:
    with pytest.raises(RefusedError) as refused:
        worker.answer(ask_of(worker.terms, **changes))
    assert refused.value.reason == reason
    assert worker.spent.rho == 0
    assert worker.round is None
    assert worker.answer(ask_of(worker.terms)).round == 1


@pytest.mark.parametrize("method", ["fedavg", "scaffold_warm_adaptive"])
def test_a_worker_refuses_states_that_do_not_fit(method: str, tmp_path: Path) -> None:
    regularizer, algorithm = METHODS[method]
    problem = problem_of(regularizer)
    terms = Terms.of(problem, fl.Budget(1.0, 1e-4), 6, algorithm)
    server = Server(terms)
    with workers_of(problem, terms, tmp_path, None) as workers:
        while server.round < 1:
            for i, ask in server.ask().items():
                server.tell(i, workers[i].answer(ask))
        good = server.ask()[0]
        name = next(iter(good.kept))
        for changes, reason in (
            ({"kept": {}}, "shape"),
            ({"kept": {**good.kept, "more": np.zeros(9)}}, "shape"),
            ({"kept": {**good.kept, name: np.full(9, np.nan)}}, "not finite"),
            ({"kept": {**good.kept, name: np.zeros(3)}}, "shape"),
            ({"point": good.point + 1}, "shape"),
            ({"threshold": None if good.threshold else 1.0}, "threshold"),
            ({"threshold": -1.0 if good.threshold else 1.0}, "threshold"),
        ):
            with pytest.raises(RefusedError) as refused:
                workers[0].answer(replace(good, **changes))
            assert refused.value.reason == reason
        workers[0].answer(good)


def test_a_round_is_answered_once_and_the_same_request_gets_the_same_bytes(worker: Worker) -> None:
    first = worker.answer(ask_of(worker.terms))
    assert worker.answer(ask_of(worker.terms).to_bytes()).to_bytes() == first.to_bytes()
    spent = worker.spent
    for other in (ask_of(worker.terms, point=np.full(9, 0.1)), ask_of(worker.terms, pace=0.5)):
        with pytest.raises(RefusedError, match="at another point") as refused:
            worker.answer(other)
        assert refused.value.reason == "answered"
    # Rounds may be left out, and are not gone back to.
    assert worker.answer(ask_of(worker.terms, 4)).round == 4
    for earlier in (1, 3):
        with pytest.raises(RefusedError, match="and rounds after it"):
            worker.answer(ask_of(worker.terms, earlier))
    assert worker.spent.rho == spent.plus(worker._prices.of(4)).rho


def test_a_worker_that_begins_again_repeats_itself(usual: tuple[fl.Problem, Terms], tmp_path: Path) -> None:
    problem, terms = usual
    given: dict[str, Any] = {"worker": 0, "folder": tmp_path}
    with Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, **given) as one:
        first = one.answer(ask_of(terms)).to_bytes()
    with Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, **given) as again:
        assert again.round == 1
        assert again.answer(ask_of(terms)).to_bytes() == first
        with pytest.raises(RefusedError, match="at another point"):
            again.answer(ask_of(terms, point=np.full(9, 0.1)))
        again.answer(ask_of(terms, 2))


def test_the_noise_of_two_workers_is_their_own(usual: tuple[fl.Problem, Terms], tmp_path: Path) -> None:
    problem, terms = usual
    seen = []
    for number in range(2):
        given: dict[str, Any] = {"worker": 0, "folder": tmp_path / str(number)}
        with Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, **given) as one:
            seen.append(one.answer(ask_of(terms)).releases)
    apart = (seen[0] - seen[1]) / (np.sqrt(2) * terms.deviation(1, 0))
    assert 0.2 < float(np.sqrt(np.mean(apart**2))) < 3
    assert not (seen[0] == seen[1]).any()


def test_trainings_draw_on_one_budget_for_life(tmp_path: Path) -> None:
    problem = problem_of()
    life = fl.Budget(1.0, 1e-4, accounting="gdp")
    each = fl.Budget(0.5, 1e-4, accounting="gdp")
    total = 0.0
    for number in range(5):
        terms = Terms.of(problem, each, 6, name=str(number))
        if number == 4:
            # ρ of ε = 0.5 goes four times into that of ε = 1, less than five.
            with pytest.raises(BudgetError, match="for life"):
                Worker(*shard(problem, 0), life, terms, worker=0, folder=tmp_path)
            break
        try:
            one = Worker(*shard(problem, 0), life, terms, worker=0, folder=tmp_path)
        except BudgetError:
            assert number == 3
            break
        with one:
            for round_ in range(1, 7):
                one.answer(ask_of(terms, round_))
            total += float(np.max(terms.ledger.spent_rho))
            assert one.spent.rho == pytest.approx(total, rel=1e-12)
            assert one.spent_epsilon <= 1.0
    assert fl.privacy.epsilon_of(total, 1e-4, "gdp") <= 1.0
    # What is left is enough for a smaller one, and a spent budget says so at the round that is too much.
    rest = fl.privacy.rho_of(1.0, 1e-4, "gdp") - total
    epsilon = fl.privacy.epsilon_of(0.9 * rest, 1e-4, "gdp")
    small = Terms.of(problem, fl.Budget(epsilon, 1e-4, accounting="gdp"), 6, name="small")
    with Worker(*shard(problem, 0), life, small, worker=0, folder=tmp_path) as one:
        one._others = one._others.plus(Spent(rest))
        with pytest.raises(RefusedError, match="the budget is spent") as refused:
            one.answer(ask_of(small))
        assert refused.value.reason == "budget"


def test_the_sampler_of_all_trainings_is_paid_for() -> None:
    budget = fl.Budget(1.0, 1e-10)
    free, drawn = Spent(), Spent(0.0, 0.0, 10**9, 0.01)
    assert affordable(budget, drawn) < affordable(budget, free)
    assert affordable(budget, Spent(0.0, 0.0, 10**16, 0.01)) == 0.0


def test_sums_of_what_was_spent_lose_nothing() -> None:
    found = together([Spent(0.1)] * 100_000)
    assert found.rho + found.rest == pytest.approx(float(100_000 * Fraction(0.1)), rel=1e-15)
    terms = Terms.of(problem_of("zero"), BUDGET, 300, fl.DPScaffold(0.1, 2, warm_start=True, clip="adaptive"))
    for i in range(terms.n):
        prices, rounds = Prices(terms, i), []
        round_ = terms.first
        while round_ <= terms.horizon:
            rounds.append(prices.of(round_))
            round_ = terms.following(round_)
        assert together(rounds).rho == pytest.approx(prices.whole.rho, rel=1e-13)
        assert together(rounds).pairs == prices.whole.pairs


def test_a_folder_is_of_one_set_of_data_and_one_budget(usual: tuple[fl.Problem, Terms], tmp_path: Path) -> None:
    problem, terms = usual
    budget = fl.Budget(1.0, 1e-4)
    A, b = shard(problem, 0)
    Worker(A, b, budget, terms, worker=0, folder=tmp_path).close()
    other = A.copy()
    other[0, 0] += 1e-9
    for data, promised, reason in (
        ((other, b), budget, "data"),
        ((A, -b), budget, "data"),
        ((A, b), fl.Budget(2.0, 1e-4), "budget"),
        ((A, b), fl.Budget(1.0, 1e-4, accounting="gdp"), "budget"),
    ):
        with pytest.raises(RefusedError) as refused:
            Worker(*data, promised, terms, worker=0, folder=tmp_path)
        assert refused.value.reason == reason
    # Nothing of these attempts is left, not even a lock.
    Worker(A, b, budget, terms, worker=0, folder=tmp_path).close()


def test_a_folder_has_one_process(worker: Worker, usual: tuple[fl.Problem, Terms]) -> None:
    problem, terms = usual
    with pytest.raises(RefusedError, match="process") as refused:
        Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, worker=0, folder=worker._folder.path)
    assert refused.value.reason == "in use"


def test_a_worker_is_neither_copied_nor_forked_nor_used_when_closed(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for copied in (lambda: pickle.dumps(worker), lambda: copy.copy(worker), lambda: copy.deepcopy(worker)):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RefusedError, match="a fork") as refused:
            worker.answer(ask_of(worker.terms))
    assert refused.value.reason == "fork"
    worker.close()
    with pytest.raises(RefusedError, match="closed"):
        worker.answer(ask_of(worker.terms))


@pytest.mark.parametrize("name", ["folder", "journal"])
def test_damaged_files_release_nothing(name: str, usual: tuple[fl.Problem, Terms], tmp_path: Path) -> None:
    problem, terms = usual
    given: dict[str, Any] = {"worker": 0, "folder": tmp_path}
    with Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, **given) as one:
        one.answer(ask_of(terms))
    (path,) = [path for path in tmp_path.iterdir() if path.name.endswith(name)]
    whole = path.read_bytes()
    for changed in (whole[:-1], b"", whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]):
        path.write_bytes(changed)
        with pytest.raises(DamagedError, match="put its last copy back"):
            Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, **given)
    path.write_bytes(whole)
    if name == "folder":
        path.unlink()
        with pytest.raises(DamagedError, match="was removed"):
            Worker(*shard(problem, 0), fl.Budget(1.0, 1e-4), terms, **given)


def test_a_given_key_is_for_one_training(tmp_path: Path) -> None:
    problem = problem_of()
    life, each = fl.Budget(3.0, 1e-4), fl.Budget(0.5, 1e-4)
    first, second = (Terms.of(problem, each, 6, name=name) for name in "ab")
    with Worker(*shard(problem, 0), life, first, worker=0, folder=tmp_path, key=KEY) as one:
        one.answer(ask_of(first))
    with pytest.raises(RefusedError, match="the same noise") as refused:
        Worker(*shard(problem, 0), life, second, worker=0, folder=tmp_path, key=KEY)
    assert refused.value.reason == "key"
    terms, data = Terms.of(problem_of(sizes=(30, 30)), each, 6), shard(problem, 0)
    with Worker(*data, life, terms, worker=0, folder=tmp_path) as one:
        one.answer(ask_of(terms))
    with pytest.raises(RefusedError, match="give worker= that number"):
        Worker(*data, life, terms, worker=1, folder=tmp_path)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"budget": BUDGET}, "one ε"),
        ({"budget": 1.0}, "one ε"),
        ({"terms": None}, "federation.Terms"),
        ({"worker": 3}, "from 0 to 2"),
        ({"key": b"short"}, "give 32"),
        ({"worker": 1}, "the terms say that worker 1 has 44 rows"),
        ({"budget": fl.Budget(0.5, 1e-4)}, "for life"),
    ],
)
def test_a_worker_is_made_of_what_fits(
    changes: dict[str, Any], told: str, usual: tuple[fl.Problem, Terms], tmp_path: Path
) -> None:
    problem, terms = usual
    A, b = shard(problem, 0)
    given: dict[str, Any] = {"budget": fl.Budget(1.0, 1e-4), "terms": terms, "worker": 0, "folder": tmp_path}
    with pytest.raises(ArgumentError, match=told):
        Worker(A, b, **given | changes)


# The server.


def test_a_server_refuses_what_is_no_answer(tmp_path: Path) -> None:
    problem = problem_of()
    terms = Terms.of(problem, BUDGET, 3)
    server = Server(terms)
    with workers_of(problem, terms, tmp_path) as workers:
        answers = {i: workers[i].answer(ask) for i, ask in server.ask().items()}
        good = answers[0]
        for worker, told, reason in (
            (0, replace(good, terms="0" * 64), "terms"),
            (1, good, "stranger"),
            (3, good, "stranger"),
            (-1, good, "stranger"),
            (0.0, good, "stranger"),
            (0, replace(good, round=0), "late"),
            (0, replace(good, round=2), "round"),
            (0, replace(good, releases=good.releases[0]), "shape"),
            (0, replace(good, releases=good.releases.astype(np.float32)), "shape"),
            (0, replace(good, releases=np.zeros((2, 9))), "shape"),
            (0, replace(good, count=0.5), "shape"),
            (0, replace(good, releases=np.full((1, 9), np.nan)), "not finite"),
            (0, replace(good, releases=good.releases + 1e-7), "off the grid"),
            (0, good.to_bytes()[:-1], "checksum"),
            (0, b"", "checksum"),
            (0, server.ask()[0].to_bytes(), "form"),
            (0, packed(b"fastldpA", {"worker": 0}, []), "form"),
            (0, packed(b"fastldpA", {"worker": 0, "more": 1}, [good.releases]), "form"),
        ):
            with pytest.raises(RefusedError) as refused:
                server.tell(worker, told)  # type: ignore[arg-type]
            assert refused.value.reason == reason, told
            assert server.waiting == [0, 1, 2]
        assert server.tell(0, good) is False
        with pytest.raises(RefusedError) as refused:
            server.tell(0, good)
        assert refused.value.reason == "duplicate"
        assert sorted(server.ask()) == [1, 2]
        assert [server.tell(i, answers[i]) for i in (1, 2)] == [False, True]
        with pytest.raises(RefusedError, match="this is round 2") as refused:
            server.tell(0, good)
        assert refused.value.reason == "late"
        run(server, workers)
        with pytest.raises(RefusedError, match="the training is over"):
            server.tell(0, good)
        with pytest.raises(RefusedError, match="all 3 rounds are over"):
            server.close_round()
    assert server.ask() == {}
    assert server.over
    # None of that has left a trace.
    assert np.array_equal(server.x, simulated(problem, terms).x[0])


def test_a_count_belongs_to_rounds_that_count(tmp_path: Path) -> None:
    problem = problem_of()
    terms = Terms.of(problem, BUDGET, 3, fl.PrimalDual(step=0.1, allocation="static", clip=fl.AdaptiveClip(early=2)))
    server = Server(terms)
    assert server.round == -2
    with workers_of(problem, terms, tmp_path) as workers:
        answer = workers[0].answer(server.ask()[0])
        assert answer.releases.shape == (0, 9)
        for wrong, reason in ((None, "shape"), (np.nan, "not finite")):
            with pytest.raises(RefusedError) as refused:
                server.tell(0, replace(answer, count=wrong))
            assert refused.value.reason == reason
        server.tell(0, answer)


@pytest.mark.parametrize("method", METHODS)
def test_a_server_goes_on_from_its_file(method: str, tmp_path: Path) -> None:
    regularizer, algorithm = METHODS[method]
    problem = problem_of(regularizer)
    terms = Terms.of(problem, BUDGET, 7, algorithm)
    path = tmp_path / "server"
    with workers_of(problem, terms, tmp_path) as workers:
        server = Server(terms, path=path, coins=KEY)
        run(server, workers, rounds=3)
        # Killed in the midst of a round, and of every other.
        while not server.over:
            i, ask = next(iter(server.ask().items()))
            server.tell(i, workers[i].answer(ask))
            server = Server(terms, path=path)
            run(server, workers, rounds=1)
    assert np.array_equal(server.x, simulated(problem, terms).x[0])
    assert np.all(server.spent_epsilon <= np.asarray(BUDGET.epsilon) * (1 + 1e-12))


def test_a_servers_file_is_of_its_terms_and_whole(tmp_path: Path) -> None:
    terms = Terms.of(problem_of(), BUDGET, 3)
    path = tmp_path / "server"
    Server(terms, path=path).ask()
    with pytest.raises(StoreError, match="other terms"):
        Server(Terms.of(problem_of(), BUDGET, 4), path=path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedError, match="no state of a server"):
        Server(terms, path=path)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"terms": 3}, "federation.Terms"),
        ({"coins": b""}, "give 32"),
        ({"elsewhere": [3]}, "0 to 2"),
        ({"path": "nowhere/server"}, "there is no folder"),
    ],
)
def test_a_server_is_made_of_what_fits(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError, match=told):
        Server(**{"terms": Terms.of(problem_of(), BUDGET, 3)} | given)


def test_a_server_goes_on_without_a_worker_that_is_gone(tmp_path: Path) -> None:
    """In place of its answer stands its last one, or nothing: as of a worker that would have released that."""
    problem = problem_of("box")
    terms = Terms.of(problem, BUDGET, 6, fl.ISRLDP(0.3))
    server, plain = Server(terms), terms.start.copy()
    held = np.zeros((3, 9))
    with workers_of(problem, terms, tmp_path) as workers:
        with pytest.raises(RefusedError, match="nobody has answered") as refused:
            server.close_round()
        assert refused.value.reason == "nobody"
        while not server.over:
            gone = {1: [0], 2: [], 3: [0, 2], 4: [1], 5: [], 6: [2]}[server.round]
            for i, ask in server.ask().items():
                np.testing.assert_allclose(ask.point, plain, atol=1e-12)
                if i not in gone:
                    answer = workers[i].answer(ask)
                    server.tell(i, answer)
                    held[i] = answer.releases[0]
            if gone:
                assert server.close_round() == gone
            plain = problem.regularizer.prox(plain - 0.3 * (0.1 * plain + held.mean(axis=0)), 0.3)
        np.testing.assert_allclose(server.x, plain, atol=1e-12)
        # Each has spent what it has released, and no more.
        spent = [one.spent.rho for one in workers]
    np.testing.assert_allclose(server.spent_rho, spent, rtol=1e-15)
    answered = np.array([4, 5, 4])
    np.testing.assert_allclose(spent, np.asarray(terms.ledger.spent_rho) * answered / 6, rtol=1e-12)


def test_gradients_may_be_made_elsewhere(tmp_path: Path) -> None:
    """Worker 2 is another program: here NumPy with noise of its own, of as large a variance."""
    problem = problem_of("box")
    terms = Terms.of(problem, BUDGET, 5, fl.ISRLDP(0.3))
    server, rng = Server(terms, elsewhere=[2]), np.random.default_rng(0)
    A, b = shard(problem, 2)
    with workers_of(problem, terms, tmp_path) as workers:
        while not server.over:
            for i, ask in server.ask().items():
                if i < 2:
                    server.tell(i, workers[i].answer(ask))
                    continue
                per_sample = -(b / (1 + np.exp(b * (A @ ask.point))))[:, None] * A
                norms = np.linalg.norm(per_sample, axis=1, keepdims=True)
                mean = (per_sample * np.minimum(1, 1.2 / norms)).mean(axis=0)
                noisy = mean + terms.deviation(ask.round, 2) * rng.standard_normal(9)
                server.tell(2, Answer(2, ask.round, ask.terms, noisy[None]))
    assert np.isfinite(server.x).all()
    assert server.spent_epsilon[2] == pytest.approx(1.5)


def test_transcripts_are_replayed(tmp_path: Path) -> None:
    problem = problem_of()
    terms = Terms.of(problem, BUDGET, 5)
    server, seen = Server(terms), []
    with workers_of(problem, terms, tmp_path) as workers:
        while not server.over:
            gone = [1] if server.round == 3 else []
            for i, ask in server.ask().items():
                if i not in gone:
                    seen.append(workers[i].answer(ask).to_bytes())
                    server.tell(i, seen[-1])
            if gone:
                server.close_round()
    again = Server(terms)
    again.replay(seen)
    assert again.over
    assert np.array_equal(again.x, server.x)


def test_a_model_that_diverges_is_said(tmp_path: Path) -> None:
    problem = problem_of("zero")
    terms = Terms.of(problem, BUDGET, 50, fl.ISRLDP(1e200))
    server = Server(terms, elsewhere=[0, 1, 2])
    for i, ask in server.ask().items():
        server.tell(i, Answer(i, ask.round, ask.terms, np.full((1, 9), 1e200)))
    for refusing in (server.ask, server.close_round, lambda: server.tell(0, b"")):
        with pytest.raises(RefusedError, match="ceased to be finite") as refused:
            refusing()
        assert refused.value.reason == "diverged"


def test_messages_are_bytes_and_back() -> None:
    ask = Ask(2, -1, "ab", np.array([0.1, -0.0]), {"Y": np.ones(2), "Z": np.zeros(2)}, 0.5, 0.25)
    again = Ask.from_bytes(ask.to_bytes())
    assert again.to_bytes() == ask.to_bytes()
    assert again.digest == ask.digest != replace(ask, pace=0.5).digest
    assert list(again.kept) == ["Y", "Z"]
    answer = Answer(0, 1, "cd", np.arange(6.0).reshape(2, 3), 0.25)
    assert Answer.from_bytes(answer.to_bytes()).to_bytes() == answer.to_bytes()
    data = answer.to_bytes()
    for place in range(len(data)):
        with pytest.raises(RefusedError):
            Answer.from_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(RefusedError):
            Answer.from_bytes(data[:place])
    for shapes in ([[2, -3]], [[9]], [["a"]], 3, [[2, 2]]):
        head = json.dumps({"shapes": shapes}).encode()
        body = b"fastldpA" + len(head).to_bytes(4, "little") + head + bytes(48)
        with pytest.raises(RefusedError, match="cannot be read"):
            Answer.from_bytes(body + hashlib.sha256(body).digest())


# Around it.


def test_status_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = problem_of()
    life, each = fl.Budget(2.0, 1e-4, accounting="gdp"), fl.Budget(1.0, 1e-4, accounting="gdp")
    for name in ("spring", ""):
        terms = Terms.of(problem, each, 6, name=name)
        with Worker(*shard(problem, 0), life, terms, worker=0, folder=tmp_path / "f") as one:
            for round_ in range(1, 4 if name else 7):
                one.answer(ask_of(terms, round_))
            spent = one.spent
    before = sorted((path.name, path.read_bytes()) for path in (tmp_path / "f").iterdir())
    assert main(["worker", "status", str(tmp_path / "f")]) == 0
    text = capsys.readouterr().out
    assert "ε = 2 at δ = 0.0001 for life, by gdp" in text
    assert "spring: worker 0, 3 answers, the last in round 3 of 6" in text
    assert f"{terms.digest[:16]}: worker 0, 6 answers, the last in round 6 of 6" in text
    assert main(["worker", "status", str(tmp_path / "f"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    whole = fl.privacy.rho_of(2.0, 1e-4, "gdp")
    assert facts["spent"]["rho"] == spent.rho
    assert facts["left"]["rho"] == pytest.approx(whole - spent.rho, rel=1e-6)
    assert facts["spent"]["epsilon"] == pytest.approx(fl.privacy.epsilon_of(spent.rho, 1e-4, "gdp"), rel=1e-4)
    assert before == sorted((path.name, path.read_bytes()) for path in (tmp_path / "f").iterdir())
    assert main(["worker", "status", str(tmp_path / "none")]) == 2
    assert "no worker has used it" in capsys.readouterr().err


def test_the_example_runs_as_processes(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "federation.md").read_text(encoding="utf-8")
    (example,) = [text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "# federate.py" in text]
    (tmp_path / "federate.py").write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "federate.py", "."], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines())[-1] == "worker 3: ε = 1.000 of 2.0 spent"
    assert "model [" in done.stdout
    assert (tmp_path / "2" / "folder").is_file()


AUDITED: dict[str, tuple[str, fl.Method]] = {
    "primal_dual": ("box", fl.PrimalDual()),
    "scaffold": ("zero", fl.DPScaffold(0.1, 2, warm_start=True, clip=fl.AdaptiveClip(early=1, every=1))),
}


@pytest.mark.parametrize("method", AUDITED)
def test_the_audit_attacks_a_worker(method: str) -> None:
    regularizer, algorithm = AUDITED[method]
    problem = cases.make(regularizer, sizes=(4, 5), gradient_bound=1.0).problem
    found = fl.audit(problem, fl.Budget(20.0, 1e-3), rounds=2, algorithm=algorithm, transcripts=80, federated=True)
    assert found.passed, found.summary()
    assert 0 < found.shown_epsilon < found.epsilon
    assert found.power == pytest.approx(found.ledger_power, rel=0.1)


@pytest.mark.parametrize("fault", ["half the noise", "noise used again", "off the grid", "the gradient of another"])
def test_the_audit_finds_what_a_worker_does_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.make("box", sizes=(4, 5), gradient_bound=1.0).problem
    make = WorkerBlock.make
    init: Any = WorkerBlock.__init__

    def begin(self: WorkerBlock, *given: Any) -> None:
        *others, key = given
        init(self, *others, np.zeros(8, np.uint32) if fault == "noise used again" else key)
        if fault == "half the noise":
            self.release.factors[...] /= 2

    def wrong(self: WorkerBlock, *given: Any) -> tuple[Array, float]:
        releases, count = make(self, *given)
        if fault == "off the grid":
            releases = releases + 0.3 * float(spacing(np.array(self.runs.schedule.deviations[0])))
        return releases + (1.0 if fault == "the gradient of another" else 0.0), count

    monkeypatch.setattr(WorkerBlock, "__init__", begin)
    monkeypatch.setattr(WorkerBlock, "make", wrong)
    # A server that takes whatever it is told.
    monkeypatch.setattr(Server, "_on_grid", lambda *given: True)
    found = fl.audit(problem, fl.Budget(8.0, 1e-3), rounds=2, transcripts=60, federated=True)
    assert not found.passed, found.summary()


def test_an_audit_is_federated_or_not() -> None:
    with pytest.raises(ArgumentError, match="True or False"):
        fl.audit(problem_of(), fl.Budget(8.0, 1e-3), rounds=2, transcripts=1000, federated="yes")  # type: ignore[arg-type]
