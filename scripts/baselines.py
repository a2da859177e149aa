"""The four methods on the first experiment's problem, each tuned once: python scripts/baselines.py (some minutes).

Prints a table of the errors over the horizons, as they come out. With the environment variable FASTLDP_DATA at a folder
that holds LIBSVM's ijcnn1.bz2 it uses the first 2,000 rows of that; otherwise a generated stand-in.
"""

import os
import time
import warnings
from typing import Any

import numpy as np

import fastldp as fl

HORIZONS = tuple(range(1000, 8001, 1000))
TUNED_AT = 2000
BUDGET = fl.Budget(epsilon=1.0, delta=1e-4)
STEPS = np.geomspace(1e-3, 1.0, 10).tolist()
CLIPS = [0.1, 0.25, 0.5, None]
GRIDS: dict[str, list[Any]] = {
    "PrimalDual": fl.grid(fl.PrimalDual, step=np.geomspace(0.0025, 0.25, 10).tolist()),
    "DPFedAvg": fl.grid(fl.DPFedAvg, step=STEPS, local_steps=[1, 2, 5, 10], clip=CLIPS),
    "DPScaffold": fl.grid(fl.DPScaffold, step=STEPS, local_steps=[1, 2, 5, 10], clip=CLIPS),
    "ISRLDP": fl.grid(fl.ISRLDP, step=STEPS, clip=CLIPS, tail_average=[0, 500])
    + fl.grid(fl.ISRLDP, step=STEPS, clip=CLIPS, accelerated=True),
}


def ijcnn1() -> tuple[Any, Any, str]:
    """2,000 rows of ijcnn1: 22 features, labels −1 and +1."""
    if os.environ.get("FASTLDP_DATA"):
        data = fl.datasets.load("ijcnn1", rows=2000)
    else:
        data = fl.datasets.synthetic("ijcnn1")
    return data.A.toarray(), data.b, data.name


def main() -> None:
    """n = 20, m = 100, l2 = 0.1, (1, 1e-4)."""
    A, b, name = ijcnn1()
    problem = fl.Problem(A, b, workers=20, l2=0.1)
    print(f"{name}: {problem}\n\n| final error, mean ± std of 20 runs | " + " | ".join(f"T = {T:,}" for T in HORIZONS))
    print("|---|" + "---|" * len(HORIZONS))
    notes = []
    for method, settings in GRIDS.items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fl.errors.GridEdgeWarning)  # said below the table
            tuned = fl.tune(problem, BUDGET, settings, rounds=TUNED_AT, repetitions=4, seed=0)
        seconds = time.perf_counter() - began
        chosen = {f"{method}, tuned": tuned.algorithm}
        if method == "PrimalDual":
            chosen |= {"PrimalDual, the paper's step": fl.PrimalDual()}
        for label, algorithm in chosen.items():
            cells = []
            for T in HORIZONS:
                run = fl.solve(
                    problem, BUDGET, rounds=T, algorithm=algorithm, repetitions=20, seed=1, record=fl.Final()
                )
                errors = run.optimality[:, -1]
                cells.append(f"{errors.mean():.3g} ± {errors.std():.2g}")
            print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
        edges = "".join(f"; on the edge: {edge}" for edge in tuned.edges)
        notes.append(f"{method}: {tuned.algorithm} of {len(settings)} settings × 4 in {seconds:.1f} s{edges}")
    print("\n" + "\n".join(notes))


if __name__ == "__main__":
    main()
