"""What all tests share: no unseeded randomness, small problems of every kind, and no pictures that stay open."""

import sys
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis.configuration import set_hypothesis_home_dir

# The same examples on every run, and no folder of remembered ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")
set_hypothesis_home_dir(tempfile.mkdtemp(prefix="fastldp-hypothesis-"))


@pytest.fixture(autouse=True)
def _no_open_pictures() -> Iterator[None]:
    """Pictures of earlier tests are closed: matplotlib warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
