"""What of a worker's side runs in Flower's processes: it carries a question to the worker, and its answer back.

Flower starts a process for every message. So the worker is a process of its own, which outlasts messages (serving.py),
and here is the standard library alone: nothing of fastldp is imported, and a project has a copy of this file.
"""

import json
from collections.abc import Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

# In a worker's folder: where it listens, and the key to be let in.
NOTE = "serving.json"
# What became of a question: answered, refused for good, or nobody was there to take it.
ANSWERED, REFUSED, ABSENT = "answered", "refused", "absent"
# The record of a message that has all, and the folder in the configuration of a SuperNode.
RECORD, FOLDER = "fastldp", "folder"


def ask(folder: str | Path, question: bytes) -> tuple[str, int, bytes]:
    """What became of a question to the worker that is served in a folder, its number, and its answer or the reason."""
    try:
        note = json.loads((Path(folder) / NOTE).read_text(encoding="utf-8"))
        key = bytes.fromhex(note["key"])
        with Client(note["address"]) as connection:
            answer_challenge(connection, key)
            deliver_challenge(connection, key)
            connection.send_bytes(json.dumps({"place": note["place"]}).encode())
            connection.send_bytes(question)
            status = connection.recv_bytes().decode()
            return status, int(note["worker"]), connection.recv_bytes()
    except (OSError, EOFError, AuthenticationError) as error:
        reason = f"no worker is served in {folder} ({error}); start it with fastldp.federation.serve"
        return ABSENT, -1, reason.encode()


def client_app(folders: Sequence[str] = ()) -> Any:
    """Flower's ClientApp of one worker, or in a simulation of all: whatever is asked, the worker's process answers.

    Parameters
    ----------
    folders : sequence of paths, optional
        The workers' folders, of which a node has that of its ``partition-id``, as in Flower's simulations. By default
        the node's configuration says the one: ``flower-supernode --node-config 'folder="/var/lib/worker"'``.

    Returns
    -------
    ClientApp
        What ``[tool.flwr.app.components]`` names as ``clientapp``.
    """
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app, places = ClientApp(), [str(folder) for folder in folders]

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:
        given = context.node_config
        folder = places[int(given["partition-id"])] if places else given.get(FOLDER)
        if folder:
            status, worker, answer = ask(str(folder), message.content[RECORD]["body"])
        else:
            reason = f"the SuperNode was started without --node-config '{FOLDER}=\"...\"'"
            status, worker, answer = ABSENT, -1, reason.encode()
        content = ConfigRecord({"status": status, "worker": worker, "body": answer})
        return Message(RecordDict({RECORD: content}), reply_to=message)

    return app
