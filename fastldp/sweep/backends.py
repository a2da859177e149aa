"""Where tasks run: threads, processes, a Dask cluster or a Ray cluster, all through joblib."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any, ClassVar

from joblib import Parallel, delayed, parallel_config

from fastldp import engine
from fastldp.errors import ArgumentError, BackendError, MissingExtraError
from fastldp.sweep.ground import Ground
from fastldp.sweep.packing import Task
from fastldp.sweep.work import Batch, complete
from fastldp.validation import known_name


class Backend(ABC):
    """Runs tasks and gives back what came of them, in whatever order."""

    name: ClassVar[str]
    lost: tuple[type[BaseException], ...] = ()
    """What is raised when a worker dies: its tasks are to be run again."""

    def __init__(self, grounds: Sequence[Ground], slots: int) -> None:
        self.grounds, self.slots = grounds, slots

    def stream(self, tasks: Sequence[Task], stop: threading.Event, leg: float) -> Iterator[Batch]:
        """The outcome of each task as soon as it is there; none is begun after a stop."""
        jobs = (self._job(task, stop, leg, alone=len(tasks) == 1) for task in tasks if not stop.is_set())
        with parallel_config(**self._configuration()):
            try:
                parallel = Parallel(n_jobs=self.slots, return_as="generator_unordered", pre_dispatch="n_jobs + 1")
            except ValueError:  # this backend of joblib's cannot stream
                parallel = Parallel(n_jobs=self.slots)
        if parallel.return_generator:
            yield from parallel(jobs)
            return
        # A handful of tasks at a time, so that what is done is kept soon.
        with parallel:
            while some := list(islice(jobs, 4 * self.slots)):
                yield from parallel(some)

    @abstractmethod
    def _configuration(self) -> dict[str, Any]:
        """For joblib."""

    def _job(self, task: Task, stop: threading.Event, leg: float, *, alone: bool) -> Any:
        return delayed(complete)(self.grounds[task.ground], task.blocks, seconds=leg)

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what was started for it."""


class Threads(Backend):
    """This process: kernels let go of Python's lock while they run."""

    name = "threads"

    def _configuration(self) -> dict[str, Any]:
        return {"backend": "threading"}

    def _job(self, task: Task, stop: threading.Event, leg: float, *, alone: bool) -> Any:
        # One block that has the process to itself shares out its workers; two callers of parallel kernels may abort.
        threads = self.slots if alone and len(task.blocks) == 1 else 1
        return delayed(complete)(self.grounds[task.ground], task.blocks, seconds=leg, threads=threads, stop=stop)


class Loky(Backend):
    """Processes of this machine; joblib puts large arrays where all of them can read them."""

    name = "loky"
    lost = (BrokenProcessPool,)

    def _configuration(self) -> dict[str, Any]:
        return {"backend": "loky", "inner_max_num_threads": 1}


class Dask(Backend):
    """A Dask cluster at an address, or one of this machine's own."""

    name = "dask"

    def __init__(self, grounds: Sequence[Ground], slots: int | None, address: str | None) -> None:
        if find_spec("distributed") is None:
            raise MissingExtraError("distributed", "dask")
        distributed: Any = import_module("distributed")
        self._cluster = None
        if address is None:
            workers = engine.available_cores() if slots is None else slots
            # No dashboard: it would want a port, and another package.
            self._cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
        try:
            self._client = distributed.Client(self._cluster or address, timeout="30s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise BackendError(f"address = {address!r}: no Dask scheduler answers there ({error})") from error
        self.lost = (distributed.KilledWorker, distributed.comm.CommClosedError, CancelledError, TimeoutError)
        found = sum(self._client.ncores().values())
        if found == 0:
            self.close()
            raise BackendError(f"address = {address!r}: the scheduler has no workers; start some with dask worker")
        super().__init__(grounds, found if slots is None else min(slots, found))

    def _configuration(self) -> dict[str, Any]:
        # Scattered data travels once to each worker, and tasks name it.
        return {"backend": "dask", "client": self._client, "scatter": list(self.grounds)}

    def close(self) -> None:
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


class Ray(Backend):
    """A Ray cluster at an address, or one of this machine's own."""

    name = "ray"

    def __init__(self, grounds: Sequence[Ground], slots: int | None, address: str | None) -> None:
        if find_spec("ray") is None:
            raise MissingExtraError("ray", "ray")
        ray: Any = import_module("ray")
        self._ours = not ray.is_initialized()
        if self._ours:
            own = {"num_cpus": slots or engine.available_cores(), "include_dashboard": False}
            try:
                ray.init(address=address, log_to_driver=False, **({} if address else own))
            except (ConnectionError, RuntimeError) as error:
                raise BackendError(f"address = {address!r}: no Ray cluster answers there ({error})") from error
        import_module("ray.util.joblib").register_ray()
        self.lost = (ray.exceptions.RayError,)
        found = int(ray.cluster_resources().get("CPU", 0))
        super().__init__(grounds, max(1, found if slots is None else min(slots, found)))
        self._references = [ray.put(ground) for ground in grounds]

    def _configuration(self) -> dict[str, Any]:
        return {"backend": "ray"}

    def _job(self, task: Task, stop: threading.Event, leg: float, *, alone: bool) -> Any:
        return delayed(_complete_on_ray)(self._references[task.ground], task.blocks, leg)

    def close(self) -> None:
        self._references = []
        if self._ours:
            import_module("ray").shutdown()


def _complete_on_ray(reference: Any, blocks: Any, leg: float) -> Batch:
    return complete(_fetched(reference), blocks, seconds=leg)


@lru_cache(maxsize=8)
def _fetched(reference: Any) -> Ground:
    """A ground from Ray's store, once in each process."""
    found: Ground = import_module("ray").get(reference)
    return found


NAMES = ("threads", "loky", "dask", "ray")


def backend_of(name: str, grounds: Sequence[Ground], n_jobs: int | None, address: str | None) -> Backend:
    """The backend of a name."""
    known_name("backend", name, NAMES)
    if address is not None and name not in ("dask", "ray"):
        raise ArgumentError("address", address, "only the backends dask and ray have one")
    if name == "dask":
        return Dask(grounds, n_jobs, address)
    if name == "ray":
        return Ray(grounds, n_jobs, address)
    cores = engine.available_cores()
    kind = Threads if name == "threads" else Loky
    return kind(grounds, cores if n_jobs is None else min(n_jobs, cores))
