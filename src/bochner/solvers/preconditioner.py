"""SGD on features, preconditioned by the top eigenvectors of their second moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data.blocks import Source, sample_rows
from bochner.models.heads import BottleneckHead, FeatureModel, Head
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.ops.linalg import top_eigenpairs
from bochner.solvers.checkpoint import read_checkpoint, write_checkpoint
from bochner.solvers.optimizers import SGDSettings

if TYPE_CHECKING:
    from bochner.solvers.parallel.workers import Workers

MAX_RANK = 256  # of "auto": q vectors of length D are held, and a step costs O(q C D)
# `floor` is at least this part of E[u . u] / batch_size. Below that the noise of a batch bounds the rate, not the
# curvature, and the small eigenvalues of a sample are not those of the whole set.
MIN_FLOOR = 1 / 16
FILE_NAME = "preconditioner.safetensors"


class Preconditioner:
    """P = I - sum_i (1 - floor / lambda_i) v_i v_i^T, applied to the gradients of a head's [Theta, bias].

    v_i, the rows of vectors [q, D + 1], are eigenvectors of E[u u^T] for u = [z(x), 1]; values [q] are the eigenvalues
    in descending order, and `floor` is the next one. The curvatures of a linear head range from lambda_1 ~ k(x, x) down
    over many powers of ten, and lambda_1 bounds the rate of plain SGD, at which the rest is hardly learned. Under P the
    first q eigenvectors have curvature `floor`, and the rate may be lambda_1 / floor times as large. P is positive
    definite, so that the minimum does not move. O(q C D) per step. Source: Ma & Belkin 2017 (EigenPro), here in the
    space of features.

    For a bottleneck the preconditioner acts on the first factor, which is applied to the features: its gradient becomes
    G P / floor, with u = [z(x), 0]. This is equivalent to features scaled to a curvature of 1, and one rate of about 1
    suits both factors.

    `rate` is a learning rate of the right order, the inverse of the largest remaining curvature. `group` is set where
    the features are divided among processes: vectors then hold the columns of this process.
    """

    def __init__(
        self, head: Head, vectors: Tensor, values: Tensor, floor: float, *, group: Workers | None = None
    ) -> None:
        self.vectors, self.values, self.floor, self.group = vectors, values, floor, group
        self._head, self._shrink = head, 1 - floor / values
        self.before_bottleneck = isinstance(head, BottleneckHead)
        self.rate = 1.0 if self.before_bottleneck else 1 / floor

    def on(self, head: Head) -> Preconditioner:
        """The same preconditioner for the gradients of another head."""
        return Preconditioner(head, self.vectors, self.values, self.floor, group=self.group)

    def apply(self, *, alpha: float = 0.0) -> None:
        """[G, g] <- [G + alpha Theta, g] P in place, for gradients G [C, D] and g [C]; for a bottleneck see above."""
        head = self._head
        weights = [head.first, head.second] if isinstance(head, BottleneckHead) else [head.weights]
        for parameter in weights:
            assert parameter.grad is not None
            parameter.grad.add_(parameter.detach(), alpha=alpha)
        G = weights[0].grad
        g = None if self.before_bottleneck else head.bias.grad
        assert G is not None
        V, last = self.vectors[:, :-1], self.vectors[:, -1]
        projected = G @ V.T
        if self.group is not None:
            projected = self.group.sum_over_features(projected)
        if g is not None:
            projected = projected + g[:, None] * last
        projected = projected * self._shrink
        G.addmm_(projected, V, alpha=-1)
        if g is None:
            G.div_(self.floor)
        else:
            g.addmv_(projected, last, alpha=-1)


def fit_preconditioner(model: nn.Module, source: Source, settings: SGDSettings) -> Preconditioner | None:
    """The preconditioner of `settings.preconditioner_rank`, from random rows of `source`; None for rank 0.

    Rank "auto" takes eigenvectors while their eigenvalue exceeds E[u . u] / batch_size, at most 256: below that the
    noise of a batch bounds the rate, not the curvature, and the eigenvectors of a sample are no longer those of the
    whole set. O(D n^2 + n^2 q) time and O(D n + n^2) memory for n = preconditioner_rows.
    """
    rank = settings.preconditioner_rank
    if rank == 0:
        return None
    if not isinstance(model, FeatureModel):
        raise ValueError(f"preconditioner_rank must be 0 without a head on features, got {rank!r}.")
    sample = sample_rows(source, settings.preconditioner_rows, generator=Generator().manual_seed(settings.seed)).X
    U = _inputs_of_head(model, sample).to(model.head.bias.dtype)
    with torch.autocast(U.device.type, enabled=False):  # eigenvectors in the precision of the weights
        # The eigenvectors of U^T U / n [D + 1, D + 1] follow from those of the smaller U U^T / n [n, n].
        q = min(MAX_RANK if isinstance(rank, str) else rank, len(U) - 1)
        gram = U @ U.T / len(U)
        values, left = top_eigenpairs(gram, q + 1, generator=Generator().manual_seed(settings.seed))
        noise = float(gram.trace()) / settings.batch_size
        if rank == "auto":
            q = min(q, int((values > noise).sum()))
        floor = max(float(values[q]), MIN_FLOOR * noise)
        top = values[:q].clamp_min(floor)
        vectors = (left[:, :q] / (len(U) * top).sqrt()).T.to(U) @ U
        return Preconditioner(model.head, vectors, top.to(U), floor)


def _inputs_of_head(model: FeatureModel, X: Tensor) -> Tensor:
    """U [n, D + 1] with rows [z(x), 1], or [z(x), 0] before a bottleneck; filled in place, so features exist once."""
    z, X = model.feature_map, X.to(model.head.bias)
    last = 0.0 if isinstance(model.head, BottleneckHead) else 1.0
    U = X.new_full((len(X), z.num_features + 1), last)
    for rows in row_tiles(len(X), row_elements=z.num_features, tile_elements=TILE_ELEMENTS):
        U[rows, :-1] = z(X[rows])
    return U


def stored_preconditioner(
    model: nn.Module, source: Source, settings: SGDSettings, checkpoint_dir: Path, fingerprint: Mapping[str, Any]
) -> Preconditioner | None:
    """The preconditioner in `checkpoint_dir`, or a new one, which is written there.

    A resumed run must not depend on how eigenvectors round.
    """
    stored = read_checkpoint(checkpoint_dir, fingerprint, name=FILE_NAME)
    if stored is not None and isinstance(model, FeatureModel):
        return _restored(checkpoint_dir / FILE_NAME, model, *stored)
    preconditioner = fit_preconditioner(model, source, settings)
    if preconditioner is not None:
        tensors = {"vectors": preconditioner.vectors, "values": preconditioner.values}
        state = {"floor": preconditioner.floor, "fingerprint": dict(fingerprint)}
        write_checkpoint(checkpoint_dir, tensors, state, name=FILE_NAME)
    return preconditioner


def _restored(
    path: Path, model: FeatureModel, tensors: Mapping[str, Tensor], state: Mapping[str, Any]
) -> Preconditioner:
    try:
        vectors, values = (tensors[name].to(model.head.bias.device) for name in ("vectors", "values"))
        floor = checks.positive_float("floor", state["floor"])
        width = model.feature_map.num_features + 1
        if values.ndim != 1 or vectors.shape != (len(values), width) or vectors.dtype != values.dtype:
            raise ValueError(f"vectors {list(vectors.shape)} and values {list(values.shape)} do not fit the model")
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} does not hold the preconditioner of this run ({error!r}); delete it.") from error
    return Preconditioner(model.head, vectors, values, floor)
