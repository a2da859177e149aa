"""Clipping that adapts: the threshold follows a quantile of the samples' gradients, by counts that workers release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import ArgumentError
from fastldp.privacy.ledger import ADAPTIVE, UNIT_ROUNDOFF
from fastldp.problems.composite import threshold
from fastldp.validation import integer, real

Array = NDArray[np.float64]

# How far the threshold may go from its start, up or down.
REACH = 1e6
# Dividing by the threshold adds so much, in units of the bound, to the rounding of a query; and a count has as much.
ROUNDING = 2 * UNIT_ROUNDOFF
# Neighbouring thresholds at which steps are planned; between them ln step is linear in ln C.
KNOT = 2.0


@dataclass(frozen=True)
class AdaptiveClip:
    """Clip each sample's gradient to a norm C that follows a quantile of them; nothing has to be known of the data.

    Every few rounds each worker also releases how many of its samples have a gradient shorter than C, with noise of its
    own, through the same release and ledger as gradients (after Andrew, Thakkar, McMahan, Ramaswamy 2021, whose server
    is trusted). The server adds them up to a share p of all samples, and C ← C·exp(−η(p − q)). So C is made of
    releases: rounds after it may depend on it.

    Parameters
    ----------
    quantile : float
        q, in (0, 1): the share of the samples whose gradients are to stay as they are.
    start : float
        C of the first rounds. It is kept within a factor of 10⁶ of it.
    every : int
        A count in every so many rounds; there must be more of these.
    share : float
        What the counts may spend of ρ, in (0, 1).
    rate : float
        η > 0.

    Examples
    --------
    >>> AdaptiveClip(quantile=0.9)
    AdaptiveClip(quantile=0.9, start=1.0, every=10, share=0.05, rate=0.3)
    """

    quantile: float = 0.8
    start: float = 1.0
    every: int = 10
    share: float = 0.05
    rate: float = 0.3

    def __post_init__(self) -> None:
        between = "give a number between 0 and 1"
        checked = {
            "quantile": real("quantile", self.quantile, f"{between}, such as 0.8", above=0, below=1),
            "start": threshold("start", self.start),
            "every": integer("every", self.every, "give a number of rounds ≥ 1", at_least=1),
            "share": real("share", self.share, f"{between}, such as 0.05: of the budget", above=0, below=1),
            "rate": real("rate", self.rate, "give a finite number > 0, such as 0.3", above=0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def counted(self, rounds: int) -> NDArray[np.int64]:
        """The rounds that count: every so many, but for the last, after which nothing is clipped any more.

        >>> AdaptiveClip(every=10).counted(30).tolist()
        [10, 20]
        """
        found = np.arange(self.every, rounds, self.every, dtype=np.int64)
        if not found.size:
            remedy = f"fewer than one count: give more than every = {self.every}, or AdaptiveClip(every=...) less"
            raise ArgumentError("rounds", rounds, remedy)
        return found

    def gains(self, rounds: int) -> Array:
        """(T,): η of the rounds that count, and 0 of the others."""
        found = np.zeros(rounds)
        found[self.counted(rounds) - 1] = self.rate
        return found


def checked_clip(clip: Any) -> float | AdaptiveClip:
    """A norm, or how it adapts."""
    if isinstance(clip, AdaptiveClip):
        return clip
    if isinstance(clip, str):
        if clip != ADAPTIVE:
            raise ArgumentError("clip", clip, f'give a norm, "{ADAPTIVE}", or an AdaptiveClip(quantile=0.8)')
        return AdaptiveClip()
    return threshold("clip", clip)


class Limits(NamedTuple):
    """Where the threshold starts, and what it keeps to; all public."""

    start: float
    least: float
    most: float

    @classmethod
    def of(cls, clip: AdaptiveClip, bound: float, precision: str) -> Limits:
        """Within reach of its start, and of the problem's bound where it has one."""
        start = min(threshold("start", clip.start, precision), bound)
        return cls(start, start / REACH, min(start * REACH, bound))


@dataclass(frozen=True, eq=False)
class Adapting:
    """How the runs of a schedule adapt their threshold: all that is known of it beforehand."""

    clip: AdaptiveClip
    limits: Limits
    gains: Array
    """(T,): η of each round, 0 where nothing is counted."""
    part: float
    """1/M, what a sample is of all."""
    knots: Array
    """Thresholds, ascending, at which the step was planned."""
    paces: Array
    """The step there, over that at the start; ones where it does not depend on the threshold."""
    deviations: Array
    """(T,): σ of a count up to each worker's factor; zeros without a budget, and where nothing is counted."""
    factors: Array
    """(n,): what worker i multiplies it by."""

    def noised(self, variances: Array, factors: Array) -> Adapting:
        """The same with the variances of the counts."""
        deviations = np.zeros_like(self.gains)
        deviations[self.gains > 0] = np.sqrt(variances)
        return replace(self, deviations=deviations, factors=np.sqrt(factors))

    def bends(self, count: int) -> tuple[Array, Array]:
        """ln C of the knots, and ln of the pace at the first with what its slope changes by at each; so many."""
        at, paces = np.log(self.knots), np.log(self.paces)
        slopes = np.append(np.diff(paces) / np.diff(at), 0.0)
        more = count - at.size
        return np.pad(at, (0, more), mode="edge"), np.pad(
            np.concatenate([paces[:1], np.diff(slopes, prepend=0.0)]), (0, more)
        )

    def follow(self, counts: Array) -> tuple[Array, Array]:
        """(transcripts, T): thresholds and paces of the rounds, from what all workers released in those before."""
        thresholds, paces = np.ones((2, *counts.shape[:2]))
        now = np.full(len(counts), self.limits.start)
        for t in range(counts.shape[1]):
            thresholds[:, t], paces[:, t] = now, self.pace(now)
            if self.gains[t] > 0:
                apart = counts[:, t].sum(axis=1) - self.clip.quantile
                now = np.clip(now * np.exp(-self.gains[t] * apart), *self.limits[1:])
        return thresholds, paces

    def pace(self, thresholds: Array) -> Array:
        """What steps are multiplied by at these."""
        return np.exp(np.interp(np.log(thresholds), np.log(self.knots), np.log(self.paces)))
