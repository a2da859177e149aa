"""`fastldp report`: results as one page to open in a browser."""

from __future__ import annotations

import argparse
import zipfile
from functools import partial
from pathlib import Path

import fastldp as fl
from fastldp.cli import files
from fastldp.cli.conditions import chosen
from fastldp.cli.writing import require_writable, written

SUMMARY = "write results as one page to open in a browser, which loads nothing from elsewhere"
EXAMPLES = """\
examples:
  fastldp report first.h5                          first.html beside it: curves, a table to sort and filter, ledgers
  fastldp report first.h5 -o all.html --title "Static against dynamic allocation"
  fastldp report first.h5 --where rounds=4000      these runs alone
  fastldp report run.npz                           what fastldp solve --save wrote
Solves and audits write theirs with --report FILE, and fastldp reproduce its own in any case.
A page of a sweep names the seed of its noise, and is its owner's alone to read unless --shared lets others in.
exit code: 0 where it was written, 1 for an error, 2 for a wrong call
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="a file that fastldp sweep wrote, or a saved solution (.npz)")
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="(beside the results, of their name, .html)")
    parser.add_argument("--title", default="", help="over the page")
    parser.add_argument("--where", nargs="+", default=[], metavar="NAME=VALUE", help="only these runs of a sweep")
    parser.add_argument("--shared", action="store_true", help="let others read it, though it names a seed")


def run(arguments: argparse.Namespace) -> int:
    results = arguments.results
    # What has neither the name of a solution nor its kind is no damaged one.
    if not (files.is_of_a_sweep(results) or results.suffix == ".npz" or zipfile.is_zipfile(results)):
        raise fl.errors.ArgumentError(
            "results", str(results), "give what fastldp sweep wrote (.h5), or a solution (.npz)"
        )
    out = arguments.out or results.with_suffix(".html")
    require_writable("out", out)
    if files.is_of_a_sweep(results):
        page = chosen(results, arguments.where).report(title=arguments.title)
    else:
        if arguments.where:
            raise fl.errors.ArgumentError("where", arguments.where, "only the runs of a sweep can be chosen from")
        page = fl.load(results).report(title=arguments.title)
    return 0 if written("report", out, partial(page.save, shared=arguments.shared)) else 1
