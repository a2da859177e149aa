"""The noise of all workers in the same repetitions: few transcripts of each, in which all pairs are compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.auditing import independence
from fastldp.auditing.evidence import Check, chance, chance_of_squares, worst
from fastldp.auditing.independence import Closest, closest
from fastldp.engine import driving
from fastldp.engine.layouts import lanes_of
from fastldp.problems.composite import Composite

Array = NDArray[np.float64]

# The numbers of each release of a worker, at least: enough to know noise that is used twice among millions of pairs.
LEAST_NUMBERS = 16
# What all workers' transcripts may take, by an estimate of the kernels alone: some ten seconds.
MOST_NANOSECONDS = 5e9
# Noise is made of so many coordinates at a time, and costs as much where there are fewer.
GROUP = 16


class Watch(NamedTuple):
    """Which workers are watched in the same repetitions, and in how many."""

    workers: list[int]
    repetitions: int

    @classmethod
    def of(cls, problem: Composite, attacked: int, releases: int, transcripts: int) -> Watch:
        """All workers, or as many as there is time for, the attacked one among them."""
        lanes = lanes_of(problem)
        unused = max(0, GROUP - problem.d) * problem.n * driving.COORDINATE
        cost = driving.nanoseconds(problem, releases) + releases * unused
        least = -(-LEAST_NUMBERS // problem.d)
        affordable = max(2, int(MOST_NANOSECONDS / (cost * -(-least // lanes))))
        count = min(problem.n, affordable, independence.MOST_ROWS)
        spread = np.linspace(attacked, attacked + problem.n, count, endpoint=False).astype(np.int64) % problem.n
        most = min(lanes * int(MOST_NANOSECONDS / (cost * count)), 2 * transcripts // count)
        return cls(sorted(spread.tolist()), max(least, most))


class Watched:
    """What was seen of each watched worker; of long runs some releases, of many coordinates the first."""

    def __init__(self, watch: Watch, releases: int, d: int) -> None:
        self.watch, self.repetitions = watch, watch.repetitions
        most = max(2, independence.MOST_ROWS // len(watch.workers))
        self.kept = independence.releases_kept(releases, min(most, independence.MOST_RELEASES))
        rows = len(watch.workers) * self.kept.size
        # All coordinates of some repetitions, or some coordinates of one.
        self.repetitions = max(1, min(watch.repetitions, independence.MOST_NUMBERS // (rows * d)))
        self.coordinates = min(d, max(2, independence.MOST_NUMBERS // rows))
        self._noise = np.empty((len(watch.workers), self.kept.size, self.repetitions * self.coordinates))
        self._sums, self._squares = np.zeros((2, len(watch.workers), releases))
        self._numbers = watch.repetitions * d
        self.off_grid = np.zeros(len(watch.workers))

    def add(self, number: int, noise: Array, excess: Array, off_grid: float) -> None:
        """The noise of the worker with this number among the watched."""
        some = noise[: self.repetitions, self.kept, : self.coordinates]
        self._noise[number] = some.transpose(1, 0, 2).reshape(self.kept.size, -1)
        self._sums[number] = noise.sum(axis=(0, 2)) / np.sqrt(1 + excess)
        self._squares[number] = np.einsum("rtd,rtd->t", noise, noise) / (1 + excess)
        self.off_grid[number] = off_grid

    @property
    def numbers(self) -> int:
        """How many numbers there are of each release of a worker."""
        return self._numbers

    def checks(self) -> list[Check]:
        """Of the noise of every worker by itself."""
        means, variances = self._sums / np.sqrt(self._numbers), self._squares / self._numbers
        mean, variance = (np.unravel_index(np.argmax(np.abs(one)), one.shape) for one in (means, variances - 1))
        return [
            Check(
                chance(means),
                f"the noise of worker {self.watch.workers[mean[0]]} has a mean: {worst(means)} standard errors in "
                f"release {mean[1] + 1}",
            ),
            Check(
                chance_of_squares(self._squares, self._numbers),
                f"the noise of worker {self.watch.workers[variance[0]]} has {variances[variance]:.4f} of the claimed "
                f"variance in release {variance[1] + 1}",
            ),
        ]

    def compared(self) -> dict[str, Closest]:
        """All pairs of workers, any release of the one and any of the other; in value and in size."""
        groups = np.repeat(np.arange(len(self.watch.workers)), self.kept.size)
        rows = self._noise.reshape(groups.size, -1)
        return {"": closest(rows, groups=groups), ", in size": closest(independence.sizes(rows), groups=groups)}

    def place(self, row: int) -> tuple[int, int]:
        """The worker and the release of a row of those compared."""
        return self.watch.workers[row // self.kept.size], int(self.kept[row % self.kept.size])
