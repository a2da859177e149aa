"""Prove the gate on this machine: runs of the unchanged code pass, and jobs slowed by 30 % are caught.

    python scripts/gate.py [RUNS]

Twenty runs of a few benchmarks, against one more, take a quarter of an hour.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import environment
import results
from compare_bench import changes

RUNS = 20
CHOSEN = "bench_exp or bench_normals or bench_prox_box or bench_round[dense or bench_solve[dense-160"


def measured(path: Path, *, slower: bool = False) -> results.Results:
    """The chosen benchmarks, in a file."""
    bench = environment.ROOT / "bench"
    plugin = {"PYTEST_ADDOPTS": "-p slower", "PYTHONPATH": str(bench)} if slower else {}
    command = [sys.executable, str(environment.ROOT / "scripts" / "bench.py"), "-k", CHOSEN, "--out", str(path)]
    subprocess.run(command, env=os.environ | plugin, check=True, stdout=subprocess.DEVNULL)
    return results.load(path)


def main() -> None:
    """Exit with 1 where the gate fails what it should pass, or passes what it should catch."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as scratch:
        old = measured(Path(scratch) / "old.json")
        failed = 0
        for number in range(1, runs + 1):
            found = [change.name for change in changes(measured(Path(scratch) / "new.json"), old) if change.slower]
            failed += bool(found)
            print(f"unchanged, run {number}: {', '.join(found) or 'passes'}", flush=True)
        slowed = changes(measured(Path(scratch) / "slow.json", slower=True), old)
    missed = [change.name for change in slowed if not change.slower]
    print(f"slowed by 30 %: {len(slowed) - len(missed)} of {len(slowed)} caught; missed: {', '.join(missed) or 'none'}")
    if failed or missed:
        sys.exit(f"{failed} of {runs} unchanged runs failed")


if __name__ == "__main__":
    main()
