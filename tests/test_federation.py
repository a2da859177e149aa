"""Federations: the same bits as a simulation, what is refused, and what is spent."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cases
import fastldp as fl
from fastldp.federation import Server, Terms, Worker, common_key

Array = NDArray[np.float64]

SIZES = (30, 44, 21)
BUDGET = fl.Budget(np.array([1.0, 2.0, 1.5]), 1e-4)
SEED = 5
KEY = common_key(SEED)

METHODS: dict[str, tuple[str, fl.Method]] = {
    "primal_dual": ("box_l1", fl.PrimalDual()),
    "primal_dual_static": ("simplex", fl.PrimalDual(step=0.1, allocation="static")),
    "primal_dual_adaptive": ("box_l1", fl.PrimalDual("planned", "planned", clip=fl.AdaptiveClip(every=4, early=5))),
    "fedavg": ("zero", fl.DPFedAvg(0.1, 3)),
    "fedavg_adaptive": ("zero", fl.DPFedAvg("planned", 3, clip="adaptive")),
    "scaffold": ("zero", fl.DPScaffold(0.1, 3)),
    "scaffold_warm_adaptive": ("zero", fl.DPScaffold(0.1, 2, clip=fl.AdaptiveClip(every=3), warm_start=True)),
    "fedexp": ("zero", fl.LDPFedEXP(0.1, 3)),
    "isrl": ("l2_ball", fl.ISRLDP(0.3)),
    "isrl_accelerated": ("l1_ball", fl.ISRLDP(0.3, accelerated=True)),
    "isrl_tail": ("box", fl.ISRLDP(0.3, tail_average=4)),
    "scaffnew": ("box_l1", fl.DPScaffNew(0.3, 0.4)),
}


def problem_of(regularizer: str = "box_l1", **changes: Any) -> fl.Problem:
    given: dict[str, Any] = {"sizes": SIZES, "gradient_bound": 1.2} | changes
    return cases.make(regularizer, **given).problem


def shard(problem: fl.Problem, i: int) -> tuple[Any, Array]:
    """What worker i brings: rows, whose labels of ±1 the problem has folded in."""
    mine = slice(problem.starts[i], problem.starts[i + 1])
    if not problem.targets.any():
        return problem.rows[mine], -np.ones(int(problem.sizes[i]))
    return problem.rows[mine], problem.targets[mine]


def budget_of(terms: Terms, i: int) -> fl.Budget:
    epsilon = float(np.broadcast_to(terms.budget.epsilon, terms.n)[i])
    return fl.Budget(epsilon, terms.budget.delta, terms.budget.accounting)


@contextmanager
def workers_of(problem: fl.Problem, terms: Terms, folder: Path, key: bytes | None = KEY) -> Iterator[list[Worker]]:
    """All workers of a training, each with a folder of its own."""
    made = [
        Worker(*shard(problem, i), budget_of(terms, i), terms, worker=i, folder=folder / str(i), key=key)
        for i in range(terms.n)
    ]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def run(server: Server, workers: list[Worker], *, rounds: int | None = None) -> None:
    """A training, through bytes; or so many rounds of it."""
    while not server.over and rounds != 0:
        for i, ask in server.ask().items():
            server.tell(i, workers[i].answer(ask.to_bytes()).to_bytes())
        rounds = None if rounds is None else rounds - 1


def simulated(problem: fl.Problem, terms: Terms) -> fl.Solution:
    return fl.solve(problem, terms.budget, rounds=terms.horizon, algorithm=terms.method, seed=SEED, common_noise=True)


@pytest.mark.filterwarnings("ignore::fastldp.errors.ClippingWarning")  # of a dozen rounds
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("method", METHODS)
def test_a_federation_has_the_bits_of_a_simulation(method: str, layout: str, tmp_path: Path) -> None:
    regularizer, algorithm = METHODS[method]
    weighting = "rows" if layout == "csr" else "uniform"
    problem = problem_of(regularizer, layout=layout, weighting=weighting)
    terms = Terms.of(problem, BUDGET, 12, algorithm)
    server = Server(terms, coins=KEY)
    with workers_of(problem, terms, tmp_path) as workers:
        run(server, workers)
        spent = [one.spent_epsilon for one in workers]
    expected = simulated(problem, terms)
    assert expected.ledger is not None
    assert np.array_equal(server.x, expected.x[0])
    assert np.array_equal(server.models, expected.workers[0])
    # All was spent, and nothing more; the server counts the same.
    assert np.all(np.asarray(spent) <= BUDGET.epsilon)
    np.testing.assert_allclose(spent, BUDGET.epsilon, rtol=1e-9)
    np.testing.assert_allclose(server.spent_rho, expected.ledger.spent_rho, rtol=1e-12)
