"""`bochner study report`: what holds and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Literal


def report(
    *,
    size: Literal["smoke", "small", "paper"] = "small",
    output_dir: Path = Path("out/studies"),
    page: Path | None = None,
    results: Path | None = None,
) -> None:
    """Write one HTML page with every verdict, plot, command and protocol, and its overview in Markdown.

    Examples:

        bochner study report --size small
        bochner study report --size smoke --page report.html --results RESULTS.md

    Nothing is measured: the page shows the rows that `bochner study run` saved, and says what is missing.

    Args:
        size: Of the rows.
        output_dir: Folder of the rows.
        page: The HTML page. Default: OUTPUT_DIR/report_SIZE.html.
        results: The overview in Markdown: a new file, or one of yours that has the lines
            `<!-- bochner study report: begin -->` and `<!-- bochner study report: end -->`, between which it goes.
            Default: OUTPUT_DIR/findings_SIZE.md.
    """
    from bochner.studies.registry import FINDINGS, STUDIES
    from bochner.studies.reporting import make_page, read_all, results_part
    from bochner.studies.results import write_results

    saved = read_all(STUDIES, output_dir, size)
    page, results = page or output_dir / f"report_{size}.html", results or output_dir / f"findings_{size}.md"
    make_page(STUDIES, FINDINGS, saved, size=size).write(page)
    write_results(results, results_part(FINDINGS, saved, size=size))
    print(f"Report: {page}   Overview: {results}")
