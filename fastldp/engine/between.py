"""The links between workers of a block, in lanes; and the quantum that what goes over them is a multiple of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.kernels.mixing import Links
from fastldp.kernels.release import PUBLIC_BITS
from fastldp.methods import Schedule

# Noise beyond so many deviations is as good as none, and duals are within so many sizes of releases.
DEVIATIONS, SIZES = 8.0, 16.0


def links_of(
    schedules: Sequence[Schedule], stack: Callable[[Any], NDArray[Any]], zeros: Callable[..., NDArray[Any]]
) -> Links:
    """Of runs on one graph; nothing where a server is between workers."""
    mixing, dtype = schedules[0].program.mixing, zeros(0).dtype
    if mixing is None:
        # All workers have a place in the first, for methods from outside may ask for neighbours all the same.
        nobody, nothing = np.zeros(schedules[0].program.problem.n + 1, np.int64), np.zeros(0, np.int64)
        return Links(nobody, nothing, np.zeros(0, dtype), nothing, zeros(1), zeros(0), zeros(0))
    # Not below what was asked for, and not always: links that are never there connect nobody.
    most = 2**PUBLIC_BITS - 1
    chances = [min(math.ceil(schedule.program.failures * 2**PUBLIC_BITS), most) for schedule in schedules]
    return Links(
        mixing.begin,
        mixing.neighbours,
        mixing.weights.astype(dtype),
        mixing.numbers,
        # Floats from 2ᵖ⁻¹ to 2ᵖ times the quantum, p their digits, are multiples of it: adding one of these rounds.
        stack(1.5 * 2.0 ** (np.finfo(dtype).nmant) * quantum(schedule, dtype) for schedule in schedules),
        stack(chances),
        zeros(mixing.links if any(chances) else 0),
    )


def quantum(schedule: Schedule, dtype: Any) -> float:
    """A power of two, so small that a dual of 16 times the size of a release is fewer than 2⁵² of it.

    It follows from what the ledger says of releases, their largest query and their noise.
    """
    program, ledger, problem = schedule.program, schedule.ledger, schedule.program.problem
    if ledger is None:
        size = float((program.gradient_size * problem.sizes / program.method.divisors(problem)).max())
    else:
        size = ledger.largest_query + DEVIATIONS * float(schedule.deviations.max() * schedule.factors.max())
    return 2.0 ** (math.ceil(math.log2(SIZES * size or 1.0)) - np.finfo(dtype).nmant)
