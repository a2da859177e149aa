"""Federations over Flower: a ServerApp for a `Server`, a ClientApp for a `Worker`, a project of both, a simulation."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fastldp import disk
from fastldp.errors import ArgumentError, MissingExtraError
from fastldp.federation import relay
from fastldp.federation.conducting import PAUSE, WAIT, Conductor, Event, Reply, check_policy
from fastldp.federation.relay import ABSENT, RECORD, client_app
from fastldp.federation.server import Server
from fastldp.federation.serving import Host, serve
from fastldp.federation.terms import Terms
from fastldp.federation.worker import Worker

__all__ = ["client_app", "serve", "server_app", "simulate", "write_app"]

log = logging.getLogger("fastldp")

# Between two looks at a simulation's replies, whose nodes are threads and not machines.
SIMULATED_PAUSE = 0.002
# The files of a project.
TERMS = "terms.json"
PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "1.0.0"
description = "A federation of fastldp: the terms of one training"
license = "MIT"
dependencies = ["flwr>=1.26"]

[tool.flwr.app]
publisher = "fastldp"

[tool.flwr.app.components]
serverapp = "{name}.server:app"
clientapp = "{name}.client:app"

# Of the server: where its state is kept and its result goes to, and how long it waits for whom.
[tool.flwr.app.config]
state = ""
result = ""
progress = ""
absent = "wait"
patience = 0.0
least = 1
"""
SERVER = '''\
"""The ServerApp, on the terms beside it."""

from pathlib import Path

from fastldp.federation import Terms
from fastldp.federation.flower import server_app

app = server_app(Terms.from_json(Path(__file__).with_name("{terms}").read_text(encoding="utf-8")))
'''
CLIENT = '''\
"""The ClientApp; Flower starts a process for every message, so it imports no more than it must."""

from {name}.relay import client_app

app = client_app()
'''


def require_flower(simulation: bool = False) -> None:
    """Say what to install, where Flower is not."""
    if find_spec("flwr") is None:
        raise MissingExtraError("flwr", "flower")
    if simulation and find_spec("ray") is None:
        raise MissingExtraError("ray", "flower,ray", "Flower's simulations run on it")


def server_app(
    server: Terms | Server,
    *,
    absent: str = WAIT,
    patience: float | None = None,
    least: int = 1,
    admitted: Mapping[int, int] | None = None,
    watch: Callable[[Event, Server], None] | None = None,
    pause: float = PAUSE,
) -> Any:
    """Flower's ServerApp of one training.

    The run's configuration has the last word: its ``state`` (a file that the training goes on from), ``result`` (an
    .npz file for the model), ``progress`` (a file with a line of JSON for each event), ``absent``, ``patience`` and
    ``least`` stand in for what is given here.

    Parameters
    ----------
    server : Terms or Server
        What all agreed on, or a server that is there already.
    absent : str
        What becomes of a round in which a worker does not answer: ``"wait"`` for it as long as it takes, or after
        `patience` go on without it, ``"skip"``: its last answer stands in for it.
    patience : float, optional
        The deadline of a round, in seconds. Where all are waited for, a question that old is asked again.
    least : int
        With fewer answers than this no round goes on.
    admitted : mapping of int to int, optional
        The worker of each node, by the numbers that ``flwr supernode register`` gives. By default the first node that
        says that it is a worker is believed.
    watch : callable, optional
        Is given every `Event` and the server.
    pause : float
        Seconds between two looks for answers.

    Returns
    -------
    ServerApp
        What ``[tool.flwr.app.components]`` names as ``serverapp``.
    """
    require_flower()
    check_policy(absent, patience)
    app = import_module("flwr.serverapp").ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        given = {name: value for name, value in context.run_config.items() if value not in ("", 0.0)}
        own = server
        if isinstance(own, Terms):
            own = Server(own, path=given.get("state"))
        with Progress(own, given.get("progress"), watch) as progress:
            Conductor(
                own,
                FlowerNetwork(grid),
                absent=given.get("absent", absent),
                patience=given.get("patience", patience),
                least=given.get("least", least),
                admitted=admitted,
                watch=progress,
                pause=pause,
            ).run()
        if "result" in given:
            save_result(own, given["result"])

    return app


def simulate(
    server: Server,
    workers: Sequence[Worker],
    *,
    absent: str = WAIT,
    patience: float | None = None,
    least: int = 1,
    watch: Callable[[Event, Server], None] | None = None,
    cpus: float = 1.0,
) -> None:
    """A training in Flower's simulation runtime: the same apps and messages, with all workers on this machine.

    Parameters
    ----------
    server : Server
        It has the model afterwards.
    workers : sequence of Worker
        All of them; they answer in this process, for Ray's processes, which carry the messages.
    absent, patience, least, watch
        As of `server_app`.
    cpus : float
        Of this machine's, for each message under way.
    """
    require_flower(simulation=True)
    numbers = sorted(worker.number for worker in workers)
    if numbers != [*range(server.terms.n)]:
        raise ArgumentError("workers", numbers, f"give the workers 0 to {server.terms.n - 1}, each once")
    # Neither Flower nor Ray should tell its makers of a simulation.
    for name in ("FLWR_TELEMETRY_ENABLED", "RAY_USAGE_STATS_ENABLED"):
        os.environ.setdefault(name, "0")
    failed: list[BaseException] = []
    inner = server_app(server, absent=absent, patience=patience, least=least, watch=watch, pause=SIMULATED_PAUSE)
    outer = import_module("flwr.serverapp").ServerApp()

    @outer.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        try:
            inner(grid, context)
        except BaseException as error:  # Flower ends with an exit of its own: it is raised again below
            failed.append(error)

    with Host(*workers):
        folders = [str(worker.folder) for worker in sorted(workers, key=lambda one: one.number)]
        import_module("flwr.simulation").run_simulation(
            outer,
            client_app(folders),
            num_supernodes=len(workers),
            backend_config={"client_resources": {"num_cpus": cpus, "num_gpus": 0.0}},
        )
    if failed:
        raise failed[0]


def write_app(folder: str | os.PathLike[str], terms: Terms, **config: str | float) -> Path:
    """Write a project that ``flwr run`` takes: both apps on some terms, which stand beside them.

    Parameters
    ----------
    folder : path
        Where to; its name is the project's.
    terms : Terms
        What all agreed on.
    **config
        Of the run's configuration, as `server_app` reads it: ``state``, ``result``, ``progress``, ``absent``,
        ``patience``, ``least``.

    Returns
    -------
    Path
        The folder.
    """
    folder = Path(os.path.abspath(folder))
    name = folder.name
    if not name.isidentifier():
        raise ArgumentError("folder", os.fspath(folder), "give it a name that is one of a Python package")
    lines = PROJECT.format(name=name)
    for key, value in config.items():
        found = [line for line in lines.splitlines() if line.startswith(f"{key} = ")]
        if not found:
            raise ArgumentError("config", key, "give state, result, progress, absent, patience or least")
        lines = lines.replace(found[0], f"{key} = {json.dumps(value)}")
    disk.make_folder(folder / name)
    for path, text in {
        folder / "pyproject.toml": lines,
        folder / name / "__init__.py": "",
        folder / name / "server.py": SERVER.format(terms=TERMS),
        folder / name / "client.py": CLIENT.format(name=name),
        folder / name / "relay.py": Path(relay.__file__).read_text(encoding="utf-8"),
        folder / name / TERMS: terms.to_json(),
    }.items():
        path.write_text(text, encoding="utf-8")
    return folder


class FlowerNetwork:
    """Flower's grid, as a conductor sees it."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid
        self._flwr = import_module("flwr.app")

    def nodes(self) -> Collection[int]:
        return list(self._grid.get_node_ids())

    def send(self, questions: Mapping[int, bytes], lifetime: float | None) -> Mapping[int, str]:
        tickets = {}
        for node, question in questions.items():
            content = self._flwr.RecordDict({RECORD: self._flwr.ConfigRecord({"body": question})})
            message = self._flwr.Message(content, node, "train", ttl=lifetime)
            # One by one: a node that has gone meanwhile takes no place among the tickets.
            for ticket in self._grid.push_messages([message]):
                if ticket:
                    tickets[node] = str(ticket)
        return tickets

    def receive(self, tickets: Collection[str]) -> Iterable[Reply]:
        for message in self._grid.pull_messages(tickets) if tickets else ():
            ticket = message.metadata.reply_to_message_id
            if message.has_error():
                yield Reply(ticket, ABSENT, -1, str(message.error.reason).encode())
            else:
                try:
                    found = message.content[RECORD]
                    yield Reply(ticket, str(found["status"]), int(found["worker"]), bytes(found["body"]))
                except (KeyError, TypeError, ValueError) as error:
                    yield Reply(ticket, ABSENT, -1, f"a reply that cannot be read: {error!r}".encode())


class Progress:
    """Tells of events: to the log, to a file of a line each, to who watches."""

    def __init__(self, server: Server, path: str | None, watch: Callable[[Event, Server], None] | None) -> None:
        self._server, self._watch = server, watch
        self._path = path
        self._file = None if path is None else open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed at the end

    def __call__(self, event: Event) -> None:
        about = f"worker {event.worker}: " if event.worker >= 0 else ""
        log.info("round %d, %s: %s%s", event.round, event.kind, about, event.text)
        self._write(event._asdict() | ({"x": self._server.x.tolist()} if event.kind == "round" else {}))
        if self._watch is not None:
            self._watch(event, self._server)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self._write({"kind": "failed", "text": str(error)})
        if self._file is not None:
            self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def save_result(server: Server, path: str) -> None:
    """The model, the workers' models, and what was taken of each worker's budget, in one file or none."""
    target = disk.target_of(path)
    with disk.Draft(target.with_suffix(".part")) as draft:
        np.savez(draft, x=server.x, models=server.models, spent_epsilon=server.spent_epsilon)
        draft.publish(target)
