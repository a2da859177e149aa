"""
A loss of your own
==================

A loss is a class with a value, its derivative, and what bounds them. Kernels, optimum, ledger and audit use the same
text.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

import fastldp as fl
from fastldp.lanes import exp, fabs, log, sigmoid


@dataclass(frozen=True)
class LogCosh(fl.Loss):
    """φ = s² ln cosh((aᵀx − b)/s): squared near zero, |aᵀx − b| far out."""

    scale: float = 1.0
    curvature = 1.0  # no second derivative is larger

    @property
    def slope_bound(self):  # no slope is larger
        return self.scale

    def value(self, z, b):
        r = fabs(z - b) / self.scale
        return self.scale * self.scale * (r + log(0.5 + 0.5 * exp(-2.0 * r)))

    def slope(self, z, b):
        return self.scale * (2.0 * sigmoid(2.0 * (z - b) / self.scale) - 1.0)


rng = np.random.default_rng(0)
A = rng.standard_normal((2000, 10)) / 4
truth = rng.standard_normal(10)
b = A @ truth + 0.1 * rng.standard_normal(2000)
b[::20] += 5.0  # outliers, which the squared loss follows

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, loss in {"squared": "squared", "LogCosh(0.2)": LogCosh(0.2)}.items():
    problem = fl.Problem(A, b, workers=10, loss=loss, l2=0.01)
    ax.plot(problem.optimum() - truth, "o", label=f"{name}, without noise")
planned = fl.PrimalDual(step="planned", allocation="planned")
run = fl.solve(problem, fl.Budget(2.0, 1e-4), rounds=2000, algorithm=planned, repetitions=8, seed=0)
ax.plot(run.x[0] - truth, "x", label="LogCosh(0.2), a private run")
ax.set(xlabel="coordinate", ylabel="off the truth by")
ax.legend()
