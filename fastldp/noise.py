"""Where the noise of a run comes from: the operating system, or a seed whose keys are bound to all that the run is.

Of two messages that have the same noise in other amounts, anyone computes what it hides. So a key is made of the seed
and of everything that defines the run (data, problem, method with its version, budget, horizon, precision, start): the
same run has the same bits wherever and however it is made, and any other run has other noise. What is recorded of a run
is no part of it. Noise in common with other runs, which comparisons want, has to be asked for.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.describing import described, section
from fastldp.errors import ArgumentError
from fastldp.kernels.chacha import key_of
from fastldp.methods import Method
from fastldp.privacy.budget import Budget
from fastldp.privacy.ledger import COMMON, OS, SEEDED
from fastldp.problems.composite import Composite


class Noise(NamedTuple):
    """What keys are made of; without a seed each is the operating system's, and kept nowhere."""

    seed: int | None
    common: bool = False
    """Whether all runs of the seed have the same noise."""

    @classmethod
    def checked(cls, seed: int | None, common: Any) -> Noise:
        """The noise that `solve` is asked for; its seed was checked."""
        if not isinstance(common, bool):
            raise ArgumentError("common_noise", common, "give True or False")
        if common and seed is None:
            raise ArgumentError("common_noise", common, "noise in common with other runs needs a seed; give all one")
        return cls(None if seed is None else int(seed), common)

    @property
    def origin(self) -> str:
        """The ledger's word for it."""
        return OS if self.seed is None else COMMON if self.common else SEEDED

    def keys(self, repetitions: Iterable[int], run: Callable[[], bytes]) -> NDArray[np.uint32]:
        """(repetitions, 8): the key of each repetition of the run that has this identity."""
        secret = secrets.randbits(256) if self.seed is None else self.seed
        # A digest of large data takes a while, and binds nothing where the secret is new.
        bound = run() if self.origin == SEEDED else b""
        return np.stack([key_of(secret, repetition, bound) for repetition in repetitions])


def identity(problem: Composite, method: Method, budget: Budget | None, rounds: int, start: NDArray[Any]) -> bytes:
    """A digest of all that a run is, but for its repetition."""
    promised = None if budget is None else described(budget)
    text = section([problem.definition, described(method), method.edition, promised, rounds])
    return hashlib.sha256(text.encode() + start.tobytes()).digest()
