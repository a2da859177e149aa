"""Reports: one file of HTML that loads nothing, of a sweep, a solution, an audit or a reproduction."""

from fastldp.reporting.page import Page

__all__ = ["Page"]
