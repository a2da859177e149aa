"""What a worker has on its disk: whose data it is for, what was promised of them for life, and what was released.

A folder has one file of its own data and budget, and one of every training: its last answer, and what all of its
answers have spent. That is one file, so that it is renamed at once: an answer that is not counted is not there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fastldp import disk
from fastldp.errors import ArgumentError, DamagedError, RefusedError, StoreError
from fastldp.federation.account import Spent, together
from fastldp.federation.messages import Answer, packed, unpacked
from fastldp.privacy.budget import Budget

OWNER, JOURNAL = b"fastldpF", b"fastldpJ"
OWNER_NAME, LOCK_NAME, SUFFIX, DRAFT = "folder", "lock", ".journal", ".part"
MODE = 0o700


@dataclass(frozen=True)
class Journal:
    """A training of the folder, as far as it has come."""

    terms: str
    name: str
    worker: int
    horizon: int
    round: int
    """Of its last answer."""
    answers: int
    ask: str
    """The digest of what that was an answer to."""
    answer: Answer
    spent: Spent
    keys: list[str]
    """A digest of every key that was given for it; the operating system's are not among them."""

    def __post_init__(self) -> None:
        self.answer.releases.setflags(write=False)  # whoever has it got the bytes that are repeated


class Folder:
    """The files of a folder; who writes to it holds its lock."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))
        self._lock = disk.Lock(self.path / LOCK_NAME)

    def open(self, data: str, budget: Budget) -> None:
        """Take the lock, and make sure that the folder is of these data and this budget; or make it so."""
        if not self.path.is_dir() and os.path.lexists(self.path):
            raise ArgumentError("folder", str(self.path), "a file, or a link that leads nowhere; give a folder")
        try:
            with disk.in_words(self.path):
                self._lock.acquire(self.path, MODE)
        except StoreError as error:
            raise error if error.__cause__ else RefusedError("in use", str(error)) from None
        try:
            owner = {"data": data, "budget": [budget.epsilon, budget.delta, budget.accounting]}
            found = self.owner()
            if found is None:
                if self.journals():
                    told = "it has trainings, but not what they were promised: its file 'folder' was removed"
                    raise DamagedError(f"{self.path}: {told}")
                self._publish(OWNER_NAME, packed(OWNER, owner, []))
            elif found["data"] != data:
                remedy = "it counts what other data have released: give each set of data a folder of its own"
                raise RefusedError("data", f"{self.path}: {remedy}")
            elif found["budget"] != owner["budget"]:
                epsilon, delta, accounting = found["budget"]
                promised = f"Budget({epsilon}, {delta}, {accounting!r})"
                raise RefusedError("budget", f"{self.path}: these data were promised {promised} for life; give that")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others have it."""
        self._lock.release()

    def owner(self) -> dict[str, Any] | None:
        """What it is for; None where nobody has used it."""
        data = self._bytes(self.path / OWNER_NAME)
        return None if data is None else self._unpacked(OWNER, data, OWNER_NAME)[0]

    def budget(self) -> Budget | None:
        """What its data were promised for life."""
        found = self.owner()
        return None if found is None else Budget(*found["budget"])

    def journals(self) -> list[Journal]:
        """All trainings."""
        if not self.path.is_dir():
            return []
        names = sorted(name for name in os.listdir(self.path) if name.endswith(SUFFIX))
        return [found for found in map(self._journal, names) if found is not None]

    def journal(self, terms: str) -> Journal | None:
        """That on these terms."""
        return self._journal(_name(terms))

    def spent(self) -> Spent:
        """By all trainings together."""
        return together(journal.spent for journal in self.journals())

    def write(self, journal: Journal) -> None:
        """Put a training's journal on the disk: when this returns, it is there."""
        flat = {field.name: getattr(journal, field.name) for field in fields(journal)}
        answer = flat.pop("answer")
        flat |= {"spent": list(vars(journal.spent).values()), "count": answer.count}
        if not self._lock.held:
            told = "its file 'lock' was removed, so that others may write to it: nothing is released any more"
            raise RefusedError("in use", f"{self.path}: {told}; see that nobody else does, and make another worker")
        self._publish(_name(journal.terms), packed(JOURNAL, flat, [answer.releases]))

    def _journal(self, name: str) -> Journal | None:
        data = self._bytes(self.path / name)
        if data is None:
            return None
        flat, arrays = self._unpacked(JOURNAL, data, name)
        try:
            (releases,) = arrays
            answer = Answer(flat["worker"], flat["round"], flat["terms"], releases, flat.pop("count"))
            return Journal(**flat | {"spent": Spent(*flat["spent"]), "answer": answer})
        except (TypeError, ValueError, KeyError) as error:
            told = "it is of another version of fastldp, and what was released is not known: nothing can be"
            raise DamagedError(f"{self.path / name}: {told} ({error})") from None

    def _unpacked(self, kind: bytes, data: bytes, name: str) -> tuple[dict[str, Any], list[Any]]:
        try:
            return unpacked(kind, data)
        except RefusedError as error:
            told = "what was released is not known any more, so nothing can be; put its last copy back"
            raise DamagedError(f"{self.path / name}: {error}: {told}") from None

    def _publish(self, name: str, data: bytes) -> None:
        with disk.in_words(self.path), disk.Draft(self.path / DRAFT) as draft:
            draft.write(data)
            draft.publish(self.path / name)

    @staticmethod
    def _bytes(path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DamagedError(f"{path}: it cannot be read ({error.strerror}): nothing can be released") from None


def _name(terms: str) -> str:
    return terms[:32] + SUFFIX
