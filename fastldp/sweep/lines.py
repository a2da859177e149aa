"""Where the keys of a TOML text stand: tomllib reads values, and errors want lines."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
# A string, a comment, or a bracket; strings over several lines first, for they begin as the others do.
_TOKEN = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\])*\"|'[^']*'|#.*|[\[\]{}]")


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, of every key and header outside inline tables; tables of an array are numbered from 0.

    >>> lines_of("a = 1\\n[[b]]\\nc = [\\n  2]\\n[[b]]\\nc.d = 3")
    {('a',): 1, ('b', 0): 2, ('b', 0, 'c'): 3, ('b', 1): 5, ('b', 1, 'c', 'd'): 6}
    """
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth, closing = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        rest = line
        if depth == 0 and not closing:
            if header := _HEADER.match(line):
                table = _names(header[2])
                if header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                else:
                    table = _numbered(table, counts)
                found[table] = number
                continue
            if key := _KEY.match(line):
                found[(*table, *_names(key[1]))] = number
                rest = line[key.end() :]
        depth, closing = _nesting(rest, depth, closing)
    return found


def nearest_line(found: dict[Path, int], path: Path) -> int | None:
    """The line of a key, or else of what it is in."""
    while path and path not in found:
        path = path[:-1]
    return found.get(path)


def _names(dotted: str) -> Path:
    return tuple(re.findall(r"[\w-]+", dotted))


def _numbered(table: Path, counts: dict[Path, int]) -> Path:
    """[a.b] belongs to the last of the [[a]] before it."""
    for length in range(len(table), 0, -1):
        if table[:length] in counts:
            return (*table[:length], counts[table[:length]], *table[length:])
    return table


def _nesting(line: str, depth: int, closing: str) -> tuple[int, str]:
    """How many brackets, and which long string, are open after a line."""
    position = 0
    while position < len(line):
        if closing:
            end = line.find(closing, position)
            if end < 0:
                break
            position, closing = end + 3, ""
            continue
        token = _TOKEN.search(line, position)
        if token is None:
            break
        position = token.end()
        if token[0] in ('"""', "'''"):
            closing = token[0]
        elif token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
    return depth, closing
