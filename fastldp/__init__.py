"""Locally differentially private federated learning with composite objectives, fast and checkable."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError as _NotInstalled
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from fastldp import _checkout as _checkout
from fastldp import datasets, errors, lanes, privacy, theory
from fastldp.auditing import Audit, audit
from fastldp.engine.recording import Every, Final, Messages
from fastldp.errors import FastLDPError
from fastldp.grids import grid
from fastldp.losses import Huber, Logistic, Loss, SmoothedHinge, Squared
from fastldp.methods import (
    ISRLDP,
    AdaptiveClip,
    DPFedAvg,
    DPScaffNew,
    DPScaffold,
    LDPFedEXP,
    Method,
    PrimalDual,
    Sampling,
)
from fastldp.planning import Facts, Plan, Prior, plan
from fastldp.privacy import Budget, Ledger
from fastldp.problems.linear import Problem
from fastldp.problems.mlp import MLP
from fastldp.regularizers import L1, Box, BoxL1, GroupL2, L1Ball, L2Ball, Regularizer, Simplex, Zero
from fastldp.solution import Outcome, Solution, Status, load
from fastldp.solve import solve
from fastldp.topology import Graph
from fastldp.tuning import Tuned, tune

if TYPE_CHECKING:
    from fastldp import federation, reporting, sweeping, verifying
    from fastldp.sweeping import Sweep, results, sweep
    from fastldp.verifying import verify

try:
    __version__ = _version("fastldp")
except _NotInstalled:  # imported from a checkout
    __version__ = "0+unknown"


# By the module they come from.
LATER = {"sweep": "sweeping", "Sweep": "sweeping", "results": "sweeping", "sweeping": "sweeping"}
LATER |= {"verify": "verifying", "verifying": "verifying", "reporting": "reporting", "federation": "federation"}


def __getattr__(name: str) -> Any:
    """What few need, or what brings h5py along, is loaded when it is first used."""
    if name not in LATER:
        raise AttributeError(f"module 'fastldp' has no attribute {name!r}")
    module = import_module(f"fastldp.{LATER[name]}")
    return module if name == LATER[name] else getattr(module, name)


__all__ = [
    "ISRLDP",
    "L1",
    "MLP",
    "AdaptiveClip",
    "Audit",
    "Box",
    "BoxL1",
    "Budget",
    "DPFedAvg",
    "DPScaffNew",
    "DPScaffold",
    "Every",
    "Facts",
    "FastLDPError",
    "Final",
    "Graph",
    "GroupL2",
    "Huber",
    "L1Ball",
    "L2Ball",
    "LDPFedEXP",
    "Ledger",
    "Logistic",
    "Loss",
    "Messages",
    "Method",
    "Outcome",
    "Plan",
    "PrimalDual",
    "Prior",
    "Problem",
    "Regularizer",
    "Sampling",
    "Simplex",
    "SmoothedHinge",
    "Solution",
    "Squared",
    "Status",
    "Sweep",
    "Tuned",
    "Zero",
    "audit",
    "datasets",
    "errors",
    "federation",
    "grid",
    "lanes",
    "load",
    "plan",
    "privacy",
    "reporting",
    "results",
    "solve",
    "sweep",
    "sweeping",
    "theory",
    "tune",
    "verify",
    "verifying",
]
