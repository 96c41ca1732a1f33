"""The MMI objective and its gradient: forward-backward over all paths of a graph, several utterances at once."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from bochner.acoustic.sequence.graph import StateGraph

LEAST = -1e300  # stands for the maximum where no path is left


def mmi(
    graph: StateGraph,
    logits: Tensor,
    labels: Tensor,
    lengths: Tensor,
    *,
    log_priors: Tensor,
    acoustic_weight: float,
) -> Tensor:
    """sum_t k l_t(s_t) - log sum_paths p(path) exp(sum_t k l_t(path_t)), for each of B utterances: [B], in float64.

    l_t(s) = logits[t, s] - log_priors[s], k the acoustic weight, s_t the labels of the forced alignment. But for a
    constant, the aligned path's own p, it is the log posterior of that path among all paths of the graph. What a frame
    adds to all of its logits cancels, so they need no softmax. logits [B, T, S]; labels [B, T] and lengths [B]
    integers; frames from lengths[b] on count for nothing. O(B T (N + A)) time, O(B T N) memory.

    d/dlogits[t, s] = k (1[s = s_t] - occupancy of s at t). Source: Bahl et al. 1986; Povey et al. 2016.

    >>> half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    >>> two = torch.tensor([0, 1])
    >>> graph = StateGraph(pdfs=two, starts=half, ends=half, sources=two, targets=two, weights=half)
    >>> found = mmi(graph, torch.zeros(1, 2, 2), torch.tensor([[0, 0]]), torch.tensor([2]), log_priors=torch.zeros(2),
    ...             acoustic_weight=1.0)
    >>> round(float(found.exp()), 6)  # two paths, 0 0 and 1 1, of 0.5^3 each
    4.0
    """
    if labels.shape != logits.shape[:2]:
        raise ValueError(f"labels must be [B, T] = {list(logits.shape[:2])} as logits, got {list(labels.shape)}.")
    scores = acoustic_weight * (logits - log_priors).double()
    spoken = scores.gather(2, labels[:, :, None]).squeeze(2)
    aligned = torch.where(_inside(scores, lengths), spoken, 0.0).sum(dim=1)
    return aligned - log_partition(graph, scores, lengths)


def log_partition(graph: StateGraph, scores: Tensor, lengths: Tensor) -> Tensor:
    """log sum_paths p(path) exp(sum_{t < lengths[b]} scores[b, t, pdf of path_t]): [B], float64, differentiable once.

    scores [B, T, S]; the gradient is `occupancies`. Each frame's sum is taken relative to its best node in double
    precision: a node 700 nats behind that one counts as impossible.
    """
    _check(graph, scores, lengths)
    total: Tensor = _LogPartition.apply(scores, lengths, graph)
    return total


def occupancies(graph: StateGraph, scores: Tensor, lengths: Tensor) -> Tensor:
    """p(pdf of frame t = s) under the paths of the graph weighted by the scores: [B, T, S]; 0 from lengths[b] on."""
    _check(graph, scores, lengths)
    graph = graph.to(scores.device)
    before, total = _forward(graph, scores.detach().double(), lengths)
    return _occupied(graph, scores.detach().double(), lengths, before, total)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor, graph: StateGraph) -> Tensor:
        graph = graph.to(scores.device)
        before, total = _forward(graph, scores.double(), lengths)
        ctx.graph = graph
        ctx.save_for_backward(scores, lengths, before, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        scores, lengths, before, total = ctx.saved_tensors
        occupied = _occupied(ctx.graph, scores.double(), lengths, before, total)
        return (slope[:, None, None] * occupied).to(scores.dtype), None, None


def _forward(graph: StateGraph, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Log weights of the beginnings of paths that are at node n at time t, [T, N, B]; of whole paths, [B]."""
    steps = _matrix(graph.targets, graph.sources, graph)
    now = graph.starts.log()[:, None] + _emitted(graph, scores, 0)
    before = [now]
    for t in range(1, scores.shape[1]):
        moved = _log_product(steps, now) + _emitted(graph, scores, t)
        now = torch.where(t < lengths, moved, now)
        before.append(now)
    total = torch.logsumexp(now + graph.ends.log()[:, None], dim=0)
    if not torch.isfinite(total).all():
        lost = (~torch.isfinite(total)).nonzero().flatten().tolist()
        raise ValueError(f"the graph has no path through utterances {lost} of the batch, or scores are not finite.")
    return torch.stack(before), total


def _occupied(graph: StateGraph, scores: Tensor, lengths: Tensor, before: Tensor, total: Tensor) -> Tensor:
    """The backward pass; at its end the weight of all paths through each node, added up by pdf."""
    steps = _matrix(graph.sources, graph.targets, graph)
    after = graph.ends.log()[:, None].expand_as(before[0])
    occupied = torch.zeros_like(scores)
    for t in range(scores.shape[1] - 1, -1, -1):
        through = torch.where(t < lengths, before[t] + after - total, -torch.inf).exp()
        occupied[:, t].index_add_(1, graph.pdfs, through.T)
        if t:
            after = torch.where(t < lengths, _log_product(steps, after + _emitted(graph, scores, t)), after)
    return occupied


def _emitted(graph: StateGraph, scores: Tensor, t: int) -> Tensor:
    return scores[:, t, graph.pdfs].T


def _log_product(steps: Tensor, logs: Tensor) -> Tensor:
    """log(steps exp(logs)) for logs [N, B], relative to the largest of each column."""
    most = logs.amax(dim=0).clamp_min(LEAST)
    return (steps @ (logs - most).exp()).log() + most


def _matrix(rows: Tensor, columns: Tensor, graph: StateGraph) -> Tensor:
    """The arcs' weights as a sparse [N, N], by rows: ten times as fast as scattered sums."""
    places, N = torch.stack([rows, columns]), graph.num_nodes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls this layout beta; products are all that is used
        return torch.sparse_coo_tensor(places, graph.weights, (N, N), check_invariants=True).to_sparse_csr()


def _inside(scores: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]


def _check(graph: StateGraph, scores: Tensor, lengths: Tensor) -> None:
    if scores.ndim != 3 or scores.shape[2] < graph.num_pdfs:
        raise ValueError(f"scores must be [B, T, S] with S >= {graph.num_pdfs} pdfs, got {list(scores.shape)}.")
    B, T = scores.shape[:2]
    if lengths.shape != (B,) or not bool(((lengths >= 1) & (lengths <= T)).all()):
        raise ValueError(f"lengths must be {B} numbers from 1 to {T}, got {lengths.tolist()}.")
