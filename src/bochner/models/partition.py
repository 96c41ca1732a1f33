"""Kernel models of parts of the input space, chosen by a tree of linear splits."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.storage import Storable


class PartitionedModel(Storable):
    """f(x) = f_l(x) for the leaf l that x falls into: at node i, x goes right if x . directions[i] > thresholds[i].

    directions [nodes, d], thresholds [nodes], branches [nodes, 2]: the left and right branch of each node, another node
    as its index or leaf l as -1 - l. Nodes follow their parents; node 0 is the root.

    >>> parts = [nn.Linear(1, 1), nn.Linear(1, 1)]
    >>> model = PartitionedModel(torch.ones(1, 1), torch.zeros(1), torch.tensor([[-1, -2]]), parts)
    >>> model.leaves(torch.tensor([[-3.0], [2.0]]))
    tensor([0, 1])
    """

    directions: Tensor
    thresholds: Tensor
    branches: Tensor

    def __init__(self, directions: Tensor, thresholds: Tensor, branches: Tensor, models: Sequence[nn.Module]) -> None:
        super().__init__()
        nodes = len(thresholds)
        if directions.ndim != 2 or directions.shape[0] != nodes or branches.shape != (nodes, 2):
            raise ValueError("directions, thresholds and branches must have one row per node.")
        if len(models) != nodes + 1:
            raise ValueError(f"models must hold {nodes + 1} leaves for {nodes} nodes, got {len(models)}.")
        inner, leaves = branches[branches >= 0], -1 - branches[branches < 0]
        parents = torch.arange(nodes, device=branches.device)[:, None].expand(nodes, 2)[branches >= 0]
        if sorted(inner.tolist()) != list(range(1, nodes)) or sorted(leaves.tolist()) != list(range(nodes + 1)):
            raise ValueError("branches must name every node but the root, and every leaf, once.")
        if bool((inner <= parents).any()):
            raise ValueError("branches must lead to later nodes.")
        self.models = nn.ModuleList(models)
        self.register_buffer("directions", checks.finite("directions", directions))
        self.register_buffer("thresholds", checks.finite("thresholds", thresholds))
        self.register_buffer("branches", branches)

    def leaves(self, X: Tensor) -> Tensor:
        """The leaf of each row of X [n, d], as [n]."""
        sides = (X.to(self.directions) @ self.directions.T > self.thresholds).long()
        place = torch.zeros(len(X), dtype=torch.long, device=X.device)
        while bool((place >= 0).any()):
            inside = place.clamp_min(0)
            following = self.branches[inside, sides.gather(1, inside[:, None])[:, 0]]
            place = torch.where(place >= 0, following, place)
        return -1 - place

    def forward(self, X: Tensor) -> Tensor:
        leaves = self.leaves(X)
        scores: Tensor | None = None
        for leaf in leaves.unique().tolist():
            rows = leaves == leaf
            part = self.models[leaf](X[rows])
            if scores is None:
                scores = part.new_empty(len(X), part.shape[1])
            scores[rows] = part
        assert scores is not None
        return scores
