"""
Dynamic and static allocation
=============================

The same budget, spread over the rounds in two ways. The paper's dynamic allocation puts more noise into early rounds,
which later ones contract.
"""

import matplotlib.pyplot as plt

import fastldp as fl

data = fl.datasets.synthetic("ijcnn1")
problem = fl.Problem(data.A, data.b, workers=20, l2=0.1)
budget = fl.Budget(epsilon=1.0, delta=1e-4)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
horizons = [500, 1000, 2000, 4000]
for allocation in ("dynamic", "static"):
    method = fl.PrimalDual(allocation=allocation)
    runs = [
        fl.solve(problem, budget, rounds=T, algorithm=method, repetitions=8, seed=0, record=fl.Final())
        for T in horizons
    ]
    left.plot(runs[-1].ledger.variances, label=allocation)
    right.plot(horizons, [run.optimality.mean() for run in runs], "o-", label=allocation)
left.set(xlabel="round", ylabel="variance of the noise, T = 4,000", yscale="log")
right.set(xlabel="horizon T", ylabel="final optimality, mean of 8 runs", yscale="log")
left.legend()
right.legend()

# %%
# Both spend the same; the ledger recomputes it from the variances that were used.
print(runs[-1].ledger.summary())
