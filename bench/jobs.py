"""The jobs that are timed: Algorithm 1 on random data of a size, for us and for the others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import fastldp as fl
import peers
from measuring import Reference, Work

BUDGET = fl.Budget(1.0, 1e-4)
UNEVEN_BUDGET = fl.Budget(np.linspace(2.0, 1.0, 20), 1e-4)
STEP, L2, WEIGHT, BOUND = 0.25, 0.1, 0.01, 10.0
# How far a peer may be from us after ten rounds without noise, in either precision.
APART = 1e-6
# Beyond any error that noise explains; the start is at 1. What the error is, to the digit, `compare_bench` looks at.
LARGEST_ERROR = 100.0


class Size(NamedTuple):
    """Workers, samples of each, features, and nonzeros of a sample where the data is sparse."""

    n: int
    m: int
    d: int
    nonzeros: int | None = None

    @property
    def entries(self) -> int:
        """Those that a gradient multiplies by."""
        return self.n * self.m * (self.nonzeros or self.d)


FIRST = Size(20, 100, 22)  # the paper's first experiment
SPARSE = Size(20, 561, 123, 14)  # a6a
LARGE = Size(100, 1000, 128)  # beyond the caches


class Outgrown(NamedTuple):
    """Runs over data that outgrow the caches: of ours so many rounds that laying out the data is little beside them."""

    size: Size
    runs: int
    rounds: int
    theirs: int  # a peer's rounds, which take about as long


# Many features; many samples; more features than samples; and workers whose models are as large as their data.
OUTGROWN = {
    "features": Outgrown(Size(20, 1000, 300), 32, 80, 40),
    "samples": Outgrown(Size(100, 1000, 100), 16, 80, 40),
    "columns": Outgrown(Size(10, 500, 2000), 16, 100, 40),
    "workers": Outgrown(Size(1000, 50, 50), 16, 200, 60),
}
SMALL = Size(8, 25, 20)  # stands in for them where nothing is timed


@dataclass(frozen=True, eq=False)
class Case:
    """A problem as we take it and as the peers do."""

    size: Size
    problem: fl.Problem
    A: Any  # (n, m, d)
    b: Any  # (n, m)


@cache
def case(size: Size, dtype: str = "float64") -> Case:
    """Random data of a size: sparse for us and dense for the peers where it has zeros."""
    rng = np.random.default_rng(0)
    n, m, d, nonzeros = size
    A = rng.standard_normal((n * m, d), dtype=np.float32).astype(np.float64) / np.sqrt(d)
    if nonzeros is not None:
        kept = rng.random((n * m, d), dtype=np.float32).argpartition(nonzeros, axis=1)[:, :nonzeros]
        A = np.zeros((n * m, d))
        np.put_along_axis(A, kept, 1.0, axis=1)
    scores = A @ rng.standard_normal(d)
    b = np.where(scores + rng.standard_normal(n * m) > 0, 1.0, -1.0)
    data: Any = A if nonzeros is None else sparse.csr_array(A)
    g = fl.BoxL1(WEIGHT, BOUND)
    problem = fl.Problem(data, b, workers=n, l2=L2, regularizer=g, dtype=dtype)
    return Case(size, problem, A.reshape(n, m, d), b.reshape(n, m))


@cache
def smooth(size: Size) -> Case:
    """The same without its regularizer: what all methods can solve."""
    given = case(size)
    return replace(given, problem=given.problem.replace(regularizer=fl.Zero()))


@cache
def uneven(size: Size) -> Case:
    """The same rows in shards from half to one and a half of m; for us alone, peers have no such thing."""
    given = case(size)
    sizes = np.linspace(0.5 * size.m, 1.5 * size.m, size.n).astype(int)
    sizes[-1] += size.n * size.m - sizes.sum()
    owners = np.repeat(np.arange(size.n), sizes)
    problem = fl.Problem(
        given.A.reshape(-1, size.d), given.b.reshape(-1), workers=owners, l2=L2, regularizer=given.problem.regularizer
    )
    return replace(given, problem=problem)


def ours(
    given: Case, runs: int, rounds: int, n_jobs: int | None = None, algorithm: Any = None, budget: fl.Budget = BUDGET
) -> Callable[[], fl.Solution]:
    """One solve, privately, of so many runs and rounds."""
    method = fl.PrimalDual(step=STEP) if algorithm is None else algorithm
    return lambda: fl.solve(
        given.problem,
        budget,
        rounds=rounds,
        algorithm=method,
        repetitions=runs,
        seed=0,
        record=fl.Final(),
        n_jobs=n_jobs,
    )


def theirs(name: str, given: Case, runs: int, rounds: int) -> peers.Runner:
    """The same job by a peer, which is first shown to compute the same thing."""
    difference = apart(name, given)
    if not difference <= APART:
        raise AssertionError(f"{name} computes something else: {difference:.3g} apart after ten rounds")
    return peers.PEERS[name](peer_job(given, runs, rounds, deviation=0.02))


@cache
def apart(name: str, given: Case) -> float:
    """How far a peer is from us after ten rounds without noise: two runs in lanes, and one that has them to itself."""
    theirs = peers.PEERS[name](peer_job(given, 2, 10))()
    return max(float(np.abs(theirs[:runs] - noiseless(given, 10, runs)).max()) for runs in (1, 2))


@cache
def noiseless(given: Case, rounds: int, runs: int = 1) -> Any:
    """Our models, of runs without noise."""
    problem = unmeasured(given).problem
    return fl.solve(problem, rounds=rounds, repetitions=runs, algorithm=fl.PrimalDual(step=STEP)).workers


def unmeasured(given: Case) -> Case:
    """The same where errors are not looked at: an optimum of large data takes long, so zero is taken for it."""
    problem = given.problem.replace()
    problem.__dict__["_optimum"] = np.zeros(problem.d)
    return replace(given, problem=problem)


def peer_job(given: Case, runs: int, rounds: int, deviation: float = 0.0) -> peers.Job:
    """What a peer is given."""
    deviations = np.full(rounds, deviation)
    return peers.Job(given.A, given.b, runs, rounds, STEP, L2, WEIGHT, BOUND, deviations, given.problem.dtype)


def numpy_reference(given: Case, runs: int, rounds: int) -> Reference:
    """NumPy at the same job: one run in a loop over rounds, several in one matmul a round."""
    name = "numpy loop" if runs == 1 else "numpy batched"
    return Reference("numpy", theirs(name, given, runs, rounds), runs * rounds)


def yardstick() -> Reference:
    """NumPy at the first experiment, for what has no counterpart in NumPy: how fast this machine is at the moment."""
    return numpy_reference(case(FIRST), 1, 100)


def work(given: Case, runs: int, rounds: int, gradients: int = 1, threads: int | None = None) -> Work:
    """Products and sums of the gradients alone, what a round must read (data once, and the state), and its noise."""
    size, dtype = given.size, given.problem.dtype
    itemsize = np.dtype(dtype).itemsize
    index = 0 if size.nonzeros is None else 4
    data = size.entries * (itemsize + index) / runs
    state = 6 * size.n * size.d * itemsize
    noise = size.n * words(size.d, dtype)
    return Work(runs * rounds * gradients, 4 * size.entries, data + state, dtype, threads, noise)


def words(d: int, dtype: str) -> int:
    """The bytes of ChaCha20 that make a noise: a block of 64 has 8 normals, or 16 in single precision."""
    groups, left = divmod(d, 16)
    if dtype == "float32":
        return 64 * (groups + (left > 0))
    return 64 * (2 * groups + (left > 0) + (left > 8))


def final_error(solution: fl.Solution) -> float:
    """The mean optimality at the end."""
    return float(solution.optimality[:, -1].mean())
