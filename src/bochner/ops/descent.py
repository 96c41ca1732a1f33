"""SGD of softmax regression on features, whole or through a bottleneck, by superbatches."""

from __future__ import annotations

from torch import Tensor

from bochner.ops.step import long_product, softmax_rows, update_head
from bochner.ops.superbatch import Gradient, superbatch_steps


def descend_linear(
    weights: Tensor,
    bias: Tensor,
    Z: Tensor,
    y: Tensor,
    *,
    rate: float,
    batch_size: int,
    weight: Tensor | None = None,
    copy: Tensor | None = None,
    along: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Theta <- Theta - rate z^T (p - onehot(y)) / B and the same for the bias, one step for each minibatch of Z.

    weights [C, D] = Theta^T, bias [C], Z [n, D], y [n], in place. `copy` is the weights in the dtype of Z, where that
    is shorter: products read it, and it follows the weights. `weight` [n] multiplies the rows' losses. Steps go along
    the rows `along` ([n, D], [n]) in place of Z and of the bias's ones.
    Cost: see `superbatch_steps`. Source: May 2018, Section 4.1.

    >>> import torch
    >>> weights, bias = torch.zeros(2, 1), torch.zeros(2)
    >>> descend_linear(weights, bias, torch.ones(1, 1), torch.tensor([1]), rate=1.0, batch_size=1)
    >>> weights.T, bias
    (tensor([[-0.5000,  0.5000]]), tensor([-0.5000,  0.5000]))
    """
    rows, ones = along or (None, None)
    gradient = linear_gradient(bias, y, rate=rate, weight=weight, ones=ones)
    superbatch_steps(weights, Z, gradient, rate=rate, batch_size=batch_size, copy=copy, along=rows)


def descend_bottleneck(
    first: Tensor,
    second: Tensor,
    bias: Tensor,
    Z: Tensor,
    y: Tensor,
    *,
    rate: float,
    batch_size: int,
    weight: Tensor | None = None,
    copies: tuple[Tensor, Tensor] | None = None,
    along: Tensor | None = None,
) -> None:
    """The same for Theta^T = second first: first [r, D] moves by superbatches, second [C, r] at every minibatch.

    >>> import torch
    >>> first, second, bias = torch.ones(1, 1), torch.ones(2, 1), torch.zeros(2)
    >>> descend_bottleneck(first, second, bias, torch.ones(1, 1), torch.tensor([1]), rate=1.0, batch_size=1)
    >>> first, second.T
    (tensor([[1.]]), tensor([[0.5000, 1.5000]]))
    """
    copy, second_copy = copies or (None, None)
    gradient = bottleneck_gradient(second, bias, y, rate=rate, weight=weight, copy=second_copy)
    superbatch_steps(first, Z, gradient, rate=rate, batch_size=batch_size, copy=copy, along=along)


def linear_gradient(
    bias: Tensor, y: Tensor, *, rate: float, weight: Tensor | None = None, ones: Tensor | None = None
) -> Gradient:
    """What such a step does between its two products: from scores to their derivatives, and the bias [C] moves.

    `ones` [n] stand for the input of the bias, where that is not one.
    """

    def gradient(scores: Tensor, rows: slice, out: Tensor) -> None:
        _write_residual(scores, bias, y, weight, rows, out)
        bias.sub_(out.sum(dim=0) if ones is None else ones[rows] @ out, alpha=rate)

    return gradient


def bottleneck_gradient(
    second: Tensor, bias: Tensor, y: Tensor, *, rate: float, weight: Tensor | None = None, copy: Tensor | None = None
) -> Gradient:
    """The same through a bottleneck: from its outputs [B, r] to their derivatives; second [C, r] and bias move."""
    factor = second if copy is None else copy

    def gradient(hidden: Tensor, rows: slice, out: Tensor) -> None:
        hidden = hidden.to(factor.dtype)
        scores = long_product(hidden, factor)
        G = scores if copy is None else scores.new_empty(scores.shape, dtype=factor.dtype)
        scores, G = scores[:, : len(second)], G[:, : len(second)]  # rows of G stay aligned
        _write_residual(scores, bias, y, weight, rows, G)
        out.copy_(long_product(G, factor[: len(second)].T))
        update_head(second, G, hidden, rate=rate, copy=copy)
        bias.sub_(G.sum(dim=0, dtype=bias.dtype), alpha=rate)

    return gradient


def _write_residual(scores: Tensor, bias: Tensor, y: Tensor, weight: Tensor | None, rows: slice, out: Tensor) -> None:
    """The derivative of the mean loss of some rows by their scores."""
    part = None if weight is None else weight[rows]
    softmax_rows(scores, y[rows], bias=bias, scale=1 / len(scores), weight=part, out=out)
