"""Losses and regularizers as kernels take them: their numbers in lanes, and the addresses of their formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.extending import said_of
from fastldp.kernels.formulas import Objective, is_ours, prox_of, slopes_of
from fastldp.losses import Loss
from fastldp.regularizers import Regularizer


def objective_of(
    regularizers: Sequence[Regularizer], clips: Sequence[float], d: int, stack: Callable[[Any], NDArray[Any]]
) -> Objective:
    """The regularizers and clipping thresholds of runs that share lanes; `stack` lays a value of each out in these."""
    numbers, vectors, structure = zip(*(g.in_kernels(d) for g in regularizers), strict=True)
    clip = stack(clips)
    # One that clips nothing is the largest number.
    np.minimum(clip, np.finfo(clip.dtype).max, out=clip)
    objective = Objective(
        slopes=0,
        unit=1.0,
        reach=0.0,
        clip=clip,
        loss_numbers=clip[:0],
        prox=0,
        numbers=stack(numbers),
        vectors=stack(vectors),
        structure=structure[0],
    )
    if regularizers[0].smooth:
        return objective
    models = np.zeros((1, 1, *clip.shape[1:]), clip.dtype)
    with said_of(type(regularizers[0])):
        return objective._replace(prox=prox_of(type(regularizers[0]), objective, models))


def with_losses(
    objective: Objective, losses: Sequence[Loss], samples: Any, axes: int, stack: Callable[[Any], NDArray[Any]]
) -> Objective:
    """The same with the losses of the runs, over samples whose margins are in arrays of so many axes."""
    loss = losses[0]
    if is_ours(type(loss)):
        objective = objective._replace(unit=loss.unit, reach=loss.reach[objective.clip.dtype.name])
    objective = objective._replace(
        loss_numbers=stack([loss.in_kernels() for loss in losses]),
    )
    with said_of(type(loss)):
        return objective._replace(slopes=slopes_of(type(loss), objective, samples, axes))
