"""The simulated disk itself: what it counts, where it dies, and what it forgets."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evidence import Tree, lay, tree_of
from faults import Died, Disk, Moment, standing_in


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lay({"old": b"old"}, tmp_path / "disk")
    return tmp_path / "disk"


def write(disk: Any, path: Path, data: bytes, *, sync: bool = False) -> None:
    handle = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    disk.write(handle, data)
    if sync:
        disk.fsync(handle)
    disk.close(handle)


def sync_folder(disk: Any, path: Path) -> None:
    handle = disk.open(path, os.O_RDONLY)
    disk.fsync(handle)
    disk.close(handle)


def losses(disk: Disk) -> dict[str, Tree]:
    return dict(disk.power_losses())


def test_every_change_is_counted(root: Path) -> None:
    disk = Disk(root)
    disk.mkdir(root / "sub")
    write(disk, root / "sub" / "new", b"1234", sync=True)
    disk.replace(root / "sub" / "new", root / "new")
    sync_folder(disk, root)
    disk.rmdir(root / "sub")
    disk.unlink(root / "old")
    assert [f"{kind} {name}" for kind, name in disk.operations] == [
        "mkdir sub",
        "open sub/new",
        "write sub/new",
        "fsync sub/new",
        "close sub/new",
        "replace new",
        "fsync folder .",
        "close .",
        "rmdir sub",
        "unlink old",
    ]
    assert tree_of(root) == disk.left() == {"new": b"1234"}


@pytest.mark.parametrize(("moment", "left"), [("before", b""), ("half-way", b"12"), ("after", b"1234")])
def test_it_dies_at_a_write(moment: Moment, left: bytes, root: Path) -> None:
    disk = Disk(root, at=1, moment=moment)
    with pytest.raises(Died):
        write(disk, root / "new", b"1234")
    disk.release()
    assert disk.left() == tree_of(root) == {"old": b"old", "new": left}


def test_the_dead_change_nothing_more(root: Path) -> None:
    disk = Disk(root, at=0, moment="after")
    with pytest.raises(Died):
        disk.unlink(root / "old")
    for attempt in (
        lambda: disk.mkdir(root / "sub"),
        lambda: disk.open(root, os.O_RDONLY),
        lambda: write(disk, root / "new", b""),
    ):
        with pytest.raises(Died):
            attempt()
    assert tree_of(root) == {}


def test_locks_of_the_dead_are_free(root: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    module = SimpleNamespace(os=os)
    with standing_in(Disk(root, at=1), module) as disk:
        fcntl.flock(disk.open(root / "lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        disk.unlink(root / "lock")
    assert disk.dead
    assert module.os is os
    with (root / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_unsynced_data_are_cut(root: Path) -> None:
    disk = Disk(root)
    write(disk, root / "new", b"1234")
    sync_folder(disk, root)
    found = losses(disk)
    assert found["no names undone, data cut"] == {"old": b"old", "new": b""}
    assert found["no names undone, data cut at half"] == {"old": b"old", "new": b"12"}
    assert found["no names undone, data zero"] == {"old": b"old", "new": bytes(4)}
    assert len(found) == 3


def test_synced_data_are_kept_and_what_follows_is_cut(root: Path) -> None:
    disk = Disk(root)
    handle = disk.open(root / "old", os.O_WRONLY)
    disk.pwrite(handle, b"er", 3)
    disk.fsync(handle)
    disk.pwrite(handle, b"than", 5)
    assert [tree["old"] for tree in losses(disk).values()] == [b"older", b"olderth", b"older" + bytes(4)]
    disk.ftruncate(handle, 1)
    assert disk.left() == {"old": b"o"}
    assert losses(disk)["no names undone, data cut"] == {"old": b"older"}
    disk.release()


def test_a_file_overwritten_in_place_may_be_half_new(root: Path) -> None:
    disk = Disk(root)
    handle = disk.open(root / "old", os.O_WRONLY)
    disk.write(handle, b"NE")
    disk.write(handle, b"W")
    disk.release()
    assert losses(disk)["no names undone, data cut at half"] == {"old": b"Nld"}


def test_a_rename_that_was_not_synced_is_undone(root: Path) -> None:
    disk = Disk(root)
    write(disk, root / "new", b"1234", sync=True)
    sync_folder(disk, root)
    disk.replace(root / "new", root / "old")
    assert disk.left() == {"old": b"1234"}
    assert losses(disk) == {"all names undone, data cut": {"old": b"old", "new": b"1234"}}
    sync_folder(disk, root)
    assert losses(disk) == {}


def test_a_file_whose_folder_was_not_synced_is_gone_though_it_was(root: Path) -> None:
    disk = Disk(root)
    write(disk, root / "new", b"1234", sync=True)
    assert losses(disk) == {"all names undone, data cut": {"old": b"old"}}


def test_a_folder_whose_parent_was_not_synced_is_gone_with_all_it_has(root: Path) -> None:
    disk = Disk(root)
    disk.mkdir(root / "sub")
    write(disk, root / "sub" / "new", b"1234", sync=True)
    sync_folder(disk, root / "sub")
    assert losses(disk) == {"all names undone, data cut": {"old": b"old"}}
    sync_folder(disk, root)
    assert losses(disk) == {}


def test_removals_that_were_not_synced_are_undone_from_either_end(root: Path) -> None:
    lay({"a": b"a", "b": b"b"}, root / "sub")
    disk = Disk(root)
    for name in "ab":
        disk.unlink(root / "sub" / name)
    disk.rmdir(root / "sub")
    whole: Tree = {"old": b"old", "sub": None, "sub/a": b"a", "sub/b": b"b"}
    assert list(disk.power_losses()) == [
        ("all names undone, data cut", whole),
        ("later names undone, data cut", {"old": b"old", "sub": None, "sub/b": b"b"}),
        ("later names undone, data cut", {"old": b"old", "sub": None}),
    ]


def test_a_rename_between_folders_is_two_names(root: Path) -> None:
    """POSIX promises of neither folder what a sync of the other has brought to the disk."""
    lay({"new": b"new"}, root / "sub")
    disk = Disk(root)
    disk.replace(root / "sub" / "new", root / "old")
    sync_folder(disk, root)
    assert losses(disk) == {"all names undone, data cut": {"old": b"new", "sub": None, "sub/new": b"new"}}


def test_a_change_behind_its_back_is_noticed(root: Path) -> None:
    disk = Disk(root)
    (root / "old").write_bytes(b"changed")
    with pytest.raises(AssertionError, match="behind the disk's back"):
        disk.verify()


def test_an_operation_is_refused_once_or_from_then_on(root: Path) -> None:
    for lasting in (False, True):
        disk = Disk(root, at=1, error=errno.ENOSPC, lasting=lasting)
        handle = disk.open(root / "new", os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="No space left"):
            disk.write(handle, b"1234")
        if lasting:
            with pytest.raises(OSError, match="No space left"):
                disk.write(handle, b"1234")
        else:
            assert disk.write(handle, b"1234") == 4
        disk.release()
        disk.unlink(root / "new")


def test_writes_may_be_short(root: Path) -> None:
    disk = Disk(root, shorten=True)
    handle = disk.open(root / "new", os.O_WRONLY | os.O_CREAT)
    assert [disk.write(handle, rest) for rest in (b"1234", b"34", b"4")] == [2, 1, 1]
    disk.release()
    assert disk.left()["new"] == b"1234"
