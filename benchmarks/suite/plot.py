"""All ratios of times in one figure."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import Row


def write_plot(rows: list[Row], path: Path) -> None:
    """A bar for each comparison of seconds, on a logarithmic axis; without Matplotlib only the JSON is written."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        print("no plot: Matplotlib is not installed")
        return
    shown = [row for row in rows if row.unit == "seconds"][::-1]
    figure = Figure(figsize=(9, 1 + 0.22 * len(shown)))
    axis = figure.subplots()
    axis.barh(range(len(shown)), [row.ratio.middle - 1 for row in shown], left=1, color=[_color(row) for row in shown])
    axis.set_yticks(range(len(shown)), [f"{row.table.split(':')[0]}: {row.case} / {row.peer}" for row in shown])
    axis.tick_params(axis="y", labelsize=6)
    axis.set_xscale("log")
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlabel("times as fast as the other")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _color(row: Row) -> str:
    return "tab:blue" if row.ratio.middle >= 1 else "tab:orange"
