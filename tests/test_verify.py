"""Verification: a sound file is confirmed, on other processors too, and one that was tampered with is not."""

import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import doctored
import fastldp as fl
import sweeps
from fastldp.cli import main
from fastldp.sweeping.layout import File
from fastldp.verifying import accounting, itself, remaking
from fastldp.verifying.claims import CONFIRMED, OPEN, REFUTED, Claim, Verification


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "good.h5"
    fl.sweep(doctored.SWEEP, path, progress=False)
    return path


def by_name(found: Verification) -> dict[str, Claim]:
    return {claim.name: claim for claim in found.claims}


def test_a_sound_file_is_confirmed_in_every_claim(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = fl.verify(good, runs=None)
    assert [claim.name for claim in found.claims if claim.status != CONFIRMED] == []
    assert "18 of 18 runs were made again" in by_name(found)["runs"].told
    assert main(["verify", str(good), "--runs", "all"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "every claim was confirmed" in out
    beyond = out[out.index("Nobody can tell") :]
    assert all(said in beyond for said in ("when", "machine", "commit", "how long", "[tuning]", "left out", "secret"))


@pytest.mark.parametrize("name", doctored.DOCTORED)
def test_a_doctored_file_is_not(good: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "doctored.h5"
    doctored.doctor(good, path, doctored.DOCTORED[name][1])
    # Its checksums are right: nothing but verification can tell.
    assert File(path).damage == ""
    assert len(fl.results(path)) >= 12
    found = fl.verify(path, runs=None)
    assert not found.passed
    # What was taken out may be still to be made, and memory may have been short, for all that the file says.
    assert found.refuted or name in ("left-out", "failed")


def test_the_claim_that_was_broken_is_named(good: Path, tmp_path: Path) -> None:
    expected = {"a-number": "runs", "smaller-epsilon": "ledgers", "more-noise": "promises", "a-column": "optimality"}
    for name, claim in expected.items():
        doctored.doctor(good, tmp_path / "doctored.h5", doctored.DOCTORED[name][1])
        found = by_name(fl.verify(tmp_path / "doctored.h5", runs=None))
        assert found[claim].status == REFUTED
        assert found[claim].wrong
    doctored.doctor(good, tmp_path / "doctored.h5", doctored.DOCTORED["a-number"][1])
    (wrong,) = by_name(fl.verify(tmp_path / "doctored.h5", runs=None))["runs"].wrong
    assert "consensus[" in wrong
    assert "np." not in wrong
    assert "repetition" in wrong


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings/parameters", b"{}"),
        ("settings/parameters", b"no JSON"),
        ("settings/ledger", b'{"promised_epsilon": 1}'),
        ("settings/provenance", b"[]"),
        ("sessions", b'{"spec": 3}'),
        ("sessions", b"{"),
        ("sessions", b"[1]"),
    ],
)
def test_what_makes_no_sense_is_not_confirmed(good: Path, tmp_path: Path, name: str, text: bytes) -> None:
    def change(root: Any) -> None:
        doctored.replaced(root, name, np.array([text] * root[name].size))

    doctored.doctor(good, tmp_path / "doctored.h5", change)
    assert not fl.verify(tmp_path / "doctored.h5", runs=1).passed


def test_a_damaged_file_is_refuted_by_its_checksums(good: Path, tmp_path: Path) -> None:
    content = bytearray(good.read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / "flipped.h5").write_bytes(content)
    found = fl.verify(tmp_path / "flipped.h5", runs=0)
    assert by_name(found)["checksums"].status == REFUTED
    (tmp_path / "cut.h5").write_bytes(content[: len(content) // 2])
    assert by_name(fl.verify(tmp_path / "cut.h5"))["checksums"].status == REFUTED


def test_runs_are_chosen_by_the_seed_and_no_more_than_asked_for(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[list[int]] = []

    def kept(loaded: Any, rows: list[int], made: Any) -> Any:
        chosen.append([*rows])
        return iter(())

    monkeypatch.setattr(remaking, "again", kept)
    for seed in (1, 1, 2):
        fl.verify(good, runs=5, seed=seed)
    assert [len(rows) for rows in chosen] == [5, 5, 5]
    assert chosen[0] == chosen[1] != chosen[2]


def test_noise_of_the_operating_system_cannot_be_confirmed(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(seed='"os"'), tmp_path / "os.h5")
    found = fl.verify(tmp_path / "os.h5", given=sweeps.DATA)
    assert by_name(found)["runs"].status == OPEN
    assert not found.passed
    assert not found.refuted


def test_data_that_are_not_there_leave_runs_open(tmp_path: Path) -> None:
    sweeps.run(sweeps.spec(), tmp_path / "given.h5")
    assert fl.verify(tmp_path / "given.h5", given=sweeps.DATA).passed
    found = fl.verify(tmp_path / "given.h5")
    assert {claim.name for claim in found.claims if claim.status == OPEN} == {"specification", "runs"}
    A, b = sweeps.matrix()
    other = fl.verify(tmp_path / "given.h5", given=sweeps.DATA | {"tiny": (A * 1.01, b)})
    assert by_name(other)["specification"].status == REFUTED


def test_a_ledger_of_samples_drawn_otherwise_is_refuted_without_data(tmp_path: Path) -> None:
    """It would find too little δ for its noise, which only data could tell."""
    method = 'name = "ISRLDP"\nstep = 0.2\nsampling = {samples = 0.5, workers = 0.4}'
    budget = 'epsilon = 4.0\ndelta = 1e-3\naccounting = "pld"'
    sweeps.run(sweeps.spec("isrl", method, rounds="5", budget=budget), tmp_path / "r.h5")
    assert by_name(fl.verify(tmp_path / "r.h5", runs=0))["ledgers"].status == CONFIRMED

    def change(root: Any) -> None:
        texts = [json.loads(text) | {"sample_rate": 0.01} for text in root["settings/ledger"][:]]
        doctored.replaced(root, "settings/ledger", np.array([json.dumps(text).encode() for text in texts]))

    doctored.doctor(tmp_path / "r.h5", tmp_path / "doctored.h5", change)
    claim = by_name(fl.verify(tmp_path / "doctored.h5", runs=0))["ledgers"]
    assert claim.status == REFUTED
    assert any("drawn otherwise" in wrong for wrong in claim.wrong)


def test_files_are_found_in_the_folder_that_is_named(tmp_path: Path) -> None:
    A, b = sweeps.matrix()
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "mine.npz", A=A, b=b)
    (tmp_path / "data" / "one.toml").write_text(sweeps.spec(data='file = "mine.npz"'), encoding="utf-8")
    fl.sweep(tmp_path / "data" / "one.toml", tmp_path / "one.h5", progress=False)
    assert not fl.verify(tmp_path / "one.h5").passed
    assert fl.verify(tmp_path / "one.h5", folder=tmp_path / "data").passed


@pytest.mark.parametrize(
    ("methods", "options"),
    [
        (("primal_dual", "fedavg", "scaffold", "fedexp", "scaffnew"), {}),
        (("accelerated", "averaged", 'name = "PrimalDual"\nclip = "adaptive"'), {}),
        (("isrl",), {"data": 'given = "thin"', "record": "every = 7\nobjective = true\nmodels = true"}),
        (("isrl",), {"problem": "test = 0.2", "budget": ""}),
        (("primal_dual",), {"problem": 'dtype = "float32"', "noise": "common = true"}),
        (("isrl",), {"budget": 'epsilon = [[2.0, 4.0, 4.0, 4.0]]\ndelta = 1e-3\naccounting = "zcdp-tight"'}),
    ],
    ids=["methods", "averages", "sparse", "without-noise", "float32", "budgets"],
)
def test_sweeps_of_all_kinds_are_confirmed(tmp_path: Path, methods: tuple[str, ...], options: dict[str, Any]) -> None:
    sweeps.run(sweeps.spec(*methods, **options), tmp_path / "one.h5")
    found = fl.verify(tmp_path / "one.h5", runs=None, given=sweeps.DATA)
    assert found.passed, found.summary()


def test_an_unfinished_sweep_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastldp.sweeping.runner.COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("fastldp.sweeping.agenda.TASK_SECONDS", 0.0)
    with sweeps.dying(monkeypatch, 1):
        sweeps.run(sweeps.spec("primal_dual", "isrl", repetitions=9), tmp_path / "part.h5")
    assert 0 < len(fl.results(tmp_path / "part.h5")) < 72
    found = fl.verify(tmp_path / "part.h5", given=sweeps.DATA)
    assert by_name(found)["specification"].status == OPEN
    assert not found.refuted


def test_a_long_run_is_made_again_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps.run(sweeps.spec(record="every = 1\nmodels = true"), tmp_path / "one.h5")
    monkeypatch.setattr("fastldp.sweeping.work.MOST_BYTES", 4000)
    found = fl.verify(tmp_path / "one.h5", runs=None, given=sweeps.DATA)
    assert found.passed, found.summary()


def test_the_optimum_may_lie_anywhere_within_its_certificate() -> None:
    A, b = sweeps.matrix()
    problem = fl.Problem(A, b, workers=4, l2=0.1)
    optimum, x = problem.optimum(), np.linspace(-1, 1, A.shape[1])
    rng = np.random.default_rng(0)

    def distance(at: Any) -> float:
        return float(np.square(x - at).sum() / np.square(at).sum())

    low, high = remaking.distance_limits(np.array([distance(optimum)]), problem, optimum)
    # Two points of this certificate are at most so far apart, as strong convexity says.
    reach = 2 * 1e-11 * (1 / 0.1 + 1 / (problem.n * problem.smoothness))
    for _ in range(100):
        way = rng.standard_normal(x.size)
        other = distance(optimum + reach * way / np.linalg.norm(way))
        assert low[0] <= other <= high[0]
    # And no further: a change in the tenth digit is none of the optimum's.
    assert (high - low)[0] < 1e-8 * distance(optimum)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("mu", [0.05, 0.5, 3.0])
def test_our_own_formula_is_the_exact_one(mu: float, epsilon: float) -> None:
    with mpmath.workdps(50):
        first = mpmath.ncdf(-mpmath.mpf(epsilon) / mu + mpmath.mpf(mu) / 2)
        exact = first - mpmath.e ** mpmath.mpf(epsilon) * mpmath.ncdf(-mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2)
    assert accounting.exact_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("accounting_of", fl.privacy.METHODS)
@pytest.mark.parametrize("without", [False, True], ids=["theirs", "ours"])
def test_either_accountant_finds_promises_kept_and_broken(
    accounting_of: str, without: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without:
        monkeypatch.setitem(sys.modules, "dp_accounting.pld.privacy_loss_mechanism", None)
    accounting.accountant.cache_clear()
    accounting._wrong.cache_clear()
    try:
        assert (accounting.accountant().name == "dp-accounting") is not without
        A, b = sweeps.matrix()
        problem, budget = fl.Problem(A, b, workers=4, l2=0.1), fl.Budget(1.0, 1e-4, accounting=accounting_of)
        ledger = fl.solve(problem, budget, rounds=20, seed=0).ledger
        assert ledger is not None
        asked = {"epsilon": 1.0, "delta": 1e-4, "accounting": accounting_of}
        assert accounting.wrong_with(ledger, asked) == []
        flat = ledger.to_dict()
        less = fl.Ledger.from_dict(flat | {"shape": flat["shape"] * 0.99})
        assert "more than the" in accounting.wrong_with(less, asked)[0]
        assert accounting.wrong_with(ledger, asked | {"epsilon": 0.99})
        assert accounting.wrong_with(ledger, asked | {"accounting": "other"})
        # With a ρ to fit them: no formula makes it of this ε.
        more = fl.Ledger.from_dict(flat | {"shape": flat["shape"] / 1.2, "promised_rho": flat["promised_rho"] * 1.2})
        assert any("is not what" in one for one in accounting.wrong_with(more, asked))
    finally:
        accounting.accountant.cache_clear()
        accounting._wrong.cache_clear()


def test_a_files_sessions_say_what_made_it(good: Path) -> None:
    found = fl.results(good)[0].provenance
    for name in (
        "fastldp",
        "kernels",
        "sources",
        "python",
        "machine",
        "processor",
        "simd",
        "threads",
        "blas",
        "started",
    ):
        assert found[name], name
    assert found["packages"].keys() >= {"numpy", "numba", "llvmlite", "scipy", "h5py", "joblib"}
    assert (found["quick"], found["synthetic"], found["specification"]) == (False, False, "spec")
    assert found["fingerprint"]


def test_a_file_has_the_statement_of_every_setting_for_plain_readers(good: Path) -> None:
    import h5py

    with h5py.File(good) as file:
        values, starts = file["settings/statement/values"][()], file["settings/statement/starts"][()]
        told = [bytes(values[a:b]).decode() for a, b in pairwise(starts)]
    found = fl.results(good)
    for run in found:
        assert run.ledger is not None
        assert told[int(run._number("setting"))] == run.ledger.statement()


def test_files_without_statements_and_with_less_said_of_their_making_are_read_and_confirmed(
    good: Path, tmp_path: Path
) -> None:
    """As they were written before."""

    def older(root: Any) -> None:
        del root["settings/statement"]
        sessions = [json.loads(text) for text in root["sessions"][()].tolist()]
        kept = ("started", "fastldp", "python", "backend", "spec", "machine")
        texts = [json.dumps({name: one[name] for name in kept}).encode() for one in sessions]
        doctored.replaced(root, "sessions", np.array(texts))

    doctored.doctor(good, tmp_path / "older.h5", older)
    assert fl.results(tmp_path / "older.h5").digest() == fl.results(good).digest()
    assert fl.verify(tmp_path / "older.h5").passed
    # And can be added to.
    report = fl.sweep(
        doctored.SWEEP.replace("repetitions = 3", "repetitions = 4"), tmp_path / "older.h5", progress=False
    )
    assert (report.found, report.completed) == (18, 6)
    assert fl.verify(tmp_path / "older.h5").passed


def test_how_parameters_were_tuned_is_kept_and_changes_no_run(tmp_path: Path) -> None:
    tuning = '[tuning]\nfile = "tuning.h5"\ndigest = "3fa8"\nrule = "least mean"\nruns = 40\nedges = ["step = 0.5"]\n'
    text = sweeps.spec()
    sweeps.run(f"{text}{tuning}", tmp_path / "one.h5")
    assert fl.results(tmp_path / "one.h5")[0].provenance["tuning"]["rule"] == "least mean"
    assert sweeps.run(text, tmp_path / "one.h5").completed == 0
    with pytest.raises(fl.errors.SpecError, match="digests"):
        sweeps.run(f"{text}{tuning.replace('digest', 'digests')}", tmp_path / "two.h5")


@pytest.mark.parametrize(
    "words", [[], ["--self", "good.h5"], ["good.h5", "--runs", "-1"], ["good.h5", "--seed", "-1"]], ids=str
)
def test_a_wrong_call_is_refused(good: Path, words: list[str]) -> None:
    assert main(["verify", *(str(good) if word == "good.h5" else word for word in words)]) == 2


def test_the_command_says_it_as_json_too(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(good), "--runs", "0", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False
    assert {claim["name"]: claim["status"] for claim in found["claims"]}["runs"] == OPEN


def test_references_are_of_all_methods_problems_and_precisions() -> None:
    expected = itself.references()
    assert {*expected["digests"]} == {case.name for case in itself.cases()}
    assert len({*expected["digests"].values()}) == len(expected["digests"])
    known = {name.split(" ")[0] for name in itself.METHODS}
    assert known == {*fl.sweeping.making.METHODS}


def test_some_references_are_computed_again() -> None:
    expected = itself.references()["digests"]
    for case in [*itself.cases()][:: 16 if "--quick" in sys.argv else 8]:
        assert itself.digest_of(itself.solved(case)) == expected[case.name], case.name


@pytest.mark.thorough
def test_this_installation_computes_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--self"]) == 0
    assert "this installation: every claim was confirmed" in capsys.readouterr().out


def test_a_wrong_reference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = itself.references()
    name = next(iter(expected["digests"]))
    other = {"digests": expected["digests"] | {name: "0"}, "network": expected["network"] | {"norm": [math.pi]}}
    monkeypatch.setattr(itself, "computed", lambda: other)
    found = itself.verify_itself()
    assert by_name(found)["float64"].wrong == (name,)
    assert by_name(found)["networks"].wrong == ("norm",)
    assert by_name(found)["float32"].status == CONFIRMED
    # There is no file of which anything could be beyond telling.
    assert "the file" not in found.summary()


@pytest.mark.thorough
@pytest.mark.parametrize("core", ["Prescott", "Haswell"])
def test_another_blas_changes_nothing_that_is_not_said(good: Path, core: str) -> None:
    """OpenBLAS takes the code of an older processor, which adds up in another order."""
    program = [sys.executable, "-m", "fastldp", "verify", str(good), "--runs", "all", "--json"]
    environment = os.environ | {"OPENBLAS_CORETYPE": core}
    answer = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(answer.stdout)
    assert found["passed"], found
