"""BLAS on one thread while ours are at work: its own would compete with them, and its sums might depend on how many."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from threadpoolctl import ThreadpoolController

_LOCK = threading.Lock()
_inside: list[Any] = []
"""The limit in force, once for each caller that is inside."""


@cache
def _controller() -> Any:
    # The library that compiled kernels call, which must be loaded to be found.
    import_module("scipy.linalg.cython_blas")
    return ThreadpoolController().select(user_api="blas")


def libraries() -> list[dict[str, Any]]:
    """Name, version and kind of what there is of it."""
    found: list[dict[str, Any]] = _controller().info()
    return found


def _take_control() -> None:
    """Let this thread set limits: newer threadpoolctl heeds the first thread that did and no other, without a word."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


def _limit() -> Any:
    _take_control()
    return _controller().limit(limits=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """One BLAS thread a caller inside the with; as many as before once all callers have left."""
    with _LOCK:
        _inside.append(_inside[0] if _inside else _limit())
    try:
        yield
    finally:
        with _LOCK:
            limit = _inside.pop()
            if not _inside:
                _take_control()
                limit.restore_original_limits()
