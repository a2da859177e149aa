"""`python -m fastldp.cli`: the same as `python -m fastldp`."""

import fastldp.__main__  # noqa: F401 - which runs it
