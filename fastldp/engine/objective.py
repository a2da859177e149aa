"""Losses and regularizers as kernels take them: their numbers in lanes, and the addresses of their formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastldp.extending import said_of
from fastldp.kernels.calling import Piece
from fastldp.kernels.formulas import Objective, is_ours, prox_of, slopes_of
from fastldp.kernels.methods import Method
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
    return Objective(
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


def with_losses(objective: Objective, losses: Sequence[Loss], stack: Callable[[Any], NDArray[Any]]) -> Objective:
    """The same with the losses of the runs."""
    loss = losses[0]
    if is_ours(type(loss)):
        objective = objective._replace(unit=loss.unit, reach=loss.reach[objective.clip.dtype.name])
    return objective._replace(loss_numbers=stack([loss.in_kernels() for loss in losses]))


# By the field that has its address: the class whose formula it is, and what is compiled of it.
Formulas = dict[str, tuple[type, Piece]]
Values = TypeVar("Values", Objective, Method)


def formulas_of(objective: Objective, regularizer: Regularizer, loss: Loss | None, samples: Any, axes: int) -> Formulas:
    """Of an objective over samples whose margins are in arrays of so many axes; a network has no loss of margins."""
    found: Formulas = {}
    if not regularizer.smooth:
        models = np.zeros((1, 1, *objective.clip.shape[1:]), objective.clip.dtype)
        found["prox"] = type(regularizer), prox_of(type(regularizer), objective, models)
    if loss is not None:
        found["slopes"] = type(loss), slopes_of(type(loss), objective, samples, axes)
    return found


def addressed(values: Values, formulas: Formulas) -> Values:
    """Values with the addresses of their formulas, which are compiled if they have not been."""
    for name, (owner, piece) in formulas.items():
        with said_of(owner):
            address: dict[str, Any] = {name: piece.address}
        values = values._replace(**address)
    return values
