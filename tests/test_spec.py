"""Specifications: a mistake has its line, its key and a remedy; lists and ranges become runs; keys are canonical."""

import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cases
import fastldp as fl
import sweeps
from fastldp import memory
from fastldp.describing import canonical, described, section
from fastldp.engine.recording import Every, timetable
from fastldp.errors import SamplerWarning, SpecError, TooLargeError
from fastldp.methods import primal_dual, schedule
from fastldp.sweeping import spec
from fastldp.sweeping.document import lines_of

A = np.random.default_rng(0).standard_normal((24, 3)) / 2
DATA = {"tiny": (A, np.where(np.arange(24) % 2, 1.0, -1.0))}

# A whole specification; what a test is about replaces a line of it.
LINES = [
    "rounds = 5",
    "repetitions = 2",
    "[data]",
    'given = "tiny"',
    "[problem]",
    "workers = 3",
    "l2 = 0.1",
    "[budget]",
    "epsilon = 1.0",
    "delta = 1e-3",
    "[[method]]",
    'name = "ISRLDP"',
    "step = 0.1",
]


def read(text: str) -> spec.Spec:
    return spec.read(text, DATA)


def with_line(old: str, new: str) -> str:
    assert old in LINES
    return "\n".join(new if line == old else line for line in LINES)


def settings(text: str, *names: str) -> list[tuple[Any, ...]]:
    """The values of some parameters of the method, in the order of the settings."""
    read_spec = read(text)
    return [tuple(getattr(setting.method, name) for name in names) for setting in read_spec.settings]


# Where keys stand.


def test_lines_of_strings_and_arrays_over_several_lines() -> None:
    text = "\n".join(
        [
            "a = [",
            "  'x = 1', # not a key",
            "  ]",
            'b = """',
            "c = 1",
            '\\""" d = 2 "" """',
            "e = '''",
            "[f]''' # [",
            "g = 1",
        ]
    )
    assert lines_of(text) == {("a",): 1, ("b",): 4, ("e",): 7, ("g",): 9}


def test_lines_of_quoted_and_dotted_keys() -> None:
    text = '"a b".c = 1\n["d.e" . f]\n\'g]\' = 2'
    assert lines_of(text) == {("a b", "c"): 1, ("d.e", "f"): 2, ("d.e", "f", "g]"): 3}


def test_a_table_inside_an_array_of_tables_belongs_to_the_last_one() -> None:
    text = "[[a]]\n[[a.b]]\n[a.b.c]\n[[a]]\n[[a.b]]\nd = 1"
    expected = {("a", 0): 1, ("a", 0, "b", 0): 2, ("a", 0, "b", 0, "c"): 3, ("a", 1): 4, ("a", 1, "b", 0): 5}
    assert lines_of(text) == expected | {("a", 1, "b", 0, "d"): 6}


VALUES = st.one_of(
    st.integers(-9, 9).map(str),
    st.sampled_from(
        ["'''\n[x]\ny = 1'''", '"""\n\\"""\n""""', "[\n1, # ]\n[2]]", '"#["', "'\"'", "{k = '}'}", "2020-01-01"]
    ),
)


@given(st.lists(st.tuples(st.sampled_from(["", "[t{}]", "[[s]]"]), VALUES), min_size=1, max_size=8))
def test_every_key_of_any_document_is_found_on_its_line(items: list[tuple[str, str]]) -> None:
    written, expected, line = "", {}, 1
    for k, (header, value) in enumerate(items):
        if header:
            written += header.format(k) + "\n"
            line += 1
        written += f"k{k} = {value}\n"
        expected[f"k{k}"] = line
        line += 1 + value.count("\n")
    tomllib.loads(written)
    assert {str(path[-1]): n for path, n in lines_of(written).items() if str(path[-1]).startswith("k")} == expected


# Mistakes.


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rounds = 5", "runds = 5", ["line 1, runds", "did you mean 'rounds'?"]),
        ("rounds = 5", "rounds = 0", ["line 1, rounds", "from 1 to 4,294,967,295"]),
        ("rounds = 5", "rounds = []", ["line 1, rounds", "nothing to run"]),
        ("rounds = 5", "rounds = {from = 1, to = inf, by = 1}", ["line 1, rounds", "a range is"]),
        ("rounds = 5", "rounds = {to = 9, by = 1}", ["line 1, rounds", "a range is"]),
        ("rounds = 5", "rounds = {from = 1, to = 9, by = 1, count = 3}", ["line 1, rounds", "a range is"]),
        ("rounds = 5", "rounds = {from = 9, to = 1, by = 1}", ["line 1, rounds", "no step of 1 leads from 9 to 1"]),
        ("rounds = 5", "rounds = {from = 1, to = 1e12, by = 1}", ["line 1, rounds", "more than 100,000"]),
        ("rounds = 5", "rounds = {from = 1, to = 9, steps = 3}", ["line 1, rounds.steps", "known are"]),
        ("rounds = 5", "rounds = 5\nseed = -1", ["line 2, seed", "from 0 to"]),
        ("repetitions = 2", "repetitions = 2.5", ["line 2, repetitions", "≥ 1"]),
        ('given = "tiny"', 'given = "tinny"', ["line 4, data.given", "did you mean 'tiny'?"]),
        ('given = "tiny"', 'file = "nowhere.npz"', ["line 4, data.file", "no such file"]),
        ('given = "tiny"', 'given = "tiny"\nfile = "x"', ["line 4, data.given", "once"]),
        ('given = "tiny"', 'given = "tiny"\nrows = 99', ["line 5, data.rows", "only 24"]),
        ('given = "tiny"', 'given = "tiny"\nseed = 1', ["line 5, data.seed", "only synthetic"]),
        ('given = "tiny"', 'synthetic = "ijcnn"', ["line 4, data.synthetic", "did you mean 'ijcnn1'?"]),
        ("workers = 3", "workers = 99", ["line 6, problem.workers", "only 24 rows"]),
        ("workers = 3", "wokers = 3", ["line 6, problem.wokers", "did you mean 'workers'?"]),
        ("workers = 3", "# none", ["line 5, problem", "how many workers"]),
        ("l2 = 0.1", "l2 = -1", ["line 7, problem.l2"]),
        ("l2 = 0.1", 'loss = "logistc"', ["line 7, problem.loss", "did you mean 'logistic'?"]),
        ("l2 = 0.1", 'regularizer = "Bax"', ["line 7, problem.regularizer", "did you mean 'Box'?"]),
        ("l2 = 0.1", 'regularizer = {name = "Box", bund = 1}', ["line 7, problem.regularizer", "no such parameter"]),
        ("l2 = 0.1", "share = 0.5", ["line 7, problem.share", "partition ="]),
        ("epsilon = 1.0", "epsilon = -1.0", ["line 9, budget.epsilon", "> 0"]),
        ("epsilon = 1.0", "epsilon = [[1.0, 2.0]]", ["line 9, budget.epsilon", "each of the 3 workers"]),
        ("epsilon = 1.0", 'epsilon = [["a"]]', ["line 9, budget.epsilon", "array of numbers"]),
        ("epsilon = 1.0", "# none", ["line 8, budget", "a budget needs it"]),
        ("delta = 1e-3", 'delta = 1e-3\naccounting = "rdp"', ["line 11, budget.accounting", "use one of"]),
        ('name = "ISRLDP"', 'name = "ISRL"', ["line 12, method.name", "did you mean 'ISRLDP'?"]),
        ("step = 0.1", "stop = 0.1", ["line 13, method.stop", "did you mean 'step'?"]),
        ("step = 0.1", "# none", ["line 12, method.name", "ISRLDP needs step"]),
        ("step = 0.1", "step = 0.1\ntail_average = 9", ["line 14, method.tail_average", "only 5 rounds"]),
        ("step = 0.1", "step = 0.1\nrounds = 0", ["line 14, method.rounds", "from 1 to 4,294,967,295"]),
        ("step = 0.1", "step = 0.1\n[record]\nevery = 0", ["line 15, record.every", "≥ 1"]),
        ("step = 0.1", "step = 0.1\n[record]\nrounds = [9]", ["line 15, record.rounds", "none of them"]),
        ("step = 0.1", "step = 0.1\n[record]\nevery = 1\nfinal = true", ["line 16, record.final", "already"]),
        ("step = 0.1", "step = 0.1\n[record]\nmodels = 1", ["line 15, record.models", "true or false"]),
        ("step = 0.1", "step = 0.1\n[record]\nmessages = 0", ["line 15, record.messages", "does not keep"]),
        ("step = 0.1", "step = 0.1\n[[record]]\n[[record]]", ["line 15, record", "one table"]),
        ("step = 0.1", "step = ", ["spec: not TOML: Invalid value"]),
        ("[[method]]", "[[methdo]]", ["line 11, methdo", "did you mean 'method'?"]),
        ("[budget]", "[bugdet]", ["line 8, bugdet", "did you mean 'budget'?"]),
        # Numbers that no array, no float or no memory can hold.
        ("rounds = 5", f"rounds = {10**300}", ["line 1, rounds", "from 1 to 4,294,967,295"]),
        ("rounds = 5", f"rounds = {{from = 1, to = {10**400}, by = 1}}", ["line 1, rounds", "a range is"]),
        (
            "rounds = 5",
            f"rounds = {{from = {-(10**308)}, to = {10**308}, count = 9}}",
            ["line 1, rounds", "a range is"],
        ),
        ("rounds = 5", f"rounds = 1{'0' * 5000}", ["spec: not TOML"]),
        ("rounds = 5", f"rounds = {'[' * 5000}1{']' * 5000}", ["spec: not TOML"]),
        ("rounds = 5", f"rounds = 5\nseed = {10**300}", ["line 2, seed", "from 0 to 2**63"]),
        ("repetitions = 2", f"repetitions = {10**300}", ["line 2, repetitions", "at most 100,000,000"]),
        ("repetitions = 2", "repetitions = 100000000\nseed = [1, 2]", ["200,000,000 runs", "several sweeps"]),
        ('given = "tiny"', f'given = "tiny"\nrows = {10**300}', ["line 5, data.rows", "only 24"]),
        ("workers = 3", f"workers = {10**300}", ["line 6, problem.workers", "only 24 rows"]),
        ("l2 = 0.1", f"l2 = {10**400}", ["line 7, problem.l2", "finite"]),
        ("l2 = 0.1", "gradient_bound = 1e308", ["line 7, problem.gradient_bound", "to 1e+140"]),
        ("l2 = 0.1", "gradient_bound = 1e-320", ["line 7, problem.gradient_bound", "from 1e-140"]),
        ("l2 = 0.1", f'partition = "shuffled"\nsizes = {2**63}', ["line 8, problem.sizes", "only 24 rows"]),
        ("l2 = 0.1", f'partition = "shuffled"\nsizes = [[{2**62}, {2**62}, 0]]', ["line 8, problem.sizes", "no rows"]),
        ("l2 = 0.1", f'partition = "shuffled"\nsizes = [[{2**62}, {2**62}, 1]]', ["line 8, problem.sizes", "only 24"]),
        ("l2 = 0.1", f'partition = "shuffled"\nsizes = [[{2**63}, 1, 1]]', ["line 8, problem.sizes", "one a worker"]),
        ("l2 = 0.1", f'partition = "shuffled"\nsizes = [[{2**64}, 1, 1]]', ["line 8, problem.sizes", "below 2**63"]),
        ("l2 = 0.1", 'partition = "shuffled"\nsizes = 8\nalpha = 1.0', ["line 9, problem.alpha", "dirichlet"]),
        ("epsilon = 1.0", f"epsilon = {10**300}", ["line 9, budget.epsilon", "to 1e+30"]),
        ("epsilon = 1.0", "epsilon = 1e-320", ["line 9, budget.epsilon", "from 1e-30"]),
        ("step = 0.1", "step = 0.1\nclip = 1e308", ["line 14, method.clip", "to 1e+140"]),
        (
            "step = 0.1",
            "step = {from = 0.01, to = 0.1, count = 90000}\nclip = {from = 0.1, to = 1, count = 90000}",
            ["line 11, method", "8,100,000,000 choices", "several sweeps"],
        ),
    ],
)
def test_a_mistake_is_shown_with_line_key_and_remedy(old: str, new: str, words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        read(with_line(old, new))
    for word in words:
        assert word in str(caught.value)


# The last makes arrays of a gigabyte before it is refused.
@pytest.mark.parametrize(
    "record", ["", "[record]\nevery = 1", pytest.param("[record]\nevery = 24", marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("method", ["isrl", "primal_dual", "fedavg"])
def test_rounds_that_no_memory_holds_are_refused(method: str, record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 16 * 10**9)
    text = sweeps.spec(method, rounds="4294967295").replace("[record]\nevery = 7", record)
    with pytest.raises(SpecError, match=r"line 1, rounds: .* 16 GB are free; ask for fewer rounds"):
        spec.read(text, sweeps.DATA)


def test_records_that_no_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    assert timetable(Every(10**30), 10**9, 1).rounds.tolist() == [10**9]
    with pytest.raises(TooLargeError, match=r"^record = .*record fewer rounds"):
        timetable(Every(1), 10**6, 1)


def test_a_method_that_does_not_fit_its_problem_is_blamed_and_not_the_budget() -> None:
    text = with_line("l2 = 0.1", 'regularizer = {name = "BoxL1", weight = 0.1, bound = 1.0}')
    for name, other in (("DPFedAvg", "local_steps = 2"), ("LDPFedEXP", "local_steps = 2")):
        with pytest.raises(SpecError, match=r"line 12, method\.name: .*has no proximal step"):
            read(text.replace('"ISRLDP"', f'"{name}"') + f"\n{other}")
    for name, other in (("ISRLDP", "accelerated = [false, true]"), ("DPScaffNew", "probability = [0.5, 1.0]")):
        assert len(read(text.replace('"ISRLDP"', f'"{name}"') + f"\n{other}").settings) == 2


@pytest.mark.parametrize("missing", ["data", "problem", "method"])
def test_a_missing_table_is_named(missing: str) -> None:
    text = "\n".join(LINES).replace(f"[[{missing}]]", "[x]").replace(f"[{missing}]", "[x]")
    with pytest.raises(SpecError, match="not a known key" if missing != "data" else "x: not a known key"):
        read(text)
    values = {"data": LINES[:2] + LINES[4:], "problem": LINES[:4] + LINES[7:], "method": LINES[:10]}[missing]
    with pytest.raises(SpecError, match=rf"there is no table \[+{missing}"):
        read("\n".join(values))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match=r"spec\.toml: not a text in UTF-8"):
        spec.read(tmp_path / "spec.toml")


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(with_line("rounds = 5", "runds = 5"))
    with pytest.raises(SpecError, match=r"^mine\.toml, line 1, runds"):
        spec.read(tmp_path / "mine.toml", DATA)


# Lists, ranges and tables.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("[0.1, 0.2]", [0.1, 0.2]),
        ("{from = 0.1, to = 0.5, by = 0.1}", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("{from = 0.5, to = 0.1, by = -0.2}", [0.5, 0.3, 0.1]),
        ("{from = 0.1, to = 0.7, count = 3}", [0.1, 0.4, 0.7]),
        ("{from = 0.001, to = 1, count = 4, spacing = 'log'}", [0.001, 0.01, 0.1, 1.0]),
        ("[0.3, {from = 1, to = 3, by = 1}]", [0.3, 1.0, 2.0, 3.0]),
    ],
)
def test_lists_and_ranges(value: str, expected: list[float]) -> None:
    assert [step for (step,) in settings(with_line("step = 0.1", f"step = {value}"), "step")] == expected


def test_whole_ranges_give_whole_numbers() -> None:
    for text in ("{from = 2, to = 8, by = 2}", "{from = 2, to = 8, count = 4}"):
        horizons = [setting.rounds for setting in read(with_line("rounds = 5", f"rounds = {text}")).settings]
        assert horizons == [2, 4, 6, 8]
        assert all(type(T) is int for T in horizons)


def test_lists_combine() -> None:
    text = with_line("step = 0.1", "step = [0.1, 0.2]\naccelerated = [false, true]")
    assert settings(text, "step", "accelerated") == [(0.1, False), (0.1, True), (0.2, False), (0.2, True)]
    everything = text.replace("l2 = 0.1", "l2 = [0.1, 0.2]").replace("rounds = 5", "rounds = [3, 4, 5]\nseed = [0, 1]")
    assert len(read(everything).settings) == 4 * 2 * 3 * 2


def test_a_list_inside_a_list_is_an_array() -> None:
    read_spec = read(with_line("epsilon = 1.0", "epsilon = [1.0, [1.0, 2.0, 3.0]]"))
    budgets = [setting.budget.epsilon for setting in read_spec.settings if setting.budget is not None]
    assert budgets[0] == 1.0
    np.testing.assert_array_equal(budgets[1], [1.0, 2.0, 3.0])


def test_several_tables_each_with_its_own_keys() -> None:
    text = "\n".join(LINES) + '\n[[method]]\nname = "DPFedAvg"\nstep = 0.1\nlocal_steps = [1, 2]\nrounds = 7'
    found = [(type(setting.method).__name__, setting.rounds) for setting in read(text).settings]
    assert found == [("ISRLDP", 5), ("DPFedAvg", 7), ("DPFedAvg", 7)]


def test_regularizers_may_be_a_list_of_tables_with_lists() -> None:
    value = 'regularizer = ["Zero", {name = "Box", bound = [1.0, 2.0]}]'
    read_spec = read(with_line("l2 = 0.1", value))
    bounds = [card.parameters["problem"]["regularizer"].get("bound") for card in read_spec.cards.values()]
    assert bounds == [None, 1.0, 2.0]
    # One copy of the data for all of them.
    assert len(read_spec.grounds) == 1


def test_without_a_budget_there_is_no_noise() -> None:
    text = "\n".join(line for line in LINES if line not in ("[budget]", "epsilon = 1.0", "delta = 1e-3"))
    assert [setting.budget for setting in read(text).settings] == [None]


def test_recorded_rounds_may_be_a_range_and_end_with_the_horizon() -> None:
    text = "\n".join(LINES) + "\n[record]\nrounds = [1, {from = 2, to = 8, by = 2}]"
    assert read(text).settings[0].timetable.rounds.tolist() == [1, 2, 4]


# Keys.


def keys(text: str) -> set[str]:
    return {setting.key for setting in read(text).settings}


@cases.tiny_shards
@pytest.mark.parametrize(
    ("old", "one", "other"),
    [
        ("l2 = 0.1", "l2 = 1", "l2 = 1.0"),
        ("step = 0.1", "step = 1", "step = 1.0"),
        ("step = 0.1", "step = 0.3", "step = {from = 0.1, to = 0.3, by = 0.2}"),
        ("epsilon = 1.0", "epsilon = 1", "epsilon = 1.0"),
        ("l2 = 0.1", 'partition = "dirichlet"\nalpha = 1', 'partition = "dirichlet"\nalpha = 1.0'),
        ("l2 = 0.1", "l2 = 0.1", "l2 = 0.1\nloss = 'logistic'"),
        ("rounds = 5", "rounds = 5", "rounds = 5\nseed = 0\ntitle = 'other'"),
        ("repetitions = 2", "repetitions = 2", "repetitions = 9"),
    ],
)
def test_equal_settings_have_one_key(old: str, one: str, other: str) -> None:
    assert keys(with_line(old, one)) <= keys(with_line(old, other))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rounds = 5", "rounds = 6"),
        ("rounds = 5", "rounds = 5\nseed = 1"),
        ("l2 = 0.1", "l2 = 0.2"),
        ("l2 = 0.1", "l2 = 0.1\ndtype = 'float32'"),
        ("delta = 1e-3", "delta = 1e-4"),
        ("step = 0.1", "step = 0.1\n[record]\nfinal = true"),
        ("step = 0.1", "step = 0.1\n[record]\nobjective = true"),
    ],
)
def test_other_settings_have_other_keys(old: str, new: str) -> None:
    assert not keys("\n".join(LINES)) & keys(with_line(old, new))


def test_the_order_of_tables_and_keys_is_irrelevant() -> None:
    tables = ["\n".join(LINES[2:4]), "\n".join(LINES[4:7]), "\n".join(LINES[7:10]), "\n".join(LINES[10:])]
    turned = "\n".join([LINES[1], LINES[0], *reversed(tables)])
    assert keys("\n".join(LINES)) == keys(turned)


def test_a_setting_that_two_tables_reach_is_run_once() -> None:
    text = "\n".join(LINES) + '\n[[method]]\nname = "ISRLDP"\nstep = [0.1, 0.2]'
    assert len(read(text).settings) == 2


def test_keys_do_not_change_from_version_to_version() -> None:
    # Of numbers that every machine has, and of version 3 of the method: runs made earlier are known again by them.
    text = sweeps.spec("isrl", "primal_dual", rounds="30", noise="common = true")
    (setting,) = spec.read(text, sweeps.DATA).settings[2:3]
    assert setting.key == "6aa16da3d3aa9f3ab13cab0006554ce5"
    (setting,) = spec.read(sweeps.spec("isrl", "primal_dual", rounds="30"), sweeps.DATA).settings[2:3]
    assert setting.key == "90a9d607bdeb3bb6d491e9998c0468da"


@cases.tiny_shards
def test_the_text_of_a_card_is_the_canonical_text_of_all_its_parameters() -> None:
    text = sweeps.spec(*sweeps.METHODS, problem='regularizer = "Zero"\npartition = "dirichlet"\nalpha = 2')
    two = "[[budget]]\nepsilon = [[1.0, 2.0, 3.0, 4.0]]\ndelta = 1e-3\n[[budget]]\nepsilon = 1\ndelta = 0.1\n"
    for budget in ("", two):
        read_spec = spec.read(text.replace("[budget]\nepsilon = 4.0\ndelta = 1e-3\n", budget), sweeps.DATA)
        for setting in read_spec.settings:
            card, problem = read_spec.cards[setting.key], read_spec.grounds[0].subjects[0].problem
            parameters = {
                "data": {"given": "tiny", "rows": None, "dense": None},
                "problem": {"workers": 4, "partition": "dirichlet", "alpha": 2, **problem.parameters}
                | {"regularizer": described(problem.regularizer)},
                "budget": None if setting.budget is None else described(setting.budget),
                "method": described(setting.method),
                "rounds": setting.rounds,
                "seed": setting.noise.seed,
                "noise": "own",
                "record": setting.wanted._asdict(),
            }
            assert card.text == section(parameters)
            assert canonical(card.parameters) == card.text


def test_other_data_of_the_same_name_have_another_key() -> None:
    other = {"tiny": (2 * A, DATA["tiny"][1])}
    text = "\n".join(LINES)
    assert {setting.key for setting in spec.read(text, other).settings}.isdisjoint(keys(text))


# What planning takes.


def test_planning_computes_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    text = sweeps.spec(*sweeps.METHODS)
    expected = [setting.key for setting in spec.read(text, sweeps.DATA).settings]
    for module, name in ((primal_dual, "dynamic_variances"), (primal_dual, "static_variances")):
        monkeypatch.setattr(module, name, None)
    monkeypatch.setattr(schedule, "static_variances", None)
    assert [setting.key for setting in spec.read(text, sweeps.DATA).settings] == expected


def test_the_sampler_is_warned_of_where_it_spoils_a_promise() -> None:
    with pytest.warns(SamplerWarning, match="the promise holds for ideal normals only"):
        read(with_line("epsilon = 1.0", "epsilon = 1e-12"))


def test_a_setting_takes_less_than_a_kilobyte() -> None:
    def many(count: int) -> spec.Spec:
        return read(with_line("step = 0.1", f"step = {{from = 0.1, to = 0.2, count = {count}}}\nrounds = [3, 4, 5]"))

    many(10)
    tracemalloc.start()
    read_spec = many(500)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read_spec.settings) == 1500
    assert taken < 1000 * 1500
    assert len({id(shape) for shape in read_spec.shapes.values()}) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            sweeps.spec('name = "ISRLDP"'),
            r"method\.name: step = None: not given; ISRLDP needs step; it may have clip, ",
        ),
        (
            sweeps.spec('name = "DPFedAvg"'),
            r"method\.name: step = None: not given; DPFedAvg needs step and local_steps;",
        ),
        (
            sweeps.spec(problem='regularizer = "L2Ball"'),
            r"regularizer: regularizer.radius = None: not given; L2Ball needs radius$",
        ),
        (sweeps.spec(rounds="1000000000000"), r"line 1, rounds: rounds = 1000000000000: .* from 1 to 4,294,967,295, a"),
    ],
)
def test_what_is_missing_is_named_in_the_words_of_a_specification(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec.read(text, sweeps.DATA)


@pytest.mark.parametrize(
    ("quick", "message"),
    [
        ("[quick]\nrunds = 3", r"quick\.runds: not a known key; did you mean 'rounds'\?"),
        ("[quick.data]\nrws = 3", r"quick\.data\.rws: not a known key; did you mean 'rows'\?"),
        ("[quick.problem]\nworker = 3", r"quick\.problem\.worker: not a known key; did you mean 'workers'\?"),
        ("[quick.record]\nevry = 3", r"quick\.record\.evry: not a known key; did you mean 'every'\?"),
        ("[[quick.method]]\nstp = 3", r"quick\.method\.stp: not a known key; did you mean 'step'\?"),
    ],
)
def test_a_slip_in_quick_is_found_without_a_quick_trial(quick: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        spec.read(f"{sweeps.spec()}\n{quick}\n", sweeps.DATA)


@pytest.mark.parametrize("name", ["a9a", "w8a", "mushrooms"])
def test_sweeps_know_every_stand_in(name: str) -> None:
    (ground,) = spec.read(sweeps.spec(data=f'synthetic = "{name}"\nrows = 40')).grounds
    assert ground.subjects[0].problem.d == fl.datasets.synthetic(name, rows=1).A.shape[1]


# Where runs start.


def starts(line: str) -> list[Any]:
    text = with_line("l2 = 0.1", f"l2 = 0.1\n{line}")
    return [subject.start.tolist() for ground in read(text).grounds for subject in ground.subjects]


def test_all_workers_start_at_zero_or_where_a_specification_says() -> None:
    drawn = np.random.default_rng(0).standard_normal(3)
    assert starts("start = [[0.5, 0.0, -1.0]]") == [[0.5, 0.0, -1.0]]
    assert starts("start = [0.0, 1.0, 10]") == [[0.0] * 3, drawn.tolist(), (10 * drawn).tolist()]
    assert starts("start = 1.0\nstart_seed = 3") == [np.random.default_rng(3).standard_normal(3).tolist()]
    inside = starts('start = 10.0\nregularizer = {name = "Box", bound = 2.0}')
    assert inside == [np.clip(10 * drawn, -2, 2).tolist()]


def test_runs_that_start_elsewhere_have_other_keys_and_those_that_do_not_have_theirs(tmp_path: Path) -> None:
    keys = {
        line: [s.key for s in read(with_line("l2 = 0.1", f"l2 = 0.1\n{line}")).settings] for line in ("", "start = 1.0")
    }
    assert keys[""] == [s.key for s in read("\n".join(LINES)).settings]
    assert not {*keys[""]} & {*keys["start = 1.0"]}
    # A sweep's run is that of solve from the same start.
    fl.sweep(with_line("l2 = 0.1", "l2 = 0.1\nstart = 2.0"), tmp_path / "far.h5", given=DATA)
    (run, _) = fl.results(tmp_path / "far.h5")
    problem = fl.Problem(*DATA["tiny"], workers=3, l2=0.1)
    far = 2.0 * np.random.default_rng(0).standard_normal(3)
    alone = fl.solve(problem, fl.Budget(1.0, 1e-3), rounds=5, algorithm=fl.ISRLDP(0.1), repetitions=2, seed=0, x0=far)
    assert run.x.tolist() == alone.x[0].tolist()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("start = -1.0", "problem.start: .*give a number ≥ 0"),
        ('start = "far"', "problem.start: .*give a number ≥ 0"),
        ("start = [[1.0]]", "problem.start: .*give 3 finite numbers"),
        ("start = 1e300", "problem.start: .*squares overflow"),
        ("start_seed = 1", "problem.start_seed: .*give both"),
        ("start = 1.0\nstart_seed = -1", "problem.start_seed: .*whole number ≥ 0"),
    ],
)
def test_starts_that_are_none(line: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        starts(line)
