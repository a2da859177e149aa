"""A round of a run alone, of all samples and of those drawn at some rates, in turns: python bench/drawing.py.

The least of several turns each, on one thread, and how many times faster than of all samples a round is.
"""

import argparse
import time

import numpy as np

import fastldp as fl
from fastldp.engine import driving
from fastldp.engine.block import Block
from fastldp.engine.recording import Final, timetable
from fastldp.engine.runs import Lane, Runs
from fastldp.noise import Noise

RATES = (0.5, 0.2, 0.1, 0.05, 0.01)


def block_of(problem: fl.Problem, rate: float, rounds: int) -> Block:
    """A run alone, ready to be advanced."""
    method = fl.ISRLDP(0.1, sampling=rate)
    schedule = method.schedule(problem, fl.Budget(1.0, 1e-6), rounds)
    start = np.zeros(problem.d)
    keys = Noise.checked(0, False).keys(range(1), lambda: b"")
    runs = Runs(problem, schedule, start, keys, timetable(Final(), rounds, problem.n), start)
    samples, alone = driving.laid_out_alone(problem, problem, schedule.program)
    return Block(samples, [Lane(runs, 0)], alone=alone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10_000, help="of a worker")
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3, help="in a turn")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    A = rng.standard_normal((given.workers * given.rows, given.features)) / np.sqrt(given.features)
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=given.workers, l2=0.1, row_bound=2.0)
    total = given.rounds * (given.turns + 1)
    blocks = {rate: block_of(problem, rate, total) for rate in (1.0, *RATES)}
    least = dict.fromkeys(blocks, np.inf)
    for turn in range(given.turns + 1):
        for rate, block in blocks.items():
            began = time.perf_counter()
            block.advance(block.done + given.rounds)
            if turn:  # the first compiles
                least[rate] = min(least[rate], (time.perf_counter() - began) / given.rounds)
    print(f"{given.workers} workers of {given.rows:,} rows of {given.features} features, one thread")
    for rate, seconds in least.items():
        print(f"rate {rate:>5g}   {1e3 * seconds:8.3f} ms a round   {least[1.0] / seconds:6.2f} times as fast")


if __name__ == "__main__":
    main()
