"""Runs of a file made again, and compared bit by bit; the optimum's part of an error, within its certificate."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.engine.driving import available_cores, lines_of
from fastldp.engine.layouts import lanes_of
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP
from fastldp.problems.optimum import CERTIFICATE
from fastldp.sweeping import spec as specs
from fastldp.sweeping.run import Loaded
from fastldp.sweeping.setting import Setting
from fastldp.sweeping.spec import NO_TEXT, Spec
from fastldp.sweeping.work import RUNNING, Leg, Pending, complete

Array = NDArray[np.float64]

# What BLAS may add up in another order on another processor: measures, and the optimum that errors are taken from.
MEASURED = ("objective", "train_loss", "accuracy")
OTHER_ORDER = 1e-9
# Of problems whose certificate does not say how far the optimum may be.
WITHOUT_CERTIFICATE = 1e-6


class Made(NamedTuple):
    """A setting that can be made again: its specification, and its place in it."""

    spec: Spec
    setting: Setting


def specifications(
    sessions: Sequence[Mapping[str, Any]], keys: set[str], given: Mapping[str, Any] | None, folder: Path
) -> tuple[dict[str, Made], dict[str, list[Spec]], list[str]]:
    """Settings by their keys, read again from what sessions say they were made from; and what could not be read.

    The second are the specifications of each text.
    """
    made: dict[str, Made] = {}
    by_text: dict[str, list[Spec]] = {}
    unread = []
    for session in sessions:
        text = session.get("spec", "")
        for quick, synthetic in _ways(session):
            name = json.dumps([text, quick, synthetic])
            if name in by_text:
                continue
            by_text[name] = []
            if isinstance(text, str) and text.startswith(NO_TEXT):
                unread.append(" ".join(line.removeprefix("# ") for line in text.splitlines()))
                continue
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they were given when the runs were made
                    spec = specs.read(f"{text}\n", given, quick=quick, synthetic=synthetic, folder=folder)
            except Exception as error:  # it may be anybody's
                unread.append(str(error))
                continue
            found = {setting.key: Made(spec, setting) for setting in spec.settings}
            # Older files do not say how theirs were read.
            if "quick" in session or keys & found.keys():
                by_text[name].append(spec)
                made |= found
    return made, by_text, list(dict.fromkeys(unread))


def _ways(session: Mapping[str, Any]) -> list[tuple[bool, bool]]:
    """How a specification was read: with its table [quick], with stand-ins."""
    if "quick" in session:
        return [(session["quick"], session["synthetic"])]
    return [(False, False), (True, False), (False, True), (True, True)]


class Again(NamedTuple):
    """A run that was made again: what it was the last time, and where it is in the file."""

    row: int
    leg: Leg


def again(loaded: Loaded, rows: Sequence[int], made: Mapping[str, Made]) -> Iterator[Again]:
    """These rows of a file made again, as many at a time as share lanes."""
    keys = loaded.texts("key").tolist()
    piles: dict[tuple[Any, ...], list[tuple[int, Pending]]] = {}
    for row in rows:
        spec, setting = made[keys[loaded.numbers("setting")[row]].decode()]
        pending = Pending(setting, int(loaded.numbers("repetition")[row]))
        piles.setdefault((id(spec), setting.ground, spec.shapes[setting.key].kind), []).append((row, pending))
    for pile in piles.values():
        setting = pile[0][1].setting
        ground = made[setting.key].spec.grounds[setting.ground]
        size = max(1, lines_of(ground.subjects[0].problem) * lanes_of(ground.subjects[0].problem))
        pile.sort(key=lambda one: -one[1].setting.rounds)
        for begin in range(0, len(pile), size):
            some = pile[begin : begin + size]
            for leg in _to_the_end(ground, [pending for _, pending in some]):
                (row,) = (row for row, run in some if (run.setting.key, run.repetition) == (leg.key, leg.repetition))
                yield Again(row, leg)


def _to_the_end(ground: Any, pending: Sequence[Pending]) -> Iterator[Leg]:
    """All of their rounds, piece by piece where memory has no room for all that is recorded."""
    settings = {run.setting.key: run.setting for run in pending}
    before: dict[tuple[str, int], dict[str, Array]] = {}
    while pending:
        batch = complete(ground, [pending], seconds=math.inf, threads=available_cores())
        going = []
        for leg in batch.legs:
            place = leg.key, leg.repetition
            columns = before.pop(place, {})
            joined = {
                name: np.concatenate([columns[name], values]) if name in columns and name != "x" else values
                for name, values in leg.columns.items()
                if name != "memory"
            }
            if leg.outcome == RUNNING:
                before[place] = joined
                going.append(Pending(settings[leg.key], leg.repetition, leg.end, leg.columns["memory"]))
            else:
                yield leg._replace(columns=joined)
        pending = going


def differences(loaded: Loaded, run: Again, problem: Composite, optimum: Array) -> tuple[list[str], list[str]]:
    """Where a run is not what it was when it was made again, and what agrees but not to the last bit."""
    row, leg = run
    apart, near = [], []
    outcome = {"completed": 0, "diverged": 1, "failed": 2}[leg.outcome]
    if int(loaded.numbers("outcome")[row]) != outcome or int(loaded.numbers("round")[row]) != leg.end:
        return [f"it is {leg.outcome} at round {leg.end:,}"], []
    for name in ("consensus", "distance", "threshold", *MEASURED, "models", "x"):
        there, now = loaded.rows("runs", name).row(row), leg.columns.get(name, np.zeros(0))
        if there.tobytes() == now.tobytes():
            continue
        if there.size == now.size and _excused(name, there, now, problem, optimum):
            near.append(name)
        elif there.size != now.size:
            apart.append(f"{name} has {there.size} numbers, not {now.size}")
        else:
            k = int(np.flatnonzero(there.view(np.uint64) != now.view(np.uint64))[0])
            apart.append(f"{name}[{k}] is {there[k].item()!r} in the file, and {now[k].item()!r} made again")
    return apart, near


def _excused(name: str, there: Array, now: Array, problem: Composite, optimum: Array) -> bool:
    """Whether BLAS may be why numbers differ: it adds up in another order on another processor."""
    if name in MEASURED:
        return bool(np.allclose(there, now, rtol=OTHER_ORDER, atol=0, equal_nan=True))
    if name == "distance":
        low, high = distance_limits(now, problem, optimum)
        return bool((((low <= there) & (there <= high)) | (np.isnan(there) & np.isnan(now))).all())
    return False


def distance_limits(distance: Array, problem: Composite, optimum: Array) -> tuple[Array, Array]:
    """What ‖x̄ − x*‖²/‖x*‖² may be of the same x̄, and of any x* within the certificate of the one that was found.

    Of a strongly convex problem ‖x − x*‖ ≤ (1/μ + 1/L)‖G(x)‖, with G the prox-gradient mapping; two optima that are
    certified are twice that apart. Without l2 the certificate says nothing of it, and six digits are compared.
    """
    mu = float(problem.l2)
    if mu == 0 or not isinstance(problem, Problem):
        return distance * (1 - WITHOUT_CERTIFICATE), distance * (1 + WITHOUT_CERTIFICATE)
    apart = 2 * CERTIFICATE * (1 / mu + 1 / (problem.n * problem.smoothness))
    norm = float(np.linalg.norm(optimum))
    if norm == 0:
        root = np.sqrt(distance)
        return np.maximum(0.0, root - apart) ** 2, (root + apart) ** 2
    far = np.sqrt(distance) * norm
    # Beside it what rounding makes of some dozens of operations.
    low = (np.maximum(0.0, far - apart) / (norm + apart)) ** 2 * (1 - 1e-13)
    high = ((far + apart) / max(norm - apart, 1e-300)) ** 2 * (1 + 1e-13)
    return low, high


def by_blas(problem: Composite) -> bool:
    """Whether the runs themselves go through BLAS, as those of networks do."""
    return isinstance(problem, MLP)


def seeded(setting: Setting) -> bool:
    """Whether anyone can make its runs again."""
    return setting.noise.seed is not None
