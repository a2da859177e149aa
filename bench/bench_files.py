"""Files: LIBSVM text read, the results of solves and sweeps written and read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import fastldp as fl
import jobs
from fastldp.sweeping.store import Store
from measuring import Reference, Work, measure

ROWS, FEATURES, NONZEROS = 20_000, 123, 14
SPEC = """
rounds = 200
repetitions = 20
[data]
synthetic = "ijcnn1"
[problem]
workers = 20
l2 = 0.1
[budget]
epsilon = 1.0
delta = 1e-4
[[method]]
name = "PrimalDual"
step = {from = 0.01, to = 0.25, count = 10}
[record]
every = 10
"""


def bench_read_libsvm(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Against NumPy reading the same numbers, which knows nothing of labels, order and errors."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((ROWS, NONZEROS)).round(6)
    columns = np.sort(rng.random((ROWS, FEATURES)).argpartition(NONZEROS, axis=1)[:, :NONZEROS], axis=1) + 1
    lines = (
        "+1 " + " ".join(f"{j}:{v}" for j, v in zip(*row, strict=True))
        for row in zip(columns.tolist(), values.tolist(), strict=True)
    )
    path = tmp_path / "rows.svm"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    size = path.stat().st_size

    def with_numpy() -> Any:
        return np.fromstring(path.read_text(encoding="ascii").replace(":", " "), sep=" ")

    measure(
        benchmark,
        lambda: fl.datasets.read_libsvm(path),
        Reference("numpy", with_numpy, size),
        Work(size, bytes=1),
        lambda read: float(np.abs(read.A.data - values.ravel()).max()),
        at_most=0.0,
    )


def bench_save_and_load_a_solution(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Twenty runs with two hundred records each, against NumPy saving the same arrays."""
    given = jobs.case(jobs.FIRST)
    solution = fl.solve(given.problem, jobs.BUDGET, rounds=200, repetitions=20, seed=0, record=fl.Every(1))
    path, plain = tmp_path / "solution.npz", tmp_path / "plain.npz"

    def job() -> fl.Solution:
        solution.save(path)
        return fl.load(path)

    def with_numpy() -> None:
        np.savez(plain, workers=solution.workers, means=solution.means, distance=solution.distance)
        with np.load(plain) as arrays:
            for name in arrays.files:
                _ = arrays[name]

    size = solution.workers.nbytes + solution.means.nbytes
    measure(
        benchmark,
        job,
        Reference("numpy", with_numpy, size),
        Work(size, bytes=2),
        lambda loaded: float(np.abs(loaded.optimality - solution.optimality).max()),
        at_most=0.0,
        rounds=200,
        runs=20,
    )


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Any]]:
    """The file of a sweep, and what was written to it."""
    commits: list[Any] = []
    commit = Store.commit

    def kept(self: Store, legs: Any, settings: Any) -> None:
        commits.append((legs, settings))
        commit(self, legs, settings)

    monkeypatch.setattr(Store, "commit", kept)
    fl.sweep(SPEC, tmp_path / "swept.h5")
    monkeypatch.undo()
    return tmp_path / "swept.h5", commits


def bench_write_results(benchmark: BenchmarkFixture, swept: tuple[Path, list[Any]], tmp_path: Path) -> None:
    """Two hundred runs to the result file, safe on the disk; what it holds is what the sweep wrote."""
    path, commits = swept
    size, numbers = path.stat().st_size, iter(range(10_000))

    def job() -> Path:
        target = tmp_path / f"{next(numbers)}.h5"
        with Store(target, session={}) as store:
            for legs, settings in commits:
                store.commit(legs, settings)
            store.fold()
        return target

    measure(
        benchmark, job, jobs.yardstick(), Work(size, bytes=1), lambda target: _errors_apart(target, path), at_most=0.0
    )


def bench_read_results(benchmark: BenchmarkFixture, swept: tuple[Path, list[Any]]) -> None:
    path, _ = swept
    size = path.stat().st_size
    measure(
        benchmark,
        lambda: fl.results(path).table()["optimality"],
        jobs.yardstick(),
        Work(size, bytes=1),
        lambda errors: float(np.mean(errors)),
        at_most=jobs.LARGEST_ERROR,
    )


def _errors_apart(a: Path, b: Path) -> float:
    of_a, of_b = (fl.results(path).table()["optimality"] for path in (a, b))
    return float(np.abs(of_a - of_b).max())
