"""The command line: output, files, JSON and exit codes."""

import json
from pathlib import Path

import pytest

from fastldp.cli import main

SHORT = ["solve", "--data", "ijcnn1", "--rounds", "20", "--repetitions", "3"]


def test_solve_prints_a_table_and_writes_what_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, results = tmp_path / "new" / "error.png", tmp_path / "run.npz"
    assert main([*SHORT, "--plot", str(picture), "--save", str(results)]) == 0
    out, err = capsys.readouterr()
    for words in ("synthetic ijcnn1", "optimality", "(1, 0.0001)-LDP", str(picture), str(results)):
        assert words in out
    assert "100%" in err
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert results.exists()


def test_solve_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHORT, "--json", "--accounting", "gdp", "--allocation", "static"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert err == ""
    assert result["rounds"][-1] == 20
    assert result["ledger"]["accounting"] == "gdp"
    assert result["ledger"]["spent_epsilon"] <= 1.0


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
