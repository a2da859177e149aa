"""Every error fastldp raises: each names the argument, the value it got, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fastldp.solution import Solution


class FastLDPError(Exception):
    """The base of all errors of fastldp."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By message and attributes: the constructors take other arguments, and errors travel between processes.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[FastLDPError], args: tuple[Any, ...], attributes: dict[str, Any]) -> FastLDPError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class ArgumentError(FastLDPError, ValueError):
    """An argument that cannot be used, found before any work started."""

    def __init__(self, argument: str, value: Any, remedy: str) -> None:
        super().__init__(f"{argument} = {shown(value)}: {remedy}")
        self.argument = argument

    def said_of(self, argument: str) -> FastLDPError:
        """The same of the argument by which the value came here."""
        text = argument + str(self).removeprefix(self.argument)
        return _restored(type(self), (text,), self.__dict__ | {"argument": argument})


class DataError(ArgumentError):
    """Rows, labels or shards that do not make a problem."""


class BudgetError(ArgumentError):
    """A privacy budget that promises nothing, or that a variance array would overspend."""


class UnknownNameError(ArgumentError):
    """A name that is not one of the known ones; the message lists them."""


class UnboundedGradientError(ArgumentError):
    """A private solve of a problem whose gradients have no bound, hence no sensitivity."""


class TooLargeError(ArgumentError, MemoryError):
    """A job whose estimated memory exceeds what the machine has, refused before it is tried."""


class ExtensionError(FastLDPError, TypeError):
    """A class of a user's own that lacks something, or whose parts contradict each other."""

    def __init__(self, kind: type | str, remedy: str) -> None:
        name = kind if isinstance(kind, str) else kind.__name__
        super().__init__(f"class {name}: {remedy}; see docs/extending.md")


class OptimumError(FastLDPError):
    """No certified optimum was found; perhaps none exists."""


class MissingExtraError(FastLDPError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, otherwise: str = "") -> None:
        instead = f"; {otherwise}" if otherwise else ""
        super().__init__(f"{package} is not installed; pip install 'fastldp[{extra}]'{instead}")


class FileFormatError(FastLDPError, ValueError):
    """A file that is not what it should be."""


class DamagedError(FileFormatError):
    """A file that was whole once, and is damaged beyond what its parity can make again."""


class SpecError(FastLDPError, ValueError):
    """A sweep's specification that cannot be run; the message has file, line and key."""


class StoreError(FastLDPError):
    """Results that cannot be kept, or kept together; what is stored already is safe."""


class RefusedError(FastLDPError):
    """What a worker or a server of a federation does not do: nothing was released, and nothing has changed.

    `reason` is a word for it, as ``"round"``, ``"terms"`` or ``"budget"``; the message says all.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class FederationError(FastLDPError):
    """A federation that cannot go on: processes that ended, or a worker that refuses while all wait for it."""


class BackendError(FastLDPError):
    """Workers that cannot be reached, or that are lost again and again."""


class NotFoundError(FastLDPError, FileNotFoundError):
    """Data that no folder and no server has; the message says where to get it and where to put it."""


class SolveError(FastLDPError):
    """A solve that did not complete; `solution` holds what was done before it ended."""

    def __init__(self, solution: Solution) -> None:
        super().__init__(solution.status.message)
        self.solution = solution


class DivergedError(SolveError):
    """A run that became non-finite."""


class InterruptedSolve(SolveError, KeyboardInterrupt):
    """Ctrl-C during a solve: stops a script as Ctrl-C should, and carries what was done so far."""


class StepWarning(UserWarning):
    """A step above the theorem's limit: the run goes on, the theorem no longer speaks of it."""


class HorizonWarning(UserWarning):
    """Fewer rounds than a plan wants: its step is held at its limit, and it expects a larger error."""


class OptimumWarning(UserWarning):
    """The problem has no certified optimum, so distances to it are recorded as NaN."""


class DeltaWarning(UserWarning):
    """A δ so large that a promise of it keeps little: no less than one over a worker's samples, or above 1e-3."""


class SamplerWarning(UserWarning):
    """So many releases, or so large an ε for each, that the sampler's distance from true normals takes most of δ."""


class NoiseWarning(UserWarning):
    """One worker's noise drowns the others' in the average, as its shard is too small for the weight it has."""


class WorkersWarning(UserWarning):
    """Nobody said who holds which row, so workers are simulated; the message says what is protected from whom."""


class ClippingWarning(UserWarning):
    """A threshold that adapts came to the limit of its reach."""


class DamageWarning(UserWarning):
    """A file in which bytes have changed since it was written; the message says where, and what became of it."""


class DownloadWarning(UserWarning):
    """A mirror that was down or served another file; the next one served the right one."""


class GridEdgeWarning(UserWarning):
    """The best setting of a grid lies on its edge: a better one may lie beyond."""


def shown(value: Any) -> str:
    """A value as an error message shows it: arrays by shape, long text cut, of paths and other strings the middle."""
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"array of shape {value.shape}, dtype {value.dtype}"
    text = repr(value)
    if len(text) <= 80:
        return text
    return f"{text[:30]}...{text[-47:]}" if isinstance(value, str) else text[:77] + "..."
