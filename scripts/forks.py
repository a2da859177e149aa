"""Kills by the thousand: sweeps of milliseconds in forked processes, each killed at a random moment and then read."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from tqdm import tqdm

import fastldp as fl
from evidence import LARGER, Place, bits_of, hasty, read, reporting, sweep
from fastldp.sweeping.store import Store

# What a victim is at, by the method of its store that it is in; otherwise it makes runs.
DOINGS = {"commit": "writing a part", "tidy": "folding parts", "fold": "the last fold", "__enter__": "reading the file"}
OTHERWISE = "making runs"


class Forks:
    """Kills of sweeps into a new file and into a larger one, in turns.

    This process compiles what is needed, so that each victim costs no more than its sweep. It never starts a parallel
    kernel, which a fork would not survive.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        # A victim may die with the lock of its bar in hand: no other process must wait for that one.
        tqdm.set_lock(threading.RLock())
        tqdm.monitor_interval = 0
        self._chance = chance
        self.kills: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.sweeps = self.commands = 0
        self._command = read()
        self._path = folder / "killed" / "r.h5"
        self._larger = folder / "larger.h5"
        sweep(read(LARGER), self._larger, leg_seconds=10.0)
        self._references = [self._reference(folder / f"reference-{k}.h5", k) for k in range(2)]
        self._places = sorted({place for bits, _ in self._references for place in bits})
        self._numbers = {place: number for number, place in enumerate(self._places)}
        self._begin()
        began = time.perf_counter()
        with hasty():
            sweep(self._command, self._path)
        self._seconds = time.perf_counter() - began
        """A kill comes at most so long after the start of its victim."""
        self._begin()

    def _reference(self, path: Path, kind: int) -> tuple[dict[Place, str], str]:
        if kind:
            shutil.copy(self._larger, path)
        sweep(self._command, path)
        return bits_of(path), fl.results(path).digest()

    @property
    def sound(self) -> bool:
        return self.sweeps > 0 and not self.faults.total()

    def run(self, kills: int) -> None:
        """So many, or fewer where Ctrl-C is pressed; then the last sweep is brought to its end."""
        with tqdm(total=kills, unit="kill", file=sys.stderr) as bar, suppress(KeyboardInterrupt):
            while self.kills.total() < kills:
                self._command_and_kill()
                bar.update(self.kills.total() - bar.n)
        while not self._command_and_kill(spare=True):
            pass

    def table(self) -> str:
        rows = [f"  {doing:<18} {self.kills[doing]:>7,}" for doing in (*DOINGS.values(), OTHERWISE)]
        wrong = ", ".join(f"{self.faults[name]:,} {name}" for name in ("lost", "unreadable", "different", "errors"))
        total = (
            f"{self.kills.total():,} kills of {self.commands:,} commands, {self.sweeps:,} sweeps brought to their end"
        )
        return "\n".join([f"  {'killed while':<18} {'kills':>7}", *rows, f"{total}: {wrong}"])

    def _begin(self) -> None:
        """An empty folder, or one with a file that is larger than the parts of this sweep."""
        shutil.rmtree(self._path.parent, ignore_errors=True)
        self._path.parent.mkdir()
        if self.sweeps % 2:
            shutil.copy(self._larger, self._path)
        self._bits, self._digest = self._references[self.sweeps % 2]
        self._reported = {*bits_of(self._path)}

    def _command_and_kill(self, *, spare: bool = False) -> bool:
        """One command, killed unless it is faster; whether it came to its end."""
        self.commands += 1
        reader, writer = os.pipe()
        victim = os.fork()
        if victim == 0:
            os.close(reader)
            self._victim(writer)
        os.close(writer)
        if not spare:
            time.sleep(self._chance.uniform(0, self._seconds))
            os.kill(victim, signal.SIGKILL)  # it is not waited for yet, so that its number is its own
        with os.fdopen(reader, "rb") as pipe:
            said = pipe.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1])
        doing = OTHERWISE
        for line in said:
            doing, numbers = json.loads(line)
            self._reported.update(self._places[number] for number in numbers)
        # Some one in six is to end before its kill comes, however fast the machine is: so no moment is never reached.
        self._seconds *= 1.01 if status == -signal.SIGKILL else 0.95
        if status == -signal.SIGKILL:
            self.kills[doing] += 1
        elif status != 0:
            self.faults["errors"] += 1
        self._look()
        if status != 0:
            return False
        self._compare()
        return True

    def _victim(self, pipe: int) -> NoReturn:
        status = 1
        try:
            with hasty(), _telling(pipe), self._reporting(pipe):
                sweep(self._command, self._path)
            status = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(status)

    def _reporting(self, pipe: int) -> Any:
        def tell(places: list[Place]) -> None:
            _say(pipe, OTHERWISE, [self._numbers[place] for place in places])

        return reporting(self._command.cards, tell)

    def _look(self) -> None:
        """All that was reported must be there, and every number the right one."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found = bits_of(self._path)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            self.faults["unreadable"] += 1
            return
        self.faults["lost"] += sum(found.get(place) != self._bits[place] for place in self._reported)
        self.faults["different"] += sum(bits != self._bits.get(place) for place, bits in found.items())

    def _compare(self) -> None:
        alone = [entry.name for entry in self._path.parent.iterdir()] == [self._path.name]
        same = alone and fl.results(self._path).digest() == self._digest
        self.faults["different"] += not same
        self.sweeps += 1
        self._begin()


def _say(pipe: int, doing: str, numbers: list[int]) -> None:
    os.write(pipe, json.dumps([doing, numbers]).encode() + b"\n")


@contextmanager
def _telling(pipe: int) -> Iterator[None]:
    """Inside of it the other end of the pipe hears what the store is at."""

    def told(name: str, doing: str) -> Any:
        real = getattr(Store, name)

        def method(self: Store, *given: Any) -> Any:
            _say(pipe, doing, [])
            found = real(self, *given)
            _say(pipe, OTHERWISE, [])
            return found

        return mock.patch.object(Store, name, method)

    with ExitStack() as stack:
        for name, doing in DOINGS.items():
            stack.enter_context(told(name, doing))
        yield
