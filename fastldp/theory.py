"""The paper's bounds as functions of a problem and a budget: Lemma 2, Theorem 1, and Table 1.

They bound the mean of Φ = ‖x − x*‖² + γ‖y − y*‖², the paper's Lyapunov function of the n stacked models and duals;
`optimality_scale` turns a bound on Φ into one on the `optimality` that a solve measures. x* and y* are exact here, so
these are numbers for the analyst, not for a deployment: they depend on the data. With unequal shards or budgets the
noise of the workers is added up, where the paper has n times one worker's, and worker i's has the factor (n wᵢ)² of its
weight. What the release's grid adds to ξ², less than a 3000th, is left out.

On a graph (`topology=`) they are the theorem of docs/graph_theory.md, whose Φ has ⟨Λ − Λ*, (I − W)⁺(Λ − Λ*)⟩ in the
place of ‖y − y*‖², which it is for W = 11ᵀ/n.

Where the paper's conditions fail (a step above the limit, samples that are clipped, no strong convexity) there is no
bound, and an error says so.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from fastldp.errors import ArgumentError, UnboundedGradientError
from fastldp.methods import PrimalDual
from fastldp.planning.mixing import extremes
from fastldp.privacy.budget import Budget
from fastldp.problems.linear import Problem
from fastldp.topology import Graph
from fastldp.topology import failures as checked_failures
from fastldp.validation import integer, known_name, real, reals, vector

Array = NDArray[np.float64]

METHODS = ("primal-dual", "dp-fedavg", "dp-scaffold", "isrl-dp")


# Lemma 2


def contraction(
    problem: Problem, step: float | None = None, *, topology: Any = None, failures: float | None = None
) -> float:
    """Lemma 2's factor 1 − γ min{μ_f, 1}: what a round leaves of Φ, without noise; 1 where μ_f = 0.

    On a graph max{(1 − γμ_f)², 1 − γ(1 − p)(1 − λ₂)}, λ₂ the second eigenvalue of W, p the share of links that fail.

    Parameters
    ----------
    problem : Problem
        The problem.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.
    topology, failures : optional
        As of `PrimalDual`: a graph of workers, and the share of its links that are missing in a round.

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(40), np.ones(40), workers=20, l2=0.1)
    >>> contraction(problem)
    0.99875
    >>> round(contraction(problem, topology="star"), 6), round(contraction(problem, topology="complete"), 6)
    (0.997502, 0.997502)
    """
    gamma, graph = _step(problem, step), _graph(topology, failures)
    if graph is None:
        return 1 - gamma * min(problem.strong_convexity, 1.0)
    return max((1 - gamma * problem.strong_convexity) ** 2, 1 - gamma * graph.gap(problem.n, gamma))


def initial_error(
    problem: Problem,
    x0: ArrayLike | None = None,
    step: float | None = None,
    *,
    topology: Any = None,
    failures: float | None = None,
) -> float:
    """Φ¹ of a start: n‖x¹ − x*‖² + γ Σᵢ‖Λᵢ*‖², since Λ¹ = 0; on a graph γ⟨Λ*, (I − W)⁺Λ*⟩/(1 − p) in its place.

    Parameters
    ----------
    problem : Problem
        The problem.
    x0 : array of shape (d,), optional
        The start of all workers; zero, or the point of the set nearest to it, where it is not given.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.
    topology, failures : optional
        As of `PrimalDual`: a graph of workers, and the share of its links that are missing in a round.

    Returns
    -------
    float
        Φ¹.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.array([[1.0], [1.0]]), [1.0, 3.0], workers=2, loss="squared")
    >>> round(initial_error(problem), 9)  # x* = 2, Λ* = (−½, ½), γ = ¼
    8.125
    """
    gamma = _step(problem, step)
    x_star = problem.optimum()
    if x0 is None:
        start = problem.regularizer.prox(np.zeros(problem.d), 0.0)
    else:
        start = vector("x0", x0, problem.d, f"give {problem.d} finite numbers")
    gradients = problem.shares[:, None] * problem.worker_gradients(x_star) / problem.n
    # eq. (fix-8) and (z*): Λᵢ* = mean of w_j∇f_j(x*) − wᵢ∇fᵢ(x*).
    dual = gradients.mean(axis=0) - gradients
    far = start - x_star
    graph = _graph(topology, failures)
    square = float(np.sum(dual * dual)) if graph is None else graph.square(dual)
    return float(problem.n * (far @ far) + gamma * square)


def recursion(
    problem: Problem,
    variances: ArrayLike,
    start: float,
    step: float | None = None,
    *,
    topology: Any = None,
    failures: float | None = None,
) -> Array:
    """Lemma 2 from Φ¹ = start: E Φ^{t+1} ≤ (1 − γ min{μ_f, 1}) E Φ^t + (5/2) d γ² Σᵢ ξ²_{i,t}, for t = 1..T.

    On a graph the factor is that of `contraction`, and 1 stands in the place of 5/2.

    Parameters
    ----------
    problem : Problem
        The problem.
    variances : array of shape (T,) or (n, T)
        ξ² of the rounds, as a ledger has them.
    start : float
        Φ¹, as from `initial_error`.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.
    topology, failures : optional
        As of `PrimalDual`: a graph of workers, and the share of its links that are missing in a round.

    Returns
    -------
    array of shape (T,)
        The bounds.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(40), np.ones(40), workers=20, l2=0.1)
    >>> recursion(problem, [0.0, 0.02], start=8.0).round(4).tolist()
    [7.99, 10.48]
    """
    _checked(problem)
    remedy = f"give (T,) or ({problem.n}, T) numbers ≥ 0, as ledger.variances"
    values = reals("variances", variances, remedy)
    shaped = values.ndim == 1 or (values.ndim == 2 and values.shape[0] == problem.n)
    if not shaped or not (values >= 0).all():
        raise ArgumentError("variances", variances, remedy)
    start = real("start", start, "give Φ¹ ≥ 0, as from initial_error", at_least=0)
    _refuse_clipping(problem)
    factor, gamma = contraction(problem, step, topology=topology, failures=failures), _step(problem, step)
    constant = 2.5 if topology is None else 1.0
    noise = constant * problem.d * gamma**2 * (values.sum(axis=0) if values.ndim == 2 else problem.n * values)
    bounds = accumulate(noise.tolist(), lambda phi, added: factor * phi + added, initial=start)
    return np.array(list(bounds)[1:])


def error_bounds(
    problem: Problem,
    budget: Budget | None,
    rounds: int,
    *,
    allocation: str | ArrayLike = "dynamic",
    x0: ArrayLike | None = None,
    step: float | None = None,
    topology: Any = None,
    failures: float | None = None,
) -> Array:
    """Lemma 2's bounds on E Φ after each round of the `solve` with these arguments; None is a run without noise.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : Budget or None
        What each worker is promised; None is a run without noise.
    rounds : int
        The horizon T.
    allocation : str or array of shape (T,)
        As of `PrimalDual`.
    x0 : array of shape (d,), optional
        The start of all workers; zero, or the point of the set nearest to it, where it is not given.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.
    topology, failures : optional
        As of `PrimalDual`: a graph of workers, and the share of its links that are missing in a round.

    Returns
    -------
    array of shape (T,)
        The bounds.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(40), np.ones(40), workers=20, l2=0.1)
    >>> bounds = error_bounds(problem, Budget(1.0, 1e-4), rounds=100)
    >>> bounds.shape, bool(bounds[-1] <= error_bound(problem, Budget(1.0, 1e-4), rounds=100))
    ((100,), True)
    """
    _checked(problem, budget)
    rounds = integer("rounds", rounds, "give a whole number ≥ 1", at_least=1)
    gamma = _step(problem, step)
    ledger = PrimalDual(gamma, allocation).schedule(problem, budget, rounds).ledger
    variances = np.zeros(rounds) if ledger is None else ledger.variances
    of_graph = {"topology": topology, "failures": failures}
    return recursion(problem, variances, initial_error(problem, x0, gamma, **of_graph), gamma, **of_graph)


def optimality_scale(problem: Problem) -> float:
    """max{1, 1/‖x*‖²}/n: this times a bound on E Φ bounds the mean `optimality` of a solve.

    Φ ≥ Σᵢ‖xᵢ − x*‖² = n((1/n) Σᵢ‖x̄ − xᵢ‖² + ‖x̄ − x*‖²), and optimality has the last term over ‖x*‖².

    Parameters
    ----------
    problem : Problem
        The problem.

    Returns
    -------
    float
        The factor.

    Examples
    --------
    >>> import numpy as np
    >>> optimality_scale(Problem(np.array([[1.0], [1.0]]), [0.4, 0.6], workers=2, loss="squared"))  # x* = ½
    2.0
    """
    _checked(problem)
    x_star = problem.optimum()
    square = float(x_star @ x_star)
    # Where x* = 0 a solve measures ‖x̄‖² itself.
    return max(1.0, 1 / square if square > 0 else 1.0) / problem.n


# Theorem 1: for the dynamic allocation


def noise_floor(problem: Problem, budget: Budget | None) -> float:
    """Theorem 1's second term, 20 B² d / (ρ n m² min{μ_f², 1}): what E Φ levels off at, at most.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : Budget or None
        What each worker is promised; None is a run without noise.

    Returns
    -------
    float
        The floor of E Φ; 0 without a budget.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(40), np.ones(40), workers=20, l2=0.1)
    >>> f"{noise_floor(problem, Budget(1.0, 1e-4)):.4g}"
    '1.553e+07'
    """
    _checked(problem, budget)
    _refuse_clipping(problem)
    convexity = _convexity(problem)
    if budget is None:
        return 0.0
    shares = _mean_share(budget.rho_of_workers(problem.n) * _reach(problem) ** 2)
    return 20 * problem.gradient_bound**2 * problem.d * shares / convexity**2


def error_bound(
    problem: Problem, budget: Budget | None, rounds: int, *, x0: ArrayLike | None = None, step: float | None = None
) -> float:
    """Theorem 1: E Φ^{T+1} ≤ (1 − γ min{μ_f, 1})^T Φ¹ + noise_floor, for the dynamic allocation.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : Budget or None
        What each worker is promised; None is a run without noise.
    rounds : int
        The horizon T.
    x0 : array of shape (d,), optional
        The start of all workers; zero, or the point of the set nearest to it, where it is not given.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.

    Returns
    -------
    float
        The bound on E Φ after round T.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(40), np.ones(40), workers=20, l2=0.1)
    >>> error_bound(problem, None, rounds=8000) < 1e-4 * initial_error(problem)
    True
    """
    rounds = integer("rounds", rounds, "give a whole number ≥ 1", at_least=1)
    floor = noise_floor(problem, budget)
    factor = 1 - _step(problem, step) * _convexity(problem)
    return factor**rounds * initial_error(problem, x0, step) + floor


# Table 1: with the O's constants one


class Row(NamedTuple):
    """A row of Table 1."""

    method: str
    min_rounds: int | None
    """The smallest T allowed; None where a certain T* is required, which the paper does not give."""
    utility: float
    composite: bool
    """Whether the method takes a nonsmooth g."""


def min_rounds(problem: Problem, budget: Budget, *, x0: ArrayLike | None = None, step: float | None = None) -> int:
    """The smallest T of Table 1, ln(Φ¹/utility) / (γ min{μ_f, 1}): the start has then shrunk to the noise's order.

    1 where the noise is of the order of Φ¹ from the first round, as under small budgets.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : Budget
        What each worker is promised.
    x0 : array of shape (d,), optional
        The start of all workers; zero, or the point of the set nearest to it, where it is not given.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.

    Returns
    -------
    int
        T, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.ones((40_000, 1)), np.ones(40_000), workers=4, l2=0.1)
    >>> min_rounds(problem, Budget(1.0, 1e-4))
    2013
    """
    order = utility(problem, budget)
    _refuse_clipping(problem)
    rate = _step(problem, step) * _convexity(problem)
    # (1 − z)^T ≤ e^{−Tz} brings the first term of Theorem 1 below the utility.
    return max(1, math.ceil(math.log(max(initial_error(problem, x0, step) / order, 1.0)) / rate))


def utility(problem: Problem, budget: Budget, method: str = "primal-dual", *, clip: float | None = None) -> float:
    """Table 1's utility of a method: B² d ln(1/δ) / (ε² n m² min{μ_f², 1}), or Ĉ² d ln(1/δ) / (ε² n m² μ_f).

    The rows tell how errors scale and not which is smaller: the first is the order of Φ, those of the others are of the
    objective, and constants differ (Theorem 1's floor is about 80 times the first).

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : Budget
        What each worker is promised.
    method : str
        ``"primal-dual"``, ``"dp-fedavg"``, ``"dp-scaffold"`` or ``"isrl-dp"``.
    clip : float, optional
        Ĉ of DP-FedAvg and DP-SCAFFOLD and L̂ of ISRL-DP; the gradient bound B where it is not given.

    Returns
    -------
    float
        The formula with the O's constants one.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(40), np.ones(40), workers=20, l2=0.1)
    >>> round(utility(problem, Budget(1.0, 1e-4))), round(utility(problem, Budget(1.0, 1e-4), "dp-scaffold"))
    (184207, 921)
    """
    _checked(problem, budget)
    if budget is None:
        raise ArgumentError("budget", budget, "Table 1 is about private runs; give a Budget(epsilon, delta)")
    known_name("method", method, METHODS)
    own = method == "primal-dual"
    if clip is not None:
        if own:
            raise ArgumentError("clip", clip, "the paper's method has the problem's gradient_bound in its place")
        clip = real("clip", clip, "give a finite number > 0", above=0)
    bound = problem.gradient_bound if clip is None else clip
    if bound == 0:
        raise ArgumentError("A", "zeros", "every row is zero: there is nothing to learn from or to hide")
    curvature = _convexity(problem) ** 2 if own else _positive(problem.strong_convexity, problem)
    budget.rho_of_workers(problem.n)  # refuses ε for another number of workers
    reach = np.asarray(budget.epsilon) * _reach(problem)
    return bound**2 / curvature * problem.d * -math.log(budget.delta) * _mean_share(reach**2)


def table_1(
    problem: Problem,
    budget: Budget,
    *,
    clip: float | None = None,
    x0: ArrayLike | None = None,
    step: float | None = None,
) -> tuple[Row, ...]:
    """The rows of Table 1, in its order.

    Parameters
    ----------
    problem : Problem
        The problem.
    budget : Budget
        What each worker is promised.
    clip : float, optional
        As of `utility`, for the baselines.
    x0 : array of shape (d,), optional
        The start of all workers; zero, or the point of the set nearest to it, where it is not given.
    step : float, optional
        γ; the step that a solve takes by default where it is not given.

    Returns
    -------
    tuple of Row
        Of the baselines, and of Algorithm 1 last.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.ones((40_000, 1)), np.ones(40_000), workers=4, l2=0.1)
    >>> for row in table_1(problem, Budget(1.0, 1e-4)):
    ...     print(f"{row.method:<12} {row.min_rounds or 'T*':>5} {row.utility:8.2g} {row.composite}")
    dp-fedavg       T*  9.2e-07 False
    dp-scaffold     T*  9.2e-07 False
    isrl-dp         T*  9.2e-07 False
    primal-dual   2013  3.7e-05 True
    """
    others = [Row(method, None, utility(problem, budget, method, clip=clip), False) for method in METHODS[1:]]
    return *others, Row(METHODS[0], min_rounds(problem, budget, x0=x0, step=step), utility(problem, budget), True)


# The conditions


def _checked(problem: Problem, budget: Budget | None = None) -> None:
    if not isinstance(problem, Problem):
        raise ArgumentError("problem", problem, "give a fastldp.Problem")
    if budget is not None and not isinstance(budget, Budget):
        raise ArgumentError("budget", budget, "give a Budget(epsilon, delta), or None for a run without noise")


def _step(problem: Problem, step: float | None) -> float:
    _checked(problem)
    gamma = problem.safe_step if step is None else real("step", step, "give a finite number > 0", above=0)
    if gamma > problem.step_limit:
        raise ArgumentError(
            "step", gamma, f"above min{{1/4, 1/L_f}} = {problem.step_limit:.6g} Lemma 2 and Theorem 1 do not hold"
        )
    return gamma


class _Mixing(NamedTuple):
    """A graph, and the share of its links that fail."""

    graph: Graph
    failures: float

    def gap(self, n: int, step: float) -> float:
        """(1 − p)(1 − λ₂), where the theorem holds for the step."""
        least, greatest = extremes(self.graph, n)
        kept = 1 - self.failures
        heaviest = float(self.graph.mixing(n).weights.max(initial=0.0))
        if self.failures and self.failures / kept + step * (kept * greatest + 2 * self.failures * heaviest) > 1:
            told = "with so many failures nothing is proved for this step; give fewer, or a smaller step="
            raise ArgumentError("failures", self.failures, told)
        return kept * least

    def square(self, dual: Array) -> float:
        """⟨Λ, (I − W)⁺Λ⟩/(1 − p) of duals that sum to zero, all coordinates together."""
        n = len(dual)
        if n == 1:
            return 0.0
        # Where the last worker's part is set to zero the matrix is no longer singular, and Λ does not see the shift.
        apart = sparse.csc_array(sparse.eye_array(n) - self.graph.matrix(n))[:-1, :-1]
        return float(np.sum(dual[:-1] * splu(apart).solve(dual[:-1]))) / (1 - self.failures)


def _graph(topology: Any, failures: float | None) -> _Mixing | None:
    share = checked_failures(failures)
    if topology is None:
        if share is not None:
            raise ArgumentError("failures", failures, 'links are those of a graph; give topology="ring"')
        return None
    return _Mixing(Graph.of(topology), share or 0.0)


def _convexity(problem: Problem) -> float:
    """min{μ_f, 1} as Theorem 1 has it: of the μ_f that the noise is allocated by, less than μ_f at a public bound."""
    return min(_positive(problem.safe_strong_convexity, problem), 1.0)


def _positive(convexity: float, problem: Problem) -> float:
    if convexity == 0:
        raise ArgumentError("l2", problem.l2, "Theorem 1 and Table 1 need μ_f > 0; give a positive l2")
    return convexity


def _refuse_clipping(problem: Problem) -> None:
    """Clipped gradients are those of another objective, and lead to its optimum."""
    if problem.bound_source != "public":
        return
    try:
        needed = problem.replace(gradient_bound=None).gradient_bound
    except UnboundedGradientError:
        needed = math.inf
    # A row scaled to the bound may exceed it by a rounding error, which clips nothing that counts.
    if needed > problem.gradient_bound * (1 + 1e-9):
        raise ArgumentError(
            "gradient_bound",
            problem.gradient_bound,
            f"samples are clipped, as their gradients may reach {needed:.6g}: runs then settle at another point than "
            "x*, and no theorem says how far from it",
        )


def _reach(problem: Problem) -> Array:
    """(n,): mᵢ/(n wᵢ), the paper's m: how many samples a worker hides one among, for its weight."""
    return np.asarray(problem.sizes.astype(np.float64) / problem.shares)


def _mean_share(values: Array) -> float:
    """(1/n²) Σᵢ 1/vᵢ: 1/(n v) where the workers are alike."""
    return float(np.mean(1 / values) / values.size)
