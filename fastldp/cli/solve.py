"""`fastldp solve`: one problem, its errors, the paper's bounds beside them, and the ledger."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastldp as fl
from fastldp import theory
from fastldp.cli import choosing, options
from fastldp.cli.writing import drawn, require_picture, require_writable, written
from fastldp.problem import HALF
from fastldp.sweeping.setting import FROM_OS

SUMMARY = "solve a problem privately, print errors, bounds and ledger"
EXAMPLES = """\
examples:
  fastldp solve                                   the paper's nonsmooth problem on generated data, planned
  fastldp solve --step theorem                    the paper's step and allocation
  fastldp solve --plot error.png --save run.npz   the same, with a picture and a file to load later
  fastldp solve --row-bound 3.75 --gradient-bound half   nothing read off the data, a quarter of the noise's variance
  fastldp solve --rounds 8000 --step 0.1 --allocation static --weight 0 --data ijcnn1
  fastldp solve --data mine.csv --label sick --workers 10 --row-bound 1 --gradient-bound half   your own data
  fastldp solve --data mine.svm --method ISRLDP --step 0.5 --set tail_average=100   and another method
  fastldp solve --accounting gdp --json           exact accounting, for a script
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    choosing.add_arguments(parser)
    options.add(parser, *options.BUDGET)
    parser.add_argument("--rounds", type=int, default=3000, help="T (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=20, help="independent runs (%(default)s)")
    seed = options.or_word(int, {FROM_OS: None}, "whole number")
    parser.add_argument(
        "--seed", type=seed, default=0, help="of the noise, or os: a key that nobody knows or can repeat (%(default)s)"
    )
    options.add(parser, "--jobs", "--plot")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything, for fastldp.load")
    parser.add_argument("--keep-seed", action="store_true", help="save it too: the file is then yours alone to read")
    options.add(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    require_picture("plot", arguments.plot)
    require_writable("save", arguments.save)
    budget, method = fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting), choosing.method_of(arguments)
    data = choosing.data_of(arguments)
    problem = choosing.problem_of(arguments, data)
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
    bounds = bounds_of(problem, budget, method, solution)
    if arguments.json:
        print(json.dumps(_as_json(solution, bounds)))
    else:
        print(f"\n{data.name}: {solution.summary()}\n\n{bounds_table(solution, bounds)}\n")
        _remarks(solution, method)
    kept = _written(arguments, solution, data.name)
    if not solution.status.ok:
        print(f"fastldp: {solution.status.message}", file=sys.stderr)
    ended = {fl.Outcome.COMPLETED: 0, fl.Outcome.DIVERGED: 1, fl.Outcome.INTERRUPTED: 130}[solution.status.outcome]
    return ended or (0 if kept else 1)


def _remarks(solution: fl.Solution, method: Any) -> None:
    if isinstance(method, fl.PrimalDual) and method.step == choosing.PLANNED:
        print("Planned for this budget, which is the default; --step theorem takes the paper's step and allocation.")
    if solution.ledger is not None and solution.ledger.bound_source == "data":
        print(
            f"B is read off the data; to deploy, give a public --row-bound, with --gradient-bound {HALF}: no "
            "gradient at 0 is longer than half of it, and the noise has a quarter of the variance."
        )


def _written(arguments: argparse.Namespace, solution: fl.Solution, name: str) -> bool:
    """Write what was asked for; whether all of it is where it was to be."""
    kept = []
    if arguments.plot:
        axes = solution.plot()
        axes.set_title(f"{name}, ({arguments.epsilon:g}, {arguments.delta:g})-LDP, T = {arguments.rounds:,}")
        kept.append(drawn(arguments.plot, axes, quiet=arguments.json))
    if arguments.save:
        save = partial(solution.save, keep_seed=arguments.keep_seed)
        kept.append(written("results", arguments.save, save, quiet=arguments.json))
    return all(kept)


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


def bounds_of(problem: fl.Problem, budget: fl.Budget, method: Any, run: fl.Solution) -> dict[str, Any]:
    """The paper's bounds at the recorded rounds, and under "none" why one is missing."""
    if not isinstance(method, fl.PrimalDual):
        return {"none": "the paper's bounds are of PrimalDual"}
    bounds: dict[str, Any] = {}
    rounds = int(run.rounds[-1])
    try:
        step = method.schedule(problem, budget, rounds).step
        if not isinstance(method.allocation, str):
            return {"none": "the paper's bounds are of its allocations, which have names"}
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


def bounds_table(run: fl.Solution, bounds: dict[str, Any]) -> str:
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
    left, initial = f"{lemma['contraction']:.6g}", f"{lemma['initial_error']:.4g}"
    rows = [
        ("Lemma 2", f"a round leaves {left} of Φ and adds noise; Φ¹ = {initial}"),
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
