"""The keys that tables of a specification have, and what describes a problem in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fastldp.grids import parameters_of
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP
from fastldp.problems.weighting import UNIFORM

NOISE_KEYS = ("common",)
TUNING_KEYS = ("file", "digest", "rule", "runs", "grid", "edges")
BUDGET_KEYS = ("epsilon", "delta", "accounting")
RECORD_KEYS = ("every", "rounds", "final", "objective", "models")
ROOT_TABLES = ("noise", "tuning", "data", "problem", "network", "budget", "method", "record")
ROOT_KEYS = ("title", "rounds", "repetitions", "seed", *ROOT_TABLES)
# Of every method, beside its parameters.
METHOD_KEYS = ("name", "rounds", "label")
SPREAD_KEYS = ("partition", "share", "alpha", "partition_seed", "sizes", "least", "pooled")
START_KEYS = ("start", "start_seed")
TEST_KEYS = ("test", "test_seed")


class Kind(NamedTuple):
    """What a table that describes a problem has: keys that the data are laid out by, and others with their defaults."""

    made: Any
    """The class of its problems."""
    of_data: tuple[str, ...]
    own: dict[str, Any]
    of_start: tuple[str, ...] = ()
    """Where runs start, which is no part of the problem."""

    @property
    def keys(self) -> tuple[str, ...]:
        return ("given", "workers", *SPREAD_KEYS, *TEST_KEYS, *self.of_data, *self.own, *self.of_start)


KINDS = {
    "problem": Kind(
        Problem,
        ("loss", "dtype", "row_bound"),
        {"l2": 0.0, "regularizer": None, "gradient_bound": None, "weighting": UNIFORM},
        START_KEYS,
    ),
    "network": Kind(
        MLP,
        ("hidden", "classes", "products"),
        {
            "l2": 0.0,
            "regularizer": None,
            "clip": None,
            "strong_convexity": None,
            "start_seed": 0,
            "weighting": UNIFORM,
        },
    ),
}


def method_keys(kinds: Iterable[Any]) -> tuple[str, ...]:
    """The keys that a table [[method]] of these may have."""
    return *METHOD_KEYS, *dict.fromkeys(name for kind in kinds for name in parameters_of(kind))
