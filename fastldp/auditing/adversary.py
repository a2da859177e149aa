"""What a server that knows everything but one sample makes of what it sees; plain NumPy, nothing of the kernels.

It knows the method, the variances and all data of the worker up to the sample in question, and sees the worker's
messages and the broadcasts, which every method can read back (`Method.read_back`). So it knows every release h = q +
noise, and with it the likelihood of the transcript under either input: the optimal test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.auditing.queries import query
from fastldp.methods import Program, Schedule
from fastldp.methods.base import Found, View
from fastldp.privacy.sampler import spacing
from fastldp.problems.composite import Composite

Array = NDArray[np.float64]

# The share of a spacing that rounding may amount to where releases are checked to lie on their grid.
TELLING = 0.01


class Seen(NamedTuple):
    """What it makes of that, for the sample as it is in either of two inputs."""

    loss: Array
    """(transcripts,): the privacy loss, ln of the likelihood under the input over that under its neighbour."""
    power: Array
    """(transcripts,): Σ ‖difference of the queries‖²/σ², twice the loss to be expected under the input."""
    along: Array
    """(transcripts, releases): the noise along the difference of the queries, NaN where there is none: normals too."""
    noise: Array
    """(transcripts, releases, d): what is left of the releases under the input, over σ: standard normals, if so."""
    of_counts: Array
    """(transcripts, counts): the same of the counts, where clipping adapts."""
    doubt: float
    """How far off the noise may be for the rounding errors of reading it out of the messages, over σ."""
    off_grid: float
    """How far, at most, a release is from the grid, in spacings."""
    gridless: int
    """Of how many releases rounding leaves it open whether they lie on the grid."""


class Transcripts(NamedTuple):
    """What the server saw of one worker, answered, and saw of the counts of all: see `Solution`."""

    messages: Array
    broadcasts: Array
    early_counts: Array | None = None
    counts: Array | None = None


def look(
    input_: Composite,
    neighbour: Composite,
    worker: int,
    schedule: Schedule,
    start: Array,
    seen: Transcripts,
    found: Iterable[Found] | None = None,
) -> Seen:
    """Everything the server can say about transcripts that were made from `input_`.

    Without the loss where the neighbour is the input itself. Thresholds follow from counts that were released. `found`
    has points and releases where the server need not read them out of messages.
    """
    program, adapting = schedule.program, schedule.adapting
    transcripts, releases, d = seen.messages.shape
    rounds = transcripts, schedule.deviations.size
    loss, power, noise = np.zeros(transcripts), np.zeros(transcripts), np.empty((transcripts, releases, d))
    along = np.full((transcripts, releases), np.nan)
    deviations = claimed_deviations(schedule, input_.n, worker, releases)
    spacings = spacing(deviations)
    doubt = off_grid = largest = 0.0
    gridless = 0
    counting = None if adapting is None else _Counting(input_, neighbour, worker, schedule, seen)
    thresholds, paces = np.full(rounds, program.enforced(input_)), np.ones(rounds)
    if counting is not None:
        thresholds, paces = counting.thresholds, counting.paces
        counting.look_at_early(start, loss, power)
    if found is None:
        found = program.method.read_back(program, worker, start, View(seen.messages, seen.broadcasts, paces))
    for k, (x, release, size) in enumerate(found):
        now, step = divmod(max(k - program.early_releases, 0), program.local_steps)
        clip = thresholds[:, now]
        # Where clipping adapts, all is in units of the threshold.
        unit = 1.0 if counting is None else clip[:, None]
        query = _query(program, input_, worker, x, clip) / unit
        left = (release / unit - query) / deviations[k]
        noise[:, k] = left
        if neighbour is not input_:
            apart = (_query(program, neighbour, worker, x, clip) / unit - query) / deviations[k]
            square, product = np.einsum("rd,rd->r", apart, apart), np.einsum("rd,rd->r", left, apart)
            power += square
            # (‖left − apart‖² − ‖left‖²)/2, without the difference of near equals.
            loss += square / 2 - product
            np.divide(product, np.sqrt(square), out=along[:, k], where=square > 0)
        if counting is not None and step == 0 and k >= program.early_releases:
            counting.look_at(now, x, loss, power)
        # Every release so far has added a few roundings of numbers of its size, and they stay.
        largest = max(largest, size)
        error = (8 + k) * 2.0**-53 * largest / float(np.min(unit))
        doubt = max(doubt, float(error / deviations[k]))
        if error < TELLING * spacings[k]:
            off_grid = max(off_grid, _off_grid(release / unit, float(spacings[k])))
        else:
            gridless += 1
    of_counts = np.zeros((transcripts, 0))
    if counting is not None:
        of_counts, off_grid = np.stack(counting.noise, axis=1), max(off_grid, counting.off_grid)
    return Seen(loss, power, along, noise, of_counts, doubt, off_grid, gridless)


class _Counting:
    """The same of a worker's counts, as they come."""

    def __init__(
        self, input_: Composite, neighbour: Composite, worker: int, schedule: Schedule, seen: Transcripts
    ) -> None:
        assert schedule.adapting is not None
        assert seen.counts is not None  # they were watched
        assert seen.early_counts is not None
        self.inputs, self.worker, self.adapting = (input_, neighbour), worker, schedule.adapting
        self.deviations = claimed_of_counts(schedule, worker)
        self.early, self.counts = seen.early_counts[:, :, worker], seen.counts[:, :, worker]
        all_, paces = self.adapting.follow(seen.early_counts, seen.counts)
        self.early_thresholds, self.thresholds = np.split(all_, [self.early.shape[1]], axis=1)
        self.paces = paces[:, self.early.shape[1] :]
        self.noise: list[Array] = []
        self.off_grid = 0.0

    def look_at_early(self, start: Array, loss: Array, power: Array) -> None:
        """Those before the first round."""
        x = np.tile(start, (len(self.early), 1))
        for k in range(self.early.shape[1]):
            self._add(self.early[:, k], x, self.early_thresholds[:, k], loss, power)

    def look_at(self, now: int, x: Array, loss: Array, power: Array) -> None:
        """That of a round, if there is one."""
        if self.adapting.gains[now] > 0:
            self._add(self.counts[:, now], x, self.thresholds[:, now], loss, power)

    def _add(self, released: Array, x: Array, clip: Array, loss: Array, power: Array) -> None:
        sigma = float(self.deviations[min(len(self.noise), self.deviations.size - 1)])
        inside, other = (query(problem, self.worker, x, clip)[1] for problem in self.inputs)
        left, apart = ((part * self.adapting.part) / sigma for part in (inside, other - inside))
        left = released / sigma - left
        self.noise.append(left)
        power += apart**2
        loss += apart**2 / 2 - left * apart
        self.off_grid = max(self.off_grid, _off_grid(released, float(spacing(np.array(sigma)))))


def _off_grid(releases: Array, spacing_: float) -> float:
    """How far, at most, releases are from the grid, in spacings."""
    steps = releases / spacing_ - 0.5
    return float(np.abs(steps - np.rint(steps)).max())


def claimed_deviations(schedule: Schedule, n: int, worker: int, releases: int) -> Array:
    """σ of so many releases of a worker, by the ledger; where it counts fewer, the others have that of the last."""
    assert schedule.ledger is not None  # without noise there is nothing to tell apart
    counted = np.sqrt(np.broadcast_to(schedule.ledger.variances, (n, schedule.ledger.releases))[worker])
    return np.concatenate([counted, np.full(max(0, releases - counted.size), counted[-1])])


def claimed_of_counts(schedule: Schedule, worker: int) -> Array:
    """σ of the counts of a worker, by the ledger."""
    ledger = schedule.ledger
    assert ledger is not None  # as above
    return np.sqrt(ledger.count_variances * (ledger.count_factors[worker] if ledger.counts else 1.0))


def _query(program: Program, problem: Composite, worker: int, x: Array, clip: Array) -> Array:
    """What is released of the worker at every row of x, before the noise."""
    part = float(problem.sizes[worker] / program.divisors(problem)[worker])
    return query(problem, worker, x, clip)[0] * part
