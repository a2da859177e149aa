"""Readings of the protocol: recipes that say what they mean, the theory of allocation, maps of verdicts."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import readme_readings

import fastldp as fl
import sweeps
from fastldp.cli import main
from fastldp.engine.block import Block
from fastldp.reproduction import allocating, experiment, readings, verdicts
from fastldp.reproduction.readings import ACCELERATED, METHODS, Reading
from fastldp.sweeping import spec
from fastldp.tuning import Trial, Tuned

LISTED = {reading.name: reading for reading in Reading.listed()}
HERE = readings.Readings(experiment.Place(Path(), synthetic=True))


@pytest.mark.parametrize("name", LISTED)
def test_every_reading_tries_all_methods_at_all_its_horizons(name: str) -> None:
    reading = LISTED[name]
    given: dict[str, Any] = {"added": reading.methods(), "problem": reading.problem, "rounds": reading.rounds}
    read = spec.read(HERE.recipe("readings-tuning", **given))
    found = [(setting.rounds, setting.method) for setting in read.settings]
    for T in reading.rounds:
        for label in METHODS:
            wanted = reading.family(label, T)
            fits = [
                method
                for rounds, method in found
                if rounds == T
                and type(method).__name__ == wanted["method"]
                and all(getattr(method, key) == value for key, value in wanted.items() if key != "method")
            ]
            assert len(fits) >= 7, (T, label)
    assert reading.tuned in ("each", "once") or reading.tuned in reading.rounds


def test_readings_differ_from_the_base_in_what_their_names_say() -> None:
    base = LISTED["base"]
    for name, reading in LISTED.items():
        assert replace(reading, name="base") != base or name == "base"
    start = LISTED["start 10·N(0, I)"].problem
    (ground,) = spec.read(HERE.recipe("readings", problem=start)).grounds
    assert np.linalg.norm(ground.subjects[0].start) == pytest.approx(10 * np.sqrt(22), rel=0.5)
    (ground,) = spec.read(HERE.recipe("readings", problem=LISTED["B/2"].problem)).grounds
    assert ground.subjects[0].problem.gradient_bound == 0.65


def test_a_trial_has_horizons_of_its_own_and_tunes_at_its_first() -> None:
    quick = {reading.name: reading for reading in Reading.listed(quick=True)}
    assert {tuple(reading.rounds) for reading in quick.values()} == {(100, 200, 400)}
    assert (quick["tuned at 1,000"].tuned, quick["tuned at 2,000"].tuned) == (100, 200)


def test_a_step_that_is_held_keeps_the_share_that_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def tuned(trials: Any, **wanted: Any) -> Tuned:
        asked.append(wanted)
        method = {key: value for key, value in wanted.items() if key not in ("measure", "rounds")}
        T = wanted["rounds"]
        return Tuned((Trial(None, T, 0.1, 0.0, given=method | {"step": 8 / T}),))

    monkeypatch.setattr(readings, "tuned", tuned)
    held, trials = replace(LISTED["ISRL-DP averages T/4"], tuned=1000), cast("Any", None)
    assert held.choice(trials, "ISRL-DP", 8000).method["step"] == 0.008
    assert (asked[-1]["rounds"], asked[-1]["tail_average"]) == (1000, 250)
    assert held.family("ISRL-DP", 8000)["tail_average"] == 2000
    assert held.family(ACCELERATED, 8000)["tail_average"] == 0


# What dynamic allocation is worth.


def test_gains_are_those_of_plain_sums() -> None:
    step, mu, rounds, workers, eigenvalues = 0.2, 0.05, 30, 4, np.array([0.2, 0.9])
    inverse, ours, theirs = 0.0, 0.0, 0.0
    for t in range(1, rounds + 1):
        inverse += (1 - step * mu) ** ((rounds - t) / 2)
    for t in range(1, rounds + 1):
        q = (1 - step * mu) ** (rounds - t)
        left = sum((1 - step * value / workers) ** (2 * (rounds - t)) for value in eigenvalues)
        # Both have Σ 1/ξ² = 1.
        ours += left * inverse / np.sqrt(q)
        theirs += left * rounds
    assert allocating.gain(step, mu, rounds, eigenvalues, workers) == pytest.approx(ours / theirs)


@pytest.mark.parametrize("u", [0.1, 1.0, 10.0])
def test_closed_forms_are_the_limits_of_short_steps(u: float) -> None:
    rounds, mu = 20_000, 0.01
    step = u / rounds / mu
    q = (1 - step * mu) ** np.arange(rounds)
    bound = np.sum(np.sqrt(q)) ** 2 / rounds / np.sum(q)
    assert allocating.gain_of_bound(np.array(u)) == pytest.approx(bound, rel=1e-3)
    alone = allocating.gain(step, mu, rounds, np.array([5 * mu]), 5)
    assert allocating.slowest(np.array(u)) == pytest.approx(alone, rel=1e-3)
    assert allocating.slowest(np.array(100.0)) == pytest.approx(8 / 300, rel=1e-3)


def test_eigenvalues_are_those_of_the_mean_hessian() -> None:
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((40, 3)), np.sign(rng.standard_normal(40))
    problem = fl.Problem(A, b, workers=4, l2=0.1)
    p = 1 / (1 + np.exp(-A @ problem.optimum()))
    hessian = A.T * (p * (1 - p)) @ A / 40 + 0.1 * np.eye(3)
    np.testing.assert_allclose(allocating.eigenvalues_at_optimum(problem), np.linalg.eigvalsh(hessian), rtol=1e-6)


def test_the_noise_that_is_left_is_as_expected() -> None:
    """Runs with both allocations, on a problem where the allocation is worth much."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((200, 3)) / 2
    problem = fl.Problem(A, np.sign(A[:, 0]), workers=2, l2=0.5)
    step, rounds = 0.25, 120
    runs = {
        how: fl.solve(
            problem,
            fl.Budget(5.0, 1e-4),
            rounds=rounds,
            algorithm=fl.PrimalDual(step, allocation=how),
            repetitions=400,
            seed=0,
            common_noise=True,
            record=fl.Final(),
        ).distance[:, -1]
        for how in ("dynamic", "static")
    }
    mu = problem.safe_strong_convexity
    expected = allocating.gain(step, mu, rounds, allocating.eigenvalues_at_optimum(problem), 2)
    without = fl.solve(problem, rounds=rounds, algorithm=fl.PrimalDual(step)).distance[0, -1]
    found = allocating.measured(step, rounds, step * mu * rounds, expected, runs["dynamic"], runs["static"], without)
    assert expected < 0.6
    assert abs(found.ratio - expected) < 5 * found.error


# Maps.


def test_a_map_has_every_claim_under_every_reading() -> None:
    words = [(True, False), (False, False), (None, True), (None, False)]
    some = [
        verdicts.Verdict(reading, claim, "", held, alike)
        for reading, (held, alike) in zip("abcd", words, strict=True)
        for claim in ("one", "two")
    ]
    table = readings._table(some).splitlines()
    assert table[2:] == ["| one | a | b | c | 1 of 4 |", "| two | a | b | c | 1 of 4 |"]
    figure = readings._drawn(some, list("abcd"), "data")
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts[:4]] == [sign for _, sign in readings.MARKS.values()]


SMALL = {
    **{f"count = {count}": "count = 2" for count in (9, 10, 13, 19)},
    "rounds = [100, 200, 400]": "rounds = [10, 20, 40]",
    "rows = 2000": "rows = 400",
    "rows = [400, 2000]": "rows = [400, 800]",
    "rounds = [100, 200]": "rounds = [10, 20]",
    "epsilon = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]": "epsilon = [1.0, 1000.0]",
    "local_steps = 50": "local_steps = 3",
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    right, few = experiment.recipe_text, Reading.listed(quick=True)

    def shortened(name: str) -> str:
        text = right(name)
        for long, short in SMALL.items():
            text = text.replace(long, short)
        return text

    for module in (experiment, readings):
        monkeypatch.setattr(module, "recipe_text", shortened)
    names = ("base", "tuned once", "start 10·N(0, I)", "averages T/2, tuned at 1,000", "distance of x̄ alone")
    shorter = [
        replace(one, rounds=[10, 20, 40], tuned=10 if one.tuned == 100 else one.tuned)
        for one in few
        if one.name in names
    ]
    monkeypatch.setattr(Reading, "listed", classmethod(lambda cls, quick=False: shorter))


@pytest.mark.thorough
@pytest.mark.usefixtures("small")
def test_readings_are_judged_and_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "out"
    sweeps.remember_ends(monkeypatch)
    right, raw = readings.Readings.repeated, []

    def noted(self: Any, points: Any, begin: int, end: int, *, steadied: bool = False) -> Any:
        raw.append((begin, end, steadied))
        return right(self, points, begin, end, steadied=steadied)

    monkeypatch.setattr(readings.Readings, "repeated", noted)
    assert main(["reproduce", "readings", "--quick", "--out", str(folder)]) == 0
    # The errors of the page are those of runs as they are, and none that is judged.
    assert [(begin, end) for begin, end, steadied in raw if not steadied] == [(0, 4)]
    table = (folder / "readings-verdicts.md").read_text(encoding="utf-8")
    assert table.count("at the same step dynamic allocation is better than static") == 5
    for ending in (".png", "-allocation.png", "-map.md", "-steps.csv"):
        assert (folder / f"readings{ending}").stat().st_size > 0
    with (folder / "readings-allocation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert all(float(row["expected"]) <= 1 for row in rows)
    monkeypatch.setattr(Block, "advance", lambda *_, **__: pytest.fail("there is nothing left to run"))
    # All but the runs without noise, which are few and kept nowhere.
    monkeypatch.setattr(readings.Readings, "_allocations", lambda _: [])
    assert main(["reproduce", "readings", "--quick", "--out", str(folder)]) == 0


@pytest.mark.thorough
@pytest.mark.usefixtures("small")
def test_the_boundary_of_scaffold_is_drawn(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert main(["reproduce", "scaffold", "--quick", "--out", str(folder)]) == 0
    table = (folder / "scaffold-verdicts.md").read_text(encoding="utf-8")
    assert table.count("better at ε = 1000") == 2 * 3 * 3
    assert "| m = 40, label, K = 3 |" in table
    assert (folder / "scaffold.png").stat().st_size > 0


def test_tables_of_the_page_are_made_of_what_a_reproduction_leaves(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text(
        "reading,method,rounds,runs,mean,std\nbase,one,8000,20,0.25,0.05\nbase,two,8000,20,0.5,0.1\n", encoding="utf-8"
    )
    table = readme_readings.errors(tmp_path).splitlines()
    assert (table[0], table[2]) == ("| reading | T | one | two |", "| base | 8,000 | 0.25 ± 0.05 | 0.5 ± 0.1 |")
    (tmp_path / "readings-verdicts.md").write_text("| | claim |\n|---|---|\n| base | one | held |\n", "utf-8")
    (tmp_path / "readings-map.md").write_text("the map\n", encoding="utf-8")
    some, whole = (readme_readings.readings(tmp_path, most) for most in (50, None))
    assert some.startswith("Judged by up to 40 repetitions, of the 1,280 that")
    assert whole.startswith("Judged by up to 1,280 repetitions.\n\nthe map\n")
    assert "1 claims: 1 held" in whole
    (tmp_path / "readings-luck.csv").write_text("error,theory\n" + "1,1.01\n" * 20 + "2,1\n", encoding="utf-8")
    assert readme_readings.theory(tmp_path / "readings-luck.csv") == (
        "of 21 errors it is within 1.0% in the median, 1.0% for nine in ten, 50.0% at most"
    )
    (tmp_path / "scaffold.csv").write_text(
        "where,claim,measured,verdict,ratio\na,better at ε = 1,,no difference,1.01\nb,better at ε = 1,,held,1.5\n",
        encoding="utf-8",
    )
    assert readme_readings.boundary(tmp_path).splitlines()[2] == "| at ε = 1 | 1 | 0 | 1 | 0 | 1.5 |"
