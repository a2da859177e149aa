# mypy: allow-untyped-calls
"""How kernels are compiled: the options in one place, and a disk cache that cannot go stale.

Numba's own cache key ignores changes in the functions a kernel calls, so ours lives in a folder named
after a hash of all kernel sources: other sources, other folder.
"""

import hashlib
import math
import os
import pickle
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import config as _config
from numba.core.caching import FunctionCache

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

# Numba sets its options at run time, where no type checker sees them.
config: Any = _config
if config.DISABLE_JIT:
    raise ImportError("fastldp is compiled by Numba, which NUMBA_DISABLE_JIT=1 forbids: unset it")

# So many seconds pass before what another process is at work on is looked for again.
LOOK_AGAIN = 0.02


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


@contextmanager
def one_process(what: str, patience: float = math.inf) -> Iterator[None]:
    """One process at a time does what is inside, of those that share a folder of kernels; others wait for so long."""
    with _lock_file(what) as lock:
        deadline = time.monotonic() + patience
        while not _is_locked(lock) and time.monotonic() < deadline:
            time.sleep(LOOK_AGAIN)
        try:
            yield
        finally:
            # A child forked meanwhile has the file open too, and would keep the lock.
            if fcntl is not None and lock is not None:
                with suppress(OSError):
                    fcntl.flock(lock, fcntl.LOCK_UN)


@contextmanager
def _lock_file(what: str) -> Iterator[int | None]:
    """A file to lock, or None where there can be none: a cache is no reason to fail."""
    folder, lock = cache_folder(), None
    if fcntl is not None and folder is not None:
        with suppress(OSError):
            lock = os.open(folder / f"{what}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield lock
    finally:
        if lock is not None:
            os.close(lock)


def _is_locked(lock: int | None) -> bool:
    """Whether the lock is ours now, or there is none to be had."""
    if lock is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return True
    return True


class _Cache(FunctionCache):
    """Numba's, which mixes up two functions where two processes save them at once: both get the same file.

    A disk that is full, or a file that is damaged or names what is no longer there, costs time and nothing else.
    """

    def save_overload(self, sig: Any, data: Any) -> None:
        with one_process("saving"), suppress(OSError):
            try:
                super().save_overload(sig, data)
            except _UNREADABLE:
                self.flush()  # begins a new index
                super().save_overload(sig, data)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (*_UNREADABLE, OSError):
            return None

    def has(self, kinds: tuple[Any, ...], codegen: Any) -> bool:
        """Whether there is code for arguments of these types."""
        try:
            return self._index_key(kinds, codegen) in self._cache_file._load_index()
        except (*_UNREADABLE, OSError):
            return False


# What unpickling raises of a file that is damaged, or of classes that have other names now.
_UNREADABLE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    TypeError,
)


def is_kept(function: Any, kinds: tuple[Any, ...]) -> bool:
    """Whether a compiled function is in the cache, for arguments of these types."""
    return isinstance(function._cache, _Cache) and function._cache.has(kinds, function.targetctx.codegen())


def _cache_in(folder: Path, function: Callable[..., Any]) -> _Cache:
    # Numba reads CACHE_DIR when a cache is made; it is put back so that a user's own functions keep theirs.
    with _ONE_CACHE_DIR:
        config.CACHE_DIR, user_folder = str(folder), config.CACHE_DIR
        try:
            return _Cache(function)
        finally:
            config.CACHE_DIR = user_folder


_ONE_CACHE_DIR = threading.Lock()


def _compiled(*, cached: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        folder = cache_folder() if cached else None
        made = numba.njit(error_model="numpy", **options)(function)
        if folder:
            made._cache = _cache_in(folder, function)
        return made

    return decorate


# Kernels count no references to arrays (Numba's `_nrt`): counting is atomic, on cache lines that all threads share, and
# took a tenth of a round. So they can allocate nothing either, and must not cut arrays into views.
# What only kernels call needs no way in from Python, which takes long to compile where tuples are handed over.
_inside = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# A formula: always inlined by LLVM into the kernel that calls it. Division by zero gives inf, as in NumPy.
formula = _compiled(**_inside, forceinline=True, _nrt=False)
# The same of numbers, which Python may call too.
function = _compiled(nogil=True, forceinline=True, _nrt=False)
# A piece of a kernel, compiled once and not inlined.
piece = _compiled(**_inside, forceinline=False, _nrt=False)
# Formulas and pieces of classes that need not be ours: a cache would not see when they are edited.
own_formula = _compiled(cached=False, **_inside, forceinline=True, _nrt=False)
# The same, where Python calls it too.
own_function = _compiled(cached=False, nogil=True, forceinline=True, _nrt=False)
own_piece = _compiled(cached=False, **_inside, forceinline=False, _nrt=False)
# A piece that does cut arrays into views. Said, for Numba hands options on to what is called.
piece_with_views = _compiled(**_inside, forceinline=False, _nrt=True)
# A kernel that runs in the thread that calls it, without the GIL.
serial = _compiled(nogil=True, forceinline=False, _nrt=False)
# A kernel that spreads its loop over workers on all of Numba's threads: one caller at a time.
parallel = _compiled(nogil=True, parallel=True)
