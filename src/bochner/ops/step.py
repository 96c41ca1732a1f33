"""The operations of a training step: in plain torch, and by fused kernels on GPUs that support them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from bochner.ops.cosines import write_cosines
from bochner.ops.linalg import row_tiles

# Features that exist at once when only scores are computed: 4 MiB in float32; by fused kernels 512 MiB in bfloat16.
SCORE_FEATURES, FUSED_SCORE_FEATURES = 2**20, 2**28
# On a CPU, features per thread in one tile, 1 MiB in float32: the second-level cache of one core. And rows per tile.
CACHED_FEATURES, CACHED_ROWS = 2**18, 1024


class SoftmaxRows(NamedTuple):
    """For each row of scores: p - onehot(y) [n, C], log p(y), the entropy of p, and 1 where the arg-max is not y."""

    residual: Tensor
    log_p: Tensor
    entropy: Tensor
    wrong: Tensor


def fused_kernels(like: Tensor, *, multiplies: bool = True) -> Any | None:
    """The module of fused kernels if they support tensors such as `like`, else None.

    They need matrix units: an NVIDIA GPU of compute capability 8 or more, Triton (CUDA builds of torch include it), and
    bfloat16, float16, or float32 whose products may be TF32; for an operation without products, any float32.

    >>> fused_kernels(torch.ones(1)) is None
    True
    """
    may_round = not multiplies or torch.backends.cuda.matmul.allow_tf32
    suits = like.dtype in (torch.bfloat16, torch.float16) or (like.dtype == torch.float32 and may_round)
    return import_module("bochner.ops.fused") if suits and like.is_cuda and _has_matrix_units(like.device) else None


@cache
def _has_matrix_units(device: torch.device) -> bool:
    return (
        torch.version.cuda is not None
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )


@cache
def has_bf16_units(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 numbers in hardware; a CPU without such units is slower than in float32.

    >>> isinstance(has_bf16_units(torch.device("cpu")), bool)
    True
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if device.type == "cpu" and cpuinfo.exists() else ""
    return "avx512_bf16" in flags or "amx_bf16" in flags


def cosine_features(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, *, amplitude: float, out: Tensor | None = None
) -> Tensor:
    """a cos(X W + b), or a [cos(X W), sin(X W)] without phases: no gradients.

    X [n, d], W [d, P], b [P]; the result is [n, P] or [n, 2 P] in the dtype of X, in `out` if given: on a CPU new
    memory costs more than the cosines. O(ndP); on a GPU the cosines are computed in the epilogue of the product.
    Source: Rahimi & Recht 2007; May 2018, Section 2.3.

    >>> import torch
    >>> cosine_features(torch.zeros(1, 3), torch.ones(3, 2), None, amplitude=2.0)
    tensor([[2., 2., 0., 0.]])
    """
    if kernels := fused_kernels(X):
        return kernels.cosine_features(X, frequencies, phases, amplitude=amplitude, out=out)
    P, inner = frequencies.shape[1], sum_dtype(X.dtype)  # an angle of many turns needs all its digits
    Z = X.new_empty(len(X), P if phases is not None else 2 * P) if out is None else out
    features = Z if Z.dtype == inner else torch.empty_like(Z, dtype=inner)
    torch.mm(X.to(inner), frequencies.to(inner), out=features[:, :P])
    write_features(features, phases, amplitude)
    return Z if features is Z else Z.copy_(features)


def sparse_cosine_features(
    X: Tensor, places: Tensor, values: Tensor, phases: Tensor | None, *, amplitude: float
) -> Tensor:
    """The same for frequencies with k non-zero entries: `values` [P, k] at the inputs `places` [P, k].

    O(nPk), and no dense W. Source: May 2018, Section 5.2.

    >>> import torch
    >>> places, values = torch.tensor([[1]]), torch.tensor([[2.0]])
    >>> sparse_cosine_features(torch.tensor([[9.0, 0.0]]), places, values, torch.zeros(1), amplitude=1.0)
    tensor([[1.]])
    """
    if kernels := fused_kernels(X, multiplies=False):
        return kernels.sparse_cosine_features(X, places, values, phases, amplitude=amplitude)
    inner = sum_dtype(X.dtype)
    sums = F.embedding_bag(places, X.T.to(inner).contiguous(), mode="sum", per_sample_weights=values.to(inner))
    features = sums.T if phases is not None else torch.cat([sums, sums]).T
    features = features.contiguous()
    write_features(features, phases, amplitude)
    return features.to(X.dtype)


def write_features(angles: Tensor, phases: Tensor | None, amplitude: float) -> None:
    """Turn angles into features in place. Without phases the angles fill the first half of the columns."""
    if phases is not None:
        write_cosines(angles.add_(phases.to(angles.dtype)), amplitude)
    else:
        cosines, sines = angles.chunk(2, dim=1)
        write_cosines(cosines, amplitude, sines=sines)


def cosine_scores(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, weights: Tensor, *, amplitude: float
) -> Tensor:
    """z Theta for the features z above and weights Theta^T [C, D]: [n, C], summed in float32 or wider.

    Used for prediction: only one tile of z exists at a time. With a bottleneck, `weights` is its first factor and the
    second follows as a small product. O(nD(d + C)). A fused kernel that keeps features on the chip took twice as long
    as features followed by their product.

    >>> import torch
    >>> cosine_scores(torch.zeros(1, 3), torch.ones(3, 2), None, torch.ones(5, 4), amplitude=1.0)
    tensor([[2., 2., 2., 2., 2.]])
    """
    if X.device.type != "cpu" or X.dtype != sum_dtype(X.dtype):
        tile_elements = FUSED_SCORE_FEATURES if fused_kernels(X) else SCORE_FEATURES
        return scores_by_tiles(X, frequencies, phases, weights, amplitude=amplitude, tile_elements=tile_elements)
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


def scores_by_tiles(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, weights: Tensor, *, amplitude: float, tile_elements: int
) -> Tensor:
    """The same, with the features of some frequencies at a time."""
    P = frequencies.shape[1]
    scores = X.new_zeros(len(X), len(weights), dtype=sum_dtype(X.dtype))
    for tile in row_tiles(P, row_elements=len(X), tile_elements=tile_elements):
        Z = cosine_features(X, frequencies[:, tile], None if phases is None else phases[tile], amplitude=amplitude)
        for part, columns in feature_columns(Z, tile, P):
            scores += long_product(part, weights[:, columns].to(X.dtype))
    return scores


def cached_tiles(num_frequencies: int, *, num_rows: int) -> Iterator[slice]:
    """Columns of a map whose features of `num_rows` rows fit the caches of all threads."""
    return row_tiles(num_frequencies, row_elements=num_rows, tile_elements=CACHED_FEATURES * torch.get_num_threads())


def feature_columns(Z: Tensor, tile: slice, num_frequencies: int) -> Iterator[tuple[Tensor, slice]]:
    """The cosines of a tile of frequencies with their columns among all features, then the sines if there are any."""
    width = tile.stop - tile.start
    yield Z[:, :width], tile
    if Z.shape[1] > width:
        yield Z[:, width:], slice(tile.start + num_frequencies, tile.stop + num_frequencies)


def softmax_rows(
    scores: Tensor,
    y: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float = 1.0,
    weight: Tensor | None = None,
    out: Tensor | None = None,
) -> SoftmaxRows:
    """p = softmax(scores + bias) [n, C] for classes y [n]: its residual and the terms of the losses, in one pass.

    The means of -log_p, of entropy and of wrong are CE, ENT and ERR, and CE + beta ENT is ERLL. The residual, in `out`
    if given, is scale weight (p - onehot(y)), with a weight for each row. Source: May 2018, Section 4.5.

    >>> import torch
    >>> rows = softmax_rows(torch.zeros(1, 2), torch.tensor([1]))
    >>> rows.residual, float(rows.log_p), float(rows.wrong)
    (tensor([[ 0.5000, -0.5000]]), -0.693..., 1.0)
    """
    if kernels := fused_kernels(scores, multiplies=False):
        return kernels.softmax_rows(scores, y, bias=bias, scale=scale, weight=weight, out=out)
    inner = sum_dtype(scores.dtype)
    logs = F.log_softmax(scores.to(inner) if bias is None else scores.to(inner) + bias, dim=1)
    residual = logs.exp() if out is None or out.dtype != logs.dtype else torch.exp(logs, out=out)
    entropy = -(residual * logs).sum(dim=1)
    wrong = (logs.argmax(dim=1) != y).to(logs.dtype)
    log_p = logs.gather(1, y[:, None]).squeeze(1)
    _subtract_targets(residual, y, scale, weight)
    return SoftmaxRows(residual if out is None else out.copy_(residual), log_p, entropy, wrong)


def softmax_residual(
    scores: Tensor, y: Tensor, *, bias: Tensor, scale: float, weight: Tensor | None = None, out: Tensor
) -> None:
    """Write the residual of `softmax_rows` into `out`, without the terms of the losses."""
    if kernels := fused_kernels(scores, multiplies=False):
        kernels.softmax_residual(scores, y, bias=bias, scale=scale, weight=weight, out=out)
        return
    residual = torch.softmax(scores.to(sum_dtype(scores.dtype)) + bias, dim=1)
    _subtract_targets(residual, y, scale, weight)
    out.copy_(residual)


def _subtract_targets(p: Tensor, y: Tensor, scale: float, weight: Tensor | None) -> None:
    """p <- scale weight (p - onehot(y))."""
    p[torch.arange(len(y), device=y.device), y] -= 1
    p.mul_(scale if weight is None else scale * weight[:, None])


def update_head(weights: Tensor, G: Tensor, Z: Tensor, *, rate: float, copy: Tensor | None = None) -> None:
    """weights <- weights - rate G^T Z in place: weights [C, D], derivatives G [n, C], features Z [n, D].

    `copy` [>= C, D], in a 16-bit dtype, receives the new weights in the same pass: products read it while the weights
    themselves stay float32. O(nDC), one read and one write of the weights.

    >>> import torch
    >>> weights = torch.zeros(1, 2)
    >>> update_head(weights, torch.ones(3, 1), torch.ones(3, 2), rate=0.5)
    >>> weights
    tensor([[-1.5000, -1.5000]])
    """
    if kernels := fused_kernels(Z):
        return kernels.update_head(weights, G, Z, rate=rate, copy=copy)
    weights.addmm_(G.T.to(weights.dtype), Z.to(weights.dtype), alpha=-rate)
    if copy is not None:
        copy[: len(weights)].copy_(weights)
    return None


def long_product(A: Tensor, B: Tensor) -> Tensor:
    """A B^T [n, m] for A [n, D] and B [m, D] with D much larger than n and m, summed in float32 or wider.

    >>> import torch
    >>> long_product(torch.ones(1, 300, dtype=torch.bfloat16), torch.ones(1, 300, dtype=torch.bfloat16))
    tensor([[300.]])
    """
    if A.is_cuda and A.dtype in (torch.bfloat16, torch.float16):
        return torch.mm(A, B.T, out_dtype=torch.float32)
    return A.to(sum_dtype(A.dtype)) @ B.to(sum_dtype(B.dtype)).T


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums over features: at least float32."""
    return torch.promote_types(dtype, torch.float32)
