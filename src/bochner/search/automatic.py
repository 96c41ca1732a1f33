"""The search behind `KernelClassifier()`: input transformation, kernel, bandwidth, metric and penalty from data.

Every trial is kernel least squares on a random part of the rows, solved exactly and scored on other rows. Trials start
on few rows with all transformations and kernels; the best are continued on more rows, get a metric on their inputs, and
are compared again. The chosen model is then fitted on all rows by `bochner.search.fit`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from bochner.data.blocks import seeded
from bochner.kernels import PowerExponential
from bochner.models.calibration import fit_calibration
from bochner.models.inputs import TRANSFORMS, InputTransform
from bochner.ops import BinaryColumns, power_sums

# Penalties in half decades and bandwidths in factors of 2 of the median distance: finer steps change scores by less
# than their standard error.
PENALTIES = [10 ** (power / 2) for power in range(-10, 4)]
FACTORS = [2.0**power for power in range(-2, 5)]
FIRST_PENALTIES, FIRST_FACTORS = (5, 7, 9, 11), (1, 3)  # indices that the first trials use
# Exponent and norm of the kernels. The sum of |x_i - y_i| or |x_i - y_i|^1.5 in the exponent makes a product over the
# columns, which suits functions of few columns at a time; the Euclidean norm suits those of combinations of columns.
KERNELS = ((1.0, 1.0), (0.7, 1.0), (1.5, 1.5), (0.7, 2.0), (1.0, 2.0), (1.5, 2.0), (2.0, 2.0))
# Maps of the inputs from the average gradient outer product M: M^power, or its diagonal to that power. A product over
# columns keeps its form under a diagonal map only.
FULL_METRICS = (("full", 0.5), ("full", 0.25), ("diagonal", 0.5))
DIAGONAL_METRICS = (("diagonal", 0.5), ("diagonal", 0.25))
# On a CPU penalties within this factor of one another share a factorisation, and are solved for to this residual.
MAX_SHIFT, SHIFT_TOLERANCE, MAX_SHIFT_STEPS = 10.5, 3e-4, 20
GRADIENT_ROWS = 500  # rows at which gradients are averaged
# Landmarks of models that only give a metric, from more than three times as many rows. On 20,000 rows of 50 columns and
# 10 classes, a full metric from 16,000 rows and 2,000 landmarks has a loss of 0.555 in 1.7 s per round, an exact one
# from 9,000 rows 0.550 in 6.6 s, and one from 3,000 rows 0.616.
METRIC_LANDMARKS = 2000
MAX_PROBES = 8  # more outputs are combined by random signs
CALIBRATION_ROWS = 2000  # validation rows that predictions of classes are calibrated on
MIN_SCALE = 1e-4  # of a column in a diagonal map, relative to the largest: no column is dropped permanently
MEDIAN_ROWS = 500
MAX_GEOMETRIES = 8  # arrays of distances that are kept: 500 MB with 2,000 rows and three folds
WIDE_COLUMNS = 50  # with more columns that are not two-valued, |x_i - y_i|^1.5 takes longer than everything else
# Standard errors of the difference on the same rows: trials that are farther behind the best are dropped. On 12 tables,
# the order of two trials changed with twice the rows for differences up to 2.4 standard errors.
FAR_BEHIND = 3
NUM_FOLDS = 5
# Relative difference of losses below which the larger of two penalties is preferred. Where the loss hardly depends on
# the penalty, the search would otherwise walk to the least one, which needs float64.
FLAT = 1e-3
REFINED_SHARE = 3  # bandwidths and penalties are refined on this share of the folds
REPEATED_ROWS = 1000  # below, cross-validation is repeated with other folds


@dataclass(frozen=True)
class Preset:
    """The effort of a search: training rows of the trials of each stage, and how many trials are continued."""

    first_rows: int
    middle_rows: int
    last_rows: int
    final_rows: int
    num_middle: int
    num_last: int
    max_rounds: int
    transforms: tuple[str, ...] = tuple(TRANSFORMS)
    kernels: tuple[tuple[float, float], ...] = KERNELS
    max_folds: int = 10
    holdout_rows: int = 4000  # above, a third of the rows, or some thousands, is held out once
    members: int = 1
    metric_rows: int = 0  # with half of them or more to train on, the final trials learn their metrics from them


PRESETS = {
    "fast": Preset(
        first_rows=500,
        middle_rows=1000,
        last_rows=1000,
        final_rows=0,
        num_middle=2,
        num_last=1,
        max_rounds=1,
        transforms=("standard", "normal"),
        kernels=((1.0, 1.0), (1.5, 1.5), (1.5, 2.0)),
        max_folds=3,
        holdout_rows=1500,
    ),
    "default": Preset(700, 2000, 3000, 6000, 5, 3, 4, members=2, metric_rows=17000),
    "best": Preset(1500, 3000, 6000, 12000, 8, 6, 6, members=4, metric_rows=40000),
}
GPU_ROWS = 4  # a GPU handles this many times the rows in less time


class SearchRows(NamedTuple):
    """Rows in random order: X [n, d], targets Y [n, t] and weights [n]; `binary` [d] marks two-valued columns."""

    X: Tensor
    Y: Tensor
    weight: Tensor
    binary: Tensor


class Fold(NamedTuple):
    train: Tensor
    validation: Tensor


@dataclass(frozen=True)
class Recipe:
    """What a trial fits: a transformation, a kernel, and the bandwidth factor and penalty of each metric round.

    `path` holds one (factor, penalty) per round of metric learning and the last for the model itself.
    `metric_exponent` is the exponent of the kernels that the metric was learned with, None where it is `exponent`.
    """

    transform: str
    exponent: float
    norm: float
    metric: str = "none"  # "full" or "diagonal"
    power: float = 0.0
    path: tuple[tuple[float, float], ...] = ()
    metric_exponent: float | None = None

    @property
    def rounds(self) -> int:
        return max(0, len(self.path) - 1)

    @property
    def complexity(self) -> int:
        """The complexity that the one-standard-error rule minimises."""
        return {"none": 0, "diagonal": 1, "full": 2}[self.metric]

    def __str__(self) -> str:
        kernel = f"{self.transform}, p={self.exponent:g}, q={self.norm:g}"
        return kernel if self.metric == "none" else f"{kernel}, {self.metric} {self.power:g} x{self.rounds}"


@dataclass(frozen=True, eq=False)
class Trial:
    """A recipe with its validation loss on `rows` training rows; predictions [n, t] for the rows `validated` [n].

    For each fold, `maps` are the linear maps of the inputs, `earlier` those before the last round of metric learning,
    and `coefficients` [rows, t] the model.
    """

    recipe: Recipe
    rows: int
    loss: float
    losses: Tensor = field(repr=False)
    validated: Tensor = field(repr=False)
    predictions: Tensor = field(repr=False)
    maps: tuple[Tensor | None, ...] = field(repr=False)
    coefficients: tuple[Tensor | None, ...] = field(repr=False)
    earlier: tuple[Tensor | None, ...] = field(repr=False)

    @property
    def error(self) -> float:
        """The standard error of the loss."""
        return float(self.losses.std(correction=0)) / max(1, len(self.validated.unique())) ** 0.5

    def record(self) -> dict[str, Any]:
        factor, penalty = self.recipe.path[-1]
        fields = asdict(self.recipe)
        del fields["path"], fields["metric_exponent"]
        rounds = self.recipe.rounds
        chosen = {"rounds": rounds, "factor": factor, "penalty": penalty, "rows": self.rows}
        chosen["validated"] = len(self.validated)
        return {**fields, **chosen, "loss": self.loss, "error": self.error}


@dataclass(frozen=True)
class Fixed:
    """Settings of the user that the search keeps; None is searched."""

    transform: str | None = None
    kernels: tuple[tuple[float, float], ...] | None = None
    factor: float | None = None
    bandwidth: float | None = None  # a number instead of a multiple of the median distance
    penalty: float | None = None
    metric: bool | None = None  # False: none; True: one must be learned


class Criterion(NamedTuple):
    """The criterion of trials: losses of rows [n] whose weighted mean is the loss, or one number for all rows.

    Both are functions of predictions [n, t], targets [n, t] and weights [n].
    """

    name: str
    rows: Callable[[Tensor, Tensor, Tensor], Tensor]
    overall: Callable[[Tensor, Tensor, Tensor], float] | None = None


def squared_losses(predictions: Tensor, Y: Tensor, weight: Tensor) -> Tensor:
    return (predictions - Y).square().sum(dim=1)


def brier_losses(predictions: Tensor, Y: Tensor, weight: Tensor) -> Tensor:
    """Squared errors of the probabilities that the predictions for one-hot rows, or 0 and 1, are calibrated to.

    The squared error of the predictions themselves prefers models whose predictions are spread over [0, 1], even if
    others, which are closer to the mean, order the rows better: after calibration these have the better probabilities.
    """
    if not bool(predictions.isfinite().all()):
        return predictions.new_full((len(Y),), math.inf)
    labels = Y.argmax(dim=1) if Y.shape[1] > 1 else (Y[:, 0] > 0.5).long()
    few = slice(CALIBRATION_ROWS)
    slope, offset = fit_calibration(predictions[few], labels[few], weight[few])
    logits = slope * predictions + offset.to(predictions)
    p = logits.softmax(dim=1) if Y.shape[1] > 1 else logits.sigmoid()
    return (p - Y).square().sum(dim=1)


SQUARED = Criterion("squared error", squared_losses)
BRIER = Criterion("squared error of probabilities", brier_losses)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The trials of a search, the best of which are `chosen`, with the transformation and kernel of each.

    `importances` [d] are shares of the inputs in the predictions of the best model, see `_Search.importances`.
    """

    chosen: list[Trial]
    transforms: dict[str, InputTransform | None]
    kernels: list[PowerExponential]
    trials: list[Trial]
    rows: SearchRows
    importances: Tensor


def search_model(
    rows: SearchRows,
    preset: Preset,
    *,
    fixed: Fixed = Fixed(),  # noqa: B008  (frozen)
    validation: int | None = None,
    criterion: Criterion = SQUARED,
    time_limit: float | None = None,
    seed: int = 0,
    verbose: bool | None = None,
    labels: Tensor | None = None,
) -> SearchResult:
    """Search transformation, kernel, bandwidth, metric and penalty for `rows`.

    `validation` is the number of last rows to validate on, if the user gave them; otherwise rows are held out at
    random, or by cross-validation if there are few. `labels` [n] are classes to stratify by. `time_limit` in seconds
    ends the search early; without one, the same rows, preset and seed give the same result.
    """
    folds = _make_folds(len(rows.X), preset, validation, labels, seeded(seed, "folds"))
    search = _Search(rows, preset, fixed, criterion, seed, time_limit, verbose, num_train=len(folds[0].train))
    with search.bar:
        trials = search.first(
            [_shortened(fold, preset.first_rows) for fold in folds[: 2 if len(rows.X) <= 2 * REPEATED_ROWS else 1]]
        )
        middle_folds = [_shortened(fold, preset.middle_rows) for fold in folds]
        trials = search.middle(trials, middle_folds)
        if not search.late:
            trials = search.metrics(trials, middle_folds)
        if preset.last_rows > preset.middle_rows and len(folds[0].train) > preset.middle_rows:
            trials = search.last(trials, [_shortened(fold, preset.last_rows) for fold in folds])
        if len(folds) == 1 and preset.last_rows * 1.5 < min(preset.final_rows, len(folds[0].train)):
            trials = search.final(trials, folds[0])
    chosen = search.choose(trials)
    kernels = [search.kernel(trial, folds) for trial in chosen]
    importances = search.importances(chosen[0], _shortened(folds[0], preset.middle_rows))
    return SearchResult(chosen, search.transforms, kernels, search.trials, rows, importances)


class _Search:
    def __init__(
        self,
        rows: SearchRows,
        preset: Preset,
        fixed: Fixed,
        criterion: Criterion,
        seed: int,
        time_limit: float | None,
        verbose: bool | None,
        *,
        num_train: int = 0,
    ) -> None:
        self.rows, self.preset, self.fixed, self.criterion = rows, preset, fixed, criterion
        self.has_many_rows = 0 < preset.metric_rows <= 2 * num_train
        self.deadline = math.inf if time_limit is None else time.monotonic() + time_limit
        self.factor = 1.0 if fixed.bandwidth is not None else fixed.factor
        self.generator = seeded(seed, "probes")
        self.scratch = _Scratch(rows.X)
        self.trials: list[Trial] = []
        self._geometries: dict[tuple[Any, ...], list[_Geometry]] = {}
        names = preset.transforms if fixed.transform is None else (fixed.transform,)
        if fixed.transform is None and bool(rows.binary.all()):
            names = ("standard",)  # which all transformations are for two-valued columns
        self.transforms = {
            name: None if name == "none" else InputTransform.fit(name, rows.X, rows.binary).to(rows.X.device)
            for name in names
        }
        self.inputs = {
            name: rows.X if transform is None else transform(rows.X) for name, transform in self.transforms.items()
        }
        self.bar = tqdm(desc="search", unit=" trials", disable=None if verbose is None else not verbose, leave=False)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline and len(self.trials) > 0

    # -- stages ----------------------------------------------------------------------------------------------------

    def first(self, folds: Sequence[Fold]) -> list[Trial]:
        """All transformations and kernels on few rows, at two bandwidths and all decades of penalties."""
        best: list[Trial] = []
        kernels = self.fixed.kernels or self.preset.kernels
        for name in self.transforms:
            wide = int((~self.rows.binary).sum()) > WIDE_COLUMNS
            for norm in dict.fromkeys(norm for _, norm in kernels):
                if wide and norm not in (1, 2) and self.fixed.kernels is None:
                    continue
                geometry = self._geometry(name, norm, [None] * len(folds), folds)
                for exponent in [p for p, q in kernels if q == norm]:
                    if self.late:
                        return best
                    recipe = Recipe(name, exponent, norm)
                    best.append(self._best(recipe, geometry, folds, self._factors(FIRST_FACTORS), FIRST_PENALTIES))
        return best

    def middle(self, trials: list[Trial], folds: Sequence[Fold]) -> list[Trial]:
        """The best on more rows, with bandwidth and penalty refined, for product and Euclidean kernels."""
        ranked = sorted(trials, key=lambda trial: trial.loss)
        share = self.preset.num_middle // 3
        groups = ([t for t in ranked if t.recipe.norm < 2], [t for t in ranked if t.recipe.norm == 2])
        selected = {id(t): t for group in groups for t in group[:share]}
        for trial in ranked:
            if len(selected) < self.preset.num_middle:
                selected.setdefault(id(trial), trial)
        return [self._refined(trial, folds) for trial in selected.values() if not self.late] or trials

    def metrics(self, trials: list[Trial], folds: Sequence[Fold]) -> list[Trial]:
        """Rounds of metric learning from the best trial of each norm."""
        if self.fixed.metric is False or self.preset.max_rounds == 0:
            return trials
        ranked = sorted(trials, key=lambda trial: trial.loss)
        starts = [next((t for t in ranked if (t.recipe.norm == 2) == euclidean), None) for euclidean in (False, True)]
        grown = list(trials)
        for start in starts:
            if start is None:
                continue
            forms = FULL_METRICS if start.recipe.norm == 2 else DIAGONAL_METRICS
            products = self._products(start, folds)
            opened = [self._next_round(start, *form, products, folds) for form in forms if not self.late]
            rounds = [trial for trial in opened if trial is not None]
            grown += rounds
            last = min(rounds, key=lambda trial: trial.loss, default=start)
            previous = start
            while last.loss < previous.loss and last.recipe.rounds < self.preset.max_rounds and not self.late:
                recipe = last.recipe
                following = self._next_round(last, recipe.metric, recipe.power, self._products(last, folds), folds)
                if following is None:
                    break
                grown.append(following)
                previous, last = last, following
            grown += self._exponents(min(last, previous, key=lambda trial: trial.loss), folds)
        learned = [trial for trial in grown if trial.recipe.rounds > 0]
        return learned if self.fixed.metric and learned else grown

    def _exponents(self, learned: Trial, folds: Sequence[Fold]) -> list[Trial]:
        """Bandwidth and penalty once more under the metric of a trial, then other exponents as long as they improve.

        What is best for many irrelevant columns is seldom the best for the few that a metric leaves.
        """
        recipe, maps = learned.recipe, learned.maps
        if recipe.rounds < 2 or self.late:
            return []
        exponents = sorted(p for p, norm in self.fixed.kernels or self.preset.kernels if norm == recipe.norm)
        place = exponents.index(recipe.exponent)
        geometry = self._kept_geometry(recipe.transform, recipe.norm, maps, folds)
        start = self._descend(recipe, geometry, folds, recipe.path[-1], max_factors=3)
        tried = [start]
        for others in (exponents[place + 1 :], exponents[:place][::-1]):
            best = start
            for exponent in others:
                if self.late:
                    return tried
                other = replace(best.recipe, exponent=exponent, metric_exponent=recipe.exponent)
                tried.append(self._descend(other, geometry, folds, best.recipe.path[-1], max_factors=3))
                if not tried[-1].loss < best.loss:
                    break
                best = tried[-1]
            if best is not start:
                break
        return tried

    def last(self, trials: list[Trial], folds: Sequence[Fold]) -> list[Trial]:
        """The best trial of each kind on many rows."""
        self._geometries.clear()
        if not self.has_many_rows:
            trials = self._contenders(trials)
        kinds: dict[tuple[Any, ...], Trial] = {}
        for trial in sorted(trials, key=lambda trial: trial.loss):
            recipe = trial.recipe
            exponent = None if recipe.rounds else recipe.exponent  # under one metric the best exponent is enough
            kinds.setdefault((recipe.transform, exponent, recipe.norm, recipe.metric), trial)
        ranked = list(kinds.values())
        selected = ranked[: self.preset.num_last]
        for euclidean in (False, True):  # with more rows the other norm may win
            if all((trial.recipe.norm == 2) != euclidean for trial in selected):
                selected += [trial for trial in ranked if (trial.recipe.norm == 2) == euclidean][:1]
        again = [self._repeated(trial, folds) for trial in selected if not self.late]
        return [trial for trial in again if trial is not None] or trials

    def final(self, trials: list[Trial], fold: Fold) -> list[Trial]:
        """The best trial of each norm on most rows, under the metric it has or one that is learned from still more.

        A metric of combinations of columns gains the most from more rows: with many, it is not left out before.
        """
        ranked = sorted(trials, key=lambda trial: trial.loss) if self.has_many_rows else self._contenders(trials)
        groups = ([t for t in ranked if (t.recipe.norm == 2) == euclidean] for euclidean in (False, True))
        short = _shortened(fold, self.preset.final_rows)
        finals: list[Trial] = []
        for trial in [group[0] for group in groups if group]:
            if self.late:
                break
            recipe, maps = trial.recipe, trial.maps
            if self.has_many_rows and recipe.rounds:
                linear = self._learned_map(recipe, fold.train[: self.preset.metric_rows])
                maps = trial.maps if linear is None else (linear,)
            geometry = self._geometry(recipe.transform, recipe.norm, maps, [short])
            finals.append(self._best(recipe, geometry, [short], [recipe.path[-1][0]], self._near(recipe.path[-1][1])))
        return finals or trials

    def choose(self, trials: list[Trial]) -> list[Trial]:
        """The simplest trial within one standard error of the best; then others that an ensemble gains from.

        The standard error is that of the difference of losses on the same rows.
        """
        rows = max(trial.rows for trial in trials)
        final = sorted((trial for trial in trials if trial.rows == rows), key=lambda trial: trial.loss)
        best = least = final[0]
        for trial in final[1:]:
            if trial.recipe.complexity >= best.recipe.complexity or self.criterion.overall is not None:
                continue
            gap = trial.losses - least.losses
            # repeated cross-validation has each row twice
            if float(gap.mean()) < float(gap.std(correction=0)) / len(trial.validated.unique()) ** 0.5:
                best = trial
        return _ensemble(best, final, self.rows, self.preset.members, self.criterion)

    def _contenders(self, trials: list[Trial]) -> list[Trial]:
        """Trials in the order of their losses without those that are far behind the best on the same rows."""
        ranked = sorted(trials, key=lambda trial: trial.loss)
        best, error = ranked[0], len(ranked[0].validated.unique()) ** -0.5
        if self.criterion.overall is not None:
            return ranked
        gaps = [trial.losses - best.losses for trial in ranked]
        are_far = [float(gap.mean()) > FAR_BEHIND * error * float(gap.std(correction=0)) for gap in gaps]
        return [trial for trial, is_far in zip(ranked, are_far, strict=True) if not is_far]

    # -- trials ----------------------------------------------------------------------------------------------------

    def kernel(self, trial: Trial, folds: Sequence[Fold]) -> PowerExponential:
        """The kernel of a trial on transformed inputs.

        Where folds were several, the last round of its metric is learned from all rows.
        """
        recipe = trial.recipe
        Z = self.inputs[recipe.transform]
        if len(folds) == 1:
            linear, train = trial.maps[0], folds[0].train[:MEDIAN_ROWS]
        else:
            train = torch.arange(len(Z), device=Z.device)
            linear = self._learned_map(recipe, train, trial.earlier[0], first_round=-2)
        A = Z[train[:MEDIAN_ROWS]] if linear is None else _mapped(Z[train[:MEDIAN_ROWS]], linear)
        median = _median(power_sums(A, A, recipe.norm), recipe.norm)
        scale = linear if linear is not None and linear.ndim == 1 else None
        metric = None if linear is None or linear.ndim == 1 else (linear @ linear.mT).double().cpu()
        return PowerExponential(
            exponent=recipe.exponent,
            norm=recipe.norm,
            bandwidth=self.fixed.bandwidth or max(recipe.path[-1][0] * median, 1e-12),
            scale=scale,
            metric=metric,
        )

    def importances(self, trial: Trial, fold: Fold) -> Tensor:
        """Shares [d] of the inputs in the effects |df/dx_i| |x_i - mean_i| of a trial's model, averaged over rows."""
        recipe, d = trial.recipe, self.rows.X.shape[1]
        Z = self.inputs[recipe.transform]
        geometry = self._fold_geometry(recipe.transform, recipe.norm, trial.maps[0], Fold(fold.train, fold.train[:0]))
        factor, penalty = recipe.path[-1]
        coefficients = geometry.solve(recipe.exponent, factor, [penalty])[0]
        if coefficients is None:
            return torch.full((d,), 1 / d, dtype=torch.float64)
        bandwidth = geometry.bandwidth(factor)
        slopes = geometry.slopes(self._probed(coefficients.to(geometry.Y)), recipe.exponent, bandwidth)
        effects = (slopes * (Z[fold.train[: len(slopes)]] - Z.mean(dim=0)).abs()).double().mean(dim=0)
        transform = self.transforms[recipe.transform]
        sources = torch.arange(d, device=effects.device) if transform is None else transform.sources
        shares = effects.new_zeros(d).index_add_(0, sources.to(effects.device), effects)
        total = float(shares.sum())
        return (shares / total).cpu() if total > 0 else torch.full((d,), 1 / d, dtype=torch.float64)

    def _learned_map(
        self, recipe: Recipe, train: Tensor, linear: Tensor | None = None, *, first_round: int = 0
    ) -> Tensor | None:
        """The map of the inputs after the metric rounds of a recipe on the rows `train`, the first from `linear`."""
        exponent = recipe.metric_exponent or recipe.exponent
        for factor, penalty in recipe.path[first_round:-1]:
            landmarks = train[:METRIC_LANDMARKS] if len(train) > 3 * METRIC_LANDMARKS else train
            geometry = self._fold_geometry(recipe.transform, recipe.norm, linear, Fold(landmarks, train[:0]))
            if len(landmarks) < len(train):
                Z = self.inputs[recipe.transform][train]
                Y, weight = self.rows.Y[train], self.rows.weight[train]
                coefficients = geometry.solve_on_landmarks(exponent, factor, penalty, Z, Y, weight)
            else:
                coefficients = geometry.solve(exponent, factor, [penalty])[0]
            product = self._product(geometry, coefficients, exponent, factor)
            if product is None:
                break
            linear = _power_map(product, recipe.metric, recipe.power, len(landmarks))
        return linear

    def _product(
        self, geometry: _Geometry, coefficients: Tensor | None, exponent: float, factor: float
    ) -> Tensor | None:
        if coefficients is None:
            return None
        probed = self._probed(coefficients.to(geometry.Y))
        return geometry.gradient_product(probed, exponent, geometry.bandwidth(factor))

    def _products(self, trial: Trial, folds: Sequence[Fold]) -> list[Tensor | None]:
        """The average gradient outer product of the model of a trial, for each fold."""
        recipe = trial.recipe
        parts = self._kept_geometry(recipe.transform, recipe.norm, trial.maps, folds)
        return [
            self._product(part, coefficients, recipe.exponent, recipe.path[-1][0])
            for part, coefficients in zip(parts, trial.coefficients, strict=True)
        ]

    def _probed(self, coefficients: Tensor) -> Tensor:
        """At most MAX_PROBES combinations of the outputs whose gradients have the same mean outer product."""
        t = coefficients.shape[1]
        if t <= MAX_PROBES:
            return coefficients
        signs = torch.randint(2, (t, MAX_PROBES), generator=self.generator) * 2 - 1
        return coefficients @ signs.to(coefficients) / MAX_PROBES**0.5

    def _geometry(
        self, transform: str, norm: float, maps: Sequence[Tensor | None], folds: Sequence[Fold]
    ) -> list[_Geometry]:
        return [self._fold_geometry(transform, norm, linear, fold) for fold, linear in zip(folds, maps, strict=True)]

    def _kept_geometry(
        self, transform: str, norm: float, maps: Sequence[Tensor | None], folds: Sequence[Fold]
    ) -> list[_Geometry]:
        """The same with a cache of the last few: kernels share one, and so do a trial and the metric from it."""
        key = (transform, norm, *map(id, maps))
        if key not in self._geometries:
            if len(self._geometries) == MAX_GEOMETRIES:
                del self._geometries[next(iter(self._geometries))]
            self._geometries[key] = self._geometry(transform, norm, maps, folds)
        return self._geometries[key]

    def _fold_geometry(self, transform: str, norm: float, linear: Tensor | None, fold: Fold) -> _Geometry:
        return _Geometry(self.inputs[transform], self.rows, fold, linear, norm, self.scratch, self.fixed.bandwidth)

    def _factors(self, indices: Sequence[int]) -> list[float]:
        return [FACTORS[index] for index in indices] if self.factor is None else [self.factor]

    def _best(
        self,
        recipe: Recipe,
        geometry: Sequence[_Geometry],
        folds: Sequence[Fold],
        factors: Sequence[float],
        penalties: Sequence[int],
    ) -> Trial:
        """The trial with the lowest loss over bandwidth factors and penalties (indices).

        Of penalties whose losses are equal up to FLAT, the largest.
        """
        values = [PENALTIES[index] for index in penalties] if self.fixed.penalty is None else [self.fixed.penalty]
        best: Trial | None = None
        for factor in factors:
            trials = list(self._trials(recipe, geometry, folds, factor, sorted(values, reverse=True)))
            least = min(trial.loss for trial in trials)
            largest = next(trial for trial in trials if trial.loss <= least + FLAT * abs(least))
            if best is None or largest.loss < best.loss:
                best = largest
        assert best is not None
        self.trials.append(best)
        self.bar.set_postfix_str(f"{recipe}: {best.loss:.4g}", refresh=False)
        self.bar.update()
        return best

    def _trials(
        self,
        recipe: Recipe,
        geometry: Sequence[_Geometry],
        folds: Sequence[Fold],
        factor: float,
        penalties: Sequence[float],
    ) -> Iterator[Trial]:
        solutions = [part.solve(recipe.exponent, factor, penalties) for part in geometry]
        solved = [part.predict(recipe.exponent, factor, a) for part, a in zip(geometry, solutions, strict=True)]
        validated = torch.cat([fold.validation for fold in folds])
        Y, weight = self.rows.Y[validated], self.rows.weight[validated]
        for index, penalty in enumerate(penalties):
            predictions = torch.cat([part[index] for part in solved])
            losses = self.criterion.rows(predictions, Y, weight) * weight / weight.mean()
            loss = float(losses.mean())
            if self.criterion.overall is not None and math.isfinite(loss):
                loss = self.criterion.overall(predictions, Y, weight)
            path = (*recipe.path[:-1], (factor, penalty))
            yield Trial(
                replace(recipe, path=path),
                len(folds[0].train),
                loss if math.isfinite(loss) else math.inf,
                losses,
                validated,
                predictions,
                tuple(part.linear for part in geometry),
                tuple(part[index] for part in solutions),
                tuple(part.earlier for part in geometry),
            )

    def _refined(self, trial: Trial, folds: Sequence[Fold]) -> Trial:
        """Bandwidth and penalty improved step by step from those of `trial`, on `folds`."""
        recipe = replace(trial.recipe, path=())
        geometry = self._kept_geometry(recipe.transform, recipe.norm, [None] * len(folds), folds)
        return self._descend(recipe, geometry, folds, trial.recipe.path[-1], max_factors=3)

    def _descend(
        self,
        recipe: Recipe,
        geometry: Sequence[_Geometry],
        folds: Sequence[Fold],
        start: tuple[float, float],
        *,
        max_factors: int,
    ) -> Trial:
        """Bandwidth and penalty improved from `start` on some of the folds; the trial with these on all folds."""
        few = folds[: -(-len(folds) // REFINED_SHARE)]
        parts = geometry[: len(few)]
        factor, penalty = start
        best = self._along_penalties(recipe, parts, few, [factor], penalty)
        tried = {factor}
        while self.factor is None and len(tried) < max_factors:
            factor, penalty = best.recipe.path[-1]
            new = [f for f in (factor / 2, factor * 2) if FACTORS[0] <= f <= FACTORS[-1] and f not in tried]
            if not new:
                break
            tried |= set(new)
            moved = self._along_penalties(recipe, parts, few, new, penalty)
            if not moved.loss < best.loss:
                break
            best = moved
        factor, penalty = best.recipe.path[-1]
        finer = self._best(recipe, geometry, folds, [factor], self._near(penalty))
        return min(best, finer, key=lambda trial: trial.loss) if len(few) == len(folds) else finer

    def _along_penalties(
        self,
        recipe: Recipe,
        geometry: Sequence[_Geometry],
        folds: Sequence[Fold],
        factors: Sequence[float],
        penalty: float,
    ) -> Trial:
        """The best trial among decades of penalties around `penalty`, and beyond them as long as the loss falls.

        A metric that leaves few columns turns what was overfitting of the others into noise: the best penalty under it
        may be some decades larger than without.
        """
        tried = self._near(penalty, 2)
        best = self._best(recipe, geometry, folds, factors, tried)
        while self.fixed.penalty is None and not self.late:
            factor, penalty = best.recipe.path[-1]
            beyond = tuple(index for index in self._near(penalty, 2) if index not in tried)
            if not beyond:
                break
            further = self._best(recipe, geometry, folds, [factor], beyond)
            if not further.loss < best.loss:
                break
            best, tried = further, (*tried, *beyond)
        return best

    def _near(self, penalty: float, step: int = 1) -> tuple[int, ...]:
        """Indices of `penalty` and of the penalties `step` before and after it."""
        place = min(range(len(PENALTIES)), key=lambda index: abs(math.log(PENALTIES[index] / penalty)))
        return tuple(index for index in (place - step, place, place + step) if 0 <= index < len(PENALTIES))

    def _next_round(
        self, last: Trial, metric: str, power: float, products: Sequence[Tensor | None], folds: Sequence[Fold]
    ) -> Trial | None:
        """The trial under the metric of the model that `last` describes; None if that is constant."""
        maps = [
            None if product is None else _power_map(product, metric, power, len(fold.train))
            for product, fold in zip(products, folds, strict=True)
        ]
        if any(linear is None for linear in maps):
            return None
        recipe = replace(last.recipe, metric=metric, power=power, path=(*last.recipe.path, last.recipe.path[-1]))
        geometry = self._kept_geometry(recipe.transform, recipe.norm, maps, folds)
        for part, linear in zip(geometry, last.maps, strict=True):
            part.earlier = linear
        max_factors = 3 if recipe.rounds == 1 else 1
        return self._descend(recipe, geometry, folds, recipe.path[-1], max_factors=max_factors)

    def _repeated(self, trial: Trial, folds: Sequence[Fold]) -> Trial | None:
        """A trial on more rows of its folds: the last metric round once more, then penalties next to its own."""
        recipe, maps = trial.recipe, list(trial.maps)
        if recipe.rounds:
            pairs = zip(folds, trial.earlier, strict=True)
            maps = [self._learned_map(recipe, fold.train, start, first_round=-2) for fold, start in pairs]
            if any(linear is None for linear in maps):
                return None
        geometry = self._geometry(recipe.transform, recipe.norm, maps, folds)
        for part, start in zip(geometry, trial.earlier, strict=True):
            part.earlier = start
        return self._best(recipe, geometry, folds, [recipe.path[-1][0]], self._near(recipe.path[-1][1]))


class _Geometry:
    """Distances of a fold's transformed rows, and the models on them for any bandwidth and penalty."""

    def __init__(
        self,
        Z: Tensor,
        rows: SearchRows,
        fold: Fold,
        linear: Tensor | None,
        norm: float,
        scratch: _Scratch | None = None,
        bandwidth: float | None = None,
    ) -> None:
        self.linear, self.norm, self.scratch = linear, norm, scratch or _Scratch(Z)
        self.earlier: Tensor | None = None  # the map before the last round of metric learning
        self.A, V = Z[fold.train], Z[fold.validation]
        if linear is not None:
            self.A, V = _mapped(self.A, linear), _mapped(V, linear)
        self.D, self.D_validation = power_sums(self.A, self.A, norm), power_sums(V, self.A, norm)
        self.D.diagonal().zero_()
        self.Y, weight = rows.Y[fold.train], rows.weight[fold.train]
        self.inverse_weight = 1 / weight
        self.mean = (self.Y * weight[:, None]).sum(dim=0) / weight.sum()
        self.median = bandwidth or _median(self.D[:MEDIAN_ROWS, :MEDIAN_ROWS], norm)

    def bandwidth(self, factor: float) -> float:
        return max(factor * self.median, 1e-12)

    def solve(self, exponent: float, factor: float, penalties: Sequence[float]) -> list[Tensor | None]:
        """Coefficients [n, t] for each penalty, None where the factorisation fails."""
        s = self.bandwidth(factor)
        K = _values(self.D, s, exponent, self.norm, out=self.scratch.array("K", self.D.shape))
        solutions: dict[float, Tensor | None] = {}
        for penalty in sorted(penalties, key=lambda penalty: abs(math.log(penalty / penalties[len(penalties) // 2]))):
            if penalty in solutions:
                continue
            solutions[penalty] = None
            shifted = self.scratch.array("L", self.D.shape).copy_(K)
            shifted.diagonal().add_(penalty * self.inverse_weight)
            L = _cholesky(shifted)
            if L is None:  # rows that coincide, and a penalty below the rounding errors of float32
                shifted = _values(self.D.double(), s, exponent, self.norm)
                shifted.diagonal().add_(penalty * self.inverse_weight)
                L = _cholesky(shifted)
            if L is None:
                continue
            near = [p for p in penalties if p not in solutions and 1 / MAX_SHIFT < p / penalty < MAX_SHIFT]
            shifts = [p - penalty for p in near] if K.device.type == "cpu" else []
            parts = _shifted_solutions(L, (self.Y - self.mean).to(L), self.inverse_weight.to(L), shifts)
            solutions |= dict(zip([penalty, *near], parts, strict=False))
        return [solutions[penalty] for penalty in penalties]

    def solve_on_landmarks(
        self, exponent: float, factor: float, penalty: float, Z: Tensor, Y: Tensor, weight: Tensor
    ) -> Tensor | None:
        """Coefficients [m, t] of the rows A of the geometry for the targets Y [n, t] of other rows Z [n, d].

        (K_mn W K_nm + penalty K_mm) a = K_mn W (Y - mean), as `bochner.solvers.landmarks`; None where that fails.
        O(n m (m + d)), one array [m, m] and one of m rows of K_nm at a time.
        """
        m, s = len(self.A), self.bandwidth(factor)
        gram = _values(self.D, s, exponent, self.norm).mul_(penalty)
        gram.diagonal().add_(torch.finfo(gram.dtype).eps * len(Z))  # the rounding of the sum over rows
        mean = (Y * weight[:, None]).sum(dim=0) / weight.sum()
        right = Y.new_zeros(m, Y.shape[1])
        for z, y, w in zip(Z.split(m), Y.split(m), weight.split(m), strict=True):
            inputs = z if self.linear is None else _mapped(z, self.linear)
            K = _values(power_sums(inputs, self.A, self.norm), s, exponent, self.norm)
            weighted = K.mul(w[:, None])
            gram.addmm_(weighted.T, K)
            right.addmm_(weighted.T, y - mean)
        factor_of_gram = _cholesky(gram)
        return None if factor_of_gram is None else torch.cholesky_solve(right, factor_of_gram)

    def predict(self, exponent: float, factor: float, solutions: Sequence[Tensor | None]) -> list[Tensor]:
        """Predictions of models for the validation rows, infinite where there is no model."""
        out = self.scratch.array("K", self.D_validation.shape)
        K = _values(self.D_validation, self.bandwidth(factor), exponent, self.norm, out=out)
        wrong = self.Y.new_full((len(K), self.Y.shape[1]), math.inf)
        return [wrong if a is None else (K.to(a) @ a).to(wrong) + self.mean for a in solutions]

    def gradient_product(self, coefficients: Tensor, exponent: float, s: float) -> Tensor | None:
        """M [d, d], or its diagonal [d] for norms below 2: the mean outer product of the gradients of f = K a.

        Gradients are those in the inputs before the map, and M is divided by its largest entry; None if f is constant.
        """
        d = self.A.shape[1]
        M = self.A.new_zeros(d, d) if self.norm == 2 else self.A.new_zeros(d)
        for columns, G in self._gradients(coefficients, exponent, s):
            if self.norm == 2:
                M += G.T @ G
            else:
                M[columns] = G.square().sum(dim=(0, 1))
        M = M.double()
        if self.linear is not None:  # back to the inputs before the map
            L = self.linear.double()
            M = L * M * L if M.ndim == 1 else L[:, None] * M * L if L.ndim == 1 else L @ M @ L
        size = float(M.max() if M.ndim == 1 else M.diagonal().max())
        return M / size if math.isfinite(size) and size > 0 else None

    def slopes(self, coefficients: Tensor, exponent: float, s: float) -> Tensor:
        """Lengths [r, d], over the outputs, of the derivatives of f in each input before the map, up to a factor."""
        rows = min(GRADIENT_ROWS, len(self.A))
        squares = self.A.new_zeros(rows, self.A.shape[1])
        for columns, G in self._gradients(coefficients, exponent, s):
            if self.norm == 2:
                if self.linear is not None:
                    G = G * self.linear if self.linear.ndim == 1 else G @ self.linear
                squares += G.square()
            else:
                squares[:, columns] = G.square().sum(dim=1)
        return (squares if self.norm == 2 or self.linear is None else squares * self.linear.square()).sqrt()

    def _gradients(self, coefficients: Tensor, exponent: float, s: float) -> Iterator[tuple[Tensor, Tensor]]:
        """Gradients of f = K a at the first r = 500 rows, up to a factor: [r, d] for each output, if the norm is 2;
        otherwise those in some inputs, [r, t, inputs], with the indices of these inputs.

        With D = sum |delta_i|^q, the gradient of k in x_i is proportional to
        k (D / s^q)^{p/q - 1} sign(delta_i) |delta_i|^{q-1}. O(r n d t).
        """
        q, A = self.norm, self.A
        U, D = A[:GRADIENT_ROWS], self.D[:GRADIENT_ROWS]
        W = _values(D, s, exponent, q)
        if exponent != q:
            relative = D / s**q
            W *= relative.clamp_min(1e-8).pow_(exponent / q - 1).masked_fill_(relative < 1e-8, 0)
        if q == 2:
            for a in coefficients.T:
                V = W * a
                yield torch.arange(A.shape[1]), U * V.sum(dim=1, keepdim=True) - V @ A
            return
        binary = BinaryColumns(A)
        if binary.any:  # sign(x_i - y_i) is the difference of two indicators: one product for all such inputs
            is_high, gap = binary.is_high, (binary.ends[1] - binary.ends[0]).pow(q - 1)
            slopes = [is_high[: len(U)] * (W @ a)[:, None] - W @ (is_high * a[:, None]) for a in coefficients.T]
            yield binary.columns, torch.stack(slopes, dim=1).mul_(gap)
        for column in binary.others[:, None]:
            gap = U[:, column] - A[:, column].T
            direction = gap.sign()
            if q != 1:
                direction *= gap.abs_().sqrt_() if q == 1.5 else gap.abs_().pow_(q - 1)
            yield column, (direction.mul_(W) @ coefficients)[:, :, None]


@dataclass(frozen=True, eq=False)
class _Scratch:
    """Memory for arrays that are computed many times: on a CPU, new pages take longer than filling them."""

    like: Tensor
    memory: dict[str, Tensor] = field(default_factory=dict)

    def array(self, name: str, shape: Sequence[int]) -> Tensor:
        """An array of that shape, which the next call with this name overwrites."""
        size = math.prod(shape)
        if name not in self.memory or self.memory[name].numel() < size:
            self.memory[name] = self.like.new_empty(size)
        return self.memory[name][:size].view(*shape)


def _cholesky(A: Tensor) -> Tensor | None:
    """L of A = L L^T, on a CPU in the memory of A; None if A is not positive definite."""
    if A.device.type != "cpu":
        L, failed = torch.linalg.cholesky_ex(A)
        return None if int(failed) else L
    L, failed = A.mT, torch.empty((), dtype=torch.int32)  # A is symmetric, and LAPACK's arrays are stored by columns
    torch.linalg.cholesky_ex(L, out=(L, failed))
    return None if int(failed) else L


def _shifted_solutions(L: Tensor, Y: Tensor, diagonal: Tensor, shifts: Sequence[float]) -> list[Tensor]:
    """(L L^T)^-1 Y for Y [n, t], then (L L^T + h diag(diagonal))^-1 Y for each shift h.

    With B = L^-1 diag L^-T the shifted matrix is L (I + h B) L^T, and conjugate gradients solve for I + h B: its
    eigenvalues lie between 1 and the ratio of the penalties, and are 1 for all directions that K dominates, so that
    few iterations reach the accuracy of float32. O(n^2 t) per iteration instead of O(n^3) for another factor.
    """
    half = torch.linalg.solve_triangular(L, Y, upper=False)
    if not shifts:
        return [torch.linalg.solve_triangular(L.mT, half, upper=True)]
    t = Y.shape[1]
    h = half.new_tensor(shifts).repeat_interleave(t)
    residual = half.repeat(1, len(shifts))
    solution, direction = torch.zeros_like(residual), residual.clone()
    squares = residual.square().sum(dim=0)
    tolerance = squares * SHIFT_TOLERANCE**2
    for _ in range(MAX_SHIFT_STEPS):
        back = torch.linalg.solve_triangular(L.mT, direction, upper=True).mul_(diagonal[:, None])
        image = torch.linalg.solve_triangular(L, back, upper=False).mul_(h).add_(direction)
        step = squares / (direction * image).sum(dim=0).clamp_min(1e-30)
        solution.addcmul_(step, direction)
        residual.addcmul_(step, image, value=-1)
        previous, squares = squares, residual.square().sum(dim=0)
        if bool((squares <= tolerance).all()):
            break
        direction = direction.mul_(squares / previous.clamp_min(1e-30)).add_(residual)
    return list(torch.linalg.solve_triangular(L.mT, torch.cat([half, solution], dim=1), upper=True).split(t, dim=1))


def _power_map(M: Tensor, metric: str, power: float, rank: int) -> Tensor:
    """M^power [d, d], or that of its diagonal [d]; no input is dropped permanently.

    `rank` bounds the rank of M: gradients lie in the span of the rows of the model. Where it is far below d, a sketch
    with that many columns spans the range of M, and the eigenvectors take O(d^2 rank) instead of O(d^3).
    """
    if metric == "diagonal":
        diagonal = M if M.ndim == 1 else M.diagonal()
        return diagonal.clamp_min(0).pow(power).clamp_min(MIN_SCALE).float()
    M = (M + M.T) / 2
    floor = MIN_SCALE ** (2 * power)
    if 2 * rank >= len(M):
        values, vectors = torch.linalg.eigh(M)
        return ((vectors * values.clamp_min(MIN_SCALE**2).pow(power)) @ vectors.T).float()
    columns = torch.randn(len(M), rank, generator=torch.Generator().manual_seed(0), dtype=M.dtype)
    Q = torch.linalg.qr(M @ columns.to(M.device)).Q
    values, vectors = torch.linalg.eigh(Q.T @ M @ Q)
    V = Q @ vectors
    result = (V * (values.clamp_min(MIN_SCALE**2).pow(power) - floor)) @ V.T
    result.diagonal().add_(floor)  # the power of the eigenvalues outside the range
    return result.float()


def _mapped(Z: Tensor, linear: Tensor) -> Tensor:
    return Z * linear if linear.ndim == 1 else Z @ linear


def _values(D: Tensor, s: float, exponent: float, norm: float, out: Tensor | None = None) -> Tensor:
    """exp(-(D / s^q)^{p/q})."""
    base = torch.div(D, s**norm, out=out)
    if exponent * 2 == norm:
        base.sqrt_()
    elif exponent != norm:
        base.log2_().mul_(exponent / norm).exp2_()  # 0 stays 0
    return base.mul_(-math.log2(math.e)).exp2_()  # powers of 2 take half the time of exp


def _median(D: Tensor, norm: float) -> float:
    """The median distance of pairs that differ, from D [n, n] = distance^norm."""
    upper = D[torch.triu_indices(len(D), len(D), offset=1, device=D.device).unbind()]
    positive = upper[upper > 1e-12 * D.max()]
    return float(positive.median()) ** (1 / norm) if len(positive) else 1.0


def _make_folds(
    n: int, preset: Preset, validation: int | None, labels: Tensor | None, generator: Generator
) -> list[Fold]:
    """One part of the rows held out where there are enough; otherwise cross-validation, repeated for few rows.

    Classes have the same share in every part.
    """
    if validation is not None:
        order = torch.arange(n)
        return [Fold(order[: n - validation], order[n - validation :])]
    order = _spread(torch.randperm(n, generator=generator), labels)  # the first rows of a part have all classes as well
    if n > preset.holdout_rows:
        held = order[: min(n // 3, max(2000, preset.last_rows))]
        kept = torch.ones(n, dtype=torch.bool)
        kept[held] = False
        return [Fold(order[kept[order]], held)]
    folds = []
    for _ in range(2 if n <= REPEATED_ROWS else 1):
        spread = _spread(torch.randperm(n, generator=generator), labels)
        count = min(NUM_FOLDS, n)
        for part in range(count):
            chosen = torch.zeros(n, dtype=torch.bool)
            chosen[spread[part * n // count : (part + 1) * n // count]] = True
            folds.append(Fold(order[~chosen[order]], order[chosen[order]]))
    # with more rows, three of the folds are as informative as all folds of fewer rows, in three fifths of the time
    return folds[: 3 if n > REPEATED_ROWS else preset.max_folds]


def _spread(order: Tensor, labels: Tensor | None) -> Tensor:
    """The rows in an order in which classes are evenly spread."""
    if labels is None:
        return order
    labels = labels.cpu()[order]
    sizes = torch.bincount(labels)
    by_class = labels.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    rank = torch.empty(len(order), dtype=torch.float64)
    rank[by_class] = torch.arange(len(order)).double() - starts[labels[by_class]]
    position = (rank + 0.5) / sizes[labels]  # evenly over [0, 1] for each class
    return order[position.argsort(stable=True)]


def _shortened(fold: Fold, num_rows: int) -> Fold:
    """A fold with at most `num_rows` training rows, and as many validation rows or 2,000, whichever is more."""
    return Fold(fold.train[:num_rows], fold.validation[: max(num_rows, 2000)])


def _ensemble(best: Trial, trials: list[Trial], rows: SearchRows, members: int, criterion: Criterion) -> list[Trial]:
    """Trials whose mean prediction has the lowest loss, added to `best` one by one (Caruana et al. 2004).

    A trial is added only if the gain exceeds its standard error.
    """
    chosen, num_validated = [best], len(best.validated.unique())
    Y, weight = rows.Y[best.validated], rows.weight[best.validated]
    candidates = [t for t in trials if t is not best and t.predictions.shape == best.predictions.shape]
    while len(chosen) < members and candidates and criterion.overall is None:
        total = torch.stack([trial.predictions for trial in chosen]).sum(dim=0)
        current = criterion.rows(total / len(chosen), Y, weight) * weight
        losses = [criterion.rows((total + t.predictions) / (len(chosen) + 1), Y, weight) * weight for t in candidates]
        index = min(range(len(candidates)), key=lambda i: float(losses[i].mean()))
        gain = current - losses[index]
        if not float(gain.mean()) > float(gain.std(correction=0)) / num_validated**0.5:
            break
        chosen.append(candidates.pop(index))
    return chosen
