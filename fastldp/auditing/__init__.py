"""An attack on the real kernels: many transcripts of two neighbouring inputs, and how well they can be told apart."""

from fastldp.auditing.audit import Audit, audit

__all__ = ["Audit", "audit"]
