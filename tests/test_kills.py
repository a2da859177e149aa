"""Kills of forked sweeps: they lose nothing, and would be seen to."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"

# In a process that has no threads yet.
TRIAL = f"""
import random, sys, tempfile
from pathlib import Path
from unittest import mock
sys.path.insert(0, {str(SCRIPTS)!r})
from fastldp.sweeping.store import Store
from forks import Forks
with tempfile.TemporaryDirectory() as folder:
    forks = Forks(Path(folder), random.Random(0))
    forks.run(4)
    print(forks.kills.total(), forks.sound)
    commit, count = Store.commit, iter(range(10**6))
    # Every other time nothing is written, and all the same it is reported; no more kills, whose moments are chance.
    with mock.patch.object(Store, "commit", lambda *given: next(count) % 2 or commit(*given)):
        forks.run(0)
    print(forks.sound)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="forks are a thing of POSIX")
def test_kills_lose_nothing_and_a_loss_would_be_seen() -> None:
    done = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["4", "True", "False"], done.stderr
