"""A worker of a federation: it has the data, and releases no more of them than it has promised, once for each round."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fastldp.engine.halves import WorkerBlock
from fastldp.errors import ArgumentError, BudgetError, RefusedError
from fastldp.federation.account import Prices, Spent, affordable, epsilon_left, epsilon_spent
from fastldp.federation.agreed import Shard
from fastldp.federation.folder import Folder, Journal
from fastldp.federation.messages import Answer, Ask
from fastldp.federation.terms import Terms
from fastldp.privacy.budget import Budget
from fastldp.problems.rows import checked_matrix, digest_of
from fastldp.validation import integer, reals

Array = NDArray[np.float64]

KEY_BYTES = 32
# How far outside of its set rounding may leave a point, in its size.
OUTSIDE = 1e-9


class Worker:
    """One worker: its data, what was promised of them for life, and a training that it takes part in.

    What it releases, and with how much noise, follows from the terms, and it computes that for itself: a server chooses
    points and nothing else. It answers each round once. Before an answer leaves, `folder` has it: after a crash the
    same request gets the same bytes, and any other request for that round is refused.

    Parameters
    ----------
    A : array or scipy sparse matrix of shape (rows, d)
        Its samples.
    b : array of shape (rows,)
        Their labels.
    budget : Budget
        What is promised of these data for life, over all trainings; the folder keeps it. The training's own budget
        stands in the terms.
    terms : Terms
        What all parties of the training agreed on.
    worker : int
        Which of them it is, from 0.
    folder : path
        What was released of these data; made where it is not there. The same data in another folder would be counted
        from zero again: that they are not is the promise of whoever runs the worker.
    key : bytes, optional
        The 32 bytes that noise is made of, for proofs that a simulation has the same bits; the operating system's
        where they are not given, as in deployments. It is kept on no disk.

    Examples
    --------
    >>> import tempfile, numpy as np, fastldp as fl
    >>> rows, labels = np.eye(5), [1, -1, 1, 1, -1]
    >>> terms = fl.federation.Terms([5], 5, fl.Budget(1.0, 1e-4), 10, row_bound=1.0)
    >>> server = fl.federation.Server(terms)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with fl.federation.Worker(rows, labels, fl.Budget(3.0, 1e-4), terms, worker=0, folder=folder) as worker:
    ...         server.tell(0, worker.answer(server.ask()[0]))
    True
    """

    def __init__(
        self,
        A: Any,
        b: ArrayLike,
        budget: Budget,
        terms: Terms,
        *,
        worker: int,
        folder: str | os.PathLike[str],
        key: bytes | None = None,
    ) -> None:
        if not isinstance(terms, Terms):
            raise ArgumentError("terms", terms, "give fastldp.federation.Terms")
        if not isinstance(budget, Budget) or not isinstance(budget.epsilon, float):
            raise ArgumentError("budget", budget, "give a Budget(epsilon, delta) with one ε: what is promised for life")
        remedy = f"give a worker number from 0 to {terms.n - 1}"
        self.number = integer("worker", worker, remedy, at_least=0, at_most=terms.n - 1)
        self.terms, self.budget = terms, budget
        self._shard = Shard(A, b, terms.problem, self.number)
        given = key is not None
        key = secrets.token_bytes(KEY_BYTES) if key is None else bytes(key)
        if len(key) != KEY_BYTES:
            raise ArgumentError("key", f"{len(key)} bytes", f"give {KEY_BYTES}, or nothing")
        self._known_key = hashlib.sha256(b"fastldp" + key).hexdigest() if given else ""
        self._prices = Prices(terms, self.number)
        self._one_at_a_time, self._process = threading.Lock(), os.getpid()
        self._folder = Folder(folder)
        self._folder.open(_fingerprint(A, b), budget)
        try:
            self._read()
            self._check_key()
            self._check_affordable()
            words = np.frombuffer(key, np.uint32)
            self._block = WorkerBlock(self._shard, terms.problem, terms.schedule, self.number, terms.start, words)
        except BaseException:
            self.close()
            raise

    def answer(self, ask: Ask | bytes) -> Answer:
        """What this worker releases in the round that it is asked for.

        It is on the disk when this returns. The same request again gets the same bytes; everything else that is not the
        next thing to release is refused with the reason, and nothing is released.
        """
        self._check_process()
        with self._one_at_a_time:
            if not isinstance(ask, Ask):
                ask = Ask.from_bytes(ask)
            if self._closed:
                raise RefusedError("closed", f"{self._folder.path}: the worker was closed; make another")
            if self._journal_lost:
                self._read()
            before = self._journal
            if before is not None and (ask.round, ask.digest) == (before.round, before.ask):
                return before.answer
            self._check(ask)
            spent = self._prices.of(ask.round)
            self._check_left(spent)
            releases, count = self._block.make(ask.round, self._kept(ask), ask.threshold, ask.pace)
            noisy = float(count) if self.terms.counts(ask.round) else None
            answer = Answer(self.number, ask.round, self.terms.digest, releases, noisy)
            journal = Journal(
                terms=self.terms.digest,
                name=self.terms.name,
                worker=self.number,
                horizon=self.terms.horizon,
                round=ask.round,
                answers=1 + (0 if before is None else before.answers),
                ask=ask.digest,
                answer=answer,
                spent=spent if before is None else before.spent.plus(spent),
                keys=sorted({self._known_key, *([] if before is None else before.keys)} - {""}),
            )
            # What the disk has is known again only when it has been read, if this fails.
            self._journal_lost = True
            self._folder.write(journal)
            self._journal, self._journal_lost = journal, False
            return answer

    @property
    def spent(self) -> Spent:
        """ρ of all that was ever released of these data, by this folder."""
        return self._others.plus(Spent() if self._journal is None else self._journal.spent)

    @property
    def spent_epsilon(self) -> float:
        """The same as ε at the δ of the budget."""
        return epsilon_spent(self.budget, self.spent)

    @property
    def round(self) -> int | None:
        """The last round that was answered, None where there is none."""
        return None if self._journal is None else self._journal.round

    @property
    def folder(self) -> Path:
        """What was released of these data."""
        return self._folder.path

    def close(self) -> None:
        """Let another process have the folder, once what is being answered is."""
        if os.getpid() != self._process:
            return  # a fork's: the folder is that of the process it was forked from
        with self._one_at_a_time:
            self._closed = True
            self._folder.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a worker cannot be copied: two of them would use the same noise twice; make another")

    # Within.

    _closed = False
    _journal_lost = False
    _journal: Journal | None

    def _read(self) -> None:
        """What the folder has of this training, and what the others have spent."""
        journals = self._folder.journals()
        mine = [one for one in journals if one.terms == self.terms.digest]
        self._journal = mine[0] if mine else None
        self._keys = {key for one in journals if one.terms != self.terms.digest for key in one.keys}
        self._others = Spent()
        for one in journals:
            if one.terms != self.terms.digest:
                self._others = self._others.plus(one.spent)
        self._journal_lost = False

    def _check_key(self) -> None:
        if self._journal is not None and self._journal.worker != self.number:
            told = f"worker {self._journal.worker} of this training"
            raise RefusedError("data", f"{self._folder.path}: these data are those of {told}; give worker= that number")
        if self._known_key in self._keys:
            remedy = "two trainings with one key have the same noise, which anyone then takes off: give another"
            raise RefusedError("key", f"{self._folder.path}: another training had this key; {remedy}, or none")

    def _check_affordable(self) -> None:
        """Refuse a training whose rounds to come are more than what is left."""
        done = Spent() if self._journal is None else self._journal.spent
        rest = max(self._prices.whole.rho - done.rho, 0.0)
        whole = self._others.plus(self._prices.whole)
        if not whole.rho <= affordable(self.budget, whole):
            left = max(affordable(self.budget, self.spent) - self.spent.rho, 0.0)
            room = epsilon_left(self.budget, self.spent)
            raise BudgetError(
                "budget",
                self.budget,
                f"{self._folder.path}: this training would spend ρ = {rest:.6g} more, and of what was promised for "
                f"life ρ = {left:.6g} is left; ask for terms of a smaller budget, of ε ≈ {room:.3g} at this δ",
            )

    def _check_left(self, spent: Spent) -> None:
        after = self.spent.plus(spent)
        if not after.rho <= affordable(self.budget, after):
            told = f"the budget is spent: ε = {self.spent_epsilon:.6g} of {self.budget.epsilon:g}"
            raise RefusedError("budget", f"{self._folder.path}: {told}; nothing more is released of these data")

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            told = "it was made in another process, and this is a fork of that: both would use the same noise"
            raise RefusedError("fork", f"{self._folder.path}: {told}; make workers in the process that they answer in")

    def _kept(self, ask: Ask) -> dict[str, Array]:
        """What its block starts the round from."""
        if ask.kept:
            return {name: np.asarray(value) for name, value in ask.kept.items()}
        return {self.terms.method.point: np.asarray(ask.point)}

    def _check(self, ask: Ask) -> None:
        """Refuse what is not the next thing to release."""
        terms, method = self.terms, self.terms.method
        if ask.terms != terms.digest:
            remedy = "they were changed, or it is another training; agree on them first"
            raise RefusedError(
                "terms", f"the request is on terms {str(ask.terms)[:16]}, not {terms.digest[:16]}: {remedy}"
            )
        if ask.worker != self.number:
            raise RefusedError("stranger", f"the request is one to worker {ask.worker}, and this is {self.number}")
        if type(ask.round) is not int or not terms.has(ask.round):
            told = f"there is no round {ask.round!r}: they are {terms.first} to {terms.horizon:,}"
            raise RefusedError("round", told)
        if self._journal is not None and ask.round <= self._journal.round:
            told = "at another point" if ask.round == self._journal.round else "and rounds after it"
            raise RefusedError(
                "answered", f"round {ask.round} was answered, {told}: each is answered once, and only in order"
            )
        names = {*method.workers, *method.server} if terms.releases(ask.round) > 1 else set()
        if set(ask.kept) != names:
            raise RefusedError("shape", f"the request has {sorted(ask.kept)}, where {sorted(names)} are needed")
        for name, value in {"point": ask.point, **ask.kept}.items():
            array = np.asarray(value)
            if array.shape != (terms.dimension,) or array.dtype != np.float64:
                needed = f"{(terms.dimension,)} of float64 are needed"
                raise RefusedError("shape", f"{name} has the shape {array.shape}, {array.dtype}, where {needed}")
            if not np.isfinite(array).all():
                raise RefusedError("not finite", f"{name} has NaN or infinite entries")
        if names and not np.array_equal(ask.kept[method.point], ask.point):
            raise RefusedError("shape", f"the point is not that of {method.point!r}, which gradients are taken at")
        self._check_point(np.asarray(ask.point))
        adapting = terms.schedule.adapting
        if (ask.threshold is None) != (adapting is None):
            raise RefusedError("threshold", f"the request has the threshold {ask.threshold}, against the terms")
        if adapting is not None:
            # Of thresholds that lie farther off products with the rows vanish or overflow, and clip nothing.
            limits = adapting.limits.within(ask.round, adapting.factor)
            _check_number("threshold", ask.threshold, *limits)
        _check_number("pace", ask.pace, np.finfo(np.float64).tiny, 1e150)

    def _check_point(self, point: Array) -> None:
        if not self.terms.method.feasible:
            return
        inside = self.terms.problem.regularizer.prox(point, 0.0)
        if not np.abs(point - inside).max() <= OUTSIDE * max(1.0, float(np.abs(inside).max())):
            raise RefusedError("set", f"the point lies outside of the set of g = {self.terms.problem.regularizer}")


def _check_number(name: str, value: Any, least: float, most: float) -> None:
    if type(value) is not float or not least <= value <= most:
        raise RefusedError("threshold", f"the {name} is {value!r}; a number from {least:g} to {most:g} is needed")


def _fingerprint(A: Any, b: ArrayLike) -> str:
    """A digest of samples and labels as they were given, whatever a training makes of them."""
    rows = checked_matrix(A, "float64")
    labels = reals("b", b, "give one real number a row")
    return digest_of(repr((rows.shape, sparse.issparse(rows))), rows, labels)
