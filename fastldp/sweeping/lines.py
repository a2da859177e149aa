"""Where the keys of a TOML text stand: tomllib reads values, and errors want lines."""

from __future__ import annotations

import re
import tomllib

Path = tuple[str | int, ...]

_NAME = r"""(?:[\w-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
# A string, a comment, or a bracket; strings over several lines first, for they begin as the others do.
_TOKEN = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\])*\"|'[^']*'|#.*|[\[\]{}]")
# Where a string over several lines ends: its last quotes may be its own.
_ENDS = {'"""': re.compile(r'(?:\\.|[^"\\]|"(?!""))*"{3,5}'), "'''": re.compile(r"(?:[^']|'(?!''))*'{3,5}")}


def lines_of(text: str) -> dict[Path, int]:
    """The line, from 1, of every key and header outside inline tables; tables of an array are numbered from 0.

    >>> lines_of("a = 1\\n[[b]]\\nc = [\\n  2]\\n[[b]]\\nc.d = 3")
    {('a',): 1, ('b', 0): 2, ('b', 0, 'c'): 3, ('b', 1): 5, ('b', 1, 'c', 'd'): 6}
    """
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth, closing = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        rest = line
        if depth == 0 and not closing:
            if header := _HEADER.match(line):
                table = _names(header[2])
                if header[1] == "[[":
                    array = (*_numbered(table[:-1], counts), table[-1])
                    counts[array] = counts.get(array, -1) + 1
                    table = (*array, counts[array])
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
    """The line of a key, or of the first thing inside of it, or else of what it is in.

    >>> nearest_line({("a", 0): 3, ("a", 0, "b"): 4}, ("a",))
    3
    """
    while path:
        inside = [line for place, line in found.items() if place[: len(path)] == path]
        if inside:
            return min(inside)
        path = path[:-1]
    return None


def _names(dotted: str) -> Path:
    """The parts of a dotted key, read by the reader of TOML itself."""
    value = tomllib.loads(f"{dotted} = 0")
    names: list[str] = []
    while isinstance(value, dict):
        name, value = next(iter(value.items()))
        names.append(name)
    return tuple(names)


def _numbered(table: Path, counts: dict[Path, int]) -> Path:
    """[a.b] belongs to the last of the [[a]] before it, and [a.b.c] to the last [[a.b]] of that."""
    numbered: Path = ()
    for name in table:
        numbered = (*numbered, name)
        if numbered in counts:
            numbered = (*numbered, counts[numbered])
    return numbered


def _nesting(line: str, depth: int, closing: str) -> tuple[int, str]:
    """How many brackets, and which long string, are open after a line."""
    position = 0
    while position < len(line):
        if closing:
            end = _ENDS[closing].match(line, position)
            if end is None:
                break
            position, closing = end.end(), ""
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
