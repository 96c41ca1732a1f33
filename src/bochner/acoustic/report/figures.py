"""The curves and matrices of a report, each a matplotlib figure; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, TypeVar

import numpy as np

from bochner.speech.score.error_rates import Pair

# Okabe & Ito's colours, which the colour-blind can tell apart, and markers besides.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#B8A100")
MARKERS = "osD^vPX*"
CHANCE = "#777777"
WIDTH, HEIGHT = 5.2, 3.4
NOTHING = "(nothing)"
T = TypeVar("T")


def learning_curves(histories: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, label: str) -> Any:
    """A heldout metric after each epoch of each model, by name."""
    figure, axes = _curves(xlabel="epoch", ylabel=label)
    for records, style in _styled(histories):
        axes.plot([one["epoch"] for one in records], [one[metric] for one in records], **style)
    axes.legend(fontsize=7, frameon=False)
    return figure


def survival_curves(selections: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    """The share of the features kept after each round that reached the end, and what chance would leave."""
    figure, axes = _curves(xlabel="round of selection", ylabel="share that survives", yscale="log")
    for found, style in _styled(selections):
        axes.plot(range(1, len(found["survival"]) + 1), found["survival"], **style)
    for chance in {tuple(found["chance"]) for found in selections.values()}:
        axes.plot(range(1, len(chance) + 1), chance, color=CHANCE, linestyle=":", label="by chance")
    axes.legend(fontsize=7, frameon=False)
    return figure


def input_weights(weights: Sequence[float], *, context: int) -> Any:
    """The relative weight of each input: a row for each frame of the context, a column for each number of a frame."""
    values = np.asarray(weights).reshape(2 * context + 1, -1)
    figure, axes = _axes(xlabel="number within the frame", ylabel="frame")
    extent = (-0.5, values.shape[1] - 0.5, context + 0.5, -context - 0.5)
    drawn = axes.imshow(values, aspect="auto", cmap="cividis", extent=extent, interpolation="nearest")
    figure.colorbar(drawn, label="relative weight")
    return figure


def confusion_matrix(times: Mapping[Pair, int]) -> Any:
    """What each token was heard as, in shares of a row; beside deleted and inserted tokens stands "nothing".

    Colours go by the root of the share, so that rare errors can be seen.
    """
    from matplotlib.colors import PowerNorm

    tokens = sorted({token for pair in times for token in pair if token is not None})
    place = {token: number for number, token in enumerate([*tokens, None])}
    counts = np.zeros((len(place), len(place)))
    for (said, heard), number in times.items():
        counts[place[said], place[heard]] = number
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = max(HEIGHT, 0.11 * len(place) + 0.4)
    figure, axes = _axes(xlabel="heard", ylabel="said", size=(1.1 * size, size))
    drawn = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    axes.set_xticks(range(len(place)), [*tokens, NOTHING], fontsize=6, rotation=90)
    axes.set_yticks(range(len(place)), [*tokens, NOTHING], fontsize=6)
    axes.grid(visible=False)
    figure.colorbar(drawn, label="share of the row", shrink=0.6)
    return figure


def _curves(**settings: Any) -> tuple[Any, Any]:
    """Axes that count epochs or rounds."""
    figure, axes = _axes(**settings)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return figure, axes


def _styled(found: Mapping[str, T]) -> Iterator[tuple[T, dict[str, Any]]]:
    """Each with a colour and a marker of its own."""
    for (name, value), color, marker in zip(found.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        yield value, {"color": color, "marker": marker, "markersize": 3, "linewidth": 1.3, "label": name}


def _axes(*, size: tuple[float, float] = (WIDTH, HEIGHT), **settings: Any) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"figures need matplotlib: pip install bochner[plot] ({error}).") from error
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set(**settings)
    axes.grid(alpha=0.3)
    return figure, axes
