"""
Clipping: less noise, another optimum
=====================================

The noise is in proportion to the bound on a sample's gradient. A smaller public bound, enforced by clipping, means less
noise, and a point of convergence that is a little off.
"""

import matplotlib.pyplot as plt

import fastldp as fl

data = fl.datasets.synthetic("ijcnn1")
whole = fl.Problem(data.A, data.b, workers=20, l2=0.1, row_bound=1.3)
budget = fl.Budget(epsilon=1.0, delta=1e-4)
planned = fl.PrimalDual(step="planned", allocation="planned")

bounds = [1.3, 0.65, 0.4, 0.25, 0.1]
errors, biases = [], []
for bound in bounds:
    problem = whole.replace(gradient_bound=bound)
    private = fl.solve(problem, budget, rounds=4000, algorithm=planned, repetitions=8, seed=0, record=fl.Final())
    errors.append(private.optimality.mean())
    biases.append(fl.solve(problem, rounds=4000, repetitions=8, record=fl.Final()).optimality.mean())  # no noise

figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.plot(bounds, errors, "o-", label="private, planned")
ax.plot(bounds, biases, "s--", label="without noise: what clipping does alone")
ax.set(xlabel="bound B on a sample's gradient", ylabel="final optimality", xscale="log", yscale="log")
ax.legend()
