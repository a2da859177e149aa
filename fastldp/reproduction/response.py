"""What a run owes to its noise, to first order: so much less has to be left to chance.

Near where it ends without noise, the mean model of every method here moves as one recursion, along each eigenvector of
the mean Hessian by itself (that of `methods.isrl`; λ its eigenvalue, ν the noise of a release in the mean gradient):

    p = w + mix (a − w)
    w ← w + pull (p − w) − length (λp + ν)
    a ← a + weight (w − a)

So what noise does to the answer is Σₛ κₛνₛ, with numbers κ that the recursion backwards gives. With what is left of the
start, b, and what the workers' models differ by, the error is about

    Q = floor + Σⱼ (bⱼ + uⱼ)²,    uⱼ = Σₛ κₛⱼ νₛⱼ.

Noise has addresses, so u is known of every run; and it is Gaussian, so E ln Q is known too, whatever the runs. An error
divided by Q/exp(E ln Q), the luck of its run, keeps its geometric mean exactly, however good or bad the first order is:
that only says how much less errors differ then. It is a control variate of their logarithms, with a coefficient of one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastldp import blas
from fastldp.engine.recording import Final
from fastldp.errors import DivergedError
from fastldp.kernels.means import mean_normals
from fastldp.methods import ISRLDP, DPFedAvg, DPScaffold, Method, PrimalDual, Schedule
from fastldp.methods.clipping import AdaptiveClip
from fastldp.problems.linear import Problem
from fastldp.regularizers import Zero
from fastldp.solve import solve
from fastldp.sweeping.setting import Ground, Setting, Subject

Array = NDArray[np.float64]

# Whose mean models the recursion is that of.
METHODS = (PrimalDual, ISRLDP, DPFedAvg, DPScaffold)
LANES = 8
# So many numbers of noise are held at once.
MOST_HELD = 2**24
# Where e^s and the transform of Q have long been constants, and points between.
LOGARITHMS = np.linspace(-40.0, 60.0, 5001)


class Response(NamedTuple):
    """The first order of one setting."""

    directions: Array
    """(d, d): the eigenvectors, columns."""
    left: Array
    """(d,): b, in units of ‖x*‖ as the following."""
    weights: Array
    """(releases, d): what multiplies the mean over the workers of the normals of each release."""
    workers: int
    local_steps: int
    floor: float

    @property
    def variances(self) -> Array:
        """(d,): of u."""
        return np.asarray(np.sum(self.weights**2, axis=0) / self.workers)

    @property
    def expected(self) -> float:
        """E Q."""
        return self.floor + float(np.sum(self.left**2 + self.variances))

    @property
    def expected_logarithm(self) -> float:
        """E ln Q = ∫ (e^{−t} − E e^{−tQ}) dt/t, over s = ln t."""
        t = np.exp(LOGARITHMS)[:, None] / self.expected
        spread = 1 + 2 * t * self.variances
        exponent = t[:, 0] * self.floor + np.sum(t * self.left**2 / spread + 0.5 * np.log(spread), axis=1)
        difference = np.exp(-self.expected * t[:, 0]) - np.exp(-exponent)
        return float(np.log(self.expected) + np.trapezoid(difference, LOGARITHMS))

    def luck(self, moved: Array) -> Array:
        """Of runs whose answers noise has moved by u: (runs, d)."""
        error = self.floor + np.sum((self.left + moved) ** 2, axis=1)
        return np.asarray(np.exp(np.log(error) - self.expected_logarithm))


class Luck(NamedTuple):
    """What the errors of some runs were with it, and without."""

    rounds: int
    runs: int
    error: float
    """The geometric mean, without luck."""
    theory: float
    """The same by the first order alone."""
    spread: float
    """One standard deviation of the logarithms, and"""
    spread_without: float

    @classmethod
    def of(cls, rounds: int, known: Response, errors: Array, without: Array) -> Luck:
        with np.errstate(invalid="ignore"):  # of runs that diverged
            before, after = np.log(errors), np.log(without)
            theory = float(np.exp(known.expected_logarithm))
            means = float(np.exp(after.mean())), theory, float(before.std()), float(after.std())
        return cls(rounds, errors.size, *means)


def response(ground: Ground, setting: Setting, *, differing: bool = True) -> Response | None:
    """That of a setting, or None where there is none; `differing` says whether an error has the workers' part."""
    # Whoever made the sweep was warned of its settings, and runs that grow are not used.
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", UserWarning)
        return _found(ground, setting, differing=differing)


def _found(ground: Ground, setting: Setting, *, differing: bool) -> Response | None:
    subject, method = ground.subjects[setting.subject], setting.method
    problem = subject.problem
    if not (isinstance(problem, Problem) and setting.budget is not None and setting.noise.common and _known(method)):
        return None
    schedule = ground.schedule(setting)
    way = method.way(problem)
    by_worker = schedule.factors * way.shares
    smooth = isinstance(problem.regularizer, Zero) and problem.dtype == "float64"
    unit = float(np.linalg.norm(subject.optimum))
    if not smooth or unit == 0 or not np.allclose(by_worker, by_worker[0], rtol=1e-9):
        return None
    end, length = _without_noise(problem, method, schedule, subject, setting.rounds), schedule.step / way.parts
    if end is None:
        return None
    rates, directions = np.linalg.eigh(curvature(problem, end, schedule.program.enforced(problem)))
    if isinstance(method, ISRLDP):
        coefficients = method.coefficients(schedule.program, 0, setting.rounds)
    else:
        coefficients = np.tile([0.0, 0.0, length, 1.0], (way.local_steps * setting.rounds, 1))
    deviations = np.repeat(schedule.deviations, way.local_steps) * by_worker[0] * way.parts
    weights = backwards(coefficients, rates) * (deviations / unit)[:, None]
    floor = _apart(problem, schedule) if way.differing and differing else 0.0
    left = directions.T @ (end - subject.optimum) / unit
    found = Response(directions, left, weights, problem.n, way.local_steps, floor)
    # Steps that are too long make it grow without end, where runs may do otherwise.
    known = floor >= 0 and np.isfinite([found.expected, found.expected_logarithm]).all()
    return found if known else None


def lucks(responses: Sequence[Response], keys: NDArray[np.uint32], n_jobs: int | None = None) -> list[Array]:
    """The luck of runs with these keys, (runs, 8), under each setting; what settings have in common is made once."""
    found: dict[int, Array] = {}
    kinds: dict[tuple[int, int, int], list[int]] = {}
    for k, one in enumerate(responses):
        kinds.setdefault((one.workers, one.local_steps, one.left.size), []).append(k)
    for (workers, local_steps, _), some in kinds.items():
        with blas.one_thread():
            moved = _moved([responses[k] for k in some], keys, workers, local_steps, n_jobs)
        found |= {k: responses[k].luck(one) for k, one in zip(some, moved, strict=True)}
    return [found[k] for k in range(len(responses))]


def backwards(coefficients: Array, rates: Array) -> Array:
    """(releases, d): κ, from the coefficients (mix, pull, length, weight) of each release."""
    of_w, of_a = np.zeros_like(rates), np.ones_like(rates)
    kappa = np.empty((len(coefficients), rates.size))
    for s in range(len(coefficients) - 1, -1, -1):
        mix, pull, length, weight = coefficients[s]
        of_w = of_w + weight * of_a
        kappa[s] = -length * of_w
        through_p = of_w * (pull - length * rates)
        of_a = (1 - weight) * of_a + through_p * mix
        of_w = of_w * (1 - pull) + through_p * (1 - mix)
    return kappa


def curvature(problem: Problem, x: Array, threshold: float = np.inf) -> Array:
    """The Hessian of Σ wᵢfᵢ; where gradients are clipped, of what is left: a clipped one is not bent."""
    margins = problem.rows @ x
    kept = np.abs(problem.loss.slope(margins, problem.targets)) * problem.row_norms <= threshold
    shares = kept * problem.loss.bend(margins, problem.targets) / np.repeat(problem.divisors, problem.sizes)
    bent = problem.rows.T @ (sparse.diags(shares) @ problem.rows)
    return np.asarray((bent.toarray() if sparse.issparse(bent) else bent) + problem.l2 * np.eye(problem.d))


def _known(method: Method) -> bool:
    """Whether its mean model moves as the recursion says."""
    extra = (getattr(method, name, None) for name in ("topology", "sampling"))
    plain = getattr(method, "server_step", 1.0) == 1.0 and not getattr(method, "warm_start", False)
    adapts = isinstance(getattr(method, "clip", None), AdaptiveClip)
    return type(method) in METHODS and plain and not adapts and not any(one is not None for one in extra)


def _without_noise(problem: Problem, method: Method, schedule: Schedule, subject: Subject, rounds: int) -> Array | None:
    """Where a run ends without noise; None if nowhere."""
    changes: dict[str, Any] = {"step": schedule.step}
    if isinstance(method, PrimalDual):
        changes["allocation"] = "static"
    if hasattr(method, "prior"):
        changes["prior"] = None
    still, start = replace(method, **changes), subject.start
    try:
        return np.asarray(solve(problem, rounds=rounds, algorithm=still, x0=start, record=Final(), n_jobs=1).x[0])
    except DivergedError:
        return None


def _apart(problem: Problem, schedule: Schedule) -> float:
    """What noise makes the workers' models differ by, were it always that of the last round: `planning.consensus`."""
    step, variance = schedule.step, float(np.mean((schedule.deviations[-1] * schedule.factors) ** 2))
    return step * (1 - step) ** 2 / (2 - 1.5 * step) * variance * problem.d * (1 - 1 / problem.n)


def _moved(
    responses: Sequence[Response], keys: NDArray[np.uint32], workers: int, local_steps: int, n_jobs: int | None = None
) -> list[Array]:
    """(runs, d) for each: u, along the directions."""
    d, runs = responses[0].left.size, len(keys)
    # Lanes without a run have the key of the last.
    blocks = np.concatenate([keys, np.repeat(keys[-1:], -runs % LANES, axis=0)]).reshape(-1, LANES, 8)
    words = [np.ascontiguousarray(block.T) for block in blocks]
    scratch = [np.zeros((2, 1, d + d % 2, LANES)) for _ in words]
    releases = [len(one.weights) for one in responses]
    at_once = max(1, MOST_HELD // (len(blocks) * d * LANES))
    # [directions, coordinates, runs]: the sum over releases comes first, for all runs in one product.
    sums = [np.zeros((d, len(blocks) * d * LANES)) for _ in responses]
    with ThreadPoolExecutor(n_jobs) as threads:
        for first in range(0, max(releases), at_once):
            normals = np.empty((len(blocks), min(at_once, max(releases) - first), d, LANES))

            def make(block: int, first: int = first, normals: Array = normals) -> None:
                mean_normals(words[block], first, local_steps, workers, *scratch[block], normals[block])

            list(threads.map(make, range(len(blocks))))
            by_release = np.ascontiguousarray(normals.transpose(1, 0, 2, 3)).reshape(normals.shape[1], -1)
            for one, so_far in zip(responses, sums, strict=True):
                weights = one.weights[first : first + len(by_release)]
                so_far += weights.T @ by_release[: len(weights)]
    moved = []
    for one, so_far in zip(responses, sums, strict=True):
        of_runs = so_far.reshape(d, len(blocks), d, LANES)
        along = np.einsum("kbjl,jk->blk", of_runs, one.directions)
        moved.append(along.reshape(-1, d)[:runs])
    return moved
