"""Triton kernels for NVIDIA GPUs: the operations of a training step, which `bochner.ops.step` uses where supported, and
products with kernel matrices, which `bochner.kernels` uses."""

from bochner.ops.fused.blocks import SplitRows, blocked_product, radial_block
from bochner.ops.fused.cosines import cosine_features, sparse_cosine_features
from bochner.ops.fused.products import radial_product
from bochner.ops.fused.softmax import softmax_residual, softmax_rows
from bochner.ops.fused.update import update_head

__all__ = [
    "SplitRows",
    "blocked_product",
    "cosine_features",
    "radial_block",
    "radial_product",
    "softmax_residual",
    "softmax_rows",
    "sparse_cosine_features",
    "update_head",
]
