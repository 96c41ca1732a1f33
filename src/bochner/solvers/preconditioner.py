"""Gradients evened out along the few directions in which features vary most."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.data.blocks import Source, sample_rows
from bochner.models.heads import BottleneckHead, FeatureModel, Head
from bochner.ops import row_tiles
from bochner.ops.linalg import top_eigenpairs
from bochner.solvers.settings import SGDSettings
from bochner.storage import read_tensors, write_tensors

MOST_DIRECTIONS = 256
# Below this part of E[u . u] / batch_size a batch's noise bounds the rate, and a small sample knows no better.
SMALLEST_FLOOR = 1 / 16
FILE_NAME = "preconditioner.safetensors"


class Preconditioner:
    """P = I - sum_i (1 - floor / lambda_i) v_i v_i^T, applied to the gradients of a head's [Theta, bias].

    v_i, the rows of vectors [q, D + 1], are eigenvectors of E[u u^T] for u = [z(x), 1]; values [q] are their
    eigenvalues, falling, and `floor` is the next one. Plain SGD meets curvatures from lambda_1 ~ k(x, x) down over many
    powers of ten, and lambda_1 bounds its rate: the rest is hardly learned. Under P the first q directions have
    curvature `floor`, and the rate may be lambda_1 / floor times as large. P is positive definite, so that the minimum
    stays where it was. O(q C D) a step. Source: Ma & Belkin 2017 (EigenPro), here in the space of features.

    Of a bottleneck the first factor meets the features: its gradient becomes G P / floor, with u = [z(x), 0]. That is
    as good as features scaled to a curvature of 1, and one rate of about 1 fits both factors.
    """

    def __init__(self, head: Head, vectors: Tensor, values: Tensor, floor: float) -> None:
        self.vectors, self.values, self.floor = vectors, values, floor
        self._head, self._shrink = head, 1 - floor / values

    def apply(self, *, alpha: float = 0.0) -> None:
        """[G, g] <- [G + l2 Theta, g] P for the gradients G [C, D] and g [C]; of a bottleneck as said above."""
        for weights in _weights(self._head):
            _gradient(weights).add_(weights.detach(), alpha=alpha)
        if self.before_bottleneck:
            assert isinstance(self._head, BottleneckHead)
            G = _gradient(self._head.first)
            self._even_out(G, G.new_zeros(len(G)))
            G.div_(self.floor)
        else:
            assert not isinstance(self._head, BottleneckHead)
            self._even_out(_gradient(self._head.weights), _gradient(self._head.bias))

    def _even_out(self, G: Tensor, g: Tensor) -> None:
        """[G, g] <- [G, g] P."""
        V, last = self.vectors[:, :-1], self.vectors[:, -1]
        parts = (self._summed(G @ V.T) + g[:, None] * last) * self._shrink
        G.addmm_(parts, V, alpha=-1)
        g.addmv_(parts, last, alpha=-1)

    def _summed(self, projected: Tensor) -> Tensor:
        """G V^T of all features: here they are all."""
        return projected

    def on(self, head: Head) -> Preconditioner:
        """The same for the gradients of another head."""
        return Preconditioner(head, self.vectors, self.values, self.floor)

    @property
    def before_bottleneck(self) -> bool:
        return isinstance(self._head, BottleneckHead)

    @property
    def rate(self) -> float:
        """A learning rate of the right order: the inverse of the largest curvature that is left."""
        return 1.0 if self.before_bottleneck else 1 / self.floor


def fit_preconditioner(model: nn.Module, source: Source, settings: SGDSettings) -> Preconditioner | None:
    """The preconditioner for `recipe.preconditioner_rank`, from random rows of `source`; None for 0 directions.

    "auto" takes directions while their eigenvalue exceeds E[u . u] / batch_size, at most 256: below that the noise of a
    batch bounds the rate, not the curvature, and eigenvectors of a sample are no longer those of the whole set.
    O(D n^2 + n^2 q) time and O(D n + n^2) memory for n = direction_rows.
    """
    if settings.preconditioner_rank == 0:
        return None
    model, head = _on_features(model, settings)
    sample = sample_rows(source, settings.preconditioner_rows, generator=Generator().manual_seed(settings.seed)).X
    U = _augmented(model, sample).to(head.bias.dtype)
    with torch.autocast(U.device.type, enabled=False):  # eigenvectors are for the masters' precision
        return _from_features(U, head, settings)


def _from_features(U: Tensor, head: Head, settings: SGDSettings) -> Preconditioner:
    """The preconditioner of `head` by its inputs U [n, D + 1]."""
    wanted = min(
        MOST_DIRECTIONS if isinstance(settings.preconditioner_rank, str) else settings.preconditioner_rank, len(U) - 1
    )
    gram = U @ U.T / len(U)
    values, left = top_eigenpairs(gram, wanted + 1, generator=Generator().manual_seed(settings.seed))
    noise = float(gram.trace()) / settings.batch_size
    if settings.preconditioner_rank == "auto":
        wanted = min(wanted, int((values > noise).sum()))
    floor = max(float(values[wanted]), SMALLEST_FLOOR * noise)
    kept = values[:wanted].clamp_min(floor)
    vectors = (left[:, :wanted] / (len(U) * kept).sqrt()).T.to(U) @ U
    return Preconditioner(head, vectors, kept.to(U), floor)


def stored_preconditioner(
    model: nn.Module, source: Source, settings: SGDSettings, checkpoint_dir: Path | None, fingerprint: Mapping[str, Any]
) -> Preconditioner | None:
    """The one kept in `folder` for this configuration, else a new one, which is kept there.

    A resumed run must not depend on how eigenvectors round.
    """
    if checkpoint_dir is None or settings.preconditioner_rank == 0:
        return fit_preconditioner(model, source, settings)
    path = checkpoint_dir / FILE_NAME
    if path.exists():
        _, head = _on_features(model, settings)
        tensors, header = read_tensors(path, device=head.bias.device)
        if header.get("fingerprint") == fingerprint:
            return _restored(path, head, tensors, header)
    made = fit_preconditioner(model, source, settings)
    assert made is not None
    checkpoint_dir.mkdir(parents=True, exist_ok=True)
    header = {"floor": made.floor, "fingerprint": dict(fingerprint)}
    write_tensors(path, {"vectors": made.vectors, "values": made.values}, header)
    return made


def _restored(path: Path, head: Head, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> Preconditioner:
    try:
        vectors, values, floor = tensors["vectors"], tensors["values"], checks.positive_float("floor", header["floor"])
        width = _weights(head)[0].shape[1] + 1
        if values.ndim != 1 or vectors.shape != (len(values), width) or vectors.dtype != values.dtype:
            raise ValueError(f"vectors {list(vectors.shape)} and values {list(values.shape)} do not fit the model")
    except (KeyError, ValueError) as error:
        what = f"{path} is not the preconditioner of this run ({error!r})"
        raise ValueError(f"{what}; delete it to make it anew.") from error
    return Preconditioner(head, vectors, values, floor)


def _on_features(model: nn.Module, settings: SGDSettings) -> tuple[FeatureModel, Head]:
    if not isinstance(model, FeatureModel):
        raise ValueError(
            f"preconditioner_rank must be 0 without a head on features, got {settings.preconditioner_rank!r}."
        )
    return model, model.head


def _weights(head: Head) -> list[nn.Parameter]:
    """All but the bias, first what the features meet."""
    return [head.first, head.second] if isinstance(head, BottleneckHead) else [head.weights]


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _augmented(model: FeatureModel, X: Tensor) -> Tensor:
    """[z(x), 1] for every row, or [z(x), 0] before a bottleneck; written in place: the features exist once."""
    z, X = model.feature_map, X.to(model.head.bias)
    last = 0.0 if isinstance(model.head, BottleneckHead) else 1.0
    U = X.new_full((len(X), z.num_features + 1), last)
    for rows in row_tiles(len(X), row_elements=z.num_features, tile_elements=2**22):
        U[rows, :-1] = z(X[rows])
    return U
