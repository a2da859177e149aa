"""The same attack on a worker of a federation, by its public methods alone: what a server asks, and what it answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.auditing.adversary import Seen, Transcripts, look
from fastldp.auditing.attack import Attack
from fastldp.federation.messages import Answer, Ask
from fastldp.federation.server import Server
from fastldp.federation.terms import Terms
from fastldp.federation.worker import Worker
from fastldp.losses import SIGNS
from fastldp.methods.base import Found
from fastldp.privacy.budget import Budget
from fastldp.problems.composite import Composite
from fastldp.problems.linear import Problem

Array = NDArray[np.float64]


class WorkerAttack(Attack):
    """Every transcript is a training of one real worker, in a folder of its own; the server is the adversary."""

    def _seen(self, inputs: tuple[Composite, Composite], worker: int, count: int, seed: int, **run: Any) -> Seen:
        problem = inputs[0]
        assert isinstance(problem, Problem)
        terms = Terms.of(problem, self.budget, self.rounds, self.method)
        trainings = [_training(problem, terms, worker) for _ in range(count)]
        releases = np.stack([np.concatenate([answer.releases for _, answer, _ in one]) for one in trainings])
        counts = np.stack([np.stack([of_all for *_, of_all in one]) for one in trainings])
        early = -min(terms.first, 0)
        # A warm start has no count.
        seen = Transcripts(releases, releases[:, :0], counts[:, :early], counts[:, counts.shape[1] - self.rounds :])
        asks = [[ask for ask, *_ in one] for one in trainings]
        found = _followed(terms, worker, asks, releases)
        return look(*inputs, worker, terms.schedule, terms.start, seen, found)

    # A worker has no seed.
    def _compare_runs(self, noise: Array, seed: int) -> None:
        """Nothing."""

    def _compare_workers(self, noise: Array, transcripts: int, seed: int) -> None:
        """Nothing: the other workers are the adversary's."""

    def _check_alone(self, seed: int) -> None:
        """Nothing: it is alone."""


def _training(problem: Problem, terms: Terms, number: int) -> list[tuple[Ask, Answer, Array]]:
    """All requests to a worker, its answers, and the counts of all in each round, NaN where there was none."""
    others = [i for i in range(terms.n) if i != number]
    server, rounds = Server(terms, elsewhere=others), []
    mine = slice(problem.starts[number], problem.starts[number + 1])
    # Rows carry −b where labels are ±1, so that with b = −1 they are what they were.
    signs = problem.loss.labels == SIGNS
    labels = -np.ones(int(problem.sizes[number])) if signs else problem.targets[mine]
    epsilon = float(np.broadcast_to(terms.budget.epsilon, terms.n)[number])
    budget = Budget(epsilon, terms.budget.delta, terms.budget.accounting)
    shares = terms.sizes / terms.sizes.sum()
    with (
        tempfile.TemporaryDirectory(prefix="fastldp-audit-") as folder,
        Worker(problem.rows[mine], labels, budget, terms, worker=number, folder=Path(folder)) as worker,
    ):
        while not server.over:
            of_all = np.full(terms.n, np.nan)
            for i, ask in server.ask().items():
                counts = terms.counts(ask.round)
                if i == number:
                    answer = worker.answer(ask)
                    rounds.append((ask, answer, of_all))
                else:
                    nothing = np.zeros((terms.releases(ask.round), terms.dimension))
                    answer = Answer(i, ask.round, ask.terms, nothing, float(shares[i]) / 2 if counts else None)
                if answer.count is not None:
                    of_all[i] = answer.count
                server.tell(i, answer)
    return rounds


def _followed(terms: Terms, worker: int, asks: list[list[Ask]], releases: Array) -> Iterator[Found]:
    """Where each gradient was taken and what was released there; local steps are followed in Python."""
    program = terms.schedule.program
    method = program.method
    me, run = method._replayed(program, worker, terms.start, len(asks))
    first = 0
    for place, ask in enumerate(asks[0]):
        count = terms.releases(ask.round)
        if not count:
            continue
        numbers = method.round_numbers_of(program, max(ask.round, 1) - 1, max(ask.round, 1))[0]
        me.__dict__.update(zip(method.of_rounds, numbers, strict=True))
        run.round = ask.round
        run.pace = np.array([one[place].pace for one in asks])
        for name in [*ask.kept] or [method.point]:
            values = [_value(one[place], name, method.point) for one in asks]
            getattr(run, name)[0] = np.stack(values, axis=1)
        for k in range(first, first + count):
            yield getattr(run, method.point)[0].T.copy(), releases[:, k], 0.0
            run.noisy[...] = releases[:, k].T
            if count > 1:
                type(method).take(me, run, 0, k - first)
        first += count


def _value(ask: Ask, name: str, point: str) -> Array:
    kept: Mapping[str, Array] = ask.kept or {point: ask.point}
    return kept[name]
