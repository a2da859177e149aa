"""A pytest plugin that makes every job of the suite take 30 % longer: what the gate must catch (scripts/gate.py)."""

import functools
import time
from collections.abc import Callable
from typing import Any

import measuring

FACTOR = 1.3


def slower(job: Callable[[], Any]) -> Callable[[], Any]:
    """The job, and an idle loop after it."""

    def run() -> Any:
        began = time.perf_counter()
        result = job()
        end = began + FACTOR * (time.perf_counter() - began)
        while time.perf_counter() < end:
            pass
        return result

    return run


_measure = measuring.measure


@functools.wraps(_measure)
def _measure_slower(benchmark: Any, job: Callable[[], Any], *given: Any, **info: Any) -> Any:
    return _measure(benchmark, slower(job), *given, **info)


# Benchmarks are imported after plugins, and find this one.
measuring.measure = _measure_slower
