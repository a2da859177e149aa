"""tune(): the table is what solves of the settings give, on noise no solve has; edges and bad input are named."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
import sweeps
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


def test_the_best_at_each_horizon_and_once_for_all() -> None:
    problem = cases.make("zero").problem
    steps = [0.003, 0.05, 0.8]
    tuned = quietly(problem, BUDGET, fl.grid(fl.ISRLDP, step=steps), rounds=[2, 60], repetitions=2, seed=1)
    errors = {(trial.parameters["step"], trial.rounds): trial.error for trial in tuned.trials}
    for T in (2, 60):
        assert tuned.each[T].parameters["step"] == min(steps, key=lambda step: errors[step, T])
        assert tuned.each[T].error == min(errors[step, T] for step in steps)
    means = {step: np.sqrt(errors[step, 2] * errors[step, 60]) for step in steps}
    assert tuned.once.parameters["step"] == min(means, key=means.__getitem__)
    assert tuned.once.error == pytest.approx(min(means.values()), rel=1e-12)
    assert tuned.once.algorithm == fl.ISRLDP(tuned.once.parameters["step"])
    # What cannot be run at some horizon is none for all of them.
    settings = [fl.ISRLDP(1e-9), fl.ISRLDP(0.05, tail_average=3)]
    tuned = quietly(problem, BUDGET, settings, rounds=[2, 60], repetitions=1, seed=1)
    assert tuned.each[60].algorithm == settings[1]
    assert tuned.once.algorithm == settings[0]


@pytest.mark.parametrize("extend", [1, 3])
def test_a_grid_goes_on_beyond_an_edge_that_the_best_lies_on(extend: int) -> None:
    problem = cases.make("zero").problem
    grid = fl.grid(fl.ISRLDP, step=[0.001, 0.002])
    tuned = quietly(problem, None, grid, rounds=20, repetitions=1, extend=extend)
    steps = sorted(trial.parameters["step"] for trial in tuned.trials)
    # Without noise longer steps are better, and each is twice the one before.
    assert steps == [0.001 * 2**k for k in range(2 + extend)]
    assert tuned.algorithm == fl.ISRLDP(steps[-1])
    assert tuned.edges == (f"step = {steps[-1]:g} is the largest of {2 + extend}",)
    # Those that it tries are what they are anywhere.
    whole = quietly(problem, None, fl.grid(fl.ISRLDP, step=steps), rounds=20, repetitions=1)
    assert [trial.error for trial in tuned.trials] == [trial.error for trial in whole.trials]
    # Where none lies on an edge there is nothing to go on with.
    inside = quietly(problem, None, fl.grid(fl.ISRLDP, step=[1e-4, 1.0, 1e9]), rounds=20, repetitions=1, extend=3)
    assert len(inside.trials) == 3


def test_a_grid_goes_on_to_the_limits_of_a_method() -> None:
    problem = cases.make("zero").problem
    grid = fl.grid(fl.DPScaffNew, step=0.1, probability=[0.5, 0.7])
    tuned = quietly(problem, None, grid, rounds=40, repetitions=1, extend=3)
    assert max(trial.parameters["probability"] for trial in tuned.trials if not trial.reason) <= 1
    local = fl.grid(fl.DPFedAvg, step=0.05, local_steps=[2, 3])
    found = quietly(problem, None, local, rounds=20, repetitions=1, extend=2)
    # Without noise more of them are better; they stay whole numbers.
    assert sorted(trial.parameters["local_steps"] for trial in found.trials) == [2, 3, 4, 5]


def test_settings_are_ranked_by_what_is_asked_for() -> None:
    A, b = np.random.default_rng(0).standard_normal((90, 4)), np.where(np.arange(90) % 3, 1.0, -1.0)
    problem = fl.Problem(A[:60], b[:60], workers=3, l2=0.1, test=(A[60:], b[60:]))
    grid = fl.grid(fl.ISRLDP, step=[0.01, 0.1, 1.0])
    given: dict[str, Any] = {"rounds": 9, "repetitions": 2, "seed": 3}

    def errors(by: Any) -> dict[float, float]:
        tuned = quietly(problem, BUDGET, grid, by=by, **given)
        assert [trial.error for trial in tuned.trials] == sorted(trial.error for trial in tuned.trials)
        return {trial.parameters["step"]: trial.error for trial in tuned.trials}

    for by, measure in (("objective", problem.objective), ("accuracy", lambda x: 1 - problem.accuracy(x))):
        assert errors(by) == errors(lambda _, x, measure=measure: measure(x))
    optimum = problem.optimum()
    relative = errors(lambda _, x: float(np.sum((x - optimum) ** 2) / np.sum(optimum**2)))
    assert errors("distance") == pytest.approx(relative, rel=1e-9)
    assert all(errors("optimality")[step] >= error for step, error in errors("distance").items())
    with pytest.raises(ArgumentError, match="by = 'accuracys': use one of .*did you mean 'accuracy'"):
        fl.tune(problem, BUDGET, grid, by="accuracys", **given)
    with pytest.raises(ArgumentError, match="by = 'accuracy': there are no test data"):
        fl.tune(cases.make("zero").problem, BUDGET, grid, by="accuracy", **given)
    with pytest.raises(ArgumentError, match="extend = -1"):
        fl.tune(problem, BUDGET, grid, extend=-1, **given)


def test_parameters_that_refuse_each_other_are_trials_that_cannot_run() -> None:
    problem = cases.make("zero").problem.replace(gradient_bound=1.0)
    grid = fl.grid(fl.ISRLDP, step=[0.1, "planned"], accelerated=[False, True])
    assert [method.accelerated for method in grid] == [False, True, False]
    tuned = quietly(problem, BUDGET, grid, rounds=500, repetitions=1)
    assert len(tuned.trials) == 4
    assert "plain descent only" in tuned.trials[-1].reason
    with pytest.raises(ArgumentError, match="step = -1"):
        fl.grid(fl.ISRLDP, step=[-1.0, -2.0])
    with pytest.raises(ArgumentError, match="stop = 0.1: ISRLDP has no such parameter"):
        fl.grid(fl.ISRLDP, stop=0.1)


def test_a_sweep_is_tuned_by_its_file(tmp_path: Path) -> None:
    A, b = sweeps.matrix()
    problem = fl.Problem(A, b, workers=4, l2=0.1)
    grid = fl.grid(fl.ISRLDP, step=[0.001, 0.002])
    sweep = fl.Sweep(problems={"tiny": problem}, methods=grid, rounds=[10, 20], record=fl.Final())
    path = tmp_path / "trials.h5"
    tuned = sweep.tune(path, extend=2, progress=False)
    # As of tune(), without noise.
    wanted = quietly(problem, None, grid, rounds=[10, 20], repetitions=1, extend=2)
    assert tuned.once.algorithm == wanted.once.algorithm
    assert tuned.once.error == pytest.approx(wanted.once.error, rel=1e-9)
    assert {T: one.method["step"] for T, one in tuned.each.items()} == {10: 0.008, 20: 0.008}
    assert tuned.algorithm == wanted.algorithm
    # What is there is not made again.
    assert len(fl.results(path)) == 8
    made = fl.results(path).digest()
    assert sweep.tune(path, extend=2, progress=False).once.error == tuned.once.error
    assert fl.results(path).digest() == made
    with pytest.raises(ArgumentError, match="several problems or budgets"):
        sweep.replace(budgets=[BUDGET, fl.Budget(1.0, 1e-3)]).tune(path, progress=False)


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
