"""Small plots that can be told apart by colour and by marker, on light and on dark paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Okabe & Ito's colours without black: the colour-blind can tell them apart.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#B8A100")
MARKERS = "osD^vPX*"
SIZE = (4.6, 3.3)
WIDE, SAME = 1e2, 1.001
MARGINS = {"left": 0.18, "right": 0.97, "bottom": 0.15, "top": 0.91}  # for all: a layout engine takes ten times as long


def new_axes(title: str, x: str, y: str, *, x_scale: str = "log", y_scale: str = "log") -> tuple[Any, Any]:
    """A figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    axes = figure.subplots(gridspec_kw=MARGINS)
    axes.set(title=title, xlabel=x, ylabel=y, xscale=x_scale, yscale=y_scale)
    axes.grid(alpha=0.3)
    return figure, axes


def add_curve(
    axes: Any,
    points: Sequence[tuple[float, float, float, float]],
    *,
    label: str,
    style: int,
) -> None:
    """Points (x, y, least, most) as a line with bars; nothing where there are none."""
    if not points:
        return
    x, y, least, most = zip(*points, strict=True)
    below, above = ([abs(a - b) for a, b in zip(y, other, strict=True)] for other in (least, most))
    axes.errorbar(
        x, y, yerr=[below, above], color=COLORS[style % len(COLORS)], marker=MARKERS[style % len(MARKERS)],
        markersize=4, linewidth=1.2, capsize=2, label=label,
    )  # fmt: skip


def finish(figure: Any, axes: Any) -> Any:
    """The figure, with plain numbers at the ticks, and a legend where something is labelled."""
    for axis, limits, set_limits in (
        (axes.xaxis, axes.get_xlim(), axes.set_xlim),
        (axes.yaxis, axes.get_ylim(), axes.set_ylim),
    ):
        if axis.get_scale() == "log":
            if limits[1] < SAME * limits[0]:  # one value alone: matplotlib would leave it no room
                limits = set_limits(limits[0] / 2, limits[1] * 2)
            _label_decades(axis, limits[1] / limits[0])
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
    return figure


def _label_decades(axis: Any, span: float) -> None:
    """1, 2, 5 of each decade, or every decade alone; matplotlib's powers of ten are set as formulas, which is slow."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < WIDE else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
