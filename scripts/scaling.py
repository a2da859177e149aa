"""What a solve costs as n, m, d, nonzeros, T and runs grow, one at a time: python scripts/scaling.py [PICTURE].

Prints a table and draws cost against size on logarithmic axes, with fitted slopes; threads too, where there are more
than two cores. Takes some two minutes, and `pip install '.[bench,plot]'`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import environment
import jobs
from fastldp import figures
from fastldp.engine.driving import available_cores
from measuring import timed

FACTORS = (1, 2, 4, 8)
TRIALS = 5


class Shape(NamedTuple):
    """A solve; by default one whose rounds cost what its data does, rather than logistic function or noise."""

    n: int = 8
    m: int = 2000
    d: int = 512
    nonzeros: int | None = 60
    rounds: int = 20
    runs: int = 16
    threads: int = 1


# Dense where the features grow: sparse data costs by its nonzeros, however many features there are.
DENSE = Shape(m=500, d=32, nonzeros=None)
GROWN: dict[str, Shape] = {
    "n": Shape(),
    "m": Shape(),
    "d": DENSE,
    "nonzeros": Shape(),
    "rounds": Shape(),
    "runs": Shape(),
}
# Many runs, so that every thread has blocks of its own.
THREADS = Shape(runs=256)


def solve(shape: Shape) -> Callable[[], Any]:
    """The solve of a shape."""
    given = jobs.unmeasured(jobs.case(jobs.Size(shape.n, shape.m, shape.d, shape.nonzeros)))
    return jobs.ours(given, shape.runs, shape.rounds, n_jobs=shape.threads)


def least(solves: list[Callable[[], Any]]) -> NDArray[np.float64]:
    """The least seconds of each, in turns; the first time, which may compile, does not count."""
    times = [[timed(solve) for solve in solves] for _ in range(TRIALS + 1)]
    return np.asarray(np.min(np.array(times[1:]), axis=0))


def slope(sizes: NDArray[np.float64], costs: NDArray[np.float64]) -> float:
    """The exponent k of cost ∝ sizeᵏ."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def measure() -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Sizes and costs of everything that grows."""
    found = {}
    for name, base in GROWN.items():
        shapes = [base._replace(**{name: factor * getattr(base, name)}) for factor in FACTORS]
        found[name] = np.array([float(getattr(shape, name)) for shape in shapes]), least([solve(s) for s in shapes])
    if (cores := available_cores()) > 2:
        counts = sorted({*(2**k for k in range(cores.bit_length())), cores})
        shapes = [THREADS._replace(threads=count) for count in counts]
        found["threads"] = np.array(counts, dtype=np.float64), least([solve(shape) for shape in shapes])
    return found


def draw(found: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]], path: Path) -> None:
    """Cost against size, both relative to the smallest."""
    figures.require_format(path)
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
    for name, (sizes, costs) in found.items():
        ax.plot(sizes / sizes[0], costs / costs[0], marker="o", label=f"{name}: slope {slope(sizes, costs):.2f}")
    ax.plot(FACTORS, FACTORS, color="0.6", linestyle=":", label="in proportion")
    ax.set(xscale="log", yscale="log", xlabel="size, relative to the smallest", ylabel="time, relative to the smallest")
    ax.legend()
    figures.save(ax, path)


def main() -> None:
    """The table and the picture."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else environment.workplace() / "out" / "scaling.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = measure()
    print("| what grows | sizes | milliseconds | ×4 | ×8 | slope |\n|---|---|---|---|---|---|")
    for name, (sizes, costs) in found.items():
        shown = ", ".join(f"{size:g}" for size in sizes), ", ".join(f"{1e3 * cost:.1f}" for cost in costs)
        grown = dict(zip(sizes / sizes[0], costs / costs[0], strict=True))
        by_four, by_eight = (f"{grown[factor]:.2f}×" if factor in grown else "" for factor in (4, 8))
        print(f"| {name} | {shown[0]} | {shown[1]} | {by_four} | {by_eight} | {slope(sizes, costs):.2f} |")
    draw(found, path)
    print(f"\ndrawn to {path}")


if __name__ == "__main__":
    main()
