"""Estimates of memory, so that a job that cannot fit is refused before it is tried."""

from __future__ import annotations

import os
from typing import Any

from fastldp.errors import TooLargeError


def available_bytes() -> int | None:
    """Memory that can be had without swapping, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def refuse_beyond(argument: str, needed: int, remedy: str, *, value: Any = None) -> None:
    """Raise where `needed` bytes are more than the machine can give; the value is what the argument was given."""
    available = available_bytes()
    if available is not None and needed > available:
        wanted, free = f"about {needed / 1e9:,.3g} GB", f"only {available / 1e9:.3g} GB are free"
        if value is None:
            raise TooLargeError(argument, wanted, f"{free}; {remedy}")
        raise TooLargeError(argument, value, f"takes {wanted} of memory, and {free}; {remedy}")
