"""`fastldp verify`: whether a file of results is what it claims."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import fastldp as fl
from fastldp.cli import options

SUMMARY = "look whether a file of results is what it claims: runs made again, ledgers accounted for anew"
EXAMPLES = """\
examples:
  fastldp verify first.h5                  20 runs chosen at random, and every ledger
  fastldp verify first.h5 --runs all       all runs: as long as the sweep took
  fastldp verify first.h5 --folder data    where the files are that the specification names
  fastldp verify --self                    does this machine compute the reference results, bit by bit? a minute
exit code: 0 where every claim was confirmed, 1 where one is false or could not be confirmed, 2 for a wrong call
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="?", help="a file that fastldp sweep wrote")
    parser.add_argument("--self", action="store_true", help="this installation on this machine, and no file")
    parser.add_argument(
        "--runs",
        type=options.or_word(int, {"all": None}),
        default=20,
        help="how many to make again, or all (%(default)s)",
    )
    parser.add_argument("--seed", type=int, help="by which they are chosen (one that nobody knew before)")
    parser.add_argument("--folder", type=Path, help="where the specification's files are (beside the results)")
    options.add(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    if arguments.self == (arguments.results is not None):
        remedy = "name a file of results, or give --self" if not arguments.self else "--self looks at no file"
        raise fl.errors.ArgumentError("results", arguments.results and str(arguments.results), remedy)
    if arguments.self:
        from fastldp.verifying.itself import verify_itself

        found = verify_itself()
    else:
        found = fl.verify(arguments.results, runs=arguments.runs, seed=arguments.seed, folder=arguments.folder)
    print(json.dumps(found.to_dict()) if arguments.json else found.summary())
    return 0 if found.passed else 1
