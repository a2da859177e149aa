"""Tables for notebooks; everything in them is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(rows: Iterable[Sequence[str]], heads: Sequence[str] = (), caption: str = "") -> str:
    """Rows of cells as an HTML table.

    >>> table([["ε", "< 1"]], ["name", "value"])
    '<table><tr><th>name</th><th>value</th></tr><tr><td>ε</td><td>&lt; 1</td></tr></table>'
    """
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    lines = [_row("th", heads)] if heads else []
    return f"<table>{above}{''.join([*lines, *(_row('td', row) for row in rows)])}</table>"


def paragraph(text: str) -> str:
    """Text with its line ends."""
    return f"<p>{escape(text)}</p>".replace("\n", "<br>")


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"
