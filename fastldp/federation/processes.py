"""Processes that are started together, watched together and ended together, whatever becomes of who started them."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from fastldp.errors import FederationError
from fastldp.federation import guard

MARK = "FASTLDP_CREW"
# Of what a process has said, the end that an error repeats.
SHOWN_LINES = 12


class Crew:
    """Starts processes whose output goes to files of a folder, and ends them all at the end of a `with` block.

    A process of its own sees to that (guard.py): it ends them even where this one is killed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Crew:
        # A session of its own: Ctrl-C is for this process, which then closes the guard's input.
        self._guard = subprocess.Popen(
            [sys.executable, "-I", guard.__file__], stdin=subprocess.PIPE, start_new_session=True
        )
        self._tell_guard(self._mark)
        return self

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a process; its output goes to NAME.log."""
        key, value = self._mark.split("=")
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**environment, key: value},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[name] = process
        self._tell_guard(str(process.pid))

    def ended(self, name: str) -> int | None:
        """The exit code of a process, and None while it runs."""
        return self._running[name].poll()

    def kill(self, name: str) -> None:
        """End one of them at once, and forget it."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def check(self, *but: str) -> None:
        """Raise where a process has ended, but for those named, with the last it said."""
        for name in self._running.keys() - set(but):
            code = self.ended(name)
            if code is not None:
                raise FederationError(f"the process of {name} has ended with code {code}; {self.last_words(name)}")

    def last_words(self, name: str) -> str:
        """Where a process's output is, and its end."""
        log = self.folder / f"{name}.log"
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return "\n  ".join([f"the end of {log}:", *lines[-SHOWN_LINES:]])

    def __exit__(self, *_: object) -> None:
        with ExitStack() as reaped:
            for process in (self._guard, *self._running.values()):
                reaped.callback(process.wait)
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            # Those that have ended must not be waited for by the guard: reap them as they do.
            while self._guard.poll() is None:
                for process in self._running.values():
                    process.poll()
                try:
                    self._guard.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue

    def _tell_guard(self, line: str) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{line}\n".encode())
        self._guard.stdin.flush()


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def environment_with(folder: Path, **values: str) -> dict[str, str]:
    """This process's environment, with a folder of programs before the others, and some values."""
    path = os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])
    return {**os.environ, **values, "PATH": path}
