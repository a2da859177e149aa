"""`fastldp solve`: one problem, its errors, the paper's bounds beside them, and the ledger."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastldp as fl
from fastldp import figures, theory
from fastldp.algorithms import ALLOCATIONS
from fastldp.datasets import PAPER_ROWS
from fastldp.privacy import METHODS
from fastldp.problem import HALF
from fastldp.sweeping.setting import FROM_OS
from fastldp.weighting import UNIFORM, WEIGHTINGS

PLANNED, THEOREM = "planned", "theorem"

SUMMARY = "solve a problem privately, print errors, bounds and ledger"
EXAMPLES = """\
examples:
  fastldp solve                                   the paper's nonsmooth problem on generated data, planned
  fastldp solve --step theorem                    the paper's step and allocation
  fastldp solve --plot error.png --save run.npz   the same, with a picture and a file to load later
  fastldp solve --row-bound 3.75 --gradient-bound half   nothing read off the data, a quarter of the noise's variance
  fastldp solve --rounds 8000 --step 0.1 --allocation static --weight 0 --data ijcnn1
  fastldp solve --accounting gdp --json           exact accounting, for a script
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", choices=sorted(PAPER_ROWS), default="a6a", help="generated data (%(default)s)")
    parser.add_argument("--workers", type=int, default=20, help="n (%(default)s)")
    parser.add_argument("--l2", type=float, default=0.1, help="weight of ½‖x‖² (%(default)s)")
    parser.add_argument("--weight", type=float, default=0.01, help="weight of the ℓ1 norm (%(default)s)")
    parser.add_argument("--bound", type=float, default=10.0, help="half-width of the box (%(default)s)")
    parser.add_argument("--row-bound", type=float, metavar="R", help="public; longer rows are scaled down to it (none)")
    parser.add_argument(
        "--gradient-bound",
        type=_gradient_bound,
        metavar="B",
        help="public; gradients are clipped to it: a number, or half, which is R/2 (R, or read off the data)",
    )
    parser.add_argument(
        "--weighting", choices=WEIGHTINGS, default=UNIFORM, help="of the workers in the objective (%(default)s)"
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="ε (%(default)s)")
    parser.add_argument("--delta", type=float, default=1e-4, help="δ (%(default)s)")
    parser.add_argument("--accounting", choices=METHODS, default="zcdp", help="paper's or exact (%(default)s)")
    parser.add_argument("--allocation", choices=ALLOCATIONS, help="(planned with a planned step, else dynamic)")
    parser.add_argument(
        "--step",
        type=_step,
        default=PLANNED,
        metavar="γ",
        help="a number, planned (the least error to expect of the budget) or theorem (the paper's limit) (%(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=3000, help="T (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=20, help="independent runs (%(default)s)")
    parser.add_argument(
        "--seed", type=_seed, default=0, help="of the noise, or os: a key that nobody knows or can repeat (%(default)s)"
    )
    parser.add_argument("--jobs", type=int, help="cores to use (all)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture: .png, .pdf or .svg")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything, for fastldp.load")
    parser.add_argument("--keep-seed", action="store_true", help="save it too: the file is then yours alone to read")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def _seed(text: str) -> int | None:
    """A number, or a word."""
    try:
        return None if text == FROM_OS else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, nor {FROM_OS}") from None


def _step(text: str) -> float | str:
    """A number, or a word."""
    try:
        return text if text in (PLANNED, THEOREM) else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, nor {PLANNED} or {THEOREM}") from None


def _gradient_bound(text: str) -> float | str:
    """A number, or a word."""
    try:
        return text if text == HALF else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, nor {HALF}") from None


def _method(arguments: argparse.Namespace) -> fl.PrimalDual:
    allocation = arguments.allocation or (PLANNED if arguments.step == PLANNED else "dynamic")
    return fl.PrimalDual(None if arguments.step == THEOREM else arguments.step, allocation)


def run(arguments: argparse.Namespace) -> int:
    if arguments.plot:
        figures.require_format(arguments.plot)
    data = fl.datasets.synthetic(arguments.data)
    problem = fl.Problem(
        data.A,
        data.b,
        workers=arguments.workers,
        l2=arguments.l2,
        regularizer=fl.BoxL1(arguments.weight, arguments.bound),
        row_bound=arguments.row_bound,
        gradient_bound=arguments.gradient_bound,
        weighting=arguments.weighting,
    )
    budget, method = fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting), _method(arguments)
    solution = fl.solve(
        problem,
        budget,
        rounds=arguments.rounds,
        algorithm=method,
        repetitions=arguments.repetitions,
        seed=arguments.seed,
        n_jobs=arguments.jobs,
        progress=not arguments.json,
        throw=False,
    )
    written = []
    if arguments.plot:
        arguments.plot.parent.mkdir(parents=True, exist_ok=True)
        axes = solution.plot()
        axes.set_title(f"{data.name}, ({arguments.epsilon:g}, {arguments.delta:g})-LDP, T = {arguments.rounds:,}")
        figures.save(axes, arguments.plot)
        written.append(f"picture  {arguments.plot}")
    if arguments.save:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        solution.save(arguments.save, keep_seed=arguments.keep_seed)
        written.append(f"results  {arguments.save}")
    bounds = _bounds(problem, budget, method, solution)
    if arguments.json:
        print(json.dumps(_as_json(solution, bounds)))
    else:
        print(f"\n{data.name}: {solution.summary()}\n\n{_bounds_table(solution, bounds)}\n")
        if method.step == PLANNED:
            print(
                "Planned for this budget, which is the default; --step theorem takes the paper's step and allocation."
            )
        if solution.ledger is not None and solution.ledger.bound_source == "data":
            print(
                f"B is read off the data; to deploy, give a public --row-bound, with --gradient-bound {HALF}: no "
                "gradient at 0 is longer than half of it, and the noise has a quarter of the variance."
            )
        print("\n".join(written))
    if not solution.status.ok:
        print(f"fastldp: {solution.status.message}", file=sys.stderr)
    return {fl.Outcome.COMPLETED: 0, fl.Outcome.DIVERGED: 1, fl.Outcome.INTERRUPTED: 130}[solution.status.outcome]


def _bounds(problem: fl.Problem, budget: fl.Budget, method: fl.PrimalDual, run: fl.Solution) -> dict[str, Any]:
    """The paper's bounds at the recorded rounds, and under "none" why one is missing."""
    bounds: dict[str, Any] = {}
    rounds = int(run.rounds[-1])
    try:
        step = method.schedule(problem, budget, rounds).step
        assert isinstance(method.allocation, str)  # the command has names alone
        errors = theory.error_bounds(problem, budget, rounds, allocation=method.allocation, step=step)
        bounds["lemma_2"] = {
            "contraction": theory.contraction(problem, step),
            "initial_error": theory.initial_error(problem, step=step),
            "error_bound": errors[run.rounds - 1].tolist(),
            "optimality_scale": theory.optimality_scale(problem),
        }
        if method.allocation == "dynamic":
            bounds["theorem_1"] = {
                "error_bound": theory.error_bound(problem, budget, rounds, step=step),
                "noise_floor": theory.noise_floor(problem, budget),
                "min_rounds": theory.min_rounds(problem, budget, step=step),
            }
    except fl.FastLDPError as error:
        bounds["none"] = str(error)
    return bounds


def _bounds_table(run: fl.Solution, bounds: dict[str, Any]) -> str:
    """What was measured beside what the paper promises of it."""
    lemma, theorem = bounds.get("lemma_2"), bounds.get("theorem_1")
    if lemma is None:
        return f"theory\n  {'no bound':<15} {bounds['none']}"
    scale, records = lemma["optimality_scale"], run.rounds.size
    lines = ["theory", f"  {'round':>9}  {'optimality':>11}  {'≤ Lemma 2':>11}  {'ratio':>9}"]
    for k in np.unique(np.linspace(0, records - 1, min(records, 8)).round().astype(int)):
        # Of the repetitions that came this far.
        measured = run.optimality[~np.isnan(run.consensus[:, k]), k]
        if measured.size:
            mean, bound = measured.mean(), scale * lemma["error_bound"][k]
            lines.append(f"  {run.rounds[k]:>9,}  {mean:>11.4g}  {bound:>11.4g}  {bound / mean:>9.3g}")
    rows = [
        (
            "Lemma 2",
            f"a round leaves {lemma['contraction']:.6g} of Φ and adds noise; Φ¹ = {lemma['initial_error']:.4g}",
        ),
        ("scale", f"mean optimality ≤ max{{1, 1/‖x*‖²}}/n · E Φ = {scale:.4g} E Φ"),
    ]
    if theorem:
        bound, floor = scale * theorem["error_bound"], scale * theorem["noise_floor"]
        rows.append(("Theorem 1", f"optimality ≤ {bound:.4g} after the last round, {floor:.4g} of it for the noise"))
        fewer = "; this run has fewer" if run.rounds[-1] < theorem["min_rounds"] else ""
        rows.append(("Table 1", f"allows all T ≥ {theorem['min_rounds']:,}{fewer}"))
    if "none" in bounds:
        rows.append(("no Theorem 1", bounds["none"]))
    return "\n".join([*lines, "", *(f"  {name:<15} {text}" for name, text in rows)])


def _as_json(run: fl.Solution, bounds: dict[str, Any]) -> dict[str, Any]:
    ledger = run.ledger
    assert ledger is not None  # the command always has a budget
    lemma = bounds.get("lemma_2")
    return {
        "rounds": run.rounds.tolist(),
        "optimality_mean": _numbers(run.optimality.mean(axis=0)),
        "optimality_std": _numbers(run.optimality.std(axis=0)),
        "optimality_bound": lemma and [lemma["optimality_scale"] * error for error in lemma["error_bound"]],
        "theory": bounds,
        "seconds": run.seconds,
        "status": run.status.outcome.value,
        "ledger": {
            "accounting": ledger.accounting,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "rho": ledger.rho,
            "spent_epsilon": float(np.max(ledger.spent_epsilon)),
            "spent_rho": float(np.max(ledger.spent_rho)),
            "gradient_bound": ledger.bound,
            "bound_source": ledger.bound_source,
            "allocation": ledger.allocation,
            "plan": ledger.plan,
            "noise": ledger.noise,
            "statement": ledger.statement(len(run.workers)),
        },
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """JSON has no NaN: null is what was not reached."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
