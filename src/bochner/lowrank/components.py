"""Kernel principal components of a factor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.lowrank.regression import centred, gram


class Components(NamedTuple):
    """The main directions of centred features: scores of a point are (z(x) - mean) directions. In float64."""

    values: Tensor  # [c], the eigenvalues of the centred kernel matrix, descending
    directions: Tensor  # [r, c], orthonormal
    mean: Tensor  # [r]


def principal_components(root: Tensor, *, num_components: int) -> Components:
    """The c main eigenpairs of H U U^T H, H = I - 1 1^T / n, for U = `root` [n, r], from the [r, r] problem U^T H U.

    Scores (U - mean(U)) directions [n, c] have squared column norms `values`. Each direction points to where its score
    of largest size is positive. O(n r^2 + r^3). Source: Schölkopf, Smola & Müller 1998.

    >>> U = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> principal_components(U, num_components=1).values
    tensor([18.], dtype=torch.float64)
    """
    if checks.positive_int("num_components", num_components) > checks.inputs("root", root).shape[1]:
        raise ValueError(f"num_components must be at most the rank, {root.shape[1]}, got {num_components}.")
    U, mean = centred(root.double())
    values, vectors = torch.linalg.eigh(gram(U))
    directions = vectors.flip(1)[:, :num_components]
    return Components(values.flip(0)[:num_components].clamp_min(0), directions * _signs(U @ directions), mean)


def _signs(scores: Tensor) -> Tensor:
    """-1 or 1 for each column [c]: the sign of its entry of largest size."""
    farthest = scores.abs().argmax(dim=0, keepdim=True)
    return torch.where(scores.gather(0, farthest)[0] < 0, -1.0, 1.0).to(scores)
