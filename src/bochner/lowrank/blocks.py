"""Factors of clustered points: a small basis for each cluster, and links between the bases."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.features import FeatureMap, NystromMap
from bochner.features.projections.projection import frozen
from bochner.lowrank.factor import Factor
from bochner.ops import row_tiles, squared_distances

TILE_ELEMENTS = 2**22


class ClusterMap(FeatureMap):
    """z(x) = A_c^T z_c(x), c the cluster whose centre is nearest to x.

    centers [c, d]; experts z_1 .. z_c with q features each; links A [c, q, r].
    """

    def __init__(self, centers: Tensor, experts: Sequence[NystromMap], links: Tensor) -> None:
        super().__init__()
        checks.inputs("centers", centers)
        shape = (len(centers), experts[0].num_features if experts else 0)
        if links.ndim != 3 or links.shape[:2] != shape or len(experts) != len(centers):
            raise ValueError(f"links must have shape ({shape[0]}, {shape[1]}, r), got {tuple(links.shape)}.")
        self.centers, self.links = frozen(centers), frozen(links)
        self.experts = nn.ModuleList(experts)
        self.kernel = experts[0].kernel
        self.num_inputs, self.num_features = centers.shape[1], links.shape[2]

    def _features(self, X: Tensor) -> Tensor:
        clusters = nearest(X, self.centers)
        members = [(clusters == c).nonzero().squeeze(1) for c in range(len(self.centers))]
        parts = [expert(X[m]) @ link for expert, m, link in zip(self.experts, members, self.links, strict=True)]
        return torch.cat(parts)[torch.cat(members).argsort()]


class BlockFactor(Factor):
    """U = B A with B block diagonal: K_st ~ B_s A_s A_t^T B_t^T for clusters s and t.

    basis [n, q]: the row of each point in the basis of its cluster; clusters [n]: which one. The links A [c, q, r] are
    those of `features`. n q + (c q)^2 parameters and O(n q + c q r) a product, for a root of rank up to r = c q.
    """

    features: ClusterMap

    def __init__(self, basis: Tensor, clusters: Tensor, features: ClusterMap) -> None:
        super().__init__()
        if not isinstance(features, ClusterMap):
            raise TypeError(f"features must be a ClusterMap, got {features!r}.")
        checks.finite("basis", checks.inputs("basis", basis, width=features.links.shape[1]))
        if clusters.shape != (len(basis),) or not 0 <= int(clusters.min()) <= int(clusters.max()) < len(features.links):
            raise ValueError(f"clusters must hold one index below {len(features.links)} per point.")
        self.features = features
        self.basis = frozen(basis)
        self.register_buffer("clusters", clusters)
        self.clusters: Tensor

    @property
    def num_points(self) -> int:
        return len(self.basis)

    @property
    def num_parameters(self) -> int:
        return self.basis.numel() + (self.features.links.shape[0] * self.features.links.shape[1]) ** 2

    @property
    def dtype(self) -> torch.dtype:
        return self.basis.dtype

    def rows(self, index: Tensor) -> Tensor:
        return self._scatter(self.features.links, index.to(self.clusters.device))

    def expand(self, V: Tensor) -> Tensor:
        return self._scatter(self.features.links @ V, torch.arange(self.num_points, device=V.device))

    def project(self, V: Tensor) -> Tensor:
        parts = []
        for c, link in enumerate(self.features.links):
            members = self.clusters == c
            parts.append(link.T @ (self.basis[members].T @ V[members]))
        return torch.stack(parts).sum(dim=0)

    def _scatter(self, blocks: Tensor, index: Tensor) -> Tensor:
        """basis_i blocks[cluster of i] for every i in `index`; blocks [c, q, w], as [len(index), w]."""
        result = self.basis.new_empty(len(index), blocks.shape[2])
        for c, block in enumerate(blocks):
            members = self.clusters[index] == c
            result[members] = self.basis[index[members]] @ block
        return result


def nearest(X: Tensor, centers: Tensor) -> Tensor:
    """The index [n] of the centre nearest to each row of X [n, d]."""
    found = torch.empty(len(X), dtype=torch.long, device=X.device)
    for tile in row_tiles(len(X), row_elements=len(centers), tile_elements=TILE_ELEMENTS):
        found[tile] = squared_distances(X[tile], centers).argmin(dim=1)
    return found
