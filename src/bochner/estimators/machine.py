"""What the classifier and the regressor share: parameters, the way from rows to a model, and back to scores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import is_regressor
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data import MappedSource, split, statistics
from bochner.data.batches import in_order
from bochner.data.blocks import Block, Source, sample_rows, seeded
from bochner.estimators.arrays import PermutedRows, checked_weights, dense_rows, make_generator, resolve_device
from bochner.estimators.parameters import MachineParameters
from bochner.estimators.stored import KINDS, StoredMachine, plain
from bochner.features import FeatureMap
from bochner.kernels import ArcCosine, Kernel, Polynomial, Stationary
from bochner.models.heads import draw_blocks
from bochner.ops import row_tiles
from bochner.search.fit import (
    Task,
    adapted_kernel,
    bias_of,
    choose_solver,
    fit_by_ridge,
    fit_by_saga,
    fit_by_sgd,
    fit_on_landmarks,
)
from bochner.search.kernel import draw_map, dtype_of, resolve_kernel
from bochner.search.memory import RULE_ROWS, MemoryPlan, Sizes, parse_bytes, plan_memory, rows_per_shard
from bochner.solvers.rows import summarize
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import Record

_ACCEPTED: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric"}  # as it is: a shard is cast when it is read

# Rows that are scored together, always so many: a row alone gets the very scores that it gets among others. A GPU wants
# more of them.
CPU_TILE, GPU_TILE = 64, 4096
TILES_AT_ONCE = 64
# Numbers that the optimizer keeps for each weight, twice: now, and as the epoch began.
KEPT = {"sgd": 0, "momentum": 2, "adam": 5, "adamw": 5}


def is_source(X: Any) -> bool:
    return hasattr(X, "shard_sizes") and hasattr(X, "read")


def refuse_targets(y: Any, sample_weight: Any) -> None:
    if y is not None or sample_weight is not None:
        raise ValueError("y and sample_weight must be None with a source, which holds its own targets and weights.")


class KernelMachine(MachineParameters):
    """A kernel, features or landmarks for it, and a solver; subclasses say what targets are."""

    model_: nn.Module
    kernel_: Kernel
    solver_: str
    history_: list[Record]
    n_features_in_: int

    def _seed(self) -> int:
        """The one number that everything random in a fit follows from."""
        return make_generator(self.random_state).initial_seed()

    def to_storable(self) -> StoredMachine:
        """What `bochner.save` writes; `bochner.load` makes the fitted estimator of it."""
        check_is_fitted(self)
        settings = {name: plain(value) for name, value in self.get_params(deep=False).items()}
        names, classes = getattr(self, "feature_names_in_", None), getattr(self, "classes_", None)
        return StoredMachine(
            type(self).__name__,
            list({**settings, "folder": None, "device": "auto"}.items()),
            self.model_,
            self.kernel_,
            self.solver_,
            self.n_features_in_,
            None if classes is None else classes.tolist(),
            None if names is None else names.tolist(),
            getattr(self, "_is_single", True),
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        KINDS[cls.__name__] = cls

    def _fit_rows(
        self, rows: Source, heldout: Source, everything: Source, *, num_classes: int | None, seed: int
    ) -> None:
        """Fit `model_` on `rows`, with y as class indices or centred numbers."""
        moved = Moved(resolve_device(self.device), dtype_of(self.precision))
        rows, heldout, everything = (MappedSource(part, moved) for part in (rows, heldout, everything))
        task = Task(rows, heldout, everything, num_classes, summarize(everything, num_classes=num_classes).mean)
        self.n_features_in_ = rows.num_inputs
        self.solver_ = self._chosen_solver(task)
        plan = self._plan(everything, len(task.mean))
        self.kernel_ = self._resolved_kernel(everything, seeded(seed, "kernel"))
        if self.adapt == "agop":
            self.kernel_ = self._adapted_kernel(task, plan, seeded(seed, "metric"))
        self.history_ = []
        self.model_ = self._solve(task, plan, seeded(seed, "solver"), seed)

    def _chosen_solver(self, task: Task) -> str:
        """What only "sgd" can do makes "auto" choose it, and is refused with the others."""
        special = {"rank": self.rank is not None, "num_blocks": self.num_blocks != 1, "folder": self.folder is not None}
        wanted = [name for name, given in special.items() if given]
        if self.solver == "auto" and wanted:
            return "sgd"
        solver = choose_solver(self.solver, task, num_features=self.num_features)
        if solver != "sgd" and wanted:
            raise ValueError(f"{wanted[0]}={getattr(self, wanted[0])!r} needs solver='sgd', got {self.solver!r}.")
        return solver

    def _solve(self, task: Task, plan: MemoryPlan, generator: Generator, seed: int) -> nn.Module:
        ridge = self.ridge
        match self.solver_:
            case "sgd":
                recipe = self._recipe(task.loss, plan, seed=seed, batch_size=self.batch_size)
                folder = None if self.folder is None else writable_folder(self.folder)
                model, self.history_ = fit_by_sgd(
                    task,
                    self._draw_maps(task.everything, seed),
                    recipe,
                    rank=self.rank,
                    generator=generator,
                    folder=folder,
                    verbose=self.verbose,
                )
                return model
            case "ridge":
                return fit_by_ridge(task, self._draw_maps(task.everything, seed)[0], ridge)
            case "saga":
                z = self._draw_maps(task.everything, seed)[0]
                return fit_by_saga(task, z, ridge=ridge, max_epochs=self.max_epochs, generator=generator)
            case _:
                return fit_on_landmarks(
                    task,
                    self.kernel_,
                    newton=self.solver_ == "newton",
                    num_landmarks=self.num_features,
                    ridge=ridge,
                    memory=self._kernel_memory(plan, task),
                    generator=generator,
                )

    def _resolved_kernel(self, source: Source, generator: Generator) -> Kernel:
        sample = sample_rows(source, RULE_ROWS, generator=generator).X.cpu()
        kernel = self.kernel
        if self.standardize:
            std = statistics(source).std.to(sample)
            scale = torch.where(std > 0, std, 1.0).reciprocal()
            named = resolve_kernel(kernel, 1.0, sample, generator) if isinstance(kernel, str) else kernel
            if not isinstance(named, Stationary) or named.scale is not None or named.metric is not None:
                raise ValueError(f"standardize=True needs a stationary kernel without scale or metric, got {kernel!r}.")
            rule = self.bandwidth or ("median" if isinstance(kernel, str) else named.bandwidth)
            return named.replace(scale=scale).with_bandwidth(rule, sample, generator=generator)
        return resolve_kernel(kernel, self.bandwidth, sample, generator)

    def _adapted_kernel(self, task: Task, plan: MemoryPlan, generator: Generator) -> Kernel:
        return adapted_kernel(
            self.kernel_,
            task,
            rounds=self.adapt_rounds,
            num_landmarks=plan.metric_landmarks,
            memory=max(0, plan.metric_spare),
            generator=generator,
        )

    def _draw_maps(self, source: Source, seed: int) -> list[FeatureMap]:
        """Landmarks come from the rows; frequencies do not depend on them, nor on how many there are."""
        count = self.num_features if self._has_landmarks() else 1
        sample = sample_rows(source, count, generator=seeded(seed, "landmarks")).X.cpu()
        device, generator = resolve_device(self.device), seeded(seed, "features")

        def draw(num_features: int, generator: Generator) -> FeatureMap:
            return draw_map(
                self.kernel_, sample, num_features=num_features, projection=self.projection, generator=generator
            ).to(device)

        return draw_blocks(draw, num_features=self.num_features, num_blocks=self.num_blocks, generator=generator)

    def _has_landmarks(self) -> bool:
        return not self.kernel_.spectral and not isinstance(self.kernel_, ArcCosine | Polynomial)

    def _recipe(self, loss: str, plan: MemoryPlan, *, seed: int, batch_size: int) -> SGDSettings:
        return SGDSettings(
            loss=loss,
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
            preconditioner_rank=self._directions(),
            preconditioner_rows=plan.preconditioner_rows,
            average=self.average,
            alpha=self.ridge or 0.0,
            criterion=self.criterion or ("mse" if loss == "squared" else "ce"),
            max_epochs=self.max_epochs,
            improvement=self.improvement,
            max_halvings=self.max_halvings,
            precision="float32" if self.precision == "float64" else self.precision,
            seed=seed,
        )

    def _directions(self) -> int | str:
        """ "auto" is none where there can be none."""
        cannot = self.optimizer not in ("sgd", "momentum")
        return 0 if cannot and self.preconditioner_rank == "auto" else self.preconditioner_rank

    def _plan(self, source: Source, num_outputs: int) -> MemoryPlan:
        sizes = Sizes(
            sum(source.shard_sizes),
            max(source.shard_sizes),
            source.num_inputs,
            num_outputs,
            self.num_features,
            dtype_of(self.precision).itemsize,
            copies=6 + KEPT[self.optimizer] + (0 if self.folder is None else 6),
            has_landmarks=isinstance(self.kernel, Kernel) and not self.kernel.spectral,
        )
        return plan_memory(
            parse_bytes(self.memory_budget),
            sizes,
            solver=self.solver_,
            precondition=self._directions() != 0,
            adapt=self.adapt is not None,
        )

    def _kernel_memory(self, plan: MemoryPlan, task: Task) -> int:
        """What is left for blocks of K_nm [n, m], which are kept with their rows, perhaps in float64."""
        m = min(self.num_features, task.num_rows)
        return plan.spare * m // (m + 2 * (task.rows.num_inputs + len(task.mean) + 1))

    def _shard_rows(self, num_inputs: int, num_outputs: int) -> int:
        row_bytes = dtype_of(self.precision).itemsize * num_inputs + 16 + 3 * num_outputs
        return rows_per_shard(parse_bytes(self.memory_budget), row_bytes=row_bytes)

    def _sources(
        self, X: Any, y: Tensor, sample_weight: Any, *, seed: int
    ) -> tuple[PermutedRows, PermutedRows, PermutedRows]:
        """Arrays as (rows, heldout, everything), in random order."""
        weight, chosen = checked_weights(sample_weight, len(y))
        order = chosen[torch.randperm(len(chosen), generator=Generator().manual_seed(seed))]
        n = len(order)
        held = min(max(1, round(self.heldout_fraction * n)), max(1, n - 1))
        parts = (order[held:] if n > 1 else order, order[:held], order)
        rows, heldout, everything = (self._permuted(X, y, weight, part) for part in parts)
        return rows, heldout, everything

    def _permuted(self, X: Any, y: Tensor, weight: Tensor | None, order: Tensor) -> PermutedRows:
        num_outputs = len(self.classes_) if hasattr(self, "classes_") else y[:1].numel()
        shard_rows = self._shard_rows(X.shape[1], num_outputs)
        return PermutedRows(X, y, weight, order=order, shard_rows=shard_rows, dtype=dtype_of(self.precision))

    def _scores(self, X: Any) -> Tensor:
        """Scores [n, t] of arrays, frames, tensors or a source, a few rows at a time."""
        check_is_fitted(self)
        blocks = self._blocks(X if is_source(X) else self._checked(X, reset=False))
        like = bias_of(self.model_)
        size = CPU_TILE if like.device.type == "cpu" else GPU_TILE
        with torch.no_grad():
            parts = [self._tile_scores(tile.to(like), size) for block in blocks for tile in block.split(size)]
        return torch.cat(parts).cpu()

    def _tile_scores(self, X: Tensor, size: int) -> Tensor:
        """Scores of at most `size` rows, computed as if there were so many."""
        rows = torch.arange(size, device=X.device).clamp_max_(len(X) - 1)
        return self.model_(X if len(X) == size else X[rows])[: len(X)]

    def _blocks(self, X: Any) -> Iterator[Tensor]:
        if is_source(X):
            yield from (block.X for block in in_order(X, batch_rows=TILES_AT_ONCE * CPU_TILE))
            return
        for rows in row_tiles(X.shape[0], row_elements=1, tile_elements=TILES_AT_ONCE * CPU_TILE):
            yield dense_rows(X, rows, bias_of(self.model_).dtype)

    def _checked(self, X: Any, *, reset: bool) -> Any:
        """X as a finite array, sparse matrix or tensor [rows, inputs]; `reset` learns the width, else checks it."""
        if not isinstance(X, Tensor):
            return validate_data(self, X, reset=reset, **_ACCEPTED)
        checks.finite("X", checks.inputs("X", X, width=None if reset else self.n_features_in_))
        if 0 in X.shape:
            raise ValueError(f"X must hold at least one row and one column, got shape {tuple(X.shape)}.")
        if reset:
            self.n_features_in_ = X.shape[1]
        return X

    def _checked_pair(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, np.ndarray[Any, Any]]:
        """X as above, and y as an array of as many rows."""
        is_regression = is_regressor(self)
        if isinstance(X, Tensor):
            X = self._checked(X, reset=reset)
            y = y.cpu().numpy() if isinstance(y, Tensor) else y
            _, y = check_X_y(np.zeros((len(X), 1)), y, multi_output=is_regression, y_numeric=is_regression)
        else:
            X, y = validate_data(
                self, X, y, reset=reset, multi_output=is_regression, y_numeric=is_regression, **_ACCEPTED
            )
        return X, self._checked_targets(y)

    def _heldout(self, heldout: Any) -> Source:
        """`heldout`, a pair (X, y) or a source, with y encoded."""
        if is_source(heldout):
            return self._encoded_source(heldout)
        if not isinstance(heldout, tuple | list) or len(heldout) != 2:
            raise ValueError(f"heldout must be a pair (X, y) or a source, got {type(heldout).__name__}.")
        try:
            X, y = self._checked_pair(*heldout, reset=False)
            targets = self._encode(y)
        except ValueError as error:
            raise ValueError(f"heldout does not fit the training rows: {error}") from error
        return self._permuted(X, targets, None, torch.arange(len(targets)))

    def _like(self, X: Any, values: Tensor) -> Any:
        """Values as a tensor where X was one, else as an array; in X's dtype where that is float32 or float64."""
        if isinstance(X, Tensor):
            return values.to(X)
        return (values.float() if getattr(X, "dtype", None) == np.float32 else values.double()).numpy()

    def _encode(self, y: Any) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define _encode(y).")

    def _encoded_source(self, source: Source) -> Source:
        raise TypeError(f"{type(self).__name__} must define _encoded_source(source).")

    def _checked_targets(self, y: Any) -> Any:
        raise TypeError(f"{type(self).__name__} must define _checked_targets(y).")

    def _parts(self, X: Any, y: Any, sample_weight: Any, heldout: Any, *, seed: int) -> tuple[Source, Source, Source]:
        """(rows, heldout, everything) with y encoded, of a source or of checked arrays."""
        if not is_source(X):
            rows, judged, everything = self._sources(X, self._encode(y), sample_weight, seed=seed)
            return (rows, judged, everything) if heldout is None else (everything, self._heldout(heldout), everything)
        source = self._encoded_source(X)
        if heldout is None:
            return *split(source, self.heldout_fraction, seed), source
        return source, self._heldout(heldout), source

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Moved:
    """Blocks on a device, inputs and float targets in one dtype."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype

    def __call__(self, block: Block) -> Block:
        y = block.y.to(self._device, self._dtype if block.y.is_floating_point() else None)
        weight = None if block.weight is None else block.weight.to(self._device, self._dtype)
        return Block(block.X.to(self._device, self._dtype), y, weight)


def resolves(mean: Tensor, std: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether numbers of that dtype tell targets of that mean a thousandth of their spread apart."""
    spread = torch.where(std > 0, std, 1.0)
    return bool((mean.abs() * torch.finfo(dtype).eps < 1e-3 * spread).all())


def writable_folder(folder: str | os.PathLike[str]) -> Path:
    """The folder, made if it is not there: better now than after the first epoch."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"folder must be one that can be written to, got {str(folder)!r}: {error}") from error
    if not os.access(path, os.W_OK):
        raise ValueError(f"folder must be one that can be written to, got {str(folder)!r}.")
    return path
