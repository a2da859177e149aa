"""What trials of result files compare: the numbers of every run, and which runs a sweep has reported as finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import fastldp as fl
from fastldp.sweeping.progress import Progress
from fastldp.sweeping.reading import flat
from fastldp.sweeping.setting import Card
from fastldp.sweeping.store import Store
from fastldp.sweeping.work import RUNNING, Leg

Place = tuple[str, int]
"""The parameters of a run, and its repetition."""
Bits = dict[Place, str]
"""A digest of all that is known of each run but its time and machine."""


def bits_of(path: Path) -> Bits:
    """The runs that a file has, and their bits; none where there is no file yet."""
    try:
        found: Iterable[Any] = fl.results(path)
    except FileNotFoundError:
        return {}
    return {(_named(run.parameters), run.repetition): _digest(run) for run in found}


def _named(parameters: dict[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True)


def _digest(run: Any) -> str:
    ledger = {} if run.ledger is None else run.ledger.to_dict()
    digest = hashlib.sha256(f"{run.outcome} {run.message} {sorted(ledger)}".encode())
    of_ledger = (ledger[name] for name in sorted(ledger))
    for array in (run.planned, run.consensus, run.distance, run.objective, run.x, *of_ledger):
        digest.update(repr(np.shape(array)).encode() + np.asarray(array).tobytes())
    return digest.hexdigest()


@contextmanager
def reporting(
    cards: dict[str, Card], tell: Callable[[list[Place]], object], kept: Callable[[Leg], object] = lambda _: None
) -> Iterator[None]:
    """Inside of it `tell` hears which runs are finished, when a sweep's bar does; `kept` hears of legs on the disk."""
    commit, finished = Store.commit, Progress.finished
    written: list[Leg] = []

    def committed(self: Store, legs: Any, *others: Any) -> None:
        legs = list(legs)
        commit(self, legs, *others)
        written.extend(legs)
        for leg in legs:
            kept(leg)

    def told(self: Progress, runs: int) -> None:
        over = [leg for leg in written if leg.outcome != RUNNING]
        written.clear()
        if len(over) != runs:
            raise AssertionError(f"{runs} runs were reported, and {len(over)} were written")
        tell([(_named(flat(json.loads(cards[leg.key].text))), leg.repetition) for leg in over])
        finished(self, runs)

    with mock.patch.object(Store, "commit", committed), mock.patch.object(Progress, "finished", told):
        yield
