"""What all tests share: no unseeded randomness, and small problems of every kind."""

import tempfile

import hypothesis
from hypothesis.configuration import set_hypothesis_home_dir

# The same examples on every run, and no folder of remembered ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")
set_hypothesis_home_dir(tempfile.mkdtemp(prefix="fastldp-hypothesis-"))
