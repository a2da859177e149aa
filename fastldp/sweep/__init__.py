"""Sweeps: a specification in TOML, results in HDF5, stopped and resumed at any moment."""

from fastldp.sweep.reading import Results, Run, results
from fastldp.sweep.runner import Forecast, Report, forecast, run

__all__ = ["Forecast", "Report", "Results", "Run", "forecast", "results", "run"]
