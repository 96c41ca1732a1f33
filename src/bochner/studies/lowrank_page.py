"""The tables and figures of the low-rank studies as a Markdown page or a section of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from bochner.report import markdown_table, write_page_or_section
from bochner.studies.drawing import Curve, Panel, save_panels
from bochner.studies.lowrank_cells import SETS, Cell
from bochner.studies.lowrank_tables import Entry, EntryCurve, Figure, Plan, Summary, Table, plan, summarize
from bochner.studies.results_file import Results
from bochner.studies.study import Size

MISSING = "-"
# A method has the same style in every figure; the two dashed bounds never share a figure.
METHODS = ("nystrom", "standard nystrom", "als", "standard kmeans-nystrom", "meka", "fourier")
BOUNDS = ("optimum", "exact", "svd")
STYLES = {name: style for style, name in enumerate(METHODS)} | dict.fromkeys(BOUNDS, len(METHODS))
PROTOCOL = """\
Gaussian kernel exp(-‖x - y‖² / 2 bandwidth²), the thesis's bandwidths, ranks r and numbers of samples |Ω|;
points in float64. The error is the spectral norm ‖K - U Uᵀ‖ on 1,000 random points (the mean of 5 such draws), or on
all points if there are no more. Every number is the mean over seeds ± their standard deviation, with that of the thesis
in parentheses. "ijcnn1 small" is 1,000 points drawn by each seed; the draw of the thesis is not known, and the optimum
varies by a tenth between draws.

- *standard* (k-means) Nystrom is that of the thesis: the r largest eigenpairs of the kernel matrix of 4 r landmarks.
- *nystrom* and *kmeans-nystrom* are those of this library: the n x 8r factor truncated to its best rank r, from random
  pivots and from k-means centres. The *cut* methods do the same with as many landmarks as the *standard* ones.
- *als* is `fit_als` with its defaults and |Ω| as in Table 5.9; it starts from *nystrom*. It has 3 rounds, 4 on cadata
  and 5 on ijcnn1 scaled (the thesis has about 3).
- *meka* has 5 clusters, and ranks such that its parameters are just above n r; links between clusters are fitted on
  points sampled by leverage.
- *thesis als* and *thesis meka*, and the rows *Algorithm 2*, are the methods as published (`algorithm="thesis"`): ALS
  starts from 4 r k-means centres by the standard Nystrom method, its penalty is toward zero (1e-8; the thesis does not
  state a value), and it always makes 3 rounds; MEKA has standard Nystrom blocks, and its links are fitted on uniform
  points.
- *optimum on the points* is eigenvalue r + 1 of the kernel matrix of the 1,000 points alone. The thesis prints it as
  SVD (satimage: 0.12): a lower bound for every method of rank r, but not the error of any factor of all n points. The
  optimum for those is *svd*, over all points; on a sample of them another factor can be slightly better.

Starts "random" and "sparse-svd" have penalty 0.05, the latter with single entries instead of blocks. Ridge regression
centres the targets; sets called "scaled" have inputs and targets of mean 0 and variance 1. New points are predicted
through the factor's map; the thesis multiplies its weights by exact kernel values instead."""


def write_page(
    results: Results[Cell],
    path: Path,
    *,
    size: Size,
    command: str,
    sets: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
) -> None:
    """Write the page, or its section of an existing page, and its figures to assets/lowrank/ beside it."""
    whole = plan(size, sets=sets, parts=parts)
    sections = [_head(whole, results, command), PROTOCOL, *_summary(whole, results), _setup(whole)]
    sections += [_section(table, results) for table in whole.tables]
    for figure in whole.figures:
        panels = [panel for panel in panels_of(figure, results) if any(len(c.points) > 1 for c in panel.curves)]
        if panels:
            name = f"assets/lowrank/figure_{figure.number.replace('.', '_')}.png"
            save_panels(panels, path.parent / name, columns=4)
            sections.append(f"## Figure {figure.number}: {figure.title.lower()}\n\n![{figure.title}]({name})")
    write_page_or_section(path, "\n\n".join(sections) + "\n", name="bochner study tables lowrank")


def panels_of(figure: Figure, results: Results[Cell]) -> list[Panel]:
    """The panels of a figure that have measured points."""
    panels = []
    for title, entry_curves in figure.panels.items():
        curves = [
            Curve(
                curve.label,
                [(x, y, y - spread, y + spread) for x, y, spread in points_of(curve, results)],
                STYLES.get(curve.label, place),
                dashed=curve.label in BOUNDS,
            )
            for place, curve in enumerate(entry_curves)
        ]
        if any(curve.points for curve in curves):
            panels.append(Panel(title, figure.x, figure.y, curves, figure.x_scale, figure.y_scale))
    return panels


def points_of(curve: EntryCurve, results: Results[Cell]) -> list[tuple[float, float, float]]:
    """x, y and the spread of y of every measured, finite entry."""
    points = []
    for entry in curve.entries:
        x, y = summarize(entry, results, measure=curve.against), summarize(entry, results)
        if x is not None and y is not None and math.isfinite(y.mean):
            points.append((x.mean, y.mean, y.spread))
    return points


def entry_text(entry: Entry, results: Results[Cell]) -> str:
    """A mean, its spread, and the value of the thesis in parentheses."""
    summary = summarize(entry, results)
    ours = MISSING if summary is None else _with_spread(summary)
    if entry.published is None:
        return ours
    spread = "" if entry.published_spread is None else f" ± {shown(entry.published_spread, 2)}"
    return f"{ours} ({shown(entry.published, 4)}{spread})"


def shown(value: float | None, digits: int = 3) -> str:
    """A number with few digits, without an exponent where that is short.

    >>> shown(28780.4), shown(1.6658), shown(1.28e-6), shown(None)
    ('28780', '1.67', '1.28e-06', '-')
    """
    if value is None:
        return MISSING
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def _with_spread(summary: Summary) -> str:
    return shown(summary.mean) + (f" ± {shown(summary.spread, 2)}" if summary.num_seeds > 1 else "")


def _head(whole: Plan, results: Results[Cell], command: str) -> str:
    cells = whole.cells()
    measured = [result for result in map(results.get, cells) if result is not None]
    threads = sorted({int(result["threads"]) for result in measured})
    count = f"{len(measured):,} of {len(cells):,}" if len(measured) < len(cells) else "All"
    seeds = sorted({cell.seed for cell in cells})
    return (
        "# Low-rank factors\n\nTables and figures of Bhardwaj's thesis (2015), measured with this library. For "
        "conclusions see [which\nmethod to choose](lowrank.md#which-low-rank-method). Written by\n\n"
        f"```sh\n{command}\n```\n\n{count} cells are measured; seeds {seeds[0]} to {seeds[-1]}, "
        f"threads {', '.join(map(str, threads))}."
    )


def _summary(whole: Plan, results: Results[Cell]) -> list[str]:
    """Table 5.10 in one line per data set: the best method at equal parameters, and its distance from the optimum."""
    rows = []
    for table in (table for table in whole.tables if table.number == "5.10"):
        for label, entries in table.rows.items():
            columns = dict(zip(table.columns, entries, strict=True))
            values = {name: value for name, entry in columns.items() if (value := summarize(entry, results))}
            means = {name: values[name].mean for name in ("nystrom", "kmeans-nystrom", "als") if name in values}
            if "svd" in values and "als" in values:
                best = min(means, key=lambda name: means[name])
                svd = values["svd"].mean
                rows.append([
                    label, shown(columns["als"].published), _with_spread(values["als"]),
                    f"{best}, {shown(means[best])}", shown(svd), f"{means[best] / svd - 1:+.1%}",
                ])  # fmt: skip
    heads = ["set", "thesis: als", "als", "best at equal parameters", "svd of all points", "best above svd"]
    return ["## In short\n\n" + markdown_table(heads, rows)] if rows else []


def _setup(whole: Plan) -> str:
    names = dict.fromkeys(cell.data for cell in whole.cells())
    rows = [
        [s.name, f"{s.num_points:,}", f"{s.bandwidth:g}", str(s.rank), f"{s.samples:g} n log n"]
        for s in (SETS[name] for name in names)
        if s.samples is not None
    ]
    note = "(The thesis has n = 20,400 for cadata there and 20,640 elsewhere; its parameters are those of 20,640.)"
    return f"## Table 5.9: the setting\n\n{markdown_table(['set', 'n', 'bandwidth', 'r', 'samples'], rows)}\n\n{note}"


def _section(table: Table, results: Results[Cell]) -> str:
    rows = [[label, *(entry_text(entry, results) for entry in entries)] for label, entries in table.rows.items()]
    head = f"## Table {table.number}: {table.title}"
    if table.number == "5.12":
        return f"{head} relative to standard k-means Nystrom\n\n{_ratios(table, results)}"
    return f"{head}\n\n{markdown_table([table.label, *table.columns], rows)}"


def _ratios(table: Table, results: Results[Cell]) -> str:
    """Seconds relative to standard k-means Nystrom, ours and those of the thesis."""
    place, rows = table.columns.index("standard kmeans-nystrom"), []
    for label, entries in table.rows.items():
        ours, theirs = summarize(entries[place], results), entries[place].published
        texts = []
        for entry in entries:
            summary = summarize(entry, results)
            ratio = MISSING if ours is None or summary is None else f"{summary.mean / ours.mean:.2g}"
            texts.append(ratio + ("" if not theirs or not entry.published else f" ({entry.published / theirs:.2g})"))
        rows.append([label, *texts])
    return markdown_table([table.label, *table.columns], rows)
