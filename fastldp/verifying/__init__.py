"""Verification: what a file of results claims, made again or computed in another way."""

from fastldp.verifying.claims import Claim, Verification
from fastldp.verifying.verify import verify

__all__ = ["Claim", "Verification", "verify"]
