"""The figures, drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bochner.studies.ledger import Finished
from bochner.studies.lowrank.cells import Cell
from bochner.studies.lowrank.grids import Curve, Figure, find, summary

# Okabe & Ito's colours, which the colour-blind can tell apart, and markers besides.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#999999", "#B8A100")
MARKERS = "osD^vPX*<"
# The same method looks the same in every figure.
STYLES = ("nystrom", "standard nystrom", "als", "standard kmeans-nystrom", "meka", "fourier", "optimum", "exact", "svd")
BOUNDS = ("optimum", "svd")
COLUMNS = 4


def draw(figure: Figure, ledger: Finished[Cell], path: Path) -> bool:
    """Write the panels that have a curve as a picture; False when there is none."""
    panels = [panel for panel in figure.panels if any(len(points_of(curve, ledger)) > 1 for curve in panel.curves)]
    if not panels:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    size = (max(6.0, 4.0 * columns), 3.4 * rows + 0.6)
    page, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, constrained_layout=True)
    for axis, panel in zip(axes.flat, panels, strict=False):
        for place, curve in enumerate(panel.curves):
            _draw_curve(axis, curve, STYLES.index(curve.label) if curve.label in STYLES else place, ledger)
        axis.set(title=panel.title, xlabel=figure.x, ylabel=figure.y, xscale=figure.x_scale, yscale=figure.y_scale)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_axis_off()
    handles = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    page.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns + 2, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    page.savefig(path, dpi=100)
    plt.close(page)
    return True


def _draw_curve(axis: Any, curve: Curve, style: int, ledger: Finished[Cell]) -> None:
    points = points_of(curve, ledger)
    if not points:
        return
    x, y, spread = zip(*points, strict=True)
    color = COLORS[style % len(COLORS)]
    if len(curve.entries) == 1:  # a level, such as that of the exact kernel
        axis.axhline(y[0], color=color, linestyle="--", label=curve.label)
        return
    if curve.label in BOUNDS:  # dashed and on top, so that what reaches it can still be seen
        axis.plot(x, y, color=color, linestyle="--", linewidth=1.3, zorder=3, label=curve.label)
        return
    marker = {"marker": MARKERS[style % len(MARKERS)], "markersize": 5}
    axis.errorbar(x, y, yerr=spread, color=color, capsize=2, linewidth=1.3, label=curve.label, **marker)


def points_of(curve: Curve, ledger: Finished[Cell]) -> list[tuple[float, float, float]]:
    """x, y and the spread of y of every entry that is measured and finite."""
    points = []
    for entry in curve.entries:
        x, y = summary(entry.cells, curve.against, ledger), find(entry, ledger)
        if x is not None and y is not None and math.isfinite(y.mean):
            points.append((x.mean, y.mean, y.spread))
    return points
