"""Files that commands write: tried before the work, and put elsewhere rather than lost after it."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fastldp import figures
from fastldp.errors import FastLDPError, StoreError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def require_writable(argument: str, path: Path | None) -> None:
    """Raise where a file cannot be written, before the work it is to keep; folders on the way are made."""
    if path is None:
        return
    if path.is_dir():
        raise StoreError(f"{argument} = {str(path)!r}: a folder; give the name of a file in it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
        handle, trial = tempfile.mkstemp(prefix=".fastldp-", dir=path.parent)
        os.close(handle)
        os.unlink(trial)
    except OSError as error:
        told = f"cannot be written there ({error.strerror or error}); give another place"
        raise StoreError(f"{argument} = {str(path)!r}: {told}") from None


def require_picture(argument: str, path: Path | None) -> None:
    """The same of a picture, whose format must be known too."""
    if path is not None:
        figures.require_format(path)
        require_writable(argument, path)


def drawn(path: Path, axes: Axes, *, quiet: bool = False) -> bool:
    """Write a picture, as `written` does."""
    return written("picture", path, lambda path: figures.save(axes, path), quiet=quiet)


def written(what: str, path: Path, write: Callable[[Path], object], *, quiet: bool = False) -> bool:
    """Write a file, or where that fails now write it elsewhere and say so; whether it is where it was to be."""
    out = sys.stderr if quiet else sys.stdout  # where the output is for a program, nothing else is in it
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        if not quiet:
            print(f"{what:<8} {path}")
        return True
    except (OSError, FastLDPError) as error:
        print(f"fastldp: error: {path}: {error}", file=sys.stderr)
    for folder in (Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        other = folder / f"{path.stem}-{secrets.token_hex(4)}{path.suffix}"
        try:
            write(other)
        except (OSError, FastLDPError):
            continue
        print(f"{what:<8} {other}, for it could not be written to {path}", file=out)
        return False
    print(f"fastldp: error: {what} of {path} could be written nowhere", file=sys.stderr)
    return False
