"""Forecasts: the arithmetic of what was measured. How long things take is no matter of tests."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp.sweeping import forecasting
from fastldp.sweeping import spec as specs
from fastldp.sweeping.agenda import Agenda, Blocks
from fastldp.sweeping.forecasting import Measured, Pace, makespan
from fastldp.sweeping.runner import standings_of
from fastldp.sweeping.store import Stored
from fastldp.sweeping.work import COMPLETED, RUNNING, rehearse

NOTHING = Pace(0.0, 0.0)


def blocks_of(rounds: list[int], kinds: list[int]) -> Blocks:
    count = np.arange(len(rounds))
    zeros = np.zeros(len(rounds), dtype=np.int64)
    return Blocks(count, count, count + 1, np.array(rounds), np.zeros(len(rounds)), zeros, np.array(kinds))


def test_a_line_through_two_measurements() -> None:
    assert Pace.through((10, 3.0), (50, 7.0)) == Pace(2.0, 0.1)
    # One length alone: all of it is fixed.
    assert Pace.through((1, 3.0), (1, 4.0)) == Pace(4.0, 0.0)
    # Noise must not make a cost negative.
    assert Pace.through((10, 3.0), (50, 2.0)) == Pace(2.5, 0.0)
    assert Pace.through((10, 1.0), (20, 3.0)) == Pace(0.0, 0.15)


def test_blocks_are_shared_out_in_turn() -> None:
    assert makespan(np.array([3.0, 2.0, 2.0]), 2) == 4.0
    assert makespan(np.array([5.0]), 4) == 5.0
    assert makespan(np.zeros(0), 2) == 0.0
    many = np.full(forecasting.FEW_BLOCKS + 1, 2.0)
    assert makespan(many, 2) == many.size


def test_a_forecast_adds_up_what_was_measured() -> None:
    blocks = blocks_of([100, 50, 50, 10], [0, 0, 0, 3])
    paces = {0: Pace(1.0, 0.1), 3: Pace(0.5, 0.25)}
    bare = Measured(2.0, 4.0, paces, NOTHING, NOTHING)
    # 11, 6, 6 and 3 seconds on two slots: 11 + 3 and 6 + 6.
    assert bare.seconds(blocks, 4, 2, shared=False) == 2.0 + 4.0 + 14.0
    # A part a second of work, and the one file in the end.
    written = bare._replace(commits=Pace(0.5, 0.01), folding=Pace(3.0, 0.02))
    assert written.seconds(blocks, 4, 2, shared=False) == pytest.approx(20.0 + 14 * 0.5 + 0.04 + 3.0 + 0.08)
    alone = blocks_of([100], [0])
    assert bare.seconds(alone, 8, 2, shared=False) == 17.0
    assert bare.seconds(alone, 8, 2, shared=True) == 11.5
    # A sweep that has nothing to do has read its specification all the same.
    assert written.seconds(blocks_of([], []), 0, 2, shared=False) == 2.0


def test_a_rehearsal_is_the_path_of_the_sweep(tmp_path: Path) -> None:
    text = sweeps.spec(repetitions=8, rounds="50")
    spec = specs.read(text, sweeps.DATA)
    agenda = Agenda(spec, standings_of(spec, Stored(tmp_path / "r.h5")), retry=False)
    block = agenda.pending(agenda.blocks(), 0)
    cut, whole = (rehearse(spec.grounds[0], block, rounds) for rounds in (20, 1000))
    assert [(leg.end, leg.outcome) for leg in cut.legs] == [(20, RUNNING)] * 8
    assert [(leg.end, leg.outcome) for leg in whole.legs] == [(50, COMPLETED)] * 8
    sweeps.run(text, tmp_path / "r.h5")
    methods: dict[str, Any] = {setting.key: setting.method for setting in spec.settings}
    found = {(run.parameters["step"], run.repetition): run.x for run in fl.results(tmp_path / "r.h5")}
    for leg in whole.legs:
        np.testing.assert_array_equal(leg.columns["x"], found[methods[leg.key].step, leg.repetition])


def test_every_kind_of_block_is_tried_on_all_slots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[Any, int]] = []

    def noted(ground: Any, block: Any, rounds: int) -> Any:
        tried.append((type(block[0].setting.method).__name__, rounds))
        return rehearse(ground, block, rounds)

    monkeypatch.setattr(forecasting, "rehearse", noted)
    monkeypatch.setattr(forecasting, "TRIAL_SECONDS", 1e9)
    text = sweeps.spec("primal_dual", "isrl", rounds="40", repetitions=8)
    plan = fl.sweeping.forecast(text, tmp_path / "r.h5", given=sweeps.DATA, n_jobs=2)
    assert (plan.blocks, plan.slots) == (4, 2)
    for name in ("PrimalDual", "ISRLDP"):
        lengths = [rounds for kind, rounds in tried if kind == name]
        # Once to load it, once more, up to its length; then both blocks of the kind on two slots, at two lengths.
        assert lengths == [1, 1, 1, 4, 16, 40] + [5] * 4 + [40] * 4
    assert not list(tmp_path.iterdir())
