"""Ends processes once whoever started them is gone, however it went; run by its path, with the standard library alone.

It reads from standard input, a line each: the mark that processes have in their environment, then groups of processes.
When the input ends, all of these are told to end, and killed if they do not.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE, PAUSE = 8.0, 0.05


def _marked(mark: bytes) -> set[int]:
    """Processes that have the mark in their environment: children that have left their parent's group have it too."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):  # Linux has it; elsewhere groups must do
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) != os.getpid():
                found.add(int(folder.name))
    return found


def _tell(groups: set[int], marked: set[int], sign: int) -> bool:
    """Send a signal; whether anybody was there."""
    there = False
    for tell, numbers in ((os.killpg, groups), (os.kill, marked)):
        for number in numbers:
            with suppress(ProcessLookupError, PermissionError):
                tell(number, sign)
                there = True
    return there


def main() -> None:
    """Wait for the end of the input, then end what was named."""
    mark, *lines = sys.stdin.buffer.read().splitlines()
    groups = {int(line) for line in lines}
    _tell(groups, _marked(mark), signal.SIGTERM)
    # Those that nobody reaps stay in their groups for ever, so neither wait is without end.
    for sign in (0, signal.SIGKILL):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and _tell(groups, _marked(mark), sign):
            time.sleep(PAUSE)


if __name__ == "__main__":
    main()
