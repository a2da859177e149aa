"""What made some numbers: the code, to the commit where that is known, and the machine, to its instructions."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding

import fastldp as fl
from fastldp import blas
from fastldp.engine import driving
from fastldp.kernels import jit

PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "h5py", "joblib")
# From the widest registers to those that every x86-64 has, and those of ARM.
LEVELS = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX", "sse2": "SSE2", "sve": "SVE", "neon": "NEON"}
# Git answers in milliseconds, or is not to be waited for.
PATIENCE = 10.0


@cache
def of_code() -> dict[str, Any]:
    """Version, commit, whether the sources were changed since, and digests of them; looked for once."""
    folder = Path(fl.__file__).parent
    found: dict[str, Any] = {
        "fastldp": fl.__version__,
        "kernels": jit.source_hash(),
        "sources": _digest(folder),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }
    commit = _git(folder, "rev-parse", "HEAD") if (folder.parent / ".git").exists() else None
    if commit:
        changed = _git(folder.parent, "status", "--porcelain", "--", "fastldp", "kernels")
        found |= {"commit": commit, "modified": None if changed is None else bool(changed)}
    return found


@cache
def of_machine() -> dict[str, Any]:
    """The machine this process runs on: processor, its vector instructions, cores, and the BLAS that NumPy calls."""
    features = {name for name, there in llvmlite.binding.get_host_cpu_features().items() if there}
    level = next((name for feature, name in LEVELS.items() if feature in features), platform.machine())
    # Kernels may be compiled for another processor than this one.
    told = jit.config.CPU_NAME
    return {
        "machine": f"{platform.node()}, {platform.processor() or platform.machine()}, {platform.platform()}",
        "processor": _processor(),
        "simd": f"as of {told}, by NUMBA_CPU_NAME" if told else f"{level} ({llvmlite.binding.get_host_cpu_name()})",
        "threads": driving.available_cores(),
        "blas": _blas(),
    }


def _blas() -> str:
    libraries = [library for library in blas.libraries() if "numpy" in os.fspath(library["filepath"])]
    known = libraries or blas.libraries()
    return ", ".join(
        f"{one['internal_api']} {one['version']} ({one.get('architecture', 'of no known kind')})" for one in known
    )


def _processor() -> str:
    """The name that its maker gave it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _digest(folder: Path) -> str:
    """Of all sources of the package but the kernels, which have their own."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        if "kernels" not in path.parts[len(folder.parts) :]:
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]


def _git(folder: Path, *words: str) -> str | None:
    """What git says, or None where it says nothing of use."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None
