"""The tables and the picture of speeds, from files of results: python scripts/speed.py [RESULTS.json] [--write].

By default from the committed baseline, and of large data from a file of its own. With --write those of README.md and
docs/speed.md are made anew.
"""

import argparse
import textwrap
from pathlib import Path
from typing import NamedTuple

import environment
import jobs
import results
from compare_bench import BASELINE
from fastldp import figures
from readme import README, write
from results import Results
from targets import large, of_frameworks, of_peers

# Of bench_large alone: measured at another time, and perhaps on another machine.
LARGE = environment.ROOT / "bench" / "large.json"
PAGE, PICTURE = environment.ROOT / "docs" / "speed.md", environment.ROOT / "scripts" / "figures" / "speed.png"


class Job(NamedTuple):
    """A row of the table and a group of bars."""

    size: jobs.Size
    dtype: str
    row: str
    bars: str


JOBS = {
    "dense-160-float64": Job(
        jobs.FIRST, "float64", "n = 20, m = 100, d = 22, 160 runs, float64", "dense, 160 runs\nfloat64"
    ),
    "dense-160-float32": Job(jobs.FIRST, "float32", "the same in float32", "dense, 160 runs\nfloat32"),
    "sparse-160-float64": Job(
        jobs.SPARSE,
        "float64",
        "n = 20, m = 561, d = 123, 14 nonzeros a row, 160 runs, float64 (the peers dense)",
        "sparse, 160 runs\nfloat64",
    ),
    "dense-1-float64": Job(
        jobs.FIRST, "float64", "n = 20, m = 100, d = 22, one run, float64", "dense, one run\nfloat64"
    ),
}
PEERS = {"numpy": "NumPy", "jax": "JAX", "torch": "PyTorch"}


def microseconds(seconds: float) -> str:
    """With two digits, or all those before the point."""
    return f"{1e6 * seconds:.0f}" if seconds >= 1e-5 else f"{1e6 * seconds:#.2g}"


def limit(found: Results, job: str) -> float:
    """The seconds a run-round would take if the products of its gradients were all, at the machine's FMA rate."""
    return 4 * JOBS[job].size.entries / found.limits[f"fma {JOBS[job].dtype}"]


def table(found: Results, *, limits: bool = True) -> str:
    """A row a job: ours, each peer's with its ratio, and the limit."""
    heads = ["", "fastldp", *PEERS.values(), *["limit"] * limits]
    lines = [f"| {' | '.join(heads)} |".replace("|  |", "| |"), "|" + "---|" * len(heads)]
    for job, (_, _, row, _) in JOBS.items():
        ours, peers = found.benchmarks[f"bench_solve[{job}]"], of_peers(found, job)
        cells = [f"{microseconds(peers[peer][0])} ({peers[peer][1]:.1f}×)" if peer in peers else "" for peer in PEERS]
        cells = [row, microseconds(ours.time), *cells, *[microseconds(limit(found, job))] * limits]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def frameworks(found: Results) -> str:
    """A sentence on Flower and Opacus, where they were measured."""
    names = {"flwr": "in a Flower simulation", "opacus": "with Opacus"}
    ours, times = of_frameworks(found)
    if not times:
        return ""
    shown = [f"{1e6 * seconds:,.0f} µs {names[name]} ({seconds / ours:,.0f}×)" for name, seconds in times.items()]
    return f"One run alone, a round of one worker: {1e6 * ours:.2g} µs here, {', '.join(shown)}."


def short(found: Results) -> str:
    """What the README has."""
    words = f"""µs for one round of one run, with gradients, cryptographic noise, average, dual and prox, on
        {found.machine["cores"]} cores of an {found.machine["processor"]}; in brackets how many times ours.
        [Speed](docs/speed.md) says how it was measured."""
    return f"{fill(words)}\n\n{table(found, limits=False)}"


def section(found: Results) -> str:
    """What docs/speed.md has."""
    machine = found.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    words = f"""One round of one repetition, everything included (gradients, cryptographic noise, average, dual, prox),
        in µs on {machine["cores"]} cores of an {machine["processor"]} ({versions}). All peers compute the same thing,
        to 1e-6 without noise, in turns with ours: a ratio is of those two, not to the first column, which is ours in
        turns with NumPy. The limit is that of the gradients' products at the machine's FMA
        rate; noise and logistic function come on top. By `scripts/bench.py` and `scripts/speed.py`."""
    parts = [fill(words), table(found), fill(frameworks(found)), "![Time of a run-round](../scripts/figures/speed.png)"]
    return "\n\n".join(part for part in parts if part) + "\n"


def large_section(found: Results) -> str:
    """What docs/speed.md has of data that outgrow the caches."""
    machine = found.machine
    words = f"""µs a run-round on {machine["cores"]} cores of an {machine["processor"]}, everything included, in turns
        with each peer; in brackets how many times ours. The limits are what the machine would take for the products of
        the gradients (at {found.limits["fma float64"] / 1e9:.0f} and {found.limits["fma float32"] / 1e9:.0f} GFlop/s of
        FMA), to read data once a round and all states ({found.limits["read"] / 1e9:.0f} GB/s), and for the noise
        ({found.limits["cipher"] / 1e9:.1f} GB/s of ChaCha20, by our own kernel), if it did nothing else. The share is
        of the first. By `scripts/bench.py -k large` and `scripts/speed.py`."""
    heads = ["n × m × d, runs", "", "fastldp", "share", *PEERS.values(), "FMA", "read", "cipher"]
    lines = [f"| {' | '.join(heads)} |".replace("|  |", "| |"), "|" + "---|" * len(heads)]
    for shape, ((n, m, d, _), runs, _, _) in jobs.OUTGROWN.items():
        for dtype in ("float64", "float32"):
            if (one := large(found, shape, dtype)) is None:
                continue
            peers = [one.peers.get(peer) for peer in PEERS]
            cells = [f"{n} × {m} × {d}, {runs}", dtype, microseconds(one.seconds), f"{one.share:.0%}"]
            cells += ["" if peer is None else f"{microseconds(peer[0])} ({peer[1]:.1f}×)" for peer in peers]
            cells += [microseconds(one.limits[name]) for name in ("fma", "read", "cipher")]
            lines.append(f"| {' | '.join(cells)} |")
    return f"{fill(words)}\n\n" + "\n".join(lines) + "\n"


def fill(words: str) -> str:
    """Lines of the pages' length."""
    return textwrap.fill(" ".join(words.split()), 120)


def draw(found: Results, path: Path) -> None:
    """Bars a job, on a logarithmic axis, with the limit as a line."""
    figures.require_format(path)
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
    width = 0.8 / (1 + len(PEERS))
    for place, job in enumerate(JOBS):
        times = {"fastldp": found.benchmarks[f"bench_solve[{job}]"].time}
        times |= {PEERS[peer]: seconds for peer, (seconds, *_) in of_peers(found, job).items()}
        for bar, (name, seconds) in enumerate(times.items()):
            label = name if place == 0 else None
            ax.bar(place + (bar - 1.5) * width, 1e6 * seconds, width, color=f"C{bar}", label=label)
        ends = place - 0.4, place + 0.4
        label = "limit: products alone" if place == 0 else None
        ax.plot(ends, [1e6 * limit(found, job)] * 2, color="black", linestyle="--", linewidth=1, label=label)
    ax.set_xticks(range(len(JOBS)), [job.bars for job in JOBS.values()])
    title = f"{found.machine['cores']} cores of an {found.machine['processor']}"
    ax.set(yscale="log", ylabel="µs a round of one run", title=title)
    ax.legend(ncols=2, fontsize="small")
    figures.save(ax, path)


def main() -> None:
    """Print the section and draw its picture; put it into the pages where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=BASELINE)
    parser.add_argument("--write", action="store_true", help="make tables and picture anew")
    chosen = parser.parse_args()
    found = results.load(chosen.results)
    text = section(found)
    print(text)
    if LARGE.exists():
        of_large = large_section(results.load(LARGE))
        print(of_large)
        if chosen.write:
            write(PAGE, "large", of_large)
    if chosen.write:
        draw(found, PICTURE)
        write(PAGE, "speed", text)
        write(README, "speed", short(found))


if __name__ == "__main__":
    main()
