"""The search that has no edge, on surfaces whose best point is known."""

import math

import pytest

from fastldp.reproduction import searching
from fastldp.reproduction.climbing import Axis, Climb, Point, climbed

AXES = (Axis("a", 1.0), Axis("b", 3.0))


def climb(best: tuple[float, float], begin: Point = (0, 0), **given: object) -> Climb:
    """On a hill in the logarithms of both."""

    def judge(points: list[Point]) -> dict[Point, float]:
        values = [[axis.at(steps) for axis, steps in zip(AXES, point, strict=True)] for point in points]
        return {
            point: -sum(math.log2(x / y) ** 2 for x, y in zip(value, best, strict=True))
            for point, value in zip(points, values, strict=True)
        }

    return climbed(AXES, judge, [begin], **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("best", [(1.0, 3.0), (64.0, 3.0), (0.125, 96.0), (5.0, 0.4)])
def test_the_grid_is_as_wide_as_it_has_to_be(best: tuple[float, float]) -> None:
    found = climb(best)
    at = [axis.at(steps) for axis, steps in zip(AXES, found.best, strict=True)]
    assert all(abs(math.log2(x / y)) <= 0.5 for x, y in zip(at, best, strict=True))
    # Nothing beside it was left out, so it is at no edge.
    assert found.limits == ()
    for axis in range(2):
        for way in (-1, 1):
            beside = tuple(steps + way * (k == axis) for k, steps in enumerate(found.best))
            assert found.tried[beside] < found.tried[found.best]


def test_what_may_not_be_tried_is_a_limit_and_is_said_to_be() -> None:
    found = climb((64.0, 3.0), may=lambda point: point[0] <= 2)
    assert found.best == (2, 0)
    assert found.limits == ("a",)
    assert max(point[0] for point in found.tried) == 2


def test_an_axis_has_limits_of_its_own() -> None:
    axis = Axis("γμT", 1.0, least=0.25)
    found = climbed((axis,), lambda points: {point: -float(point[0]) for point in points}, [(0,)])
    assert (found.best, found.limits, sorted(found.tried)) == ((-2,), ("γμT",), [(-2,), (-1,), (0,), (1,)])


def test_a_lead_within_the_margin_moves_nothing() -> None:
    slope: dict[Point, float] = {(k,): 0.001 * k for k in range(-5, 6)}
    found = climbed(AXES[:1], lambda points: {point: slope[point] for point in points}, [(0,)], margin=0.002)
    assert (found.best, found.limits) == ((0,), ())
    assert climbed(AXES[:1], lambda points: {point: min(point[0], 4) for point in points}, [(0,)]).best == (4,)


def test_trials_are_counted_and_a_search_that_is_cut_short_says_so() -> None:
    found = climb((64.0, 3.0), most=5)
    assert len(found.tried) in (5, 6)
    assert "a" in found.limits


def test_it_begins_with_the_best_of_those_given() -> None:
    def judge(points: list[Point]) -> dict[Point, float]:
        return {point: -abs(point[0] - 7.0) for point in points}

    found = climbed(AXES[:1], judge, [(0,), (6,), (3,)])
    assert found.best == (7,)
    assert found.best_of(2) == [(7,), (6,)]
    assert (1,) not in found.tried


def test_a_point_is_a_setting_at_every_horizon() -> None:
    """With the same γCT, C and γμT."""
    for T in (400, 1000):
        found = searching.fixed((2000.0, 5.0, 1.0), T)
        assert found.clip == 5.0
        assert (found.step * 5.0 * T, found.step * found.strong_convexity * T) == pytest.approx((2000, 1))
        assert found.at(2 * T, T) == searching.fixed((2000.0, 5.0, 1.0), 2 * T)
    adaptive = searching.adaptive((500.0,), 1000, bend=2.0)
    assert (adaptive.step, adaptive.clip, adaptive.strong_convexity) == (0.5, "adaptive", 0.004)
