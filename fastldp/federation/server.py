"""The server of a federation: it asks, is told, and makes the model; no sockets, no threads, no data."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp import disk
from fastldp.engine.halves import ServerBlock
from fastldp.errors import ArgumentError, DamagedError, RefusedError, StoreError
from fastldp.federation.account import Prices, Spent, epsilon_spent
from fastldp.federation.messages import Answer, Ask, packed, unpacked
from fastldp.federation.terms import Terms
from fastldp.privacy.budget import Budget
from fastldp.privacy.sampler import spacing
from fastldp.validation import integer

Array = NDArray[np.float64]

STATE = b"fastldpS"
KEY_BYTES = 32
# Releases are checked to lie on their grid, where rounding to doubles leaves that to be seen: of numbers so many
# spacings large, and within so much of one.
FARTHEST, APART = 2.0**48, 0.01


class Server:
    """One training, round by round: `ask` says what to ask of whom, `tell` takes what they answer.

    What a worker keeps between rounds follows from what it has released and was sent, so the server keeps it in the
    worker's place. A round closes by itself when all have answered; `close_round` goes on without the others.

    Parameters
    ----------
    terms : Terms
        What all agreed on.
    path : path, optional
        A file that has the state at the beginning of every round, and in the end. Where it is there, the training goes
        on from it.
    elsewhere : list of int
        Workers whose gradients other software makes, as PyTorch: their releases need not lie on our grid, and what
        they promise is theirs to say.
    coins : bytes, optional
        The 32 bytes that public random numbers are made of, for methods that have them; the operating system's where
        they are not given.

    Examples
    --------
    >>> import fastldp as fl
    >>> server = fl.federation.Server(fl.federation.Terms([100, 120], 5, fl.Budget(1.0, 1e-4), 50, row_bound=1.0))
    >>> server.round, sorted(server.ask())
    (1, [0, 1])
    """

    def __init__(
        self,
        terms: Terms,
        *,
        path: str | os.PathLike[str] | None = None,
        elsewhere: Iterable[int] = (),
        coins: bytes | None = None,
    ) -> None:
        if not isinstance(terms, Terms):
            raise ArgumentError("terms", terms, "give fastldp.federation.Terms")
        self.terms, self.round = terms, terms.first
        self._path = None if path is None else disk.target_of(path)
        most, remedy = terms.n - 1, f"give worker numbers from 0 to {terms.n - 1}"
        self._elsewhere = {integer("elsewhere", one, remedy, at_least=0, at_most=most) for one in elsewhere}
        coins = secrets.token_bytes(KEY_BYTES) if coins is None else bytes(coins)
        if len(coins) != KEY_BYTES:
            raise ArgumentError("coins", f"{len(coins)} bytes", f"give {KEY_BYTES}, or nothing")
        steps = terms.schedule.program.local_steps
        self._last, self._last_counts = np.zeros((terms.n, steps, terms.dimension)), np.full(terms.n, np.nan)
        self._spent = [Spent()] * terms.n
        self._prices: dict[int, Prices] = {}
        self._saved = self._path is None
        state = self._read()
        if state is not None:
            coins = bytes.fromhex(state[0]["coins"])
        self._coins = coins
        self._block = ServerBlock(terms.problem, terms.schedule, terms.start, np.frombuffer(coins, np.uint32))
        if state is not None:
            try:
                self._restore(*state)
            except (TypeError, ValueError, KeyError) as error:
                told = "it is of another version of fastldp; end the training with that one"
                raise DamagedError(f"{self._path}: {told} ({error})") from None
        self._begin_round()

    @property
    def over(self) -> bool:
        """Whether all rounds are."""
        return self.round > self.terms.horizon

    @property
    def waiting(self) -> list[int]:
        """Who has not answered in this round."""
        return [] if self.over else [i for i in range(self.terms.n) if i not in self._told]

    @property
    def x(self) -> Array:
        """(d,): the model, the mean of the workers'."""
        return np.asarray(self.models[None].mean(axis=1)[0])

    @property
    def models(self) -> Array:
        """(n, d): the workers' models."""
        return self._block.models

    @property
    def spent_rho(self) -> Array:
        """(n,): ρ of what each worker has released and this server has taken."""
        return np.array([spent.rho for spent in self._spent])

    @property
    def spent_epsilon(self) -> Array:
        """(n,): the same as ε at the δ of the terms; no more than these promise."""
        budget = self.terms.budget
        of_each = np.broadcast_to(np.asarray(budget.epsilon), (self.terms.n,)).tolist()
        return np.array(
            [
                epsilon_spent(Budget(epsilon, budget.delta, budget.accounting), spent)
                for epsilon, spent in zip(of_each, self._spent, strict=True)
            ]
        )

    def ask(self) -> dict[int, Ask]:
        """What to ask of each worker that has not answered in this round; empty when the training is over.

        The same round has the same requests, however often it is asked for and wherever the server was killed.
        """
        self._check_finite()
        if not self._saved:
            self._save()
        return {i: self._ask_of(i) for i in self.waiting}

    def tell(self, worker: int, answer: Answer | bytes) -> bool:
        """Take a worker's answer; True where it was the last, and the round has closed.

        What is damaged, late, told before, of a stranger or of other terms is refused with the reason, and nothing has
        changed.
        """
        self._check_finite()
        if not isinstance(answer, Answer):
            answer = Answer.from_bytes(answer)
        self._check(worker, answer)
        self._told[worker] = answer
        if self.waiting:
            return False
        self.close_round()
        return True

    def close_round(self) -> list[int]:
        """Go on with what was told in this round; returns who was missing.

        In place of a missing worker's answer stands its last one, or nothing at all (a gradient of zero) where there
        was none: that costs no privacy, for it was released already.
        """
        if self.over:
            raise RefusedError("over", f"all {self.terms.horizon:,} rounds are over: there is none to close")
        self._check_finite()
        if not self._told:
            raise RefusedError("nobody", f"nobody has answered round {self.round}: there is nothing to go on with")
        missing = self.waiting
        for worker, answer in self._told.items():
            if answer.releases.size:
                self._last[worker] = answer.releases
            if answer.count is not None:
                self._last_counts[worker] = answer.count
            prices = self._prices.setdefault(worker, Prices(self.terms, worker))
            self._spent[worker] = self._spent[worker].plus(prices.of(self.round))
        self._block.take(self.round, self._last, self._counts())
        self.round = self.terms.following(self.round)
        self._saved = self._path is None
        self._begin_round()
        if self.over and not self._saved and not self._block.failed:
            self._save()  # nobody asks again
        return missing

    def replay(self, answers: Iterable[Answer | bytes]) -> None:
        """Take the answers of a transcript in their order; a round whose next answer is of a later one is closed."""
        for one in answers:
            answer = one if isinstance(one, Answer) else Answer.from_bytes(one)
            while not self.over and answer.round > self.round and self._told:
                self.close_round()
            self.tell(answer.worker, answer)

    # Within.

    def _begin_round(self) -> None:
        self._told: dict[int, Answer] = {}
        self._prepared: Mapping[str, Array] = {}
        if not self.over and not self._block.failed:
            self._prepared = self._block.prepared(self.round)

    def _ask_of(self, worker: int) -> Ask:
        program = self.terms.schedule.program
        method = program.method
        rows = {name: value[min(worker, len(value) - 1)] for name, value in self._prepared.items()}
        kept = rows if program.local_steps > 1 and self.round >= 0 else {}
        threshold, pace = self._block.threshold, self._block.pace
        return Ask(worker, self.round, self.terms.digest, rows[method.point], kept, threshold, pace)

    def _counts(self) -> Array:
        """(n,): of this round; of who never counted what moves no threshold."""
        adapting, sizes = self.terms.schedule.adapting, self.terms.sizes
        if adapting is None:
            return np.zeros(self.terms.n)
        usual = adapting.clip.quantile * sizes / sizes.sum()
        return np.where(np.isnan(self._last_counts), usual, self._last_counts)

    def _check_finite(self) -> None:
        if self._block.failed:
            message = f"the model ceased to be finite in round {self._block.failed}; begin again with a smaller step="
            raise RefusedError("diverged", message)

    def _check(self, worker: int, answer: Answer) -> None:
        """Refuse what is no answer to what was asked."""
        terms, n = self.terms, self.terms.n
        if isinstance(worker, bool) or not isinstance(worker, int | np.integer) or not 0 <= worker < n:
            raise RefusedError("stranger", f"worker {worker!r} is none of 0 to {n - 1}")
        if answer.worker != worker:
            raise RefusedError("stranger", f"an answer of worker {answer.worker} was told as one of worker {worker}")
        if answer.terms != terms.digest:
            raise RefusedError("terms", f"worker {worker} answers on other terms, {str(answer.terms)[:16]}")
        if self.over or answer.round < self.round:
            now = "the training is over" if self.over else f"this is round {self.round}"
            raise RefusedError("late", f"worker {worker} answers round {answer.round}, and {now}")
        if answer.round != self.round:
            raise RefusedError("round", f"worker {worker} answers round {answer.round}, and this is {self.round}")
        if worker in self._told:
            raise RefusedError("duplicate", f"worker {worker} has answered round {self.round} before")
        releases, shape = np.asarray(answer.releases), (terms.releases(self.round), terms.dimension)
        if releases.shape != shape or releases.dtype != np.float64:
            remedy = f"{shape} of float64 are needed"
            raise RefusedError("shape", f"releases of shape {releases.shape}, {releases.dtype}, where {remedy}")
        counted = answer.count is not None
        if counted != terms.counts(self.round):
            raise RefusedError("shape", f"round {self.round} {'has no' if counted else 'needs a'} count")
        if not np.isfinite(releases).all() or not np.isfinite(answer.count or 0.0):
            raise RefusedError("not finite", f"worker {worker} has released numbers that are not finite")
        if worker not in self._elsewhere and not self._on_grid(worker, releases):
            remedy = "it was changed, or made by other software: Server(elsewhere=[...]) admits such workers"
            raise RefusedError("off the grid", f"what worker {worker} has released lies off its public grid; {remedy}")

    def _on_grid(self, worker: int, releases: Array) -> bool:
        """Whether numbers are odd halves of the spacing, as far as their size lets one see."""
        if not releases.size:
            return True
        step = float(spacing(np.array(self.terms.deviation(self.round, worker)))) * (self._block.threshold or 1.0)
        places = releases / step
        seen = np.abs(places) < FARTHEST
        off = places[seen] - 0.5
        return bool((np.abs(off - np.rint(off)) < APART).all())

    # On the disk.

    def _save(self) -> None:
        assert self._path is not None
        header = {
            "terms": self.terms.digest,
            "round": self.round,
            "coins": self._coins.hex(),
            "spent": [list(vars(spent).values()) for spent in self._spent],
        }
        data = packed(STATE, header, [self._last, self._last_counts, *self._block.kept_arrays()])
        with disk.in_words(self._path), disk.Draft(self._path.with_name(self._path.name + ".part")) as draft:
            draft.write(data)
            draft.publish(self._path)
        self._saved = True

    def _read(self) -> tuple[dict[str, Any], list[Array]] | None:
        if self._path is None:
            return None
        try:
            data = Path(self._path).read_bytes()
        except FileNotFoundError:
            return None
        try:
            header, arrays = unpacked(STATE, data)
        except RefusedError as error:
            raise DamagedError(
                f"{self._path}: {error}: it is no state of a server; take a copy, or remove it"
            ) from None
        if header["terms"] != self.terms.digest:
            told = "the state of a training on other terms; give the terms it was begun with, or another path"
            raise StoreError(f"{self._path}: {told}")
        return header, arrays

    def _restore(self, header: dict[str, Any], arrays: list[Array]) -> None:
        self._last, self._last_counts, *kept = arrays
        self.round = header["round"]
        self._spent = [Spent(*values) for values in header["spent"]]
        self._block.restore(max(self.round, 1) - 1, kept)
        self._saved = True
