"""`fastldp solve`: one problem, its errors and what is promised; in detail the paper's bounds and the ledger too."""

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
from fastldp.cli import bounds, choosing, options, reporting
from fastldp.cli.writing import drawn, require_picture, require_writable, written
from fastldp.measures import ACCURACY
from fastldp.problems.linear import HALF
from fastldp.sweeping.setting import FROM_OS

# Where they are not planned.
ROUNDS = 3000
SUMMARY = "solve a problem privately, and say how near it came, what is promised, and what to try next"
EXAMPLES = """\
examples:
  fastldp solve                                   the paper's nonsmooth problem on generated data: nothing to tune
  fastldp solve --details                         with the whole ledger, the promise in full and the paper's bounds
  fastldp solve --step theorem                    the paper's step and allocation
  fastldp solve --plot error.png --save run.npz   the same, with a picture and a file to load later
  fastldp solve --row-bound 3.75 --gradient-bound half   nothing read off the data, a quarter of the noise's variance
  fastldp solve --rounds 8000 --step 0.1 --allocation static --weight 0 --data ijcnn1
  fastldp solve --data mine.csv --label sick --workers 10 --row-bound 1 --gradient-bound half   your own data
  fastldp solve --data mine.csv --test 0.2        and how many of the rows it has not seen it gets right
  fastldp solve --data mine.svm --method ISRLDP --step 0.5 --set tail_average=100   and another method
  fastldp solve --accounting gdp --json           exact accounting, for a script
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    choosing.add_arguments(parser)
    parser.add_argument(
        "--test",
        type=_share_or_file,
        metavar="SHARE|FILE",
        help="measure the accuracy too: on a share of the rows that is held out, as 0.2, or on those of a file",
    )
    options.add(parser, *options.BUDGET)
    parser.add_argument(
        "--rounds",
        type=options.or_word(int, {choosing.PLANNED: choosing.PLANNED}, "whole number"),
        help=f"T, or planned: the fewest that suffice (planned with a planned step, else {ROUNDS})",
    )
    parser.add_argument("--repetitions", type=int, default=20, help="independent runs (%(default)s)")
    seed = options.or_word(int, {FROM_OS: None}, "whole number")
    parser.add_argument(
        "--seed", type=seed, default=0, help="of the noise, or os: a key that nobody knows or can repeat (%(default)s)"
    )
    options.add(parser, "--jobs", "--plot")
    options.add(parser, "--report")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write everything, for fastldp.load")
    parser.add_argument("--keep-seed", action="store_true", help="save it too: the file is then yours alone to read")
    options.add(parser, "--details", "--json")


def run(arguments: argparse.Namespace) -> int:
    require_picture("plot", arguments.plot)
    require_writable("save", arguments.save)
    require_writable("report", arguments.report)
    budget, method = fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting), choosing.method_of(arguments)
    data, test = choosing.tested(choosing.data_of(arguments), arguments)
    problem = choosing.problem_of(arguments, data, test)
    solution = fl.solve(
        problem,
        budget,
        rounds=_rounds(arguments.rounds, method),
        algorithm=method,
        repetitions=arguments.repetitions,
        seed=arguments.seed,
        n_jobs=arguments.jobs,
        progress=not arguments.json,
        throw=False,
    )
    if arguments.json:
        print(json.dumps(_as_json(solution, bounds.bounds_of(problem, budget, method, solution))))
    elif arguments.details:
        theory = bounds.table(solution, bounds.bounds_of(problem, budget, method, solution))
        print(f"\n{data.name}: {solution.summary()}\n\n{theory}\n")
        _remarks(solution, method)
    else:
        print(f"{reporting.report(solution, problem, method, data.name)}\n")
    kept = _written(arguments, solution, problem, data.name)
    if solution.status.ok and not (arguments.json or arguments.details):
        between = "\n" if arguments.plot or arguments.save or arguments.report else ""
        print(f"{between}{reporting.following(arguments.words)}")
    if not solution.status.ok:
        print(f"fastldp: {solution.status.message}", file=sys.stderr)
    ended = {fl.Outcome.COMPLETED: 0, fl.Outcome.DIVERGED: 1, fl.Outcome.INTERRUPTED: 130}[solution.status.outcome]
    return ended or (0 if kept else 1)


def _rounds(given: int | str | None, method: Any) -> int | str:
    if given is not None:
        return given
    return choosing.PLANNED if getattr(method, "step", None) == choosing.PLANNED else ROUNDS


def _share_or_file(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _remarks(solution: fl.Solution, method: Any) -> None:
    if isinstance(method, fl.PrimalDual) and method.step == choosing.PLANNED:
        print("Planned for this budget, which is the default; --step theorem takes the paper's step and allocation.")
    if solution.ledger is not None and solution.ledger.bound_source == "data":
        print(
            f"B is read off the data; to deploy, give a public --row-bound, with --gradient-bound {HALF}: no "
            "gradient at 0 is longer than half of it, and the noise has a quarter of the variance."
        )


def _written(arguments: argparse.Namespace, solution: fl.Solution, problem: fl.Problem, name: str) -> bool:
    """Write what was asked for; whether all of it is where it was to be."""
    kept = []
    if arguments.plot:
        kept.append(drawn(arguments.plot, reporting.picture(solution, problem, name), quiet=arguments.json))
    if arguments.report:
        kept.append(written("report", arguments.report, solution.report, quiet=arguments.json))
    if arguments.save:
        save = partial(solution.save, keep_seed=arguments.keep_seed)
        kept.append(written("results", arguments.save, save, quiet=arguments.json))
    return all(kept)


def _as_json(run: fl.Solution, found: dict[str, Any]) -> dict[str, Any]:
    ledger = run.ledger
    assert ledger is not None  # the command always has a budget
    lemma = found.get("lemma_2")
    return {
        "rounds": run.rounds.tolist(),
        "optimality_mean": _numbers(run.optimality.mean(axis=0)),
        "optimality_std": _numbers(run.optimality.std(axis=0)),
        **_accuracy(run),
        **_found(run),
        "optimality_bound": lemma and [lemma["optimality_scale"] * error for error in lemma["error_bound"]],
        "theory": found,
        "seconds": run.seconds,
        "status": run.status.outcome.value,
        "ledger": {
            "accounting": ledger.accounting,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "rho": ledger.rho,
            "spent_epsilon": float(np.max(ledger.spent_epsilon)),
            "spent_rho": float(np.max(ledger.spent_rho)),
            # In units of the threshold, where that is found.
            "gradient_bound": None if ledger.clipping else ledger.bound,
            "bound_source": ledger.bound_source,
            "allocation": ledger.allocation,
            "plan": ledger.plan,
            "noise": ledger.noise,
            "statement": ledger.statement(len(run.workers)),
        },
    }


def _found(run: fl.Solution) -> dict[str, Any]:
    """What clipping that adapts came to, of each repetition."""
    if run.thresholds is None or run.steps is None or run.expected is None:
        return {}
    last = {"threshold": run.thresholds[:, -1], "step": run.steps, "expected": run.expected}
    return {name: _numbers(values) for name, values in last.items()}


def _accuracy(run: fl.Solution) -> dict[str, Any]:
    """Where it was measured."""
    if ACCURACY not in run.measures:
        return {}
    found = run.accuracy
    return {"accuracy_mean": _numbers(found.mean(axis=0)), "accuracy_std": _numbers(found.std(axis=0))}


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """JSON has no NaN: null is what was not reached."""
    return [value if np.isfinite(value) else None for value in values.tolist()]
