"""What a block of runs must know of a method: its kernels, their arrays, and where the models are in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fastldp.composite import Composite
from fastldp.kernels.gradient import Rooms
from fastldp.regularizers import Regularizer

Array = NDArray[np.float64]


class Layout(Protocol):
    """How arrays are laid out in lanes: a block."""

    def zeros(self, *shape: int) -> NDArray[Any]:
        """An array of zeros with lanes."""

    def rooms(self, d: int) -> Rooms:
        """Where gradients of d numbers are made."""

    def stack(self, values: Iterable[Any]) -> NDArray[Any]:
        """A value of each kind of run, in the lanes that hold it."""

    def no_failures(self) -> NDArray[np.int64]:
        """Where the kernels note the first round that failed."""


class Program(ABC):
    """A method with the numbers of one run; runs in a block have programs of the same kind."""

    memory: ClassVar[tuple[str, ...]]
    """The fields of the state that are a run, between calls; the rest is room to work in."""
    lanes_of_samples: ClassVar[bool] = False
    """Whether a run alone may put samples in the lanes."""
    local_steps: int = 1
    """The releases of a round."""
    server_step: float = 1.0
    """What the server multiplies the mean of the workers' moves by."""
    early_releases: int = 0
    """Those before the first round."""
    clip: float | None = None
    """The method's own clipping threshold."""
    private: bool = True
    """Whether a budget is to be kept, at whatever points."""
    variance: float = 0.0
    """That of the noise in a release, the mean over the workers, of methods that make use of it."""

    def __init__(self, step: float) -> None:
        self.step = step

    @property
    def kind(self) -> tuple[Any, ...]:
        """What programs must have in common to share a block."""
        return type(self), self.local_steps, self.early_releases

    def releases(self, rounds: int) -> int:
        """How many noisy gradients a worker releases in so many rounds."""
        return self.early_releases + self.local_steps * rounds

    def broadcasts(self, rounds: int) -> int:
        """How often the server answers in so many rounds."""
        return rounds + (self.early_releases > 0)

    @abstractmethod
    def divisors(self, problem: Composite) -> Array:
        """(n,): what a release divides the sum of a worker's gradients by: its mean over 1/wᵢ, 1/(n wᵢ) or 1."""

    def server_shares(self, problem: Composite) -> Array:
        """(n,): what the server multiplies each worker's by before it takes the mean: 1 where releases are weighted."""
        return np.ones(problem.n)

    def threshold(self, problem: Composite) -> float:
        """The norm each sample's gradient is clipped to: the method's or the problem's; infinite if none is."""
        return problem.clip if self.clip is None else min(self.clip, problem.clip)

    def enforced(self, problem: Composite) -> float:
        """The norm kernels hold each sample's gradient to at every point; infinite where the loss does so itself."""
        clip = self.threshold(problem)
        return min(clip, problem.enforced_bound) if self.private else clip

    def regularizer(self, problem: Composite) -> Regularizer:
        """The regularizer whose prox kernels take, at the scale that the method gives them."""
        return problem.regularizer

    @abstractmethod
    def state(self, layout: Layout, problem: Composite) -> Any:
        """The kernels' state, all zeros."""

    @abstractmethod
    def method(self, layout: Layout, problems: Sequence[Composite], programs: Sequence[Any]) -> Any:
        """The kernels' numbers, of each kind of run in the lanes."""

    def ahead(self, layout: Layout, method: Any, programs: Sequence[Any], begin: int, end: int) -> Any:
        """The kernels' numbers, with those that depend on the round laid out for the rounds begin + 1 to end."""
        return method

    def during(self, method: Any, part: slice) -> Any:
        """Of what `ahead` laid out, a part."""
        return method

    @abstractmethod
    def begin(self, state: Any, start: Array) -> None:
        """Put a state back to the start."""

    def warm_up(self, state: Any, samples: Any, objective: Any, method: Any, release: Any, seen: Any) -> None:
        """What is released before the first round."""
        raise NotImplementedError(f"{type(self).__name__} has no early releases")

    @abstractmethod
    def models(self, state: Any) -> NDArray[Any]:
        """(n, d, lanes), or (1, d, lanes) where all workers hold the same: the models that are measured."""
