"""The kernel classifier."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from bochner import checks
from bochner.data import MappedSource, check_classes, with_classes
from bochner.data.blocks import Block, Source
from bochner.estimators.arrays import as_tensor
from bochner.estimators.machine import KernelMachine, is_source, refuse_targets
from bochner.estimators.online import can_step, step_through
from bochner.kernels import Kernel
from bochner.models.losses import probabilities
from bochner.models.onnx import export_onnx
from bochner.solvers.rows import summarize


class KernelClassifier(ClassifierMixin, KernelMachine):
    """Kernel classification at scale: p(class | x) from random features or landmarks, streamed.

    The scores are linear in z(x), features with z(x) . z(y) ~ k(x, y) that are computed on the fly and never stored, or
    sums over landmarks. Data may be arrays, frames, sparse matrices, tensors, or a source that is larger than memory
    (`bochner.data.open_source`).

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        "gaussian", "laplacian", "sparse-gaussian", "matern12", "matern32", "matern52", "cauchy", or a kernel object.
    bandwidth : float, "median", "mean" or None, default=None
        None takes the median rule for a kernel given by name and leaves a kernel object as it is.
    num_features : int, default=4096
        Features, or landmarks for the solvers that use them.
    projection : str, default="auto"
        How frequencies are drawn, see `FourierFeatures`; "auto" is "hadamard3" for isotropic kernels of 256 inputs and
        more, where it takes a fraction of the time.
    standardize : bool, default=False
        Divide each input by its standard deviation, inside the kernel. Use it when inputs have different units.
    solver : {"auto", "sgd", "ridge", "landmarks", "newton", "saga"}, default="auto"
        "sgd": minibatches, preconditioned, softmax or logistic loss, early stopping on heldout rows. "newton": the same
        losses on landmarks. "ridge" and "landmarks": least squares on one-hot labels, on features in closed form, and
        on landmarks by preconditioned conjugate gradients. "saga": the convex problem to its minimum. "auto" is
        "newton" with all rows as landmarks up to 2,048 rows and "sgd" beyond.
    ridge : float or None, default=None
        Penalty ridge/2 ||f||^2 beside the mean loss. None: 0 for "sgd", which stops early; chosen on heldout rows for
        "ridge" and up to 2,048 rows; else the solver's rule.
    rank : int or None, default=None
        A linear bottleneck of that rank before the classes ("sgd" only).
    num_blocks : int, default=1
        Blocks of features that are trained apart and averaged in the logits ("sgd" only).
    optimizer : {"sgd", "momentum", "adam", "adamw"}, default="sgd"
    learning_rate : float or "auto", default="auto"
        "auto" finds one by short trials on heldout rows.
    batch_size : int, default=1024
    directions : int or "auto", default="auto"
        Main directions of the features that the gradient is evened out along; 0 is plain SGD as in the papers.
    average : bool, default=True
        Take the mean of an epoch's iterates as its model.
    adapt : {"agop"} or None, default=None
        "agop" learns a metric on the inputs first (the average gradient outer product of least squares on 2,048
        landmarks, fitted anew under each metric), and keeps the one of least heldout loss. It pays where some inputs,
        or mixtures of them, matter more than others; docs/metric.md says when, and what it costs.
    adapt_rounds : int, default=4
        How often the metric is learned anew, at most.
    criterion : str or None, default=None
        What the schedule and early stopping look at: "ce" (the default), "err", "erll:1", "capped:0.1", "topk:0.9", ...
    max_epochs : int, default=100
        The schedule usually stops earlier.
    improvement : float, default=0.003
        The rate is halved after an epoch that did not improve the metric by this part (1 % in the papers).
    max_halvings : int, default=3
        Training ends when the rate has been halved so often (10 times in the papers).
    heldout_fraction : float, default=0.1
        Rows set aside for the schedule and for choices, unless `fit` is given some.
    precision : {"float32", "tf32", "bf16", "float64"}, default="float32"
    memory_budget : int, str or None, default=None
        Bytes, or text such as "500MB", that a fit may take beside the data it is given.
    folder : path or None, default=None
        Where "sgd" keeps checkpoints: the same fit, started again, goes on where it was stopped.
    device : str, default="auto"
        "auto" is the GPU when there is one.
    verbose : bool or None, default=None
        Progress bars; None shows them on a terminal.
    class_weight : dict, "balanced" or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    classes_ : array [C]
    model_ : torch module
        Gives scores [n, C], or [n, 1] for two classes and a logistic loss.
    kernel_ : Kernel
        With its bandwidth.
    solver_ : str
    history_ : list of dict
        One record an epoch ("sgd").

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = KernelClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.96
    True
    """

    classes_: np.ndarray[Any, Any]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMachine._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        kernel: str | Kernel = "gaussian",
        bandwidth: float | str | None = None,
        num_features: int = 4096,
        projection: str = "auto",
        standardize: bool = False,
        solver: str = "auto",
        ridge: float | None = None,
        rank: int | None = None,
        num_blocks: int = 1,
        optimizer: str = "sgd",
        learning_rate: float | str = "auto",
        batch_size: int = 1024,
        preconditioner_rank: int | str = "auto",
        average: bool = True,
        adapt: str | None = None,
        adapt_rounds: int = 4,
        criterion: str | None = None,
        max_epochs: int = 100,
        improvement: float = 0.003,
        max_halvings: int = 3,
        heldout_fraction: float = 0.1,
        precision: str = "float32",
        memory_budget: int | str | None = None,
        folder: str | os.PathLike[str] | None = None,
        device: str | torch.device = "auto",
        verbose: bool | None = None,
        class_weight: dict[Any, float] | str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel=kernel,
            bandwidth=bandwidth,
            num_features=num_features,
            projection=projection,
            standardize=standardize,
            solver=solver,
            ridge=ridge,
            rank=rank,
            num_blocks=num_blocks,
            optimizer=optimizer,
            learning_rate=learning_rate,
            batch_size=batch_size,
            preconditioner_rank=preconditioner_rank,
            average=average,
            adapt=adapt,
            adapt_rounds=adapt_rounds,
            criterion=criterion,
            max_epochs=max_epochs,
            improvement=improvement,
            max_halvings=max_halvings,
            heldout_fraction=heldout_fraction,
            precision=precision,
            memory_budget=memory_budget,
            folder=folder,
            device=device,
            verbose=verbose,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, heldout: Any = None) -> Self:
        """Fit on X [n, d] and labels y [n], or on a source that holds both.

        `heldout`, a pair (X, y) or a source, takes the place of the rows that would be set aside.
        """
        self._validate_params()
        seed = self._seed()
        if is_source(X):
            refuse_targets(y, sample_weight)
            self.n_features_in_ = X.num_inputs
            self.classes_ = check_classes(X, heldout if is_source(heldout) else None)
        else:
            X, y = self._checked_pair(X, y)
            self.classes_ = _classes(y)
        parts = self._parts(X, y, sample_weight, heldout, seed=seed)
        weigh = self._class_weights(parts[-1])
        rows, judged, everything = (part if weigh is None else MappedSource(part, weigh) for part in parts)
        self._fit_rows(rows, judged, everything, num_classes=len(self.classes_), seed=seed)
        return self

    @available_if(can_step)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass of minibatch steps over these rows; `classes` must be given with the first call.

        The first rows choose the bandwidth, the features and the main directions; a rate of "auto" follows from those.
        """
        self._validate_params()
        first = not hasattr(self, "model_")
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all rows at once; give partial_fit a dict of weights.")
        X, y = self._checked_pair(X, y, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be given with the first call of partial_fit.")
            self.classes_ = _classes(np.asarray(classes), "classes")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {classes!r}.")
        targets = self._encode(y)
        step_through(self, X, targets, self._row_weights(targets, sample_weight), num_classes=len(self.classes_))
        return self

    def decision_function(self, X: Any) -> Any:
        """Scores [n, C], or [n] for two classes: positive for the second."""
        scores = self._scores(X)
        if len(self.classes_) == 2:
            scores = scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]
        return self._like(X, scores)

    def predict_proba(self, X: Any) -> Any:
        """p(class | x) [n, C], never 0; least squares estimates it directly, and is clipped and scaled to sum to 1."""
        return self._like(X, probabilities(self._scores(X), self._link).clamp_min(torch.finfo(torch.float32).tiny))

    def predict_log_proba(self, X: Any) -> Any:
        """log p(class | x) [n, C]."""
        p = self.predict_proba(X)
        return p.log() if isinstance(p, Tensor) else np.log(p)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each row."""
        scores = self._scores(X)
        places = scores.argmax(dim=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).long()
        labels = self.classes_[places.numpy()]
        return torch.as_tensor(labels).to(X.device) if isinstance(X, Tensor) and labels.dtype.kind in "iufb" else labels

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph from X [N, d], float32, to `label`, `probabilities` and `scores`; needs bochner[onnx]."""
        check_is_fitted(self)
        are_whole = self.classes_.dtype.kind != "U" and bool((self.classes_ == np.floor(self.classes_)).all())
        classes = self.classes_.astype(np.int64 if are_whole else str).tolist()
        export_onnx(self.model_, path, output=self._link, classes=classes, dtype=torch.float32)

    @property
    def _link(self) -> str:
        if self.solver_ in ("ridge", "landmarks"):
            return "clipped"
        return "logistic" if len(self.classes_) == 2 else "softmax"

    def _encode(self, y: np.ndarray[Any, Any]) -> Tensor:
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[places] != y
        if unknown.any():
            raise ValueError(f"y must hold the classes {self.classes_.tolist()} only, got {y[unknown].tolist()[0]!r}.")
        return as_tensor(places.astype(np.int64))

    def _class_weights(self, source: Source) -> ClassWeights | None:
        """Weights by class, such that their mean over the rows is 1."""
        if self.class_weight is None:
            return None
        shares = summarize(source, num_classes=len(self.classes_)).mean
        if self.class_weight == "balanced":
            weights = torch.where(shares > 0, shares, 1.0).reciprocal()
        else:
            weights = self._given_weights()
        return ClassWeights(weights / (weights * shares).sum())

    def _given_weights(self) -> Tensor:
        """A weight [C] for every class, 1 where the dict has none."""
        given, labels = self.class_weight or {}, self.classes_.tolist()
        assert isinstance(given, dict)
        for label, weight in given.items():
            if label not in labels:
                raise ValueError(f"class_weight must name classes of {labels}, got {label!r}.")
            checks.nonnegative_float(f"class_weight[{label!r}]", weight)
        weights = torch.tensor([float(given.get(label, 1.0)) for label in labels], dtype=torch.float64)
        if not weights.any():
            raise ValueError(f"class_weight must be positive for some class, got {given!r}.")
        return weights

    def _row_weights(self, targets: Tensor, sample_weight: Any) -> Any:
        """Weights by row and class, as they are given."""
        if self.class_weight is None:
            return sample_weight
        by_class = self._given_weights()[targets].numpy()
        return by_class if sample_weight is None else by_class * np.asarray(sample_weight)

    def _encoded_source(self, source: Source) -> Source:
        return with_classes(source, self.classes_)

    def _checked_targets(self, y: Any) -> Any:
        check_classification_targets(y)
        return y


class ClassWeights:
    """Blocks whose rows are weighted by their class."""

    def __init__(self, weights: Tensor) -> None:
        self._weights = weights

    def __call__(self, block: Block) -> Block:
        weight = self._weights[block.y].to(block.X)
        return block._replace(weight=weight if block.weight is None else weight * block.weight)


def _classes(y: np.ndarray[Any, Any], name: str = "y") -> np.ndarray[Any, Any]:
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"{name} must hold at least two classes, got one class only: {classes.tolist()}.")
    return classes
