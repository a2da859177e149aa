"""The certified optimum: accelerated proximal gradient, with Newton steps along the surface the optimum lies on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import OptimumError
from fastldp.regularizers import Regularizer

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

CERTIFICATE = 1e-11
"""What the norm of the prox-gradient mapping L(x − prox(x − ∇f(x)/L)) must fall below."""

ITERATIONS = 200_000
# How often a Newton step is tried: rarely enough to be free, often enough to end early.
NEWTON_EVERY = 25
NEWTON_STEPS = 20
# Added to the curvature, over the smoothness, so that flat directions do not make it singular.
RIDGE = 1e-12
# Newton's systems are dense; beyond this many free coordinates the gradient method goes on alone.
NEWTON_ORDER = 3000


@np.errstate(over="ignore", invalid="ignore")  # what overflows is not certified
def certified_optimum(
    gradient: Callable[[Vector], Vector],
    hessian: Callable[[Vector, Mask], Vector],
    g: Regularizer,
    smoothness: float,
    d: int,
    falls_for_ever: Callable[[Vector], bool],
) -> Vector:
    """The minimiser of f + g, f smooth with the given gradient, Hessian and constant."""

    def step(x: Vector) -> Vector:
        return g.prox(x - gradient(x) / smoothness, 1 / smoothness)

    def certificate(x: Vector) -> float:
        return smoothness * float(np.linalg.norm(x - step(x)))

    x = previous = g.prox(np.zeros(d), 0.0)
    momentum = 1.0
    best, best_norm = x, np.inf
    for iteration in range(ITERATIONS):
        if iteration % NEWTON_EVERY == 0:
            leap, norm = _newton(x, gradient, hessian, g, smoothness, step, certificate)
            if falls_for_ever(leap):
                raise OptimumError(
                    "the classes are linearly separable, so the logistic loss falls for ever and has no minimiser; "
                    "add l2 or a bounded set"
                )
            if norm < CERTIFICATE:
                return leap
            if not np.isfinite(norm):
                break
            if norm < best_norm:
                best, best_norm = leap, norm
            if leap is not x:
                x = previous = leap
                momentum = 1.0
        # Nesterov's step, restarted where it points uphill (O'Donoghue and Candès 2015).
        next_momentum = 0.5 * (1 + np.sqrt(1 + 4 * momentum**2))
        ahead = x + (momentum - 1) / next_momentum * (x - previous)
        following = step(ahead)
        if (ahead - following) @ (following - x) > 0:
            next_momentum = 1.0
        previous, x, momentum = x, following, float(next_momentum)
    raise OptimumError(
        f"no certified optimum: the prox-gradient mapping fell to {best_norm:.3g}, not below {CERTIFICATE:g}, "
        f"at ‖x‖ = {np.linalg.norm(best):.3g}; the problem may have no minimiser: add l2 or a bounded set"
    )


def _newton(
    x: Vector,
    gradient: Callable[[Vector], Vector],
    hessian: Callable[[Vector, Mask], Vector],
    g: Regularizer,
    smoothness: float,
    step: Callable[[Vector], Vector],
    certificate: Callable[[Vector], float],
) -> tuple[Vector, float]:
    """Newton steps along the active surface while they shrink the mapping; x as it was where they do not."""
    norm = certificate(x)
    for _ in range(NEWTON_STEPS):
        y = step(x)
        slope = gradient(y)
        active = g.active(y, slope)
        order = int(active.free.sum())
        if norm < CERTIFICATE or not 0 < order <= NEWTON_ORDER:
            break
        curvature = hessian(y, active.free) + _bent(active.bend, RIDGE * smoothness, order)
        direction = _along(curvature, (slope + active.tilt)[active.free], active.normal, active.free)
        for length in (1.0, 0.25, 0.0625):
            candidate = y.copy()
            candidate[active.free] -= length * direction
            candidate = g.prox(candidate, 0.0)
            candidate_norm = certificate(candidate)
            if candidate_norm < 0.9 * norm:
                x, norm = candidate, candidate_norm
                break
        else:
            break
    return x, norm


def _bent(bend: float | Vector, ridge: float, order: int) -> Vector:
    """What is added to the curvature of the smooth part: a matrix."""
    return np.asarray(bend + ridge * np.eye(order) if np.ndim(bend) == 2 else (bend + ridge) * np.eye(order))


def _along(curvature: Vector, slope: Vector, normal: Vector | None, free: Mask) -> Vector:
    """The Newton direction: curvature⁻¹ slope, kept orthogonal to the normal where there is one."""
    if normal is None:
        return np.asarray(np.linalg.solve(curvature, slope))
    a = normal[free]
    into, across = np.linalg.solve(curvature, np.stack([slope, a], axis=1)).T
    return np.asarray(into - across * (a @ into) / (a @ across))
