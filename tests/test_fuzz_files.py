"""Files from outside, damaged and forged: each is read right or refused with an error that says so. Nothing else.

The tables of the long tests are shown by `pytest -m long -rP tests/test_fuzz_files.py`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

import fuzzed_files

# By kind: so many in the quick tests, and in the long ones.
KINDS: dict[str, tuple[Callable[[int, Path], fuzzed_files.Tally], int, int]] = {
    "IDX": (lambda count, _: fuzzed_files.idx_plain(count), 4000, 300_000),
    "IDX, packed": (fuzzed_files.idx_packed, 300, 10_000),
    "LIBSVM": (lambda count, _: fuzzed_files.libsvm_plain(count), 300, 30_000),
    "LIBSVM, packed": (fuzzed_files.libsvm_packed, 300, 6000),
    "npz": (fuzzed_files.npz, 300, 6000),
    "solution, a byte": (fuzzed_files.solution_flips, 300, 10_000),
    "solution, more": (fuzzed_files.solution_damages, 100, 3000),
    "solution, swaps": (lambda _, folder: fuzzed_files.solution_swaps(folder), 0, 0),
}


def check(kind: str, count: int, folder: Path) -> None:
    tally = KINDS[kind][0](count, folder)
    print(f"{kind}: {tally}")
    assert tally.clean, (tally.silent, tally.tracebacks[:5])
    assert tally.refused > tally.cases / 3  # or nothing was tried
    assert tally.refused + tally.right == tally.cases


@pytest.mark.parametrize("kind", KINDS)
def test_some(kind: str, tmp_path: Path) -> None:
    check(kind, KINDS[kind][1], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind, (_, _, count) in KINDS.items() if count])
def test_many(kind: str, tmp_path: Path) -> None:
    check(kind, KINDS[kind][2], tmp_path)


def test_the_tally_tells_wrong_numbers_from_other_errors() -> None:
    """Or the tests above would pass whatever happens."""

    def read(content: bytes) -> int:
        return {b"right": 1, b"wrong": 2}[content]

    tally = fuzzed_files.tallied([b"right", b"wrong", b"other"], read, lambda _, found: found == 1)
    assert (tally.cases, tally.right, tally.silent, len(tally.tracebacks)) == (3, 1, 1, 1)
    assert not tally.clean


def test_damage_is_damage() -> None:
    whole = bytes(range(50))
    files = list(fuzzed_files.damaged(whole, 200, seed=1))
    assert len(files) > 150
    assert whole not in files
