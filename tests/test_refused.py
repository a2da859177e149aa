"""Settings that cannot run: each is one failed setting with its reason, and never the end of the others."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp.cli import main
from fastldp.errors import SpecError
from fastldp.methods import Schedule
from fastldp.sweeping import forecast, spec
from fastldp.sweeping.runner import told_reasons
from fastldp.sweeping.setting import Ground, Setting

BOX = 'regularizer = ["Zero", {name = "BoxL1", weight = 0.1, bound = 1.0}]'
ZERO = 'regularizer = "Zero"'
ACCELERATED = 'name = "ISRLDP"\nstep = [0.1, "planned"]\naccelerated = [false, true]'
PUBLIC = "row_bound = 2.0"
HUGE = "gradient_bound = 1e75"

# A sweep of which some settings cannot run, how many, why, and the sweep of the others.
CASES: dict[str, tuple[dict[str, Any], int, str, list[dict[str, Any]]]] = {
    "no proximal step": (
        {"methods": ["fedavg"], "problem": BOX},
        4,
        "it has no proximal step",
        [{"methods": ["fedavg"], "problem": ZERO}],
    ),
    "a tail longer than the horizon": (
        {"methods": ['name = "ISRLDP"\nstep = 0.2\ntail_average = [0, 40]']},
        1,
        "tail_average = 40: there are only 30 rounds",
        [
            {"methods": ['name = "ISRLDP"\nstep = 0.2']},
            {"methods": ['name = "ISRLDP"\nstep = 0.2\ntail_average = 40'], "rounds": "50"},
        ],
    ),
    "parameters that refuse each other": (
        {"methods": [ACCELERATED], "problem": PUBLIC},
        2,
        "the planner knows plain descent only",
        [
            {"methods": ['name = "ISRLDP"\nstep = 0.1\naccelerated = [false, true]'], "problem": PUBLIC},
            {"methods": ['name = "ISRLDP"\nstep = "planned"'], "problem": PUBLIC},
        ],
    ),
    "a budget of too much noise": (
        {"methods": ["isrl"], "problem": HUGE, "budget": "epsilon = [4.0, 1e-30]\ndelta = 1e-3"},
        4,
        "the noise would have a variance above",
        [{"methods": ["isrl"], "problem": HUGE}],
    ),
}


def text_of(what: dict[str, Any]) -> str:
    return sweeps.spec(*what["methods"], **{name: value for name, value in what.items() if name != "methods"})


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, int, str, list[str]]:
    what, count, reason, others = CASES[request.param]
    return text_of(what), count, reason, [text_of(other) for other in others]


@pytest.mark.filterwarnings("ignore::fastldp.errors.HorizonWarning")
def test_the_others_are_run_as_if_there_were_none(case: tuple[str, int, str, list[str]], tmp_path: Path) -> None:
    text, count, reason, others = case
    report = sweeps.run(text, tmp_path / "a.h5")
    assert (report.failed, report.missing, report.sound) == (3 * count, 0, False)
    assert sum(report.reasons.values()) == count
    assert all(reason in told for told in report.reasons)
    for other in others:
        assert sweeps.run(other, tmp_path / "b.h5").failed == 0
    found = fl.results(tmp_path / "a.h5")
    done, expected = found.where(outcome="completed"), fl.results(tmp_path / "b.h5")
    assert report.completed == len(done) == len(expected)
    for one, same in zip(done, expected, strict=True):
        assert one.parameters == same.parameters
        for name in ("x", "consensus", "distance"):
            np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    failed = found.where(outcome="failed")
    assert all(reason in run.message and run.x.size == 0 for run in failed)
    assert [failure.runs for failure in failed.failures()] == [3] * count


def test_a_forecast_says_what_cannot_run(case: tuple[str, int, str, list[str]], tmp_path: Path) -> None:
    text, count, reason, _ = case
    plan = forecast(text, tmp_path / "a.h5", given=sweeps.DATA, n_jobs=1)
    assert (plan.refused, sum(plan.reasons.values()), plan.found) == (3 * count, count, 0)
    assert f"{plan.runs - 3 * count} runs in" in plan.summary()
    assert reason in plan.summary()
    assert plan.bytes > 0


def test_they_are_tried_again_when_failures_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = sweeps.spec("fedavg", "isrl", problem=BOX)
    sweeps.run(text, tmp_path / "a.h5")
    again = sweeps.run(text, tmp_path / "a.h5")
    assert (again.found, again.failed, again.unsound, sum(again.reasons.values())) == (48, 0, 12, 4)
    retried = sweeps.run(text, tmp_path / "a.h5", retry=True)
    assert (retried.found, retried.failed, retried.unsound) == (36, 12, 0)
    # Of a later version, say, which knows how to.
    monkeypatch.setattr(fl.DPFedAvg, "proximal", True)
    assert sweeps.run(text, tmp_path / "a.h5").found == 48
    assert sweeps.run(text, tmp_path / "a.h5", retry=True).completed == 12
    assert fl.results(tmp_path / "a.h5").digest() == sweeps.digest(text, tmp_path / "b.h5")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (sweeps.spec("fedavg", problem=BOX.replace('"Zero", ', "")), r"line 16, method\.name: .*no proximal step"),
        (
            sweeps.spec("averaged", rounds="[5, 9]"),
            "no setting of it can run, for 2 reasons; .* tail_average",
        ),
        (sweeps.spec("isrl", 'name = "ISRLDP"\nstep = [-1.0, -2.0]'), r"line 20, method\.step: step = -1"),
        (sweeps.spec("isrl", 'name = "ISRLDP"\nstep = [0.1, 0.2]\nclap = 1'), "clap: not a known key"),
        (sweeps.spec("isrl", 'name = ["ISRLDP", "ISRLPD"]\nstep = 0.1'), "did you mean 'ISRLDP'"),
        (sweeps.spec("isrl", 'name = ["ISRLDP", "DPFedAvg"]\nstep = 0.1\ntail_average = 2'), "has no such parameter"),
    ],
)
def test_a_specification_that_is_wrong_as_a_whole_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=message):
        sweeps.run(text, tmp_path / "a.h5")
    assert not any(tmp_path.iterdir())


def test_what_fails_in_a_worker_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of several settings share a block; the fault of one is not that of its neighbours."""
    text, schedule = sweeps.spec("isrl"), Ground.schedule

    def broken(self: Ground, setting: Setting) -> Schedule:
        if getattr(setting.method, "step", 0) == 0.3 and setting.rounds == 30:
            raise FloatingPointError("no such noise")
        return schedule(self, setting)

    expected = fl.results(tmp_path / "b.h5") if sweeps.run(text, tmp_path / "b.h5") else None
    monkeypatch.setattr(Ground, "schedule", broken)
    report = sweeps.run(text, tmp_path / "a.h5")
    assert (report.completed, report.failed) == (9, 3)
    assert report.reasons == {"FloatingPointError: no such noise": 1}
    assert expected is not None
    for one, other in zip(fl.results(tmp_path / "a.h5"), expected, strict=True):
        if one.outcome == "completed":
            np.testing.assert_array_equal(one.x, other.x)
            np.testing.assert_array_equal(one.optimality, other.optimality)


def test_settings_on_paper_have_the_keys_they_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    text = sweeps.spec(ACCELERATED, problem=PUBLIC, rounds="300")
    read = spec.read(text, sweeps.DATA)
    (on_paper,) = read.refused
    monkeypatch.setattr(fl.ISRLDP, "__post_init__", lambda self: None)
    assert [setting.key for setting in spec.read(text, sweeps.DATA).settings] == [one.key for one in read.settings]
    assert read.cards[on_paper].parameters["method"] == {
        "name": "ISRLDP",
        "step": "planned",
        "clip": None,
        "accelerated": True,
        "tail_average": 0,
    }


def test_many_reasons_are_told_in_few_lines() -> None:
    lines = told_reasons({f"reason {k}": k + 1 for k in range(50)})
    assert lines[0] == "1 setting failed: reason 0"
    assert lines[-1] == "and others for 30 more reasons; fastldp info --all has all of them"
    assert len(lines) == 21


def test_the_commands_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    A, b = sweeps.matrix()
    np.savez("a.npz", A=A, b=b)
    Path("s.toml").write_text(sweeps.spec("fedavg", "isrl", data='file = "a.npz"', problem=BOX))
    assert main(["sweep", "s.toml", "--dry-run"]) == 0
    assert "cannot run 4 settings: algorithm = 'DPFedAvg'" in capsys.readouterr().out
    assert main(["sweep", "s.toml"]) == 3
    out = capsys.readouterr().out
    assert out.count("4 settings failed: algorithm = 'DPFedAvg': it has no proximal step") == 1
    assert "--retry" in out
    assert main(["info", "s.h5"]) == 0
    out = capsys.readouterr().out
    assert "  4 settings, 12 runs: algorithm = 'DPFedAvg'" in out
    assert out.count("method=DPFedAvg") == 4
    assert main(["info", "s.h5", "--json"]) == 0
    failed = json.loads(capsys.readouterr().out)["failed"]
    assert [(one["method"], one["regularizer"], one["runs"]) for one in failed] == [("DPFedAvg", "BoxL1", 3)] * 4
