"""The runs of a file of results and its parts, read column by column as they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastldp import html
from fastldp.errors import StoreError
from fastldp.measures import present_name
from fastldp.privacy.ledger import Ledger
from fastldp.sweeping.layout import OUTCOMES, Ragged, optimality
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.parameters import Parameter, flat, shown
from fastldp.sweeping.store import ledger_fields

Array = NDArray[np.float64]


class Loaded:
    """All that a file and its parts hold."""

    def __init__(self, merged: Merged) -> None:
        self.merged = merged
        # Not methods that are cached, for those would keep what nobody holds any more.
        self.numbers = cache(merged.numbers)
        self.texts = cache(merged.texts)
        self.rows: Callable[[str, str], Ragged] = cache(lambda table, name: merged.rows(table, name).ragged())

    @cached_property
    def sessions(self) -> list[bytes]:
        return self.merged.sessions

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Every parameter; where settings differ in data or version alone, those too."""
        texts = self.texts("parameters").tolist()
        settings = (flat(json.loads(text)) for text in texts)
        if np.unique(self.texts("identity")).size < len(texts):
            provenances = map(json.loads, self.texts("provenance").tolist())
            settings = (setting | provenance for setting, provenance in zip(settings, provenances, strict=True))
        return Parameter.of_all(settings, len(texts))


@dataclass(frozen=True, eq=False)
class Run:
    """One run."""

    _loaded: Loaded
    _row: int

    def __repr__(self) -> str:
        parameters = self.parameters
        where = f"{parameters['method']} on {parameters['data']}, rounds = {parameters['rounds']:,}"
        return f"Run({where}, repetition {self.repetition}, {self._ended})"

    def _repr_html_(self) -> str:
        ended = [
            ("repetition", str(self.repetition)),
            ("outcome", f"{self.outcome} at round {self._number('round'):,}"),
        ]
        last = [("optimality, last", f"{self.optimality[-1]:.4g}")] if self.rounds.size else []
        return html.table([*((name, shown(value)) for name, value in self.parameters.items()), *ended, *last])

    @property
    def _ended(self) -> str:
        return f"{self.outcome} at round {self._number('round'):,}"

    def _number(self, name: str) -> Any:
        return self._loaded.numbers(name)[self._row].item()

    @property
    def _setting(self) -> int:
        return int(self._number("setting"))

    def _column(self, name: str) -> NDArray[Any]:
        return self._loaded.rows("runs", name).row(self._row)

    @property
    def parameters(self) -> dict[str, Any]:
        """What defines it, but for the repetition."""
        found = self._loaded.parameters.items()
        return {name: parameter.of(self._setting) for name, parameter in found if parameter.numbers[self._setting] >= 0}

    @property
    def repetition(self) -> int:
        """Which of its setting it is, from 0."""
        return int(self._number("repetition"))

    @property
    def outcome(self) -> str:
        """``"completed"``, ``"diverged"`` or ``"failed"``."""
        return OUTCOMES[self._number("outcome")]

    @property
    def message(self) -> str:
        """What went wrong; empty where nothing did."""
        return bytes(self._column("message")).decode()

    @property
    def planned(self) -> NDArray[np.int64]:
        """The rounds that were to be recorded."""
        return self._loaded.rows("settings", "rounds").row(self._setting)

    @property
    def rounds(self) -> NDArray[np.int64]:
        """Of these the ones that it reached."""
        return self.planned[: self._column("consensus").size]

    @property
    def round(self) -> NDArray[np.int64]:
        """The same as `rounds`."""
        return self.rounds

    @property
    def consensus(self) -> Array:
        """(records,): (1/n) Σᵢ ‖x̄ − xᵢ‖²."""
        return self._column("consensus")

    @property
    def distance(self) -> Array:
        """(records,): ‖x̄ − x*‖² / ‖x*‖², or ‖x̄‖² where x* = 0."""
        return self._column("distance")

    @property
    def optimality(self) -> Array:
        """Consensus + distance, at the recorded rounds."""
        return optimality(self.consensus, self.distance)

    @property
    def objective(self) -> Array:
        """NaN where the specification did not ask for it."""
        return self._measure("objective")

    @property
    def threshold(self) -> Array:
        """What gradients were clipped to after each recorded round, where clipping adapts; NaN elsewhere."""
        return self._measure("threshold")

    @property
    def train_loss(self) -> Array:
        """Of a network; NaN of any other problem."""
        return self._measure("train_loss")

    @property
    def accuracy(self) -> Array:
        """The share of the test data that is right, at the recorded rounds; NaN where there were none."""
        return self._measure("accuracy")

    @property
    def test_accuracy(self) -> Array:
        """Deprecated: the old name of `accuracy`."""
        return self._measure(present_name("test_accuracy"))

    def _measure(self, name: str) -> Array:
        found = self._column(name)
        return found if found.size else np.full(self.consensus.size, np.nan)

    @property
    def models(self) -> Array:
        """(records, d): the average models, where the specification asked for them."""
        found = self._column("models")
        if not found.size:
            raise StoreError("models along the rounds were not recorded; set models = true in the table [record]")
        return found.reshape(self.rounds.size, -1)

    @property
    def x(self) -> Array:
        """(d,): the final average model; empty where the run did not complete."""
        return self._column("x")

    @property
    def ledger(self) -> Ledger | None:
        """What was promised and spent; None for a run without a budget."""
        variances = self._loaded.rows("settings", "variances").row(self._setting)
        fields = ledger_fields(self._loaded.texts("ledger")[self._setting], variances)
        return None if fields is None else Ledger.from_dict(fields)

    @property
    def seconds(self) -> float:
        """Its share of the time its blocks took."""
        return float(self._number("seconds"))

    @property
    def provenance(self) -> dict[str, Any]:
        """Versions, machine, date and specification it was made by, with the data's fingerprint."""
        session: dict[str, Any] = json.loads(self._loaded.sessions[self._number("session")])
        data: dict[str, Any] = json.loads(self._loaded.texts("provenance")[self._setting])
        return session | data
