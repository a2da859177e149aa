"""Faults of federations, with real processes: outages.py [--kills 500] [--write].

Workers and the server of a small training are processes of their own, and this one is the network between them. They
are killed at every operation on a disk and at random moments, their messages come twice, late, damaged and from
strangers, disks are full, clocks run backwards. After each training the model must have the bits of an undisturbed one,
no folder may count less than what left its worker, and no round may have been answered in two ways.
With --write the table is put into docs/federation.md.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import random
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

import fastldp as fl
from fastldp import disk
from fastldp.errors import FastLDPError, RefusedError
from fastldp.federation import Answer, Server, Terms, Worker, common_key
from fastldp.federation.account import Prices, Spent
from fastldp.federation.folder import Folder
from readme import ROOT, write

KEY = common_key(0)
SIZES, DIMENSION, ROUNDS = (40, 60, 50), 6, 4
BUDGET = fl.Budget(1.0, 1e-4)
# What a process asks of a disk when it puts something there.
OPERATIONS = ("open", "pwrite", "fsync", "close", "replace", "mkdir", "ftruncate", "unlink")
FULL = ("open", "pwrite", "fsync", "ftruncate")
# A kill comes so many seconds after a request at most: some time after it was answered.
LATEST = 0.02
HANGING = 300.0


def training(name: str = "") -> tuple[Terms, list[tuple[Any, Any]]]:
    """The terms, and what each worker has."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(len(SIZES)), SIZES)
    A = rng.standard_normal((owners.size, DIMENSION)) / 2
    b = np.where(A[:, 0] + 0.3 * rng.standard_normal(owners.size) > 0, 1.0, -1.0)
    terms = Terms(
        np.array(SIZES),
        DIMENSION,
        BUDGET,
        ROUNDS,
        fl.PrimalDual(clip=fl.AdaptiveClip(early=2, every=2), step=0.2, allocation="static"),
        l2=0.1,
        regularizer=fl.BoxL1(0.01, 2.0),
        name=name,
    )
    return terms, [(A[owners == i], b[owners == i]) for i in range(len(SIZES))]


# What strikes a process: operation `at` of those on its disk, before it, after it, or in its place an error.
@dataclass
class Strike:
    """Stands where `fastldp.disk` has `os`."""

    at: int
    when: str = "before"
    error: int = 0
    seen: int = field(default=0, init=False)

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in OPERATIONS:
            return real

        def struck(*given: Any, **named: Any) -> Any:
            here, self.seen = self.seen == self.at, self.seen + 1
            if here and self.error and name in FULL:
                raise OSError(self.error, os.strerror(self.error))
            if here and not self.error and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            done = real(*given, **named)
            if here and not self.error:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return struck


class Process:
    """A child that answers requests, one after the other, until it is killed."""

    def __init__(self, serve: Callable[[], Callable[[bytes], bytes]], strike: Strike | None = None) -> None:
        mine, its = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            mine.close()
            _live(its, serve, strike)
        its.close()
        self._socket = mine

    def request(self, data: bytes, seconds: float = HANGING) -> bytes | None:
        """What it says; None where it died first, or has said nothing in time."""
        try:
            _send(self._socket, data)
            ready = select.select([self._socket], [], [], seconds)[0]
            return _receive(self._socket) if ready else None
        except OSError:
            return None

    def late(self) -> bytes | None:
        """What it had said before it died."""
        with contextlib.suppress(OSError):
            return _receive(self._socket)
        return None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """It is over, and its folder free."""
        self.kill()
        self._socket.close()
        os.waitpid(self.pid, 0)


def _live(its: socket.socket, serve: Callable[[], Callable[[bytes], bytes]], strike: Strike | None) -> NoReturn:
    """The life of a child."""
    code = 0
    try:
        answer = serve()
        if strike is not None:
            vars(disk)["os"] = strike
        while True:
            request = _receive(its)
            if request is None:
                break
            try:
                said = b"+" + answer(request)
            except FastLDPError as error:
                said = b"-" + getattr(error, "reason", type(error).__name__).encode()
            _send(its, said)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def _send(to: socket.socket, data: bytes) -> None:
    to.sendall(struct.pack("<I", len(data)) + data)


def _receive(of: socket.socket) -> bytes | None:
    head = _exactly(of, 4)
    return None if head is None else _exactly(of, struct.unpack("<I", head)[0])


def _exactly(of: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        more = of.recv(count - len(data))
        if not more:
            return None
        data += more
    return data


class Trial:
    """A training over a network that is this process, with what was seen to leave each worker."""

    def __init__(self, folder: Path, prepare: Callable[[], object] = lambda: None) -> None:
        self.terms, self.shards = training()
        self.folder, self.prepare = folder, prepare
        self.workers: dict[int, Process] = {}
        self.server: Process | None = None
        self.left: dict[tuple[int, int], set[bytes]] = {}
        self.restarts = 0

    # The processes.

    def serve_worker(self, i: int) -> Callable[[], Callable[[bytes], bytes]]:
        def begin() -> Callable[[bytes], bytes]:
            self.prepare()
            worker = Worker(*self.shards[i], BUDGET, self.terms, worker=i, folder=self.folder / str(i), key=KEY)
            return lambda request: worker.answer(request).to_bytes()

        return begin

    def serve_server(self) -> Callable[[bytes], bytes]:
        self.prepare()
        server = Server(self.terms, path=self.folder / "server", coins=KEY)

        def say(request: bytes) -> bytes:
            if request == b"x":
                return server.x.tobytes() if server.over else b""
            if request[:1] == b"a":
                ask = server.ask().get(request[1])
                return b"" if ask is None else ask.to_bytes()
            server.tell(request[1], request[2:])
            return b""

        return say

    def worker(self, i: int, strike: Strike | None = None) -> Process:
        if i not in self.workers:
            self.workers[i] = Process(self.serve_worker(i), strike)
        return self.workers[i]

    def to_server(self, request: bytes, strike: Strike | None = None) -> bytes:
        """Until it has answered, however often it dies."""
        while True:
            if self.server is None:
                self.server = Process(lambda: self.serve_server(), strike)
                strike = None
            said = self.server.request(request)
            if said is not None:
                return said
            self.server.end()
            self.server = None
            self.restarts += 1

    def stop_worker(self, i: int) -> None:
        self.workers.pop(i).end()
        self.restarts += 1

    # A training.

    def ask(self, i: int) -> bytes | None:
        """The server's request to a worker, None where it has none."""
        said = self.to_server(b"a" + bytes([i]))
        assert said[:1] == b"+", said
        return said[1:] or None

    def answer(self, i: int, request: bytes, strike: Strike | None = None) -> bytes:
        """A worker's answer, however often it dies."""
        while True:
            said = self.worker(i, strike).request(request)
            strike = None
            if said is not None:
                return self.seen(i, said)
            self.stop_worker(i)

    def seen(self, i: int, said: bytes) -> bytes:
        """What a worker said, written down if it was an answer."""
        if said[:1] == b"+":
            answer = Answer.from_bytes(said[1:])
            self.left.setdefault((i, answer.round), set()).add(said[1:])
        return said

    def tell(self, i: int, answer: bytes) -> bytes:
        return self.to_server(b"t" + bytes([i]) + answer)

    def run(self, disturb: Callable[[int, bytes], None] = lambda i, request: None) -> bytes:
        """To its end; `disturb` may do something to worker i before it is asked this. Returns the model's bytes."""
        while not (x := self.to_server(b"x"))[1:]:
            for i in range(len(SIZES)):
                request = self.ask(i)
                if request is not None:
                    disturb(i, request)
                    said = self.answer(i, request)
                    assert said[:1] == b"+", said
                    # A server that died in between has made up its mind without this.
                    self.tell(i, said[1:])
        return x[1:]

    def end(self) -> None:
        for process in [*self.workers.values(), *([] if self.server is None else [self.server])]:
            process.end()

    def uncounted(self) -> int:
        """How many folders count less than what left their workers."""
        missing = 0
        for i in range(len(SIZES)):
            prices, released = Prices(self.terms, i), Spent()
            for worker, round_ in sorted(self.left):
                if worker == i:
                    released = released.plus(prices.of(round_))
            missing += Folder(self.folder / str(i)).spent().rho < released.rho
        return missing

    def twice(self) -> int:
        """How many rounds were answered in two ways."""
        return sum(len(answers) > 1 for answers in self.left.values())


@dataclass
class Row:
    """Of the table."""

    fault: str
    count: int = 0
    trainings: int = 0
    uncounted: int = 0
    twice: int = 0
    other: int = 0

    def text(self) -> str:
        cells = self.fault, f"{self.count:,}", self.trainings, self.uncounted, self.twice, self.other
        return f"| {' | '.join(map(str, cells))} |"

    @property
    def sound(self) -> bool:
        return self.count > 0 and not (self.uncounted or self.twice or self.other)


@contextlib.contextmanager
def trial(row: Row, expected: bytes, prepare: Callable[[], object] = lambda: None) -> Iterator[Trial]:
    """A training of a row; what it ends with is counted there."""
    with tempfile.TemporaryDirectory() as folder:
        one = Trial(Path(folder), prepare)
        try:
            yield one
            row.other += one.run() != expected
            row.trainings += 1
            row.uncounted += one.uncounted()
            row.twice += one.twice()
        finally:
            one.end()


def undisturbed() -> bytes:
    """The model without faults, by one process."""
    terms, shards = training()
    server = Server(terms, coins=KEY)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(*shard, BUDGET, terms, worker=i, folder=f"{folder}/{i}", key=KEY))
            for i, shard in enumerate(shards)
        ]
        while not server.over:
            for i, ask in server.ask().items():
                server.tell(i, workers[i].answer(ask))
    return server.x.tobytes()


def operations() -> int:
    """How many operations on a disk put something there, that is an answer or a server's state."""
    counting = Strike(-1)
    with tempfile.TemporaryDirectory() as folder:
        vars(disk)["os"] = counting
        try:
            with disk.Draft(Path(folder) / "draft") as draft:
                draft.write(b"some")
                draft.publish(Path(folder) / "it")
        finally:
            vars(disk)["os"] = os
    return counting.seen


def kills_at_operations(expected: bytes, when: str, step: int) -> Row:
    """A worker killed at every operation on the disk of its answer; the first is before the journal is begun."""
    row = Row(f"worker killed {when} each operation of an answer")
    for at in range(0, operations(), step):
        with trial(row, expected) as one:
            request = one.ask(0)
            assert request is not None
            one.tell(0, one.answer(0, request, Strike(at, when))[1:])
            row.count += one.restarts
    return row


def kills_at_random(expected: bytes, kills: int, chance: random.Random) -> Row:
    row = Row("worker killed at a random moment")
    while row.count < kills:
        with trial(row, expected) as one:

            def disturb(i: int, request: bytes, one: Trial = one) -> None:
                for _ in range(chance.randrange(4)):
                    if row.count < kills:
                        process = one.worker(i)
                        said = process.request(request, chance.uniform(0, LATEST))
                        process.kill()
                        said = said or process.late()
                        if said is not None:
                            one.seen(i, said)
                        one.stop_worker(i)
                        row.count += 1

            one.run(disturb)
    return row


def kills_of_the_server(expected: bytes, when: str, step: int) -> Row:
    """A server killed at every operation of keeping its state, and begun again from it."""
    row = Row(f"server killed {when} each operation of its state")
    for at in range(0, 3 * operations(), step):
        with trial(row, expected) as one:
            one.to_server(b"x", Strike(at, when))
            one.run()
            row.count += one.restarts
    return row


def bad_messages(expected: bytes) -> list[Row]:
    """Each answer also twice, damaged, late and of a stranger: all these are refused."""
    twice, damaged, late, strange = rows = [
        Row("answer told twice"),
        Row("answer damaged: a bit of each byte of some, a byte less, nothing"),
        Row("answer told in a later round"),
        Row("answer of a stranger, or under another's number"),
    ]
    shared = Row("")
    with trial(shared, expected) as one:
        earlier: dict[int, bytes] = {}

        def refused(row: Row, said: bytes, *reasons: str) -> None:
            row.count += 1
            row.other += said not in [b"-" + reason.encode() for reason in reasons]

        def disturb(i: int, request: bytes) -> None:
            said = one.answer(i, request)[1:]
            if i in earlier:
                refused(late, one.tell(i, earlier[i]), "late")
            places = range(len(said)) if i == 0 and not earlier else range(0, len(said), 97)
            for place in places:
                changed = bytes([*said[:place], said[place] ^ (1 << place % 8), *said[place + 1 :]])
                refused(damaged, one.tell(i, changed), "checksum", "form")
            for changed in (said[:-1], b""):
                refused(damaged, one.tell(i, changed), "checksum", "form")
            for other in {(i + 1) % len(SIZES), 77}:
                refused(strange, one.tell(other, said), "stranger")
            # The last answer of a round closes it, and is late when it is told again.
            assert one.tell(i, said) == b"+"
            refused(twice, one.tell(i, said), "duplicate", "late")
            assert one.answer(i, request)[1:] == said
            earlier[i] = said

        while not one.to_server(b"x")[1:]:
            for i in range(len(SIZES)):
                request = one.ask(i)
                if request is not None:
                    disturb(i, request)
    for row in rows:
        row.trainings, row.uncounted, row.twice = shared.trainings, shared.uncounted, shared.twice
        row.other += shared.other
    return rows


def full_disks(expected: bytes, step: int) -> Row:
    """A disk that is full at each operation of the journal: no answer leaves, and the next request is answered."""
    row = Row("disk full at each operation of the journal")
    for at in range(0, operations(), step):
        with trial(row, expected) as one:
            request = one.ask(0)
            assert request is not None
            said = one.answer(0, request, Strike(at, error=errno.ENOSPC))
            if said[:1] == b"-":
                row.count += 1
                row.other += said != b"-StoreError"
    return row


def two_on_a_folder(expected: bytes, count: int) -> Row:
    row = Row("second process on one folder")
    with trial(row, expected) as one:
        for _ in range(count):
            one.worker(0).request(one.ask(0) or b"")

            def second() -> Callable[[bytes], bytes]:
                try:
                    one.serve_worker(0)()
                except RefusedError as error:
                    reason = error.reason.encode()
                    return lambda request: reason
                return lambda request: b"let in"

            other = Process(second)
            row.count += 1
            row.other += other.request(b"") != b"+in use"
            other.end()
    return row


def clocks_set_back(expected: bytes, chance: random.Random) -> Row:
    """Every clock of every process runs backwards, from anywhere, and so do the times of all files."""
    row = Row("worker restarted with its clocks and files set back")

    def backwards() -> None:
        begin = chance.uniform(-1e9, 4e9)
        ticks = iter(range(10**9))
        for name in ("time", "monotonic", "perf_counter"):
            setattr(time, name, lambda: begin - next(ticks))

    with trial(row, expected, backwards) as one:

        def disturb(i: int, request: bytes) -> None:
            one.answer(i, request)
            for path in (one.folder / str(i)).iterdir():
                os.utime(path, (chance.randrange(2**31),) * 2)
            one.stop_worker(i)
            row.count += 1

        one.run(disturb)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500, help="at random moments (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    parser.add_argument("--step", type=int, default=1, help="take every so many of the operations (%(default)s)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/federation.md")
    arguments = parser.parse_args()
    chance, expected = random.Random(arguments.seed), undisturbed()
    rows = [kills_at_operations(expected, when, arguments.step) for when in ("before", "after")]
    rows.append(kills_at_random(expected, arguments.kills, chance))
    rows += [kills_of_the_server(expected, when, arguments.step) for when in ("before", "after")]
    rows += bad_messages(expected)
    rows.append(full_disks(expected, arguments.step))
    rows.append(two_on_a_folder(expected, 10))
    rows.append(clocks_set_back(expected, chance))
    head = "| fault | faults | trainings | uncounted | answered in two ways | other bits, or not refused |"
    table = "\n".join([head, "|---|---|---|---|---|---|", *(row.text() for row in rows)])
    print(table)
    if arguments.write:
        write(ROOT / "docs" / "federation.md", "outages", table)
    sound = all(row.sound for row in rows)
    print("\nnothing was lost" if sound else "\nSOMETHING WAS LOST")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
