"""A simulated disk: it dies at any operation, and forgets what was not synced, as a disk may that loses power.

`Disk` stands where `fastldp.disk` has `os`. It does what is asked of it in a real folder, counts what changes
that folder, and knows beside it what would be left after a power loss: the contents of a file as of its last fsync, and
the names in a folder as of that folder's last fsync. Nothing is promised that POSIX does not promise.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from evidence import Tree, tree_of

Moment = Literal["before", "half-way", "after"]
WRITES = ("write", "pwrite")
# What a full disk refuses, or a broken one.
REFUSABLE = (*WRITES, "open", "ftruncate", "fsync", "fsync folder", "replace", "unlink", "mkdir", "rmdir")


class Died(BaseException):
    """In place of a kill; no `except Exception` may live through it."""


class Operation(NamedTuple):
    """Something that changes a disk, or promises that it has changed."""

    kind: str
    name: str
    """The path within the disk."""


@dataclass(eq=False)
class _File:
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass(eq=False)
class _Folder:
    entries: "dict[str, _Node]" = field(default_factory=dict)
    synced: "dict[str, _Node]" = field(default_factory=dict)


_Node = _File | _Folder


class _Change(NamedTuple):
    """A name that was given, or taken away, in a folder that was not synced since."""

    operation: int
    folder: _Folder
    name: str
    node: _Node | None


class Disk:
    """`os` for a process that dies before, in the midst of, or after operation `at`, or is refused it with `error`.

    `shorten` writes only half of what is asked each time, as POSIX allows, and says so; `at` counts from 0.
    """

    def __init__(
        self,
        root: Path,
        at: int | None = None,
        moment: Moment = "before",
        *,
        error: int | None = None,
        lasting: bool = False,
        shorten: bool = False,
    ) -> None:
        self.root = root
        self.operations: list[Operation] = []
        self.dead = False
        self._at, self._moment, self._error, self._lasting, self._shorten = at, moment, error, lasting, shorten
        self._handles: dict[int, _Node] = {}
        self._pending: list[_Change] = []
        self._tree = _planted(tree_of(root))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    # What a process may do to it.

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        changes = bool(flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC))
        if not changes:
            self._live()
            handle = os.open(path, flags, mode)
            self._handles[handle] = self._node(path)
            return handle
        with self._operation("open", path):
            handle = os.open(path, flags, mode)
            folder, name = self._place(path)
            if name not in folder.entries:
                self._name(folder, name, _File())
            self._handles[handle] = node = folder.entries[name]
            if flags & os.O_TRUNC and isinstance(node, _File):
                node.content.clear()
        return handle

    def write(self, handle: int, data: Any) -> int:
        return self._write("write", handle, data, None)

    def pwrite(self, handle: int, data: Any, offset: int) -> int:
        return self._write("pwrite", handle, data, offset)

    def _write(self, kind: str, handle: int, data: Any, offset: int | None) -> int:
        node = self._handles[handle]
        assert isinstance(node, _File)
        data = bytes(memoryview(data).cast("B"))
        half = data[: (len(data) + 1) // 2]

        def put(some: bytes) -> int:
            at = os.lseek(handle, 0, os.SEEK_CUR) if offset is None else offset
            assert os.pwrite(handle, some, at) == len(some)
            if offset is None:
                os.lseek(handle, at + len(some), os.SEEK_SET)
            node.content.extend(bytes(max(0, at - len(node.content))))
            node.content[at : at + len(some)] = some
            return len(some)

        with self._operation(kind, node, half_way=lambda: put(half)):
            return put(half if self._shorten else data)

    def ftruncate(self, handle: int, length: int) -> None:
        node = self._handles[handle]
        assert isinstance(node, _File)
        with self._operation("ftruncate", node):
            os.ftruncate(handle, length)
            node.content[length:] = bytes(max(0, length - len(node.content)))

    def fsync(self, handle: int) -> None:
        node = self._handles[handle]
        with self._operation("fsync" if isinstance(node, _File) else "fsync folder", node):
            # The real disk need not be troubled: its state after a loss of power is computed here.
            if isinstance(node, _File):
                node.synced = bytes(node.content)
            else:
                node.synced = dict(node.entries)
                self._pending = [change for change in self._pending if change.folder is not node]

    def close(self, handle: int) -> None:
        node = self._handles.get(handle)
        if node is None:
            self._live()
            return os.close(handle)
        with self._operation("close", node):
            os.close(handle)
            del self._handles[handle]
        return None

    def replace(self, source: Any, target: Any) -> None:
        with self._operation("replace", target):
            os.replace(source, target)
            (old, before), (new, after) = self._place(source), self._place(target)
            node = old.entries[before]
            self._name(old, before, None)
            self._name(new, after, node)

    def unlink(self, path: Any) -> None:
        with self._operation("unlink", path):
            os.unlink(path)
            self._name(*self._place(path), None)

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        with self._operation("mkdir", path):
            os.mkdir(path, mode)
            self._name(*self._place(path), _Folder())

    def rmdir(self, path: Any) -> None:
        with self._operation("rmdir", path):
            os.rmdir(path)
            self._name(*self._place(path), None)

    @contextmanager
    def _operation(self, kind: str, subject: Any, half_way: Callable[[], object] = lambda: None) -> Iterator[None]:
        self._live()
        here = len(self.operations)
        name = self._name_of(subject) if isinstance(subject, _File | _Folder) else self._within(subject)
        self.operations.append(Operation(kind, name))
        struck = here == self._at
        if self._error is not None:
            after = self._lasting and self._at is not None and here > self._at and kind in (*WRITES, "ftruncate")
            if struck or after:
                raise OSError(self._error, os.strerror(self._error))
        elif struck and self._moment != "after":
            if self._moment == "half-way":
                half_way()
            self._die()
        try:
            yield
        finally:  # also where the system refused
            if struck and self._error is None:
                self._die()

    def _live(self) -> None:
        if self.dead:
            raise Died

    def _die(self) -> None:
        self.dead = True
        raise Died

    # What it remembers.

    def _within(self, path: Any) -> str:
        return os.path.relpath(os.path.abspath(os.fspath(path)), self.root)

    def _node(self, path: Any) -> _Node:
        node: _Node = self._tree
        for name in Path(self._within(path)).parts:
            assert isinstance(node, _Folder)
            node = node.entries[name]
        return node

    def _place(self, path: Any) -> tuple[_Folder, str]:
        within = Path(self._within(path))
        folder = self._node(self.root / within.parent)
        assert isinstance(folder, _Folder)
        return folder, within.name

    def _name_of(self, wanted: _Node) -> str:
        if wanted is self._tree:
            return "."
        return next((path for path, node in _walk(self._tree, lambda folder: folder.entries) if node is wanted), "")

    def _name(self, folder: _Folder, name: str, node: _Node | None) -> None:
        _set(folder.entries, name, node)
        self._pending.append(_Change(len(self.operations), folder, name, node))

    # What is left of it.

    def release(self) -> None:
        """Let go of what the dead held open, as the system does, and with it of their locks."""
        for handle in self._handles:
            os.close(handle)
        self._handles.clear()

    def left(self) -> Tree:
        """What a kill leaves: all that was done."""
        return {
            path: bytes(node.content) if isinstance(node, _File) else None
            for path, node in _walk(self._tree, lambda folder: folder.entries)
        }

    def verify(self) -> None:
        """Raise where something was changed past this disk, so that it was not counted."""
        assert tree_of(self.root) == self.left(), "something was changed behind the disk's back"

    def power_losses(self) -> Iterator[tuple[str, Tree]]:
        """What a loss of power may leave, each different state once, with what became of names and of data in it."""
        numbers = sorted({change.operation for change in self._pending})
        seen = [self.left()]
        for names, kept, contents in _choices(numbers):
            for data in contents:
                tree = self._after(kept, CONTENTS[data])
                if tree not in seen:
                    seen.append(tree)
                    yield f"{names}, data {data}", tree

    def _after(self, kept: set[int], content: Callable[[_File], bytes]) -> Tree:
        entries: dict[_Folder, dict[str, _Node]] = {}
        for change in self._pending:
            if change.operation in kept:
                _set(entries.setdefault(change.folder, dict(change.folder.synced)), change.name, change.node)
        return {
            path: content(node) if isinstance(node, _File) else None
            for path, node in _walk(self._tree, lambda folder: entries.get(folder, folder.synced))
        }


def _choices(numbers: Sequence[int]) -> Iterator[tuple[str, set[int], Sequence[str]]]:
    """Which operations on names that were not synced may have reached the disk, and what may have become of data."""
    if numbers:
        yield "all names undone", set(), tuple(CONTENTS)
    yield "no names undone", set(numbers), tuple(CONTENTS)
    for place in range(1, len(numbers)):
        yield "later names undone", set(numbers[:place]), ("cut", "kept")
        yield "earlier names undone", set(numbers[place:]), ("cut", "kept")


def _common(file: _File) -> int:
    """How many bytes the synced content and the present one begin with alike."""
    if file.content.startswith(file.synced):
        return len(file.synced)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(file.content, file.synced, strict=False)))


def _half(file: _File) -> bytes:
    here = (_common(file) + len(file.content)) // 2
    return bytes(file.content[:here]) + file.synced[here:]


def _zeros(file: _File) -> bytes:
    here = _common(file)
    return bytes(file.content[:here]) + bytes(len(file.content) - here)


# What may become of bytes written since the last fsync: some file systems have the new length before them.
CONTENTS: dict[str, Callable[[_File], bytes]] = {
    "cut": lambda file: file.synced,
    "cut at half": _half,
    "zero": _zeros,
    "kept": lambda file: bytes(file.content),
}


def _set(entries: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _walk(
    folder: _Folder, entries: Callable[[_Folder], dict[str, _Node]], above: str = ""
) -> Iterator[tuple[str, _Node]]:
    for name, node in entries(folder).items():
        yield above + name, node
        if isinstance(node, _Folder):
            yield from _walk(node, entries, f"{above}{name}/")


def _planted(tree: Tree) -> _Folder:
    """A folder whose every byte has long been on the disk."""
    root = _Folder()
    for path in sorted(tree):
        folder = root
        *above, name = path.split("/")
        for step in above:
            inner = folder.entries[step]
            assert isinstance(inner, _Folder)
            folder = inner
        content = tree[path]
        folder.entries[name] = _Folder() if content is None else _File(bytearray(content), content)
    for node in [root, *(node for _, node in _walk(root, lambda folder: folder.entries))]:
        if isinstance(node, _Folder):
            node.synced = dict(node.entries)
    return root


@contextmanager
def standing_in(disk: Disk, module: Any) -> Iterator[Disk]:
    """Inside of it a module works on a simulated disk; a death ends it quietly, and `disk.dead` says so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "os", disk)
        try:
            yield disk
        except Died:
            assert disk.dead
        finally:
            disk.release()
