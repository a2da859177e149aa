"""What a run of the suite found, in one file: the samples of every benchmark, and their ratio to the reference's.

The suite runs in several passes, each a process of its own: where memory lies and which neighbours a moment has differs
between processes more than within one, so the interval of a ratio must know of it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RESAMPLES = 1000
CONFIDENCE = 0.95


class Measured(NamedTuple):
    """A benchmark: what it takes and what its reference takes, in seconds a unit of work, in turns, pass by pass."""

    seconds: list[Array]
    reference_seconds: list[Array]
    reference: str
    info: dict[str, Any]

    @property
    def time(self) -> float:
        """The least seconds a unit."""
        return float(min(seconds.min() for seconds in self.seconds))

    @property
    def reference_time(self) -> float:
        """The least of the reference."""
        return float(min(seconds.min() for seconds in self.reference_seconds))

    @property
    def ratio(self) -> float:
        """How many times faster than its reference it is.

        Of the least times: what else runs on a machine makes times longer and never shorter.
        """
        return self.reference_time / self.time

    @property
    def paired(self) -> float:
        """The same of the pairs one by one, their median: where a core is slow for seconds, both of a pair meet it."""
        return float(np.median(np.concatenate(self.reference_seconds) / np.concatenate(self.seconds)))

    def joined(self, more: "Measured") -> "Measured":
        """With the passes of another run."""
        return self._replace(
            seconds=self.seconds + more.seconds, reference_seconds=self.reference_seconds + more.reference_seconds
        )

    def resampled(self, rng: np.random.Generator) -> Array:
        """The ratio, of passes and pairs drawn with replacement from those there are."""
        least = np.empty((2, len(self.seconds), RESAMPLES, len(self.seconds)))
        for number, both in enumerate(zip(self.seconds, self.reference_seconds, strict=True)):
            pairs = rng.integers(0, both[0].size, (RESAMPLES, len(self.seconds), both[0].size))
            for which, seconds in enumerate(both):
                least[which, number] = seconds[pairs].min(axis=2)
        # Of each resample, which pass stands in each place.
        chosen = rng.integers(0, len(self.seconds), (1, RESAMPLES, len(self.seconds)))
        ours, theirs = (np.take_along_axis(one, chosen, axis=0)[0].min(axis=1) for one in least)
        return np.asarray(theirs / ours)


def interval(resampled: Array) -> tuple[float, float]:
    """Where all but the outermost of them lie."""
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def merged(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The passes' reports, as pytest-benchmark writes them, by the name of the benchmark."""
    found: dict[str, Any] = {}
    for report in reports:
        for one in report["benchmarks"]:
            info = dict(one["extra_info"])
            data, theirs = one["stats"]["data"], info.pop("reference_data")
            units, their_units = info["units"], info.pop("reference_units")
            entry = found.setdefault(one["name"], {"seconds": [], "reference_seconds": []})
            entry["seconds"].append([_short(t / units) for t in data])
            entry["reference_seconds"].append([_short(t / their_units) for t in theirs])
            entry["reference"] = info.pop("reference")
            entry["info"] = info
    return found


def _short(seconds: float) -> float:
    """Five digits: more are noise, and fill the file."""
    return float(f"{seconds:.4e}")


class Results(NamedTuple):
    """A file of results."""

    date: str
    machine: dict[str, Any]
    limits: dict[str, float]
    benchmarks: dict[str, Measured]


def save(path: Path, results: dict[str, Any]) -> None:
    """Write results with a line a benchmark, so that files can be compared by eye."""
    head = {name: value for name, value in results.items() if name != "benchmarks"}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in results["benchmarks"].items())
    path.write_text(f'{json.dumps(head)[:-1]}, "benchmarks": {{\n{lines}\n}}}}\n', encoding="utf-8")


def load(path: Path) -> Results:
    """The results in a file."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    benchmarks = {name: _measured(entry) for name, entry in raw["benchmarks"].items()}
    return Results(raw["date"], raw["machine"], raw["limits"], benchmarks)


def _measured(entry: dict[str, Any]) -> Measured:
    seconds, theirs = ([np.array(one) for one in entry[key]] for key in ("seconds", "reference_seconds"))
    return Measured(seconds, theirs, entry["reference"], entry["info"])
