"""Our exp, logistic function, log and circle: within 2 ulp of the truth, and right at the ends."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from fastldp.kernels import vmath
from fastldp.kernels.simd import load, store

Array = NDArray[Any]
POINTS = 1 << 19
LANES = {np.float64: 8, np.float32: 16}
PRECISIONS = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@njit
def cosine(u: Any) -> Any:
    return vmath.cos_sin_turn(u)[0]


@njit
def sine(u: Any) -> Any:
    return vmath.cos_sin_turn(u)[1]


@njit
def on_lanes(function: Any, X: Any, out: Any) -> None:
    for k in range(X.shape[0]):
        store(function(load(X, k)), out, k)


def computed(function: Any, x: Array) -> Array:
    lanes = LANES[x.dtype.type]
    padded = np.resize(x, (-(-len(x) // lanes), lanes))
    out = np.empty_like(padded)
    on_lanes(function, padded, out)
    return out.ravel()[: len(x)]


def exact(function: Callable[[Any], Any], x: Array) -> NDArray[np.longdouble]:
    """The truth to 11 bits beyond double, in the extended precision of x86."""
    if np.finfo(np.longdouble).nmant >= 63:
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(function(x.astype(np.longdouble)))
    pytest.skip("no extended precision on this machine; the mpmath test covers it")


def ulps(y: Array, truth: NDArray[np.longdouble]) -> float:
    """The largest error in units of the last place of the truth."""
    spacing = np.spacing(np.abs(truth.astype(y.dtype)))
    return float((np.abs(y.astype(np.longdouble) - truth) / spacing).max())


def turn(u: NDArray[np.longdouble], phase: int) -> NDArray[np.longdouble]:
    """sin(2πu + phase π/2), whole quarters taken off first, without error."""
    quarter = np.rint(4 * u)
    angle = 8 * np.arctan(np.longdouble(1)) * (u - quarter / 4)
    kind = (quarter.astype(np.int64) + phase) % 4
    return np.choose(kind, [np.sin(angle), np.cos(angle), -np.sin(angle), -np.cos(angle)])


def spread(low: float, high: float) -> Callable[[Any, np.random.Generator], Array]:
    """Points all over a range, and as many near zero, where most arguments lie."""

    def draw(dtype: Any, random: np.random.Generator) -> Array:
        return np.concatenate([random.uniform(low, high, POINTS), random.normal(0, 2, POINTS)]).astype(dtype)

    return draw


def positive(dtype: Any, random: np.random.Generator) -> Array:
    """Every binade of the normal numbers, and the neighbourhood of 1, where the logarithm vanishes."""
    information = np.finfo(dtype)
    powers = np.exp2(random.uniform(information.minexp, information.maxexp, POINTS))
    return np.concatenate([powers, np.exp(random.normal(size=POINTS) * 0.1 ** random.integers(0, 7, POINTS))]).astype(
        dtype
    )


def unit(dtype: Any, random: np.random.Generator) -> Array:
    """[0, 1), with the neighbourhoods of the quarters, where sine or cosine vanishes."""
    near = random.integers(0, 4, POINTS) / 4 + random.uniform(0, 1, POINTS) * 0.1 ** random.integers(1, 9, POINTS)
    return np.concatenate([random.uniform(0, 1 - 1e-7, POINTS), near]).astype(dtype)


# The function, the truth, the points of double and of single precision.
CASES: dict[str, Any] = {
    "exp": (vmath.exp, np.exp, spread(-745.0, 709.7), spread(-103.0, 88.7)),
    "sigmoid": (vmath.sigmoid, lambda z: 1 / (1 + np.exp(-z)), spread(-708.3, 745.0), spread(-87.3, 104.0)),
    "sigmoid2": (vmath.sigmoid2, lambda z: 1 / (1 + np.exp2(-z)), spread(-1021.9, 1060.0), spread(-125.9, 150.0)),
    "log": (vmath.log, np.log, positive, positive),
    "cosine": (cosine, lambda u: turn(u, 1), unit, unit),
    "sine": (sine, lambda u: turn(u, 0), unit, unit),
}


@PRECISIONS
@pytest.mark.parametrize("name", CASES)
def test_within_two_ulp(name: str, dtype: Any, record_property: Callable[[str, object], None]) -> None:
    function, truth, in_double, in_single = CASES[name]
    draw = in_double if dtype == np.float64 else in_single
    x = draw(dtype, np.random.default_rng(11))
    largest = ulps(computed(function, x), exact(truth, x))
    record_property("largest error in ulp", largest)
    assert largest <= 2.0


@pytest.mark.parametrize("name", CASES)
def test_against_mpmath(name: str) -> None:
    """The same, on fewer points, against an arithmetic that shares nothing with the machine's."""
    function, _, draw, _ = CASES[name]
    truth = {
        "exp": mpmath.exp,
        "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
        "sigmoid2": lambda z: 1 / (1 + mpmath.power(2, -z)),
        "log": mpmath.log,
        "cosine": lambda u: mpmath.cospi(2 * u),
        "sine": lambda u: mpmath.sinpi(2 * u),
    }[name]
    x = draw(np.float64, np.random.default_rng(12))[:: POINTS // 500]
    with mpmath.workdps(50):
        for value, y in zip(x, computed(function, x), strict=True):
            reference = truth(mpmath.mpf(float(value)))
            assert abs(mpmath.mpf(float(y)) - reference) <= 2 * np.spacing(abs(float(reference)))


@PRECISIONS
def test_the_ends_saturate(dtype: Any) -> None:
    information = np.finfo(dtype)
    huge = np.array([information.max, np.inf, 1e30, 1100.0], dtype)
    np.testing.assert_array_equal(computed(vmath.exp, huge), np.inf)
    np.testing.assert_array_equal(computed(vmath.exp, -huge), 0.0)
    for function in (vmath.sigmoid, vmath.sigmoid2):
        np.testing.assert_array_equal(computed(function, huge), 1.0)
        np.testing.assert_array_equal(computed(function, -huge), 0.0)


@PRECISIONS
def test_finite_gives_no_nan(dtype: Any) -> None:
    """Every exponent, both signs, all kinds of mantissas."""
    width = np.dtype(dtype).itemsize
    anything = np.random.default_rng(13).integers(0, 256, 1 << 20, np.uint8).view(dtype)
    finite = anything[np.isfinite(anything)]
    assert len(finite) > (1 << 20) // width // 2
    growing = computed(vmath.exp, finite)
    assert np.all(growing >= 0.0)
    order = np.argsort(finite)
    for function in (vmath.sigmoid, vmath.sigmoid2):
        rising = computed(function, finite)
        assert np.all((rising >= 0.0) & (rising <= 1.0))
        # Monotone up to the error bound.
        assert np.all(np.diff(rising[order]) >= -4 * information_step(dtype))


@PRECISIONS
def test_within_its_range_the_shorter_sigmoid_has_the_same_bits(dtype: Any) -> None:
    reach = 1021.0 if dtype == np.float64 else 125.0
    random = np.random.default_rng(14)
    z = np.concatenate([[-reach, reach], random.uniform(-reach, reach, POINTS), random.normal(0, 2, POINTS)])
    z = z.astype(dtype)
    np.testing.assert_array_equal(computed(vmath.sigmoid2_within, z), computed(vmath.sigmoid2, z))


def information_step(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


@PRECISIONS
def test_known_values(dtype: Any) -> None:
    zero, one = np.zeros(1, dtype), np.ones(1, dtype)
    assert computed(vmath.exp, zero)[0] == 1.0
    assert computed(vmath.sigmoid, zero)[0] == 0.5
    assert computed(vmath.sigmoid2, zero)[0] == 0.5
    assert computed(vmath.log, one)[0] == 0.0
    quarters = np.array([0.0, 0.25, 0.5, 0.75, 1.0], dtype)
    np.testing.assert_array_equal(computed(cosine, quarters), [1, 0, -1, 0, 1])
    np.testing.assert_array_equal(computed(sine, quarters), [0, 1, 0, -1, 0])


@PRECISIONS
@pytest.mark.parametrize("name", [name for name in CASES if name != "log" and "sigmoid" not in name])
def test_a_nan_comes_through(name: str, dtype: Any) -> None:
    assert np.isnan(computed(CASES[name][0], np.array([np.nan], dtype))[0])


@PRECISIONS
@pytest.mark.parametrize("function", [vmath.sigmoid, vmath.sigmoid2])
def test_the_logistic_function_takes_a_nan_for_the_least_number(function: Any, dtype: Any) -> None:
    assert computed(function, np.array([np.nan], dtype))[0] == 0.0


@pytest.mark.parametrize("name", CASES)
def test_scalars_give_the_bits_of_lanes(name: str) -> None:
    function, _, draw, _ = CASES[name]
    x = draw(np.float64, np.random.default_rng(14))[:: POINTS // 100]
    np.testing.assert_array_equal([function(float(value)) for value in x], computed(function, x))
