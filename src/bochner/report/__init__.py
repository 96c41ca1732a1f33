"""Pages of results: one HTML file each, with everything in it."""

from bochner.report.cells import Link, Mark, shown
from bochner.report.markdown import markdown_table
from bochner.report.page import Page

__all__ = ["Link", "Mark", "Page", "markdown_table", "shown"]
