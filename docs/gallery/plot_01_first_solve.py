"""
A first private solve
=====================

The paper's nonsmooth problem: logistic regression with an ℓ1 norm over a box, twenty workers, and the promise of
(1, 10⁻⁴)-local differential privacy for all that a worker sends.
"""

import fastldp as fl

data = fl.datasets.synthetic("ijcnn1")
problem = fl.Problem(data.A, data.b, workers=20, l2=0.1, regularizer=fl.BoxL1(weight=0.001, bound=10.0))
budget = fl.Budget(epsilon=1.0, delta=1e-4)
planned = fl.PrimalDual(step="planned", allocation="planned")
run = fl.solve(problem, budget, rounds=1000, algorithm=planned, repetitions=20, seed=0)

# %%
# The summary has the errors along the rounds, and the ledger: what was promised and spent.
print(run.summary())

# %%
# The error is the paper's *optimality*: how far the workers' models are from their mean, and that from the optimum.
run.plot()
