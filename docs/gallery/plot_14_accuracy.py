"""
Error and accuracy
==================

How near a private model is to the optimum, and how many samples it gets right that it has not seen: rows held out
before the others are spread over workers.
"""

import fastldp as fl

data = fl.datasets.synthetic("mushrooms")
train, test = fl.datasets.hold_out(data.b.size, 0.25, seed=0)
problem = fl.Problem(
    data.A[train],
    data.b[train],
    workers=20,
    l2=0.01,
    row_bound=5.0,
    gradient_bound="half",
    test=(data.A[test], data.b[test]),
)
run = fl.solve(
    problem,
    fl.Budget(4.0, 1e-4),
    rounds=1500,
    algorithm=fl.PrimalDual(step="planned", allocation="planned"),
    repetitions=8,
    seed=0,
)
print(run.summary())

# %%
# The accuracy, between that of one answer for all and that of the optimum.
ax = run.plot(measure="accuracy")
ax.axhline(problem.accuracy(problem.optimum()), color="C1", label="the optimum's")
ax.axhline(problem.majority, color="0.5", linestyle=":", label="of one answer for all")
ax.legend(frameon=False)

# %%
# The scale of a model does not matter to its accuracy, its direction does; the objective, and the error, count both.
x = run.x[0]
print([problem.accuracy(scale * x) for scale in (0.5, 1, 2)], [problem.objective(scale * x) for scale in (0.5, 1, 2)])
