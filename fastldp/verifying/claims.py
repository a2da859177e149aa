"""What was claimed, and what became of it."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "not confirmed"
# So many things that are wrong are named.
MOST_NAMED = 8
# What no computation can tell from a file.
BEYOND = (
    "Nobody can tell from the file: when, on which machine and from which commit its runs were made, how long they "
    "took, that the data are what their name says (they have the fingerprint that the file has), that the "
    "notes of [tuning] are so, that no other runs were made and left out, and that a seed is secret."
)


@dataclass(frozen=True)
class Claim:
    """Something that a file says."""

    name: str
    status: str
    """``"confirmed"``, ``"refuted"`` or ``"not confirmed"``."""
    told: str
    """What was done to find out, and what came of it."""
    wrong: tuple[str, ...] = ()
    """Where it does not hold."""

    @classmethod
    def of(cls, name: str, told: str, wrong: list[str]) -> Claim:
        """One that holds unless something is wrong."""
        return cls(name, REFUTED if wrong else CONFIRMED, told, tuple(wrong))

    def lines(self, width: int = 116) -> list[str]:
        """For a terminal."""
        shown = [*self.wrong[:MOST_NAMED]]
        if len(self.wrong) > MOST_NAMED:
            shown.append(f"and {len(self.wrong) - MOST_NAMED:,} more")
        head = f"  {self.status:<14} {self.name:<15} "
        lines = textwrap.wrap(self.told, width, initial_indent=head, subsequent_indent=" " * 33)
        for one in shown:
            lines += textwrap.wrap(one, width, initial_indent=" " * 33 + "- ", subsequent_indent=" " * 35)
        return lines


@dataclass(frozen=True)
class Verification:
    """What became of all claims of a file."""

    path: str
    claims: tuple[Claim, ...]
    seed: int = 0
    """By which runs were chosen: the same seed chooses the same."""
    notes: tuple[str, ...] = ()
    """What else to know: other code than that which made the runs is no fault, where the bits are the same."""
    beyond: str = BEYOND
    """What no computation can tell; nothing of an installation, which has no file."""

    @property
    def passed(self) -> bool:
        """Whether every claim was confirmed."""
        return all(claim.status == CONFIRMED for claim in self.claims)

    @property
    def refuted(self) -> bool:
        """Whether one was found to be false."""
        return any(claim.status == REFUTED for claim in self.claims)

    def summary(self) -> str:
        """Every claim with what became of it.

        Returns
        -------
        str
            Its lines.
        """
        lines = [f"{self.path}: {self._verdict()}", ""]
        for claim in self.claims:
            lines += claim.lines()
        for note in self.notes:
            lines += textwrap.wrap(note, 116, initial_indent="  " + "note".ljust(15), subsequent_indent=" " * 17)
        beyond = textwrap.wrap(self.beyond, 116, initial_indent="  ", subsequent_indent="  ")
        return "\n".join([*lines, "", *beyond] if beyond else lines)

    def _verdict(self) -> str:
        if self.refuted:
            return "NOT AS IT CLAIMS"
        return "every claim was confirmed" if self.passed else "nothing contradicts it, but not all was confirmed"

    def to_dict(self) -> dict[str, Any]:
        """Everything in it as plain values.

        Returns
        -------
        dict
            Its fields by name, and `passed`.
        """
        claims = [{**vars(claim), "wrong": list(claim.wrong)} for claim in self.claims]
        return {"path": self.path, "passed": self.passed, "seed": self.seed, "claims": claims, "notes": [*self.notes]}

    def __repr__(self) -> str:
        return f"Verification({self.path}: {self._verdict()}; summary() says all)"
