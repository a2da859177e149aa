"""What is promised: (ε, δ), and the accounting that turns it into ρ."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.errors import BudgetError, DeltaWarning
from fastldp.privacy.conversions import METHODS, epsilon_of, rho_of
from fastldp.validation import integer, is_scalar, known_name, real, reals

# So that its ρ neither vanishes nor overflows in what is computed of it.
LARGEST_EPSILON = 1e30
# A larger δ promises little to anybody, however few samples there are.
LARGEST_DELTA = 1e-3
# Of a budget that is split, so much of ρ is left for what the samplers of all parts take together.
SPARED = 1e-4


@dataclass(frozen=True, eq=False)
class Budget:
    """An (ε, δ)-LDP budget for everything a worker sends, under replacement of one of its samples.

    Parameters
    ----------
    epsilon : float or array of shape (n,)
        ε: one for all workers, or one for each.
    delta : float
        δ, far below one over a worker's samples.
    accounting : str
        ``"zcdp"``, the paper's, ``"zcdp-tight"``, ``"gdp"``, which is exact, or ``"pld"``, which is exact too and takes
        what `Sampling` amplifies into account; by the others every sample counts as if it were in every release.

    Examples
    --------
    >>> round(Budget(epsilon=1.0, delta=1e-4).rho, 6)
    0.025763
    >>> round(Budget(epsilon=1.0, delta=1e-4, accounting="gdp").rho, 6)
    0.049267
    """

    epsilon: float | NDArray[np.float64]
    delta: float
    accounting: str = "zcdp"

    def __post_init__(self) -> None:
        known_name("accounting", self.accounting, METHODS)
        remedy = "give a number strictly between 0 and 1, such as 1e-5"
        delta = real("delta", self.delta, remedy, above=0, below=1, error=BudgetError)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "epsilon", _epsilon(self.epsilon))
        if delta > LARGEST_DELTA:
            warnings.warn(
                f"delta = {delta:g} is above {LARGEST_DELTA:g}: with that probability the promise may fail altogether; "
                "give one far below one over the samples of a worker, such as 1e-5",
                DeltaWarning,
                stacklevel=3,
            )

    @property
    def rho(self) -> float | NDArray[np.float64]:
        """The zCDP budget ρ of each worker, or of all."""
        if isinstance(self.epsilon, float):
            return rho_of(self.epsilon, self.delta, self.accounting)
        return np.array([rho_of(epsilon, self.delta, self.accounting) for epsilon in self.epsilon])

    def split(self, parts: int) -> Budget:
        """The budget of each of so many runs on the same data, which together keep to this one: their ρ add up.

        A ten-thousandth of ρ is left for what the samplers of all of them take. Where drawn samples amplify, by
        ``"pld"`` and with `Sampling`, they do not: what these runs spend does not add up so.

        Parameters
        ----------
        parts : int
            How many runs there are to be.

        Returns
        -------
        Budget
            Of one of them, at the same δ.

        Examples
        --------
        >>> Budget(1.0, 1e-5, accounting="gdp").split(10).epsilon  # doctest: +ELLIPSIS
        0.284...
        """
        count = integer("parts", parts, "give a whole number ≥ 1", at_least=1)
        if count == 1:
            return self
        rhos = np.atleast_1d(np.asarray(self.rho)) * (1 - SPARED) / count
        each = np.array([epsilon_of(rho, self.delta, self.accounting) for rho in rhos.tolist()])
        return Budget(float(each[0]) if isinstance(self.epsilon, float) else each, self.delta, self.accounting)

    def rho_of_workers(self, n: int) -> NDArray[np.float64]:
        """ρ as one number a worker; refuses an array made for another number of workers."""
        if np.ndim(self.epsilon) == 1 and np.size(self.epsilon) != n:
            raise BudgetError("epsilon", self.epsilon, f"give one number, or one for each of the {n} workers")
        return np.broadcast_to(np.asarray(self.rho, dtype=np.float64), (n,)).copy()


def _epsilon(value: float | ArrayLike) -> float | NDArray[np.float64]:
    least, limits = 1 / LARGEST_EPSILON, f"from {1 / LARGEST_EPSILON:g} to {LARGEST_EPSILON:g}"
    remedy = f"give a finite number > 0, such as 1.0; {limits}"
    if is_scalar(value):
        scalar = value.item() if isinstance(value, np.ndarray) else value
        return real("epsilon", scalar, remedy, at_least=least, below=2 * LARGEST_EPSILON, error=BudgetError)
    array = reals("epsilon", value, remedy, BudgetError)
    within = (array >= least) & (array < 2 * LARGEST_EPSILON)
    if array.ndim != 1 or array.size == 0 or not within.all():
        raise BudgetError("epsilon", value, f"give finite numbers > 0, one a worker; {limits}")
    array.setflags(write=False)
    return array
