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
        nodes = thresholds.numel()
        shapes = (thresholds.shape, directions.shape[:1], branches.shape)
        if directions.ndim != 2 or shapes != ((nodes,), (nodes,), (nodes, 2)) or nodes == 0:
            raise ValueError(
                "directions, thresholds and branches must have shapes [nodes, d], [nodes] and [nodes, 2], got "
                f"{tuple(directions.shape)}, {tuple(thresholds.shape)} and {tuple(branches.shape)}."
            )
        if branches.dtype != torch.int64 or not (directions.is_floating_point() and thresholds.is_floating_point()):
            raise ValueError(
                "branches must be int64 and directions and thresholds floats, got "
                f"{branches.dtype}, {directions.dtype} and {thresholds.dtype}."
            )
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
        checks.inputs("X", X, width=self.directions.shape[1])
        sides = (X.to(self.directions) @ self.directions.T > self.thresholds).long()
        place = torch.zeros(len(X), dtype=torch.long, device=X.device)
        while bool((place >= 0).any()):
            inside = place.clamp_min(0)
            following = self.branches[inside, sides.gather(1, inside[:, None])[:, 0]]
            place = torch.where(place >= 0, following, place)
        return -1 - place

    def forward(self, X: Tensor) -> Tensor:
        """f(X) [n, t] for X [n, d]; each row costs what its leaf's model costs."""
        leaves = self.leaves(X)
        order = leaves.argsort(stable=True)
        sizes = leaves.bincount(minlength=len(self.models)).tolist()
        parts = [model(X[rows]) for model, rows in zip(self.models, order.split(sizes), strict=True) if len(rows)] or [
            self.models[0](X)
        ]  # no rows
        return torch.cat(parts)[order.argsort()]
