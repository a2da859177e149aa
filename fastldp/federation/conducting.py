"""A server's rounds over a network whose nodes come, go, fail and lie: who is asked, and how long it is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import NamedTuple, Protocol

from fastldp.errors import ArgumentError, FederationError, RefusedError
from fastldp.federation.messages import Ask
from fastldp.federation.relay import ABSENT, ANSWERED
from fastldp.federation.server import Server
from fastldp.federation.serving import ANY, ONE, WHO
from fastldp.validation import integer, real

WAIT, SKIP = "wait", "skip"
# Seconds before a node is asked again that had nobody to answer, between two looks for answers, and for nodes where
# all are there.
AGAIN, PAUSE, LOOK = 3.0, 0.5, 3.0
# How often an answer may be unreadable before its worker counts as refusing.
MOST_UNREADABLE = 3


class Reply(NamedTuple):
    """What came back of a question; the body is the answer, or the reason for there being none."""

    ticket: str
    status: str
    worker: int
    body: bytes


class Network(Protocol):
    """What carries questions to nodes, and answers back; a node is a number, a question a ticket."""

    def nodes(self) -> Collection[int]:
        """Those that can be reached now."""

    def send(self, questions: Mapping[int, bytes], lifetime: float | None) -> Mapping[int, str]:
        """Ask nodes, for so many seconds at most; the tickets."""

    def receive(self, tickets: Collection[str]) -> Iterable[Reply]:
        """What has come back of these, each once."""


class Event(NamedTuple):
    """Something that a server's owner wants to know; `worker` is -1 where it is about none."""

    kind: str
    """``"joined"``, ``"lost"``, ``"refused"``, ``"stranger"``, ``"skipped"`` or ``"round"``, which is over."""
    round: int
    worker: int
    text: str
    seconds: float


class _Asked(NamedTuple):
    node: int
    round: int
    kind: bytes


class Conductor:
    """Asks the workers that a server wants to hear of, and tells it what they answer, until all rounds are made.

    Parameters
    ----------
    server : Server
        Whom the answers are for.
    network : Network
        How nodes are reached.
    absent : str
        What becomes of a round in which a worker does not answer: ``"wait"`` for it as long as it takes, or after
        `patience` go on without it, ``"skip"``.
    patience : float, optional
        Seconds that a round may take, and that a question lives; for ``"skip"`` it is needed.
    least : int
        With fewer answers than this no round goes on, however long it takes.
    admitted : mapping of int to int, optional
        The worker of each node; by default whoever says first that it is a worker is believed.
    watch : callable, optional
        Is given each `Event`.
    pause : float
        Seconds between two looks at the network.
    """

    def __init__(
        self,
        server: Server,
        network: Network,
        *,
        absent: str = WAIT,
        patience: float | None = None,
        least: int = 1,
        admitted: Mapping[int, int] | None = None,
        watch: Callable[[Event], None] | None = None,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check_policy(absent, patience)
        n = server.terms.n
        integer("least", least, f"give a whole number from 1 to {n}", at_least=1, at_most=n)
        self.server, self.network = server, network
        self.absent, self.patience, self.least = absent, patience, least
        self.admitted, self.pause = admitted, pause
        self._watch, self._clock, self._sleep = watch or (lambda event: None), clock, sleep
        self._node_of: dict[int, int] = {}
        self._strangers: set[int] = set()
        self._asked: dict[str, _Asked] = {}
        self._not_before: dict[int, float] = {}
        self._unreadable: dict[int, int] = {}
        self._there: set[int] = set()
        self._look_at = -inf

    def run(self) -> None:
        """All rounds that are left."""
        while not self.server.over:
            self._one_round()

    def _one_round(self) -> None:
        server, began = self.server, self._clock()
        self._now, asks = server.round, server.ask()
        self._refused: dict[int, str] = {}
        self._unreadable.clear()
        while server.round == self._now and not server.over:
            self._look_around()
            self._send(asks)
            for reply in self.network.receive(list(self._asked)):
                self._take(reply)
            if server.round != self._now or server.over:
                break
            late = self.patience is not None and self._clock() - began > self.patience
            if self.absent == SKIP and (late or set(server.waiting) <= self._refused.keys()):
                if len(asks) - len(server.waiting) >= self.least:
                    break
                self._fail_if_none_will_come()
            self._sleep(self.pause)
        missing = [] if server.round != self._now else server.close_round()
        for i in missing:
            self._tell("skipped", i, self._refused.get(i, f"no answer within {self.patience:g} s"))
        self._tell("round", -1, f"{len(asks) - len(missing)} of {len(asks)} workers", self._clock() - began)

    def _fail_if_none_will_come(self) -> None:
        if set(self.server.waiting) <= self._refused.keys():
            reasons = "; ".join(f"worker {i}: {reason}" for i, reason in sorted(self._refused.items()))
            told = f"round {self._now} has fewer than {self.least} answers and will have no more: {reasons}"
            raise FederationError(told)

    def _look_around(self) -> None:
        """Forget workers whose nodes are gone, and strangers with them: one may be where a worker has gone to."""
        if len(self._node_of) == self.server.terms.n and self._clock() < self._look_at:
            return
        self._look_at = self._clock() + LOOK
        self._there = set(self.network.nodes())
        for worker, node in list(self._node_of.items()):
            if node not in self._there:
                del self._node_of[worker]
                self._strangers.clear()
                self._tell("lost", worker, f"node {node} is not there")

    def _send(self, asks: Mapping[int, Ask]) -> None:
        """To each node that has nothing to do: its worker's question, or to one that is not known who it is."""
        busy = {asked.node for asked in self._asked.values()}
        worker_of = {node: worker for worker, node in self._node_of.items()}
        open_ = set(self.server.waiting) - self._refused.keys()
        # Where all are asked the same, as in the first round, one question does for both.
        same = {replace(ask, worker=0).to_bytes() for ask in asks.values()}
        unknown = ANY + same.pop() if len(same) == 1 and len(open_) == self.server.terms.n else WHO
        questions: dict[int, bytes] = {}
        for node in self._there - busy - self._strangers:
            if self._not_before.get(node, -inf) > self._clock():
                continue
            if node not in worker_of:
                questions[node] = unknown
            elif worker_of[node] in open_:
                questions[node] = ONE + asks[worker_of[node]].to_bytes()
        if questions:
            for node, ticket in self.network.send(questions, self.patience).items():
                self._asked[ticket] = _Asked(node, self._now, questions[node][:1])

    def _take(self, reply: Reply) -> None:
        """What became of a question."""
        asked = self._asked.pop(reply.ticket)
        if reply.status == ABSENT:
            self._not_before[asked.node] = self._clock() + AGAIN
            self._tell("lost", self._worker_at(asked.node), reply.body.decode(errors="replace"))
        elif not self._knows(asked.node, reply.worker) or asked.round != self._now:
            return  # a stranger's, or of a round that went on without it
        elif reply.status != ANSWERED:
            self._refuse(reply.worker, reply.body.decode(errors="replace"))
        elif asked.kind != WHO:
            self._hear(reply)
        elif reply.body.decode(errors="replace") != self.server.terms.digest:
            self._refuse(reply.worker, "it is there for other terms")

    def _hear(self, reply: Reply) -> None:
        """An answer; a worker repeats its bytes, so one that was damaged on its way is asked for again."""
        try:
            self.server.tell(reply.worker, reply.body)
        except RefusedError as error:
            if error.reason == "diverged":
                raise
            times = self._unreadable[reply.worker] = self._unreadable.get(reply.worker, 0) + 1
            if error.reason != "checksum" or times >= MOST_UNREADABLE:
                self._refuse(reply.worker, str(error))

    def _refuse(self, worker: int, reason: str) -> None:
        """Nothing will come of a worker in this round; who waits for all waits for nothing."""
        if self.absent == WAIT:
            raise FederationError(f"round {self._now} waits for worker {worker}, which refuses: {reason}")
        self._refused[worker] = reason
        self._tell("refused", worker, reason)

    def _knows(self, node: int, worker: int) -> bool:
        """Whether a node is where a worker is; it is from now on, if nobody else was before it."""
        known = self._node_of.get(worker)
        if known == node:
            return True
        admitted = worker if self.admitted is None else self.admitted.get(node)
        if not 0 <= worker < self.server.terms.n or known is not None or admitted != worker:
            self._strangers.add(node)
            self._tell("stranger", worker, f"node {node} says that it is worker {worker}")
            return False
        self._node_of[worker] = node
        self._tell("joined", worker, f"node {node}")
        return True

    def _worker_at(self, node: int) -> int:
        return next((worker for worker, known in self._node_of.items() if known == node), -1)

    def _tell(self, kind: str, worker: int, text: str, seconds: float = 0.0) -> None:
        self._watch(Event(kind, self._now, worker, text, seconds))


def check_policy(absent: str, patience: float | None) -> None:
    """Refuse what says nothing of when to go on."""
    if absent not in (WAIT, SKIP):
        raise ArgumentError("absent", absent, f'give "{WAIT}" or "{SKIP}"')
    if patience is not None:
        real("patience", patience, "give seconds > 0", above=0)
    elif absent == SKIP:
        raise ArgumentError("patience", None, f'give the seconds after which absent="{SKIP}" goes on')
