"""The report of a run: one HTML page with tables, curves and decoded utterances."""

from bochner.acoustic.report.page import write_report

__all__ = ["write_report"]
