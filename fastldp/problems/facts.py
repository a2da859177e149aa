"""What is publicly known of a problem: all that a plan may depend on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import ArgumentError
from fastldp.privacy.ledger import Sensitivity, rounding_of
from fastldp.problems.weighting import UNIFORM, WEIGHTINGS, divisors_of, shares_of
from fastldp.validation import integer, known_name, real, whole_numbers

# The theorem's limit on the step, beside 1/L_f.
LARGEST_STEP = 0.25
# So that products and quotients of facts and priors neither overflow nor vanish.
LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class Facts:
    """Public numbers of a problem; `problem.facts` gives them where they are public.

    Parameters
    ----------
    sizes : array of int of shape (n,)
        mᵢ, the samples of each worker.
    dimension : int
        The dimension d.
    bound : float
        B, which no sample's gradient exceeds.
    l2 : float
        The weight of ½‖x‖².
    curvature : float
        The largest second derivative of the loss in the margin: 1/4 of the logistic, 1 of the squared.
    radius : float, optional
        The norm no row exceeds; B where it is not given, as for a logistic loss whose gradients are not clipped.
    read_off_data : str
        What of these is not public but was read off the data; a plan made of it says so.
    weighting : str
        ``"uniform"``, or ``"rows"``: of the workers, as of `Problem`.

    Examples
    --------
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
    weighting: str = UNIFORM

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
        weighting: str = UNIFORM,
    ) -> None:
        remedy = "give a whole number ≥ 1 for each worker"
        counts = whole_numbers("sizes", sizes, np.size(np.asarray(sizes, dtype=object)), remedy)
        if counts.size == 0 or counts.min() < 1:
            raise ArgumentError("sizes", sizes, remedy)
        counts.setflags(write=False)
        above = f"give a number from {1 / LARGEST:g} to {LARGEST:g}"
        bound = real("bound", bound, above, at_least=1 / LARGEST, below=2 * LARGEST)
        values = {
            "sizes": counts,
            "dimension": integer(
                "dimension", dimension, "give a whole number from 1 to 2**31", at_least=1, at_most=2**31
            ),
            "bound": bound,
            "l2": real("l2", l2, f"give a number from 0 to {LARGEST:g}", at_least=0, below=2 * LARGEST),
            "curvature": real("curvature", curvature, above, at_least=1 / LARGEST, below=2 * LARGEST),
            "radius": bound
            if radius is None
            else real("radius", radius, above, at_least=1 / LARGEST, below=2 * LARGEST),
            "read_off_data": read_off_data,
            "weighting": known_name("weighting", weighting, WEIGHTINGS),
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
    def shares(self) -> NDArray[np.float64]:
        """(n,): n wᵢ, what each worker counts beside a uniform weight."""
        return shares_of(self.weighting, self.sizes)

    @property
    def step_limit(self) -> float:
        """min{1/4, 1/(max wᵢ L)}: the theorem's condition on γ, from public numbers."""
        return min(LARGEST_STEP, self.n / float(self.shares.max()) / self.smoothness)

    @property
    def sensitivity(self) -> NDArray[np.float64]:
        """(n,): 2wᵢB/mᵢ and a rounding error, how far one sample moves a release of Algorithm 1."""
        divisors = divisors_of(self.weighting, self.sizes)
        return Sensitivity.of_means(self.bound, divisors, self.sizes, rounding_of(self.sizes)).total
