"""The gain by feature selection for each kernel: no selection, Algorithm 1, FOBOS and Sparse Random Features at equal
D."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator
from tqdm import tqdm

from bochner import checks
from bochner.adaptation.fobos import select_by_fobos
from bochner.adaptation.selection import DrawMap, Selection, chance_survival, input_weights, select_features
from bochner.adaptation.sparse import select_sparse
from bochner.data import ArraySource, MappedSource, Standardize, split, statistics
from bochner.data.blocks import Source, sample_rows
from bochner.features import FourierMap
from bochner.kernels import Stationary, kernel_named
from bochner.models.heads import FeatureModel, LinearHead
from bochner.report import Page
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from bochner.studies import costs
from bochner.studies.drawing import COLORS, MARKERS, finish, new_axes
from bochner.studies.findings import Finding, Rows, SetValues, by, finding, sets_of
from bochner.studies.nystrom_rff_data import FILES as RFF_FILES
from bochner.studies.nystrom_rff_data import timit_frames
from bochner.studies.results_file import Result
from bochner.studies.study import Row, Study
from bochner.studies.study import Size as StudySize
from bochner.studies.workers import Context

PROTOCOL = (
    "softmax regression on D Fourier features, heldout cross-entropy, mean ± standard deviation over seeds. Each cell "
    "(kernel, selection) is tuned separately and in the same way on heldout rows, with another seed: the bandwidth, as "
    "a multiple of that of the median rule, then the learning rates of the selection and of the training. FOBOS draws "
    "as many features as Algorithm 1 sees, D (T + 1) / 2, and for each penalty tried makes one pass over twice the "
    "rows of a round: the cost of all T rounds. Sparse Random Features draw as Algorithm 1 does and solve an l1/l2 "
    "problem on the rows of a round. The test part is read once, by the tuned cells"
)
KERNELS = ("laplacian", "sparse-gaussian", "gaussian")
NONE, ALGORITHM_1, FOBOS, SPARSE = "none", "algorithm 1", "fobos", "sparse random features"
SELECTIONS = (NONE, ALGORITHM_1, FOBOS, SPARSE)
TUNING_SEED = 1_000_000
TIMIT_FILE = RFF_FILES["timit"]
TIMIT = "timit"  # frames of TIMIT's sample with the phones marked by hand
SPEECH = "synthetic timit-like"  # frames with the states of a forced alignment
FILES = {"covtype": "covtype_sample.npz", "mnist": "mnist.npz", TIMIT: TIMIT_FILE}
MAX_ROWS = {"covtype": 20_000, "mnist": 10_000}  # at size small


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
    """The sizes of a cell, and the values over which it is tuned."""

    num_features: int = 512
    rounds: int = 15
    rows_per_round: int = 10_000
    epochs: int = 12
    batch_size: int = 256
    bandwidths: tuple[float, ...] = (0.5, 1.0, 2.0)  # multiples of the median rule
    rates: tuple[float, ...] = (4.0, 1.0, 16.0, 64.0)  # the first is used until the rates are tuned


DEFAULT = Size()
SIZES = {
    "smoke": Size(64, 8, 2_000, 5, 64, bandwidths=(1.0,), rates=(8.0,)),
    "small": Size(rounds=10, rows_per_round=5_000, epochs=8, bandwidths=(1.0, 2.0), rates=(4.0, 16.0)),
    "paper": Size(10_000, 50, 1_000_000, 50),
}


class Setting(NamedTuple):
    """What is tuned for each cell."""

    bandwidth: float  # multiples of the median rule
    selection_rate: float
    rate: float


def run(
    parts: Parts,
    *,
    size: Size = DEFAULT,
    kernels: Sequence[str] = KERNELS,
    selections: Sequence[str] = SELECTIONS,
    seeds: Iterable[int] = range(5),
    verbose: bool = True,
    device: str = "cpu",
) -> list[Row]:
    """Tune and measure every kernel with every selection, see `PROTOCOL`; the rows of the studies of this module."""
    for selection in selections:
        checks.one_of("selections", selection, SELECTIONS)
    combinations = [(kernel, selection) for kernel in kernels for selection in selections]
    bar = tqdm(combinations, disable=not verbose, unit="cell")
    rows = []
    for kernel, selection in bar:
        bar.set_description(f"{parts.name}: {kernel}, {selection}")
        result = _Experiment(parts, size, kernel, selection, device).measure(list(seeds))
        rows.append({"data": parts.name, "kernel": kernel, "selection": selection, **result})
    return rows


def divide(name: str, source: Source, *, seed: int = 0, standardize: bool = True) -> Parts:
    """Three parts: 20 % of the rows for testing, 20 % of the others held out; the rest standardises the inputs."""
    others, test = split(source, 0.2, seed=seed)
    rows, heldout = split(others, 0.2, seed=seed + 1)
    moments = statistics(rows)
    if moments.classes is None:
        raise ValueError("source must have class indices as targets, got floats.")
    parts: list[Source] = [rows, heldout, test]
    if standardize:
        parts = [MappedSource(part, Standardize(moments.mean, moments.std)) for part in parts]
    return Parts(name, parts[0], parts[1], parts[2], num_classes=int(moments.classes.max()) + 1)


def synthetic_data(*, num_rows: int = 20_000, num_inputs: int = 40, num_useful: int = 10, seed: int = 0) -> Parts:
    """Normal inputs of which only the first few matter: three classes of equal size, by the terciles of

        s(x) = sum_i sin(1.5 x_i) + 0.5 sum_i x_i x_(i + 1)    over the `num_useful` first inputs.

    >>> synthetic_data(num_rows=1000).train.num_inputs
    40
    """
    X = torch.randn(num_rows, num_inputs, generator=Generator().manual_seed(seed))
    U = X[:, :num_useful]
    score = torch.sin(1.5 * U).sum(dim=1) + 0.5 * (U[:, :-1] * U[:, 1:]).sum(dim=1)
    y = torch.bucketize(score, score.quantile(torch.tensor([1 / 3, 2 / 3])))
    return divide(f"made, {num_useful} of {num_inputs} inputs matter", ArraySource(X, y), seed=seed)


@dataclass(frozen=True)
class _Fit:
    ce: float
    err: float
    model: FeatureModel
    selection: Selection | None


@dataclass(frozen=True)
class _Experiment:
    """One kernel with one selection on one data set."""

    parts: Parts
    size: Size
    kernel: str
    selection: str
    device: str

    def measure(self, seeds: Sequence[int]) -> Result:
        """Losses and errors over seeds, what was tuned, and the means that the papers plot.

        `survival` is the share of the features kept after each round of Algorithm 1 that are in the final map;
        `input_weights` is the relative weight of each input in the final map, with mean 1.
        """
        setting = self.tune()
        fits = [self.fit(setting, seed) for seed in seeds]
        tests = [evaluate(fit.model, self.parts.test, loss="softmax").summary() for fit in fits]
        survivals = [fit.selection.survival().tolist() for fit in fits if fit.selection and fit.selection.kept]
        weights = [self._input_weights(fit.model) for fit in fits]
        losses, errors = [fit.ce for fit in fits], [fit.err for fit in fits]
        return {
            "num_features": self.size.num_features,
            "tuned": tuple(setting),
            "ce": fmean(losses),
            "ce_spread": pstdev(losses),
            "err": fmean(errors),
            "err_spread": pstdev(errors),
            "test_ce": fmean(test["ce"] for test in tests),
            "test_err": fmean(test["err"] for test in tests),
            "survival": tuple(map(fmean, zip(*survivals, strict=True))),
            "input_weights": tuple(map(fmean, zip(*weights, strict=True))),
            "per_seed": {"ce": losses, "err": errors, "input_weights": weights}
            | ({"survival": survivals} if survivals else {}),
        }

    def tune(self) -> Setting:
        """The best value of each setting in turn, with the others fixed."""
        bandwidths, rates = self.size.bandwidths, self.size.rates
        losses: dict[Setting, float] = {}
        best = Setting(bandwidths[0], rates[0], rates[0])
        best = self._best([best._replace(bandwidth=value) for value in bandwidths], losses)
        if self.selection in (ALGORITHM_1, FOBOS):
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
        except FloatingPointError:  # diverged: the rate is too large for this cell
            return math.inf

    def fit(self, setting: Setting, seed: int) -> _Fit:
        """Draw or select the features, then train on them."""
        parts, size, generator = self.parts, self.size, Generator().manual_seed(seed)
        settings = SGDSettings(
            learning_rate=setting.rate, batch_size=size.batch_size, max_epochs=size.epochs, seed=seed
        )
        draw = self._draw(setting.bandwidth)
        chosen = self._select(draw, replace(settings, learning_rate=setting.selection_rate), generator)
        z = draw(size.num_features, generator) if chosen is None else chosen.feature_map
        model = FeatureModel(z, self._head(size.num_features, generator))
        train(model, parts.train, parts.heldout, settings, verbose=False)
        scores = evaluate(model, parts.heldout, loss="softmax").summary()  # the last epoch may have been undone
        return _Fit(scores["ce"], scores["err"], model, chosen)

    def _select(self, draw: DrawMap, settings: SGDSettings, generator: Generator) -> Selection | None:
        size = self.size
        common = (draw, self._head, self.parts.train, settings)
        match self.selection:
            case "none":
                return None
            case "algorithm 1":
                return select_features(
                    *common, num_features=size.num_features, rounds=size.rounds, rows_per_round=size.rows_per_round,
                    generator=generator, verbose=False,
                )  # fmt: skip
            case "sparse random features":
                return select_sparse(
                    draw, self.parts.train, loss="softmax", num_classes=self.parts.num_classes,
                    num_features=size.num_features, rounds=size.rounds, num_rows=size.rows_per_round,
                    generator=generator, verbose=False,
                )  # fmt: skip
            case _:
                num_drawn = size.num_features * (size.rounds + 1) // 4 * 2  # D (T + 1) / 2, even
                return select_by_fobos(
                    *common, num_features=size.num_features, num_drawn=num_drawn, num_rows=2 * size.rows_per_round,
                    generator=generator, verbose=False,
                )  # fmt: skip

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


# -- cells -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A kernel with a selection on a set, tuned at an effort and measured with some seeds."""

    data: str
    kernel: str
    selection: str
    effort: StudySize
    seeds: tuple[int, ...]


def cells(size: StudySize) -> list[Cell]:
    if size == "smoke":
        return [
            Cell("made, small", kernel, selection, size, (0,))
            for kernel in KERNELS
            for selection in (NONE, ALGORITHM_1)
        ]
    kinds = {"made": SELECTIONS} | dict.fromkeys(("covtype", "mnist", TIMIT, SPEECH), (NONE, ALGORITHM_1))
    return [
        Cell(name, kernel, selection, size, (0, 1, 2))
        for name, selections in kinds.items()
        for kernel in KERNELS
        for selection in selections
    ]


def prepare(context: Context) -> Callable[[Cell], Result]:
    loaded = lru_cache(maxsize=1)(lambda name, effort: _load(name, context, effort))

    def measure(cell: Cell) -> Result:
        parts, size = loaded(cell.data, cell.effort), SIZES[cell.effort]
        return _Experiment(parts, size, cell.kernel, cell.selection, context.device).measure(cell.seeds)

    return measure


def operations(cell: Cell) -> float:
    """Operations of a cell: one fit for each value tried and each seed measured, with its selection."""
    size = SIZES[cell.effort]
    speech = (50_000 if cell.effort == "small" else 250_000, 429, 300)
    made = {"made": (20_000, 40, 3), "made, small": (5_000, 20, 3)}
    rows, d, outputs = {**made, SPEECH: speech, **costs.SHAPES}[cell.data]
    N, D = 0.64 * min(rows, MAX_ROWS.get(cell.data, rows) if cell.effort == "small" else rows), size.num_features
    fits = len(size.bandwidths) + (1 if cell.selection == NONE else 2) * (len(size.rates) - 1) + len(cell.seeds)
    fit = costs.training(N, d, D, outputs, epochs=size.epochs)
    if cell.selection != NONE:
        fit += costs.training(min(N, size.rows_per_round), d, D, outputs, epochs=size.rounds)
    return costs.CELL + fits * fit


def _load(name: str, context: Context, effort: StudySize) -> Parts:
    data_dir = context.data_dir
    if name == "made":
        return synthetic_data()
    if name == TIMIT:
        return _timit(data_dir / TIMIT_FILE)
    if name == SPEECH:
        return _aligned_speech(context, effort)
    if name == "made, small":
        return synthetic_data(num_rows=5_000, num_inputs=20, num_useful=4)
    with np.load(data_dir / FILES[name]) as file:
        X, y = (file["X_raw"], file["y"]) if name == "covtype" else (file["X_train"], file["y_train"])
    chosen = np.random.default_rng(0).permutation(len(X))[: MAX_ROWS[name] if effort == "small" else None]
    _, classes = torch.as_tensor(y[chosen]).unique(return_inverse=True)
    return divide(name, ArraySource(X[chosen].astype(np.float32), classes))


def _timit(archive: Path) -> Parts:
    """Train, heldout and test share no speaker; classes are the phones of train, and frames of others are left out."""
    frames = timit_frames(archive)
    classes = np.unique(frames["train"][1])
    parts = []
    for X, y in (frames[part] for part in ("train", "heldout", "test")):
        known = np.isin(y, classes)
        parts.append(ArraySource(X[known].astype(np.float32), torch.as_tensor(np.searchsorted(classes, y[known]))))
    return Parts(TIMIT, parts[0], parts[1], parts[2], num_classes=len(classes))


def _aligned_speech(context: Context, effort: StudySize) -> Parts:
    """Frames of train; heldout is used twice, since frames of dev and test have no states."""
    from bochner.studies.speech import task_setup  # needs the extra

    experiment = task_setup(context)(SPEECH, effort)
    rows, heldout = experiment.train_rows, experiment.heldout_rows
    return Parts(SPEECH, rows, heldout, heldout, num_classes=experiment.aligned.num_states)


# -- plots and tables ------------------------------------------------------------------------------------------


def show_losses(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, group in sets_of(rows):
        figure, axes = new_axes(name, "", "heldout cross-entropy", x_scale="linear", y_scale="linear")
        for style, ((selection,), chosen) in enumerate(by(group, "selection").items()):
            x = [KERNELS.index(row["kernel"]) + 0.12 * (style - 1) for row in chosen]
            losses, spreads = [row["ce"] for row in chosen], [row["ce_spread"] for row in chosen]
            axes.errorbar(x, losses, yerr=spreads, fmt=MARKERS[style], color=COLORS[style], capsize=3, label=selection)
        axes.set_xticks(range(len(KERNELS)), KERNELS)
        drawn.append((finish(figure, axes), f"{name}: heldout cross-entropy by kernel and selection."))
    page.figures(drawn)
    names = ("data", "kernel", "selection", "num_features", "ce", "ce_spread")
    page.table(
        ["set", "kernel", "selection", "D", "heldout CE", "±", "change", "heldout error", "±", "test CE", "test error",
         "tuned: bandwidth, rates"],
        [[*(row[name] for name in names), _change(row, rows), row["err"], row["err_spread"], row["test_ce"],
          row["test_err"], ", ".join(f"{value:g}" for value in row["tuned"])] for row in rows],
    )  # fmt: skip


def show_survival(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, group in _selected(rows):
        figure, axes = new_axes(name, "round t", "share", x_scale="linear", y_scale="linear")
        for style, row in enumerate(group):
            look = {"color": COLORS[style], "marker": MARKERS[style], "markersize": 3, "label": row["kernel"]}
            axes.plot(range(1, len(row["survival"]) + 1), row["survival"], **look)
        chance = chance_survival(len(group[0]["survival"]) + 1).tolist()
        axes.plot(range(1, len(chance) + 1), chance, color="gray", linestyle=":", label="by chance")
        drawn.append((finish(figure, axes), f"{name}: of the features kept after round t, the share in the final map."))
    page.figures(drawn)


def show_inputs(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for name, group in _selected(rows):
        figure, axes = new_axes(name, "input", "relative weight", x_scale="linear", y_scale="linear")
        for style, row in enumerate(group):
            inputs = range(1, len(row["input_weights"]) + 1)
            axes.plot(inputs, row["input_weights"], color=COLORS[style], linewidth=1, label=row["kernel"])
        drawn.append((finish(figure, axes), f"{name}: relative weight of each input after Algorithm 1; 1 is the mean."))
    page.figures(drawn)


def _selected(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    return sets_of([row for row in rows if row["selection"] == ALGORITHM_1])


def _change(row: Row, rows: Sequence[Row]) -> str:
    peers = [
        peer["ce"]
        for peer in rows
        if (peer["data"], peer["kernel"], peer["selection"]) == (row["data"], row["kernel"], NONE)
    ]
    return f"{row['ce'] / peers[0] - 1:+.1%}" if peers and row["selection"] != NONE else "-"


# -- findings --------------------------------------------------------------------------------------------------


def gains(rows: Sequence[Row], selection: str = ALGORITHM_1) -> dict[str, dict[str, float]]:
    """By data set and kernel, the share by which a selection lowers the heldout cross-entropy."""
    by_set: dict[str, dict[str, float]] = {}
    for name, group in sets_of(rows):
        losses = {(row["kernel"], row["selection"]): row["ce"] for row in group}
        by_set[name] = {
            kernel: 1 - losses[kernel, selection] / losses[kernel, NONE]
            for kernel in KERNELS
            if (kernel, selection) in losses and (kernel, NONE) in losses
        }
    return by_set


def _change_of(kernel: str) -> SetValues:
    return lambda rows: {name: -kernels[kernel] for name, kernels in gains(rows).items() if kernel in kernels}


def _gaussian_gain(rows: Rows) -> dict[str, float | None]:
    complete = {name: kernels for name, kernels in gains(rows).items() if len(kernels) == len(KERNELS)}
    return {name: kernels["gaussian"] - min(kernels[k] for k in KERNELS[:2]) for name, kernels in complete.items()}


def _fobos_gain(rows: Rows) -> dict[str, float | None]:
    ours = gains(rows)
    return {
        f"{name} ({kernel})": gain - ours[name][kernel]
        for name, kernels in gains(rows, FOBOS).items()
        for kernel, gain in kernels.items()
        if kernel in ours.get(name, {})
    }


def _selected_by_seed(rows: Rows, name: str) -> list[tuple[str, list[Row]]]:
    """The rows of Algorithm 1 that have `name` for each seed, without which there is no interval (absent in 0.1)."""
    return _selected([row for row in rows if name in row.get("per_seed", {})])


def _survival(rows: Rows) -> dict[str, float | None]:
    """The minimum over kernels, over the first third of the rounds."""
    values: dict[str, float | None] = {}
    for name, group in _selected_by_seed(rows, "survival"):
        third = max(1, len(group[0]["survival"]) // 3)
        chance = float(chance_survival(len(group[0]["survival"]) + 1)[:third].sum())
        values[name] = min(sum(row["survival"][:third]) for row in group) / chance
    return values


def _largest_weight(rows: Rows) -> dict[str, float | None]:
    return {
        name: max((max(row["input_weights"]) for row in group if row["kernel"] == "laplacian"), default=None)
        for name, group in _selected_by_seed(rows, "input_weights")
    }


def _study(name: str, title: str, source: str, show: Callable[[Page, Sequence[Row]], Any]) -> Study:
    return Study(
        name, title, source, PROTOCOL, "feature_selection", Cell, cells, prepare, show, FILES, operations=operations
    )


MAY = "May 2018, Chapter 5"
# fmt: off
STUDIES = (
    _study("feature-selection", "The gain by feature selection, by kernel", f"{MAY}; May et al. 2019, Section 5",
           show_losses),
    _study("survival-rates", "Survival of selected features against chance", f"{MAY}, Figure 5.2", show_survival),
    _study("input-weights", "Relative weights of inputs after selection", f"{MAY}, Figure 5.3", show_inputs),
)
FINDINGS: tuple[Finding, ...] = (
    finding("Feature selection lowers the loss of the Laplacian kernel.", MAY, "feature-selection",
            _change_of("laplacian"), "relative change of the heldout cross-entropy", below=0),
    finding("Feature selection lowers the loss of the sparse Gaussian kernel.", MAY, "feature-selection",
            _change_of("sparse-gaussian"), "relative change of the heldout cross-entropy", below=0),
    finding("Of the three kernels the Gaussian gains the least.", MAY, "feature-selection",
            _gaussian_gain, "gain of the Gaussian minus the smaller of the other gains", below=0),
    finding("FOBOS with an l1/l2 penalty gains less than Algorithm 1.", f"{MAY}, Section 5.1", "feature-selection",
            _fobos_gain, "gain, FOBOS minus Algorithm 1", below=0),
    finding("Features selected early survive far more often than by chance.", MAY, "survival-rates",
            _survival, "survival / chance survival, first third of the rounds, minimum over kernels", above=2),
    finding("Selection for the Laplacian kernel favours some inputs.", MAY, "input-weights",
            _largest_weight, "largest relative weight of an input, Laplacian", above=1.5),
)
