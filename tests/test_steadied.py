"""What an experiment judges: errors of the right runs, each divided by its own luck."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp.kernels.chacha import key_of
from fastldp.reproduction import claims, experiment
from fastldp.reproduction.claims import Point
from fastldp.reproduction.experiment import Experiment, Place, Source
from fastldp.reproduction.response import lucks, response
from fastldp.reproduction.series import Series
from fastldp.sweeping import spec
from fastldp.sweeping.trials import grid_of

TEXT = """
rounds = [30, 40]
repetitions = 4
seed = 0
[noise]
common = true
[data]
synthetic = "ijcnn1"
rows = 200
[problem]
workers = 4
l2 = 0.1
[budget]
epsilon = 3.0
delta = 1e-4
[[method]]
name = "PrimalDual"
step = 0.1
[record]
final = true
"""
METHODS = {
    "ours": {"method": "PrimalDual", "step": 0.2},
    "theirs": {"method": "ISRLDP", "step": 0.05},
    "local": {"method": "DPFedAvg", "step": 0.03, "local_steps": 2},
}


class Made(Experiment):
    name = "made"

    def run(self) -> Any:
        return []


def source(label: str, T: int, **more: Any) -> Source:
    return Source(Series(label, np.array([T]), np.zeros((1, 4)), (METHODS[label],)), "made", "made.h5", **more)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(experiment, "recipe_text", lambda name: TEXT)
    return Made(Place(tmp_path, quick=True, synthetic=True, n_jobs=1))


def by_hand(source: Source, rounds: int, begin: int, end: int) -> tuple[Any, Any]:
    """The errors of these runs and their luck."""
    grid = grid_of(source.method(rounds), "", rounds)
    sweep = fl.Sweep.from_toml(TEXT, synthetic=True, rounds=rounds, methods=[grid])
    problem = {"workers": 4, "l2": 0.1, **source.problem}
    read = spec.read(sweep.replace(problems=[fl.grid(fl.Problem, **problem)]))
    (setting,) = read.settings
    run = fl.solve(
        read.grounds[0].subjects[0].problem,
        fl.Budget(3.0, 1e-4),
        rounds=rounds,
        algorithm=setting.method,
        repetitions=end,
        seed=0,
        common_noise=True,
        record=fl.Final(),
        n_jobs=1,
    )
    made = response(read.grounds[0], setting, differing=source.measure == "optimality")
    assert made is not None
    (luck,) = lucks([made], np.stack([key_of(0, repetition) for repetition in range(begin, end)]))
    return getattr(run, source.measure)[begin:, -1], luck


def test_errors_are_divided_by_the_luck_of_their_own_runs(here: Made) -> None:
    points = [
        (Point("b", 40), source("theirs", 40)),
        (Point("a", 40), source("ours", 40)),
        (Point("a", 30), source("ours", 30)),
        (Point("far", 40), source("ours", 40, measure="distance")),
        (Point("other l2", 40), source("ours", 40, problem={"l2": 0.3})),
        (Point("local", 30), source("local", 30)),
    ]
    for begin, end in ((0, 4), (4, 9)):
        plain = here.repeated(points, begin, end)
        steadied = here.repeated(points, begin, end, steadied=True)
        for point, one in points:
            error, luck = by_hand(one, point.rounds, begin, end)
            np.testing.assert_allclose(plain[point], error, rtol=1e-9, err_msg=str((point, begin)))
            np.testing.assert_allclose(steadied[point], error / luck, rtol=1e-9, err_msg=str((point, begin)))


def test_claims_are_judged_by_other_runs_than_choices_were_made_by(here: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def repeated(points: Any, begin: int, end: int, *, steadied: bool = False) -> Any:
        asked.append(([point for point, _ in points], begin, end, steadied))
        return {point: np.exp(0.3 * np.resize([1.0, -1.0], end - begin)) for point, _ in points}

    monkeypatch.setattr(here, "repeated", repeated)
    curve = [Point("curve", T) for T in (10, 20, 30, 40)]
    a, b = Point("a", 40), Point("b", 40)
    dip = claims.falls_and_rises("here", "it does", "curve", [10, 20, 30, 40])
    here.judge([dip, claims.better("here", "it is", a, b)], dict.fromkeys(("curve", "a", "b"), source("ours", 40)))
    (chosen, *judged), first = asked, claims.QUICK_LOOKS[0]
    # What is chosen is chosen on the runs of the curves: the ways of claims, and where luck is to be taken away.
    assert chosen == (sorted([*curve, a, b]), 0, first, True)
    assert judged[0] == (sorted([*curve, a, b]), first, 2 * first, True)
    assert {begin for _, begin, _, _ in judged} == {first}
    assert [end - begin for _, begin, end, _ in judged] == list(claims.QUICK_LOOKS)[: len(judged)]


def test_luck_stays_where_its_first_order_is_too_rough(here: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def rough(*given: Any) -> Any:
        return [luck**5 for luck in lucks(*given)]

    monkeypatch.setattr(experiment, "lucks", rough)
    points = [(Point("a", 40), source("ours", 40))]
    here.repeated(points, 0, 4, steadied=True)
    plain, judged = (here.repeated(points, 4, 9, steadied=steadied)[points[0][0]] for steadied in (False, True))
    np.testing.assert_array_equal(plain, judged)


def test_of_runs_that_diverge_claims_are_judged_as_they_are(here: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "long", {"method": "ISRLDP", "step": 60.0})
    sources = {"ours": source("ours", 40), "long": source("long", 40, problem={"l2": 10.0})}
    claim = claims.better("here", "it is", Point("ours", 40), Point("long", 40))
    (verdict,) = here.judge([claim], sources)
    assert verdict.word == "held"


def test_curves_have_no_repetitions_that_are_judged() -> None:
    apart = ("fig3", "readings-list", "readings-allocation", "scaffold")
    for path in (files("fastldp.reproduction") / "recipes").iterdir():
        name = path.name.removesuffix(".toml")
        if "tuning" in name or "search" in name or name.startswith(apart):
            continue
        text = path.read_text(encoding="utf-8")
        methods: dict[str, Any] = {} if "[[method]]" in text else {"methods": [fl.grid(fl.ISRLDP, step=0.1)]}
        for quick, looks in ((True, claims.QUICK_LOOKS), (False, claims.LOOKS)):
            assert fl.Sweep.from_toml(text, quick=quick, synthetic=True, **methods).repetitions <= looks[0], name
