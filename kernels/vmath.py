"""exp, the logistic function, log and the circle, on lane vectors and on float64 scalars.

PyPI's Numba has no vector mathematics library, so these are approximations of our own, without branches.
Their coefficients minimise the largest relative error (a Remez exchange in mpmath at 60 digits) and are then
rounded to the working precision. All are within 2 ulp. `exp` and the circle pass a NaN through; the logistic function
takes it for −inf, so that whatever it is given, it gives a number from 0 to 1.
"""

import math
from typing import Any

from fastldp.kernels.jit import function
from fastldp.kernels.simd import bits, by_precision, fma, from_bits, maximum, minimum, polynomial, select

# log2(e) and ln 2 as the nearest number of each precision, and what that leaves out.
LOG2_E = 1.0 / math.log(2.0)
LOG2_E_REST_64, LOG2_E_REST_32 = 2.0355273740931033e-17, 1.925963033500011e-08
LN2_64, LN2_REST_64 = math.log(2.0), 2.3190468138462996e-17
LN2_32, LN2_REST_32 = 0.6931471824645996, -1.904654290582768e-09
# Adding this rounds a number to an integer and leaves the integer in the low bits of the sum.
ROUND_64, ROUND_32 = 1.5 * 2.0**52, 1.5 * 2.0**23
BIAS_64, BIAS_32 = 1023.0, 127.0  # of the exponent
WIDTH_64, WIDTH_32 = 52, 23  # of the mantissa

# e^r for |r| <= ln(2)/2.
EXP_64 = (
    1.0,
    1.0,
    0.5000000000000011,
    0.1666666666666641,
    0.041666666666529725,
    0.008333333333495003,
    0.001388888894375998,
    0.00019841269505731194,
    2.4801492949668405e-05,
    2.7557586834203965e-06,
    2.7630306232638185e-07,
    2.5000011378222276e-08,
)
EXP_32 = (
    1.0,
    1.0,
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.00836874544620514,
    0.001381454523652792,
)

# tanh(r ln(2)/2) = r O(r²)/E(r²) for |r| <= 1/2, scaled: E ± r O fill [1.4, 2), where rounding errs least.
EVEN_64 = (1.68, 0.0896818902999307, 0.0003845967913626146)
ODD_64 = (0.5822436316703541, 0.007769649065117815, 8.881628946358416e-06)
EVEN_32 = (1.68, 0.08069583689577318)
ODD_32 = (0.5822436316703541, 0.004655355197369224)

# (2 atanh(s)/s - 2)/s² in s², for s = (m-1)/(m+1), 1/√2 <= m <= √2.
LOG_64 = (
    0.6666666666666734,
    0.39999999999414326,
    0.28571428742473637,
    0.22222198563639545,
    0.1818356485782339,
    0.15314036074471618,
    0.14796102976041048,
)
LOG_32 = (0.6666677594184875, 0.39977535605430603, 0.2987186312675476)

# (sin(2πr)/r - 2π)/r² and (cos(2πr) - 1)/r² in r², for |r| <= 1/8.
SIN_64 = (
    -41.34170224039968,
    81.60524927596823,
    -76.70585970878429,
    42.05868550668968,
    -15.09382931838168,
    3.781366305741835,
)
COS_64 = (
    -19.739208802178716,
    64.93939402266801,
    -85.45681720654005,
    60.24464133161207,
    -26.426251140461872,
    7.903101639314526,
    -1.697020101412434,
)
SIN_32 = (-41.3416748046875, 81.59394073486328, -75.45339965820312)
COS_32 = (-19.739208221435547, 64.93932342529297, -85.44374084472656, 59.2459602355957)


@function
def power_of_two(rounded: Any) -> Any:
    """2^n from n + bias + ROUND: the low bits of that sum, moved up, are the exponent of 2^n."""
    return from_bits(bits(rounded) << by_precision(rounded, WIDTH_64, WIDTH_32), rounded)


@function
def less_ln2(n: Any, x: Any) -> Any:
    """x - n ln 2, where ln 2 has twice the digits of a number."""
    high = fma(n, by_precision(x, -LN2_64, -LN2_32), x)
    return fma(n, by_precision(x, -LN2_REST_64, -LN2_REST_32), high)


@function
def exp(x: Any) -> Any:
    """e^x, subnormal results included; 0 below them, inf above the largest number."""
    # Far out of range the result no longer changes; in this order of arguments a NaN comes through.
    x = minimum(by_precision(x, 710.0, 89.0), maximum(by_precision(x, -746.0, -104.0), x))
    integer = by_precision(x, ROUND_64, ROUND_32)
    exponent = by_precision(x, ROUND_64 + BIAS_64, ROUND_32 + BIAS_32)
    n = fma(x, LOG2_E, integer) - integer
    mantissa = polynomial(less_ln2(n, x), by_precision(x, EXP_64, EXP_32))
    # 2^n in two factors, since n can exceed the exponents of normal numbers.
    half = fma(n, 0.5, exponent)
    rest = n - (half - exponent) + exponent
    return mantissa * power_of_two(half) * power_of_two(rest)


@function
def sigmoid(z: Any) -> Any:
    """1/(1 + e^-z), and 0 for a NaN; a result too small for a normal number may be 0."""
    # Far out of range the result no longer changes; in this order of arguments a NaN does not come through.
    z = minimum(by_precision(z, 707.0, 86.0), maximum(z, by_precision(z, -710.0, -89.0)))
    high = z * LOG2_E
    low = fma(z, by_precision(z, LOG2_E_REST_64, LOG2_E_REST_32), fma(z, LOG2_E, -high))
    rounded, r = _off_integers(high)
    return _logistic(rounded, r + low)


@function
def sigmoid2(z: Any) -> Any:
    """1/(1 + 2^-z), for which nothing is rounded before the polynomials; what is said of `sigmoid` holds here too."""
    return sigmoid2_within(minimum(by_precision(z, 1021.0, 125.0), maximum(z, by_precision(z, -1024.0, -128.0))))


@function
def sigmoid2_within(z: Any) -> Any:
    """The same bits for |z| <= 1021, or 125 in single precision; of no other, not of a NaN either."""
    rounded, r = _off_integers(z)
    return _logistic(rounded, r)


@function
def _off_integers(z: Any) -> Any:
    """For n = round(-z): n + bias + ROUND, and z + n, which is exact."""
    exponent = by_precision(z, ROUND_64 + BIAS_64, ROUND_32 + BIAS_32)
    rounded = exponent - z
    return rounded, z - (exponent - rounded)


@function
def _logistic(rounded: Any, r: Any) -> Any:
    """1/(1 + 2^(n-r)), where 2^-r is (E - rO)/(E + rO), so that one division does for all."""
    odd = polynomial(r * r, by_precision(r, ODD_64, ODD_32))
    below = fma(-r, odd, polynomial(r * r, by_precision(r, EVEN_64, EVEN_32)))
    # E + rO from E - rO, so that their rounding errors go the same way and cancel in the ratio.
    above = fma(r + r, odd, below)
    return above / fma(power_of_two(rounded), below, above)


@function
def log(x: Any) -> Any:
    """ln x of a positive normal number; of no other."""
    # x = 2^n m with 1/√2 <= m < √2, by moving √2/2 to a power of two and back in the bits.
    width = by_precision(x, WIDTH_64, WIDTH_32)
    root_half = by_precision(x, 0x3FE6A09E667F3BCD, 0x3F3504F3)
    one = by_precision(x, 0x3FF0000000000000, 0x3F800000)
    moved = bits(x) + (one - root_half)
    m = from_bits((moved & by_precision(x, 2**52 - 1, 2**23 - 1)) + root_half, x)
    # The biased exponent in the low bits of 2^52 (2^23) is a float, once that is taken off again.
    biased = ((moved >> width) & by_precision(x, 0xFFF, 0x1FF)) | by_precision(x, 1075 << 52, 150 << 23)
    n = from_bits(biased, x) - by_precision(x, 2.0**52 + BIAS_64, 2.0**23 + BIAS_32)
    f = m - 1.0
    s = f / (m + 1.0)
    series = s * s * polynomial(s * s, by_precision(x, LOG_64, LOG_32))
    # ln m = 2 atanh(s) = f - s (f - series): f is exact, so only the small second term rounds.
    return fma(n, by_precision(x, LN2_64, LN2_32), fma(s, series - f, f))


@function
def cos_sin_turn(u: Any) -> Any:
    """(cos 2πu, sin 2πu) for 0 <= u <= 1: a turn is 1, so whole quarters come off without error."""
    integer = by_precision(u, ROUND_64, ROUND_32)
    rounded = fma(u, 4.0, integer)
    r = fma(rounded - integer, -0.25, u)
    square = r * r
    sine = fma(r, 2.0 * math.pi, r * (square * polynomial(square, by_precision(u, SIN_64, SIN_32))))
    cosine = fma(square, polynomial(square, by_precision(u, COS_64, COS_32)), 1.0)
    quarter = bits(rounded)
    odd = (quarter & 1) != 0
    top = by_precision(u, 62, 30)
    # Bit 1 of the quarter is the sign of the sine, that of the next quarter the sign of the cosine.
    sine_sign = (quarter & 2) << top
    cosine_sign = ((quarter + 1) & 2) << top
    return (
        from_bits(bits(select(odd, sine, cosine)) ^ cosine_sign, u),
        from_bits(bits(select(odd, cosine, sine)) ^ sine_sign, u),
    )
