"""`fastldp info`: versions, cores, threading and where compiled kernels are kept; or what a file is."""

from __future__ import annotations

import argparse
import json
import math
import platform
from pathlib import Path
from typing import Any

import joblib
import numba
import numpy as np
import scipy

import fastldp as fl
from fastldp.cli import files, options
from fastldp.cli.data import shown
from fastldp.engine import driving, threads
from fastldp.engine.layouts import LANES
from fastldp.kernels.jit import cache_folder

SUMMARY = "versions, cores, threading and where compiled kernels are kept; or what a file holds"
EXAMPLES = """\
examples:
  fastldp info --json
  fastldp info first.h5       the outcomes and mean errors of a sweep; --all where it has many settings
  fastldp info run.npz        what fastldp solve --save wrote
  fastldp info mine.csv       rows, features and labels of data
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, nargs="?", help="results of a sweep, a saved solution, or data")
    parser.add_argument("--all", action="store_true", help="every setting of the results, not the first and last alone")
    options.add(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    if arguments.file is not None and files.is_of_a_sweep(arguments.file):
        _tell_results(arguments)
        return 0
    facts = _of_machine() if arguments.file is None else files.facts_of(arguments.file)
    if arguments.json:
        print(json.dumps(facts))
    else:
        print("\n".join(f"{name:<13} {shown(value)}" for name, value in facts.items()))
    return 0


def _tell_results(arguments: argparse.Namespace) -> None:
    found = fl.results(arguments.file)
    means = [
        {**mean.label, "runs": mean.runs, "mean": _number(mean.mean), "std": _number(mean.std)}
        for mean in found.means()
    ]
    failed = [{**failure.label, "runs": failure.runs, "reason": failure.reason} for failure in found.failures()]
    print(
        json.dumps({"runs": len(found), "means": means, "failed": failed}, default=_plain)
        if arguments.json
        else found.summary(whole=arguments.all)
    )


def _of_machine() -> dict[str, Any]:
    return {
        "fastldp": fl.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "joblib": joblib.__version__,
        "machine": f"{platform.machine()}, {platform.system()}",
        "cores": driving.available_cores(),
        "threading": threads.threading_layer(),
        "lanes": ", ".join(f"{lanes} × {dtype}" for dtype, lanes in LANES.items()),
        "kernel cache": str(cache_folder() or "none: no writable folder"),
    }


def _number(value: float) -> float | None:
    """JSON has no NaN: null where no run completed."""
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()
