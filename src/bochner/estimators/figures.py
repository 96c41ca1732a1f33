"""Figures of a fitted model: calibration, confusion, residuals, importances, trials of a search."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from bochner import checks
from bochner.estimators.evaluation import Array, CalibrationBin

# The colour-blind safe palette of Okabe and Ito, visible on light and dark backgrounds.
BLUE, ORANGE, GREEN, PURPLE, GRAY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#8a8a8a"
STAGES = (BLUE, ORANGE, GREEN, PURPLE, GRAY)
SIZE = (4.6, 3.5)
MAX_POINTS = 1000  # points of a scatter plot: more only enlarge the page
MAX_NAME = 28  # characters of a name at an axis
MAX_CELLS = 20  # classes of a confusion matrix that is drawn
DARKEST = 0.55  # opacity of a full cell, on which text in black or white is readable


def calibration_figure(bins: Sequence[CalibrationBin], *, axis: str) -> Any:
    """A reliability diagram: observed share against predicted probability."""
    figure, axes = _axes(xlabel=axis, ylabel="observed share")
    axes.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=GRAY)
    predicted, observed, error = ([getattr(b, name) for b in bins] for name in ("predicted", "observed", "error"))
    axes.errorbar(predicted, observed, yerr=error, marker="o", markersize=4, linewidth=1.2, capsize=2, color=BLUE)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return figure


def confusion_figure(counts: Array, names: Sequence[str]) -> Any:
    """Shares of the rows of each true class that are predicted as each class."""
    from matplotlib.patches import Rectangle

    C = len(names)
    side = max(2.6, 0.42 * C + 1.2)
    figure, axes = _axes(xlabel="predicted", ylabel="true", size=(side + 0.4, side))
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / np.where(totals > 0, totals, 1)
    for i in range(C):
        for j in range(C):
            axes.add_patch(
                Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=BLUE, alpha=DARKEST * shares[i, j], edgecolor="none")
            )
            if counts[i, j]:
                size = 9 if C <= 5 else 6.5
                axes.text(j, i, _percent(shares[i, j]), ha="center", va="center", fontsize=size)
    short = [shortened(name) for name in names]
    turned = {"rotation": 90} if max(map(len, short)) > 4 else {}
    axes.set_xticks(range(C), short, parse_math=False, fontsize=8, **turned)
    axes.set_yticks(range(C), short, parse_math=False, fontsize=8)
    axes.set(xlim=(-0.5, C - 0.5), ylim=(C - 0.5, -0.5))
    axes.grid(visible=False)
    return figure


def predicted_figure(targets: Array, predictions: Array, *, seed: int = 0) -> Any:
    """True values against predictions."""
    figure, axes = _axes(xlabel="predicted", ylabel="true")
    rows = np.random.default_rng(seed).permutation(len(targets))[:MAX_POINTS]
    axes.plot(predictions[rows], targets[rows], linestyle="none", marker="o", markersize=2.5, alpha=0.5, color=BLUE)
    both = np.concatenate([predictions[rows], targets[rows]])
    ends = [float(both.min()), float(both.max())]
    axes.plot(ends, ends, linestyle="--", linewidth=1, color=ORANGE)
    return figure


def residual_figure(residuals: Array, weight: Array) -> Any:
    """A histogram of true minus predicted values."""
    figure, axes = _axes(xlabel="true - predicted", ylabel="rows")
    axes.hist(residuals, bins=min(60, max(10, round(len(residuals) ** 0.5))), weights=weight, color=BLUE, alpha=0.8)
    axes.axvline(0, linestyle="--", linewidth=1, color=ORANGE)
    return figure


def importance_figure(values: Array, names: Sequence[str]) -> Any:
    """Bars, the first on top."""
    figure, axes = _axes(xlabel="importance", size=(SIZE[0], 0.24 * len(names) + 0.8))
    axes.barh(range(len(names)), values, color=BLUE, alpha=0.8)
    axes.set_yticks(range(len(names)), [shortened(name) for name in names], parse_math=False, fontsize=8)
    axes.set(ylim=(len(names) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    return figure


def search_figure(losses: Array, stages: Sequence[tuple[int, int]]) -> Any:
    """Loss of each trial; a colour for each number of training and validation rows."""
    figure, axes = _axes(xlabel="trial", ylabel="validation loss")
    trials = np.arange(1, len(losses) + 1)
    for place, stage in enumerate(sorted(set(stages))):
        chosen = np.array([other == stage for other in stages]) & np.isfinite(losses)
        look = {"color": STAGES[place % len(STAGES)], "marker": "osD^v"[place % 5]}
        label = f"{stage[0]:,} + {stage[1]:,} rows"
        axes.plot(trials[chosen], losses[chosen], linestyle="none", markersize=3.5, alpha=0.8, label=label, **look)
    finite = losses[np.isfinite(losses)]
    if len(finite):  # a few useless trials must not hide the differences of the good ones
        last = [loss for loss, stage in zip(losses, stages, strict=True) if stage == max(stages) and np.isfinite(loss)]
        low, high = float(finite.min()), max([float(np.quantile(finite, 0.9)), *last])
        margin = 0.08 * (high - low)
        if margin > 0:
            axes.set_ylim(low - margin, high + margin)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(fontsize=8)
    return figure


def shortened(name: str) -> str:
    """A name for an axis: on one line, printable, and cut.

    >>> shortened("two\\nlines"), len(shortened("x" * 100))
    ('two lines', 28)
    """
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


@contextmanager
def quiet_fonts() -> Iterator[None]:
    """No warnings about letters that matplotlib's font lacks: figures hold text, which the browser draws."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _percent(share: float) -> str:
    return f"{100 * share:.0f}" if share >= 0.01 else "<1"


def _axes(*, size: tuple[float, float] = SIZE, **settings: Any) -> tuple[Any, Any]:
    checks.imported("matplotlib", extra="plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set(**settings)
    axes.grid(alpha=0.3)
    return figure, axes
