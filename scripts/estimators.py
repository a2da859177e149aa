"""The estimators beside a central model and one without privacy: estimators.py [--write] [--splits N] [SET ...].

On breast cancer and digits, which come with scikit-learn, at the same ε: the accuracy on rows that were held out, the
mean and standard deviation over random splits, each with noise of its own. diffprivlib is run in an environment of its
own, out/diffprivlib, since it does not import beside the newest scikit-learn; without it its rows are left out. What a
set's models came to is kept in out/estimators, and read from there. With --write the tables go into docs/sklearn.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import venv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).resolve().parent.parent
KEPT, HOME = ROOT / "out" / "estimators", ROOT / "out" / "diffprivlib"
CENTRAL = ("diffprivlib==0.6.6", "scikit-learn>=1.6,<1.7")
EPSILONS, DELTA, L2 = (1.0, 3.0, 10.0), 1e-5, 0.01
# What the search chooses from; the first is the default.
GRID = [0.01, 0.001, 0.1, 1.0]
HELD_OUT, SPLITS = 0.25, 5
# With each row a worker's own the others take minutes.
SMALL = ("breast_cancer",)
# These do not depend on ε.
ALIKE = ("one answer for all", "not private")
TITLES = {"breast_cancer": "Breast cancer", "digits": "Digits"}


def loaded(name: str) -> tuple[Any, Any, tuple[Any, Any]]:
    """Features, labels, and the ranges of the features that the set's description states, taken as public here."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":
        return X, y, (np.zeros(X.shape[1]), np.full(X.shape[1], 16.0))
    # Its description has the least and the largest value of each feature.
    return X, y, (X.min(axis=0), X.max(axis=0))


def split(rows: int, number: int) -> tuple[Any, Any]:
    """The rows to train on and those to test on."""
    order = np.random.default_rng(number).permutation(rows)
    held = round(HELD_OUT * rows)
    return order[held:], order[:held]


def kept(name: str) -> dict[str, dict[str, list[float]]]:
    """What was found of a set: accuracies by model and ε."""
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def measure(name: str, models: dict[str, Callable[[float, int, Any, Any], Any]], splits: int) -> None:
    """Accuracies of each model at each ε on each split, but for those that are kept."""
    X, y, bounds = loaded(name)
    KEPT.mkdir(parents=True, exist_ok=True)
    for kind, make in models.items():
        for epsilon in EPSILONS[:1] if kind in ALIKE else EPSILONS:
            found = kept(name)
            if f"{epsilon:g}" in found.setdefault(kind, {}):
                continue
            values = []
            for number in range(splits):
                train, test = split(len(y), number)
                model = make(epsilon, number, bounds, np.unique(y)).fit(X[train], y[train])
                values.append(float(model.score(X[test], y[test])))
            print(name, kind, epsilon, f"{np.mean(values):.3f} ± {np.std(values):.3f}", flush=True)
            found[kind][f"{epsilon:g}"] = values
            (KEPT / f"{name}.json").write_text(json.dumps(found))


def mapped(model: Any, bounds: Any) -> Any:
    """With features mapped from their ranges to [−1, 1], by numbers that are not read off the rows."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    low, high = (np.asarray(bound) for bound in bounds)
    return make_pipeline(FunctionTransformer(lambda X: (np.clip(X, low, high) - low) / (high - low) * 2 - 1), model)


def central(name: str, splits: int) -> None:
    """Run by the other environment's Python."""
    from diffprivlib.models import GaussianNB
    from diffprivlib.models import LogisticRegression as Private

    def logistic(epsilon: float, number: int, bounds: Any, classes: Any) -> Any:
        norm = float(np.sqrt(len(bounds[0])))
        return mapped(Private(epsilon=epsilon, data_norm=norm, random_state=number, max_iter=1000), bounds)

    def bayes(epsilon: float, number: int, bounds: Any, classes: Any) -> Any:
        return GaussianNB(epsilon=epsilon, bounds=bounds, random_state=number)

    measure(name, {"diffprivlib, logistic": logistic, "diffprivlib, naive Bayes": bayes}, splits)


def local(name: str, splits: int) -> None:
    """Ours, and one without privacy."""
    from fastldp.sklearn import LDPClassifier, LDPSearch

    def plain(epsilon: float, number: int, bounds: Any, classes: Any) -> Any:
        rows = round((1 - HELD_OUT) * len(loaded(name)[1]))
        return mapped(LogisticRegression(C=1 / (L2 * rows), max_iter=1000), bounds)

    def ours(workers: int | str, **changes: Any) -> Callable[[float, int, Any, Any], Any]:
        def make(epsilon: float, number: int, bounds: Any, classes: Any) -> Any:
            given = {"feature_bounds": bounds, "classes": classes, "workers": workers, "random_state": number}
            return LDPClassifier(epsilon, DELTA, l2=L2, **given, **changes)

        return make

    def searched(epsilon: float, number: int, bounds: Any, classes: Any) -> Any:
        return LDPSearch(ours(10)(epsilon, number, bounds, classes), {"l2": GRID}, random_state=number)

    def larger(epsilon: float, number: int, bounds: Any, classes: Any) -> Any:
        return DummyClassifier(strategy="most_frequent")

    models = {
        "one answer for all": larger,
        "not private": plain,
        "fastldp, 1 worker": ours(1),
        "fastldp, 10 workers": ours(10),
    }
    models |= {"fastldp, 10 workers, LDPSearch": searched}
    if name in SMALL:
        models["fastldp, each row a worker"] = ours("rows")
    measure(name, models, splits)


def in_other_environment(name: str, splits: int) -> None:
    """What diffprivlib does, where it can be had."""
    python = HOME / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(HOME, with_pip=True)
        if subprocess.run([python, "-m", "pip", "install", "-q", *CENTRAL], check=False).returncode:
            shutil.rmtree(HOME)
            print("diffprivlib cannot be installed; its rows are left out")
            return
    subprocess.run([python, __file__, "--central", "--splits", str(splits), name], check=True)


WHO = {
    "one answer for all": "nothing",
    "not private": "nothing",
    "diffprivlib, logistic": "a row, from whoever sees the model; who trains it sees all rows",
    "diffprivlib, naive Bayes": "the same",
    "fastldp, 1 worker": "a row, from the server and whoever sees the model; the one worker sees all rows",
    "fastldp, 10 workers": "a row, from all but the worker that holds it",
    "fastldp, 10 workers, LDPSearch": "the same, and the choice of l2 is paid for",
    "fastldp, each row a worker": "a row, from everyone else",
}


def table(name: str, found: dict[str, Any]) -> list[str]:
    """A row for each model."""
    X, y, _ = loaded(name)
    title = f"{TITLES[name]}: {X.shape[0]:,} rows, {X.shape[1]} features, {np.unique(y).size} classes"
    lines = [f"| {title} | {' | '.join(f'ε = {epsilon:g}' for epsilon in EPSILONS)} | protects |"]
    lines.append("|---" * (len(EPSILONS) + 2) + "|")
    for kind in sorted(found, key=[*WHO].index):
        cells = [found[kind].get(f"{epsilon:g}", found[kind][f"{EPSILONS[0]:g}"]) for epsilon in EPSILONS]
        shown = " | ".join(f"{np.mean(values):.3f} ± {np.std(values):.3f}" for values in cells)
        lines.append(f"| {kind} | {shown} | {WHO[kind]} |")
    return [*lines, ""]


def costs() -> list[str]:
    """What a search costs."""
    import fastldp as fl

    whole = fl.Budget(1.0, DELTA, accounting="gdp")
    rho = float(whole.rho)
    lines = [
        "| candidates | ε of each, of 1 in all | all, each at ε = 1 | the best alone, each at ε = 1, random stopping |"
    ]
    lines.append("|---|---|---|---|")
    for count in (1, 2, 4, 10, 25, 100):
        all_of_them = fl.privacy.epsilon_of(count * rho, DELTA, "gdp")
        # The rows of a score are others than those trained on: a trial with its score is of ρ.
        best = f"{fl.privacy.epsilon_of_best(rho, DELTA, count):.2f}" if count > 1 else "1"
        lines.append(f"| {count} | {float(whole.split(count).epsilon):.3f} | {all_of_them:.2f} | {best} |")
    return lines


def main() -> None:
    """Everything that is asked for and not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--central", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("sets", nargs="*", default=[*TITLES])
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")  # of few rows for thresholds to learn from, and of ranges that features reach
    lines: list[str] = []
    for name in chosen.sets:
        if chosen.central:
            central(name, chosen.splits)
            continue
        local(name, chosen.splits)
        in_other_environment(name, chosen.splits)
        lines += table(name, kept(name))
    if chosen.central:
        return
    print("\n".join([*lines, *costs()]))
    if chosen.write:
        from readme import write

        page = ROOT / "docs" / "sklearn.md"
        write(page, "estimators", "\n".join(lines).rstrip())
        write(page, "costs", "\n".join(costs()))


if __name__ == "__main__":
    main()
