"""Every example in a docstring and in the README runs; every command the README shows exists."""

import dataclasses
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import fastldp
from fastldp.sweeping import making
from fastldp.sweeping import spec as specs
from fastldp.sweeping.sources import Source

README = Path(__file__).parent.parent / "README.md"
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


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
def test_readme_python_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (spec,) = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    short = spec.replace("from = 500, to = 4000, by = 500", "from = 5, to = 10, by = 5")
    assert short != spec
    Path("first.toml").write_text(short.replace("repetitions = 20", "repetitions = 2"), encoding="utf-8")
    exec(compile(block, "README.md", "exec"), {})


def blocks(page: str, language: str) -> list[str]:
    text = (Path(fastldp.__file__).parent / "sweeping" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


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
    kinds = [kind.keys for kind in specs.KINDS.values()]
    tables = (specs.ROOT_KEYS[:4], Source.KEYS, *kinds, specs.BUDGET_KEYS, specs.RECORD_KEYS)
    parameters = {field.name for kind in making.METHODS.values() for field in dataclasses.fields(kind)}
    for key in {key for table in tables for key in table} | parameters | {*making.METHODS} | {*making.REGULARIZERS}:
        assert re.search(rf"`\"?{key}\"?`", text), key


def test_readme_scripts_exist() -> None:
    scripts = re.findall(r"python3 (scripts/\S+\.py)", README.read_text(encoding="utf-8"))
    assert scripts
    for script in scripts:
        assert (README.parent / script).is_file(), script
