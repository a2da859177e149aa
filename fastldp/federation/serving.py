"""A worker's own process: it holds data, kernels and journal, and answers questions that short-lived ones bring."""

from __future__ import annotations

import json
import secrets
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from fastldp import disk
from fastldp.errors import FastLDPError, RefusedError
from fastldp.federation.messages import Ask
from fastldp.federation.relay import ANSWERED, NOTE, REFUSED
from fastldp.federation.worker import Worker

# What questions begin with: one to a worker, one to whoever is there, and who is there? To that the answer is the
# digest of the terms.
ONE, ANY, WHO = b"o", b"a", b"w"


def serve(*workers: Worker) -> None:
    """Answer what a federation asks of workers, until the process is told to end.

    The SuperNode's ClientApp finds each worker by its folder, from the same machine and the same user alone.

    Parameters
    ----------
    *workers : Worker
        One, in a deployment.
    """
    ended = threading.Event()
    before = {sign: signal.signal(sign, lambda *_: ended.set()) for sign in (signal.SIGTERM, signal.SIGINT)}
    try:
        with Host(*workers):
            ended.wait()
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


class Host:
    """Answers for workers between `with` and its end; each one's folder says where, to who may read it."""

    def __init__(self, *workers: Worker) -> None:
        self._workers = workers
        self._key = secrets.token_bytes(32)
        # One answer at a time: parallel kernels have one caller.
        self._answering = threading.Lock()
        self._closing = False

    def __enter__(self) -> Host:
        # Of this system's own kind: a socket in a temporary folder that is its owner's alone, or a named pipe.
        self._listener = Listener()
        for place, worker in enumerate(self._workers):
            note = {"address": self._listener.address, "key": self._key.hex()}
            _publish(worker.folder / NOTE, json.dumps(note | {"place": place, "worker": worker.number}))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        for worker in self._workers:
            disk.remove(worker.folder / NOTE)
        # Closing wakes no thread that waits for visitors; a visitor does.
        with suppress(OSError):
            Client(self._listener.address).close()
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                connection = self._listener.accept()
            except OSError:
                continue
            # A visitor that was stopped half-way keeps nobody but itself.
            threading.Thread(target=self._receive, args=(connection,), daemon=True).start()

    def _receive(self, connection: Connection[Any, Any]) -> None:
        # Whoever leaves early has taken nothing: the worker's journal has its answer.
        with suppress(OSError, EOFError, AuthenticationError), connection:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            worker = self._workers[json.loads(connection.recv_bytes())["place"]]
            question = connection.recv_bytes()
            with self._answering:
                status, answer = _answered(worker, question)
            connection.send_bytes(status.encode())
            connection.send_bytes(answer)


def _answered(worker: Worker, question: bytes) -> tuple[str, bytes]:
    """A worker's answer, or why there is none."""
    kind, body = question[:1], question[1:]
    try:
        if kind == WHO:
            return ANSWERED, worker.terms.digest.encode()
        ask = Ask.from_bytes(body)
        if kind == ANY:
            ask = replace(ask, worker=worker.number)
        elif kind != ONE:
            raise RefusedError("form", f"a question begins with {kind!r}")
        return ANSWERED, worker.answer(ask).to_bytes()
    except FastLDPError as error:  # a disk that is full too: nothing leaves
        return REFUSED, str(error).encode()


def _publish(path: Path, text: str) -> None:
    with disk.in_words(path), disk.Draft(path.with_suffix(".part")) as draft:
        draft.write(text.encode())
        draft.publish(path)
