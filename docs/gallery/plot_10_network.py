"""
A network on images
===================

A network of dense layers, with every sample's gradient clipped exactly. It has no optimum: it is judged by its train
loss and its test accuracy.
"""

import fastldp as fl

data = fl.datasets.synthetic("mnist", rows=5000)
network = fl.MLP(
    data.images[:4000],
    data.labels[:4000],
    hidden=20,
    workers=5,
    clip=1.0,
    strong_convexity=0.02,
    test=(data.images[4000:], data.labels[4000:]),
)
run = fl.solve(network, fl.Budget(4.0, 1e-4), rounds=60, algorithm=fl.PrimalDual(step=1.0), record=fl.Every(5), seed=0)
print(run.summary())
run.plot()
