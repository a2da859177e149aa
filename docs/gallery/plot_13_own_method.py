"""
A method of your own
====================

A method is a class that says what it keeps, and what workers and server do. The engine makes the gradients, clips them,
adds the noise and counts it: here the server keeps a part of its last move.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt

import fastldp as fl
from fastldp.lanes import fma, load, mean_over_workers, prox, store


@dataclass(frozen=True)
class HeavyBall(fl.Method):
    """Noisy proximal gradient descent with momentum."""

    step: float
    momentum: float = 0.5

    server = ("model", "last")  # what the server keeps
    begin = ("model", "last")  # what of it begins at x0

    def serve(self, run):  # after each worker's noisy gradient, which is in run.release
        for j in range(run.d):
            x = load(run.model, 0, j)
            h = fma(run.l2, x, mean_over_workers(run.release, j))
            moved = x - self.step * h + self.momentum * (x - load(run.last, 0, j))
            store(x, run.last, 0, j)
            store(moved, run.model, 0, j)
        prox(run, run.model, 0, self.step)


data = fl.datasets.synthetic("ijcnn1")
problem = fl.Problem(data.A, data.b, workers=20, l2=0.1, row_bound=1.3, gradient_bound="half")
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for momentum in (0.0, 0.5, 0.9):
    method = HeavyBall(step=0.01, momentum=momentum)
    run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=1000, algorithm=method, repetitions=8, seed=0)
    ax.plot(run.rounds, run.optimality.mean(axis=0), label=f"momentum {momentum}")
ax.set(xlabel="communication round", ylabel="optimality, mean of 8 runs", yscale="log")
ax.legend()

# %%
# The ledger is that of any other method.
print(run.ledger.summary())
