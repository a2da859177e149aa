"""Where tasks run: threads, processes through joblib, a Dask cluster, or a Ray cluster."""

from __future__ import annotations

import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import Any

from joblib import Parallel, delayed, parallel_config

from fastldp.engine import driving
from fastldp.errors import ArgumentError, BackendError, MissingExtraError
from fastldp.sweeping.agenda import Task
from fastldp.sweeping.setting import Ground
from fastldp.sweeping.work import Batch, complete
from fastldp.validation import known_name


class Backend(ABC):
    """Runs tasks and gives back what came of them, in whatever order."""

    lost: tuple[type[BaseException], ...] = ()
    """What is raised when a worker dies: its tasks are to be run again."""

    def __init__(self, grounds: Sequence[Ground], slots: int) -> None:
        self.grounds, self.slots = grounds, slots

    @abstractmethod
    def stream(self, tasks: Iterable[Task], stop: threading.Event, leg: float) -> Generator[Batch]:
        """The outcome of each task as soon as it is there; none is begun after a stop."""

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what was started for it."""


class Futures(Backend):
    """Tasks that are sent somewhere, a few at a time, and waited for.

    joblib could send them too. But it looks for what threads have made every ten milliseconds; and its backends for
    clusters wait for ever for some lost workers (Dask), do not stream (Ray), and ship the data anew with every wave.
    """

    def stream(self, tasks: Iterable[Task], stop: threading.Event, leg: float) -> Generator[Batch]:
        waiting = iter(tasks)
        running: set[Any] = set()
        try:
            while True:
                # One more than there are slots, so that none of them waits for us.
                free = 0 if stop.is_set() else self.slots + 1 - len(running)
                running.update(self._send(task, stop, leg) for task in islice(waiting, free))
                if not running:
                    return
                done = self._first(running)
                running.remove(done)
                yield self._outcome(done)
        except self.lost:
            self._lose()
            raise
        finally:
            self._cancel(running)

    @abstractmethod
    def _send(self, task: Task, stop: threading.Event, leg: float) -> Any:
        """Have a task run."""

    @abstractmethod
    def _first(self, running: set[Any]) -> Any:
        """Wait for one of them."""

    def _outcome(self, done: Any) -> Batch:
        """What came of it."""
        batch: Batch = done.result()
        return batch

    def _cancel(self, running: set[Any]) -> None:
        """Give them up."""
        for task in running:
            task.cancel()

    def _lose(self) -> None:
        """A worker was lost, and perhaps data with it."""


class Threads(Futures):
    """This process: kernels let go of Python's lock while they run."""

    def __init__(self, grounds: Sequence[Ground], slots: int) -> None:
        super().__init__(grounds, slots)
        self._pool = ThreadPoolExecutor(slots)

    def stream(self, tasks: Iterable[Task], stop: threading.Event, leg: float) -> Generator[Batch]:
        if self.slots > 1:
            yield from super().stream(tasks, stop, leg)
            return
        # One core is not shared with a thread that waits.
        for task in tasks:
            if stop.is_set():
                return
            yield self._complete(task, stop, leg)

    def _complete(self, task: Task, stop: threading.Event, leg: float) -> Batch:
        ground = self.grounds[task.ground]
        # One block that has the process to itself shares out its workers, where that pays.
        threads = self.slots if task.alone and driving.threads_pay(ground.subjects[0].problem) else 1
        return complete(ground, task.blocks, seconds=leg, parent=os.getpid(), threads=threads, stop=stop)

    def _send(self, task: Task, stop: threading.Event, leg: float) -> Any:
        return self._pool.submit(self._complete, task, stop, leg)

    def _first(self, running: set[Any]) -> Any:
        return next(iter(wait(running, return_when=FIRST_COMPLETED).done))

    def close(self) -> None:
        # Those that are at work end at the next segment after a stop.
        self._pool.shutdown(cancel_futures=True)


class Loky(Backend):
    """Processes of this machine, through joblib, which puts large arrays where all of them can read them."""

    lost = (BrokenProcessPool,)

    def stream(self, tasks: Iterable[Task], stop: threading.Event, leg: float) -> Generator[Batch]:
        jobs = (
            delayed(complete)(self.grounds[task.ground], task.blocks, seconds=leg, parent=os.getpid())
            for task in tasks
            if not stop.is_set()
        )
        with parallel_config(backend="loky", inner_max_num_threads=1):
            # Tasks are piled up to a good size already.
            parallel = Parallel(
                n_jobs=self.slots, return_as="generator_unordered", pre_dispatch="n_jobs + 1", batch_size=1
            )
        outcomes = parallel(jobs)
        try:
            for batch in outcomes:  # noqa: UP028 - `yield from` would hand a close on to joblib at once
                yield batch
        finally:
            with warnings.catch_warnings():
                # joblib warns of tasks that are left; they are left on purpose, and stay missing.
                warnings.simplefilter("ignore")
                outcomes.close()


class Dask(Futures):
    """A Dask cluster at an address, or one of this machine's own."""

    def __init__(self, grounds: Sequence[Ground], slots: int | None, address: str | None) -> None:
        if find_spec("distributed") is None:
            raise MissingExtraError("distributed", "dask")
        self._distributed: Any = import_module("distributed")
        self._client: Any = None
        self._cluster: Any = None
        self._data: list[Any] = []
        try:
            if address is None:
                workers = driving.available_cores() if slots is None else slots
                # No dashboard: it would want a port, and another package.
                self._cluster = self._distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
                )
            self._client = self._distributed.Client(self._cluster or address, timeout="30s", set_as_default=False)
            found = sum(self._client.ncores().values())
        except (OSError, ValueError, RuntimeError) as error:
            self.close()
            where = "no Dask scheduler answers there" if address else "no Dask cluster could be started here"
            raise BackendError(f"address = {address!r}: {where} ({error})") from error
        if found == 0:
            self.close()
            raise BackendError(f"address = {address!r}: the scheduler has no workers; start some with dask worker")
        self.lost = (
            self._distributed.KilledWorker,
            self._distributed.comm.CommClosedError,
            self._distributed.client.FutureCancelledError,
            CancelledError,
            TimeoutError,
        )
        super().__init__(grounds, found if slots is None else min(slots, found))

    def _send(self, task: Task, stop: threading.Event, leg: float) -> Any:
        if not self._data:
            # They travel once to each worker, and tasks name them.
            self._data = self._client.scatter(list(self.grounds), broadcast=True, hash=False)
        return self._client.submit(complete, self._data[task.ground], task.blocks, seconds=leg, pure=False)

    def _first(self, running: set[Any]) -> Any:
        with self._client.as_current():
            return next(iter(self._distributed.wait(list(running), return_when="FIRST_COMPLETED").done))

    def _cancel(self, running: set[Any]) -> None:
        if running:
            self._client.cancel(list(running))

    def _lose(self) -> None:
        # Data that were on lost workers alone cannot be made again by the others.
        self._data = []

    def close(self) -> None:
        self._data = []
        for started in (self._client, self._cluster):
            if started is not None:
                started.close()


class Ray(Futures):
    """A Ray cluster at an address, or one of this machine's own."""

    def __init__(self, grounds: Sequence[Ground], slots: int | None, address: str | None) -> None:
        if find_spec("ray") is None:
            raise MissingExtraError("ray", "ray")
        self._ray: Any = import_module("ray")
        self._ours = not self._ray.is_initialized()
        if self._ours:
            own = {"num_cpus": slots or driving.available_cores(), "include_dashboard": False}
            try:
                self._ray.init(address=address or "local", log_to_driver=False, **({} if address else own))
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise BackendError(f"address = {address!r}: no Ray cluster answers there ({error})") from error
        # A task that raises is no lost worker.
        self.lost = (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.ObjectLostError)
        found = int(self._ray.cluster_resources().get("CPU", 0))
        super().__init__(grounds, max(1, found if slots is None else min(slots, found)))
        self._lose()
        self._complete = self._ray.remote(_complete_on_ray)

    def _send(self, task: Task, stop: threading.Event, leg: float) -> Any:
        return self._complete.remote(self._data[task.ground], task.blocks, leg)

    def _first(self, running: set[Any]) -> Any:
        return self._ray.wait(list(running), num_returns=1)[0][0]

    def _outcome(self, done: Any) -> Batch:
        batch: Batch = self._ray.get(done)
        return batch

    def _cancel(self, running: set[Any]) -> None:
        for task in running:
            self._ray.cancel(task)

    def _lose(self) -> None:
        # In a list, for a reference that is an argument of its own is fetched anew for every task.
        self._data = [[self._ray.put(ground)] for ground in self.grounds]

    def close(self) -> None:
        self._data = []
        if self._ours:
            self._ray.shutdown()


def _complete_on_ray(reference: list[Any], blocks: Any, leg: float) -> Batch:
    return complete(_fetched(reference[0]), blocks, seconds=leg)


@lru_cache(maxsize=8)
def _fetched(reference: Any) -> Ground:
    """A ground from Ray's store, once in each process."""
    found: Ground = import_module("ray").get(reference)
    return found


NAMES = ("threads", "loky", "dask", "ray")


def check(name: str, address: str | None) -> None:
    """Refuse, before any work, what `backend_of` could not make."""
    known_name("backend", name, NAMES)
    if address is not None and name not in ("dask", "ray"):
        raise ArgumentError("address", address, "only the backends dask and ray have one")


def backend_of(name: str, grounds: Sequence[Ground], n_jobs: int | None, address: str | None) -> Backend:
    """The backend of a name."""
    check(name, address)
    if name == "dask":
        return Dask(grounds, n_jobs, address)
    if name == "ray":
        return Ray(grounds, n_jobs, address)
    cores = driving.available_cores()
    kind = Threads if name == "threads" else Loky
    return kind(grounds, cores if n_jobs is None else min(n_jobs, cores))
