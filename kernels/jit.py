"""How kernels are compiled: the options in one place, and a disk cache that cannot go stale.

Numba's own cache key ignores changes in the functions a kernel calls, so ours lives in a folder named
after a hash of all kernel sources: other sources, other folder.
"""

import hashlib
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import config as _config

# Numba sets its options at run time, where no type checker sees them.
config: Any = _config


def source_hash() -> str:
    """A hash of every kernel source: the name of the cache folder."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept, or None where no folder can be written (said once)."""
    # Never a shared folder such as /tmp: who can write a cache can run code in whoever loads it.
    places = (config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME"), os.path.expanduser("~/.cache"))
    for place in filter(None, places):
        folder = Path(place) / "fastldp" / f"kernels-{source_hash()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    warnings.warn(
        "fastldp: no folder for compiled kernels can be written, so each process compiles them anew; "
        "set NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _compiled(*, cached: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        folder = cache_folder() if cached else None
        user_folder = config.CACHE_DIR
        # Numba reads CACHE_DIR when it decorates; it is put back so that a user's own functions keep theirs.
        config.CACHE_DIR = str(folder) if folder else user_folder
        try:
            return numba.njit(cache=folder is not None, error_model="numpy", **options)(function)
        finally:
            config.CACHE_DIR = user_folder

    return decorate


# Kernels count no references to arrays (Numba's `_nrt`): counting is atomic, on cache lines that all threads share, and
# took a tenth of a round. So they can allocate nothing either, and must not cut arrays into views.
# A formula: always inlined by LLVM into the kernel that calls it. Division by zero gives inf, as in NumPy.
formula = _compiled(nogil=True, forceinline=True, _nrt=False)
# A piece of a kernel, compiled once and not inlined; only kernels can call it, so it needs no way in from Python.
_apart = {"nogil": True, "forceinline": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
piece = _compiled(**_apart, _nrt=False)
# Formulas and pieces of classes that need not be ours: a cache would not see when they are edited.
own_formula = _compiled(cached=False, nogil=True, forceinline=True, _nrt=False)
own_piece = _compiled(cached=False, **_apart, _nrt=False)
# A piece that does cut arrays into views. Said, for Numba hands options on to what is called.
piece_with_views = _compiled(**_apart, _nrt=True)
# A kernel that runs in the thread that calls it, without the GIL.
serial = _compiled(nogil=True, forceinline=False, _nrt=False)
# A kernel that spreads its loop over workers on all of Numba's threads: one caller at a time.
parallel = _compiled(nogil=True, parallel=True)
