"""Sweeps as objects: the same settings, keys and bits as from TOML, written as TOML and read again; and errors."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastldp as fl
import fuzzed_specs
import sweeps
from fastldp.errors import ArgumentError, SpecError, StoreError
from fastldp.sweeping import Data, Sweep, spec

RECIPES = Path(fl.__file__).parent / "reproduction" / "recipes"
BUDGET = fl.Budget(4.0, 1e-3)


def tiny(**more: Any) -> fl.Problem:
    return fl.Problem(*sweeps.matrix(), workers=4, l2=0.1, **more)


def sweep(**changes: Any) -> Sweep:
    """What `sweeps.spec("isrl")` says."""
    given: dict[str, Any] = {
        "problems": fl.grid(fl.Problem, workers=4, l2=0.1),
        "data": {"tiny": sweeps.matrix()},
        "methods": fl.grid(fl.ISRLDP, step=[0.1, 0.3]),
        "rounds": [30, 50],
        "repetitions": 3,
        "seed": 3,
        "budgets": BUDGET,
        "record": fl.Every(7),
    }
    return Sweep(**(given | changes))


def keys(of: Any, given: Any = None) -> list[str]:
    return [setting.key for setting in spec.read(of, given).settings]


# TOML and back.


STEPS = st.one_of(
    st.floats(1e-6, 0.25),
    st.just("planned"),
    st.lists(st.floats(1e-6, 0.25), min_size=1, max_size=3),
    st.builds(lambda low, count: {"from": low, "to": 2 * low, "count": count}, st.floats(0.01, 0.1), st.integers(2, 4)),
)
METHODS = st.fixed_dictionaries(
    {"name": st.sampled_from(["ISRLDP", ["ISRLDP", "PrimalDual"], "PrimalDual"]), "step": STEPS},
    optional={
        "rounds": st.lists(st.integers(1, 60), min_size=1, max_size=2),
        "label": st.text(max_size=4).filter(lambda text: text.isprintable()),
        "clip": st.sampled_from([0.5, [0.5, 1.5], "adaptive", {"quantile": 0.8}, [{"every": 5}, 2.0]]),
    },
)
PROBLEMS = st.fixed_dictionaries(
    {"workers": st.sampled_from([2, [2, 3]]), "l2": st.floats(0.01, 1.0)},
    optional={
        "regularizer": st.sampled_from(
            ["Zero", {"name": "Box", "bound": [1.0, 2.0]}, ["Zero", {"name": "L2Ball", "radius": 2.0}]]
        ),
        "loss": st.sampled_from(["logistic", "squared", {"name": "Huber", "delta": [0.5, 1.0]}]),
        "partition": st.sampled_from(["shuffled", "label"]),
        "start": st.sampled_from([0.0, 1.0]),
        "dtype": st.sampled_from(["float32", ["float64", "float32"]]),
    },
)
BUDGETS = st.fixed_dictionaries(
    {"epsilon": st.sampled_from([1.0, [0.5, 1.0]]), "delta": st.just(1e-3)},
    optional={"accounting": st.sampled_from(["gdp", ["zcdp", "zcdp-tight"]])},
)
RECORDS = st.sampled_from(
    [{}, {"every": 5}, {"final": True, "models": True}, {"rounds": [1, {"from": 2, "to": 9, "by": 3}]}]
)
TREES = st.fixed_dictionaries(
    {
        "rounds": st.sampled_from([9, [10, 20], {"from": 10, "to": 30, "by": 10}]),
        "data": st.sampled_from([{"given": "tiny"}, {"given": "tiny", "rows": [40, 50], "dense": True}]),
        "problem": st.one_of(PROBLEMS, st.lists(PROBLEMS, min_size=1, max_size=2)),
        "method": st.lists(METHODS, min_size=1, max_size=3),
        "record": RECORDS,
    },
    optional={
        "title": st.text(max_size=6),
        "repetitions": st.integers(1, 9),
        "seed": st.sampled_from([0, [1, 2], "os"]),
        "budget": st.one_of(BUDGETS, st.lists(BUDGETS, min_size=1, max_size=2)),
        "tuning": st.just({"file": "a.h5", "runs": 3, "edges": ["step = 0.5"]}),
    },
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TREES)
def test_a_sweep_that_is_written_and_read_is_the_same(tree: dict[str, Any]) -> None:
    first = Sweep.from_toml(fuzzed_specs.written(tree), sweeps.DATA)
    text = first.to_toml()
    second = Sweep.from_toml(text, sweeps.DATA)
    assert second == first
    assert hash(second) == hash(first)
    assert second.to_toml() == text
    assert second.runs == first.runs


@pytest.mark.parametrize("number", range(len(fuzzed_specs.SPECS)))
def test_what_is_written_has_the_same_settings(number: int, tmp_path: Path) -> None:
    A, b = fuzzed_specs.GIVEN["tiny"]
    np.savez(tmp_path / "rows.npz", A=A, b=b)
    text = fuzzed_specs.written(fuzzed_specs.SPECS[number]).replace("{file}", "rows.npz")
    first = Sweep.from_toml(text, fuzzed_specs.GIVEN, folder=tmp_path)
    second = Sweep.from_toml(first.to_toml(), fuzzed_specs.GIVEN, folder=tmp_path)
    assert keys(first) == keys(second) == keys(first.replace(title="another"))


# The list of readings is of sweeps, and none itself.
@pytest.mark.parametrize(
    "path", sorted(set(RECIPES.glob("*.toml")) - {RECIPES / "readings-list.toml"}), ids=lambda path: path.stem
)
def test_recipes_are_written_and_read(path: Path) -> None:
    added: dict[str, Any] = (
        {"methods": fl.PrimalDual(step=0.5)} if "[[method]]" not in path.read_text(encoding="utf-8") else {}
    )
    for quick in (False, True):
        first = Sweep.from_toml(path, quick=quick, **added)
        assert Sweep.from_toml(first.to_toml()) == first


def test_sweeps_that_differ_are_not_equal() -> None:
    changes: list[dict[str, Any]] = [
        {"rounds": 30},
        {"repetitions": 4},
        {"seed": 4},
        {"record": fl.Final()},
        {"title": "x"},
        {"budgets": None},
        {"models": True},
        {"common_noise": True},
        {"methods": fl.ISRLDP(0.1)},
        {"methods": {"a": fl.grid(fl.ISRLDP, step=[0.1, 0.3])}},
        {"problems": fl.grid(fl.Problem, workers=4, l2=0.2)},
        {"data": {"tiny": (2 * sweeps.matrix()[0], sweeps.matrix()[1])}},
    ]
    assert sweep() == sweep()
    for change in changes:
        assert sweep().replace(**{k: v for k, v in change.items() if k != "data"}) != sweep() or "data" in change
        assert sweep(**change) != sweep()
    assert sweep() != "a sweep"


# The same settings, and the same bits.


def test_settings_are_those_of_the_text() -> None:
    wanted = keys(sweeps.spec("isrl"), sweeps.DATA)
    assert keys(sweep()) == wanted
    assert keys(sweep(data=Data(given="tiny"), given=sweeps.DATA)) == wanted
    # A problem that was made already, and methods one by one.
    assert keys(sweep(data=None, problems={"tiny": tiny()}, methods=[fl.ISRLDP(0.1), fl.ISRLDP(0.3)])) == wanted
    text = sweeps.spec("isrl").replace("[problem]\nworkers = 4\nl2 = 0.1\n", '[problem]\ngiven = "tiny"\n')
    text = text.replace('[data]\ngiven = "tiny"\n', "")
    assert keys(text, {"tiny": tiny()}) == wanted


def test_graphs_are_written_by_name() -> None:
    graphs = [fl.Graph.ring(), fl.Graph.random(degree=2, seed=3)]
    mine = sweep(methods=[fl.PrimalDual(0.1, topology=graphs[0]), fl.grid(fl.PrimalDual, step=0.1, topology=graphs)])
    assert keys(mine) == keys(
        sweeps.spec('name = "PrimalDual"\nstep = 0.1\ntopology = ["ring", "random:2:3"]'), sweeps.DATA
    )
    assert Sweep.from_toml(mine.to_toml(), sweeps.DATA) == mine
    own = sweep(methods=fl.PrimalDual(0.1, topology=np.full((4, 4), 0.25)))
    with pytest.raises(ArgumentError, match="topology = .*TOML has no such value"):
        own.to_toml()


def test_recorded_rounds_have_the_keys_of_the_text() -> None:
    text = sweeps.spec("isrl", record="rounds = [1, 8, 20]")
    assert keys(sweep(record=[1, 8, 20])) == keys(sweep(record=np.array([1, 8, 20]))) == keys(text, sweeps.DATA)
    assert keys(sweep(record=5)) == keys(sweeps.spec("isrl", record="rounds = 5"), sweeps.DATA)


def test_grids_in_python_are_those_of_the_text() -> None:
    text = sweeps.spec(
        'name = ["ISRLDP", "PrimalDual"]\nstep = [0.1, 0.2]',
        'name = "ISRLDP"\nstep = [0.1, "planned"]\naccelerated = [false, true]\nrounds = 40',
        'name = "ISRLDP"\nstep = 0.1\nclip = {quantile = 0.8}',
        problem="row_bound = 2.0",
    )
    methods = [
        fl.grid([fl.ISRLDP, fl.PrimalDual], step=[0.1, 0.2]),
        fl.grid(fl.ISRLDP, step=[0.1, "planned"], accelerated=[False, True], rounds=40),
        fl.grid(fl.ISRLDP, step=0.1, clip=fl.AdaptiveClip(quantile=0.8)),
    ]
    mine = sweep(methods=methods, problems=fl.grid(fl.Problem, workers=4, l2=0.1, row_bound=2.0))
    assert keys(mine) == keys(text, sweeps.DATA)
    # Parameters that refuse each other are one failed setting either way.
    assert spec.read(mine).refused == spec.read(text, sweeps.DATA).refused != {}
    assert [method.accelerated for method in methods[1]] == [False, True, False]
    ((refused, reason),) = methods[1].refused
    assert refused.accelerated
    assert "plain descent only" in str(reason)
    # None leaves a parameter out, which is said by a table of its own.
    both = sweep(methods=fl.grid(fl.ISRLDP, step=0.1, clip=[None, 0.5]))
    assert keys(both) == keys(sweep(methods=[fl.ISRLDP(0.1), fl.ISRLDP(0.1, clip=0.5)]))
    assert Sweep.from_toml(both.to_toml(), sweeps.DATA) == both


def test_runs_are_the_same_bits_and_each_goes_on_with_what_the_other_has(tmp_path: Path) -> None:
    text = sweeps.spec("isrl")
    wanted = sweeps.digest(text, tmp_path / "text.h5")
    for name, mine in (
        ("grid", sweep()),
        ("problem", sweep(data=None, problems={"tiny": tiny()}, methods=[fl.ISRLDP(0.1), fl.ISRLDP(0.3)])),
    ):
        assert mine.run(tmp_path / f"{name}.h5", n_jobs=1, progress=False).completed == mine.runs == 12
        assert fl.results(tmp_path / f"{name}.h5").digest() == wanted
    # A file of some of the runs, by either, is what the other goes on with.
    path = tmp_path / "both.h5"
    assert sweep(rounds=30, repetitions=2).run(path, progress=False).completed == 4
    assert sweeps.run(text.replace("repetitions = 3", "repetitions = 2"), path).completed == 4
    report = sweep(data=None, problems={"tiny": tiny()}).run(path, progress=False)
    assert (report.found, report.completed) == (8, 4)
    assert fl.results(path).digest() == wanted


def test_other_data_of_a_name_are_refused_on_going_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.h5"
    A, b = sweeps.matrix()
    sweep(data=None, problems={"tiny": tiny()}).run(path, progress=False)
    other = fl.Problem(2 * A, b, workers=4, l2=0.1)
    with pytest.raises(StoreError, match="the data differed then"):
        sweep(data=None, problems={"tiny": other}).run(path, progress=False)
    shuffled = fl.Problem(A, b, workers=np.arange(60) % 4, l2=0.1)
    with pytest.raises(StoreError, match="the data differed then"):
        sweep(data=None, problems={"tiny": shuffled}).run(path, progress=False)


def test_a_sweep_of_objects_runs_on_other_processes(tmp_path: Path) -> None:
    mine = sweep(data=None, problems={"tiny": tiny()}, rounds=20)
    mine.run(tmp_path / "threads.h5", progress=False)
    mine.run(tmp_path / "loky.h5", backend="loky", n_jobs=2, progress=False)
    assert fl.results(tmp_path / "loky.h5").digest() == fl.results(tmp_path / "threads.h5").digest()


def test_what_is_kept_with_the_runs_is_the_text(tmp_path: Path) -> None:
    mine = sweep(data=None, problems={"tiny": tiny()}, tuning={"rule": "least mean"})
    mine.run(tmp_path / "runs.h5", progress=False)
    told = fl.results(tmp_path / "runs.h5")[0].provenance
    assert told["spec"] == mine.to_toml()
    assert told["tuning"] == {"rule": "least mean"}
    # So that anyone who has the problem can make them again.
    found = fl.verify(tmp_path / "runs.h5", given={"tiny": tiny()})
    assert found.passed
    assert Sweep.from_toml(told["spec"], {"tiny": tiny()}) == mine


def test_networks_are_given_as_well() -> None:
    A, b, *test = fuzzed_specs.GIVEN["digits"]
    network = fl.MLP(A, b, hidden=3, workers=2, clip=1.0, test=tuple(test))
    mine = Sweep(problems={"digits": network}, methods=fl.PrimalDual(step=0.5), rounds=3, budgets=BUDGET)
    text = 'rounds = 3\n[data]\ngiven = "digits"\n[network]\nworkers = 2\nhidden = 3\nclip = 1.0\n'
    text += "[budget]\nepsilon = 4.0\ndelta = 1e-3\n[[method]]\nstep = 0.5\n"
    assert keys(mine) == keys(text, fuzzed_specs.GIVEN)
    assert '[network]\ngiven = "digits"' in mine.to_toml()


def test_changes_are_those_of_dataclasses() -> None:
    more = dataclasses.replace(sweep(), methods=(*sweep().methods, fl.grid(fl.PrimalDual, step=0.1)))
    assert len(keys(more)) == 6
    clipped = more.replace(problems=[one.replace(gradient_bound=[0.5, 1.0]) for one in more.problems])
    assert len(keys(clipped)) == 12
    with pytest.raises(dataclasses.FrozenInstanceError):
        more.rounds = (1,)  # type: ignore[misc]
    # How a text was read is no part of what was changed.
    read = Sweep.from_toml(sweeps.spec("isrl"), sweeps.DATA)
    assert spec.read(read).text == sweeps.spec("isrl")
    assert spec.read(read.replace(rounds=9)).text == read.replace(rounds=9).to_toml()


# Errors.


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 0}, "rounds = 0: give a whole number from 1 to"),
        ({"rounds": []}, "rounds = .*nothing to run"),
        ({"rounds": None}, "rounds = None: .*none of their own"),
        ({"repetitions": 0}, "repetitions = 0: give a whole number"),
        ({"repetitions": 10**8}, "400,000,000 runs, more than"),
        ({"seed": -1}, "seed = -1: "),
        ({"seed": "os", "common_noise": True}, "common_noise = True: noise in common needs seeds"),
        ({"common_noise": 1}, "common_noise = 1: give True or False"),
        ({"objective": 1}, "objective = 1: give True or False"),
        ({"title": 1}, "title = 1: give a text"),
        ({"record": [0]}, r"record = \[0\]: give Every"),
        ({"record": "all"}, "record = 'all': give Every"),
        ({"tuning": {"rules": ""}}, "did you mean 'rule'"),
        ({"tuning": {"rule": object()}}, "give texts, numbers"),
        ({"budgets": 1.0}, r"budgets = 1.0: give Budget\("),
        ({"budgets": fl.grid(fl.ISRLDP, step=0.1)}, "budgets = Grid.*give Budget"),
        ({"budgets": [BUDGET, None]}, "budgets = None: give Budget"),
        ({"methods": []}, "methods = .*nothing to run"),
        ({"methods": "ISRLDP"}, "methods = 'ISRLDP': give methods such as"),
        ({"methods": [BUDGET]}, "methods = Budget.*give methods such as"),
        ({"methods": {"a": []}}, r"methods\['a'\] = \[\]: there is nothing to run"),
        ({"methods": fl.grid(fl.ISRLDP, step=0.1, rounds=0)}, "rounds = 0: give a whole number from 1 to"),
        ({"methods": fl.sweeping.Grid(fl.ISRLDP, {"step": [-1.0]})}, "step = -1.0: "),
        ({"problems": tiny()}, "problems = .*give {'mine': problem}"),
        ({"problems": []}, "problems = .*give {'mine': problem}"),
        ({"problems": {"": tiny()}}, "given = '': give each a name"),
        ({"problems": {"a": 1}}, "problems = 1: give {'mine': problem}"),
        ({"problems": {"tiny": tiny()}}, "given = 'tiny': two things have this name"),
        ({"problems": {"p": tiny()}}, "data = .*: no problem is made of them"),
        ({"problems": fl.grid(fl.Problem, l2=0.1)}, r"problems\[0\], workers = None: say how many workers"),
        ({"problems": fl.grid(fl.Problem, worker=3)}, r"problems\[0\], worker = \(3,\): .*did you mean 'workers'"),
        ({"problems": fl.grid(fl.Problem, workers=3, regularizer="Bax")}, "regularizer = 'Bax': .*'Box'"),
        (
            {"problems": fl.grid(fl.Problem, workers=3, regularizer={"name": "Box", "bund": 1})},
            "regularizer.bund = 1: Box has no such parameter",
        ),
        ({"problems": fl.grid(fl.Problem, given="other"), "data": None}, "given = 'other': use one of"),
        ({"problems": fl.grid(fl.Problem, given="tiny", l2=0.1), "data": None}, "l2 = 0.1: .*made already"),
        ({"data": None}, "data = None: say what problems are made of"),
        ({"data": "ijcnn"}, "name = 'ijcnn': .*'ijcnn1'"),
        ({"data": 3}, "data = 3: give the name of a set"),
        ({"data": Data(given="other")}, r"data\[0\], given = 'other': "),
        ({"data": Data(file="nowhere.npz")}, r"data\[0\], file = 'nowhere.npz': there is no such file"),
        ({"data": {"p": tiny()}}, "given = 'p': it is a problem"),
    ],
)
def test_a_mistake_is_shown_with_argument_and_remedy(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        sweep(**changes)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "say once where the data come from"),
        ({"name": "ijcnn1", "file": "x"}, "file = 'x': say once"),
        ({"name": 3}, "name = 3: give a text"),
        ({"name": "ijcnn1", "rows": 0}, "rows = 0: "),
        ({"name": "ijcnn1", "seed": 0}, "only synthetic data have a seed"),
        ({"name": "ijcnn1", "label": "y"}, "only a .csv file"),
        ({"synthetic": "ijcnn"}, "did you mean 'ijcnn1'"),
    ],
)
def test_data_that_are_none(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        Data(**values)


def test_mistakes_that_only_the_data_show_name_where_they_were_made() -> None:
    wide = sweep(methods=[fl.ISRLDP(0.1), fl.ISRLDP(0.1, tail_average=9)], rounds=7)
    assert next(iter(spec.read(wide).refused.values())).startswith("tail_average = 9: ")
    with pytest.raises(ArgumentError, match=r"methods\[0\], tail_average = 9: there are only 7 rounds"):
        spec.read(wide.replace(methods=fl.ISRLDP(0.1, tail_average=9)))
    with pytest.raises(ArgumentError, match=r"problems\[0\], workers = 99: "):
        spec.read(wide.replace(problems=fl.grid(fl.Problem, workers=99)))
    # Of what came from a text, by its line, whatever else was changed.
    read = Sweep.from_toml(sweeps.spec('name = "ISRLDP"\nstep = 0.1\ntail_average = 60'), sweeps.DATA)
    with pytest.raises(SpecError, match=r"spec, line 18, method\.tail_average: .*only 9 rounds"):
        spec.read(read.replace(rounds=9))


def test_what_has_no_text_runs_and_says_so(tmp_path: Path) -> None:
    @dataclasses.dataclass(frozen=True)
    class Hidden(fl.ISRLDP):
        pass

    mine = sweep(methods=Hidden(0.1), rounds=9)
    with pytest.raises(ArgumentError, match="nobody else can import it"):
        mine.to_toml()
    assert mine.run(tmp_path / "runs.h5", progress=False).completed == 3
    assert fl.results(tmp_path / "runs.h5")[0].provenance["spec"].startswith("# Made in Python, of what has no text")
    (claim,) = (claim for claim in fl.verify(tmp_path / "runs.h5").claims if claim.name == "specification")
    assert "nobody else can import it" in claim.told


def test_a_text_takes_what_only_a_text_can() -> None:
    with pytest.raises(ArgumentError, match="quick = True: only a specification in TOML takes it"):
        spec.read(sweep(), quick=True)
