"""Where a public file lies: at a path, in the folder FASTLDP_DATA, in the cache, or on a server."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import NamedTuple

from fastldp.datasets.downloading import download
from fastldp.datasets.known import File
from fastldp.datasets.unpacking import ENDINGS, unpacked
from fastldp.errors import ArgumentError, FileFormatError

DATA = "FASTLDP_DATA"
CACHE = "FASTLDP_CACHE"


class Located(NamedTuple):
    """A file on this machine."""

    source: str
    """``"FASTLDP_DATA"`` or ``"cache"``: whose folder it is in."""
    path: Path


def content(file: File, path: str | os.PathLike[str] | None, *, progress: bool = True) -> bytes:
    """The plain content of a public file, checked against its hash."""
    if path is not None:
        return checked(file, given(file.plain, path))
    found = located(file)
    return checked(file, download(file, cache_folder(), progress=progress) if found is None else found.path)


def located(file: File) -> Located | None:
    """Where a file lies on this machine, unchecked; None where it would have to be downloaded."""
    for source, folder in ((DATA, data_folder()), ("cache", cache_folder())):
        path = None if folder is None else in_folder(file.plain, folder)
        if path is not None:
            return Located(source, path)
    return None


def given(name: str, path: str | os.PathLike[str]) -> Path:
    """The file a caller names, or that of a name in the folder a caller names."""
    path = Path(path)
    found = path if path.is_file() else in_folder(name, path)
    if found is None:
        remedy = f"give a file, or a folder that holds {Path(name).name}, plain or packed"
        raise ArgumentError("path", str(path), f"there is no such file; {remedy}")
    return found


def in_folder(name: str, folder: Path) -> Path | None:
    """The file in a folder, with its own subfolder or without, plain or packed; None where it is not there."""
    places = [folder / f"{place}{ending}" for place in (name, Path(name).name) for ending in ENDINGS]
    return next((place for place in places if place.is_file()), None)


def data_folder() -> Path | None:
    """The folder that the environment variable FASTLDP_DATA names."""
    name = os.environ.get(DATA)
    if not name:
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ArgumentError(DATA, name, "there is no such folder; set the environment variable to one, or to nothing")
    return folder


def cache_folder() -> Path | None:
    """Where downloads are kept: FASTLDP_CACHE, or the system's place for such things; None where there is neither."""
    name = os.environ.get(CACHE)
    if name:
        return Path(name).expanduser()
    if importlib.util.find_spec("pooch") is None:
        return None
    import pooch

    return Path(pooch.os_cache("fastldp"))


def checked(file: File, path: Path) -> bytes:
    """The plain content of a file that must be the public one."""
    plain = unpacked(path)
    found = hashlib.sha256(plain).hexdigest()
    if found != file.sha256:
        raise FileFormatError(
            f"{path} is not the public {file.plain}: unpacked its sha256 is {found}, not {file.sha256}; "
            "delete or replace it, or load a set of your own by another name: load('mine', path=...)"
        )
    return plain
