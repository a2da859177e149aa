"""What trials of result files have in common: a sweep of milliseconds, the bits of its runs, and what it reported."""

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
from fastldp.bars import Progress
from fastldp.engine import driving
from fastldp.sweeping import runner, store
from fastldp.sweeping import spec as specs
from fastldp.sweeping.parameters import flat
from fastldp.sweeping.setting import Card
from fastldp.sweeping.spec import Spec
from fastldp.sweeping.store import Store
from fastldp.sweeping.work import RUNNING, Leg

# Runs of several lengths: some are finished while others go on.
SPEC = """
rounds = [6, 18, 30]
repetitions = 2
seed = 5
[data]
given = "tiny"
[problem]
workers = 4
l2 = 0.1
[budget]
epsilon = 4.0
delta = 1e-3
[[method]]
name = "ISRLDP"
step = [0.1, 0.3]
[record]
every = 5
"""
# A few other runs, that make a file larger than many parts.
LARGER = SPEC.replace("[6, 18, 30]", "1500").replace("every = 5", "every = 1\nmodels = true")

Place = tuple[str, int]
"""The parameters of a run, and its repetition."""
Bits = dict[Place, str]
"""A digest of all that is known of each run but its time and machine."""
Tree = dict[str, bytes | None]
"""What a folder holds, by path within it; None for a folder."""


def tiny() -> tuple[Any, Any]:
    """Data whose numbers are exact, so that every machine has the same."""
    i, j = np.arange(60)[:, None], np.arange(5)
    return ((7 * i + 3 * i * j + j * j) % 11 - 5) / 8, np.where((3 * i[:, 0] + i[:, 0] // 4) % 5 > 2, 1.0, -1.0)


def read(text: str = SPEC) -> Spec:
    return specs.read(text, {"tiny": tiny()})


def sweep(command: Spec, path: Path, leg_seconds: float = 1e-9) -> None:
    """In this thread, with legs as short as they can be."""
    fl.sweep(command, path, n_jobs=1, leg_seconds=leg_seconds, progress=False)


@contextmanager
def hasty(many_parts: int = 3) -> Iterator[None]:
    """Every batch a commit, every few parts a fold, every few rounds a leg."""
    with (
        mock.patch.object(store, "MANY_PARTS", many_parts),
        mock.patch.object(runner, "COMMIT_SECONDS", 0.0),
        mock.patch.object(driving, "SEGMENT_NANOSECONDS", 7 * 2800.0),
    ):
        yield


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


def tree_of(root: Path) -> Tree:
    """What a folder holds."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


def lay(tree: Tree, root: Path) -> None:
    """Make a folder that holds this."""
    root.mkdir(parents=True)
    for path in sorted(tree):
        content = tree[path]
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)
