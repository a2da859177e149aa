"""What a solve keeps along the way: the caller says which rounds, and whose messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import memory
from fastldp.errors import ArgumentError
from fastldp.validation import integer

DEFAULT_RECORDS = 100
# What a recorded round takes at least: its number, its consensus, its distance.
ARRAYS_OF_RECORDS = 3


@dataclass(frozen=True)
class Every:
    """Record every k-th round, and the last.

    Parameters
    ----------
    k : int
        How many rounds lie between records.
    """

    k: int

    def __post_init__(self) -> None:
        integer("k", self.k, "give a whole number ≥ 1", at_least=1)


@dataclass(frozen=True)
class Final:
    """Record the last round alone."""


@dataclass(frozen=True)
class Messages:
    """Keep every message of one worker: all that the server saw of it.

    Parameters
    ----------
    worker : int
        Its number, from 0.
    """

    worker: int

    def __post_init__(self) -> None:
        integer("worker", self.worker, "give a worker's number, from 0", at_least=0)


Record = Every | Final | Messages | Sequence[Any] | NDArray[np.integer[Any]] | None


class Timetable(NamedTuple):
    """The rounds to record, ascending, and the worker whose messages are kept, or −1."""

    rounds: NDArray[np.int64]
    worker: int


def timetable(record: Record, rounds: int, workers: int) -> Timetable:
    """What `record` asks for in a solve of so many rounds; Messages may stand beside a choice of rounds.

    >>> timetable(Every(4), rounds=10, workers=2).rounds.tolist()
    [4, 8, 10]
    """
    several = list(record) if isinstance(record, Sequence | np.ndarray) else [record]
    watched = [item.worker for item in several if isinstance(item, Messages)]
    chosen = [item for item in several if item is not None and not isinstance(item, Messages)]
    if not several:
        raise ArgumentError("record", record, "nothing would be recorded; give at least one round, or Final()")
    if len(watched) > 1:
        raise ArgumentError("record", record, "the messages of one worker can be kept in a solve")
    if watched and watched[0] >= workers:
        raise ArgumentError("record", record, f"the workers are numbered 0 to {workers - 1}")
    return Timetable(_rounds(chosen, record, rounds), watched[0] if watched else -1)


def _rounds(chosen: list[Any], record: Record, rounds: int) -> NDArray[np.int64]:
    if not chosen:
        count = min(DEFAULT_RECORDS, rounds)
        # Evenly spaced and ending at the last round, on whole numbers.
        return np.arange(1, count + 1, dtype=np.int64) * rounds // count
    if len(chosen) == 1 and isinstance(chosen[0], Every):
        k = min(chosen[0].k, rounds)
        memory.refuse_beyond("record", 8 * ARRAYS_OF_RECORDS * (rounds // k), "record fewer rounds")
        regular = np.arange(k, rounds + 1, k)
        return regular if regular[-1] == rounds else np.append(regular, rounds)
    if len(chosen) == 1 and isinstance(chosen[0], Final):
        return np.array([rounds])
    remedy = f"give Every(k), Final(), or a list of rounds from 1 to {rounds}"
    for item in chosen:
        if isinstance(item, Every | Final):
            raise ArgumentError("record", record, remedy)
        integer("record", item, remedy, at_least=1, at_most=rounds)
    return np.unique(np.array(chosen, dtype=np.int64))


def some_of(records: int, most: int = 8) -> NDArray[np.int64]:
    """The places of some records to show, evenly from the first to the last.

    >>> some_of(100, most=5).tolist()
    [0, 25, 50, 74, 99]
    """
    return np.unique(np.linspace(0, records - 1, min(records, most)).round().astype(np.int64))
