"""Progress bars: a widget in a notebook that has widgets, a line of text anywhere else."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tqdm import tqdm


def in_notebook() -> bool:
    """Whether a kernel of a notebook runs this."""
    # A notebook has loaded IPython long before; elsewhere it is not loaded for this question.
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def is_watched() -> bool:
    """Whether somebody looks: at a terminal, or at a notebook."""
    return sys.stderr.isatty() or in_notebook()


def kind() -> type[tqdm[Any]]:
    """The class of bars that suits where this runs; never one that warns of widgets that are missing."""
    if in_notebook() and find_spec("ipywidgets") is not None:
        found: type[tqdm[Any]] = import_module("tqdm.notebook").tqdm
        return found
    return tqdm


def bar(*, show: bool, **options: Any) -> tqdm[Any]:
    """A bar on the standard error stream, counting by thousands and millions; nothing where it is not to be shown."""
    return kind()(unit_scale=True, disable=not show, file=sys.stderr, **options)
