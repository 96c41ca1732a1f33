"""The operations of a training step as Triton kernels for NVIDIA GPUs; `bochner.ops.step` uses them where they suit."""

from bochner.ops.fused.cosines import cosine_features, sparse_cosine_features
from bochner.ops.fused.softmax import softmax_rows
from bochner.ops.fused.update import update_head

__all__ = ["cosine_features", "softmax_rows", "sparse_cosine_features", "update_head"]
