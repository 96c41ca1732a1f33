"""The operations of a training step, each by the fastest implementation for its tensors."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from bochner.ops.reference import SoftmaxRows


def implementation(like: Tensor, *, multiplies: bool = True) -> Any:
    """The module that implements the operations for tensors such as `like`.

    The fused kernels where there are matrix units for them: an NVIDIA GPU of compute capability 8 or more, Triton
    installed (CUDA builds of torch include it), and bfloat16, float16, or float32 whose products may be TF32; for an
    operation without products, any float32. Otherwise the reference.

    >>> implementation(torch.ones(1)).__name__
    'bochner.ops.reference'
    """
    may_round = not multiplies or torch.backends.cuda.matmul.allow_tf32
    suits = like.dtype in (torch.bfloat16, torch.float16) or (like.dtype == torch.float32 and may_round)
    name = "fused" if suits and like.is_cuda and _has_matrix_units(like.device) else "reference"
    return import_module(f"bochner.ops.{name}")


@cache
def _has_matrix_units(device: torch.device) -> bool:
    return (
        torch.version.cuda is not None
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )


__all__ = [
    "SoftmaxRows",
    "cosine_features",
    "cosine_scores",
    "long_product",
    "softmax_rows",
    "sparse_cosine_features",
    "update_head",
]


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
    return implementation(X).cosine_features(X, frequencies, phases, amplitude=amplitude, out=out)


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
    return implementation(X, multiplies=False).sparse_cosine_features(X, places, values, phases, amplitude=amplitude)


def cosine_scores(
    X: Tensor, frequencies: Tensor, phases: Tensor | None, weights: Tensor, *, amplitude: float
) -> Tensor:
    """z Theta for the features z above and weights Theta^T [C, D]: [n, C], summed in float32 or wider.

    Used for prediction: only one tile of z exists at a time. With a bottleneck, `weights` is its first factor and the
    second follows as a small product. O(nD(d + C)).

    >>> import torch
    >>> cosine_scores(torch.zeros(1, 3), torch.ones(3, 2), None, torch.ones(5, 4), amplitude=1.0)
    tensor([[2., 2., 2., 2., 2.]])
    """
    return implementation(X).cosine_scores(X, frequencies, phases, weights, amplitude=amplitude)


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
    return implementation(scores, multiplies=False).softmax_rows(
        scores, y, bias=bias, scale=scale, weight=weight, out=out
    )


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
    implementation(Z).update_head(weights, G, Z, rate=rate, copy=copy)


def long_product(A: Tensor, B: Tensor) -> Tensor:
    """A B^T [n, m] for A [n, D] and B [m, D] with D much larger than n and m, summed in float32 or wider.

    >>> import torch
    >>> long_product(torch.ones(1, 300, dtype=torch.bfloat16), torch.ones(1, 300, dtype=torch.bfloat16))
    tensor([[300.]])
    """
    return implementation(A).long_product(A, B)
