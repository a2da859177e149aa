"""What is publicly known of a problem: all that a plan may depend on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError
from fastldp.privacy.ledger import Sensitivity, rounding_of
from fastldp.validation import integer, real, whole_numbers

# The theorem's limit on the step, beside 1/L_f.
LARGEST_STEP = 0.25


@dataclass(frozen=True, eq=False)
class Facts:
    """Public numbers of a problem; `problem.facts` gives them where they are public.

    Parameters
    ----------
    sizes : mᵢ, the samples of each worker.
    dimension : d.
    bound : B, which no sample's gradient exceeds.
    l2 : the weight of ½‖x‖².
    curvature : the largest second derivative of the loss in the margin: 1/4 of the logistic, 1 of the squared.
    radius : the norm no row exceeds; B where it is not given, as for the logistic loss.

    >>> facts = Facts(sizes=[100] * 20, dimension=22, bound=1.3, l2=0.1)
    >>> facts.n, facts.step_limit
    (20, 0.25)
    """

    sizes: NDArray[np.int64]
    dimension: int
    bound: float
    l2: float = 0.0
    curvature: float = 0.25
    radius: float | None = None
    read_off_data: str = ""
    """What of these is not public but was read off the data; a plan made of it says so."""

    def __init__(
        self,
        sizes: ArrayLike,
        dimension: int,
        bound: float,
        l2: float = 0.0,
        curvature: float = 0.25,
        radius: float | None = None,
        *,
        read_off_data: str = "",
    ) -> None:
        remedy = "give a whole number ≥ 1 for each worker"
        counts = whole_numbers("sizes", sizes, np.size(np.asarray(sizes, dtype=object)), remedy)
        if counts.size == 0 or counts.min() < 1:
            raise ArgumentError("sizes", sizes, remedy)
        counts.setflags(write=False)
        above = "give a finite number > 0"
        bound = real("bound", bound, above, above=0)
        values = {
            "sizes": counts,
            "dimension": integer("dimension", dimension, "give a whole number ≥ 1", at_least=1),
            "bound": bound,
            "l2": real("l2", l2, "give a finite number ≥ 0", at_least=0),
            "curvature": real("curvature", curvature, above, above=0),
            "radius": bound if radius is None else real("radius", radius, above, above=0),
            "read_off_data": read_off_data,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """How many workers there are."""
        return int(self.sizes.size)

    @property
    def bend(self) -> float:
        """The largest curvature a sample adds to the objective: curvature · radius²."""
        assert self.radius is not None  # set to B at the latest
        return self.curvature * self.radius**2

    @property
    def smoothness(self) -> float:
        """L: no worker's fᵢ bends more."""
        return self.bend + self.l2

    @property
    def step_limit(self) -> float:
        """min{1/4, n/L}: the theorem's condition on γ, from public numbers."""
        return min(LARGEST_STEP, self.n / self.smoothness)

    @property
    def sensitivity(self) -> NDArray[np.float64]:
        """(n,): 2B/(n mᵢ) and a rounding error, how far one sample moves a release of Algorithm 1."""
        return Sensitivity.of_means(self.bound, self.n, self.sizes, rounding_of(self.sizes)).total
