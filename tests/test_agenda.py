"""The agenda of a sweep: what is missing, in blocks, without an object for every run."""

import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
import pytest

import sweeps
from fastldp.sweeping import spec as specs
from fastldp.sweeping.agenda import CODES, Agenda, Task, tasks_of, wave_of
from fastldp.sweeping.backends import Threads
from fastldp.sweeping.store import NOTHING, Standings
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED, RUNNING, Leg

MIB = 2**20


def read(**changes: Any) -> specs.Spec:
    return specs.read(sweeps.spec("primal_dual", "isrl", **changes), sweeps.DATA)


def nothing_of(spec: specs.Spec) -> Standings:
    shape = len(spec.settings), spec.repetitions
    return Standings(np.full(shape, NOTHING, dtype=np.int8), np.zeros(shape, dtype=np.int64), {})


def leg(spec: specs.Spec, row: int, repetition: int, end: int, outcome: str) -> Leg:
    columns = {"memory": np.zeros(3)} if outcome == RUNNING else {}
    return Leg(spec.settings[row].key, repetition, 0, end, outcome, "", 0.0, "", columns)


def places(spec: specs.Spec, agenda: Agenda) -> list[list[tuple[int, int, int]]]:
    """Row, repetition and rounds done of every run of every block."""
    rows = {setting.key: row for row, setting in enumerate(spec.settings)}
    blocks = agenda.blocks()
    return [
        [(rows[run.setting.key], run.repetition, run.done) for run in agenda.pending(blocks, number)]
        for number in range(blocks.size)
    ]


def test_every_missing_run_is_in_one_block_with_others_of_its_kind() -> None:
    spec = read(repetitions=13)
    agenda = Agenda(spec, nothing_of(spec), retry=False)
    blocks = places(spec, agenda)
    found = sorted(place[:2] for block in blocks for place in block)
    assert found == [(row, k) for row in range(len(spec.settings)) for k in range(13)]
    for block in blocks:
        assert len({spec.shapes[spec.settings[row].key].kind for row, _, _ in block}) == 1
    # Nothing was taken: what a lost worker had comes again, in the same order.
    assert places(spec, agenda) == blocks
    assert (len(agenda), agenda.wanted, agenda.begun) == (8 * 13, 8 * 13, 0)
    assert agenda.rounds == 13 * 4 * (30 + 50)


def test_what_has_begun_comes_first_and_then_the_longest() -> None:
    spec = read(rounds="[30, 50, 70]", repetitions=8)
    agenda = Agenda(spec, nothing_of(spec), retry=False)
    short = [row for row, setting in enumerate(spec.settings) if setting.rounds == 30]
    agenda.take([leg(spec, short[0], k, 10, RUNNING) for k in (2, 5)])
    agenda.take([leg(spec, short[0], 3, 20, RUNNING)])
    blocks = places(spec, agenda)
    # Runs of a block are at the same round; of two blocks that have begun, the one with more to do is first.
    assert blocks[:2] == [[(short[0], 2, 10), (short[0], 5, 10)], [(short[0], 3, 20)]]
    lengths = [spec.settings[block[0][0]].rounds for block in blocks[2:]]
    seconds = agenda.blocks().seconds[2:]
    assert sorted(lengths, reverse=True)[:4] == [70] * 4
    assert (np.diff(seconds) <= 0).all()
    assert agenda.begun == 3
    assert agenda.rounds == 8 * 4 * (30 + 50 + 70) - 10 - 10 - 20


def test_what_is_taken_is_missing_no_more() -> None:
    spec = read()
    agenda = Agenda(spec, nothing_of(spec), retry=False)
    agenda.take([leg(spec, 1, 0, 10, RUNNING), leg(spec, 2, 1, 30, COMPLETED), leg(spec, 2, 2, 7, DIVERGED)])
    assert len(agenda) == 8 * 3 - 2
    assert agenda.of_settings.tolist() == [3, 3, 1, 3, 3, 3, 3, 3]
    agenda.take([leg(spec, 1, 0, 30, COMPLETED)])
    assert (len(agenda), agenda.begun) == (8 * 3 - 3, 0)
    assert not {(1, 0), (2, 1), (2, 2)} & {place[:2] for block in places(spec, agenda) for place in block}
    assert [agenda.count(outcome) for outcome in (COMPLETED, DIVERGED, RUNNING)] == [2, 1, 0]
    assert agenda.outcomes[2].tolist() == [NOTHING, CODES[COMPLETED], CODES[DIVERGED]]


@pytest.mark.parametrize("retry", [False, True])
def test_a_file_says_what_is_missing_and_where_it_goes_on(retry: bool) -> None:
    spec = read()
    there = nothing_of(spec)
    there.outcome[0] = [CODES[COMPLETED], CODES[DIVERGED], CODES[RUNNING]]
    there.outcome[1] = [CODES[FAILED], CODES[FAILED], NOTHING]
    there.done[:2] = [[30, 7, 20], [15, 15, 0]]
    there.checkpoints.update({(0, 2): np.ones(3), (1, 0): np.ones(3)})
    agenda = Agenda(spec, there, retry=retry)
    found = {place for block in places(spec, agenda) for place in block if place[0] < 2}
    # A run that failed without anything to go on from begins anew.
    assert found == {(0, 2, 20), (1, 2, 0)} | ({(1, 0, 15), (1, 1, 0)} if retry else set())
    assert agenda.count(FAILED) == 2
    assert agenda.wanted - len(agenda) == (2 if retry else 4)


def test_a_million_runs_take_arrays_and_tasks_are_made_as_they_are_asked_for() -> None:
    spec = specs.read(sweeps.spec("isrl", rounds="{from = 1, to = 50, by = 1}", repetitions=10_000), sweeps.DATA)
    tracemalloc.start()
    agenda = Agenda(spec, nothing_of(spec), retry=False)
    blocks = agenda.blocks()
    wave = wave_of(blocks, 2, 10.0)
    tasks = list(islice(tasks_of(agenda, wave, 2, 10.0), 10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(agenda), blocks.size, wave.size) == (1_000_000, 125_000, 125_000)
    assert sum(len(task.blocks) for task in tasks) < 10_000
    assert peak < 150 * MIB


@pytest.mark.thorough
@pytest.mark.parametrize("slots", [1, 2])
def test_threads_take_tasks_as_they_need_them(slots: int) -> None:
    spec = read(rounds="5", repetitions=400)
    agenda = Agenda(spec, nothing_of(spec), retry=False)
    wave = wave_of(agenda.blocks(), slots, 10.0)
    drawn: list[int] = []

    def tasks() -> Iterator[Task]:
        for number in range(wave.size):
            drawn.append(number)
            yield Task(0, [agenda.pending(wave, number)], alone=False)

    stop = threading.Event()
    with closing(Threads(spec.grounds, slots)) as worker:
        batches = worker.stream(tasks(), stop, 10.0)
        next(batches)
        # One more than there are slots waits, and no more than that.
        assert len(drawn) <= slots + 1
        stop.set()
        # What is at work hands over what it has, and nothing else is begun.
        rest = list(batches)
    assert len(rest) <= slots
    assert len(drawn) <= slots + 1


def test_long_blocks_take_a_slot_each_and_short_ones_fill_the_rest_of_the_leg() -> None:
    spec = read(rounds="[10, 1_000_000]", repetitions=8)
    agenda = Agenda(spec, nothing_of(spec), retry=False)
    blocks = agenda.blocks()
    assert [agenda.pending(blocks, k)[0].setting.rounds for k in range(8)] == [1_000_000] * 4 + [10] * 4
    leg_seconds = float(blocks.seconds[3]) / 2
    assert wave_of(blocks, 2, leg_seconds).seconds.tolist() == blocks.seconds[:2].tolist()
    assert wave_of(blocks, 6, leg_seconds).size == 8
    tasks = list(tasks_of(agenda, wave_of(blocks, 6, leg_seconds), 6, leg_seconds))
    assert [task.blocks[0][0].setting.rounds for task in tasks[:4]] == [1_000_000] * 4
    assert sum(len(task.blocks) for task in tasks[4:]) == 4
    assert not any(task.alone for task in tasks)
