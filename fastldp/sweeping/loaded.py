"""The content of a file of results and its parts, read column by column as it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, cached_property

import numpy as np

from fastldp.sweeping.layout import Ragged
from fastldp.sweeping.merging import Merged
from fastldp.sweeping.parameters import Parameter, flat


class Loaded:
    """All that a file and its parts hold, column by column, as it is asked for."""

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
