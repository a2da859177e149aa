"""`fastldp plan`: which step and which noise suit a budget, from public numbers alone."""

from __future__ import annotations

import argparse

import fastldp as fl
from fastldp.cli import options
from fastldp.cli.writing import drawn, require_picture
from fastldp.planning.plan import ALLOCATIONS
from fastldp.validation import integer

SUMMARY = "plan the step and the noise of a budget, from public numbers alone"
EXAMPLES = """\
examples:
  fastldp plan --samples 100 --dimension 22 --bound 1.3 --l2 0.1
  fastldp plan --samples 561 --dimension 123 --bound 3.75 --l2 0.1 --rounds 2000 --norm 2 --plot plan.png
  fastldp plan --samples 561 --dimension 123 --bound 3.75 --l2 0.1 --accounting gdp --epsilon 0.5
  fastldp plan --samples 100 --dimension 22 --bound 1.3 --rounds 1000 --topology ring --failures 0.1
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=20, help="n (%(default)s)")
    parser.add_argument("--samples", type=int, required=True, help="m, of each worker")
    parser.add_argument("--dimension", type=int, required=True, help="d")
    parser.add_argument("--bound", type=float, required=True, help="B, which no sample's gradient exceeds")
    parser.add_argument("--l2", type=float, default=0.1, help="weight of ½‖x‖² (%(default)s)")
    options.add(parser, *options.BUDGET)
    parser.add_argument("--allocation", choices=ALLOCATIONS, default="planned", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, help="T (the fewest that suffice)")
    parser.add_argument("--norm", type=float, default=1.0, help="‖x*‖ as assumed (%(default)s)")
    parser.add_argument("--spectrum", type=float, help="every eigenvalue of the Hessian as assumed (l2 + B²/(4d))")
    parser.add_argument(
        "--topology", metavar="GRAPH", help="of workers without a server: ring, grid, star or random:DEGREE:SEED"
    )
    parser.add_argument("--failures", type=float, metavar="SHARE", help="of its links that are missing in a round (0)")
    options.add(parser, "--plot")


def run(arguments: argparse.Namespace) -> int:
    require_picture("plot", arguments.plot)
    for name in ("workers", "samples"):
        integer(name, getattr(arguments, name), "give a whole number ≥ 1", at_least=1)
    facts = fl.Facts([arguments.samples] * arguments.workers, arguments.dimension, arguments.bound, arguments.l2)
    made = fl.plan(
        facts,
        fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting),
        rounds=arguments.rounds,
        prior=fl.Prior(arguments.norm, arguments.spectrum),
        allocation=arguments.allocation,
        topology=arguments.topology,
        failures=arguments.failures,
    )
    print(made.summary())
    return 0 if arguments.plot is None or drawn(arguments.plot, made.plot()) else 1
