"""Options that several commands have, and arguments that are a number or a word."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastldp.privacy import METHODS

BUDGET = ("--epsilon", "--delta", "--accounting")
OPTIONS: dict[str, dict[str, Any]] = {
    "--epsilon": {"type": float, "default": 1.0, "help": "ε (%(default)s)"},
    "--delta": {"type": float, "default": 1e-4, "help": "δ (%(default)s)"},
    "--accounting": {"choices": METHODS, "default": "zcdp", "help": "paper's or exact (%(default)s)"},
    "--jobs": {"type": int, "help": "cores to use (all)"},
    "--plot": {"type": Path, "metavar": "FILE", "help": "write a picture: .png, .pdf or .svg"},
    "--report": {"type": Path, "metavar": "FILE", "help": "write a page for browsers: .html"},
    "--details": {"action": "store_true", "help": "print all there is to say"},
    "--json": {"action": "store_true", "help": "print JSON instead of text"},
}


def add(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(name, **OPTIONS[name])


def or_word(kind: Callable[[str], Any], words: dict[str, Any], what: str = "number") -> Callable[[str], Any]:
    """A type of argument: a number, or one of some words, which stand for these values."""

    def read(text: str) -> Any:
        try:
            return words[text] if text in words else kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}, nor {' or '.join(words)}") from None

    return read
