"""What the terminal takes: other letters where it has none for ours, and silence once nobody reads."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

# How the signs of the paper are written where there are no such letters.
SPELT = {
    "ε": "epsilon", "δ": "delta", "ρ": "rho", "γ": "gamma", "τ": "tau", "μ": "mu", "ξ": "xi", "σ": "sigma",
    "Φ": "Phi", "Σ": "sum ", "∇": "grad ", "ℓ": "l", "≤": "<=", "≥": ">=", "±": "+-", "×": "x", "·": "*",
    "−": "-", "–": "-", "‖": "||", "²": "^2", "¹": "^1", "⁵": "^5", "½": "1/2", "√": "sqrt", "∞": "inf",
    "\N{COMBINING MACRON}": "_mean", "ᵢ": "_i", "ₗ": "_l", "₁": "_1", "ᵀ": "^T", "→": "->", "’": "'", "…": "...",
}  # fmt: skip
HANDLER = "fastldp.spelt"
# As a shell reports what a closed pipe has ended.
CLOSED_PIPE = 141


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(SPELT.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def prepare() -> None:
    """Let no letter that a stream has not end a command whose work is done."""
    codecs.register_error(HANDLER, _spell)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=HANDLER)


def shown_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """A warning of a command in one line, without the place in the code, which its user did not write."""
    return f"fastldp: warning: {message}\n"


@contextmanager
def short_warnings() -> Iterator[None]:
    """Inside, warnings are one line each."""
    before: Any = warnings.formatwarning
    warnings.formatwarning = shown_warning
    try:
        yield
    finally:
        warnings.formatwarning = before


def program() -> str:
    """What a user who is here types for `fastldp`."""
    path = Path(sys.argv[0])
    if path.name == "__main__.py":
        return "python -m fastldp"
    if path.stem != "fastldp" or shutil.which("fastldp") is not None:
        return "fastldp"
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def hang_up(stream: TextIO) -> None:
    """Nobody reads on: what is still to be written, at exit too, goes nowhere."""
    with suppress(OSError, ValueError):  # a stream that is none of the system's
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
