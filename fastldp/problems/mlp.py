"""MLP: a network of dense layers as a problem, nonconvex where it has a hidden layer."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastldp import memory
from fastldp.errors import ArgumentError, DataError, OptimumError, UnboundedGradientError
from fastldp.problems.composite import LARGEST_ENTRY, Composite, Vector, shards, threshold
from fastldp.problems.layers import Layers
from fastldp.problems.network import LANES, filled
from fastldp.problems.weighting import ROWS, UNIFORM
from fastldp.regularizers import Regularizer
from fastldp.validation import integer, is_scalar, known_name, real, reals, vector, whole_numbers

Integers = NDArray[np.int64]
Pair = tuple[Any, Any]

PRODUCTS = ("float32", "float64")
# Rows of a matrix product: enough for BLAS to be at its best, few enough for its result to stay in the cache, and for
# rounding to reach a 256th of the sensitivity in float32.
CHUNK = 256
# BLAS takes so many products in the time that lanes of runs take one each.
PRODUCTS_AT_ONCE = 64
# Of a layer; their weights fit into no memory long before.
MOST_UNITS = 2**31 - 1
# Rows that are measured at a time.
MEASURED_ROWS = 8192


class MLP(Composite):
    """minimise Σᵢ wᵢ fᵢ(x) + g(x), with fᵢ the mean cross-entropy of a network x on worker i's images.

    Dense layers with sigmoids between them and a softmax at the end: with `hidden=200` on MNIST the paper's
    784–200–10 network, with `hidden=()` softmax regression, which is convex.

    Runs are blocks of their own: alone a run spreads its workers over the threads, several have a thread each, and BLAS
    has one thread in every one of ours. So a run's bits do not depend on how many threads there are; on another machine
    or with another BLAS the products may be rounded differently.

    Parameters
    ----------
    images : array of shape (rows, features) or more axes
        The samples, a row each; bytes are divided by 255.
    labels : array of int of shape (rows,)
        The class of each row, from 0.
    hidden : int or list of int
        The units of the hidden layer, or of several, or () for none.
    workers : int or array of shape (rows,)
        How many workers share the rows (contiguous shards, as equal as possible), or one worker number, 0 to n − 1, for
        each row.
    regularizer : Regularizer, optional
        g; `Zero()` where it is not given.
    clip : float, optional
        C, the norm each sample's gradient is clipped to, exactly and without forming it: public. A private solve needs
        it.
    l2 : float
        The weight of ½‖x‖², part of every fᵢ.
    strong_convexity : float, optional
        The μ_f by which the dynamic allocation spreads the noise over the rounds, a parameter since a network has none;
        minᵢ wᵢ l2 where it is not given, and with l2 = 0 the noise is spread evenly.
    classes : int, optional
        How many there are; one more than the largest label where it is not given.
    test : tuple of arrays, optional
        (images, labels) to measure the accuracy on.
    start_seed : int
        Of the random start, which is public.
    products : str
        ``"float32"`` or ``"float64"``, the precision of the matrix products. Everything else is in float64: messages
        are released on the grid, and the rounding of the products is bounded and part of the sensitivity.
    weighting : str
        ``"uniform"``, wᵢ = 1/n, or ``"rows"``, wᵢ = mᵢ/M of all M rows, as of `Problem`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> images, labels = rng.integers(0, 256, (60, 4, 4)).astype(np.uint8), np.arange(60) % 3
    >>> problem = MLP(images, labels, hidden=5, workers=4, clip=1.0, test=(images, labels))
    >>> problem
    MLP(16–5–3, 60 rows, 4 workers, clip=1, l2=0, g=Zero())
    >>> sorted(problem.measure(problem.start()))
    ['accuracy', 'objective', 'train_loss']
    """

    lanes_of_runs: ClassVar[bool] = False
    has_optimum: ClassVar[bool] = False
    loss = "softmax"
    dtype = "float64"

    def __init__(
        self,
        images: Any,
        labels: ArrayLike,
        *,
        hidden: int | Sequence[int] = 200,
        workers: int | ArrayLike,
        regularizer: Regularizer | None = None,
        clip: float | None = None,
        l2: float = 0.0,
        strong_convexity: float | None = None,
        classes: int | None = None,
        test: Pair | None = None,
        start_seed: int = 0,
        products: str = "float32",
        weighting: str = UNIFORM,
    ) -> None:
        self.products = known_name("products", products, PRODUCTS)
        self.start_seed = integer("start_seed", start_seed, "give a whole number ≥ 0", at_least=0)
        bound = None if clip is None else threshold("clip", clip, self.products)
        self._set_parameters(l2, regularizer, bound, weighting)
        self._strong_convexity = _positive("strong_convexity", strong_convexity)
        units = _hidden(hidden)
        rows, numbers = _rows("images", images, self.products), _classes("labels", labels, len(images), classes)
        count = classes if classes is not None else max(2, int(numbers.max()) + 1)
        self.layers = Layers([rows.shape[1], *units, count])
        self._test = None if test is None else self._checked_test(test)
        order, self.starts = shards(len(rows), workers)
        self.sizes = np.diff(self.starts)
        self.n, self.d = self.sizes.size, self.layers.d
        self._weigh()
        # A model, a start and the weights of a regularizer; a solve needs more, and says so.
        memory.refuse_beyond("hidden", 3 * 8 * self.d, "give fewer units")
        self.regularizer.check(self.d)  # refuses weights of another length now, not at the solve
        self._lay_out(rows, numbers, np.arange(len(rows)) if order is None else order)

    def _checked_test(self, test: Pair) -> tuple[NDArray[Any], Integers]:
        if not isinstance(test, tuple) or len(test) != 2:
            raise ArgumentError("test", test, "give (images, labels)")
        rows = _rows("test", test[0], self.products)
        if rows.shape[1] != self.layers.widths[0]:
            raise DataError("test", rows.shape, f"the images have {self.layers.widths[0]} features; give as many")
        return _scaled(rows, self.products), _classes("test", test[1], len(rows), self.layers.widths[-1])

    def _lay_out(self, rows: NDArray[Any], labels: Integers, order: Integers) -> None:
        """A copy of the rows, worker by worker, each filled up to whole lanes with zeros that do not count."""
        firsts = filled(self.starts, LANES[self.products])
        memory.refuse_beyond(
            "images", int(firsts[-1]) * rows.shape[1] * np.dtype(self.products).itemsize, "give fewer rows"
        )
        # Row k of the caller's lies at place[k].
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows)) + np.repeat(firsts[:-1] - self.starts[:-1], self.sizes)
        self.values = np.zeros((int(firsts[-1]), rows.shape[1]), self.products)
        """The images, as the matrix products take them."""
        self.classes_of_rows = np.zeros(int(firsts[-1]), np.int64)
        self.counted, self.reach = np.zeros((2, int(firsts[-1])))
        for part in np.array_split(np.arange(len(rows)), 1 + len(rows) // MEASURED_ROWS):
            scaled = _scaled(rows[part], self.products)
            self.values[place[part]] = scaled
            squares = np.einsum("ij,ij->i", scaled, scaled, dtype=np.float64)
            # Rounded up, in either precision: the norm of a sample's gradient must not be taken for smaller than it is.
            self.reach[place[part]] = (squares + 1) * (1 + 4 * np.finfo(self.products).eps)
        self.classes_of_rows[place], self.counted[place] = labels, 1.0
        self._shards = [slice(int(a), int(a + m)) for a, m in zip(firsts[:-1], self.sizes, strict=True)]

    def __repr__(self) -> str:
        widths = "–".join(map(str, self.layers.widths))
        return (
            f"MLP({widths}, {self.sizes.sum():,} rows, {self.n} workers, clip={self.clip:g}, l2={self.l2:g}, "
            f"g={self.regularizer}{', workers weighted by rows' if self.weighting == ROWS else ''})"
        )

    def replace(self, **changes: Any) -> MLP:
        """The same network and data, shared and not copied, with other parameters.

        These are `regularizer`, `clip`, `l2`, `strong_convexity`, `start_seed` and `weighting`.

        Examples
        --------
        >>> import numpy as np
        >>> problem = MLP(np.eye(6), np.arange(6) % 2, hidden=3, workers=2, clip=1.0)
        >>> problem.replace(clip=2.0).clip
        2.0
        """
        known: dict[str, Any] = {
            "regularizer": self.regularizer,
            "clip": self._public_bound,
            "l2": self.l2,
            "strong_convexity": self._strong_convexity,
            "start_seed": self.start_seed,
            "weighting": self.weighting,
        }
        for name in changes:
            known_name("changes", name, tuple(known))
        given = known | changes
        other = MLP.__new__(MLP)
        other.__dict__ |= self.__dict__
        clip = None if given["clip"] is None else threshold("clip", given["clip"], self.products)
        other._set_parameters(given["l2"], given["regularizer"], clip, given["weighting"])
        other._weigh()
        other._strong_convexity = _positive("strong_convexity", given["strong_convexity"])
        other.start_seed = integer("start_seed", given["start_seed"], "give a whole number ≥ 0", at_least=0)
        other.regularizer.check(other.d)
        return other

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "loss": self.loss,
            "hidden": list(self.layers.widths[1:-1]),
            "classes": self.layers.widths[-1],
            "products": self.products,
            "l2": self.l2,
            "clip": self._public_bound,
            "strong_convexity": self._strong_convexity,
            "start_seed": self.start_seed,
        } | ({} if self.weighting == UNIFORM else {"weighting": self.weighting})

    @property
    def data(self) -> tuple[Any, ...]:
        return self.values, self.starts

    @property
    def work(self) -> int:
        return int(self.values.size // self.layers.widths[0] * self.d // PRODUCTS_AT_ONCE)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of samples, shards and layers: the same data give the same, on every machine."""
        digest = hashlib.sha256(repr((self.layers.widths, self.loss, self.products)).encode())
        for part in (self.values, self.classes_of_rows, self.starts, *(self._test or ())):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    # What the theory would take from the data of a convex problem is given, and so public.

    @property
    def step_limit(self) -> float:
        """Infinite: no theorem speaks of the problem."""
        return np.inf

    @property
    def safe_step(self) -> float:
        raise ArgumentError("step", None, "a network has no default step; give one ≤ 1, as PrimalDual(step=1.0)")

    @property
    def public_constants(self) -> bool:
        return True

    @property
    def safe_strong_convexity(self) -> float:
        least = self.l2 * float(self.shares.min()) / self.n
        return least if self._strong_convexity is None else self._strong_convexity

    @property
    def gradient_bound(self) -> float:
        """B: the clipping threshold."""
        if self._public_bound is None:
            raise UnboundedGradientError("clip", None, "no noise makes unclipped gradients private; give clip=, as 1.0")
        return self._public_bound

    @property
    def bound_source(self) -> str:
        return "public"

    @property
    def precision(self) -> str:
        return self.products

    # Rounding. What one sample's gradient is computed to is what is clipped, so only norms and sums count.

    @property
    def chunk(self) -> int:
        """The rows of a matrix product."""
        return CHUNK

    @property
    def caution(self) -> float:
        """What clipping aims at, in C, so that a rounded norm never lets a sample exceed it."""
        # A square of a norm is a sum of as many terms as units, twice, and few operations more.
        units = 2 * max(self.layers.widths[1:]) + 2 * len(self.layers.widths) + 16
        return 1 - units * float(np.finfo(self.products).eps)

    @property
    def rounding(self) -> Vector:
        # A changed sample changes its chunk alone: b gradients of norm B, each product rounded by b units at most,
        # whatever the order BLAS sums them in. Chunks are added up in double precision.
        unit = np.finfo(self.products).eps / 2
        products = self.chunk**2 * unit / (1 - self.chunk * unit)
        return np.asarray(products / self.sizes + super().rounding)

    # The objective, for people; the runs use the kernels.

    def start(self) -> Vector:
        """Random weights, the same for the same `start_seed`; zero without a hidden layer."""
        return self.layers.start(self.start_seed)

    def optimum(self) -> Vector:
        raise OptimumError("a network has no certified optimum; its runs are measured by train loss and accuracy")

    def objective(self, x: ArrayLike) -> float:
        """Σ wᵢ fᵢ(x) + g(x)."""
        x = self._model(x)
        return self.train_loss(x) + self._penalties(x)

    def train_loss(self, x: ArrayLike) -> float:
        """Σᵢ wᵢ times the mean cross-entropy on worker i's images."""
        model = self._model(x).astype(self.products)
        losses = [
            sum(float(self.layers.losses(model, values, classes).sum()) for values, classes in self._parts(shard))
            / (shard.stop - shard.start)
            for shard in self._shards
        ]
        return float(sum(share * loss for share, loss in zip(self.shares.tolist(), losses, strict=True))) / self.n

    @property
    def tested(self) -> bool:
        """Whether there are test images to measure the accuracy on."""
        return self._test is not None

    def accuracy(self, x: ArrayLike, images: Any = None, labels: ArrayLike | None = None) -> float:
        """The share of images whose class has the highest score.

        Parameters
        ----------
        x : array of shape (d,)
            The model.
        images : array of shape (rows, features) or more axes, optional
            A row each; those of `test` where they are not given.
        labels : array of int of shape (rows,), optional
            The class of each row, from 0.

        Returns
        -------
        float
            From 0 to 1.
        """
        test = self._test
        if images is not None or labels is not None:
            test = self._checked_test((images, labels))
        if test is None:
            raise ArgumentError("test", None, "there are no test images; give some, or MLP(..., test=(images, labels))")
        model = self._model(x).astype(self.products)
        images, classes = test
        right = sum(
            int((self.layers.scores(model, images[rows]).argmax(axis=1) == classes[rows]).sum())
            for rows in _slices(0, len(images))
        )
        return right / len(images)

    def test_accuracy(self, x: ArrayLike) -> float:
        """Deprecated: the old name of `accuracy`."""
        warnings.warn("test_accuracy() is now called accuracy()", DeprecationWarning, stacklevel=2)
        return self.accuracy(x)

    @property
    def measures(self) -> tuple[str, ...]:
        return "objective", "train_loss", *super().measures[1:]

    def measure(self, x: Vector) -> Mapping[str, float]:
        loss = self.train_loss(x)
        return {"objective": loss + self._penalties(x), "train_loss": loss} | self._on_test_data(x)

    def shard(self, worker: int) -> tuple[NDArray[Any], Integers]:
        """A worker's images, in the precision of the products, and their classes."""
        return self.values[self._shards[worker]], self.classes_of_rows[self._shards[worker]]

    def gradient(self, x: ArrayLike) -> Vector:
        """Σ wᵢ ∇fᵢ(x), without clipping."""
        return np.asarray((self.shares[:, None] * self.worker_gradients(x)).mean(axis=0))

    def worker_gradients(self, x: ArrayLike) -> Vector:
        """(n, d): ∇fᵢ(x) of each worker, without clipping."""
        x = self._model(x)
        model, gradients = x.astype(self.products), np.zeros((self.n, self.d))
        for total, shard in zip(gradients, self._shards, strict=True):
            for values, classes in self._parts(shard):
                total += self.layers.gradient(model, values, classes)
            total /= shard.stop - shard.start
        return np.asarray(gradients + self.l2 * x)

    def _model(self, x: ArrayLike) -> Vector:
        return vector("x", x, self.d, f"give {self.d} finite numbers")

    def _penalties(self, x: Vector) -> float:
        return 0.5 * self.l2 * float(x @ x) + self.regularizer.value(x)

    def _parts(self, shard: slice) -> Iterator[tuple[NDArray[Any], Integers]]:
        for rows in _slices(shard.start, shard.stop):
            yield self.values[rows], self.classes_of_rows[rows]


def _slices(begin: int, end: int) -> Iterator[slice]:
    return (slice(k, min(k + MEASURED_ROWS, end)) for k in range(begin, end, MEASURED_ROWS))


def _positive(argument: str, value: float | None) -> float | None:
    return None if value is None else real(argument, value, "give a finite number > 0", above=0)


def _hidden(hidden: int | Sequence[int]) -> list[int]:
    remedy = "give the units of the hidden layer, a list of them for several layers, or () for none"
    if is_scalar(hidden):
        return [integer("hidden", hidden, remedy, at_least=1, at_most=MOST_UNITS)]
    if not isinstance(hidden, Sequence | np.ndarray) or isinstance(hidden, str):
        raise ArgumentError("hidden", hidden, remedy)
    return [integer("hidden", units, remedy, at_least=1, at_most=MOST_UNITS) for units in hidden]


def _rows(argument: str, images: Any, products: str) -> NDArray[Any]:
    """Images as finite rows, bytes as they are."""
    remedy = "give an array of real numbers, shape (rows, features)"
    kept = isinstance(images, np.ndarray) and images.dtype.kind in "uf" and images.dtype.itemsize <= 8
    rows = np.asarray(images) if kept else reals(argument, images, remedy, DataError)
    if rows.ndim < 2 or rows.size == 0:
        raise DataError(argument, rows.shape, f"{remedy}, with at least one of each")
    rows = rows.reshape(len(rows), -1)
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        where = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise DataError(argument, images, f"NaN or infinite entries, the first at {where}; drop or impute them")
    if max(float(rows.max()), -float(rows.min())) > LARGEST_ENTRY[products]:
        raise DataError(argument, images, f"entries so large that their squares overflow in {products}; scale them")
    return rows


def _scaled(rows: NDArray[Any], products: str) -> NDArray[Any]:
    """In the precision of the products; bytes from 0 to 1."""
    return rows.astype(products) / (255 if rows.dtype == np.uint8 else 1)


def _classes(argument: str, labels: ArrayLike, rows: int, classes: int | None) -> Integers:
    remedy = f"give {rows} whole numbers: the class of each row, from 0"
    numbers = whole_numbers(argument, labels, rows, remedy, DataError)
    if classes is not None:
        integer("classes", classes, "give a whole number ≥ 2", at_least=2, at_most=MOST_UNITS)
    if numbers.min() < 0 or (classes is not None and numbers.max() >= classes):
        found = int(numbers.min()) if numbers.min() < 0 else int(numbers.max())
        raise DataError(argument, found, f"number the classes from 0{f' to {classes - 1}' if classes else ''}")
    return numbers
