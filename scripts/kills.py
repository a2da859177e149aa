"""Kill sweeps at random moments, parents and workers, and see that nothing is lost.

python scripts/kills.py              fifty kills of real commands on three backends, some minutes
python scripts/kills.py 10 --seed 3  ten, at other moments
python scripts/kills.py 10000        sweeps of milliseconds in forked processes, some twenty minutes
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastldp as fl
from evidence import Bits, bits_of
from fastldp.errors import FastLDPError
from forks import Forks

SPEC = """
rounds = {from = 2000, to = 8000, by = 2000}
repetitions = 10
[data]
synthetic = "ijcnn1"
[problem]
workers = 20
l2 = 0.1
[budget]
epsilon = 1.0
delta = 1e-4
[[method]]
name = "PrimalDual"
allocation = ["dynamic", "static"]
[[method]]
name = "ISRLDP"
step = [0.5, 1.0]
[[method]]
name = "DPScaffold"
step = 0.5
local_steps = 2
warm_start = true
[record]
every = 500
"""
# The backends, their share of the kills, and a word in the command line of their workers.
BACKENDS = {"threads": (0.4, ""), "loky": (0.3, "LokyProcess"), "dask": (0.3, "spawn_main")}
LEG_SECONDS = 0.3
# A kill comes so many seconds at most after the start of its victim.
LATEST = 5.0
# Where there are workers, so many of the kills are theirs.
WORKERS_SHARE = 0.6
# More kills are made of forked processes, which cost less.
MANY = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=50, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (%(default)s)")
    parser.add_argument(
        "--fast", action=argparse.BooleanOptionalAction, help=f"small sweeps, forked (above {MANY} kills, unless told)"
    )
    arguments = parser.parse_args()
    print(f"{arguments.kills:,} kills, seed {arguments.seed}")
    fast = arguments.kills > MANY if arguments.fast is None else arguments.fast
    sound = (of_forks if fast else of_commands)(arguments.kills, arguments.seed)
    print("\nnothing was lost" if sound else "\nSOMETHING WAS LOST")
    return 0 if sound else 1


def of_forks(kills: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        forks = Forks(Path(folder), random.Random(seed))
        forks.run(kills)
    print(forks.table())
    return forks.sound


def of_commands(kills: int, seed: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = Path(folder) / "undisturbed.h5"
        fl.sweep(SPEC, undisturbed)
        expected = fl.results(undisturbed)
        print(f"{len(expected)} runs, undisturbed digest {expected.digest()[:16]}\n")
        heads = f"{'parents':>8} {'workers':>8} {'commands':>9} {'lost':>5} {'unreadable':>11}"
        print(f"  {'backend':<8} {heads} {'same bits':>10}")
        left, sound = kills, True
        for number, (backend, (share, _)) in enumerate(BACKENDS.items()):
            last = number == len(BACKENDS) - 1
            some = left if last else round(share * kills)
            left -= some
            trial = Trial(backend, Path(folder), expected.digest(), random.Random(f"{seed} {backend}"))
            trial.run(some)
            print(trial.row(), flush=True)
            sound &= trial.sound
    return sound


class Trial:
    """One backend's kills; when a sweep is finished before they are all done, another is begun."""

    def __init__(self, backend: str, folder: Path, expected: str, chance: random.Random) -> None:
        self.backend, self.folder, self.expected, self.chance = backend, folder, expected, chance
        self.parents = self.workers = self.commands = self.lost = self.unreadable = self.sweeps = self.different = 0
        self.finished: Bits = {}
        self.disturbed = False

    @property
    def sound(self) -> bool:
        return self.sweeps > 0 and not (self.lost or self.unreadable or self.different)

    def row(self) -> str:
        same = f"{self.sweeps - self.different} of {self.sweeps}"
        counts = f"{self.parents:>8} {self.workers:>8} {self.commands:>9} {self.lost:>5} {self.unreadable:>11}"
        return f"  {self.backend:<8} {counts} {same:>10}"

    def run(self, kills: int) -> None:
        while self.parents + self.workers < kills:
            process = self._start()
            while process.poll() is None and self.parents + self.workers < kills:
                self._kill(process)
            if process.poll() is None:
                process.wait()
            self._look()
            if process.returncode == 0:
                self._compare()
        if self.disturbed:
            self._start().wait()
            self._compare()

    @property
    def path(self) -> Path:
        return self.folder / f"{self.backend}-{self.sweeps}.h5"

    def _start(self) -> subprocess.Popen[bytes]:
        self.commands += 1
        return subprocess.Popen(
            [sys.executable, __file__, "--sweep", self.path, self.backend],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """The parent, or a worker once there are some."""
        word = BACKENDS[self.backend][1]
        aims_at_worker = bool(word) and self.chance.random() < WORKERS_SHARE
        found = [process.pid]
        while aims_at_worker and process.poll() is None:
            found = [child for child in children(process.pid) if word in command_line(child)]
            if found:
                break
            time.sleep(0.1)
        time.sleep(self.chance.uniform(0, LATEST))
        if process.poll() is not None or not found:
            return
        try:
            os.kill(self.chance.choice(found), signal.SIGKILL)
        except ProcessLookupError:  # it has ended by itself
            return
        self.disturbed = True
        if found == [process.pid]:
            self.parents += 1
            process.wait()
        else:
            self.workers += 1

    def _look(self) -> None:
        """Every run that was there must be there still, with the same numbers."""
        try:
            found = bits_of(self.path)
        except FastLDPError as error:
            print(error, file=sys.stderr)
            self.unreadable += 1
            return
        self.lost += sum(found.get(place) != bits for place, bits in self.finished.items())
        self.finished = found

    def _compare(self) -> None:
        self._look()
        self.different += not self.path.exists() or fl.results(self.path).digest() != self.expected
        self.finished, self.disturbed = {}, False
        self.sweeps += 1


def children(process: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has just ended
                continue
            if parent == process:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sweep"]:  # one of the commands that are killed
        fl.sweep(SPEC, sys.argv[2], backend=sys.argv[3], leg_seconds=LEG_SECONDS)
    else:
        sys.exit(main())
