"""Damage result files at random, and see that it is found, named, and mended where it can be.

python scripts/flips.py             a thousand flipped bytes, and a hundred bursts and truncations each
python scripts/flips.py 10000       half an hour
python scripts/flips.py 50 --seed 3

A file must give the right numbers of every run it gives, say which file was damaged where that is so, and end as if
nothing had happened when the same sweep is given again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn
from unittest import mock

from tqdm import tqdm

import fastldp as fl
from evidence import LARGER, Bits, Tree, bits_of, hasty, lay, read, sweep, tree_of
from fastldp.errors import DamageWarning, FastLDPError
from fastldp.sweeping.sealing import PAGE
from fastldp.sweeping.spec import Spec
from fastldp.sweeping.store import Store

FILE = "r.h5"
# So many flips are made ready at a time.
ROUND = 100
# What may come of a damage, the good first; `unnoticed` did no harm, but nobody was told.
OUTCOMES = ("repaired", "missing", "refused", "unnoticed", "silent", "tracebacks", "crashes", "unmended")
BAD = ("unnoticed", "silent", "tracebacks", "crashes", "unmended")


class Subject(NamedTuple):
    """A folder to be damaged, and what it should say."""

    name: str
    commands: list[Spec]
    """What makes it anew; the last one brings it to its end."""
    tree: Tree
    there: Bits
    """The runs that can be read before the sweep has come to its end."""
    reference: Bits
    digest: str


class Damage(NamedTuple):
    """Bytes of a file that were changed, or cut off."""

    kind: str
    file: str
    content: bytes
    where: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flips", type=int, nargs="?", default=1000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the places (%(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = tried(subjects(Path(folder)), Path(folder), arguments.flips, arguments.seed)
    print(table(counts))
    bad = sum(count for (_, _, outcome), count in counts.items() if outcome in BAD)
    print("\nno wrong number, and nothing unsaid" if not bad else "\nSOMETHING WENT UNNOTICED")
    return 1 if bad else 0


def subjects(folder: Path) -> list[Subject]:
    """A finished file, and a larger one beside parts of a sweep that died."""
    command, larger = read(), read(LARGER)
    finished, died = folder / "finished", folder / "died"
    for one in (finished, died):
        one.mkdir()
    sweep(command, finished / FILE)
    sweep(larger, died / FILE, leg_seconds=10.0)
    commit, left = Store.commit, iter(range(5))

    def dying(self: Store, *given: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        commit(self, *given)  # type: ignore[arg-type]

    with hasty(many_parts=100), mock.patch.object(Store, "commit", dying), suppress(KeyboardInterrupt):
        sweep(command, died / FILE)
    found = []
    for one, commands in ((finished, [command]), (died, [larger, command])):
        tree, there = tree_of(one), bits_of(one / FILE)
        sweep(command, one / FILE)
        found.append(Subject(one.name, commands, tree, there, bits_of(one / FILE), fl.results(one / FILE).digest()))
    return found


def damages(subject: Subject, flips: int, chance: random.Random) -> Iterator[Damage]:
    """Single bytes; and a tenth as many bursts, that touch at most two pages, and truncations."""
    for kind, count in (("flip", flips), ("burst", flips // 10), ("truncation", flips // 10)):
        for _ in range(count):
            yield _damage(subject, kind, chance)


def _damage(subject: Subject, kind: str, chance: random.Random) -> Damage:
    files = {name: content for name, content in subject.tree.items() if content is not None and name.endswith(".h5")}
    name = chance.choices(list(files), [len(content) for content in files.values()])[0]
    content = bytearray(files[name])
    at = chance.randrange(len(content))
    if kind == "flip":
        content[at] ^= chance.randrange(1, 256)
    elif kind == "burst":
        end = chance.randrange(at, min((at // PAGE + 2) * PAGE, len(content))) + 1
        content[at:end] = bytes(byte ^ chance.randrange(1, 256) for byte in content[at:end])
    else:
        del content[at:]
    return Damage(kind, name, bytes(content), f"{subject.name}/{name}, {kind} at {at:,}")


def judged(subject: Subject, damage: Damage, folder: Path) -> tuple[str, str]:
    """What came of a damage, and what is to be said of it."""
    shutil.rmtree(folder, ignore_errors=True)
    lay({**subject.tree, damage.file: damage.content}, folder)
    path = folder / FILE
    outcome, said = _read(subject, damage, path)
    if outcome not in BAD and (wrong := _mend(subject, path, refused=outcome == "refused")):
        return "unmended", wrong
    return outcome, said


def _read(subject: Subject, damage: Damage, path: Path) -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = bits_of(path)
        except FastLDPError as error:
            return ("refused" if Path(damage.file).name in str(error) else "silent"), str(error)
        except Exception as error:
            return "tracebacks", f"{type(error).__name__}: {error}"
    named = [str(one.message) for one in told if issubclass(one.category, DamageWarning)]
    noticed = any(Path(damage.file).name in text for text in named)
    said = "; ".join(named)
    if any(subject.reference.get(place) != bits for place, bits in found.items()):
        return "silent", f"wrong numbers; {said}"
    if found.keys() == subject.there.keys():
        return ("repaired" if noticed else "unnoticed"), said
    return ("missing" if noticed else "silent"), said


def _mend(subject: Subject, path: Path, *, refused: bool) -> str:
    """Give the same command again, after doing what the refusal said; what is wrong then, if anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamageWarning)
        try:
            if refused:
                path.unlink()
            for command in subject.commands if refused else subject.commands[-1:]:
                sweep(command, path, leg_seconds=10.0)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamageWarning)  # mended for good
        digest = fl.results(path).digest()
    return "" if digest == subject.digest else "another digest"


def tried(found: list[Subject], folder: Path, flips: int, seed: int) -> Counter[tuple[str, str, str]]:
    """Counts by subject, kind and outcome, until all are tried or Ctrl-C is pressed."""
    tqdm.monitor_interval = 0  # a thread of its own, which a fork would not survive
    counts: Counter[tuple[str, str, str]] = Counter()
    chance = random.Random(seed)
    with tqdm(total=flips, unit="flip", file=sys.stderr) as bar, suppress(KeyboardInterrupt):
        while bar.n < flips:
            some = min(ROUND, flips - int(bar.n))
            # Most in the finished file, whose trials are shorter.
            of_finished = round(0.7 * some)
            for subject, share in zip(found, (of_finished, some - of_finished), strict=True):
                batch = list(damages(subject, share, chance))
                for damage, outcome in zip(batch, _forked(subject, batch, folder / "damaged"), strict=True):
                    counts[subject.name, damage.kind, outcome] += 1
            bar.update(some)
    return counts


def _forked(subject: Subject, batch: list[Damage], folder: Path) -> Iterator[str]:
    """The outcome of each, in processes of their own: a crash of a library is an outcome too."""
    left = batch
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(subject, left, folder, writer)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            outcomes = pipe.read().split()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            print(f"{left[len(outcomes)].where}: the process ended with {status}", file=sys.stderr)
            outcomes.append("crashes")
        yield from outcomes
        left = left[len(outcomes) :]


def _child(subject: Subject, batch: list[Damage], folder: Path, pipe: int) -> NoReturn:
    status = 1
    try:
        for damage in batch:
            outcome, said = judged(subject, damage, folder)
            if outcome in BAD:
                print(f"{damage.where}: {outcome}: {said}", file=sys.stderr)
            os.write(pipe, f"{outcome}\n".encode())
        status = 0
    finally:
        os._exit(status)


def table(counts: Counter[tuple[str, str, str]]) -> str:
    names = list(dict.fromkeys((subject, kind) for subject, kind, _ in counts))
    lines = [f"  {'damage':<20} {'trials':>7} " + " ".join(f"{name:>10}" for name in OUTCOMES)]
    for subject, kind in names:
        numbers = [counts[subject, kind, outcome] for outcome in OUTCOMES]
        cells = " ".join(f"{number:>10,}" for number in numbers)
        lines.append(f"  {f'{subject}: {kind}':<20} {sum(numbers):>7,} {cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
