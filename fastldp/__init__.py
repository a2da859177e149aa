"""Locally differentially private federated learning with composite objectives, fast and checkable."""

from importlib.metadata import PackageNotFoundError as _NotInstalled
from importlib.metadata import version as _version

from fastldp import _checkout as _checkout
from fastldp import datasets, errors, privacy, theory
from fastldp.algorithms import ISRLDP, DPFedAvg, DPScaffold, PrimalDual
from fastldp.auditing import Audit, audit
from fastldp.errors import FastLDPError
from fastldp.privacy import Budget, Ledger
from fastldp.problem import Problem
from fastldp.recording import Every, Final, Messages
from fastldp.regularizers import Box, BoxL1, L1Ball, L2Ball, Regularizer, Simplex, Zero
from fastldp.solution import Outcome, Solution, Status, load
from fastldp.solve import solve
from fastldp.tuning import Tuned, grid, tune

try:
    __version__ = _version("fastldp")
except _NotInstalled:  # imported from a checkout
    __version__ = "0+unknown"

__all__ = [
    "ISRLDP",
    "Audit",
    "Box",
    "BoxL1",
    "Budget",
    "DPFedAvg",
    "DPScaffold",
    "Every",
    "FastLDPError",
    "Final",
    "L1Ball",
    "L2Ball",
    "Ledger",
    "Messages",
    "Outcome",
    "PrimalDual",
    "Problem",
    "Regularizer",
    "Simplex",
    "Solution",
    "Status",
    "Tuned",
    "Zero",
    "audit",
    "datasets",
    "errors",
    "grid",
    "load",
    "privacy",
    "solve",
    "theory",
    "tune",
]
