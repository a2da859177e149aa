"""Measure: run the bench suite and write what it found to a dated JSON file: python scripts/bench.py [-k EXPRESSION].

Run it with the Python that has fastldp[bench,peers] in it, on a machine that has nothing else to do. Six passes take
half an hour on two cores. `scripts/compare_bench.py` compares the file with the committed baseline.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import environment
import limits
import results
import targets

PASSES = 6
NOTHING_SELECTED = 5  # the exit code of pytest
LIBRARIES = ("numpy", "scipy", "numba", "jax", "torch", "flwr", "opacus")


def main() -> None:
    """Measure, write, and print the table of targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", default="", metavar="EXPRESSION", help="only the benchmarks that pytest selects by this")
    parser.add_argument("--passes", type=int, default=PASSES, help=f"how often the suite runs; {PASSES} by default")
    parser.add_argument("--out", type=Path, help="the file to write; by default one named after the date, in out/bench")
    chosen = parser.parse_args()
    now = datetime.datetime.now(datetime.UTC)
    path = chosen.out or environment.workplace() / "out" / "bench" / f"{now:%Y-%m-%dT%H%M%S}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    passes = [one_pass("-k", chosen.k)]
    passes += [one_pass("-k", chosen.k, "-m", "not once") for _ in range(1, chosen.passes)]
    found = results.merged(passes)
    report = {"date": f"{now:%Y-%m-%d %H:%M}", "machine": machine(), "limits": limits.measured(), "benchmarks": found}
    results.save(path, report)
    print(targets.table(results.load(path)))
    print(f"\nwritten to {path}")


def one_pass(*selection: str) -> dict[str, Any]:
    """The suite once, in a process of its own, as pytest-benchmark reports it."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pytest", str(environment.ROOT / "bench"), "-p", "no:cacheprovider"]
        command += ["--benchmark-enable", "--benchmark-quiet", f"--benchmark-json={report}", *selection]
        code = subprocess.run([*command, "--basetemp", f"{scratch}/pytest"], cwd=environment.ROOT).returncode
        if code == NOTHING_SELECTED:
            return {"benchmarks": []}
        if code:
            sys.exit(code)
        read: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return read


def machine() -> dict[str, Any]:
    """What was measured on, and with."""
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit(),
    }


def processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def commit() -> str:
    """The commit that was measured, where this is a clone."""
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=environment.ROOT, capture_output=True, text=True
    )
    return asked.stdout.strip()


if __name__ == "__main__":
    main()
