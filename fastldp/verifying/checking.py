"""verify(): every claim of a file of results, made again or computed in another way."""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp.errors import DamagedError, DamageWarning
from fastldp.privacy.ledger import Ledger
from fastldp.provenance import of_code, of_machine
from fastldp.sweeping.layout import OUTCOMES, optimality
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.run import Loaded
from fastldp.sweeping.setting import digest
from fastldp.sweeping.store import files_of, ledger_fields
from fastldp.sweeping.work import COMPLETED, DIVERGED, FAILED
from fastldp.validation import integer
from fastldp.verifying import accounting, remaking
from fastldp.verifying.claims import CONFIRMED, OPEN, REFUTED, Claim, Verification
from fastldp.verifying.remaking import Made

RUNS = 20
# A ledger made again agrees to the digits that LAPACK gives the data's constants on every processor.
SAME = 1e-9
REMEDY = "give a whole number ≥ 0, or None for all runs"


def verify(
    path: str | os.PathLike[str],
    *,
    runs: int | None = RUNS,
    seed: int | None = None,
    given: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Verification:
    """Look whether a file of results is what it claims: make runs of it again, and account for every ledger anew.

    Parameters
    ----------
    path : path
        The HDF5 file that `sweep` writes.
    runs : int or None
        How many runs are made again, chosen at random; None for all of them.
    seed : int, optional
        By which they are chosen; one of the operating system's, which nobody knew before, where it is not given.
    given : dict, optional
        Data made in Python, by the name that the specification has for them, as for `sweep`.
    folder : path, optional
        Where the specification's files are; that of the results, where it is not given.

    Returns
    -------
    Verification
        Which claims were confirmed, which are false, and which could not be confirmed.

    Raises
    ------
    FileNotFoundError
        Where there is no such file.

    Examples
    --------
    >>> verify("nowhere.h5")
    Traceback (most recent call last):
        ...
    FileNotFoundError: nowhere.h5: no such file, where results of a sweep should be
    """
    if runs is not None:
        runs = integer("runs", runs, REMEDY, at_least=0)
    seed = secrets.randbits(32) if seed is None else integer("seed", seed, "give a whole number ≥ 0", at_least=0)
    name = os.fspath(path)
    with warnings.catch_warnings(record=True) as damage:
        warnings.simplefilter("always", DamageWarning)
        try:
            files = files_of(path)
        except DamagedError as error:
            return Verification(name, (Claim("checksums", REFUTED, str(error)),), seed)
    if not files:
        raise FileNotFoundError(f"{name}: no such file, where results of a sweep should be")
    told = "every page of the file has the checksum that was written with it"
    claims = [Claim.of("checksums", told, [str(one.message) for one in damage if one.category is DamageWarning])]
    try:
        found = _File(Loaded(Merged(files)))
    except Exception as error:  # behind checksums that were made anew anything may be wrong
        return Verification(name, (*claims, _unreadable("settings", error)), seed)
    place = Path(folder) if folder is not None else Path(path).absolute().parent
    made, by_text, unread = remaking.specifications(found.sessions, found.keys_there, given, place)
    chance = np.random.default_rng(seed)
    looks: dict[str, Callable[[], Claim]] = {
        "settings": found.keys,
        "runs there": found.shapes,
        "optimality": lambda: found.sums([file.numbers("optimality") for file in files]),
        "ledgers": found.ledgers,
        "specification": lambda: found.specification(made, by_text, unread),
        **({"promises": lambda: found.promises(made), "final models": lambda: found.ends(made)} if made else {}),
        "runs": lambda: found.runs(made, runs, chance),
    }
    for what, look in looks.items():
        try:
            claims.append(look())
        except Exception as error:
            claims.append(_unreadable(what, error))
    return Verification(name, tuple(claims), seed, _differing_code(found.sessions))


def _unreadable(name: str, error: Exception) -> Claim:
    return Claim(name, REFUTED, f"what the file has of it makes no sense ({type(error).__name__}: {error})")


class _File:
    """What a file holds, claim by claim."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.parameters = [json.loads(text) for text in loaded.texts("parameters").tolist()]
        self.names = [key.decode() for key in loaded.texts("key").tolist()]
        self.keys_there = {*self.names}
        self.sessions: list[dict[str, Any]] = [dict(json.loads(text)) for text in loaded.sessions]
        outcome = loaded.numbers("outcome")
        self.outcomes = [OUTCOMES[code] for code in outcome.tolist()]
        self.settings = loaded.numbers("setting").tolist()
        over = [name in (COMPLETED, DIVERGED) for name in self.outcomes]
        self.over: NDArray[np.int64] = np.flatnonzero(np.array(over, dtype=bool) & loaded.merged.whole)

    def _name(self, setting: int) -> str:
        parameters = self.parameters[setting]
        return f"setting {setting} ({parameters['method']['name']}, T = {parameters['rounds']:,})"

    def _run(self, row: int) -> str:
        return f"repetition {self.loaded.numbers('repetition')[row]} of {self._name(self.settings[row])}"

    def _ledgers(self) -> Iterator[tuple[int, Ledger]]:
        rows = self.loaded.rows("settings", "variances")
        for k, text in enumerate(self.loaded.texts("ledger").tolist()):
            fields = ledger_fields(text, rows.row(k))
            if fields is not None:
                yield k, Ledger.from_dict(fields)

    def keys(self) -> Claim:
        """Keys are digests of all that runs depend on: what was changed or swapped has another."""
        wrong = []
        columns = (self.loaded.texts(name).tolist() for name in ("key", "identity", "parameters", "provenance"))
        for k, (key, identity, text, provenance) in enumerate(zip(*columns, strict=True)):
            about = json.loads(provenance)
            expected = digest(f"{text.decode()} {about['fingerprint']} {about['version']}")
            if key.decode() != expected or identity.decode() != digest(text.decode()):
                wrong.append(f"{self._name(k)}: its parameters, data or version are not those of its key")
        told = f"the key of every one of {len(self.names):,} settings is a digest of its parameters, data and method"
        return Claim.of("settings", told, wrong)

    def shapes(self) -> Claim:
        """Runs have as many records as their rounds, and no run is there twice."""
        wrong = []
        seen: set[tuple[int, int]] = set()
        planned, recorded = self.loaded.rows("settings", "rounds"), self.loaded.rows("runs", "consensus")
        rounds, repetitions = self.loaded.numbers("round"), self.loaded.numbers("repetition")
        finals: dict[tuple[int, bytes], int] = {}
        x = self.loaded.rows("runs", "x")
        for row in self.over.tolist():
            setting = self.settings[row]
            place = setting, int(repetitions[row])
            horizon, there = self.parameters[setting]["rounds"], planned.row(setting)
            completed = self.outcomes[row] == COMPLETED
            expected = there.size if completed else int(np.searchsorted(there, rounds[row], side="right"))
            if (completed and rounds[row] != horizon) or recorded.lengths[row] != expected:
                wrong.append(f"{self._run(row)}: its records are not those of its rounds")
            if place in seen:
                wrong.append(f"{self._run(row)}: it is there twice")
            seen.add(place)
            # Runs of one setting have noise of their own, where there is noise.
            private = self.parameters[setting]["budget"] is not None
            if private and completed and finals.setdefault((setting, x.row(row).tobytes()), row) != row:
                wrong.append(f"{self._run(row)}: its model is that of another repetition")
        return Claim.of("runs there", f"{self.over.size:,} runs are whole, each of them once", wrong)

    def sums(self, stored: list[NDArray[Any]]) -> Claim:
        """The column `optimality`, which other readers may take: consensus and distance as recorded last."""
        wrong = []
        for file, column in zip(self.loaded.merged.files, stored, strict=True):
            every = np.arange(file.runs)
            last = [file.rows("runs", name).last(every) for name in ("consensus", "distance")]
            differ = np.flatnonzero(optimality(*last).view(np.uint64) != np.asarray(column).view(np.uint64))
            both_nan = np.isnan(optimality(*last)) & np.isnan(column)
            wrong += [f"row {row:,} of {file.path}" for row in differ.tolist() if not both_nan[row]]
        return Claim.of("optimality", "the column is the sum of consensus and distance as recorded last", wrong)

    def ledgers(self) -> Claim:
        """Every ledger, by another accountant; and its statement in words."""
        wrong: list[str] = []
        count, told_of = 0, set[int]()
        statements = self.loaded.rows("settings", "statement")
        for k, ledger in self._ledgers():
            count += 1
            budget = self.parameters[k]["budget"]
            found = ["there is a ledger, but no budget"] if budget is None else accounting.wrong_with(ledger, budget)
            found = found or accounting.wrong_draws(ledger, self.parameters[k]["method"].get("sampling"))
            text = bytes(statements.row(k))
            if not found and text and text.decode(errors="replace") != ledger.statement():
                found = ["its statement in words is not what the ledger says"]
            wrong += [f"{self._name(k)}: {one}" for one in found]
            told_of.add(k)
        for k in sorted({self.settings[row] for row in self.over.tolist()} - told_of):
            if self.parameters[k]["budget"] is not None:
                wrong.append(f"{self._name(k)}: it has a budget and runs, but no ledger")
        told = f"the ε of {count:,} ledgers was recomputed from their variances and sensitivities by "
        return Claim.of("ledgers", told + accounting.accountant().name, wrong)

    def specification(self, made: Mapping[str, Made], by_text: Mapping[str, list[Any]], unread: list[str]) -> Claim:
        """All settings are of the specifications that the file has, and all of these are in the file."""
        if not made:
            reasons = "; ".join(unread) or "no setting of the file is in the specifications it names"
            return Claim("specification", OPEN if unread else REFUTED, f"its runs cannot be made again: {reasons}")
        strange = [k for k, key in enumerate(self.names) if key not in made]
        wrong = [f"{self._name(k)} is in no specification of the file, of these data" for k in strange]
        if strange and unread:
            return Claim("specification", OPEN, f"some could not be read: {'; '.join(unread)}", tuple(wrong))
        repetitions: dict[str, int] = {}
        for specs in by_text.values():
            for spec in specs:
                for setting in spec.settings:
                    repetitions[setting.key] = max(spec.repetitions, repetitions.get(setting.key, 0))
        there: dict[str, set[int]] = {}
        unexplained = 0
        for row, repetition in enumerate(self.loaded.numbers("repetition").tolist()):
            key = self.names[self.settings[row]]
            if self.outcomes[row] in (COMPLETED, DIVERGED, FAILED):
                there.setdefault(key, set()).add(repetition)
            # What must fail the specification says; a run that ended badly is not to pass for one that could not.
            if self.outcomes[row] == FAILED and key in made and key not in made[key].spec.refused:
                unexplained += 1
        missing = sum(len({*range(count)} - there.get(key, set())) for key, count in repetitions.items())
        more = sum(len(some - {*range(repetitions.get(key, 0))}) for key, some in there.items() if key in made)
        if not unread:
            wrong += [f"{more:,} runs are of repetitions that no specification asks for"] * bool(more)
        planned = self.loaded.rows("settings", "rounds")
        for k, key in enumerate(self.names):
            if key in made and not np.array_equal(planned.row(k), made[key].setting.timetable.rounds):
                wrong.append(f"{self._name(k)}: the rounds of its records are not those that are asked for")
        if missing and not wrong:
            told = f"{missing:,} runs of its specifications are not in the file"
            return Claim("specification", OPEN, f"{told}: it is not finished, or they were taken out")
        if unexplained and not wrong:
            told = f"{unexplained:,} runs are said to have failed, of settings that can run"
            return Claim("specification", OPEN, f"{told}: memory may have been short, or their ends were taken out")
        wrong += [f"{missing:,} runs of the specifications are not in the file"] * bool(missing)
        told = f"the {len(self.names):,} settings are those of the specifications, which were read again on the data"
        return Claim.of("specification", told, wrong)

    def promises(self, made: Mapping[str, Made]) -> Claim:
        """Ledgers are what this code makes of the settings: sensitivities, bounds, and what was read off the data."""
        wrong, count = [], 0
        for k, ledger in self._ledgers():
            if self.names[k] not in made:
                continue
            spec, setting = made[self.names[k]]
            if setting.key in spec.refused:
                wrong.append(f"{self._name(k)}: it cannot run: {spec.refused[setting.key]}")
                continue
            schedule = spec.grounds[setting.ground].schedule(setting).noised(setting.noise.origin)
            now = None if schedule.ledger is None else schedule.ledger.to_dict()
            fields = (
                [] if now is None else [name for name, value in ledger.to_dict().items() if _apart(value, now[name])]
            )
            wrong += [f"{self._name(k)}: {name} is not what its method makes of these data" for name in fields]
            count += 1
        return Claim.of("promises", f"{count:,} ledgers were made again from data, method and budget", wrong)

    def ends(self, made: Mapping[str, Made]) -> Claim:
        """The distance that was recorded last is that of the final model."""
        wrong, count = [], 0
        x, distance = self.loaded.rows("runs", "x"), self.loaded.rows("runs", "distance")
        horizons = self.loaded.rows("settings", "rounds")
        for row in self.over.tolist():
            setting = self.settings[row]
            if self.outcomes[row] != COMPLETED or self.names[setting] not in made:
                continue
            spec, one = made[self.names[setting]]
            problem, _, optimum = spec.grounds[one.ground].subjects[one.subject]
            if np.isnan(optimum).any() or horizons.row(setting)[-1] != one.rounds:
                continue
            norm = float(np.square(optimum).sum()) or 1.0
            now = np.array([float(np.square(x.row(row) - optimum).sum()) / norm])
            low, high = remaking.distance_limits(now, problem, optimum)
            count += 1
            # In single precision it was computed in that.
            room = 1e-12 if problem.dtype == "float64" else 1e-4
            there = distance.row(row)[-1]
            if not low[0] * (1 - room) <= there <= high[0] * (1 + room):
                wrong.append(f"{self._run(row)}: its last distance is not that of its model")
        told = (
            f"the last distance of {count:,} runs is that of their final model from the optimum, which was found anew"
        )
        return Claim.of("final models", told, wrong)

    def runs(self, made: Mapping[str, Made], count: int | None, chance: np.random.Generator) -> Claim:
        """Some runs, made again and compared in every bit."""
        can = [row for row in self.over.tolist() if self._remade(made, row)]
        without = self.over.size - len(can)
        chosen = can if count is None else sorted(chance.permutation(can)[:count].tolist())
        wrong, near, elsewhere = [], set(), []
        for run in remaking.again(self.loaded, chosen, made):
            spec, setting = made[self.names[self.settings[run.row]]]
            problem, _, optimum = spec.grounds[setting.ground].subjects[setting.subject]
            apart, almost = remaking.differences(self.loaded, run, problem, optimum)
            near |= {*almost}
            if apart and remaking.by_blas(problem) and not self._same_blas(run.row):
                elsewhere.append(self._run(run.row))
            else:
                wrong += [f"{self._run(run.row)}: {one}" for one in apart]
        told = f"{len(chosen):,} of {self.over.size:,} runs were made again, and have the same bits"
        if near:
            told += f" (but for {', '.join(sorted(near))}, which go through BLAS and agree within what that may change)"
        if chosen and len(chosen) < self.over.size:
            told += f"; were one run in ten another, that would be missed with probability {0.9 ** len(chosen):.2g}"
        if wrong:
            return Claim("runs", REFUTED, f"{len(chosen):,} of {self.over.size:,} runs were made again", tuple(wrong))
        if elsewhere:
            note = "have other bits, and went through another BLAS than there is here, as products of networks do"
            return Claim("runs", OPEN, f"{len(elsewhere):,} of {len(chosen):,} runs {note}")
        if not chosen:
            reason = (
                "none was asked for" if count == 0 else "their noise is the operating system's, or data are missing"
            )
            return Claim("runs", OPEN, f"no run was made again: {reason if self.over.size else 'there is none'}")
        if count is None and without:
            return Claim("runs", OPEN, f"{told}; {without:,} others cannot be made again")
        return Claim("runs", CONFIRMED, told)

    def _remade(self, made: Mapping[str, Made], row: int) -> bool:
        key = self.names[self.settings[row]]
        return key in made and key not in made[key].spec.refused and remaking.seeded(made[key].setting)

    def _same_blas(self, row: int) -> bool:
        session = self.sessions[int(self.loaded.numbers("session")[row])]
        here = of_machine()
        return all(session.get(name) == here[name] for name in ("blas", "simd"))


def _apart(there: Any, now: Any) -> bool:
    """Whether a field of a ledger is another; numbers to the digits that all processors agree in."""
    if isinstance(there, str) or isinstance(now, str):
        return bool(there != now)
    first, second = np.asarray(there, dtype=np.float64), np.asarray(now, dtype=np.float64)
    return first.shape != second.shape or not np.allclose(first, second, rtol=SAME, atol=0)


def _differing_code(sessions: list[dict[str, Any]]) -> tuple[str, ...]:
    """What of the code that made the runs is not what is here, for people."""
    here = of_code()
    found = []
    for name, what in (("fastldp", "fastldp"), ("commit", "the commit"), ("kernels", "the kernels' sources")):
        values = {session[name] for session in sessions if session.get(name) not in (None, here.get(name))}
        found += [f"{what}: {value} then, {here.get(name, 'unknown')} here" for value in sorted(values)]
    if any(session.get("modified") for session in sessions):
        found.append("its sources had been changed since the commit")
    return tuple(found)
