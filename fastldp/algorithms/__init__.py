"""The methods: their parameters, and what a run needs of them."""

from fastldp.algorithms.isrl import ISRLDP
from fastldp.algorithms.local_steps import DPFedAvg, DPScaffold
from fastldp.algorithms.primal_dual import ALLOCATIONS, PrimalDual
from fastldp.algorithms.schedule import Outline, Schedule, Terms

METHODS = (PrimalDual, DPFedAvg, DPScaffold, ISRLDP)
Algorithm = PrimalDual | DPFedAvg | DPScaffold | ISRLDP

__all__ = [
    "ALLOCATIONS",
    "ISRLDP",
    "METHODS",
    "Algorithm",
    "DPFedAvg",
    "DPScaffold",
    "Outline",
    "PrimalDual",
    "Schedule",
    "Terms",
]
