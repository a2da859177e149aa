"""Progress bars: widgets in notebooks that have them, and never a warning."""

import sys
import types
from importlib import import_module
from typing import Any

import pytest
import tqdm

import cases
import fastldp as fl
from fastldp import bars
from fastldp.bars import Progress


def _in_a_kernel(monkeypatch: pytest.MonkeyPatch, *, widgets: bool) -> None:
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr(bars, "find_spec", lambda name: object() if widgets else None)


def test_a_notebook_with_widgets_has_a_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bars.kind() is tqdm.tqdm
    _in_a_kernel(monkeypatch, widgets=True)
    assert bars.kind() is import_module("tqdm.notebook").tqdm


@pytest.mark.thorough
def test_a_notebook_without_widgets_has_a_line_and_no_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _in_a_kernel(monkeypatch, widgets=False)
    fl.solve(cases.make("box").problem, rounds=3, progress=True)
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize("shell", [None, types.SimpleNamespace(config={}), types.SimpleNamespace()])
def test_ipython_in_a_terminal_is_no_notebook(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert bars.kind() is tqdm.tqdm


def test_a_sweep_shows_a_bar_in_a_notebook_though_it_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(2, 10, show=True) as progress:
        progress.advance(10)
    assert capsys.readouterr().err == ""
    _in_a_kernel(monkeypatch, widgets=False)
    with Progress(2, 10, show=True) as progress:
        progress.advance(10)
        progress.finished(2)
    assert "2/2 runs" in capsys.readouterr().err
