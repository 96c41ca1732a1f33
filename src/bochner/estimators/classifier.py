"""Classifiers: p(class | x) from kernel models and networks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor
from torch.utils.data import DataLoader

from bochner import checks
from bochner.data.blocks import Block, Source
from bochner.data.transforms import check_classes, with_classes
from bochner.estimators.base import BaseModel, KernelModel, as_tensor, make_generator, refuse_targets, rescale
from bochner.estimators.inputs import read_test, read_training
from bochner.models.calibration import fit_calibration
from bochner.models.losses import probabilities
from bochner.solvers.rows import summarize


class ClassifierBase(ClassifierMixin, BaseModel):
    """Fitting to labels, and predictions from scores."""

    classes_: np.ndarray[Any, Any]
    multilabel_: bool
    class_weight: dict[Any, float] | str | None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | int | None = None,
        validation_data: Any = None,
        group: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, frame, sparse matrix or tensor [n, d], path, dataset, data loader or source
            A source (`bochner.open_source`) holds its own targets and weights; a `torch.utils.data.DataLoader` gives
            batches (X, y), which are all held in memory.
        y : array [n], or [n, L] of 0 and 1
            Class labels, numbers or text; or for each of L labels whether a row has it, which needs a preset.
        sample_weight : array [n] or None, default=None
        target : str, int or None, default=None
            The column to predict, by name or position, where X is a path (see `bochner.data.open_rows`), a frame or a
            dataset of Hugging Face that holds it.
        validation_data : (X, y) or source, default=None
            Validation rows, instead of a random `validation_fraction` of the training rows.
        group : process group or None, default=None
            The processes that share this fit, see `bochner.solvers.parallel`.

        Returns
        -------
        self
        """
        plan, seed = self.make_plan(), make_generator(self.random_state).initial_seed()
        self.__dict__.pop("target_name_", None)  # of an earlier fit
        if target is not None or isinstance(X, str | os.PathLike | DataLoader):
            X, y, sample_weight, name = read_training(X, y, sample_weight, target)
            if name is not None:
                self.target_name_ = name
        if isinstance(X, Source):
            refuse_targets(y, sample_weight)
            self.classes_ = check_classes(X, validation_data if isinstance(validation_data, Source) else None)
        else:
            X, y = self._check_pair(X, y, sample_weight=sample_weight)
            check_classification_targets(y)
            if y.ndim == 2:
                return self._fit_labels(plan, X, y, sample_weight, validation_data, seed=seed, group=group)
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                _refuse_one_class(self.classes_, "y")
        self.multilabel_ = False
        rows = self._read_rows(X, y, sample_weight, validation_data, plan.params, seed=seed)
        if self.class_weight is not None:
            weights = self._class_weights(rows.all_rows)
            rows = rows.mapped(lambda block: _weighted(block, weights))
        self._fit_rows(plan, rows, num_classes=len(self.classes_), seed=seed, group=group)
        if self.solver_ == "exact":
            self._calibrate()
        return self

    def _fit_labels(
        self, plan: Any, X: Any, y: Any, sample_weight: Any, validation_data: Any, *, seed: int, group: Any
    ) -> Self:
        """One model of L binary labels: least squares on 0 and 1, calibrated label by label."""
        if getattr(plan, "preset", None) is None or self.class_weight is not None or validation_data is not None:
            raise ValueError(
                "y with several columns is multi-label classification, which needs a preset and neither class_weight "
                f"nor validation_data; got {y.shape[1]} columns."
            )
        self.classes_, self.multilabel_ = np.arange(y.shape[1]), True
        plan = replace(plan, multilabel=True)
        rows = self._read_rows(X, y, sample_weight, None, plan.params, seed=seed)
        self._fit_rows(plan, rows, num_classes=None, seed=seed, group=group)
        scores, targets, weight = (self.validation_[name] for name in ("predictions", "targets", "weight"))
        if scores is None or targets is None:
            raise ValueError(f"y with several columns needs solver='auto' or 'exact', got {self.solver!r}.")
        parts = [
            fit_calibration(scores[:, [label]], (targets[:, label] > 0.5).long(), weight) for label in range(y.shape[1])
        ]
        slope, offset = torch.tensor([part.slope for part in parts]), torch.cat([part.offset for part in parts])
        rescale(self.model_, offset, slope)
        p = (scores * slope.to(scores) + offset.to(scores)).sigmoid()
        self.validation_ = {"predictions": p, "targets": targets, "weight": weight}
        return self

    def _calibrate(self) -> None:
        """Turn least squares scores into log-odds, by their predictions for rows that were left out."""
        scores, targets, weight = (self.validation_[name] for name in ("predictions", "targets", "weight"))
        assert scores is not None
        assert targets is not None
        labels = targets.argmax(dim=1) if targets.shape[1] > 1 else (targets[:, 0] > 0.5).long()
        slope, offset = fit_calibration(scores, labels, weight)
        rescale(self.model_, offset, torch.full_like(offset, slope))
        p = probabilities(slope * scores + offset, self._link)
        self.validation_ = {"predictions": p, "targets": labels, "weight": weight}

    def decision_function(self, X: Any) -> Any:
        """Scores [n, C], or [n] for two classes: positive for the second."""
        scores = self._scores(X)
        if len(self.classes_) == 2 and not self.multilabel_:
            scores = scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return self._like(X, scores)

    def predict_proba(self, X: Any) -> Any:
        """p(class | x) [n, C], never 0; for multi-label targets the probability of each label, [n, L].

        The scores of least squares estimate probabilities directly; they are clipped and scaled to sum to 1.
        """
        return self._like(X, self._probabilities(self._scores(X)))

    def predict_log_proba(self, X: Any) -> Any:
        """log p(class | x) [n, C]."""
        p = self.predict_proba(X)
        return p.log() if isinstance(p, Tensor) else np.log(p)

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        labels = self._labels(self._scores(X))
        return torch.as_tensor(labels).to(X.device) if isinstance(X, Tensor) and labels.dtype.kind in "iufb" else labels

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean accuracy; y may be left out if X holds the target of `fit`: a file, a frame, a source, a data loader."""
        if y is None:
            X, y, sample_weight, _ = read_test(self, X, sample_weight)
        return float(super().score(X, y, sample_weight))

    def predict_with_proba(self, X: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """`predict(X)` and `predict_proba(X)` as arrays, in the time of one of them."""
        scores = self._scores(X)
        return self._labels(scores), self._probabilities(scores).double().numpy()

    def _labels(self, scores: Tensor) -> np.ndarray[Any, Any]:
        if self.multilabel_:
            return (scores > 0).long().numpy()
        indices = scores.argmax(dim=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).long()
        return self.classes_[indices.numpy()]

    def _probabilities(self, scores: Tensor) -> Tensor:
        if self.multilabel_:
            return scores.double().sigmoid()
        return probabilities(scores, self._link).clamp_min(torch.finfo(torch.float32).tiny)

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph from X [N, d] to `label`, `probabilities` and `scores`; needs bochner[onnx].

        X is float32, or float64 if that does not resolve a column. For multi-label targets, `label` and `probabilities`
        are [N, L].
        """
        if self.multilabel_:
            self._export(path, output="sigmoid", classes=None)
            return
        integral = self.classes_.dtype.kind not in "OU" and bool((self.classes_ == np.floor(self.classes_)).all())
        self._export(path, output=self._link, classes=self.classes_.astype(np.int64 if integral else str).tolist())

    @property
    def _link(self) -> str:
        if self.solver_ in ("ridge", "landmarks", "askotch", "eigenpro"):
            return "clipped"
        return "logistic" if len(self.classes_) == 2 else "softmax"

    def _encode(self, y: np.ndarray[Any, Any]) -> Tensor:
        if y.ndim == 2:
            return as_tensor(y).to(torch.float64)
        indices = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[indices] != y
        if unknown.any():
            raise ValueError(f"y must hold the classes {self.classes_.tolist()} only, got {y[unknown].tolist()[0]!r}.")
        return as_tensor(indices.astype(np.int64))

    def _encode_source(self, source: Source) -> Source:
        return with_classes(source, self.classes_)

    def _class_weights(self, source: Source) -> Tensor:
        """Weights by class [C], such that their mean over the rows is 1."""
        shares = summarize(source, num_classes=len(self.classes_)).mean
        if self.class_weight == "balanced":
            weights = torch.where(shares > 0, shares, 1.0).reciprocal()
        else:
            weights = self._given_weights()
        return weights / (weights * shares).sum()

    def _given_weights(self) -> Tensor:
        """A weight for every class [C], 1 where `class_weight` has none."""
        assert not isinstance(self.class_weight, str)
        given, labels = self.class_weight or {}, self.classes_.tolist()
        for label, weight in given.items():
            if label not in labels:
                raise ValueError(f"class_weight must name classes of {labels}, got {label!r}.")
            checks.nonnegative_float(f"class_weight[{label!r}]", weight)
        weights = torch.tensor([float(given.get(label, 1.0)) for label in labels], dtype=torch.float64)
        if not weights.any():
            raise ValueError(f"class_weight must be positive for some class, got {given!r}.")
        return weights


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(ClassifierBase, KernelModel):
    """Kernel classification of tables of any size: a searched model by default, or the solver of your choice.

    With a preset, input transformation, kernel, bandwidth, metric and penalty are searched on some thousand rows by
    exact solves, and kernel least squares with the chosen settings is fitted on all rows, in parts if there are many;
    its scores are calibrated to log-odds. Arguments that are set are kept, and the rest is searched.

    Other solvers, and preset=None, fit softmax, logistic or squared losses on landmarks or on random features z(x) with
    z(x) . z(y) ~ k(x, y), which are computed a few rows at a time and never stored.

    Data may be arrays, sparse matrices, tensors, frames with text, dates and missing values, files of them
    (`fit("people.csv", target="income")`), or a source that is larger than memory (`bochner.open_source`).

    Parameters
    ----------
    preset : {"fast", "default", "best"} or None, default="default"
        The effort of the search; "default" gives the mean of up to two models, "best" that of up to four. None searches
        nothing: the Gaussian kernel by the median rule, unless given. Kernel objects, kernels outside the
        power-exponential family, bandwidth="mean" or "neighbor" and `partial_fit` are not searched.
    kernel : str or Kernel, default="auto"
        "gaussian" (or "rbf"), "laplacian", "matern12" and "power-exponential", with which the rest is searched;
        "sparse-gaussian", "matern32", "matern52", "cauchy", "arc-cosine0", "arc-cosine1", "arc-cosine2", "polynomial",
        or a kernel object. "auto" searches exponent and norm of `bochner.kernels.PowerExponential`; without a preset it
        is "gaussian".
    bandwidth : float, "median", "mean", "neighbor", "search" or None, default=None
        "median" and "mean" are rules on distances between pairs of rows, "neighbor" on those to the 50th nearest row
        of all (`bochner.kernels.Stationary.with_bandwidth`). None and "search" are searched. Without a preset, "search"
        tries multiples of the median rule on validation rows, and None is the median rule for a kernel given by name
        and leaves a kernel object unchanged. A number refers to distances of the original inputs, which are then not
        transformed unless `standardize` is set.
    gamma : float or None, default=None
        scikit-learn's parameter, instead of `bandwidth`: exp(-gamma ||x - y||^2) for the Gaussian kernel,
        exp(-gamma ||x - y||_1) for the Laplacian. With kernel="auto" the kernel is Gaussian.
    n_components : int, default=4096
        Number of features, or of landmarks for the solvers "landmarks" and "newton".
    standardize : bool or None, default=None
        Divide each input by its standard deviation. None searches standardised inputs, normal scores, both, and a
        robust scale; without a preset it is False.
    adapt : {"auto", "agop", "uab", "sab", "dab"}, dict or None, default="auto"
        Adaptation before the model is fitted. "agop" learns a metric on the inputs from average gradient outer
        products, which helps when some inputs, or combinations of them, matter more than others; "auto" learns one if
        the search finds it better, and none without a preset. "uab", "sab" and "dab" adapt random features by gradients
        to the kernel, to the classes or to the loss (Alber et al. 2017). A dict has the fields of
        `bochner.search.AdaptParams`.
    selection : int, dict or None, default=None
        Rounds of random feature selection (May et al., Algorithm 1), or the fields of
        `bochner.search.SelectionParams`.
    solver : {"auto", "exact", "sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro"}, default="auto"
        "exact": least squares with all rows as landmarks, in parts if there are many. "sgd": minibatches,
        preconditioned, softmax or logistic loss, early stopping on validation rows. "newton": the same losses on
        landmarks. "ridge" and "landmarks": least squares on one-hot labels, on features in closed form and on landmarks
        by preconditioned conjugate gradients. "saga": the convex problem to its minimum. "askotch": least squares with
        all rows as landmarks, by blocks of coordinates, in the memory of the rows; without a preset "exact" becomes
        "askotch" if the kernel matrix does not fit into memory. "eigenpro": least squares on landmarks by
        preconditioned stochastic steps, stopped by validation rows, for more landmarks than "landmarks" has memory for.
        "auto" is "exact" with a preset, unless there are more than 2 GB of rows or an option needs "sgd"; without a
        preset it is "newton" with all rows as landmarks up to 2,048 rows, fewer with more than 20 classes, and "sgd"
        beyond.
    alpha : float or None, default=None
        Penalty alpha/2 ||f||^2 added to the mean loss, as in `sklearn.linear_model.SGDClassifier`. None is searched.
        Without a preset it is 0 for "sgd" and "eigenpro", which stop early; for "ridge", and up to 2,048 rows, it is
        chosen on validation rows; otherwise the solver has a rule.
    solver_params : dict, SolverParams or None, default=None
        Options of the solver and the machine: device, precision, memory_budget, batch_size, learning_rate, rank, ...;
        see `bochner.search.SolverParams`.
    scoring : str, callable or None, default=None
        The score that the search optimises, as in `sklearn.model_selection.GridSearchCV`, such as "roc_auc"; None is
        the squared error of the calibrated probabilities.
    time_limit : float or None, default=None
        Approximate maximum of the seconds of a fit; the search ends early. Without a limit the same data and
        `random_state` give the same model.
    validation_fraction : float, default=0.1
        Fraction of the rows set aside for the schedule and for choices, unless `fit` gets `validation_data`. A search
        splits the rows itself, by cross-validation if they are few.
    class_weight : dict, "balanced" or None, default=None
        Weights by class; "balanced" weights classes inversely to their frequency.
    verbose : bool or None, default=None
        Whether to show progress bars; None shows them on a terminal.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : array [C]
    model_ : torch.nn.Module
        Returns scores [n, C], or [n, 1] for two classes and a logistic loss.
    kernel_ : Kernel
        On transformed inputs, with its bandwidth and metric.
    solver_ : str
    history_ : list of dict
        One record per epoch ("sgd").
    choices_ : dict
        The choices: the best trial of the search; the bandwidth, the learning rate, the selection.
    search_results_ : list of dict
        One record per trial of the search: transformation, exponent, norm, metric, bandwidth as a multiple of the
        median distance, penalty, loss and its standard error.
    validation_ : dict of Tensor
        Out-of-sample predictions with targets and weights: leave-one-out, or on held-out rows of the search for several
        models ("exact").
    feature_importances_ : array [d] or None
        Shares of the columns in the average squared gradient of the searched model.
    encoder_ : TableEncoder or None
        The encoder of frames with text, dates or missing values.
    input_offset_ : array or None
        What is subtracted from the inputs of `model_`: medians of columns that float32 does not resolve, such as times
        in nanoseconds; None if it resolves all.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier(preset="fast", random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.96
    True
    """

    class_weight: dict[Any, float] | str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelModel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _fitted_state: ClassVar[Mapping[str, Any]] = {
        **KernelModel._fitted_state,
        "classes_": np.ndarray,
        "multilabel_": bool,
    }

    @available_if(KernelModel._can_step)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take one pass of minibatch steps over these rows; `classes` must be given with the first call.

        The first rows determine the bandwidth, the features and the preconditioner.
        """
        self.make_plan()
        first = not hasattr(self, "model_")
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all rows at once; give partial_fit a dict of weights.")
        X, y = self._check_pair(X, y, sample_weight=sample_weight, reset=first)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError("classes must be given with the first call of partial_fit.")
            self.classes_, self.multilabel_ = np.unique(classes), False
            if len(self.classes_) < 2:
                _refuse_one_class(self.classes_, "classes")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {classes!r}.")
        targets = self._encode(y)
        if self.class_weight is not None:
            by_class = self._given_weights()[targets].numpy()
            sample_weight = by_class if sample_weight is None else by_class * np.asarray(sample_weight)
        self._step(X, targets, sample_weight, num_classes=len(self.classes_))
        return self


def _weighted(block: Block, weights: Tensor) -> Block:
    """The block with its rows weighted by their class."""
    weight = weights[block.y].to(block.X)
    return block._replace(weight=weight if block.weight is None else weight * block.weight)


def _refuse_one_class(classes: np.ndarray[Any, Any], name: str) -> NoReturn:
    raise ValueError(f"{name} must hold at least two classes, got one class only: {classes.tolist()}.")
