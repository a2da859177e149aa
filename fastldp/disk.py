"""How results get to the disk: files that are there whole or not at all, one writer at a time, folders, removals.

A sweep changes a disk by this module only, which does so by `os` alone, so that tests can let every single call fail.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fastldp.errors import ArgumentError, FastLDPError, StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

# A draft larger than this goes on in a file.
MOST_IN_MEMORY = 32 * 2**20
# What holds a seed is its owner's alone, unless others are let in; then the umask decides.
PRIVATE, SHARED = 0o600, 0o666


class Draft(io.RawIOBase):
    """A file in the making, in memory while it is small and under a temporary name after that.

    Nobody sees it before `publish`. What the disk refuses is raised there and not earlier: HDF5 writes through this
    object, and does not survive an error.
    """

    def __init__(self, temporary: Path, mode: int = PRIVATE) -> None:
        self._temporary, self._mode = temporary, mode
        self._memory = bytearray()
        self._handle: int | None = None
        self._position = self._size = 0
        self._error: BaseException | None = None

    def publish(self, path: Path, *, keep_mode: bool = False, check: Callable[[Path], None] | None = None) -> None:
        """Give it its name: when this returns, it is on the disk. It may keep the mode of a file that it replaces.

        `check` sees it before that, on the disk under its temporary name, and may raise: then nothing is changed.
        """
        self._spill()
        if self._error is not None:
            raise self._error
        assert self._handle is not None
        if keep_mode:
            with suppress(FileNotFoundError):
                os.fchmod(self._handle, stat.S_IMODE(os.stat(path).st_mode))
        os.fsync(self._handle)
        if check is not None:
            check(self._temporary)
        self._let_go()
        os.replace(self._temporary, path)
        sync_folder(path.parent)

    def __exit__(self, *_: object) -> None:
        """Remove what was not published."""
        if self._handle is not None:
            self._let_go()
            remove(self._temporary)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self._size - self._position))
        if self._handle is None:
            found: Any = self._memory[self._position : self._position + count]
        else:
            found = os.pread(self._handle, count, self._position)
        view[: len(found)] = found
        self._position += count
        return count

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        end = self._position + len(view)
        if end > MOST_IN_MEMORY:
            self._spill()
        if self._handle is None:
            self._memory.extend(bytes(max(0, end - len(self._memory))))
            self._memory[self._position : end] = view
        else:
            self._put(view, self._position)
        self._position, self._size = end, max(self._size, end)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._position if size is None else size
        if self._handle is None:
            del self._memory[self._size :]
            self._memory.extend(bytes(self._size - len(self._memory)))
        else:
            with self._kept():
                os.ftruncate(self._handle, self._size)
        return self._size

    def _spill(self) -> None:
        """Go on in a file."""
        if self._handle is None:
            with self._kept():
                self._handle = create(self._temporary, self._mode)
                self._put(memoryview(bytes(self._memory)), 0)
                self._memory = bytearray()

    def _put(self, view: memoryview, position: int) -> None:
        with self._kept():
            while len(view) and self._error is None:
                assert self._handle is not None
                written = os.pwrite(self._handle, view, position)
                view, position = view[written:], position + written

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep the first error for `publish`."""
        try:
            yield
        except BaseException as error:
            self._error = self._error or error

    def _let_go(self) -> None:
        handle, self._handle = self._handle, None
        assert handle is not None
        os.close(handle)


class Lock:
    """One writer at a time, from `acquire` to `release`; the system takes it back when its holder dies."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self, subject: Path, folder_mode: int = 0o777) -> None:
        """Take it, or say who has it."""
        if fcntl is None:
            raise StoreError(f"{subject}: this system has no file locks; lock=False (--no-lock) goes without")
        while self._handle is None:
            make_folder(self.path.parent, folder_mode)
            try:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, PRIVATE)
            except FileNotFoundError:  # the holder before has just removed the folder
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                told = "a link, where the lock is to be; remove it, if it is not yours"
                raise StoreError(f"{self.path}: {told}") from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(handle, 200, 0).decode(errors="replace")
                os.close(handle)
                told = f"{holder or 'another process'} is writing it; wait for it, or choose another file"
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    told = f"its file system refuses locks ({error}); where you are sure that nobody else writes it, "
                    told += "lock=False (--no-lock) goes without"
                raise StoreError(f"{subject}: {told}") from None
            # The holder before may have removed the file between open and lock.
            if _same(handle, self.path):
                self._handle = handle
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
            else:
                os.close(handle)

    @property
    def held(self) -> bool:
        """Whether it was acquired, and nobody has removed its file since."""
        return self._handle is not None and _same(self._handle, self.path)

    def release(self) -> None:
        """Remove the file and let go."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            try:
                remove(self.path)
            finally:
                os.close(handle)


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def target_of(path: str | os.PathLike[str]) -> Path:
    """Where a file of this path will be, found out before any work is done for it; a link is followed."""
    target, remedy = Path(os.path.realpath(path)), ""
    if target.is_symlink():
        remedy = "a link that leads to itself; give another path"
    elif not target.parent.is_dir():
        remedy = f"there is no folder {target.parent}; make it, or give another path"
    elif target.is_dir():
        remedy = "a folder; give the name of a file in it"
    if remedy:
        raise ArgumentError("path", os.fspath(path), remedy)
    return target


def create(path: Path, mode: int = PRIVATE) -> int:
    """A new file, open for reading and writing; neither a file nor a link of that name is followed or kept."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)


def remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """A folder, and those above it that are not there yet, for good."""
    if not path.is_dir():
        if not path.parent.is_dir():
            make_folder(path.parent)
        with suppress(FileExistsError):
            os.mkdir(path, mode)
    # One that is there may have been made by a process that was killed before this.
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Where it is empty; otherwise it stays."""
    with suppress(OSError):
        os.rmdir(path)


def sync_folder(path: Path) -> None:
    """Put a folder's names on the disk."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # of a folder that can be written to and not read
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """What the disk refuses, with what to do."""
    try:
        yield
    except FastLDPError:
        raise
    except OSError as error:
        again, number = "and give the same command again", error.errno
        if number in (errno.ENOSPC, errno.EDQUOT):
            reason = f"no space left on the disk; what is stored is safe; free some, {again}"
        elif number == errno.EFBIG:
            reason = f"larger than a file may be here; what is stored is safe; raise the limit (ulimit -f), {again}"
        elif number in (errno.EROFS, errno.EACCES, errno.EPERM):
            reason = f"cannot be written there ({os.strerror(number)}); choose a folder of yours"
        else:
            reason = f"{error}; what is stored is safe, give the same command again"
        raise StoreError(f"{path}: {reason}") from error


def free_bytes(path: Path) -> int:
    """What the disk under a path has left."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
