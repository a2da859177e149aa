"""Faults planted in the shipped sources: the audit finds each, or says that it could not have."""

import importlib.util
from pathlib import Path

import pytest

import mutants
from mutants import MUTANTS

# One of each kind, and most of them without kernels to compile.
QUICK = ("all repetitions", "32-bit seeds", "0.9 of the sensitivity", "clipping left out", "every fifth worker")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in MUTANTS]
)
def test_the_audit_says_what_is_wrong(name: str) -> None:
    found = mutants.run(name)
    assert mutants.as_expected(name, found), (found["findings"], found["unseen"])


@pytest.mark.thorough
def test_the_sound_package_passes_what_finds_the_faults() -> None:
    """With the same problems, methods, budgets and transcripts as the faults in Python are found with."""
    subjects = {mutant[4:8] for mutant in MUTANTS.values() if mutant.method != "MLP"}
    assert len(subjects) > 4
    for name in ("clipping 10 % lax", "every fifth worker", "the warm start not counted"):
        found = mutants.audit(MUTANTS[name])
        assert found.passed, found.summary()


@pytest.mark.parametrize("name", MUTANTS)
def test_the_words_of_every_fault_are_in_its_source_once(name: str) -> None:
    """Sources change, and a fault that is in none of them would be taken for one that was found."""
    mutant = MUTANTS[name]
    spec = importlib.util.find_spec(f"fastldp.{mutant.module}")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    for right, wrong in ((mutant.right, mutant.wrong), *mutant.also):
        assert source.count(right) == 1
        assert right != wrong


def test_there_are_enough_of_them() -> None:
    assert sum(mutant.seen for mutant in MUTANTS.values()) >= 20
    assert set(QUICK) <= set(MUTANTS)
