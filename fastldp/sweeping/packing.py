"""What runs must have in common to share a block, and blocks into tasks for workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fastldp import engine
from fastldp.block import lane_mates
from fastldp.composite import Composite
from fastldp.methods import Program
from fastldp.recording import Timetable
from fastldp.sweeping.agenda import Agenda, Blocks
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
    alone: bool
    """Whether nothing else is to be done at the time."""


def shape_of(problem: Composite, program: Program, timetable: Timetable, *, private: bool) -> Shape:
    steps = program.local_steps
    return Shape(lane_mates(problem, program, timetable, private=private), steps, engine.nanoseconds(problem, steps))


def wave_of(blocks: Blocks, slots: int, leg: float) -> Blocks:
    """The blocks to be run next: those too long for one leg, no more than there are slots, and short ones beside them.

    What has begun is thus brought to its end before more is begun, and few runs are half done at any moment.
    """
    long = np.flatnonzero(blocks.seconds > leg)
    short = np.flatnonzero(blocks.seconds <= leg)
    if long.size:
        # As many as begin before the slots that are left have had a leg's time.
        begins = np.cumsum(blocks.seconds[short]) - blocks.seconds[short]
        short = short[begins < max(0, slots - long.size) * leg]
    return blocks.only(np.concatenate([long[:slots], short]))


def tasks_of(agenda: Agenda, wave: Blocks, slots: int, leg: float) -> Iterator[Task]:
    """The tasks of a wave, each made when it is asked for."""
    short = wave.seconds <= leg
    enough = min(TASK_SECONDS, float(wave.seconds[short].sum()) / (TASKS_A_SLOT * slots))
    piles: dict[int, tuple[float, list[list[Pending]]]] = {}
    columns: Any = zip(wave.grounds.tolist(), wave.seconds.tolist(), strict=True)
    for number, (ground, seconds) in enumerate(columns):
        block = agenda.pending(wave, number)
        if seconds > leg:
            yield Task(ground, [block], alone=wave.size == 1)
            continue
        before, pile = piles.pop(ground, (0.0, []))
        pile.append(block)
        if before + seconds >= enough:
            yield Task(ground, pile, alone=wave.size == 1)
        else:
            piles[ground] = before + seconds, pile
    for ground, (_, pile) in piles.items():
        yield Task(ground, pile, alone=wave.size == 1)
