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
    """Sums of what is left of each release: mean 0 and variance 1, but for what the dither adds."""

    def __init__(self, releases: int, excess: Array) -> None:
        self._sums, self._squares = np.zeros(releases), np.zeros(releases)
        self._count = 0
        self._expected = 1 + excess

    def add(self, noise: Array) -> None:
        self._sums += noise.sum(axis=(0, 2))
        self._squares += np.einsum("rtd,rtd->t", noise, noise)
        self._count += noise.shape[0] * noise.shape[2]

    def scores(self) -> tuple[Array, Array]:
        """Of every release, how many standard errors its mean and its variance are off."""
        means = self._sums / np.sqrt(self._count * self._expected)
        variances = (self._squares / self._count / self._expected - 1) * math.sqrt(self._count / 2)
        return means, variances

    @property
    def variances(self) -> Array:
        """(releases,): the variance of the noise over the claimed one."""
        return np.asarray(self._squares / self._count / self._expected)


def correlations(noise: Array, other: Array | None) -> dict[str, Array]:
    """Standard errors by which noise is correlated: between all rounds, coordinates, next transcripts, and workers."""
    _, rounds, d = noise.shape
    scores = {"transcripts": _score(noise[:-1] * noise[1:])}
    if rounds > 1:
        scores["rounds"] = _pairs(noise.transpose(1, 0, 2).reshape(rounds, -1))
    if d > 1:
        scores["coordinates"] = _pairs(noise.transpose(2, 0, 1).reshape(d, -1))
    if other is not None:
        scores["workers"] = _score(noise * other)
    return scores


def _score(products: Array) -> Array:
    return np.array([products.sum() / math.sqrt(products.size)])


def _pairs(series: Array) -> Array:
    gram = series @ series.T / math.sqrt(series.shape[1])
    return np.asarray(gram[np.triu_indices(len(series), k=1)])


def alarming(scores: Array, checks: int) -> bool:
    """Whether any of these scores is too far out for chance, given that so many families of checks are made."""
    limit = -ndtri(FALSE_ALARM / (2 * checks * scores.size))
    return bool(np.abs(scores).max() > limit)
