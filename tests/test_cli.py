"""The command line: output, files, JSON and exit codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
from fastldp import theory
from fastldp.cli import main
from fastldp.errors import HorizonWarning

SHORT = ["solve", "--data", "ijcnn1", "--step", "theorem", "--rounds", "20", "--repetitions", "3"]


def _short_problem() -> fl.Problem:
    """The problem that SHORT solves."""
    data = fl.datasets.synthetic("ijcnn1")
    return fl.Problem(data.A, data.b, workers=20, l2=0.1, regularizer=fl.BoxL1(0.01, 10.0))


def test_solve_prints_a_report_and_writes_what_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, results = tmp_path / "new" / "error.png", tmp_path / "run.npz"
    assert main([*SHORT, "--plot", str(picture), "--save", str(results)]) == 0
    out, err = capsys.readouterr()
    for words in ("synthetic ijcnn1", "mean of 3", "(1, 0.0001)-LDP", str(picture), str(results)):
        assert words in out
    assert err.splitlines()[-1].startswith("60.0 of 60.0 rounds in ")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert results.exists()


def test_solve_plans_where_no_step_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--rounds", "600", "--repetitions", "3", "--clip", "none"]
    assert main(["solve", "--data", "ijcnn1", *given, "--details"]) == 0
    out = capsys.readouterr().out
    assert "Planned for this budget, which is the default; --step theorem takes" in out
    problem, budget = _short_problem(), fl.Budget(1.0, 1e-4)
    plan = fl.plan(problem.facts_of_data(), budget, rounds=600)
    assert f"τ = {plan.tau:.4g}, step {plan.step:.6g}" in out
    assert main([*SHORT, "--details"]) == 0
    assert "planned" not in capsys.readouterr().out


def test_solve_says_how_many_rounds_a_plan_needs(capsys: pytest.CaptureFixture[str]) -> None:
    fewest = fl.plan(_short_problem().facts_of_data(), fl.Budget(1.0, 1e-4)).smallest_rounds
    with pytest.warns(HorizonWarning, match=f"20 rounds are few for the plan.*where {fewest:,} rounds or more"):
        assert main(["solve", "--data", "ijcnn1", "--rounds", "20", "--clip", "none"]) == 0
    assert "20 rounds in" in capsys.readouterr().out


def test_solve_has_nothing_to_tune_and_reads_nothing_off_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    """By default rounds, step, allocation and clipping are planned, within a public bound where there is one."""
    short = ["solve", "--data", "ijcnn1", "--repetitions", "2"]
    assert main(short) == 0
    out = capsys.readouterr().out
    assert "clip='adaptive'" in out
    assert "Nothing was read off the data without noise." in out
    assert main([*short, "--row-bound", "1.3", "--rounds", "1000"]) == 0
    assert "clip='adaptive'" in capsys.readouterr().out
    assert main([*short, "--row-bound", "1.3", "--rounds", "1000", "--clip", "none"]) == 0
    assert "adaptive" not in capsys.readouterr().out
    assert main([*short, "--clip", "0.3", "--step", "0.1", "--rounds", "50", "--details"]) == 0
    out = capsys.readouterr().out
    assert "clip=0.3" in out
    assert "of gradients that are not clipped; --clip none has them" in out


def test_plan_from_public_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "new" / "plan.png"
    numbers = ["--samples", "100", "--dimension", "22", "--bound", "1.3", "--l2", "0.1", "--norm", "2"]
    assert main(["plan", *numbers, "--plot", str(picture)]) == 0
    facts = fl.Facts(sizes=[100] * 20, dimension=22, bound=1.3, l2=0.1)
    made = fl.plan(facts, fl.Budget(1.0, 1e-4), prior=fl.Prior(2.0))
    assert made.summary() in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.warns(HorizonWarning, match=f"10 rounds are few for the plan.*where {made.smallest_rounds:,} rounds"):
        assert main(["plan", *numbers, "--rounds", "10"]) == 0
    assert f"T ≥ {made.smallest_rounds:,} suffices" in capsys.readouterr().out
    assert main(["plan", *numbers, "--rounds", "1000", "--topology", "ring", "--failures", "0.1"]) == 0
    made = fl.plan(facts, fl.Budget(1.0, 1e-4), rounds=1000, prior=fl.Prior(2.0), topology="ring", failures=0.1)
    assert made.summary() in capsys.readouterr().out


def test_solve_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--json", "--accounting", "gdp", "--allocation", "static"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert err == ""
    assert result["rounds"][-1] == 20
    assert result["ledger"]["accounting"] == "gdp"
    assert result["ledger"]["spent_epsilon"] <= 1.0


def test_solve_prints_the_bound_beside_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Aligned, at the rounds of the table above, with the numbers of the library."""
    assert main([*SHORT, "--details"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = lines.index("theory")
    header, *rows = lines[begin + 1 : lines.index("", begin)]
    assert header.split() == ["round", "optimality", "≤", "Lemma", "2", "ratio"]
    assert {len(row) for row in rows} == {len(header)}
    above = lines.index("", lines.index("") + 1) + 2
    assert [row.split()[:2] for row in rows] == [row.split()[:2] for row in lines[above : above + len(rows)]]

    problem, budget = _short_problem(), fl.Budget(1.0, 1e-4)
    scale = theory.optimality_scale(problem)
    errors = scale * theory.error_bounds(problem, budget, 20)
    for row in rows:
        round_, measured, bound, ratio = (float(word) for word in row.split())
        assert measured < bound == pytest.approx(errors[int(round_) - 1], rel=1e-3)
        assert ratio == pytest.approx(bound / measured, rel=1e-2)
    below = "\n".join(lines[begin:])
    assert f"Theorem 1       optimality ≤ {scale * theory.error_bound(problem, budget, 20):.4g} after" in below
    assert f"allows all T ≥ {theory.min_rounds(problem, budget):,}\n" in below


@pytest.mark.filterwarnings("ignore::fastldp.errors.SamplerWarning")
def test_solve_says_that_table_1_wants_more_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--epsilon", "100", "--details"]) == 0
    assert "; this run has fewer" in capsys.readouterr().out


@pytest.mark.parametrize("allocation", ["dynamic", "static"])
def test_bounds_as_json(allocation: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--json", "--allocation", allocation, "--step", "0.1"]) == 0
    result = json.loads(capsys.readouterr().out)
    lemma = result["theory"]["lemma_2"]
    assert lemma["contraction"] == pytest.approx(1 - 0.1 * 0.005)
    errors = theory.error_bounds(_short_problem(), fl.Budget(1.0, 1e-4), 20, allocation=allocation, step=0.1)
    assert lemma["error_bound"] == pytest.approx([errors[round_ - 1] for round_ in result["rounds"]], rel=1e-9)
    for measured, bound, error in zip(
        result["optimality_mean"], result["optimality_bound"], lemma["error_bound"], strict=True
    ):
        assert measured < bound == lemma["optimality_scale"] * error
    # Theorem 1 is about the dynamic allocation, and is what the lemma comes to in the end, or more.
    assert ("theorem_1" in result["theory"]) == (allocation == "dynamic")
    if allocation == "dynamic":
        assert result["theory"]["theorem_1"]["error_bound"] > lemma["error_bound"][-1]


def test_solve_says_why_there_is_no_bound(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(fl.errors.StepWarning):
        assert main([*SHORT, "--step", "0.5", "--details"]) == 0
    assert "  no bound        step = 0.5: above min{1/4, 1/L_f} = 0.25" in capsys.readouterr().out
    with pytest.warns(fl.errors.StepWarning):
        assert main([*SHORT, "--step", "0.5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["optimality_bound"] is None
    assert list(result["theory"]) == ["none"]
    # Without strong convexity the lemma still holds, with nothing forgotten; the theorem does not.
    assert main([*SHORT, "--l2", "0", "--details"]) == 0
    out = capsys.readouterr().out
    assert "a round leaves 1 of Φ" in out
    assert "  no Theorem 1    l2 = 0.0: " in out


def test_a_run_that_ended_early_is_valid_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = fl.solve

    def interrupted(*arguments: Any, **named: Any) -> fl.Solution:
        run = solve(*arguments, **named)
        run.consensus[:, 10:] = run.distance[:, 10:] = np.nan
        return run

    monkeypatch.setattr(fl, "solve", interrupted)
    assert main([*SHORT, "--json"]) == 0
    result = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))
    assert result["optimality_mean"][9] is not None
    assert result["optimality_mean"][10] is None
    assert main([*SHORT, "--details"]) == 0
    out = capsys.readouterr().out
    assert "nan" not in out[out.index("theory") :]
    assert main(SHORT) == 0
    assert "nan" not in capsys.readouterr().out


def test_the_same_seed_prints_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for jobs in ("1", "2"):
        assert main([*SHORT, "--json", "--jobs", jobs]) == 0
        result = json.loads(capsys.readouterr().out)
        results.append(result["optimality_mean"])
    assert results[0] == results[1]


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    assert "kernel cache" in capsys.readouterr().out
    assert main(["info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cores"] >= 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([*SHORT, "--epsilon", "-1"], 2, "epsilon = -1.0"),
        ([*SHORT, "--rounds", "0"], 2, "rounds = 0"),
        ([*SHORT, "--workers", "100000"], 2, "only 2000 rows"),
        ([*SHORT, "--plot", "/proc/none/error.png"], 1, "error"),
        ([*SHORT, "--plot", "error.pong"], 2, "did you mean 'png'"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert message in err.splitlines()[-1]
    assert out == ""


@pytest.mark.parametrize("arguments", [["--help"], ["solve", "--help"], ["info", "--help"], ["--version"], []])
def test_help_exits(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == (0 if arguments else 2)
    if arguments[:1] in (["solve"], ["info"]):
        assert "example" in capsys.readouterr().out


def test_audit_prints_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "new" / "loss.png"
    assert main(["audit", "--transcripts", "4000", "--plot", str(picture)]) == 0
    out, err = capsys.readouterr()
    for words in ("4,000 of each", "ε shown", "1.0000 by the ledger (zcdp)", "nothing contradicts", str(picture)):
        assert words in out
    assert err == ""  # a pipe is no place for a bar
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_audit_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["audit", "--transcripts", "4000", "--json", "--accounting", "gdp", "--allocation", "static"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is True
    assert found["accounting"] == "gdp"
    assert 0 < found["shown_epsilon"] < found["epsilon"] == 1.0


def test_audit_of_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["audit", "--hidden", "3", "--transcripts", "400", "--epsilon", "6", "--delta", "1e-3", "--rounds", "2"]
    assert main([*command, "--details"]) == 0
    shown = capsys.readouterr().out
    assert "MLP(2–3–2" in shown
    assert "kernels for linear models" in shown
    assert main([*command, "--hidden", "0"]) == 2


def test_audit_of_too_little(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--transcripts", "20"]) == 2
    assert "give at least 1,024" in capsys.readouterr().err
    assert main(["audit", "--seed", "-1"]) == 2
    assert "seed = -1" in capsys.readouterr().err
