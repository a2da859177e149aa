"""What a server that knows everything but one sample makes of what it sees; plain NumPy, nothing of the kernels.

It knows the method, the variances and all data of the worker up to the sample in question, and sees the worker's
messages and the broadcasts. Each message is x − γ(h + (l2/n) x + Λ) with x and Λ that follow from earlier ones, so it
knows every release h = q + noise, and with it the likelihood of the transcript under either input: the optimal test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from fastldp.algorithms import Schedule
from fastldp.problem import Problem

Array = NDArray[np.float64]


class View(NamedTuple):
    """What the server saw of one worker in many transcripts: (transcripts, T, d) each."""

    messages: Array
    broadcasts: Array


class Seen(NamedTuple):
    """What it makes of that, for the sample as it is in either of two inputs."""

    loss: Array
    """(transcripts,): the privacy loss, ln of the likelihood under the input over that under its neighbour."""
    power: Array
    """(transcripts,): Σ ‖difference of the queries‖²/σ², twice the loss to be expected under the input."""
    noise: Array
    """(transcripts, T, d): what is left of the releases under the input, over σ: standard normals if all is well."""


def look(input_: Problem, neighbour: Problem, worker: int, schedule: Schedule, start: Array, view: View) -> Seen:
    """Everything the server can say about transcripts that were made from `input_`."""
    transcripts, rounds, d = view.messages.shape
    loss, power, noise = np.zeros(transcripts), np.zeros(transcripts), np.empty((transcripts, rounds, d))
    deviations = schedule.deviations * schedule.factors[worker]
    for t, (x, release) in enumerate(_releases(input_, worker, schedule, start, view)):
        query = _query(input_, worker, x)
        apart = (_query(neighbour, worker, x) - query) / deviations[t]
        left = (release - query) / deviations[t]
        noise[:, t] = left
        square = np.einsum("rd,rd->r", apart, apart)
        power += square
        # (‖left − apart‖² − ‖left‖²)/2, without the difference of near equals.
        loss += square / 2 - np.einsum("rd,rd->r", left, apart)
    return Seen(loss, power, noise)


def _releases(
    problem: Problem, worker: int, schedule: Schedule, start: Array, view: View
) -> Iterator[tuple[Array, Array]]:
    """Of every round, where the gradient was taken and what was released: Algorithm 1, read backwards."""
    step, n = schedule.step, problem.n
    x = np.tile(start, (view.messages.shape[0], 1))
    dual = np.zeros_like(x)
    for t in range(view.messages.shape[1]):
        message, mean = view.messages[:, t], view.broadcasts[:, t]
        yield x, (x - message) / step - dual - problem.l2 / n * x
        dual = dual + message - mean
        z = message - step * (message - mean)
        g = problem.regularizer
        x = g.prox(z, step / n) if g.separable else np.stack([g.prox(row, step / n) for row in z])


def _query(problem: Problem, worker: int, x: Array) -> Array:
    """(1/(n mᵢ)) Σ of the worker's clipped gradients, at every row of x."""
    mine = slice(problem.starts[worker], problem.starts[worker + 1])
    rows = problem.rows[mine].toarray() if sparse.issparse(problem.rows) else problem.rows[mine]
    norms = np.sqrt(np.einsum("md,md->m", rows, rows))
    limits = np.divide(problem.clip, norms, out=np.full(norms.size, np.inf), where=norms > 0)
    margins = x @ rows.T
    slopes = expit(margins) if problem.loss == "logistic" else margins - problem.targets[mine]
    return np.asarray(np.clip(slopes, -limits, limits) @ rows / (problem.n * rows.shape[0]))
