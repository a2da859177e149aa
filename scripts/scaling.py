"""What a solve costs as n, m, d, nonzeros, T and runs grow, one at a time: python scripts/scaling.py [FOLDER].

Prints a table and draws cost against size on logarithmic axes, with fitted slopes; threads too, where there are more
than two cores. Then data grow through the caches, and the share of the machine's limit is drawn against their size;
with --caches only that, and with --write it is put into docs/speed.md. Takes some four minutes, and
`pip install '.[bench,plot]'`.
"""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import environment
import jobs
import limits
from fastldp import figures
from fastldp.engine.driving import available_cores
from measuring import Work, timed
from readme import write

FACTORS = (1, 2, 4, 8)
TRIALS = 5
PAGE, PICTURE = environment.ROOT / "docs" / "speed.md", environment.ROOT / "scripts" / "figures" / "caches.png"


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
# Data that grow through the caches: samples of 100 features on 20 workers. What their rounds cost is the difference of
# two solves, of about so many seconds and of three times as many.
SAMPLES = (10, 30, 100, 300, 1000, 3000)
SOLVE_SECONDS, FASTEST = 0.1, 10e9  # at so many operations a second, as one run alone takes
CURVES = {
    "32 runs, float64": (32, "float64"),
    "32 runs, float32": (32, "float32"),
    "one run, float64": (1, "float64"),
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


class Point(NamedTuple):
    """A solve over data of a size."""

    bytes: float
    seconds: float  # a run-round
    limits: dict[str, float]  # the seconds of its products, its reading and its noise at the machine's limits

    @property
    def binding(self) -> str:
        """The limit that binds; data that stay in the last cache need not be read from memory."""
        return max(self.limits, key=lambda name: self.limits[name])

    @property
    def share(self) -> float:
        """Of the limit that binds."""
        return self.limits[self.binding] / self.seconds


def through_caches() -> dict[str, list[Point]]:
    """Points of all curves."""
    found: dict[str, list[Point]] = {}
    last = max(limits.caches().values(), default=0)
    for name, (runs, dtype) in CURVES.items():
        for m in SAMPLES:
            size = jobs.Size(20, m, 100)
            rounds = max(3, int(SOLVE_SECONDS * FASTEST / (4 * size.entries * runs)))
            given = jobs.unmeasured(jobs.case(size, dtype))
            # What rounds cost beyond what a solve does once, such as laying out the data.
            few, many = least([jobs.ours(given, runs, rounds), jobs.ours(given, runs, 3 * rounds)])
            seconds = float(many - few) / (2 * rounds * runs)
            data = float(size.entries * np.dtype(dtype).itemsize)
            found.setdefault(name, []).append(Point(data, seconds, limits_of(jobs.work(given, runs, 1), data > last)))
    jobs.case.cache_clear()
    return found


def limits_of(work: Work, from_memory: bool) -> dict[str, float]:
    """The seconds of a run-round at each of the machine's limits."""
    found = {"FMA": work.flops / limits.flops(work.dtype), "cipher": work.noise / limits.cipher()}
    return found | ({"read": work.bytes / limits.read()} if from_memory else {})


def table_of_caches(found: dict[str, list[Point]]) -> str:
    """A row a size, of every curve the time and what it is of the limit that binds."""
    levels = ", ".join(f"{level} {size / 2**20:.3g} MB" for level, size in limits.caches().items())
    lines = [f"| data, float64 | {' | '.join(found)} |", "|" + "---|" * (1 + len(found))]
    for samples, *points in zip(SAMPLES, *found.values(), strict=True):
        cells = [f"{1e6 * one.seconds:#.3g} µs, {one.share:.0%} of {one.binding}" for one in points]
        lines.append(f"| {8 * 20 * samples * 100 / 1e6:#.2g} MB | {' | '.join(cells)} |")
    return f"Caches of a core: {levels}.\n\n" + "\n".join(lines)


def draw_caches(found: dict[str, list[Point]], path: Path) -> None:
    """The share of the limit that binds against the size of the data."""
    figures.require_format(path)
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, points in found.items():
        ax.plot([point.bytes for point in points], [point.share for point in points], marker="o", label=name)
    for level, size in limits.caches().items():
        ax.axvline(size, color="0.7", linestyle="--", linewidth=1)
        ax.annotate(level, (size, 1.02), xycoords=("data", "axes fraction"), ha="center", color="0.4")
    ax.set(xscale="log", ylim=(0, 1.05), xlabel="bytes of data", ylabel="share of the limit that binds")
    ax.legend()
    figures.save(ax, path)


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
    """The tables and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=environment.workplace() / "out")
    parser.add_argument("--caches", action="store_true", help="only data that grow through the caches")
    parser.add_argument("--write", action="store_true", help="put these into docs/speed.md")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if not chosen.caches:
        costs(chosen.folder / "scaling.png")
    points = through_caches()
    table, path = table_of_caches(points), chosen.folder / "caches.png"
    print(f"\n{table}")
    draw_caches(points, path)
    print(f"\ndrawn to {path}")
    if chosen.write:
        shutil.copyfile(path, PICTURE)
        write(PAGE, "caches", table)


def costs(path: Path) -> None:
    """The table and the picture of what grows."""
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
