"""Files that are written whole or not at all, and that others can read only where they may."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fastldp.errors import ArgumentError

# Its owner's alone; or everybody's, less what the umask takes away.
PRIVATE, SHARED = 0o600, 0o666


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end of the with; nothing is changed by an error.

    After the with it is on the disk, under its name. A link is followed: what it points to is replaced.
    """
    target = _target(path)
    # Short, for the target's name may be as long as the system allows already.
    temporary = target.with_name(f".fastldp-{secrets.token_hex(8)}")
    # Exclusively, so that nobody's link of that name is followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, PRIVATE if private else SHARED)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync(target.parent)


def _target(path: str | os.PathLike[str]) -> Path:
    """Where the file will be, found out before any work is done for it."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise ArgumentError("path", os.fspath(path), "a link that leads to itself; give another path")
    if not target.parent.is_dir():
        raise ArgumentError(
            "path", os.fspath(path), f"there is no folder {target.parent}; make it, or give another path"
        )
    if target.is_dir():
        raise ArgumentError("path", os.fspath(path), "a folder; give the name of a file in it")
    return target


def _sync(folder: Path) -> None:
    """Put a folder's names on the disk, on systems that can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # of a folder that can be written to and not read
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
