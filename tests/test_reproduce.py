"""The reproduction: recipes that parse, choices that are the best, verdicts that can go either way, files made once."""

import csv
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp.cli import main
from fastldp.reproduction import EXPERIMENTS, choosing, experiment, verdicts
from fastldp.reproduction.series import Series
from fastldp.sweeping import spec

RECIPES = sorted(path.name for path in (files("fastldp.reproduction") / "recipes").iterdir())

SMALL = {
    "rounds = [200, 400, 800]": "rounds = [10, 20, 40]",
    "rounds = [100, 200, 300]": "rounds = [10, 20, 40]",
    "rounds = [800, 2400]": "rounds = [100, 1000]",
    "count = 13": "count = 2",
    "count = 9": "count = 2",
    "count = 10": "count = 2",
    "rows = 2000": "rows = 400",
    'name = "a6a"': 'name = "a6a"\nrows = 400',
    "every = 50": "every = 10",
}


def series(*means: float, spread: float = 0.01, label: str = "a method") -> Series:
    """Errors at T = 1000, 2000, ... of ten runs with these means."""
    values = np.array(means)[:, None] * (1 + spread * np.linspace(-1, 1, 10))
    return Series(label, 1000 * np.arange(1, len(means) + 1), values, ({},) * len(means))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_recipe_can_be_run(name: str, quick: bool) -> None:
    text = experiment.recipe_text(name.removesuffix(".toml"))
    read = spec.read(text, synthetic=True, quick=quick)
    assert len(read.settings) > 0
    reported = {setting.seed for setting in read.settings}
    assert reported == ({1} if "tuning" in name else {0})


def test_the_best_setting_of_every_horizon_is_chosen_and_edges_are_named(tmp_path: Path) -> None:
    text = """
    rounds = [20, 200]
    repetitions = 3
    [data]
    synthetic = "ijcnn1"
    rows = 200
    [problem]
    workers = 4
    l2 = 0.1
    [[method]]
    name = "ISRLDP"
    step = [0.01, 0.3, 1.0, 1e3]
    [record]
    final = true
    """
    fl.sweep(text, tmp_path / "tuning.h5")
    chosen = choosing.best(fl.results(tmp_path / "tuning.h5"), method="ISRLDP")
    assert list(chosen) == [20, 200]
    # Without noise the longest step that converges is best.
    assert chosen[200].parameters["step"] == 1.0
    assert chosen[200].edges == ()
    assert np.isfinite(chosen[20].error)


def test_a_choice_written_down_is_the_method_again() -> None:
    parameters = {"method": "ISRLDP", "step": 0.1, "clip": None, "accelerated": True, "tail_average": 0}
    text = choosing.method_table(parameters, "why", rounds=7)
    table = tomllib.loads(text)["method"][0]
    assert table == {"name": "ISRLDP", "step": 0.1, "accelerated": True, "tail_average": 0, "rounds": 7}


@pytest.mark.parametrize(
    ("means", "held"), [((3.0, 1.0, 2.0), True), ((1.0, 2.0, 3.0), False), ((3.0, 2.0, 1.0), False)]
)
def test_improving_and_then_deteriorating(means: Sequence[float], held: bool) -> None:
    assert verdicts.improves_then_deteriorates("here", "it does", series(*means)).held is held


def test_differences_within_the_error_bars_decide_nothing() -> None:
    # Differences are taken run by run: the second has other noise where its spread is turned round.
    assert verdicts.better("here", "it is", series(1.0, 1.0), series(1.0, 1.05, spread=-0.5)).held is None
    assert verdicts.better("here", "it is", series(1.0, 1.0), series(1.0, 1.05)).held is True
    assert verdicts.better("here", "it is", series(1.0, 1.05), series(1.0, 1.0)).held is False
    assert verdicts.decreases("here", "it does", series(1.05, 1.0, spread=0.5), 2000).held is True


@pytest.mark.parametrize(("last", "held"), [(1.1, True), (0.9, True), (1.3, False), (0.7, False), (1.2, None)])
def test_levelling_off_is_staying_within_a_fifth(last: float, held: bool | None) -> None:
    assert verdicts.levels_off("here", "it does", series(5.0, 1.0, last), 2000).held is held


def test_tables_say_what_did_not_hold() -> None:
    found = [verdicts.Verdict("here", "a long claim " * 10, "measured", False)]
    assert "did not hold" in verdicts.table(found)
    assert max(len(line) for line in verdicts.table(found).splitlines()) <= 118
    assert "| **did not hold** |" in verdicts.markdown(found)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    right = experiment.recipe_text

    def shortened(name: str) -> str:
        text = right(name)
        for long, short in SMALL.items():
            text = text.replace(long, short)
        return text

    monkeypatch.setattr(experiment, "recipe_text", shortened)


@pytest.mark.usefixtures("small")
def test_other_runs_in_the_same_folder_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "fig2", "--quick", "--out", str(folder)]) == 0
    before = (folder / "fig2.csv").read_text()
    # More repetitions, and another horizon, of the same settings.
    recipe = (folder / "fig2.toml").read_text().replace("repetitions = 4", "repetitions = 5")
    fl.sweep(recipe, folder / "fig2.h5", quick=True, synthetic=True)
    assert main(["reproduce", "fig2", "--quick", "--out", str(folder)]) == 0
    assert (folder / "fig2.csv").read_text() == before


@pytest.mark.usefixtures("small")
def test_everything_is_made_and_made_once(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "all", "--quick", "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "Figure 1, tuned at each T" in shown
    assert "a quick trial" in shown
    for name in ("fig1", "fig2"):
        for ending in (".h5", ".csv", ".png", ".pdf", ".toml", "-tuning.h5", "-tuning.toml"):
            assert (folder / f"{name}{ending}").stat().st_size > 0
    assert "Algorithm 1" in (folder / "table1.csv").read_text()
    assert fl.results(folder / "fig1.h5").parameters["data"] == ["synthetic ijcnn1"]
    # A second time nothing is run: the results are found.
    monkeypatch.setattr(fl.sweeping.runner, "_drive", lambda *_: pytest.fail("there is nothing left to run"))
    assert main(["reproduce", "fig1", "--quick", "--out", str(folder)]) == 0


@pytest.mark.usefixtures("small")
def test_the_planner_is_judged(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "planner", "--quick", "--out", str(folder)]) == 0
    judged = (folder / "planner-verdicts.md").read_text()
    assert judged.count("the plan with the public prior is better than the paper's step") == 2
    table = (folder / "planner.md").read_text().splitlines()
    assert table[0] == "| synthetic ijcnn1 | expected | T = 100 | T = 1,000 |"
    with (folder / "planner-prior.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 25
    # What is wrong by a factor of one is the public prior.
    right = next(row for row in rows if row["norm"] == row["spectrum"] == "1.0")
    assert f"{float(right['mean']):.3g} ± {float(right['std']):.2g} |" in table[2]
    assert (folder / "planner.png").stat().st_size > 0


def test_the_command_names_all_experiments() -> None:
    from fastldp.cli.reproduce import WHAT

    assert {*EXPERIMENTS, "all"} == set(WHAT)
