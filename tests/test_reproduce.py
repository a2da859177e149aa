"""The reproduction: recipes that parse, choices that are the best, verdicts that can go either way, files made once."""

import csv
import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp.cli import main
from fastldp.reproduction import EXPERIMENTS, choosing, experiment, fig3, verdicts
from fastldp.reproduction.series import Series
from fastldp.sweeping import sources, spec

RECIPES = sorted(path.name for path in (files("fastldp.reproduction") / "recipes").iterdir())

SMALL = {
    "rounds = [200, 400, 800]": "rounds = [10, 20, 40]",
    "rounds = [100, 200, 300]": "rounds = [10, 20, 40]",
    "count = 9": "count = 2",
    "count = 10": "count = 2",
    "rows = 2000": "rows = 400",
    'name = "a6a"': 'name = "a6a"\nrows = 400',
    "every = 50": "every = 10",
    "every = 12": "every = 5",
    # The network's.
    "rounds = [60, 120, 144]": "rounds = [10, 20, 24]",
    "rounds = 120": "rounds = 20",
    "rounds = 24": "rounds = 4",
    "hidden = 20\n": "hidden = 5\n",
    "sizes = 1540": "sizes = 100",
    "sizes = 154": "sizes = 10",
}


def series(*means: float, spread: float = 0.01, label: str = "a method") -> Series:
    """Errors at T = 1000, 2000, ... of ten runs with these means."""
    values = np.array(means)[:, None] * (1 + spread * np.linspace(-1, 1, 10))
    return Series(label, 1000 * np.arange(1, len(means) + 1), values, ({},) * len(means))


CHOICE = choosing.Choice({"method": "PrimalDual", "step": 0.5, "clip": 1, "strong_convexity": 0.04}, 0.3, ("clip = 1",))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_recipe_can_be_run(name: str, quick: bool) -> None:
    text = experiment.recipe_text(name.removesuffix(".toml"))
    method = choosing.method_table({"method": "PrimalDual", "step": 0.1}, "why")
    if name in ("fig3.toml", "fig3-exact.toml"):  # which end where the choice begins
        text += fig3.network_and_budget((1.0, 1e-4), CHOICE, 200) + method
    if name == "fig3-search-mu.toml":
        text += "clip = 1.0\n" + fig3.budget_table((8.0, 0.05)) + method
    read = spec.read(text, synthetic=True, quick=quick)
    assert len(read.settings) > 0
    reported = {setting.seed for setting in read.settings}
    assert reported == ({1} if "tuning" in name or "search" in name else {0})


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


def accuracy(*ends: float, T: int = 1000) -> Series:
    """Accuracies of several runs after T rounds."""
    values = np.array([[0.1] * len(ends), ends])
    return Series(f"T = {T:,}", np.array([1, T]), values, ({},) * 2, horizon=T)


@pytest.mark.parametrize(
    ("first", "second", "higher", "keeps"),
    [
        ((0.72,), (0.70,), True, True),
        ((0.70,), (0.72,), False, None),  # two points less: a loss or not
        ((0.705,), (0.70,), None, True),  # within two standard errors of ten thousand images
        ((0.66,), (0.70,), False, False),
        ((0.60, 0.84), (0.70, 0.70), None, None),  # the runs differ more than the means do
    ],
)
def test_accuracies_are_compared_as_far_as_images_and_runs_allow(
    first: Sequence[float], second: Sequence[float], higher: bool | None, keeps: bool | None
) -> None:
    assert verdicts.higher("here", "it is", accuracy(*first), accuracy(*second)).held is higher
    assert verdicts.keeps("here", "it does", accuracy(*first), accuracy(*second)).held is keeps


@pytest.mark.parametrize(
    ("end", "held"), [(0.70, True), (0.739, True), (0.75, None), (0.645, None), (0.63, False), (0.9, False)]
)
def test_about_an_accuracy_is_within_five_points(end: float, held: bool | None) -> None:
    found = verdicts.near("here", "it is", accuracy(end), 0.70)
    assert found.held is held
    assert f"{100 * end:.1f} % at T = 1,000" in found.measured


def panel(short: float, middle: float, long: float, *, exact: float) -> fig3.Panel:
    horizons = [accuracy(end, T=T) for end, T in ((short, 500), (middle, 1000), (long, 1200))]
    network = {"clip": 1.0, "strong_convexity": 0.04}
    return fig3.Panel((0.5, 1e-5), network, 0.1, horizons, accuracy(exact), [], 4e-5, "a network")


def test_the_network_is_held_against_all_claims_of_the_paper() -> None:
    claims = fig3._verdicts(panel(0.6, 0.7, 0.7, exact=0.8))
    assert [verdict.held for verdict in claims] == [True, True, True, True, False]
    others = fig3._verdicts(panel(0.9, 0.8, 0.7, exact=0.6))
    assert [verdict.held for verdict in others] == [False, False, False, False, False]
    # The last is of the sampler, which the verdicts name with its numbers.
    assert others[-1].measured == "at most 4e-05, δ = 1e-5"


def test_the_search_has_the_noise_of_the_figure_and_other_seeds_and_images() -> None:
    searched = spec.read(experiment.recipe_text("fig3-search"), synthetic=True)
    given = fig3.network_and_budget((1.0, 1e-4), CHOICE, 200) + "[[method]]\nstep = 0.1\nrounds = 1000\n"
    reported = spec.read(experiment.recipe_text("fig3") + given, synthetic=True)
    (one,) = reported.settings
    accumulated = []
    for read, setting in [(reported, one), *((searched, setting) for setting in searched.settings)]:
        problem, method = read.grounds[0].subjects[setting.subject].problem, setting.method
        assert isinstance(method, fl.PrimalDual)
        # Of those searched the ones that lead to the reported one.
        if (problem.clip, problem.safe_strong_convexity, method.step) in ((1, 0.04, 0.5), (1, 0.04, 0.1)):
            schedule = method.schedule(problem, setting.budget, setting.rounds)
            assert schedule.step * setting.rounds == pytest.approx(100)
            accumulated.append(schedule.step**2 * float(np.sum(schedule.deviations**2)))
    assert accumulated[1] == pytest.approx(accumulated[0], rel=0.01)
    assert len(accumulated) == 3
    rho = [fl.privacy.rho_of(epsilon, delta, "zcdp") for epsilon, delta in fig3.BUDGETS]
    assert accumulated[2] / accumulated[1] == pytest.approx(rho[0] / rho[1], rel=1e-6)
    _, labels, *test = sources._made_up_digits(0)
    held_out = searched.grounds[0].subjects[0].problem
    assert isinstance(held_out, fl.MLP)
    assert held_out._test is not None
    np.testing.assert_array_equal(held_out._test[1], labels[-10_000:])
    assert not np.array_equal(labels[-10_000:], test[1])


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
def test_the_network_is_searched_and_drawn_and_made_once(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "fig3", "--quick", "--out", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("Figure 3, (1, 1e-4)", "(0.5, 1e-5): the search at T = 4 chose C = ", "at the edge of its grid: "):
        assert text in shown
    for ending in (".h5", ".csv", ".png", ".pdf", "-verdicts.md", "-search.h5", "-search.csv", "-search.toml"):
        assert (folder / f"fig3{ending}").stat().st_size > 0
    # The reported runs have what the search found best.
    with (folder / "fig3-search.csv").open(newline="") as file:
        tried = [row for row in csv.DictReader(file) if float(row["epsilon"]) > 5]
    best = max(tried, key=lambda row: float(row["test_accuracy"]))
    found = fl.results(folder / "fig3.h5").where(epsilon=1)
    assert found.parameters["clip"] == [float(best["clip"])]
    assert found.parameters["strong_convexity"] == [float(best["strong_convexity"])]
    assert found.parameters["step"] == [float(best["step"]) * 4 / 20]
    assert {float(row["strong_convexity"]) for row in tried} == {0.01, 0.04, 0.16}
    assert {(run.parameters["rounds"], run.parameters["accounting"]) for run in found} == {
        (10, "zcdp"),
        (20, "zcdp"),
        (24, "zcdp"),
        (20, "gdp"),
    }
    points = (folder / "fig3.csv").read_text()
    for measure in ("test accuracy", "train loss", "consensus error"):
        assert len(re.findall(f"T = 24, {measure}", points)) == 2 * 5
    # A second time nothing is run: the results are found.
    monkeypatch.setattr(fl.sweeping.runner, "_drive", lambda *_: pytest.fail("there is nothing left to run"))
    assert main(["reproduce", "fig3", "--quick", "--out", str(folder)]) == 0


def test_the_command_names_all_experiments() -> None:
    from fastldp.cli.reproduce import ALL, WHAT

    assert (*EXPERIMENTS, "all") == WHAT
    # The network takes too long to be made along with the others.
    assert (*ALL, "fig3") == tuple(EXPERIMENTS)
