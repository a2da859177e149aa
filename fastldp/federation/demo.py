"""A federation on this machine: a SuperLink, and for each worker a SuperNode and a process with its own shard."""

from __future__ import annotations

import hashlib
import json
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp import datasets
from fastldp.errors import FederationError
from fastldp.federation.flower import require_flower, write_app
from fastldp.federation.folder import Folder
from fastldp.federation.processes import Crew, environment_with, free_ports
from fastldp.federation.relay import NOTE
from fastldp.federation.serving import serve
from fastldp.federation.terms import Terms, common_key
from fastldp.federation.worker import Worker
from fastldp.methods import DPScaffold
from fastldp.privacy import Budget
from fastldp.problems.linear import Problem
from fastldp.solution import Solution
from fastldp.solve import solve

Array = NDArray[np.float64]

# Many local steps a round: each round costs what messages cost, however much is computed in it.
LOCAL_STEPS, STEP, L2, DELTA = 50, 0.04, 0.1, 1e-5
# Shards and budgets of workers, in turn; unequal, as they are.
ROWS, EPSILONS = (6000, 5000, 4000, 3000, 2000), (1.0, 1.0, 2.0, 2.0, 4.0)
# Seconds between two looks for events, and of Flower's for messages, which is one second by default.
LOOK, TASKS = 0.1, "0.5"
PROJECT = "training"
WORK = "from fastldp.federation.demo import work; work({folder!r})"


class Training(NamedTuple):
    """What the demo trains: generated data, and what all agree on."""

    problem: Problem
    terms: Terms
    seed: int

    @classmethod
    def make(cls, workers: int, rounds: int, seed: int) -> Training:
        sizes = [ROWS[i % len(ROWS)] for i in range(workers)]
        data = datasets.synthetic("ijcnn1", rows=sum(sizes), seed=seed)
        owners = np.repeat(np.arange(workers), sizes)
        problem = Problem(data.A, data.b, workers=owners, l2=L2, row_bound=1.0, gradient_bound="half", weighting="rows")
        budget = Budget(np.array([EPSILONS[i % len(EPSILONS)] for i in range(workers)]), DELTA, "gdp")
        return cls(problem, Terms.of(problem, budget, rounds, DPScaffold(STEP, LOCAL_STEPS), name="demo"), seed)

    def simulated(self) -> Solution:
        """The same training by `solve`, with the same keys."""
        terms, every = self.terms, [*range(1, self.terms.horizon + 1)]
        return solve(
            self.problem,
            terms.budget,
            rounds=terms.horizon,
            algorithm=terms.method,
            seed=self.seed,
            common_noise=True,
            record=every,
        )

    def budget(self, worker: int) -> Budget:
        """What a worker is promised for life: what this training spends."""
        budget = self.terms.budget
        return Budget(float(np.broadcast_to(budget.epsilon, self.terms.n)[worker]), budget.delta, budget.accounting)

    def write(self, folder: Path, worker: int) -> None:
        """What a worker's process finds: its rows, its budget, and the seed of the noise, which only a demo has."""
        mine = slice(self.problem.starts[worker], self.problem.starts[worker + 1])
        folder.mkdir(mode=0o700)
        A = self.problem.rows[mine]
        A = A.toarray() if hasattr(A, "toarray") else A
        np.savez(folder / "shard.npz", A=A, b=-np.ones(len(A)))
        budget = self.budget(worker)
        given = [worker, self.seed, budget.epsilon, budget.delta, budget.accounting]
        (folder / "given.json").write_text(json.dumps(given))
        (folder / "terms.json").write_text(self.terms.to_json())


def work(folder: str) -> None:
    """A worker's process: it answers until it is told to end."""
    home = Path(folder)
    number, seed, *budget = json.loads((home / "given.json").read_text())
    terms = Terms.from_json((home / "terms.json").read_text())
    with np.load(home / "shard.npz") as shard:
        A, b = shard["A"], shard["b"]
    with Worker(A, b, Budget(*budget), terms, worker=number, folder=home / "journal", key=common_key(seed)) as worker:
        serve(worker)


class Federation:
    """The processes of a training, from a `with` to its end: nothing of them is left afterwards."""

    def __init__(self, training: Training, folder: Path, **config: str | float) -> None:
        require_flower()
        self.training, self.folder = training, folder
        self.progress, self.result = folder / "progress.jsonl", folder / "result.npz"
        self._config = config
        self._seen = 0

    def __enter__(self) -> Federation:
        with ExitStack() as stack:
            self._crew = stack.enter_context(Crew(self.folder))
            self._prepare()
            self._start_flower()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def start_worker(self, number: int) -> None:
        """Start a worker's process; it goes on from its journal."""
        home = str(self._home(number))
        command = [sys.executable, "-c", WORK.format(folder=home)]
        # As many as there are cores at least: each takes one.
        self._crew.start(f"worker{number}", command, {**self._environment, "NUMBA_NUM_THREADS": "1"})

    def kill_worker(self, number: int) -> None:
        """Kill it, as a machine that loses its power would."""
        self._crew.kill(f"worker{number}")

    def run(self) -> None:
        """Give the training to the SuperLink."""
        command = [str(self._programs / "flwr"), "run", str(self.folder / PROJECT), PROJECT, "--stream"]
        self._crew.start("run", command, self._environment)

    def events(self) -> Iterator[dict[str, Any]]:
        """What the ServerApp reports, as it happens, until the result is there."""
        waited = 0
        while True:
            yield from self._reported()
            if self.result.exists():
                yield from self._reported()
                return
            self._crew.check("run")
            if self._crew.ended("run") is not None:
                waited += 1
                if waited * LOOK > 5.0:  # the last lines may come after it
                    raise FederationError(f"Flower's run ended without a result; {self._crew.last_words('run')}")
            time.sleep(LOOK)

    def ready(self, number: int) -> bool:
        """Whether a worker's process can be asked."""
        return (self._home(number) / "journal" / NOTE).exists()

    def journal(self, number: int) -> Folder:
        """What a worker has on its disk."""
        return Folder(self._home(number) / "journal")

    def model(self) -> Array:
        """The result."""
        with np.load(self.result) as found:
            return np.asarray(found["x"])

    def write_project(self) -> Path:
        """What the SuperLink is given to run."""
        files = {"state": self.folder / "state", "result": self.result, "progress": self.progress}
        given = {name: str(path) for name, path in files.items()}
        return write_app(self.folder / PROJECT, self.training.terms, **given, **self._config)

    def _home(self, number: int) -> Path:
        return self.folder / f"worker{number}"

    def _reported(self) -> Iterator[dict[str, Any]]:
        with suppress(FileNotFoundError):
            lines = self.progress.read_text(encoding="utf-8").split("\n")[:-1]
            for line in lines[self._seen :]:
                self._seen += 1
                event = json.loads(line)
                if event["kind"] == "failed":
                    raise FederationError(event["text"])
                yield event

    def _prepare(self) -> None:
        """All files, and the environment of all processes."""
        training, n = self.training, self.training.terms.n
        for i in range(n):
            training.write(self._home(i), i)
        self.write_project()
        self._programs = self.folder / "programs"
        _write_programs(self._programs)
        self._link, *self._ports = free_ports(n + 1)
        home = self.folder / "flower"
        home.mkdir()
        address = f'[superlink.{PROJECT}]\naddress = "127.0.0.1:{self._link}"\ninsecure = true\n'
        (home / "config.toml").write_text(f'[superlink]\ndefault = "{PROJECT}"\n{address}')
        self._environment = environment_with(
            self._programs,
            FLWR_HOME=str(home),
            FLWR_TELEMETRY_ENABLED="0",
            FLWR_DISABLE_UPDATE_CHECK="1",
            FLWR_SUPEREXEC_TASK_POLL_INTERVAL=TASKS,
            NO_PROXY="127.0.0.1",
            no_proxy="127.0.0.1",
        )

    def _start_flower(self) -> None:
        common = ["--insecure", "--port"]
        link = [str(self._programs / "flower-superlink"), *common, str(self._link)]
        self._crew.start("superlink", [*link, "--disable-runtime-dependency-installation"], self._environment)
        while not _listens(self._link):
            self._crew.check()
            time.sleep(LOOK)
        for i, port in enumerate(self._ports):
            node = [str(self._programs / "flower-supernode"), *common, str(port)]
            node += ["--superlink", f"127.0.0.1:{self._link}"]
            node += ["--node-config", f'folder="{self._home(i) / "journal"}"']
            self._crew.start(f"supernode{i}", node, self._environment)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


def _write_programs(folder: Path) -> None:
    """Flower's programs for this Python: they call each other by name, and no environment need be activated."""
    folder.mkdir()
    for entry in distribution("flwr").entry_points:
        if entry.group == "console_scripts":
            source = f"import sys; from {entry.module} import {entry.attr}; sys.exit({entry.attr}())"
            path = folder / entry.name
            path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(source)} "$@"\n')
            path.chmod(0o700)


def demonstrate(workers: int, rounds: int, seed: int, say: Callable[[str], None]) -> bool:
    """Run the demo and say what happens; whether the model has the bits of the simulation."""
    require_flower()
    began = time.monotonic()
    training = Training.make(workers, rounds, seed)
    terms = training.terms
    say(
        f"{workers} workers, {int(terms.sizes.sum()):,} rows, d = {terms.dimension}: "
        f"{type(terms.method).__name__}, {rounds} rounds of {LOCAL_STEPS} local steps"
    )
    with tempfile.TemporaryDirectory(prefix="fastldp-federation-", ignore_cleanup_errors=True) as scratch:
        say(f"files and logs, while it runs: {scratch}")
        with Federation(training, Path(scratch)) as federation:
            # Compiles what all the others then find in the cache.
            expected = training.simulated()
            for i in range(workers):
                federation.start_worker(i)
            federation.run()
            _say_rounds(federation, training, began, say)
            found = federation.model()
            say("")
            _say_workers(federation, training, say)
    same = np.array_equal(found, expected.x[0])
    say("")
    for name, x in (("federation", found), ("fl.solve", expected.x[0])):
        say(f"{name:<12} x = {np.array2string(x[:3], precision=17)[:-1]} ...]  sha256 {_digest(x)}")
    say(f"the same bits: {'yes' if same else 'NO'}; {time.monotonic() - began:.0f} s in all")
    say("The noise has a seed here, so that both can be compared: a deployment gives none, and has keys of its own.")
    return same


def _say_rounds(federation: Federation, training: Training, began: float, say: Callable[[str], None]) -> None:
    optimum = training.problem.optimum()
    joined = 0
    for event in federation.events():
        if event["kind"] == "joined":
            joined += 1
            if joined == training.terms.n:
                say(f"all processes there after {time.monotonic() - began:.0f} s\n")
                say(f"{'round':>5} {'error':>10} {'seconds':>8}  answers")
        elif event["kind"] == "round":
            apart = np.array(event["x"]) - optimum
            error = float(apart @ apart / (optimum @ optimum))
            say(f"{event['round']:>5} {error:>10.4g} {event['seconds']:>8.1f}  {event['text']}")
        else:
            say(f"{event['round']:>5} {event['kind']}: worker {event['worker']}: {event['text']}")


def _say_workers(federation: Federation, training: Training, say: Callable[[str], None]) -> None:
    """What is in the workers' folders."""
    from fastldp.federation.account import epsilon_spent

    terms = training.terms
    say(f"{'worker':>6} {'rows':>7} {'answers':>8} {'releases':>9} {'ε promised':>11} {'ε spent':>9}")
    for i in range(terms.n):
        (journal,) = federation.journal(i).journals()
        budget, releases = training.budget(i), journal.answers * LOCAL_STEPS
        spent = epsilon_spent(budget, journal.spent)
        row = f"{i:>6} {int(terms.sizes[i]):>7,} {journal.answers:>8} {releases:>9}"
        say(f"{row} {budget.epsilon:>11g} {spent:>9.6f}")


def _digest(x: Array) -> str:
    return hashlib.sha256(x.tobytes()).hexdigest()[:16]
