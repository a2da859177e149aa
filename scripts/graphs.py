"""What runs on graphs of workers come to, beside what is expected of them: graphs.py [--write].

Prints, for five graphs, links that fail, and two sets of data (`FASTLDP_DATA` at the files of ijcnn1), the error of the
average and what models differ by, expected and measured, at the paper's step and as planned; draws both over the rounds
into scripts/figures/graphs.png; and says what planning for a server would come to. With --write the table is put into
docs/graphs.md. Three minutes.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import fastldp as fl
from fastldp.planning.consensus import consensus_weights
from fastldp.planning.mixing import gaps_of
from fastldp.planning.prediction import expected, log_weights
from readme import PICTURES, ROOT, write

Array = NDArray[np.float64]

BUDGET = fl.Budget(1.0, 1e-4)
WORKERS, ROUNDS, REPETITIONS = 20, 1000, 80
# The rows that the paper takes of ijcnn1 and a6a.
ROWS = 2000, 11_220
GRAPHS = ("complete", "random:4:0", "grid", "ring", "star")
FAILING = (("ring", 0.1), ("ring", 0.3), ("star", 0.3))
METHODS: dict[str, dict[str, Any]] = {
    "γ = 1/4, dynamic": {},
    "planned": {"step": "planned", "allocation": "planned"},
}


class Found(NamedTuple):
    """Of one graph; each expected and measured, and the spread of what was measured, a pair or (rounds,)."""

    error: tuple[Array, Array]
    consensus: tuple[Array, Array]


def problems() -> dict[str, fl.Problem]:
    data = {"ijcnn1": fl.datasets.load("ijcnn1"), "generated, as a6a": fl.datasets.synthetic("a6a", rows=ROWS[1])}
    return {
        name: fl.Problem(one.A[:rows], one.b[:rows], workers=WORKERS, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0))
        for (name, one), rows in zip(data.items(), ROWS, strict=True)
    }


def found(problem: fl.Problem, given: dict[str, Any], record: Any) -> Found:
    """What is expected by one who knows H and x*, of the step and the variances that were run."""
    method = fl.PrimalDual(**given)
    run = fl.solve(problem, BUDGET, rounds=ROUNDS, algorithm=method, repetitions=REPETITIONS, seed=0, record=record)
    assert run.ledger is not None
    step = method.schedule(problem, BUDGET, ROUNDS).step
    prior, n = problem.exact_prior(), problem.n
    modes, gaps = prior.modes(problem.facts_of_data()), gaps_of(method.topology, np.ones(n), method.failures)
    moves = step**2 / n * run.ledger.variances
    # By the age of the noise: what a shorter horizon forgets is what the last rounds of a longer one do.
    of_average = np.exp(log_weights(modes, step / n, ROUNDS))[::-1]
    of_apart = consensus_weights(modes, gaps, step, n, ROUNDS)[::-1]
    errors, apart = [], []
    for t in run.rounds.tolist():
        start = expected(modes, step / n, np.zeros(t))[0]
        errors.append((start + moves[:t][::-1] @ of_average[:t]) / prior.norm**2)
        apart.append(moves[:t][::-1] @ of_apart[:t])
    return Found((np.array(errors), run.distance), (np.array(apart), run.consensus))


def cell(pair: tuple[Array, Array]) -> str:
    """Expected and measured, with the standard error of its mean."""
    last = pair[1][:, -1]
    return f"{pair[0][-1]:.3f} | {last.mean():.3f} ± {last.std() / np.sqrt(last.size):.3f}"


def table() -> str:
    """Markdown."""
    heads = [f"{name}: {part}" for name in METHODS for part in ("error expected", "measured", "differing", "measured")]
    lines: list[str] = []
    for name, problem in problems().items():
        if lines:
            lines.append("")
        lines += [f"| {name} | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for topology, failures in [*((graph, None) for graph in GRAPHS), *FAILING]:
            said = topology if failures is None else f"{topology}, {100 * failures:.0f} % of links missing"
            graph = {"topology": topology, "failures": failures}
            rows = [found(problem, {**method, **graph}, fl.Final()) for method in METHODS.values()]
            lines.append(f"| {said} | {' | '.join(f'{cell(one.error)} | {cell(one.consensus)}' for one in rows)} |")
            print(lines[-1], flush=True)
    lines += ["", *served(problems()["ijcnn1"])]
    return "\n".join(lines)


def served(problem: fl.Problem) -> list[str]:
    """What planning for the sum gains."""
    facts = problem.facts_of_data()
    plan = fl.plan(facts, BUDGET, rounds=ROUNDS)
    common: dict[str, Any] = {"rounds": ROUNDS, "repetitions": REPETITIONS, "seed": 0, "record": fl.Final()}
    parts = []
    for topology in GRAPHS[1:]:
        whole, alone = (
            float(np.mean(fl.solve(problem, BUDGET, algorithm=method, **common).optimality))
            for method in (
                fl.PrimalDual("planned", "planned", topology=topology),
                fl.PrimalDual(allocation=plan, topology=topology),
            )
        )
        parts.append(f"{whole:.3f} against {alone:.3f} ({topology})")
        print(parts[-1], flush=True)
    return [
        "On ijcnn1, planned for the sum against planned as for a server, `optimality` as measured: "
        + ", ".join(parts)
        + "."
    ]


def draw(problem: fl.Problem) -> Figure:
    """Error and consensus over the rounds, at the paper's step and as planned."""
    figure = Figure(figsize=(10.0, 7.0), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for row, (name, method) in enumerate(METHODS.items()):
        for color, topology in enumerate(GRAPHS):
            one = found(problem, {**method, "topology": topology}, fl.Every(10))
            rounds = np.arange(1, ROUNDS // 10 + 1) * 10
            for ax, (hoped, measured) in zip(axes[row], one, strict=True):
                ax.plot(rounds, measured.mean(axis=0), color=f"C{color}", label=topology)
                ax.plot(rounds, hoped, color="black", linewidth=0.9, linestyle=":")
        for ax, what in zip(axes[row], ("‖x̄ − x*‖² / ‖x*‖²", "(1/n) Σ ‖x̄ − xᵢ‖²"), strict=True):
            ax.set_yscale("log")
            ax.set_title(f"{name}: {what}")
            ax.grid(True, which="major", alpha=0.3)
        axes[row, 0].set_ylabel(f"mean of {REPETITIONS} runs")
    for ax in axes[1]:
        ax.set_xlabel("round")
    axes[0, 0].plot([], [], color="black", linewidth=0.9, linestyle=":", label="expected")
    axes[0, 0].legend(frameon=False)
    figure.suptitle(f"ijcnn1, n = {WORKERS}, (1, 1e-4)-LDP, T = {ROUNDS:,}: the average, and what models differ by")
    return figure


def main() -> None:
    """The picture, and the table."""
    PICTURES.mkdir(exist_ok=True)
    draw(problems()["ijcnn1"]).savefig(PICTURES / "graphs.png", dpi=110)
    text = table()
    if "--write" in sys.argv[1:]:
        write(ROOT / "docs" / "graphs.md", "graphs", text)


if __name__ == "__main__":
    main()
