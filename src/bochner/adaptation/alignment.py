"""Kernel-target alignment over a whole source, without an n x n matrix."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from bochner import checks
from bochner.adaptation.basis import endless
from bochner.data import check_classes, with_classes
from bochner.data.batches import in_order
from bochner.data.blocks import Source, num_rows
from bochner.features import FeatureMap

EXACT_FEATURES = 4096  # Z^T Z then takes D^2 doubles, 128 MiB
ROWS = 1024  # per block: a mean over 1024 x 1023 pairs has a relative error of about 1e-3 after 100 blocks


def alignment(
    feature_map: FeatureMap, source: Source, *, method: str = "auto", num_blocks: int = 100, seed: int = 0
) -> float:
    """A = <K, K_Y> / sqrt(<K, K> <K_Y, K_Y>) of K = Z Z^T over all n rows, with k_Y = 1 for equal classes, else 0.

        <K, K_Y>    = sum_c ||sum_{i in c} z_i||^2          from C x D sums
        <K_Y, K_Y>  = sum_c n_c^2                           from the counts
        <K, K>      = ||Z^T Z||_F^2                         "exact": D x D sums, O(n D^2)
                    ~ sum_i ||z_i||^4 + n (n - 1) mean of (z_i . z_j)^2 over pairs i != j
                                                            "sampled": `num_blocks` random blocks of 1,024 rows

    The sampled <K, K> is unbiased except for blocks that span two passes and may hold a row twice; its cost is
    O(num_blocks 1024^2 D) and its memory O(1024 D). "auto" is exact up to D = 4,096. Sums are float64; row weights are
    ignored. Source: Cristianini et al. 2001; Alber et al. 2017, Eq. 9.

    >>> from bochner.data import ArraySource
    >>> from bochner.features import ArcCosineMap
    >>> from bochner.kernels import ArcCosine
    >>> z = ArcCosineMap(ArcCosine(), [torch.eye(2)])  # one feature for each class
    >>> X = torch.eye(2)[[0, 1, 1]]
    >>> round(alignment(z, ArraySource(X, [4, 7, 7])), 6), round(alignment(z, ArraySource(X, [4, 4, 7])), 6)
    (1.0, 0.6)
    """
    checks.one_of("method", method, ["auto", "exact", "sampled"])
    checks.positive_int("num_blocks", num_blocks)
    classes = check_classes(source)
    exact = method == "exact" or (method == "auto" and feature_map.num_features <= EXACT_FEATURES)
    sums = _Sums(len(classes), feature_map.num_features, exact=exact)
    for block in in_order(with_classes(source, classes), batch_rows=ROWS):
        sums.add(_features(feature_map, block.X), block.y)
    total = float(sums.gram.square().sum()) if exact else _sampled(feature_map, source, sums, num_blocks, seed)
    return float(sums.of_class.square().sum() / (total**0.5 * sums.counts.norm()))


class _Sums:
    """The sums of one pass over the rows."""

    def __init__(self, num_classes: int, num_features: int, *, exact: bool) -> None:
        self.counts = torch.zeros(num_classes, dtype=torch.float64)
        self.of_class = torch.zeros(num_classes, num_features, dtype=torch.float64)
        self.gram = torch.zeros(num_features if exact else 0, num_features, dtype=torch.float64)
        self.fourth_powers = 0.0

    def add(self, Z: Tensor, y: Tensor) -> None:
        y = y.cpu()
        self.counts += torch.bincount(y, minlength=len(self.counts))
        self.of_class.index_add_(0, y, Z)
        self.fourth_powers += float(Z.square().sum(dim=1).square().sum())
        if len(self.gram):
            self.gram.addmm_(Z.T, Z)


def _sampled(feature_map: FeatureMap, source: Source, sums: _Sums, num_blocks: int, seed: int) -> float:
    N = num_rows(source)
    size = min(ROWS, N)
    mean = 0.0
    for block in itertools.islice(endless(source, batch_size=size, seed=seed), num_blocks):
        Z = _features(feature_map, block.X)
        squares = (Z @ Z.T).square_()
        mean += float(squares.sum() - squares.diagonal().sum()) / (size * (size - 1) * num_blocks)
    return sums.fourth_powers + N * (N - 1) * mean


def _features(feature_map: FeatureMap, X: Tensor) -> Tensor:
    like = next(feature_map.parameters())
    with torch.no_grad():
        return feature_map(X.to(like)).double().cpu()
