"""Base of the supervised estimators: parameters, rows from arrays or sources, fitting, scores."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, NamedTuple

import narwhals as nw
import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import get_scorer_names
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, check_X_y, validate_data
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data.batches import in_order
from bochner.data.blocks import Block, MappedSource, Source, read_shard
from bochner.data.encoder import TableEncoder
from bochner.data.frames import is_frame
from bochner.data.labels import column_names_of
from bochner.data.transforms import split
from bochner.estimators.inputs import read_inputs
from bochner.estimators.report import write_report
from bochner.estimators.store import SavableMixin
from bochner.kernels import Kernel
from bochner.models.heads import BottleneckHead, FeatureModel, LogitAverage
from bochner.models.inputs import TransformedModel
from bochner.models.landmarks import LandmarkModel
from bochner.models.network import Network
from bochner.models.onnx import export_onnx
from bochner.models.partition import PartitionedModel
from bochner.ops import row_tiles
from bochner.remote import Mirror, is_url, refuse_url
from bochner.search.fit import Fitted, fit_model
from bochner.search.kernel import KERNEL_CONSTRAINTS
from bochner.search.online import start_online, step_online
from bochner.search.plan import (
    PRESET_NAMES,
    SOLVERS,
    KernelPlan,
    NetworkPlan,
    SolverParams,
    as_adapt,
    as_params,
    as_selection,
    make_task,
    rows_per_shard,
)
from bochner.solvers.sgd import Record

_COUNT = Interval(Integral, 1, None, closed="left")
_ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric"}  # a shard is cast when it is read

# Rows are always scored in tiles of this size, so that the score of a row does not depend on its neighbours: products
# of other shapes round differently. A GPU needs larger tiles to be busy.
CPU_TILE, GPU_TILE = 64, 4096
TILES_AT_ONCE = 64
# Differences below a thousandth of the spread of a column, or of the targets, do not matter.
MIN_RESOLUTION = 1e-3
MAX_OFFSET_NUMBERS = 2**22  # that decide whether float32 resolves the columns
_RESOLVED_TYPES = {"float32", "float16", "bfloat16", "int16", "uint16", "int8", "uint8", "bool"}
TRANSFORM_NAMES = {
    "none": "as they are",
    "standard": "standardised",
    "normal": "normal scores",
    "both": "standardised and normal scores side by side",
    "robust": "divided by their interquartile range and bounded",
}


class Rows(NamedTuple):
    """Training rows, validation rows, and both together."""

    train: Source
    validation_data: Source
    all_rows: Source

    def mapped(self, transform: Callable[[Block], Block]) -> Rows:
        return Rows(*(MappedSource(source, transform) for source in self))


class BaseModel(SavableMixin):
    """A supervised estimator around one torch module; subclasses define targets and plans."""

    model_: nn.Module
    solver_: str
    kernel_: Kernel
    history_: list[Record]
    choices_: dict[str, Any]
    search_results_: list[dict[str, Any]]
    validation_: dict[str, Tensor | None]
    encoder_: TableEncoder | None
    feature_importances_: np.ndarray[Any, Any] | None
    target_name_: str | None = None  # the column that `fit` got as `target`
    input_offset_: np.ndarray[Any, Any] | None = None  # [d], subtracted from inputs that float32 does not resolve
    verbose: bool | None
    random_state: Any
    validation_fraction: float
    solver_params: Any

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "alpha": [None, Interval(Real, 0, None, closed="left")],
        "solver_params": [None, dict, SolverParams],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "verbose": [None, "boolean"],
        "random_state": ["random_state"],
    }
    _fitted_state: ClassVar[Mapping[str, Any]] = {
        "model_": nn.Module,
        "solver_": str,
        "history_": list,
        "choices_": dict,
        "search_results_": list,
        "validation_": dict,
        "encoder_": (TableEncoder, NoneType),
        "feature_importances_": (np.ndarray, NoneType),
    }

    def make_plan(self) -> KernelPlan | NetworkPlan:
        """The constructor's arguments as typed settings; combinations that cannot be fitted are errors."""
        raise TypeError(f"{type(self).__name__} must define make_plan().")

    def _encode(self, y: Any) -> Tensor:
        """Checked targets as a tensor of class indices or numbers."""
        raise TypeError(f"{type(self).__name__} must define _encode(y).")

    def _encode_source(self, source: Source) -> Source:
        """A source whose targets are class indices or numbers."""
        return source

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, validation_data: Any, params: SolverParams, *, seed: int
    ) -> Rows:
        """Rows with encoded targets, from checked arrays or from a source.

        Without `validation_data`, a random `validation_fraction` of the rows is set aside.
        """
        self.__dict__.pop("input_offset_", None)  # of an earlier fit
        if (offset := input_offset(X, params.dtype)) is not None:
            self.input_offset_ = offset
        if isinstance(X, Source):
            self.encoder_ = None
            if (names := column_names_of(X)) is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):  # of an earlier fit
                del self.feature_names_in_
            source = self._without_offset(self._encode_source(X))
            if validation_data is None:
                return Rows(*split(source, self.validation_fraction, seed), source)
            return Rows(source, self._read_validation(validation_data, params), source)
        targets = self._encode(y)
        weight, chosen = None, torch.arange(len(targets))
        if sample_weight is not None:
            weight, chosen = checked_weights(sample_weight, len(targets))
        order = chosen[torch.randperm(len(chosen), generator=Generator().manual_seed(seed))]
        everything = self._array_rows(X, targets, weight, order, params)
        if validation_data is not None:
            return Rows(everything, self._read_validation(validation_data, params), everything)
        n = len(order)
        count = min(max(1, round(self.validation_fraction * n)), max(1, n - 1))
        train = self._array_rows(X, targets, weight, order[count:] if n > 1 else order, params)
        return Rows(train, self._array_rows(X, targets, weight, order[:count], params), everything)

    def _read_validation(self, validation_data: Any, params: SolverParams) -> Source:
        """`validation_data`, a pair (X, y) or a source, with encoded targets."""
        if isinstance(validation_data, Source):
            return self._without_offset(self._encode_source(validation_data))
        if not isinstance(validation_data, tuple | list) or len(validation_data) != 2:
            raise ValueError(
                f"validation_data must be a pair (X, y) or a source, got {type(validation_data).__name__}."
            )
        try:
            X, y = self._check_pair(*validation_data, reset=False)
            targets = self._encode(y)
        except ValueError as error:
            raise ValueError(f"validation_data does not fit the training rows: {error}") from error
        return self._array_rows(X, targets, None, torch.arange(len(targets)), params)

    def _without_offset(self, source: Source) -> Source:
        offset = self.input_offset_
        return source if offset is None else MappedSource(source, partial(_subtract, offset=offset))

    def _array_rows(self, X: Any, y: Tensor, weight: Tensor | None, order: Tensor, params: SolverParams) -> ArrayRows:
        dtype = params.dtype
        outputs = len(self.classes_) if hasattr(self, "classes_") else y[:1].numel()
        row_bytes = dtype.itemsize * X.shape[1] + 16 + 3 * outputs  # as in `bochner.search.memory.Sizes`
        shard_rows = rows_per_shard(params.memory_budget, row_bytes=row_bytes)
        offset = self.input_offset_
        return ArrayRows(X, y, weight, order=order, shard_rows=shard_rows, dtype=dtype, offset=offset)

    def _fit_rows(
        self, plan: KernelPlan | NetworkPlan, rows: Rows, *, num_classes: int | None, seed: int, group: Any
    ) -> Fitted:
        """Fit `model_`: see `bochner.search.fit_model`."""
        names: dict[str, Any] = {}
        directory = plan.params.checkpoint_dir
        if directory is not None and is_url(directory):
            if group is not None:
                refuse_url("checkpoint_dir", directory, "with several processes")
            mirror = Mirror(os.fspath(directory))
            plan = replace(plan, params=replace(plan.params, checkpoint_dir=mirror.path))
        if directory is not None:
            columns = getattr(self, "feature_names_in_", column_names_of(rows.train))
            names = {"columns": None if columns is None else list(columns)}
            names["classes"] = np.asarray(getattr(self, "classes_", ())).tolist()
        task = make_task(*rows, num_classes=num_classes, seed=seed, params=plan.params, names=names)
        fitted = fit_model(plan, task, verbose=self.verbose, group=group)
        if self.encoder_ is None:
            self.n_features_in_ = rows.train.num_inputs
        self.search_results_ = fitted.search
        self.validation_ = {name: None if value is None else value.cpu() for name, value in fitted.validation.items()}
        self.model_, self.solver_, self.history_ = fitted.model, fitted.solver, fitted.history
        self.choices_ = {**fitted.choices, **({} if fitted.selection is None else {"selection": fitted.selection})}
        if fitted.kernel is not None:
            self.kernel_ = fitted.kernel
        self.feature_importances_ = None if fitted.importances is None else fitted.importances.numpy()
        if self.feature_importances_ is not None and self.encoder_ is not None:  # one share for each column of X
            sources, shares = self.encoder_.sources, self.feature_importances_
            self.feature_importances_ = np.bincount(sources, weights=shares, minlength=self.n_features_in_)
        return fitted

    def _step(self, X: Any, y: Tensor, sample_weight: Any, *, num_classes: int | None) -> None:
        """One pass of minibatch steps over checked rows; the first call draws the features."""
        plan, generator = self.make_plan(), make_generator(self.random_state)
        assert isinstance(plan, KernelPlan)
        plan = replace(plan, preset=None)  # a search needs all rows at once
        weight, _ = checked_weights(sample_weight, len(y))
        if weight is not None:  # as given: other rows may follow
            weight = torch.as_tensor(np.asarray(sample_weight, dtype=np.float64)).expand(len(y))
        if not hasattr(self, "model_") and (offset := input_offset(X, plan.params.dtype)) is not None:
            self.input_offset_ = offset
        rows = self._array_rows(X, y, weight, torch.randperm(len(y), generator=generator), plan.params)
        mean, std = _moments(y, num_classes)
        seed, params = generator.initial_seed(), plan.params
        task = make_task(rows, rows, rows, num_classes=num_classes, seed=seed, params=params, mean=mean)
        if not hasattr(self, "model_"):
            model, self.kernel_ = start_online(plan, task, generator=generator)
            if num_classes is None:
                # float32 does not resolve targets that vary by less than a millionth of their mean
                model = model if resolves(mean, std) else model.double()
                model.head.bias.data.copy_(mean)
            self.model_, self.solver_, self.history_, self.choices_ = model, "sgd", [], {}
            self.search_results_, self.validation_, self.feature_importances_ = [], {}, None
        assert isinstance(self.model_, FeatureModel)
        step_online(self.model_, plan, rows, loss=task.loss)

    def _scores(self, X: Any) -> Tensor:
        """Scores [n, t] of arrays, frames, tensors or a source, a few rows at a time."""
        check_is_fitted(self)
        return self._encoded_scores(self._encoded_inputs(X))

    def _encoded_scores(self, X: Any) -> Tensor:
        blocks = self._blocks(X)
        like = bias_of(self.model_)
        size = CPU_TILE if like.device.type == "cpu" else GPU_TILE
        with torch.no_grad():
            parts = [self._block_scores(block.to(like), size) for block in blocks]
        scores = torch.cat(parts).cpu()
        if not scores.isfinite().all():
            row = int((~scores.isfinite()).any(dim=1).nonzero()[0, 0])
            raise FloatingPointError(
                f"the scores of row {row} of X are not finite: the row is too far from the training rows, or the model "
                "was fitted with an extreme bandwidth or learning_rate."
            )
        return scores

    def _encoded_inputs(self, X: Any) -> Any:
        """X as numbers: an array, sparse matrix, tensor or source with the columns that the model has."""
        X = read_inputs(self, X)
        if self.encoder_ is not None:
            if not is_frame(X):
                raise ValueError(
                    f"X must be a frame with the columns {list(self.feature_names_in_)} as in fit, got "
                    f"{type(X).__name__}."
                )
            return self.encoder_.encode(X)
        if isinstance(X, Tensor):
            return checked_tensor(self, X, reset=False)
        if isinstance(X, Source):
            return X
        if is_pandas(X) and [*X.columns] == [*getattr(self, "feature_names_in_", X.columns)]:
            check_numbers(X)
        try:
            return validate_data(self, X, reset=False, **_ACCEPTED)
        except ValueError as error:
            raise _explained(error) from error

    def _block_scores(self, X: Tensor, size: int) -> Tensor:
        """Scores in tiles of `size` rows; the last row is repeated to fill the last tile."""
        rows = torch.arange(-(-len(X) // size) * size, device=X.device).clamp_max_(len(X) - 1)
        return tiled_scores(self.model_, X if len(X) % size == 0 else X[rows], size)[: len(X)]

    def _blocks(self, X: Any) -> Iterator[Tensor]:
        """Blocks of the inputs of `model_`."""
        if isinstance(X, Source):
            yield from (block.X for block in in_order(self._without_offset(X), batch_rows=TILES_AT_ONCE * CPU_TILE))
            return
        for rows in row_tiles(X.shape[0], row_elements=1, tile_elements=TILES_AT_ONCE * CPU_TILE):
            yield dense_rows(X, rows, bias_of(self.model_).dtype, self.input_offset_)

    def _check_pair(
        self, X: Any, y: Any, *, sample_weight: Any = None, reset: bool = True
    ) -> tuple[Any, np.ndarray[Any, Any]]:
        """X as a finite array, sparse matrix or tensor [n, d], and y as an array of as many rows."""
        numeric = isinstance(self, RegressorMixin)
        y, num_columns = checked_targets(y, numeric=numeric)
        multiple = numeric or num_columns > 1
        if reset:
            self.encoder_ = None
        is_array = isinstance(X, np.ndarray | Tensor)
        if (not is_array and needs_encoder(X)) or (not reset and self.encoder_ is not None):
            return self._encode_frame(X, y, sample_weight, reset=reset, numeric=numeric)
        if isinstance(X, Tensor):
            X = checked_tensor(self, X, reset=reset)
            y = y.cpu().numpy() if isinstance(y, Tensor) else y
            _, y = check_X_y(np.zeros((len(X), 1)), y, multi_output=multiple, y_numeric=numeric)
            return X, y
        try:
            return validate_data(self, X, y, reset=reset, multi_output=multiple, y_numeric=numeric, **_ACCEPTED)
        except ValueError as error:
            raise _explained(error) from error

    def _encode_frame(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool, numeric: bool
    ) -> tuple[Any, np.ndarray[Any, Any]]:
        """A frame as numbers, by the encoder of `fit` or one that is fitted to it, and y as an array."""
        _, y = check_X_y(np.zeros((len(X), 1)), y, multi_output=True, y_numeric=numeric)
        if not reset:
            return self._encoded_inputs(X), y
        num_classes, targets = None, y
        if not numeric and y.ndim == 1:
            classes, targets = np.unique(y, return_inverse=True)
            num_classes = len(classes)
        weight, chosen = checked_weights(sample_weight, len(y))
        frame = nw.from_native(X, eager_only=True)[chosen.numpy()].to_native() if len(chosen) < len(y) else X
        self.encoder_, encoded = TableEncoder.fit(
            frame, targets[chosen], num_classes=num_classes, weight=None if weight is None else weight[chosen], seed=0
        )
        Z = np.zeros((len(y), encoded.shape[1]))  # rows of weight 0 are never read
        Z[chosen] = encoded
        self.feature_names_in_ = np.array([column.name for column in self.encoder_.columns], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return Z, y

    def _like(self, X: Any, values: Tensor) -> Any:
        """Values as a tensor where X is one, else as an array; in X's dtype where that is float32 or float64."""
        if isinstance(X, Tensor):
            return values.to(X)
        return (values.float() if getattr(X, "dtype", None) == np.float32 else values.double()).numpy()

    def _export(self, path: Any, **outputs: Any) -> None:
        check_is_fitted(self)
        dtype = torch.float32 if self.input_offset_ is None else torch.float64
        export_onnx(self.model_, path, dtype=dtype, encoder=self.encoder_, offset=self.input_offset_, **outputs)

    def _params_to_save(self) -> dict[str, Any]:
        """Constructor parameters without those that describe this process and its file system."""
        params = super()._params_to_save()
        options = self.solver_params
        options = asdict(options) if isinstance(options, SolverParams) else options or {}
        kept = {name: value for name, value in options.items() if name not in ("device", "checkpoint_dir", "tracking")}
        return {**params, "solver_params": kept or None}

    @property
    def _num_inputs(self) -> int:
        """The number of columns of the model's inputs."""
        return self.n_features_in_ if self.encoder_ is None else len(self.encoder_.names)

    def _check_fitted_state(self) -> None:
        """Check that the model accepts `n_features_in_` columns, and returns a score for each class, or one for two."""
        self.make_plan()  # checks the parameters
        with torch.no_grad():
            outputs = self.model_(bias_of(self.model_).new_zeros(1, self._num_inputs)).shape[1]
        offset = self.input_offset_
        if offset is not None and (offset.shape != (self._num_inputs,) or not np.isfinite(offset).all()):
            raise ValueError(f"input_offset_ must be {self._num_inputs} finite numbers, got {offset!r}.")
        classes = getattr(self, "classes_", None)
        if classes is not None and outputs != len(classes) and (outputs, len(classes)) != (1, 2):
            raise ValueError(f"model_ must return a score for each of {len(classes)} classes, got {outputs}.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class KernelModel(BaseModel):
    """The parameters of kernel models, which are documented in `KernelClassifier`."""

    preset: str | None = "default"
    kernel: str | Kernel = "auto"
    bandwidth: float | str | None = None
    gamma: float | None = None
    n_components: int = 4096
    standardize: bool | None = None
    adapt: str | dict[str, Any] | None = "auto"
    selection: int | dict[str, Any] | None = None
    solver: str = "auto"
    alpha: float | None = None
    solver_params: dict[str, Any] | SolverParams | None = None
    scoring: Any = None
    time_limit: float | None = None
    validation_fraction: float = 0.1
    verbose: bool | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseModel._parameter_constraints,
        **KERNEL_CONSTRAINTS,
        "preset": [None, StrOptions(set(PRESET_NAMES))],
        "kernel": [StrOptions({"auto"}), *KERNEL_CONSTRAINTS["kernel"]],
        "scoring": [None, StrOptions(set(get_scorer_names())), callable],
        "time_limit": [None, Interval(Real, 0, None, closed="neither")],
        "n_components": [_COUNT],
        "standardize": [None, "boolean"],
        "adapt": [None, str, dict],
        "selection": [None, Integral, dict],
        "solver": [StrOptions(set(SOLVERS))],
    }
    _fitted_state: ClassVar[Mapping[str, Any]] = {**BaseModel._fitted_state, "kernel_": Kernel}

    def make_plan(self) -> KernelPlan:
        self._validate_params()
        given = self.solver_params
        return KernelPlan(
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            gamma=self.gamma,
            n_components=self.n_components,
            standardize=self.standardize,
            adapt=None if self.adapt is None else as_adapt(self.adapt),
            selection=None if self.selection is None else as_selection(self.selection),
            solver=self.solver,
            alpha=self.alpha,
            params=SolverParams() if given is None else as_params(SolverParams, given, name="solver_params"),
            preset=self.preset,
            time_limit=self.time_limit,
            scoring=self.scoring,
        )

    def summary(self) -> str:
        """The fitted model and how it was chosen, in a few lines of text."""
        check_is_fitted(self)
        lines = [f"{type(self).__name__}: {self.kernel_!r}, solver {self.solver_!r}"]
        chosen = self.choices_
        if self.search_results_:
            metric = "no metric"
            if chosen["metric"] != "none":
                rounds = "1 round" if chosen["rounds"] == 1 else f"{chosen['rounds']} rounds"
                metric = f"a {chosen['metric']} metric, power {chosen['power']:g}, {rounds}"
            lines += [
                f"inputs: {TRANSFORM_NAMES[chosen['transform']]}; {metric}",
                f"bandwidth: {chosen['factor']:g} times the median distance; penalty {chosen['penalty']:.3g}",
                f"search: {len(self.search_results_)} trials, the last on {chosen['rows']:,} rows; validation loss "
                f"{chosen['loss']:.4g} ± {chosen['error']:.2g}",
            ]
            if chosen["members"] > 1:
                lines.append(f"ensemble of {chosen['members']} models")
        if self.feature_importances_ is not None:
            names = getattr(self, "feature_names_in_", None)
            largest = np.argsort(-self.feature_importances_)[:5]
            shown = (f"{i if names is None else names[i]} {self.feature_importances_[i]:.0%}" for i in largest.tolist())
            lines.append(f"most important columns: {', '.join(shown)}")
        return "\n".join(lines)

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._summary_html()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """In notebooks, show the chosen settings below the parameters."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html()
        return bundle

    def _summary_html(self) -> str:
        return f"<pre>{html.escape(self.summary())}</pre>" if hasattr(self, "model_") else ""

    def report(self, path: str | os.PathLike[str], X: Any = None, y: Any = None) -> None:
        """Write an HTML page about the fitted model to `path`, one file; needs bochner[plot].

        Scores on held-out rows with 95 % intervals, calibration and confusion or residuals, importances of the columns,
        what the search tried; and the same scores on test data X and y, rows that were not fitted on.
        """
        write_report(self, path, X, y)

    def _can_step(self) -> bool:
        """Whether `partial_fit` exists: only weights on one map of features can be continued."""
        params = as_params(SolverParams, self.solver_params, name="solver_params")
        if self.solver not in ("auto", "sgd") or params.num_blocks != 1:
            raise ValueError(
                f"partial_fit needs solver 'auto' or 'sgd' and num_blocks=1, got {self.solver!r} and "
                f"{params.num_blocks}; use fit."
            )
        for name in ("adapt", "selection"):
            if getattr(self, name) not in (None, "auto"):
                raise ValueError(f"partial_fit needs {name}=None, got {getattr(self, name)!r}; use fit.")
        if hasattr(self, "model_") and not isinstance(self.model_, FeatureModel):
            raise ValueError(f"partial_fit cannot continue a fit with solver_={self.solver_!r}; use solver='sgd'.")
        return True


def checked_targets(y: Any, *, numeric: bool) -> tuple[Any, int]:
    """y, as an array unless it is one that scikit-learn reads, and the number of its columns.

    Missing values, labels of several types and, in `numeric` targets, text and dates are errors.
    """
    if y is None or isinstance(y, Tensor):
        return y, int(y.shape[1]) if y is not None and y.ndim == 2 else 1
    if hasattr(y, "__array__") and not isinstance(y, np.ndarray) and not hasattr(y, "iloc"):
        y = np.asarray(y)  # polars, pyarrow
    array = np.asarray(y)
    if array.dtype.kind in "OTUSMm":
        _check_values(array, numeric=numeric)
    return y, int(array.shape[1]) if array.ndim == 2 else 1


def _check_values(array: np.ndarray[Any, Any], *, numeric: bool) -> None:
    values, width = array.ravel().tolist(), max(1, array[:1].size) if array.ndim else 1
    for place, value in enumerate(values):
        if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
            raise ValueError(
                f"y must have a value in every row, but contains {value!r} in row {place // width} (None, NA or NaN); "
                "leave such rows out."
            )
    text = [value for value in values if isinstance(value, str)]
    if numeric and (text or array.dtype.kind in "SMm"):
        raise ValueError(f"y must hold numbers, got {(text or values)[0]!r}; text needs a classifier.")
    if text and len(text) < len(values):
        other = next(value for value in values if not isinstance(value, str))
        raise ValueError(f"y must hold labels of one type, got {text[0]!r} and {other!r}; convert them to text.")


def _explained(error: ValueError) -> ValueError:
    """The error, without the advice of scikit-learn to use another estimator for missing values."""
    if "Input X contains NaN" not in str(error):
        return error
    return ValueError(
        "Input X contains NaN, but arrays must have no missing values: fill them, or fit on a frame, such as "
        "pandas.DataFrame(X), whose missing values are encoded."
    )


def checked_inputs(estimator: BaseEstimator, X: Any, *, reset: bool) -> Tensor:
    """X as a finite float32 or float64 tensor [rows, inputs]; `reset` records width and names, else checks them."""
    if isinstance(X, Tensor):
        return checked_tensor(estimator, X, reset=reset)
    return as_tensor(validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32]))


def checked_tensor(estimator: BaseEstimator, X: Tensor, *, reset: bool) -> Tensor:
    """What scikit-learn's `validate_data` checks of arrays, for a tensor."""
    checks.finite("X", checks.inputs("X", X, width=None if reset else estimator.n_features_in_))
    if 0 in X.shape:
        raise ValueError(f"X must hold at least one row and one column, got shape {tuple(X.shape)}.")
    if reset:
        estimator.n_features_in_ = X.shape[1]
    return X.detach()


def as_tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that shares the array's memory; bochner never writes to its inputs, so read-only memory is fine."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(np.ascontiguousarray(array))


def make_generator(random_state: Any) -> Generator:
    """A CPU generator seeded from scikit-learn's `random_state`: one seed gives one result on every device."""
    return Generator().manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))


Inputs = Any  # np.ndarray, scipy.sparse matrix or Tensor, [N, d]


class ArrayRows:
    """The rows `order` [n] of X [N, d], y and weight, as `dtype`, in shards: a shard is gathered when it is read.

    If shards were slices, arrays sorted by class would give unbalanced batches.
    """

    def __init__(
        self,
        X: Inputs,
        y: Tensor,
        weight: Tensor | None,
        *,
        order: Tensor,
        shard_rows: int,
        dtype: torch.dtype,
        offset: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self._X, self._y, self._weight, self._order, self._dtype = X, y, weight, order, dtype
        self._offset = offset
        self.num_inputs: int = X.shape[1]
        self._tiles = list(row_tiles(len(order), row_elements=1, tile_elements=shard_rows))
        self.shard_sizes = [tile.stop - tile.start for tile in self._tiles]

    def read(self, shard: int) -> Block:
        rows = self._order[self._tiles[shard]]
        weight = None if self._weight is None else self._weight[rows].to(self._dtype)
        return Block(dense_rows(self._X, rows, self._dtype, self._offset), self._y[rows], weight)

    def read_targets(self, shard: int) -> Tensor:
        return self._y[self._order[self._tiles[shard]]]


def input_offset(X: Any, dtype: torch.dtype) -> np.ndarray[Any, Any] | None:
    """Medians of the columns of X [n, d] that float32 does not resolve, 0 for the others; None if it resolves all.

    Examples are times in nanoseconds, serial numbers and coordinates of a small area. From the largest and the smallest
    value, and up to 4 million numbers; those of a source are in its first shard. If `dtype` is float32, columns that it
    cannot hold are errors.
    """
    if isinstance(X, Source):
        shard = next((shard for shard, size in enumerate(X.shard_sizes) if size), None)
        return None if shard is None else input_offset(read_shard(X, shard).X, dtype)
    if issparse(X) or str(X.dtype).removeprefix("torch.") in _RESOLVED_TYPES:
        return None
    values = X.detach().cpu().numpy() if isinstance(X, Tensor) else X
    size = np.maximum(values.max(axis=0), -values.min(axis=0).astype(np.float64))
    float32 = np.finfo(np.float32)
    bad = np.flatnonzero(np.isfinite(size) & ((size > 0.1 * float32.max) | ((size > 0) & (size < 10 * float32.tiny))))
    if len(bad) and dtype == torch.float32:
        raise ValueError(
            f"column {bad[0]} of X must have a size from {10 * float32.tiny:.1g} to {0.1 * float32.max:.1g}, got "
            f"{size[bad[0]]:.3g}; scale it, or set precision='float64' in solver_params."
        )
    sample = values[:: max(1, values.size // MAX_OFFSET_NUMBERS)].astype(np.float64)
    first, median, third = np.quantile(sample, [0.25, 0.5, 0.75], axis=0, method="lower")
    with np.errstate(invalid="ignore"):  # rows of a source may be infinite, which is reported when they are read
        spread = np.where(third > first, third - first, sample.std(axis=0))
    is_lost = (spread > 0) & (np.abs(median) * float32.eps > MIN_RESOLUTION * spread)
    return np.where(is_lost, median, 0.0) if is_lost.any() else None


def _subtract(block: Block, *, offset: np.ndarray[Any, Any]) -> Block:
    return block._replace(X=block.X.double() - torch.as_tensor(offset, device=block.X.device))


def dense_rows(
    X: Inputs, rows: Tensor | slice, dtype: torch.dtype, offset: np.ndarray[Any, Any] | None = None
) -> Tensor:
    """Those rows of X, less the offset, as a dense tensor."""
    if isinstance(X, Tensor):
        part = X[rows.to(X.device) if isinstance(rows, Tensor) else rows]
        return (part if offset is None else part.double() - torch.as_tensor(offset, device=X.device)).to(dtype)
    part = X[rows.numpy() if isinstance(rows, Tensor) else rows]
    part = part.toarray() if issparse(part) else part
    kind = np.float64 if dtype == torch.float64 else np.float32
    return as_tensor(np.asarray(part if offset is None else part - offset, dtype=kind))


def checked_weights(sample_weight: Any, num_rows: int) -> tuple[Tensor | None, Tensor]:
    """Weights of mean 1 over the rows with a positive weight, and these rows: a weight of 0 leaves a row out."""
    if sample_weight is None:
        return None, torch.arange(num_rows)
    checked = _check_sample_weight(sample_weight, np.empty((num_rows, 1)), dtype=np.float64, ensure_non_negative=True)
    weight = as_tensor(checked)
    chosen = weight.nonzero()[:, 0]
    if len(chosen) == 0:
        raise ValueError("sample_weight must be positive for some row, got only zeros.")
    return weight / weight[chosen].mean(), chosen


def refuse_targets(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ValueError("y and sample_weight must be None with a source, which holds its own targets and weights.")


def tiled_scores(model: nn.Module, X: Tensor, size: int) -> Tensor:
    """Scores [n, t] of X [n, d] in tiles of `size` rows, each rounded as if it were all of X."""
    if isinstance(model, TransformedModel):  # which transforms each row by itself
        return tiled_scores(model.model, model.transform(X), size)
    if isinstance(model, LandmarkModel) and X.device.type == "cpu":  # the landmarks are prepared once for all tiles
        return model.decision(X, tile_rows=size)
    return torch.cat([model(tile) for tile in X.split(size)])


def parts_of(model: nn.Module) -> Iterator[LandmarkModel | FeatureModel | Network]:
    """The models whose outputs are averaged, or one of which predicts a row."""
    if isinstance(model, LogitAverage | PartitionedModel):
        for part in model.models:
            yield from parts_of(part)
    elif isinstance(model, TransformedModel):
        yield from parts_of(model.model)
    else:
        assert isinstance(model, LandmarkModel | FeatureModel | Network)
        yield model


def bias_of(model: nn.Module) -> Tensor:
    """The bias of the outputs; its device and dtype are those of the model."""
    part = next(parts_of(model))
    return part.bias if isinstance(part, LandmarkModel) else part.head.bias


def rescale(model: nn.Module, mean: Tensor, std: Tensor) -> None:
    """Turn f into std f + mean, for outputs [t], in place."""
    with torch.no_grad():
        for part in parts_of(model):
            if isinstance(part, LandmarkModel):
                part.coefficients.mul_(std.to(part.coefficients))
                bias = part.bias
            else:
                last = part.head.second if isinstance(part.head, BottleneckHead) else part.head.weights
                last.mul_(std.to(last)[:, None])
                bias = part.head.bias
            bias.copy_(bias * std.to(bias) + mean.to(bias))


def needs_encoder(X: Any) -> bool:
    """Whether X is a frame that scikit-learn's rules for arrays do not cover: text, dates, missing values, ...

    pandas frames of finite numbers are arrays with column names.
    """
    if not is_frame(X):
        if type(X).__name__ == "LazyFrame":
            raise ValueError("X must be a DataFrame, got a LazyFrame; use X.collect().")
        return False
    if not is_pandas(X):
        return True
    if not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in X.dtypes):
        return True
    return not all(np.isfinite(X.iloc[:, j].to_numpy()).all() for j in range(X.shape[1]))


def is_pandas(X: Any) -> bool:
    return type(X).__module__.split(".")[0] == "pandas" and is_frame(X)


def check_numbers(frame: Any) -> None:
    """Raise an error that names the column of a pandas frame which an estimator fitted on numbers cannot read."""
    for j, name in enumerate(frame.columns):
        try:
            values = frame.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError) as error:
            raise ValueError(f"column {name!r} must hold numbers as in fit: {error}.") from error
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad) and np.isnan(values[bad[0]]):
            raise ValueError(
                f"column {name!r} has a missing value in row {bad[0]}, but the rows of fit had none in any column; "
                "fill it, or fit on rows with missing values."
            )
        if len(bad):
            raise ValueError(f"column {name!r} must be finite, got {values[bad[0]]} in row {bad[0]}.")


def resolves(mean: Tensor, std: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether numbers of that dtype resolve a thousandth of the spread of targets around their mean, and hold it."""
    spread, limits = torch.where(std > 0, std, 1.0), torch.finfo(dtype)
    is_held = (spread > 1e8 * limits.tiny) & (spread < 1e-8 * limits.max)
    return bool((is_held & (mean.abs() * limits.eps < MIN_RESOLUTION * spread)).all())


def _moments(y: Tensor, num_classes: int | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the targets [t]; uniform shares for classes, since others may follow."""
    if num_classes is not None:
        return torch.full((num_classes,), 1 / num_classes), torch.ones(num_classes)
    columns = y.reshape(len(y), -1)
    return columns.mean(dim=0), columns.std(dim=0, correction=0)
