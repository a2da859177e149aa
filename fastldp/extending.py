"""Classes that may come from outside: complete before they are used, and known by their name and their code."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numba.core.errors import NumbaError

from fastldp.errors import ArgumentError, ExtensionError
from fastldp.kernels.formulas import Fields, is_ours

OURS = __name__.partition(".")[0]
# The lines of Numba's errors that say what is wrong.
TELLING = r"Untyped global|[Ff]reevar|Unknown attribute|Use of unsupported|[Cc]annot"
GENERAL = r"No implementation of function Function\(<(ufunc|built-in)|Invalid use of"


class Extensible:
    """The base of what users can add to: a frozen dataclass, some of whose methods are formulas of kernels.

    A formula finds the class's fields in `self` by their names, each a number of its run. `vectors` names what has a
    number for each coordinate, `structure` what has a whole number for each; `numbers` is the rest of the fields where
    it does not say otherwise. All may be properties.
    """

    needed: ClassVar[dict[str, str]] = {}
    """What a class must have, and what that is."""
    numbers: ClassVar[tuple[str, ...] | None] = None
    vectors: ClassVar[tuple[str, ...]] = ()
    structure: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *args: Any, **given: Any) -> Any:
        lacking = [f"{name}: {what}" for name, what in cls.needed.items() if not hasattr(cls, name)]
        if lacking:
            raise ExtensionError(cls, f"it lacks {'; '.join(lacking)}")
        own = {name for name, kind in inspect.get_annotations(cls).items() if "ClassVar" not in str(kind)}
        ignored = own.difference(_fields_of(cls))
        if ignored:
            remedy = f"{', '.join(sorted(ignored))} would be ignored: put @dataclass(frozen=True) on it"
            raise ExtensionError(cls, remedy)
        return super().__new__(cls)

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A class that a process cannot import, as one of a notebook, travels by value, if at all.
        if is_ours(type(self)) or type(self).__module__ == "__main__" or "<locals>" in type(self).__qualname__:
            return super().__reduce_ex__(protocol)
        kind: Any = type(self)
        return _arrived, (name_of(kind), _code_once(kind), dict(self.__dict__))

    @classmethod
    def fields(cls) -> Fields:
        """What its formulas find in `self`."""
        numbers = cls.numbers
        if numbers is None:
            apart = (*cls.vectors, *cls.structure)
            numbers = tuple(name for name in _fields_of(cls) if name not in apart)
        return Fields(numbers, cls.vectors, cls.structure)


def _fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


@contextmanager
def said_of(kind: type) -> Iterator[None]:
    """What goes wrong inside is said to be of a class: of how its formulas are written."""
    try:
        yield
    except NumbaError as error:
        # Of Numba's many lines, those that say what it cannot do; the innermost of them if there are only general ones.
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = [line for line in lines if re.search(TELLING, line)][:1]
        told += [line for line in lines if re.search(GENERAL, line)][-1:]
        # What formulas find in `self` and `run` is of a type that nobody wants to read.
        said = re.sub(r" of type '?Made\(.*", "", (told or lines)[0])
        hint = "functions of your own need @numba.njit, and those of lanes are in fastldp.lanes"
        raise ExtensionError(kind, f"a formula cannot be compiled: {said} ({hint})") from error
    except IndexError as error:
        remedy = "load(array, i, j) and store(value, array, i, j) have the worker first, 0 for the server"
        raise ExtensionError(kind, f"a formula leaves its array: {error}; {remedy}") from error
    except ValueError as error:
        if "truth value" not in str(error):
            raise
        raise ExtensionError(
            kind, "a formula has an `if` on a value; select(mask, a, b) chooses in each lane"
        ) from error
    except (TypeError, AttributeError) as error:
        if isinstance(error, ExtensionError):
            raise
        hint = "; self has the fields of a frozen dataclass, and run of a method what workers and server name"
        known = hint if isinstance(error, AttributeError) else ""
        raise ExtensionError(kind, f"a formula fails: {type(error).__name__}: {error}{known}") from error


class _Unavailable:
    """Stands for an object whose class this process has not: whoever uses it learns why."""

    def __init__(self, name: str, remedy: str) -> None:
        self._about = name, remedy

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        raise ExtensionError(*self._about)


def _arrived(name: str, code: str, state: dict[str, Any]) -> Any:
    """An object of a class from outside, in the process that it was sent to."""
    try:
        kind = found("class", name, Extensible)
    except ArgumentError as error:
        return _Unavailable(name, f"worker processes need its module on their path too: {error}")
    if _code_once(kind) != code:
        remedy = "two classes have this name: the code that this process finds is another than that of who sent it"
        return _Unavailable(name, f"{remedy}; give all processes the same file, or the classes names of their own")
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


def name_of(kind: type) -> str:
    """What a class is called in files: its name, or ``module:name`` where it comes from outside."""
    return kind.__name__ if is_ours(kind) else f"{kind.__module__}:{kind.__qualname__}"


def found(argument: str, name: str, base: type) -> Any:
    """The class that ``module:name`` stands for."""
    module, _, path = name.partition(":")
    try:
        kind: Any = importlib.import_module(module)
        for part in path.split("."):
            kind = getattr(kind, part)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = f"it cannot be imported ({error}); give module:Class of a module on Python's path"
        raise ArgumentError(argument, name, remedy) from None
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise ArgumentError(argument, name, f"it is no subclass of fastldp.{base.__name__}")
    return kind


def code_of(kind: type) -> str:
    """A digest of what a class from outside does: its code, and all that is not ours or a library's which that uses."""
    digest = hashlib.sha256()
    for part in _parts(kind, set()):
        digest.update(part.encode())
    return digest.hexdigest()[:16]


@cache
def _code_once(kind: Any) -> str:
    return code_of(kind)


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    """All that the digest is of, as texts."""
    if isinstance(thing, bool | int | float | complex | str | bytes | None):
        yield repr(thing)
        return
    # Whatever can refer to itself is taken once.
    if id(thing) in seen:
        yield "again"
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield f"{thing.dtype} {thing.shape} {thing.tobytes().hex()}"
    elif isinstance(thing, tuple | list):
        yield f"{type(thing).__name__} {len(thing)}"
        for value in thing:
            yield from _parts(value, seen)
    elif isinstance(thing, set | frozenset):
        yield from sorted(repr(value) for value in thing)
    elif isinstance(thing, dict):
        for key in sorted(thing, key=repr):
            yield repr(key)
            yield from _parts(thing[key], seen)
    elif isinstance(thing, types.ModuleType):
        yield thing.__name__
        if not _from_libraries(thing):
            yield Path(str(thing.__file__)).read_text(encoding="utf-8")
    elif isinstance(thing, type):
        yield f"{thing.__module__}.{thing.__qualname__}"
        if not _from_libraries(thing):
            for base in thing.__mro__[1:]:
                yield from _parts(base, seen)
            for name, value in sorted(vars(thing).items()):
                if not name.startswith("__") or name in ("__post_init__", "__init__"):
                    yield name
                    yield from _parts(value, seen)
    elif isinstance(thing, types.CodeType):
        yield f"{thing.co_code.hex()} {thing.co_names} {thing.co_varnames}"
        yield from _parts(thing.co_consts, seen)
    elif isinstance(thing, types.FunctionType):
        yield f"{thing.__module__}.{thing.__qualname__}"
        if not _from_libraries(thing):
            yield from _parts(thing.__code__, seen)
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            used = [thing.__globals__[name] for name in _names(thing.__code__) if name in thing.__globals__]
            for value in (*cells, *used, thing.__defaults__, thing.__kwdefaults__):
                yield from _parts(value, seen)
    else:
        yield type(thing).__qualname__
        # What wraps a function: compiled, a property, a method, cached, partial.
        for name in ("py_func", "fget", "__func__", "func", "__wrapped__", "args", "keywords"):
            yield from _parts(getattr(thing, name, None), seen)
        # Another object is known by what it holds.
        if isinstance(thing, types.SimpleNamespace) or not _from_libraries(type(thing)):
            yield from _parts(getattr(thing, "__dict__", None), seen)


def _names(code: types.CodeType) -> Iterator[str]:
    """All names that code refers to, and that code inside of it does."""
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            yield from _names(value)


def _from_libraries(thing: Any) -> bool:
    """Whether something is ours or an installed library's: those have versions, and are not edited."""
    name = thing.__name__ if isinstance(thing, types.ModuleType) else str(getattr(thing, "__module__", ""))
    if name.partition(".")[0] == OURS:
        return True
    try:
        module = importlib.import_module(name)
    except (ImportError, ValueError):
        return False
    path = getattr(module, "__file__", None)
    if path is None:
        return name != "__main__"
    folders = Path(path).parts
    return "site-packages" in folders or Path(path).is_relative_to(Path(dataclasses.__file__).parent)
