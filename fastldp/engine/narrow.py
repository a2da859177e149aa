"""Numbers in the narrowest type that has all of them: less is read in every round, and the same is computed.

Of integers the sign of a zero is lost, and no bit of a run with it. A margin or a gradient begins at +0 and has terms
that are whole multiples of a float: they cannot underflow, and whatever cancels gives +0. So it is never −0, and to all
else a term of +0 adds as little as one of −0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# From the narrowest on; each has all numbers of those before it. Integers are as many on either side of zero, so that
# labels of ±1 that are folded into the rows change nothing.
TYPES = tuple(map(np.dtype, ("int8", "int16", "float32")))
# So many numbers are looked at at once: most data are soon seen not to be narrow.
AT_ONCE = 2**15


def narrowest(values: NDArray[Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The narrowest type that has all these numbers as they are in the precision of the runs, or that."""
    left = [narrower for narrower in TYPES if narrower.itemsize < dtype.itemsize]
    flat = values.reshape(-1)
    for first in range(0, flat.size, AT_ONCE):
        part = flat[first : first + AT_ONCE].astype(dtype, copy=False)
        while left and not _has(left[0], part):
            del left[0]
        if not left:
            break
    return left[0] if left else dtype


def _has(dtype: np.dtype[Any], values: NDArray[Any]) -> bool:
    """Whether a type has all these numbers."""
    if dtype.kind == "i":
        # A NaN is within no limits.
        within = np.abs(values).max() <= np.iinfo(dtype).max
        return bool(within) and bool((np.rint(values) == values).all())
    with np.errstate(over="ignore", under="ignore"):
        return bool((values.astype(dtype) == values).all())


def signs_of(values: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any] | None:
    """±1 of each row, where all values from starts[row] to starts[row + 1] are that; otherwise nothing."""
    for first in range(0, values.size, AT_ONCE):
        if not (np.abs(values[first : first + AT_ONCE]) == 1).all():
            return None
    counts = np.diff(starts)
    some = counts > 0
    sums = np.add.reduceat(values, starts[:-1][some])
    signs = np.ones(counts.size, values.dtype)
    signs[some] = np.sign(sums)
    return signs if (np.abs(sums) == counts[some]).all() else None
