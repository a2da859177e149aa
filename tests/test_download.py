"""Downloads, from a server of our own on this machine: whole, broken off, wrong, down, and without what it takes."""

import bz2
import hashlib
import importlib.util
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import fastldp as fl
from fastldp.datasets import downloading, known
from fastldp.errors import DownloadWarning, FastLDPError, FileFormatError, MissingExtraError, NotFoundError

PLAIN = b"".join(b"%d %d:%d.5\n" % ((-1) ** row, row % 22 + 1, row) for row in range(4000))
PACKED = bz2.compress(PLAIN)


class Server(ThreadingHTTPServer):
    """Serves `files`; breaks off after `breaks` bytes, as often as that list says; remembers what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.breaks: list[int] = []
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range") if self.server.ranges else None
        self.server.asked.append((self.path, self.headers.get("Range")))
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        cut = self.server.breaks.pop(0) if self.server.breaks else len(content)
        self.wfile.write(content[start : start + cut])

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """ijcnn1 is a small file, its server is ours, and nothing of it lies on this machine."""
    pytest.importorskip("pooch")
    file = known.File("ijcnn1.bz2", f"{server.address}/own/", hashlib.sha256(PLAIN).hexdigest())
    monkeypatch.setitem(known.FILES, "ijcnn1", file)
    monkeypatch.setattr(downloading, "PAUSE", 0.0)
    monkeypatch.setattr(downloading, "BLOCK", 100)
    monkeypatch.setenv("FASTLDP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for variable in ("FASTLDP_DATA", "FASTLDP_MIRROR"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache"


def load() -> fl.datasets.Dataset:
    data = fl.datasets.load("ijcnn1")
    assert data.A.shape == (4000, 22)
    return data


def test_a_download_is_kept_plain(server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = PACKED
    load()
    load()
    assert server.asked == [("/own/ijcnn1.bz2", None)]
    assert [file.name for file in cache.iterdir()] == ["ijcnn1"]
    assert (cache / "ijcnn1").read_bytes() == PLAIN


def test_a_transfer_that_breaks_off_goes_on(server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = PACKED
    server.breaks = [1000, 500]
    load()
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=1500-"]


def test_the_next_call_goes_on_too(server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = PACKED
    server.breaks = [300] * downloading.ATTEMPTS
    with pytest.raises(NotFoundError, match=r"own/ijcnn1\.bz2"):
        load()
    assert [file.suffix for file in cache.iterdir()] == [".part"]
    server.asked.clear()
    load()
    assert server.asked == [("/own/ijcnn1.bz2", f"bytes={300 * downloading.ATTEMPTS}-")]
    assert [file.name for file in cache.iterdir()] == ["ijcnn1"]


def part_of(server: Server, cache: Path) -> Path:
    """The unfinished file that a broken transfer leaves."""
    server.breaks = [300] * downloading.ATTEMPTS
    with pytest.raises(NotFoundError):
        load()
    server.asked.clear()
    return next(cache.glob("*.part"))


def test_a_server_without_ranges_sends_all_again(server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = PACKED
    server.ranges = False
    part_of(server, cache)
    load()
    assert len(server.asked) == 1


def test_a_part_that_is_whole_needs_no_more(server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = PACKED
    part_of(server, cache).write_bytes(PACKED)
    load()
    assert server.asked == [("/own/ijcnn1.bz2", f"bytes={len(PACKED)}-")]


@pytest.mark.parametrize("length", [400, len(PACKED) + 10])
def test_a_part_of_another_file_is_thrown_away(length: int, server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = PACKED
    part_of(server, cache).write_bytes(b"x" * length)
    load()
    assert [wanted for _, wanted in server.asked] == [f"bytes={length}-", None]


@pytest.mark.parametrize("content", [bz2.compress(PLAIN + b"\n"), PACKED[:-10], b"<html>moved</html>"])
def test_another_file_is_refused(content: bytes, server: Server, cache: Path) -> None:
    server.files["/own/ijcnn1.bz2"] = content
    with pytest.raises(NotFoundError, match="not the file with sha256"):
        load()
    assert list(cache.iterdir()) == []


def test_the_next_mirror_is_tried(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is down, one that has no such file, one with another file, one that works."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{closed.getsockname()[1]}"
    server.files = {"/wrong/ijcnn1.bz2": b"1 1:1\n", "/good/ijcnn1.bz2": PLAIN}
    base = server.address
    monkeypatch.setenv("FASTLDP_MIRROR", f"{down}, {base}/empty {base}/wrong/ {base}/good nonsense")
    with pytest.warns(DownloadWarning, match=r"took .*/good/.* after .*/empty/.*404.*/wrong/.*sha256") as warned:
        load()
    assert down in str(warned[0].message)
    assert [path for path, _ in server.asked] == [f"/{mirror}/ijcnn1.bz2" for mirror in ("empty", "wrong", "good")]


def test_offline_says_what_to_do(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTLDP_MIRROR", "nonsense")
    with pytest.raises(NotFoundError) as error:
        load()
    message = str(error.value)
    for part in (f"{server.address}/own/ijcnn1.bz2", "FASTLDP_DATA", "path=", "FASTLDP_MIRROR", "404", "nonsense"):
        assert part in message
    assert isinstance(error.value, FastLDPError | FileNotFoundError)
    assert not isinstance(error.value, FileFormatError)


def test_a_download_that_fails_is_not_announced(cache: Path) -> None:
    import logging

    import pooch

    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = pooch.get_logger()
    before = logger.level
    logger.addHandler(handler)
    try:
        with pytest.raises(NotFoundError):
            load()
    finally:
        logger.removeHandler(handler)
    assert heard == []
    assert logger.level == before


def test_without_pooch_all_but_the_download_works(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name == "pooch" else present(name, package)

    present = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    for variable in ("FASTLDP_CACHE", "FASTLDP_DATA"):
        with pytest.raises(MissingExtraError, match=r"pip install 'fastldp\[data\]'; or download .*FASTLDP_DATA"):
            load()
        monkeypatch.setenv(variable, str(tmp_path))
        (tmp_path / "ijcnn1.bz2").write_bytes(PACKED)
        load()
        monkeypatch.delenv(variable)
        (tmp_path / "ijcnn1.bz2").unlink()
    assert server.asked == []
