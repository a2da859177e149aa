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
    doubt: float
    """How far off the noise may be for the rounding errors of reading it out of the messages, over σ."""
    off_grid: float
    """How far, at most, a release is from the grid, in spacings."""
    gridless: int
    """Of how many releases rounding leaves it open whether they lie on the grid."""


def look(input_: Composite, neighbour: Composite, worker: int, schedule: Schedule, start: Array, view: View) -> Seen:
    """Everything the server can say about transcripts that were made from `input_`.

    Without the loss where the neighbour is the input itself.
    """
    program = schedule.program
    transcripts, releases, d = view.messages.shape
    loss, power, noise = np.zeros(transcripts), np.zeros(transcripts), np.empty((transcripts, releases, d))
    along = np.full((transcripts, releases), np.nan)
    deviations = claimed_deviations(schedule, input_.n, worker, releases)
    spacings = spacing(deviations)
    doubt = off_grid = largest = 0.0
    gridless = 0
    for k, (x, release, size) in enumerate(program.method.read_back(program, worker, start, view)):
        query = _query(program, input_, worker, x)
        left = (release - query) / deviations[k]
        noise[:, k] = left
        if neighbour is not input_:
            apart = (_query(program, neighbour, worker, x) - query) / deviations[k]
            square, product = np.einsum("rd,rd->r", apart, apart), np.einsum("rd,rd->r", left, apart)
            power += square
            # (‖left − apart‖² − ‖left‖²)/2, without the difference of near equals.
            loss += square / 2 - product
            np.divide(product, np.sqrt(square), out=along[:, k], where=square > 0)
        # Every release so far has added a few roundings of numbers of its size, and they stay.
        largest = max(largest, size)
        error = (8 + k) * 2.0**-53 * largest
        doubt = max(doubt, float(error / deviations[k]))
        if error < TELLING * spacings[k]:
            steps = release / spacings[k] - 0.5
            off_grid = max(off_grid, float(np.abs(steps - np.rint(steps)).max()))
        else:
            gridless += 1
    return Seen(loss, power, along, noise, doubt, off_grid, gridless)


def claimed_deviations(schedule: Schedule, n: int, worker: int, releases: int) -> Array:
    """σ of so many releases of a worker, by the ledger; where it counts fewer, the others have that of the last."""
    assert schedule.ledger is not None  # without noise there is nothing to tell apart
    counted = np.sqrt(np.broadcast_to(schedule.ledger.variances, (n, schedule.ledger.releases))[worker])
    return np.concatenate([counted, np.full(max(0, releases - counted.size), counted[-1])])


def _query(program: Program, problem: Composite, worker: int, x: Array) -> Array:
    """What is released of the worker at every row of x, before the noise."""
    part = float(problem.sizes[worker] / program.method.divisors(problem)[worker])
    return query(problem, worker, x, program.enforced(problem)) * part
