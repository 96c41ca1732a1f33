"""Steps of plain SGD on a linear head or bottleneck without autograd.

On a GPU with products in low precision and several minibatches at once; on a CPU with a few columns of features at a
time.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bochner.data.blocks import Block
from bochner.features import FourierMap
from bochner.features.projections import DenseProjection, SparseProjection
from bochner.models.heads import FeatureModel
from bochner.ops import (
    FeatureColumns,
    bottleneck_gradient,
    cosine_features,
    has_bf16_units,
    linear_gradient,
    long_product,
    minibatches_at_once,
    row_tiles,
    sparse_cosine_features,
    superbatch_steps,
)
from bochner.ops.descent import Gradient
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.preconditioner import Preconditioner
from bochner.solvers.replay import Replay


class PreconditionedRows:
    """u P for the rows u = [z, 1] of a head, [z, 0] P / floor before a bottleneck.

    The derivatives G [n, C] make the gradient G^T u, and (G^T u) P = G^T (u P): a step along u P is that of
    `Preconditioner.apply`. Products are in the dtype of Z, with a copy of the eigenvectors. O(n q D).

    >>> from bochner.models.heads import LinearHead
    >>> head = LinearHead.zeros(num_features=2, num_outputs=2)
    >>> P = Preconditioner(head, torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([1.0]), 0.25)
    >>> PreconditionedRows(P, torch.float32)(torch.ones(1, 2))
    (tensor([[0.2500, 1.0000]]), tensor([1.]))
    """

    def __init__(self, preconditioner: Preconditioner, dtype: torch.dtype) -> None:
        self._vectors, self._last = preconditioner.vectors[:, :-1].to(dtype), preconditioner.vectors[:, -1]
        self._shrink = 1 - preconditioner.floor / preconditioner.values
        self._floor = preconditioner.floor if preconditioner.before_bottleneck else None

    def __call__(self, Z: Tensor) -> tuple[Tensor, Tensor | None]:
        """The replacement of Z [n, D] in the gradient, and of the ones [n] of a linear head's bias."""
        parts = long_product(Z, self._vectors)
        if self._floor is not None:
            return self._without(Z, parts * self._shrink, scale=1 / self._floor), None
        parts = (parts + self._last) * self._shrink
        return self._without(Z, parts, scale=1.0), 1 - parts @ self._last

    def _without(self, Z: Tensor, parts: Tensor, *, scale: float) -> Tensor:
        return torch.addmm(Z, parts.to(Z.dtype), self._vectors, beta=scale, alpha=-scale)


# Features of a batch that may exist at once: 2^31 elements, 4 GiB in bfloat16. The gradient of a larger batch is summed
# over tiles by the ordinary step.
MAX_ELEMENTS = 2**31
FEATURE_ROWS = 2048  # whose features are computed together: the map is read once for all of them
ALIGNED = 16  # rows of weights are padded to a multiple of this, which tensor cores need
# Features per step on a CPU: with fewer the ordinary step is as fast, more take over 64 MB in float32.
MIN_COLUMNS, MAX_COLUMNS = 2**20, 2**24


class FusedSteps:
    """SGD of softmax regression on a GPU: the same steps as `take_step`, up to the rounding of `precision`.

    Holds copies of the map and of the weights in the precision of the products, and the features of a block; the
    model's own weights are updated in place. Construct a new object after anything else has changed them.
    """

    def __init__(
        self, model: FeatureModel, settings: SGDSettings, preconditioner: Preconditioner | None = None
    ) -> None:
        head = model.head
        self.parts = [p.detach() for p in head.parameters()]  # in the order of their registration, the bias last
        self.dtype = torch.bfloat16 if settings.precision == "bf16" else self.parts[0].dtype
        short = self.dtype != self.parts[0].dtype
        self.copies = [_copy(part, self.dtype) for part in self.parts[:-1]] if short else []
        self.feature_map, self.batch_size = model.feature_map, settings.batch_size
        outputs = len(self.parts[0])
        # Products in float32 take longer than reading the weights, so several minibatches at once have no advantage.
        single = settings.precision == "float32"
        self.minibatches = 1 if single else minibatches_at_once(outputs, settings.batch_size)
        self._frequencies = _frequencies(model.feature_map, self.dtype)
        self._preconditioned = None if preconditioner is None else PreconditionedRows(preconditioner, self.dtype)
        self._buffer: Tensor | None = None
        self._replay = Replay(self._step)

    @property
    def rows(self) -> int:
        """The best number of rows per block: whole superbatches, enough for an efficient product with the map."""
        superbatch = self.minibatches * self.batch_size
        limit = min(FEATURE_ROWS, MAX_ELEMENTS // self.feature_map.num_features)
        return superbatch * max(1, limit // superbatch)

    @torch.no_grad()
    def take(self, block: Block, *, rate: float) -> None:
        """A step at `rate` for each minibatch of `block`."""
        like = self.parts[0]
        X, y = block.X.to(like.device), block.y.to(like.device)
        with torch.autocast(like.device.type, enabled=False):  # precisions are chosen explicitly here
            if block.weight is None and self._frequencies is not None:
                self._replay(X, y, rate)
            else:
                self._step(X, y, rate, block.weight)

    def _step(self, X: Tensor, y: Tensor, rate: float, weight: Tensor | None = None) -> None:
        Z, weight = self._features(X), None if weight is None else weight.to(self.parts[0])
        for rows in row_tiles(len(y), row_elements=1, tile_elements=self.minibatches * self.batch_size):
            part = None if weight is None else weight[rows]
            self._descend(Z[rows], y[rows], rate, part)

    def _descend(self, Z: Tensor, y: Tensor, rate: float, weight: Tensor | None) -> None:
        along, ones = (None, None) if self._preconditioned is None else self._preconditioned(Z)
        copy, second_copy, *_ = (*self.copies, None, None)
        if len(self.parts) == 2:
            gradient = linear_gradient(self.parts[1], y, rate=rate, weight=weight, ones=ones)
        else:
            gradient = bottleneck_gradient(self.parts[1], self.parts[2], y, rate=rate, weight=weight, copy=second_copy)
        superbatch_steps(self.parts[0], Z, gradient, rate=rate, batch_size=self.batch_size, copy=copy, along=along)

    def _features(self, X: Tensor) -> Tensor:
        z = self.feature_map
        if self._frequencies is None:  # a structured or another map, in its own precision
            return z(X.to(self.parts[0].dtype)).to(self.dtype)
        assert isinstance(z, FourierMap)
        if isinstance(z.projection, SparseProjection):
            X = z.kernel.prepare(X.to(self.parts[0].dtype)).to(self.dtype)
            places, values = z.projection.places, self._frequencies
            return sparse_cosine_features(X, places, values, z.phases, amplitude=z.amplitude)
        if self._buffer is None or len(self._buffer) < len(X):
            self._buffer = X.new_empty(len(X), z.num_features, dtype=self.dtype)
        out = self._buffer[: len(X)]
        return cosine_features(X.to(self.dtype), self._frequencies, z.phases, amplitude=z.amplitude, out=out)


class ColumnSteps:
    """The same on a CPU for a dense Fourier map; see `FeatureColumns`.

    Products are in bfloat16 if that is the precision and the CPU has units for it, else in the precision of the
    weights. Holds a copy of the map, and the features of a batch.
    """

    def __init__(self, model: FeatureModel, settings: SGDSettings) -> None:
        z = model.feature_map
        assert isinstance(z, FourierMap)
        assert isinstance(z.projection, DenseProjection)
        self.parts = [p.detach() for p in model.head.parameters()]  # in the order of their registration, the bias last
        self.rows = settings.batch_size
        W = z.projection.frequencies.detach()  # not z.frequencies(), which costs as much as a step
        short = settings.precision == "bf16" and has_bf16_units(W.device)
        dtype, rows = torch.bfloat16 if short else W.dtype, settings.batch_size
        self._columns = FeatureColumns(W, z.phases, amplitude=z.amplitude, num_rows=rows, dtype=dtype)

    @torch.no_grad()
    def take(self, block: Block, *, rate: float) -> None:
        """A step at `rate` on `block`, one minibatch."""
        first = self.parts[0]
        weight = None if block.weight is None else block.weight.to(first)
        with torch.autocast("cpu", enabled=False):  # the precision of each product is chosen explicitly
            self._columns.step(first, block.X.to(first), self._gradient(block.y, rate, weight), rate=rate)

    def _gradient(self, y: Tensor, rate: float, weight: Tensor | None) -> Gradient:
        if len(self.parts) == 2:
            return linear_gradient(self.parts[1], y, rate=rate, weight=weight)
        return bottleneck_gradient(self.parts[1], self.parts[2], y, rate=rate, weight=weight)


def fused_steps(
    model: nn.Module, settings: SGDSettings, preconditioner: Preconditioner | None = None
) -> FusedSteps | ColumnSteps | None:
    """Fused steps for this model if there are any: plain SGD of the softmax loss on a head whose map is frozen.

    With a `preconditioner` on a GPU only.
    """
    if not is_plain(settings) or not isinstance(model, FeatureModel):
        return None
    if any(p.requires_grad for p in model.feature_map.parameters()):
        return None
    elements = settings.batch_size * model.feature_map.num_features
    if model.head.bias.is_cuda:
        return FusedSteps(model, settings, preconditioner) if elements <= MAX_ELEMENTS else None
    fits = MIN_COLUMNS <= elements <= MAX_COLUMNS and model.head.bias.device.type == "cpu"
    suits = fits and preconditioner is None and _has_columns(model.feature_map)
    return ColumnSteps(model, settings) if suits else None


def _has_columns(feature_map: nn.Module) -> bool:
    return isinstance(feature_map, FourierMap) and isinstance(feature_map.projection, DenseProjection)


def is_plain(settings: SGDSettings) -> bool:
    """Whether a step is Theta - rate z^T (p - onehot), preconditioned or not, and nothing else."""
    return not settings.alpha and settings.optimizer == "sgd" and settings.loss == "softmax"


def _frequencies(feature_map: nn.Module, dtype: torch.dtype) -> Tensor | None:
    projection = feature_map.projection if isinstance(feature_map, FourierMap) else None
    if isinstance(projection, DenseProjection):
        return projection.frequencies.detach().to(dtype)
    return projection.values.detach().to(dtype) if isinstance(projection, SparseProjection) else None


def _copy(part: Tensor, dtype: torch.dtype) -> Tensor:
    """A copy padded by rows of zeros, so that results of products with it are aligned."""
    copy = part.new_zeros(len(part) + -len(part) % ALIGNED, part.shape[1], dtype=dtype)
    copy[: len(part)] = part
    return copy
