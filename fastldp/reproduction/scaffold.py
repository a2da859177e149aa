"""Where DP-SCAFFOLD is better than DP-FedAvg: over ε, the samples a worker has, the local steps and the heterogeneity.

Control variates take away what workers drift apart in a round, which is the more the longer and the more numerous the
local steps are and the more the shards differ. With the paper's budget and 1,000 rounds or more tuned steps are so
short that there is no drift to take away; here rounds are few.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from fastldp.reproduction.choosing import tuned
from fastldp.reproduction.claims import Claim, Point, better
from fastldp.reproduction.experiment import Experiment, Source, save_csv
from fastldp.reproduction.readings import MARKS
from fastldp.reproduction.series import Series, ends
from fastldp.reproduction.verdicts import ALIKE, FAILED, HELD, UNDECIDED, Verdict

FIRST, SECOND = "DPScaffold", "DPFedAvg"


class Scaffold(Experiment):
    """The claim that DP-SCAFFOLD is better, and its boundary."""

    name: ClassVar[str] = "scaffold"

    def run(self) -> list[Verdict]:
        trials = self.sweep("scaffold-tuning", into="scaffold-tuning.h5")
        found = trials.parameters
        (rounds,) = found["rounds"]
        claims: list[Claim] = []
        sources: dict[str, Source] = {}
        for rows in sorted(found["data_rows"]):
            for partition in ("shuffled", "dirichlet", "label"):
                for epsilon in sorted(found["epsilon"]):
                    some = trials.where(data_rows=rows, partition=partition, epsilon=epsilon)
                    given: dict[str, Any] = {
                        "data": {"rows": rows},
                        "problem": {"partition": partition},
                        "budget": {"epsilon": epsilon},
                    }
                    for local_steps in sorted(found["local_steps"]):
                        about = f"m = {rows // 20:,}, {partition}, K = {local_steps}"
                        where = f"{about}, ε = {epsilon:g}"
                        for method in (FIRST, SECOND):
                            chosen = tuned(some, method=method, local_steps=local_steps).each[rounds].method
                            errors = ends(some.where(rounds=rounds, **chosen))
                            series = Series(method, np.array([rounds]), errors[None], (chosen,))
                            made = Source(series, "scaffold", "scaffold.h5", **given)
                            sources[f"{where}: {method}"] = made
                        first, second = (Point(f"{where}: {method}", rounds) for method in (FIRST, SECOND))
                        claims.append(better(about, f"better at ε = {epsilon:g}", first, second))
        verdicts = self.judge(claims, sources)
        self.save_figure(self._drawn(verdicts))
        rows = [(one.where, one.claim, one.measured, one.word, one.ratio) for one in verdicts]
        save_csv(self.path(".csv"), ("where", "claim", "measured", "verdict", "ratio"), rows)
        return verdicts

    def _drawn(self, verdicts: list[Verdict]) -> Figure:
        """A row for each m, partition and K, a column for each ε; in the cells by what factor it is better."""
        rows = list(dict.fromkeys(verdict.where for verdict in verdicts))
        columns = list(dict.fromkeys(verdict.claim for verdict in verdicts))
        figure = Figure(figsize=(8.0, 7.0), layout="constrained")
        ax = figure.subplots()
        for verdict in verdicts:
            x, y = columns.index(verdict.claim), rows.index(verdict.where)
            colour, sign = MARKS[verdict.word]
            ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
            dark = verdict.word in (HELD, FAILED)
            text = sign if verdict.ratio is None or verdict.word not in (HELD, FAILED) else f"{verdict.ratio:.3g}×"
            ax.text(x, y, text, ha="center", va="center", color="white" if dark else "0.3", fontsize=9)
        ax.set_xlim(-0.5, len(columns) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xticks(range(len(columns)), [column.removeprefix("better at ") for column in columns])
        ax.set_yticks(range(len(rows)), rows, fontsize=9)
        ax.tick_params(length=0)
        for side in ax.spines.values():
            side.set_visible(False)
        words = (HELD, FAILED, ALIKE, UNDECIDED)
        patches = [Patch(facecolor=MARKS[word][0], edgecolor="0.6", label=word) for word in words]
        figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False)
        figure.suptitle(f"{self.data}: is DP-SCAFFOLD better than DP-FedAvg, and by what factor?")
        return figure
