"""A sweep dies at every operation on its disk, once and again: nothing that was reported is lost, and it goes on."""

import errno
import os
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import crashes
from crashes import Scene, Table, Verdict
from faults import REFUSABLE, WRITES, Disk, Moment

SCENES: dict[str, Callable[[Path], Scene]] = {
    # Into a new file: every other part is folded into it.
    "fresh": partial(crashes.scene, "fresh"),
    # Into a file that is larger than parts: they are merged into one part.
    "second": partial(crashes.scene, "second", prepare=crashes.larger),
    # The same with runs that have begun in the file, and go on in parts.
    "begun": partial(crashes.scene, "begun", prepare=crashes.begun_in_the_file),
    "failing": partial(crashes.scene, "failing", methods=("isrl", "fedavg"), meanwhile=partial(crashes.failing, 7)),
    # HDF5 writes to the disk itself, piece by piece: few runs, for it has many pieces.
    "streamed": partial(crashes.scene, "streamed", in_memory=0, rounds="12", repetitions=1),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scene]:
    made: dict[str, Scene] = {}

    def of(name: str) -> Scene:
        if name not in made:
            made[name] = SCENES[name](tmp_path_factory.mktemp("scenes"))
        return made[name]

    return of


def sample(disk: Disk, count: int) -> list[tuple[int, str, Moment]]:
    """Moments of all kinds, from the first to the last."""
    every = list(crashes.moments(disk))
    return [every[(2 * k + 1) * len(every) // (2 * count)] for k in range(count)]


def shown(table: Table, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{table}")
    assert not table.wrong, "\n".join(table.wrong[:20])


# Some of it.


@pytest.mark.parametrize("name", ["fresh", "begun", pytest.param("streamed", marks=pytest.mark.thorough)])
def test_a_crash_loses_nothing(name: str, stage: Callable[[str], Scene], tmp_path: Path) -> None:
    scene, table = stage(name), Table()
    for number, kind, moment in sample(scene.undisturbed(tmp_path), 4):
        crashes.crash(scene, tmp_path, number, kind, moment, table, most=3)
    assert not table.wrong, "\n".join(table.wrong)


@pytest.mark.thorough
def test_two_crashes_lose_nothing_and_their_leftovers_are_cleared_away(
    stage: Callable[[str], Scene], tmp_path: Path
) -> None:
    """Both die in the midst of a write, so that each leaves a file behind that has no use."""
    scene = stage("second")
    half = partial(Disk, moment="half-way")
    first = crashes.death(scene, tmp_path, scene.before, partial(half, at=written(scene.undisturbed(tmp_path), 2)))
    going_on = crashes.death(scene, tmp_path, first.disk.left(), Disk, first)
    second = crashes.death(scene, tmp_path, first.disk.left(), partial(half, at=written(going_on.disk, 3)), first)
    assert second.disk.dead
    assert any(".tmp" in path for path in second.disk.left())
    for _, tree in islice(crashes.left_by(second.disk, "half-way"), 4):
        assert crashes.judged(scene, tmp_path, tree, second)[0] == Verdict()


def written(disk: Disk, nth: int) -> int:
    """The number of the n-th write."""
    return [number for number, operation in enumerate(disk.operations) if operation.kind in WRITES][nth]


def test_a_loss_of_power_after_the_end_loses_nothing(stage: Callable[[str], Scene], tmp_path: Path) -> None:
    scene = stage("begun")
    ended = crashes.death(scene, tmp_path, scene.before, Disk)
    assert ended.promised.reported == {*scene.bits}
    for _, tree in islice(ended.disk.power_losses(), 4):
        assert crashes.judged(scene, tmp_path, tree, ended)[0] == Verdict()


@pytest.mark.parametrize(
    "code", ["ENOSPC", *(pytest.param(code, marks=pytest.mark.thorough) for code in ("EIO", "EDQUOT"))]
)
def test_a_disk_that_refuses_is_said_and_nothing_is_lost(
    code: str, stage: Callable[[str], Scene], tmp_path: Path
) -> None:
    scene, table = stage("begun"), Table()
    disk = scene.undisturbed(tmp_path)
    for nth, lasting in ((1, False), (3, True)):
        number = written(disk, nth)
        crashes.refuse(scene, tmp_path, number, "write", getattr(errno, code), table, lasting=lasting, most=2)
    assert not table.wrong, "\n".join(table.wrong)


def test_a_disk_may_take_less_than_it_is_given(stage: Callable[[str], Scene], tmp_path: Path) -> None:
    scene = stage("fresh")
    done = crashes.death(scene, tmp_path, scene.before, partial(Disk, shorten=True))
    assert crashes.judged(scene, tmp_path, done.disk.left(), done)[0] == Verdict()


# That a loss would be seen.


class Forgetful(Disk):
    """Syncs nothing."""

    def fsync(self, handle: int) -> None:
        assert os.fstat(handle)


def test_a_disk_that_does_not_sync_loses_what_was_reported(stage: Callable[[str], Scene], tmp_path: Path) -> None:
    scene = stage("fresh")
    half = len(crashes.death(scene, tmp_path, scene.before, Forgetful).disk.operations) // 2
    died = crashes.death(scene, tmp_path, scene.before, partial(Forgetful, at=half))
    assert died.promised.reported
    assert any(crashes.judged(scene, tmp_path, tree, died)[0].lost for _, tree in died.disk.power_losses())


# All of it.

long = pytest.mark.long
every_scene = pytest.mark.parametrize("name", list(SCENES))
# Where the pieces of HDF5 would take hours.
every_short_scene = pytest.mark.parametrize("name", [name for name in SCENES if name != "streamed"])


@long
@every_scene
def test_every_crash_loses_nothing(name: str, stage: Callable[[str], Scene], tmp_path: Path, capsys: Any) -> None:
    scene, table = stage(name), Table()
    for number, kind, moment in crashes.moments(scene.undisturbed(tmp_path)):
        crashes.crash(scene, tmp_path, number, kind, moment, table, most=3 if name == "streamed" else 1000)
    shown(table, capsys)


@long
@every_short_scene
def test_every_crash_and_another_lose_nothing(
    name: str, stage: Callable[[str], Scene], tmp_path: Path, capsys: Any
) -> None:
    scene, table = stage(name), Table()
    for number, kind, moment in crashes.moments(scene.undisturbed(tmp_path)):
        crashes.crash(scene, tmp_path, number, kind, moment, table, most=2, twice=3)
    shown(table, capsys)


@long
@every_scene
def test_every_refusal_is_said_and_loses_nothing(
    name: str, stage: Callable[[str], Scene], tmp_path: Path, capsys: Any
) -> None:
    scene, table = stage(name), Table()
    codes = errno.ENOSPC, errno.EIO, errno.EDQUOT
    for number, operation in enumerate(scene.undisturbed(tmp_path).operations):
        if operation.kind in REFUSABLE:
            code, lasting = codes[number % 3], number % 2 == 0
            crashes.refuse(scene, tmp_path, number, operation.kind, code, table, lasting=lasting)
    shown(table, capsys)
