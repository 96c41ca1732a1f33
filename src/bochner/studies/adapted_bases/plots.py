"""Kernel error and accuracy against the number of features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bochner.studies.adapted_bases.cells import BASES
from bochner.studies.adapted_bases.rows import Row

COLOURS = dict(zip(BASES, ("tab:blue", "tab:green", "tab:orange", "tab:red"), strict=True))
LABELS = {"kernel_error": "kernel error", "accuracy": "test accuracy", "transfer_accuracy": "accuracy on task 2"}


def draw_figure(rows: Sequence[Row], path: Path, *, transfer: bool = False) -> None:
    """A line of panels for each set and kernel: kernel error and accuracy, or the accuracies on both tasks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = ("accuracy", "transfer_accuracy") if transfer else ("kernel_error", "accuracy")
    lines = list(dict.fromkeys((row.cell.data, row.cell.kernel) for row in rows))
    figure, axes = plt.subplots(len(lines), 2, figsize=(10, 3.4 * len(lines)), squeeze=False, constrained_layout=True)
    for line, (data, kernel) in zip(axes, lines, strict=True):
        mine = [row for row in rows if (row.cell.data, row.cell.kernel) == (data, kernel)]
        for axis, name in zip(line, names, strict=True):
            _panel(axis, mine, name)
            axis.set_title(f"{data}, {kernel}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _panel(axis: Any, rows: Sequence[Row], name: str) -> None:
    for basis, colour in COLOURS.items():
        points = [row for row in rows if row.cell.basis == basis]
        if points:
            x, y = [row.cell.num_features for row in points], [row.mean[name] for row in points]
            spread = [row.spread[name] for row in points]
            axis.errorbar(x, y, yerr=spread, color=colour, marker="o", markersize=3, capsize=2, label=basis)
    axis.set(xscale="log", xlabel="features D", ylabel=LABELS[name])
    if name == "kernel_error":
        axis.set_yscale("log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
