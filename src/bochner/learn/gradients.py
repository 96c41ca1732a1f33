"""How a fitted model depends on its inputs."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from bochner.data.batches import in_order
from bochner.data.blocks import Source
from bochner.data.sample import sample_rows
from bochner.data.sources import ArraySource

ROWS_AT_ONCE = 256


def gradient_outer_product(
    model: nn.Module,
    source: Source,
    *,
    num_rows: int = 8192,
    num_probes: int = 16,
    generator: Generator,
) -> Tensor:
    """M = E_x[sum_c g_c(x) g_c(x)^T] [d, d] for the gradients g_c of the C scores of `model`, in float64.

    x . M x is large along directions in which the scores move and 0 along those that they ignore. The mean is taken
    over `num_rows` random rows. Up to `num_probes` scores are differentiated one by one; of more, that many random
    signs s give gradients of s . f(x), and E[g g^T] over signs is the same sum. Time: that of 2 min(C, num_probes)
    evaluations of those rows; memory: the features of 256 rows. Source: Radhakrishnan et al. 2024 (the average gradient
    outer product of recursive feature machines).

    >>> from bochner.data.sources import ArraySource
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0))
    >>> linear = nn.Linear(2, 1)
    >>> _ = linear.weight.data.copy_(torch.tensor([[3.0, 0.0]]))
    >>> gradient_outer_product(linear, ArraySource(X, torch.zeros(100)), generator=Generator().manual_seed(0))
    tensor([[9., 0.],
            [0., 0.]], dtype=torch.float64)
    """
    sample = sample_rows(source, num_rows, generator=generator)
    M = torch.zeros(source.num_inputs, source.num_inputs, dtype=torch.float64)
    for block in in_order(ArraySource(*sample), batch_rows=ROWS_AT_ONCE):
        X = block.X.requires_grad_()
        scores = model(X)
        for probe in _probes(scores.shape[1], num_probes, generator).to(scores):
            (gradient,) = torch.autograd.grad((scores @ probe).sum(), X, retain_graph=True)
            M += (gradient.T @ gradient).double().cpu() / len(sample.X)
    return M


def _probes(num_scores: int, num_probes: int, generator: Generator) -> Tensor:
    """Vectors s [q, C] with E[s^T s] summing to the identity: the unit vectors, or random signs / sqrt(q)."""
    if num_scores <= num_probes:
        return torch.eye(num_scores)
    signs = torch.randint(2, (num_probes, num_scores), generator=generator, device=generator.device) * 2 - 1
    return signs / num_probes**0.5
