"""The reproduction: recipes that parse, choices that are the best, verdicts that can go either way, files made once."""

import csv
import json
import re
import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp.cli import main
from fastldp.engine.block import Block
from fastldp.noise import Noise
from fastldp.reproduction import EXPERIMENTS, choosing, experiment, fig3, searching, table1, verdicts
from fastldp.reproduction.series import Series, along_rounds
from fastldp.sweeping import keys, spec
from fastldp.sweeping.trials import grid_of
from fastldp.tuning import Tuned

# One is a list of what readings change in another.
RECIPES = sorted(
    path.name for path in (files("fastldp.reproduction") / "recipes").iterdir() if path.name != "readings-list.toml"
)

SMALL = {
    "rounds = [200, 400, 800]": "rounds = [10, 20, 40]",
    "rounds = [800, 2400]": "rounds = [100, 1000]",
    "rounds = [2400]": "rounds = [1000]",
    "rounds = [500, 800]": "rounds = [200, 400]",
    "rounds = [500, 800, 1200]": "rounds = [200, 300, 400]",
    "rounds = [400, 800, 1200]": "rounds = [10, 20, 40]",
    **{f"count = {count}": "count = 2" for count in (6, 9, 13, 19, 25)},
    "gradient_bound = [0.1, 0.25, 0.6, 1.3]": "gradient_bound = [0.25, 1.3]",
    "rows = 2000": "rows = 400",
    'name = "a6a"': 'name = "a6a"\nrows = 400',
    "every = 50": "every = 10",
    "every = 12": "every = 5",
    # The network's.
    "rounds = [30, 60, 72]": "rounds = [10, 20, 24]",
    "rounds = 60\n": "rounds = 20\n",
    "rounds = 24\n": "rounds = 8\n",
    "rounds = 12\n": "rounds = 4\n",
    "every = 6}": "every = 5}",
    "hidden = 20\n": "hidden = 5\n",
    "sizes = 770\n": "sizes = 100\n",
    "sizes = 77\n": "sizes = 10\n",
}


SETTING = searching.Setting(step=0.1, clip=1.0, strong_convexity=0.04)


class Made(experiment.Experiment):
    """One that is only looked at."""

    name = "made"

    def run(self) -> list[verdicts.Verdict]:
        return []


def made(recipe: str, given: dict[str, Any] | None = None, *, quick: bool = False) -> fl.Sweep:
    """The sweep of a recipe, with what an experiment gives it."""
    more = dict(given or {})
    added = more.pop("methods", [])
    return Made(experiment.Place(Path(), quick=quick, synthetic=True)).recipe(recipe, added=added, **more)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_recipe_can_be_run(name: str, quick: bool) -> None:
    open_ = name in ("fig3-open.toml", "fig3-search-open.toml")  # which have no noise
    # Others of the network lack what was chosen.
    given = SETTING.given((1.0, 1e-4), "why") if name.startswith("fig3") and not open_ else {}
    if name.startswith("scaffold"):  # the stand-in has fewer rows than the set
        given |= {"data": {"rows": [400, 2000]}}
    read = spec.read(made(name.removesuffix(".toml"), given, quick=quick))
    assert len(read.settings) > 0
    # The same noise for all, so that differences can be taken run by run.
    reported = {setting.noise for setting in read.settings}
    assert reported == {Noise(1 if "tuning" in name or "search" in name else 0, common=not open_)}


def test_in_the_papers_comparison_nobody_clips() -> None:
    for name in ("fig1-tuning", "fig1"):
        read = spec.read(experiment.recipe_text(name), synthetic=True)
        assert {getattr(setting.method, "clip", None) for setting in read.settings} == {None}
        assert [ground.subjects[0].problem.bound_source for ground in read.grounds] == ["data"]


def test_all_methods_may_clip_to_the_same_bounds() -> None:
    text = experiment.recipe_text("fig1-clipped-tuning")
    read = spec.read(text, synthetic=True)
    bounds: dict[str, set[float]] = {}
    for setting in read.settings:
        problem = read.grounds[setting.ground].subjects[setting.subject].problem
        assert getattr(setting.method, "clip", None) is None
        bounds.setdefault(type(setting.method).__name__, set()).add(problem.gradient_bound)
    assert len(bounds) == 4
    assert all(found == {0.1, 0.25, 0.6, 1.3} for found in bounds.values())
    reported = spec.read(experiment.recipe_text("fig1-clipped"), synthetic=True)
    assert {s.problem.gradient_bound for s in reported.grounds[0].subjects} == {0.1, 0.25, 0.6, 1.3}


def test_clipped_runs_are_measured_by_the_optimum_that_is_not_clipped() -> None:
    text = experiment.recipe_text("fig1-clipped").replace("rows = 2000", "rows = 200")
    subjects = spec.read(text, synthetic=True).grounds[0].subjects
    data = fl.datasets.synthetic("ijcnn1")
    right = fl.Problem(data.A[:200], data.b[:200], workers=20, l2=0.1).optimum()
    for subject in subjects:
        np.testing.assert_allclose(subject.optimum, right, atol=1e-10)
    # Without noise a clipped run settles, but elsewhere, and its error says how far.
    clipped = next(s.problem for s in subjects if s.problem.gradient_bound == 0.1)
    run = fl.solve(clipped, rounds=400, algorithm=fl.ISRLDP(step=1.0))
    far = float(np.sum((run.x[0] - right) ** 2) / np.sum(right**2))
    assert run.optimality[0, -1] == pytest.approx(far) == pytest.approx(run.optimality[0, -2], rel=1e-3)
    assert far > 0.01


class Tried:
    """A tuning sweep with these errors: a setting, a horizon, and the errors of its runs."""

    def __init__(self, *rows: tuple[dict[str, Any], int, list[float]]) -> None:
        self.rows = [(setting, T, error) for setting, T, errors in rows for error in errors]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **_: Any) -> "Tried":
        return self

    def table(self) -> dict[str, Any]:
        known = {"method": "DPFedAvg", "local_steps": 2, "clip": None, "server_step": 1.0, "gradient_bound": None}
        columns = {name: [(known | row[0])[name] for row in self.rows] for name in (*known, "step")}
        errors = np.array([row[2] for row in self.rows])
        return columns | {
            "rounds": [row[1] for row in self.rows],
            "optimality": errors,
            "outcome": np.where(np.isfinite(errors), "completed", "diverged"),
        }


def tuned(*rows: tuple[dict[str, Any], int, list[float]]) -> Tuned:
    tried: Any = Tried(*rows)
    return choosing.tuned(tried, method="DPFedAvg")


def test_one_choice_for_all_horizons_has_the_least_mean_of_logarithms() -> None:
    a, b, c, d = ({"step": step} for step in (0.1, 0.2, 0.3, 0.4))
    found = tuned(
        (a, 10, [0.5, 1.5]),
        (a, 20, [100.0, 100.0]),  # ln 1 + ln 100 = ln 100
        (b, 10, [9.0, 9.0]),
        (b, 20, [9.0, 9.0]),  # ln 81, and the least sum
        (c, 10, [0.01, 0.19]),
        (c, 20, [500.0, 500.0]),  # ln 50: the logarithm is of the mean, not the mean of logarithms of runs
        (d, 10, [0.001, np.inf]),
        (d, 20, [0.001, 0.001]),
    )
    assert found.once.parameters["step"] == 0.3
    assert found.once.error == pytest.approx(np.sqrt(0.1 * 500))
    assert {T: choice.parameters["step"] for T, choice in found.each.items()} == {10: 0.3, 20: 0.4}


def test_edges_are_those_of_the_grid_that_a_choice_is_from() -> None:
    def rows(local_steps: int, *errors: float) -> list[tuple[dict[str, Any], int, list[float]]]:
        steps = 0.1 / local_steps * np.array([1, 2, 4])
        return [
            ({"step": float(step), "local_steps": local_steps}, 10, [error])
            for step, error in zip(steps, errors, strict=True)
        ]

    # The best step, of two local ones, is within the range of all steps, and the last of its own grid.
    assert tuned(*rows(2, 3, 2, 1), *rows(1, 5, 5, 5)).once.at_edges.endswith(": step = 0.2, local_steps = 2")
    inner = tuned(*rows(4, 9, 9, 9), *rows(2, 3, 1, 2), *rows(1, 5, 5, 5))
    assert inner.once.edges == ()
    assert choosing.edge_notes({"a method": inner}) == []
    low = tuned(*rows(4, 9, 9, 9), *rows(2, 1, 2, 3), *rows(1, 5, 5, 5))
    assert choosing.edge_notes({"inner": inner, "low": low}) == ["low: step = 0.05 (all)"]
    mixed: Any = SimpleNamespace(once=low.once, each={10: low.each[10], 20: inner.each[10]})
    assert choosing.edge_notes({"mixed": mixed}) == ["mixed: step = 0.05 (once, T = 10)"]
    assert choosing.edge_notes({"mixed": mixed}, once=False) == ["mixed: step = 0.05 (T = 10)"]


def test_a_bound_that_was_tuned_is_not_a_parameter_of_the_method() -> None:
    found = tuned(*(({"step": 0.1, "gradient_bound": bound}, 10, [bound]) for bound in (0.1, 0.6, 1.3)))
    assert found.once.parameters["gradient_bound"] == 0.1
    assert [edge.short for edge in found.once.edges] == ["gradient_bound = 0.1"]
    assert "gradient_bound" not in found.once.method
    assert all("gradient_bound" not in one.axes for one in choosing.methods_of({"a method": found}))


def test_a_recipe_may_have_other_parameters_of_its_problem_and_more_methods() -> None:
    changes: dict[str, Any] = {"problem": {"gradient_bound": 0.6, "start": 10.0}, "data": {"rows": 99}}
    more = made("fig1-clipped", changes | {"methods": [fl.grid(fl.ISRLDP, step=1)], "budget": {"epsilon": [1.0, 2.0]}})
    table = tomllib.loads(more.to_toml())
    assert (table["problem"]["gradient_bound"], table["problem"]["start"], table["data"]["rows"]) == (0.6, 10.0, 99)
    assert table["budget"] == {"epsilon": [1.0, 2.0], "delta": 1e-4}
    assert [method["name"] for method in table["method"]] == ["PrimalDual", "ISRLDP"]
    with pytest.raises(fl.FastLDPError, match="nothing: not a known key"):
        made("fig1-clipped", {"problem": {"nothing": 1}})


def test_the_best_setting_of_every_horizon_is_chosen(tmp_path: Path) -> None:
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
    chosen = choosing.tuned(fl.results(tmp_path / "tuning.h5"), method="ISRLDP").each
    assert list(chosen) == [20, 200]
    # Without noise the longest step that converges is best.
    assert chosen[200].parameters["step"] == 1.0
    assert chosen[200].edges == ()
    assert np.isfinite(chosen[20].error)


def test_a_choice_written_down_is_the_method_again() -> None:
    parameters = {"method": "ISRLDP", "step": 0.1, "clip": None, "accelerated": True, "tail_average": 0}
    again = grid_of(parameters, "why", rounds=7)
    assert list(again) == [fl.ISRLDP(0.1, accelerated=True)]
    assert (again.rounds, again.label) == ((7,), "why")
    parts = grid_of({"method": "PrimalDual", "step": "planned", "prior": {"norm": 2.0, "spectrum": 0.1}}, "")
    sweep = fl.Sweep(problems=fl.grid(fl.Problem, workers=4, l2=0.1), data="ijcnn1", methods=parts, rounds=9)
    prior = sweep.methods[0][0].prior
    assert (prior.norm, prior.spectrum) == (2.0, 0.1)


def test_the_floor_is_compared_at_every_horizon() -> None:
    for floor, vacuous in ((0.6, False), (286.0, True)):
        claim = table1.below_floor("here", floor, "a method", [1000, 2000])
        assert [contrast.points[0].rounds for contrast in claim.ways[0]] == [1000, 2000]
        assert {contrast.over for contrast in claim.ways[0]} == {floor}
        assert ("vacuous" in claim.text) is vacuous


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
        ((0.715, 0.735, 0.755), (0.70,) * 3, None, True),  # three runs do not tell their spread well: 0.035 is 3 errors
        ((0.725, 0.735, 0.745), (0.70,) * 3, True, True),
        ((0.61, 0.71, 0.81), (0.60, 0.70, 0.80), True, True),  # runs have noise in common
        ((0.58, 0.67, 0.76), (0.60, 0.70, 0.80), False, None),
    ],
)
def test_accuracies_are_compared_as_far_as_images_and_runs_allow(
    first: Sequence[float], second: Sequence[float], higher: bool | None, keeps: bool | None
) -> None:
    assert verdicts.higher("here", "it is", accuracy(*first), accuracy(*second)).held is higher
    assert verdicts.keeps("here", "it does", accuracy(*first), accuracy(*second)).held is keeps


def test_accuracies_that_surely_differ_by_less_than_two_points_are_no_different() -> None:
    found = verdicts.higher("here", "it is", accuracy(0.70, 0.71, 0.72), accuracy(0.701, 0.71, 0.719))
    assert found.word == "no difference"
    assert verdicts.higher("here", "it is", accuracy(0.70, 0.74), accuracy(0.71, 0.73)).word == "undecided"
    # What is surely higher is that, by however little.
    assert verdicts.higher("here", "it is", accuracy(0.71, 0.72), accuracy(0.70, 0.71)).word == "held"


def test_curves_along_rounds_have_their_runs_in_order() -> None:
    kept = SimpleNamespace(
        table=lambda: {"repetition": np.array([2, 0, 1])},
        curves=lambda *_, **__: [SimpleNamespace(rounds=np.array([1, 2]), values=np.array([[5, 6], [1, 2], [3, 4]]))],
    )
    found: Any = SimpleNamespace(where=lambda **_: kept)
    assert along_rounds("it", found, 2, {}).values.tolist() == [[1, 3, 5], [2, 4, 6]]


@pytest.mark.parametrize(
    ("end", "held"), [(0.70, True), (0.739, True), (0.75, None), (0.645, None), (0.63, False), (0.9, False)]
)
def test_about_an_accuracy_is_within_five_points(end: float, held: bool | None) -> None:
    found = verdicts.near("here", "it is", accuracy(end), 0.70)
    assert found.held is held
    assert f"{100 * end:.1f} % at T = 1,000" in found.measured


def panel(short: float, middle: float, long: float, *, scaled: float, exact: float, adaptive: float) -> fig3.Panel:
    horizons = [accuracy(end, T=T) for end, T in ((short, 500), (middle, 1000), (long, 1200))]
    others = {"scaled": accuracy(scaled, T=500), "exact": accuracy(exact), "adaptive": accuracy(adaptive)}
    return fig3.Panel(
        (0.5, 1e-5), SETTING, horizons, **others, central=accuracy(0.9), sampler_delta=4e-5, total_delta=5e-5
    )


def test_the_network_is_held_against_all_claims_of_the_paper() -> None:
    claims = fig3._verdicts(panel(0.6, 0.7, 0.7, scaled=0.65, exact=0.8, adaptive=0.71))
    assert [verdict.held for verdict in claims] == [True, True, True, True, True, True, False]
    others = fig3._verdicts(panel(0.9, 0.8, 0.7, scaled=0.85, exact=0.6, adaptive=0.7))
    assert [verdict.held for verdict in others] == [False] * 7
    # The last is of the sampler, which the verdicts name with its numbers.
    assert others[-1].measured == "at most 4e-05: δ = 5e-05 in all"


def noise_in_the_model(recipe: str, given: dict[str, Any]) -> float:
    """The variance that all rounds of a recipe's only setting add up to in a coordinate of the mean."""
    (setting,) = (read := spec.read(made(recipe, given))).settings
    problem = read.grounds[0].subjects[setting.subject].problem
    schedule = setting.method.schedule(problem, setting.budget, setting.rounds)
    return float(np.sum((schedule.step * schedule.deviations) ** 2)) / problem.n


@pytest.mark.thorough
@pytest.mark.parametrize("promise", fig3.BUDGETS)
def test_a_point_of_the_search_has_the_noise_of_the_figure(promise: searching.Promise) -> None:
    """With a tenth of the images, at every horizon; and a trusted server adds a tenth of what ten workers add."""
    point, searched = (2000.0, 5.0, 1.0), searching.promise_of_search(promise)
    found = [
        noise_in_the_model(recipe, searching.fixed(point, T).given(given, "", only=T))
        for recipe, given, T in (
            ("fig3-beyond", promise, 1000),
            ("fig3-search", searched, 400),
            ("fig3-search-long", searched, 1000),
        )
    ]
    assert found == pytest.approx([found[0]] * 3, rel=0.01)
    # Where nine others do not share it, a step leads ten times as far.
    point = (200.0, 5.0, 1.0)
    trusted = [
        noise_in_the_model(recipe, searching.fixed(point, 200).given(given, ""))
        for recipe, given in (("fig3-central", promise), ("fig3-search-central", searched))
    ]
    assert trusted == pytest.approx([found[0] / 10] * 2, rel=0.01)


@pytest.mark.thorough
def test_the_search_does_not_see_the_test_images() -> None:
    digits = fl.datasets.synthetic("mnist")
    last = digits.images[-10_000:], digits.labels[-10_000:]
    directly = fl.MLP(digits.images[:100], digits.labels[:100], hidden=200, classes=10, workers=2, test=last)
    tested, held_out, trusted = (
        spec.read(made(name, SETTING.given((1.0, 1e-4), ""))).grounds[0].subjects[0].problem
        for name in ("fig3", "fig3-search", "fig3-search-central")
    )
    assert isinstance(tested, fl.MLP)
    assert isinstance(held_out, fl.MLP)
    assert isinstance(trusted, fl.MLP)
    x = held_out.start()
    assert tested.accuracy(x) != held_out.accuracy(x) == trusted.accuracy(x) == directly.accuracy(x)
    # The trusted server has the images of all workers, and no others.
    assert (held_out.n, trusted.n) == (10, 1)
    theirs = [bytes(image) for i in range(10) for image in held_out.shard(i)[0]]
    assert sorted(theirs) == sorted(bytes(image) for image in trusted.shard(0)[0])


def test_tables_say_what_did_not_hold() -> None:
    found = [verdicts.Verdict("here", "a long claim " * 10, "measured", False)]
    assert "did not hold" in verdicts.table(found)
    assert max(len(line) for line in verdicts.table(found).splitlines()) <= 118
    assert "| **did not hold** |" in verdicts.markdown(found)
    told = verdicts.TOLD
    assert not any(text in verdicts.table(found) for text in told.values())
    assert verdicts.table([found[0]._replace(held=None)]).endswith(told["undecided"])
    assert verdicts.table([found[0]._replace(held=None, alike=True)]).endswith(told["no difference"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    right = experiment.recipe_text

    def shortened(name: str) -> str:
        text = right(name)
        for long, short in SMALL.items():
            text = text.replace(long, short)
        return text

    monkeypatch.setattr(experiment, "recipe_text", shortened)


@pytest.mark.thorough
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
    sweeps.remember_ends(monkeypatch)
    assert main(["reproduce", "all", "--quick", "--out", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "Figure 1, tuned at each T" in shown
    assert "Figure 1, all clip" in shown
    assert "at the edge of its grid, fig1: DP-FedAvg: " in shown  # of grids of two
    assert "a quick trial" in shown
    for name in ("fig1", "fig2"):
        for ending in (".h5", ".csv", ".png", ".pdf", ".toml", "-tuning.h5", "-tuning.toml"):
            assert (folder / f"{name}{ending}").stat().st_size > 0
    with (folder / "table1.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["experiment"], row["method"]): row for row in csv.DictReader(file)}
    with (folder / "fig1.csv").open(encoding="utf-8", newline="") as file:
        points = {(row["series"], row["rounds"]): float(row["mean"]) for row in csv.DictReader(file)}
    for method in ("DP-FedAvg", "DP-SCAFFOLD", "ISRL-DP", "Algorithm 1"):
        measured = float(rows["Figure 1", method]["error, tuned"])
        assert measured == pytest.approx(points[f"{method}, tuned at each T", "40"], rel=1e-3)
    assert rows["Figure 2", "DP-FedAvg"]["error, tuned"].startswith("cannot")
    assert float(rows["Figure 2", "ISRL-DP"]["error, tuned"]) > 0
    assert rows["Figure 2", "Algorithm 1"]["floor"].endswith("(vacuous)")
    assert "in units of" in (folder / "table1.txt").read_text(encoding="utf-8")
    with (folder / "fig1-luck.csv").open(encoding="utf-8", newline="") as file:
        luck = [(float(row["spread"]), float(row["spread_without"])) for row in csv.DictReader(file)]
    assert len(luck) > 20
    assert all(without < before for before, without in luck)
    assert fl.results(folder / "fig1.h5").parameters["data"] == ["synthetic ijcnn1"]
    # A second time nothing is run: the results are found.
    monkeypatch.setattr(Block, "advance", lambda *_, **__: pytest.fail("there is nothing left to run"))
    specification = (folder / "fig1.toml").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["reproduce", "fig1", "--quick", "--json", "--out", str(folder)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["held"] for one in told} <= {True, False, None}
    assert (folder / "fig1.toml").read_text(encoding="utf-8") == specification
    assert "fastldp reproduce fig1 --quick --json --out" in (folder / "fig1.html").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["reproduce", "fig1", "--quick", "--out", str(tmp_path / "file" / "out")]) == 2
    assert "give another" in capsys.readouterr().err


def test_ctrl_c_between_sweeps_says_how_to_go_on(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EXPERIMENTS["fig1"], "run", stopped)
    assert main(["reproduce", "fig1", "--quick", "--out", str(tmp_path / "out")]) == 130
    assert "the same command goes on" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.usefixtures("small")
def test_the_planner_is_judged(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "planner", "--quick", "--out", str(folder)]) == 0
    judged = (folder / "planner-verdicts.md").read_text()
    assert judged.count("the plan with the public prior is better than the paper's step") == 2
    table = (folder / "planner.md").read_text().splitlines()
    assert table[0] == "| synthetic ijcnn1 | expected by one who knows H and x* | T = 100 | T = 1,000 |"
    with (folder / "planner-prior.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 25
    # What is wrong by a factor of one is the public prior.
    right = next(row for row in rows if row["norm"] == row["spectrum"] == "1.0")
    assert f"{float(right['mean']):.3g} ± {float(right['std']):.2g} |" in table[2]
    # With half of the bound the first horizon cannot be planned for.
    assert sum(line.startswith("| planned, clipped at half of the row bound |  |  | ") for line in table) == 2
    assert (folder / "planner.png").stat().st_size > 0


@pytest.mark.thorough
@pytest.mark.usefixtures("small")
def test_the_network_is_searched_and_drawn_and_made_once(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "fig3", "--quick", "--out", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "Figure 3, (1, 1e-4)",
        "(0.5, 1e-5), fixed clip: the search at T = 20 chose γ = ",
        "trusted server: the search at T",
    ):
        assert text in shown
    for ending in (".h5", ".csv", ".png", ".pdf", "-verdicts.md", "-search.h5", "-search.csv", "-open.h5"):
        assert (folder / f"fig3{ending}").stat().st_size > 0
    # The reported runs have what the search found best, by no more than moves it.
    with (folder / "fig3-search.csv").open(newline="") as file:
        tried = [row for row in csv.DictReader(file) if row["file"] == "fig3-search.h5" and row["rounds"] == "20"]
    larger = [row for row in tried if float(row["epsilon"]) > 5]
    found = fl.results(folder / "fig3.h5").where(epsilon=1)
    reported = {
        (run.parameters["rounds"], run.parameters["accounting"], str(run.parameters["clip"]), run.parameters["step"])
        for run in found
    }
    (fixed,) = (one for one in reported if one[:2] == (20, "zcdp") and one[2] != "adaptive")
    chosen = [row for row in larger if (float(row["clip"]), float(row["step"])) == (float(fixed[2]), fixed[3])]
    best = max(float(row["accuracy"]) for row in larger)
    assert max(float(row["accuracy"]) for row in chosen) >= best - searching.MARGIN
    assert {one[:2] for one in reported} == {(4, "zcdp"), (10, "zcdp"), (20, "zcdp"), (24, "zcdp"), (20, "gdp")}
    assert sum(one[2] == "adaptive" for one in reported) == 1
    assert {run.parameters["pooled"] for run in found if run.parameters["rounds"] == 4} == {True}
    points = (folder / "fig3.csv").read_text()
    for measure in ("test accuracy", "train loss", "consensus error"):
        assert len(re.findall(f"T = 24, {measure}", points)) == 2 * 5
        assert f"no privacy, all images in one place, {measure}" in points
    # A second time nothing is run: the results are found.
    monkeypatch.setattr(Block, "advance", lambda *_, **__: pytest.fail("there is nothing left to run"))
    assert main(["reproduce", "fig3", "--quick", "--out", str(folder)]) == 0


def test_the_command_names_all_experiments() -> None:
    from fastldp.cli.reproduce import ALL, WHAT

    assert {*EXPERIMENTS, "all"} == set(WHAT)
    # What takes longer is not made along with the others.
    assert {*ALL, "fig3", "planner", "readings", "scaffold"} == set(EXPERIMENTS)


def test_fewer_repetitions_than_the_first_look_are_refused(tmp_path: Path, capsys: Any) -> None:
    assert main(["reproduce", "fig2", "--quick", "--most", "3", "--out", str(tmp_path)]) == 2
    assert "--most = 3: the first look is at 4 repetitions; give as many" in capsys.readouterr().err


def test_what_choices_were_made_from_is_told_with_a_digest(tmp_path: Path) -> None:
    """As a table that specifications may have, equal for equal trials."""
    told = []
    for name, seed in (("one", "3"), ("two", "3"), ("three", "4")):
        sweeps.run(sweeps.spec(seed=seed), tmp_path / f"{name}.h5")
        found = fl.results(tmp_path / f"{name}.h5")
        told.append(choosing.told_of("trials.h5", found, ['step = "0.3"']))
    assert told[0].keys() == {*keys.TUNING_KEYS}
    assert told[0]["runs"] == 12
    assert told[0]["grid"] == ["step: 0.1, 0.3", "rounds: 30, 50"]
    assert told[0]["edges"] == ['step = "0.3"']
    assert told[0]["digest"] == told[1]["digest"] != told[2]["digest"]
