"""The command line: `fastldp solve` and `fastldp info`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastldp as fl
from fastldp import engine, figures
from fastldp.algorithms import ALLOCATIONS
from fastldp.block import LANES
from fastldp.datasets import PAPER_ROWS
from fastldp.kernels.jit import cache_folder
from fastldp.privacy import METHODS

SOLVE_EXAMPLES = """\
examples:
  fastldp solve                                   the paper's nonsmooth problem on generated data
  fastldp solve --plot error.png --save run.npz   the same, with a picture and a file to load later
  fastldp solve --rounds 8000 --allocation static --weight 0 --data ijcnn1
  fastldp solve --accounting gdp --json           exact accounting, for a script
"""
INFO_EXAMPLES = """\
example:
  fastldp info --json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it worked, 1 when it failed, 2 for a wrong call, 130 after Ctrl-C."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (fl.FastLDPError, OSError) as error:
        print(f"fastldp: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, fl.errors.ArgumentError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fastldp", description=fl.__doc__)
    parser.add_argument("--version", action="version", version=f"fastldp {fl.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    solve = _command(commands, "solve", "solve a problem privately, print the errors and the ledger", SOLVE_EXAMPLES)
    solve.set_defaults(run=_solve)
    solve.add_argument("--data", choices=sorted(PAPER_ROWS), default="a6a", help="generated data (%(default)s)")
    solve.add_argument("--workers", type=int, default=20, help="n (%(default)s)")
    solve.add_argument("--l2", type=float, default=0.1, help="weight of ½‖x‖² (%(default)s)")
    solve.add_argument("--weight", type=float, default=0.01, help="weight of the ℓ1 norm (%(default)s)")
    solve.add_argument("--bound", type=float, default=10.0, help="half-width of the box (%(default)s)")
    solve.add_argument("--epsilon", type=float, default=1.0, help="ε (%(default)s)")
    solve.add_argument("--delta", type=float, default=1e-4, help="δ (%(default)s)")
    solve.add_argument("--accounting", choices=METHODS, default="zcdp", help="paper's or exact (%(default)s)")
    solve.add_argument("--allocation", choices=ALLOCATIONS, default="dynamic", help="(%(default)s)")
    solve.add_argument("--step", type=float, help="γ (the theorem's limit)")
    solve.add_argument("--rounds", type=int, default=3000, help="T (%(default)s)")
    solve.add_argument("--repetitions", type=int, default=20, help="independent runs (%(default)s)")
    solve.add_argument("--seed", type=int, default=0, help="of the noise (%(default)s)")
    solve.add_argument("--jobs", type=int, help="cores to use (all)")
    solve.add_argument("--plot", type=Path, metavar="FILE", help="write a picture: .png, .pdf or .svg")
    solve.add_argument("--save", type=Path, metavar="FILE", help="write everything, for fastldp.load")
    solve.add_argument("--json", action="store_true", help="print JSON instead of the table")

    info = _command(commands, "info", "versions, cores, threading and where compiled kernels are kept", INFO_EXAMPLES)
    info.set_defaults(run=_info)
    info.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser


def _command(commands: Any, name: str, summary: str, examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _solve(arguments: argparse.Namespace) -> int:
    if arguments.plot:
        figures.require_format(arguments.plot)
    data = fl.datasets.synthetic(arguments.data)
    problem = fl.Problem(
        data.A,
        data.b,
        workers=arguments.workers,
        l2=arguments.l2,
        regularizer=fl.BoxL1(arguments.weight, arguments.bound),
    )
    budget = fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting)
    run = fl.solve(
        problem,
        budget,
        rounds=arguments.rounds,
        algorithm=fl.PrimalDual(step=arguments.step, allocation=arguments.allocation),
        repetitions=arguments.repetitions,
        seed=arguments.seed,
        n_jobs=arguments.jobs,
        progress=not arguments.json,
        throw=False,
    )
    written = []
    if arguments.plot:
        arguments.plot.parent.mkdir(parents=True, exist_ok=True)
        axes = run.plot()
        axes.set_title(f"{data.name}, ({arguments.epsilon:g}, {arguments.delta:g})-LDP, T = {arguments.rounds:,}")
        figures.save(axes, arguments.plot)
        written.append(f"picture  {arguments.plot}")
    if arguments.save:
        arguments.save.parent.mkdir(parents=True, exist_ok=True)
        run.save(arguments.save)
        written.append(f"results  {arguments.save}")
    if arguments.json:
        print(json.dumps(_as_json(run)))
    else:
        print(f"\n{data.name}: {run.summary()}\n")
        print("\n".join(written))
    if not run.status.ok:
        print(f"fastldp: {run.status.message}", file=sys.stderr)
    return {fl.Outcome.COMPLETED: 0, fl.Outcome.DIVERGED: 1, fl.Outcome.INTERRUPTED: 130}[run.status.outcome]


def _as_json(run: fl.Solution) -> dict[str, Any]:
    ledger = run.ledger
    assert ledger is not None  # the command always has a budget
    return {
        "rounds": run.rounds.tolist(),
        "optimality_mean": run.optimality.mean(axis=0).tolist(),
        "optimality_std": run.optimality.std(axis=0).tolist(),
        "seconds": run.seconds,
        "seed": run.seed,
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
        },
    }


def _info(arguments: argparse.Namespace) -> int:
    import joblib
    import numba
    import scipy

    facts = {
        "fastldp": fl.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "joblib": joblib.__version__,
        "machine": f"{platform.machine()}, {platform.system()}",
        "cores": engine.available_cores(),
        "threading": engine.threading_layer(),
        "lanes": ", ".join(f"{lanes} × {dtype}" for dtype, lanes in LANES.items()),
        "kernel cache": str(cache_folder() or "none: no writable folder"),
    }
    if arguments.json:
        print(json.dumps(facts))
    else:
        print("\n".join(f"{name:<13} {value}" for name, value in facts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
