"""Would it pay to buy a better prior with a share of the budget? scripts/estimates.py [SHARE] tells.

Prints, for the paper's two sets, the error of plans made by the public prior, and by priors with numbers that a share
of the budget would buy at best: exact, as if they came without noise, but paid for. Both what one who knows all
expects, and the mean of 20 runs. Where even those do not beat the public prior, no private estimate does. Needs the
paper's data (FASTLDP_DATA, or a download).
"""

import sys

import numpy as np

import fastldp as fl

BUDGET = fl.Budget(1.0, 1e-4)


def main() -> None:
    """Both sets."""
    share = float(sys.argv[1]) if len(sys.argv) > 1 else 0.05
    heads = ("ijcnn1, expected", "measured", "a6a, expected", "measured")
    print(f"| {share:.0%} of ρ spent on | {' | '.join(heads)} |\n|---|---|---|---|---|")
    ijcnn1, a6a = fl.datasets.load("ijcnn1", rows=2000), fl.datasets.load("a6a")
    columns = [
        errors(fl.Problem(ijcnn1.A, ijcnn1.b, workers=20, l2=0.1), share),
        errors(fl.Problem(a6a.A, a6a.b, workers=20, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0)), share),
    ]
    for name in columns[0]:
        print(f"| {name} | " + " | ".join(f"{error:.3f}" for column in columns for error in column[name]) + " |")


def errors(problem: fl.Problem, share: float) -> dict[str, tuple[float, float]]:
    """By what is bought."""
    facts, exact = problem.facts_of_data(), problem.exact_prior()
    moment = float(np.mean(problem.row_norms**2))
    even = facts.l2 + facts.curvature * moment / facts.dimension
    bent = float(np.mean(exact.spectrum))
    priors = {
        "nothing, the public prior": (fl.Prior(), 0.0),
        "the mean of ‖a‖²": (fl.Prior(1.0, even), share),
        "the trace of H": (fl.Prior(1.0, bent), share),
        "‖x*‖": (fl.Prior(exact.norm), share),
        "‖x*‖ and the mean of ‖a‖²": (fl.Prior(exact.norm, even), share),
        "‖x*‖ and the spectrum of H": (fl.Prior(exact.norm, exact.spectrum), share),
        "all of it, for nothing": (exact, 0.0),
    }
    return {
        name: (judged(facts, exact, prior, spent), measured(problem, prior, spent))
        for name, (prior, spent) in priors.items()
    }


def measured(problem: fl.Problem, prior: fl.Prior, spent: float) -> float:
    """The mean error of runs with what is left of the budget."""
    left = fl.Budget(fl.privacy.epsilon_of((1 - spent) * float(BUDGET.rho), BUDGET.delta, "zcdp"), BUDGET.delta)
    method = fl.PrimalDual("planned", "planned", prior)
    run = fl.solve(problem, left, rounds=2000, algorithm=method, repetitions=20, seed=0, record=fl.Final())
    return float(run.optimality.mean())


def judged(facts: fl.Facts, exact: fl.Prior, prior: fl.Prior, spent: float) -> float:
    """What one who knows all expects of the τ that a prior chooses, with what is left of the budget."""
    # Noise variance is in proportion to B²/ρ.
    left = fl.Facts(
        facts.sizes, facts.dimension, facts.bound / np.sqrt(1 - spent), facts.l2, facts.curvature, facts.radius
    )
    curve = fl.plan(left, BUDGET, prior=exact).curve
    return float(np.interp(fl.plan(left, BUDGET, prior=prior).tau, curve.taus, curve.error)) / exact.norm**2


if __name__ == "__main__":
    main()
