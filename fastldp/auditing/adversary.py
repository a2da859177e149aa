"""What a server that knows everything but one sample makes of what it sees; plain NumPy, nothing of the kernels.

It knows the method, the variances and all data of the worker up to the sample in question, and sees the worker's
messages and the broadcasts. Of Algorithm 1 each message is x − γ(h + wᵢ l2 x + Λ) with x and Λ that follow from
earlier ones; the baselines send h itself. So it knows every release h = q + noise, and with it the likelihood of the
transcript under either input: the optimal test.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.algorithms import Schedule
from fastldp.algorithms.isrl import NoisyDescent
from fastldp.algorithms.local_steps import LocalSteps
from fastldp.algorithms.primal_dual import Algorithm1
from fastldp.algorithms.program import Program
from fastldp.algorithms.scaffnew import Skipping
from fastldp.auditing.queries import query
from fastldp.composite import Composite
from fastldp.privacy.sampler import spacing

Array = NDArray[np.float64]
Found = tuple[Array, Array, float]

# The share of a spacing that rounding may amount to where releases are checked to lie on their grid.
TELLING = 0.01


class View(NamedTuple):
    """What the server saw of one worker, and answered: (transcripts, releases, d), (transcripts, broadcasts, d)."""

    messages: Array
    broadcasts: Array


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
    for k, (x, release, size) in enumerate(_releases(program, input_, worker, start, view)):
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


@singledispatch
def _releases(program: Program, problem: Composite, worker: int, start: Array, view: View) -> Iterator[Found]:
    """Of every release, where the gradient was taken and what was released: the method, read backwards.

    And the size of the numbers that it was computed of; zero where it was seen as it is.
    """
    raise NotImplementedError(f"the adversary does not know {type(program).__name__}")


@_releases.register
def _of_algorithm_1(program: Algorithm1, problem: Composite, worker: int, start: Array, view: View) -> Iterator[Found]:
    step, n, g = program.step, problem.n, problem.regularizer
    shrink = problem.l2 * problem.shares[worker] / n
    x = np.tile(start, (view.messages.shape[0], 1))
    dual = np.zeros_like(x)
    for t in range(view.messages.shape[1]):
        message, mean = view.messages[:, t], view.broadcasts[:, t]
        size = (np.abs(x).max() + np.abs(message).max()) / step + np.abs(dual).max()
        yield x, (x - message) / step - dual - shrink * x, float(size)
        dual = dual + message - mean
        z = message - step * (message - mean)
        x = g.prox(z, step / n) if g.of_coordinates else np.stack([g.prox(row, step / n) for row in z])


@_releases.register
def _of_local_steps(program: LocalSteps, problem: Composite, worker: int, start: Array, view: View) -> Iterator[Found]:
    # The accounting counts every local release, so the adversary is given every one.
    early, count, step = program.early_releases, program.local_steps, program.step
    x = np.tile(start, (view.messages.shape[0], 1))
    mine, server = np.zeros_like(x), np.zeros_like(x)
    for k in range(early):
        yield x, view.messages[:, k], 0.0
        mine = mine + (view.messages[:, k] + problem.l2 * x) / count
    if early:
        server = view.broadcasts[:, 0]
    for t in range((view.messages.shape[1] - early) // count):
        y, new = x, view.broadcasts[:, program.broadcasts(t)]
        for k in range(early + t * count, early + (t + 1) * count):
            yield y, view.messages[:, k], 0.0
            y = y - step * (view.messages[:, k] + problem.l2 * y - mine + server)
        if program.variates:
            mine = mine - server + (x - y) / (count * step)
            server = (x - new) / program.server_step / (count * step)
        x = new


@_releases.register
def _of_skipping(program: Skipping, problem: Composite, worker: int, start: Array, view: View) -> Iterator[Found]:
    x = np.tile(start, (view.messages.shape[0], 1))
    control, shrink = np.zeros_like(x), problem.l2 * problem.shares[worker]
    for t in range(view.messages.shape[1]):
        yield x, view.messages[:, t], 0.0
        moved = x - program.step * (view.messages[:, t] + shrink * x - control)
        # Coins are public: where nothing was sent, they said so.
        answer = view.broadcasts[:, t]
        x = np.where(np.isnan(answer), moved, answer)
        control = control + program.probability / program.step * (x - moved)


@_releases.register
def _of_noisy_descent(
    program: NoisyDescent, problem: Composite, worker: int, start: Array, view: View
) -> Iterator[Found]:
    for t in range(view.messages.shape[1]):
        yield view.broadcasts[:, t], view.messages[:, t], 0.0


def _query(program: Program, problem: Composite, worker: int, x: Array) -> Array:
    """What is released of the worker at every row of x, before the noise."""
    part = float(problem.sizes[worker] / program.divisors(problem)[worker])
    return query(problem, worker, x, program.enforced(problem)) * part
