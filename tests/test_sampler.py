"""What the sampler costs: the bound of docs/sampler.md against exact counts, and what it leaves of a promise."""

import math
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.ndimage import maximum_filter1d
from scipy.special import ndtr
from test_gaussian import normals_from

import cases
import fastldp as fl
import naive
from fastldp.errors import SamplerWarning
from fastldp.privacy import sampler
from fastldp.privacy.conversions import METHODS

Array = NDArray[np.float64]


# A sampler of few bits, all of whose words can be gone through


@dataclass(frozen=True)
class Tiny:
    """The same construction with fewer bits: as many for radius and angle, further ones, dithers and a wider window."""

    bits: sampler.Construction
    window: float = 0.5
    dithers: int = 8

    @property
    def scale(self) -> float:
        """σ/s."""
        return self.dithers / self.window

    def radii(self) -> tuple[Array, NDArray[np.int64]]:
        """Every radius, and how often it comes, in units of the smallest cell."""
        b = self.bits
        few = 1 << (b.radius - b.threshold)
        common = (np.arange(few, 1 << b.radius) + 1) * 2.0**-b.radius
        cells = np.arange(few << b.further)
        refined = (cells + 0.5) * 2.0 ** -(b.radius + b.further)
        counts = np.concatenate([np.ones(cells.size, np.int64), np.full(common.size, 1 << b.further)])
        return np.sqrt(-2 * np.log(np.concatenate([refined, common]))), counts

    def law(self, query: tuple[float, float], edge: int) -> Array:
        """The probabilities of K + U of both coordinates, for q/s, from −edge + ½ to edge − ½: all words counted."""
        radii, counts = self.radii()
        whole = 2 * np.rint(np.asarray(query) / 2)  # ours is coarser, as its window is wider
        rest = np.asarray(query) - whole
        wide = edge + self.dithers
        counted = np.zeros(4 * wide * wide, np.int64)
        angles = 2 * np.pi * np.arange(1 << self.bits.angle) * 2.0**-self.bits.angle
        for part in np.array_split(angles, 64):
            kept = np.ones((radii.size, part.size), dtype=bool)
            cell = np.zeros(kept.shape, np.int64)
            for turned, k, f in zip((np.cos(part), np.sin(part)), whole, rest, strict=True):
                rounded = (np.rint(radii[:, None] * turned * self.scale + f) + k).astype(np.int64) + wide
                kept &= (rounded >= 0) & (rounded < 2 * wide)
                cell = cell * 2 * wide + rounded
            weights = np.broadcast_to(counts[:, None], kept.shape)[kept]
            counted += np.bincount(cell[kept], weights, counted.size).astype(np.int64)  # exact: far below 2⁵³
        return self._dithered(counted.reshape(2 * wide, 2 * wide) / self._words, edge)

    @property
    def _words(self) -> float:
        return 2.0 ** (self.bits.radius + self.bits.further + self.bits.angle)

    def _dithered(self, rounded: Array, edge: int) -> Array:
        """The law of K + U from that of K: the mean over `dithers` neighbours, both ways."""
        for _ in range(2):
            sums = np.concatenate([np.zeros((1, rounded.shape[1])), np.cumsum(rounded, axis=0)])
            # K + U = v comes of the K from v − (dithers − 1)/2 to v + (dithers − 1)/2.
            first = np.arange(2 * edge) + self.dithers // 2 + 1
            rounded = ((sums[first + self.dithers] - sums[first]) / self.dithers).T
        return rounded

    def windows(self, query: tuple[float, float], edge: int) -> tuple[Array, Array]:
        """(2, released): where the interval of a normal begins that gives each release of a coordinate; and its end."""
        released = np.arange(-edge, edge) + 0.5
        middle = (released - np.asarray(query)[:, None]) / self.scale
        return middle - self.window / 2, middle + self.window / 2

    def ideal(self, query: tuple[float, float], edge: int) -> Array:
        """The same law with true normals."""
        begin, end = self.windows(query, edge)
        # On the side where nothing cancels.
        flip = begin + end > 0
        sides = np.where(flip, ndtr(-begin) - ndtr(-end), ndtr(end) - ndtr(begin)) / self.dithers
        return np.asarray(np.outer(*sides))

    def centres(self, query: tuple[float, float], edge: int) -> Array:
        """How far the centre of each rectangle is from the origin."""
        begin, end = self.windows(query, edge)
        x, y = (begin + end) / 2
        return np.asarray(np.hypot(x[:, None], y[None, :]))


TINY = [
    Tiny(sampler.Construction(radius=9, further=6, threshold=3, angle=12, rounding=2.0**-45)),
    Tiny(sampler.Construction(radius=9, further=7, threshold=4, angle=12, rounding=2.0**-45), window=0.75),
    Tiny(sampler.Construction(radius=8, further=8, threshold=2, angle=11, rounding=2.0**-45), dithers=4),
]
EDGE = 100
QUERY = 3.3, -0.45


@pytest.fixture(scope="module", params=range(len(TINY)))
def counted(request: pytest.FixtureRequest) -> tuple[Tiny, Array, Array, Array]:
    """A tiny sampler, its law, the ideal one, and the distances of the rectangles."""
    tiny = TINY[request.param]
    return tiny, tiny.law(QUERY, EDGE), tiny.ideal(QUERY, EDGE), tiny.centres(QUERY, EDGE)


def reach_of(tiny: Tiny, most: float = 0.3) -> float:
    """As far as the bound on the ratio stays below this."""
    distances = np.linspace(0, 10, 2001)
    return float(distances[np.flatnonzero(tiny.bits.log_ratio(distances, tiny.window) > most)[0] - 1])


def test_the_law_of_few_bits_is_as_close_as_the_bound_says(counted: tuple[Tiny, Array, Array, Array]) -> None:
    """Every word counted: no rectangle's probability is off by more than the formula, and some by a fair part of it."""
    tiny, law, ideal, centres = counted
    near = centres < reach_of(tiny)
    assert near.sum() > 500
    bound = tiny.bits.log_ratio(centres[near], tiny.window)
    off = np.abs(law[near] / ideal[near] - 1)
    assert (off <= bound).all()
    assert (off / bound).max() > 0.2


def test_without_the_further_bits_it_would_not_be(counted: tuple[Tiny, Array, Array, Array]) -> None:
    tiny, _, ideal, centres = counted
    near = centres < reach_of(tiny)
    law = replace(tiny, bits=replace(tiny.bits, further=0)).law(QUERY, EDGE)
    assert (np.abs(law[near] / ideal[near] - 1) > tiny.bits.log_ratio(centres[near], tiny.window)).any()


def test_what_the_bound_leaves_out_is_the_tail(counted: tuple[Tiny, Array, Array, Array]) -> None:
    """What is beyond e^η of the true law lies beyond the reach, and is no more than the radius is likely to."""
    tiny, law, ideal, _ = counted
    reach = reach_of(tiny)
    largest = float(tiny.bits.log_ratio(np.linspace(0, reach, 500), tiny.window).max())
    remainder = np.maximum(law - math.exp(largest) * ideal, 0.0).sum()
    missing = 1 - law.sum()
    radius = reach - math.sqrt(2) * tiny.window
    assert remainder + missing <= math.exp(-(radius**2) / 2) + 2.0 ** -(tiny.bits.radius + tiny.bits.further)
    assert remainder > 0


def test_the_exponential_moments_are_as_the_proof_has_them(counted: tuple[Tiny, Array, Array, Array]) -> None:
    tiny, law, ideal, centres = counted
    reach = reach_of(tiny)
    near = centres < reach - tiny.window / math.sqrt(2)
    ratio = np.log(law[near] / ideal[near])
    tau = math.exp(-((reach - math.sqrt(2) * tiny.window) ** 2) / 2)
    square = float((ideal[near] * ratio**2).sum())
    for order in np.linspace(1, 1 / np.abs(ratio).max(), 7):
        bound = 1 + order * tau + sampler.CURVATURE * order**2 * square
        assert (ideal[near] * np.exp(order * ratio)).sum() <= bound
        # And the other way: true normals beside the real ones.
        assert (ideal[near] * np.exp(-(order - 1) * ratio)).sum() <= bound


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_two_inputs_are_as_private_as_the_bound_says(tiny: Tiny, epsilon: float) -> None:
    """The hockey-stick divergence of the counted laws at ε + 2η, beside e^η δ + τ of the ideal ones at ε."""
    other = QUERY[0] + 0.3 * tiny.scale, QUERY[1] - 0.4 * tiny.scale
    shift, reach = 0.5, reach_of(tiny)
    largest = float(tiny.bits.log_ratio(np.linspace(0, reach, 500), tiny.window).max())
    law, neighbour = tiny.law(QUERY, EDGE), tiny.law(other, EDGE)
    ideal = np.maximum(tiny.ideal(QUERY, EDGE) - math.exp(epsilon) * tiny.ideal(other, EDGE), 0.0).sum()
    real = np.maximum(law - math.exp(epsilon + 2 * largest) * neighbour, 0.0).sum()
    radius = reach - math.sqrt(2) * tiny.window - shift
    tail = math.exp(-(radius**2) / 2) + 2.0 ** -(tiny.bits.radius + tiny.bits.further)
    assert real <= math.exp(largest) * ideal + tail


def test_the_law_does_not_depend_on_the_whole_part_of_a_query() -> None:
    """A query however large: the same counts, moved."""
    tiny = TINY[1]
    base, moved = tiny.law((0.3, -0.2), 60), tiny.law((12.3, -0.2), 60)
    np.testing.assert_array_equal(moved[12:], base[:-12])


# The real one


@pytest.mark.parametrize("window", np.linspace(sampler.SMALLEST_WINDOW, sampler.LARGEST_WINDOW, 5))
def test_the_constants_are_those_of_the_formula(window: float) -> None:
    """The largest ratio within the reach, and the mean of its square over all radii; not far above either."""
    radii = np.linspace(0, sampler.REACH, 200_001)
    ratios = sampler.Construction().log_ratio(radii, window)
    assert ratios.max() < 0.95 * sampler.LARGEST
    # A pair at a radius lies in rectangles whose centres are no farther from it than half of a diagonal.
    around = 2 * math.ceil(window / math.sqrt(2) / radii[1]) + 1
    worst = maximum_filter1d(ratios, around)
    square = float(np.sum(worst**2 * radii * np.exp(-(radii**2) / 2)) * radii[1])
    assert square < 0.7 * sampler.MEAN_SQUARE
    if window == sampler.SMALLEST_WINDOW:
        assert ratios.max() > 0.8 * sampler.LARGEST
        assert square > 0.5 * sampler.MEAN_SQUARE


def test_the_error_of_a_normal_is_within_that_of_the_proof() -> None:
    """8.5 units of 2⁻⁵³ of itself, whichever words it is made of; a ninth is left for the sum, and one to spare."""
    words = np.random.default_rng(3).integers(0, 2**32, (1200, 6), np.uint32)
    words[::3, 0] >>= 12
    words[::6, 0] >>= 20
    words[::12, :2] = 0
    words[1::12, 0] = 2**32 - 1 - np.arange(100)
    computed = normals_from(np.float64, words)
    with mpmath.workdps(60):
        for row, pair in zip(words.tolist(), computed, strict=True):
            bits = naive.uniform_bits(row[0], row[1])
            u1 = mpmath.mpf(bits + 1) / 2**53
            if row[0] < 2**20:
                u1 = mpmath.mpf((((bits << 32 | row[4]) << 32 | row[5]) << 1) + 1) / 2**118
            u2 = mpmath.mpf(naive.uniform_bits(row[2], row[3])) / 2**53
            radius = mpmath.sqrt(-2 * mpmath.log(u1))
            for value, truth in zip(pair, (radius * mpmath.cospi(2 * u2), radius * mpmath.sinpi(2 * u2)), strict=True):
                assert abs(mpmath.mpf(float(value)) - truth) <= 8.5 * 2.0**-53 * abs(truth)


def test_more_of_anything_costs_more() -> None:
    base: tuple[Any, ...] = (10**6, 1.0, 1e-5, 0.1)
    for other in ((10**7, 1.0, 1e-5, 0.1), (10**6, 9.0, 1e-5, 0.1), (10**6, 1.0, 1e-5, 3.0)):
        least, more = sampler.cost(*base), sampler.cost(*other)
        assert more.log_ratio > least.log_ratio
        assert more.remainder >= least.remainder
    assert sampler.tail(20.0) == 1.0
    assert sampler.cost(10**6, 1.0, 1e-5, 20.0).remainder == 1.0


# Promises


# Of every private run in the README: releases a worker, numbers in each, and the budget.
README = [
    (8_000, 22, 1.0, 1e-4),
    (16_000, 22, 1.0, 1e-4),
    (8_000, 123, 0.5, 1e-4),
    (16_000, 123, 1.0, 1e-4),
    (1_200, 159_010, 1.0, 1e-4),
    (1_200, 159_010, 0.5, 1e-5),
]


@pytest.mark.parametrize(("releases", "d", "epsilon", "delta"), README)
@pytest.mark.parametrize("accounting", METHODS)
@pytest.mark.parametrize("allocation", ["dynamic", "static"])
def test_the_sampler_costs_nothing(
    releases: int, d: int, epsilon: float, delta: float, accounting: str, allocation: str
) -> None:
    """Less than a millionth of ε and of δ; both are inside the promise; the paper's variances to a millionth."""
    A = sparse.csr_array(np.ones((200, 1)) * np.eye(1, d) * 0.5)
    problem = fl.Problem(A, np.ones(200), workers=10, l2=0.2, gradient_bound=1.0)
    budget = fl.Budget(epsilon, delta, accounting)
    schedule = fl.PrimalDual(step=0.25, allocation=allocation).schedule(problem, budget, releases)
    ledger = schedule.ledger
    assert ledger is not None
    assert 0 < np.max(ledger.sampler_epsilon) < 1e-6 * epsilon
    assert 0 < ledger.sampler_delta < 1e-6 * delta
    assert ledger.total_delta <= ledger.delta == delta
    assert float(ledger.total_epsilon) <= float(ledger.epsilon) == epsilon
    assert ledger.total_delta == pytest.approx(delta, rel=1e-11)
    rho = float(budget.rho)
    if allocation == "dynamic":
        paper = naive.dynamic_variances(releases, 0.25, problem.strong_convexity, 1.0, rho, 10, 20)
    else:
        paper = naive.static_variances(releases, 1.0, rho, 10, 20)
    np.testing.assert_allclose(ledger.variances, paper, rtol=1e-6)
    assert (ledger.variances >= paper * (1 - 1e-12)).all()
    np.testing.assert_array_equal(schedule.deviations, np.sqrt(ledger.shape))


@pytest.mark.parametrize("accounting", METHODS)
@pytest.mark.parametrize(
    "method",
    [
        fl.PrimalDual(),
        fl.PrimalDual(step="planned", allocation="planned"),
        fl.ISRLDP(step=0.1),
        fl.DPFedAvg(step=0.1, local_steps=3),
        fl.DPScaffold(step=0.1, local_steps=3, warm_start=True),
        fl.LDPFedEXP(step=0.1, local_steps=3),
        fl.DPScaffNew(step=0.1, probability=0.3),
    ],
    ids=lambda method: type(method).__name__,
)
def test_every_method_keeps_its_promise(method: Any, accounting: str) -> None:
    problem = cases.make("zero", sizes=(5, 12, 30)).problem
    for epsilon in (1e-3, 0.3, 3.0, 30.0, np.array([0.01, 1.0, 8.0])):
        for delta in (1e-12, 1e-5, 0.3):
            ledger = method.schedule(problem, fl.Budget(epsilon, delta, accounting), 400).ledger
            assert ledger.total_delta <= delta
            assert (np.asarray(ledger.total_epsilon) <= epsilon).all()
            np.testing.assert_allclose(ledger.total_epsilon, epsilon, rtol=1e-9)
            assert (np.atleast_1d(ledger.spent_rho) <= ledger.affordable_rho).all()


def test_variances_of_the_callers_own_leave_room_too() -> None:
    """Those that spend ρ are raised by what the sampler takes; those that spend less are left as they are."""
    problem, budget = cases.make("zero").problem, fl.Budget(1.0, 1e-4)
    calibrated = fl.PrimalDual(allocation="static").schedule(problem, budget, 50).ledger
    assert calibrated is not None
    again = fl.PrimalDual(allocation=calibrated.variances).schedule(problem, budget, 50).ledger
    assert again is not None
    np.testing.assert_array_equal(again.variances, calibrated.variances)
    sensitivity = float(np.max(calibrated.sensitivity))
    filled = fl.privacy.static_variances(50, float(budget.rho), sensitivity=sensitivity)
    raised = fl.PrimalDual(allocation=filled).schedule(problem, budget, 50).ledger
    assert raised is not None
    assert (raised.variances > filled).all()
    np.testing.assert_allclose(raised.variances, filled, rtol=1e-8)
    assert raised.total_delta <= 1e-4


def test_the_ledger_says_what_the_sampler_adds() -> None:
    problem = cases.make("zero", sizes=(5, 12)).problem
    ledger = fl.PrimalDual().schedule(problem, fl.Budget(np.array([0.5, 2.0]), 1e-4), 100).ledger
    assert ledger is not None
    shifts = np.atleast_1d(ledger.sensitivities.total) / np.sqrt(ledger.variances.min(axis=1))
    costs = [sampler.cost(100 * 5, epsilon, 1e-4, shift) for epsilon, shift in zip((0.5, 2.0), shifts, strict=True)]
    np.testing.assert_allclose(ledger.sampler_epsilon, [2 * cost.log_ratio for cost in costs], rtol=1e-12)
    expected = max(math.expm1(cost.log_ratio) * 1e-4 + cost.remainder for cost in costs)
    assert ledger.sampler_delta == pytest.approx(expected, rel=1e-12)
    largest = np.max(ledger.sampler_epsilon)
    assert f"adds {largest:.2g} to ε and {ledger.sampler_delta:.2g} to δ, of what was promised" in ledger.summary()


@pytest.mark.parametrize(("epsilon", "delta"), [(12.0, 1e-5), (1000.0, 1e-5), (1.0, 1e-12)])
def test_a_large_budget_over_many_rounds_is_no_reason_to_warn(epsilon: float, delta: float) -> None:
    run = fl.solve(cases.make("zero").problem, fl.Budget(epsilon, delta), rounds=300, seed=0)
    assert run.ledger is not None
    assert run.ledger.total_delta <= delta


def test_a_sampler_that_leaves_nothing_is_said() -> None:
    """One sample moves a release by more σ than the sampler reaches: then nothing is shown of it."""
    with pytest.warns(SamplerWarning, match="holds for ideal normals only"):
        run = fl.solve(cases.make("zero").problem, fl.Budget(1000.0, 1e-5), rounds=2, seed=0)
    assert run.ledger is not None
    assert run.ledger.total_delta > 1e-5
    assert "holds for ideal normals only" in run.ledger.summary()
    assert run.ledger.spent_rho == pytest.approx(run.ledger.rho, rel=1e-12)


def test_ledgers_of_the_first_sampler_say_what_that_adds() -> None:
    """Files written before there was a second do not say which: total variation, which grows with the query and e^ε."""
    problem = cases.make("zero", sizes=(5, 12)).problem
    ledger = fl.PrimalDual().schedule(problem, fl.Budget(np.array([0.5, 2.0]), 1e-4), 100).ledger
    assert ledger is not None
    saved = ledger.to_dict()
    assert saved.pop("sampler_version") == sampler.VERSION
    old = fl.Ledger.from_dict(saved)
    q = problem.gradient_bound / 2 / math.sqrt(9)
    expected = []
    for epsilon, variances in zip((0.5, 2.0), old.variances, strict=True):
        total = sum((40 + 2 * q / sigma) * 2.0**-64 * sigma / naive.spacing(sigma) for sigma in np.sqrt(variances))
        expected.append((1 + math.exp(epsilon)) * 9 * total)
    assert old.sampler_epsilon == 0
    assert old.sampler_delta == pytest.approx(max(expected), rel=1e-9)
    assert old.total_delta > 1e-4
    assert fl.Ledger.from_dict(ledger.to_dict()).total_delta == ledger.total_delta
