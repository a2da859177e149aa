"""What a process may use: its cores; and after a fork not Numba's OpenMP threads, for it would be killed."""

from __future__ import annotations

import os

import numba

from fastldp.kernels import jit

# Layers whose threads a child can start anew are not among them.
NOT_AFTER_A_FORK = ("omp",)

_inherited = False


def available_cores() -> int:
    """The cores this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, int(jit.config.NUMBA_NUM_THREADS)))


def parallel_kernels_run() -> bool:
    """Whether this process can run parallel kernels; where it cannot, the serial ones have the same bits.

    Linux has GNU's OpenMP, Numba's default layer there. A child forked by a process that has used it is terminated at
    its own first parallel kernel ("fork() called from a process already using GNU OpenMP, this is unsafe"): also where
    it was not fastldp that used it, and in the children of multiprocessing's start method "fork". So such a child runs
    each block of runs on one thread, without a word, for the numbers are the same; several blocks still take a thread
    each. To have parallel kernels there, use the start method "spawn" or "forkserver", or the threading layer
    "workqueue" or "tbb" (the environment variable NUMBA_THREADING_LAYER).
    """
    return not _inherited


def _after_fork_in_child() -> None:
    global _inherited
    try:
        _inherited = numba.threading_layer() in NOT_AFTER_A_FORK  # type: ignore[attr-defined]
    except ValueError:  # no parallel kernel has run yet: the child may start threads of its own
        _inherited = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
