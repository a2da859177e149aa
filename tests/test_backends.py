"""Backends: processes and clusters give the bits of threads, lose no runs with their workers, and get the data once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases
import fastldp as fl
import sweeps
from fastldp.errors import MissingExtraError
from fastldp.sweeping import backends

TESTS = Path(__file__).parent
TEXT = sweeps.spec("isrl", "scaffold", record="every = 10\nobjective = true")

# Each in a process of its own: clusters start threads, change signals and warn, and some must see the end of a process.
SCRIPT = """
import json, logging, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import fastldp as fl
import sweeps
from fastldp.sweeping.store import Store

def wait_once_written(commit):
    def wait(self, *given):
        commit(self, *given)
        print("written", flush=True)
        sys.stdin.readline()
    return wait

def main():
    wanted = json.loads(sys.argv[2])
    if wanted["waits"]:
        Store.commit = wait_once_written(Store.commit)
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("fastldp").setLevel(logging.INFO)
    report = sweeps.run(wanted["text"], Path(wanted["path"]), **wanted["options"])
    print(json.dumps(report.to_dict()))

if __name__ == "__main__":
    main()
"""


def command(path: Path, script: Path, text: str = TEXT, *, waits: bool = False, **options: Any) -> list[str]:
    """A sweep in a process of its own; one that waits does so after each part, until it gets a line."""
    script.write_text(SCRIPT)
    wanted = {"text": text, "path": str(path), "waits": waits, "options": options}
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


def named(process: int, words: tuple[str, ...]) -> bool:
    try:
        return any(word.encode() in Path(f"/proc/{process}/cmdline").read_bytes() for word in words)
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


# Workers that die, while the command that wants something of them waits after its first part.

LONG = sweeps.spec("isrl", "scaffold", rounds="[18_000, 24_000]", record="every = 6_000")
WORKERS = {"loky": ("LokyProcess",), "dask": ("spawn_main",), "ray": ("ray::_complete", "ray::IDLE")}


@contextmanager
def running(arguments: list[str], backend: str) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """A command that has written its first part, and its workers."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stdout is not None
        while (line := process.stdout.readline()) != "written\n":
            assert line, process.communicate()[1]
        yield process, [child for child in children(process.pid) if named(child, WORKERS[backend])]
    finally:
        for child in [*children(process.pid), process.pid]:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.communicate()


@pytest.fixture(scope="module")
def expected_of_long(tmp_path_factory: pytest.TempPathFactory) -> str:
    return sweeps.digest(LONG, tmp_path_factory.mktemp("threads") / "r.h5")


def waiting(tmp_path: Path, backend: str) -> list[str]:
    options = {"backend": backend, "n_jobs": 2, "leg_seconds": 1e-9}
    return command(tmp_path / "r.h5", tmp_path / "run.py", LONG, waits=True, **options)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds its victims in /proc")
@pytest.mark.parametrize("backend", ["loky", *sweeps.CLUSTERS])
def test_blocks_of_a_killed_worker_are_run_again_with_the_bits_of_threads(
    backend: str, expected_of_long: str, tmp_path: Path
) -> None:
    with running(waiting(tmp_path, backend), backend) as (process, workers):
        os.kill(workers[0], signal.SIGKILL)
        out, err = process.communicate("\n" * 10_000)
    assert process.returncode == 0, err
    assert json.loads(out.splitlines()[-1])["completed"] == 24
    assert fl.results(tmp_path / "r.h5").digest() == expected_of_long


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")
def test_workers_of_a_killed_parent_leave(tmp_path: Path) -> None:
    with running(waiting(tmp_path, "loky"), "loky") as (process, workers):
        assert workers
        process.kill()
        while any(named(worker, WORKERS["loky"]) for worker in workers):
            os.sched_yield()


# Addresses.


@pytest.mark.thorough
@sweeps.needs("distributed")
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
from fastldp.sweeping.setting import Ground

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
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=cases.HANGING)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"
    assert fl.results(tmp_path / "r.h5").digest() == expected
    # Many waves of tasks; a worker that has none opens nothing.
    assert len((tmp_path / "unpickled").read_text().split()) <= 2


@pytest.mark.thorough
@sweeps.needs("ray")
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
from fastldp.sweeping.setting import Ground

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
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=cases.HANGING)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"
    assert fl.results(tmp_path / "r.h5").digest() == expected
    processes = (tmp_path / "unpickled").read_text().split()
    assert len(processes) == len(set(processes))


@pytest.mark.thorough
@sweeps.needs("distributed")
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
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=cases.HANGING)
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
