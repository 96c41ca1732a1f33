"""The operations of a training step as Triton kernels for NVIDIA GPUs; `bochner.ops.step` chooses them."""

from bochner.ops.fused.cosines import cosine_features, cosine_scores, sparse_cosine_features
from bochner.ops.fused.softmax import softmax_rows
from bochner.ops.fused.update import update_head
from bochner.ops.reference import long_product

__all__ = [
    "cosine_features",
    "cosine_scores",
    "long_product",
    "softmax_rows",
    "sparse_cosine_features",
    "update_head",
]
