"""
Paper's and exact accounting
============================

The same (ε, δ) is worth more noise or less: it depends on how ρ, what the releases spend, is converted. The exact
conversion for Gaussian releases needs about half of the variance that the paper's needs.
"""

import matplotlib.pyplot as plt
import numpy as np

import fastldp as fl

epsilons = np.geomspace(0.1, 10, 40)
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
for method in fl.privacy.METHODS:
    ax.plot(epsilons, [fl.privacy.rho_of(epsilon, 1e-4, method) for epsilon in epsilons], label=method)
ax.set(xlabel="ε at δ = 1e-4", ylabel="ρ that may be spent", xscale="log", yscale="log")
ax.legend()

# %%
# The errors of two runs that differ in nothing else:
data = fl.datasets.synthetic("ijcnn1")
problem = fl.Problem(data.A, data.b, workers=20, l2=0.1)
for accounting in ("zcdp", "gdp"):
    budget = fl.Budget(1.0, 1e-4, accounting=accounting)
    run = fl.solve(problem, budget, rounds=2000, repetitions=8, seed=0, record=fl.Final())
    print(f"{accounting}: ε = {run.ledger.spent_epsilon:.4f}, optimality {run.optimality.mean():.3f}")
