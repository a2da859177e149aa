"""Where noise comes from: never used twice by mistake, and every ledger, summary and file says so."""

import itertools
import json
import stat
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy import sparse

import cases
import fastldp as fl
import naive
import sweeps
from fastldp.cli import main
from fastldp.errors import ArgumentError, SpecError
from fastldp.methods.planned import PLANS
from fastldp.noise import Noise, identity
from fastldp.privacy import epsilon_of, rho_of
from fastldp.privacy.statement import SECRET
from fastldp.solve import starting_point

BUDGET = fl.Budget(1.0, 1e-4)
METHOD = fl.PrimalDual(step=0.2, allocation="static")


def released(problem: fl.Problem, budget: fl.Budget, **given: Any) -> Any:
    """What the first worker releases in the first round, h = q + σN, as the server computes it."""
    run = fl.solve(problem, budget, rounds=5, algorithm=METHOD, seed=12345, record=fl.Messages(0), **given)
    assert run.messages is not None
    return -run.messages[0, 0] / METHOD.step  # at x = 0, where the dual is zero too


def query(problem: fl.Problem, released_by: dict[float, Any]) -> Any:
    """The gradient, from two releases with the same noise: (σ₁h₂ − σ₂h₁)/(σ₁ − σ₂)."""
    (first, h1), (second, h2) = released_by.items()
    ledgers = [METHOD.schedule(problem, fl.Budget(e, 1e-4), 5).ledger for e in (first, second)]
    s1, s2 = (float(np.sqrt(ledger.variances[0])) for ledger in ledgers if ledger is not None)
    return (s1 * h2 - s2 * h1) / (s1 - s2)


def test_two_budgets_under_one_seed_are_no_two_time_pad() -> None:
    problem = cases.make("zero").problem
    exact = problem.worker_gradients(np.zeros(problem.d))[0] / problem.n
    apart = {}
    for common in (True, False):
        found = query(problem, {e: released(problem, fl.Budget(e, 1e-4), common_noise=common) for e in (0.5, 1.0)})
        apart[common] = np.abs(found - exact).max() / np.abs(exact).max()
    # What the seed gave away once it now gives away only where noise in common was asked for.
    assert apart[True] < 1e-2
    assert apart[False] > 1.0


def remade(problem: fl.Problem, rows: Any = None, **given: Any) -> fl.Problem:
    """The same samples in another problem; their rows carry −b, so that with b = −1 they are what they were."""
    taken = {"workers": problem.n, "l2": problem.l2} | given
    return fl.Problem(problem.rows if rows is None else rows, -np.ones(len(problem.targets)), **taken)


CHANGES: dict[str, Any] = {
    "data": {"problem": lambda p: fl.Problem(p.rows * 1.01, -np.ones(len(p.targets)), workers=p.n, l2=p.l2)},
    "l2": {"problem": lambda p: p.replace(l2=0.3)},
    "regularizer": {"problem": lambda p: p.replace(regularizer=fl.Box(3.0))},
    "gradient_bound": {"problem": lambda p: p.replace(gradient_bound=1.0)},
    "budget": {"budget": fl.Budget(1.0, 1e-5)},
    "accounting": {"budget": fl.Budget(1.0, 1e-4, "gdp")},
    "no budget": {"budget": None},
    "rounds": {"rounds": 6},
    "step": {"algorithm": fl.PrimalDual(step=0.1, allocation="static")},
    "allocation": {"algorithm": fl.PrimalDual(step=0.2)},
    "method": {"algorithm": fl.ISRLDP(step=0.2)},
    "clip": {"algorithm": fl.ISRLDP(step=0.2, clip=0.7)},
    "prior": {"algorithm": fl.PrimalDual("planned", "planned", fl.Prior(2.0))},
    "weighting": {"problem": lambda p: p.replace(weighting="rows")},
    "row_bound": {"problem": lambda p: remade(p, row_bound=1.0)},
    "half": {"problem": lambda p: remade(p, row_bound=1.0, gradient_bound="half")},
    "layout": {"problem": lambda p: remade(p, rows=sparse.csr_array(p.rows))},
    "shards": {"problem": lambda p: remade(p, workers=np.repeat([0, 1, 2], [11, 13, 12]))},
    "loss": {"problem": lambda p: remade(p, loss=fl.SmoothedHinge(1.0))},
    "loss's parameter": {"problem": lambda p: remade(p, loss=fl.SmoothedHinge(0.5))},
    "budgets of workers": {"budget": fl.Budget(np.array([1.0, 1.0, 2.0]), 1e-4)},
    "start": {"x0": 0.01},
}


def test_a_key_is_bound_to_everything_that_a_run_is() -> None:
    problem = cases.make("zero").problem
    as_it_is: dict[str, Any] = {"budget": BUDGET, "rounds": 5, "algorithm": METHOD, "x0": 0.0}

    def digest(change: dict[str, Any]) -> bytes:
        given = as_it_is | change
        about = change.get("problem", lambda p: p)(problem)
        start = starting_point(about, np.full(about.d, given["x0"]))
        return identity(about, given["algorithm"], given["budget"], given["rounds"], start)

    digests = [digest({}), *map(digest, CHANGES.values())]
    single = fl.Problem(problem.rows, -np.ones(len(problem.targets)), workers=problem.n, l2=problem.l2, dtype="float32")
    digests.append(identity(single, METHOD, BUDGET, 5, np.zeros(problem.d)))
    assert len(set(digests)) == len(CHANGES) + 2
    assert digest({}) == digests[0]


def test_problems_alike_are_defined_as_if_made_afresh() -> None:
    """Also where the first was asked for its definition, as a solve does: a key of one must never serve another."""
    images, classes = np.random.default_rng(0).standard_normal((12, 4)), np.arange(12) % 3
    base: dict[str, Any] = {"hidden": 2, "workers": 2, "clip": 1.0, "l2": 0.1}
    changes: list[dict[str, Any]] = [
        {"clip": 2.0},
        {"l2": 0.2},
        {"regularizer": fl.Box(1.0)},
        {"strong_convexity": 0.3},
        {"start_seed": 4},
        {"weighting": "rows"},
    ]
    made = fl.MLP(images, classes, **base)
    definitions = [made.definition]
    for change in changes:
        definitions.append(made.replace(**change).definition)
        assert definitions[-1] == fl.MLP(images, classes, **(base | change)).definition
    linear = fl.Problem(images, np.sign(images[:, 0]), workers=2, l2=0.1, row_bound=1.0)
    definitions.append(linear.definition)
    for change in ({"l2": 0.2}, {"regularizer": fl.Box(1.0)}, {"gradient_bound": 0.3}, {"weighting": "rows"}):
        definitions.append(linear.replace(**change).definition)
        given = {"workers": 2, "l2": 0.1, "row_bound": 1.0} | change
        assert definitions[-1] == fl.Problem(images, np.sign(images[:, 0]), **given).definition
    assert len(set(definitions)) == len(definitions)


def test_long_arrays_are_part_of_a_key_number_by_number() -> None:
    problem = cases.make("zero").problem
    many = np.full(65, 9.0), np.append(np.full(64, 9.0), 9.5)
    runs = [identity(problem, fl.PrimalDual(0.1, array), BUDGET, 65, np.zeros(9)) for array in many]
    runs += [identity(problem, METHOD, fl.Budget(array, 1e-4), 65, np.zeros(9)) for array in many]
    assert len(set(runs)) == 4


def test_another_version_of_a_method_has_other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.make("zero").problem
    before = identity(problem, METHOD, BUDGET, 5, np.zeros(problem.d))
    monkeypatch.setattr(fl.PrimalDual, "version", fl.PrimalDual.version + 1)
    assert identity(problem, METHOD, BUDGET, 5, np.zeros(problem.d)) != before


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        (fl.PrimalDual("planned"), True),
        (fl.PrimalDual(allocation="planned"), True),
        (fl.ISRLDP("planned"), True),
        (fl.ISRLDP(0.1, clip="adaptive"), True),
        (fl.PrimalDual(0.1, np.ones(5)), False),
        (fl.ISRLDP(0.1, clip=2.0), False),
    ],
)
def test_other_rules_of_planning_have_other_noise_where_anything_is_planned(
    method: fl.Method, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = cases.make("zero").problem
    before = identity(problem, method, BUDGET, 5, np.zeros(problem.d))
    monkeypatch.setattr("fastldp.methods.base.PLANS", PLANS + 1)
    assert (identity(problem, method, BUDGET, 5, np.zeros(problem.d)) != before) == changed


def test_keys_are_the_oracles() -> None:
    run = bytes(range(32))
    found = Noise(7).keys([0, 3], lambda: run)
    assert found.tolist() == [naive.key_of(7, 0, run), naive.key_of(7, 3, run)]
    assert Noise(7, common=True).keys([3], lambda: run).tolist() == [naive.key_of(7, 3)]
    unseeded = [Noise(None).keys(range(2), lambda: run) for _ in range(2)]
    assert len({key.tobytes() for keys in unseeded for key in keys}) == 4


def test_what_is_recorded_and_how_many_repetitions_there_are_is_no_part_of_a_run() -> None:
    problem = cases.make("zero").problem
    one = fl.solve(problem, BUDGET, rounds=9, seed=3, record=fl.Final())
    many = fl.solve(problem, BUDGET, rounds=9, seed=3, repetitions=9, record=[3, 9])
    np.testing.assert_array_equal(one.consensus[0, -1:], many.consensus[0, -1:])


@pytest.mark.parametrize(("seed", "common"), [(None, True), (3, 1), (3, "yes")])
def test_noise_in_common_needs_a_seed(seed: Any, common: Any) -> None:
    with pytest.raises(ArgumentError, match="common_noise"):
        fl.solve(cases.make("zero").problem, BUDGET, rounds=3, seed=seed, common_noise=common)


# What is said of it.

ORIGINS = [
    ({}, "os", "from the operating system"),
    ({"seed": 3}, "seeded", "private only while the seed is secret and used for this run alone"),
    ({"seed": 3, "common_noise": True}, "common", "the same in all runs of the seed"),
]


@pytest.mark.parametrize(("given", "origin", "words"), ORIGINS)
def test_ledger_summary_and_file_say_where_noise_came_from(
    given: dict[str, Any], origin: str, words: str, tmp_path: Path
) -> None:
    run = fl.solve(cases.make("zero").problem, BUDGET, rounds=3, repetitions=20, **given)
    run.save(tmp_path / "run.npz")
    loaded = fl.load(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as arrays:
        written = str(arrays["statement"])
    for one in (run, loaded):
        assert one.ledger is not None
        assert one.ledger.noise == origin
        assert words in one.summary()
        assert one.ledger.statement(20) == written
    assert loaded.seed is None


def test_publishing_all_repetitions_spends_what_composition_says() -> None:
    run = fl.solve(cases.make("zero").problem, BUDGET, rounds=3, repetitions=20)
    assert run.ledger is not None
    spends = epsilon_of(20 * rho_of(1.0, 1e-4, "zcdp"), 1e-4, "zcdp")
    assert spends == pytest.approx(4.87, abs=0.01)
    assert run.ledger.epsilon_of_all(20) == pytest.approx(spends, rel=1e-6)
    assert "publishing all 20 spends ε = 4.87" in run.summary()
    assert run.ledger.epsilon_of_all(1) == run.ledger.spent_epsilon
    with pytest.raises(ArgumentError, match="repetitions = 0"):
        run.ledger.epsilon_of_all(0)


@pytest.mark.parametrize("keep", [False, True])
def test_a_saved_solution_keeps_the_seed_only_where_asked(keep: bool, tmp_path: Path) -> None:
    run = fl.solve(cases.make("zero").problem, BUDGET, rounds=3, seed=987654321)
    run.save(tmp_path / "run.npz", keep_seed=keep)
    assert fl.load(tmp_path / "run.npz").seed == (987654321 if keep else None)
    with np.load(tmp_path / "run.npz") as arrays:
        header = json.loads(str(arrays["header"]))
    assert (next(iter(header.items())) == ("secret", SECRET)) is keep
    assert ("987654321" in json.dumps(header)) is keep
    assert bool(stat.S_IMODE((tmp_path / "run.npz").stat().st_mode) & 0o077) is not keep
    with pytest.raises(ArgumentError, match="keep_seed"):
        run.save(tmp_path / "run.npz", keep_seed=1)  # type: ignore[arg-type]


def statement(problem: fl.Problem, budget: fl.Budget = BUDGET, **given: Any) -> str:
    run = fl.solve(problem, budget, rounds=300, **given)
    assert run.ledger is not None
    return run.ledger.statement()


def test_a_statement_has_all_that_a_person_must_know() -> None:
    problem = cases.make("zero").problem
    plain = statement(problem, seed=1)
    said = ["one sample", "replaced by any other", "the server included", "ε = 1)", "δ = 0.0001", "e^ε = 2.72"]
    mu = np.sqrt(2 * rho_of(1.0, 1e-4, "zcdp"))
    said += [f"μ = {mu:.3g}", "does not cover: the gradient bound", "not counted here", "seed is secret"]
    for words in said:
        assert words in plain, words
    public = problem.replace(gradient_bound=1.0)
    planned = statement(public, algorithm=fl.PrimalDual("planned", "planned"))
    assert "Nothing was read off the data" in planned
    assert "planned from public numbers" in planned
    assert "came from the operating system" in planned
    exact = statement(public, algorithm=fl.PrimalDual("planned", "planned", "exact"))
    assert "the prior" in exact
    assert "planned from public numbers" not in exact
    several = fl.solve(problem, fl.Budget(np.linspace(0.5, 2.0, problem.n), 1e-4), rounds=3).ledger
    assert several is not None
    assert f"spends ε = {np.max(several.epsilon_of_all(20)):.3g} at" in several.statement(20)
    different = statement(problem, fl.Budget(np.linspace(0.5, 2.0, problem.n), 1e-4))
    assert "ε = 2 (the weakest of the workers' promises)" in different
    single = fl.Problem(problem.rows, -np.ones(len(problem.targets)), workers=problem.n, l2=0.1, dtype="float32")
    assert "not to be deployed" in statement(single)


# In sweeps.


def test_a_sweeps_runs_are_those_of_solve_and_no_two_settings_share_noise(tmp_path: Path) -> None:
    text = sweeps.spec('name = "ISRLDP"\nstep = 0.1', rounds="20", budget="epsilon = [1.0, 2.0]\ndelta = 1e-3")
    sweeps.run(text, tmp_path / "own.h5")
    sweeps.run(text.replace("[data]", "[noise]\ncommon = true\n[data]"), tmp_path / "common.h5")
    problem = fl.Problem(*sweeps.DATA["tiny"], workers=4, l2=0.1)
    for name, common in (("own", False), ("common", True)):
        found = fl.results(tmp_path / f"{name}.h5")
        for run in found:
            budget = fl.Budget(run.parameters["epsilon"], 1e-3)
            solved = fl.solve(
                problem, budget, rounds=20, algorithm=fl.ISRLDP(0.1), repetitions=3, seed=3, common_noise=common
            )
            np.testing.assert_array_equal(run.x, solved.x[run.repetition])
            assert run.ledger is not None
            assert run.ledger.noise == ("common" if common else "seeded")
    assert fl.results(tmp_path / "own.h5").digest() != fl.results(tmp_path / "common.h5").digest()


def test_a_sweep_can_run_unseeded_and_is_resumed(tmp_path: Path) -> None:
    text = sweeps.spec(rounds="20", seed='"os"')
    sweeps.run(text, tmp_path / "r.h5")
    found = fl.results(tmp_path / "r.h5")
    assert all(run.ledger is not None and run.ledger.noise == "os" for run in found)
    digest, models = found.digest(), [run.x for run in found]
    assert len({model.tobytes() for model in models}) == len(models)
    sweeps.run(text, tmp_path / "r.h5")  # finds all runs there
    assert fl.results(tmp_path / "r.h5").digest() == digest
    sweeps.run(text, tmp_path / "again.h5")
    assert all(not np.array_equal(a.x, b.x) for a, b in zip(found, fl.results(tmp_path / "again.h5"), strict=True))


def test_a_file_that_holds_seeds_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed, there in (("3", True), ('"os"', False)):
        path = tmp_path / f"{there}.h5"
        sweeps.run(sweeps.spec(rounds="20", seed=seed), path)
        with h5py.File(path) as file:
            assert file.attrs["privacy"].startswith(SECRET) is there
        assert main(["info", str(path)]) == 0
        assert capsys.readouterr().out.startswith(SECRET) is there


@pytest.mark.parametrize(
    ("seed", "noise", "said"),
    [
        ('"os"', "common = true", "noise.common"),
        ('"sys"', "", "seed"),
        ("3", "common = 1", "noise.common"),
        ("3", "comon = true", "did you mean 'common'"),
    ],
)
def test_noise_that_a_specification_cannot_have(seed: str, noise: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=said):
        sweeps.run(sweeps.spec(seed=seed, noise=noise), tmp_path / "r.h5")


def test_the_command_line_has_unseeded_noise_and_keeps_no_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["solve", "--rounds", "20", "--repetitions", "2", "--step", "0.1", "--json"]
    path = tmp_path / "run.npz"
    errors = []
    for seed, keep in itertools.product(["os", "5"], [[], ["--keep-seed"]]):
        assert main([*small, "--seed", seed, "--save", str(path), *keep]) == 0
        printed = json.loads(capsys.readouterr().out)
        errors.append(printed["optimality_mean"][-1])
        assert printed["ledger"]["noise"] == ("os" if seed == "os" else "seeded")
        assert fl.load(path).seed == (5 if keep and seed == "5" else None)
    assert errors[0] != errors[1]
    assert errors[2] == errors[3]
    with pytest.raises(SystemExit):
        main(["solve", "--seed", "x"])
    assert "nor os" in capsys.readouterr().err
