"""Downloads that go on where they stopped, from the first of several addresses that serves the right file."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from fastldp import bars
from fastldp.datasets.known import File
from fastldp.datasets.unpacking import unpacked
from fastldp.errors import DownloadWarning, FileFormatError, MissingExtraError, NotFoundError

MIRROR = "FASTLDP_MIRROR"
ATTEMPTS = 4
# Seconds, times the number of the attempt.
PAUSE = 0.5
TIMEOUT = 30
# Bytes; what is lost of a transfer that breaks off is less than one block.
BLOCK = 1 << 14


def addresses(file: File) -> list[str]:
    """Where to get a file: the mirrors of the environment variable FASTLDP_MIRROR, then its own server.

    >>> from fastldp.datasets.known import FILES
    >>> addresses(FILES["a6a"])[-1]
    'https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/a6a'
    """
    mirrors = re.split(r"[\s,]+", os.environ.get(MIRROR, ""))
    return [urljoin(base.rstrip("/") + "/", file.served) for base in [*filter(None, mirrors), file.server]]


def advice(file: File) -> str:
    """What to do where a file cannot be had."""
    return (
        f"download {urljoin(file.server, file.served)} elsewhere, put it in a folder as {Path(file.served).name} and "
        "set the environment variable FASTLDP_DATA to that folder, or give path=; "
        f"or set {MIRROR} to the address of a mirror"
    )


def download(file: File, folder: Path | None, *, progress: bool) -> Path:
    """The plain file in the folder, from the first address that serves it; every other that was tried is named."""
    if folder is None or importlib.util.find_spec("pooch") is None:
        raise MissingExtraError("pooch", "data", f"or {advice(file)}")
    failures = []
    for url in addresses(file):
        try:
            path = _from(url, file, folder, progress=progress)
        except (OSError, FileFormatError) as error:  # requests' errors are OSErrors
            failures.append(f"{url}: {error}")
        else:
            if failures:
                warnings.warn(f"took {url} after {'; '.join(failures)}", DownloadWarning, stacklevel=2)
            return path
    raise NotFoundError(f"{file.plain} could not be downloaded ({'; '.join(failures)}); {advice(file)}")


def _from(url: str, file: File, folder: Path, *, progress: bool) -> Path:
    """One address; what was resumed and is not the right file is fetched once more from its beginning."""
    import pooch

    # By address, for the same file may be packed in other ways elsewhere.
    part = folder / f"{file.served}.{hashlib.sha256(url.encode()).hexdigest()[:12]}.part"
    resumed = part.is_file()

    def fetch(url: str, output: str, _: Any) -> None:
        _fetch(url, part, progress=progress)
        Path(output).write_bytes(unpacked(part))

    try:
        with _quiet(pooch.get_logger()):
            path = pooch.retrieve(url, f"sha256:{file.sha256}", fname=file.plain, path=folder, downloader=fetch)
    except (ValueError, FileFormatError) as error:  # pooch's, of another hash; ours, of what cannot be unpacked
        if isinstance(error, OSError):  # of an address that is none: requests' errors of that are both
            raise
        part.unlink(missing_ok=True)
        if resumed:
            return _from(url, file, folder, progress=progress)
        raise FileFormatError(f"what is served there is not the file with sha256 {file.sha256}") from error
    part.unlink(missing_ok=True)
    return Path(path)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Without the announcement of a download: a bar shows one that runs, an error names one that failed."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _fetch(url: str, part: Path, *, progress: bool) -> None:
    """The file as it is served; a transfer that breaks off is taken up again, now or by the next call."""
    import requests

    part.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _append(url, part, progress=progress)
            break
        except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError):
            if attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE * attempt)


def _append(url: str, part: Path, *, progress: bool) -> None:
    """Whatever is missing of the file, asked for by its first byte."""
    import requests

    have = part.stat().st_size if part.is_file() else 0
    # As it is, for a range of what the server packs on the fly is not a range of the file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
        if response.status_code == requests.codes.requested_range_not_satisfiable:
            # Nothing lies beyond: the file is whole, or not the one it was, which its hash will tell.
            return
        response.raise_for_status()
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0  # all of it is sent
        size = response.headers.get("Content-Length")
        bar = bars.bar(
            show=progress and bars.is_watched(),
            desc=part.name.split(".")[0],
            initial=have,
            total=None if size is None else have + int(size),
            unit="B",
        )
        with bar, part.open("ab" if have else "wb") as output:
            for block in response.iter_content(BLOCK):
                output.write(block)
                bar.update(len(block))
