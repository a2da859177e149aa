"""Which samples a release is made of, and which workers take part in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastldp.errors import ArgumentError
from fastldp.validation import is_scalar, known_name, real

# Coins are words of so many bits, and rates multiples of 2 to the minus that.
BITS = 32
PUBLIC, SECRET = "public", "secret"
CHOICES = (PUBLIC, SECRET)


@dataclass(frozen=True)
class Sampling:
    """Make each release of some of a worker's samples, drawn anew, and each round of some of the workers.

    Every sample has a coin of its own for every release (Poisson sampling), which only its worker sees. A release is
    the sum of the clipped gradients of the drawn samples, divided by what is drawn on average, so that its mean is the
    full gradient. It may be of no sample at all: then it is noise alone.

    Parameters
    ----------
    samples : float
        q, in (0, 1]: with which probability a sample is drawn for a release.
    workers : float
        r, in (0, 1]: with which probability a worker takes part in a round.
    choice : str
        Who knows which workers these are. ``"public"``: everybody, by coins that all have; who does not take part sends
        nothing, and works nothing. ``"secret"``: only each worker, of itself; who does not take part releases noise
        alone, which tells who knows the other samples all the same: nothing is amplified by it.

    Examples
    --------
    >>> Sampling(samples=0.1).sample_rate
    0.10000000009313226
    """

    samples: float = 1.0
    workers: float = 1.0
    choice: str = PUBLIC

    def __post_init__(self) -> None:
        remedy = "give a number above 0, of at most 1"
        for name in ("samples", "workers"):
            rate = real(name, getattr(self, name), remedy, above=0, at_most=1)
            if _limit(rate) < 0:
                raise ArgumentError(name, rate, f"below 2**-{BITS}, which is 0 for coins of so many bits; give more")
            object.__setattr__(self, name, rate)
        known_name("choice", self.choice, CHOICES)
        if self.choice == SECRET and self.workers == 1:
            raise ArgumentError("choice", self.choice, "all workers take part in every round; give workers= below 1")

    @property
    def sample_limit(self) -> int:
        """The largest coin of a sample that is drawn."""
        return _limit(self.samples)

    @property
    def worker_limit(self) -> int:
        """The largest coin of a worker that takes part."""
        return _limit(self.workers)

    @property
    def sample_rate(self) -> float:
        """q as coins have it, exactly: a multiple of 2⁻³²."""
        return (self.sample_limit + 1) / (1 << BITS)

    @property
    def worker_rate(self) -> float:
        """r as coins have it, likewise."""
        return (self.worker_limit + 1) / (1 << BITS)

    @property
    def draws(self) -> bool:
        """Whether there are samples that a release is not of."""
        return self.samples < 1 or self.choice == SECRET

    @property
    def absences(self) -> bool:
        """Whether there are workers that send nothing in a round."""
        return self.workers < 1 and self.choice == PUBLIC

    @property
    def part(self) -> float:
        """The share of a worker's samples that a release is of, on average, of those that are sent."""
        return self.sample_rate * (self.worker_rate if self.choice == SECRET else 1.0)


def _limit(rate: float) -> int:
    return round(rate * (1 << BITS)) - 1


def checked_sampling(sampling: Any) -> Sampling | None:
    """How samples and workers are drawn, a rate of samples alone, or None where all are in every round."""
    if sampling is None or isinstance(sampling, Sampling):
        return None if sampling == Sampling() else sampling
    if not is_scalar(sampling) or isinstance(sampling, str):
        remedy = "give a rate of samples, or a Sampling(samples=0.1), in TOML {samples = 0.1}"
        raise ArgumentError("sampling", sampling, f"{remedy}; leave it out for all of them")
    try:
        return checked_sampling(Sampling(samples=sampling))
    except ArgumentError as error:
        raise error.said_of("sampling") from None
