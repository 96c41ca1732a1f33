"""What feature selection gains, by kernel: no selection, Algorithm 1 and FOBOS at the same number of features."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import torch
from torch import Generator
from tqdm import tqdm

from bochner import checks
from bochner.adaptation.fobos import select_by_fobos
from bochner.adaptation.selection import DrawMap, Selection, chance_survival, input_weights, select_features
from bochner.data import ArraySource, MappedSource, Standardize, split, statistics
from bochner.data.blocks import Source, sample_rows
from bochner.features import FourierMap
from bochner.kernels import Stationary, kernel_named
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate

PROTOCOL = (
    "softmax regression on D Fourier features, heldout cross-entropy, mean ± standard deviation over seeds. Each cell "
    "(kernel, selection) is tuned alone and alike on the heldout part, with a seed of its own: first the bandwidth, as "
    "a multiple of the median rule's, then the learning rate of the selection, then that of the training. FOBOS draws "
    "as many features as Algorithm 1 sees, D (T + 1) / 2, and for each penalty tried makes one pass over twice the "
    "rows of a round: the cost of all T rounds. The test part is read once, by the tuned cells"
)
KERNELS = ("laplacian", "sparse-gaussian", "gaussian")
NONE, ALGORITHM_1, FOBOS = "none", "algorithm 1", "fobos"
SELECTIONS = (NONE, ALGORITHM_1, FOBOS)
TUNING_SEED = 1_000_000


@dataclass(frozen=True)
class Parts:
    """The rows of one data set: classes 0 .. C - 1, all of them in `train`."""

    name: str
    train: Source
    heldout: Source
    test: Source
    num_classes: int


@dataclass(frozen=True)
class Size:
    """How much work a cell is; what is tuned and over which values."""

    num_features: int = 512
    rounds: int = 15
    rows_per_round: int = 10_000
    epochs: int = 12
    batch_size: int = 256
    bandwidths: tuple[float, ...] = (0.5, 1.0, 2.0)  # times the median rule's
    rates: tuple[float, ...] = (4.0, 1.0, 16.0, 64.0)  # the first one serves until the rates are tuned


SMALL = Size()
SMOKE = Size(64, 8, 2_000, 5, 64, bandwidths=(1.0,), rates=(8.0,))


class Setting(NamedTuple):
    """What is tuned for each cell."""

    bandwidth: float  # times the median rule's
    selection_rate: float
    rate: float


@dataclass(frozen=True)
class Row:
    """One cell: losses and errors over seeds, what was tuned, and the means that the papers plot."""

    data: str
    kernel: str
    selection: str
    num_features: int
    tuned: Setting
    ce: float
    ce_spread: float
    err: float
    err_spread: float
    test_ce: float
    test_err: float
    survival: tuple[float, ...]  # of the features kept after each round of Algorithm 1
    input_weights: tuple[float, ...]  # relative weight of each input in the final map, mean 1


def run(
    parts: Parts,
    *,
    size: Size = SMALL,
    kernels: Sequence[str] = KERNELS,
    selections: Sequence[str] = SELECTIONS,
    seeds: Iterable[int] = range(5),
    progress: bool = True,
    device: str = "cpu",
) -> list[Row]:
    """Tune and measure every kernel with every selection; see `PROTOCOL`."""
    for selection in selections:
        checks.one_of("selections", selection, SELECTIONS)
    cells = [(kernel, selection) for kernel in kernels for selection in selections]
    bar = tqdm(cells, disable=not progress, unit="cell")
    rows = []
    for kernel, selection in bar:
        bar.set_description(f"{parts.name}: {kernel}, {selection}")
        rows.append(_Cell(parts, size, kernel, selection, device).measure(list(seeds)))
    return rows


def divide(name: str, source: Source, *, seed: int = 0, standardize: bool = True) -> Parts:
    """The rows of `source` in three: 20 % to test, 20 % of the others heldout; inputs standardised by the rest."""
    others, test = split(source, 0.2, seed=seed)
    rows, heldout = split(others, 0.2, seed=seed + 1)
    found = statistics(rows)
    if found.classes is None:
        raise ValueError("source must have class indices as targets, got floats.")
    parts: list[Source] = [rows, heldout, test]
    if standardize:
        parts = [MappedSource(part, Standardize(found.mean, found.std)) for part in parts]
    return Parts(name, parts[0], parts[1], parts[2], num_classes=int(found.classes.max()) + 1)


def made_data(*, num_rows: int = 20_000, num_inputs: int = 40, num_useful: int = 10, seed: int = 0) -> Parts:
    """Normal inputs of which only the first few matter: three classes of equal size, by

        s(x) = sum_i sin(1.5 x_i) + 0.5 sum_i x_i x_(i + 1)    over the `num_useful` first inputs.

    >>> made_data(num_rows=1000).train.num_inputs
    40
    """
    X = torch.randn(num_rows, num_inputs, generator=Generator().manual_seed(seed))
    U = X[:, :num_useful]
    score = torch.sin(1.5 * U).sum(dim=1) + 0.5 * (U[:, :-1] * U[:, 1:]).sum(dim=1)
    y = torch.bucketize(score, score.quantile(torch.tensor([1 / 3, 2 / 3])))
    return divide(f"made, {num_useful} of {num_inputs} inputs matter", ArraySource(X, y), seed=seed)


def change(rows: Sequence[Row], kernel: str, selection: str) -> float:
    """The relative change of heldout cross-entropy by a selection: -0.1 is 10 % lower than without."""
    losses = {row.selection: row.ce for row in rows if row.kernel == kernel}
    return losses[selection] / losses[NONE] - 1


def table(rows: Sequence[Row]) -> str:
    """One line a cell."""
    lines = [
        f"{'kernel':<16} {'selection':<12} {'heldout CE':>16} {'change':>8} {'heldout error':>15} {'test CE':>9} "
        f"{'test error':>11}   tuned: bandwidth, rates"
    ]
    compared = {row.kernel for row in rows if row.selection == NONE}
    for row in rows:
        changed = (
            ""
            if row.selection == NONE or row.kernel not in compared
            else f"{change(rows, row.kernel, row.selection):+.1%}"
        )
        lines.append(
            f"{row.kernel:<16} {row.selection:<12} {row.ce:>7.4f} ± {row.ce_spread:.4f} {changed:>8} "
            f"{row.err:>6.1%} ± {row.err_spread:>4.1%}  {row.test_ce:>9.4f} {row.test_err:>11.1%}   "
            f"{', '.join(f'{value:g}' for value in row.tuned)}"
        )
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Three panels: heldout cross-entropy of each cell, survival against chance, relative input weights."""
    selected = [row for row in rows if row.selection == ALGORITHM_1]
    if not selected:
        raise ValueError(f"rows must hold cells of {ALGORITHM_1!r}, whose survival is drawn, got none.")
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), constrained_layout=True)
    _plot_losses(axes[0], rows)
    _plot_survival(axes[1], selected)
    for row in selected:
        axes[2].plot(range(1, len(row.input_weights) + 1), row.input_weights, linewidth=1, label=row.kernel)
    axes[2].axhline(1, color="gray", linestyle=":", label="no selection, on average")
    axes[2].set(title="inputs after Algorithm 1", xlabel="input", ylabel="relative weight", ylim=(0, None))
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    figure.suptitle(f"{rows[0].data}, D = {rows[0].num_features}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _plot_losses(axis: Any, rows: Sequence[Row]) -> None:
    kernels = list(dict.fromkeys(row.kernel for row in rows))
    selections = list(dict.fromkeys(row.selection for row in rows))
    for place, (selection, marker) in enumerate(zip(selections, "osD", strict=False)):
        mine = [row for row in rows if row.selection == selection]
        x = [kernels.index(row.kernel) + 0.12 * (place - (len(selections) - 1) / 2) for row in mine]
        losses, spreads = [row.ce for row in mine], [row.ce_spread for row in mine]
        axis.errorbar(x, losses, yerr=spreads, fmt=marker, capsize=3, label=f"selection: {selection}")
    axis.set_xticks(range(len(kernels)), kernels)
    axis.set(title="heldout cross-entropy", ylabel="CE", xlim=(-0.5, len(kernels) - 0.5))


def _plot_survival(axis: Any, rows: Sequence[Row]) -> None:
    for row in rows:
        axis.plot(range(1, len(row.survival) + 1), row.survival, marker="o", markersize=3, label=row.kernel)
    rounds = len(rows[0].survival) + 1
    axis.plot(range(1, rounds), chance_survival(rounds), color="gray", linestyle=":", label="by chance")
    axis.set(title="kept after round t and in the final map", xlabel="round t", ylabel="share", ylim=(0, 1.05))


@dataclass(frozen=True)
class _Fit:
    ce: float
    err: float
    model: FeatureModel
    selection: Selection | None


@dataclass(frozen=True)
class _Cell:
    """One kernel with one selection on one data set."""

    parts: Parts
    size: Size
    kernel: str
    selection: str
    device: str

    def measure(self, seeds: Sequence[int]) -> Row:
        setting = self.tune()
        fits = [self.fit(setting, seed) for seed in seeds]
        tests = [evaluate(fit.model, self.parts.test, loss="softmax").summary() for fit in fits]
        survivals = [fit.selection.survival().tolist() for fit in fits if fit.selection and fit.selection.kept]
        weights = [self._input_weights(fit.model) for fit in fits]
        return Row(
            self.parts.name,
            self.kernel,
            self.selection,
            self.size.num_features,
            setting,
            *_mean_and_spread([fit.ce for fit in fits]),
            *_mean_and_spread([fit.err for fit in fits]),
            test_ce=fmean(test["ce"] for test in tests),
            test_err=fmean(test["err"] for test in tests),
            survival=tuple(map(fmean, zip(*survivals, strict=True))),
            input_weights=tuple(map(fmean, zip(*weights, strict=True))),
        )

    def tune(self) -> Setting:
        """The best of each list, one after the other, the others held fixed."""
        bandwidths, rates = self.size.bandwidths, self.size.rates
        losses: dict[Setting, float] = {}
        best = Setting(bandwidths[0], rates[0], rates[0])
        best = self._best([best._replace(bandwidth=value) for value in bandwidths], losses)
        if self.selection != NONE:
            best = self._best([best._replace(selection_rate=value) for value in rates], losses)
        return self._best([best._replace(rate=value) for value in rates], losses)

    def _best(self, settings: list[Setting], losses: dict[Setting, float]) -> Setting:
        if len(settings) == 1:
            return settings[0]
        losses |= {setting: self._tuning_loss(setting) for setting in settings if setting not in losses}
        return min(settings, key=losses.__getitem__)

    def _tuning_loss(self, setting: Setting) -> float:
        try:
            return self.fit(setting, TUNING_SEED).ce
        except FloatingPointError:  # diverged: such rates are not for this cell
            return math.inf

    def fit(self, setting: Setting, seed: int) -> _Fit:
        """Draw or select the features, then train on them."""
        parts, size, generator = self.parts, self.size, Generator().manual_seed(seed)
        recipe = SGDSettings(learning_rate=setting.rate, batch_size=size.batch_size, max_epochs=size.epochs, seed=seed)
        draw = self._draw(setting.bandwidth)
        chosen = self._select(draw, replace(recipe, learning_rate=setting.selection_rate), generator)
        z = draw(size.num_features, generator) if chosen is None else chosen.feature_map
        model = FeatureModel(z, self._head(size.num_features, generator))
        train(model, parts.train, parts.heldout, recipe, verbose=False)
        scores = evaluate(model, parts.heldout, loss="softmax").summary()  # the last epoch may have been undone
        return _Fit(scores["ce"], scores["err"], model, chosen)

    def _select(self, draw: DrawMap, recipe: SGDSettings, generator: Generator) -> Selection | None:
        size = self.size
        common = (draw, self._head, self.parts.train, recipe)
        match self.selection:
            case "none":
                return None
            case "algorithm 1":
                return select_features(
                    *common,
                    num_features=size.num_features,
                    rounds=size.rounds,
                    rows_per_round=size.rows_per_round,
                    generator=generator,
                    verbose=False,
                )
            case _:
                return select_by_fobos(
                    *common,
                    num_features=size.num_features,
                    num_drawn=size.num_features * (size.rounds + 1) // 4 * 2,
                    num_rows=2 * size.rows_per_round,
                    generator=generator,
                    verbose=False,
                )

    @cached_property
    def _median_kernel(self) -> Stationary:
        sample = sample_rows(self.parts.train, 1000, generator=Generator().manual_seed(0)).X
        kernel = kernel_named(self.kernel, num_inputs=self.parts.train.num_inputs).with_bandwidth("median", sample)
        assert isinstance(kernel, Stationary)
        return kernel

    def _draw(self, bandwidth: float) -> DrawMap:
        kernel = self._median_kernel.replace(bandwidth=bandwidth * self._median_kernel.bandwidth)
        num_inputs = self.parts.train.num_inputs

        def draw(num_features: int, generator: Generator) -> FourierMap:
            z = FourierMap.draw(kernel, num_inputs=num_inputs, num_features=num_features, generator=generator)
            return z.to(self.device)

        return draw

    def _head(self, num_features: int, generator: Generator) -> LinearHead:
        return LinearHead.zeros(num_features=num_features, num_outputs=self.parts.num_classes).to(self.device)

    def _input_weights(self, model: FeatureModel) -> list[float]:
        z = model.feature_map
        assert isinstance(z, FourierMap)
        return input_weights(z, drop_largest=self.kernel == "laplacian").tolist()


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), pstdev(values)
