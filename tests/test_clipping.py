"""Clipping that adapts: thresholds, counts and runs against the oracle, the ledger of the pair, and bad input."""

from typing import Any

import numpy as np
import pytest
from test_baselines import answers

import cases
import fastldp as fl
import naive
from fastldp.methods import Method

BUDGET = fl.Budget(1.0, 1e-4)
ROUNDS = 9
CLIP = fl.AdaptiveClip(quantile=0.6, start=0.4, every=2, share=0.2, rate=0.7)
METHODS: dict[str, Method] = {
    "primal_dual": fl.PrimalDual(0.2, clip=CLIP),
    "primal_dual_static": fl.PrimalDual(0.2, "static", clip=CLIP),
    "fedavg": fl.DPFedAvg(0.3, 3, clip=CLIP, server_step=0.6),
    "scaffold": fl.DPScaffold(0.3, 2, clip=CLIP, warm_start=True),
    "fedexp": fl.LDPFedEXP(0.3, 2, clip=CLIP),
    "scaffnew": fl.DPScaffNew(0.3, 0.4, clip=CLIP),
    "isrl": fl.ISRLDP(0.5, clip=CLIP),
    "isrl_tail": fl.ISRLDP(0.5, tail_average=3, clip=CLIP),
    "isrl_accelerated": fl.ISRLDP(0.5, accelerated=True, clip=CLIP),
}


def oracle_of(case: cases.Case, method: Method, run: fl.Solution, rounds: int) -> naive.Adaptive:
    """The oracle's clipping, with the noise that the ledger says counts have."""
    clip: Any = method.clip  # type: ignore[attr-defined]
    n, samples = case.problem.n, int(case.problem.sizes.sum())
    sigma = np.zeros(n) if run.ledger is None else np.sqrt(run.ledger.count_factors * run.ledger.count_variances[0])
    counted = list(range(clip.every, rounds, clip.every))
    return naive.Adaptive(clip.quantile, clip.start, clip.rate, counted, sigma, samples)


def expected_of(case: cases.Case, method: Any, run: fl.Solution, clip: naive.Adaptive, repetition: int) -> Any:
    """(rounds, d): the oracle's average model after every round."""
    n = case.problem.n
    if isinstance(method, fl.PrimalDual):
        deviations = (
            np.zeros((n, ROUNDS)) if run.ledger is None else np.sqrt(np.broadcast_to(run.ledger.variances, (n, ROUNDS)))
        )
        x0 = case.g.prox(np.zeros(case.problem.d), 0.0)
        given = case.shards, case.loss, case.l2, case.g, x0, method.step, deviations, 5, repetition
        return naive.primal_dual(*given, clip=clip).x[1:].mean(axis=1)  # type: ignore[arg-type]
    deviations = (
        np.zeros(n)
        if run.ledger is None
        else np.sqrt(np.broadcast_to(run.ledger.variances, (n, run.ledger.releases))[:, 0])
    )
    return answers(case, method, deviations, 5, repetition, ROUNDS, clip)


@cases.tiny_shards
@pytest.mark.parametrize("repetitions", [1, 3, 20])
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("sizes", [(12, 12, 12), (5, 14, 1, 9)])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_trajectories_are_the_oracles(name: str, sizes: tuple[int, ...], layout: str, repetitions: int) -> None:
    case, method = cases.make("zero", sizes=sizes, layout=layout), METHODS[name]
    given: dict[str, Any] = {"rounds": ROUNDS, "algorithm": method, "repetitions": repetitions, "seed": 5}
    given["common_noise"] = True  # as the oracle has it
    for budget in (BUDGET, None):
        run = fl.solve(case.problem, budget, record=fl.Every(1), **given)
        clip = oracle_of(case, method, run, ROUNDS)
        expected = expected_of(case, method, run, clip, repetitions - 1)
        np.testing.assert_allclose(run.means[-1], expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max())
        thresholds = [clip.threshold(t + 2) for t in range(ROUNDS)]
        np.testing.assert_allclose(run.thresholds[-1], thresholds, rtol=1e-12)
        assert len({*thresholds}) == 5  # it has moved after each count
