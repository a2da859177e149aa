"""Compare speeds: python scripts/compare_bench.py NEW.json [OLD.json], OLD being the committed baseline by default.

What is compared is each job's ratio to NumPy at the same job in the same moments, never seconds. A job fails where that
ratio has dropped by more than 15 %, and by so much that the interval of the change says the same; and where the same
runs, which have seeds, no longer end at the same error: a fast wrong answer is no answer.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import environment
import results
from results import Measured, Results

BASELINE = environment.ROOT / "bench" / "baseline.json"
LARGEST_DROP = 0.15
# Fewer pairs than these have no interval to speak of.
FEWEST_PAIRS = 6
# An error further from the old one is that of another computation.
ALIKE = 1e-3


class Change(NamedTuple):
    """What became of a ratio: new over old, with its interval."""

    name: str
    old: float
    new: float
    low: float
    high: float
    error: str
    """What became of the error of the result, where it changed."""
    wrong: bool
    """Whether that is of the same runs."""

    @property
    def slower(self) -> bool:
        """Whether all of the interval lies below what is allowed."""
        return self.high < 1 - LARGEST_DROP

    @property
    def unclear(self) -> bool:
        """Whether it looks slower, and the interval is too wide to say so."""
        return not self.slower and self.new / self.old < 1 - LARGEST_DROP

    def row(self) -> str:
        """A line of the table."""
        verdict = (
            "WRONG" if self.wrong else "SLOWER" if self.slower else "unclear: measure again" if self.unclear else ""
        )
        change = f"{self.new / self.old:.2f} [{self.low:.2f}, {self.high:.2f}]"
        return f"| {self.name} | {self.old:.3g}× | {self.new:.3g}× | {change} | {verdict}{self.error} |"


def changes(new: Results, old: Results) -> list[Change]:
    """Those of the benchmarks that both have, that NumPy is the reference of, and that have samples enough."""
    return [
        change(name, measured, old.benchmarks[name])
        for name, measured in new.benchmarks.items()
        if name in old.benchmarks and judged(measured) and judged(old.benchmarks[name])
    ]


def judged(measured: Measured) -> bool:
    """Whether a benchmark can be slower at all."""
    return measured.reference == "numpy" and sum(pairs.size for pairs in measured.seconds) >= FEWEST_PAIRS


def change(name: str, new: Measured, old: Measured) -> Change:
    """The change of a ratio, with the interval of a bootstrap of both."""
    rng = np.random.default_rng(0)
    low, high = results.interval(new.resampled(rng) / old.resampled(rng))
    errors = old.info.get("error", 0.0), new.info.get("error", 0.0)
    moved = abs(errors[1] - errors[0]) > ALIKE * max(map(abs, errors)) and max(map(abs, errors)) > ALIKE
    remark = f" error was {errors[0]:.4g}, is {errors[1]:.4g}" if moved else ""
    same = all(key in new.info and new.info[key] == old.info.get(key) for key in ("rounds", "runs"))
    return Change(name, old.ratio, new.ratio, low, high, remark, moved and same)


def measured_again(names: list[str]) -> Results:
    """Some benchmarks, as they are now."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "again.json"
        script = environment.ROOT / "scripts" / "bench.py"
        subprocess.run([sys.executable, script, "-k", " or ".join(names), "--out", path], check=True)
        return results.load(path)


def joined(new: Results, more: Results) -> Results:
    """What was measured first and again, together."""
    again = {name: new.benchmarks[name].joined(one) for name, one in more.benchmarks.items()}
    return new._replace(benchmarks=new.benchmarks | again)


def main() -> None:
    """Print what changed; exit with 1 where something is slower, or wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("new", type=Path)
    parser.add_argument("old", type=Path, nargs="?", default=BASELINE)
    parser.add_argument("--again", action="store_true", help="measure once more what is slower or unclear")
    chosen = parser.parse_args()
    new, old = results.load(chosen.new), results.load(chosen.old)
    if new.machine["processor"] != old.machine["processor"]:
        print(
            f"measured on other machines, {old.machine['processor']} and {new.machine['processor']}: ratios may differ"
        )
    found = changes(new, old)
    print(f"| faster than NumPy | {old.date} | {new.date} | change, 95 % interval | |\n|---|---|---|---|---|")
    for one in sorted(found, key=lambda change: change.new / change.old):
        print(one.row())
    doubtful = [one.name for one in found if one.slower or one.unclear]
    if doubtful and chosen.again:
        print(f"measured again: {', '.join(doubtful)}", flush=True)
        found = changes(joined(new, measured_again(doubtful)), old)
        for one in found:
            if one.name in doubtful:
                print(one.row())
    if missing := sorted(old.benchmarks.keys() - new.benchmarks.keys()):
        print(f"not measured: {len(missing)} of {len(old.benchmarks)}, {', '.join(missing[:3])} and so on")
    if wrong := [one.name for one in found if one.wrong]:
        sys.exit(f"{len(wrong)} of {len(found)} end at another error than they did: {', '.join(wrong)}")
    slower = [one.name for one in found if one.slower]
    if slower:
        sys.exit(f"{len(slower)} of {len(found)} slower by more than {LARGEST_DROP:.0%}: {', '.join(slower)}")
    print(f"none of {len(found)} slower by more than {LARGEST_DROP:.0%}")


if __name__ == "__main__":
    main()
