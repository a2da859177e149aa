"""`fastldp plot`: the results of a sweep as a picture."""

from __future__ import annotations

import argparse
from pathlib import Path

from fastldp.cli.conditions import chosen
from fastldp.cli.writing import drawn, require_picture
from fastldp.sweeping.reading import MEASURES

SUMMARY = "draw the results of a sweep: means with error bars"
EXAMPLES = """\
examples:
  fastldp plot first.h5                                   the final error against the horizon, in first.png beside it
  fastldp plot first.h5 --x round --where rounds=4000     the error along the rounds
  fastldp plot first.h5 --x step --by method --where epsilon=1.0 method=ISRLDP --out steps.pdf
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="a file that fastldp sweep wrote")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the picture (beside the results, of their name, .png)"
    )
    parser.add_argument("--x", help="a parameter, or round for the error along the rounds (rounds, where they differ)")
    parser.add_argument("--by", nargs="+", default=[], metavar="NAME", help="what distinguishes the curves (all else)")
    parser.add_argument(
        "--over", nargs="+", default=[], metavar="NAME", help="what to average over (repetitions alone)"
    )
    parser.add_argument("--measure", choices=MEASURES, help="(optimality; of networks accuracy)")
    parser.add_argument("--where", nargs="+", default=[], metavar="NAME=VALUE", help="only these runs")
    parser.add_argument("--title", help="over the picture")
    parser.add_argument("--table", action="store_true", help="print the means as well")


def run(arguments: argparse.Namespace) -> int:
    out = arguments.out or arguments.results.with_suffix(".png")
    require_picture("out", out)
    found = chosen(arguments.results, arguments.where)
    x = arguments.x or ("rounds" if "rounds" in found.varying else "round")
    axes = found.plot(x=x, by=arguments.by, over=arguments.over, measure=arguments.measure)
    axes.set_title(arguments.title or ", ".join(str(name) for name in found.parameters["data"]))
    if arguments.table:
        print(found.summary())
    return 0 if drawn(out, axes) else 1
