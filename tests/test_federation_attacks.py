"""What a server, a key, a disk or a fork could try to make a worker of a federation give away."""

import hashlib
import json
import os
import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp.cli.worker import status
from fastldp.engine.halves import WorkerBlock
from fastldp.errors import ArgumentError, BudgetError, DamagedError, FastLDPError, RefusedError, StoreError
from fastldp.federation import Answer, Ask, Server, Terms, Worker, common_key
from fastldp.federation.account import Prices, Spent, epsilon_spent, together
from fastldp.federation.folder import Folder
from fastldp.federation.messages import packed, unpacked

ROWS, DIMENSION = 30, 5
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((ROWS, DIMENSION)), RNG.choice([-1.0, 1.0], ROWS)
LIFE = fl.Budget(8.0, 1e-4)
KEY = bytes(range(32))


def terms_of(name: str = "", **changes: Any) -> Terms:
    given: dict[str, Any] = {"sizes": [ROWS, 20], "dimension": DIMENSION, "budget": fl.Budget(1.0, 1e-4), "rounds": 6}
    return Terms(**given | {"l2": 0.1, "row_bound": 1.0, "name": name} | changes)


def worker_of(terms: Terms, folder: Path, **given: Any) -> Worker:
    return Worker(A, B, LIFE, terms, worker=0, folder=folder, **given)


def ask_of(terms: Terms, round_: int = 1, **changes: Any) -> Ask:
    given: dict[str, Any] = {"worker": 0, "round": round_, "terms": terms.digest, "point": np.zeros(DIMENSION)}
    return Ask(**given | changes)


def signed(kind: bytes, head: bytes, body: bytes = b"") -> bytes:
    """A message whose checksum is right, whatever is in it."""
    whole = kind + struct.pack("<I", len(head)) + head + body
    return whole + hashlib.sha256(whole).digest()


def test_a_key_stays_known_when_its_training_goes_on_with_another(tmp_path: Path) -> None:
    first, second = terms_of("first"), terms_of("second")
    for round_, key in ((1, KEY), (2, KEY[::-1]), (3, None)):
        with worker_of(first, tmp_path, key=key) as worker:
            worker.answer(ask_of(first, round_))
    for key in (KEY, KEY[::-1]):
        with pytest.raises(RefusedError, match="the same noise") as refused:
            worker_of(second, tmp_path, key=key)
        assert refused.value.reason == "key"
    # Rounds are made once, so that the same training may have it again.
    with worker_of(first, tmp_path, key=KEY) as worker:
        worker.answer(ask_of(first, 4))


@pytest.mark.parametrize("threshold", [1e-300, 9.9e-7, 1.1e6, 1e150])
def test_a_threshold_that_no_counts_lead_to_is_refused(threshold: float, tmp_path: Path) -> None:
    """At 1e-300 and rows of 1e15 products with a row vanish, and gradients exceed what they are clipped to."""
    clip = fl.AdaptiveClip(early=2, factor=1.0)
    terms = terms_of(row_bound=None, algorithm=fl.PrimalDual(step=0.1, allocation="static", clip=clip))
    with worker_of(terms, tmp_path) as worker:
        for round_ in (-2, 1):
            with pytest.raises(RefusedError, match="threshold") as refused:
                worker.answer(ask_of(terms, round_, threshold=threshold))
            assert refused.value.reason == "threshold"
            worker.answer(ask_of(terms, round_, threshold=1.0))


def test_the_thresholds_that_counts_lead_to_are_those_that_are_taken(tmp_path: Path) -> None:
    """Counts that drive the threshold to its limits, down and up, before the first round and in rounds."""
    for share in (-1e9, 1e9):
        clip = fl.AdaptiveClip(early=3, every=2, factor=0.1)
        terms = terms_of(row_bound=None, algorithm=fl.DPFedAvg(0.1, 2, clip=clip))
        server, seen = Server(terms, elsewhere=[0, 1]), []
        with worker_of(terms, tmp_path / str(share)) as worker:
            while not server.over:
                for i, ask in server.ask().items():
                    assert ask.threshold is not None
                    seen.append(ask.threshold)
                    answer = worker.answer(ask) if i == 0 else None
                    count = share if terms.counts(ask.round) else None
                    releases = np.zeros((terms.releases(ask.round), DIMENSION))
                    server.tell(
                        i, answer if answer and count is None else Answer(i, ask.round, ask.terms, releases, count)
                    )
        assert (min(seen), max(seen)) in ((1e-6, 1.0), (1.0, 1e7))


GOOD = {"worker": 0, "round": 1, "terms": "", "kept": [], "threshold": None, "pace": 1.0, "shapes": [[DIMENSION]]}
HEADS: dict[str, Any] = {
    "a size beyond all": GOOD | {"shapes": [[10**30]]},
    "nested": b"[" * 200_000,
    "round": GOOD | {"round": "1"},
    "no round": GOOD | {"round": None},
    "round in part": GOOD | {"round": 1.0},
    "a worker that is true": GOOD | {"worker": True},
    "terms": GOOD | {"terms": 3},
    "pace": GOOD | {"pace": [1.0]},
    "count": GOOD | {"count": "many"},
    "a count beyond all": GOOD | {"count": 10**400},
    "nothing": {"shapes": [[DIMENSION]]},
}


@pytest.mark.parametrize("name", HEADS)
def test_what_strangers_write_is_refused_and_nothing_else(name: str) -> None:
    head = HEADS[name]
    data = head if isinstance(head, bytes) else json.dumps(head).encode()
    of_answer = (
        head if isinstance(head, bytes) else {k: head[k] for k in head if k not in ("kept", "threshold", "pace")}
    )
    answer = of_answer if isinstance(of_answer, bytes) else json.dumps({"count": None} | of_answer).encode()
    for read, kind, text in ((Ask.from_bytes, b"fastldpQ", data), (Answer.from_bytes, b"fastldpA", answer)):
        if (name, kind) == ("pace", b"fastldpA"):
            continue
        with pytest.raises(RefusedError) as refused:
            read(signed(kind, text, bytes(8 * DIMENSION)))
        assert refused.value.reason == "form"


@pytest.mark.parametrize("given", [None, "text", 3])
def test_what_is_no_bytes_is_refused(given: Any, tmp_path: Path) -> None:
    terms = terms_of()
    with worker_of(terms, tmp_path) as worker, pytest.raises(RefusedError, match="bytes are needed"):
        worker.answer(given)
    with pytest.raises(RefusedError, match="bytes are needed"):
        Server(terms).tell(0, given)


def test_an_answer_cannot_be_changed_behind_the_worker(tmp_path: Path) -> None:
    terms = terms_of()
    for _ in range(2):
        with worker_of(terms, tmp_path) as worker:
            answer = worker.answer(ask_of(terms))
            with pytest.raises(ValueError, match="read-only"):
                answer.releases[...] = 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_that_closes_its_worker_leaves_the_folder_locked(tmp_path: Path) -> None:
    terms = terms_of()
    with worker_of(terms, tmp_path) as worker:
        child = os.fork()
        if not child:
            worker.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with pytest.raises(RefusedError, match="is writing it"):
            worker_of(terms, tmp_path)
        worker.answer(ask_of(terms))


def test_a_worker_whose_lock_was_removed_releases_nothing(tmp_path: Path) -> None:
    terms = terms_of()
    with worker_of(terms, tmp_path) as worker:
        (tmp_path / "lock").unlink()
        with worker_of(terms, tmp_path) as other:
            with pytest.raises(RefusedError, match="'lock' was removed") as refused:
                worker.answer(ask_of(terms))
            assert refused.value.reason == "in use"
            other.answer(ask_of(terms))


def test_a_worker_is_closed_after_what_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is another's from then on."""
    terms, make = terms_of(), WorkerBlock.make
    closing: list[threading.Thread] = []

    def made(self: WorkerBlock, *given: Any) -> Any:
        closing.append(threading.Thread(target=worker.close))
        closing[0].start()
        closing[0].join(0.2)
        with pytest.raises(RefusedError, match="is writing it"):
            worker_of(terms, tmp_path)
        return make(self, *given)

    worker = worker_of(terms, tmp_path)
    monkeypatch.setattr(WorkerBlock, "make", made)
    worker.answer(ask_of(terms))
    closing[0].join()
    with pytest.raises(RefusedError, match="closed"):
        worker.answer(ask_of(terms, 2))


def test_folders_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    terms = terms_of()
    (tmp_path / "file").write_text("")
    (tmp_path / "astray").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "file", tmp_path / "astray"):
        with pytest.raises(ArgumentError, match="give a folder"):
            worker_of(terms, path)
    with pytest.raises(FastLDPError, match="file"):
        worker_of(terms, tmp_path / "file" / "in")
    for name in ("folder", "x.journal"):
        folder = tmp_path / f"of {name}"
        (folder / name).mkdir(parents=True)
        with pytest.raises(DamagedError, match="cannot be read"):
            worker_of(terms, folder)


@pytest.mark.parametrize("weighting", ["uniform", "rows"])
@pytest.mark.parametrize("others", [[2**62], [2**63 - 1], [2**63 - 1, 2**63 - 1], [2**52, 1]])
def test_sizes_whose_sums_are_not_exact_are_refused(others: list[int], weighting: str) -> None:
    """Sums that wrap around would divide gradients, and what one sample moves, by anything."""
    with pytest.raises(ArgumentError, match="workers times rows"):
        terms_of(sizes=np.array([ROWS, *others]), weighting=weighting)


def test_files_of_another_version_are_said(tmp_path: Path) -> None:
    terms = terms_of()
    with worker_of(terms, tmp_path) as worker:
        worker.answer(ask_of(terms))
    (path,) = tmp_path.glob("*.journal")
    header, arrays = unpacked(b"fastldpJ", path.read_bytes())
    for changed, left in ((header | {"more": 1}, arrays), ({"round": 1}, arrays), (header, [])):
        path.write_bytes(packed(b"fastldpJ", changed, left))
        with pytest.raises(DamagedError, match="another version"):
            worker_of(terms, tmp_path)
    state = tmp_path / "server"
    Server(terms, path=state).ask()
    header, arrays = unpacked(b"fastldpS", state.read_bytes())
    for changed, left in ((header | {"spent": 1}, arrays), (header, arrays[:-1]), (header, [arrays[0]] * len(arrays))):
        state.write_bytes(packed(b"fastldpS", changed, left))
        with pytest.raises(DamagedError, match="another version"):
            Server(terms, path=state)


def test_the_model_of_a_training_that_is_over_is_in_the_servers_file(tmp_path: Path) -> None:
    """Nobody asks again once it is, and the workers may be gone."""
    terms = terms_of()
    server = Server(terms, path=tmp_path / "server", elsewhere=[0, 1])
    while not server.over:
        for i, ask in server.ask().items():
            server.tell(i, Answer(i, ask.round, ask.terms, np.ones((1, DIMENSION))))
    again = Server(terms, path=tmp_path / "server")
    assert again.over
    assert np.array_equal(again.x, server.x)
    assert np.array_equal(again.spent_rho, server.spent_rho)


def test_a_point_is_outside_of_its_set_by_more_than_rounding(tmp_path: Path) -> None:
    terms = terms_of(regularizer=fl.Box(0.5))
    with worker_of(terms, tmp_path) as worker:
        with pytest.raises(RefusedError) as refused:
            worker.answer(ask_of(terms, point=np.full(DIMENSION, 0.5 * (1 + 1e-8))))
        assert refused.value.reason == "set"
        worker.answer(ask_of(terms, point=np.full(DIMENSION, 0.5 * (1 + 1e-15))))


def test_an_answer_that_may_be_on_the_disk_is_looked_for_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is renamed, and then the disk fails: no other answer may have the noise of this one."""
    terms, write = terms_of(), Folder.write

    def failing(self: Folder, journal: Any) -> None:
        write(self, journal)
        raise StoreError("the folder cannot be synced")

    with worker_of(terms, tmp_path) as worker:
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", failing)
            with pytest.raises(StoreError, match="cannot be synced"):
                worker.answer(ask_of(terms))
        with pytest.raises(RefusedError, match="at another point"):
            worker.answer(ask_of(terms, point=np.full(DIMENSION, 0.1)))
        (kept,) = Folder(tmp_path).journals()
        assert worker.answer(ask_of(terms)).to_bytes() == kept.answer.to_bytes()
        assert worker.spent == kept.spent


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_what_is_left_is_said_as_a_training_that_fits(accounting: str, tmp_path: Path) -> None:
    life, each = (fl.Budget(epsilon, 1e-4, accounting=accounting) for epsilon in (2.0, 1.5))
    given: dict[str, Any] = {"worker": 0, "folder": tmp_path}
    terms = terms_of("first", budget=each)
    with Worker(A, B, life, terms, **given) as worker:
        for round_ in range(1, 7):
            worker.answer(ask_of(terms, round_))
    left = status(tmp_path)["left"]["epsilon"]
    assert 0 < left < 1.5
    with pytest.raises(BudgetError, match=f"of ε ≈ {left:.3g} at this δ"):
        Worker(A, B, life, terms_of("second", budget=each), **given)
    fitting, too_much = (fl.Budget(left * part, 1e-4, accounting=accounting) for part in (0.999, 1.001))
    with pytest.raises(BudgetError, match="for life"):
        Worker(A, B, life, terms_of("third", budget=too_much), **given)
    Worker(A, B, life, terms_of("third", budget=fitting), **given).close()


def test_the_prices_of_rounds_are_those_of_the_ledger() -> None:
    """What the sampler costs depends on how far a sample moves a release, in units of its noise, and is part of ε."""
    terms = terms_of(rounds=5000, budget=fl.Budget(1.0, 1e-12), sizes=[ROWS, 25])
    for i in range(2):
        prices = Prices(terms, i)
        moved = 2 / (2 * [ROWS, 25][i])  # 2B/(n m)
        farthest = moved / min(terms.deviation(t, i) for t in range(1, 5001))
        assert prices.of(1).shift == prices.whole.shift == pytest.approx(farthest, rel=1e-9)
        spent = together(prices.of(t) for t in range(1, 5001))
        of_sampler = np.broadcast_to(terms.ledger.sampler_epsilon, 2)[i]
        assert of_sampler > 1e-10
        in_all = np.broadcast_to(terms.ledger.total_epsilon, 2)[i]
        assert epsilon_spent(terms.budget, spent) == pytest.approx(in_all, abs=of_sampler / 100)


def test_the_farthest_that_a_sample_moves_anything_counts() -> None:
    for order in ((0.1, 0.3, 0.2), (0.3, 0.2, 0.1)):
        assert together(Spent(0.1, 0.0, 1, shift) for shift in order).shift == 0.3


def test_trainings_whose_digests_begin_alike_have_journals_of_their_own(tmp_path: Path) -> None:
    first = terms_of("0")
    second = next(other for other in map(terms_of, map(str, range(1, 1000))) if other.digest[0] == first.digest[0])
    for terms in (first, second):
        with worker_of(terms, tmp_path) as worker:
            worker.answer(ask_of(terms))
    assert {one.terms for one in Folder(tmp_path).journals()} == {first.digest, second.digest}
    assert worker.spent.rho == 2 * Prices(first, 0).of(1).rho


def counting(**changes: Any) -> tuple[Terms, Server]:
    clip = fl.AdaptiveClip(early=2, every=1, factor=1.0)
    terms = terms_of(row_bound=None, algorithm=fl.PrimalDual(step=0.1, allocation="static", clip=clip))
    return terms, Server(terms, elsewhere=[0, 1], coins=KEY, **changes)


def told(ask: Ask, terms: Terms) -> Answer:
    """Made up, and another in every round."""
    releases = np.full((terms.releases(ask.round), DIMENSION), float(ask.round))
    count = 0.1 + 0.01 * (ask.round % 7) if terms.counts(ask.round) else None
    return Answer(ask.worker, ask.round, ask.terms, releases, count)


def test_who_was_missing_is_remembered_by_the_servers_file(tmp_path: Path) -> None:
    """What stands in for a missing answer is the last one, also where the server was restarted in between."""
    terms, whole = counting()
    path, thresholds = tmp_path / "server", []
    _, again = counting(path=path)
    while not whole.over:
        _, again = counting(path=path)
        gone = [] if whole.round in (-2, 1) else [1]
        thresholds.append(whole.ask()[0].threshold)
        for server in (whole, again):
            for i, ask in server.ask().items():
                assert ask.threshold == thresholds[-1]
                if i not in gone:
                    server.tell(i, told(ask, terms))
            if gone:
                assert server.close_round() == gone
        again.ask()
    assert len(set(thresholds)) == len(thresholds)
    assert np.array_equal(again.x, whole.x)
    assert np.array_equal(again.spent_rho, whole.spent_rho)
    assert again.spent_rho[1] < again.spent_rho[0]


def test_who_has_never_counted_moves_no_threshold() -> None:
    terms, server = counting()
    answer = told(server.ask()[0], terms)
    server.tell(0, answer)
    assert server.close_round() == [1]
    adapting = terms.schedule.adapting
    assert adapting is not None
    assert answer.count is not None
    # Of worker 0's samples a half would be within the threshold, if that were the median.
    moved = np.exp(-adapting.early_gains[0] * (answer.count - 0.5 * ROWS / (ROWS + 20)))
    assert server.ask()[0].threshold == pytest.approx(adapting.limits.start * moved, rel=1e-12)


@pytest.mark.parametrize("bounds", [{"row_bound": 0.5}, {"row_bound": 0.5, "gradient_bound": "half"}])
def test_workers_scale_their_rows_to_the_public_bound(bounds: dict[str, Any], tmp_path: Path) -> None:
    """As a simulation does, to its bits; all rows are longer."""
    assert np.linalg.norm(A, axis=1).min() > 0.5
    problem = fl.Problem(A, B, workers=1, l2=0.1, **bounds)
    terms = Terms.of(problem, fl.Budget(1.0, 1e-4), 6)
    key = common_key(3)
    server = Server(terms, coins=key)
    with worker_of(terms, tmp_path, key=key) as worker:
        while not server.over:
            server.tell(0, worker.answer(server.ask()[0]))
    expected = fl.solve(problem, terms.budget, rounds=6, seed=3, common_noise=True)
    assert np.array_equal(server.x, expected.x[0])


def test_noise_is_allocated_by_the_least_convex_of_all_workers() -> None:
    """By l2 alone, that is public: ξ_t² goes as (1 − γ μ_f)^(−(T−t)/2), with μ_f = minᵢ wᵢ l2."""
    given: dict[str, Any] = {"row_bound": None, "weighting": "rows", "sizes": [ROWS, 3 * ROWS]}
    terms = terms_of(algorithm=fl.PrimalDual(step=0.1, clip=1.0), **given)
    variances = np.asarray([terms.deviation(t, 0) ** 2 for t in range(1, 7)])
    np.testing.assert_allclose(variances[:-1] / variances[1:], (1 - 0.1 * 0.1 / 4) ** -0.5, rtol=1e-12)
