"""`fastldp audit`: attack a method on random data, one's own or a network, and compare with the ledger."""

from __future__ import annotations

import argparse
import json
from copy import copy
from typing import Any

import numpy as np

import fastldp as fl
from fastldp.bars import is_watched
from fastldp.cli import choosing, options
from fastldp.cli.writing import drawn, require_picture, require_writable, written
from fastldp.datasets.dataset import Dataset
from fastldp.validation import integer

SUMMARY = "attack the kernels: can transcripts of two neighbouring inputs be told apart by more than the ledger says?"
EXAMPLES = """\
examples:
  fastldp audit                                      a hundred thousand transcripts of either input
  fastldp audit --details                            with what was measured, and what could not have been seen
  fastldp audit --transcripts 1000000 --plot loss.png
  fastldp audit --report audit.html                  a page to open in a browser
  fastldp audit --epsilon 4 --accounting gdp --allocation static --rounds 20 --workers 5 --features 10
  fastldp audit --method ISRLDP --step 0.5 --set clip=0.5      another method, or module:Class of your own
  fastldp audit --data mine.csv --label sick --rows 200 --transcripts 5000 --epsilon 4      your own data
  fastldp audit --hidden 3 --transcripts 5000 --epsilon 4      a network, whose runs do not share lanes: slower
exit code: 0 where nothing contradicts the ledger, 1 where something does
"""
RANDOM = "random"
# What random data are like, where nothing else is said.
SIZES = {"samples": 4, "features": 2}
# Within this box both gradients of the replaced sample are clipped, so that each release differs by all it can.
BOX, BOUND = 0.25, 1.0
# Options of data of one's own, of random data, and of linear models alone.
OF_DATA, OF_RANDOM, OF_LINEAR = ("label", "rows"), ("samples", "features", "hidden"), ("row_bound", "gradient_bound")
# Of a network: its classes, the norm its gradients are clipped to, and the step.
CLASSES, CLIP, STEP = 2, 0.5, 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    choosing.add_arguments(parser, also=RANDOM)
    parser.set_defaults(data=RANDOM, workers=2, l2=1.0)
    of_random = parser.add_argument_group("random data, in the place of --data")
    of_random.add_argument("--samples", type=int, help=f"of each worker ({SIZES['samples']})")
    of_random.add_argument("--features", type=int, help=f"d ({SIZES['features']})")
    of_random.add_argument("--hidden", type=int, help="audit a network with so many hidden units, not a linear model")
    options.add(parser, *options.BUDGET)
    parser.add_argument("--rounds", type=int, default=5, help="T (%(default)s)")
    parser.add_argument("--transcripts", type=int, default=100_000, help="of each input (%(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the ε that is shown (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of random data and noise (%(default)s)")
    options.add(parser, "--jobs", "--plot", "--report", "--details", "--json")


def run(arguments: argparse.Namespace) -> int:
    for name in ("workers", "samples", "features", "hidden"):
        if getattr(arguments, name) is not None:
            integer(name, getattr(arguments, name), "give a whole number ≥ 1", at_least=1)
    integer("seed", arguments.seed, "give a whole number ≥ 0", at_least=0)
    require_picture("plot", arguments.plot)
    require_writable("report", arguments.report)
    budget = fl.Budget(arguments.epsilon, arguments.delta, arguments.accounting)
    found = fl.audit(
        _problem(arguments),
        budget,
        rounds=arguments.rounds,
        algorithm=_method(arguments),
        transcripts=arguments.transcripts,
        confidence=arguments.confidence,
        seed=arguments.seed,
        n_jobs=arguments.jobs,
        progress=not arguments.json and is_watched(),
    )
    if arguments.json:
        print(json.dumps(found.to_dict()))
    else:
        print(f"\n{found.summary() if arguments.details else found}\n")
    kept = arguments.plot is None or drawn(arguments.plot, found.plot(), quiet=arguments.json)
    if arguments.report is not None:
        kept &= written("report", arguments.report, found.report, quiet=arguments.json)
    return 0 if found.passed and kept else 1


def _method(arguments: argparse.Namespace) -> Any:
    given = copy(arguments)
    # A network has no theorem to take a step from.
    if arguments.hidden is not None and arguments.method == "PrimalDual" and "step" not in dict(arguments.set):
        given.step = STEP if arguments.step is None else arguments.step
    return choosing.method_of(given, planned=False)


def _problem(arguments: argparse.Namespace) -> fl.Problem | fl.MLP:
    if arguments.data != RANDOM:
        _refuse(arguments, OF_RANDOM, "of random data; leave it out, or leave out --data")
        return choosing.problem_of(arguments, choosing.data_of(arguments))
    _refuse(arguments, OF_DATA, "random data have none; give --data too")
    if arguments.hidden is None:
        return small_problem(arguments)
    _refuse(arguments, (*OF_LINEAR, "regularizer"), "of linear models; leave it out, or leave out --hidden")
    return small_network(arguments)


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...], remedy: str) -> None:
    for name in names:
        if (value := getattr(arguments, name)) is not None:
            raise fl.errors.ArgumentError(name, value, remedy)


def small_problem(arguments: argparse.Namespace) -> fl.Problem:
    """Samples of length one; where nothing else is said, in a box so small that the worst pair stays the worst."""
    rng, (count, features) = np.random.default_rng(arguments.seed), _sizes(arguments)
    A = rng.standard_normal((count, features))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    b = np.where(rng.random(len(A)) < 0.5, 1.0, -1.0)
    given = copy(arguments)
    if arguments.regularizer is None and choosing.kind_of_method(arguments).proximal:
        given.regularizer, given.bound = "Box", BOX if arguments.bound is None else arguments.bound
    if all(getattr(arguments, name) is None for name in OF_LINEAR):
        given.gradient_bound = BOUND
    return choosing.problem_of(given, Dataset(A, b, RANDOM))


def small_network(arguments: argparse.Namespace) -> fl.MLP:
    """Random images of two classes."""
    rng, (count, features) = np.random.default_rng(arguments.seed), _sizes(arguments)
    images = rng.standard_normal((count, features))
    labels = rng.integers(0, CLASSES, len(images))
    given = {"classes": CLASSES, "clip": CLIP, "l2": arguments.l2}
    return fl.MLP(images, labels, hidden=arguments.hidden, workers=arguments.workers, **given)


def _sizes(arguments: argparse.Namespace) -> tuple[int, int]:
    """How many samples there are of all workers, and of how many features."""
    samples, features = (getattr(arguments, name) or least for name, least in SIZES.items())
    return arguments.workers * samples, features
