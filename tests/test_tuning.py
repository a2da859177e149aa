"""tune(): the table is what solves of the settings give, on noise no solve has; edges and bad input are named."""

import warnings
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
from fastldp import noise
from fastldp.engine import driving
from fastldp.engine.runs import Lane
from fastldp.errors import ArgumentError, GridEdgeWarning
from fastldp.kernels.chacha import key_of
from fastldp.tuning import FIRST_REPETITION

BUDGET = fl.Budget(4.0, 1e-3)


def quietly(*args: object, **given: object) -> fl.Tuned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        return fl.tune(*args, **given)  # type: ignore[arg-type]


def test_every_setting_is_what_a_solve_on_its_noise_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.make("zero").problem
    settings = [
        *fl.grid(fl.DPFedAvg, step=[0.05, 0.2], local_steps=[1, 3], clip=[0.5, None]),
        *fl.grid(fl.ISRLDP, step=[0.1, 0.3], accelerated=[False, True]),
        fl.PrimalDual(step=0.2),
    ]
    tuned = quietly(problem, BUDGET, settings, rounds=[5, 9], repetitions=2, seed=3)
    assert len(tuned.trials) == len(settings) * 2
    errors = [trial.error for trial in tuned.trials]
    assert errors == sorted(errors)
    # The same solves, given the repetitions that tuning has.
    monkeypatch.setattr(noise, "key_of", lambda seed, k, run: key_of(seed, FIRST_REPETITION + k))
    for trial in tuned.trials:
        run = fl.solve(problem, BUDGET, rounds=trial.rounds, algorithm=trial.algorithm, repetitions=2, seed=3)
        assert trial.error == pytest.approx(run.optimality[:, -1].mean(), rel=1e-12)
        assert trial.spread == pytest.approx(run.optimality[:, -1].std(), rel=1e-9)


def test_the_noise_is_never_a_solves() -> None:
    problem = cases.make("zero").problem
    tuned = quietly(problem, BUDGET, [fl.ISRLDP(0.1)], rounds=5, repetitions=3, seed=3)
    run = fl.solve(problem, BUDGET, rounds=5, algorithm=fl.ISRLDP(0.1), repetitions=3, seed=3)
    assert tuned.error != pytest.approx(run.optimality[:, -1].mean(), rel=1e-6)


def test_a_grid_rides_in_lanes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    packs: list[list[Lane]] = []
    pack = driving.pack

    def watched(*given: Any) -> list[list[Lane]]:
        packs.extend(pack(*given))
        return packs

    monkeypatch.setattr(driving, "pack", watched)
    quietly(cases.make("zero").problem, BUDGET, fl.grid(fl.ISRLDP, step=np.geomspace(0.01, 1, 8)), rounds=5)
    # Eight settings of four repetitions, two settings to a block.
    assert [len({id(lane.runs) for lane in mates}) for mates in packs] == [2, 2, 2, 2]


def test_edges() -> None:
    problem = cases.make("zero").problem
    with pytest.warns(GridEdgeWarning, match="step = 0.001 is the largest of 2"):
        tuned = fl.tune(problem, None, fl.grid(fl.ISRLDP, step=[1e-4, 1e-3]), rounds=20, repetitions=1)
    assert "on the edge of the grid: step = 0.001" in tuned.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inside = fl.tune(problem, None, fl.grid(fl.ISRLDP, step=[1e-4, 1.0, 1e9]), rounds=20, repetitions=1)
    assert inside.algorithm == fl.ISRLDP(1.0)
    assert inside.edges == ()
    # Without noise one local step is no edge, and ten are.
    local = quietly(problem, None, fl.grid(fl.DPFedAvg, step=0.05, local_steps=[1, 10]), rounds=20, repetitions=1)
    assert local.edges == ("local_steps = 10 is the largest of 2",)


def test_edges_are_those_of_the_winners_kind() -> None:
    problem = cases.make("zero").problem
    settings = [*fl.grid(fl.ISRLDP, step=[0.01, 0.1], accelerated=True), *fl.grid(fl.ISRLDP, step=[1e-5, 1e9])]
    tuned = quietly(problem, None, settings, rounds=20, repetitions=1)
    assert tuned.edges == ("step = 0.1 is the largest of 2",)
    # No clipping lies beyond every threshold.
    clipped = quietly(problem, None, fl.grid(fl.ISRLDP, step=0.5, clip=[0.01, None]), rounds=20, repetitions=1)
    assert clipped.algorithm == fl.ISRLDP(0.5)
    assert clipped.edges == ()


def test_divergence_loses() -> None:
    problem = cases.make("zero", loss="squared").problem
    tuned = quietly(problem, None, fl.grid(fl.ISRLDP, step=[1e30, 0.1]), rounds=200, repetitions=2)
    assert tuned.algorithm == fl.ISRLDP(0.1)
    assert tuned.trials[-1].error == np.inf
    assert "inf" in tuned.summary()


def test_a_setting_that_cannot_run_is_not_the_end_of_the_others() -> None:
    problem = cases.make("box").problem
    tuned = quietly(problem, BUDGET, [fl.DPFedAvg(0.1, 2), fl.ISRLDP(0.1), fl.ISRLDP(0.2)], rounds=5, seed=0)
    assert [type(trial.algorithm) for trial in tuned.trials] == [fl.ISRLDP, fl.ISRLDP, fl.DPFedAvg]
    assert tuned.trials[-1].error == np.inf
    with pytest.raises(fl.FastLDPError) as refused:
        fl.solve(problem, BUDGET, rounds=5, algorithm=fl.DPFedAvg(0.1, 2))
    assert tuned.trials[-1].reason == str(refused.value)
    assert str(refused.value) in tuned.summary()
    with pytest.raises(ArgumentError, match="no setting can run; of the first: "):
        fl.tune(problem, BUDGET, [fl.DPFedAvg(0.1, 2)], rounds=5)


def test_bad_input() -> None:
    problem = cases.make("zero").problem
    with pytest.raises(ArgumentError, match="nothing to choose from"):
        fl.tune(problem, BUDGET, [], rounds=5)
    with pytest.raises(ArgumentError, match="give instances"):
        fl.tune(problem, BUDGET, ["isrl"], rounds=5)  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match="rounds"):
        fl.tune(problem, BUDGET, [fl.ISRLDP(0.1)], rounds=[5, 0])
    with pytest.raises(ArgumentError, match="repetitions"):
        fl.tune(problem, BUDGET, [fl.ISRLDP(0.1)], rounds=5, repetitions=0)
    for given, argument in (
        ({"rounds": 5.0}, "rounds"),
        ({"rounds": []}, "rounds"),
        ({"rounds": 5, "n_jobs": 0}, "n_jobs"),
        ({"rounds": 5, "seed": 2**256}, "seed"),
        ({"rounds": 5, "repetitions": 10**15}, "algorithm_grid"),
    ):
        with pytest.raises(ArgumentError, match=argument):
            fl.tune(problem, BUDGET, [fl.ISRLDP(0.1)], **given)
    with pytest.raises(ArgumentError, match="give a list of methods"):
        fl.tune(problem, BUDGET, fl.ISRLDP(0.1), rounds=5)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"fastldp\.Problem"):
        fl.tune(np.eye(3), BUDGET, [fl.ISRLDP(0.1)], rounds=5)  # type: ignore[arg-type]
    squared = cases.make("zero", loss="squared").problem
    with pytest.raises(ArgumentError, match="every setting diverged"):
        fl.tune(squared, None, [fl.ISRLDP(1e30), fl.ISRLDP(1e31)], rounds=200)
    with pytest.raises(ArgumentError, match="no proximal step"):
        fl.tune(cases.make("box").problem, BUDGET, [fl.DPFedAvg(0.1, 2)], rounds=5)
