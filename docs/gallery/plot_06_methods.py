"""
Methods side by side
====================

Every method takes the same problem and the same budget. Parameters are tuned on a grid, on noise that no solve has, and
the winners are then run on other noise. Grids are coarse, and were widened until no winner lay on an edge: this shows
how to compare, and the reproduction has the measured comparison. Tune on public data: every setting tried on private
data spends a budget.
"""

import matplotlib.pyplot as plt

import fastldp as fl

data = fl.datasets.synthetic("ijcnn1")
problem = fl.Problem(data.A, data.b, workers=20, l2=0.1, row_bound=1.3, gradient_bound="half")
budget = fl.Budget(epsilon=1.0, delta=1e-4)
grids = {
    "Algorithm 1": fl.grid(fl.PrimalDual, step=[0.02, 0.05, 0.1, 0.15, 0.2, 0.25]),
    "ISRL-DP": fl.grid(fl.ISRLDP, step=[0.002, 0.005, 0.01, 0.02, 0.05]),
    "ISRL-DP, accelerated": fl.grid(fl.ISRLDP, step=[1e-5, 1e-4, 1e-3, 1e-2], accelerated=True),
    "DP-FedAvg": fl.grid(fl.DPFedAvg, step=[0.0005, 0.001, 0.002, 0.005, 0.01], local_steps=5),
}
figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for name, methods in grids.items():
    best = fl.tune(problem, budget, methods, rounds=1000, seed=0).algorithm
    run = fl.solve(problem, budget, rounds=1000, algorithm=best, repetitions=8, seed=0)
    ax.plot(run.rounds, run.optimality.mean(axis=0), label=name)
    print(f"{name}: step {best.step:g}, final optimality {run.optimality[:, -1].mean():.3f}")
ax.set(xlabel="communication round", ylabel="optimality, mean of 8 runs", yscale="log")
ax.legend()
