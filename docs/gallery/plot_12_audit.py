"""
An attack on the kernels
========================

Two inputs that differ in one sample, many transcripts of each, and an adversary that knows everything else. The privacy
losses must be those that the ledger predicts.
"""

import numpy as np

import fastldp as fl

rng = np.random.default_rng(0)
A = rng.standard_normal((12, 2))
A /= np.linalg.norm(A, axis=1, keepdims=True)
problem = fl.Problem(A, np.sign(A[:, 0]), workers=3, l2=1.0, gradient_bound=1.0)
found = fl.audit(problem, fl.Budget(1.0, 1e-4, accounting="gdp"), rounds=5, transcripts=20_000, seed=0)
print(found.summary())
found.plot()
