"""`fastldp federate`: a federation over Flower, on this machine for a look, or as a project for others."""

from __future__ import annotations

import argparse
from pathlib import Path

import fastldp as fl
from fastldp.validation import integer

SUMMARY = "train between processes over Flower, or write a project that does so between machines"
EXAMPLES = """\
examples:
  fastldp federate --demo 5
  fastldp federate --terms terms.json --app ./training    # then: flwr run ./training
"""
# Each worker is two processes or three, of some 150 MB.
MOST_WORKERS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--demo", type=int, metavar="N", help="N workers, each a process with its own rows, on this machine"
    )
    what.add_argument("--app", type=Path, metavar="FOLDER", help="write a Flower project: server, client and terms")
    parser.add_argument("--rounds", type=int, default=10, help="of the demo (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the demo's data and noise (%(default)s)")
    parser.add_argument("--terms", type=Path, help="of the project: what Terms.to_json() gave")


def run(arguments: argparse.Namespace) -> int:
    from fastldp.federation import demo, flower

    if arguments.app is not None:
        if arguments.terms is None:
            raise fl.errors.ArgumentError("--terms", None, "give the file that has what Terms.to_json() gave")
        terms = fl.federation.Terms.from_json(arguments.terms.read_text(encoding="utf-8"))
        print(f"written: {flower.write_app(arguments.app, terms)}; docs/flower.md says how to run it")
        return 0
    remedy = f"give a whole number from 1 to {MOST_WORKERS}"
    integer("--demo", arguments.demo, remedy, at_least=1, at_most=MOST_WORKERS)
    integer("--rounds", arguments.rounds, "give a whole number ≥ 1", at_least=1)
    same = demo.demonstrate(arguments.demo, arguments.rounds, arguments.seed, lambda line: print(line, flush=True))
    return 0 if same else 1
