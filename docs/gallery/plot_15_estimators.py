"""
Estimators for scikit-learn
===========================

A locally private classifier in `fit` and `predict`: what more data per worker, or more workers, are worth.
"""

from matplotlib import pyplot
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from fastldp.sklearn import LDPClassifier

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
# Taken as public here: to deploy, give ranges that were known before.
bounds = (X.min(axis=0), X.max(axis=0))

model = LDPClassifier(epsilon=4.0, feature_bounds=bounds, classes=[0, 1], workers=10, random_state=0).fit(X, y)
print(f"{model.score(X_test, y_test):.3f} right")
print(model.ledger_.summary())

# %%
# The same rows spread over more workers: each has fewer to hide a row among, so each adds more noise.
workers = [1, 3, 10, 30, 100]
_, ax = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
for epsilon in (2.0, 8.0):
    found = []
    for n in workers:
        model.set_params(epsilon=epsilon, workers=n)
        scores = [model.set_params(random_state=seed).fit(X, y).score(X_test, y_test) for seed in range(3)]
        found.append(sum(scores) / len(scores))
    ax.plot(workers, found, marker="o", label=f"ε = {epsilon:g}")
ax.set(xscale="log", xlabel="workers", ylabel="accuracy on other rows")
ax.legend(frameon=False)
