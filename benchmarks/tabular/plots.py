"""The figures of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.tabular.summary import Summary, critical_difference

OURS, THEIRS = "tab:red", "tab:blue"
TITLES = {  # of contenders, as their own documentation writes them
    "catboost": "CatBoost",
    "hist-gradient-boosting": "HistGradientBoosting",
    "lightgbm": "LightGBM",
    "lightgbm-refit": "LightGBM, refitted on all rows",
    "random-forest": "random forest",
    "xgboost": "XGBoost",
}


def plot_ranks(ranks: pd.DataFrame, path: Path) -> None:
    """A critical-difference diagram: bars join contenders that Nemenyi's test does not distinguish."""
    plt = _pyplot()
    means = ranks.mean().sort_values()
    count = len(means)
    difference = critical_difference(count, len(ranks))
    figure, axes = plt.subplots(figsize=(8, 0.32 * count + 1.2))
    for row, (name, rank) in enumerate(means.items()):
        axes.plot(rank, row, "o", color=_color(str(name)))
        axes.annotate(f"{name}  {rank:.2f}", (rank, row), xytext=(8, -3), textcoords="offset points", fontsize=9)
    for position, (start, stop) in enumerate(_groups(means.to_numpy(), difference)):
        axes.plot([start, stop], [count + 0.4 * position] * 2, color="black", linewidth=2.5)
    axes.plot([1, 1 + difference], [-1, -1], color="gray", linewidth=2)
    axes.annotate(
        f"critical difference {difference:.2f}",
        (1 + difference, -1),
        xytext=(6, -3),
        textcoords="offset points",
        fontsize=8,
    )
    axes.invert_yaxis()
    axes.set(xlabel=f"mean rank over {len(ranks)} sets (1 is best)", xlim=(0.8, count + 1.5), yticks=[])
    _save(figure, path)


def plot_relative(summary: Summary, contenders: list[str], reference: str, path: Path) -> None:
    """The error of every contender relative to the reference, by set."""
    plt = _pyplot()
    means = summary.errors.replace(np.inf, np.nan).groupby("set").mean()
    names = [name for name in summary.sets() if name in means.index and means[reference].get(name, 0) > 0]
    figure, axes = plt.subplots(figsize=(11, 4.5))
    for contender in contenders:
        if contender == reference:
            continue
        ratios = means.loc[names, contender] / means.loc[names, reference]
        marker = {"marker": "D", "s": 40, "zorder": 3} if contender.startswith("bochner") else {"marker": "o", "s": 16}
        axes.scatter(range(len(names)), ratios, label=contender, **marker)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(ylabel=f"error / error of {reference}", yscale="log", ylim=(0.4, 3))
    axes.set_yticks([0.5, 0.7, 1, 1.4, 2, 3], ["0.5", "0.7", "1", "1.4", "2", "3"])
    axes.set_yticks([], minor=True)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
    axes.legend(fontsize=7, ncols=2)
    _save(figure, path)


def plot_costs(summary: Summary, ranks: pd.DataFrame, path: Path) -> None:
    """Mean rank against median CPU seconds of a fit, over the cells that all contenders finished."""
    points = {}
    for name, rank in ranks.mean().items():
        seconds = summary.costs(str(name), "fit_cpu_seconds", list(ranks.columns))
        if seconds:
            points[str(name)] = (float(np.median(seconds)), float(rank))
    draw_costs(points, path)


def draw_costs(points: dict[str, tuple[float, float]], path: Path) -> None:
    """Draw contenders at (seconds, mean rank); the faster of two neighbours has its label on the left."""
    figure, axes = _pyplot().subplots(figsize=(6.4, 3.8))
    for name, (seconds, rank) in points.items():
        on_left = any(
            abs(other_rank - rank) < 0.25 and 1 < other / seconds < 2 for other, other_rank in points.values()
        )
        axes.plot(seconds, rank, "o", color=_color(name), markersize=9 if name.startswith("bochner") else 6)
        axes.annotate(
            TITLES.get(name, name), (seconds, rank), xytext=(-8 if on_left else 8, 0), textcoords="offset points",
            ha="right" if on_left else "left", va="center", fontsize=10, color=_color(name),
            weight="bold" if name.startswith("bochner") else "normal",
        )  # fmt: skip
    axes.set(xlabel="median time of a fit, CPU seconds", ylabel="mean rank (1 is best)", xscale="log")
    axes.set_xlim(min(s for s, _ in points.values()) / 6, 3 * max(s for s, _ in points.values()))
    axes.set_ylim(0.4 + max(rank for _, rank in points.values()), 1)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)


def _groups(means: Any, difference: float) -> list[tuple[float, float]]:
    """Maximal runs of sorted mean ranks that span less than the critical difference."""
    runs: list[tuple[int, int]] = []
    for start in range(len(means)):
        stop = int(np.searchsorted(means, means[start] + difference, side="right")) - 1
        if stop > start and (not runs or stop > runs[-1][1]):
            runs.append((start, stop))
    return [(float(means[start]), float(means[stop])) for start, stop in runs]


def _color(name: str) -> str:
    return OURS if name.startswith("bochner") else THEIRS


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=160)
    _pyplot().close(figure)
