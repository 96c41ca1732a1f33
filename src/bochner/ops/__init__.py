"""Numerical primitives: tiles that bound memory, distances, cosines, fast transforms and fused training steps."""

from bochner.ops.cosines import write_cosines
from bochner.ops.descent import (
    FeatureColumns,
    bottleneck_gradient,
    linear_gradient,
    minibatches_at_once,
    superbatch_steps,
)
from bochner.ops.distances import (
    BinaryColumns,
    CenteredRows,
    Radial,
    accurate_squared_distances,
    power_sums,
    squared_distances,
)
from bochner.ops.hadamard import hadamard_matrix, hadamard_transform
from bochner.ops.linalg import TILE_ELEMENTS, row_tiles, tile_size
from bochner.ops.step import (
    cosine_features,
    cosine_scores,
    fused_kernels,
    has_bf16_units,
    long_product,
    softmax_rows,
    sparse_cosine_features,
    update_head,
)

__all__ = [
    "TILE_ELEMENTS",
    "BinaryColumns",
    "CenteredRows",
    "FeatureColumns",
    "Radial",
    "accurate_squared_distances",
    "bottleneck_gradient",
    "cosine_features",
    "cosine_scores",
    "fused_kernels",
    "hadamard_matrix",
    "hadamard_transform",
    "has_bf16_units",
    "linear_gradient",
    "long_product",
    "minibatches_at_once",
    "power_sums",
    "row_tiles",
    "softmax_rows",
    "sparse_cosine_features",
    "squared_distances",
    "superbatch_steps",
    "tile_size",
    "update_head",
    "write_cosines",
]
