"""Backends: processes and clusters give the bits of threads, lose no runs with their workers, and get the data once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastldp as fl
import sweeps
from fastldp.errors import MissingExtraError
from fastldp.sweeping import backends

TESTS = Path(__file__).parent
TEXT = sweeps.spec("isrl", "scaffold", record="every = 10\nobjective = true")
NEEDS = {"dask": "distributed", "ray": "ray"}

# Each in a process of its own: clusters start threads, change signals and warn, and some must see the end of a process.
SCRIPT = """
import json, logging, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import fastldp as fl
import sweeps

def main():
    wanted = json.loads(sys.argv[2])
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("fastldp").setLevel(logging.INFO)
    report = sweeps.run(wanted["text"], Path(wanted["path"]), **wanted["options"])
    print(json.dumps(report.to_dict()))

if __name__ == "__main__":
    main()
"""


def absent(backend: str) -> bool:
    return backend in NEEDS and find_spec(NEEDS[backend]) is None


def command(path: Path, script: Path, text: str = TEXT, **options: Any) -> list[str]:
    script.write_text(SCRIPT)
    wanted = {"text": text, "path": str(path), "options": options}
    return [sys.executable, str(script), str(TESTS), json.dumps(wanted)]


def children(process: int) -> list[int]:
    """All processes that a process has started, and those that they have."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(fields[1]) == process:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def named(process: int, word: str) -> bool:
    try:
        return word.encode() in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest on threads."""
    return sweeps.digest(TEXT, tmp_path_factory.mktemp("threads") / "r.h5")


def test_one_process_is_enough(expected: str, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert sweeps.digest(TEXT, tmp_path / "r.h5", backend="loky", n_jobs=1) == expected
    # joblib runs such tasks in this process, which must go on hearing Ctrl-C.
    assert signal.getsignal(signal.SIGINT) is before


# Workers that die. What they do takes some seconds, so that they can be found at it.

LONG = sweeps.spec("isrl", "scaffold", rounds="[180_000, 240_000]", record="every = 60_000")
WORKERS = {"loky": "LokyProcess", "dask": "spawn_main", "ray": "ray::_complete"}


@contextmanager
def running(arguments: list[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        for child in [*children(process.pid), process.pid]:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.communicate()


def busy(process: int, backend: str, file: Path) -> list[int]:
    """Workers that have used two seconds, once a first leg is in the file's folder of parts: at work, not starting."""
    if not any(file.parent.glob(f"{file.name}.parts/part-*.h5")):
        return []
    found = []
    for child in children(process):
        if named(child, WORKERS[backend]):
            used = sum(map(int, Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]))
            if used > 2 * os.sysconf("SC_CLK_TCK"):
                found.append(child)
    return found


@pytest.fixture(scope="module")
def expected_of_long(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sweeps.digest(LONG, tmp_path_factory.mktemp("threads") / "r.h5")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds its victims in /proc")
@pytest.mark.parametrize("backend", ["loky", "dask", "ray"])
def test_blocks_of_a_killed_worker_are_run_again_with_the_bits_of_threads(
    backend: str, expected_of_long: str, tmp_path: Path
) -> None:
    if absent(backend):
        pytest.skip(f"{NEEDS[backend]} is not installed")
    arguments = command(tmp_path / "r.h5", tmp_path / "run.py", LONG, backend=backend, n_jobs=2, leg_seconds=1.0)
    with running(arguments) as process:
        while process.poll() is None and not (victims := busy(process.pid, backend, tmp_path / "r.h5")):
            time.sleep(0.05)
        assert process.poll() is None, process.communicate()
        os.kill(victims[0], signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["completed"] == 24
    assert fl.results(tmp_path / "r.h5").digest() == expected_of_long


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
def test_workers_of_a_killed_parent_leave(tmp_path: Path) -> None:
    arguments = command(tmp_path / "r.h5", tmp_path / "run.py", LONG, backend="loky", n_jobs=2, leg_seconds=1.0)
    with running(arguments) as process:
        while process.poll() is None and not busy(process.pid, "loky", tmp_path / "r.h5"):
            time.sleep(0.05)
        workers = [child for child in children(process.pid) if named(child, WORKERS["loky"])]
        process.kill()
        for _ in range(600):
            if not any(named(worker, WORKERS["loky"]) for worker in workers):
                return
            time.sleep(0.1)
    pytest.fail(f"{workers} are still there")


# Addresses.


@pytest.mark.skipif(absent("dask"), reason="distributed is not installed")
def test_dask_at_an_address_gets_the_data_once_a_worker(expected: str, tmp_path: Path) -> None:
    """Data that count how often they are unpickled, on a cluster that the test has started."""
    script = tmp_path / "address.py"
    script.write_text(
        f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
import distributed
import fastldp as fl
import sweeps
from fastldp.sweeping.ground import Ground

LOG = Path({str(tmp_path)!r}) / "unpickled"

def unpickled(name, subjects):
    with LOG.open("a") as file:
        file.write("once\\n")
    return Ground(name, subjects)

def main():
    Ground.__reduce__ = lambda self: (unpickled, (self.name, self.subjects))
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        sweeps.run({TEXT!r}, Path({str(tmp_path / "r.h5")!r}), backend="dask", address=cluster.scheduler_address,
                   leg_seconds=1e-9)
        with distributed.Client(cluster) as client:  # which is still there
            print(len(client.ncores()))

if __name__ == "__main__":
    main()
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"
    assert fl.results(tmp_path / "r.h5").digest() == expected
    # Many waves of tasks; a worker that has none opens nothing.
    assert len((tmp_path / "unpickled").read_text().split()) <= 2


@pytest.mark.skipif(absent("ray"), reason="ray is not installed")
def test_ray_at_an_address_gets_the_data_once_a_worker(expected: str, tmp_path: Path) -> None:
    script = tmp_path / "address.py"
    script.write_text(
        f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(TESTS)!r})
import ray
import fastldp as fl
import sweeps
from fastldp.sweeping import backends
from fastldp.sweeping.ground import Ground

LOG = Path({str(tmp_path)!r}) / "unpickled"

def unpickled(name, subjects):
    import os
    with LOG.open("a") as file:
        file.write(str(os.getpid()) + "\\n")
    return Ground(name, subjects)

def main():
    Ground.__reduce__ = lambda self: (unpickled, (self.name, self.subjects))
    context = ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    sweeps.run({TEXT!r}, Path({str(tmp_path / "r.h5")!r}), backend="ray", address=context.address_info["address"],
               leg_seconds=1e-9)
    print(ray.is_initialized())  # which is still there

if __name__ == "__main__":
    main()
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"
    assert fl.results(tmp_path / "r.h5").digest() == expected
    processes = (tmp_path / "unpickled").read_text().split()
    assert len(processes) == len(set(processes))


@pytest.mark.skipif(absent("dask"), reason="distributed is not installed")
def test_an_address_where_nobody_answers_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "nobody.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from fastldp.sweeping import backends
from fastldp.errors import BackendError
import distributed
client = distributed.Client
distributed.Client = lambda *given, **named: client(*given, **(named | {{"timeout": "1s"}}))
try:
    backends.backend_of("dask", [], None, "tcp://127.0.0.1:1")
except BackendError as error:
    print(error)
"""
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    assert "address = 'tcp://127.0.0.1:1': no Dask scheduler answers there" in done.stdout, done.stderr


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_package_that_is_not_installed_is_named(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'fastldp\[{backend}\]'"):
        backends.backend_of(backend, [], None, None)


def test_objectives_are_the_same_bits_with_one_thread_of_blas(tmp_path: Path) -> None:
    """Data large enough for NumPy's products to be shared out, in a process that may and in one that may not."""
    A, b = sweeps.matrix(3000, 40)
    np.savez(tmp_path / "large.npz", A=A, b=b)
    text = sweeps.spec(data=f'file = "{tmp_path / "large.npz"}"', rounds="5", record="every = 1\nobjective = true")
    here = sweeps.digest(text, tmp_path / "a.h5")
    assert sweeps.digest(text, tmp_path / "b.h5", backend="loky") == here
