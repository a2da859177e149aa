"""
A plan instead of tuning
========================

Near the optimum the error depends on step and horizon through τ = γT/n alone. A plan finds the best τ from public
numbers: sizes, dimension, the bound on gradients, and a guess of how far away the optimum is.
"""

import fastldp as fl

data = fl.datasets.synthetic("ijcnn1")
problem = fl.Problem(data.A, data.b, workers=20, l2=0.1, row_bound=1.3, gradient_bound="half")
budget = fl.Budget(epsilon=1.0, delta=1e-4)
plan = fl.plan(problem.facts, budget, rounds=2000)
print(plan.summary())
plan.plot()

# %%
# Against the theorem's step, on the same problem:
for method in (fl.PrimalDual(), fl.PrimalDual(step="planned", allocation="planned")):
    run = fl.solve(problem, budget, rounds=2000, algorithm=method, repetitions=8, seed=0, record=fl.Final())
    print(f"step {method.step}, {method.allocation} noise: optimality {run.optimality.mean():.3f}")
