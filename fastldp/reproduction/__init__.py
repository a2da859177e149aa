"""The paper's figures and Table 1, made again through the sweep machinery, and a verdict on each of its claims."""

from fastldp.reproduction.experiment import Experiment
from fastldp.reproduction.fig1 import Figure1
from fastldp.reproduction.fig2 import Figure2
from fastldp.reproduction.fig3 import Figure3
from fastldp.reproduction.planner import Planner
from fastldp.reproduction.readings import Readings
from fastldp.reproduction.scaffold import Scaffold
from fastldp.reproduction.table1 import Table1
from fastldp.reproduction.verdicts import Verdict

EXPERIMENTS: dict[str, type[Experiment]] = {
    "fig1": Figure1,
    "fig2": Figure2,
    "table1": Table1,
    "fig3": Figure3,
    "planner": Planner,
    "readings": Readings,
    "scaffold": Scaffold,
}

__all__ = ["EXPERIMENTS", "Experiment", "Verdict"]
