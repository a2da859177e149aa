# mypy: allow-untyped-calls
"""Releases that others have made, where the loop would make its own: all that a server without data can do.

They lie in the transcript: release k of worker i as message i K + k, and worker i's count as that of the one round.
"""

from typing import Any

from fastldp.kernels.calling import found
from fastldp.kernels.simd import load, store


def no_gradient(placed: Any, place: int, i: int, row: int, share: int, counting: int, t: int, k: int) -> None:
    """Nothing: there are no data."""


def take_release(placed: Any, place: int, now: int, t: int, i: int, k: int, share: int) -> None:
    """What worker i has released, to `state.gradient[share]`."""
    method, state, _, _, _, seen = found(placed, place)[:6]
    for j in range(state.points.shape[1]):
        store(load(seen.messages, i * method.local_steps + k, j), state.gradient, share, j)


def take_count(placed: Any, place: int, now: int, t: int, i: int, share: int) -> None:
    """And its count."""
    seen, clipping = found(placed, place)[5], found(placed, place)[8]
    store(load(seen.counts, 0, i), clipping.released, i)
