"""Rows on their way through the house: blocks, sources of them of any size, and shuffled batches."""

from bochner.data.batches import batches, in_order, num_batches
from bochner.data.blocks import Block, Source

__all__ = ["Block", "Source", "batches", "in_order", "num_batches"]
