"""Sweeps that die: scenes of a few milliseconds, what they had reported, and what is looked at afterwards."""

import errno
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest

import fastldp as fl
import sweeps
from evidence import Bits, Place, Tree, bits_of, hasty, lay, reporting, sweep, tree_of
from fastldp import disk
from fastldp.engine.block import Block
from fastldp.errors import StoreError
from fastldp.sweeping import spec as specs
from fastldp.sweeping import store
from fastldp.sweeping.spec import Spec
from fastldp.sweeping.work import Leg
from faults import WRITES, Disk, Moment, standing_in

FILE = "r.h5"
SAID = re.compile(rf"{re.escape(FILE)}: .*what is stored is safe[;,] .*give the same command again")
FOLDERS = count()


@contextmanager
def failing(after: int) -> Iterator[None]:
    """Blocks of methods with local steps fail once they have come so far."""
    advance = Block.advance

    def broken(self: Block, end: int, *, threads: int = 1) -> None:
        if self.program.local_steps > 1 and self.done >= after:
            raise MemoryError("no room")
        advance(self, end, threads=threads)

    with mock.patch.object(Block, "advance", broken):
        yield


@dataclass
class Promises:
    """What sweeps have said is on the disk."""

    reported: set[Place]
    """Runs, as finished."""
    reached: dict[tuple[str, int], int]
    """The rounds of each run, by key of the setting and repetition."""


@dataclass(frozen=True)
class Scene:
    """A folder as it is before a sweep, the sweep, and what the file is when nothing happens to it."""

    name: str
    before: Tree
    promised: Promises
    """By whoever made that folder."""
    command: Spec
    reference: str
    bits: Bits
    many_parts: int
    in_memory: int
    meanwhile: Callable[[], Any]

    @contextmanager
    def set(self) -> Iterator[None]:
        with hasty(self.many_parts), mock.patch.object(disk, "MOST_IN_MEMORY", self.in_memory), self.meanwhile():
            yield

    def undisturbed(self, room: Path) -> Disk:
        """All operations of the sweep."""
        done = death(self, room, self.before, Disk)
        assert not done.disk.dead
        assert done.error is None
        assert judged(self, room, done.disk.left(), done)[0] == Verdict()
        return done.disk


def scene(
    name: str,
    room: Path,
    *,
    methods: tuple[str, ...] = (),
    prepare: Callable[[Path], None] = lambda _: None,
    many_parts: int = 2,
    in_memory: int = disk.MOST_IN_MEMORY,
    meanwhile: Callable[[], Any] = nullcontext,
    **options: Any,
) -> Scene:
    folder = room / f"scene {name}"
    folder.mkdir()
    prepare(folder / FILE)
    before = tree_of(folder)
    command = read(*methods, **options)
    rounds = reached(command, folder / FILE).items()
    promised = Promises({*bits_of(folder / FILE)}, {place: done for place, done in rounds if done})
    with hasty(1000), meanwhile():  # the fold at the end is the only one
        sweep(command, folder / FILE)
    whole = folder / FILE
    found = fl.results(whole).digest()
    return Scene(name, before, promised, command, found, bits_of(whole), many_parts, in_memory, meanwhile)


def reached(command: Spec, path: Path) -> dict[tuple[str, int], int]:
    """How many rounds of each run a file has."""
    keys = [setting.key for setting in command.settings]
    done = store.Stored(path).standings(keys, command.repetitions).done
    return {
        (key, repetition): int(done[k, repetition])
        for k, key in enumerate(keys)
        for repetition in range(command.repetitions)
    }


def read(*methods: str, **options: Any) -> Spec:
    chosen: dict[str, Any] = {"rounds": "[6, 24]", "repetitions": 2, "record": "every = 5"} | options
    return specs.read(sweeps.spec(*methods, **chosen), sweeps.DATA)


def larger(path: Path) -> None:
    """A file that is larger than many parts of a small sweep."""
    sweep(read(rounds="400", record="every = 1\nmodels = true"), path, leg_seconds=10.0)


def begun_in_the_file(path: Path) -> None:
    """A large file with runs that have begun in it, and no parts."""
    with hasty(2), pytest.MonkeyPatch.context() as patch, sweeps.dying(patch, commits=2):
        # The first two parts are folded into the file that is not there yet; then it dies.
        sweep(read(), path)
    assert not store.parts_of(path)
    larger(path)


@dataclass
class Death:
    """The end of a sweep: the disk it left, and what had been promised until then."""

    disk: Disk
    promised: Promises
    error: Exception | None = None
    """What it said where it did not die."""


def death(
    scene: Scene, room: Path, start: Tree, disk_at: Callable[[Path], Disk], earlier: Death | None = None
) -> Death:
    """Let a sweep run on a disk that begins with a tree, until it dies or ends."""
    folder = room / f"{next(FOLDERS)}"
    lay(start, folder)
    before = earlier.promised if earlier else scene.promised
    promised = Promises({*before.reported}, {**before.reached})

    def kept(leg: Leg) -> None:
        place = leg.key, leg.repetition
        promised.reached[place] = max(leg.end, promised.reached.get(place, 0))

    died = Death(disk_at(folder), promised)
    with scene.set(), reporting(scene.command.cards, promised.reported.update, kept), standing_in(died.disk, disk):
        try:
            sweep(scene.command, folder / FILE)
        except Exception as error:
            died.error = error
    died.disk.verify()
    shutil.rmtree(folder)
    return died


class Verdict(NamedTuple):
    """What is wrong with a folder that was left behind; empty where nothing is."""

    unreadable: str = ""
    lost: str = ""
    different: str = ""
    unsaid: str = ""


def judged(scene: Scene, room: Path, tree: Tree, died: Death) -> tuple[Verdict, int]:
    """Read what was left, and go on with it to the end; and how many operations that took."""
    folder = room / f"{next(FOLDERS)}"
    lay(tree, folder)
    path = folder / FILE
    reported = died.promised.reported
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, there = bits_of(path), reached(scene.command, path)
    except Exception as error:
        return Verdict(unreadable=f"{type(error).__name__}: {error}"), 0
    lost: list[Any] = [place for place in reported if found.get(place) != scene.bits[place]]
    lost += [place for place, bits in found.items() if bits != scene.bits.get(place)]
    lost += [place for place, done in died.promised.reached.items() if there[place] < done]
    going_on = Disk(folder)
    try:
        with warnings.catch_warnings(), scene.set(), standing_in(going_on, disk):
            warnings.simplefilter("error")
            sweep(scene.command, path)
        digest = fl.results(path).digest()
        names = [entry.name for entry in folder.iterdir()]
        different = "" if digest == scene.reference else "another digest"
        different += "" if names == [FILE] else f" left beside it: {names}"
    except Exception as error:
        different = f"{type(error).__name__}: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    return Verdict("", f"{len(lost)} of {len(reported)}" if lost else "", different), len(going_on.operations)


def moments(disk: Disk) -> Iterator[tuple[int, str, Moment]]:
    """Before and after every operation, and in the midst of every write."""
    for number, operation in enumerate(disk.operations):
        yield number, operation.kind, "before"
        if operation.kind in WRITES:
            yield number, operation.kind, "half-way"
        yield number, operation.kind, "after"


@dataclass
class Table:
    """Crashes by kind of operation and by what happened, and all that was wrong."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, mode: str, where: str, verdict: Verdict) -> None:
        self.counts[kind, mode] += 1
        for name, text in verdict._asdict().items():
            if text:
                self.faults[name] += 1
                self.wrong.append(f"{where}: {name}: {text}")

    def __str__(self) -> str:
        kinds = sorted({kind for kind, _ in self.counts})
        modes = sorted({mode for _, mode in self.counts})
        rows = [["operation", *kinds, "all"]]
        for mode in modes:
            numbers = [self.counts[kind, mode] for kind in kinds]
            rows.append([mode, *map(str, [*numbers, sum(numbers)])])
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        wrong = ", ".join(f"{self.faults[name]:,} {name}" for name in Verdict._fields)
        return "\n".join([*lines, f"{sum(self.counts.values()):,} crashes: {wrong}"])


def crash(
    scene: Scene, room: Path, number: int, kind: str, moment: Moment, table: Table, *, most: int = 1000, twice: int = 0
) -> None:
    """One death, and at most so many of the states it may leave, the harshest first.

    With `twice`, what goes on from there dies at so many of its operations.
    """
    died = death(scene, room, scene.before, partial(Disk, at=number, moment=moment))
    assert died.disk.dead
    where = f"{scene.name}, {moment} operation {number} ({' '.join(died.disk.operations[number])})"
    for mode, tree in islice(left_by(died.disk, moment), most):
        verdict, steps = judged(scene, room, tree, died)
        table.add(kind, f"{mode.partition(',')[0]}, {moment}", f"{where}, {mode}", verdict)
        for again in spread(steps, twice, number):
            second = death(scene, room, tree, partial(Disk, at=again, moment=moment), died)
            at_that = f"{where}, {mode}; again at {again} ({' '.join(second.disk.operations[again])})"
            for mode_again, tree_again in islice(left_by(second.disk, moment), most):
                verdict, _ = judged(scene, room, tree_again, second)
                table.add(kind, f"twice, {mode_again.partition(',')[0]}", f"{at_that}, {mode_again}", verdict)


def left_by(disk: Disk, moment: Moment) -> Iterator[tuple[str, Tree]]:
    """What a kill leaves, and a loss of power: after an operation that is the same as before the next one."""
    yield "kill", disk.left()
    if moment != "after":
        yield from disk.power_losses()


def refuse(
    scene: Scene, room: Path, number: int, kind: str, code: int, table: Table, *, lasting: bool, most: int = 1000
) -> None:
    """The disk refuses one operation, or from there on all writes: it is said, and nothing is lost."""
    ended = death(scene, room, scene.before, partial(Disk, at=number, error=code, lasting=lasting))
    name = errno.errorcode[code]
    where = f"{scene.name}, {name} at operation {number} ({' '.join(ended.disk.operations[number])})"
    for mode, tree in islice(left_by(ended.disk, "before"), most):
        verdict, _ = judged(scene, room, tree, ended)
        table.add(kind, f"{name}, {mode.partition(',')[0]}", f"{where}, {mode}", verdict)
    said = ended.error is None or (isinstance(ended.error, StoreError) and SAID.search(str(ended.error)))
    if not said:
        table.add(kind, f"{name}, as said", where, Verdict(unsaid=repr(ended.error)))


def spread(steps: int, wanted: int, shift: int) -> list[int]:
    """So many of the steps, evenly, and other ones for another shift."""
    return sorted({(shift + k * steps // wanted) % steps for k in range(wanted)}) if steps else []
