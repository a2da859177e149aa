"""Verdicts on claims: what intervals say, which runs are asked for, and how often a verdict is false."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fastldp.reproduction import claims, verdicts
from fastldp.reproduction.claims import Claim, Contrast, Errors, Interval, Point, Standing

A, B = Point("ours", 800), Point("theirs", 800)
CURVE = [Point("curve", T) for T in (100, 200, 400, 800)]


def errors(means: Mapping[Point, float], runs: int = 10, spread: float = 0.01) -> Errors:
    """Of runs whose logarithms have these means, in geometric mean, and this standard deviation."""
    shape = np.linspace(-1, 1, runs)
    return {point: mean * np.exp(spread * shape / shape.std()) for point, mean in means.items()}


def of(claim: Claim, chosen_on: Errors, judged: Errors, level: float = 1e-4) -> Standing:
    standing = Standing.of(claim, chosen_on)
    standing.look(judged, level)
    return standing


def word(claim: Claim, means: Mapping[Point, float], spread: float = 0.01) -> str:
    """With other noise at every point, so that ratios have some."""
    x = np.linspace(-1, 1, 40)
    some = {point: mean * np.exp(spread * np.roll(x, 7 * k)) for k, (point, mean) in enumerate(means.items())}
    return of(claim, some, some).verdict().word


@pytest.mark.parametrize(
    ("ours", "wanted"), [(0.8, "held"), (1.25, "did not hold"), (1.02, "no difference"), (0.98, "no difference")]
)
def test_one_method_is_better_than_another(ours: float, wanted: str) -> None:
    assert word(claims.better("here", "it is", A, B), {A: ours, B: 1.0}) == wanted
    # Where runs differ more than the means do, nothing is decided.
    assert word(claims.better("here", "it is", A, B), {A: ours, B: 1.0}, spread=3.0) == "undecided"


@pytest.mark.parametrize(
    ("last", "wanted"),
    [
        (1.1, "held"),
        (0.9, "held"),
        (1.3, "did not hold"),
        (0.7, "did not hold"),
        (1.2, "undecided"),
        (0.8, "undecided"),
    ],
)
def test_staying_within_a_fifth(last: float, wanted: str) -> None:
    claim = claims.within("here", "it does", CURVE[1], CURVE[3], share=0.2)
    assert word(claim, {CURVE[1]: 1.0, CURVE[3]: last}) == wanted


@pytest.mark.parametrize(
    ("means", "wanted"),
    [
        ((3.0, 1.0, 1.5, 2.0), "held"),
        ((1.0, 2.0, 3.0, 4.0), "did not hold"),
        ((4.0, 3.0, 2.0, 1.0), "did not hold"),
        ((1.0, 1.0, 1.0, 1.0), "no difference"),
        ((4.0, 1.01, 0.99, 1.0), "no difference"),  # a dip of one percent is none
        ((1.0, 3.0, 3.0, 1.0), "did not hold"),  # a hill
    ],
)
def test_falling_and_rising_again(means: Sequence[float], wanted: str) -> None:
    claim = claims.falls_and_rises("here", "it does", "curve", [100, 200, 400, 800])
    assert word(claim, dict(zip(CURVE, means, strict=True))) == wanted


def test_no_error_is_above_a_number() -> None:
    claim = claims.none_above("here", "none", CURVE[:2], 1.0)
    assert word(claim, {CURVE[0]: 0.5, CURVE[1]: 0.9}) == "held"
    assert word(claim, {CURVE[0]: 0.5, CURVE[1]: 1.2}) == "did not hold"
    assert word(claim, {CURVE[0]: 0.5, CURVE[1]: 1.0}) == "no difference"


def test_being_near_another_at_all_horizons() -> None:
    pairs = [(CURVE[k], Point("best", CURVE[k].rounds)) for k in (0, 1)]
    claim = claims.near_at_all("here", "it is", pairs, share=0.1)
    best = dict.fromkeys((second for _, second in pairs), 1.0)
    assert word(claim, {CURVE[0]: 0.5, CURVE[1]: 1.05} | best) == "held"
    assert word(claim, {CURVE[0]: 0.5, CURVE[1]: 1.15} | best) == "did not hold"


def test_ratios_are_taken_run_by_run() -> None:
    # Runs differ by a hundred times more than the methods do, but the methods differ alike in all of them.
    theirs = np.exp(np.linspace(-2, 2, 20))
    standing = of(claims.better("here", "it is", A, B), *2 * ({A: 0.9 * theirs, B: theirs},))
    assert standing.interval == pytest.approx((-np.log(0.9),) * 2)
    assert standing.held is True


def test_limits_are_those_of_students_t() -> None:
    x = np.random.default_rng(0).normal(1.0, 2.0, 12)
    found = claims.limits(x, 0.01)
    textbook = stats.ttest_1samp(x, 0.0).confidence_interval(0.98)
    assert found == pytest.approx((textbook.low, textbook.high))
    assert claims.limits(x[:1], 0.01) == Interval()


def test_runs_that_diverge_have_an_infinite_error() -> None:
    claim = claims.better("here", "it is", A, B)
    fine, broken = np.ones(5), np.array([1, 1, np.inf, 1, 1])
    assert of(claim, *2 * ({A: broken, B: fine},)).verdict().word == "did not hold"
    assert of(claim, *2 * ({A: fine, B: broken},)).verdict().word == "held"
    # Where both do nothing can be said of them.
    assert of(claim, *2 * ({A: broken, B: broken},)).verdict().word == "undecided"
    assert of(claims.none_above("here", "none", [A], 1.0), *2 * ({A: broken},)).held is False


def test_limits_of_all_looks_hold_together() -> None:
    standing = Standing.of(claims.better("here", "it is", A, B), {A: np.ones(3), B: np.ones(3)})
    rng = np.random.default_rng(1)
    seen = []
    for count in (10, 20, 40):
        judged = {A: np.ones(count), B: np.exp(0.3 * rng.standard_normal(count))}
        standing.look(judged, 1e-3)
        seen.append(claims.limits(np.log(judged[B]), 1e-3))
    assert standing.interval == (max(one.low for one in seen), min(one.high for one in seen))


def test_what_is_least_is_chosen_on_other_runs_than_are_judged() -> None:
    claim = claims.falls_and_rises("here", "it does", "curve", [100, 200, 400, 800])
    # The figure's runs are least at 200, by chance; the others at 400, where it is not looked for a dip.
    shown = errors(dict(zip(CURVE, (1.0, 0.8, 0.9, 1.0), strict=True)))
    judged = errors(dict(zip(CURVE, (1.0, 1.0, 0.8, 1.0), strict=True)))
    standing = of(claim, shown, judged)
    assert standing.best == 0
    assert standing.held is None
    # And neither is it said that there is none.
    assert standing.interval.low <= 0 < np.log(1 / 0.8) <= standing.interval.high


MOST = 800


class Asked:
    """Makes errors, and keeps what was asked for."""

    def __init__(self, log_means: Mapping[Point, float], draw: Callable[[int], Any]) -> None:
        self.asked: list[tuple[list[Point], int]] = []
        # A part that all points of a repetition have in common, as their noise.
        common = draw(MOST)
        self.values = {point: np.exp(mean + common + draw(MOST)) for point, mean in log_means.items()}

    def __call__(self, points: Sequence[Point], count: int) -> Errors:
        self.asked.append((list(points), count))
        return {point: self.values[point][100 : 100 + count] for point in points}

    @property
    def chosen_on(self) -> Errors:
        return {point: values[:20] for point, values in self.values.items()}


def test_only_what_is_undecided_is_asked_for_again() -> None:
    far, near = Point("far", 800), Point("near", 800)
    rng = np.random.default_rng(2)
    made = Asked({A: 0.0, far: 5.0, near: 0.0}, lambda size: 0.1 * rng.standard_normal(size))
    found = claims.decide(
        [claims.better("here", "far", A, far), claims.better("here", "near", A, near)],
        made.chosen_on,
        made,
        looks=(20, 40, 80, 160, 320, 640),
    )
    assert [verdict.word for verdict in found] == ["held", "no difference"]
    assert made.asked[0] == (sorted([A, far, near]), 20)
    assert all(points == sorted([A, near]) for points, _ in made.asked[1:])
    assert [count for _, count in made.asked] == [20, 40, 80, 160, 320, 640][: len(made.asked)]
    assert found[0].measured.endswith("20 runs")


def test_ways_that_are_settled_are_not_asked_for_again() -> None:
    claim = claims.falls_and_rises("here", "it does", "curve", [100, 200, 400, 800])
    # Surely no dip at 200, perhaps one at 400.
    some = errors(dict(zip(CURVE, (1.0, 5.0, 0.97, 1.0), strict=True)), spread=0.0)
    standing = Standing.of(claim, some)
    assert standing.points() == {*CURVE}
    rng = np.random.default_rng(0)
    standing.look({point: values * np.exp(0.1 * rng.standard_normal(10)) for point, values in some.items()}, 1e-4)
    assert not standing.decided
    assert standing.points() == {CURVE[0], CURVE[2], CURVE[3]}


def test_fewer_looks_have_the_limits_of_all() -> None:
    """What is judged early is no surer than it would be on the way to the last look."""
    asked = [claims.better("here", "ours is better", A, B)]
    sought: list[int] = []

    def measure(points: Sequence[Point], count: int) -> Errors:
        sought.append(count)
        signs = np.resize([1.0, -1.0], count)
        return {point: np.exp(0.3 * signs * (1 if point == A else -1)) for point in points}

    (early,) = claims.decide(asked, {}, measure, looks=(10, 20, 40), most=20)
    (all_looks,) = claims.decide(asked, {}, measure, looks=(10, 20))
    assert sought == [10, 20, 10, 20]
    wide, narrow = (re.findall(r"ratio (\S+) to (\S+),", one.measured)[0] for one in (early, all_looks))
    assert float(wide[0]) < float(narrow[0]) < float(narrow[1]) < float(wide[1])


def falsely(claim: Claim, theta: float, found: verdicts.Verdict) -> bool:
    """Whether a verdict is false, of a claim whose Θ is known."""
    margin = np.log1p(claim.margin)
    if found.alike:
        return bool(abs(theta - claim.low) >= margin)
    true = claim.low < theta < claim.high
    # On the line neither is true.
    return found.held is not None and (theta in (claim.low, claim.high) or found.held is not true)


def test_verdicts_are_seldom_false_where_differences_are_on_the_line() -> None:
    """Over all claims of a family and all looks, of errors with heavy tails; scripts/false_verdicts.py tries more."""
    rng = np.random.default_rng(3)
    edge = float(np.log1p(claims.MARGIN))
    thetas = [0.0] * 6 + [edge] * 3 + [-edge] * 3
    asked: list[Claim] = [
        Claim("here", f"{k}", ((Contrast(Point(f"b{k}", 1), Point(f"a{k}", 1)),),)) for k in range(len(thetas))
    ]
    log_means = {Point(f"{which}{k}", 1): theta * (which == "b") for which in "ab" for k, theta in enumerate(thetas)}
    wrong = 0
    families = 200
    for _ in range(families):
        made = Asked(log_means, lambda size: 0.15 * rng.standard_t(5, size))
        found = claims.decide(asked, made.chosen_on, made, looks=(20, 40, 80, 160))
        wrong += any(falsely(claim, theta, one) for claim, theta, one in zip(asked, thetas, found, strict=True))
    # Five percent is promised: more than this has a probability below one in a million then.
    assert wrong <= stats.binom.isf(1e-6, families, claims.FAMILY)


def test_errors_of_all_looks_add_up_to_that_of_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided early or not, every claim has its share of what all may be wrong by, half of it on each side."""
    spent: dict[str, list[float]] = {}
    look = Standing.look

    def noted(self: Standing, errors: Errors, level: float) -> None:
        spent.setdefault(self.claim.text, []).append(level)
        look(self, errors, level)

    monkeypatch.setattr(Standing, "look", noted)
    far, near = Point("far", 800), Point("near", 800)
    rng, means = np.random.default_rng(0), {A: 0.0, far: 5.0, near: 0.1}
    values = {point: np.exp(mean + 0.3 * rng.standard_normal(40)) for point, mean in means.items()}
    claims.decide(
        [claims.better("here", "far", A, far), claims.better("here", "near", A, near)],
        {},
        lambda points, count: {point: values[point][:count] for point in points},
        looks=(10, 20, 40),
    )
    assert spent["far"] == pytest.approx([claims.FAMILY / 4 * 10 / 70])
    assert spent["near"] == pytest.approx([claims.FAMILY / 4 * count / 70 for count in (10, 20, 40)])
    assert 2 * 2 * sum(spent["near"]) == pytest.approx(claims.FAMILY)


def test_errors_that_are_told_are_geometric_means() -> None:
    some = {A: np.array([1.0, 4.0]), B: np.array([2.0, 32.0])}
    assert of(claims.better("here", "it is", A, B), some, some).verdict().measured.startswith("2 against 8 at T = 800")


def test_choices_are_made_of_all_points() -> None:
    assert claims.falls_and_rises("here", "it does", "curve", [100, 200, 400, 800]).points == {*CURVE}
