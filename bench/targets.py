"""What the engine should reach, and what a run of the suite found: python bench/targets.py RESULTS.json.

`scripts/bench.py` prints the same table of what it has just measured.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import jobs
import results
from frameworks import FRAMEWORKS
from results import Results

Row = tuple[str, str, str]
# What is solved, and the least ratio to each peer.
JOBS: dict[str, tuple[str, dict[str, str]]] = {
    "dense-160-float64": ("dense, 160 runs, float64", {"numpy": "≥ 6×", "jax": "≥ 4.5×"}),
    "dense-160-float32": ("dense, 160 runs, float32", {"jax": "≥ 5×", "torch": "≥ 2×"}),
    "sparse-160-float64": ("sparse (a6a's shape), 160 runs, float64", {"jax": "≥ 6×"}),
    "sparse-160-float32": ("sparse (a6a's shape), 160 runs, float32", {}),
    "dense-1-float64": ("one run, n=20, m=100, d=22", {"numpy": "≥ 5×", "jax": "≥ 5×"}),
}
# Of data that outgrow the caches: the least share of the FMA rate in both precisions, and ratio to each peer.
LARGE: dict[str, tuple[dict[str, str], str]] = {
    **dict.fromkeys(("features", "samples", "columns"), ({"float64": "≥ 75 %", "float32": "≥ 80 %"}, "≥ 2.3×")),
    "workers": ({}, "≥ 4×"),
}
BASELINES = ("DPFedAvg", "DPScaffold", "ISRLDP", "ISRLDP-accelerated")


def rows(found: Results) -> list[Row]:
    """Of what was measured, as far as it was."""
    return [*_jobs(found), *_large(found), *_ratios(found), *_shares(found), *_frameworks(found), *_starts(found)]


def _jobs(found: Results) -> list[Row]:
    """Ours and each peer's time a run-round."""
    made: list[Row] = []
    for job, (what, least) in JOBS.items():
        if (ours := found.benchmarks.get(f"bench_solve[{job}]")) is None:
            continue
        made.append((f"{what}: ours", f"{ours.time * 1e6:.2f} µs a run-round", ""))
        for peer, (seconds, ratio, paired) in of_peers(found, job).items():
            made.append((f"{what}: {peer}", f"{seconds * 1e6:.2f} µs, {_both(ratio, paired)}", least.get(peer, "")))
    return made


def of_peers(found: Results, job: str) -> dict[str, tuple[float, float, float]]:
    """Of each peer that was measured its seconds a run-round, and how many times ours that is: both ratios."""
    ours = found.benchmarks[f"bench_solve[{job}]"]
    times = {"numpy": (ours.reference_time, ours.ratio, ours.paired)}
    for peer in ("jax", "torch"):
        if (theirs := found.benchmarks.get(f"bench_peer[{peer}-{job}]")) is not None:
            # There the peer is the job and we are the reference.
            times[peer] = theirs.time, 1 / theirs.ratio, 1 / theirs.paired
    return times


class Large(NamedTuple):
    """What was measured of runs over data that outgrow the caches."""

    seconds: float  # ours, a run-round
    limits: dict[str, float]  # the seconds that its products, its reading and its noise take at the machine's limits
    peers: dict[str, tuple[float, float, float]]  # of each peer its seconds a run-round, and both ratios

    @property
    def share(self) -> float:
        """Of the FMA rate that is reached."""
        return self.limits["fma"] / self.seconds


def large(found: Results, shape: str, dtype: str) -> Large | None:
    """Of a shape, against all peers that were measured."""
    named = {peer: found.benchmarks.get(f"bench_large[{shape}-{peer}-{dtype}]") for peer in ("numpy", "jax", "torch")}
    there = {peer: one for peer, one in named.items() if one is not None}
    if not there:
        return None
    info = next(iter(there.values())).info
    rates = {"fma": ("flops", f"fma {dtype}"), "read": ("bytes", "read"), "cipher": ("noise", "cipher")}
    return Large(
        min(one.time for one in there.values()),
        {name: info[amount] / found.limits[rate] for name, (amount, rate) in rates.items()},
        {peer: (one.reference_time, one.ratio, one.paired) for peer, one in there.items()},
    )


def _large(found: Results) -> list[Row]:
    made: list[Row] = []
    for shape, (shares, least) in LARGE.items():
        n, m, d, _ = jobs.OUTGROWN[shape].size
        for dtype in ("float64", "float32"):
            if (one := large(found, shape, dtype)) is None:
                continue
            what = f"{n} × {m} × {d}, {jobs.OUTGROWN[shape].runs} runs, {dtype}"
            made.append((f"{what}: ours", f"{one.seconds * 1e6:.0f} µs a run-round", ""))
            made.append((f"{what}: share of FMA", f"{one.share:.0%}", shares.get(dtype, "")))
            for peer, (seconds, ratio, paired) in one.peers.items():
                made.append((f"{what}: {peer}", f"{seconds * 1e6:.0f} µs, {_both(ratio, paired)}", least))
    return made


def _ratios(found: Results) -> list[Row]:
    """Of our own times."""
    named, made = found.benchmarks, list[Row]()
    for what, compared, target in (
        ("float32 against our float64", "float32", "≥ 2.2×"),
        ("two cores against one, 160 runs", "cores", "≥ 1.85×"),
        ("20 runs against 160, a run", "runs", "≤ 1.3×"),
        ("shards of 50 to 150 with budgets of their own against even ones", "shards", "≤ 1.05×"),
    ):
        if (one := named.get(f"bench_own[{compared}]")) is not None:
            # How many times longer a run of twenty or on uneven shards takes, how many times less the others.
            longer = compared in ("runs", "shards")
            least, paired = (1 / one.ratio, 1 / one.paired) if longer else (one.ratio, one.paired)
            made.append((what, _both(least, paired), target))
    for method in BASELINES:
        a, b = named.get(f"bench_methods[{method}]"), named.get("bench_methods[PrimalDual]")
        if a is not None and b is not None:
            made.append((f"{method}, a local gradient against PrimalDual's", f"{a.time / b.time:.2f}×", "≤ 1.3×"))
    return made


def _both(least: float, paired: float) -> str:
    """A ratio of least times, and the median of the pairs."""
    return f"{least:.2f}× ({paired:.2f}×)"


def _shares(found: Results) -> list[Row]:
    """Of the machine's limits; of the products in a gradient alone, or of the data read."""
    wanted = [
        ("dense, 160 runs, float64: share of FMA", "bench_solve[dense-160-float64]", "of_fma", ""),
        ("dense, 160 runs, float32: share of FMA", "bench_solve[dense-160-float32]", "of_fma", ""),
        ("dense, 160 runs, float32: share of sgemm", "bench_solve[dense-160-float32]", "of_gemm", ""),
    ]
    named = found.benchmarks
    made = [(what, f"{named[name].info[key]:.0%}", target) for what, name, key, target in wanted if name in named]
    if (large := named.get("bench_round_of_large_data")) is not None:
        # Its reference reads as many bytes.
        share = f"{large.ratio:.0%} ({large.paired:.0%})"
        made.append(("one run, n=100, m=1000, d=128: share of read bandwidth", share, "≥ 75 %"))
    return made


def of_frameworks(found: Results) -> tuple[float, dict[str, float]]:
    """The seconds of a round of one worker: ours of one run alone, and those of each framework that was measured."""
    alone = found.benchmarks.get("bench_solve[dense-1-float64]")
    named = {name: found.benchmarks.get(f"bench_framework[{name}]") for name in FRAMEWORKS}
    if alone is None:
        return 0.0, {}
    return alone.time / jobs.FIRST.n, {name: one.info["worker_round"] for name, one in named.items() if one is not None}


def _frameworks(found: Results) -> list[Row]:
    ours, times = of_frameworks(found)
    return [
        (f"one run, a worker-round: {name}", f"{1e6 * seconds:,.0f} µs, {seconds / ours:,.0f}×", "")
        for name, seconds in times.items()
    ]


def _starts(found: Results) -> list[Row]:
    """Whole processes, and what sweeps cost beside their kernels."""
    wanted = [
        ("import, whole process", "bench_start[import]", ""),
        ("first solve, whole process, compiled kernels at hand", "bench_start[solve]", "≤ 1.5 s"),
        ("first solve, whole process, nothing compiled", "bench_compile", "≤ 30 s"),
    ]
    made: list[Row] = [
        (what, f"{found.benchmarks[name].time:.2f} s", target)
        for what, name, target in wanted
        if name in found.benchmarks
    ]
    for name, one in found.benchmarks.items():
        if "overhead" in one.info:
            share, each = one.info["not_in_kernels"], one.info["overhead"]
            made.append((f"{name}: not in kernels", f"{share:.1%}, {1e3 * each:.3f} ms a run", ""))
    return made


def table(found: Results) -> str:
    """As Markdown, with the machine's name and its limits."""
    machine = found.machine
    head = f"{machine['cores']} cores of {machine['processor']}, {found.date}, " + ", ".join(
        f"{library} {version}" for library, version in machine["versions"].items()
    )
    limits = ", ".join(f"{name} {rate / 1e9:.0f}" for name, rate in found.limits.items())
    lines = [f"{head}.", f"Limits, in GFlop/s and GB/s: {limits}.", "", "| job | measured | target |", "|---|---|---|"]
    return "\n".join(lines + [f"| {what} | {measured} | {target} |" for what, measured, target in rows(found)])


if __name__ == "__main__":
    print(table(results.load(Path(sys.argv[1]))))
