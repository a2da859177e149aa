"""The sweep: what is missing is packed, run, and written by one writer, until all is there or Ctrl-C is pressed."""

from __future__ import annotations

import datetime
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fastldp.bars import Progress
from fastldp.disk import free_bytes
from fastldp.errors import BackendError, StoreError
from fastldp.provenance import of_code
from fastldp.solve import check_jobs, stop_on_interrupt
from fastldp.sweeping import backends
from fastldp.sweeping import spec as specs
from fastldp.sweeping.agenda import Agenda, tasks_of, wave_of
from fastldp.sweeping.backends import Backend, backend_of
from fastldp.sweeping.sealing import PAGES_A_PARITY
from fastldp.sweeping.spec import Spec
from fastldp.sweeping.specification import Sweep
from fastldp.sweeping.store import SettingRow, Standings, Store, Stored, parts_of, real_path
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED, RUNNING, Batch, Leg, rehearse
from fastldp.validation import real

# How long a run may go on before what it has is written: what a kill can lose.
LEG_SECONDS = 10.0
# Finished runs wait so long at most for others to be written with them.
COMMIT_SECONDS = 1.0
# What a file has beside its runs and settings.
FIXED_BYTES = 40_000
# What a run that failed takes in a file, with the reason.
FAILED_BYTES = 400
# So many reasons of failures are told.
MOST_REASONS = 20
# So often may workers be lost without a single task done in between.
MOST_LOSSES = 5


@dataclass(frozen=True)
class Report:
    """What a sweep did."""

    path: str
    runs: int
    found: int
    """Runs that the file had already."""
    completed: int
    diverged: int
    failed: int
    """By this command."""
    resumed: int
    """Runs that went on from where an earlier command had left them."""
    missing: int
    unsound: int
    """Of the runs that the file had, those that had diverged or failed."""
    interrupted: bool
    rounds: int
    seconds: float
    reasons: dict[str, int] = field(default_factory=dict)
    """Why settings failed, and how many of them: those that cannot run, and those that failed by this command."""

    @property
    def sound(self) -> bool:
        """Whether every run that was wanted is in the file, completed."""
        return not (self.missing or self.unsound or self.diverged or self.failed)

    def summary(self) -> str:
        """What was wanted, found and made, and what to do about the rest.

        Returns
        -------
        str
            One line, or a few.
        """
        made = {COMPLETED: self.completed, DIVERGED: self.diverged, FAILED: self.failed}
        did = [f"{count:,} {outcome}" for outcome, count in made.items() if count]
        lines = [
            f"{self.path}: {self.runs:,} runs wanted, {self.found:,} found; "
            + (", ".join(did) if did else "none was finished" if self.missing else "nothing was left to do")
            + f" in {duration(self.seconds)}{', then interrupted' if self.interrupted else ''}"
        ]
        lines += told_reasons(self.reasons)
        if self.resumed:
            lines.append(f"{self.resumed:,} of them went on from where they had been left")
        if self.unsound:
            lines.append(f"{self.unsound:,} of those found had diverged or failed; --retry (retry=True) tries failures")
        if self.failed:
            lines.append("the failures are in the file; --retry (retry=True) tries them again")
        if self.missing:
            lines.append(f"{self.missing:,} are still missing; the same command goes on from here")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain values.

        Returns
        -------
        dict
            Its fields by name.
        """
        return asdict(self)


def sweep(
    spec: str | os.PathLike[str] | Sweep | Spec,
    path: str | os.PathLike[str],
    *,
    backend: str = "threads",
    address: str | None = None,
    n_jobs: int | None = None,
    resume: bool = True,
    retry: bool = False,
    mix: bool = False,
    lock: bool = True,
    shared: bool = False,
    progress: bool = True,
    leg_seconds: float = LEG_SECONDS,
    given: Mapping[str, Any] | None = None,
    quick: bool = False,
    synthetic: bool = False,
) -> Report:
    """Make the runs of a specification that the file does not have yet, and write them to it.

    Parameters
    ----------
    spec : path, str or Sweep
        A TOML file, or a text; its keys are in `fastldp/sweeping/SPEC.md`. Or the same as an object, a `Sweep`, or what
        `sweeping.spec.read` made of one.
    path : path
        The HDF5 file; made where it is not there, added to where it is.
    backend : str
        ``"threads"``, ``"loky"``, ``"dask"`` or ``"ray"``; the numbers are the same bits on all.
    address : str, optional
        Of a Dask or Ray cluster; one is started on this machine where it is not given.
    n_jobs : int, optional
        How many blocks may run at a time; as many as there are cores by default.
    resume : bool
        Whether to go on with a file that is there; if not, it is refused.
    retry : bool
        Whether to run again what failed before.
    mix : bool
        Whether runs may be added to a file that has the same runs of other data, or of another version of a method.
    lock : bool
        Whether to keep a second writer out; some network drives cannot.
    shared : bool
        Whether others may read a new file, as the umask allows. It holds the seed, with which the noise can be taken
        off, so it is its owner's alone by default; a file that is there keeps the mode it has.
    progress : bool
        Whether to show a bar on a terminal, or log lines elsewhere.
    leg_seconds : float
        After so many seconds the state of a run that goes on is written.
    given : dict, optional
        Data made in Python, (A, b), by the name that ``given = "..."`` has in the table [data], and problems by that in
        the table [problem].
    quick : bool
        Whether the keys of the table [quick] replace those of the same name, for a small trial.
    synthetic : bool
        Whether to take generated stand-ins in place of named sets.

    Returns
    -------
    Report
        How many runs were found and made, how they ended, and how many are missing.

    Raises
    ------
    SpecError
        Where the specification cannot be run; the message has file, line and key.
    StoreError
        Where the file cannot be added to, or its disk has no room.

    Examples
    --------
    >>> import fastldp as fl, tempfile, os
    >>> text = '''
    ... rounds = [10, 20]
    ... repetitions = 3
    ... [data]
    ... synthetic = "ijcnn1"
    ... [problem]
    ... workers = 4
    ... l2 = 0.1
    ... [budget]
    ... epsilon = 1.0
    ... delta = 1e-4
    ... [[method]]
    ... name = "PrimalDual"
    ... allocation = ["dynamic", "static"]
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = fl.sweep(text, os.path.join(folder, "results.h5"))
    ...     errors = fl.results(os.path.join(folder, "results.h5")).where(rounds=20).table()["optimality"]
    >>> report.completed, errors.shape
    (12, (6,))
    """
    check_jobs(n_jobs)
    backends.check(backend, address)
    real("leg_seconds", leg_seconds, "give a number of seconds > 0", above=0)
    began = time.perf_counter()
    read = spec if isinstance(spec, Spec) else specs.read(spec, given, quick=quick, synthetic=synthetic)
    target = real_path(path)
    if not resume and (target.exists() or parts_of(target)):
        raise StoreError(f"{target}: there are results already; resume=True adds to them, or choose another file")
    session = _session(read, backend, n_jobs)
    with Store(target, session=session, lock=lock, shared=shared) as store, stop_on_interrupt() as stop:
        agenda = agenda_of(read, store.stored, target, retry=retry, mix=mix)
        found, resumed = agenda.wanted - len(agenda) - agenda.refused, agenda.begun
        unsound = agenda.count(DIVERGED) + (0 if retry else agenda.count(FAILED))
        _refuse_full_disk(read, agenda, target)
        with Progress(len(agenda), agenda.rounds, show=progress) as bar:
            bar.tell(f"{agenda.wanted:,} runs wanted, {found:,} found in {target}")
            writer = _Writer(store, read, agenda, bar)
            if agenda.refused:
                bar.tell(f"{len(read.refused):,} of {len(read.settings):,} settings cannot run, which is written down")
                for batch in agenda.refusals():
                    writer.take(batch)
                writer.commit()
            if agenda:
                _compile(read, agenda, stop)
                worker = backend_of(backend, read.grounds, n_jobs, address)
                with closing(worker):
                    try:
                        _drive(worker, agenda, writer, stop, leg_seconds, bar)
                    finally:
                        writer.commit()
            store.fold()
            # Nothing is reported that was not seen in the file.
            store.confirm([setting.key for setting in read.settings], agenda.outcomes)
    return Report(
        path=os.fspath(path),
        runs=agenda.wanted,
        found=found,
        completed=writer.counts[COMPLETED],
        diverged=writer.counts[DIVERGED],
        failed=writer.counts[FAILED],
        resumed=resumed,
        missing=len(agenda),
        unsound=unsound,
        interrupted=stop.is_set() and bool(agenda),
        rounds=writer.rounds,
        seconds=time.perf_counter() - began,
        reasons=dict((agenda.reasons() | writer.reasons()).most_common()),
    )


class _Writer:
    """Takes what workers give back, and writes it a part at a time; what it has counted is on the disk."""

    def __init__(self, store: Store, spec: Spec, agenda: Agenda, bar: Progress) -> None:
        self._store, self._agenda, self._bar = store, agenda, bar
        self._settings = {setting.key: setting for setting in spec.settings}
        self._cards = spec.cards
        self._legs: list[Leg] = []
        self._rows: dict[str, SettingRow] = {}
        self._last = time.perf_counter()
        self.counts = dict.fromkeys((COMPLETED, DIVERGED, FAILED, RUNNING), 0)
        self.rounds = 0
        self._failed: dict[str, set[str]] = {}

    def reasons(self) -> Counter[str]:
        """Why settings failed, and how many."""
        return Counter({message: len(keys) for message, keys in self._failed.items()})

    def take(self, batch: Batch) -> None:
        for key, ledger in batch.ledgers.items():
            if key not in self._rows or ledger is not None:
                self._rows[key] = SettingRow(self._cards[key], ledger, self._settings[key].timetable.rounds)
        self._legs += batch.legs
        self._agenda.take(batch.legs)
        self.rounds += batch.rounds
        self._bar.advance(batch.rounds)
        if time.perf_counter() - self._last >= COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        if not self._legs:
            return
        legs, self._legs = self._legs, []
        self._store.commit(legs, self._rows)
        self._rows = {}
        for leg in legs:
            self.counts[leg.outcome] += 1
            if leg.outcome == FAILED:
                self._failed.setdefault(leg.message, set()).add(leg.key)
        self._bar.finished(sum(leg.outcome != RUNNING for leg in legs))
        self._store.tidy()
        self._last = time.perf_counter()


def _drive(worker: Backend, agenda: Agenda, writer: _Writer, stop: threading.Event, leg: float, bar: Progress) -> None:
    """Wave after wave of tasks, until nothing is missing; what a lost worker had is still missing, and comes again."""
    losses = 0
    while agenda and not stop.is_set():
        tasks = tasks_of(agenda, wave_of(agenda.blocks(), worker.slots, leg), worker.slots, leg)
        try:
            with closing(worker.stream(tasks, stop, leg)) as batches:
                for batch in batches:
                    losses = 0
                    try:
                        writer.take(batch)
                    except BaseException:
                        stop.set()  # nobody will take what the others are at
                        raise
        except worker.lost as error:
            losses += 1
            bar.tell(f"a worker was lost ({type(error).__name__}); its blocks are run again")
            if losses > MOST_LOSSES:
                raise BackendError(
                    f"workers were lost {losses} times in a row, the last time with {type(error).__name__}: {error}; "
                    "what is finished is stored; look whether they have enough memory, and give the same command again"
                ) from error
        writer.commit()


def standings_of(spec: Spec, stored: Stored) -> Standings:
    """What a file has of the runs that are wanted."""
    return stored.standings([setting.key for setting in spec.settings], spec.repetitions)


def agenda_of(spec: Spec, stored: Stored, path: Path, *, retry: bool, mix: bool) -> Agenda:
    """What is missing of the runs that are wanted; the same runs of other data are refused, unless they may mix."""
    for card, before in [] if mix else stored.strangers(spec.cards):
        what = "the data" if before["fingerprint"] != card.provenance["fingerprint"] else "the method's version"
        runs = f"{json.dumps(card.parameters['method'])} on {json.dumps(card.parameters['data'])}"
        raise StoreError(
            f"{path}: it has the runs of {runs} already, but {what} differed then; choose another file, or let both "
            "stand in this one (--mix, mix=True)"
        )
    return Agenda(spec, standings_of(spec, stored), retry=retry)


def _refuse_full_disk(spec: Spec, agenda: Agenda, path: Path) -> None:
    # Folding needs room for a copy of what there is.
    there = path.stat().st_size if path.exists() else 0
    needed, free = bytes_of(spec, agenda) + there, free_bytes(path)
    if needed > free:
        raise StoreError(
            f"{path}: about {size(needed)} are needed and {size(free)} are free; record fewer rounds, or choose "
            "another disk"
        )


def bytes_of(spec: Spec, agenda: Agenda) -> int:
    """What the file will grow by: its runs and the noise of its settings; texts are compressed, checksums added."""
    a_run, a_setting = np.zeros((2, len(spec.settings)), dtype=np.int64)
    for row, setting in enumerate(spec.settings):
        problem = spec.grounds[setting.ground].subjects[setting.subject].problem
        records, wanted, d = setting.timetable.rounds.size, setting.wanted, problem.d
        a_run[row] = 8 * ((2 + len(wanted.measures(problem)) + d * wanted.models) * records + d + 12)
        a_setting[row] = 8 * setting.rounds * (setting.budget is not None) + 100
    runs = agenda.of_settings
    content = runs @ a_run + (runs > 0) @ a_setting + FAILED_BYTES * agenda.refused
    return int(FIXED_BYTES + content * (1 + 1 / PAGES_A_PARITY)) if content else 0


def _compile(spec: Spec, agenda: Agenda, stop: threading.Event) -> None:
    """Every kind of block once, here: workers that compile at the same time write the same cache."""
    blocks = agenda.blocks()
    for first, _ in agenda.examples(blocks):
        if not stop.is_set():
            rehearse(spec.grounds[blocks.grounds[first]], agenda.pending(blocks, first), 1)


def _session(spec: Spec, backend: str, n_jobs: int | None) -> dict[str, Any]:
    """What made the runs, for whoever reads them later; each adds the machine it was made on."""
    origin = spec.sweep.origin
    return {
        **of_code(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "backend": backend,
        "jobs": n_jobs,
        "spec": spec.text,
        "specification": origin.name,
        "quick": origin.quick,
        "synthetic": origin.synthetic,
        "tuning": dict(spec.sweep.tuning),
    }


def told_reasons(reasons: Mapping[str, int]) -> list[str]:
    """Each reason why settings failed in a line, with how many of them; of many the first.

    >>> told_reasons({"step = -1: give a number > 0": 3})
    ['3 settings failed: step = -1: give a number > 0']
    """
    some = list(reasons.items())[:MOST_REASONS]
    lines = [f"{count:,} setting{'s' * (count != 1)} failed: {reason}" for reason, count in some]
    more = len(reasons) - len(some)
    return [*lines, f"and others for {more:,} more reasons; fastldp info --all has all of them"] if more else lines


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(0.31), duration(75), duration(7500)
    ('0.31 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(count: float) -> str:
    """Bytes for people.

    >>> size(640), size(2.5e6)
    ('640 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
