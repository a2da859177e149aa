"""The methods: a file each, of parameters and of what happens in a round."""

from fastldp.methods.base import Method
from fastldp.methods.clipping import AdaptiveClip
from fastldp.methods.isrl import ISRLDP
from fastldp.methods.local_steps import DPFedAvg, DPScaffold, LDPFedEXP
from fastldp.methods.primal_dual import ALLOCATIONS, PrimalDual
from fastldp.methods.sampling import Sampling
from fastldp.methods.scaffnew import DPScaffNew
from fastldp.methods.schedule import Outline, Program, Schedule, Terms

METHODS = (PrimalDual, DPFedAvg, DPScaffold, LDPFedEXP, DPScaffNew, ISRLDP)

__all__ = [
    "ALLOCATIONS",
    "ISRLDP",
    "METHODS",
    "AdaptiveClip",
    "DPFedAvg",
    "DPScaffNew",
    "DPScaffold",
    "LDPFedEXP",
    "Method",
    "Outline",
    "PrimalDual",
    "Program",
    "Sampling",
    "Schedule",
    "Terms",
]
