"""
A regularizer of your own
=========================

A regularizer is a class with its value and its prox, here of one coordinate. The elastic net is an ℓ1 norm and a
square.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

import fastldp as fl
from fastldp.lanes import copysign, fabs, maximum


@dataclass(frozen=True)
class ElasticNet(fl.Regularizer):
    """g = weight ‖x‖₁ + (ridge/2) ‖x‖²."""

    weight: float
    ridge: float

    def value(self, x):
        return float(self.weight * np.abs(x).sum() + 0.5 * self.ridge * np.sum(np.square(x)))

    def shrink(self, z, scale):  # the prox of scale·g
        return copysign(maximum(0.0, fabs(z) - scale * self.weight), z) / (1.0 + scale * self.ridge)


data = fl.datasets.synthetic("a6a")
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for weight in (0.0, 0.005, 0.02):
    problem = fl.Problem(data.A, data.b, workers=20, l2=0.05, regularizer=ElasticNet(weight, 0.05))
    x = problem.optimum()
    ax.plot(np.sort(np.abs(x))[::-1], label=f"weight {weight}: {np.count_nonzero(x)} of {x.size} nonzero")
ax.set(xlabel="coordinates, the largest first", ylabel="|x*|")
ax.legend()

# %%
# The private method takes the same prox in every round.
run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=500, repetitions=4, seed=0)
print(run)
