"""What all tests share: no unseeded randomness, small problems of every kind, and no pictures that stay open."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis.configuration import set_hypothesis_home_dir
from joblib.externals.loky import get_reusable_executor

import cases
from fastldp.engine import compiling

# The same examples on every run, and no folder of remembered ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, database=None, deadline=None, max_examples=60)
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("repeatable"), max_examples=20)
hypothesis.settings.load_profile("repeatable")
set_hypothesis_home_dir(tempfile.mkdtemp(prefix="fastldp-hypothesis-"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="of every test the first and the last case")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        hypothesis.settings.load_profile("quick")
    if "PYTEST_XDIST_WORKER" in os.environ:
        # As many processes as there are cores compile each for itself: none waits for another, and none has helpers.
        vars(compiling).update(available_cores=lambda: 1, PATIENCE=0.0)


@pytest.hookimpl(trylast=True)  # after others have left out what they do
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --quick a covering set: cases between the first and the last of a test differ from these by little."""
    if not config.getoption("--quick"):
        return
    cases: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("thorough") is None:
            cases.setdefault((str(item.path), getattr(item, "originalname", item.name)), []).append(item)
    ends = {item for of_test in cases.values() for item in (of_test[0], of_test[-1])}
    config.hook.pytest_deselected(items=[item for item in items if item not in ends])
    items[:] = [item for item in items if item in ends]


@pytest.fixture(autouse=True)
def _no_open_pictures() -> Iterator[None]:
    """Pictures of earlier tests are closed: matplotlib warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on Python's path, here and in processes, that has the modules of the guide to classes of one's own."""
    folder, modules = tmp_path_factory.mktemp("outside"), cases.guide_modules()
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
        # Processes that earlier tests have left know no such folder.
        get_reusable_executor().shutdown()
        yield folder
    get_reusable_executor().shutdown()
    for name in modules:
        sys.modules.pop(name, None)
