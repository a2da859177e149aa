"""verify_itself(): whether this installation, on this machine, computes the bits that it computed elsewhere.

Small problems of numbers that every machine has exactly are solved by every method, for every kind of problem, in both
precisions. Digests of the final models and of their consensus, which go through the kernels alone, are compared with
those in `references.json`. Networks go through BLAS, which adds up in an order of its own: their numbers are compared.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import fastldp as fl
from fastldp.provenance import of_machine
from fastldp.verifying.claims import Claim, Verification

Array = NDArray[np.float64]

ROWS, FEATURES, WORKERS, ROUNDS = 60, 6, 4, 40
SEED = 20
# Repetitions share lanes; one alone has its samples there, whose sums depend on how many lanes there are.
REPETITIONS = 3
# What products in single precision may differ in after some rounds.
CLOSE = 1e-3
BUDGET = (4.0, 1e-3)

METHODS: dict[str, Callable[[], fl.Method]] = {
    "PrimalDual": lambda: fl.PrimalDual(allocation="static"),
    "PrimalDual adaptive": lambda: fl.PrimalDual(step=0.2, allocation="static", clip="adaptive"),
    "ISRLDP": lambda: fl.ISRLDP(step=0.2),
    "ISRLDP accelerated": lambda: fl.ISRLDP(step=0.1, accelerated=True),
    "DPFedAvg": lambda: fl.DPFedAvg(step=0.1, local_steps=3),
    "DPScaffold": lambda: fl.DPScaffold(step=0.1, local_steps=2, warm_start=True),
    "LDPFedEXP": lambda: fl.LDPFedEXP(step=0.1, local_steps=2),
    "DPScaffNew": lambda: fl.DPScaffNew(step=0.2, probability=0.5),
}
PROBLEMS: dict[str, dict[str, Any]] = {
    "logistic": {"loss": "logistic"},
    "logistic sparse": {"loss": "logistic", "sparse": True},
    "squared": {"loss": "squared"},
    "Huber": {"loss": fl.Huber(0.5)},
    "SmoothedHinge": {"loss": fl.SmoothedHinge(0.5)},
    "logistic by rows": {"loss": "logistic", "weighting": "rows", "uneven": True},
}
# With the paper's method and its dynamic allocation; the other methods know some of these alone.
REGULARIZERS: dict[str, Callable[[], fl.Regularizer]] = {
    "BoxL1": lambda: fl.BoxL1(0.01, 0.6),
    "Box": lambda: fl.Box(0.3),
    "L1": lambda: fl.L1(0.01),
    "GroupL2": lambda: fl.GroupL2(np.array([0, 0, 1, 1, 2, 2]), 0.01, 0.8),
    "L2Ball": lambda: fl.L2Ball(0.7),
    "L1Ball": lambda: fl.L1Ball(0.9),
    "Simplex": lambda: fl.Simplex(0.8),
}
PRECISIONS = ("float64", "float32")


class Case(NamedTuple):
    """A solve, by its name."""

    name: str
    problem: Callable[[], Any]
    method: Callable[[], fl.Method]
    rounds: int = ROUNDS
    repetitions: int = REPETITIONS


def data() -> tuple[Array, Array]:
    """Numbers that are exact in any precision."""
    i, j = np.arange(ROWS)[:, None], np.arange(FEATURES)
    A = ((7 * i + 3 * i * j + j * j) % 11 - 5) / 8.0
    return A, np.where((3 * i[:, 0] + i[:, 0] // 4) % 5 > 2, 1.0, -1.0)


def problem_of(kind: str, precision: str, regularizer: fl.Regularizer | None = None) -> fl.Problem:
    """One of PROBLEMS."""
    about = dict(PROBLEMS[kind])
    A, b = data()
    workers: Any = np.minimum(np.arange(ROWS) // 12, WORKERS - 1) if about.pop("uneven", False) else WORKERS
    if about.pop("sparse", False):
        A = sparse.csr_array(np.where(np.abs(A) > 0.3, A, 0.0))
    own: dict[str, Any] = {"l2": 0.1, "gradient_bound": 1.0, "dtype": precision, "regularizer": regularizer}
    return fl.Problem(A, b, workers=workers, **own, **about)


def network() -> fl.MLP:
    """A small one."""
    A, b = data()
    pixels = np.abs(A) / np.abs(A).max()
    return fl.MLP(pixels, (b > 0).astype(np.int64), hidden=3, workers=WORKERS, clip=1.0)


def cases() -> Iterator[Case]:
    """All of those whose bits are compared."""
    for precision in PRECISIONS:
        for kind in PROBLEMS:
            for name, method in METHODS.items():
                yield Case(f"{name}, {kind}, {precision}", partial(problem_of, kind, precision), method)
    for name, made in REGULARIZERS.items():
        problem = partial(problem_of, "logistic", "float64", made())
        yield Case(f"PrimalDual dynamic, {name}, float64", problem, fl.PrimalDual)
    problem = partial(problem_of, "logistic", "float64")
    yield Case("PrimalDual, sixteen runs, float64", problem, fl.PrimalDual, repetitions=16)


def solved(case: Case) -> fl.Solution:
    """The solve of a case; what it warns of is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fl.solve(
            case.problem(),
            fl.Budget(*BUDGET),
            rounds=case.rounds,
            algorithm=case.method(),
            repetitions=case.repetitions,
            seed=SEED,
            record=fl.Every(10),
        )


def digest_of(run: fl.Solution) -> str:
    """Of what went through the kernels alone."""
    return hashlib.sha256(run.workers.tobytes() + run.consensus.tobytes()).hexdigest()[:16]


def of_network() -> dict[str, list[float]]:
    """What is compared of networks: how large the models are, and how far apart."""
    case = Case("network", network, lambda: fl.PrimalDual(step=0.2), rounds=10, repetitions=1)
    run = solved(case)
    return {"norm": np.linalg.norm(run.x, axis=1).tolist(), "consensus": run.consensus[0].tolist()}


def references() -> dict[str, Any]:
    """What the package was made with."""
    text = (files("fastldp.verifying") / "references.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def computed() -> dict[str, Any]:
    """The same, computed here and now."""
    return {"digests": {case.name: digest_of(solved(case)) for case in cases()}, "network": of_network()}


def verify_itself() -> Verification:
    """This installation on this machine, against the reference results that came with it."""
    began = time.perf_counter()
    expected, now = references(), computed()
    claims = []
    for precision in PRECISIONS:
        names = [name for name in expected["digests"] if name.endswith(precision)]
        wrong = [name for name in names if now["digests"].get(name) != expected["digests"][name]]
        told = f"{len(names)} solves have the bits that they have elsewhere"
        claims.append(Claim.of(precision, told, wrong))
    apart = [
        name
        for name, values in expected["network"].items()
        if not np.allclose(values, now["network"][name], rtol=CLOSE, atol=0)
    ]
    told = f"a network's models agree to {CLOSE:g}, for its products go through BLAS"
    claims.append(Claim.of("networks", told, apart))
    here = of_machine()
    note = f"{here['processor']}, {here['simd']}, {here['blas']}; {time.perf_counter() - began:.0f} s"
    return Verification("this installation", tuple(claims), SEED, (note,), beyond="")
