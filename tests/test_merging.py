"""Merges of pieces of runs: whatever they are and in whatever order files are merged, nothing is lost and all agree."""

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp.errors import StoreError
from fastldp.sweeping import merging, spec
from fastldp.sweeping.layout import OUTCOMES, File
from fastldp.sweeping.merging import uncovered
from fastldp.sweeping.store import SettingRow, Store, parts_of
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED, RUNNING, Leg

ROUNDS, EVERY, D = 20, 3, 2
SPEC = spec.read(sweeps.spec("isrl", rounds=str(ROUNDS), record=f"every = {EVERY}\nmodels = true"), sweeps.DATA)
SETTINGS = {
    setting.key: SettingRow(SPEC.cards[setting.key], None, setting.timetable.rounds) for setting in SPEC.settings
}
KEYS = list(SETTINGS)
RECORDED = SPEC.settings[0].timetable.rounds


def leg(run: int, begin: int, end: int, outcome: str = "", message: str = "") -> Leg:
    """A piece whose numbers say which run and which round they are of."""
    outcome = outcome or (COMPLETED if end == ROUNDS else RUNNING)
    rounds = RECORDED[(begin < RECORDED) & (end >= RECORDED)].astype(float)
    columns: dict[str, Any] = {
        "consensus": rounds + 1000 * run,
        "distance": -rounds,
        "models": np.repeat(rounds, D) + np.tile([0.25, 0.5], rounds.size),
    }
    if outcome == COMPLETED:
        columns["x"] = np.full(D, float(run))
    elif outcome != DIVERGED and end > begin:
        columns["memory"] = np.full(4, float(end))
    return Leg(KEYS[run % len(KEYS)], run // len(KEYS), begin, end, outcome, message, 1.0, "here", columns)


def stored(path: Path) -> dict[int, tuple[str, int]]:
    """How the runs of a file stand, once their numbers were seen to be right."""
    merged = merging.Merged([File(file) for file in ([path] if path.exists() else []) + parts_of(path)])
    keys = [KEYS.index(key.decode()) for key in merged.texts("key").tolist()]
    columns = {name: merged.rows("runs", name).ragged() for name in ("consensus", "distance", "models", "x", "memory")}
    found = {}
    for row in np.flatnonzero(merged.whole).tolist():
        numbers = {name: int(merged.numbers(name)[row]) for name in ("setting", "repetition", "round", "outcome")}
        run = keys[numbers["setting"]] + len(KEYS) * numbers["repetition"]
        outcome, end = OUTCOMES[numbers["outcome"]], numbers["round"]
        expected = leg(run, 0, end, outcome).columns
        for name, column in columns.items():
            if not (name == "memory" and outcome == FAILED):  # which the rounds before it have left, or not
                np.testing.assert_array_equal(column.row(row), expected.get(name, np.zeros(0)), err_msg=name)
        found[run] = outcome, end
    return found


def written(path: Path, *parts: list[Leg]) -> None:
    with Store(path, session={"started": "now"}) as store:
        for part in parts:
            store.commit(part, SETTINGS)


def folded(path: Path, *groups: int) -> None:
    """Merge some of the parts into a part, so many at a time, and then all into the file."""
    with Store(path, session={}) as store:
        for count in groups:
            store._merge(parts_of(path)[:count], store._next_part())
        store.fold()


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([(0, 20)], (COMPLETED, 20)),
        ([(0, 7), (7, 20)], (COMPLETED, 20)),
        ([(7, 20), (0, 7)], (COMPLETED, 20)),
        ([(0, 7), (11, 20)], (RUNNING, 7)),
        ([(0, 11), (7, 20)], (COMPLETED, 20)),
        ([(0, 7), (7, 11), (3, 20)], (COMPLETED, 20)),
        ([(3, 11), (5, 20), (0, 5)], (COMPLETED, 20)),
        ([(0, 0, FAILED)], (FAILED, 0)),
        ([(0, 0, FAILED), (0, 20)], (COMPLETED, 20)),
        ([(0, 7), (7, 7, FAILED)], (FAILED, 7)),
        ([(0, 7), (3, 7, FAILED)], (FAILED, 7)),
        ([(0, 7), (7, 7, FAILED), (7, 20)], (COMPLETED, 20)),
        ([(0, 7), (4, 9, DIVERGED)], (DIVERGED, 9)),
    ],
)
@pytest.mark.parametrize("groups", [(), (2,), (2, 2)])
def test_pieces_are_merged_as_intervals_are(
    pieces: list[Any], expected: tuple[str, int], groups: tuple[int, ...], tmp_path: Path
) -> None:
    legs = [leg(0, *piece) for piece in pieces]
    written(tmp_path / "r.h5", *([one] for one in legs))
    assert stored(tmp_path / "r.h5") == {0: expected}
    folded(tmp_path / "r.h5", *groups)
    assert stored(tmp_path / "r.h5") == {0: expected}


def random_legs(chance: random.Random) -> list[Leg]:
    """Runs cut into pieces, some of them several times and otherwise, some with a piece missing."""
    legs = []
    for run in range(6):
        for _ in range(chance.choice([1, 1, 2, 3])):
            cuts = sorted({0, *(chance.randrange(1, ROUNDS) for _ in range(chance.randrange(4))), ROUNDS})
            pieces = [leg(run, *cut) for cut in itertools.pairwise(cuts)]
            if chance.random() < 0.3:
                at = chance.choice(cuts[:-1])
                pieces.append(leg(run, at, at, FAILED, "it failed"))
            legs += [piece for piece in pieces if chance.random() < 0.9]
    chance.shuffle(legs)
    return legs


def expected_of(legs: list[Leg]) -> dict[int, tuple[str, int]]:
    """By brute force: round for round."""
    found = {}
    for run in range(6):
        mine = [one for one in legs if KEYS.index(one.key) + len(KEYS) * one.repetition == run]
        there = {round_ for one in mine for round_ in range(one.begin + 1, one.end + 1)}
        reached = next((k for k in range(ROUNDS) if k + 1 not in there), ROUNDS)
        if reached == ROUNDS:
            found[run] = COMPLETED, ROUNDS
        elif any(one.outcome == FAILED and one.end == reached for one in mine):
            found[run] = FAILED, reached
        elif reached:
            found[run] = RUNNING, reached
    return found


@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_merged_with_whatever_nothing_is_lost(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    legs = random_legs(chance)
    digests = set()
    for order in range(3):
        path = tmp_path / f"{order}.h5"
        chance.shuffle(legs)
        cuts = sorted(chance.sample(range(1, len(legs)), 4))
        written(path, *(legs[a:b] for a, b in zip([0, *cuts], [*cuts, len(legs)], strict=True)))
        with Store(path, session={}) as store:
            for _ in range(chance.randrange(4)):
                some = chance.sample(parts_of(path), min(2, len(parts_of(path))))
                before = tmp_path / "before"
                shutil.copytree(store.folder, before)
                store._merge(some, chance.choice([path, store._next_part()]))
                assert stored(path) == expected_of(legs)
                # As after a crash before parts were removed.
                for part in before.glob("part-*.h5"):
                    if chance.random() < 0.3:
                        shutil.copy(part, store.folder)
                shutil.rmtree(before)
            store.fold()
        assert stored(path) == expected_of(legs)
        digests.add(fl.results(path).digest())
    assert len(digests) == 1


def test_the_last_failure_is_the_one_that_is_told(tmp_path: Path) -> None:
    for order, messages in enumerate((["a first", "z second"], ["z first", "a second"])):
        path = tmp_path / f"{order}.h5"
        for day, message in enumerate(messages):
            with Store(path, session={"started": f"day {day}"}) as store:
                store.commit([leg(0, 0, 0, FAILED, message)], SETTINGS)
        assert fl.results(path)[0].message == messages[1]
        folded(path)
        assert fl.results(path)[0].message == messages[1]


@pytest.mark.parametrize(
    ("made", "source"),
    [
        ((0, 7), (0, 20)),
        ((7, 20), (0, 20)),
        ((0, 7, RUNNING), (3, 7, FAILED)),
        ((0, 20, FAILED), (0, 20, COMPLETED)),
        ((0, 9, RUNNING), (0, 9, DIVERGED)),
    ],
)
def test_what_a_merge_lacks_is_seen(made: tuple[Any, ...], source: tuple[Any, ...], tmp_path: Path) -> None:
    for name, piece in (("made", made), ("source", source)):
        written(tmp_path / f"{name}.h5", [leg(0, *piece)])
    target, sources = (File(parts_of(tmp_path / f"{name}.h5")[0]) for name in ("made", "source"))
    assert uncovered(target, [sources]) == 1
    assert uncovered(target, [target]) == uncovered(sources, [sources]) == 0


def test_rows_that_ought_to_be_joined_are_seen(tmp_path: Path) -> None:
    written(tmp_path / "apart.h5", [leg(0, 0, 7), leg(0, 7, 20)])
    apart = File(parts_of(tmp_path / "apart.h5")[0])
    assert uncovered(apart, [apart]) == 1


def test_a_file_is_replaced_only_by_one_that_has_all_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "r.h5", [leg(0, 0, 20)])
    folded(tmp_path / "r.h5")
    written(tmp_path / "r.h5", [leg(0, 0, 7), leg(1, 0, 20)])
    before = (tmp_path / "r.h5").read_bytes()
    monkeypatch.setattr(merging, "groups_of", lambda pieces, piece: [pieces[-1:]])
    with Store(tmp_path / "r.h5", session={}) as store, pytest.raises(StoreError, match="nothing was changed"):
        store.fold()
    assert (tmp_path / "r.h5").read_bytes() == before
