"""Progress bars: a widget in a notebook that has widgets, a line of text anywhere else; or log lines."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from tqdm import tqdm

LOG = logging.getLogger("fastldp.sweeping")
# Log lines come no more often.
QUIET_SECONDS = 10.0
LAST_LINE = "{n_fmt} of {total_fmt} {unit}s in {elapsed}, {rate_fmt}{postfix}"
COMPILING = "compiling kernels for this machine, which are kept"

_BARS: WeakSet[tqdm[Any]] = WeakSet()
_ONE_SPEAKS = threading.Lock()


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


class _LastLine(tqdm):  # type: ignore[type-arg] # at run time it takes none
    """What a bar has to say at its end, in a line: files and pipes know no bar that moves."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if self.disable:  # it is being closed
            self.fp.write(str(self))


def bar(*, show: bool, **options: Any) -> tqdm[Any]:
    """A bar on the standard error stream, counting by thousands and millions; nothing where it is not to be shown.

    Where nobody watches it is a line, once it is closed.
    """
    suited: Any = kind()
    if not is_watched():
        suited, options = _LastLine, {"bar_format": LAST_LINE} | options
    made: tqdm[Any] = suited(unit_scale=True, disable=not show, file=sys.stderr, **options)
    _BARS.add(made)
    return made


@contextmanager
def compiling() -> Iterator[None]:
    """While kernels are compiled inside, a bar that is shown says so, and for how long; it starts when that is done."""
    shown = [bar for bar in _BARS if not bar.disable]
    if not shown or not _ONE_SPEAKS.acquire(blocking=False):
        yield
        return
    bar, began, over = shown[0], time.perf_counter(), threading.Event()

    def tell() -> None:
        if isinstance(bar, _LastLine):
            bar.fp.write(f"{COMPILING}\n")
            return
        while not over.is_set():
            bar.set_description_str(f"{COMPILING}: {time.perf_counter() - began:.0f} s")
            over.wait(1.0)

    bar.bar_format, before = "{desc}", bar.bar_format
    speaker = threading.Thread(target=tell, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        over.set()
        speaker.join()
        bar.bar_format = before
        bar.set_description_str("", refresh=False)
        if not bar.n:
            bar.reset()
        _ONE_SPEAKS.release()


class Progress:
    """Of a sweep: rounds as they are done, and runs as they are safe on the disk; in log lines where nobody watches."""

    def __init__(self, runs: int, rounds: int, *, show: bool) -> None:
        self._runs, self._rounds = runs, rounds
        self._finished = self._done = 0
        self._began = self._spoke = time.perf_counter()
        self._bar = bar(show=show and is_watched(), total=rounds, unit="round", postfix=f"0/{runs:,} runs")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def tell(self, text: str) -> None:
        """Something that happened."""
        if self._bar.disable:
            LOG.info(text)
        else:
            self._bar.write(text, file=sys.stderr)

    def advance(self, rounds: int) -> None:
        """Rounds were done."""
        self._done += rounds
        self._bar.update(rounds)

    def finished(self, runs: int) -> None:
        """Runs are on the disk."""
        self._finished += runs
        self._bar.set_postfix_str(f"{self._finished:,}/{self._runs:,} runs")
        now = time.perf_counter()
        at_end = runs and self._finished == self._runs
        if self._bar.disable and (at_end or now - self._spoke > QUIET_SECONDS):
            self._spoke = now
            speed = self._done / max(now - self._began, 1e-9)
            left = (self._rounds - self._done) / max(speed, 1e-9)
            LOG.info(
                "%s of %s runs, %.3g rounds a second, about %.0f s left",
                f"{self._finished:,}",
                f"{self._runs:,}",
                speed,
                left,
            )
