"""`fastldp data`: the public sets, where each lies or would come from, and what one of them is like."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import fastldp as fl
from fastldp.cli import options
from fastldp.datasets.downloading import addresses
from fastldp.datasets.finding import Located, located
from fastldp.datasets.known import SHAPES, files_of
from fastldp.datasets.loading import NAMES
from fastldp.validation import known_name

SUMMARY = "list the public data sets and where each comes from; or fetch one and say what it is like"
EXAMPLES = """\
examples:
  fastldp data                         all sets: in the folder FASTLDP_DATA, in the cache, or to be downloaded
  fastldp data ijcnn1                  find or download it, check it, and print its path and its numbers
  fastldp data ijcnn1 --rows 2000      the same of the rows that the paper takes
Sets are sought in the folder that FASTLDP_DATA names, then in the cache (FASTLDP_CACHE), then downloaded, from the
addresses in FASTLDP_MIRROR first. The list is made without a look into the files; a set that is loaded is checked.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--rows", type=int, help="look at so many alone, the first (all)")
    options.add(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        if arguments.rows is not None:
            raise fl.errors.ArgumentError("rows", arguments.rows, "say of which set: fastldp data NAME --rows ...")
        listed = [_listed(name) for name in sorted(NAMES)]
        print(json.dumps(listed) if arguments.json else _table(listed))
        return 0
    facts = _facts(known_name("name", arguments.name, NAMES), arguments.rows, progress=not arguments.json)
    if arguments.json:
        print(json.dumps(facts))
    else:
        print("\n".join(f"{key:<15} {shown(value)}" for key, value in facts.items()))
    return 0


def _listed(name: str) -> dict[str, Any]:
    """A set without a look into it."""
    found = _places(name)
    rows, features = SHAPES[name]
    first = files_of(name)[0]
    return {
        "name": name,
        "rows": rows,
        "features": features,
        "present": found is not None,
        "source": "download" if found is None else found[0].source,
        "place": addresses(first)[0] if found is None else str(_common(found)),
        "bytes": None if found is None else sum(one.path.stat().st_size for one in found),
    }


def _places(name: str) -> list[Located] | None:
    """Where all files of a set lie; None where one is missing."""
    found = [located(file) for file in files_of(name)]
    there = [one for one in found if one is not None]
    return there if len(there) == len(found) else None


def _common(found: list[Located]) -> Path:
    """The file, or the folder of several."""
    return found[0].path if len(found) == 1 else found[0].path.parent


def _table(listed: list[dict[str, Any]]) -> str:
    lines = [f"{'name':<10} {'rows':>7} {'features':>8}  {'from':<12}  {'size':>8}  where"]
    for one in listed:
        size = "" if one["bytes"] is None else f"{one['bytes'] / 1e6:.1f} MB"
        lines.append(
            f"{one['name']:<10} {one['rows']:>7,} {one['features']:>8}  {one['source']:<12}  {size:>8}  {one['place']}"
        )
    missing = sum(not one["present"] for one in listed)
    return "\n".join([*lines, f"{len(listed) - missing} of {len(listed)} are on this machine"])


def _facts(name: str, rows: int | None, *, progress: bool) -> dict[str, Any]:
    """A set loaded, and downloaded where need be."""
    if name == "mnist":
        images = fl.datasets.load("mnist", rows=rows, progress=progress)
        fl.datasets.load("mnist", part="test", progress=progress)  # so that all of it is there, and whole
        count, features = images.images.shape
        about = {
            "density": float((images.images > 0).mean()),
            "labels": {str(kind): int(many) for kind, many in enumerate(np.bincount(images.labels))},
            "gradient bound": None,
        }
    else:
        data = fl.datasets.load(name, rows=rows, progress=progress)
        count, features = data.A.shape
        about = {
            "density": float(np.count_nonzero(data.A.data) / (count * features)),
            "labels": {f"{sign:+d}": int((data.b == sign).sum()) for sign in (1, -1)},
            "gradient bound": fl.Problem(data.A, data.b, workers=1).gradient_bound,
        }
    found = _places(name)
    assert found is not None  # it has been loaded
    return {
        "name": name,
        "source": found[0].source,
        "path": str(_common(found)),
        "rows": count,
        "features": features,
        **about,
    }


def shown(value: Any) -> str:
    """A fact for people."""
    if isinstance(value, dict):
        total = sum(value.values())
        return ", ".join(f"{kind}: {many:,} ({many / total:.1%})" for kind, many in value.items())
    if value is None:
        return "none: a network clips each sample's gradient, clip="
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)
