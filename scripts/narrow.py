"""Data kept in narrow types beside the same data kept wide: python scripts/narrow.py [--write].

Rounds of two blocks in turns, one over the data as the engine keeps them and one over floats of the runs' precision, on
one thread; the least time of each, and a check that all bits of their states are the same. With --write the table is
put into docs/speed.md. Takes some four minutes beside compilation.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import environment
import fastldp as fl
import jobs
from fastldp.engine import driving, layouts, recording
from fastldp.engine.block import Block
from fastldp.engine.runs import Lane, Runs
from readme import write

PAGE = environment.ROOT / "docs" / "speed.md"
BUDGET, STEP, ROUNDS = fl.Budget(1.0, 1e-4), 1e-6, 10**6
# How long a turn is, and how long all turns of a block are together.
TURN, SECONDS = 0.01, 1.0
# The runs of a full block over sparse data.
TOGETHER = 16
Array = NDArray[Any]


class Data(NamedTuple):
    """What workers hold, by its name in the table."""

    name: str
    size: jobs.Size
    entries: Callable[[np.random.Generator, tuple[int, ...]], Array]


def ones(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """As categories are coded."""
    return np.ones(shape)


def counts(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """As words in a text are."""
    return rng.integers(1, 10, shape).astype(np.float64)


def digits(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Answers on a scale."""
    return rng.integers(0, 10, shape).astype(np.float64)


def grey(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Bytes, as images have them."""
    return rng.integers(0, 256, shape).astype(np.float64)


def measured(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers that were single before they became double."""
    return rng.standard_normal(shape, dtype=np.float32).astype(np.float64)


FEATURES, COLUMNS = jobs.OUTGROWN["features"].size, jobs.OUTGROWN["columns"].size
WORDS = jobs.Size(20, 2500, 300, 12)  # w8a
DATA = (
    Data("0 … 9", FEATURES, digits),
    Data("bytes", FEATURES, grey),
    Data("single", FEATURES, measured),
    Data("bytes", COLUMNS, grey),
    Data("ones", jobs.SPARSE, ones),
    Data("ones", WORDS, ones),
    Data("1 … 9", WORDS, counts),
    Data("single", WORDS, measured),
)


def problem_of(data: Data, dtype: str) -> fl.Problem:
    """Random data of a kind."""
    rng = np.random.default_rng(0)
    n, m, d, nonzeros = data.size
    A: Any
    if nonzeros is None:
        A = data.entries(rng, (n * m, d))
    else:
        columns = rng.random((n * m, d), dtype=np.float32).argpartition(nonzeros, axis=1)[:, :nonzeros]
        starts = np.arange(0, n * m * nonzeros + 1, nonzeros)
        A = sparse.csr_array((data.entries(rng, (columns.size,)), columns.ravel(), starts), shape=(n * m, d))
    b = rng.choice([-1.0, 1.0], n * m)
    return fl.Problem(A, b, workers=n, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0), gradient_bound=1.0, dtype=dtype)


def block(problem: fl.Problem, runs: int) -> Block:
    """So many runs, their data laid out now."""
    schedule = fl.PrimalDual(step=STEP).schedule(problem, BUDGET, ROUNDS)
    keys = np.random.default_rng(1).integers(0, 2**32, (runs, 8), dtype=np.uint32)
    nowhere = np.zeros(problem.d)
    these = Runs(problem, schedule, nowhere, keys, recording.timetable(fl.Final(), ROUNDS, problem.n), nowhere)
    samples, alone = driving._laid_out(problem, [these], single=runs == 1, runs=runs)
    return Block(samples, [Lane(these, k) for k in range(runs)], alone=alone)


@contextmanager
def wide() -> Iterator[None]:
    """What is laid out meanwhile is in floats of the runs' precision."""
    with (
        mock.patch.object(layouts, "narrowest", lambda values, dtype: dtype),
        mock.patch.object(layouts, "signs_of", return_value=None),
    ):
        yield


def compare(problem: fl.Problem, runs: int) -> tuple[float, float] | None:
    """Seconds of a round in narrow types, and wide; nothing where both are the same."""
    blocks = [block(problem, runs)]
    with wide():
        blocks.append(block(problem, runs))
    types = [(one.samples.values.dtype, getattr(one.samples, "signs", False)) for one in blocks]
    if types[0] == types[1]:
        return None
    for one in blocks:
        one.advance(1)  # compiles
    rounds = max(1, round(TURN / max(seconds(one, 2) for one in blocks)))
    times: list[list[float]] = [[], []]
    for end in range(2 + rounds, ROUNDS, rounds):
        for one, taken in zip(blocks, times, strict=True):
            taken.append(seconds(one, end))
        if sum(times[0]) > SECONDS:
            break
    if blocks[0].state.models.tobytes() != blocks[1].state.models.tobytes():
        raise AssertionError("narrow data give other bits")
    narrow, as_floats = (min(taken) / rounds for taken in times)
    return narrow, as_floats


def seconds(one: Block, end: int) -> float:
    """How long a thread works on a block up to a round, whatever else runs on the machine."""
    began = time.thread_time()
    one.advance(end)
    return time.thread_time() - began


def shown(taken: float) -> str:
    """Seconds as µs, of three digits."""
    return f"{float(f'{1e6 * taken:.3g}'):,g}"


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/speed.md")
    chosen = parser.parse_args()
    head = "data | n × m × d | | one run, wide | narrow | 16 runs, wide | narrow"
    lines = [f"| {head} |", "|---|---|---|---|---|---|---|"]
    for data in DATA:
        n, m, d, nonzeros = data.size
        shape = f"{n} × {m} × {d}" + ("" if nonzeros is None else f", {nonzeros} nonzeros a row")
        for dtype in layouts.LANES:
            problem, cells = problem_of(data, dtype), []
            for runs in (1, TOGETHER):
                found = compare(problem, runs)
                if found is None:
                    cells += ["", ""]
                    continue
                narrow, as_floats = found
                cells += [shown(as_floats / runs), f"{shown(narrow / runs)} ({as_floats / narrow:.2f}×)"]
            lines.append(f"| {' | '.join([data.name, shape, dtype, *cells])} |")
            print(lines[-1], flush=True)
    words = (
        "µs a run-round on one thread, in turns; in brackets how many times faster, and nothing where data are kept as "
        "they are. By `scripts/narrow.py`."
    )
    table = f"{words}\n\n" + "\n".join(lines)
    print(f"\n{table}")
    if chosen.write:
        write(PAGE, "narrow", table)


if __name__ == "__main__":
    main()
