"""What releases of sampled gradients promise: privacy loss distributions, rounded towards privacy.

In a release each sample of a worker counts with probability q, by a coin that nobody sees, and moves the query by c at
most: the clipped gradient, divided as the query is. Two inputs that differ in one sample (replace-one) are then, in any
number of dimensions, no easier to tell apart than

    P = (1 − q) N(0, s²) + q N(1, s²)    from    Q = (1 − q) N(0, s²) + q N(−1, s²),    s = ξ/c,

on a line: `docs/amplification.md` is the proof. Such pairs compose: T releases are no easier to tell apart than T draws
from their pairs, and δ(ε) = E[(1 − e^(ε − L))₊] for the sum L of the losses ln P/Q of draws from P. A worker who takes
part in a round with probability r, as everyone can see, has a loss of 0 in the others: that coin amplifies nothing.

Everything is rounded up. A loss between two points of a grid is split between them so that its e^−loss stays what it
is on average, and (1 − αx)₊ is convex in x ("connect the dots"). Rounds whose noise is nearly the same count with the
least of them. Sums are formed of e^(λ loss) P for an order λ about the best of Rényi's, so that whatever was cut off or
rounded is a share of Chernoff's bound of δ, and is added to δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq, minimize_scalar

from fastldp.errors import BudgetError

Array = NDArray[np.float64]

ULP = 2.0**-52
# How much the grid may add to ln δ, about, at an order of at least this; and how much coarser a search begins.
GRID_GAP, LEAST_ORDER, COARSER = 2e-3, 3.0, 5
# How much variance of the loss classes of rounds may add, how many there are at most, and in a search at first.
CLASS_GAP, MOST_CLASSES, FEW_CLASSES = 2e-3, 512, 32
# What is cut off all releases together, of Chernoff's bound.
CUT = 1e-12
# What one release's probabilities are rounded by, all together, and what its quadrature leaves.
LEAF_ERROR = 1e-13
# Noise below this multiple of what a sample moves hides nothing.
LEAST_MULTIPLIER, LARGEST_MULTIPLIER = 0.03, 1e6
# ln of a δ that is as good as none.
LEAST_LOG_DELTA = -700.0
# A grid for one release has no more points than this, about.
MOST_POINTS = 2**20
# The widest interval of integration, with 6 nodes, and the widest with 3, in deviations.
WIDE, NARROW = 0.125, 2.0**-6
RULES = {nodes: leggauss(nodes) for nodes in (3, 6)}
# How often the best allocation looks for its order anew.
TURNS = 3
# A calibrated scale is at most this above the least.
TOLERANCE = 1e-4


class Releases(NamedTuple):
    """What a worker releases, round by round, as far as its privacy depends on it."""

    rate: float
    """q: the probability of each sample to count in a release, of a coin that nobody sees."""
    multipliers: Array
    """(T,): s, the noise's deviation over how far a sample that counts moves the query."""
    presence: float = 1.0
    """r: the probability of the worker to take part in a round, as everyone can see."""
    local: int = 1
    """How many releases it makes in a round that it takes part in, each of samples of its own."""
    early: int = 0
    """How many it makes before the first round, in which all workers take part, with the noise of the first round."""


def _packed(releases: Releases) -> Releases:
    """The same as something that can be a key."""
    return releases._replace(multipliers=np.asarray(releases.multipliers, np.float64).tobytes())  # type: ignore[arg-type]


def _unpacked(packed: Releases) -> Releases:
    return packed._replace(multipliers=np.frombuffer(packed.multipliers))


def delta_of(releases: Releases, epsilon: float) -> float:
    """δ at ε of all releases together, rounded up.

    >>> q1 = Releases(1.0, np.full(4, 10.0))  # every sample counts: Gaussian releases of sensitivity 2
    >>> round(delta_of(q1, 0.5), 4), round(delta_of(Releases(0.1, np.full(4, 1.0)), 0.5), 4)
    (0.0257, 0.0269)
    """
    return _delta_of(_packed(releases), epsilon)


@lru_cache(maxsize=64)  # a ledger is asked for the same several times
def _delta_of(packed: Releases, epsilon: float) -> float:
    releases = _unpacked(packed)
    return 1.0 if _bare(releases) else Spending.of(releases, epsilon).delta(epsilon)


def epsilon_of(releases: Releases, delta: float, near: float = 0.0) -> float:
    """ε at δ of all releases together, rounded up; 0 where δ alone covers it. To know it about finds it sooner.

    >>> round(epsilon_of(Releases(0.1, np.full(100, 2.0)), 1e-5), 2)
    4.37
    """
    return _epsilon_of(_packed(releases), delta, near)


@lru_cache(maxsize=64)
def _epsilon_of(packed: Releases, delta: float, near: float) -> float:
    releases = _unpacked(packed)
    if _bare(releases):
        return math.inf
    if near > 0:
        return Spending.of(releases, near).epsilon(delta)
    start = max(1e-6, _guess_epsilon(releases, delta))
    found = Spending.of(releases, start).epsilon(delta)
    # Once more with the order that is best there.
    return Spending.of(releases, max(found, 1e-6)).epsilon(delta)


def scale_of(releases: Releases, epsilon: float, delta: float) -> float:
    """What all multipliers are to be multiplied by for (ε, δ): never less, and at most 1 in 10,000 more than that.

    >>> least = scale_of(Releases(0.1, np.ones(100)), 1.0, 1e-5)
    >>> at = [delta_of(Releases(0.1, np.full(100, least * factor)), 1.0) for factor in (1, 0.999)]
    >>> at[0] <= 1e-5 < at[1]
    True
    """
    return _scale_of(_packed(releases), epsilon, delta)


@lru_cache(maxsize=256)  # repetitions, and workers alike, ask for the same again
def _scale_of(packed: Releases, epsilon: float, delta: float) -> float:
    given = _unpacked(packed)
    log_delta = math.log(delta)

    def searched(start: float, quick: bool, tolerance: float) -> float:
        def excess(log_scale: float) -> float:
            """ln δ beyond what was asked for."""
            releases = given._replace(multipliers=given.multipliers * math.exp(log_scale))
            found = 1.0 if _bare(releases) else Spending.of(releases, epsilon, quick).delta(epsilon)
            return math.log(max(found, 5e-324)) - log_delta

        return _least(excess, start, tolerance, epsilon)

    start = math.log(_guess_scale(given, epsilon, delta))
    about = searched(start, True, 10 * TOLERANCE)
    return math.exp(searched(about, False, TOLERANCE))


def _least(excess: Callable[[float], float], start: float, tolerance: float, asked: float) -> float:
    """Where a falling function is at most 0, from the right: no further from its root than the tolerance."""
    step, x, value = 0.01, start, excess(start)
    low, high = (x, math.inf) if value > 0 else (-math.inf, x)
    below, above = (value, math.nan) if value > 0 else (math.nan, value)
    while math.isinf(high) or math.isinf(low):
        x = low + step if math.isinf(high) else high - step
        value, step = excess(x), 3 * step
        if value > 0:
            low, below = x, value
        else:
            high, above = x, value
        if not abs(x) < 100:
            remedy = "noise that keeps it is beyond all that can be accounted for; promise an ε nearer to 1"
            raise BudgetError("epsilon", asked, remedy)
    while high - low > tolerance:
        # The chord's root, a little to the right, as it is the right end that is returned; halves where that is slow.
        chord = low + (high - low) * below / (below - above) + tolerance / 4
        x = chord if low < chord < high else (low + high) / 2
        value = excess(x)
        if value > 0:
            low, below = x, value
            above /= 2  # as in the Illinois method: the other end must move too
        else:
            high, above = x, value
            below /= 2
    return high


def best_multipliers(weights: Array, rate: float, epsilon: float, delta: float) -> Array:
    """s of rounds that keep (ε, δ) with about the least Σ wₜ sₜ², where samples are drawn with this probability.

    Theorem 1 weighs its rounds by q_t = (1 − γ min{μ_f, 1})^{T−t}; without sampling the best is its sₜ² ∝ 1/√wₜ. At
    one order λ of Rényi's, what rounds spend adds up: with p = 1/s² the best has wₜ = ν p² Λ′(p), Λ(p) = ln E e^(λ
    loss), for some ν. The order is that of the promise, found in turns, and the scale is calibrated in the end.

    Parameters
    ----------
    weights : array of shape (T,)
        w, positive.
    rate : float
        q.
    epsilon : float
        ε of all rounds together.
    delta : float
        δ.

    Returns
    -------
    array of shape (T,)
        s of the rounds.

    Examples
    --------
    >>> even, falling = np.ones(2), np.array([0.25, 1.0])
    >>> bool(np.ptp(best_multipliers(even, 0.1, 1.0, 1e-5)) < 1e-6)
    True
    >>> ratio = np.divide(*best_multipliers(falling, 1.0, 1.0, 1e-5))
    >>> round(float(ratio), 2)  # 4 to the power of 1/4
    1.41
    """
    shape = np.asarray(weights, dtype=np.float64) ** -0.25
    for _ in range(TURNS):
        releases = Releases(rate, shape)
        multipliers = shape * scale_of(releases, epsilon, delta)
        classes = _classes(releases._replace(multipliers=multipliers), FEW_CLASSES)
        order = _order(classes, epsilon)
        precisions = np.geomspace(0.1 / np.max(multipliers) ** 2, 10 / np.min(multipliers) ** 2, 200)
        precisions = precisions[precisions < 1 / LEAST_MULTIPLIER**2]
        spends = np.array([_log_moment(1 / math.sqrt(one), rate, order) for one in precisions])
        # d Λ / d ln p is p Λ′, and p² Λ′ rises.
        slope = np.maximum.accumulate(precisions * np.gradient(spends, np.log(precisions)))
        log_slope, log_weights, log_precisions = np.log(slope), np.log(weights), np.log(precisions)

        def precisions_at(log_nu: float, known: Array = log_slope, of: Array = log_precisions) -> Array:
            return np.asarray(np.interp(np.log(weights) - log_nu, known, of))

        spent = float(np.sum(np.interp(-2 * np.log(multipliers), log_precisions, spends)))

        def excess(log_nu: float, known: Array = spends, at: Array = log_precisions, all_in: float = spent) -> float:
            return float(np.sum(np.interp(precisions_at(log_nu), at, known))) - all_in

        nu = brentq(excess, log_weights.min() - log_slope[-1], log_weights.max() - log_slope[0])
        shape = np.exp(-precisions_at(nu) / 2)
    return np.asarray(shape * scale_of(Releases(rate, shape), epsilon, delta))


def _log_moment(s: float, rate: float, order: float) -> float:
    """ln E e^(λ loss) of one release, to some digits."""
    z = np.linspace(-9 * s, 1 + min(2 * order, 30 * s) + 9 * s, 1500)
    p, q = _logs(z, s, rate)
    return float(np.logaddexp.reduce(_log_normal(z, s) + p + order * (p - q))) + math.log(z[1] - z[0])


class Spending(NamedTuple):
    """The distribution of the loss of all releases, tilted by e^(λ loss)."""

    spacing: float
    lowest: int
    probabilities: Array
    """Of the multiples of the spacing from the lowest on; of the tilted distribution, hence 1 in all."""
    order: float
    """λ."""
    log_moment: float
    """ln E e^(λ loss)."""
    error: float
    """What of the tilted distribution was cut off, or rounded, at most."""

    @classmethod
    def of(cls, releases: Releases, epsilon: float, quick: bool = False) -> Spending:
        """That of releases, most accurate at this ε; quick in fewer classes and points, which promises less."""
        return _composed(_classes(releases, FEW_CLASSES if quick else MOST_CLASSES), epsilon, COARSER if quick else 1)

    def delta(self, epsilon: float) -> float:
        """δ at ε, rounded up."""
        losses = (self.lowest + np.arange(self.probabilities.size)) * self.spacing
        beyond = losses - epsilon
        kept = beyond > 0
        beyond = beyond[kept]
        share = float(np.sum(self.probabilities[kept] * np.exp(-self.order * beyond) * -np.expm1(-beyond)))
        chernoff = self.log_moment - self.order * epsilon
        # Of the moment's logarithm, which is a sum of those of all releases.
        hair = 1e-9 + self.error + 64 * ULP * (abs(self.log_moment) + self.order * epsilon)
        return min(1.0, (share + self.error) * math.exp(min(chernoff + hair, 700.0)))

    def epsilon(self, delta: float) -> float:
        """ε at δ, rounded up."""

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon), 5e-324) / delta)

        if excess(0.0) <= 0:
            return 0.0
        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 1e6:
                return math.inf
        found = float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12))
        while excess(found) > 0:
            found += 1e-10 * max(1.0, found)
        return found


class Classes(NamedTuple):
    """Rounds whose noise is nearly the same, as of the least of it."""

    rate: float
    presence: float
    local: int
    early: int
    first: float
    """s of the early releases."""
    multipliers: Array
    """(K,): s of each class, rising."""
    counts: NDArray[np.int64]
    """(K,): how many rounds each has."""


def _bare(releases: Releases) -> bool:
    """Whether some noise is so little that nothing is promised."""
    return not float(releases.multipliers.min()) >= LEAST_MULTIPLIER


def _weights(releases: Releases) -> Array:
    """Σ P²/N₀ and so on for small q: about the mean square of each release's loss, 4q² sinh(1/s²)."""
    return np.asarray(4 * releases.rate**2 * np.sinh(np.minimum(1 / np.square(releases.multipliers), 700.0)))


def _classes(releases: Releases, most: int) -> Classes:
    values, counts = np.unique(releases.multipliers, return_counts=True)
    # Beyond this a release tells nothing that could be seen, and less noise is on the safe side.
    values = np.minimum(values, LARGEST_MULTIPLIER)
    if values.size > 1:
        values, counts = _merged(releases, values, counts, most)
    first = min(float(releases.multipliers[0]), LARGEST_MULTIPLIER)
    return Classes(releases.rate, releases.presence, releases.local, releases.early, first, values, counts)


def _merged(releases: Releases, values: Array, counts: NDArray[np.int64], most: int) -> tuple[Array, NDArray[np.int64]]:
    weights = _weights(releases._replace(multipliers=values)) * counts
    apart = np.diff(np.log(values), prepend=np.log(values[0]))
    # Bounds so that the sum of what is added is least: as many in each as √(weight density) says.
    place = np.cumsum(np.sqrt(weights * apart))
    number = 32
    while True:
        ids = np.minimum((number * place / max(place[-1], 1e-300)).astype(np.int64), number - 1)
        first = np.flatnonzero(np.diff(ids, prepend=-1))
        gap = float(np.sum(weights * np.square(values / np.repeat(values[first], np.diff([*first, ids.size])))))
        if number >= most or gap <= (1 + CLASS_GAP) * float(weights.sum()):
            return values[first], np.add.reduceat(counts, first)
        number *= 2


def _guess_scale(releases: Releases, epsilon: float, delta: float) -> float:
    """About what `scale_of` says: as if the sum of the losses were normal."""
    from fastldp.privacy.conversions import rho_of

    square = 2 * rho_of(epsilon, delta, "gdp")
    rounds = releases.presence * releases.local + releases.early / releases.multipliers.size

    def excess(log_scale: float) -> float:
        scaled = releases._replace(multipliers=releases.multipliers * math.exp(log_scale))
        return math.log(rounds * float(np.sum(_weights(scaled)))) - math.log(square)

    low, high = -1.0, 1.0
    while excess(low) < 0 and low > -60:
        low *= 2
    while excess(high) > 0 and high < 60:
        high *= 2
    least = math.log(2 * LEAST_MULTIPLIER / float(releases.multipliers.min()))
    return math.exp(max(float(brentq(excess, low, high, xtol=1e-6)), least))


def _guess_epsilon(releases: Releases, delta: float) -> float:
    from fastldp.privacy.conversions import epsilon_of as of_gaussians

    square = releases.presence * releases.local * float(np.sum(_weights(releases)))
    return of_gaussians(min(square / 2, 1e5), delta, "gdp")


def _logs(z: Array, s: float, rate: float) -> tuple[Array, Array]:
    """ln P and ln Q at points of the line, beside N(0, s²)."""
    none, some = math.log1p(-rate) if rate < 1 else -math.inf, math.log(rate) - 0.5 / s**2
    y = z / s**2
    return np.logaddexp(none, some + y), np.logaddexp(none, some - y)


def _losses(z: Array, s: float, rate: float) -> Array:
    """ln P/Q; odd, and rising."""
    p, q = _logs(z, s, rate)
    return np.asarray(p - q)


def _points(losses: Array, s: float, rate: float) -> Array:
    """Where the loss is this: z = s² (ε/2 + asinh(κ sinh(ε/2))), κ = (1 − q)/q · e^(1/2s²)."""
    half = np.abs(losses) / 2
    with np.errstate(divide="ignore"):
        log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
    x = (math.log1p(-rate) if rate < 1 else -math.inf) - math.log(rate) + 0.5 / s**2 + log_sinh
    asinh = np.where(x > 20, x + math.log(2), np.arcsinh(np.exp(np.minimum(x, 20.0))))
    return np.asarray(np.sign(losses) * s**2 * (half + asinh))


def _log_normal(z: Array, s: float) -> Array:
    """ln of the density of N(0, s²)."""
    return np.asarray(-0.5 * np.square(z / s) - math.log(s) - 0.5 * math.log(2 * math.pi))


def _reach(s: float, rate: float, order: float) -> tuple[float, float, float]:
    """Two points, and ln of a bound on what the tilted P, before it is divided by its moment, has outside them."""
    low, log_below = -8.5 * s, -39.0  # where losses are negative, and both normals have less than e^−39
    z = np.linspace(0.0, 1 + 2 * order + 40 * s, 4000)
    p, q = _logs(z, s, rate)
    # Beyond z the tilted P falls as e^(−κz) or faster: the slope of the loss is at most (1 + share)/s² there.
    share = np.exp(math.log(rate) - 0.5 / s**2 - z / s**2 - q)
    falls = (z - 1 - order * (1 + share)) / s**2
    log_density = _log_normal(z, s) + p + order * (p - q)
    # Beside the mass of this grid, roughly; the bound does not depend on that.
    mass = max(0.0, float(np.logaddexp.reduce(log_density)) + math.log(z[1]))
    beyond = np.where(falls > 0, log_density - np.log(np.maximum(falls, 1e-300)), math.inf)
    enough = int(np.argmax(beyond < mass - 39)) if (beyond < mass - 39).any() else z.size - 1
    return low, float(z[enough]), float(np.logaddexp(beyond[enough], log_below))


def _leaf(s: float, rate: float, order: float, spacing: float) -> Sum:
    """The loss of one release."""
    low, high, log_left = _reach(s, rate, order)
    bounds = _losses(np.array([low, high]), s, rate)
    first, last = math.floor(bounds[0] / spacing), math.ceil(bounds[1] / spacing)
    grid = _points(np.arange(first + 1, last) * spacing, s, rate)
    # Cut where the loss is a multiple of the spacing, and so often that a few nodes integrate what lies between.
    pieces = low + s * WIDE * np.arange(1, math.ceil((high - low) / (s * WIDE)))
    inner = np.concatenate((grid, pieces))
    edges = np.concatenate(([low], np.sort(inner[(inner > low) & (inner < high)]), [high]))
    narrow = np.diff(edges) <= NARROW * s
    sums = [_cells(edges[:-1][of], edges[1:][of], s, rate, spacing, rule) for of, rule in ((narrow, 3), (~narrow, 6))]
    cell, log_down, log_up = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    # Tilted by e^(λ times the grid's point).
    start = int(cell.min())
    log_down, log_up = log_down + order * spacing * cell, log_up + order * spacing * (cell + 1)
    top = float(np.maximum(log_down, log_up).max())
    found = np.bincount(cell - start, np.exp(log_down - top), int(cell.max()) - start + 2)
    found[1:] += np.bincount(cell - start, np.exp(log_up - top), found.size - 1)
    total = float(found.sum())
    log_moment = math.log(total) + top
    return Sum(start, found / total, log_moment, LEAF_ERROR + math.exp(min(0.0, log_left - log_moment)))


def _cells(
    left: Array, right: Array, s: float, rate: float, spacing: float, rule: int
) -> tuple[NDArray[np.int64], Array, Array]:
    """Of pieces of the line, each in an interval of the grid: which, and ln of P's mass that is rounded down and up."""
    nodes, weights = RULES[rule]
    half = (right - left)[:, None] / 2
    z = left[:, None] + half * (1 + nodes)
    p, q = _logs(z, s, rate)
    losses = p - q
    cell = np.floor(losses[:, rule // 2] / spacing).astype(np.int64)
    above = np.clip(losses - spacing * cell[:, None], 0.0, spacing)
    up = np.expm1(-above) / math.expm1(-spacing)  # as much as keeps E e^(−loss)
    log_mass = _log_normal(z, s) + p
    # Far out a mass may be too small for a number where e^(λ loss) makes it count.
    top = log_mass.max(axis=1, initial=-math.inf)
    mass = np.exp(log_mass - top[:, None]) * (half * weights)
    with np.errstate(divide="ignore"):
        log_up, log_down = np.log(np.sum(mass * up, axis=1)), np.log(np.sum(mass * (1 - up), axis=1))
    return cell, log_down + top, log_up + top


class Sum(NamedTuple):
    """The loss of some releases, on the grid, tilted."""

    lowest: int
    probabilities: Array
    log_moment: float
    error: float

    def plus(self, other: Sum, cut: float) -> Sum:
        """That of these and others; at most `cut` of it is left out."""
        a, b = self.probabilities, other.probabilities
        size = a.size + b.size - 1
        padded = next_fast_len(size, real=True)
        found = irfft(rfft(a, padded) * rfft(b, padded), padded)[:size]
        np.maximum(found, 0.0, out=found)
        # Each transform is off by 5 log₂ N roundings of its norm, at most; √N of the norm of an error is its sum.
        norm = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
        rounding = 15 * ULP * math.log2(padded + 1) * math.sqrt(padded) * norm
        lower = int(np.searchsorted(np.cumsum(found), cut / 2))
        upper = found.size - int(np.searchsorted(np.cumsum(found[::-1]), cut / 2))
        return Sum(
            self.lowest + other.lowest + lower,
            found[lower:upper],
            self.log_moment + other.log_moment,
            self.error + other.error + cut + rounding,
        )

    def times(self, count: int, cut: float) -> Sum:
        """That of so many alike; `cut` for each."""
        whole: Sum | None = None
        power, alike = 1, self
        while True:
            if count & power:
                whole = alike if whole is None else whole.plus(alike, cut * count)
            power *= 2
            if power > count:
                assert whole is not None  # count ≥ 1
                return whole
            alike = alike.plus(alike, cut * power)

    def present(self, presence: float) -> Sum:
        """A public coin decides whether it is made; else there is no loss."""
        if presence == 1:
            return self
        first, last = min(self.lowest, 0), max(self.lowest + self.probabilities.size, 1)
        log_moment = float(np.logaddexp(math.log1p(-presence), math.log(presence) + self.log_moment))
        share = math.exp(math.log(presence) + self.log_moment - log_moment)
        found = np.zeros(last - first)
        found[self.lowest - first : self.lowest - first + self.probabilities.size] = share * self.probabilities
        found[-first] += math.exp(math.log1p(-presence) - log_moment)
        return Sum(first, found, log_moment, share * self.error)


def _composed(classes: Classes, epsilon: float, coarser: float) -> Spending:
    order = _order(classes, epsilon)
    total = int(classes.counts.sum()) * classes.local + classes.early
    # An interval of h adds λ(λ + 1) h²/12 to the logarithm of a release's moment, at most but for the sixth.
    made = max(1.0, (total - classes.early) * classes.presence + classes.early)
    at_least = max(order, LEAST_ORDER)
    spacing = coarser * math.sqrt(12 * GRID_GAP / (made * at_least * (at_least + 1)))
    least = float(classes.multipliers[0])
    widest = float(_losses(np.array([_reach(least, classes.rate, order)[1]]), least, classes.rate)[0])
    spacing = max(spacing, widest / MOST_POINTS)
    cut = CUT / total
    parts = []
    for s, count in zip(classes.multipliers.tolist(), classes.counts.tolist(), strict=True):
        of_round = _leaf(s, classes.rate, order, spacing).times(classes.local, cut).present(classes.presence)
        parts.append(of_round.times(count, cut))
    if classes.early:
        parts.insert(0, _leaf(classes.first, classes.rate, order, spacing).times(classes.early, cut))
    while len(parts) > 1:
        # Neighbours are about as wide as each other.
        pairs = [a.plus(b, cut) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    found = parts[0]
    return Spending(spacing, found.lowest, found.probabilities, order, found.log_moment, found.error)


def _order(classes: Classes, epsilon: float) -> float:
    """The λ of the least Chernoff bound, roughly: none is wrong."""
    # A few of the classes stand for all.
    chosen = np.unique(np.linspace(0, classes.counts.size - 1, 16).astype(np.int64))
    s = classes.multipliers[chosen][:, None]
    nearest = np.argmin(np.abs(np.arange(classes.counts.size)[:, None] - chosen), axis=1)
    counts = np.bincount(nearest, classes.counts)
    # Twice: about what is likely, and as far as a tilt moves it where δ is a number at all.
    z = np.sort(np.concatenate((s * np.linspace(-9, 9, 400), 1 + s * np.linspace(-9, 40, 600)), axis=1))
    rows = [*zip(z, s[:, 0].tolist(), strict=True)]
    losses = np.stack([_losses(row, one, classes.rate) for row, one in rows])
    log_mass = np.stack([_log_normal(row, one) + _logs(row, one, classes.rate)[0] for row, one in rows])
    log_mass += np.log(np.gradient(z, axis=1))

    def exponent(log_order: float) -> float:
        order = math.exp(log_order)
        moments = np.logaddexp.reduce(log_mass + order * losses, axis=1) * classes.local
        if classes.presence < 1:
            moments = np.logaddexp(math.log1p(-classes.presence), math.log(classes.presence) + moments)
        # Where δ is no number at all, the least order that shows it: larger ones have reaches that fill the memory.
        return max(float(counts @ moments) - order * epsilon, LEAST_LOG_DELTA + log_order)

    found = minimize_scalar(exponent, bounds=(-7.0, 12.0), method="bounded", options={"xatol": 1e-2})
    return math.exp(float(found.x))
