"""DP-SCAFFOLD against DP-FedAvg in the protocol of Noble et al. (2022): heterogeneous.py [--write].

Each round has a fifth of the workers, each local step a fifth of their samples. Data are made heterogeneous by their
recipe, Synthetic(α, β) of Li et al. (2020), with two classes: worker i draws its features about a centre of its own,
of variance β, and its labels by a separator of its own, whose mean has variance α. Every method takes the step that was
best of a grid on seeds of its own, and is judged on others. With --write the table is put into docs/amplification.md.
"""

import sys
from typing import Any

import numpy as np

import fastldp as fl
from readme import ROOT, write

WORKERS, SAMPLES, FEATURES = 50, 500, 20
SAMPLING = fl.Sampling(samples=0.2, workers=0.2)
LOCAL_STEPS, ROUNDS, CLIP = 10, 150, 1.0
STEPS = (0.03, 0.1, 0.3, 1.0)
TRIED, JUDGED = 5, 20
HETEROGENEITY = (0.0, 1.0, 5.0)
EPSILONS = (3.0, 10.0, None)
DELTA = 1e-4


def made(heterogeneity: float) -> fl.Problem:
    """Synthetic(α, α), the same for all methods."""
    generator = np.random.default_rng(2023)
    deviations = np.sqrt(np.arange(1, FEATURES + 1) ** -1.2)
    common = generator.normal(size=FEATURES)
    rows, labels = [], []
    for _ in range(WORKERS):
        centre = generator.normal(generator.normal(0, np.sqrt(heterogeneity)), 1, FEATURES) * (heterogeneity > 0)
        mean = generator.normal(0, np.sqrt(heterogeneity))
        separator = generator.normal(mean, 1, FEATURES) if heterogeneity > 0 else common
        features = generator.normal(centre, deviations, (SAMPLES, FEATURES))
        rows.append(features)
        labels.append(np.where(features @ separator + (mean if heterogeneity > 0 else 0.0) > 0, 1.0, -1.0))
    owners = np.repeat(np.arange(WORKERS), SAMPLES)
    return fl.Problem(np.vstack(rows), np.concatenate(labels), workers=owners, l2=0.01, row_bound=1.0)


def errors(problem: fl.Problem, method: Any, epsilon: float | None, seed: int, repetitions: int) -> Any:
    """The final suboptimality of repetitions, beside that of x = 0."""
    budget = None if epsilon is None else fl.Budget(epsilon, DELTA, accounting="pld")
    run = fl.solve(
        problem, budget, rounds=ROUNDS, algorithm=method, repetitions=repetitions, seed=seed, record=fl.Final()
    )
    least = problem.objective(problem.optimum())
    return (run.objective[:, -1] - least) / (problem.objective(np.zeros(problem.d)) - least)


def best(problem: fl.Problem, kind: Any, epsilon: float | None, **rest: Any) -> Any:
    """The method at the step with the least mean error on seeds of its own."""
    methods = [kind(step, LOCAL_STEPS, clip=CLIP, sampling=SAMPLING, **rest) for step in STEPS]
    means = [float(np.mean(errors(problem, method, epsilon, 1, TRIED))) for method in methods]
    return methods[int(np.argmin(means))]


def main() -> None:
    """A row for each heterogeneity and ε."""
    lines = [
        "| α = β | ε | DP-FedAvg, step | DP-SCAFFOLD, step | difference ± two standard errors | SCAFFOLD wins |",
        "|---|---|---|---|---|---|",
    ]
    for heterogeneity in HETEROGENEITY:
        problem = made(heterogeneity)
        for epsilon in EPSILONS:
            kinds = fl.DPFedAvg, fl.DPScaffold
            methods = [best(problem, kind, epsilon) for kind in kinds]
            found = [errors(problem, method, epsilon, 3, JUDGED) for method in methods]
            apart = found[0] - found[1]
            mean, off = float(apart.mean()), 2 * float(apart.std(ddof=1)) / np.sqrt(JUDGED)
            verdict = "yes" if mean > off else "no" if mean < -off else "undecided"
            told = " | ".join(f"{one.mean():.3g}, {method.step:g}" for one, method in zip(found, methods, strict=True))
            lines.append(
                f"| {heterogeneity:g} | {'∞' if epsilon is None else f'{epsilon:g}'} | {told} | "
                f"{mean:+.2g} ± {off:.1g} | {verdict} |"
            )
            print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        write(ROOT / "docs" / "amplification.md", "heterogeneous", "\n".join(lines))


if __name__ == "__main__":
    main()
