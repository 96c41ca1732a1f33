"""The paper's figures among all other studies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from types import MappingProxyType

from bochner.report import Page
from bochner.studies.adapted_bases.cells import BASES, Cell, measuring
from bochner.studies.adapted_bases.page import PROTOCOL, SHORT
from bochner.studies.adapted_bases.plots import LABELS
from bochner.studies.adapted_bases.published import PUBLISHED
from bochner.studies.adapted_bases.rows import Row as Mean
from bochner.studies.adapted_bases.rows import best_of, rows_of
from bochner.studies.adapted_bases.run import SIZES, TRANSFER, TRANSFER_SET, cells_of
from bochner.studies.adapted_bases.run import Size as Numbers
from bochner.studies.adapted_bases.sets import FILES
from bochner.studies.drawing import add_curve, finish, new_axes
from bochner.studies.study import Row, Size, Study

SMOKE_SETS, SETS = ("satimage",), ("mnist", "covtype")
QUICK = ("figure 1", "figure 4")  # what smoke has
# Fewer than `run.SIZES` has, whose small is for a GPU: figures 1 and 2 with some D, the others where they are cheap.
SMALL = MappingProxyType(
    {
        "figure 1": (Numbers((10, 100, 1_000), (0,), "small"), SETS),
        TRANSFER: (Numbers((100, 300), (0, 1), "small"), (TRANSFER_SET,)),
        "figure 3": (Numbers((1_000,), (0,), "small"), ("mnist",)),
        "figure 4": (Numbers((1_000,), (0,), "small"), ("mnist",)),
    }
)
SMALL_OTHERS = (Numbers((300,), (0,), "small"), ("covtype",))


def means_of(rows: Sequence[Row]) -> list[Mean]:
    """Means over trials."""
    names = [field.name for field in fields(Cell)]
    results = {Cell(**{name: row[name] for name in names}): _numbers(row, names) for row in rows}
    return rows_of(results, results)


def _numbers(row: Row, names: Sequence[str]) -> dict[str, float]:
    return {name: value for name, value in row.items() if name not in names}


def _cells(figure: str, size: Size) -> list[Cell]:
    match size:
        case "smoke":
            return cells_of(figure, SIZES[size], SMOKE_SETS) if figure in QUICK else []
        case "small":
            return cells_of(figure, *SMALL.get(figure, SMALL_OTHERS))
        case _:
            return cells_of(figure, SIZES[size], SETS)


def _show(figure: str, page: Page, rows: Sequence[Row]) -> None:
    means = means_of(rows)
    measures = ("accuracy", "transfer_accuracy") if figure == TRANSFER else ("kernel_error", "accuracy")
    drawn = [
        (_panel(means, data, kernel, measure), f"{data}, {kernel}: {LABELS[measure]} against the number of features.")
        for data, kernel in dict.fromkeys((mean.cell.data, mean.cell.kernel) for mean in means)
        for measure in measures
    ]
    page.figures(drawn)
    if figure == "figure 1":
        page.table(["set", "kernel", *(f"{SHORT[basis]}: accuracy in % (paper)" for basis in BASES)], _best(means))
        page.note("The number of features is chosen on heldout rows, the accuracy is that of the test part.")
    page.table(
        ["set", "kernel", "basis", "D", *(LABELS[measure] for measure in measures), "trials"],
        [
            [m.cell.data, m.cell.kernel, m.cell.basis, m.cell.num_features, *(m.mean[x] for x in measures), m.trials]
            for m in means
        ],
    )


def _panel(means: Sequence[Mean], data: str, kernel: str, measure: str) -> object:
    scale = "log" if measure == "kernel_error" else "linear"
    figure, axes = new_axes(f"{data}, {kernel}", "features D", LABELS[measure], y_scale=scale)
    for style, basis in enumerate(BASES):
        mine = [m for m in means if (m.cell.data, m.cell.kernel, m.cell.basis) == (data, kernel, basis)]
        points = [(m.cell.num_features, m.mean[measure], m.spread[measure]) for m in mine]
        add_curve(axes, [(x, y, y - s, y + s) for x, y, s in points], label=basis, style=style)
    return finish(figure, axes)


def _best(means: Sequence[Mean]) -> list[list[str]]:
    lines = []
    for data, kernel in dict.fromkeys((mean.cell.data, mean.cell.kernel) for mean in means):
        line = [data, kernel]
        for place, basis in enumerate(BASES):
            best = best_of(m for m in means if (m.cell.data, m.cell.kernel, m.cell.basis) == (data, kernel, basis))
            theirs = PUBLISHED.get((data, kernel))
            ours = "-" if best is None else f"{100 * best.mean['accuracy']:.1f}, D = {best.cell.num_features:,}"
            line.append(ours + (f" ({theirs[place]:.1f})" if theirs else ""))
        lines.append(line)
    return lines


def _study(name: str, title: str, figure: str, source: str) -> Study:
    return Study(
        name,
        title,
        f"Alber et al. 2017, {source}",
        PROTOCOL,
        "adapted_bases",
        Cell,
        partial(_cells, figure),
        measuring,
        partial(_show, figure),
        {TRANSFER_SET: FILES[TRANSFER_SET]} if figure == TRANSFER else FILES,
    )


STUDIES = (
    _study("adapted-bases", "Random and adapted bases: kernel error and accuracy", "figure 1", "Figure 1 and Table 1"),
    _study("adapted-transfer", "Bases adapted on one task, used on another", "figure 2", "Figure 2"),
    _study("adapted-deep-kernels", "Adapted bases of deep arc-cosine kernels", "figure 3", "Figure 3"),
    _study("adapted-structured", "Adapted structured bases", "figure 4", "Figure 4"),
    _study("adapted-other-kernels", "Adapted bases of other kernels", "other kernels", "not in the paper"),
    _study("adapted-other-bandwidths", "Adapted bases at other bandwidths", "other bandwidths", "Table 1"),
)
