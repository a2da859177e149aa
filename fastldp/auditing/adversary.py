"""What a server that knows everything but one sample makes of what it sees; plain NumPy, nothing of the kernels.

It knows the method, the variances and all data of the worker up to the sample in question, and sees the worker's
messages and the broadcasts, which every method can read back (`Method.read_back`). So it knows every release h = q +
noise, and with it the likelihood of the transcript under either input: the optimal test.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.auditing.queries import query
from fastldp.methods import Program, Schedule
from fastldp.methods.base import View
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


def look(
    input_: Composite,
    neighbour: Composite,
    worker: int,
    schedule: Schedule,
    start: Array,
    messages: Array,
    broadcasts: Array,
    counts: Array | None,
) -> Seen:
    """Everything the server can say about transcripts that were made from `input_`.

    Without the loss where the neighbour is the input itself. Thresholds follow from counts that were released.
    """
    program, adapting = schedule.program, schedule.adapting
    rounds = len(messages), schedule.deviations.size
    thresholds, paces = np.full(rounds, program.enforced(input_)), np.ones(rounds)
    if adapting is not None:
        assert counts is not None  # they were watched
        thresholds, paces = adapting.follow(counts)
    view = View(messages, broadcasts, paces)
    transcripts, releases, d = view.messages.shape
    loss, power, noise = np.zeros(transcripts), np.zeros(transcripts), np.empty((transcripts, releases, d))
    along = np.full((transcripts, releases), np.nan)
    deviations = claimed_deviations(schedule, input_.n, worker, releases)
    spacings = spacing(deviations)
    doubt = off_grid = largest = 0.0
    gridless, of_counts = 0, []
    of_ledger = claimed_of_counts(schedule, worker)
    for k, (x, release, size) in enumerate(program.method.read_back(program, worker, start, view)):
        now, first = divmod(max(k - program.early_releases, 0), program.local_steps)
        clip = thresholds[:, now]
        # Where clipping adapts, all is in units of the threshold.
        unit = 1.0 if adapting is None else clip[:, None]
        query, inside = _query(program, input_, worker, x, clip)
        release, query = release / unit, query / unit
        left = (release - query) / deviations[k]
        noise[:, k] = left
        counted = adapting is not None and k >= program.early_releases and first == 0 and adapting.gains[now] > 0
        if counted:
            sigma = float(of_ledger[min(len(of_counts), of_ledger.size - 1)])
            own = counts[:, now, worker]
            missing = (own - inside * adapting.part) / sigma
            of_counts.append(missing)
            off_grid = max(off_grid, _off_grid(own, float(spacing(sigma))))
        if neighbour is not input_:
            other, inside_other = _query(program, neighbour, worker, x, clip)
            apart = (other / unit - query) / deviations[k]
            square, product = np.einsum("rd,rd->r", apart, apart), np.einsum("rd,rd->r", left, apart)
            if counted:
                further = (inside_other - inside) * adapting.part / sigma
                square, product = square + further**2, product + missing * further
            power += square
            # (‖left − apart‖² − ‖left‖²)/2, without the difference of near equals.
            loss += square / 2 - product
            np.divide(product, np.sqrt(square), out=along[:, k], where=square > 0)
        # Every release so far has added a few roundings of numbers of its size, and they stay.
        largest = max(largest, size)
        error = (8 + k) * 2.0**-53 * largest / float(np.min(unit))
        doubt = max(doubt, float(error / deviations[k]))
        if error < TELLING * spacings[k]:
            off_grid = max(off_grid, _off_grid(release, float(spacings[k])))
        else:
            gridless += 1
    counts_left = np.stack(of_counts, axis=1) if of_counts else np.zeros((transcripts, 0))
    return Seen(loss, power, along, noise, counts_left, doubt, off_grid, gridless)


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


def _query(program: Program, problem: Composite, worker: int, x: Array, clip: Array) -> tuple[Array, Array]:
    """What is released of the worker at every row of x, before the noise, and how many gradients are not clipped."""
    part = float(problem.sizes[worker] / program.method.divisors(problem)[worker])
    means, inside = query(problem, worker, x, clip)
    return means * part, inside
