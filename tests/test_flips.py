"""Files that are damaged after they were written: no number is wrong, it is said, and the same sweep mends it."""

import random
from collections import Counter
from pathlib import Path

import pytest

import flips
from fastldp.sweeping import sealing
from flips import Subject


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    return flips.subjects(tmp_path_factory.mktemp("subjects"))


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_damage_is_found_and_mended(number: int, subjects: list[Subject], tmp_path: Path) -> None:
    subject, counts = subjects[number], Counter[tuple[str, str]]()
    for damage in flips.damages(subject, 10, random.Random(number)):
        outcome, said = flips.judged(subject, damage, tmp_path / "damaged")
        assert outcome not in flips.BAD, f"{damage.where}: {outcome}: {said}"
        counts[damage.kind, outcome] += 1
    # A byte, or two pages in a row, are made again; what was cut off is not.
    assert counts["flip", "repaired"] == 10
    assert counts["burst", "repaired"] == 1
    assert counts["truncation", "refused"] + counts["truncation", "missing"] == 1


def test_damage_that_nobody_finds_would_be_seen(
    subjects: list[Subject], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where checksums are not looked at."""
    monkeypatch.setattr(sealing, "_differing", lambda *_: [])
    some = flips.damages(subjects[0], 9, random.Random(0))
    assert {flips.judged(subjects[0], damage, tmp_path / "damaged")[0] for damage in some} & {*flips.BAD}


@pytest.mark.long
def test_much_damage_is_found_and_mended(subjects: list[Subject], tmp_path: Path) -> None:
    counts = flips.tried(subjects, tmp_path, 1000, seed=1)
    assert not {key: count for key, count in counts.items() if key[-1] in flips.BAD}, flips.table(counts)
