"""Budgets, their conversions, the allocation over rounds, and the ledger."""

from fastldp.privacy.allocation import dynamic_variances, static_variances
from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import METHODS, delta_of, epsilon_of, rho_of
from fastldp.privacy.ledger import Ledger, Sensitivity

__all__ = [
    "METHODS",
    "Budget",
    "Ledger",
    "Sensitivity",
    "delta_of",
    "dynamic_variances",
    "epsilon_of",
    "rho_of",
    "static_variances",
]
