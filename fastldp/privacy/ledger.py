"""The ledger: what was promised, what was really used, and what that spends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp import html
from fastldp.privacy import amplification, sampler
from fastldp.privacy.allocation import SUM_ERROR, spent
from fastldp.privacy.conversions import delta_of, epsilon_of, rho_of
from fastldp.privacy.statement import statement
from fastldp.validation import integer

Array = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53
# Of δ, what amplified releases are calibrated to: an ε that differs in its last digits finds a little more.
ROOM = 1 - 1e-4
# What variances are multiplied by until a sampler can hide what it draws.
LOUDER = 1.1
ADJACENCY = "replace one sample's gradient (local: the server is not trusted)"

# Where noise can come from.
OS, SEEDED, COMMON, UNKNOWN = "os", "seeded", "common", ""
ORIGINS = {
    OS: "from the operating system; the key was not kept",
    SEEDED: "seeded: private only while the seed is secret and used for this run alone",
    COMMON: "seeded, and the same in all runs of the seed: private only while it is secret and no other run is shown",
    UNKNOWN: "no run was made, or it was not written down",
}
# Where a bound comes from that is made of released counts.
ADAPTIVE = "adaptive"
BOUND_SOURCES = {
    "data": "the largest row",
    "set": "the largest over the rows and the regularizer's bounded set",
    "public": "public, from row_bound=, gradient_bound= or clip=, and enforced on each sample's gradient",
    ADAPTIVE: "made of released counts, hence public, and enforced on each sample's gradient",
}
READ_OFF = (
    ": a leak of its own, customary in papers; to deploy, give in public what is named: row_bound= or gradient_bound=, "
    "step=, classes= of an estimator"
)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How far one sample can move a worker's release, part by part; one number for each worker."""

    query: Array
    """2wᵢB/mᵢ, or 2B/mᵢ where ∇fᵢ itself is released: the exact gradients."""
    arithmetic: Array
    """The rounding error of the computed gradients, twice."""

    @classmethod
    def of_means(cls, bound: float, divisors: Array, sizes: NDArray[np.int64], rounding: Array) -> Sensitivity:
        """Of releases of a worker's gradients, each within a bound, added up and divided by a number of its own.

        `rounding` as from `rounding_of`.
        """
        query = 2 * bound / divisors
        # Rounding moves the means of both worlds.
        arithmetic = 2 * rounding * bound / (divisors / sizes)
        if (query == query[0]).all():
            # The largest for all: it adds nothing that counts, and their noise is alike.
            arithmetic = np.full_like(arithmetic, arithmetic.max())
        return cls(query, arithmetic)

    @property
    def total(self) -> Array:
        """(n,): both together."""
        return self.query + self.arithmetic


def rounding_of(sizes: NDArray[np.int64]) -> Array:
    """(n,): how far rounding may move a mean of so many gradients, in their bound B, where one of them changes."""
    # A sum of m terms of norm B/m is rounded by m units of B at most.
    return np.asarray((sizes + 4) * UNIT_ROUNDOFF)


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Ledger:
    """What a private solve promised and spent. One number stands for all workers where they agree."""

    accounting: str
    delta: float
    promised_epsilon: Array
    promised_rho: Array
    bound: float
    bound_source: str
    read_off_data: str
    """What the messages depend on that was read off the data without noise; empty where there is nothing."""
    allocation: str
    sensitivities: Sensitivity
    shape: Array
    """(T,): the variances of the rounds, up to each worker's factor."""
    factors: Array
    """(n,): a worker's variances are its factor times the shape."""
    dimension: int
    """d: how many numbers a release has."""
    largest_query: float
    """The largest norm a query can have, before the noise."""
    precision: str
    """``"float64"``, or ``"float32"`` for exploration: off the grid, with rounding not accounted for."""
    adjacency: str = ADJACENCY
    plan: str = ""
    """What a planned step was planned by, and the error it was chosen for; empty where nothing was planned."""
    sampler_version: int = 1
    """Which sampler made the noise: the first where a file does not say."""
    noise: str = UNKNOWN
    """Where the noise came from: ``"os"``, ``"seeded"``, ``"common"``, or nothing where no run was made of it."""
    clipping: str = ""
    """How the threshold C adapts, where it does: bound, sensitivities and shape are then in units of it."""
    count_sensitivity: float = 0.0
    """How far one sample moves a count of gradients shorter than C, as a share of all samples."""
    count_variances: Array = field(default_factory=_nothing)
    """Those of the counts, up to each worker's factor; none where nothing is counted."""
    count_factors: Array = field(default_factory=_nothing)
    """(n,): a worker's are its factor times these."""
    sample_rate: float = 1.0
    """q, with which probability a sample is drawn for a release."""
    worker_rate: float = 1.0
    """r, with which probability a worker takes part in a round."""
    choice: str = ""
    """Who knows which workers do: ``"public"`` or ``"secret"``; empty where nothing is drawn."""
    local_releases: int = 1
    """How many releases a worker makes in a round."""
    early_releases: int = 0
    """How many it makes before the first, in which all take part."""

    @property
    def epsilon(self) -> float | Array:
        """ε as promised."""
        return _one_or_all(self.promised_epsilon)

    @property
    def rho(self) -> float | Array:
        """ρ as promised."""
        return _one_or_all(self.promised_rho)

    @property
    def sensitivity(self) -> float | Array:
        """The sensitivity of one release, rounding included."""
        return _one_or_all(self.sensitivities.total)

    @property
    def amplified(self) -> bool:
        """Whether what is promised counts on samples, or workers, being drawn at random: accounting ``"pld"`` does."""
        return self.accounting == "pld" and min(self.sample_rate, self.worker_rate) < 1

    @property
    def of_spending(self) -> Array:
        """(n,): what a worker's spending depends on: its ρ, or where it is amplified √factor over its part of a query.

        That part is what a drawn sample moves it by: half of what replacing does, and all of what rounding does.
        """
        if not self.amplified:
            return self._spent()
        found = np.sqrt(self.factors) / self._moved
        # Rounded down, so that workers who differ in the last digits are accounted for once.
        mantissas, exponents = np.frexp(found)
        return np.asarray(np.ldexp(np.floor(mantissas * 2.0**36) / 2.0**36, exponents))

    def releases_of(self, spending: float, times: int = 1) -> amplification.Releases:
        """All that a worker who so spends releases, where that is amplified; or several such runs."""
        # The least noise of a round's releases, and of those before the first: by us they are alike.
        of_all = self.shape[self.early_releases :].reshape(-1, self.local_releases)
        rounds = of_all.min(axis=1)
        if self.early_releases:
            rounds[0] = min(rounds[0], float(self.shape[: self.early_releases].min()))
        return amplification.Releases(
            self.sample_rate,
            np.tile(spending * np.sqrt(rounds), times),
            self.worker_rate,
            self.local_releases,
            times * self.early_releases,
        )

    @property
    def _moved(self) -> Array:
        return self.sensitivities.query / 2 + self.sensitivities.arithmetic

    def _epsilon_of(self, spending: float, delta: float, near: float = 0.0, times: int = 1) -> float:
        """ε at δ of so many runs that spend so each; of amplified ones most accurate near an ε."""
        if self.amplified:
            return amplification.epsilon_of(self.releases_of(spending, times), delta, near)
        return epsilon_of(times * spending, delta, self.accounting)

    def _delta_of(self, spending: float, epsilon: float) -> float:
        """δ at ε of what spends so."""
        if self.amplified:
            return amplification.delta_of(self.releases_of(spending), epsilon)
        return delta_of(spending, epsilon, self.accounting)

    @property
    def variances(self) -> Array:
        """ξ² of every release: (T,), or (n, T) where workers differ."""
        if (self.factors == self.factors[0]).all():
            return np.asarray(self.factors[0] * self.shape)
        return np.outer(self.factors, self.shape)

    @property
    def grids(self) -> Array:
        """The spacing of the public grid of every release, shaped as `variances`; NaN off the grid, in float32."""
        spacings = sampler.spacing(np.sqrt(self.variances))
        return spacings if self._gridded else np.full_like(spacings, np.nan)

    @property
    def sampler_epsilon(self) -> float | Array:
        """What the sampler's distance from true normals adds to ε, at most; NaN in float32, where it is not bounded."""
        return _one_or_all(np.array([2 * taken.log_ratio for taken in self._taken()]))

    @property
    def sampler_delta(self) -> float:
        """What the sampler's distance from true normals adds to δ, at most; NaN in float32, where it is not bounded."""
        added = [math.expm1(min(1.0, taken.log_ratio)) * self.delta + taken.remainder for taken in self._taken()]
        return min(1.0, max(added)) if self._gridded else math.nan

    @property
    def total_epsilon(self) -> float | Array:
        """ε at δ of all that was spent, sampler included: no more than promised where variances were calibrated."""

        def total(promised: float, spending: float, taken: sampler.Cost) -> float:
            rest, two = (self.delta - taken.remainder) * math.exp(-taken.log_ratio), 2 * taken.log_ratio
            return self._epsilon_of(spending, rest, promised - two) + two if rest > 0 else math.inf

        if not self._gridded:
            return math.nan
        return _one_or_all(_each(total, self.promised_epsilon.tolist(), self.of_spending.tolist(), self._taken()))

    @property
    def total_delta(self) -> float:
        """δ at ε of all that was spent, sampler included: no more than promised where variances were calibrated."""

        def total(epsilon: float, spending: float, taken: sampler.Cost) -> float:
            rest = epsilon - 2 * taken.log_ratio
            if rest <= 0:
                return 1.0
            # With an ε in the thousands the sampler's factor may overflow: nothing is promised then.
            factor = math.exp(min(taken.log_ratio, 700.0))
            return min(1.0, factor * self._delta_of(spending, rest) + taken.remainder)

        if not self._gridded:
            return math.nan
        return float(_each(total, self.promised_epsilon.tolist(), self.of_spending.tolist(), self._taken()).max())

    @property
    def affordable_rho(self) -> Array:
        """(n,): the ρ that true normals may spend, so that with the sampler all is as promised.

        Where the sampler leaves too little, or is not bounded, it is ρ as promised.
        """

        def affordable(epsilon: float, promised: float, taken: sampler.Cost) -> float:
            rest = sampler.left(epsilon, self.delta, taken)
            return promised if rest is None else rho_of(*rest, self.accounting)

        if not self._gridded:
            return self.promised_rho
        return _each(affordable, self.promised_epsilon.tolist(), self.promised_rho.tolist(), self._taken())

    def calibrated(self, *, lower: bool = True) -> Ledger:
        """The same with variances raised, where they spend all that was promised, by what the sampler takes of it.

        Where releases are amplified they are lowered too, unless they are not to be.
        """
        if self.amplified:
            found = self._amplified(lower=lower)
            # Where hardly any sample is drawn less noise would do than hides the ends of what a sampler can draw.
            while found._spoiled and not self._spoiled:
                found = replace(found, shape=found.shape * LOUDER)
            return found._amplified(lower=False)
        raised = np.maximum(1.0, self._spent() / self.affordable_rho)
        if (raised == 1).all():
            return self
        # No less than what rounding, of these products and of sums of them, makes of one.
        raised = raised * (1 + 4 * SUM_ERROR)
        common, own = raised[0], raised / raised[0]
        counts = {}
        if self.counts:
            counts = {"count_variances": self.count_variances * common, "count_factors": self.count_factors * own}
        return replace(self, shape=self.shape * common, factors=self.factors * own, **counts)

    def _amplified(self, *, lower: bool) -> Ledger:
        """The same with as much noise as what is promised needs, less what its sampler takes of that, or with more."""
        factors = self._needed() if lower else np.maximum(self._needed(), self.factors)
        return replace(self, shape=self.shape * factors.min(), factors=factors / factors.min())

    def _needed(self) -> Array:
        """(n,): the least factors that keep what is promised, where releases are amplified."""
        unit, known = self.releases_of(1.0), {}
        taken = [*zip(self.promised_epsilon.tolist(), self._taken(), strict=True)]
        for epsilon in {promised for promised, _ in taken}:
            # Of workers with one promise they differ in what rounding moves.
            most = max(cost for promised, cost in taken if promised == epsilon)
            rest = (sampler.left(epsilon, self.delta, most) if self._gridded else None) or (epsilon, self.delta)
            known[epsilon] = amplification.scale_of(unit, rest[0], rest[1] * ROOM)
        return np.square(np.array([known[promised] for promised, _ in taken]) * self._moved)

    @property
    def _spoiled(self) -> bool:
        """Whether the sampler may take so much of a promise that there is no calibrating to what it leaves."""
        taken = zip(self.promised_epsilon.tolist(), self._taken(), strict=True)
        return any(sampler.left(epsilon, self.delta, cost) is None for epsilon, cost in taken)

    @property
    def _gridded(self) -> bool:
        return self.precision == "float64"

    def _taken(self) -> list[sampler.Cost]:
        """What the sampler takes of each worker's promise."""
        if not self._gridded:
            return [sampler.Cost(math.nan, math.nan)] * self.factors.size
        if self.sampler_version == 1:
            return [*map(self._taken_by_the_first, self.promised_epsilon.tolist(), self.factors.tolist())]
        pairs = self.releases * ((self.dimension + 1) // 2) + self.counts
        shifts = self.sensitivities.total / np.sqrt(self.factors * self.shape.min())
        if self.counts:
            of_counts = self.count_sensitivity / np.sqrt(self.count_factors * self.count_variances.min())
            shifts = np.maximum(shifts, of_counts)
        given = {*zip(self.promised_epsilon.tolist(), shifts.tolist(), strict=True)}
        known = {one: sampler.cost(pairs, one[0], self.delta, one[1]) for one in given}
        return [known[one] for one in zip(self.promised_epsilon.tolist(), shifts.tolist(), strict=True)]

    def _taken_by_the_first(self, epsilon: float, factor: float) -> sampler.Cost:
        """The same of the first version of the sampler, whose distance is one of total variation."""
        # Σ|qⱼ| ≤ √d ‖q‖: on average over its numbers a query is no larger than this.
        average = self.largest_query / math.sqrt(self.dimension)
        apart = self.dimension * float(np.sum(sampler.distance(np.sqrt(factor * self.shape), average)))
        # (1 + e^ε) D, which is beyond all promises long before it overflows.
        return sampler.Cost(0.0, min(1.0, (1 + math.exp(min(epsilon, 100.0))) * apart))

    @property
    def releases(self) -> int:
        """How many noisy gradients each worker released."""
        return self.shape.size

    @property
    def counts(self) -> int:
        """How many counts of gradients each worker released beside them."""
        return self.count_variances.size

    @property
    def count_rho(self) -> float | Array:
        """What of the spent ρ was spent on counts."""
        return _one_or_all(self._spent_on_counts())

    @property
    def spent_rho(self) -> float | Array:
        """ρ recomputed from the variances and sensitivities of the run."""
        return _one_or_all(self._spent())

    @property
    def spent_share(self) -> float:
        """The largest share of its ρ that a worker has spent; no more than 1."""
        return float((self._spent() / self.promised_rho).max())

    @property
    def overspent(self) -> float:
        """What variances of gradients must be multiplied by, at least, to keep to the budget; those of counts do."""
        if self.amplified:
            return float((self._needed() / self.factors).max())
        counts = self._spent_on_counts()
        return float(((self._spent() - counts) / (self.promised_rho - counts)).max())

    @property
    def spent_epsilon(self) -> float | Array:
        """ε at δ recomputed from the variances and sensitivities of the run."""
        return self.epsilon_of_all(1)

    def epsilon_of_all(self, repetitions: int) -> float | Array:
        """ε at δ of publishing so many repetitions of the run, each with noise of its own: their ρ add up."""
        count = integer("repetitions", repetitions, "give a whole number ≥ 1", at_least=1)
        return _one_or_all(
            _each(
                lambda promised, spending: self._epsilon_of(spending, self.delta, promised * (count == 1), count),
                self.promised_epsilon.tolist(),
                self.of_spending.tolist(),
            )
        )

    @property
    def mu(self) -> float | Array:
        """μ of Gaussian differential privacy: ideal releases are as hard to tell apart as N(0, 1) from N(μ, 1)."""
        return _one_or_all(np.sqrt(2 * self._spent()))

    def statement(self, repetitions: int = 1) -> str:
        """The promise as a paragraph for people; of several repetitions also what publishing all of them spends."""
        return statement(self, repetitions)

    def _spent(self) -> Array:
        if self.amplified:
            # Of Gaussian releases of full gradients with the same ε at δ.
            spent_epsilon = np.broadcast_to(self.spent_epsilon, self.factors.shape).tolist()
            return _each(lambda one: rho_of(max(one, 1e-12), self.delta, "gdp"), spent_epsilon)
        # Σ Δ²/(2 factor ξ²): the sum over rounds is common to all workers.
        found = spent(self.shape, 1.0) * self.sensitivities.total**2 / self.factors
        return found + self._spent_on_counts() if self.counts else found

    def _spent_on_counts(self) -> Array:
        if not self.counts:
            return np.zeros(self.factors.size)
        return spent(self.count_variances, self.count_sensitivity) / self.count_factors

    def summary(self) -> str:
        """The ledger as an aligned table."""
        return "\n".join(f"  {name:<15} {text}" for name, text in self._rows())

    def __repr__(self) -> str:
        promised = f"({_range(self.promised_epsilon)}, {self.delta:g})-LDP by {self.accounting}"
        return f"Ledger({promised}, {self.releases:,} releases a worker; summary() says all)"

    def _repr_html_(self) -> str:
        return html.table(self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """What the table says, and of what."""
        variances = self.factors.max() * self.shape.max(), self.factors.min() * self.shape.min()
        rows = [
            ("adjacency", self.adjacency),
            ("promised", f"(ε, δ) = ({_range(self.promised_epsilon)}, {self.delta:g})-LDP"),
            ("accounting", f"{self.accounting}, ρ = {_range(self.promised_rho)}{self._amplification()}"),
            *self._drawn(),
            ("spent", f"ε = {_range(np.atleast_1d(self.spent_epsilon))}, ρ = {_range(self._spent())}"),
            ("gradient bound", f"{self.clipping or f'B = {self.bound:.6g}'}, {BOUND_SOURCES[self.bound_source]}"),
            ("read off data", self.read_off_data + READ_OFF if self.read_off_data else "nothing"),
            ("sensitivity", f"{_range(self.sensitivities.total)} a release{self._in_units}{self._manner()}"),
            ("releases", f"{self.releases:,} a worker, of {self.dimension:,} numbers"),
            *self._counted(),
            ("noise", ORIGINS[self.noise]),
            ("sampler", self._sampler()),
            ("variances", f"{self.allocation}, {_range(np.array(variances))}{self._in_units}"),
        ]
        return [*rows, ("plan", self.plan)] if self.plan else rows

    def _amplification(self) -> str:
        return " of full gradients; privacy loss distributions of sampled ones, rounded up" if self.amplified else ""

    def _drawn(self) -> list[tuple[str, str]]:
        if min(self.sample_rate, self.worker_rate) == 1:
            return []
        parts = [f"samples at q = {self.sample_rate:.6g}, in secret"] if self.sample_rate < 1 else []
        if self.worker_rate < 1:
            parts.append(f"workers at r = {self.worker_rate:.6g}, in {self.choice}, which amplifies nothing")
        counted = "amplified" if self.amplified else "accounted for as if every sample were in every release"
        return [("drawn", f"{'; '.join(parts)}; {counted}")]

    @property
    def _in_units(self) -> str:
        return " in units of C" if self.clipping else ""

    def _counted(self) -> list[tuple[str, str]]:
        if not self.counts:
            return []
        variances = self.count_factors[:, None] * self.count_variances[[0, -1]]
        share = np.max(self._spent_on_counts() / self._spent())
        text = f"{self.counts:,} a worker, sensitivity {self.count_sensitivity:.6g}, variance {_range(variances)}"
        return [("counts", f"{text}, {share:.1%} of ρ, noise and grid as of releases")]

    def _manner(self) -> str:
        return ", rounding included" if self._gridded else ""

    def _sampler(self) -> str:
        if not self._gridded:
            return "in float32, off the grid: for exploration, not to be deployed"
        added = f"{np.max(self.sampler_epsilon):.2g} to ε and {self.sampler_delta:.2g} to δ"
        text = f"ChaCha20, Box-Muller, on a grid of σ/2¹⁵ or finer: adds {added}"
        kept = self.total_delta <= self.delta
        return f"{text}, of what was promised" if kept else f"{text}, so the promise holds for ideal normals only"

    def to_dict(self) -> dict[str, Any]:
        """Everything in it, as arrays and plain values; `from_dict` is its inverse."""
        flat = dict(vars(self))
        parts = flat.pop("sensitivities")
        return flat | {"query": parts.query, "arithmetic": parts.arithmetic}

    @classmethod
    def from_dict(cls, flat: dict[str, Any]) -> Ledger:
        """A ledger from what `to_dict` gave."""
        rest = dict(flat)
        parts = Sensitivity(rest.pop("query"), rest.pop("arithmetic"))
        return cls(sensitivities=parts, **rest)


def _each(of_worker: Callable[..., float], *columns: Sequence[Any]) -> Array:
    """A function of what each worker has in these columns, evaluated once for workers that have the same."""
    rows = list(zip(*columns, strict=True))
    known = {row: of_worker(*row) for row in set(rows)}
    return np.array([known[row] for row in rows])


def _one_or_all(values: Array) -> float | Array:
    return float(values[0]) if (values == values[0]).all() else values


def _range(values: Array) -> str:
    low, high = f"{values.min():.6g}", f"{values.max():.6g}"
    return low if low == high else f"{low} to {high}"
