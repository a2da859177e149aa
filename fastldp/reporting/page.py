"""A report as a page: sections of words, tables and curves, in one file that loads nothing.

All text is escaped here or put on the page as text by `report.js`; nothing of a file ever becomes markup, and the
page's own policy lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Protocol

import numpy as np

import fastldp as fl
from fastldp import disk

# The colour of cells that are verdicts.
VERDICTS = {"held": "good", "did not hold": "bad", "no difference": "open", "undecided": "open"}
# So many digits of a number are kept: more than anyone reads off a curve.
DIGITS = 5


class Block(Protocol):
    """A piece of a section."""

    def html(self, data: list[Any]) -> str:
        """As markup; what its script needs is added to the data."""


@dataclass(frozen=True)
class Words:
    """A paragraph; of a `note`, one that is to be seen."""

    text: str
    note: bool = False

    def html(self, data: list[Any]) -> str:
        kind = ' class="note"' if self.note else ""
        return f"<p{kind}>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Heading:
    """Over a part of a section."""

    text: str

    def html(self, data: list[Any]) -> str:
        return f"<h3>{escape(self.text)}</h3>"


@dataclass(frozen=True)
class Pairs:
    """Names and what they stand for; `many` short ones stand beside one another."""

    rows: Sequence[tuple[str, str]]
    many: bool = False

    def html(self, data: list[Any]) -> str:
        pairs = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in self.rows)
        rows = "".join(f"<div>{pair}</div>" if self.many else pair for pair in pairs)
        return f'<dl class="pairs{" many" * self.many}">{rows}</dl>'


@dataclass(frozen=True)
class Code:
    """Text as it was written; with a title it is folded away until it is asked for."""

    text: str
    title: str = ""

    def html(self, data: list[Any]) -> str:
        if not self.title:
            return f'<pre class="command"><code>{escape(self.text)}</code></pre>'
        body = f'<pre tabindex="0"><code>{escape(self.text)}</code></pre>'
        return f"<details><summary>{escape(self.title)}</summary>{body}</details>"


@dataclass(frozen=True)
class Table:
    """Rows of cells; cells that are verdicts have the colour of theirs."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def html(self, data: list[Any]) -> str:
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        numbers = [all(map(_is_number, column)) for column in zip(*self.rows, strict=True)] or [False] * len(self.heads)
        heads = "".join(
            f'<th scope="col"{_kind(number, "")}>{escape(head)}</th>'
            for head, number in zip(self.heads, numbers, strict=True)
        )
        lines = (
            "".join(f"<td{_kind(number, cell)}>{escape(cell)}</td>" for cell, number in zip(row, numbers, strict=True))
            for row in self.rows
        )
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        named = f' aria-label="{escape(self.caption or ", ".join(self.heads))}"'
        inside = f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="wide rows" tabindex="0" role="region"{named}>{inside}</div>'


@dataclass(frozen=True)
class Drawn:
    """Curves, or a whole sweep to explore: what `report.js` makes of such data."""

    content: dict[str, Any]

    def html(self, data: list[Any]) -> str:
        data.append(self.content)
        without = "The curves and the table of settings need JavaScript."
        return f'<div data-block="{len(data) - 1}"></div><noscript><p class="note">{without}</p></noscript>'


def curves(series: Sequence[dict[str, Any]], x: str, y: str, *, log_x: bool = False, log_y: bool = False) -> Drawn:
    """Curves by name, each with `name`, `x`, `y`, `error` and perhaps `runs`."""
    content = {"kind": "figure", "title": f"{y} against {x}", "series": series}
    return Drawn(content | {"x": x, "y": y, "logX": log_x, "logY": log_y})


@dataclass(frozen=True)
class Section:
    """A part of a report, which its table of contents names."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, eq=False)
class Page:
    """A report; `html` is its text, and notebooks show it."""

    kind: str
    title: str
    lead: str
    sections: Sequence[Section] = field(repr=False)
    tiles: Sequence[tuple[str, str, str]] = field(default=(), repr=False)
    """The numbers to be seen first: what, how much, and what else about it."""
    secret: bool = False
    """Whether it names the seed of noise: then it is its owner's alone, unless it is to be shared."""

    @property
    def html(self) -> str:
        """The whole file."""
        data: list[Any] = []
        present = [section for section in self.sections if section.blocks]
        parts = []
        for section in present:
            inside = "\n".join(block.html(data) for block in section.blocks)
            name, title = _anchor(section.title), escape(section.title)
            parts.append(f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{title}</h2>')
            parts.append(f"{inside}</section>")
        tiles = "".join(_tile(*tile) for tile in self.tiles)
        links = (f'<li><a href="#{_anchor(one.title)}">{escape(one.title)}</a></li>' for one in present)
        script = _asset("js").strip()
        digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
        return Template(_asset("html")).substitute(
            kind=escape(self.kind),
            title=escape(self.title),
            lead=escape(self.lead),
            tiles=f'<dl class="tiles">{tiles}</dl>' if tiles else "",
            links="".join(links),
            sections="\n".join(parts),
            data=embedded(data),
            style=_asset("css").strip(),
            script=script,
            script_hash=f"sha256-{digest}",
            version=escape(fl.__version__),
        )

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:44rem;border:0" title="report"></iframe>'

    def save(self, path: str | os.PathLike[str], *, shared: bool = False) -> Path:
        """Write it, whole or not at all; one that names a seed is its owner's alone to read, unless it is shared.

        Parameters
        ----------
        path : path
            Of the file, which is replaced where it is there.
        shared : bool
            Whether others may read it though it names a seed.

        Returns
        -------
        Path
            Where it is.
        """
        target = disk.target_of(path)
        temporary = target.with_name(f".fastldp-{secrets.token_hex(8)}")
        with disk.Draft(temporary, disk.PRIVATE if self.secret and not shared else disk.SHARED) as draft:
            draft.write(self.html.encode(errors="replace"))  # a name may have letters that UTF-8 has not
            draft.publish(target)
        return target


def made(page: Page, path: str | os.PathLike[str] | None) -> Page:
    """The page, written where a path is given."""
    if path is not None:
        page.save(path)
    return page


def embedded(data: Any) -> str:
    """JSON that can stand in a page: nothing in it ends the element that holds it.

    >>> embedded(["</script>", float("nan")])
    '["\\\\u003c/script\\\\u003e",null]'
    """
    text = json.dumps(plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode(errors="backslashreplace").decode()


def plain(value: Any) -> Any:
    """Values for JSON: numbers to some digits, those that are none of JSON's as null."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        short = float(f"{value:.{DIGITS}g}")
        return int(short) if short.is_integer() and abs(short) < 2**53 else short
    return value


@cache
def _asset(ending: str) -> str:
    return (files("fastldp.reporting") / f"report.{ending}").read_text(encoding="utf-8")


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z]+", "-", title.lower()).strip("-")


def _tile(name: str, value: str, more: str) -> str:
    beside = f"<small>{escape(more)}</small>" if more else ""
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}{beside}</dd></div>"


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-−+]?[\d,.]+(e[-+]?\d+)?( ± [\d.e+-]+)?|nan|–|", cell) is not None


def _kind(number: bool, cell: str) -> str:
    if cell in VERDICTS:
        return f' class="word-{VERDICTS[cell]}"'
    return ' class="number"' if number else ""


def unique(texts: Iterable[str]) -> list[str]:
    """Each once, in the order in which they come."""
    return list(dict.fromkeys(texts))
