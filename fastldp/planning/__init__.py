"""The planner: which step and which noise suit a budget, from public numbers alone."""

from fastldp.planning.plan import Plan, plan
from fastldp.problems.facts import Facts
from fastldp.problems.prior import Prior

__all__ = ["Facts", "Plan", "Prior", "plan"]
