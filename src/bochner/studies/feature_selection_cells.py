"""Feature selection cell by cell: losses, survival against chance, input weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bochner.adaptation.selection import chance_survival
from bochner.data import ArraySource
from bochner.report import Page
from bochner.studies import feature_selection as study
from bochner.studies.drawing import COLORS, MARKERS, finish, new_axes
from bochner.studies.feature_selection import ALGORITHM_1, FOBOS, KERNELS, NONE, Parts
from bochner.studies.findings import Finding, Verdict, by, over_sets
from bochner.studies.ledger import Result
from bochner.studies.study import Row, Size, Study, Where

SIZES = {
    "smoke": study.SMOKE,
    "small": study.Size(rounds=10, rows_per_round=5_000, epochs=8, bandwidths=(1.0, 2.0), rates=(4.0, 16.0)),
    "paper": study.Size(10_000, 50, 1_000_000, 50),
}
FILES = {"covtype": "covtype_sample.npz", "mnist": "mnist.npz"}
MOST_ROWS = {"covtype": 20_000, "mnist": 10_000}  # at size small


@dataclass(frozen=True)
class Cell:
    """A kernel with a selection on a set, tuned at an effort and measured with some seeds."""

    data: str
    kernel: str
    selection: str
    effort: str
    seeds: tuple[int, ...]


def cells(size: Size) -> list[Cell]:
    if size == "smoke":
        return [
            Cell("made, small", kernel, selection, size, (0,))
            for kernel in KERNELS
            for selection in (NONE, ALGORITHM_1)
        ]
    kinds = {"made": (NONE, ALGORITHM_1, FOBOS), "covtype": (NONE, ALGORITHM_1), "mnist": (NONE, ALGORITHM_1)}
    return [
        Cell(name, kernel, selection, size, (0, 1, 2) if size == "paper" else (0,))
        for name, selections in kinds.items()
        for kernel in KERNELS
        for selection in selections
    ]


def measuring(where: Where) -> Callable[[Cell], Result]:
    loaded = lru_cache(maxsize=1)(lambda name, effort: _load(name, where.data_dir, effort))

    def measure(cell: Cell) -> Result:
        rows = study.run(
            loaded(cell.data, cell.effort), size=SIZES[cell.effort], kernels=[cell.kernel], selections=[cell.selection],
            seeds=cell.seeds, progress=False, device=where.device,
        )  # fmt: skip
        return {name: value for name, value in asdict(rows[0]).items() if name not in ("data", "kernel", "selection")}

    return measure


def _load(name: str, data_dir: Path, effort: str) -> Parts:
    if name == "made":
        return study.made_data()
    if name == "made, small":
        return study.made_data(num_rows=5_000, num_inputs=20, num_useful=4)
    with np.load(data_dir / FILES[name]) as file:
        X, y = (file["X_raw"], file["y"]) if name == "covtype" else (file["X_train"], file["y_train"])
    chosen = np.random.default_rng(0).permutation(len(X))[: MOST_ROWS[name] if effort == "small" else None]
    _, classes = torch.as_tensor(y[chosen]).unique(return_inverse=True)
    return study.divide(name, ArraySource(X[chosen].astype(np.float32), classes))


# -- pictures --------------------------------------------------------------------------------------------------


def show_losses(page: Page, rows: Sequence[Row]) -> None:
    page.table(
        ["set", "kernel", "selection", "D", "heldout CE", "±", "change", "heldout error", "test CE", "test error"],
        [
            [
                row["data"],
                row["kernel"],
                row["selection"],
                row["num_features"],
                row["ce"],
                row["ce_spread"],
                _change(row, rows),
                row["err"],
                row["test_ce"],
                row["test_err"],
            ]
            for row in rows
        ],
    )


def show_survival(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, mine in _selected(rows):
        figure, axes = new_axes(name, "round t", "share", x_scale="linear", y_scale="linear")
        for style, row in enumerate(mine):
            rounds = range(1, len(row["survival"]) + 1)
            axes.plot(
                rounds, row["survival"], color=COLORS[style], marker=MARKERS[style], markersize=3, label=row["kernel"]
            )
        chance = chance_survival(len(mine[0]["survival"]) + 1).tolist()
        axes.plot(range(1, len(chance) + 1), chance, color="gray", linestyle=":", label="by chance")
        drawn.append((finish(figure, axes), f"{name}: of the features kept after round t, the share in the final map."))
    page.figures(drawn)


def show_inputs(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, mine in _selected(rows):
        figure, axes = new_axes(name, "input", "relative weight", x_scale="linear", y_scale="linear")
        for style, row in enumerate(mine):
            axes.plot(
                range(1, len(row["input_weights"]) + 1),
                row["input_weights"],
                color=COLORS[style],
                linewidth=1,
                label=row["kernel"],
            )
        drawn.append((finish(figure, axes), f"{name}: relative weight of each input after Algorithm 1; 1 is the mean."))
    page.figures(drawn)


def _selected(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    mine = [row for row in rows if row["selection"] == ALGORITHM_1]
    return [(name, found) for (name,), found in by(mine, "data").items()]


def _change(row: Row, rows: Sequence[Row]) -> str:
    peers = [
        peer["ce"]
        for peer in rows
        if (peer["data"], peer["kernel"], peer["selection"]) == (row["data"], row["kernel"], NONE)
    ]
    return f"{row['ce'] / peers[0] - 1:+.1%}" if peers and row["selection"] != NONE else "-"


# -- what the papers say ---------------------------------------------------------------------------------------


def _gains(rows: Sequence[Row], selection: str = ALGORITHM_1) -> dict[str, dict[str, float]]:
    """By set and kernel, by which share selection lowers the heldout cross-entropy."""
    losses: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        losses.setdefault(row["data"], {})[row["kernel"], row["selection"]] = row["ce"]
    return {
        name: {
            k: 1 - found[k, selection] / found[k, NONE]
            for k in KERNELS
            if (k, selection) in found and (k, NONE) in found
        }
        for name, found in losses.items()
    }


def _change_of(kernel: str) -> Callable[[Sequence[Row]], Verdict | None]:
    def judge(rows: Sequence[Row]) -> Verdict | None:
        changes = {name: -found[kernel] for name, found in _gains(rows).items() if kernel in found}
        return over_sets(changes, "relative change of the heldout cross-entropy", below=0)

    return judge


def _gaussian_gain(rows: Sequence[Row]) -> Verdict | None:
    complete = {name: found for name, found in _gains(rows).items() if len(found) == len(KERNELS)}
    values = {name: found["gaussian"] - min(found[k] for k in KERNELS[:2]) for name, found in complete.items()}
    return over_sets(values, "gain, Gaussian's less the smaller of the others'", below=0)


def _fobos_gain(rows: Sequence[Row]) -> Verdict | None:
    ours, theirs = _gains(rows), _gains(rows, FOBOS)
    values = {
        f"{name} ({kernel})": gain - ours[name][kernel]
        for name, gains in theirs.items()
        for kernel, gain in gains.items()
        if kernel in ours.get(name, {})
    }
    return over_sets(values, "gain, FOBOS's less Algorithm 1's", below=0)


def _survival(rows: Sequence[Row]) -> Verdict | None:
    """Over the first third of the rounds, the least of the kernels'."""
    values = {}
    for name, mine in _selected(rows):
        third = max(1, len(mine[0]["survival"]) // 3)
        chance = float(chance_survival(len(mine[0]["survival"]) + 1)[:third].sum())
        values[name] = min(sum(row["survival"][:third]) for row in mine) / chance
    return over_sets(values, "survival over that by chance, first third of the rounds, least kernel's", above=2)


def _largest_weight(rows: Sequence[Row]) -> Verdict | None:
    values = {
        name: max((max(row["input_weights"]) for row in mine if row["kernel"] == "laplacian"), default=None)
        for name, mine in _selected(rows)
    }
    return over_sets(values, "largest relative weight of an input, Laplacian", above=1.5)


def _study(name: str, title: str, source: str, show: Callable[[Page, Sequence[Row]], Any]) -> Study:
    return Study(name, title, source, study.PROTOCOL, "feature_selection", Cell, cells, measuring, show, FILES)


MAY = "May 2018, Chapter 5"
STUDIES = (
    _study(
        "feature-selection",
        "What feature selection gains, by kernel",
        f"{MAY}; May et al. 2019, Section 5",
        show_losses,
    ),
    _study("survival-rates", "Survival of selected features against chance", f"{MAY}, Figure 5.2", show_survival),
    _study("input-weights", "Relative weights of inputs after selection", f"{MAY}, Figure 5.3", show_inputs),
)
FINDINGS = (
    Finding(
        "Feature selection lowers the loss of the Laplacian kernel.", MAY, "feature-selection", _change_of("laplacian")
    ),
    Finding(
        "Feature selection lowers the loss of the sparse Gaussian kernel.",
        MAY,
        "feature-selection",
        _change_of("sparse-gaussian"),
    ),
    Finding("Of the three kernels the Gaussian gains least.", MAY, "feature-selection", _gaussian_gain),
    Finding(
        "FOBOS with l1/l2 is no alternative: it gains less.",
        f"{MAY}, Section 5.1",
        "feature-selection",
        _fobos_gain,
    ),
    Finding("Features selected early survive far more often than by chance.", MAY, "survival-rates", _survival),
    Finding("Selection for the Laplacian kernel favours some inputs.", MAY, "input-weights", _largest_weight),
)
