"""
Shards of different sizes
=========================

A worker of few rows hides one sample among few, so it needs much noise. Where all workers weigh the same, that noise
drowns the average; weighted by their rows, all have the same noise.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import fastldp as fl

data = fl.datasets.synthetic("mushrooms")
owners = fl.datasets.partition(data.b, 20, "dirichlet", alpha=0.5, seed=0)
planned = fl.PrimalDual(step="planned", allocation="planned")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.bar(range(20), np.bincount(owners))
left.set(xlabel="worker", ylabel="rows")
for weighting in ("uniform", "rows"):
    problem = fl.Problem(data.A, data.b, workers=owners, l2=0.1, weighting=weighting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fl.errors.NoiseWarning)  # which says the same in words
        run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=2000, algorithm=planned, repetitions=8, seed=0)
    right.plot(run.rounds, run.optimality.mean(axis=0), label=f"weighting={weighting!r}")
right.set(xlabel="communication round", ylabel="optimality, mean of 8 runs", yscale="log")
right.legend()
