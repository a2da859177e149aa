"""What transcripts show, added up chunk by chunk: the privacy loss, a lower bound on ε, and the noise itself."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from fastldp.auditing.adversary import Seen

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# Checks that a sound mechanism fails fewer than once in a million audits, all together.
FALSE_ALARM = 1e-6
BINS = 4000
# All pairs of so many releases are checked for correlation.
MOST_RELEASES = 512
# Cells of equal probability that the noise is counted in.
CELLS = 64
QUANTILES = ndtri(np.arange(1, CELLS) / CELLS)
# The histogram of losses reaches so many standard deviations beyond the two means.
REACH = 8.0


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
    """Sums of the loss about its prediction: given those before, a release adds power/2, with variance its power."""

    def __init__(self) -> None:
        self.count = 0
        self.loss = self.power = self.apart = self.square = self.excess = 0.0

    def add(self, seen: Seen) -> None:
        # A martingale whose square grows by the power: mean 0 and variance E[power], whatever the run does.
        apart = seen.loss - seen.power / 2
        excess = apart**2 - seen.power
        self.count += seen.loss.size
        self.loss += float(seen.loss.sum())
        self.power += float(seen.power.sum())
        self.apart += float(apart.sum())
        self.square += float((apart**2).sum())
        self.excess += float((excess**2).sum())

    @property
    def mean(self) -> tuple[float, float]:
        """The mean loss, measured and predicted."""
        return self.loss / self.count, self.power / self.count / 2

    @property
    def variance(self) -> tuple[float, float]:
        """The variance of the loss about its prediction, measured and predicted."""
        return self.square / self.count, self.power / self.count

    def scores(self) -> tuple[float, float]:
        """How many standard errors mean and variance are off."""
        spread = math.sqrt(max(self.excess, 1e-300))
        return self.apart / math.sqrt(max(self.power, 1e-300)), (self.square - self.power) / spread


class Noise:
    """Sums of what is left of each release: mean 0 and variance 1, but for what the dither adds, and Gaussian."""

    def __init__(self, releases: int, excess: Array) -> None:
        self._sums, self._squares = np.zeros(releases), np.zeros(releases)
        self._count = 0
        self._expected = 1 + excess
        self._cells: Counts = np.zeros(CELLS, dtype=np.int64)

    def add(self, noise: Array) -> None:
        self._sums += noise.sum(axis=(0, 2))
        self._squares += np.einsum("rtd,rtd->t", noise, noise)
        self._count += noise.shape[0] * noise.shape[2]
        scaled = (noise / np.sqrt(self._expected)[:, None]).ravel()
        self._cells += np.bincount(np.searchsorted(QUANTILES, scaled), minlength=CELLS)

    def scores(self) -> tuple[Array, Array]:
        """Of every release, how many standard errors its mean and its variance are off."""
        means = self._sums / np.sqrt(self._count * self._expected)
        variances = (self._squares / self._count / self._expected - 1) * math.sqrt(self._count / 2)
        return means, variances

    def misfit(self) -> Array:
        """χ² of all of it in cells of equal probability, as a standard normal (Wilson and Hilferty)."""
        expected, free = self._cells.sum() / CELLS, CELLS - 1
        chi_squared = float(np.sum((self._cells - expected) ** 2)) / expected
        return np.array([((chi_squared / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))])

    @property
    def variances(self) -> Array:
        """(releases,): the variance of the noise over the claimed one."""
        return np.asarray(self._squares / self._count / self._expected)


def correlations(noise: Array, others: dict[str, Array]) -> dict[str, Array]:
    """Standard errors by which noise is correlated, in value and in size, with itself and with other noise.

    Between all pairs of rounds and of coordinates, next transcripts, and all pairs of a round here and one there.
    """
    scores = {}
    for how, own, theirs in (
        ("", noise, others),
        (", in size", _sizes(noise), {name: _sizes(other) for name, other in others.items()}),
    ):
        rows = _rounds(own)
        scores[f"transcripts{how}"] = np.array([np.sum(own[:-1] * own[1:]) / math.sqrt(own[1:].size)])
        if len(rows) > 1:
            scores[f"rounds{how}"] = _pairs(rows)
        if own.shape[2] > 1:
            scores[f"coordinates{how}"] = _pairs(own.transpose(2, 0, 1).reshape(own.shape[2], -1))
        for name, other in theirs.items():
            scores[name + how] = (rows @ _rounds(other).T / math.sqrt(rows.shape[1])).ravel()
    return scores


def _sizes(noise: Array) -> Array:
    return np.asarray((noise**2 - 1) / math.sqrt(2))


def _rounds(noise: Array) -> Array:
    """(releases, numbers): of long runs the first and the last releases, so that all pairs fit in memory."""
    half = MOST_RELEASES // 2
    some = noise if noise.shape[1] <= MOST_RELEASES else np.concatenate([noise[:, :half], noise[:, -half:]], axis=1)
    return some.transpose(1, 0, 2).reshape(some.shape[1], -1)


def _pairs(series: Array) -> Array:
    gram = series @ series.T / math.sqrt(series.shape[1])
    return np.asarray(gram[np.triu_indices(len(series), k=1)])


def alarming(scores: Array, checks: int) -> bool:
    """Whether any of these scores is too far out for chance, given that so many families of checks are made."""
    limit = -ndtri(FALSE_ALARM / (2 * checks * scores.size))
    return bool(np.abs(scores).max() > limit)
