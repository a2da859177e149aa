"""The regularizers g."""

from fastldp.regularizers.base import Active, Regularizer
from fastldp.regularizers.norms import L1, BoxL1, GroupL2, Zero
from fastldp.regularizers.sets import Box, L1Ball, L2Ball, Simplex

__all__ = ["L1", "Active", "Box", "BoxL1", "GroupL2", "L1Ball", "L2Ball", "Regularizer", "Simplex", "Zero"]
