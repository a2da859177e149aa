"""What the engine asks of the machine: how large a core's own cache is, and what its vector registers hold."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from llvmlite import binding

from fastldp.kernels.jit import config

# Where Linux says what caches the first core has.
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
# Where the system does not say: most cores have so much, or more.
USUAL_BYTES = 2**19


@cache
def second_level_bytes() -> int:
    """The size of a core's own cache, the second level."""
    return _second_level_in(CACHES) or USUAL_BYTES


def _second_level_in(caches: Path) -> int:
    """Of the caches that are described in a folder; 0 where there is none."""
    try:
        for described in sorted(caches.glob("index*")):
            if (described / "level").read_text().strip() == "2":
                size = (described / "size").read_text().strip()
                return int(size.rstrip("KMG")) * UNITS.get(size[-1:], 1)
    except (OSError, ValueError):
        pass
    return 0


@cache
def vector_registers() -> tuple[int, int]:
    """How many there are for what is compiled here, and how many bytes one holds."""
    features = binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES
    known = {"avx512f": (32, 64), "avx": (16, 32), "neon": (32, 16)}
    return next((held for name, held in known.items() if f"+{name}" in features.split(",")), (16, 16))
