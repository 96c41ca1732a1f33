"""The operations of a training step in plain torch, for any device and dtype; the reference of the fused kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bochner.ops.cosines import write_cosines
from bochner.ops.tiles import row_tiles

# Features that exist at once when only scores are computed: 4 MiB in float32.
SCORE_FEATURES = 2**20
# On a CPU, features per thread in one tile, 1 MiB in float32: the second-level cache of one core. And rows per tile.
CACHED_FEATURES, CACHED_ROWS = 2**18, 1024


class SoftmaxRows(NamedTuple):
    """Of each row of scores: p - onehot(y) [n, C], log p(y), the entropy of p, and 1 where the arg-max is not y."""

    residual: Tensor
    log_p: Tensor
    entropy: Tensor
    wrong: Tensor


def cosine_features(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, *, amplitude: float, out: Tensor | None = None
) -> Tensor:
    P, inner = frequencies.shape[1], sum_dtype(X.dtype)  # an angle of many turns needs all its digits
    Z = X.new_empty(len(X), P if phases is not None else 2 * P) if out is None else out
    features = Z if Z.dtype == inner else torch.empty_like(Z, dtype=inner)
    torch.mm(X.to(inner), frequencies.to(inner), out=features[:, :P])
    _write_cosines(features, phases, amplitude)
    return Z if features is Z else Z.copy_(features)


def sparse_cosine_features(
    X: Tensor, places: Tensor, values: Tensor, phases: Tensor | None, *, amplitude: float
) -> Tensor:
    inner = sum_dtype(X.dtype)
    sums = F.embedding_bag(places, X.T.to(inner).contiguous(), mode="sum", per_sample_weights=values.to(inner))
    features = sums.T if phases is not None else torch.cat([sums, sums]).T
    features = features.contiguous()
    _write_cosines(features, phases, amplitude)
    return features.to(X.dtype)


def cosine_scores(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, weights: Tensor, *, amplitude: float
) -> Tensor:
    if X.device.type != "cpu" or X.dtype != sum_dtype(X.dtype):
        return scores_by_tiles(cosine_features, X, frequencies, phases, weights, amplitude=amplitude)
    scores = X.new_zeros(len(weights), len(X))  # transposed: an odd number of classes is faster as rows
    for rows in row_tiles(len(X), row_elements=1, tile_elements=CACHED_ROWS):
        _add_scores(X[rows], frequencies, phases, weights.to(X.dtype), amplitude, scores[:, rows])
    return scores.T.contiguous()


def _add_scores(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, weights: Tensor, amplitude: float, scores: Tensor
) -> None:
    """scores [C, n] += weights z^T, in one buffer: new memory for every tile would cost as much as its product."""
    P, per_frequency = frequencies.shape[1], 2 if phases is None else 1
    tiles = list(cached_tiles(P, num_rows=2 * len(X)))  # half as wide: a product reads wide slices of W slowly
    buffer = X.new_empty(len(X) * per_frequency * tiles[0].stop)  # the first tile is the widest
    for tile in tiles:
        width = per_frequency * (tile.stop - tile.start)
        Z = buffer[: len(X) * width].view(len(X), width)
        cosine_features(X, frequencies[:, tile], None if phases is None else phases[tile], amplitude=1.0, out=Z)
        for part, columns in feature_columns(Z, tile, P):
            scores.addmm_(weights[:, columns], part.T, alpha=amplitude)  # a factor costs nothing in a product


def cached_tiles(num_frequencies: int, *, num_rows: int) -> Iterator[slice]:
    """Columns of a map whose features of `num_rows` rows fit the caches of all threads."""
    return row_tiles(num_frequencies, row_elements=num_rows, tile_elements=CACHED_FEATURES * torch.get_num_threads())


def feature_columns(Z: Tensor, tile: slice, num_frequencies: int) -> Iterator[tuple[Tensor, slice]]:
    """The cosines of a tile of frequencies with their columns among all features, then the sines if there are any."""
    width = tile.stop - tile.start
    yield Z[:, :width], tile
    if Z.shape[1] > width:
        yield Z[:, width:], slice(tile.start + num_frequencies, tile.stop + num_frequencies)


def scores_by_tiles(
    features: Callable[..., Tensor],
    X: Tensor,
    frequencies: Tensor,
    phases: Tensor | None,
    weights: Tensor,
    *,
    amplitude: float,
    tile_elements: int = SCORE_FEATURES,
) -> Tensor:
    """Scores by `features` of some frequencies at a time."""
    P = frequencies.shape[1]
    scores = X.new_zeros(len(X), len(weights), dtype=sum_dtype(X.dtype))
    for tile in row_tiles(P, row_elements=len(X), tile_elements=tile_elements):
        Z = features(X, frequencies[:, tile], None if phases is None else phases[tile], amplitude=amplitude)
        for part, columns in feature_columns(Z, tile, P):
            scores += long_product(part, weights[:, columns].to(X.dtype))
    return scores


def softmax_rows(
    scores: Tensor,
    y: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    weight: Tensor | None = None,
    out: Tensor | None = None,
) -> SoftmaxRows:
    inner = sum_dtype(scores.dtype)
    logs = F.log_softmax(scores.to(inner) if bias is None else scores.to(inner) + bias, dim=1)
    residual = logs.exp() if out is None or out.dtype != logs.dtype else torch.exp(logs, out=out)
    entropy = -(residual * logs).sum(dim=1)
    wrong = (logs.argmax(dim=1) != y).to(logs.dtype)
    log_p = logs.gather(1, y[:, None]).squeeze(1)
    residual[torch.arange(len(y), device=y.device), y] -= 1
    residual.mul_(scale if weight is None else scale * weight[:, None])
    return SoftmaxRows(residual if out is None else out.copy_(residual), log_p, entropy, wrong)


def update_head(weights: Tensor, G: Tensor, Z: Tensor, *, rate: float, copy: Tensor | None = None) -> None:
    weights.addmm_(G.T.to(weights.dtype), Z.to(weights.dtype), alpha=-rate)
    if copy is not None:
        copy[: len(weights)].copy_(weights)


def long_product(A: Tensor, B: Tensor) -> Tensor:
    if A.is_cuda and A.dtype in (torch.bfloat16, torch.float16):
        return torch.mm(A, B.T, out_dtype=torch.float32)
    return A.to(sum_dtype(A.dtype)) @ B.to(sum_dtype(B.dtype)).T


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums over features: at least float32."""
    return torch.promote_types(dtype, torch.float32)


def _write_cosines(features: Tensor, phases: Tensor | None, amplitude: float) -> None:
    """From angles, without phases in the first half of the columns, to cosines (and sines) in place."""
    if phases is not None:
        write_cosines(features.add_(phases.to(features.dtype)), amplitude)
    else:
        cosines, sines = features.chunk(2, dim=1)
        write_cosines(cosines, amplitude, sines=sines)
