"""LIBSVM's text format, `label index:value index:value ...` a line, to the arrays of a CSR matrix.

Two passes over whole lines: one bounds the sizes, one parses into arrays of such sizes. An error is a code and a byte.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.decimals import ONE, decimal
from fastldp.kernels.jit import formula, serial

FINE, BAD_LABEL, BAD_ENTRY, BAD_VALUE, INDEX_TOO_SMALL, INDEX_TOO_LARGE, NOT_ASCENDING = range(7)

TAB, NEWLINE, RETURN, SPACE, HASH, PLUS, MINUS, POINT, ZERO, NINE, COLON = (ord(c) for c in "\t\n\r #+-.09:")
SMALL_E, LARGE_E = (ord(c) for c in "eE")
QUERY = tuple(b"qid:")
TEN = np.uint64(10)
# More do not fit a uint64.
MOST_DIGITS = 19
# Exponents beyond it are all alike, and stay far from overflow.
LARGEST_EXPONENT = 1_000_000


class Rows(NamedTuple):
    """Of each row its label, the byte it begins at and its number of entries; of each entry its index and value."""

    labels: NDArray[np.float64]
    places: NDArray[np.int64]
    lengths: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]


@formula
def is_blank(byte: Any) -> Any:
    """A carriage return too: it ends the lines of some systems."""
    return byte in (SPACE, TAB, RETURN)


@formula
def is_digit(byte: Any) -> Any:
    return ZERO <= byte <= NINE


@formula
def is_over(text: Any, at: Any, end: Any) -> Any:
    """Whether the line's content ends here."""
    return at >= end or text[at] == NEWLINE or text[at] == HASH


@formula
def is_apart(text: Any, at: Any, end: Any) -> Any:
    """Whether a word may end here."""
    return is_over(text, at, end) or is_blank(text[at])


@formula
def after_blanks(text: Any, at: Any, end: Any) -> Any:
    while at < end and is_blank(text[at]):
        at += 1
    return at


@formula
def whole_number(text: Any, at: Any, end: Any, most: Any) -> Any:
    """The digits here and the position after them; what exceeds `most` is given as most + 1."""
    number = 0
    while at < end and is_digit(text[at]):
        number = min(10 * number + int(text[at]) - ZERO, most + 1)
        at += 1
    return number, at


@formula
def real_number(text: Any, at: Any, end: Any) -> Any:
    """The decimal number here and the position after it, or the position it was sought at where there is none.

    It is NaN where it takes Python's float(): subnormal or infinite numbers, and close calls.
    """
    sought_at = at
    negative = at < end and text[at] == MINUS
    if at < end and (text[at] == MINUS or text[at] == PLUS):
        at += 1
    mantissa = np.uint64(0)
    digits = 0
    significant = 0
    places = 0
    fraction = False
    while at < end and (is_digit(text[at]) or (text[at] == POINT and not fraction)):
        if text[at] == POINT:
            fraction = True
        else:
            digits += 1
            if mantissa > np.uint64(0) or text[at] != ZERO:
                significant += 1
            if significant <= MOST_DIGITS:
                mantissa = mantissa * TEN + np.uint64(text[at] - ZERO)
            # Places of the fraction that are kept, or, negative, of the whole part that are not.
            places += (1 if fraction else 0) - (1 if significant > MOST_DIGITS else 0)
        at += 1
    if digits == 0:
        return np.nan, sought_at
    power = 0
    if at < end and (text[at] == SMALL_E or text[at] == LARGE_E):
        at += 1
        falls = at < end and text[at] == MINUS
        if at < end and (text[at] == MINUS or text[at] == PLUS):
            at += 1
        begins = at
        power, at = whole_number(text, at, end, LARGEST_EXPONENT)
        if at == begins:
            return np.nan, sought_at
        power = -power if falls else power
    number = decimal(mantissa, power - places)
    # The digits left out say nothing where they cannot change the rounding.
    if significant > MOST_DIGITS and number != decimal(mantissa + ONE, power - places):
        number = np.nan
    return -number if negative else number, at


@formula
def after_query(text: Any, at: Any, end: Any) -> Any:
    """The position after `qid:` and digits, or the position it was sought at."""
    if at + 4 < end and (text[at], text[at + 1], text[at + 2], text[at + 3]) == QUERY:
        _, after = whole_number(text, at + 4, end, 0)
        if after > at + 4 and is_apart(text, after, end):
            return after_blanks(text, after, end)
    return at


@serial
def count(text: Any, start: Any, end: Any) -> Any:
    """At least as many as the rows and entries of the lines in [start, end): lines, and colons."""
    lines = 1
    colons = 0
    # Without a branch, so that it runs at memory speed.
    for at in range(start, end):
        lines += text[at] == NEWLINE
        colons += text[at] == COLON
    return lines, colons


@serial
def parse(text: Any, start: Any, end: Any, least: Any, most: Any, into: Rows) -> Any:
    """The lines in [start, end), into arrays of the size that `count` gives; indices must be in [least, most].

    Returns an error code with the byte it is about, and how many rows and entries there are. A NaN stands for a number
    that takes Python's float().
    """
    row = 0
    entry = 0
    at = start
    while at < end:
        at = after_blanks(text, at, end)
        if not is_over(text, at, end):
            into.places[row] = at
            label, after = real_number(text, at, end)
            if after == at or not is_apart(text, after, end):
                return BAD_LABEL, at, row, entry
            into.labels[row] = label
            at = after_query(text, after_blanks(text, after, end), end)
            first = entry
            previous = -1
            while not is_over(text, at, end):
                index, colon = whole_number(text, at, end, most)
                if colon == at or colon >= end or text[colon] != COLON:
                    return BAD_ENTRY, at, row, entry
                if index < least:
                    return INDEX_TOO_SMALL, at, row, entry
                if index > most:
                    return INDEX_TOO_LARGE, at, row, entry
                if index <= previous:
                    return NOT_ASCENDING, at, row, entry
                value, after = real_number(text, colon + 1, end)
                if after == colon + 1 or not is_apart(text, after, end):
                    return BAD_VALUE, at, row, entry
                into.indices[entry] = index
                into.values[entry] = value
                entry += 1
                previous = index
                at = after_blanks(text, after, end)
            into.lengths[row] = entry - first
            row += 1
        while at < end and text[at] != NEWLINE:
            at += 1
        at += 1
    return FINE, end, row, entry
