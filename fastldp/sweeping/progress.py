"""How a sweep shows that it is alive: one bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time

from fastldp import bars

LOG = logging.getLogger("fastldp.sweeping")
# Log lines come no more often.
QUIET_SECONDS = 10.0


class Progress:
    """Counts rounds as they are done, and runs as they are safe on the disk."""

    def __init__(self, runs: int, rounds: int, *, show: bool) -> None:
        self._runs, self._rounds = runs, rounds
        self._finished = self._done = 0
        self._began = self._spoke = time.perf_counter()
        self._bar = bars.bar(show=show and bars.is_watched(), total=rounds, unit="round", postfix=f"0/{runs:,} runs")

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
        if self._bar.disable and (now - self._spoke > QUIET_SECONDS or self._finished == self._runs > 0) and runs:
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
