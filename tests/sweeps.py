"""Small sweeps: data, specifications, and sweeps that die."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import fastldp as fl
from fastldp.describing import described
from fastldp.reproduction import response
from fastldp.sweeping.store import Store


def needs(package: str) -> pytest.MarkDecorator:
    """For tests that are skipped where a package is not installed."""
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


# Backends that the quick tests do without.
CLUSTERS = [
    pytest.param(backend, marks=[pytest.mark.thorough, needs(package)])
    for backend, package in (("dask", "distributed"), ("ray", "ray"))
]


class Died(Exception):
    """In place of a kill, where one process must do."""


def matrix(rows: int = 60, d: int = 5) -> tuple[Any, Any]:
    """Data whose numbers are exact, so that every machine has the same."""
    i, j = np.arange(rows)[:, None], np.arange(d)
    A = ((7 * i + 3 * i * j + j * j) % 11 - 5) / 8
    return A, np.where((3 * i[:, 0] + i[:, 0] // 4) % 5 > 2, 1.0, -1.0)


def thinned() -> tuple[Any, Any]:
    A, b = matrix()
    return sparse.csr_array(np.where(np.abs(A) > 0.3, A, 0.0)), b


def remember_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where runs end without noise is computed once: they are few, and a reproduction keeps them nowhere."""
    right, ends = response._without_noise, dict[Any, Any]()

    def remembered(problem: Any, method: Any, schedule: Any, subject: Any, rounds: int) -> Any:
        about = repr((problem, problem.gradient_bound, described(method), schedule.step, subject.start, rounds))
        if about not in ends:
            ends[about] = right(problem, method, schedule, subject, rounds)
        return ends[about]

    monkeypatch.setattr(response, "_without_noise", remembered)


DATA = {"tiny": matrix(), "thin": thinned()}

METHODS = {
    "primal_dual": 'name = "PrimalDual"\nallocation = ["dynamic", "static"]',
    "fedavg": 'name = "DPFedAvg"\nstep = [0.1, 0.2]\nlocal_steps = 3',
    "scaffold": 'name = "DPScaffold"\nstep = 0.1\nlocal_steps = 2\nwarm_start = [false, true]',
    "fedexp": 'name = "LDPFedEXP"\nstep = [0.1, 0.2]\nlocal_steps = 2',
    "scaffnew": 'name = "DPScaffNew"\nstep = 0.3\nprobability = [0.2, 0.7]',
    "isrl": 'name = "ISRLDP"\nstep = [0.1, 0.3]',
    "accelerated": 'name = "ISRLDP"\nstep = 0.1\naccelerated = true',
    "averaged": 'name = "ISRLDP"\nstep = 0.2\ntail_average = 20',
}


def spec(
    *methods: str,
    rounds: str = "[30, 50]",
    repetitions: int = 3,
    seed: str = "3",
    data: str = 'given = "tiny"',
    problem: str = "",
    budget: str = "epsilon = 4.0\ndelta = 1e-3",
    record: str = "every = 7",
    noise: str = "",
) -> str:
    """A specification of some of METHODS, or of methods written out."""
    head = f"rounds = {rounds}\nrepetitions = {repetitions}\nseed = {seed}\n"
    tables = f"[data]\n{data}\n[problem]\nworkers = 4\nl2 = 0.1\n{problem}\n[record]\n{record}\n"
    if noise:
        tables += f"[noise]\n{noise}\n"
    if budget:
        tables += f"[budget]\n{budget}\n"
    return head + tables + "".join(f"[[method]]\n{METHODS.get(name, name)}\n" for name in methods or ("isrl",))


def run(text: str, path: Path, **options: Any) -> fl.sweeping.Report:
    chosen: dict[str, Any] = {"given": DATA, "n_jobs": 2} | options
    return fl.sweep(text, path, **chosen)


def digest(text: str, path: Path, **options: Any) -> str:
    run(text, path, **options)
    return fl.results(path).digest()


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, commits: int) -> Iterator[None]:
    """Inside of it a sweep dies once it has written so many parts."""
    commit, left = Store.commit, commits

    def counted(self: Store, *given: Any) -> None:
        nonlocal left
        if left == 0:
            raise Died
        left -= 1
        commit(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", counted)
        try:
            yield
        except Died:
            return
    pytest.fail("it lived")
