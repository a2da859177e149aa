"""The paper's bounds as functions: Lemma 2, Theorem 1, and the rows of Table 1.

Φ = ‖x − x*‖² + γ‖y − y*‖² is the paper's Lyapunov function of the stacked models; x* and y* are exact here, so these
are numbers for the analyst, not for a deployment: they depend on the data. With unequal shards or budgets the noise of
the workers is added up, where the paper has n times one worker's.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError
from fastldp.privacy.budget import Budget
from fastldp.problem import Problem
from fastldp.validation import integer, known_name, real, vector

Array = NDArray[np.float64]

METHODS = ("primal-dual", "dp-fedavg", "dp-scaffold", "isrl-dp")


def contraction(problem: Problem, step: float | None = None) -> float:
    """Lemma 2's factor 1 − γ min{μ_f, 1}: what a round leaves of Φ, without noise.

    >>> import numpy as np
    >>> contraction(Problem(np.eye(40), np.ones(40), workers=20, l2=0.1))
    0.99875
    """
    return 1 - _step(problem, step) * min(problem.strong_convexity, 1.0)


def initial_error(problem: Problem, x0: ArrayLike | None = None, step: float | None = None) -> float:
    """Φ¹ of a start: n‖x¹ − x*‖² + γ Σᵢ‖Λᵢ*‖², since Λ¹ = 0."""
    x_star = problem.optimum()
    start = np.zeros(problem.d) if x0 is None else vector("x0", x0, problem.d, f"give {problem.d} finite numbers")
    if x0 is None:
        start = problem.regularizer.prox(start, 0.0)
    gradients = problem.worker_gradients(x_star) / problem.n
    # eq. (fix-8): Λᵢ* = mean of ∇f_j(x*)/n − ∇fᵢ(x*)/n.
    dual = gradients.mean(axis=0) - gradients
    far = start - x_star
    return float(problem.n * (far @ far) + _step(problem, step) * np.sum(dual * dual))


def error_bounds(problem: Problem, variances: ArrayLike, start: float, step: float | None = None) -> Array:
    """Lemma 2, round by round: bounds on E Φ^{t+1} for t = 1..T, from Φ¹ = start.

    `variances` is (T,), or (n, T) where workers differ, as a ledger has them.
    """
    values = np.asarray(variances, dtype=np.float64)
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[0] != problem.n):
        raise ArgumentError("variances", variances, f"give (T,) or ({problem.n}, T) numbers, as ledger.variances")
    total = values.sum(axis=0) if values.ndim == 2 else problem.n * values  # Σᵢ ξ_{i,t}²
    factor, gamma = contraction(problem, step), _step(problem, step)
    bounds = np.empty(total.size)
    bound = real("start", start, "give Φ¹ ≥ 0, as from initial_error", at_least=0)
    for t, noise in enumerate(total):
        bound = factor * bound + 2.5 * problem.d * gamma**2 * noise
        bounds[t] = bound
    return bounds


def noise_floor(problem: Problem, budget: Budget) -> float:
    """Theorem 1's second term, 20 B² d / (ρ n m² min{μ_f², 1}): what E Φ levels off at, at most."""
    rho = budget.rho_of_workers(problem.n)
    convexity = _convexity(problem)
    shares = np.sum(1 / (rho * problem.sizes.astype(np.float64) ** 2)) / problem.n**2
    return float(20 * problem.gradient_bound**2 * problem.d * shares / min(convexity**2, 1.0))


def error_bound(
    problem: Problem, budget: Budget, rounds: int, *, x0: ArrayLike | None = None, step: float | None = None
) -> float:
    """Theorem 1: E Φ^{T+1} ≤ (1 − γ min{μ_f, 1})^T Φ¹ + noise_floor, for dynamic allocation."""
    rounds = integer("rounds", rounds, "give a whole number ≥ 1", at_least=1)
    first = contraction(problem, step) ** rounds * initial_error(problem, x0, step)
    return first + noise_floor(problem, budget)


def min_rounds(problem: Problem, budget: Budget, *, x0: ArrayLike | None = None, step: float | None = None) -> int:
    """Table 1: the smallest T that brings the first term of the bound down to the order of the second.

    Where budgets or shards differ, the worker with the least ε m counts.
    """
    convexity = min(_convexity(problem), 1.0)
    reach = float(np.min(np.asarray(budget.epsilon) * problem.sizes))
    log_inverse = -math.log(budget.delta)
    ratio = reach**2 * problem.n * convexity**2 * initial_error(problem, x0, step)
    ratio /= problem.gradient_bound**2 * problem.d * log_inverse
    return max(1, math.ceil(math.log(max(ratio, 1.0)) / (_step(problem, step) * convexity)))


def utility(problem: Problem, budget: Budget, method: str = "primal-dual", *, clip: float | None = None) -> float:
    """Table 1's utility column without its O: the order of the error of each method at its best T.

    `clip` is Ĉ of DP-FedAvg and DP-SCAFFOLD and L̂ of ISRL-DP; the gradient bound B where it is not given.
    """
    known_name("method", method, METHODS)
    bound = problem.gradient_bound if clip is None else real("clip", clip, "give a finite number > 0", above=0)
    convexity = _convexity(problem)
    curvature = min(convexity**2, 1.0) if method == "primal-dual" else convexity
    reach = float(np.min(np.asarray(budget.epsilon) * problem.sizes))
    return bound**2 / curvature * problem.d * -math.log(budget.delta) / (reach**2 * problem.n)


def _step(problem: Problem, step: float | None) -> float:
    return problem.step_limit if step is None else real("step", step, "give a finite number > 0", above=0)


def _convexity(problem: Problem) -> float:
    convexity = problem.strong_convexity
    if convexity == 0:
        raise ArgumentError("l2", problem.l2, "the theorem needs strong convexity, μ_f > 0; give a positive l2")
    return convexity
