"""The ground that runs share: data, and the problems over them. It is shipped once to each worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fastldp.block import samples_in_rows
from fastldp.kernels.gradient import Samples
from fastldp.sweep.setting import Subject


@dataclass(eq=False)
class Ground:
    """Problems that differ in l2, regularizer or bound alone, so that their runs can share lanes."""

    name: str
    subjects: list[Subject] = field(default_factory=list)

    @cached_property
    def samples(self) -> Samples:
        """The data as kernels want them, laid out once in each process."""
        return samples_in_rows(self.subjects[0].problem)

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "subjects": self.subjects}
