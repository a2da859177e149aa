"""What the parties of a federation know of the problem: its public numbers, and each worker its own shard.

Both are problems, so that schedules and blocks are made of them as of any other; whatever would have to be read off all
data is refused, with the public number that stands for it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError, DataError
from fastldp.losses import Loss
from fastldp.problems.linear import Problem
from fastldp.regularizers import Regularizer

Vector = NDArray[np.float64]


class _Public(Problem):
    """A problem that is worked on as if nothing were known of its rows."""

    @property
    def enforced_bound(self) -> float:
        # The bound that holds on a set is read off data, and a public one is enforced.
        return self.clip


class Agreed(_Public):
    """A problem without data, as far as it is public."""

    def __init__(
        self,
        sizes: NDArray[np.int64],
        dimension: int,
        *,
        loss: Loss,
        l2: float,
        regularizer: Regularizer | None,
        row_bound: float | None,
        gradient_bound: float | str | None,
        weighting: str,
    ) -> None:
        self._sizes = sizes
        # A row of zeros, for all that is checked of rows.
        labels = np.ones(1)
        super().__init__(
            np.zeros((1, dimension)),
            labels,
            workers=1,
            loss=loss,
            l2=l2,
            regularizer=regularizer,
            row_bound=row_bound,
            gradient_bound=gradient_bound,
            weighting=weighting,
        )
        self.rows, self.targets = self.rows[:0], self.targets[:0]

    def _measure(self) -> None:
        self.starts = np.concatenate([[0], np.cumsum(self._sizes)]).astype(np.int64)
        self.sizes = self._sizes
        self.n, self.d = self.sizes.size, int(self.rows.shape[1])
        self.regularizer.check(self.d)
        self._weigh()

    def _unknown(self, argument: str, what: str, remedy: str) -> NoReturn:
        raise ArgumentError(argument, None, f"{what} would be read off the data, which nobody has all of; {remedy}")

    @cached_property
    def row_norms(self) -> Vector:
        self._unknown("row_bound", "the length of the rows", "give a public row_bound=")

    @cached_property
    def _curvatures(self) -> Vector:
        self._unknown("row_bound", "how the objective bends", "give a public row_bound=, or the method a step=")

    @property
    def strong_convexity(self) -> float:
        return self.l2 * float(self.shares.min()) / self.n

    @property
    def step_limit(self) -> float:
        return self.safe_step if self.public_constants else 0.25

    @property
    def safe_step(self) -> float:
        if not self.public_constants:
            self._unknown("step", "the step", "give the method a step=, or a public row_bound=")
        return super().safe_step

    @property
    def rows_exceed_bounds(self) -> bool:
        return False

    @property
    def gradient_bound(self) -> float:
        if self._public_bound is None:
            remedy = "give a public row_bound= or gradient_bound=, or the method a clip="
            self._unknown("gradient_bound", "the bound on gradients", remedy)
        return self._public_bound


class Shard(_Public):
    """What one worker holds, of an agreed problem: a problem of one worker, with the weight it has among all."""

    def __init__(self, A: Any, b: ArrayLike, whole: Agreed, worker: int) -> None:
        super().__init__(
            A,
            b,
            workers=1,
            loss=whole.loss,
            l2=whole.l2,
            regularizer=whole.regularizer,
            row_bound=whole.row_bound,
            gradient_bound=whole._given_bound,
            weighting=whole.weighting,
        )
        agreed = int(whole.sizes[worker]), whole.d
        if (int(self.sizes[0]), self.d) != agreed:
            remedy = f"the terms say that worker {worker} has {agreed[0]:,} rows of {agreed[1]:,} features"
            raise DataError("A", (int(self.sizes[0]), self.d), remedy)
        mine = slice(worker, worker + 1)
        self.shares, self.divisors = whole.shares[mine], whole.divisors[mine]
