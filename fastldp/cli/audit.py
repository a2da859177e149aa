"""`fastldp audit`: attack the kernels on a small problem or network made for it, and compare with the ledger."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import fastldp as fl
from fastldp import figures
from fastldp.cli.writing import require_writable, written
from fastldp.methods import ALLOCATIONS
from fastldp.privacy import METHODS
from fastldp.validation import integer

SUMMARY = "attack the kernels: can transcripts of two neighbouring inputs be told apart by more than the ledger says?"
EXAMPLES = """\
examples:
  fastldp audit                                      a hundred thousand transcripts of either input
  fastldp audit --transcripts 1000000 --plot loss.png
  fastldp audit --epsilon 4 --accounting gdp --allocation static --rounds 20 --workers 5 --features 10
  fastldp audit --hidden 3 --transcripts 5000 --epsilon 4      a network, whose runs do not share lanes: slower
the report ends with what these transcripts could not have shown
exit code: 0 where nothing contradicts the ledger, 1 where something does
"""
# Within this box both gradients of the replaced sample are clipped, so that each release differs by all it can.
BOX = 0.25
# Of a network: its classes, the norm its gradients are clipped to, and the step.
CLASSES, CLIP, STEP = 2, 0.5, 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epsilon", type=float, default=1.0, help="ε (%(default)s)")
    parser.add_argument("--delta", type=float, default=1e-4, help="δ (%(default)s)")
    parser.add_argument("--accounting", choices=METHODS, default="zcdp", help="paper's or exact (%(default)s)")
    parser.add_argument("--allocation", choices=ALLOCATIONS, default="dynamic", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="T (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="n (%(default)s)")
    parser.add_argument("--samples", type=int, default=4, help="of each worker (%(default)s)")
    parser.add_argument("--features", type=int, default=2, help="d (%(default)s)")
    parser.add_argument("--hidden", type=int, help="audit a network with so many hidden units, and not a linear model")
    parser.add_argument("--l2", type=float, default=1.0, help="weight of ½‖x‖² (%(default)s)")
    parser.add_argument("--transcripts", type=int, default=100_000, help="of each input (%(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the ε that is shown (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of data and noise (%(default)s)")
    parser.add_argument("--jobs", type=int, help="cores to use (all)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a picture: .png, .pdf or .svg")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(arguments: argparse.Namespace) -> int:
    sizes = {"workers": arguments.workers, "samples": arguments.samples, "features": arguments.features}
    for name, size in sizes.items():
        integer(name, size, "give a whole number ≥ 1", at_least=1)
    if arguments.hidden is not None:
        integer("hidden", arguments.hidden, "give a whole number ≥ 1", at_least=1)
    integer("seed", arguments.seed, "give a whole number ≥ 0", at_least=0)
    if arguments.plot:
        figures.require_format(arguments.plot)
        require_writable("plot", arguments.plot)
    budget = fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting)
    found = fl.audit(
        small_problem(arguments) if arguments.hidden is None else small_network(arguments),
        budget,
        rounds=arguments.rounds,
        algorithm=fl.PrimalDual(None if arguments.hidden is None else STEP, arguments.allocation),
        transcripts=arguments.transcripts,
        confidence=arguments.confidence,
        seed=arguments.seed,
        n_jobs=arguments.jobs,
        progress=not arguments.json,
    )
    print(json.dumps(found.to_dict()) if arguments.json else f"\n{found.summary()}\n")
    kept = True
    if arguments.plot:
        axes = found.plot()
        kept = written("picture", arguments.plot, lambda path: figures.save(axes, path), quiet=arguments.json)
    return 0 if found.passed and kept else 1


def small_problem(arguments: argparse.Namespace) -> fl.Problem:
    """Samples of length one, in a box so small that the worst pair stays the worst."""
    rng = np.random.default_rng(arguments.seed)
    A = rng.standard_normal((arguments.workers * arguments.samples, arguments.features))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    b = np.where(rng.random(len(A)) < 0.5, 1.0, -1.0)
    box = fl.Box(BOX)
    return fl.Problem(A, b, workers=arguments.workers, l2=arguments.l2, regularizer=box, gradient_bound=1.0)


def small_network(arguments: argparse.Namespace) -> fl.MLP:
    """Random images of two classes."""
    rng = np.random.default_rng(arguments.seed)
    images = rng.standard_normal((arguments.workers * arguments.samples, arguments.features))
    labels = rng.integers(0, CLASSES, len(images))
    given = {"classes": CLASSES, "clip": CLIP, "l2": arguments.l2}
    return fl.MLP(images, labels, hidden=arguments.hidden, workers=arguments.workers, **given)
