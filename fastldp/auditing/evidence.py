"""What transcripts show, added up chunk by chunk: the privacy loss, a lower bound on ε, and the noise itself."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, erfc, gammainc, gammaincc, ndtr, ndtri

from fastldp.auditing.adversary import Seen

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# Checks that a sound mechanism fails fewer than once in a million audits, all together.
FALSE_ALARM = 1e-6
BINS = 4000
# Cells of equal probability that the noise is counted in.
CELLS = 64
QUANTILES = ndtri(np.arange(1, CELLS) / CELLS)
# The histogram of losses reaches so many standard deviations beyond the two means.
REACH = 8.0


class Check(NamedTuple):
    """How likely a sound mechanism does as badly as what was found, at most, and what is to be said then."""

    p: float
    finding: str


class Thresholds:
    """Losses counted in fine bins fixed beforehand, in two halves: one to choose the test by, one to use it on."""

    def __init__(self, power: float) -> None:
        spread = power / 2 + REACH * math.sqrt(power)
        self.edges = np.linspace(-spread, spread, BINS + 1)
        self.counts: Counts = np.zeros((2, 2, BINS + 2), dtype=np.int64)  # half, world, bin

    def add(self, world: int, losses: Array) -> None:
        """Every other transcript goes to either half."""
        for half in (0, 1):
            bins = np.searchsorted(self.edges, losses[half::2], side="right")
            self.counts[half, world] += np.bincount(bins, minlength=BINS + 2)

    def above(self, half: int) -> Counts:
        """(2, edges): how many losses of each world are at or above each edge."""
        return np.asarray(self.counts[half, :, ::-1].cumsum(axis=1)[:, ::-1][:, 1:])

    def lower_bound(self, delta: float, confidence: float) -> float:
        """The ε that the transcripts show, at the confidence: P(loss ≥ edge) under one input against the other.

        The edge, and which input is which, are chosen on the first half and used once on the second.
        """
        # By a bound with a fiftieth of the error: the largest of thousands of bounds is else a lucky one.
        strict = 1 - (1 - confidence) / 50
        choices = [self._bounds(0, delta, strict, mirrored) for mirrored in (False, True)]
        mirrored = bool(choices[1].max() > choices[0].max())
        edge = int(np.argmax(choices[mirrored]))
        return float(self._bounds(1, delta, confidence, mirrored)[edge])

    def _bounds(self, half: int, delta: float, confidence: float, mirrored: bool) -> Array:
        above = self.above(half)
        total = self.counts[half].sum(axis=1)
        hits, false = above[0], above[1]
        if mirrored:  # below the edge, under the other input
            hits, false, total = total[1] - above[1], total[0] - above[0], total[::-1]
        return epsilon_shown(hits, false, total[0], total[1], delta, confidence)


def epsilon_shown(hits: Counts, false: Counts, trials: int, others: int, delta: float, confidence: float) -> Array:
    """ln((P − δ)/Q) at least, for an event seen so often in trials of one input and of the other; 0 shows nothing.

    P and Q are bounded by Clopper and Pearson, each with half of the error allowed.
    """
    error = (1 - confidence) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        low = np.where(hits > 0, betaincinv(hits, trials - hits + 1, error), 0.0)
        high = np.where(false < others, betaincinv(false + 1, others - false, 1 - error), 1.0)
        return np.asarray(np.log(np.maximum((low - delta) / high, 1.0)))


def epsilon_expected(power: float, transcripts: int, delta: float, confidence: float) -> float:
    """What so many transcripts of each input would show of Gaussian releases, whose loss is N(power/2, power)."""
    mu, half = math.sqrt(power), transcripts // 2
    edges = np.linspace(-4, 4, 400) * mu
    hits = np.floor(half * ndtr((power / 2 - edges) / mu)).astype(np.int64)
    false = np.ceil(half * ndtr((-power / 2 - edges) / mu)).astype(np.int64)
    return float(epsilon_shown(hits, false, half, half, delta, confidence).max()) if half else 0.0


def transcripts_needed(power: float, delta: float, confidence: float) -> int | None:
    """The least power of two of transcripts that would show any ε at all; None where a billion would not."""
    for exponent in range(4, 31):
        if epsilon_expected(power, 2**exponent, delta, confidence) > 0:
            return int(2**exponent)
    return None


class Moments:
    """Sums of the loss, and of the noise along the difference of the queries, which makes it.

    Given the releases before, a release adds power/2 to the loss, with variance its power; whatever the run does, the
    noise along the difference is a standard normal.
    """

    def __init__(self) -> None:
        self.count = self.numbers = 0
        self.loss = self.power = self.square = self.along = self.along_square = 0.0

    def add(self, seen: Seen) -> None:
        self.count += seen.loss.size
        self.loss += float(seen.loss.sum())
        self.power += float(seen.power.sum())
        self.square += float(((seen.loss - seen.power / 2) ** 2).sum())
        along = seen.along[~np.isnan(seen.along)]
        self.numbers += along.size
        self.along += float(along.sum())
        self.along_square += float((along**2).sum())

    @property
    def mean(self) -> tuple[float, float]:
        """The mean loss, measured and predicted."""
        return self.loss / self.count, self.power / self.count / 2

    @property
    def variance(self) -> tuple[float, float]:
        """The variance of the loss about its prediction, measured and predicted."""
        return self.square / self.count, self.power / self.count

    def checks(self) -> list[Check]:
        if not self.numbers:
            return []
        # Towards the neighbour the loss is smaller.
        score = -self.along / math.sqrt(self.numbers)
        spread = self.along_square / self.numbers
        return [
            Check(chance(np.array([score])), f"the mean of the loss is {score:+.1f} standard errors off"),
            Check(
                chance_of_squares(np.array([self.along_square]), self.numbers),
                f"the variance of the loss is {spread:.4f} of the predicted one",
            ),
        ]


class Noise:
    """Sums of what is left of each release: mean 0 and variance 1, but for what the dither adds, and Gaussian."""

    def __init__(self, d: int, excess: Array) -> None:
        self._expected = 1 + excess
        # Of either input alone: an error in a query may have opposite signs in the two.
        self._sums, self._counts = np.zeros((2, excess.size, d)), np.zeros(2)
        self._squares = np.zeros(excess.size)
        self._cells: Counts = np.zeros(CELLS, dtype=np.int64)
        self._largest = 0.0

    def add(self, world: int, noise: Array) -> None:
        self._sums[world] += noise.sum(axis=0)
        self._counts[world] += len(noise)
        self._squares += np.einsum("rtd,rtd->t", noise, noise)
        scaled = (noise / np.sqrt(self._expected)[:, None]).ravel()
        self._cells += np.bincount(np.searchsorted(QUANTILES, scaled), minlength=CELLS)
        self._largest = max(self._largest, float(np.abs(scaled).max()))

    @property
    def count(self) -> int:
        """How many numbers a release has, in all transcripts together."""
        return int(self._counts.sum()) * self._sums.shape[2]

    @property
    def variances(self) -> Array:
        """(releases,): the variance of the noise over the claimed one."""
        return np.asarray(self._squares / self.count / self._expected)

    def checks(self) -> list[Check]:
        scores = self._sums / np.sqrt(self._counts[:, None, None] * self._expected[:, None])
        _, release, coordinate = np.unravel_index(np.argmax(np.abs(scores)), scores.shape)
        at = int(np.argmax(np.abs(self.variances - 1)))
        squares, total = self._squares / self._expected, float(np.sum(self._squares / self._expected))
        numbers, misfit, free = self.count * squares.size, self._misfit(), CELLS - 1
        beyond = float(erfc(self._largest / math.sqrt(2)))
        return [
            Check(
                chance(scores),
                f"the noise has a mean: {worst(scores)} standard errors in release {release + 1}, "
                f"coordinate {coordinate + 1}",
            ),
            Check(
                chance_of_squares(squares, self.count),
                f"the noise of release {at + 1} has {self.variances[at]:.4f} of the claimed variance",
            ),
            Check(
                chance_of_squares(np.array([total]), numbers),
                f"the noise of all releases has {total / numbers:.5f} of the claimed variance",
            ),
            Check(
                chance_of_squares(np.array([misfit]), free),
                f"the noise is not Gaussian: χ² of its distribution is {misfit:.0f}, and {free} was to be expected",
            ),
            Check(
                2 * min(0.5, numbers * beyond, math.exp(numbers * math.log1p(-min(beyond, 0.5)))),
                f"the noise is not Gaussian: the largest of {numbers:,} numbers is {self._largest:.2f} σ",
            ),
        ]

    def _misfit(self) -> float:
        """χ² of all of it in cells of equal probability."""
        expected = float(self._cells.sum()) / CELLS
        return float(np.sum((self._cells - expected) ** 2)) / expected


def chance(scores: Array) -> float:
    """How likely one of so many standard normals is as far out as the farthest of these, at most."""
    return min(1.0, scores.size * float(erfc(np.abs(scores).max() / math.sqrt(2))))


def chance_of_squares(squares: Array, numbers: int) -> float:
    """How likely one of so many sums of squares of standard normals is as far out, either way, at most."""
    below, above = gammainc(numbers / 2, squares / 2), gammaincc(numbers / 2, squares / 2)
    return min(1.0, squares.size * 2 * float(np.minimum(below, above).min()))


def worst(scores: Array) -> str:
    """The score that is farthest out."""
    flat = scores.ravel()
    return f"{flat[np.argmax(np.abs(flat))]:+.1f}"


def least_score(error: float, scores: int) -> float:
    """The score from which on chance is ruled out with this error, where there are so many."""
    return float(-ndtri(error / (2 * scores)))
