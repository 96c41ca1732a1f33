"""Pages of results: one HTML file each, with everything in it."""

from bochner.report.page import Link, Mark, Page, markdown_table, shown

__all__ = ["Link", "Mark", "Page", "markdown_table", "shown"]
