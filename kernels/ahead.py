# mypy: allow-untyped-calls
"""Pieces that other processes compile meanwhile: in one process Numba compiles one thing at a time."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from numba.core.serialize import dumps

from fastldp.kernels.calling import Piece
from fastldp.kernels.jit import cache_folder

# A helper hears first where modules are found, then what to compile.
HELP = """
import io, pickle, sys
heard = io.BytesIO(sys.stdin.buffer.read())
sys.path[:] = pickle.load(heard)
from fastldp.kernels import ahead
ahead.help_with(*pickle.load(heard))
"""


def begin(pieces: Sequence[Piece], processes: int) -> list[subprocess.Popen[bytes]]:
    """Let up to so many processes begin with what nobody has compiled; who needs what a helper is at work on waits.

    A helper that fails costs time only: what is not in the cache after that is compiled by who needs it.
    """
    missing = [piece for piece in pieces if piece.ours and not piece.is_compiled]
    processes = min(processes, len(missing)) if _can_help() else 0
    helpers = [*filter(None, (_started() for _ in range(processes)))]
    # A process that has ended is gone only when somebody has asked.
    _AT_WORK[:] = [helper for helper in _AT_WORK if helper.poll() is None] + helpers
    for k, helper in enumerate(helpers):
        share = missing[k :: len(helpers)]
        assert helper.stdin is not None
        with suppress(OSError), helper.stdin as heard:
            named = [(piece.text.__module__, piece.text.__name__, piece.kinds) for piece in share]
            heard.write(dumps(sys.path) + dumps((os.getpid(), named)))
        for piece in share:
            piece.is_begun = partial(_is_at, helper, share, piece)
    return helpers


_AT_WORK: list[subprocess.Popen[bytes]] = []


def _is_at(helper: subprocess.Popen[bytes], share: Sequence[Piece], piece: Piece) -> bool:
    """Whether a helper is at work on a piece: on the first of its share that is not compiled."""
    return helper.poll() is None and next((one for one in share if not one.is_compiled), None) is piece


def help_with(parent: int, pieces: Sequence[tuple[str, str, tuple[Any, ...]]]) -> None:
    """Compile pieces into the cache, while there is a process that wants them."""
    for module, name, kinds in pieces:
        if os.getppid() != parent:
            break
        Piece(getattr(import_module(module), name), *kinds).compile()


def _can_help() -> bool:
    """Whether there is a cache to share, and an interpreter to start: a program that embeds Python may be neither."""
    program = os.path.basename(sys.executable or "")
    return cache_folder() is not None and program.startswith("python") and not hasattr(sys, "frozen")


def _started() -> subprocess.Popen[bytes] | None:
    """An interpreter like this one, with the same cache; None where the system gives no more processes."""
    folder, silent = cache_folder(), subprocess.DEVNULL
    assert folder is not None
    # -P: whatever lies in the folder that one is in is not imported.
    command = [sys.executable, *subprocess._args_from_interpreter_flags(), "-P", "-c", HELP]  # type: ignore[attr-defined]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder.parent.parent)}
    with suppress(OSError):
        return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=silent, stderr=silent)
    return None
