"""Damaged and forged files of every kind, seeded, and what became of them."""

import bz2
import gzip
import io
import lzma
import math
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fastldp as fl
import naive
from fastldp.datasets import idx, libsvm
from fastldp.sweeping import sources

# Sizes that overflow a product, or stand beside those that do.
SIZES = (0, 1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)
IDX_KINDS = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


@dataclass
class Tally:
    """How many files were refused with an error of fastldp, read right, read wrong, or ended in another error."""

    cases: int = 0
    refused: int = 0
    right: int = 0
    silent: int = 0
    tracebacks: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.silent and not self.tracebacks

    def __str__(self) -> str:
        counts = f"{self.cases} cases: {self.refused} refused, {self.right} right, {self.silent} silent, "
        return counts + f"{len(self.tracebacks)} tracebacks {sorted({t.split('(')[0] for t in self.tracebacks})}"


def tallied(files: Iterable[bytes], read: Callable[[bytes], Any], is_right: Callable[[bytes, Any], bool]) -> Tally:
    """Read every file; `is_right` judges what was read, or None where the file was refused."""
    tally = Tally()
    for content in files:
        tally.cases += 1
        try:
            found = read(content)
        except fl.FastLDPError:
            tally.refused += 1
            tally.silent += not is_right(content, None)
        except Exception as error:
            tally.tracebacks.append(f"{error!r} of {content[:60]!r}")
        else:
            fine = is_right(content, found)
            tally.right += fine
            tally.silent += not fine
    return tally


def damaged(whole: bytes, count: int, seed: int, *, flips_only: bool = False) -> Iterator[bytes]:
    """A byte or several changed, cut off, or put in."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        content = bytearray(whole)
        way = 0 if flips_only else int(rng.integers(6))
        at = int(rng.integers(len(content)))
        if way <= 1:
            content[at] ^= int(rng.integers(1, 256))
        elif way == 2:
            for place in rng.integers(len(content), size=int(rng.integers(2, 6))).tolist():
                content[place] ^= int(rng.integers(1, 256))
        elif way == 3:
            del content[at:]
        elif way == 4:
            content[at : at + int(rng.integers(1, 20))] = rng.bytes(int(rng.integers(20)))
        else:
            content += rng.bytes(int(rng.integers(1, 40)))
        if content != whole:
            yield bytes(content)


class Place:
    """A file that is written anew for every case."""

    def __init__(self, path: Path, read: Callable[[Path], Any]) -> None:
        self.path, self._read = path, read

    def __call__(self, content: bytes) -> Any:
        self.path.write_bytes(content)
        return self._read(self.path)


# IDX


def idx_files(count: int, seed: int) -> Iterator[bytes]:
    """Small arrays of every type whose headers say something else, and bodies that are damaged."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        code = int(rng.choice(list(IDX_KINDS)))
        shape = rng.integers(0, 4, size=int(rng.integers(1, 4))).tolist()
        body = rng.bytes(math.prod(shape) * np.dtype(IDX_KINDS[code]).itemsize)
        way = int(rng.integers(6))
        if way == 0:  # some sizes are others, most of them impossible
            for place in range(len(shape)):
                if rng.random() < 0.6:
                    shape[place] = int(rng.choice(SIZES))
        elif way == 1:  # nothing in it, beside sizes of any kind
            shape = [0, *rng.choice(SIZES, size=int(rng.integers(1, 6))).tolist()]
            body = b""
        elif way == 2:  # more dimensions than arrays have
            shape = [1] * int(rng.integers(1, 256))
            body = rng.bytes(np.dtype(IDX_KINDS[code]).itemsize)
        content = bytearray([0, 0, code, len(shape)]) + b"".join(int(size).to_bytes(4, "big") for size in shape) + body
        if way == 3:
            content[int(rng.integers(min(len(content), 8)))] = int(rng.integers(256))
        elif way == 4:
            del content[int(rng.integers(len(content))) :]
        elif way == 5:
            content += rng.bytes(int(rng.integers(9)))
        yield bytes(content)


def idx_is_right(content: bytes, found: Any) -> bool:
    """As the format says; what no array can hold may be refused."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_KINDS or content[3] == 0:
        return found is None
    if len(content) < 4 + 4 * content[3]:
        return found is None
    shape = struct.unpack_from(f">{content[3]}I", content, 4)
    body, kind = content[4 + 4 * content[3] :], np.dtype(IDX_KINDS[content[2]])
    if len(body) != math.prod(shape) * kind.itemsize:
        return found is None
    if found is None:
        return len(shape) > 32 or math.prod(size for size in shape if size) * kind.itemsize >= 2**63
    return bool(found.shape == shape and found.dtype.isnative and found.astype(kind).tobytes() == body)


def idx_plain(count: int, seed: int = 1) -> Tally:
    return tallied(idx_files(count, seed), lambda content: idx.from_bytes(content, "a file"), idx_is_right)


def idx_packed(count: int, folder: Path, seed: int = 2) -> Tally:
    """Those files packed, and one packed file damaged."""
    array = np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    whole = bytes([0, 0, 8, 3]) + struct.pack(">3I", *array.shape) + array.tobytes()
    sound = gzip.compress(whole, mtime=0)
    read = Place(folder / "array.gz", fl.datasets.read_idx)
    forged = [(gzip.compress(content, 1, mtime=0), content) for content in idx_files(count // 2, seed)]
    plain = dict(forged)
    of_forged = tallied(plain, read, lambda content, found: idx_is_right(plain[content], found))
    rest = tallied(
        damaged(sound, count - count // 2, seed + 1),
        read,
        lambda _, found: found is None or np.array_equal(found, array),
    )
    return added(of_forged, rest)


def added(*tallies: Tally) -> Tally:
    return Tally(
        sum(tally.cases for tally in tallies),
        sum(tally.refused for tally in tallies),
        sum(tally.right for tally in tallies),
        sum(tally.silent for tally in tallies),
        [text for tally in tallies for text in tally.tracebacks],
    )


# LIBSVM

TEXT = (
    b"+1 1:0.5 3:2e-3 4:1\n-1 2:-1.25 # a comment\n\n"
    b"+1 qid:3 1:1e300 2:5e-324\r\n-1 7:123456789012345678901234.5\n0 1:1"
)
BYTES = b"0123456789:+-.eE #\t\r\nqid:naninf_\0\xff"


def libsvm_texts(count: int, seed: int) -> Iterator[bytes]:
    """A text with some bytes of others like it, doubled lines, and cut off."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        content = bytearray(TEXT)
        for _ in range(int(rng.integers(1, 6))):
            at = int(rng.integers(len(content) + 1))
            way = int(rng.integers(4))
            new = bytes(rng.choice(list(BYTES), size=int(rng.integers(1, 4))).tolist())
            if way == 3:
                new = bytes(content[int(rng.integers(len(content) + 1)) :][: int(rng.integers(40))])
            content[at : at + (0 if way == 1 else len(new))] = b"" if way == 2 else new
        yield bytes(content)


def libsvm_is_right(content: bytes, found: Any) -> bool:
    """As the oracle reads it."""
    rows, bad = naive.libsvm_rows(content.decode("latin-1"))
    if bad or not any(entries for _, entries in rows):
        return found is None
    if found is None:
        return False
    base = 0 if any(index == 0 for _, entries in rows for index, _ in entries) else 1
    entries = [(index - base, value) for _, row in rows for index, value in row]
    lengths = [len(row) for _, row in rows]
    return bool(
        found.b.tolist() == [label for label, _ in rows]
        and np.diff(found.A.indptr).tolist() == lengths
        and list(zip(found.A.indices.tolist(), found.A.data.tolist(), strict=True)) == entries
    )


def libsvm_plain(count: int, seed: int = 3) -> Tally:
    def read(content: bytes) -> Any:
        return libsvm.from_text(content, "a file", features=None, zero_based="auto")

    return tallied(libsvm_texts(count, seed), read, libsvm_is_right)


def libsvm_packed(count: int, folder: Path, seed: int = 4) -> Tally:
    """Packed by all three, in two streams: the second must not get lost."""
    half = TEXT[: TEXT.index(b"\n") + 1]
    tallies = []
    packers: list[Callable[[bytes], bytes]] = [partial(gzip.compress, mtime=0), bz2.compress, lzma.compress]
    for number, pack in enumerate(packers):
        first = pack(half)

        def is_right(content: bytes, found: Any, first: bytes = first) -> bool:
            if found is None or libsvm_is_right(TEXT, found):
                return True
            # Nothing tells that a file goes on, which ends where a stream does.
            ends = content.startswith(first) and not content[len(first) :].strip(b"\0")
            return ends and libsvm_is_right(half, found)

        read = Place(folder / f"text{number}", fl.datasets.read_libsvm)
        whole = first + pack(TEXT[len(half) :])
        tallies.append(tallied(damaged(whole, count // 3, seed + number), read, is_right))
    return added(*tallies)


# Archives


def archive(members: dict[str, bytes], *, packed: bool = True) -> bytes:
    """A zip file with right checksums, whatever is in it."""
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as into:
        for name, content in members.items():
            into.writestr(zipfile.ZipInfo(name), content, compress_type=into.compression)
    return output.getvalue()


def members_of(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        return {name: file.read(name) for name in file.namelist()}


def npy(header: str, body: bytes = b"") -> bytes:
    """An array in NumPy's format whose header says anything."""
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def forged_arrays(good: bytes) -> Iterator[bytes]:
    """Headers that promise what is not there, hold objects, or are no headers."""
    shapes = (
        *("(100000, 1000000)", "(-20, -5)", "(-1,)", "(True, 100)", "(99,)", "(101,)", "(0, 9223372036854775807)"),
        *("(4294967296, 4294967296)", "()", "(1,)", "100", "None", "(" + "1, " * 70 + ")", "(100.0,)"),
    )
    for shape in shapes:
        yield npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}", bytes(800))
    for descr in ("'|O'", "[('x', '<f8')]", "'<U0'", "'|V8'", "'<f3'", "'<M8[s]'", "'junk'", "('<f8', (10,))", "None"):
        yield npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': (100,), }}", bytes(800))
    for header in ("", "{", "[" * 500, "-" * 5000 + "1", "{}", "import os", "\0" * 20, "{'descr': '<f8'}", "9" * 5000):
        yield npy(header, bytes(800))
    yield from (b"", b"\x93NUMPY", b"\x93NUMPY\x09\x00" + good[8:], good[:-8], good + bytes(8), good[:30])


def forged_sizes(whole: bytes) -> Iterator[bytes]:
    """Directories that claim other sizes of their members than they have."""
    for place in (20, 24):  # packed and unpacked, in the directory's entry
        for size in (0, 1, 2**20, 2**31, 2**32 - 2):
            content = bytearray(whole)
            content[(at := content.index(b"PK\x01\x02") + place) : at + 4] = struct.pack("<I", size)
            yield bytes(content)


def npz_files(count: int, seed: int = 5) -> tuple[Callable[[bytes, Any], bool], Iterator[bytes]]:
    """Damaged and forged archives with A and b, and the judge of what was read from them."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((20, 5)), rng.choice([-1.0, 1.0], 20)

    def saved(save: Callable[..., None]) -> bytes:
        output = io.BytesIO()
        save(output, A=A, b=b)
        return output.getvalue()

    def files() -> Iterator[bytes]:
        for number, whole in enumerate(map(saved, (np.savez, np.savez_compressed))):
            good = members_of(whole)
            yield from (archive(good | {"A.npy": forged}) for forged in forged_arrays(good["A.npy"]))
            yield from forged_sizes(whole)
            yield from (archive({"A.npy": good["A.npy"]}), archive({}), b"", good["A.npy"])
            yield from damaged(whole, count // 2, seed + number)

    def is_right(_: bytes, found: Any) -> bool:
        return found is None or all(map(_same, found, (A, b)))

    return is_right, files()


def _same(found: Any, array: np.ndarray[Any, Any]) -> bool:
    return isinstance(found, np.ndarray) and found.shape == array.shape and found.tobytes() == array.tobytes()


def npz(count: int, folder: Path) -> Tally:
    is_right, files = npz_files(count)
    return tallied(files, Place(folder / "data.npz", sources._from_file), is_right)


# Saved solutions


def solved(seed: int) -> fl.Solution:
    """A small private run with everything that can be saved."""
    rng = np.random.default_rng(9)
    problem = fl.Problem(rng.standard_normal((12, 3)), rng.choice([-1.0, 1.0], 12), workers=2, l2=0.1)
    record = [fl.Messages(0), fl.Every(2)]
    run = fl.solve(problem, fl.Budget(1.0, 1e-4), rounds=6, repetitions=2, seed=seed, record=record)
    return replace(run, seconds=1.5)  # the same bytes in every file of it


def everything(run: fl.Solution) -> dict[str, Any]:
    """All that a solution holds, comparable by ==."""
    assert run.ledger is not None
    arrays = ("workers", "rounds", "consensus", "distance", "means", "messages", "broadcasts")
    content: dict[str, Any] = {name: getattr(run, name) for name in arrays}
    content |= {f"measure {name}": values for name, values in run.measures.items()} | run.ledger.to_dict()
    content |= {name: getattr(run, name) for name in ("status", "seed", "seconds", "description")}
    return {
        name: (value.shape, value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value
        for name, value in content.items()
    }


def _read_as_saved(run: fl.Solution) -> Callable[[bytes, Any], bool]:
    saved = everything(run)
    return lambda _, found: found is None or everything(found) == saved


def saved(run: fl.Solution, path: Path) -> bytes:
    run.save(path, keep_seed=True)
    return path.read_bytes()


def solution_flips(count: int, folder: Path, seed: int = 6) -> Tally:
    """One byte of a saved solution changed."""
    run, path = solved(1), folder / "run.npz"
    whole = saved(run, path)
    return tallied(damaged(whole, count, seed, flips_only=True), Place(path, fl.load), _read_as_saved(run))


def solution_damages(count: int, folder: Path, seed: int = 7) -> Tally:
    """Cut off, gone on with, and changed in several places; and forged headers of arrays."""
    run, path = solved(1), folder / "run.npz"
    whole = saved(run, path)
    members = members_of(whole)
    forged = [archive(members | {"workers.npy": array}) for array in forged_arrays(members["workers.npy"])]
    files = (*forged, *forged_sizes(whole), *damaged(whole, count, seed))
    return tallied(files, Place(path, fl.load), _read_as_saved(run))


def solution_swaps(folder: Path) -> Tally:
    """Every array taken from another solution of the same shapes, left out, doubled, or under another's name."""
    runs, path = [solved(1), solved(2)], folder / "run.npz"
    mine, other = (members_of(saved(run, path)) for run in runs)
    files = [archive(mine | {name: other[name]}) for name in mine if mine[name] != other[name]]
    files += [archive({name: content for name, content in mine.items() if name != left}) for left in mine]
    files += [archive(mine | {f"more_{name}": content}) for name, content in mine.items()]
    names = list(mine)
    files += [
        archive(mine | {first: mine[second], second: mine[first]})
        for place, first in enumerate(names)
        for second in names[:place]
        if mine[first] != mine[second]
    ]
    return tallied(files, Place(path, fl.load), _read_as_saved(runs[0]))
