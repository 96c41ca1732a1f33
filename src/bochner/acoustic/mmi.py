"""The sequence objective of lattice-free MMI: the denominator graph, and forward-backward over all of its paths."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from bochner import checks
from bochner.speech.hmm.contexts import phone_starts
from bochner.speech.hmm.model import Hmm

Array = NDArray[Any]
MIN_LOG = -1e300  # replaces a maximum of -inf, since -inf - (-inf) is NaN


@dataclass(frozen=True, eq=False)
class StateGraph:
    """A Markov chain over N nodes with A arcs; node n emits `pdfs`[n].

    pdfs [N] integers; starts [N], ends [N] and weights [A] float64 probabilities (0 if impossible); arcs lead from
    `sources` [A] to `targets` [A]. A path n_1 ... n_T weighs
    starts[n_1] weights[n_1, n_2] ... weights[n_{T-1}, n_T] ends[n_T].
    """

    pdfs: Tensor
    starts: Tensor
    ends: Tensor
    sources: Tensor
    targets: Tensor
    weights: Tensor

    @property
    def num_nodes(self) -> int:
        return len(self.pdfs)

    @property
    def num_arcs(self) -> int:
        return len(self.weights)

    @cached_property
    def num_pdfs(self) -> int:
        """The minimum number of columns of scores."""
        return int(self.pdfs.max()) + 1

    def to(self, device: torch.device) -> StateGraph:
        fields = (self.pdfs, self.starts, self.ends, self.sources, self.targets, self.weights)
        return self if self.pdfs.device == device else StateGraph(*(field.to(device) for field in fields))

    def __repr__(self) -> str:
        return f"StateGraph({self.num_nodes} nodes, {self.num_arcs} arcs, {self.num_pdfs} pdfs)"


def phone_graph(hmm: Hmm, paths: Iterable[Array], *, order: int = 2) -> StateGraph:
    """A phone n-gram of this `order` over the states of the HMM, counted from alignments.

    `paths` are transition ids [T], one array per utterance of the training part. A node is a state of a phone with its
    pdf and the order - 2 phones before it; the probability of an arc is its relative frequency among those from its
    node. With one pdf per state (monophones) this is exactly the phone n-gram with the durations of the states; with
    tied triphones the pdfs also depend on the neighbours. There is no smoothing: the graph contains every training path
    and few others, and stays small. O(frames log frames).

    Source: Povey et al. 2016, Section 2.3 (with an n-gram that never backs off below 3).

    >>> from bochner.speech.hmm import monophone_hmm
    >>> hmm = monophone_hmm(phones=["a", "b"], num_states=1)
    >>> graph = phone_graph(hmm, [np.array([2, 1, 4]), np.array([2])])  # a a b, and a
    >>> graph.starts.tolist(), graph.ends.tolist()
    ([1.0, 0.0], [0.3333333333333333, 1.0])
    >>> list(zip(graph.sources.tolist(), graph.targets.tolist()))  # a a, a b
    [(0, 0), (0, 1)]
    """
    if checks.positive_int("order", order) < 2:
        raise ValueError(f"order must be at least 2, since a node depends on the phone before it, got {order}.")
    histories = [_histories(hmm, np.asarray(ids), order - 2) for ids in paths if len(ids)]
    if not histories:
        raise ValueError("paths must hold the alignment of at least one utterance, got none.")
    unique, nodes = np.unique(np.concatenate(histories), axis=0, return_inverse=True)
    pdf_of_source = np.zeros(hmm.table.source.max() + 1, dtype=np.int64)
    pdf_of_source[hmm.table.source] = hmm.table.pdf
    return _count_arcs(
        pdf_of_source[unique[:, -1]], nodes.reshape(-1), np.cumsum([len(history) for history in histories])
    )


def _histories(hmm: Hmm, transition_ids: Array, memory: int) -> Array:
    """[T, memory + 1]: for each frame the phones before its own, the nearest last (0 for none), and its state."""
    starts = phone_starts(hmm, transition_ids)
    phones = np.concatenate([np.zeros(memory, dtype=np.int64), hmm.table.phone[transition_ids[starts]]])
    lengths = np.diff([*starts, len(transition_ids)])
    before = [np.repeat(phones[k : k + len(starts)], lengths) for k in range(memory)]
    return np.column_stack([*before, hmm.table.source[transition_ids]])


def _count_arcs(pdfs: Array, nodes: Array, stops: Array) -> StateGraph:
    """The graph of the node sequences of all utterances, concatenated; utterances end at `stops`."""
    N, first, last = len(pdfs), np.concatenate([[0], stops[:-1]]), stops - 1
    inside = np.ones(len(nodes) - 1, dtype=bool)
    inside[last[:-1]] = False
    arcs, counts = np.unique(nodes[:-1][inside] * N + nodes[1:][inside], return_counts=True)
    sources, targets = np.divmod(arcs, N)
    total = np.bincount(nodes, minlength=N)
    starts, ends = (np.bincount(nodes[edge], minlength=N) for edge in (first, last))
    columns = (pdfs, starts / len(stops), ends / total, sources, targets, counts / total[sources])
    return StateGraph(*map(torch.from_numpy, columns))


def mmi(
    graph: StateGraph,
    logits: Tensor,
    labels: Tensor,
    lengths: Tensor,
    *,
    log_priors: Tensor,
    acoustic_weight: float,
) -> Tensor:
    """The MMI objective of B utterances: sum_t k l_t(s_t) - log sum_paths p(path) exp(sum_t k l_t(path_t)).

    l_t(s) = logits[t, s] - log_priors[s], k is the acoustic weight, and s_t are the labels of the forced alignment. Up
    to a constant, the log of the aligned path's own p, this is the log posterior of that path among all paths of the
    graph. A constant added to all logits of a frame cancels, so no softmax is needed. logits [B, T, S]; labels [B, T]
    and lengths [B] integers; frames from lengths[b] on are ignored. Returns [B] in float64. O(B T (N + A)) time,
    O(B T N) memory.

    d/dlogits[t, s] = k (1[s = s_t] - occupancy of s at t). Source: Bahl et al. 1986; Povey et al. 2016.

    >>> half = torch.tensor([0.5, 0.5], dtype=torch.float64)
    >>> two = torch.tensor([0, 1])
    >>> graph = StateGraph(pdfs=two, starts=half, ends=half, sources=two, targets=two, weights=half)
    >>> objective = mmi(graph, torch.zeros(1, 2, 2), torch.tensor([[0, 0]]), torch.tensor([2]),
    ...                 log_priors=torch.zeros(2), acoustic_weight=1.0)
    >>> round(float(objective.exp()), 6)  # two paths, 0 0 and 1 1, of 0.5^3 each
    4.0
    """
    if labels.shape != logits.shape[:2]:
        raise ValueError(f"labels must be {list(logits.shape[:2])} for these logits, got {list(labels.shape)}.")
    scores = acoustic_weight * (logits - log_priors).double()
    aligned = scores.gather(2, labels[:, :, None]).squeeze(2)
    is_inside = torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]
    return torch.where(is_inside, aligned, 0.0).sum(dim=1) - log_partition(graph, scores, lengths)


def log_partition(graph: StateGraph, scores: Tensor, lengths: Tensor) -> Tensor:
    """log sum_paths p(path) exp(sum_{t < lengths[b]} scores[b, t, pdf of path_t]): [B], float64, differentiable once.

    scores [B, T, S]; the gradient is `occupancies`. The sum of each frame is computed relative to its best node in
    double precision; nodes more than 700 nats below it have probability 0.
    """
    _check(graph, scores, lengths)
    total: Tensor = _LogPartition.apply(scores, lengths, graph)
    return total


def occupancies(graph: StateGraph, scores: Tensor, lengths: Tensor) -> Tensor:
    """p(pdf of frame t = s) over the paths of the graph weighted by the scores: [B, T, S]; 0 from lengths[b] on."""
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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        scores, lengths, before, total = ctx.saved_tensors
        occupied = _occupied(ctx.graph, scores.double(), lengths, before, total)
        return (gradient[:, None, None] * occupied).to(scores.dtype), None, None


def _forward(graph: StateGraph, scores: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Log weights [T, N, B] of the partial paths that end in node n at time t, and [B] of complete paths."""
    arcs = _matrix(graph.targets, graph.sources, graph)
    now = graph.starts.log()[:, None] + _emitted(graph, scores, 0)
    before = [now]
    for t in range(1, scores.shape[1]):
        moved = _log_product(arcs, now) + _emitted(graph, scores, t)
        now = torch.where(t < lengths, moved, now)
        before.append(now)
    total = torch.logsumexp(now + graph.ends.log()[:, None], dim=0)
    if not torch.isfinite(total).all():
        failed = (~torch.isfinite(total)).nonzero().flatten().tolist()
        raise ValueError(f"the graph has no path for utterances {failed} of the batch, or scores are not finite.")
    return torch.stack(before), total


def _occupied(graph: StateGraph, scores: Tensor, lengths: Tensor, before: Tensor, total: Tensor) -> Tensor:
    """The backward pass: the weights of all paths through each node, summed by pdf."""
    arcs = _matrix(graph.sources, graph.targets, graph)
    after = graph.ends.log()[:, None].expand_as(before[0])
    occupied = torch.zeros_like(scores)
    for t in range(scores.shape[1] - 1, -1, -1):
        through = torch.where(t < lengths, before[t] + after - total, -torch.inf).exp()
        occupied[:, t].index_add_(1, graph.pdfs, through.T)
        if t:
            after = torch.where(t < lengths, _log_product(arcs, after + _emitted(graph, scores, t)), after)
    return occupied


def _emitted(graph: StateGraph, scores: Tensor, t: int) -> Tensor:
    return scores[:, t, graph.pdfs].T


def _log_product(arcs: Tensor, logs: Tensor) -> Tensor:
    """log(arcs exp(logs)) for logs [N, B], relative to the largest of each column."""
    largest = logs.amax(dim=0).clamp_min(MIN_LOG)
    return (arcs @ (logs - largest).exp()).log() + largest


def _matrix(rows: Tensor, columns: Tensor, graph: StateGraph) -> Tensor:
    """The weights of the arcs as a sparse [N, N] in CSR format, whose products are 10 times as fast as index_add."""
    indices, N = torch.stack([rows, columns]), graph.num_nodes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that CSR is in beta; only products are used
        return torch.sparse_coo_tensor(indices, graph.weights, (N, N), check_invariants=True).to_sparse_csr()


def _check(graph: StateGraph, scores: Tensor, lengths: Tensor) -> None:
    if scores.ndim != 3 or scores.shape[2] < graph.num_pdfs:
        raise ValueError(f"scores must be [B, T, S] with S >= {graph.num_pdfs} pdfs, got {list(scores.shape)}.")
    B, T = scores.shape[:2]
    if lengths.shape != (B,) or not bool(((lengths >= 1) & (lengths <= T)).all()):
        raise ValueError(f"lengths must be {B} numbers from 1 to {T}, got {lengths.tolist()}.")
