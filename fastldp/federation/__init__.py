"""The same methods between real machines: what a server asks, what a worker releases, and what both agreed on."""

from fastldp.federation.messages import Answer, Ask
from fastldp.federation.server import Server
from fastldp.federation.serving import serve
from fastldp.federation.terms import Terms, common_key
from fastldp.federation.worker import Worker

__all__ = ["Answer", "Ask", "Server", "Terms", "Worker", "common_key", "serve"]
