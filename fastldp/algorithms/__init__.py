"""The methods: their parameters, and what a run needs of them."""

from fastldp.algorithms.isrl import ISRLDP
from fastldp.algorithms.local_steps import DPFedAvg, DPScaffold, LDPFedEXP
from fastldp.algorithms.primal_dual import ALLOCATIONS, PrimalDual
from fastldp.algorithms.scaffnew import DPScaffNew
from fastldp.algorithms.schedule import Outline, Schedule, Terms

METHODS = (PrimalDual, DPFedAvg, DPScaffold, LDPFedEXP, DPScaffNew, ISRLDP)
Algorithm = PrimalDual | DPFedAvg | DPScaffold | LDPFedEXP | DPScaffNew | ISRLDP

__all__ = [
    "ALLOCATIONS",
    "ISRLDP",
    "METHODS",
    "Algorithm",
    "DPFedAvg",
    "DPScaffNew",
    "DPScaffold",
    "LDPFedEXP",
    "Outline",
    "PrimalDual",
    "Schedule",
    "Terms",
]
