"""Budgets, their conversions, the allocation over rounds, the ledger, and the audit of all that."""

from typing import Any

from fastldp.privacy.account import PrivacyAccount
from fastldp.privacy.allocation import dynamic_variances, static_variances
from fastldp.privacy.budget import Budget
from fastldp.privacy.conversions import METHODS, delta_of, epsilon_of, rho_of
from fastldp.privacy.ledger import Ledger, Sensitivity
from fastldp.privacy.stopping import epsilon_of_best

__all__ = [
    "METHODS",
    "Budget",
    "Ledger",
    "PrivacyAccount",
    "Sensitivity",
    "delta_of",
    "dynamic_variances",
    "epsilon_of",
    "epsilon_of_best",
    "rho_of",
    "static_variances",
]


def __getattr__(name: str) -> Any:
    # The audit runs solves, which need this package: it is found when it is asked for.
    if name == "audit":
        from fastldp.auditing import audit

        return audit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
