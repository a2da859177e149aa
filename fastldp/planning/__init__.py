"""The planner: which step and which noise suit a budget, from public numbers alone."""

from fastldp.planning.facts import Facts
from fastldp.planning.plan import Plan, plan
from fastldp.planning.prior import Prior

__all__ = ["Facts", "Plan", "Prior", "plan"]
