"""`fastldp worker status`: what a worker of federations has released, and what is left of what it promised."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from fastldp.cli import options
from fastldp.errors import ArgumentError
from fastldp.federation.account import affordable, epsilon_left, epsilon_spent
from fastldp.federation.folder import Folder, Journal

SUMMARY = "what a worker of federations has released, and what is left of what was promised of its data"
EXAMPLES = """\
examples:
  fastldp worker status FOLDER
  fastldp worker status FOLDER --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["status"], help="print the account of a folder; nothing is changed")
    parser.add_argument("folder", type=Path, help="the worker's, as in Worker(..., folder=...)")
    options.add(parser, "--json")


def run(arguments: argparse.Namespace) -> int:
    facts = status(arguments.folder)
    print(json.dumps(facts) if arguments.json else _table(facts))
    return 0


def status(path: Path) -> dict[str, Any]:
    """All that a folder says."""
    folder = Folder(path)
    budget = folder.budget()
    if budget is None:
        raise ArgumentError("folder", str(path), "no worker has used it; give the folder= of one")
    journals, spent = folder.journals(), folder.spent()
    return {
        "folder": str(folder.path),
        "promised": {"epsilon": budget.epsilon, "delta": budget.delta, "accounting": budget.accounting},
        "spent": {"epsilon": epsilon_spent(budget, spent), "rho": spent.rho},
        "left": {"rho": max(affordable(budget, spent) - spent.rho, 0.0), "epsilon": epsilon_left(budget, spent)},
        "trainings": [_training(journal) for journal in journals],
    }


def _training(journal: Journal) -> dict[str, Any]:
    return {
        "terms": journal.terms[:16],
        "name": journal.name,
        "worker": journal.worker,
        "answers": journal.answers,
        "round": journal.round,
        "horizon": journal.horizon,
        "rho": journal.spent.rho,
    }


def _table(facts: dict[str, Any]) -> str:
    promised, spent, left = facts["promised"], facts["spent"], facts["left"]
    whole = spent["rho"] + left["rho"]
    rows = [
        ("promised", f"ε = {promised['epsilon']:g} at δ = {promised['delta']:g} for life, by {promised['accounting']}"),
        ("spent", f"ε = {spent['epsilon']:.6g}, ρ = {spent['rho']:.6g}"),
        (
            "left",
            f"ρ = {left['rho']:.6g}, {left['rho'] / whole:.1%} of the whole: one training of ε ≈ {left['epsilon']:.3g}",
        ),
    ]
    for one in facts["trainings"]:
        name = one["name"] or one["terms"]
        done = f"worker {one['worker']}, {one['answers']:,} answers, the last in round {one['round']:,}"
        rows.append(("training", f"{name}: {done} of {one['horizon']:,}; ρ = {one['rho']:.6g}"))
    return "\n".join(f"{name:<10} {text}" for name, text in rows)
