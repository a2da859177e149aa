"""Every example in a docstring, in the README and in docs/ runs; what these pages name exists; numbers agree."""

import dataclasses
import doctest
import importlib
import pkgutil
import re
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import environment  # noqa: F401 - finds what the scripts that measure share
import fastldp
import readme
import results
import speed
from compare_bench import BASELINE
from fastldp.sweeping import keys, making
from fastldp.sweeping.toml import DATA_KEYS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
# Those whose code needs nothing but what stands before it; that of docs/extending.md is tried in test_extending.py.
PAGES = [README, *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "extending.md")]
RUNNING = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]
MODULES = ["fastldp", *(module.name for module in pkgutil.walk_packages(fastldp.__path__, "fastldp."))]


@pytest.mark.parametrize("name", [name for name in MODULES if "kernels" not in name and "__main__" not in name])
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_the_public_functions_have_examples() -> None:
    for subject in (
        fastldp.solve,
        fastldp.Problem,
        fastldp.MLP,
        fastldp.Budget,
        fastldp.PrimalDual,
        fastldp.datasets.synthetic,
        fastldp.datasets.load,
        fastldp.datasets.read_libsvm,
        fastldp.datasets.read_idx,
        fastldp.datasets.partition,
        fastldp.datasets.sample,
        fastldp.audit,
        fastldp.tune,
        fastldp.grid,
        fastldp.DPFedAvg,
        fastldp.DPScaffold,
        fastldp.LDPFedEXP,
        fastldp.DPScaffNew,
        fastldp.ISRLDP,
    ):
        assert ">>>" in (subject.__doc__ or ""), subject
    for name in ("rho_of", "epsilon_of", "delta_of", "dynamic_variances", "static_variances"):
        assert ">>>" in getattr(fastldp.privacy, name).__doc__


def found(language: str, text: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_python_of_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    for spec in found("toml", text):
        short = spec.replace("from = 500, to = 4000, by = 500", "from = 5, to = 10, by = 5")
        assert short != spec
        Path("first.toml").write_text(short.replace("repetitions = 20", "repetitions = 2"), encoding="utf-8")
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fastldp.errors.GridEdgeWarning)
        for block in found("python", text):
            exec(compile(block, page.name, "exec"), names)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def test_the_readme_is_a_first_page() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def test_numbers_of_the_readme_are_those_of_the_pages() -> None:
    """What scripts/readme.py writes into several pages is the same in all."""
    text, pages = README.read_text(encoding="utf-8"), ROOT / "docs"
    reproduction = (pages / "reproduction.md").read_text(encoding="utf-8")
    table = reproduction.partition("<!-- claims -->")[2].partition("<!-- end of claims -->")[0]
    rows = re.findall(r"^\| (?:Figure|Table) \d, .*\|$", table, re.MULTILINE)
    assert readme.tally(rows) in text
    assert f"{len(rows)} claims: {readme.tally(rows)}" in reproduction
    fold = (pages / "readings.md").read_text(encoding="utf-8").partition("<details><summary>")[2]
    told, _, others = fold.partition("<")
    # Of the tables below these have four columns.
    listed = [row for row in others.splitlines() if row.startswith("| ") and row.count(" | ") == 3][1:]
    assert told == f"{len(listed)} claims: {readme.tally(listed)}"
    rhos = [fastldp.privacy.rho_of(1.0, 1e-4, method) for method in fastldp.privacy.METHODS]
    assert f"{rhos[2] / rhos[0]:.2f} times less variance at (1, 10⁻⁴)" in text
    assert all(f"{rho:.6f}" in (pages / "promise.md").read_text(encoding="utf-8") for rho in rhos)
    planner = (pages / "planning.md").read_text(encoding="utf-8").partition("<!-- end of planner -->")[0]
    clipping = (pages / "clipping.md").read_text(encoding="utf-8")
    (halved,) = re.findall(r"planned error at T = 4,000 falls.*?a6a", clipping, re.DOTALL)
    assert all(f"| {number} ±" in planner for number in re.findall(r"0\.\d+", halved))


def test_speeds_are_those_of_the_baseline() -> None:
    baseline = results.load(BASELINE)
    assert speed.short(baseline) in README.read_text(encoding="utf-8")
    assert speed.section(baseline) in (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    text = (Path(fastldp.__file__).parent / "sweeping" / page).read_text(encoding="utf-8")
    return found(language, text)


def test_the_pages_of_sweeps_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (spec,) = blocks("SPEC.md", "toml")
    assert fastldp.sweep(spec, "sweep.h5").sound
    for example in blocks("RESULTS.md", "python"):
        exec(compile(example, "RESULTS.md", "exec"), {})
    assert "PrimalDual" in capsys.readouterr().out


def test_the_page_of_specifications_has_every_key() -> None:
    text = (Path(fastldp.__file__).parent / "sweeping" / "SPEC.md").read_text(encoding="utf-8")
    kinds = [kind.keys for kind in keys.KINDS.values()]
    tables = (keys.ROOT_KEYS[:4], DATA_KEYS, *kinds, keys.BUDGET_KEYS, keys.RECORD_KEYS, keys.METHOD_KEYS)
    parameters = {field.name for kind in making.METHODS.values() for field in dataclasses.fields(kind)}
    for key in {key for table in tables for key in table} | parameters | {*making.METHODS} | {*making.REGULARIZERS}:
        assert re.search(rf"`\"?{key}\"?`", text), key


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_of_pages_exist(page: Path) -> None:
    for script in re.findall(r"python3? ((?:scripts|bench)/\S+\.py)", page.read_text(encoding="utf-8")):
        assert (ROOT / script).is_file(), script


def test_versions_agree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").startswith(f"# Changelog\n\n## {version}")
