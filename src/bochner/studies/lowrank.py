"""Low-rank kernel matrices: the tables and figures of Bhardwaj 2015, chapter 5, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from itertools import pairwise
from statistics import fmean

from bochner import checks
from bochner.report import Page
from bochner.studies.drawing import draw_panel
from bochner.studies.findings import Finding, Rows, SetValues, by, finding, sets_of
from bochner.studies.lowrank_cells import SETS, Cell, measure, operations
from bochner.studies.lowrank_page import PROTOCOL, entry_text, panels_of
from bochner.studies.lowrank_tables import plan
from bochner.studies.results_file import Result
from bochner.studies.study import Row, Size, Study

BHARDWAJ = "Bhardwaj 2015"
QUICK = ("table 5.8", "table 5.10", "table 5.11", "figure 5.1")  # the parts of size smoke


def _study(name: str, title: str, *own_parts: str) -> Study:
    def cells(size: Size, *, sets: Sequence[str] | None = None, parts: Sequence[str] | None = None) -> list[Cell]:
        """`parts` selects parts of the study; by default size smoke has only the quick ones."""
        for part in parts or ():
            checks.one_of("parts", part, own_parts)
        if parts is None:
            parts = [part for part in own_parts if size != "smoke" or part in QUICK]
        return plan(size, sets=sets, parts=parts).cells()

    return Study(
        name, title, f"{BHARDWAJ}, {', '.join(part.capitalize() for part in own_parts)}", PROTOCOL,
        "lowrank", Cell, cells, lambda context: lambda cell: measure(cell, context.data_dir), partial(_show, own_parts),
        {point_set.name: point_set.file for point_set in SETS.values()}, options=("sets", "parts"),
        operations=operations,
    )  # fmt: skip


def results_of(rows: Sequence[Row]) -> dict[Cell, Result]:
    """The cells and results of rows."""
    names = [field.name for field in fields(Cell)]
    return {Cell(**{name: row[name] for name in names}): dict(row) for row in rows}


def _show(own_parts: Sequence[str], page: Page, rows: Sequence[Row]) -> None:
    results, whole = results_of(rows), plan("paper", parts=own_parts)
    for table in whole.tables:
        lines = {label: [entry_text(entry, results) for entry in entries] for label, entries in table.rows.items()}
        known = {label: texts for label, texts in lines.items() if any(text[0] != "-" for text in texts)}
        if known:
            page.subheading(f"Table {table.number}: {table.title}")
            page.table([table.label, *table.columns], [[label, *texts] for label, texts in known.items()])
    for figure in whole.figures:
        page.figures(
            (draw_panel(panel), f"Figure {figure.number}: {figure.title.lower()}, {panel.title}.")
            for panel in panels_of(figure, results)
        )


STUDIES = (
    _study("lowrank-sampling", "ALS with eight sampling schemes", *(f"table 5.{number}" for number in range(1, 6))),
    _study("lowrank-starts", "ALS from four starts", "table 5.6", "table 5.7", "table 5.8"),
    _study("lowrank-spectral-error", "Low-rank methods at equal numbers of parameters", "table 5.10"),
    _study("lowrank-same-samples", "Low-rank methods from the same number of entries of K", "table 5.11"),
    _study("lowrank-seconds", "Run times of low-rank methods", "table 5.12"),
    _study("lowrank-ridge", "Ridge regression with a factor and with all of K", "table 5.13"),
    _study("stable-rank", "Stable rank by bandwidth", "figure 5.1"),
    _study("lowrank-error-curves", "Spectral error by parameters", "figure 5.2"),
    _study("lowrank-ridge-curves", "Ridge regression by parameters", "figure 5.3", "figure 5.6"),
    _study("lowrank-condition", "Condition numbers by rank", "figure 5.4", "figure 5.5"),
)

# -- findings --------------------------------------------------------------------------------------------------

PEERS = ("standard nystrom", "standard kmeans-nystrom", "meka", "fourier")


def _over(method: str, others: Sequence[str], measure: str, pick: Callable[[list[float]], float]) -> SetValues:
    """By data set, the mean of a method relative to the best (`min`) or the worst (`max`) of the others."""

    def values(rows: Rows) -> dict[str, float | None]:
        ratios: dict[str, float | None] = {}
        for data, group in sets_of(rows):
            by_method = by([row for row in group if measure in row], "method")
            means = {name: fmean(row[measure] for row in seeds) for (name,), seeds in by_method.items()}
            known = [means[name] for name in others if name in means]
            ratios[data] = means[method] / pick(known) if method in means and known else None
        return ratios

    return values


def _largest_step(rows: Rows) -> dict[str, float | None]:
    """By data set, the largest ratio of the stable rank to that at the next smaller bandwidth."""
    steps: dict[str, float | None] = {}
    for data, group in sets_of(rows):
        ranks = [fmean(row["stable_rank"] for row in seeds) for _, seeds in sorted(by(group, "bandwidth").items())]
        steps[data] = max((b / a for a, b in pairwise(ranks)), default=None)
    return steps


# fmt: off
FINDINGS: tuple[Finding, ...] = (
    finding("At equal numbers of parameters ALS has a lower error than Nystrom, k-means Nystrom, MEKA and RFF.",
            f"{BHARDWAJ}, Table 5.10", "lowrank-spectral-error",
            _over("als", PEERS, "spectral", min), "spectral error relative to the best of them", below=1),
    finding("RFF has the largest error.", f"{BHARDWAJ}, Table 5.10", "lowrank-spectral-error",
            _over("fourier", ("als", *PEERS[:3]), "spectral", max), "spectral error relative to the worst other method",
            above=1),
    finding("ALS comes close to the optimum, the SVD.", f"{BHARDWAJ}, Table 5.10", "lowrank-spectral-error",
            _over("als", ["svd"], "spectral", min), "spectral error relative to the SVD of all points", below=1.25),
    finding("From the same number of entries of K, ALS has a lower error than Nystrom and k-means Nystrom.",
            f"{BHARDWAJ}, Table 5.11", "lowrank-same-samples",
            _over("als", PEERS[:2], "spectral", min), "spectral error relative to the better of them", below=1),
    finding("ALS takes the longest.", f"{BHARDWAJ}, Table 5.12", "lowrank-seconds",
            _over("als", PEERS, "seconds", max), "seconds relative to the slowest of them", above=1),
    finding("Starting from k-means Nystrom gives a lower error than a random start.",
            f"{BHARDWAJ}, Table 5.8", "lowrank-starts",
            _over("als from kmeans-nystrom", ["als from random"], "spectral", min),
            "spectral error relative to a random start", below=1),
    finding("The stable rank falls with the bandwidth.", f"{BHARDWAJ}, Figure 5.1", "stable-rank",
            _largest_step, "largest ratio to the next smaller bandwidth", below=1),
    finding("Ridge regression with a low-rank factor predicts as well as with all of K.", f"{BHARDWAJ}, Table 5.13",
            "lowrank-ridge", _over("pivoted-cholesky", ["exact"], "rmse", min),
            "error relative to exact ridge regression, rank 1,000", below=1.02),
)
