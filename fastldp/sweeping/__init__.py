"""Sweeps: a specification in Python or TOML, results in HDF5, stopped and resumed at any moment."""

from fastldp.grids import Grid
from fastldp.sweeping.forecasting import Forecast, forecast
from fastldp.sweeping.reading import Results, results
from fastldp.sweeping.run import Run
from fastldp.sweeping.runner import Report, sweep
from fastldp.sweeping.sources import Data
from fastldp.sweeping.specification import Sweep

__all__ = ["Data", "Forecast", "Grid", "Report", "Results", "Run", "Sweep", "forecast", "results", "sweep"]
