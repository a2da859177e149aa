"""Whatever is written in a specification, it is read or refused in words, with the line; nothing else comes of it."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import fuzzed_specs
from fastldp.describing import canonical
from fastldp.errors import FastLDPError, SpecError
from fastldp.sweeping import spec

# Rounds whose noise is computed to see that it can be.
FEW_ROUNDS = 10_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("fuzz") / "rows.npz"
    A, b = fuzzed_specs.GIVEN["tiny"]
    np.savez(path, A=A, b=b)
    return str(path)


def examine(text: str, *, misspelt: bool) -> bool:
    """Whether a text is read; what is read can be run, and what is refused is refused in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # One that nobody foresaw is a number gone wrong.
        warnings.simplefilter("error", RuntimeWarning)
        try:
            read = spec.read(text, fuzzed_specs.GIVEN)
        except FastLDPError as error:
            if misspelt and not (isinstance(error, SpecError) and re.search(r"line \d+", str(error))):
                raise AssertionError("it says not where the name is that was misspelt") from error
            return False
        for setting in read.settings[:3]:
            if setting.rounds <= FEW_ROUNDS:
                read.grounds[setting.ground].schedule(setting)
            card = read.cards[setting.key]
            assert canonical(json.loads(card.text)) == card.text
    return True


def examine_many(count: int, seed: int, file: str) -> None:
    mutator = fuzzed_specs.Mutator(seed, file)
    texts = [mutator.spec() for _ in range(count)]
    read = 0
    for number, (text, misspelt) in enumerate(texts):
        try:
            read += examine(text, misspelt=misspelt)
        except Exception as error:
            raise AssertionError(f"specification {number} of seed {seed}:\n{text}") from error
    assert 0 < read < count  # or the mutations are too wild, or too tame


@pytest.mark.parametrize("number", range(len(fuzzed_specs.SPECS)))
def test_without_a_mutation_they_are_read(number: int, file: str) -> None:
    assert examine(fuzzed_specs.written(fuzzed_specs.SPECS[number]).replace("{file}", file), misspelt=False)


def test_mutated_specifications_are_read_or_refused(file: str) -> None:
    examine_many(300, 0, file)


@pytest.mark.long
def test_many_mutated_specifications_are_read_or_refused(file: str) -> None:
    examine_many(22_000, 1, file)
