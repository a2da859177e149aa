"""One writer at a time: a lock that the system takes back when its holder dies, however it dies."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from fastldp import disk
from fastldp.errors import StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


class Lock:
    """Held from `acquire` to `release`; the file says by whom."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None

    def acquire(self, subject: Path, folder_mode: int = 0o777) -> None:
        """Take it, or say who has it."""
        if fcntl is None:
            raise StoreError(f"{subject}: this system has no file locks; lock=False (--no-lock) goes without")
        while self._handle is None:
            disk.make_folder(self.path.parent, folder_mode)
            try:
                handle = disk.open_or_create(self.path)
            except FileNotFoundError:  # the holder before has just removed the folder
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise StoreError(
                    f"{self.path}: a link, where the lock is to be; remove it, if it is not yours"
                ) from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.pread(handle, 200, 0).decode(errors="replace")
                disk.close(handle)
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    raise StoreError(
                        f"{subject}: {holder or 'another process'} is writing it; wait for it, or choose another file"
                    ) from None
                raise StoreError(
                    f"{subject}: its file system refuses locks ({error}); where you are sure that nobody else writes "
                    "it, lock=False (--no-lock) goes without"
                ) from None
            # The holder before may have removed the file between open and lock.
            if _same(handle, self.path):
                self._handle = handle
                disk.overwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
            else:
                disk.close(handle)

    def release(self) -> None:
        """Remove the file and let go."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            try:
                disk.remove(self.path)
            finally:
                disk.close(handle)


def _same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False
