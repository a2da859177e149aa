"""What all tests share: no unseeded randomness, and small problems of every kind."""

import hypothesis

# The same examples on every run, and no folder of remembered ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.load_profile("repeatable")
