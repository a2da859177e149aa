"""m·10ᵏ rounded to the nearest float64, ties to even: what Python's float() gives, without leaving the kernel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.jit import formula

# Of uint64 throughout: with an int64 beside it Numba makes a float64 of it.
ONE = np.uint64(1)
LOW_HALF = np.uint64(0xFFFFFFFF)
ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
HALF_WORD = np.uint64(32)
TOP_BIT = np.uint64(63)
FRACTION_BITS = np.uint64(52)
# Bits of a 64-bit product below the 52 of the fraction, the hidden one and the one that rounds.
SPARE_BITS = np.uint64(9)
SPARE_MASK = np.uint64(0x1FF)
HIDDEN_BIT = np.uint64(1 << 52)
EXACT_MANTISSA = np.uint64(1 << 53)

# 10⁰ to 10²² are float64 numbers without error.
POWERS = 10.0 ** np.arange(23)
LEAST_POWER, GREATEST_POWER = -342, 308


def _five_to(power: int) -> int:
    """5ᵏ as a 128-bit number with its top bit set: cut off for k ≥ 0, rounded up for k < 0."""
    five: int = 5 ** abs(power)
    if power >= 0:
        return five << 128 - five.bit_length() if five.bit_length() <= 128 else five >> five.bit_length() - 128
    return (1 << 127 + (five - 1).bit_length()) // five + 1


def _table() -> NDArray[np.uint64]:
    """(651, 2): the high and low words of 5ᵏ."""
    fives = [_five_to(power) for power in range(LEAST_POWER, GREATEST_POWER + 1)]
    return np.array([[five >> 64, five & 0xFFFFFFFFFFFFFFFF] for five in fives], dtype=np.uint64)


FIVES = _table()


@formula
def product(a: Any, b: Any) -> Any:
    """The high and low words of a·b."""
    a1, a0 = a >> HALF_WORD, a & LOW_HALF
    b1, b0 = b >> HALF_WORD, b & LOW_HALF
    low = a0 * b0
    middle = a1 * b0 + (low >> HALF_WORD)
    other = a0 * b1 + (middle & LOW_HALF)
    return a1 * b1 + (middle >> HALF_WORD) + (other >> HALF_WORD), (other << HALF_WORD) | (low & LOW_HALF)


@formula
def leading_zeros(word: Any) -> Any:
    """Of a word that is not zero."""
    zeros = np.uint64(0)
    step = HALF_WORD
    while step > np.uint64(0):
        if word >> (np.uint64(64) - step) == np.uint64(0):
            word = word << step
            zeros += step
        step = step >> ONE
    return zeros


@formula
def rounded(mantissa: Any, power: Any) -> Any:
    """mantissa·10^power by 128-bit products, NaN where they do not decide.

    Lemire, "Number parsing at a gigabyte per second", algorithm 1; subnormal numbers are left undecided.
    """
    if power < LEAST_POWER or power > GREATEST_POWER:
        return np.nan
    zeros = leading_zeros(mantissa)
    mantissa = mantissa << zeros
    high, low = product(mantissa, FIVES[power - LEAST_POWER, 0])
    if high & SPARE_MASK == SPARE_MASK:
        carry, _ = product(mantissa, FIVES[power - LEAST_POWER, 1])
        low = low + carry
        if low < carry:
            high = high + ONE
        if low == ALL_ONES:
            return np.nan
    upper = high >> TOP_BIT
    bits = high >> (upper + SPARE_BITS)
    # ⌊k·log₂10⌋ by a multiplication that is right for all powers of the table.
    exponent = ((217706 * power) >> 16) + 63 + int(upper) - int(zeros) + 1023
    if exponent <= 0 or exponent >= 2047:
        return np.nan
    # Exactly half way between two neighbours: possible for small powers only.
    halfway = low <= ONE and -4 <= power <= 23 and bits & np.uint64(3) == ONE
    if halfway and bits << (upper + SPARE_BITS) == high:
        bits = bits - ONE
    bits = (bits + (bits & ONE)) >> ONE
    if bits >= HIDDEN_BIT << ONE:
        bits = HIDDEN_BIT
        exponent += 1
        if exponent >= 2047:
            return np.nan
    return np.uint64((np.uint64(exponent) << FRACTION_BITS) | (bits & ~HIDDEN_BIT)).view(np.float64)


@formula
def decimal(mantissa: Any, power: Any) -> Any:
    """mantissa·10^power, correctly rounded; NaN where only Python's float() can say."""
    if mantissa == np.uint64(0):
        return 0.0
    if mantissa <= EXACT_MANTISSA:
        # Both factors are exact, so that the one rounding is the right one.
        if 0 <= power <= 22:
            return float(mantissa) * POWERS[power]
        if -22 <= power < 0:
            return float(mantissa) / POWERS[-power]
    return rounded(mantissa, power)
