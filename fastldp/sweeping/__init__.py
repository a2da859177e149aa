"""Sweeps: a specification in TOML, results in HDF5, stopped and resumed at any moment."""

from fastldp.sweeping.forecasting import Forecast, forecast
from fastldp.sweeping.reading import Results, results
from fastldp.sweeping.run import Run
from fastldp.sweeping.runner import Report, sweep

__all__ = ["Forecast", "Report", "Results", "Run", "forecast", "results", "sweep"]
