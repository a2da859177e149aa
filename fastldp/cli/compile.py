"""`fastldp compile`: all kernels ahead, so that no run waits for them."""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

import fastldp as fl
from fastldp import bars
from fastldp.cli import options
from fastldp.engine import driving
from fastldp.engine.compiling import compile_all, missing_of
from fastldp.engine.recording import timetable
from fastldp.engine.runs import Runs
from fastldp.forking import available_cores
from fastldp.kernels import rounds
from fastldp.kernels.calling import Piece
from fastldp.kernels.jit import cache_folder
from fastldp.problems.composite import Composite
from fastldp.solve import check_jobs

SUMMARY = "compile all kernels ahead, on all cores; later runs of any process find them"
EXAMPLES = """\
examples:
  fastldp compile                       everything of this package, in some minutes
  fastldp compile --dtype float64       without single precision
  NUMBA_CACHE_DIR=/shared/cache fastldp compile   for all machines of a cluster that are of one kind
Without it each kind of problem and method is compiled when it is first run, which takes some ten seconds, and is kept
as well. What is compiled lies in NUMBA_CACHE_DIR, or else in XDG_CACHE_HOME or ~/.cache, for this processor. Classes of
your own are compiled in every process.
"""
ROWS, FEATURES = 64, 4
DTYPES = ("float64", "float32")
# A run alone, a line of lanes that is full, and what sparse data have two of.
REPETITIONS = {"float64": (1, 8, 16), "float32": (1, 16)}
LOSSES: tuple[fl.Loss, ...] = (fl.Logistic(), fl.Squared(), fl.Huber(1.0), fl.SmoothedHinge(1.0))
REGULARIZERS: tuple[fl.Regularizer, ...] = (
    fl.BoxL1(0.01, 1.0),
    fl.Zero(),
    fl.L1(0.01),
    fl.Box(-1.0, 1.0),
    fl.L2Ball(1.0),
    fl.L1Ball(1.0),
    fl.Simplex(1.0),
    fl.GroupL2(np.array([0, 0, 1, 1]), 0.01, 1.0),
)
METHODS: tuple[fl.Method, ...] = (
    fl.PrimalDual(step=0.1),
    fl.ISRLDP(step=0.1),
    fl.DPFedAvg(0.1, 2),
    fl.DPScaffold(0.1, 2),
    fl.LDPFedEXP(0.1, 2),
    fl.DPScaffNew(0.1, 0.5),
    fl.ISRLDP(0.1, clip="adaptive"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dtype", choices=DTYPES, help="of this precision only (both)")
    options.add(parser, "--jobs")


def run(arguments: argparse.Namespace) -> int:
    check_jobs(arguments.jobs)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these problems are nobody's
        missing = missing_of(all_pieces([arguments.dtype] if arguments.dtype else DTYPES))
    with bars.bar(show=True, total=len(missing), unit="kernel") as bar:
        compile_all(missing, arguments.jobs or available_cores(), done=bar.update)
    print(f"{len(missing):,} kernels compiled in {time.perf_counter() - began:.0f} s, in {cache_folder()}")
    return 0


def all_pieces(dtypes: Sequence[str]) -> Iterator[Piece]:
    """Of all kinds of problems and methods: where one thing varies, the others are the first of theirs."""
    yield from rounds.loops()
    loss, regularizer, method = LOSSES[0], REGULARIZERS[0], METHODS[0]
    kinds: list[tuple[fl.Loss, fl.Regularizer, fl.Method]] = [(other, regularizer, method) for other in LOSSES]
    kinds += [(loss, other, method) for other in REGULARIZERS]
    # Some methods take smooth problems only.
    kinds += [(loss, either, other) for other in METHODS for either in (regularizer, fl.Zero())]
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((ROWS, FEATURES)), np.resize([1.0, -1.0], ROWS)
    for dtype, data in itertools.product(dtypes, (A, sparse.csr_array(A))):
        for (loss, regularizer, method), repetitions in itertools.product(kinds, REPETITIONS[dtype]):
            about: dict[str, Any] = {"loss": loss, "regularizer": regularizer, "gradient_bound": 1.0, "dtype": dtype}
            yield from _pieces_of_runs(fl.Problem(data, b, workers=2, l2=0.1, **about), method, repetitions)
    if "float64" in dtypes:
        network = fl.MLP(rng.random((ROWS, FEATURES)), np.arange(ROWS) % 2, hidden=2, workers=2, clip=1.0)
        for method in METHODS:
            yield from _pieces_of_runs(network, method, 1)


def _pieces_of_runs(problem: Composite, method: fl.Method, repetitions: int) -> list[Piece]:
    try:
        schedule = method.schedule(problem, fl.Budget(1.0, 1e-4), 2)
    except fl.FastLDPError:  # not every method takes every problem
        return []
    nowhere, keys = np.zeros(problem.d), np.zeros((repetitions, 8), dtype=np.uint32)
    runs = Runs(problem, schedule, nowhere, keys, timetable(fl.Final(), 2, problem.n), nowhere)
    return driving.code_of(problem, [runs])
