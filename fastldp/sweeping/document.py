"""A sweep's specification as TOML: tables whose errors know their line, and lists and ranges that become choices."""

from __future__ import annotations

import difflib
import itertools
import math
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from fastldp.errors import ArgumentError, SpecError, shown
from fastldp.grids import MOST_CHOICES

Path = tuple[str | int, ...]

RANGE_KEYS = {"from", "to", "by", "count", "spacing"}
SPACINGS = ("linear", "log")
# Tables of which a small trial replaces single keys; others it replaces whole.
QUICK_TABLES = ("data", "problem", "network")
# More are a slip of the pen.
MOST_VALUES = 100_000

# Where keys stand: tomllib reads values, and errors want lines.
_NAME = r"""(?:[\w-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
_DOTTED = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
# A string, a comment, or a bracket; strings over several lines first, for they begin as the others do.
_TOKEN = re.compile(r"\"\"\"|'''|\"(?:\\.|[^\"\\])*\"|'[^']*'|#.*|[\[\]{}]")
# Where a string over several lines ends: its last quotes may be its own.
_ENDS = {'"""': re.compile(r'(?:\\.|[^"\\]|"(?!""))*"{3,5}'), "'''": re.compile(r"(?:[^']|'(?!''))*'{3,5}")}


class Document:
    """A text and where its keys stand."""

    def __init__(self, text: str, name: str, *, quick: bool = False) -> None:
        self.text, self.name = text, name
        try:
            self.values: dict[str, Any] = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists in lists in lists
            raise SpecError(f"{name}: not TOML: {error}") from None
        self._lines = lines_of(text)
        self.quick = quick
        small = self.small = self.values.pop("quick", {})
        """What a trial replaces."""
        if not isinstance(small, dict):
            self.refuse(("quick",), "write a table [quick], with what replaces the keys above in a small trial")
        if quick:
            self.values |= {key: self._replaced(key, value) for key, value in small.items()}
            self._lines |= {path[1:]: line for path, line in self._lines.items() if path[:1] == ("quick",)}

    def _replaced(self, key: str, small: Any) -> Any:
        """What a trial has in place of a key; of a table that describes a problem or data, its own keys over those."""
        whole = self.values.get(key)
        both = isinstance(small, dict) and isinstance(whole, dict)
        return whole | small if both and key in QUICK_TABLES else small

    def root(self) -> Table:
        """The keys outside of any table."""
        return Table(self, (), self.values)

    def tables(self, name: str) -> list[Table]:
        """All tables of a name: one written [name], or several written [[name]]."""
        found = self.values.get(name, [])
        if isinstance(found, dict):
            return [Table(self, (name,), found)]
        if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
            self.refuse((name,), f"write a table [{name}], or several [[{name}]]")
        return [Table(self, (name, k), table) for k, table in enumerate(found)]

    def only_table(self, name: str, what: str) -> Table:
        """A table that there is once, or none, which is empty."""
        first, *others = self.tables(name) or [Table(self, (name,), {})]
        if others:
            others[0].refuse("", f"all runs {what} in one way: write one table [{name}]")
        return first

    def refuse(self, path: Path, remedy: str) -> NoReturn:
        line = nearest_line(self._lines, path)
        where = f", line {line}" if line is not None else ""
        key = ".".join(str(part) for part in path if isinstance(part, str))
        raise SpecError(f"{self.name}{where}{', ' if key else ''}{key}: {remedy}")


@dataclass(frozen=True)
class Table:
    """One table of a document."""

    document: Document
    path: Path
    values: Mapping[str, Any]

    def refuse(self, key: str, remedy: str) -> NoReturn:
        """Raise an error that points at the line of a key."""
        self.document.refuse((*self.path, key), remedy)

    def know(self, known: Collection[str]) -> None:
        """Refuse keys that are not known, and suggest the nearest that is."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                self.refuse(key, f"not a known key; {hint}known are {', '.join(known)}")

    def choices(self, known: Collection[str]) -> list[dict[str, Any]]:
        """Every combination of the values of its lists and ranges."""
        axes = self.axes(known)
        count = math.prod(map(len, axes.values()))
        if count > MOST_CHOICES:
            self.refuse("", f"its lists combine to {count:,} choices, more than {MOST_CHOICES:,}; write several sweeps")
        return [dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())]

    def axes(self, known: Collection[str]) -> dict[str, list[Any]]:
        """The values that each of its keys takes."""
        self.know(known)
        return {key: self._axis(key, value) for key, value in self.values.items()}

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "give true or false")
        return value

    def axis(self, key: str, default: Any = None) -> list[Any]:
        """The values that a key takes, whatever else there is."""
        return self._axis(key, self.values.get(key, default))

    def _axis(self, key: str, value: Any) -> list[Any]:
        """The values one key takes; a list inside a list is one value that is an array."""
        if isinstance(value, list):
            if not value:
                self.refuse(key, "an empty list leaves nothing to run")
            return list(itertools.chain.from_iterable(self._nested(key, item) for item in value))
        return self._nested(key, value)

    def _nested(self, key: str, value: Any) -> list[Any]:
        if isinstance(value, list):
            if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
                self.refuse(key, f"{shown(value)}: a list inside a list is an array of numbers")
            array = np.array(value)
            if array.dtype == object:
                self.refuse(key, f"{shown(value)}: whole numbers of an array are below 2**63")
            return [array]
        if not isinstance(value, dict):
            return [value]
        if RANGE_KEYS & value.keys():
            return self._range(key, value)
        inner = Table(self.document, (*self.path, key), value)
        return inner.choices(tuple(value))

    def _range(self, key: str, value: dict[str, Any]) -> list[Any]:
        remedy = "a range is {from = 1000, to = 8000, by = 1000} or {from = 0.01, to = 1.0, count = 5, spacing = 'log'}"
        inner = Table(self.document, (*self.path, key), value)
        inner.know(sorted(RANGE_KEYS))
        numbers = [value.get(name, 1) for name in ("from", "to", "by", "count")]
        if (
            any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers)
            or not all(map(_finite, numbers))
            or not _finite(numbers[1] - numbers[0])
            or not {"from", "to"} <= value.keys()
            or ("by" in value) == ("count" in value)
            or value.get("spacing", "linear") not in SPACINGS
        ):
            self.refuse(key, f"{shown(value)}: {remedy}")
        first, last, by, count = numbers
        if "by" in value:
            if by == 0 or (last - first) / by < 0:
                self.refuse(key, f"{shown(value)}: no step of {by} leads from {first} to {last}")
            steps = (last - first) / by * (1 + 1e-12) + 1e-9
            if steps >= MOST_VALUES:
                self.refuse(key, f"{shown(value)}: more than {MOST_VALUES:,} values; take larger steps")
            return [_tidy(first + k * by) for k in range(int(steps) + 1)]
        if not isinstance(count, int) or not 2 <= count <= MOST_VALUES:
            self.refuse(key, f"{shown(value)}: count must be a whole number from 2 to {MOST_VALUES:,}")
        log = value.get("spacing") == "log"
        if log and not (first > 0 and last > 0):
            self.refuse(key, f"{shown(value)}: a range with spacing = 'log' begins and ends above zero")
        with np.errstate(over="ignore"):  # near the largest number that there is; its ends are exact
            spaced = (np.geomspace if log else np.linspace)(float(first), float(last), count)
        tidy = [_tidy(number) for number in spaced.tolist()]
        whole = not log and isinstance(first, int) and isinstance(last, int) and all(map(float.is_integer, tidy))
        return [int(number) for number in tidy] if whole else tidy

    @contextmanager
    def blame(self, *also: str) -> Iterator[None]:
        """Turn the error of a bad argument into one that points at the key it came from."""
        try:
            yield
        except SpecError:
            raise
        except ArgumentError as error:
            key = error.argument if error.argument in self.values else next((k for k in also if k in self.values), "")
            path = (*self.path, key) if key else self.path
            self.document.refuse(path, str(error))


def _finite(number: float) -> bool:
    """Whether a number is one that floats can hold."""
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _tidy(number: float) -> float:
    """Sixteen digits rounded to twelve, so that three steps of 0.1 are 0.3, as when it is written, on every machine."""
    return number if isinstance(number, int) else float(f"{number:.12g}")


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
