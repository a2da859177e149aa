"""`fastldp sweep`: the runs of a specification, into one file."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fastldp as fl
from fastldp.cli import options
from fastldp.datasets.files import MISSING
from fastldp.solve import check_jobs
from fastldp.sweeping import spec as specs
from fastldp.sweeping.backends import NAMES
from fastldp.sweeping.store import parts_of

SUMMARY = "make all runs of a specification, into one file; stop it and start it again at any moment"
EXAMPLES = """\
examples:
  fastldp sweep --example > first.toml            a specification to begin with
  fastldp sweep first.toml --dry-run              how many runs, how long, how large a file
  fastldp sweep first.toml                        make them, into first.h5; again: what is missing
  fastldp sweep first.toml --out all.h5 --retry   into another file, and what failed before once more
  fastldp sweep first.toml --backend dask --address tcp://10.0.0.1:8786
exit code: 0 where all runs are in the file, completed, 1 for an error, 2 for a wrong call or specification, 3 where
some diverged or failed, 130 after Ctrl-C (what is finished is in the file, and the same command goes on)
"""
EXAMPLE = """\
# Static against dynamic allocation over the horizon, on generated data of the paper's first experiment.
title = "static against dynamic allocation"
rounds = {from = 500, to = 4000, by = 500}    # any parameter may be a value, a list, or a range
repetitions = 20
seed = 0

[data]
synthetic = "ijcnn1"                          # or file = "mine.npz", with arrays A and b

[problem]
workers = 20
l2 = 0.1
# regularizer = {name = "BoxL1", weight = 0.01, bound = 10.0}

[budget]
epsilon = 1.0
delta = 1e-4
accounting = "zcdp"                           # "gdp" is the exact one

[[method]]
name = "PrimalDual"
allocation = ["dynamic", "static"]

# [[method]]
# name = "ISRLDP"
# step = {from = 0.01, to = 1.0, count = 5, spacing = "log"}

[record]
every = 100
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", type=Path, nargs="?", help="the specification, a TOML file")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the results (beside the specification, of its name, .h5)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--quick", action="store_true", help="a small trial: what the table [quick] says")
    parser.add_argument("--synthetic", action="store_true", help="generated stand-ins in place of named sets")
    parser.add_argument("--example", action="store_true", help="print a specification to begin with")
    parser.add_argument("--backend", choices=NAMES, default="threads", help="where the runs are made (%(default)s)")
    parser.add_argument("--address", help="of a Dask or Ray cluster (one is started on this machine)")
    parser.add_argument("--jobs", type=int, help="how many blocks at a time (all cores)")
    parser.add_argument("--retry", action="store_true", help="try again what failed before")
    parser.add_argument(
        "--mix", action="store_true", help="add to a file that has these runs of other data or versions"
    )
    parser.add_argument("--no-lock", action="store_true", help="do without a lock, on drives that have none")
    parser.add_argument("--shared", action="store_true", help="let others read the file, which holds the seed")
    options.add(parser, "--json")


def _beside(spec: Path) -> Path:
    """Where results go by default: beside the specification, wherever the command is given."""
    out, here = spec.with_suffix(".h5"), Path(spec.with_suffix(".h5").name)
    # Once they went to the folder of whoever gave the command.
    if not files_there(out) and files_there(here):
        print(
            f"fastldp: {out} is written anew, though there is {here} in this folder; --out {here} goes on with that",
            file=sys.stderr,
        )
    return out


def files_there(path: Path) -> bool:
    """Whether there are results of a sweep, or parts of them."""
    return path.exists() or bool(parts_of(path))


def run(arguments: argparse.Namespace) -> int:
    if arguments.example:
        print(EXAMPLE, end="")
        return 0
    if arguments.spec is None:
        raise fl.errors.ArgumentError("spec", None, "name a TOML file; fastldp sweep --example prints one")
    if not arguments.spec.is_file():
        raise fl.errors.ArgumentError("spec", str(arguments.spec), MISSING[arguments.spec.is_dir()])
    check_jobs(arguments.jobs)
    out = arguments.out or _beside(arguments.spec)
    wanted: dict[str, Any] = {name: getattr(arguments, name) for name in ("retry", "mix", "quick", "synthetic")}
    wanted["n_jobs"] = arguments.jobs
    if arguments.dry_run:
        plan = fl.sweeping.forecast(arguments.spec, out, **wanted)
        print(json.dumps(asdict(plan)) if arguments.json else f"{arguments.spec} into {out}\n{plan.summary()}")
        return 0
    # Before anything is said of results: a wrong specification has none.
    spec = specs.read(arguments.spec, quick=arguments.quick, synthetic=arguments.synthetic)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("fastldp").setLevel(logging.INFO)  # and not what clusters tell
    out.parent.mkdir(parents=True, exist_ok=True)
    print(f"fastldp: results go to {out}", file=sys.stderr)
    report = fl.sweep(
        spec,
        out,
        backend=arguments.backend,
        address=arguments.address,
        lock=not arguments.no_lock,
        shared=arguments.shared,
        **wanted,
    )
    print(json.dumps(report.to_dict()) if arguments.json else report.summary())
    if report.interrupted:
        return 130
    return 0 if report.sound else 3
