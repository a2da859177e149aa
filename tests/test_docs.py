"""Every example in a docstring and in the README runs; every command the README shows exists."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import fastldp

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
        fastldp.ISRLDP,
    ):
        assert ">>>" in (subject.__doc__ or ""), subject
    for name in ("rho_of", "epsilon_of", "delta_of", "dynamic_variances", "static_variances"):
        assert ">>>" in getattr(fastldp.privacy, name).__doc__


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
def test_readme_python_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


def test_readme_scripts_exist() -> None:
    scripts = re.findall(r"python3 (scripts/\S+\.py)", README.read_text(encoding="utf-8"))
    assert scripts
    for script in scripts:
        assert (README.parent / script).is_file(), script
