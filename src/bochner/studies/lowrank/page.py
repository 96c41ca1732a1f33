"""The page of results, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from bochner.studies.ledger import Finished, Ledger
from bochner.studies.lowrank.cells import Cell
from bochner.studies.lowrank.grids import Entry, Found, Table, find
from bochner.studies.lowrank.plots import draw
from bochner.studies.lowrank.run import Study
from bochner.studies.lowrank.sets import SETS

MISSING = "-"
PROTOCOL = """\
Gaussian kernel exp(-‖x - y‖² / 2 bandwidth²), the thesis's bandwidths, ranks r and numbers of samples |Ω|; points in
float64. The error is the spectral norm ‖K - U Uᵀ‖ on 1,000 random points (the mean of 5 such draws), on all points
where there are no more. Every number is the mean over seeds, ± their standard deviation, and in parentheses the
thesis's. "ijcnn1 small" is 1,000 points drawn anew by each seed; the thesis's draw is not known, and its optimum varies
by a tenth from draw to draw.

- *standard* (k-means) Nystrom is the thesis's: 4 r landmarks, of whose own matrix the r largest eigenpairs are kept.
- *nystrom* and *kmeans-nystrom* are this library's: the n x 8r factor cut back to its best rank r, from random pivots
  and from k-means centres. *cut* ones are the same from as many landmarks as their *standard* neighbours.
- *als* is `fit_als` with its defaults and |Ω| as in Table 5.9; it starts from *nystrom*. It has 3 rounds, 4 on cadata
  and 5 on ijcnn1 scaled (the thesis has about 3).
- *meka* has 5 clusters, and ranks such that its parameters are just above n r.
- *optimum on the points* is eigenvalue r + 1 of the kernel matrix of the 1,000 points alone. That is what the thesis
  prints as SVD (satimage: 0.12): a bound below every column of rank r, but not the error of any factor of all n points.
  The optimum for those is *svd*, over all of them: on some of the points another factor can be a little below it.

Starts "random" and "sparse-svd" have ridge 0.05, the latter single entries and not blocks. Ridge regression centres
the targets; sets called "scaled" have inputs and targets of mean 0 and variance 1. New points are predicted through the
factor's own map; the thesis multiplies its weights with exact kernel values there."""


def write_page(study: Study, ledger: Ledger[Cell], path: Path, *, command: str) -> None:
    """The page, and the figures in assets/lowrank/ beside it."""
    pictures = []
    for figure in study.figures:
        name = f"assets/lowrank/figure_{figure.number.replace('.', '_')}.png"
        if draw(figure, ledger, path.parent / name):
            pictures.append(f"## Figure {figure.number}: {figure.title.lower()}\n\n![{figure.title}]({name})")
    parts = [_head(study, ledger, command), PROTOCOL, *_summary(study, ledger), _setting(study)]
    parts += [_section(table, ledger) for table in study.tables]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join([*parts, *pictures]) + "\n")


def _head(study: Study, ledger: Ledger[Cell], command: str) -> str:
    cells = study.cells()
    results = [result for result in map(ledger.get, cells) if result is not None]
    threads = sorted({int(result["threads"]) for result in results})
    done = (
        f"{len(results):,} of {len(cells):,} cells are measured"
        if len(results) < len(cells)
        else "All cells are measured"
    )
    seeds = sorted({cell.seed for cell in cells})
    return (
        "# Low-rank tables\n\nTables 5.1 to 5.13 and Figures 5.1 to 5.6 of Bhardwaj's thesis (2015) beside this "
        "library's. "
        "[Which method to choose](choosing_lowrank.md) draws the conclusions. This page is written by\n\n"
        f"```sh\n{command}\n```\n\n{done}; seeds {seeds[0]} to {seeds[-1]}, threads {', '.join(map(str, threads))}."
    )


def _summary(study: Study, ledger: Ledger[Cell]) -> list[str]:
    """Table 5.10 in one line a set: who is best at equal parameters, and how near the optimum."""
    found = [table for table in study.tables if table.number == "5.10"]
    if not found:
        return []
    table, rows = found[0], []
    for label, entries in table.rows.items():
        columns = dict(zip(table.columns, entries, strict=True))
        values = {name: value for name, entry in columns.items() if (value := find(entry, ledger)) is not None}
        candidates = {
            name: value.mean for name, value in values.items() if name in ("nystrom", "kmeans-nystrom", "als")
        }
        if candidates and "svd" in values and "als" in values:
            best = min(candidates, key=lambda name: candidates[name])
            svd = values["svd"].mean
            rows.append([
                label, shown(columns["als"].published), _with_spread(values["als"]),
                f"{best}, {shown(candidates[best])}", shown(svd), f"{candidates[best] / svd - 1:+.1%}",
            ])  # fmt: skip
    heads = ["set", "thesis: als", "als", "best at equal parameters", "svd of all points", "best above svd"]
    return ["## In short\n\n" + _markdown(heads, rows)] if rows else []


def _setting(study: Study) -> str:
    names = dict.fromkeys(cell.data for cell in study.cells())
    rows = [
        [name, f"{found.num_points:,}", f"{found.bandwidth:g}", str(found.rank), f"{found.samples:g} n log n"]
        for name, found in ((name, SETS[name]) for name in names)
        if found.samples is not None
    ]
    note = "(The thesis has n = 20,400 for cadata there and 20,640 elsewhere; its parameters are those of 20,640.)"
    return f"## Table 5.9: the setting\n\n{_markdown(['set', 'n', 'bandwidth', 'r', 'samples'], rows)}\n\n{note}"


def _section(table: Table, ledger: Ledger[Cell]) -> str:
    rows = [[label, *(entry_text(entry, ledger) for entry in entries)] for label, entries in table.rows.items()]
    text = f"## Table {table.number}: {table.title}\n\n{_markdown([table.label, *table.columns], rows)}"
    if table.number != "5.12":
        return text
    return f"{text}\n\nAs ratios to standard k-means Nystrom in the same run:\n\n{_ratios(table, ledger)}"


def _ratios(table: Table, ledger: Ledger[Cell]) -> str:
    """Seconds over those of standard k-means Nystrom, ours and the thesis's."""
    place, rows = table.columns.index("standard kmeans-nystrom"), []
    for label, entries in table.rows.items():
        ours, theirs = find(entries[place], ledger), entries[place].published
        cells = []
        for entry in entries:
            found = find(entry, ledger)
            ratio = MISSING if ours is None or found is None else f"{found.mean / ours.mean:.2g}"
            cells.append(ratio + ("" if not theirs or not entry.published else f" ({entry.published / theirs:.2g})"))
        rows.append([label, *cells])
    return _markdown([table.label, *table.columns], rows)


def entry_text(entry: Entry, ledger: Finished[Cell]) -> str:
    """A mean, its spread, and the thesis's in parentheses."""
    found = find(entry, ledger)
    ours = MISSING if found is None else _with_spread(found)
    if entry.published is None:
        return ours
    spread = "" if entry.published_spread is None else f" ± {shown(entry.published_spread, 2)}"
    return f"{ours} ({shown(entry.published, 4)}{spread})"


def _with_spread(found: Found) -> str:
    return shown(found.mean) + (f" ± {shown(found.spread, 2)}" if found.num_seeds > 1 else "")


def shown(value: float | None, digits: int = 3) -> str:
    """A number with few digits, and without an exponent where that is short.

    >>> shown(28780.4), shown(1.6658), shown(1.28e-6), shown(None)
    ('28780', '1.67', '1.28e-06', '-')
    """
    if value is None:
        return MISSING
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.{digits}g}"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
