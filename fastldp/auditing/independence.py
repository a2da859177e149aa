"""Whether noise that should be independent is: all pairs of releases, of coordinates, of transcripts and of workers.

Of two independent rows of N normals the cosine r of their angle has a known law: r² is Beta(1/2, (N − 1)/2). So a few
dozen numbers tell whether noise is used twice, in any of millions of pairs, and false alarms are as rare as is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, erfc, ndtri

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

# All pairs of so many rows are compared, so many rows with all others at a time,
MOST_ROWS, ROWS_AT_ONCE = 8192, 512
# of so many numbers together.
MOST_NUMBERS = 2**23
# Of a run so many releases are compared in all pairs, and so many coordinates; of a block so many transcripts.
MOST_RELEASES, MOST_COORDINATES, MOST_TRANSCRIPTS = 512, 1024, 4096
# Noise used twice is the same to so much of σ, but for the rounding of reading it out.
SAME = 1e-6


class Closest(NamedTuple):
    """The two rows whose noise is most alike, of so many pairs of rows of so many numbers."""

    correlation: float = 0.0
    first: int = 0
    second: int = 0
    pairs: int = 0
    numbers: int = 0

    @property
    def p(self) -> float:
        """How likely some pair of independent rows is as much alike, at most."""
        if self.numbers < 2 or not self.pairs:
            return 1.0
        return min(1.0, self.pairs * float(betainc((self.numbers - 1) / 2, 0.5, 1 - self.correlation**2)))

    def least(self, error: float) -> float:
        """The correlation of a pair from which on chance is ruled out with this error; 1 where none is."""
        if self.numbers < 2 or not self.pairs:
            return 1.0
        return math.sqrt(1 - float(betaincinv((self.numbers - 1) / 2, 0.5, error / self.pairs)))


def closest(rows: Array, others: Array | None = None, groups: Integers | None = None) -> Closest:
    """Of all pairs of rows; or of a row and one of the others; or of rows of two groups, whose numbers ascend."""
    mine = _of_length_one(rows)
    theirs = mine if others is None else _of_length_one(others)
    groups = np.arange(len(rows)) if groups is None else groups
    found, pairs = Closest(), 0
    for begin in range(0, len(mine), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        first = 0 if others is not None else begin
        cosines = mine[part] @ theirs[first:].T
        if others is None:
            counted = groups[part, None] < groups[None, first:]
            cosines *= counted
            pairs += int(np.count_nonzero(counted))
        else:
            pairs += cosines.size
        i, j = np.unravel_index(int(np.argmax(np.abs(cosines))), cosines.shape)
        if abs(cosines[i, j]) > abs(found.correlation):
            correlation = float(np.clip(cosines[i, j], -1, 1))
            found = Closest(correlation, begin + int(i), first + int(j))
    return found._replace(pairs=pairs, numbers=rows.shape[1])


def worst_of(found: Iterable[Closest]) -> Closest:
    """The closest of several searches, and the pairs of them all; rows are as long as the shortest."""
    several = list(found)
    worst = min(several, key=lambda one: (one.p, -abs(one.correlation)))
    return worst._replace(pairs=sum(one.pairs for one in several), numbers=min(one.numbers for one in several))


def sizes(noise: Array) -> Array:
    """The sizes of normals, as normals: where numbers share a radius or a scale, these are correlated."""
    return np.asarray(-ndtri(np.clip(erfc(np.abs(noise) / math.sqrt(2)), 1e-300, 1 - 2.0**-53)))


def by_release(noise: Array) -> Array:
    """(releases, numbers): of long runs the first and the last releases, so that all pairs fit in memory."""
    some = ends_of(noise, MOST_RELEASES)
    return _shortened(some.transpose(1, 0, 2).reshape(some.shape[1], -1))


def by_number(noise: Array) -> Array:
    """(numbers of a transcript, transcripts): those of the first and the last releases, each by itself."""
    some = ends_of(noise, MOST_RELEASES)[:, :, :MOST_COORDINATES]
    return np.asarray(some.reshape(len(some), -1).T)


def by_coordinate(noise: Array) -> Array:
    """(coordinates, numbers): the first of many coordinates."""
    some = noise[:, :, :MOST_COORDINATES]
    return _shortened(some.transpose(2, 0, 1).reshape(some.shape[2], -1))


def by_transcript(noise: Array) -> Array:
    """(transcripts, numbers): the first of many transcripts."""
    some = noise[:MOST_TRANSCRIPTS]
    return _shortened(some.reshape(len(some), -1))


def ends_of(noise: Array, most: int) -> Array:
    """Of more than so many releases, half of them from the beginning and half from the end."""
    releases = noise.shape[1]
    return noise if releases <= most else noise[:, releases_kept(releases, most)]


def releases_kept(releases: int, most: int) -> Integers:
    """The numbers of the releases that `ends_of` keeps."""
    kept = min(most, releases)
    return np.concatenate([np.arange(kept - kept // 2), np.arange(releases - kept // 2, releases)])


def repeated(noise: Array) -> tuple[int, int] | None:
    """Two transcripts with the same noise, if there are any, however far apart."""
    rows = noise.reshape(len(noise), -1)
    if not can_repeat(*rows.shape):
        return None
    # Equal rows have equal sums of any kind, and other rows hardly ever: so they are neighbours once these are sorted.
    sums = rows @ np.sqrt(np.arange(2, rows.shape[1] + 2))
    order = np.argsort(sums)
    near = np.flatnonzero(np.diff(sums[order]) < SAME)
    for first, second in zip(order[near], order[near + 1], strict=True):
        if np.abs(rows[first] - rows[second]).max() < SAME:
            return int(min(first, second)), int(max(first, second))
    return None


def can_repeat(transcripts: int, numbers: int) -> bool:
    """Whether so many transcripts of so many numbers are all different by chance, since each number has a fine grid."""
    # Two numbers agree with a chance below 2⁻¹⁶: see `fastldp.privacy.sampler.SPACING`.
    return 2 * math.log2(transcripts) - 16 * numbers < -30


def _of_length_one(rows: Array) -> Array:
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0)[:, None])


def _shortened(rows: Array) -> Array:
    return rows[:, : max(2, MOST_NUMBERS // len(rows))]
