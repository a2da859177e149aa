"""The problem: shards, loss, regularizer, the constants of the theory, and the certified optimum."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fastldp import memory
from fastldp.describing import described
from fastldp.errors import ArgumentError, UnboundedGradientError
from fastldp.extending import name_of
from fastldp.kernels.formulas import is_ours
from fastldp.losses import NAMES, SIGNS, Logistic, Loss, as_loss
from fastldp.problems.composite import LARGEST_THRESHOLD, Composite, Vector, threshold
from fastldp.problems.facts import Facts
from fastldp.problems.held_out import HeldOut, held_out
from fastldp.problems.optimum import certified_optimum
from fastldp.problems.prior import Prior
from fastldp.problems.rows import (
    called,
    checked_labels,
    checked_matrix,
    digest_of,
    norms_above,
    sharded,
    times,
    within,
)
from fastldp.problems.spectrum import extreme_curvatures
from fastldp.problems.weighting import ROWS, UNIFORM
from fastldp.regularizers import Regularizer
from fastldp.validation import known_name, vector

DTYPES = ("float64", "float32")
# What is computed once and depends on the data alone.
DATA_ALONE = ("_curvatures", "row_norms", "fingerprint")
# Half of what gradients of rows within the row bound can be: those of the logistic loss at x = 0 are no longer.
HALF = "half"


class Problem(Composite):
    """minimise Σᵢ wᵢ fᵢ(x) + g(x), with fᵢ(x) = (1/mᵢ) Σₗ φ(aᵢₗᵀx, bᵢₗ) + (l2/2)‖x‖².

    Parameters
    ----------
    A : array or scipy sparse matrix of shape (rows, d)
        The samples; sparse data stays sparse.
    b : array of shape (rows,)
        Labels, −1 or +1 for the logistic loss and the smoothed hinge, any finite numbers for the others.
    workers : int or array of shape (rows,)
        How many workers share the rows (contiguous shards, as equal as possible), or one worker number, 0 to n − 1, for
        each row.
    loss : str or Loss
        ``"logistic"``, φ = ln(1 + exp(−b·aᵀx)), or ``"squared"``, φ = ½(aᵀx − b)²; or a `Loss`, as `Huber(0.5)`,
        `SmoothedHinge(1.0)` or one of your own.
    l2 : float
        The weight of ½‖x‖², part of every fᵢ.
    regularizer : Regularizer, optional
        g; `Zero()` where it is not given.
    row_bound : float, optional
        A public bound R on the norm of each row, enforced by scaling longer rows down to it, before anything else is
        done with them. The default step is then safe and public, and where slopes are bounded, as those of the logistic
        loss by 1, B = R times that bound is.
    gradient_bound : float or str, optional
        A public bound B on each sample's gradient, enforced by clipping. ``"half"`` is R/2, for the logistic loss: no
        gradient at 0 is longer, so nothing is clipped at the start, and the noise has a quarter of the variance it has
        with B = R. That is most often the best choice; gradients of samples that a model gets badly wrong are then cut
        to half of what they are at most. Where neither bound is given, B is read off the data, which papers do and a
        deployment must not.
    dtype : str
        ``"float64"`` or ``"float32"``, the arithmetic of the runs.
    weighting : str
        ``"uniform"``, wᵢ = 1/n, as the paper has it, or ``"rows"``, wᵢ = mᵢ/M of all M rows, as federated averaging
        does: every sample then counts alike, all workers have the same sensitivity 2B/M, and a shard of few rows does
        not drown the average in its noise.
    test : tuple of arrays, optional
        (A, b) of other samples, to measure the accuracy of recorded models on; for losses of labels ±1. No run depends
        on them.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.eye(4), [1, -1, 1, 1], workers=2, l2=0.1)
    >>> problem.n, problem.d, problem.sizes.tolist()
    (2, 4, [2, 2])
    >>> round(problem.objective(np.zeros(4)), 6)
    0.693147
    """

    loss: Loss

    def __init__(
        self,
        A: Any,
        b: ArrayLike,
        *,
        workers: int | ArrayLike,
        loss: Loss | str = "logistic",
        l2: float = 0.0,
        regularizer: Regularizer | None = None,
        row_bound: float | None = None,
        gradient_bound: float | str | None = None,
        dtype: str = "float64",
        weighting: str = UNIFORM,
        test: tuple[Any, ArrayLike] | None = None,
    ) -> None:
        self.loss = as_loss(loss)
        self.least_curvature = self.loss.least_curvature
        self.dtype = known_name("dtype", getattr(dtype, "__name__", None) or str(dtype), DTYPES)
        self.row_bound = None if row_bound is None else threshold("row_bound", row_bound, self.dtype)
        self._set_parameters(l2, regularizer, self._bound(gradient_bound), weighting)
        rows, labels, starts = sharded(checked_matrix(A, self.dtype), checked_labels(b, self.loss), workers)
        # A copy of its own, so that the caller may change A: labels ±1 are folded in.
        self.rows = times(rows, -labels if self.loss.labels == SIGNS else np.ones(labels.size))
        """The samples, sorted by worker; each times −b where labels are ±1."""
        self.targets = labels if self.loss.labels != SIGNS else np.zeros(labels.size)
        """b; zeros where the rows have it."""
        self.loss.check(self.targets)
        self.starts = starts
        if self.row_bound is not None:
            self.rows = within(self.rows, self.row_bound)
        self._measure()
        self._test = None if test is None else held_out(test, self.loss, self.d, self.dtype)

    def _bound(self, gradient_bound: float | str | None) -> float | None:
        """The public B, checked; what was given is kept beside it."""
        radius = self.row_bound
        if isinstance(gradient_bound, str):
            known_name("gradient_bound", gradient_bound, (HALF,))
            if not self._halves:
                raise ArgumentError(
                    "gradient_bound", HALF, "only gradients of the logistic loss at 0 are within R/2; give a number"
                )
            if radius is None:
                raise ArgumentError(
                    "gradient_bound", HALF, "of what? give a public row_bound= too: no row is longer, or it is scaled"
                )
            self._given_bound: float | str | None = HALF
            return threshold("gradient_bound", self._steepest * radius / 2, self.dtype)
        given = None if gradient_bound is None else threshold("gradient_bound", gradient_bound, self.dtype)
        self._given_bound = given
        if radius is None or self.loss.slope_bound is None:
            return given
        largest = self._steepest * radius
        return largest if given is None else min(given, largest)

    @property
    def _steepest(self) -> float:
        """The bound on the loss's slope, infinite where there is none."""
        return np.inf if self.loss.slope_bound is None else self.loss.slope_bound

    @property
    def _halves(self) -> bool:
        """Whether slopes at 0 are at most half of what they can be, whatever the label."""
        return self.loss.labels == SIGNS and abs(float(self.loss.slope(0.0, 0.0))) <= self._steepest / 2 < np.inf

    def _measure(self) -> None:
        """What follows from the shape of the data."""
        self.sizes = np.diff(self.starts)
        self.n = self.sizes.size
        self.d = int(self.rows.shape[1])
        self.regularizer.check(self.d)  # refuses weights of another length now, not at the solve
        self._weigh()
        # Every sample's share of the objective: wᵢ/mᵢ.
        self._weights = np.repeat(1.0 / self.divisors, self.sizes)

    def replace(self, **changes: Any) -> Problem:
        """The same data, shared and not copied, with another `l2`, `regularizer`, `gradient_bound` or `weighting`.

        Runs of such problems ride in lanes together, if they are weighted alike.

        Examples
        --------
        >>> import numpy as np
        >>> problem = Problem(np.eye(4), [1, -1, 1, 1], workers=2, l2=0.1)
        >>> problem.replace(l2=0.2).l2
        0.2
        """
        known: dict[str, Any] = {
            "l2": self.l2,
            "regularizer": self.regularizer,
            "gradient_bound": self._given_bound,
            "weighting": self.weighting,
        }
        for name in changes:
            known_name("changes", name, tuple(known))
        other = Problem.__new__(Problem)
        other.loss, other.dtype, other.row_bound = self.loss, self.dtype, self.row_bound
        other.least_curvature = self.least_curvature
        given = known | changes
        bound = other._bound(given["gradient_bound"])
        other._set_parameters(given["l2"], given["regularizer"], bound, given["weighting"])
        other.rows, other.targets, other.starts = self.rows, self.targets, self.starts
        other._test = self._test
        other._measure()
        # What depends on the data alone is not computed again.
        other.__dict__ |= {name: self.__dict__[name] for name in DATA_ALONE if name in self.__dict__}
        return other

    def __repr__(self) -> str:
        kind = "sparse" if sparse.issparse(self.rows) else "dense"
        public = "" if self.row_bound is None else f", rows scaled to norms ≤ {self.row_bound:g}"
        if self._given_bound == HALF:
            public += ", gradients clipped to half of that"
        if self.weighting == ROWS:
            public += ", workers weighted by rows"
        return (
            f"Problem({self.loss.name}, {self.rows.shape[0]:,} rows × {self.d:,} {kind}, {self.n} workers, "
            f"l2={self.l2:g}, g={self.regularizer}{public})"
        )

    @property
    def parameters(self) -> dict[str, Any]:
        # What came later is left out where it is not given, so that runs made before are known again.
        later: dict[str, Any] = {} if self.row_bound is None else {"row_bound": self.row_bound}
        return {
            "loss": self.loss.name if type(self.loss) in NAMES.values() else described(self.loss),
            "l2": self.l2,
            "gradient_bound": self._given_bound,
            "dtype": self.dtype,
            "dense": not sparse.issparse(self.rows),
        } | (later if self.weighting == UNIFORM else later | {"weighting": self.weighting})

    @property
    def data(self) -> tuple[Any, ...]:
        return self.rows, self.starts

    @property
    def work(self) -> int:
        return int(self.rows.size)  # of sparse rows, the nonzeros

    @property
    def rounding(self) -> Vector:
        # In single precision it cannot be bounded usefully, and the ledger says so.
        return super().rounding if self.dtype == "float64" else np.zeros(self.n)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of samples and shards: the same data give the same, on every machine."""
        # The loss says what is folded into the rows; its parameters are no part of the data.
        loss = self.loss.name if type(self.loss) in NAMES.values() else name_of(type(self.loss))
        return digest_of(repr((self.rows.shape, loss)), self.rows, self.targets, self.starts)

    # Test data, which no run depends on: they are no part of the fingerprint, of which its noise is made.

    @property
    def tested(self) -> bool:
        """Whether there are test data to measure the accuracy on."""
        return self._test is not None

    @cached_property
    def tested_fingerprint(self) -> str:
        return self.fingerprint if self._test is None else digest_of(self.fingerprint, self._test.rows)

    def accuracy(self, x: ArrayLike, A: Any = None, b: ArrayLike | None = None) -> float:
        """The share of samples whose label is the sign of aᵀx; where that is exactly zero, it is wrong.

        Parameters
        ----------
        x : array of shape (d,)
            The model.
        A : array or scipy sparse matrix of shape (rows, d), optional
            Samples; those of `test` where they are not given.
        b : array of shape (rows,), optional
            Their labels, −1 or +1.

        Returns
        -------
        float
            From 0 to 1.

        Examples
        --------
        >>> import numpy as np
        >>> problem = Problem(np.eye(2), [1, -1], workers=1, test=(np.eye(2), [1, -1]))
        >>> problem.accuracy([1.0, -2.0]), problem.accuracy([1.0, 0.0])
        (1.0, 0.5)
        """
        x = vector("x", x, self.d, f"give {self.d} finite numbers")
        own = A is None and b is None
        return (self._known_test if own else held_out((A, b), self.loss, self.d, self.dtype)).accuracy(x)

    @property
    def majority(self) -> float:
        """The accuracy of always giving the label that most of the test data have: what a model has to exceed."""
        return self._known_test.majority

    @property
    def _known_test(self) -> HeldOut:
        if self._test is None:
            raise ArgumentError("test", None, "there are no test data; give A and b, or Problem(..., test=(A, b))")
        return self._test

    # The constants of the stacked f(x₁..xₙ) = Σ wᵢ fᵢ(xᵢ): each worker's, times its weight.

    @cached_property
    def _curvatures(self) -> Vector:
        """(n, 2): the least and greatest eigenvalue of AᵢᵀAᵢ/mᵢ of each worker."""
        return extreme_curvatures(self.rows, self.starts)

    @cached_property
    def smoothness(self) -> float:
        """L_f = maxᵢ wᵢLᵢ."""
        return float((self.shares * (self.loss.curvature * self._curvatures[:, 1] + self.l2)).max()) / self.n

    @cached_property
    def strong_convexity(self) -> float:
        """μ_f = minᵢ wᵢμᵢ; where the loss flattens out, as the logistic does, only l2 counts."""
        least = self.loss.least_curvature * self._curvatures[:, 0] if self.loss.least_curvature > 0 else 0.0
        return float((self.shares * (least + self.l2)).min()) / self.n

    @property
    def step_limit(self) -> float:
        """min{1/4, 1/L_f}: the theorem's condition on the step γ, and the default step."""
        return min(0.25, 1 / self.smoothness) if self.smoothness > 0 else 0.25

    # With a public bound the run must not depend on the rows in any other way either. Rows within R have
    # L_f ≤ max wᵢ (curvature·R² + l2), clipped or not: clipping flattens a gradient and nowhere bends it more. Without
    # R, rows are taken to be within B over the largest slope, which holds unless B clips, and a run whose default step
    # is too long for its rows then warns; a loss whose slopes are not bounded has no such number.

    @property
    def public_constants(self) -> bool:
        """Whether the step a run takes by default owes nothing to the data."""
        return self.row_bound is not None or (self._public_bound is not None and self.loss.slope_bound is not None)

    @property
    def safe_step(self) -> float:
        """The default step: the theorem's limit, from public numbers where the bound is public."""
        if not self.public_constants:
            return self.step_limit
        radius = self.row_bound if self.row_bound is not None else self.clip / self._steepest
        return min(0.25, self.n / float(self.shares.max()) / (self.loss.curvature * radius**2 + self.l2))

    @property
    def rows_exceed_bounds(self) -> bool:
        """Whether a row is longer than the default step takes rows to be."""
        return (
            self.row_bound is None
            and self.public_constants
            and float(self.row_norms.max()) > self.clip / self._steepest
        )

    @property
    def safe_strong_convexity(self) -> float:
        """The μ_f that the noise is allocated by: that of l2 alone where the bound is public."""
        return self.strong_convexity if self._public_bound is None else self.l2 * float(self.shares.min()) / self.n

    # The bound B on the gradient of one sample, without the l2 term, which cancels between neighbours.

    @property
    def gradient_bound(self) -> float:
        """B: the public bound, or the least one that holds for these rows."""
        if self._public_bound is not None:
            return self._public_bound
        bound = self._data_bound
        if bound is None:
            raise UnboundedGradientError(
                "loss",
                self.loss.name,
                "its gradient grows without limit, so no noise makes it private; keep x in a bounded set "
                "(regularizer=Box(...), BoxL1(...), L2Ball(...)), or clip: gradient_bound= of the problem, or "
                'clip="adaptive" of the method',
            )
        return bound

    @property
    def gradient_size(self) -> float:
        if self._public_bound is not None or self._data_bound is not None:
            return self.gradient_bound
        # Nothing bounds it, but it begins somewhere.
        return float((np.abs(self.loss.slope(np.zeros(self.targets.shape), self.targets)) * self.row_norms).max())

    @property
    def bound_source(self) -> str:
        """Where B comes from: ``"public"``, ``"data"``, or ``"set"`` (data and the regularizer's set)."""
        if self._public_bound is not None:
            return "public"
        return "data" if self.loss.slope_bound is not None else "set"

    @property
    def enforced_bound(self) -> float:
        # The logistic loss keeps to B everywhere, the squared only in a set that a server's point need not lie in, and
        # of others nobody knows but those who wrote them.
        if self._public_bound is not None or (self.loss.keeps_to_bound and is_ours(type(self.loss))):
            return self.clip
        bound = self._data_bound
        return bound if bound is not None and bound <= LARGEST_THRESHOLD[self.dtype] else np.inf

    # What a planner may know, and what it could know at most.

    @property
    def public_radius(self) -> bool:
        # Where slopes are bounded rows are taken to be no longer than B allows, which holds unless B clips.
        return self.row_bound is not None or self.loss.slope_bound is not None

    def facts_of_data(self, threshold: float | None = None) -> Facts:
        read = [] if threshold is not None or self.bound_source == "public" else ["the gradient bound"]
        radius = self.row_bound
        if not self.public_radius:
            read.append("the length of the rows")
            radius = float(self.row_norms.max())
        elif radius is None:
            radius = self.gradient_bound / self._steepest
        return Facts(
            self.sizes,
            self.d,
            self.gradient_bound if threshold is None else threshold,
            self.l2,
            self.loss.curvature,
            radius,
            read_off_data=", ".join(read),
            weighting=self.weighting,
        )

    def facts_at(self, threshold: float, typical: float) -> Facts:
        # Targets that are no labels are taken for ±1 too.
        slope = abs(float(self.loss.slope(np.zeros(1), np.ones(1))[0]))
        radius = typical / (slope or 1.0)
        given = self.sizes, self.d, threshold, self.l2, self.loss.curvature, radius
        with called("clip"):
            return Facts(*given, weighting=self.weighting)

    def exact_prior(self) -> Prior:
        start, x_star = self.regularizer.prox(np.zeros(self.d), 0.0), self.optimum()
        memory.refuse_beyond("prior", 3 * 8 * self.d**2, "the Hessian is too large; give a Prior(...)")
        rates, directions = np.linalg.eigh(self._hessian(x_star, np.ones(self.d, dtype=bool)))
        along = directions.T @ (start - x_star)
        norm = float(np.linalg.norm(along))
        if norm == 0:
            raise ArgumentError("prior", "exact", "runs start at the optimum: there is nothing to plan")
        return Prior(norm, np.maximum(rates, 0.0), along**2 / norm**2)

    @cached_property
    def row_norms(self) -> Vector:
        """‖a‖ of every row, rounded up."""
        return norms_above(self.rows)

    @cached_property
    def _data_bound(self) -> float | None:
        if self.loss.slope_bound is not None:
            return self.loss.slope_bound * float(self.row_norms.max())
        with np.errstate(over="ignore", invalid="ignore"):  # of a set so large that no noise would do, which is refused
            return self._residual_bound()

    def _residual_bound(self) -> float | None:
        """The largest gradient over the regularizer's set; None where that is unbounded."""
        margins = self.regularizer.margins(self.rows)
        if margins is None:
            return None
        # The loss is convex, so its slopes are largest where margins are extreme.
        steepest = np.maximum(*(np.abs(self.loss.slope(reached, self.targets)) for reached in margins))
        # A computed margin may be off by d units of the terms it is made of, which can exceed the residual.
        terms = np.maximum(np.abs(margins[0]), np.abs(margins[1])) + np.abs(self.targets)
        rounding = (self.d + 8) * np.finfo(np.float64).eps * terms
        return float(((steepest + self.loss.curvature * rounding) * self.row_norms).max())

    # The objective, for people and for the optimum; the runs use the kernels.

    def objective(self, x: ArrayLike) -> float:
        """Σ wᵢ fᵢ(x) + g(x)."""
        x = vector("x", x, self.d, f"give {self.d} finite numbers")
        return self._smooth(x) + self.regularizer.value(x)

    def gradient(self, x: ArrayLike) -> Vector:
        """Σ wᵢ ∇fᵢ(x): the gradient of the smooth part."""
        x = vector("x", x, self.d, f"give {self.d} finite numbers")
        return self._smooth_gradient(x)

    def worker_gradients(self, x: ArrayLike) -> Vector:
        """(n, d): ∇fᵢ(x) of each worker."""
        x = vector("x", x, self.d, f"give {self.d} finite numbers")
        slopes = self._slopes(x)
        parts = [self.rows[a:b].T @ slopes[a:b] / (b - a) for a, b in pairwise(self.starts)]
        return np.asarray(np.stack(parts) + self.l2 * x)

    def optimum(self) -> Vector:
        """x*, certified: the norm of the prox-gradient mapping is below 1e-11. Computed once."""
        return self._optimum.copy()

    @cached_property
    def _optimum(self) -> Vector:
        smoothness = self.n * self.smoothness  # maxᵢ n wᵢLᵢ; that of Σ wᵢ fᵢ is at most the mean of these
        return certified_optimum(
            self._smooth_gradient,
            self._hessian,
            self.regularizer,
            max(smoothness, 1e-300),
            self.d,
            self._falls_for_ever,
        )

    def _falls_for_ever(self, x: Vector) -> bool:
        """Whether x separates the classes where nothing holds it back: the loss then falls along x for ever."""
        held_back = not isinstance(self.loss, Logistic) or self.l2 > 0 or not self.regularizer.smooth
        return not held_back and bool((self.rows @ x < 0).all())

    def _smooth(self, x: Vector) -> float:
        losses = self.loss.value(self.rows @ x, self.targets)
        return float(self._weights @ losses + 0.5 * self.l2 * (x @ x))

    def _smooth_gradient(self, x: Vector) -> Vector:
        return np.asarray(self.rows.T @ (self._weights * self._slopes(x)) + self.l2 * x)

    def _slopes(self, x: Vector) -> Vector:
        """φ' of every sample."""
        return np.asarray(self.loss.slope(self.rows @ x, self.targets))

    def _hessian(self, x: Vector, free: NDArray[np.bool_]) -> Vector:
        """The Hessian of the smooth part on the free coordinates."""
        columns = self.rows[:, np.flatnonzero(free)]
        shares = (self._weights * self.loss.bend(self.rows @ x, self.targets))[:, None]
        product = columns.T @ (columns.multiply(shares) if sparse.issparse(columns) else columns * shares)
        dense = product.toarray() if sparse.issparse(product) else product
        return np.asarray(dense + self.l2 * np.eye(columns.shape[1]))
