"""What a round of a federation costs, beside that of empty messages in the same runtime: federating.py [--write].

Once between processes, as `fastldp federate --demo 5` has them, and once in Flower's simulation runtime, with 5 workers
and with 100. Needs `pip install 'fastldp[flower]' 'flwr[simulation]'`. With --write the table is put into
docs/flower.md. One of the jobs alone: federating.py processes | empty | simulation | empty-simulation | many.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastldp as fl
from environment import ROOT
from fastldp.federation import Server, Terms, Worker
from fastldp.federation.demo import PROJECT, Federation, Training
from fastldp.federation.flower import SIMULATED_PAUSE, simulate
from readme import write

WORKERS, ROUNDS, SIMULATED_ROUNDS = 5, 6, 200
MANY, ROUNDS_OF_MANY = 100, 20
# Apps whose messages carry nothing, for which nothing is done; questions are asked as ours are.
SERVER = """
import json, time
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

def rounds(grid, workers, rounds, pause):
    while len(nodes := list(grid.get_node_ids())) < workers:
        time.sleep(pause)
    for t in range(rounds):
        began = time.monotonic()
        content = RecordDict({"nothing": ConfigRecord()})
        waiting = set(grid.push_messages([Message(content, node, "train") for node in nodes]))
        while waiting:
            for reply in grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
            if waiting:
                time.sleep(pause)
        yield t + 1, time.monotonic() - began

@app.main()
def main(grid, context):
    with open(PROGRESS, "a") as file:
        for t, seconds in rounds(grid, WORKERS, ROUNDS, 0.5):
            print(json.dumps({"kind": "round", "round": t, "seconds": seconds}), file=file, flush=True)
    open(RESULT, "w").close()
"""
CLIENT = """
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message, context):
    return Message(RecordDict(), reply_to=message)
"""


class Empty(Federation):
    """The same processes but for the workers', with apps that do nothing."""

    def write_project(self) -> Path:
        folder = super().write_project()
        values = {"PROGRESS": str(self.progress), "RESULT": str(self.result), "WORKERS": WORKERS, "ROUNDS": ROUNDS}
        head = "".join(f"{name} = {value!r}\n" for name, value in values.items())
        (folder / PROJECT / "server.py").write_text(head + SERVER)
        (folder / PROJECT / "client.py").write_text(CLIENT)
        return folder


def of_processes(kind: type[Federation]) -> list[float]:
    """Seconds of the rounds after the first, by which processes have started."""
    training = Training.make(WORKERS, ROUNDS, seed=0)
    with tempfile.TemporaryDirectory() as folder, kind(training, Path(folder)) as federation:
        if kind is Federation:
            for i in range(WORKERS):
                federation.start_worker(i)
        federation.run()
        return [event["seconds"] for event in federation.events() if event["kind"] == "round"][1:]


def simulated(workers: int, rounds: int) -> list[float]:
    """Seconds of the rounds of Algorithm 1 in Flower's simulation runtime, the first left out."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((100 * workers, 22)) / 5
    b = np.where(rng.random(len(A)) < 0.5, 1.0, -1.0)
    problem = fl.Problem(A, b, workers=workers, l2=0.1, row_bound=1.0, regularizer=fl.BoxL1(0.01, 10.0))
    budget = fl.Budget(1.0, 1e-4)
    terms, seconds = Terms.of(problem, budget, rounds, fl.PrimalDual()), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        made = [
            Worker(A[rows], b[rows], budget, terms, worker=i, folder=Path(folder) / str(i))
            for i, rows in enumerate(np.split(np.arange(len(A)), workers))
        ]
        server = Server(terms)
        simulate(server, made, watch=lambda event, _: seconds.append(event.seconds) if event.kind == "round" else None)
        assert server.over
        for worker in made:
            worker.close()
    return seconds[1:]


def empty_simulated() -> list[float]:
    """The same with empty messages."""
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    own: dict[str, Any] = {}
    exec(SERVER + CLIENT, own)  # the texts above; `app` is the client's
    server, seconds = ServerApp(), list[float]()

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        for _, took in own["rounds"](grid, WORKERS, SIMULATED_ROUNDS, SIMULATED_PAUSE):
            seconds.append(took)

    run_simulation(server, own["app"], num_supernodes=WORKERS)
    return seconds[1:]


JOBS: dict[str, tuple[str, Callable[[], list[float]]]] = {
    "processes": (f"{WORKERS} SuperNodes, {WORKERS} workers", lambda: of_processes(Federation)),
    "empty": (f"{WORKERS} SuperNodes, empty messages", lambda: of_processes(Empty)),
    "simulation": (f"simulation, {WORKERS} workers", lambda: simulated(WORKERS, SIMULATED_ROUNDS)),
    "empty-simulation": (f"simulation of {WORKERS}, empty messages", empty_simulated),
    "many": (f"simulation, {MANY} workers", lambda: simulated(MANY, ROUNDS_OF_MANY)),
}


def main() -> None:
    """A row for each job, each in a process of its own, or one job alone."""
    (chosen,) = [name for name in sys.argv[1:] if name in JOBS] or [""]
    if chosen:
        began = time.monotonic()
        found = JOBS[chosen][1]()
        print(json.dumps([float(np.median(found)), min(found), max(found), len(found), time.monotonic() - began]))
        return
    lines = ["| | seconds a round, median | least | most | rounds |", "|---|---|---|---|---|"]
    for name, (text, _) in JOBS.items():
        done = subprocess.run([sys.executable, __file__, name], stdout=subprocess.PIPE, check=True, text=True)
        median, least, most, count, _ = json.loads(done.stdout.splitlines()[-1])
        lines.append(f"| {text} | {median:.3g} | {least:.3g} | {most:.3g} | {count} |")
        print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        write(ROOT / "docs" / "flower.md", "costs", "\n".join(lines))


if __name__ == "__main__":
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    main()
