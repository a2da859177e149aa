"""What solves, ledgers, blocks and sweeps ask of a problem, whatever its fᵢ are."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp.describing import described, section
from fastldp.errors import ArgumentError, DataError, UnboundedGradientError
from fastldp.measures import ACCURACY
from fastldp.privacy.ledger import rounding_of
from fastldp.problems.facts import Facts
from fastldp.problems.prior import Prior
from fastldp.problems.weighting import UNIFORM, WEIGHTINGS, divisors_of, shares_of
from fastldp.regularizers import Regularizer, Zero
from fastldp.validation import integer, is_scalar, known_name, real, whole_numbers

Vector = NDArray[np.float64]

# Of data and of a start, so that no square or sum of squares of a run overflows.
LARGEST_ENTRY = {"float64": 1e140, "float32": 1e15}
# Of norms that gradients are clipped to; the least is one over it. Squares of smaller ones vanish: nothing is clipped.
LARGEST_THRESHOLD = {"float64": 1e140, "float32": 1e20}


def threshold(argument: str, value: float, precision: str = "float64") -> float:
    """A norm that gradients are clipped to, whose square neither vanishes nor overflows in this precision."""
    largest = LARGEST_THRESHOLD[precision]
    remedy = f"give a finite number > 0, from {1 / largest:g} to {largest:g} in {precision}"
    return real(argument, value, remedy, at_least=1 / largest, below=2 * largest)


class Composite(ABC):
    """minimise Σᵢ wᵢ fᵢ(x) + g(x), where worker i holds the samples of fᵢ; wᵢ is 1/n, or its share of all rows."""

    lanes_of_runs: ClassVar[bool] = True
    """Whether runs ride in lanes together; where they do not, each is a block of its own."""
    has_optimum: ClassVar[bool] = True
    """Whether there is an x* to measure distances by."""

    loss: Any
    """A `Loss`, or the word for a network's."""
    dtype: str
    """The arithmetic of models, messages and releases."""
    l2: float
    regularizer: Regularizer
    n: int
    d: int
    starts: NDArray[np.int64]
    """(n + 1,): worker i holds rows starts[i] to starts[i + 1]; rows are sorted by worker."""
    sizes: NDArray[np.int64]
    weighting: str = UNIFORM
    """How the workers are weighted: ``"uniform"``, or by their ``"rows"``."""
    shares: Vector
    """(n,): n wᵢ, what each worker counts beside a uniform weight."""
    divisors: Vector
    """(n,): mᵢ/wᵢ, what the sum of a worker's gradients is divided by in ∇f."""
    row_bound: float | None = None
    """A public norm that no row exceeds."""
    least_curvature: float = 0.0
    """What the second derivative of the loss never falls below."""
    _public_bound: float | None

    def _set_parameters(
        self, l2: float, regularizer: Regularizer | None, bound: float | None, weighting: str = UNIFORM
    ) -> None:
        """All that is not the data, checked before the data is touched; the bound is public."""
        self.l2 = real("l2", l2, "give a finite number ≥ 0", at_least=0)
        if regularizer is not None and not isinstance(regularizer, Regularizer):
            raise ArgumentError("regularizer", regularizer, "give an instance such as BoxL1(0.01, 10.0)")
        self.regularizer = Zero() if regularizer is None else regularizer
        self._public_bound = bound
        self.weighting = known_name("weighting", weighting, WEIGHTINGS)

    def _weigh(self) -> None:
        """What follows from the sizes of the shards and the weighting."""
        self.shares = shares_of(self.weighting, self.sizes)
        self.divisors = divisors_of(self.weighting, self.sizes)

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """All that defines it but data, shards and regularizer, in plain values."""

    @abstractmethod
    def replace(self, **changes: Any) -> Composite:
        """The same data, shared and not copied, with other parameters."""

    def alike(self, **changes: Any) -> Composite:
        """Deprecated: the old name of `replace`."""
        warnings.warn("alike() is now called replace()", DeprecationWarning, stacklevel=2)
        return self.replace(**changes)

    @property
    @abstractmethod
    def data(self) -> tuple[Any, ...]:
        """The arrays that hold the data: problems with the same ones may share a block."""

    @property
    @abstractmethod
    def work(self) -> int:
        """What a pass over the data costs, in products taken one by one in every lane."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of samples and shards: the same data give the same, on every machine."""

    @property
    def definition(self) -> str:
        """A digest of all that defines it: data, shards, parameters and regularizer. Keys are of it: never kept."""
        text = section([self.fingerprint, self.parameters, described(self.regularizer)])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    @abstractmethod
    def step_limit(self) -> float:
        """The theorem's condition on the step γ; infinite where no theorem speaks of the problem."""

    @property
    @abstractmethod
    def safe_step(self) -> float:
        """The default step."""

    @property
    @abstractmethod
    def public_constants(self) -> bool:
        """Whether the step a run takes by default owes nothing to the data."""

    @property
    @abstractmethod
    def safe_strong_convexity(self) -> float:
        """The μ_f that the noise is allocated by."""

    @property
    @abstractmethod
    def gradient_bound(self) -> float:
        """B: no sample's gradient is larger."""

    @property
    def gradient_size(self) -> float:
        """About how long a sample's gradient is: B, or where there is none a guess."""
        try:
            return self.gradient_bound
        except UnboundedGradientError:
            return 1.0

    @property
    @abstractmethod
    def bound_source(self) -> str:
        """Where B comes from: ``"public"``, ``"data"``, or ``"set"`` (data and the regularizer's set)."""

    @property
    def public_bound(self) -> float | None:
        """The bound that was given, None where none was."""
        return self._public_bound

    @property
    def clip(self) -> float:
        """The norm each sample's gradient is clipped to: the public bound, infinite where there is none."""
        return np.inf if self._public_bound is None else self._public_bound

    @property
    def enforced_bound(self) -> float:
        """The norm kernels hold each sample's gradient to, so that B holds whatever point a server sends."""
        return self.clip

    @property
    def precision(self) -> str:
        """The arithmetic of the gradients."""
        return self.dtype

    @property
    def facts(self) -> Facts:
        """The public numbers of it, for `fastldp.plan`; refuses where a number was read off the data.

        >>> import numpy as np, fastldp as fl
        >>> fl.Problem(np.eye(40), np.ones(40), workers=20, gradient_bound=1.0).facts.step_limit
        0.25
        """
        found = self.facts_of_data()
        if found.read_off_data:
            raise ArgumentError(
                "facts",
                found.read_off_data,
                "read off the data, so no plan to deploy may depend on it; give a public row_bound= (for the logistic "
                'loss with gradient_bound="half") or gradient_bound=; for studies problem.facts_of_data() has these '
                "all the same",
            )
        return found

    def facts_of_data(self, threshold: float | None = None) -> Facts:
        """The same with numbers read off the data where there are no public ones; says which in `read_off_data`.

        A method that clips to a threshold of its own needs no other bound.
        """
        remedy = "give rounds=, and algorithm=PrimalDual(step=0.2) or another with a step"
        raise ArgumentError("problem", self, f"how it bends is not known, so that nothing can be planned; {remedy}")

    def facts_at(self, threshold: float, typical: float) -> Facts:
        """The same where nothing is known of the rows but the norm of gradients at zero, which are clipped so."""
        return self.facts_of_data()

    def exact_prior(self) -> Prior:
        """What a planner can know at most: the Hessian at the optimum, and the optimum; private, for studies."""
        raise ArgumentError("problem", self, "it has no certified optimum; give a Prior(...)")

    @property
    def rows_exceed_bounds(self) -> bool:
        """Whether a row is longer than the default step takes rows to be."""
        return False

    @property
    def public_radius(self) -> bool:
        """Whether it is publicly known how long a row can be."""
        return False

    @property
    def rounding(self) -> Vector:
        """(n,): how far rounding may move the mean of a worker's gradients, in B, where one sample changes."""
        return rounding_of(self.sizes)

    def start(self) -> Vector:
        """Where runs begin by default; public."""
        return np.zeros(self.d)

    @abstractmethod
    def optimum(self) -> Vector:
        """x*."""

    @abstractmethod
    def objective(self, x: ArrayLike) -> float:
        """Σ wᵢ fᵢ(x) + g(x)."""

    @abstractmethod
    def gradient(self, x: ArrayLike) -> Vector:
        """Σ wᵢ ∇fᵢ(x): the gradient of the smooth part."""

    @abstractmethod
    def accuracy(self, x: ArrayLike) -> float:
        """The share of the test data that a model gets right."""

    @property
    def tested(self) -> bool:
        """Whether there are test data to measure the accuracy on."""
        return False

    @property
    def tested_fingerprint(self) -> str:
        """The fingerprint, and that of the test data where there are any: no run depends on these, its records do."""
        return self.fingerprint

    def measure(self, x: Vector) -> Mapping[str, float]:
        """What is measured of a recorded model beside the errors, by name."""
        return {"objective": self.objective(x)} | self._on_test_data(x)

    def _on_test_data(self, x: Vector) -> dict[str, float]:
        return {ACCURACY: self.accuracy(x)} if self.tested else {}

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of what `measure` gives."""
        return ("objective", ACCURACY) if self.tested else ("objective",)


def shards(rows: int, workers: int | ArrayLike) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """The order that sorts rows by worker, None where they are, and where each worker's begin."""
    if is_scalar(workers):
        n = integer("workers", workers, "give a whole number ≥ 1, or one worker number a row", at_least=1)
        if n > rows:
            raise DataError("workers", n, f"there are only {rows} rows; give at most one worker a row")
        smaller, larger = divmod(rows, n)
        sizes = np.full(n, smaller, dtype=np.int64)
        sizes[:larger] += 1
        return None, np.concatenate([[0], np.cumsum(sizes)])
    owners = whole_numbers(
        "workers", workers, rows, f"give a whole number, or {rows} whole numbers: one worker a row", DataError
    )
    if owners.min() < 0:
        raise DataError("workers", int(owners.min()), "number the workers from 0")
    # A number beyond the rows leaves a gap below it, and is not worth an array of that size.
    numbers_used = np.unique(owners)
    if numbers_used[-1] != numbers_used.size - 1:
        empty = int(np.flatnonzero(numbers_used != np.arange(numbers_used.size))[0])
        raise DataError("workers", owners, f"worker {empty} has no rows; number the workers 0 to n − 1 without gaps")
    starts = np.concatenate([[0], np.cumsum(np.bincount(owners))]).astype(np.int64)
    return (None if (np.diff(owners) >= 0).all() else np.argsort(owners, kind="stable")), starts
