"""Pending runs into blocks of lanes, and blocks into tasks for workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastldp import engine
from fastldp.algorithms.program import Program
from fastldp.block import lane_mates, lanes_of
from fastldp.composite import Composite
from fastldp.recording import Timetable
from fastldp.sweeping.ground import Ground
from fastldp.sweeping.work import Pending

# Blocks that take less are sent together, so that sending them costs little beside running them.
TASK_SECONDS = 0.2
# Fewer tasks a slot would leave some of them idle at the end.
TASKS_A_SLOT = 4


class Shape(NamedTuple):
    """What packing must know of a setting."""

    mates: tuple[Any, ...]
    """What its runs must have in common with others to share a block."""
    local_steps: int
    nanoseconds: float
    """Of a round of a block."""


class Task(NamedTuple):
    """Blocks over the same data, for one worker."""

    ground: int
    blocks: list[list[Pending]]
    seconds: float
    """How long they may take; an estimate."""


def shape_of(problem: Composite, program: Program, timetable: Timetable, *, private: bool) -> Shape:
    steps = program.local_steps
    return Shape(lane_mates(problem, program, timetable, private=private), steps, engine.nanoseconds(problem, steps))


def blocks_of(
    pending: Iterable[Pending], grounds: Sequence[Ground], shapes: Mapping[str, Shape]
) -> list[tuple[float, list[Pending]]]:
    """Blocks of runs that can share lanes, those that have begun first and then the longest, with their seconds."""
    by_kind: dict[tuple[Any, ...], list[Pending]] = {}
    for run in pending:
        by_kind.setdefault((run.setting.ground, run.done, *shapes[run.setting.key].mates), []).append(run)
    blocks = []
    for mates in by_kind.values():
        mates.sort(key=lambda run: -run.setting.rounds)
        problem = grounds[mates[0].setting.ground].subjects[0].problem
        for block in engine.blocks_of(mates, lanes_of(problem), engine.lines_of(problem)):
            left = block[0].setting.rounds - block[0].done
            blocks.append((1e-9 * left * shapes[block[0].setting.key].nanoseconds, block))
    return sorted(blocks, key=lambda block: (block[1][0].done == 0, -block[0]))


def tasks_of(blocks: Sequence[tuple[float, list[Pending]]], slots: int, leg: float) -> list[Task]:
    """One wave of tasks: the blocks too long for one leg, no more than there are slots, and short ones beside them.

    What has begun is thus brought to its end before more is begun, and few runs are half done at any moment.
    """
    long = [block for block in blocks if block[0] > leg]
    short = [block for block in blocks if block[0] <= leg]
    tasks = [Task(block[0].setting.ground, [block], seconds) for seconds, block in long[:slots]]
    free = (slots - len(tasks)) * leg if long else float("inf")
    chosen = []
    for seconds, block in short:
        if free <= 0:
            break
        chosen.append((seconds, block))
        free -= seconds
    enough = min(TASK_SECONDS, sum(seconds for seconds, _ in chosen) / (TASKS_A_SLOT * slots))
    piles: dict[int, list[Task]] = {}
    for seconds, block in chosen:
        pile = piles.setdefault(block[0].setting.ground, [])
        if not pile or pile[-1].seconds >= enough:
            pile.append(Task(block[0].setting.ground, [], 0.0))
        pile[-1].blocks.append(block)
        pile[-1] = pile[-1]._replace(seconds=pile[-1].seconds + seconds)
    return tasks + sorted(itertools.chain.from_iterable(piles.values()), key=lambda task: -task.seconds)
