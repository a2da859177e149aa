"""Verification: what a file of results claims, made again or computed in another way."""

from fastldp.verifying.checking import verify
from fastldp.verifying.claims import Claim, Verification

__all__ = ["Claim", "Verification", "verify"]
