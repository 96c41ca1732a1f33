"""Plots whose curves differ in colour and marker, readable on light and dark backgrounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

# The colour-blind safe palette of Okabe and Ito without black.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#B8A100")
MARKERS = "osD^vPX*"
SIZE = (4.6, 3.3)
WIDE, SAME = 1e2, 1.001  # ratios of axis limits above which only decades, and below which only one value, are labelled
MARGINS = {"left": 0.18, "right": 0.97, "bottom": 0.15, "top": 0.91}  # a layout engine takes ten times as long

Point = tuple[float, float, float, float]
"""x, y, and the ends of the error bar of y."""


class Curve(NamedTuple):
    """Points joined by a line; a dashed curve has no markers, and is a horizontal line if it has one point."""

    label: str
    points: Sequence[Point]
    style: int
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A pair of axes with curves."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    x_scale: str = "log"
    y_scale: str = "log"


def draw_panel(panel: Panel) -> Any:
    """A figure with one panel."""
    figure, axes = new_axes(panel.title, panel.x, panel.y, x_scale=panel.x_scale, y_scale=panel.y_scale)
    for curve in panel.curves:
        add_curve(axes, curve)
    return finish(figure, axes)


def save_panels(panels: Sequence[Panel], path: Path, *, columns: int) -> None:
    """Write several panels as one PNG file, with one legend for all of them."""
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(max(6.0, 4.0 * columns), 3.4 * rows + 0.6), layout="constrained")
    all_axes = figure.subplots(rows, columns, squeeze=False).flat
    for axes, panel in zip(all_axes, panels, strict=False):
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, xscale=panel.x_scale, yscale=panel.y_scale)
        axes.grid(alpha=0.3)
        for curve in panel.curves:
            add_curve(axes, curve)
    for axes in list(all_axes)[len(panels) :]:
        axes.set_axis_off()
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles[label] = handle
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns + 2, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def new_axes(title: str, x: str, y: str, *, x_scale: str = "log", y_scale: str = "log") -> tuple[Any, Any]:
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    axes = figure.subplots(gridspec_kw=MARGINS)
    axes.set(title=title, xlabel=x, ylabel=y, xscale=x_scale, yscale=y_scale)
    axes.grid(alpha=0.3)
    return figure, axes


def add_curve(axes: Any, curve: Curve) -> None:
    """Add a curve to axes, unless it has no points."""
    if not curve.points:
        return
    x, y, low, high = zip(*curve.points, strict=True)
    look = {"color": COLORS[curve.style % len(COLORS)], "linewidth": 1.2, "label": curve.label}
    if curve.dashed and len(x) == 1:
        axes.axhline(y[0], linestyle="--", **look)
    elif curve.dashed:  # on top, so that the curves that reach it are still visible
        axes.plot(x, y, linestyle="--", zorder=3, **look)
    else:
        bars = [[abs(a - b) for a, b in zip(y, end, strict=True)] for end in (low, high)]
        marker = MARKERS[curve.style % len(MARKERS)]
        axes.errorbar(x, y, yerr=bars, marker=marker, markersize=4, capsize=2, **look)


def finish(figure: Any, axes: Any) -> Any:
    """The figure, with plain numbers at the ticks, and a legend if there are labels."""
    for axis, limits, set_limits in (
        (axes.xaxis, axes.get_xlim(), axes.set_xlim),
        (axes.yaxis, axes.get_ylim(), axes.set_ylim),
    ):
        if axis.get_scale() == "log":
            if limits[1] < SAME * limits[0]:  # a single value: matplotlib would leave no room around it
                limits = set_limits(limits[0] / 2, limits[1] * 2)
            _label_decades(axis, limits[1] / limits[0])
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
    return figure


def _label_decades(axis: Any, span: float) -> None:
    """Label 1, 2, 5 of each decade, or every decade; matplotlib would typeset powers of ten as formulas, which is
    slow."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < WIDE else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
