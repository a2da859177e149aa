"""Put faults into the shipped sources, one at a time, and see what the audit says of each.

python scripts/mutants.py             all of them: each compiles its kernels anew, half an hour
python scripts/mutants.py --jobs 2    two at a time
python scripts/mutants.py --list
python scripts/mutants.py "every fifth worker" "32-bit seeds"

A mutant is the package with a few words of one source replaced, audited in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
RELEASE, GAUSSIAN, PRIVATIZE = "kernels.release", "kernels.gaussian", "kernels.privatize"
CLIPPING = "kernels.clipping"
ADDRESS = "d - j <= 8, (t, release.first + i, k), deviation)"
WHOLE = "whole = (query + coarse) - coarse"
ROUNDED = "noise = (fma(normal, deviation, query - whole) + fine) - fine"
ALL_ROWS = (
    "    inside = _sum_all(objective, samples, i, X, row, scratch.scaled, scratch.gradient, share, counting, draw)\n"
)
WITHIN = "    within = objective.reach > 0 and _within(objective, samples, i, squares)\n    # Some rows at a time"
PER_BATCH = """\
    inside = _sum_all(objective, samples, i, X, row, scratch.scaled, scratch.gradient, share, counting, draw)
    squares = broadcast(0.0, load(scratch.gradient, share, 0))
    for j in range(X.shape[1]):
        squares = fma(load(scratch.gradient, share, j), load(scratch.gradient, share, j), squares)
    most = load(objective.clip, 0) * float(samples.firsts[i + 1] - samples.firsts[i])
    scale = minimum(broadcast(1.0, squares), most / sqrt(squares))
    for j in range(X.shape[1]):
        store(load(scratch.gradient, share, j) * scale, scratch.gradient, share, j)
"""


class Mutant(NamedTuple):
    """Words of a module and what they become, what is to be found, and what to audit it with."""

    module: str
    right: str
    wrong: str
    found: str
    """Part of a finding; of a fault that cannot be seen, part of what the report says was not."""
    method: str = "PrimalDual"
    workers: int = 2
    epsilon: float = 2.0
    transcripts: int = 2000
    also: tuple[tuple[str, str], ...] = ()
    """Further words, and what they become."""
    seen: bool = True


MUTANTS = {
    # Noise that is used twice.
    "all workers": Mutant(RELEASE, ADDRESS, "d - j <= 8, (t, 0, k), deviation)", "correlated between workers"),
    "every fifth worker": Mutant(
        RELEASE, ADDRESS, "d - j <= 8, (t, i % 5, k), deviation)", "between workers 0 and 5", workers=6
    ),
    "next worker, last round": Mutant(
        RELEASE, ADDRESS, "d - j <= 8, (t + i, 0, k), deviation)", "between workers 0 and 1 (round 2, round 1)"
    ),
    "all rounds": Mutant(
        RELEASE, ADDRESS, "d - j <= 8, (1, release.first + i, k), deviation)", "correlated between rounds"
    ),
    "two rounds": Mutant(
        RELEASE, ADDRESS, "d - j <= 8, ((t + 1) // 2, release.first + i, k), deviation)", "correlated between rounds"
    ),
    "all repetitions": Mutant(
        "noise", "key_of(secret, repetition, bound)", "key_of(secret, 0, bound)", "correlated between transcripts"
    ),
    "every thousandth repetition": Mutant(
        "noise", "key_of(secret, repetition, bound)", "key_of(secret, repetition % 1000, bound)", "have the same noise"
    ),
    "all lanes of a block": Mutant(
        "engine.block",
        "= group.runs.keys[group.repetitions].T",
        "= group.runs.keys[group.repetitions[:1]].T",
        "correlated between transcripts",
    ),
    "all purposes": Mutant(
        RELEASE, ADDRESS, "d - j <= 8, (t, release.first + i, 0), deviation)", "correlated between purposes", "DPFedAvg"
    ),
    "the warm start and round 1": Mutant(
        "kernels.rounds",
        "call(calls.release, (place, now, t, i, k, share))",
        "call(calls.release, (place, now, max(t, 1), i, k, share))",
        "correlated between rounds (warm start",
        "DPScaffold",
    ),
    "32-bit seeds": Mutant(
        "noise", "key_of(secret, repetition, bound)", "key_of(secret % 2**32, repetition, bound)", "differ in bit"
    ),
    "keys not bound to the run": Mutant(
        "noise", 'bound = run() if self.origin == SEEDED else b""', 'bound = b""', "between runs of one seed"
    ),
    "one radius for all": Mutant(
        GAUSSIAN,
        "a0, b0 = load_as(kind, rows, k), load_as(kind, rows, k + further)",
        "a0, b0 = load_as(kind, rows, 0), load_as(kind, rows, further)",
        "in size",
    ),
    # The wrong amount of noise, or a promise of the wrong amount.
    "half of the sensitivity": Mutant(
        "privacy.ledger", "query = 2 * bound / divisors", "query = bound / divisors", "more than the sensitivity"
    ),
    "0.9 of the sensitivity": Mutant(
        "privacy.ledger", "query = 2 * bound / divisors", "query = 1.8 * bound / divisors", "more than the sensitivity"
    ),
    "0.95 of the noise": Mutant("engine.block", "kind] = part", "kind] = 0.95 * part", "of the claimed variance"),
    "half of the noise, last worker": Mutant(
        "engine.block",
        "self.stack(runs.schedule.factors for",
        "self.stack(runs.schedule.factors * np.append(np.ones(problem.n - 1), 0.5) for",
        "the noise of worker 2 has 0.2",
        workers=3,
    ),
    "variances backwards": Mutant(
        "engine.block",
        "[runs.schedule.deviations for runs",
        "[runs.schedule.deviations[::-1] for runs",
        "of the claimed variance",
    ),
    "the warm start not counted": Mutant(
        "methods.schedule",
        "releases = program.divisors(problem), program.releases(rounds)",
        "releases = program.divisors(problem), program.local_steps * rounds",
        "the ledger counts",
        "DPScaffold",
    ),
    "a run alone": Mutant(
        RELEASE,
        "normal, dither = load(release.normals, i, place, j), load(release.dithers, i, place, j)",
        "normal, dither = 0.5 * load(release.normals, i, place, j), load(release.dithers, i, place, j)",
        "a run alone releases other noise",
        workers=1,
    ),
    # Another query than the ledger is made for.
    "clipping left out": Mutant(
        "engine.block",
        "clips = [program.enforced(problem) for",
        "clips = [np.inf for",
        "the mean of the loss",
        epsilon=8.0,
    ),
    "clipping 10 % lax": Mutant(
        "engine.block",
        "clips = [program.enforced(problem) for",
        "clips = [1.1 * program.enforced(problem) for",
        "the mean of the loss",
        epsilon=8.0,
        transcripts=20_000,
    ),
    "clipping per batch": Mutant(
        "kernels.gradient",
        ALL_ROWS,
        PER_BATCH,
        "the mean of the loss",
        epsilon=8.0,
        also=(
            (WITHIN, WITHIN.replace("objective.reach > 0 and _within(objective, samples, i, squares)", "True")),
            ("    lane_sum,\n    load,\n", "    lane_sum,\n    load,\n    minimum,\n    sqrt,\n"),
        ),
    ),
    "slopes not limited": Mutant(
        "kernels.formulas",
        "store(minimum(limit, maximum(s, -limit)), slopes, k)",
        "store(s, slopes, k)",
        "the mean of the loss",
        epsilon=8.0,
    ),
    "queries 10 % too large": Mutant(
        "engine.block", '"weight": (1.0 /', '"weight": (1.1 /', "the mean of the loss", epsilon=8.0, transcripts=20_000
    ),
    "the dual sent along": Mutant(
        "methods.primal_dual",
        "return load(run.X, i, j) - self.step * run.pace * load(run.dual, i, j)",
        "return load(run.X, i, j) - 2.0 * self.step * load(run.dual, i, j)",
        "of the claimed variance",
    ),
    "the dual sent along to neighbours": Mutant(
        "methods.gossip",
        "+ load(run.dual, i, j)",
        "+ 2.0 * load(run.dual, i, j)",
        "of the claimed variance",
        method="graph",
        workers=3,
    ),
    "half of the noise among neighbours": Mutant(
        "methods.gossip",
        "fma(shrink, x, load(run.noisy, j))",
        "fma(shrink, x, 0.5 * load(run.noisy, j))",
        "of the claimed variance",
        method="graph",
        workers=3,
    ),
    # Another law.
    "off the grid": Mutant(
        RELEASE,
        "h0 = privatize(release.mode, load(gradient, share, j + c) * weight, common, n0, u0)",
        "h0 = privatize(1, load(gradient, share, j + c) * weight, common, n0, u0)",
        "off the public grid",
    ),
    "rounding before adding": Mutant(
        PRIVATIZE,
        WHOLE,
        "whole = (query + fine) - fine",
        "off the public grid",
        also=((ROUNDED, "noise = normal * deviation"),),
    ),
    "dithers left out": Mutant(
        GAUSSIAN, "convert(word & 0x7FF, like) - 1023.5", "convert(word & 0x7FF, like) * 0.0", "off the public grid"
    ),
    "a tail cut off": Mutant(
        GAUSSIAN, "sqrt(-2.0 * log(u1))", "sqrt(-2.0 * log(0.999 * u1 + 0.001))", "is not Gaussian", transcripts=20_000
    ),
    # Networks.
    "network: clipping left out": Mutant(
        "kernels.network",
        "scale = minimum(load(counted, g), broadcast(clip, square) / sqrt(square))",
        "scale = minimum(load(counted, g), broadcast(1e9, square) / sqrt(square))",
        "the mean of the loss",
        "MLP",
    ),
    "network: all workers": Mutant(
        RELEASE, "groups, (t, release.first + i, k), True)", "groups, (t, 0, k), True)", "between workers", "MLP"
    ),
    "network: all groups of coordinates": Mutant(
        RELEASE,
        "groups = lane_numbers(words_like(load(release.normals, 0, 0))) + np.uint32(group)",
        "groups = (lane_numbers(words_like(load(release.normals, 0, 0))) & 0) + np.uint32(group)",
        "correlated between coordinates",
        "MLP",
    ),
    # What an audit of usual size never shows, and says so.
    "constant dithers": Mutant(
        GAUSSIAN,
        "convert(word & 0x7FF, like) - 1023.5",
        "convert(word & 0x7FF, like) * 0.0 - 0.5",
        "dithers: constant",
        seen=False,
    ),
    "query and noise rounded apart": Mutant(
        PRIVATIZE,
        WHOLE,
        "whole = (query + fine) - fine",
        "rounding of a query",
        also=((ROUNDED, "noise = (normal * deviation + fine) - fine"),),
        seen=False,
    ),
    # Clipping that adapts.
    "a count without noise": Mutant(
        CLIPPING,
        "on_grid(deviation), normal, dither)",
        "on_grid(deviation), 0.0 * normal, dither)",
        "of counts: the noise",
        method="adaptive",
    ),
    "two early counts with the same noise": Mutant(
        CLIPPING,
        "address = abs(t), release.first + i,",
        "address = abs(t) // 2, i,",
        "between counts",
        method="adaptive",
    ),
    "early counts not multiplied where it is said": Mutant(
        CLIPPING, "    elif t == 0:\n", "    elif t == 0 and False:\n", "the noise", method="adaptive"
    ),
    "a count with the noise of a gradient": Mutant(
        CLIPPING,
        "abs(t), release.first + i, COUNT if t > 0 else",
        "abs(t), i, 0 if t > 0 else",
        "between count",
        method="adaptive",
    ),
    "a threshold of counts as they are": Mutant(
        CLIPPING,
        "store(select(counts, query, broadcast(0.0, query)), clipping.released, i)",
        "store(select(counts, load(state.inside, share) * clipping.part, 0.0 * query), clipping.released, i)",
        "the noise",
        method="adaptive",
    ),
    "a threshold of counts not yet released": Mutant(
        "kernels.rounds",
        "            if counts:\n",
        "            if counts:\n                call(calls.adapt, (place, now, t))\n",
        "the noise",
        method="adaptive",
    ),
    "counts that spend more than is said": Mutant(
        "methods.clipping",
        "np.sqrt(self.variances[: self.clip.early])",
        "0.8 * np.sqrt(self.variances[: self.clip.early])",
        "of counts: the noise",
        method="adaptive",
    ),
}


def small(wide: bool = False, **changes: Any) -> Any:
    """Within the box both gradients of a replaced sample are clipped; wide, it has two pairs of coordinates."""
    import fastldp as fl

    A = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0], [0.8, -0.6], [0.6, -0.8], [1.0, 0.0]])
    given: dict[str, Any] = {"workers": 2, "l2": 1.0, "regularizer": fl.Box(0.25), "gradient_bound": 1.0}
    return fl.Problem(np.hstack([A, A[::-1]]) if wide else A, [1, -1, 1, 1, -1, 1], **(given | changes))


def small_network(**changes: Any) -> Any:
    """Three workers, and parameters enough for three groups of the noise."""
    import fastldp as fl

    rng = np.random.default_rng(0)
    labels = np.arange(15) % 3
    images = rng.standard_normal((3, 6))[labels] + rng.standard_normal((15, 6))
    return fl.MLP(images, labels, **({"hidden": 4, "workers": 3, "clip": 0.5} | changes))


def audit(mutant: Mutant) -> Any:
    """Of whatever package is imported here."""
    import fastldp as fl

    linear = small(wide=True, workers=mutant.workers)
    free = small(wide=True, workers=mutant.workers, regularizer=fl.Zero())
    subjects: dict[str, tuple[Any, Any]] = {
        "PrimalDual": (linear, fl.PrimalDual()),
        "DPFedAvg": (free, fl.DPFedAvg(0.05, 2)),
        "DPScaffold": (free, fl.DPScaffold(0.05, 2, warm_start=True)),
        "graph": (linear, fl.PrimalDual(topology="star", failures=0.3)),
        "MLP": (small_network(), fl.PrimalDual(step=0.5)),
        "adaptive": (
            small(wide=True, workers=mutant.workers, regularizer=fl.Zero()),
            fl.PrimalDual(0.2, "static", clip=fl.AdaptiveClip(0.6, 0.4, every=1, share=0.3, rate=0.7, early=3)),
        ),
    }
    problem, method = subjects[mutant.method]
    budget = fl.Budget(mutant.epsilon, 1e-3)
    return fl.audit(problem, budget, rounds=4, algorithm=method, transcripts=mutant.transcripts, seed=2)


def run(name: str) -> dict[str, Any]:
    """The audit of a mutant as plain values, from a process of its own; and how long it took."""
    mutant = MUTANTS[name]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        # A cache that goes with it: such kernels must be found nowhere else.
        private = {"NUMBA_CACHE_DIR": folder} if mutant.module.startswith(("kernels.", "methods.")) else {}
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH", "")]))}
        command = [sys.executable, str(HERE / "mutants.py"), "--inside", name]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env=os.environ | private | paths
        )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | {"seconds": time.perf_counter() - began}


def as_expected(name: str, found: dict[str, Any]) -> bool:
    """Whether the audit says what it should: the fault, or that it could not have seen it."""
    mutant = MUTANTS[name]
    if mutant.seen:
        return any(mutant.found in finding for finding in found["findings"])
    return not found["findings"] and any(mutant.found in fault for fault in found["unseen"])


class _Mutator:
    """Imports one module of the package with other words in it."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, self.edits = f"fastldp.{mutant.module}", ((mutant.right, mutant.wrong), *mutant.also)
        self.done = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.origin is not None
        text, mutator = Path(spec.origin).read_text(encoding="utf-8"), self
        for right, wrong in self.edits:
            assert text.count(right) == 1, f"{name} has {text.count(right)} times: {right}"
            text = text.replace(right, wrong)

        class Loader(importlib.machinery.SourceFileLoader):
            def get_code(self, fullname: str) -> Any:
                mutator.done = True
                return compile(text, self.path, "exec", dont_inherit=True)

        spec.loader = Loader(name, spec.origin)
        return spec


def inside(name: str) -> None:
    """What the process of a mutant does."""
    mutator: Any = _Mutator(MUTANTS[name])
    sys.meta_path.insert(0, mutator)
    from fastldp.kernels import ahead

    # Helpers would compile the sources as they are.
    ahead._can_help = lambda: False
    found = audit(MUTANTS[name])
    assert mutator.done, "the module was imported before it could be changed"
    print(json.dumps({"findings": found.findings, "unseen": found.unseen}))


def row(name: str, found: dict[str, Any]) -> str:
    """A row of the table: the fault, whether it was found, and the finding that was expected, or the first."""
    mutant = MUTANTS[name]
    lines = found["findings"] if mutant.seen else found["unseen"]
    said = next((line for line in lines if mutant.found in line), (*lines, "nothing")[0])
    verdict = {True: "found", False: "MISSED"}[as_expected(name, found)] if mutant.seen else "not to be seen, said so"
    return f"| {name} | `{mutant.module}` | {verdict} | {said} | {len(found['findings'])} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which; all of them if none is given")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (%(default)s)")
    parser.add_argument("--list", action="store_true", help="their names")
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        inside(arguments.inside)
        return 0
    names = arguments.names or list(MUTANTS)
    if arguments.list:
        print("\n".join(MUTANTS))
        return 0
    print("| fault | in | | what the audit says | findings |\n|---|---|---|---|---|")
    bad = 0
    with ThreadPoolExecutor(arguments.jobs) as jobs:
        for name, found in zip(names, jobs.map(run, names), strict=True):
            print(row(name, found), flush=True)
            print(f"{name}: {found['seconds']:.0f} s", file=sys.stderr)
            bad += not as_expected(name, found)
    print(f"\n{len(names)} faults, {bad} of them not as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
