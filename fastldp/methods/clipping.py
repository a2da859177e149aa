"""Clipping that adapts: the threshold follows a quantile of the samples' gradients, by counts that workers release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.privacy.ledger import ADAPTIVE, UNIT_ROUNDOFF
from fastldp.problems.composite import threshold
from fastldp.validation import integer, is_scalar, real

Array = NDArray[np.float64]

# Counts before the first round, at most: each takes as long as a round.
MOST_EARLY = 10_000
# How far the threshold may go from its start, up or down.
REACH = 1e6
# Dividing by the threshold adds so much, in units of the bound, to the rounding of a query; and a count has as much.
ROUNDING = 2 * UNIT_ROUNDOFF
# Neighbouring thresholds at which steps are planned; between them ln step is linear in ln C.
KNOT = 2.0


@dataclass(frozen=True)
class AdaptiveClip:
    """Clip each sample's gradient to a norm C that follows a quantile of them; nothing has to be known of the data.

    Each worker releases how many of its samples have a gradient shorter than C, with noise of its own, through the same
    release and ledger as gradients (after Andrew, Thakkar, McMahan, Ramaswamy 2021, whose server is trusted). The
    server adds them up to a share p of all samples, and C ← C·exp(−η(p − q)). So C is made of releases: rounds after it
    may depend on it. By default C is found before the first round and kept: where models move, gradients of samples
    that are learnt shrink, C would follow them, and what is left to learn would be clipped away.

    Parameters
    ----------
    quantile : float
        q, in (0, 1): the share of the samples whose gradients are shorter than what C follows.
    start : float
        C before all counts. It is kept within a factor of 10⁶ of it.
    every : int, optional
        A further count in every so many rounds; none where it is not given.
    share : float
        What the counts may spend of ρ, in (0, 1).
    rate : float
        Of the first count; η of count j is rate/(1 + j/10 + 10σ²), with the variance σ² of the noise in p.
    early : int
        So many counts before the first round, at the start, where no gradient is released.
    factor : float, optional
        What C is multiplied by after these. Where it is not given it is planned: the less noise there is to come, the
        less is clipped.

    Examples
    --------
    >>> AdaptiveClip(quantile=0.8, every=10, early=0)
    AdaptiveClip(quantile=0.8, start=1.0, every=10, share=0.05, rate=2.0, early=0, factor=None)
    """

    quantile: float = 0.5
    start: float = 1.0
    every: int | None = None
    share: float = 0.05
    rate: float = 2.0
    early: int = 40
    factor: float | None = None

    def __post_init__(self) -> None:
        between = "give a number between 0 and 1"
        rounds = "give a number of rounds ≥ 1, or None"
        checked = {
            "quantile": real("quantile", self.quantile, f"{between}, such as 0.5", above=0, below=1),
            "start": threshold("start", self.start),
            "every": None if self.every is None else integer("every", self.every, rounds, at_least=1),
            "share": real("share", self.share, f"{between}, such as 0.05: of the budget", above=0, below=1),
            "rate": real("rate", self.rate, "give a finite number > 0, such as 2", above=0),
            "early": integer(
                "early", self.early, f"give a number from 0 to {MOST_EARLY:,}", at_least=0, at_most=MOST_EARLY
            ),
            "factor": None if self.factor is None else threshold("factor", self.factor),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.every is None and not self.early:
            raise ArgumentError("early", 0, "nothing would be counted; give early= or every=")
        if self.factor is not None and not self.early:
            raise ArgumentError("factor", self.factor, "it is of what is counted before the first round; give early=")

    def counted(self, rounds: int) -> NDArray[np.int64]:
        """The rounds that count: every so many, but for the last, after which nothing is clipped any more.

        >>> AdaptiveClip(every=10).counted(30).tolist()
        [10, 20]
        """
        if self.every is None:
            return np.zeros(0, dtype=np.int64)
        found = np.arange(self.every, rounds, self.every, dtype=np.int64)
        if not found.size:
            remedy = f"fewer than one count: give more than every = {self.every}, or AdaptiveClip(every=...) less"
            raise ArgumentError("rounds", rounds, remedy)
        return found

    def gains(self, count: int, variance: float) -> Array:
        """(count,): η of counts whose shares have noise of this variance."""
        return self.rate / (1 + np.arange(count) / 10 + 10 * variance)


def checked_clip(clip: Any) -> float | AdaptiveClip:
    """A norm, or how it adapts."""
    if isinstance(clip, AdaptiveClip):
        return clip
    if isinstance(clip, str) and clip == ADAPTIVE:
        return AdaptiveClip()
    if not is_scalar(clip) or isinstance(clip, str):
        remedy = f'give a norm, "{ADAPTIVE}", or an AdaptiveClip(quantile=0.8), in TOML {{quantile = 0.8}}'
        raise ArgumentError("clip", clip, f"{remedy}; leave it out for none")
    return threshold("clip", clip)


class Limits(NamedTuple):
    """Where the threshold starts, and what it keeps to; all public."""

    start: float
    least: float
    most: float

    @classmethod
    def of(cls, clip: AdaptiveClip, bound: float, precision: str) -> Limits:
        """Within reach of its start, and of the problem's bound where it has one: that no gradient needs to exceed."""
        start = min(threshold("start", clip.start, precision), bound)
        return cls(start, start / REACH, min(start * REACH, bound))

    def within(self, t: int, factor: float) -> tuple[float, float]:
        """The least and the most of round t; what is multiplied by the factor before the first may exceed the limit."""
        return self.least, self.most / min(1.0, factor) if t < 0 else self.most


@dataclass(frozen=True, eq=False)
class Adapting:
    """How the runs of a schedule adapt their threshold: all that is known of it beforehand."""

    clip: AdaptiveClip
    limits: Limits
    rounds: int
    part: float
    """1/M, what a sample is of all."""
    knots: Array
    """Thresholds, ascending, at which the step was planned."""
    paces: Array
    """The step there, over that of the schedule; ones where it does not depend on the threshold."""
    errors: Array
    """What is expected to be left of the error at the start; NaN where nothing was planned."""
    factor: float
    """What the threshold is multiplied by before the first round."""
    variances: Array
    """Those of all counts, up to each worker's factor; zeros without a budget."""
    factors: Array
    """(n,): what worker i multiplies a count's deviation by."""

    @cached_property
    def _in_order(self) -> Array:
        """η of all counts."""
        # What all workers together add to a share.
        noise = float(np.sum(self.factors**2)) * self.variances
        return self.clip.gains(self.variances.size, float(noise.max(initial=0.0)))

    @property
    def early_gains(self) -> Array:
        """η of the counts before the first round."""
        return self._in_order[: self.clip.early]

    @property
    def early_deviations(self) -> Array:
        """σ of these up to each worker's factor."""
        return np.sqrt(self.variances[: self.clip.early])

    @cached_property
    def gains(self) -> Array:
        """(T,): η of each round, 0 where nothing is counted."""
        return self._spread(self._in_order)

    @property
    def deviations(self) -> Array:
        """(T,): σ of a round's count up to each worker's factor."""
        return self._spread(np.sqrt(self.variances))

    def _spread(self, values: Array) -> Array:
        found = np.zeros(self.rounds)
        found[self.clip.counted(self.rounds) - 1] = values[self.clip.early :]
        return found

    @property
    def reach(self) -> tuple[float, float]:
        """How far ln C goes down and up at most, but for noise: where all samples are within C, and where none is."""
        total = float(self._in_order.sum())
        return total * (1 - self.clip.quantile), total * self.clip.quantile

    @property
    def counts(self) -> int:
        """How many there are."""
        return self.clip.early + self.clip.counted(self.rounds).size

    def bends(self, count: int) -> tuple[Array, Array]:
        """ln C of the knots, and ln of the pace at the first with what its slope changes by at each; so many."""
        at, paces = np.log(self.knots), np.log(self.paces)
        slopes = np.append(np.diff(paces) / np.diff(at), 0.0)
        bends, more = np.concatenate([paces[:1], np.diff(slopes, prepend=0.0)]), count - at.size
        return np.pad(at, (0, more), mode="edge"), np.pad(bends, (0, more))

    def follow(self, early: Array, counts: Array) -> tuple[Array, Array]:
        """(transcripts, counts before the first round + T): thresholds and paces, from what all released before."""
        gains = np.concatenate([self.early_gains, self.gains])
        shares = np.concatenate([early, counts], axis=1).sum(axis=2)
        thresholds, paces = np.ones((2, *shares.shape))
        now, pace = np.full(len(shares), self.limits.start), np.ones(len(shares))
        for t, gain in enumerate(gains, 1 - self.clip.early):
            column = t - 1 + self.clip.early
            thresholds[:, column], paces[:, column] = now, pace
            if gain > 0:
                moved = now * np.exp(-gain * (shares[:, column] - self.clip.quantile))
                # What is multiplied after the last count before the first round may be beyond the limit until then.
                now = np.clip(moved * self.factor if t == 0 else moved, *self.limits.within(t, self.factor))
                pace = self.pace(now)
        return thresholds, paces

    def pace(self, thresholds: Array) -> Array:
        """What steps are multiplied by at these."""
        return self._between(thresholds, self.paces)

    def expected(self, thresholds: Array) -> Array:
        """What a plan expects to be left of the error at the start with these."""
        return self._between(thresholds, self.errors)

    def _between(self, thresholds: Array, values: Array) -> Array:
        """What knots have, in between."""
        return np.exp(np.interp(np.log(thresholds), np.log(self.knots), np.log(values)))

    def line(self) -> str:
        """What is known of the threshold beforehand, in a few words."""
        of = f"{self.clip.quantile:g} quantile of the gradients' norms"
        found = f"{self.factor:.3g} times the {of}" if self.clip.early else f"the {of}"
        going = "" if self.clip.every is None else f", counted again every {self.clip.every} rounds"
        return f"{found}, by {self.counts} noisy counts{going}"
