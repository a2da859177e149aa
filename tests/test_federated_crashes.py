"""Workers that die at any operation on their disk, or lose power: what was released is counted, and never differs."""

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from evidence import Tree, lay
from fastldp import disk as disk_module
from fastldp.errors import RefusedError, StoreError
from fastldp.federation import Ask, Terms, Worker, common_key
from fastldp.federation.account import Prices, together
from fastldp.federation.folder import Folder
from faults import Disk, Moment, standing_in

SCRIPT = Path(__file__).parents[1] / "scripts" / "outages.py"
ROUNDS, DIMENSION, ROWS = 3, 4, 20
# What a worker does to its disk, from its first training to its end.
OPERATIONS = 40
LIFE = fl.Budget(1.0, 1e-4)
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((ROWS, DIMENSION)), RNG.choice([-1.0, 1.0], ROWS)
TERMS = Terms(np.array([ROWS]), DIMENSION, LIFE, ROUNDS, l2=0.1, gradient_bound=1.0)


def asks() -> list[Ask]:
    return [Ask(0, t, TERMS.digest, np.full(DIMENSION, 0.1 * t)) for t in range(1, ROUNDS + 1)]


def answered(folder: Path, told: list[bytes], **given: Any) -> None:
    """All rounds, by a worker that is closed in the end; what left it is written down as it leaves."""
    with Worker(A, B, LIFE, TERMS, worker=0, folder=folder, **given) as worker:
        for ask in asks()[max(0, (worker.round or 1) - 1) :]:
            told.append(worker.answer(ask).to_bytes())


def check(folder: Path, told: list[bytes], key: bytes) -> None:
    """What is left of a folder counts all that was told, and a worker that goes on repeats it."""
    prices, last = Prices(TERMS, 0), len(told)
    assert Folder(folder).spent().rho >= together(prices.of(t) for t in range(1, last + 1)).rho
    with Worker(A, B, LIFE, TERMS, worker=0, folder=folder, key=key) as worker:
        if told:
            assert worker.round is not None
            assert worker.round >= last
        if told and worker.round == last:
            # The same again, and nothing else.
            assert worker.answer(asks()[last - 1]).to_bytes() == told[-1]
            with pytest.raises(RefusedError, match="at another point"):
                worker.answer(Ask(0, last, TERMS.digest, np.zeros(DIMENSION)))
        for ask in asks()[worker.round or 0 :]:
            told.append(worker.answer(ask).to_bytes())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """All answers."""
    root, told = tmp_path_factory.mktemp("disk"), list[bytes]()
    with standing_in(Disk(root), disk_module) as disk:
        answered(root / "f", told, key=common_key(0))
    disk.verify()
    assert len(disk.operations) == OPERATIONS
    return told


def deaths(step: int) -> list[tuple[int, Moment]]:
    moments: tuple[Moment, ...] = ("before", "half-way", "after")
    return [(at, moment) for at in range(0, OPERATIONS, step) for moment in moments]


@pytest.mark.parametrize(
    ("at", "moment"), [*deaths(7), *(pytest.param(*one, marks=pytest.mark.long) for one in deaths(1))]
)
def test_a_death_or_a_loss_of_power_uncounts_nothing(
    at: int, moment: Moment, undisturbed: list[bytes], tmp_path: Path
) -> None:
    root, told = tmp_path / "disk", list[bytes]()
    root.mkdir()
    with standing_in(Disk(root, at, moment), disk_module) as disk:
        answered(root / "f", told, key=common_key(0))
    assert disk.dead
    states: list[Tree] = [disk.left(), *(tree for _, tree in disk.power_losses())]
    for number, tree in enumerate(states):
        place, seen = tmp_path / str(number), list(told)
        lay(tree, place)
        check(place / "f", seen, common_key(0))
        assert seen[: len(told)] == undisturbed[: len(told)]
        assert set(seen) <= set(undisturbed)


@pytest.mark.parametrize("at", range(0, OPERATIONS, 4))
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_lets_no_answer_leave(
    at: int, number: int, undisturbed: list[bytes], tmp_path: Path
) -> None:
    told: list[bytes] = []
    with standing_in(Disk(tmp_path, at, error=number), disk_module) as disk:
        try:
            answered(tmp_path / "f", told, key=common_key(0))
        except (StoreError, RefusedError, OSError):
            counted = Folder(tmp_path / "f").journal(TERMS.digest)
            # What was not said to be there may be: an answer that is counted and never left.
            assert len(told) <= (0 if counted is None else counted.round) <= len(told) + 1
    disk.verify()
    check(tmp_path / "f", told, common_key(0))
    assert set(told) <= set(undisturbed)


def test_a_worker_whose_journal_failed_goes_on_from_what_the_disk_has(tmp_path: Path) -> None:
    """The rename was done and the folder could not be synced: the answer is there, and has not left."""
    with Worker(A, B, LIFE, TERMS, worker=0, folder=tmp_path) as worker:
        with pytest.MonkeyPatch.context() as patch:

            def broken(path: Path) -> None:
                raise OSError(errno.EIO, "broken")

            patch.setattr(disk_module, "sync_folder", broken)
            with pytest.raises(StoreError, match="broken"):
                worker.answer(asks()[0])
        with pytest.raises(RefusedError, match="at another point"):
            worker.answer(Ask(0, 1, TERMS.digest, np.zeros(DIMENSION)))
        first = worker.answer(asks()[0])
        assert worker.spent.rho == Prices(TERMS, 0).of(1).rho
        assert worker.answer(asks()[0]).to_bytes() == first.to_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="forks are a thing of POSIX")
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--kills", "8", "--step", "3"), marks=pytest.mark.thorough),
        pytest.param(("--kills", "500"), marks=pytest.mark.long),
    ],
)
def test_outages_lose_nothing(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was lost" in done.stdout
